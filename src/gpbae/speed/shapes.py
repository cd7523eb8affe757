"""Three shapes from the paper's experiments, on made-up data, and how something of such a shape is timed.

Everything is timed inside one compiled loop, in one process, on one chain; ratios of times from the same run survive a
slower or busier machine, milliseconds do not.
"""

import dataclasses
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gpbae.estimators import SGPBAE
from gpbae.likelihoods import Bernoulli, Gaussian
from gpbae.networks import MLP, Conv

Row = dict[str, Any]
"""{"experiment", "model", "seed", "metrics", "seconds"}, as in every results.json."""

MODEL = "SGP-BAE"


def as_row(experiment: str, metrics: Mapping[str, float | int], seconds: float) -> Row:
    own = {name: float(value) for name, value in metrics.items()}
    return {"experiment": experiment, "model": MODEL, "seed": 0, "metrics": own, "seconds": seconds}


@dataclasses.dataclass(frozen=True)
class Case:
    """One shape: a table, a model, and the products of its networks as (rows, inputs, outputs) per layer."""

    name: str
    num_rows: int
    num_groups: int
    event_shape: tuple[int, ...]
    num_inputs: int
    latent_dim: int
    num_inducing: int
    batch_size: int | None
    decoder: MLP | Conv
    encoder: MLP | Conv
    binary: bool
    num_steps: int = 20

    @property
    def batch_rows(self) -> int:
        return self.batch_size or self.num_rows

    def layers(self) -> list[tuple[int, int, int]]:
        """Of the decoder on a batch."""
        if isinstance(self.decoder, MLP):
            return _dense(self.batch_rows, (self.latent_dim, *self.decoder.widths, int(np.prod(self.event_shape))))
        height, width = (-(-side // 4) for side in self.event_shape[:2])
        B, F, pixels = self.batch_rows, self.decoder.channels, height * width
        return [(B, self.latent_dim, pixels * F), (B * pixels, 9 * F, 4 * F), (4 * B * pixels, 9 * F, 4 * F),
                (16 * B * pixels, F, 9)]  # fmt: skip

    def encoder_layers(self, rows: int, seed_size: int) -> list[tuple[int, int, int]]:
        """Of the encoder, which sees cells, mask and seed: as one line, or as channels of three halved images."""
        if isinstance(self.encoder, MLP):
            num_cells = int(np.prod(self.event_shape))
            return _dense(rows, (2 * num_cells + seed_size, *self.encoder.widths, self.latent_dim))
        height, width, *depth = self.event_shape
        F = self.encoder.channels
        pixels = [-(-height // 2**n) * -(-width // 2**n) for n in (1, 2, 3)]
        channels = (2 * (depth[0] if depth else 1) + 1, F, F)
        strided = [(rows * n, 9 * c, F) for n, c in zip(pixels, channels, strict=True)]
        return [*strided, (rows, pixels[-1] * F, self.latent_dim)]


def _dense(rows: int, sizes: Sequence[int]) -> list[tuple[int, int, int]]:
    return [(rows, a, b) for a, b in itertools.pairwise(sizes)]


WIDE = MLP((500, 500))
CASES = (
    Case("ball", 1050, 35, (1024,), 1, 2, 10, None, WIDE, WIDE, True),
    Case("mnist", 1024, 1, (28, 28), 2, 16, 32, 512, Conv(channels=8), Conv(channels=8), False, num_steps=10),
    Case("jura", 359, 1, (3,), 2, 2, 128, 100, MLP((16,)), MLP((16,)), False, num_steps=100),
)


def prepare(case: Case, num_chains: int = 1, encoder: Any = "linear", encoder_steps: int = 0) -> tuple[Any, ...]:
    """Model, plan, table, encoder skeleton and chains, as `fit` makes them."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 10.0, (case.num_rows, case.num_inputs))
    y = rng.standard_normal((case.num_rows, *case.event_shape))
    y = (y > 1.0).astype(float) if case.binary else y
    groups = np.arange(case.num_rows) % case.num_groups if case.num_groups > 1 else None
    estimator = SGPBAE(
        latent_dim=case.latent_dim, num_inducing=case.num_inducing, batch_size=case.batch_size, decoder=case.decoder,
        encoder=encoder, likelihood=Bernoulli() if case.binary else Gaussian(), latents="persistent",
        num_chains=num_chains, sampler_steps=case.num_steps, encoder_steps=encoder_steps,
    )  # fmt: skip
    model, plan, table, decoder_of, encoder_of, latents = estimator._prepare(x, y, groups)
    chains, static = estimator._start(model, plan, table, decoder_of, encoder_of, latents)
    return model, plan, table, static, chains


# Time.


def milliseconds(timer: Callable, num_steps: int) -> tuple[float, float]:
    """By the clock, and of all processors: the second is what neighbours disturb least."""
    wall, cpu = time.perf_counter(), time.process_time()
    jax.block_until_ready(timer())
    return 1e3 * (time.perf_counter() - wall) / num_steps, 1e3 * (time.process_time() - cpu) / num_steps


def by_turns(timers: Sequence[Callable], num_steps: int, repeats: int) -> np.ndarray:
    """(repeat, timer, 2) milliseconds; the first round, which compiles, does not count."""
    return np.array([[milliseconds(timer, num_steps) for timer in timers] for _ in range(repeats + 1)])[1:]


# The floor.


def products_timer(layers: Sequence[tuple], num_steps: int, inputs_given: bool = False) -> Callable:
    """For each layer X Wᵀ and, backwards, its two products; of a network whose inputs are given the first has one.

    Layers are (rows, inputs, outputs) in float32, or with a dtype as a fourth.
    """
    rng = np.random.default_rng(0)
    whole = [(*layer, np.float32)[:4] for layer in layers]
    pairs = [(jnp.asarray(0.01 * rng.standard_normal((r, a)), t), jnp.asarray(0.01 * rng.standard_normal((b, a)), t))
             for r, a, b, t in whole]  # fmt: skip

    @jax.jit
    def multiply(inputs, weights):
        def once(weights, _):
            alone = [inputs_given and n == 0 for n in range(len(inputs))]
            found = [_products(X, W, given) for X, W, given in zip(inputs, weights, alone, strict=True)]
            return found, None

        return jax.lax.scan(once, weights, None, length=num_steps)[0]

    return lambda: multiply([X for X, _ in pairs], [W for _, W in pairs])


def _products(X, W, is_given):
    """Forward, and both halves of backward; the barrier keeps the compiler from dropping the one nobody reads."""
    Y = X @ W.T
    back = (Y.T @ X,) if is_given else (Y.T @ X, Y @ W)
    dW, *dX = jax.lax.optimization_barrier(back)
    return W - jnp.asarray(1e-9, W.dtype) * (dW + dX[0][0, 0] if dX else dW)
