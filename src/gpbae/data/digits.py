"""Rotated MNIST (Casale 2018, the files of SVGP-VAE): 400 threes at 16 angles, rebuilt from the raw digits."""

import random
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from gpbae.data.registry import locate

NUM_DIGITS, NUM_SEEN, NUM_ANGLES = 400, 360, 16
NUM_TRAIN, NUM_TEST, NUM_COMPONENTS = 4050, 270, 8


@dataclass(frozen=True)
class Views:
    """Views of some digits: what is seen, from which angle (radians), of which digit (0…399), and its PCA scores."""

    y: Float[np.ndarray, "N 28 28"]
    angle: Float[np.ndarray, " N"]
    digit: Int[np.ndarray, " N"]
    objects: Float[np.ndarray, "N 8"]

    @property
    def x(self) -> Float[np.ndarray, "N 2"]:
        """Columns angle and digit label, as `Periodic(angle) * Linear(Embed(label))` takes them."""
        return np.column_stack([self.angle, self.digit])


@dataclass(frozen=True)
class RotatedMNIST:
    """Train: 15 angles of 360 digits, 75 % kept. Test: the 16th angle of 270 of them. Eval: 40 digits never seen."""

    train: Views
    test: Views
    eval: Views
    object_vectors: Float[np.ndarray, "400 8"]


@dataclass(frozen=True)
class _Split:
    digits: list[int]
    angle: int
    train: list[int]
    test: list[int]


def rotated_mnist() -> RotatedMNIST:
    """Rebuild the published split; images are float64 and unclipped (−0.26 to 1.24), as the published files are."""
    with np.load(locate("mnist/mnist_threes.npz"), allow_pickle=False) as arrays:
        threes = arrays["train_images"]
    split = _draw_split(len(threes))
    images = threes[split.digits] / 255.0
    rotated, objects = _rotations(images), _principal_scores(images)
    rows = np.arange(NUM_DIGITS * NUM_ANGLES).reshape(NUM_DIGITS, NUM_ANGLES)
    seen, unseen = rows[:NUM_SEEN], rows[NUM_SEEN:]
    other_angles = np.delete(seen, split.angle, axis=1).ravel()
    return RotatedMNIST(
        train=_views(rotated, objects, other_angles[split.train]),
        test=_views(rotated, objects, seen[split.test, split.angle]),
        eval=_views(rotated, objects, unseen.ravel()),
        object_vectors=objects,
    )


def _draw_split(num_threes: int) -> _Split:
    """The four draws of the published split, in its order, from one Mersenne Twister stream with seed 0."""
    draw = random.Random(0).sample
    return _Split(
        digits=draw(range(num_threes), NUM_DIGITS),
        angle=draw(range(NUM_ANGLES), 1)[0],
        train=draw(range(NUM_SEEN * (NUM_ANGLES - 1)), NUM_TRAIN),
        test=draw(range(NUM_SEEN), NUM_TEST),
    )


def _rotations(images: Float[np.ndarray, "n 28 28"]) -> Float[np.ndarray, "n 16 28 28"]:
    """Every image at every angle, by cubic splines; the ringing outside [0, 1] belongs to the published data."""
    from scipy.ndimage import rotate

    return np.stack([rotate(images, k * 360 / NUM_ANGLES, axes=(1, 2), reshape=False) for k in range(NUM_ANGLES)], 1)


def _principal_scores(images: Float[np.ndarray, "n 28 28"]) -> Float[np.ndarray, "n 8"]:
    """Exact PCA scores, the largest of each component positive.

    The published scores came from a randomised solver and differ by at most 0.0033; their signs follow the same rule.
    """
    centred = images.reshape(len(images), -1) - images.reshape(len(images), -1).mean(axis=0)
    U, s, _ = np.linalg.svd(centred, full_matrices=False)
    scores = U[:, :NUM_COMPONENTS] * s[:NUM_COMPONENTS]
    largest = np.take_along_axis(scores, np.abs(scores).argmax(axis=0)[None], axis=0)
    return scores * np.sign(largest)


def _views(rotated: np.ndarray, objects: np.ndarray, rows: Int[np.ndarray, " N"]) -> Views:
    digit, k = np.divmod(rows, NUM_ANGLES)
    return Views(y=rotated[digit, k], angle=k * (2 * np.pi / NUM_ANGLES), digit=digit, objects=objects[digit])
