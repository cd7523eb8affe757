"""Algorithm 1 as compiled blocks of sweeps: K sampler steps, then J encoder steps, on every chain at once.

Python stays outside the blocks, for progress, logging and interruption.  Phases: a short MAP climb with the
hyper-parameters held, a ramp of the temperature from cold to its final value, warm-up at that temperature while the
preconditioner and step size are learned, then sampling with both frozen.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key, PyTree

from gpbae import autoencoder
from gpbae.autoencoder import Autoencoder, Position
from gpbae.priors import AbstractLaw, Batch
from gpbae.processes import devices, distributed
from gpbae.sampling import hmc, redraw, refreshing, sghmc
from gpbae.sampling.batches import Batching, Selection, Table
from gpbae.sampling.refreshing import Refresh, whole

ENCODER_ROWS = 128


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is fixed over a run: how rows are batched, K and J, and whether latents persist or are born anew.

    With `refresh`, hyper-parameters (and values) also move given the latents of the whole table, after every sweep.
    With `collapsed`, values are integrated out of the chain and drawn exactly when a draw is kept, or after every sweep
    if auxiliary variables that only last a sweep are needed to integrate them out.
    With `placed`, latents that are born anew are drawn near their law given all else, the encoder only guessing: what
    an encoder alone says is off by the same at every birth, and a table that counts its rows N/B times feels that as a
    force which heats everything else.
    `visits` is the number of batches that a sweep of latents on disk sees, one after another.
    """

    batching: Batching
    sampler_steps: int
    encoder_steps: int
    amortised: bool
    refresh: bool
    collapsed: bool = False
    placed: bool = False
    visits: int = 1
    learning_rate: float = 1e-3

    @property
    def stay(self) -> int:
        """Steps that a batch of an amortised sweep stays for."""
        return self.sampler_steps // self.visits

    @property
    def weaves(self) -> bool:
        """Whether hyper-parameters also move together with the latents, which takes a pass of the decoder over all
        rows; only then does the sampler leave them alone."""
        return self.refresh and self.batching.is_exact and not self.amortised


class Chain(NamedTuple):
    """One chain between two sweeps: sampler, encoder, optimiser, how hyper-parameters are refreshed, values where they
    are not part of the sampler's state, its key and the number of sweeps done."""

    sampler: sghmc.State
    encoder: PyTree
    optimiser: Any
    refresh: Refresh
    values: Any
    key: Key[Array, ""]
    sweep: Array


class Report(NamedTuple):
    """What a block says of itself, averaged over its steps: terms of the log joint, temperatures, clamping, acceptance
    of the refreshing moves, and of those of latents that are kept on disk (NaN where there are none)."""

    terms: dict[str, Array]
    kinetic_temperature: Any
    fraction_clamped: Array
    acceptance: Array
    encoder_loss: Array
    latents_acceptance: Array


def optimiser(plan: Plan) -> optax.GradientTransformation:
    return optax.adam(plan.learning_rate)


def update(transform: optax.GradientTransformation, gradient: PyTree, state: Any) -> tuple[PyTree, Any]:
    """Optax's update; its bias correction mixes dtypes, so strictness about them stops at this door."""
    with jax.numpy_dtype_promotion("standard"):
        return transform.update(gradient, state)


# Sub-states: only the rows (and, in whole-group batches, the groups) of a batch move.


def take(state: sghmc.State, selection: Selection, plan: Plan) -> sghmc.State:
    """The part of a sampler's state that a batch touches."""
    if plan.batching.is_exact:
        return state
    return sghmc.State(*(take_position(p, selection, plan) for p in state))


def take_position(p: Position, selection: Selection, plan: Plan) -> Position:
    rows = lambda a: a if plan.amortised else a.at[selection.rows].get(mode="clip")  # noqa: E731
    groups = lambda a: a[selection.groups] if plan.batching.values_are_local else a  # noqa: E731
    return Position(p.shared, jax.tree.map(groups, p.values), jax.tree.map(rows, p.local))


def put(state: sghmc.State, part: sghmc.State, selection: Selection, plan: Plan) -> sghmc.State:
    """Write a moved part back; padding is dropped."""
    if plan.batching.is_exact:
        return part
    return sghmc.State(*(put_position(p, q, selection, plan) for p, q in zip(state, part, strict=True)))


