"""Small worlds and the checks that several test files share; the mutation test plants a bug and expects them to fail.

Everything is called through its module (`sghmc.step`, not `step`) and traced afresh, so that a planted bug is seen.
"""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.special
import scipy.stats

from gpbae import gp, likelihoods, networks, weights
from gpbae.autoencoder import Autoencoder, Position
from gpbae.kernels import RBF
from gpbae.priors import DeepPrior, FullPrior, Hyper, NormalPrior, SparsePrior, inducing
from gpbae.sampling import batches, inference, refreshing, sghmc

QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def fresh(function):
    """`function` compiled anew, and in a hurry: no patch is hidden by a cache, and most are called once."""
    return jax.jit(lambda *args: function(*args), compiler_options=QUICK)


# Monte Carlo


def z_scores(per_chain, exact):
    """(mean over chains − exact) in Monte-Carlo standard errors, found from the spread of the independent chains."""
    per_chain = np.asarray(per_chain)
    error = per_chain.std(axis=0, ddof=1) / np.sqrt(len(per_chain))
    return (per_chain.mean(axis=0) - exact) / error


def assert_within_errors(per_chain, exact, num_errors=4.5):
    worst = np.max(np.abs(z_scores(per_chain, exact)))
    assert worst < num_errors, f"{worst:.1f} Monte-Carlo errors away, allowed {num_errors}"


def settings(step_size, friction=0.05, temperature=1.0, noise=None):
    return sghmc.Settings(jnp.asarray(float(step_size)), jnp.asarray(friction), jnp.asarray(temperature), noise)


class Trace(NamedTuple):
    """Axes (chain, kept step, ...)."""

    position: np.ndarray
    kinetic_temperature: np.ndarray
    fraction_clamped: np.ndarray


