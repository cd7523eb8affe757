"""How long a sampler step and an encoder step take, against the least they could: the products of their gradient."""

import time
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gpbae import autoencoder
from gpbae.processes import devices
from gpbae.sampling import inference, sghmc
from gpbae.speed.shapes import CASES, Case, Row, as_row, by_turns, prepare, products_timer


def run(cases: Sequence[Case] = CASES, repeats: int = 5) -> list[Row]:
    """A row for the sampler steps of each case."""
    return [_row(case, repeats) for case in cases]


def run_encoders(cases: Sequence[Case] = CASES, repeats: int = 5) -> list[Row]:
    """A row for the encoder steps of each case."""
    return [_encoder_row(case, repeats) for case in cases]


def run_chains(case: Case = CASES[-1], repeats: int = 5, num_chains: int = 4) -> list[Row]:
    """Several chains against one, by turns, in the same process."""
    started = time.perf_counter()
    timers = [_sweep_timer(case, *prepare(case, number)) for number in (1, num_chains)]
    one, several = by_turns(timers, case.num_steps, repeats).min(axis=0)[:, 0]
    mesh = devices.mesh_of(num_chains)
    metrics = {"chains": num_chains, "devices": 1 if mesh is None else mesh.size, "one_ms": one, "all_ms": several,
               "over_one": several / one}  # fmt: skip
    return [as_row(f"{case.name}, chains", metrics, time.perf_counter() - started)]


def _row(case: Case, repeats: int) -> Row:
    started = time.perf_counter()
    problem = prepare(case)
    timers = (_step_timer(case, *problem), _gradient_timer(case, *problem), _floor_timer(case),
              _sweep_timer(case, *problem))  # fmt: skip
    times = by_turns(timers, case.num_steps, repeats)
    metrics = {**_against_floor(times), "sweep_ms": times[:, 3, 0].min()}
    return as_row(case.name, metrics, time.perf_counter() - started)


def _encoder_row(case: Case, repeats: int) -> Row:
    started = time.perf_counter()
    problem = prepare(case, encoder=case.encoder, encoder_steps=case.num_steps)
    timers = _encoder_timers(case, *problem)
    times = by_turns(timers, case.num_steps, repeats)
    return as_row(f"{case.name}, encoder", _against_floor(times), time.perf_counter() - started)


def _against_floor(times: np.ndarray) -> dict[str, float]:
    """Of the first three timers: step, gradient, products."""
    (step, step_cpu), (gradient, gradient_cpu), (products, products_cpu) = times.min(axis=0)[:3]
    return {
        "step_ms": step, "gradient_ms": gradient, "products_ms": products, "step_over_products": step / products,
        "step_over_gradient": step / gradient, "steps_per_second": 1e3 / step, "step_cpu_ms": step_cpu,
        "products_cpu_ms": products_cpu, "cpu_over_products": step_cpu / products_cpu,
        "cpu_over_gradient": step_cpu / gradient_cpu, "spread": (np.median(times[:, 0, 0]) - step) / step,
    }  # fmt: skip


# Sampler steps.


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
            return _a_little(p, gradient), None

        return jax.lax.scan(once, part, None, length=case.num_steps)[0]

    return lambda: descend(part, table)


def _a_little(position, gradient):
    return jax.tree.map(lambda a, g: a - jnp.asarray(1e-9, a.dtype) * g, position, gradient)


def _floor_timer(case: Case) -> Callable:
    """Products of the decoder; for the GP those of A with values or latents.  On a full batch what must be factorised
    is factorised once in a sweep; on minibatches the kernel moves with every step, and a step also needs A = L⁻¹ K and
    L: B M² and M³ / 3 multiplications forwards, about twice as many backwards."""
    B, M = case.batch_rows, case.num_inducing
    gp: list[tuple] = [(B, M, case.latent_dim, np.float64)]
    if B < case.num_rows:
        gp += [(B, M, M, np.float64), (M, -(-M // 3), M, np.float64)]
    return products_timer([*case.layers(), *gp], case.num_steps)


# Encoder steps.


def _encoder_timers(case: Case, model, plan, table, static, chains) -> tuple[Callable, ...]:
    """The encoder steps of a sweep, by the very function that `fit` runs; their gradients alone; their products."""
    chain = jax.tree.map(lambda a: a[0], chains)
    selection = plan.batching.select(jax.random.key(0), table)
    batch, z = inference.encoder_targets(model, plan, table, chain.sampler, selection)
    rows, seed_size = min(inference.ENCODER_ROWS, len(z)), eqx.combine(chain.encoder, static).seed_size
    seen = model.presented(batch)
    small = seen._replace(y=seen.y[:rows], mask=seen.mask[:rows], valid=seen.valid[:rows])
    seeds = jax.random.normal(jax.random.key(2), (rows, seed_size), jnp.float32)

    @jax.jit
    def train(chain, table):
        return inference.train_encoder(model, plan, table, static, chain, selection, jax.random.key(1))

    @jax.jit
    def descend(weights, small, z, seeds):
        loss = lambda w: autoencoder.amortisation_loss(eqx.combine(w, static), small, z, seeds)  # noqa: E731
        return jax.lax.scan(lambda w, _: (_a_little(w, jax.grad(loss)(w)), None), weights, None, case.num_steps)[0]

    floor = products_timer(case.encoder_layers(rows, seed_size), case.num_steps, inputs_given=True)
    return lambda: train(chain, table), lambda: descend(chain.encoder, small, z[:rows], seeds), floor
