"""The theorems, on this machine: every check computes a few numbers, `run` holds them against their bars.

identity decoder = Gaussian-process regression      sparse with S = X = exact      one deep layer = sparse
minibatch energies average to the full energy       the chain follows its exact law       T → 0 is the MAP
draws agree with NUTS (where BlackJAX is installed)  ranks of simulation-based calibration are uniform
"""

import dataclasses
import importlib.util
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
import scipy.stats
from jax.flatten_util import ravel_pytree

from gpbae import gp, inference, networks, sghmc, start
from gpbae import run as runs
from gpbae.autoencoder import Autoencoder, Position
from gpbae.batches import FullBatch, RowBatch, Selection, Table
from gpbae.estimators import DSGPBAE, GPBAE, SGPBAE
from gpbae.kernels import RBF
from gpbae.likelihoods import Gaussian
from gpbae.priors import Batch, FullPrior, Hyper, NormalPrior

Numbers = dict[str, float]


@dataclasses.dataclass(frozen=True)
class Check:
    """One theorem: the figure measured, the bar it must clear, and whether it did."""

    name: str
    figure: str
    bar: str
    passed: bool
    seconds: float


def run(quick: bool = False, listener: Callable[[str], None] | None = None) -> list[Check]:
    """All checks; `quick` takes shorter chains and fewer replicates, with the same bars."""
    table = _checks(quick)
    done = []
    for name, (compute, bar, passes, show) in table.items():
        if listener is not None:
            listener(name)
        begun = time.monotonic()
        numbers = compute()
        done.append(Check(name, show(numbers), bar, bool(passes(numbers)), round(time.monotonic() - begun, 1)))
    return done


def _checks(quick: bool) -> dict[str, tuple[Callable, str, Callable, Callable]]:
    """name: (compute, bar, passes, show)."""
    exact = (lambda n: n["difference"] <= 1e-6, lambda n: f"{n['difference']:.1e}")
    checks: dict[str, tuple[Callable, str, Callable, Callable]] = {
        "sparse GP with S = X is the exact GP": (sparse_is_exact, "relative difference ≤ 1e-6", *exact),
        "one deep layer is the sparse GP": (one_layer_is_sparse, "relative difference ≤ 1e-6", *exact),
        "K = I is the BAE": (white_kernel_is_independent, "relative difference ≤ 1e-6", *exact),
        "minibatch energies average to the energy": (minibatches_average, "relative difference ≤ 1e-6", *exact),
        "the chain follows its exact law": (
            gaussian_law, "every variance within 4.5 Monte-Carlo errors",
            lambda n: n["position"] <= 4.5 and n["momentum"] <= 4.5,
            lambda n: f"{max(n['position'], n['momentum']):.1f} errors",
        ),
    }  # fmt: skip
    cases = [(1, False, False), (2, True, True)] if quick else [
        (d, gaps, grouped) for d in (1, 2) for gaps in (False, True) for grouped in (False, True)]  # fmt: skip
    for num_inputs, gaps, grouped in cases:
        name = f"GP regression, {num_inputs}-D{', 30 % missing' * gaps}{', two groups' * grouped}"
        checks[name] = (
            lambda c=(num_inputs, gaps, grouped): gp_regression(*c),
            "mean within 0.1 sd, sd ratio 0.93 to 1.07",
            lambda n: n["mean"] <= 0.1 and n["low"] >= 0.93 and n["high"] <= 1.07,
            lambda n: f"{n['mean']:.3f} sd; {n['low']:.3f} to {n['high']:.3f}",
        )
    checks["kinetic temperature of every block"] = (
        kinetic_temperatures, "within 5 % of 1", lambda n: max(abs(t - 1) for t in n.values()) <= 0.05,
        lambda n: f"{min(n.values()):.3f} to {max(n.values()):.3f}",
    )  # fmt: skip
    checks["T → 0 is the MAP"] = (
        cold_is_map, "excess energy 0.9 to 1.1 times d T/2", lambda n: 0.9 <= n["ratio"] <= 1.1,
        lambda n: f"{n['ratio']:.3f} times",
    )  # fmt: skip
    if importlib.util.find_spec("blackjax") and not quick:
        checks["agreement with NUTS"] = (
            against_nuts, "means within 4 Monte-Carlo errors, sd ratios 0.9 to 1.1",
            lambda n: n["errors"] <= 4 and n["low"] >= 0.9 and n["high"] <= 1.1,
            lambda n: f"{n['errors']:.1f} errors; {n['low']:.3f} to {n['high']:.3f}",
        )  # fmt: skip
    checks["simulation-based calibration"] = (
        lambda: p_values(calibration_ranks(48 if quick else 208)), "χ² p > 0.01 for every quantity",
        lambda n: min(n.values()) > 0.01, lambda n: "p " + ", ".join(f"{k} {p:.2f}" for k, p in n.items()),
    )  # fmt: skip
    return checks


