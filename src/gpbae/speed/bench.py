"""How long one sampler step takes, against the least it could take: the matrix products of its gradient.

Three shapes from the paper's experiments, on made-up data.  Everything is timed inside one compiled loop, in one
process, on one chain; ratios of times from the same run survive a slower or busier machine, milliseconds do not.
"""

import dataclasses
import itertools
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gpbae.estimators import SGPBAE
from gpbae.likelihoods import Bernoulli, Gaussian
from gpbae.networks import MLP, Conv
from gpbae.processes import devices
from gpbae.sampling import inference, sghmc


@dataclasses.dataclass(frozen=True)
class Case:
    """One shape: a table, a model, and the products of its decoder as (rows, inputs, outputs) per layer."""

    name: str
    num_rows: int
    num_groups: int
    event_shape: tuple[int, ...]
    num_inputs: int
    latent_dim: int
    num_inducing: int
    batch_size: int | None
    decoder: MLP | Conv
    binary: bool
    num_steps: int = 20

    @property
    def batch_rows(self) -> int:
        return self.batch_size or self.num_rows

    def layers(self) -> list[tuple[int, int, int]]:
        if isinstance(self.decoder, MLP):
            sizes = (self.latent_dim, *self.decoder.widths, int(np.prod(self.event_shape)))
            return [(self.batch_rows, a, b) for a, b in itertools.pairwise(sizes)]
        height, width = (-(-side // 4) for side in self.event_shape[:2])
        B, F, pixels = self.batch_rows, self.decoder.channels, height * width
        return [(B, self.latent_dim, pixels * F), (B * pixels, 9 * F, 4 * F), (4 * B * pixels, 9 * F, 4 * F),
                (16 * B * pixels, F, 9)]  # fmt: skip


CASES = (
    Case("ball", 1050, 35, (1024,), 1, 2, 10, None, MLP((500, 500)), True),
    Case("mnist", 1024, 1, (28, 28), 2, 16, 32, 512, Conv(channels=8), False, num_steps=10),
    Case("jura", 359, 1, (3,), 2, 2, 128, 100, MLP((16,)), False, num_steps=100),
)


def run(out: Path | None = None, cases: Sequence[Case] = CASES, repeats: int = 5, num_chains: int = 4
        ) -> list[dict[str, Any]]:  # fmt: skip
    """One row per case, and one of several chains for the last; also written to out/results.json."""
    rows = [_row(case, repeats) for case in cases] + [_chains_row(cases[-1], repeats, num_chains)]
    if out is not None:
        write(rows, out)
    return rows


def write(rows: list[dict[str, Any]], out: Path) -> None:
    Path(out).mkdir(parents=True, exist_ok=True)
    (Path(out) / "results.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")


def markdown(rows: list[dict[str, Any]]) -> str:
    """The rows as a table: milliseconds, then ratios."""
    columns = ("shape", "step, ms", "sweep ÷ K, ms", "gradient, ms", "products, ms", "step ÷ products",
               "step ÷ gradient", "spread", "CPU: step, ms", "÷ products", "÷ gradient")  # fmt: skip
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for row in rows:
        m = row["metrics"]
        if "chains" in m:
            where = f"{m['chains']:.0f} chains on {m['devices']:.0f} devices"
            lines += ["", f"{row['experiment']}: {where} take {m['over_one']:.2f} times as long as one."]
            continue
        lines.append(
            f"| {row['experiment']} | {m['step_ms']:.2f} | {m['sweep_ms']:.2f} | {m['gradient_ms']:.2f} | "
            f"{m['products_ms']:.2f} | {m['step_over_products']:.1f} | {m['step_over_gradient']:.2f} | "
            f"{m['spread']:.0%} | {m['step_cpu_ms']:.2f} | {m['cpu_over_products']:.2f} | "
            f"{m['cpu_over_gradient']:.2f} |"
        )
    return "\n".join(lines)


def _row(case: Case, repeats: int) -> dict[str, Any]:
    started = time.perf_counter()
    problem = prepare(case)
    timers = (_step_timer(case, *problem), _sweep_timer(case, *problem), _gradient_timer(case, *problem),
              _products_timer(case))  # fmt: skip
    times = np.array([[milliseconds(timer, case.num_steps) for timer in timers] for _ in range(repeats + 1)])[1:]
    (step, step_cpu), (sweep, _), (gradient, gradient_cpu), (products, products_cpu) = times.min(axis=0)
    metrics = {
        "step_ms": step, "sweep_ms": sweep, "gradient_ms": gradient, "products_ms": products,
        "step_over_products": step / products, "step_over_gradient": step / gradient, "steps_per_second": 1e3 / step,
        "step_cpu_ms": step_cpu, "products_cpu_ms": products_cpu, "cpu_over_products": step_cpu / products_cpu,
        "cpu_over_gradient": step_cpu / gradient_cpu, "spread": (np.median(times[:, 0, 0]) - step) / step,
    }  # fmt: skip
    return {
        "experiment": case.name, "model": "SGP-BAE", "seed": 0, "metrics": {k: float(v) for k, v in metrics.items()},
        "seconds": time.perf_counter() - started,
    }  # fmt: skip


def _chains_row(case: Case, repeats: int, num_chains: int) -> dict[str, Any]:
    """Several chains against one, by turns, in the same process."""
    started = time.perf_counter()
    timers = [_sweep_timer(case, *prepare(case, number)) for number in (1, num_chains)]
    times = np.array([[milliseconds(timer, case.num_steps) for timer in timers] for _ in range(repeats + 1)])[1:]
    one, several = times.min(axis=0)[:, 0]
    mesh = devices.mesh_of(num_chains)
    metrics = {"chains": num_chains, "devices": 1 if mesh is None else mesh.size, "one_ms": one, "all_ms": several,
               "over_one": several / one}  # fmt: skip
    return {
        "experiment": f"{case.name}, chains", "model": "SGP-BAE", "seed": 0,
        "metrics": {k: float(v) for k, v in metrics.items()}, "seconds": time.perf_counter() - started,
    }  # fmt: skip


def prepare(case: Case, num_chains: int = 1) -> tuple[Any, ...]:
    """Model, plan, table, encoder skeleton and chains, as `fit` makes them."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 10.0, (case.num_rows, case.num_inputs))
    y = rng.standard_normal((case.num_rows, *case.event_shape))
    y = (y > 1.0).astype(float) if case.binary else y
    groups = np.arange(case.num_rows) % case.num_groups if case.num_groups > 1 else None
    estimator = SGPBAE(
        latent_dim=case.latent_dim, num_inducing=case.num_inducing, batch_size=case.batch_size, decoder=case.decoder,
        encoder="linear", likelihood=Bernoulli() if case.binary else Gaussian(), latents="persistent",
        num_chains=num_chains, sampler_steps=case.num_steps, encoder_steps=0,
    )  # fmt: skip
    model, plan, table, decoder_of, encoder_of, latents = estimator._prepare(x, y, groups)
    chains, static = estimator._start(model, plan, table, decoder_of, encoder_of, latents)
    return model, plan, table, static, chains


def _step_timer(case: Case, model, plan, table, static, chains) -> Callable:
    """The sampler steps of a sweep, one chain's, by the very function that `fit` runs."""
    noise = (
        None if plan.batching.is_exact else jax.tree.map(lambda a: jnp.zeros_like(a[0]), chains.sampler.preconditioner)
    )
    settings = sghmc.Settings(jnp.asarray(1e-4), jnp.asarray(0.05), jnp.asarray(1.0), noise)
    state = jax.tree.map(lambda a: a[0], chains.sampler)
    frozen = jnp.asarray(False)

    @jax.jit
    def steps(state, table):
        law = inference.held_law(model, plan, table, state.position.shared)
        start = state, plan.batching.select(jax.random.key(0), table)
        keys = jax.random.split(jax.random.key(1), case.num_steps)
        return jax.lax.scan(
            lambda c, k: inference.sampler_step(model, plan, table, settings, frozen, law, c, k), start, keys
        )

    return lambda: steps(state, table)


def _sweep_timer(case: Case, model, plan, table, static, chains) -> Callable:
    """A sweep by the very function that `fit` runs: sampler steps, and the moves of hyper-parameters after them."""
    noise = None if plan.batching.is_exact else jax.tree.map(jnp.zeros_like, chains.sampler.preconditioner)
    settings = sghmc.Settings(jnp.full(len(chains.sweep), 1e-4), jnp.asarray(0.05), jnp.asarray(1.0), noise)
    return lambda: inference.run_block(
        model, plan, table, static, chains, settings, jnp.ones(1), jnp.asarray(False)
    )  # fmt: skip


def _gradient_timer(case: Case, model, plan, table, static, chains) -> Callable:
    """As many gradients of one batch, each a little further on so that none can be left out."""
    position = jax.tree.map(lambda a: a[0], chains.sampler.position)
    selection = plan.batching.select(jax.random.key(0), table)
    part = inference.take(sghmc.init(position), selection, plan).position

    @jax.jit
    def descend(part, table):
        law = inference.held_law(model, plan, table, part.shared)

        def once(p, _):
            batch = plan.batching.batch(table, selection)
            held = inference.held_names(plan, p.shared)
            gradient, _terms = model.gradient(p, batch, law=law, held=held)
            return jax.tree.map(lambda a, g: a - jnp.asarray(1e-9, a.dtype) * g, p, gradient), None

        return jax.lax.scan(once, part, None, length=case.num_steps)[0]

    return lambda: descend(part, table)


def _products_timer(case: Case) -> Callable:
    """For each layer X Wᵀ and, backwards, its two products; for the GP those of A with values or latents.  On a full
    batch what must be factorised is factorised once in a sweep; on minibatches the kernel moves with every step, and a
    step also needs A = L⁻¹ K and L: B M² and M³ / 3 multiplications forwards, about twice as many backwards."""
    rng = np.random.default_rng(0)
    shapes = [(r, a, b, np.float32) for r, a, b in case.layers()]
    B, M = case.batch_rows, case.num_inducing
    shapes += [(B, M, case.latent_dim, np.float64)]
    if B < case.num_rows:
        shapes += [(B, M, M, np.float64), (M, -(-M // 3), M, np.float64)]
    pairs = [(jnp.asarray(0.01 * rng.standard_normal((r, a)), t), jnp.asarray(0.01 * rng.standard_normal((b, a)), t))
             for r, a, b, t in shapes]  # fmt: skip

    @jax.jit
    def multiply(inputs, weights):
        def once(weights, _):
            return [_three_products(X, W) for X, W in zip(inputs, weights, strict=True)], None

        return jax.lax.scan(once, weights, None, length=case.num_steps)[0]

    return lambda: multiply([X for X, _ in pairs], [W for _, W in pairs])


def _three_products(X, W):
    """Forward, and both halves of backward; the barrier keeps the compiler from dropping the one nobody reads."""
    Y = X @ W.T
    dW, dX = jax.lax.optimization_barrier((Y.T @ X, Y @ W))
    return W - jnp.asarray(1e-9, W.dtype) * (dW + dX[0, 0])


def milliseconds(timer: Callable, num_steps: int) -> tuple[float, float]:
    """By the clock, and of all processors: the second is what neighbours disturb least."""
    wall, cpu = time.perf_counter(), time.process_time()
    jax.block_until_ready(timer())
    return 1e3 * (time.perf_counter() - wall) / num_steps, 1e3 * (time.process_time() - cpu) / num_steps
