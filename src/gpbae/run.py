"""A whole run: start, MAP, ramp, warm-up, sampling; Python between compiled blocks, for progress and interruption."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from gpbae import autoencoder, checkpoint, inference, sghmc
from gpbae.autoencoder import Autoencoder, Position
from gpbae.batches import Table
from gpbae.checkpoint import Keeper
from gpbae.errors import GpbaeError
from gpbae.health import culprits_of, finite_chains, keep_sound, total
from gpbae.inference import Chain, Plan

COLDEST = 1e-3
NUM_MEASUREMENTS = 8
NUM_BACK_OFFS = 8


@dataclasses.dataclass(frozen=True)
class Budget:
    """Lengths in sweeps (warm-up, thinning), MAP steps, draws; and the settings of the sampler."""

    num_warmup: int
    num_samples: int
    thinning: int
    num_map_steps: int
    friction: float
    temperature: float
    step_size: float | str
    stiffness: float = 0.07
    map_rate: float = 0.02


class Result(NamedTuple):
    """What a run leaves behind."""

    draws: Position
    chains: Chain
    step_size: float
    kinetic_temperature: Position
    fraction_clamped: float
    noise_share: float
    history: list[dict[str, Any]]
    dead: np.ndarray


Listener = Callable[[dict[str, Any]], None]


@eqx.filter_jit
def start_chain(
    model: Autoencoder, plan: Plan, table: Table, decoder: PyTree, encoder: PyTree, latents: Float[Array, "N C"],
    key: Key[Array, ""],
) -> Chain:  # fmt: skip
    """A chain at given latents, decoder and encoder."""
    key_init, key_chain = jax.random.split(key)
    shared, values = model.init(key_init, decoder, table.group_rows.shape[0])
    full = _everything(table)
    if plan.amortised:
        selection = plan.batching.select(key_init, table)
        local = jnp.zeros((selection.rows.shape[0], latents.shape[1]))
    else:
        local = model.prior.coordinates(shared["prior"], latents, full)
    weights = eqx.filter(encoder, eqx.is_inexact_array)
    position = Position(shared, None if plan.collapsed else values, local)
    drawn = values if plan.collapsed else None
    sampler = sghmc.init(position, _unit_scale(position, plan))
    optimiser = inference.optimiser(plan).init(weights)
    scale = inference.refreshed(sampler.scale.shared["prior"]) if plan.refresh else {}
    refresh = inference.Refresh(scale, jnp.asarray(np.log(0.1), jnp.float64))
    return Chain(sampler, weights, optimiser, refresh, drawn, key_chain, jnp.zeros((), jnp.int64))


def _everything(table: Table):
    from gpbae.batches import FullBatch

    return FullBatch().batch(table, FullBatch().select(jax.random.key(0), table))


def _unit_scale(position: Position, plan: Plan) -> Position:
    """Ones, one per coordinate but where coordinates trade places: amortised latents keep no row, and an inducing input
    may wander from where the energy is flat to where it is steep, so all of them take the pace of the steepest."""

    def ones(path, a):
        names = {str(getattr(k, "key", getattr(k, "name", ""))) for k in path}
        shared = "inducing" in names or ("local" in names and plan.amortised)
        return jnp.ones_like(a[:1] if shared else a)

    return jax.tree_util.tree_map_with_path(ones, position)


def _with_scale(chains: Chain, scale: Position, plan: Plan) -> Chain:
    """Chains at rest in new coordinates."""
    refresh = chains.refresh
    if plan.refresh:
        refresh = refresh._replace(scale=inference.refreshed(scale.shared["prior"]))
    sampler = jax.vmap(lambda p, c: inference.hold_inducing(sghmc.init(p, c), plan))(chains.sampler.position, scale)
    return chains._replace(sampler=sampler, refresh=refresh)


@eqx.filter_jit
def pretrain(plan: Plan, table: Table, static: PyTree, chains: Chain, latents: Float[Array, "N C"], num_steps: int):
    """Teach the encoder the starting latents: amortised latents are born from it from the first sweep on."""
    full = _everything(table)

    def one_chain(chain):
        def step(carry, index):
            weights, opt_state = carry
            key_rows, key_seed = jax.random.split(jax.random.fold_in(key, index))
            rows = jax.random.randint(key_rows, (min(128, latents.shape[0]),), 0, latents.shape[0])
            small = full._replace(y=full.y[rows], mask=full.mask[rows], valid=full.valid[rows])
            seeds = jax.random.normal(key_seed, (len(rows), eqx.combine(weights, static).seed_size), jnp.float32)
            g = jax.grad(lambda w: autoencoder.amortisation_loss(eqx.combine(w, static), small, latents[rows], seeds))(
                weights
            )
            updates, opt_state = inference.update(inference.optimiser(plan), g, opt_state)
            return (eqx.apply_updates(weights, updates), opt_state), None

        key = jax.random.fold_in(chain.key, 2**28)
        (weights, opt_state), _ = jax.lax.scan(step, (chain.encoder, chain.optimiser), jnp.arange(num_steps))
        return chain._replace(encoder=weights, optimiser=opt_state)

    return jax.vmap(one_chain)(chains)


class Sampler:
    """The state of a run between blocks."""

    def __init__(self, model: Autoencoder, plan: Plan, table: Table, static: PyTree, chains: Chain, budget: Budget,
                 listener: Listener, keeper: Keeper | None = None):  # fmt: skip
        self.model, self.plan, self.table, self.static, self.budget = model, plan, table, static, budget
        self.chains, self.listener = chains, listener
        self.num_chains = chains.sweep.shape[0]
        self.back_off = 1.0
        self.dead = np.zeros(self.num_chains, bool)
        self.step_size, self.noise, self.noise_share = 0.0, None, 0.0
        self.stiffest = 0.0
        self.history: list[dict[str, Any]] = []
        self.started = time.monotonic()
        self.keeper = Keeper() if keeper is None else keeper
        self.phase, self.block = "start", 0
        self.chunks: list[checkpoint.Arrays] = []
        self.fresh: list[tuple[Position, Position, float]] = []

    def run(self) -> Result:
        """From where it is to the end; a keeper that has seen this run before says where that is."""
        if saved := self.keeper.saved():
            self._go_on(saved)
        if self.phase == "start":
            self._climb()
            self._enter("warm-up")
        if self.phase == "warm-up":
            self._warm_up()
            self._enter("sampling")
        self._sample()
        return self._result()

    def _go_on(self, saved: checkpoint.Snapshot) -> None:
        checkpoint.restore(self, saved)
        self.started -= max((event["seconds"] for event in self.history), default=0.0)
        self._say(phase="resumed", at=self.phase, block=self.block)

    def _enter(self, phase: str) -> None:
        self.phase, self.block = phase, 0
        self._pause(at_an_end=True)

    def _pause(self, at_an_end: bool = False) -> None:
        """Between two blocks the state is whole: keep it if it is time to, or if there will be no other time."""
        stopping = self.keeper.is_stopping()
        if at_an_end or stopping or self.keeper.is_due():
            chunk = checkpoint.chunk_of(*map(list, zip(*self.fresh, strict=True))) if self.fresh else None
            self.keeper.keep(checkpoint.arrays_of(self), checkpoint.counters_of(self), chunk)
            self.chunks += [] if chunk is None else [chunk]
            self.fresh = []
        if stopping:
            self.keeper.stop(f"block {self.block} of {self.phase}")

    def _say(self, **event: Any) -> None:
        event["seconds"] = round(time.monotonic() - self.started, 3)
        self.history.append(event)
        self.keeper.record(event)
        self.listener(event)

    def _climb(self) -> None:
        steps = self.budget.num_map_steps
        self._say(phase="compiling")
        if steps:
            rates = self.budget.map_rate * 0.5 * (1 + np.cos(np.pi * np.arange(steps) / steps)) + 1e-4
            self.chains, terms = inference.climb(
                self.model, self.plan, self.table, self.static, self.chains, jnp.asarray(rates)
            )
            self._say(phase="map", done=1, total=1, log_joint=total(terms))
        self._rescale()

    def _rescale(self) -> None:
        """Measure coordinate scales where the chains are and begin again from there with momentum at rest."""
        position = self.chains.sampler.position
        plain = jax.vmap(lambda p: sghmc.init(p, _unit_scale(p, self.plan)))(position)
        stiffness = self._measure(self.chains._replace(sampler=plain), starting=True)
        self.chains = _with_scale(self.chains, stiffness.scale, self.plan)
        self.stiffest = 0.0
        self._set_step_size(stiffness)

    def _measure(self, chains, starting=False):
        friction = jnp.asarray(self.budget.friction)
        return inference.measure(
            self.model, self.plan, self.table, self.static, chains, friction, jnp.asarray(starting)
        )

    def _set_step_size(self, stiffness) -> None:
        """One step size for all chains, from the stiffest place seen since the scales were measured: curvature
        changes along a chain.  A number given by the user stands."""
        budget = self.budget
        self.noise = stiffness.noise
        self.stiffest = max(self.stiffest, float(jnp.max(stiffness.curvature)))
        ratio = None if stiffness.noise_ratio is None else jnp.max(stiffness.noise_ratio)
        if budget.step_size == "auto":
            self.step_size = self.back_off * float(
                sghmc.stable_step_size(jnp.asarray(self.stiffest), budget.stiffness, ratio)
            )
        else:
            self.step_size = self.back_off * float(budget.step_size)
        self.noise_share = 0.0 if ratio is None else float(ratio) * self.step_size**2

    def _settings(self) -> sghmc.Settings:
        return sghmc.Settings(
            jnp.asarray(self.step_size), jnp.asarray(self.budget.friction), jnp.asarray(1.0), self.noise
        )

    def _block(self, temperatures: np.ndarray, adapting: bool):
        return inference.run_block(
            self.model, self.plan, self.table, self.static, self.chains, self._settings(),
            jnp.asarray(temperatures), jnp.asarray(adapting),
        )  # fmt: skip

    def temperatures(self) -> np.ndarray:
        """One per warm-up sweep: a geometric ramp over the first half, then the final temperature."""
        ramp = max(self.budget.num_warmup // 2, 1)
        cold = min(COLDEST, self.budget.temperature)
        warm = np.geomspace(cold, self.budget.temperature, ramp)
        return np.concatenate([warm, np.full(max(self.budget.num_warmup - ramp, 0), self.budget.temperature)])

    def _warm_up(self) -> None:
        thin = self.budget.thinning
        schedule = self.temperatures()
        num_blocks = -(-len(schedule) // thin)
        schedule = np.pad(schedule, (0, num_blocks * thin - len(schedule)), mode="edge")
        checkpoints = set(np.linspace(0, num_blocks, NUM_MEASUREMENTS + 1).astype(int)[1:]) | {num_blocks}
        reset = num_blocks // 2
        while self.block < num_blocks:
            if self.block == reset:
                self._rescale()
            chains, report = self._block(schedule[self.block * thin : (self.block + 1) * thin], adapting=True)
            finite = finite_chains(chains, report)
            if not finite.all():
                self._retreat(culprits_of(chains, report, ~finite))
                continue
            self.chains = chains
            self.block += 1
            if self.block in checkpoints:
                self._set_step_size(self._measure(self.chains))
            self._say(phase="warm-up", done=self.block, total=num_blocks, log_joint=total(report.terms),
                      temperature=float(schedule[self.block * thin - 1]), step_size=self.step_size)  # fmt: skip
            self._pause()

    def _retreat(self, culprits: str) -> None:
        """A block that blew up is done again with half the step."""
        self.back_off *= 0.5
        self.step_size *= 0.5
        if self.back_off < 0.5**NUM_BACK_OFFS:
            raise GpbaeError(
                f"The chains diverge whatever the step size: not finite near the start are {culprits}. "
                "Check y for extreme values, standardise it, or pass a smaller step_size."
            )
        momentum = jax.tree.map(jnp.zeros_like, self.chains.sampler.momentum)
        self.chains = self.chains._replace(sampler=self.chains.sampler._replace(momentum=momentum))
        self._say(phase="back-off", step_size=self.step_size, because=culprits)

    def _sample(self) -> None:
        budget = self.budget
        temperatures = np.full(budget.thinning, budget.temperature)
        while self.block < budget.num_samples:
            chains, report = self._block(temperatures, adapting=False)
            finite = finite_chains(chains, report) & ~self.dead
            if not finite.all():
                self._bury(~finite, chains, report)
                chains = keep_sound(self.chains, chains, finite)
            self.chains = chains
            self.block += 1
            kinetic = jax.tree.map(np.asarray, report.kinetic_temperature)
            clamped = float(np.mean(np.asarray(report.fraction_clamped)))
            self.fresh.append((jax.tree.map(np.asarray, self._draw()), kinetic, clamped))
            loss, accepted = (float(np.mean(np.asarray(a))) for a in (report.encoder_loss, report.acceptance))
            self._say(phase="sampling", done=self.block, total=budget.num_samples, log_joint=total(report.terms),
                      encoder_loss=loss, step_size=self.step_size,
                      acceptance=accepted if np.isfinite(accepted) else None)  # fmt: skip
            self._pause(at_an_end=self.block == budget.num_samples)

    def _result(self) -> Result:
        position = self.chains.sampler.position
        measured = position._replace(values=self.chains.values) if self.plan.collapsed else position
        draws, kinetic, clamped = checkpoint.join(self.chunks, self._draw(), measured)
        return Result(draws, self.chains, self.step_size, kinetic, float(np.mean(clamped)), self.noise_share,
                      self.history, self.dead)  # fmt: skip

    def _bury(self, broken: np.ndarray, chains: Chain, report) -> None:
        culprits = culprits_of(chains, report, broken)
        if (newly := broken & ~self.dead).any():
            self.dead |= broken
            self._say(phase="dead", chains=np.flatnonzero(newly).tolist(), because=culprits)
        if self.dead.all():
            raise GpbaeError(
                f"Every chain diverged while sampling: not finite are {culprits}. "
                "Pass a smaller step_size or a longer num_warmup."
            )

    def _draw(self) -> Position:
        """The position; latents born anew each sweep are not worth keeping."""
        position = self.chains.sampler.position
        if self.plan.collapsed:
            position = position._replace(values=self.chains.values)
        return position._replace(local=None) if self.plan.amortised else position