# Gaussian-process regression

REGRESSION = {"num_warmup": 80, "num_samples": 1000, "thinning": 5, "encoder_steps": 1, "num_map_steps": 0}
REGRESSION_NOISE = 0.5


def regression_table(num_inputs: int, gaps: bool, grouped: bool, seed: int = 0):
    """x, y with gaps, groups: 24 rows and 3 columns."""
    rng = np.random.default_rng([seed, num_inputs, gaps, grouped])
    x = rng.uniform(size=(24, num_inputs))
    groups = np.arange(24) % (2 if grouped else 1)
    y = np.sin(4 * x[:, :1] + np.arange(3) + 2 * groups[:, None]) + (x[:, -1:] - 0.5) * np.arange(3)
    y = y + REGRESSION_NOISE * rng.standard_normal(y.shape)
    return x, np.where(gaps & (rng.random(y.shape) < 0.3), np.nan, y), groups


def gp_regression(num_inputs: int, gaps: bool, grouped: bool) -> Numbers:
    """GPBAE with identity decoder against scikit-learn at new and at fitted rows: largest |Δ mean| in posterior sd of
    f, and the range of the sd ratio, of f and of y."""
    x, y, groups = regression_table(num_inputs, gaps, grouped)
    x_new, _, groups_new = regression_table(num_inputs, gaps, grouped, seed=1)
    lengthscale = 0.3 * num_inputs
    model = GPBAE(
        decoder="identity", sample_hyperparameters=False, standardise=False, kernel=RBF(lengthscale=lengthscale),
        likelihood=Gaussian(noise=REGRESSION_NOISE, learn_noise=False), progress=False, **REGRESSION,
    )  # fmt: skip
    labels = (groups, groups_new) if grouped else (None, None)
    model.fit(x, y, labels[0])
    answers = (model.predict(x_new, labels[1]), model.impute(x, y, labels[0]))
    means, ratios = [], []
    for answer, where in zip(answers, ((x_new, groups_new), (x, groups)), strict=True):
        mean, sd = _regress(x, y, groups, *where, lengthscale)
        f = np.sqrt(answer.sd**2 - answer.variance_parts()["observation noise"])
        means.append(np.abs(answer.mean - mean) / sd)
        ratios += [f / sd, answer.sd / np.hypot(sd, REGRESSION_NOISE)]
    return {"mean": float(np.max(means)), "low": float(np.min(ratios)), "high": float(np.max(ratios))}


