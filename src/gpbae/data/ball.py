"""The moving ball (Pearce 2019): a disc on a Gaussian-process path, seen as 32 × 32 binary pixels."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from gpbae.data.registry import locate
from gpbae.errors import InputError

RADIUS = 3 / 32  # of the canvas
JITTER = 1e-5  # part of the training recipe, so that a seed means the same video everywhere


@dataclass(frozen=True)
class MovingBall:
    """Frames of several videos, stacked; `groups` says which video a frame belongs to."""

    x: Float[np.ndarray, "N 1"]
    y: Float[np.ndarray, "N size size"]
    groups: Int[np.ndarray, " N"]
    paths: Float[np.ndarray, "N 2"]


def moving_ball(
    num_videos: int = 35, num_frames: int = 30, lengthscale: float = 2.0, size: int = 32, seed: int = 0
) -> MovingBall:
    """Draw videos: both coordinates of a path are GPs with kernel exp(−(t − t′)²/2ℓ²), t = 0, 1, …

    Nothing keeps the ball on the canvas, so about one frame in ten is partly or fully empty: there only the prior knows
    where the ball is. A score therefore tells a model that uses the prior from one that does not.
    """
    if min(num_videos, num_frames, size) < 1 or not lengthscale > 0:
        raise InputError(
            "moving_ball needs num_videos, num_frames and size of at least 1 and a positive lengthscale; "
            f"got {num_videos}, {num_frames}, {size} and {lengthscale}."
        )
    t = np.arange(num_frames, dtype=float)
    K = np.exp(-0.5 * ((t[:, None] - t) / lengthscale) ** 2) + JITTER * np.eye(num_frames)
    noise = np.random.default_rng(seed).standard_normal((num_videos, num_frames, 2))
    return _stack(np.linalg.cholesky(K) @ noise, size)


def moving_ball_reference() -> tuple[MovingBall, tuple[MovingBall, ...]]:
    """One stored draw: the training batch, equal to `moving_ball(seed=0)`, and ten test batches of 35 videos."""
    with np.load(locate("moving_ball/moving_ball_reference.npz"), allow_pickle=False) as arrays:
        return _stack(arrays["train_paths"], 32), tuple(_stack(paths, 32) for paths in arrays["test_paths"])


def render(paths: Float[np.ndarray, "*frames 2"], size: int = 32) -> Float[np.ndarray, "*frames size size"]:
    """Pixel (row r, column c) is 1 where (c − cx)² + (r − cy)² < radius², the centre being path · size/5 + size/2."""
    centre = paths * size / 5 + size / 2
    squares = (np.arange(size) - centre[..., None]) ** 2
    inside = squares[..., 0, None, :] + squares[..., 1, :, None] < (RADIUS * size) ** 2
    return inside.astype(np.float32)


def affine_rmse(latents: Float[np.ndarray, "*frames C"], paths: Float[np.ndarray, "*frames 2"]) -> dict[str, float]:
    """Distance of latents to true paths after ONE affine map, fitted by least squares to all frames of all videos.

    Latents are identified only up to such a map. With SSE the residual sum of squares over F frames:
    rmse_coord = √(SSE/2F), rmse_frame = √(SSE/F). The SSE is summed by hand, since `lstsq` returns none for
    rank-deficient latents, and a collapsed model must get a bad score, not NaN.
    """
    latents, paths = np.asarray(latents, float), np.asarray(paths, float)
    if latents.shape[:-1] != paths.shape[:-1] or paths.shape[-1] != 2:
        raise InputError(f"affine_rmse needs one latent row per path row; got {latents.shape} and {paths.shape}.")
    z, truth = latents.reshape(-1, latents.shape[-1]), paths.reshape(-1, 2)
    if not (np.isfinite(z).all() and np.isfinite(truth).all()):
        raise InputError("affine_rmse needs finite latents and paths; got NaN or infinity, so look at the fit first.")
    design = np.column_stack([z, np.ones(len(z))])
    weights = np.linalg.lstsq(design, truth, rcond=None)[0]
    sse = float(np.sum((design @ weights - truth) ** 2))
    return {"rmse_coord": (sse / truth.size) ** 0.5, "rmse_frame": (sse / len(truth)) ** 0.5}


def _stack(paths: Float[np.ndarray, "V F 2"], size: int) -> MovingBall:
    num_videos, num_frames, _ = paths.shape
    return MovingBall(
        x=np.tile(np.arange(num_frames, dtype=float), num_videos)[:, None],
        y=render(paths.reshape(-1, 2), size),
        groups=np.repeat(np.arange(num_videos), num_frames),
        paths=paths.reshape(-1, 2),
    )