def simulate(seed, gradient, state, step_settings, num_chains, burn_in, num_steps, thin=1):
    """Many independent chains from one state; `gradient(key, position)` may be noisy."""

    def advance(key, state, index):
        key_gradient, key_step = jax.random.split(jax.random.fold_in(key, index))
        return sghmc.step(key_step, state, gradient(key_gradient, state.position), step_settings)

    def one_chain(index):
        key = jax.random.fold_in(jax.random.key(seed), index)

        def kept(state, block):
            def inner(state, i):
                state, info = advance(key, state, block * thin + i)
                return state, (info.kinetic_temperature, info.fraction_clamped)

            state, (kinetic, clamped) = jax.lax.scan(inner, state, jnp.arange(thin))
            return state, Trace(state.position, jnp.mean(kinetic), jnp.mean(clamped))

        first = -(-burn_in // thin)
        warm, _ = jax.lax.scan(lambda s, b: (kept(s, b)[0], None), state, jnp.arange(first))
        return jax.lax.scan(kept, warm, first + jnp.arange(num_steps // thin))[1]

    return jax.tree.map(np.asarray, jax.jit(jax.vmap(one_chain))(jnp.arange(num_chains)))


# The exact law of the discretised chain on a Gaussian target


def exact_law(precision, state, step_size, friction, temperature):
    """Covariance of position and E v² of the stationary chain on N(0, H⁻¹), from Σ = A Σ Aᵀ + Q."""
    H, c, m = (np.asarray(a) for a in (precision, state.scale, 1 / jnp.sqrt(state.preconditioner)))
    d, eta2 = len(H), step_size**2
    force = eta2 * m[:, None] * (c[:, None] * H * c[None])
    decay = (1 - friction) * np.eye(d)
    A = np.block([[np.eye(d) - force, decay], [-force, decay]])
    noise = np.diag(2 * temperature * eta2 * friction * m)
    joint = scipy.linalg.solve_discrete_lyapunov(A, np.block([[noise, noise], [noise, noise]]))
    return c[:, None] * joint[:d, :d] * c[None], np.diag(joint)[d:]


def ill_conditioned(dim=20, condition=1e3, seed=0):
    """A precision with the given condition number and no preferred axes, and a state with uneven preconditioner."""
    rng = np.random.default_rng(seed)
    R = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    H = jnp.asarray((R * np.geomspace(1.0, condition, dim)) @ R.T)
    state = sghmc.init(jnp.zeros(dim), jnp.asarray(rng.uniform(0.7, 1.4, dim)))
    return H, state._replace(preconditioner=jnp.asarray(rng.uniform(0.5, 2.0, dim)))


def step_for(precision, state, stiffness):
    """η with η² λ_max(M^½ H M^½) = stiffness."""
    root = np.asarray(state.scale * state.preconditioner**-0.25)
    return float(np.sqrt(stiffness / np.linalg.eigvalsh(root[:, None] * np.asarray(precision) * root[None])[-1]))


def check_gaussian_law(
    precision, state, step_size, temperature, friction=0.05, num_chains=256, burn_in=1000, num_steps=2000
):
    """Mean, covariance and kinetic temperature of the chain are those of the exact discretised law."""
    covariance, kinetic = exact_law(precision, state, step_size, friction, temperature)
    chosen = settings(step_size, friction, temperature)
    trace = simulate(1, lambda key, x: precision @ x, state, chosen, num_chains, burn_in, num_steps, 10)
    i, j = np.tril_indices(len(covariance))
    products = np.mean(trace.position[:, :, i] * trace.position[:, :, j], axis=1)
    assert_within_errors(np.mean(trace.position, axis=1), 0.0)
    assert_within_errors(products, covariance[i, j])
    exact_kinetic = np.mean(kinetic * np.sqrt(np.asarray(state.preconditioner))) * (2 - friction) / (2 * step_size**2)
    assert_within_errors(np.mean(trace.kinetic_temperature, axis=1), exact_kinetic)
    assert np.all(trace.fraction_clamped == 0)


def check_one_dimensional_gaussian_law():
    check_gaussian_law(4.0 * jnp.eye(1), sghmc.init(jnp.zeros(1)), 0.2, 1.0, num_chains=512, burn_in=400)


def check_clamping_is_reported():
    """Gradient noise beyond what is injected cannot be corrected: the share of such coordinates is said."""
    noise = jnp.asarray([0.0, 0.0, 1e6, 1e6])
    _, info = sghmc.step(jax.random.key(0), sghmc.init(jnp.zeros(4)), jnp.ones(4), settings(0.1, noise=noise))
    assert info.fraction_clamped == 0.5
    _, info = sghmc.step(jax.random.key(0), sghmc.init(jnp.zeros(4)), jnp.ones(4), settings(1e-5, noise=noise))
    assert info.fraction_clamped == 0.0


ADAPTED = ("preconditioner", "smoothed", "window", "scale")


def adapted_bits(state):
    return [np.asarray(leaf).tobytes() for name in ADAPTED for leaf in jax.tree.leaves(getattr(state, name))]


def check_step_freezes_the_preconditioner():
    state, gradient = sghmc.init(jnp.zeros(3)), jnp.asarray([0.5, -2.0, 3.0])
    moved, _ = sghmc.step(jax.random.key(0), state, gradient, settings(0.1))
    assert adapted_bits(moved) == adapted_bits(state)
    learned, _ = sghmc.warmup_step(jax.random.key(0), state, gradient, settings(0.1))
    for name in ("preconditioner", "smoothed", "window"):
        assert np.all(getattr(learned, name) != getattr(state, name)), name


def check_every_leaf_has_its_own_noise():
    tree = {"a": jnp.zeros(5000), "b": jnp.zeros((50, 100)), "c": jnp.zeros(5000)}
    draws = sghmc.normal_like(jax.random.key(3), tree)
    columns = np.stack([np.ravel(leaf) for leaf in jax.tree.leaves(draws)])
    correlation = np.corrcoef(columns)[np.triu_indices(3, 1)]
    assert np.all(np.abs(correlation) < 4.5 / np.sqrt(5000)), correlation


# A small autoencoder in float64

SIZES = (5, 2, 4, 1)


def ragged_table(sizes=SIZES, num_columns=3, num_inputs=1, hidden=0.3, seed=0):
    """Groups of different length with interleaved rows; hidden cells hold NaN."""
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    N = len(group)
    mask = rng.random((N, num_columns)) >= hidden
    rows = np.full((len(sizes), max(sizes)), N)
    for g in range(len(sizes)):
        members = np.flatnonzero(group == g)
        rows[g, : len(members)] = members
    y = np.where(mask, rng.normal(size=(N, num_columns)), np.nan)
    x = rng.permutation(np.linspace(0, 3, N))[:, None] * np.ones(num_inputs)
    return batches.Table(*(jnp.asarray(a) for a in (x, y, mask, group, rows)))


def make_hyper(noise=0.3, kernels=None, sample=True):
    kernels = (RBF(lengthscale=0.8),) if kernels is None else kernels
    return Hyper(kernels, jnp.asarray(noise), jnp.ones(()), sample, sample)


def sparse_prior(num_inducing=4, latent_dim=2, hyper=None, sample=True):
    S = jnp.linspace(0.1, 2.9, num_inducing)[:, None]
    box = inducing.Uniform(jnp.asarray([-0.3]), jnp.asarray([3.3]))
    return SparsePrior(make_hyper(sample=sample) if hyper is None else hyper, box, S, latent_dim, sample)


def deep_prior(num_layers=2, num_seeds=4, latent_dim=2, sample=True):
    seeds = np.random.default_rng(5).normal(size=(num_seeds, num_layers - 1, 1))
    hidden = tuple(sparse_prior(3, 1, sample=sample) for _ in range(num_layers - 1))
    return DeepPrior(hidden, sparse_prior(4, latent_dim, sample=sample), jnp.asarray(seeds), jnp.asarray([0.7]))


PRIORS = {
    "normal": lambda: NormalPrior(2),
    "sparse": sparse_prior,
    "deep": deep_prior,
    "full": lambda: FullPrior(make_hyper(), 2, False),
    "full, whitened": lambda: FullPrior(make_hyper(), 2, True),
}
ROWWISE = ("normal", "sparse", "deep")


def perturbed(tree, seed=0, size=0.3):
    """A tree moved off its start, so that no term is zero by accident."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda a: a + jnp.asarray(size * rng.normal(size=a.shape), a.dtype), tree)


def make_model(prior="sparse", network="linear", values_are_local=False, likelihood=None, table=None):
    """A model in float64, its table and a position of all rows."""
    table = ragged_table() if table is None else table
    prior = PRIORS[prior]() if isinstance(prior, str) else prior
    decoder = networks.build_decoder(network, jax.random.key(0), prior.latent_dim, (table.y.shape[1],))
    decoder = jax.tree.map(lambda a: a.astype(jnp.float64) if eqx.is_inexact_array(a) else a, decoder)
    static = eqx.filter(decoder, eqx.is_inexact_array, inverse=True)
    likelihood = likelihoods.Gaussian(noise=0.5) if likelihood is None else likelihood
    model = Autoencoder(prior, static, weights.FanIn(), likelihood, values_are_local)
    shared, values = model.init(jax.random.key(1), decoder, table.group_rows.shape[0])
    local = jnp.zeros((table.x.shape[0], prior.latent_dim))
    return model, table, perturbed(Position(shared, values, local))


def make_plan(batching, amortised=False, sampler_steps=2, encoder_steps=0):
    return inference.Plan(batching, sampler_steps, encoder_steps, amortised, refresh=False)


def full_batch(table):
    batching = batches.FullBatch()
    return batching.batch(table, batching.select(jax.random.key(0), table))


def row_partition(table, size):
    """The selections that visit every row once."""
    order = np.random.default_rng(2).permutation(len(table.x)).reshape(-1, size)
    groups = jnp.arange(table.group_rows.shape[0])
    return batches.RowBatch(size), [batches.Selection(jnp.asarray(rows), groups) for rows in order]


def group_partition(table, num_groups):
    order = np.random.default_rng(3).permutation(table.group_rows.shape[0]).reshape(-1, num_groups)
    pick = lambda g: batches.Selection(table.group_rows[g].reshape(-1), g)  # noqa: E731
    return batches.GroupBatch(num_groups), [pick(jnp.asarray(g)) for g in order]


def relative_error(tree, reference):
    """Largest difference in units of the largest reference entry, leaf by leaf."""
    pairs = zip(jax.tree.leaves(tree), jax.tree.leaves(reference), strict=True)
    return max(float(jnp.max(jnp.abs(a - b)) / (jnp.max(jnp.abs(b)) + 1e-12)) for a, b in pairs)


def check_minibatches(prior="sparse", by_groups=False, size=4):
    """Over a full partition, energies and global gradients average to the full-batch values, and the gradient of a
    row's latent (and of a group's own values) is in every batch what it is in the whole table."""
    model, table, position = make_model(prior, values_are_local=by_groups)
    batching, selections = (group_partition if by_groups else row_partition)(table, size)
    whole = dataclasses.replace(model, values_are_local=False)
    energy, gradient = fresh(jax.value_and_grad(lambda p: whole.energy(p, full_batch(table))[0]))(position)
    parts = fresh(model.gradient)
    energies, globals_ = [], []
    for selection in selections:
        part = inference.take_position(position, selection, make_plan(batching))
        found, terms = parts(part, batching.batch(table, selection))
        energies.append(-sum(terms.values()))
        globals_.append(found.shared if by_groups else (found.shared, found.values))
        valid = np.asarray(selection.rows) < len(table.x)
        rows = np.asarray(selection.rows)[valid]
        assert relative_error(found.local[valid], gradient.local[rows]) < 1e-6, "local gradients have weight one"
        if by_groups and position.values is not None:
            assert relative_error(found.values, gradient.values[selection.groups]) < 1e-6, "values are local"
    assert relative_error(np.mean(energies), energy) < 1e-6, "energies average to the whole"
    average = jax.tree.map(lambda *g: sum(g) / len(g), *globals_)
    expected = gradient.shared if by_groups else (gradient.shared, gradient.values)
    assert relative_error(average, expected) < 1e-6, "gradients of global variables average to the whole"


def central_difference(function, tree, direction, size=1e-5):
    shifted = lambda e: function(jax.tree.map(lambda a, u: a + e * u, tree, direction))  # noqa: E731
    return (shifted(size) - shifted(-size)) / (2 * size)


def check_gradient_is_the_derivative_of_the_energy(prior="sparse", network="linear"):
    """On a full batch the sampler's gradient is that of −log p, against central differences of the sum of terms."""
    model, table, position = make_model(prior, network)
    batch = full_batch(table)
    energy = fresh(lambda p: -sum(model.log_joint(p, batch).values()))
    gradient, _ = fresh(model.gradient)(position, batch)
    for seed in range(3):
        direction = perturbed(jax.tree.map(jnp.zeros_like, position), seed, 1.0)
        slope = sum(jnp.sum(g * u) for g, u in zip(*map(jax.tree.leaves, (gradient, direction)), strict=True))
        np.testing.assert_allclose(slope, central_difference(energy, position, direction), rtol=1e-6)


# Densities


def check_masked_gaussian_counts_observed_cells_only():
    """log p is scipy's on observed cells and zero on hidden ones, whatever stands in them."""
    y = jnp.asarray([[0.3, jnp.nan, -1.0], [jnp.nan, jnp.nan, 2.0]])
    mask = jnp.isfinite(y)
    eta = jnp.asarray([[0.1, 0.2, -0.5], [4.0, 5.0, 1.0]])
    likelihood = likelihoods.Gaussian(noise=0.7)
    expected = np.where(mask, scipy.stats.norm.logpdf(np.nan_to_num(y), eta, 0.7), 0.0)
    np.testing.assert_allclose(likelihood.log_prob(y, mask, eta), expected, rtol=1e-12)
    gradient = jax.grad(lambda e: jnp.sum(likelihood.log_prob(y, mask, e)))(eta)
    np.testing.assert_allclose(gradient, np.where(mask, (np.nan_to_num(y) - eta) / 0.7**2, 0.0), rtol=1e-12)


def spread_inputs(num=8):
    return jnp.asarray(np.random.default_rng(7).permutation(np.linspace(0, 6, num)))[:, None]


def check_exact_density_is_multivariate_normal():
    """Σ over ragged groups and channels of log N(z; 0, K + σ²I), the padding without a say."""
    rng = np.random.default_rng(0)
    kernel, valid = RBF(lengthscale=0.8, variance=1.3), np.array([[True] * 5, [True, True, False, True, False]])
    x, z = rng.uniform(0, 4, (2, 5, 1)), rng.normal(size=(2, 5, 3))

    def density(x, z, valid):
        return gp.exact_log_density(gp.cholesky(gp.block_covariance((kernel,), x, valid, jnp.asarray(0.09))), z, valid)

    total = fresh(density)(*map(jnp.asarray, (x, z, valid)))
    expected = 0.0
    for g in range(2):
        xs, zs = x[g, valid[g]], z[g, valid[g]]
        K = 1.3 * np.exp(-0.5 * ((xs - xs.T) / 0.8) ** 2) + 0.09 * np.eye(len(xs))
        expected += sum(scipy.stats.multivariate_normal(np.zeros(len(xs)), K).logpdf(c) for c in zs.T)
    np.testing.assert_allclose(total, expected, rtol=1e-5)


def check_fitc_at_the_data_is_the_exact_process():
    """With S = X and v integrated out the sparse density is the exact one, to 1e-6."""
    x, z = spread_inputs(), jnp.asarray(np.random.default_rng(1).normal(size=(8, 2)))
    kernels, noise = (RBF(lengthscale=0.5, variance=1.7),), jnp.asarray(0.5)

    def densities(x, z):
        valid = jnp.ones((1, 8), bool)
        L = gp.cholesky(gp.block_covariance(kernels, x[None], valid, noise**2))
        sparse = gp.values_posterior(gp.sparse_projection(kernels, x, x), z, noise**2, jnp.arange(8)[None]).log_marginal
        return sparse, gp.exact_log_density(L, z[None], valid)

    sparse, exact = fresh(densities)(x, z)
    np.testing.assert_allclose(sparse, exact, rtol=1e-6)
    K = 1.7 * np.exp(-0.5 * ((np.asarray(x) - np.asarray(x).T) / 0.5) ** 2) + 0.25 * np.eye(8)
    scipy_value = sum(scipy.stats.multivariate_normal(np.zeros(8), K).logpdf(c) for c in np.asarray(z).T)
    np.testing.assert_allclose(exact, scipy_value, rtol=1e-5)


def check_deep_density_is_the_log_of_a_mean():
    """log (1/Q) Σ_q Π_c N(z_c; …), from the propagated inputs, by brute force."""
    prior = deep_prior(num_layers=3)
    hyper, values = perturbed(prior.init(jax.random.key(0), 1), size=0.5)
    table = ragged_table((7,))
    z = jnp.asarray(np.random.default_rng(2).normal(size=(7, 2)))
    components = []

    def moments(h):
        projection, variance = prior.last.project(hyper, h)
        return gp.sparse_mean(projection, values, table.group), variance

    for mean, variance in map(fresh(moments), fresh(prior.propagate)(hyper, table.x)):
        components.append(np.prod(scipy.stats.norm.pdf(z, mean, np.sqrt(variance)), axis=1))
    expected = np.sum(np.log(np.mean(components, axis=0)))
    found = fresh(lambda z: prior.law(hyper, full_batch(table)).log_latents(values, z))(z)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


# Algorithm 1, one sweep at a time


def make_chain(model, plan, table, position, encoder):
    trainable = eqx.filter(encoder, eqx.is_inexact_array)
    if plan.amortised:
        rows = plan.batching.select(jax.random.key(0), table).rows.shape[0]
        position = position._replace(local=jnp.zeros((rows, model.prior.latent_dim)))
    scale = jax.tree.map(jnp.ones_like, position)
    scale = scale._replace(local=scale.local[:1]) if plan.amortised else scale
    sampler = sghmc.init(position, scale)
    optimiser = inference.optimiser(plan).init(trainable)
    refresh = refreshing.init(scale.shared["prior"])
    return inference.Chain(sampler, trainable, optimiser, refresh, None, jax.random.key(4), jnp.zeros((), jnp.int64))


def make_sweep(amortised):
    """A chain, and one compiled sweep of it as a function of the chain and whether it adapts."""
    model, table, position = make_model("normal")
    plan = make_plan(batches.RowBatch(3), amortised)
    encoder = networks.build_encoder("linear", jax.random.key(2), (table.y.shape[1],), model.prior.latent_dim)
    static = eqx.filter(encoder, eqx.is_inexact_array, inverse=True)
    chain = make_chain(model, plan, table, position, encoder)
    return chain, fresh(lambda c, a: inference._sweep(model, plan, table, static, settings(1e-2), a, c)[0])


def check_newborn_latents_inherit_no_momentum():
    """After a sweep with amortised latents nothing remembers the momentum that other rows had before it."""
    chain, sweep = make_sweep(amortised=True)
    momentum = chain.sampler.momentum
    wild = chain.sampler._replace(momentum=momentum._replace(local=momentum.local + 100.0))
    first, second = sweep(chain, jnp.asarray(False)), sweep(chain._replace(sampler=wild), jnp.asarray(False))
    for a, b in zip(jax.tree.leaves(first.sampler), jax.tree.leaves(second.sampler), strict=True):
        np.testing.assert_array_equal(a, b)


def check_sampling_sweeps_freeze_the_preconditioner():
    """A sweep adapts when it is told to, and leaves every adapted bit alone when it is not."""
    chain, sweep = make_sweep(amortised=False)
    assert adapted_bits(sweep(chain, jnp.asarray(True)).sampler) != adapted_bits(chain.sampler)
    assert adapted_bits(sweep(chain, jnp.asarray(False)).sampler) == adapted_bits(chain.sampler)


def check_every_step_has_its_own_noise():
    """Without a force and with full friction, the increments of successive steps are independent draws."""
    trace = simulate(0, lambda key, x: jnp.zeros_like(x), sghmc.init(jnp.zeros(50)), settings(0.1, 1.0), 20, 0, 40)
    steps = np.diff(trace.position, axis=1)[:, 1:]
    lag = np.mean(steps[:, 1:] * steps[:, :-1], axis=(1, 2)) / np.mean(steps**2, axis=(1, 2))
    assert_within_errors(lag, 0.0)