def _regress(x, y, groups, x_new, groups_new, lengthscale):
    """Mean and sd of f by scikit-learn, column by column and group by group."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process import kernels as sklearn_kernels

    mean, sd = np.empty((2, len(x_new), y.shape[1]))
    for g in np.unique(groups):
        asked = groups_new == g
        for p in range(y.shape[1]):
            known = (groups == g) & ~np.isnan(y[:, p])
            kernel = sklearn_kernels.RBF(lengthscale)
            regressor = GaussianProcessRegressor(kernel, alpha=REGRESSION_NOISE**2, optimizer=None)
            mean[asked, p], sd[asked, p] = regressor.fit(x[known], y[known, p]).predict(x_new[asked], return_std=True)
    return mean, sd


# Identities between densities


def _world(estimator, num_rows: int = 12, seed: int = 0) -> tuple[Autoencoder, Table, Position]:
    """A model, its table (with gaps) and a position off the start."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(size=num_rows))[:, None]
    y = np.sin(5 * x + np.arange(3)) + 0.3 * rng.standard_normal((num_rows, 3))
    y[rng.random(y.shape) < 0.2] = np.nan
    model, plan, table, decoder_of, encoder_of, latents = estimator._prepare(x, y, None)
    key_decoder, key_encoder, key_chain = jax.random.split(jax.random.key(seed), 3)
    latents = jnp.asarray(latents)
    chain = runs.start_chain(model, plan, table, decoder_of(key_decoder), encoder_of(key_encoder), latents, key_chain)
    position = chain.sampler.position
    noise = sghmc.normal_like(jax.random.key(seed + 1), position)
    return model, table, jax.tree.map(lambda a, b: a + jnp.asarray(0.2, a.dtype) * b, position, noise)


def _full(table: Table) -> Batch:
    return FullBatch().batch(table, FullBatch().select(jax.random.key(0), table))


@eqx.filter_jit
def _energy(model: Autoencoder, position: Position, batch: Batch):
    return model.energy(position, batch)[0]


def _relative(a: Any, b: Any) -> Numbers:
    return {"difference": float(jnp.abs(a - b) / jnp.maximum(jnp.abs(b), 1e-300))}


def sparse_is_exact() -> Numbers:
    """log p(Z) of the exact GP against log p(Z, v) − log p(v | Z) of the sparse one with S = X."""
    rough = SGPBAE(latent_dim=2, num_inducing=12, sample_inducing=False, decoder="linear", latent_noise=1.0,
                   kernel=RBF(lengthscale=0.02))  # fmt: skip
    model, table, position = _world(rough)
    sparse = eqx.tree_at(lambda p: p.inducing_start, model.prior, table.x)
    exact, batch = FullPrior(sparse.hyper_reference, 2, False), _full(table)

    @jax.jit
    def both(hyper, v, z):
        projection, variance = sparse.project(hyper, batch.x)
        mean, factor = gp.values_posterior(projection, z, variance, batch.blocks)
        residual = jnp.einsum("gcml,gcm->gcl", factor, v - mean)
        log_determinant = jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)))
        log_posterior = jnp.sum(jax.scipy.stats.norm.logpdf(residual)) + log_determinant
        marginal = sparse.log_latents(hyper, v, z, batch) + sparse.log_values(v) - log_posterior
        return marginal, exact.log_latents(hyper, None, z, batch)

    return _relative(*both(position.shared["prior"], position.values, position.local))


def one_layer_is_sparse() -> Numbers:
    """The energy of DSGPBAE(num_layers=1) against SGPBAE's at the same position."""
    arguments: dict[str, Any] = {"latent_dim": 2, "num_inducing": 5, "decoder": "linear"}
    sparse, table, position = _world(SGPBAE(**arguments))
    deep, _, _ = _world(DSGPBAE(num_layers=1, **arguments))
    hyper = {**position.shared["prior"], "hidden": ()}
    deep_position = position._replace(shared={**position.shared, "prior": hyper})
    return _relative(_energy(deep, deep_position, _full(table)), _energy(sparse, position, _full(table)))


def white_kernel_is_independent() -> Numbers:
    """log p(Z) of an exact GP whose inputs do not see each other against independent standard normals."""
    _, table, position = _world(SGPBAE(latent_dim=2, num_inducing=5, decoder="linear"))
    hyper = Hyper((RBF(lengthscale=1e-6),), jnp.zeros(()), jnp.ones(()), False, False)
    exact, batch = FullPrior(hyper, 2, False), _full(table)
    independent = NormalPrior(2).log_latents({}, None, position.local, batch)
    return _relative(exact.log_latents(hyper.init(), None, position.local, batch), independent)


