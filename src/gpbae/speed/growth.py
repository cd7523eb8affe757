"""How step time and memory grow with rows on disk, inducing inputs, latents, cells, batch, chains and groups.

Times are of the processor and per sampler step; memory is what the compiled program asks for (arguments, results and
scratch), and for tables on disk what the process holds besides mapped files.
"""

import dataclasses
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpbae.estimators import SGPBAE
from gpbae.likelihoods import Gaussian
from gpbae.networks import MLP
from gpbae.sampling import inference, sghmc
from gpbae.sampling.batches import Table
from gpbae.speed import disk
from gpbae.speed.shapes import Row, as_row, by_turns

NUM_STEPS, NUM_SAMPLER_STEPS = 50, 10
"""In one program that is timed (a block of `fit` has hundreds); of a sweep from disk."""


@dataclasses.dataclass(frozen=True)
class Shape:
    """One point: everything but the axis under study stays as it is here."""

    rows: int = 4096
    inducing: int = 16
    latents: int = 2
    cells: int = 16
    batch: int = 256
    chains: int = 1
    groups: int = 1


class Axis(NamedTuple):
    """What grows, over which values, and how it is measured."""

    name: str
    field: str
    values: tuple[int, ...]
    measure: Callable[[Shape, int], dict[str, float]]


def axes() -> tuple[Axis, ...]:
    return (
        Axis("N, rows on disk", "rows", (1_000, 10_000, 100_000, 1_000_000, 10_000_000), on_disk),
        Axis("M, inducing inputs", "inducing", (8, 16, 32, 64, 128, 256, 512), in_memory),
        Axis("C, latents", "latents", (1, 2, 4, 8, 16), in_memory),
        Axis("P, cells of a row", "cells", (4, 16, 64, 256, 1024), in_memory),
        Axis("B, rows of a batch", "batch", (64, 256, 1024, 4096), in_memory),
        Axis("chains", "chains", (1, 2, 4, 8), in_memory),
        Axis("groups, ragged", "groups", (1, 10, 100, 1_000, 10_000, 100_000), in_groups),
    )


def run(which: Iterable[Axis] | None = None, repeats: int = 5, listener: Callable[[str], None] = print
        ) -> list[Row]:  # fmt: skip
    """A row for every point of every axis, and one with the slopes of each."""
    rows = []
    for axis in axes() if which is None else which:
        points = [_row(axis, value, repeats) for value in axis.values]
        rows += [*points, _slopes(axis, points)]
        listener(f"{axis.name}: time ∝ n^{rows[-1]['metrics']['time_slope']:.2f}")
    return rows


def _row(axis: Axis, value: int, repeats: int) -> Row:
    started = time.perf_counter()
    found = axis.measure(dataclasses.replace(Shape(), **{axis.field: value}), repeats)
    jax.clear_caches()
    return as_row(f"growth in {axis.name}", {"n": float(value), **found}, time.perf_counter() - started)


def _slopes(axis: Axis, points: list[Row]) -> Row:
    """Of log time and log memory against log n: over all points, and between the last two."""
    n, step, memory = (np.log([p["metrics"][name] for p in points]) for name in ("n", "step_cpu_ms", "megabytes"))
    slope = lambda a, last: float(np.polyfit(n[-last:], a[-last:], 1)[0]) if len(n) > 1 else 0.0  # noqa: E731
    metrics = {"time_slope": slope(step, len(n)), "last_time_slope": slope(step, 2),
               "memory_slope": slope(memory, len(n)), "last_memory_slope": slope(memory, 2),
               "time_around_middle": _around_middle(step), "memory_around_middle": _around_middle(memory)}  # fmt: skip
    return as_row(f"slopes in {axis.name}", metrics, sum(p["seconds"] for p in points))


def _around_middle(logs: np.ndarray) -> float:
    """±0.1 where the largest is 10 % above the middle of largest and smallest, and the smallest 10 % below."""
    return float(np.tanh((logs.max() - logs.min()) / 2))


# Ways to measure.


