"""A whole run: start, MAP, ramp, warm-up, sampling; Python between compiled blocks, for progress and interruption."""

import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from gpbae.autoencoder import Autoencoder, Position
from gpbae.errors import GpbaeError
from gpbae.sampling import checkpoint, inference, sghmc, starting, streamed, visits
from gpbae.sampling.batches import Table
from gpbae.sampling.checkpoint import Keeper
from gpbae.sampling.health import culprits_of, finite_chains, heat, keep_sound, total
from gpbae.sampling.inference import Chain, Plan
from gpbae.sampling.keptlatents import KeptLatents, Latents, Visited
from gpbae.sampling.stiffness import Stiffness, measure
from gpbae.tabular.ondisk import Feed

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
    """What a run leaves behind; step sizes and shares of gradient noise by chain."""

    draws: Position
    chains: Chain
    step_sizes: np.ndarray
    kinetic_temperature: Position
    fraction_clamped: float
    noise_shares: np.ndarray
    history: list[dict[str, Any]]
    dead: np.ndarray


Listener = Callable[[dict[str, Any]], None]


class Sampler:
    """The state of a run between blocks.

    Everything that is learned is learned chain by chain, so that a chain does not depend on how many others run.
    """

    def __init__(self, model: Autoencoder, plan: Plan, table: Table, static: PyTree, chains: Chain, budget: Budget,
                 listener: Listener, keeper: Keeper | None = None, feed: Feed | None = None,
                 latents: Latents | None = None):  # fmt: skip
        self.model, self.plan, self.table, self.static, self.budget = model, plan, table, static, budget
        self.chains, self.listener, self.feed = chains, listener, feed
        self.num_chains = chains.sweep.shape[0]
        self.dead, self.noise = np.zeros(self.num_chains, bool), None
        self.step_sizes, self.noise_shares, self.stiffest = np.zeros((3, self.num_chains))
        self.back_offs = np.ones(self.num_chains)
        self.history: list[dict[str, Any]] = []
        self.started, self.processor = time.monotonic(), time.process_time()
        self.keeper = Keeper() if keeper is None else keeper
        self.latents = Latents() if latents is None else latents
        self.left: tuple[Visited, np.ndarray] | None = None
        self.phase, self.block = "start", 0
        self.chunks: list[checkpoint.Arrays] = []
        self.fresh: list[tuple[Position, Position, float]] = []
        self.last: checkpoint.Moment | None = None
        self.saving = threading.Lock()
        self.keeper.ask_for_the_last_block(self._save_last)

    def run(self) -> Result:
        """From where it is to the end; a keeper that has seen this run before says where that is."""
        if saved := self.keeper.saved():
            self._go_on(saved)
        else:
            self.latents.begin()
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
        self.processor -= max((event.get("processor_seconds", 0.0) for event in self.history), default=0.0)
        where = self._sweeps()
        self._say(phase="resumed", at=self.phase, block=self.block, done=1, total=1, **where)
        if where["sweep"] < where["sweeps"]:
            self.latents.go_on(saved.arrays)
            self._say(phase="compiling")

    def _sweeps(self) -> dict[str, int]:
        """How far it is, in sweeps of the whole run."""
        thin = self.budget.thinning
        warm = -(-self.budget.num_warmup // thin) * thin
        done = self.block * thin + (warm if self.phase == "sampling" else 0)
        return {"sweep": done, "sweeps": warm + self.budget.num_samples * thin}

    def _enter(self, phase: str) -> None:
        self.phase, self.block = phase, 0
        self._pause(at_an_end=True)

    def _pause(self, at_an_end: bool = False) -> None:
        """Between two blocks the state is whole: keep it if it is time to, or if there will be no other time."""
        with self.saving:
            self.keeper.mark()
            self.last = checkpoint.moment_of(self)
            stopping = self.keeper.is_stopping()
            if at_an_end or stopping or self.keeper.is_due() or self.latents.is_full():
                self._save()
        if stopping:
            self.keeper.stop("sweep {sweep} of {sweeps}".format(**self._sweeps()))

    def _save_last(self) -> None:
        """From another thread, while a block is computed: the block before it is whole."""
        with self.saving:
            self._save()

    def _save(self) -> None:
        """Keep the last moment, unless it has been kept."""
        if self.last is None:
            return
        moment, self.last = self.last, None
        chunk = moment.chunk()
        self.latents.flush()
        self.keeper.keep(moment.arrays(), moment.counters, chunk)
        self.chunks += [] if chunk is None else [chunk]
        del self.fresh[: len(moment.fresh)]
        self.latents.settle(moment.kept)

    def _say(self, **event: Any) -> None:
        event["seconds"] = round(time.monotonic() - self.started, 3)
        event["processor_seconds"] = round(time.process_time() - self.processor, 3)
        self.history.append(event)
        self.keeper.record(event)
        self.listener(event)

    def _climb(self) -> None:
        steps = self.budget.num_map_steps
        self._say(phase="compiling")
        if steps:
            rates = self.budget.map_rate * 0.5 * (1 + np.cos(np.pi * np.arange(steps) / steps)) + 1e-4
            self.chains, terms = starting.climb(
                self.model, self.plan, self.table, self.static, self.chains, jnp.asarray(rates)
            )
            self._say(phase="map", done=1, total=1, log_joint=total(terms))
        self._rescale()

    def _rescale(self) -> None:
        """Measure coordinate scales where the chains are and begin again from there with momentum at rest."""
        plain = starting.plain(self.chains.sampler.position, self.plan)
        found = self._measure(self.chains._replace(sampler=plain), starting=True)
        self.chains = starting.with_scale(self.chains, found.scale, self.plan)
        self.stiffest = np.zeros(self.num_chains)
        self._set_step_sizes(found)

    def _measure(self, chains: Chain, starting: bool = False) -> Stiffness:
        settings = self._settings()._replace(noise=None)
        return measure(self.model, self.plan, self.table, self.static, chains, settings, jnp.asarray(starting))

    def _set_step_sizes(self, found: Stiffness) -> None:
        """From the stiffest place a chain has seen since its scales were measured: curvature changes along a chain.
        A number given by the user stands."""
        budget = self.budget
        self.noise = found.noise
        self.stiffest = np.maximum(self.stiffest, np.asarray(found.curvature))
        if budget.step_size == "auto":
            stable = np.asarray(sghmc.stable_step_size(jnp.asarray(self.stiffest), budget.stiffness, found.noise_ratio))
        else:
            stable = np.full(self.num_chains, float(budget.step_size))
        self.step_sizes = self.back_offs * stable
        ratios = np.zeros(self.num_chains) if found.noise_ratio is None else np.asarray(found.noise_ratio)
        self.noise_shares = ratios * self.step_sizes**2

    def _settings(self) -> sghmc.Settings:
        """Step sizes and gradient noise by chain; the temperature is the final one, for which steps are sized."""
        budget = self.budget
        return sghmc.Settings(
            jnp.asarray(self.step_sizes), jnp.asarray(budget.friction), jnp.asarray(budget.temperature), self.noise
        )

    def _block(self, temperatures: np.ndarray, adapting: bool):
        if self.feed is not None:
            return self._block_from_disk(self.feed, temperatures, adapting)
        return inference.run_block(*self._given(self.chains, temperatures, adapting))

    def _given(self, chains: Chain, temperatures: np.ndarray, adapting: bool):
        return (self.model, self.plan, self.table, self.static, chains, self._settings(), jnp.asarray(temperatures),
                jnp.asarray(adapting))  # fmt: skip

    def _block_from_disk(self, feed: Feed, temperatures: np.ndarray, adapting: bool):
        """A block whose rows are too many for memory is computed some sweeps at a time."""
        sweep = int(np.max(np.asarray(self.chains.sweep)))  # a chain that died stays at its last good block
        numbers, parts = feed.block(sweep, len(temperatures))
        found = self.latents.visited(numbers) if isinstance(self.latents, KeptLatents) else None
        latents = None if found is None else jnp.asarray(found.latents)
        chains, reports, done = self.chains, [], 0
        for rows in parts:
            here = slice(done, done := done + rows.mask.shape[1])
            given = self._given(chains, temperatures[here], adapting)
            if found is None:
                chains, report = streamed.run_block(*given, rows)
            else:
                chains, report, latents = visits.run_block(*given, rows, jnp.asarray(found.slots[:, here]), latents)
            reports.append(report)
        self.left = None if found is None else (found, np.asarray(latents))
        return chains, jax.tree.map(lambda *parts: jnp.mean(jnp.stack(parts), axis=0), *reports)

    def _leave(self, sound: np.ndarray) -> None:
        """The block counts: rows keep the latents it left them with, in chains that are sound."""
        if self.left is not None and isinstance(self.latents, KeptLatents):
            self.latents.write(*self.left, sound)

    @property
    def _left_behind(self) -> np.ndarray | None:
        """Latents of all rows that the last block visited, where rows keep theirs."""
        return None if self.left is None else self.left[1]

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
            finite = finite_chains(chains, report, self._left_behind) | self.dead
            if not finite.all():
                self._retreat(~finite, culprits_of(chains, report, ~finite, self._left_behind))
                continue
            self.chains = keep_sound(self.chains, chains, ~self.dead) if self.dead.any() else chains
            self._leave(~self.dead)
            self.block += 1
            if self.block in checkpoints:
                self._set_step_sizes(self._measure(self.chains))
            self._say(phase="warm-up", done=self.block, total=num_blocks, log_joint=total(report.terms),
                      temperature=float(schedule[self.block * thin - 1]), kinetic_temperature=heat(report),
                      step_size=self._smallest_step(), **self._sweeps())  # fmt: skip
            self._pause()

    def _retreat(self, broken: np.ndarray, culprits: str) -> None:
        """A block that blew up is done again, by the chains that did with half the step; the others repeat theirs.
        A chain that blows up whatever the step is given up."""
        shorter = np.where(broken, 0.5, 1.0)
        self.back_offs, self.step_sizes = self.back_offs * shorter, self.step_sizes * shorter
        self._bury(self.back_offs < 0.5**NUM_BACK_OFFS, culprits,
                   f"The chains diverge whatever the step size: not finite near the start are {culprits}. "
                   "Check y for extreme values, standardise it, or pass a smaller step_size.")  # fmt: skip
        resting = jax.tree.map(jnp.zeros_like, self.chains.sampler.momentum)
        at_rest = self.chains._replace(sampler=self.chains.sampler._replace(momentum=resting))
        self.chains = keep_sound(self.chains, at_rest, broken)
        self._say(phase="back-off", step_size=self._smallest_step(), because=culprits)

    def _smallest_step(self) -> float:
        return float(self.step_sizes[~self.dead].min())

    def _sample(self) -> None:
        budget = self.budget
        temperatures = np.full(budget.thinning, budget.temperature)
        while self.block < budget.num_samples:
            chains, report = self._block(temperatures, adapting=False)
            finite = finite_chains(chains, report, self._left_behind) & ~self.dead
            if not finite.all():
                culprits = culprits_of(chains, report, ~finite, self._left_behind)
                self._bury(~finite, culprits, f"Every chain diverged while sampling: not finite are {culprits}. "
                           "Pass a smaller step_size or a longer num_warmup.")  # fmt: skip
                chains = keep_sound(self.chains, chains, finite)
            self.chains = chains
            self._leave(finite)
            self.block += 1
            kinetic = jax.tree.map(np.asarray, report.kinetic_temperature)
            clamped, loss, *accepted = (float(np.mean(np.asarray(a)[~self.dead])) for a in (
                report.fraction_clamped, report.encoder_loss, report.acceptance,
                report.latents_acceptance))  # fmt: skip
            of_kernel, of_latents = (share if np.isfinite(share) else None for share in accepted)
            self.fresh.append((jax.tree.map(np.asarray, self.draw()), kinetic, clamped))
            self._say(phase="sampling", done=self.block, total=budget.num_samples, log_joint=total(report.terms),
                      temperature=budget.temperature, kinetic_temperature=heat(report), encoder_loss=loss,
                      step_size=self._smallest_step(),
                      acceptance=of_kernel, latents_acceptance=of_latents, **self._sweeps())  # fmt: skip
            self._pause(at_an_end=self.block == budget.num_samples)

    def _result(self) -> Result:
        position = self.chains.sampler.position
        measured = position._replace(values=self.chains.values) if self.plan.collapsed else position
        draws, kinetic, clamped = checkpoint.join(self.chunks, self.draw(), measured)
        return Result(draws, self.chains, self.step_sizes, kinetic, float(np.mean(clamped)), self.noise_shares,
                      self.history, self.dead)  # fmt: skip

    def _bury(self, broken: np.ndarray, culprits: str, if_all: str) -> None:
        """Broken chains stay where they last were good, and the others go on; with none left the run is over."""
        if (newly := broken & ~self.dead).any():
            self.dead = self.dead | newly
            self._say(phase="dead", chains=np.flatnonzero(newly).tolist(), because=culprits)
        if self.dead.all():
            raise GpbaeError(if_all)

    def draw(self) -> Position:
        """The position; latents born anew each sweep are not worth keeping."""
        position = self.chains.sampler.position
        if self.plan.collapsed:
            position = position._replace(values=self.chains.values)
        return position._replace(local=None) if self.plan.amortised else position