def minibatches_average() -> Numbers:
    """The mean energy over batches that visit every row once against the energy of all rows."""
    model, table, position = _world(SGPBAE(latent_dim=2, num_inducing=5, decoder="linear"))
    batching, parts = RowBatch(3), []
    for rows in jnp.split(jnp.asarray(np.random.default_rng(0).permutation(12)), 4):
        selection = Selection(rows, jnp.arange(1))
        parts.append(_energy(model, position._replace(local=position.local[rows]), batching.batch(table, selection)))
    return _relative(jnp.mean(jnp.stack(parts)), _energy(model, position, _full(table)))


# The sampler


def gaussian_law(num_chains: int = 4000, num_steps: int = 1200, friction: float = 0.05) -> Numbers:
    """On Gaussians of precision 1 to 1000: variances of position and momentum against those of the discretised chain,
    in Monte-Carlo errors; the largest over coordinates and temperatures 0.5 and 1."""
    k = jnp.asarray(np.geomspace(1.0, 1000.0, 12))
    step_size = float(np.sqrt(0.5 / 1000))
    s = step_size**2 * np.asarray(k)
    worst = {"position": 0.0, "momentum": 0.0}
    for temperature in (0.5, 1.0):
        settings = sghmc.Settings(jnp.asarray(step_size), jnp.asarray(friction), jnp.asarray(temperature))
        state = _simulate(k, settings, num_chains, num_steps)
        position = temperature * np.asarray(sghmc.gaussian_stationary_variance(k, jnp.ones(12), step_size, friction))
        momentum = temperature * step_size**2 * 4 / (2 * (2 - friction) - s)
        for name, draws, variance in (("position", state.position, position), ("momentum", state.momentum, momentum)):
            z = (np.mean(np.asarray(draws) ** 2, axis=0) / variance - 1) / np.sqrt(2 / num_chains)
            worst[name] = max(worst[name], float(np.max(np.abs(z))))
    return worst


def _simulate(k, settings, num_chains, num_steps):
    """Independent chains from the origin, at rest."""
    precision = jnp.broadcast_to(k, (num_chains, len(k)))

    @jax.jit
    def chain(state):
        def body(state, index):
            key = jax.random.fold_in(jax.random.key(0), index)
            return sghmc.step(key, state, precision * state.position, settings)[0], None

        return jax.lax.scan(body, state, jnp.arange(num_steps))[0]

    return chain(sghmc.init(jnp.zeros((num_chains, len(k)))))


# A small SGP-BAE