def _arguments(shape: Shape) -> dict[str, Any]:
    return {
        "latent_dim": shape.latents, "num_inducing": shape.inducing, "batch_size": shape.batch, "decoder": MLP((32,)),
        "encoder": "linear", "likelihood": Gaussian(), "num_chains": shape.chains, "encoder_steps": 0,
        "sampler_steps": NUM_SAMPLER_STEPS,
    }  # fmt: skip


def _estimator(shape: Shape) -> SGPBAE:
    return SGPBAE(**_arguments(shape), latents="persistent", progress=False)


def _table(shape: Shape, num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 10.0, (num_rows, 1))
    return x, np.sin(x + np.arange(shape.cells)) + 0.1 * rng.standard_normal((num_rows, shape.cells))


def in_memory(shape: Shape, repeats: int) -> dict[str, float]:
    """A sampler step on random rows of a table in memory, which factorises K_SS."""
    estimator = _estimator(shape)
    model, plan, table, decoder_of, encoder_of, latents = estimator._prepare(*_table(shape, shape.rows), None)
    chains, _ = estimator._start(model, plan, table, decoder_of, encoder_of, latents)
    return _timed(model, plan, table, chains, repeats)


def in_groups(shape: Shape, repeats: int) -> dict[str, float]:
    """The same on whole groups of one to nine rows, as many of them at a time as always; also how long it took to
    arrange the table."""
    lengths = np.random.default_rng(1).integers(1, 10, shape.groups)
    lengths[0] = 9
    labels = np.repeat(np.arange(shape.groups), lengths)
    estimator = _estimator(dataclasses.replace(shape, batch=9 * min(shape.groups, 10)))
    x, y = _table(shape, len(labels))
    started = time.process_time()
    model, plan, table, decoder_of, encoder_of, latents = estimator._prepare(x, y, labels)
    seconds = time.process_time() - started
    chains, _ = estimator._start(model, plan, table, decoder_of, encoder_of, latents)
    return {**_timed(model, plan, table, chains, repeats), "arrange_cpu_seconds": seconds}


def _timed(model, plan, table: Table, chains, repeats: int) -> dict[str, float]:
    """Steps of all chains in one compiled program, as the sampler runs them."""
    noise = None if plan.batching.is_exact else jax.tree.map(jnp.zeros_like, chains.sampler.preconditioner)
    settings = sghmc.Settings(jnp.asarray(1e-4), jnp.asarray(0.05), jnp.asarray(1.0))

    def steps(states, noise, table):
        def one_chain(state, noise):
            start = state, plan.batching.select(jax.random.key(0), table)
            own = settings._replace(noise=noise)
            keys = jax.random.split(jax.random.key(1), NUM_STEPS)
            law = inference.held_law(model, plan, table, state.position.shared)
            step = lambda c, k: inference.sampler_step(model, plan, table, own, jnp.asarray(False), law, c, k)  # noqa: E731
            return jax.lax.scan(lambda c, k: (step(c, k)[0], None), start, keys)[0]

        return inference.over_chains(one_chain)(states, noise)

    compiled = jax.jit(steps).lower(chains.sampler, noise, table).compile()
    asked = compiled.memory_analysis()
    parts = ("argument_size_in_bytes", "output_size_in_bytes", "temp_size_in_bytes")
    size = sum(getattr(asked, part) for part in parts)
    return {**_times(lambda: compiled(chains.sampler, noise, table), repeats), "megabytes": size / 2**20}


def _times(timer: Callable, repeats: int) -> dict[str, float]:
    wall, cpu = by_turns([timer], NUM_STEPS, repeats)[:, 0].min(axis=0)
    return {"step_ms": float(wall), "step_cpu_ms": float(cpu)}


def on_disk(shape: Shape, repeats: int) -> dict[str, float]:
    """A sampler step as part of whole sweeps from disk."""
    found = disk.sweeps(disk.Table(shape.rows, shape.cells), _arguments(shape) | {"latents": "amortised"}, repeats)
    wall, cpu = (found[name] / NUM_SAMPLER_STEPS for name in ("sweep_ms", "sweep_cpu_ms"))
    return {"step_ms": wall, "step_cpu_ms": cpu, "megabytes": found["megabytes"]}