def put_position(p: Position, q: Position, selection: Selection, plan: Plan) -> Position:
    rows = lambda a, b: b if plan.amortised else a.at[selection.rows].set(b, mode="drop")  # noqa: E731
    groups = lambda a, b: a.at[selection.groups].set(b) if plan.batching.values_are_local else b  # noqa: E731
    return Position(q.shared, jax.tree.map(groups, p.values, q.values), jax.tree.map(rows, p.local, q.local))


# Hyper-parameters that only move between sweeps.


def held_law(model, plan: Plan, table: Table, shared: dict[str, Any]) -> AbstractLaw | None:
    """The law of all latents where it is the same for a whole sweep, so that nothing is factorised twice; else None."""
    if not plan.weaves or refreshing.has_vectors(shared["prior"]):
        return None
    return model.prior.law(shared["prior"], whole(table))


def held_names(plan: Plan, shared: dict[str, Any]) -> tuple[str, ...]:
    """Hyper-parameters that only move between sweeps: their scale is zero, so that their gradient would be for nothing,
    and that of a determinantal prior costs as much as the kernel's own."""
    return tuple(refreshing.held(shared["prior"], plan.weaves)) if plan.refresh else ()


# One sweep.


def collapsing(model, plan: Plan, table: Table, chain: Chain, temperature, key) -> Autoencoder:
    """The model as a sweep sees it: where values can only be integrated out given auxiliary variables, given a fresh
    draw of these.  Its prior then has what a sweep asks for (`Collapsing`) and no more."""
    if not plan.collapsed or model.prior.collapses:
        return model
    position = chain.sampler.position._replace(values=chain.values)
    prior = refreshing.conjugate(model, table, position, temperature, key)
    return eqx.tree_at(lambda m: m.prior, model, prior)


def sampler_step(model, plan, table, settings, adapting, law, carry, key):
    """One SGHMC step; persistent latents see a fresh batch each time, amortised ones stay with their sweep's batch."""
    state, selection = carry
    if not plan.amortised and not plan.batching.is_exact:
        key_rows, key = jax.random.split(key)
        selection = plan.batching.select(key_rows, table)
    batch = plan.batching.batch(table, selection)
    part = take(state, selection, plan)
    held = held_names(plan, part.position.shared)
    gradient, terms = model.gradient(part.position, batch, settings.temperature, law, held)
    part = jax.lax.cond(adapting, lambda s: sghmc.adapt(s, gradient, settings.temperature), lambda s: s, part)
    part, info = sghmc.step(key, part, gradient, _local_settings(settings, selection, plan))
    return (put(state, part, selection, plan), selection), (terms, info)


def _local_settings(settings: sghmc.Settings, selection: Selection, plan: Plan) -> sghmc.Settings:
    """Gradient noise is known per variable; local gradients have none, so any rows will do."""
    if settings.noise is None:
        return settings
    return settings._replace(noise=take_position(settings.noise, selection, plan))


def _reborn(model, plan, table, chain, encoder, settings, selection, key):
    """Latents of a batch born anew, with fresh momentum: nothing is inherited from other rows."""
    key_seed, key_momentum = jax.random.split(key)
    state = chain.sampler
    batch = plan.batching.batch(table, selection)
    local = newborn(model, plan, encoder, state.position, batch, settings.temperature, key_seed)
    fresh = sghmc.refresh_momentum(key_momentum, local, state.preconditioner.local, settings)
    return state._replace(position=state.position._replace(local=local), momentum=state.momentum._replace(local=fresh))


def newborn(model, plan: Plan, encoder, position: Position, batch: Batch, temperature, key):
    """Local coordinates of the encoder's draw, or of a draw near p(z | y, all else) that begins there."""
    key_guess, key_place = jax.random.split(key)
    seen, shared = model.presented(batch), position.shared
    law = model.prior.law(shared["prior"], batch)
    z = autoencoder.encode(encoder, seen.y, seen.mask, key_guess)
    return law.coordinates(_placed(model, law, position, batch, temperature, z, key_place) if plan.placed else z)


def _placed(model, law: AbstractLaw, position: Position, batch: Batch, temperature, guess, key):
    """Given the values, rows are independent and the prior of each is a normal law, or nearly one."""
    given = given_all_else(model, law, position, batch, temperature)
    return redraw.place(key, guess, given.mean, given.variance, given.decode, given.log_prob)