def small_table(num_rows: int = 30, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three columns that bend around one smooth function of x, with a tenth of the cells missing."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(size=num_rows))
    f = np.sin(5 * x)[:, None]
    y = np.concatenate([f, np.tanh(2 * f), 0.5 * f**2 + f], axis=1) + 0.4 * rng.standard_normal((num_rows, 3))
    return x[:, None], np.where(rng.random(y.shape) < 0.1, np.nan, y)


def in_double(network: Any) -> Any:
    """A network with float64 weights."""
    return jax.tree.map(lambda a: a.astype(jnp.float64) if eqx.is_inexact_array(a) else a, network)


def small_model(decoder: Any = None, **arguments: Any) -> SGPBAE:
    """One latent, six inducing inputs, a decoder of five hidden units in float64; all that can be is sampled."""
    if decoder is None:
        decoder = networks.MLP(widths=(5,)).decoder(jax.random.key(3), 1, (3,))
    defaults = {"latent_dim": 1, "num_inducing": 6, "kernel": RBF(lengthscale=0.3), "likelihood": Gaussian(noise=0.4),
                "encoder_steps": 1, "progress": False}  # fmt: skip
    return SGPBAE(decoder=in_double(decoder), **(defaults | arguments))


def kinetic_temperatures() -> Numbers:
    """Kinetic temperature of every block after a small fit."""
    model = small_model(num_warmup=200, num_samples=100, thinning=20).fit(*small_table())
    return {name: float(np.ravel(t)[0]) for name, t in model.kinetic_temperatures_().items()}


def cold_is_map(temperature: float = 1e-3) -> Numbers:
    """A cold run with a linear decoder: mean energy above the minimum, in units of d T/2, what a harmonic well has."""
    linear = networks.Linear().decoder(jax.random.key(3), 1, (3,))
    model = small_model(linear, temperature=temperature, num_warmup=300, num_samples=100, thinning=20)
    model.fit(*small_table())
    settled = jax.tree.map(lambda a: jnp.asarray(a[:, 50:]), model.draws_)
    _, unravel = ravel_pytree(jax.tree.map(lambda a: a[0, -1], settled))
    energy = lambda q: model.model_.energy(unravel(q), _full(model.table_))[0]  # noqa: E731
    flat = jax.vmap(jax.vmap(lambda d: ravel_pytree(d)[0]))(settled)
    excess = np.asarray(jax.jit(jax.vmap(jax.vmap(energy)))(flat)) - minimum(energy, flat[0, -1])
    return {"ratio": float(np.mean(excess)) / (0.5 * temperature * flat.shape[-1]), "excess": float(np.mean(excess))}


def minimum(energy: Callable, begin: Any) -> float:
    """The energy at the bottom of the well a point lies in, by BFGS."""
    compiled = jax.jit(jax.value_and_grad(energy))
    both = lambda q: tuple(np.asarray(a) for a in compiled(jnp.asarray(q)))  # noqa: E731
    options = {"gtol": 1e-5, "maxiter": 5000}
    return float(scipy.optimize.minimize(both, np.asarray(begin), jac=True, method="BFGS", options=options).fun)


# NUTS


def functionals(model: Autoencoder, table: Table, draws: Position) -> dict[str, np.ndarray]:
    """What symmetries of the network leave alone, each (chain, draw): outputs at every row, lengthscale, noise."""
    batch = _full(table)

    def outputs(d):
        return model.decode(d.shared, model.prior.latents(d.shared["prior"], d.local, batch))

    eta = np.asarray(jax.jit(jax.vmap(jax.vmap(outputs)))(jax.tree.map(jnp.asarray, draws)))
    named = {f"output[{n},{p}]": eta[:, :, n, p] for n in range(eta.shape[2]) for p in range(eta.shape[3])}
    kernel = draws.shared["prior"]["kernel"][0]
    named["log lengthscale"] = np.asarray(kernel.log_lengthscale)[:, :, 0]
    named["log noise"] = np.asarray(draws.shared["likelihood"].log_noise)
    return named


def nuts(model: Autoencoder, table: Table, starts: Position, seed: int, num_warmup: int, num_samples: int) -> Position:
    """A BlackJAX NUTS run of the same log joint, one chain per start: (chain, draw)."""
    import blackjax

    batch = _full(table)

    def log_density(position):
        return -model.energy(position, batch)[0]

    def one_chain(key, position):
        key_warm, key_run = jax.random.split(key)
        warm = blackjax.window_adaptation(blackjax.nuts, log_density, target_acceptance_rate=0.9)
        (state, parameters), _ = warm.run(key_warm, position, num_steps=num_warmup)
        kernel = blackjax.nuts(log_density, **parameters)

        def body(state, k):
            state, _ = kernel.step(k, state)
            return state, state.position

        return jax.lax.scan(body, state, jax.random.split(key_run, num_samples))[1]

    num_chains = jax.tree.leaves(starts)[0].shape[0]
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"), jax.debug_key_reuse(False):
        keys = jax.random.split(jax.random.key(seed), num_chains)
        return jax.tree.map(np.asarray, jax.jit(jax.vmap(one_chain))(keys, starts))


def agreement(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> Numbers:
    """Largest differences of means and of sds in combined Monte-Carlo errors, range of sd ratios, least ESS."""
    from arviz_stats.base import array_stats

    def ess(a):
        return float(array_stats.ess(a, chain_axis=0, draw_axis=1, method="mean"))

    def error(a, b):
        """|E a − E b| in standard errors, and the effective sizes behind it."""
        sizes = ess(a), ess(b)
        return abs(a.mean() - b.mean()) / np.sqrt(a.var() / sizes[0] + b.var() / sizes[1]), sizes

    means = {name: error(a, theirs[name]) for name, a in ours.items()}
    squares = [error((a - a.mean()) ** 2, (theirs[name] - theirs[name].mean()) ** 2)[0] for name, a in ours.items()]
    ratios = [a.std() / theirs[name].std() for name, a in ours.items()]
    least = np.min([sizes for _, sizes in means.values()], axis=0)
    return {"errors": max(e for e, _ in means.values()), "sd errors": max(squares), "low": min(ratios),
            "high": max(ratios), "ess": float(least[0]), "ess of NUTS": float(least[1])}  # fmt: skip


def against_nuts(num_samples: int = 1000, nuts_samples: int = 3000, num_rows: int = 30, **arguments: Any) -> Numbers:
    """A tiny SGP-BAE sampled by this package and by NUTS."""
    settings = {"num_warmup": 300, "num_samples": num_samples, "thinning": 20}
    model = small_model(**(settings | arguments)).fit(*small_table(num_rows))
    starts = jax.tree.map(lambda a: jnp.asarray(a[:, 0]), model.draws_)
    reference = nuts(model.model_, model.table_, starts, 1, max(300, nuts_samples // 3), nuts_samples)
    return agreement(*(functionals(model.model_, model.table_, d) for d in (model.draws_, reference)))


# Simulation-based calibration


def draw_from_prior(key: Any, model: Autoencoder, decoder: Any, table: Table) -> tuple[Position, Any]:
    """Everything from the prior of a sparse model with one group, then the cells it would give."""
    key_shared, key_inducing, key_latents, key_cells = jax.random.split(key, 4)
    start_at, values = model.init(key_shared, decoder, 1)
    seeds, values = sghmc.normal_like(key_shared, (start_at, values))
    hyper = model.prior.hyper_reference
    spread = lambda path: hyper.scale * (1.0 if "lengthscale" in jax.tree_util.keystr(path) else 0.5)  # noqa: E731
    kernel = jax.tree_util.tree_map_with_path(
        lambda path, a, e: a + spread(path) * e, start_at["prior"]["kernel"], seeds["prior"]["kernel"]
    )
    inducing = jax.random.logistic(key_inducing, start_at["prior"]["inducing"].shape)
    noise = jax.tree.map(jnp.add, start_at["likelihood"], seeds["likelihood"])
    shared = {"decoder": seeds["decoder"], "likelihood": noise, "prior": {"kernel": kernel, "inducing": inducing}}
    projection, variance = model.prior.project(shared["prior"], table.x)
    mean = gp.sparse_mean(projection, values, table.group)
    z = mean + jnp.sqrt(variance) * jax.random.normal(key_latents, mean.shape)
    y = model.observe(shared).sample(key_cells, model.decode(shared, z))
    return Position(shared, values, z), y


class Replicates(runs.Sampler):
    """Algorithm 1 with a table of its own for every chain, and a step size of its own."""

    def __init__(self, model, plan, table, cells, static, chains, budget):
        super().__init__(model, plan, table, static, chains, budget, lambda event: None)
        self.cells = cells
        self._compiled: dict[str, Any] = {}

    def _each(self, name, function, batched, *shared):
        """`function(table, chains, ...)` on every replicate as a run of one chain, compiled once."""

        def one(y, batched, *shared):
            chain, *rest = batched
            out = function(self.table._replace(y=y), jax.tree.map(lambda a: a[None], chain), *rest, *shared)
            return jax.tree.map(lambda a: a[0], out)

        axes = (0, 0, *(None for _ in shared))
        compiled = self._compiled.setdefault(name, jax.jit(jax.vmap(one, in_axes=axes)))
        return compiled(self.cells, batched, *shared)

    def _climb(self):
        steps = self.budget.num_map_steps
        rates = jnp.asarray(self.budget.map_rate * 0.5 * (1 + np.cos(np.pi * np.arange(steps) / steps)) + 1e-4)

        def climb(table, chains, rates):
            return inference.climb(self.model, self.plan, table, self.static, chains, rates)

        self.chains, _ = self._each("climb", climb, (self.chains,), rates)
        self._rescale()

    def _measure(self, chains, starting=False):
        def measure(table, chains, friction, starting):
            return inference.measure(self.model, self.plan, table, self.static, chains, friction, starting)

        return self._each("measure", measure, (chains,), jnp.asarray(self.budget.friction), jnp.asarray(starting))

    def _set_step_size(self, stiffness):
        self.stiffest = np.maximum(self.stiffest, np.asarray(stiffness.curvature))
        self.step_size = self.back_off * np.sqrt(self.budget.stiffness / self.stiffest)

    def _block(self, temperatures, adapting):
        def block(table, chains, step_size, temperatures, adapting):
            settings = sghmc.Settings(step_size, jnp.asarray(self.budget.friction), jnp.asarray(1.0))
            return inference.run_block(
                self.model, self.plan, table, self.static, chains, settings, temperatures, adapting
            )

        batched = (self.chains, jnp.asarray(self.step_size))
        return self._each("block", block, batched, jnp.asarray(temperatures), jnp.asarray(adapting))


CALIBRATION = runs.Budget(160, 31, 32, 300, 0.05, 1.0, "auto")


def calibration_ranks(
    num_replicates: int, seed: int = 0, budget: runs.Budget = CALIBRATION, amortised: bool = False
) -> dict[str, np.ndarray]:
    """Ranks of true values among posterior draws, tables drawn from the model's own prior: (replicates,) each."""
    estimator = small_model(networks.Linear().decoder(jax.random.key(3), 1, (3,)), num_inducing=5, standardise=False,
                            encoder_steps=0, likelihood=Gaussian(noise=0.5))  # fmt: skip
    x = np.linspace(0, 1, 20)[:, None]
    model, plan, table, decoder_of, encoder_of, _ = estimator._prepare(x, np.zeros((20, 3)), None)
    decoder, encoder = decoder_of(jax.random.key(0)), encoder_of(jax.random.key(0))
    draw = jax.jit(jax.vmap(lambda k: draw_from_prior(k, model, decoder, table)))
    truth, cells = draw(jax.random.split(jax.random.key(seed), num_replicates))
    rng = np.random.default_rng(seed)
    latents = [start.principal_latents(np.asarray(y), np.ones((20, 3), bool), 1, rng) for y in cells]
    begin = jax.jit(jax.vmap(lambda z, k: runs.start_chain(model, plan, table, decoder, encoder, z, k)))
    chains = begin(jnp.asarray(np.stack(latents)), jax.random.split(jax.random.key(seed + 1), num_replicates))
    static = eqx.filter(encoder, eqx.is_inexact_array, inverse=True)
    result = Replicates(model, plan, table, cells, static, chains, budget).run()
    ours = _calibrated(model, table, cells, result.draws)
    truth = _calibrated(model, table, cells, jax.tree.map(lambda a: a[:, None], truth))
    return {name: np.sum(ours[name] < truth[name], axis=1) for name in truth}


def _calibrated(model, table, cells, draws) -> dict[str, np.ndarray]:
    """Quantities that are ranked, each (replicate, draw); none changes with the sign of the latent."""
    draws = jax.tree.map(jnp.asarray, draws)
    named = functionals(model, table, draws)
    energy = jax.jit(jax.vmap(lambda y, d: jax.vmap(lambda p: model.energy(p, _full(table._replace(y=y)))[0])(d)))
    bias = np.asarray(draws.shared["decoder"].layers[-1].bias)
    return {
        "output": named["output[4,0]"],
        "latent times weight": named["output[12,1]"] - bias[:, :, 1],
        "latent": np.abs(np.asarray(draws.local)[:, :, 8, 0]),
        "lengthscale": named["log lengthscale"],
        "noise": named["log noise"],
        "energy": np.asarray(energy(cells, draws)),
    }


def p_values(ranks: dict[str, np.ndarray], num_ranks: int = 32, num_bins: int = 8) -> Numbers:
    """χ² test of uniformity of each quantity's ranks."""
    counts = {name: np.bincount(r * num_bins // num_ranks, minlength=num_bins) for name, r in ranks.items()}
    return {name: float(scipy.stats.chisquare(c).pvalue) for name, c in counts.items()}