def given_all_else(model, law: AbstractLaw, position: Position, batch: Batch, temperature) -> redraw.Given:
    """p(z | y, all else)^(1/T) of the rows of a batch."""
    shape = (batch.y.shape[0], model.prior.latent_dim)
    mean, sd = (jnp.broadcast_to(a, shape) for a in law.spread(position.values))
    likelihood = model.observe(position.shared)

    def log_prob(eta):
        y = batch.y.astype(eta.dtype)
        return likelihood.log_prob(y, batch.mask, likelihood.expose(eta, y, batch.mask)) / temperature.astype(eta.dtype)

    def log_prior(z):
        return law.log_rows(position.values, z) / temperature

    decode = lambda z: model.decode(position.shared, z)  # noqa: E731
    return redraw.Given(log_prior, mean, temperature * sd**2, decode, log_prob)


def _sweep(model: Autoencoder, plan: Plan, table: Table, static: PyTree, settings, adapting, chain: Chain):
    key_batch, key_birth, key_steps, key_values, key_encoder = jax.random.split(
        jax.random.fold_in(chain.key, chain.sweep), 5
    )
    encoder = eqx.combine(chain.encoder, static)
    state, selection = chain.sampler, plan.batching.select(key_batch, table)
    if plan.amortised:
        state = _reborn(model, plan, table, chain, encoder, settings, selection, key_birth)
    told = collapsing(model, plan, table, chain, settings.temperature, jax.random.fold_in(key_values, 3))
    law = held_law(told, plan, table, state.position.shared)
    (state, selection), (terms, info) = jax.lax.scan(
        lambda c, i: sampler_step(told, plan, table, settings, adapting, law, c, jax.random.fold_in(key_steps, i)),
        (state, selection),
        jnp.arange(plan.sampler_steps),
    )
    chain = chain._replace(sampler=state, sweep=chain.sweep + 1)
    none = jnp.asarray(jnp.nan)
    report = Report(*jax.tree.map(lambda a: jnp.mean(a, axis=0), (terms, *info)), none, jnp.zeros(()), none)
    if plan.refresh:
        chain, report = _between_sweeps(told, plan, table, settings, adapting, chain, report, key_values)
    if plan.collapsed and not model.prior.collapses:
        chain, report = _complete(told, table, chain, report, settings.temperature)
    if plan.amortised:
        chain, loss = train_encoder(model, plan, table, static, chain, selection, key_encoder)
        report = report._replace(encoder_loss=loss)
    return chain, report


def _between_sweeps(model, plan, table, settings, adapting, chain: Chain, report: Report, key) -> tuple[Chain, Report]:
    """Refresh hyper-parameters, then values if they are part of the chain."""
    key_hyper, key_woven, key_values = jax.random.split(key, 3)
    position, refresh, T = chain.sampler.position, chain.refresh, settings.temperature
    prior = model.prior
    if not prior.collapses:
        prior = refreshing.conjugate(model, table, position, T, jax.random.fold_in(key, 4))
    if jax.tree.leaves(refresh.scale):
        position, refresh, info = refreshing.given_latents(prior, table, position, refresh, T, adapting, key_hyper)
        report = _with_moves(report, info, T, plan)
    if plan.weaves and refreshing.has_woven(refresh):
        woven = refreshing.given_seeds(model, prior, table, position, refresh, T, adapting, key_woven)
        position, refresh, info = woven
        report = report._replace(acceptance=jnp.minimum(report.acceptance, jnp.mean(info.acceptance)))
    if not plan.collapsed:
        values, _ = refreshing.redraw(prior, table, position, T, key_values)
        position = position._replace(values=values)
    return chain._replace(sampler=chain.sampler._replace(position=position), refresh=refresh), report


def _with_moves(report: Report, info: hmc.Info, temperature: Array, plan: Plan) -> Report:
    """Corrected trajectories are drawn and tested at the temperature itself; whether they get anywhere is for the
    acceptance to say."""
    kinetic = report.kinetic_temperature
    exact = jax.tree.map(lambda _: temperature, refreshing.held(kinetic.shared["prior"], plan.weaves))
    kinetic = kinetic._replace(shared={**kinetic.shared, "prior": {**kinetic.shared["prior"], **exact}})
    return report._replace(acceptance=jnp.mean(info.acceptance), kinetic_temperature=kinetic)


def train_encoder(model, plan, table, static, chain, selection, key) -> tuple[Chain, Array]:
    """J Adam steps towards the sampled latents, on random rows of what is at hand."""
    if plan.encoder_steps == 0:
        return chain, jnp.zeros(())
    batch, z = encoder_targets(model, plan, table, chain.sampler, selection)
    batch = model.presented(batch)
    num_rows, seed_size = min(ENCODER_ROWS, z.shape[0]), eqx.combine(chain.encoder, static).seed_size
    key_rows, key_seeds = jax.random.split(key)
    rows = jax.random.randint(key_rows, (plan.encoder_steps, num_rows), 0, z.shape[0])
    seeds = jax.random.normal(key_seeds, (plan.encoder_steps, num_rows, seed_size), jnp.float32)

    def step(carry, item):
        weights, opt_state = carry
        r, seed = item
        small = batch._replace(y=batch.y[r], mask=batch.mask[r], valid=batch.valid[r])
        loss, g = jax.value_and_grad(
            lambda w: autoencoder.amortisation_loss(eqx.combine(w, static), small, z[r], seed)
        )(weights)
        updates, opt_state = update(optimiser(plan), g, opt_state)
        return (eqx.apply_updates(weights, updates), opt_state), loss

    (weights, opt_state), losses = jax.lax.scan(step, (chain.encoder, chain.optimiser), (rows, seeds))
    return chain._replace(encoder=weights, optimiser=opt_state), jnp.mean(losses)


def encoder_targets(model, plan, table, state, selection) -> tuple[Batch, Float[Array, "B C"]]:
    part = take(state, selection, plan)
    batch = plan.batching.batch(table, selection)
    return batch, model.prior.law(part.position.shared["prior"], batch).latents(part.position.local)


def over_chains(one_chain: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """The same for every chain, so that none depends on how many there are: one after another on a processor, where
    XLA would drop a batch axis of length one and then round differently; side by side on an accelerator.  Where there
    are several devices, each takes its share of the chains."""
    if jax.default_backend() != "cpu":
        return devices.shared(jax.vmap(one_chain))
    return devices.shared(lambda *arguments: jax.lax.map(lambda items: one_chain(*items), arguments))


@distributed.together
@eqx.filter_jit
def run_block(
    model: Autoencoder, plan: Plan, table: Table, static: PyTree, chains: Chain, settings: sghmc.Settings,
    temperatures: Float[Array, " sweeps"], adapting: Array,
) -> tuple[Chain, Report]:  # fmt: skip
    """As many sweeps as there are temperatures, on all chains, each with a step size and gradient noise of its own: one
    compilation serves warm-up and sampling."""

    def one_chain(chain, step_size, noise):
        def body(c, temperature):
            own = settings._replace(step_size=step_size, temperature=temperature, noise=noise)
            return _sweep(model, plan, table, static, own, adapting, c)

        chain, reports = jax.lax.scan(body, chain, temperatures)
        report = jax.tree.map(lambda a: jnp.mean(a, axis=0), reports)
        if plan.collapsed and model.prior.collapses:
            chain, report = _complete(model, table, chain, report, temperatures[-1])
        return (chain, report) if plan.amortised else _distil(model, plan, table, static, chain, report)

    return over_chains(one_chain)(chains, settings.step_size, settings.noise)


def _complete(model, table, chain: Chain, report: Report, temperature) -> tuple[Chain, Report]:
    """Values for the draw that a block or a sweep leaves behind; theirs is the temperature of an exact draw."""
    key = jax.random.fold_in(chain.key, chain.sweep + 2**26)
    values, shown = refreshing.redraw(model.prior, table, chain.sampler.position, temperature, key)
    if values is None:
        return chain, report
    kinetic = report.kinetic_temperature._replace(values=shown)
    return chain._replace(values=values), report._replace(kinetic_temperature=kinetic)


def _distil(model, plan, table, static, chain: Chain, report: Report) -> tuple[Chain, Report]:
    """Persistent latents do not need the encoder, so it learns once per block, for rows never seen."""
    key_rows, key_encoder = jax.random.split(jax.random.fold_in(chain.key, chain.sweep + 2**27))
    selection = plan.batching.select(key_rows, table)
    chain, loss = train_encoder(model, plan, table, static, chain, selection, key_encoder)
    return chain, report._replace(encoder_loss=loss)
