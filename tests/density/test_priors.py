"""The four latent priors are one family: special cases agree, densities transform, draws match moments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import checks
from checks import fresh
from gpbae import gp, linalg
from gpbae.answering import posterior
from gpbae.kernels import White
from gpbae.priors import DeepPrior, FullPrior, Memory, NormalPrior, Query, full

RNG = np.random.default_rng(0)
SIZES = (4, 2, 3)


def world(name, seed=0):
    """A prior with hyper-parameters and values off their start, latents, and the whole table as a batch."""
    prior, table = checks.PRIORS[name](), checks.ragged_table(SIZES)
    hyper, values = checks.perturbed(prior.init(jax.random.key(0), len(SIZES)), seed)
    local = jnp.asarray(np.random.default_rng(seed + 1).normal(size=(sum(SIZES), 2)))
    return prior, hyper, values, local, checks.full_batch(table)


def memory_and_query(prior, num=3):
    """Training latents of three groups; a query into two of them and into an unknown group."""
    table = checks.ragged_table(SIZES)
    x, valid = gp.gather(table.x, table.group_rows), table.group_rows < sum(SIZES)
    memory = Memory(x, valid, jnp.asarray(RNG.normal(size=(*valid.shape, prior.latent_dim))))
    known = jnp.asarray([True, True, False])
    x_new = jnp.asarray(RNG.uniform(0, 3, (3, num, 1)))
    return memory, Query(x_new, jnp.asarray([1, 0, 0]), known, jnp.ones((3, num), bool))


@pytest.mark.parametrize("name", checks.PRIORS)
def test_covariances_are_those_that_are_factorised(name, monkeypatch):
    """So that jitter is reported of the matrices that take it."""
    prior, hyper, _, _, batch = world(name)
    seen = []

    def spy(K):
        seen.append(K)
        return linalg.cholesky(K)

    monkeypatch.setattr(gp, "cholesky", spy)
    monkeypatch.setattr(full, "cholesky", spy)
    prior.law(hyper, batch)
    factorised = [np.asarray(K) for K in seen if not isinstance(K, jax.core.Tracer)]
    found = prior.covariances(hyper, batch)
    assert bool(found) == (name != "normal")
    for K in found:
        assert any(np.array_equal(K, a) for a in factorised)


def _log_latents(prior, hyper, values, local, batch):
    return fresh(lambda z: prior.law(hyper, batch).log_latents(values, z))(local)


def test_one_layer_deep_is_sparse():
    prior, hyper, values, local, batch = world("sparse")
    deep = DeepPrior((), prior, jnp.zeros((1, 0, 1)), jnp.ones(1))
    warp = {**hyper, "hidden": ()}
    memory, query = memory_and_query(prior)

    def everything(prior, hyper):
        again, _ = prior.law(hyper, batch).redraw_values(jax.random.key(0), values, local, jnp.ones(()))
        return prior.law(hyper, batch).log_latents(values, local), *prior.marginals(hyper, values, memory, query), again

    for a, b in zip(fresh(everything)(deep, warp), fresh(everything)(prior, hyper), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


def test_hidden_layer_at_rest_leaves_the_inputs_alone():
    """With no width the warp is the identity, whatever the seeds."""
    prior, hyper, values, local, batch = world("deep")
    flat = DeepPrior(prior.hidden, prior.last, prior.seeds, jnp.zeros(1))
    expected = _log_latents(prior.last, hyper, values, local, batch)
    np.testing.assert_allclose(_log_latents(flat, hyper, values, local, batch), expected, rtol=1e-10)


def test_deep_density_is_the_log_of_a_mean_not_the_mean_of_logs():
    checks.check_deep_density_is_the_log_of_a_mean()


def test_white_kernel_is_the_independent_prior():
    """K_xx + σ²I = I is BAE, up to the jitter."""
    _, _, _, local, batch = world("normal")
    hyper = checks.make_hyper(noise=1e-8, kernels=(White(variance=1.0),), sample=False)
    full = FullPrior(hyper, 2, False)
    expected = _log_latents(NormalPrior(2), {}, None, local, batch)
    np.testing.assert_allclose(_log_latents(full, hyper.init(), None, local, batch), expected, rtol=1e-5)


def test_whitened_and_centred_densities_agree_after_the_change_of_variables():
    """log p(ε) = log p(z = L ε) + log |dz/dε|, the Jacobian by automatic differentiation."""
    centred, hyper, _, _, batch = world("full")
    whitened = FullPrior(centred.hyper_reference, 2, True)
    local = jnp.asarray(RNG.normal(size=(sum(SIZES), 2)))
    z = fresh(lambda e: whitened.law(hyper, batch).latents(e))(local)
    jacobian = fresh(jax.jacfwd(lambda e: whitened.law(hyper, batch).latents(e).ravel()))(local).reshape(z.size, z.size)
    _, log_determinant = np.linalg.slogdet(jacobian)
    np.testing.assert_allclose(
        _log_latents(whitened, hyper, None, local, batch),
        _log_latents(centred, hyper, None, z, batch) + log_determinant,
        rtol=1e-6,  # the jitter also touches the padding
    )


def test_coordinates_stand_for_latents_near_the_given_ones():
    """A chain started at given latents starts there: exactly where nothing is whitened, smoothed where it is."""
    for name in ("sparse", "full"):
        prior, hyper, _, local, batch = world(name)
        law = prior.law(hyper, batch)
        np.testing.assert_array_equal(law.latents(law.coordinates(local)), local)
    prior, hyper, _, _, batch = world("full, whitened")
    smooth = jnp.sin(batch.x) * jnp.ones((1, 2))
    back = fresh(lambda z: prior.law(hyper, batch).latents(prior.law(hyper, batch).coordinates(z)))(smooth)
    assert np.all(np.mean((back - smooth) ** 2, axis=0) < 0.1 * np.mean(smooth**2, axis=0))


@pytest.mark.parametrize("name", checks.PRIORS)
def test_density_does_not_depend_on_the_order_of_rows(name):
    prior, hyper, values, local, batch = world(name)
    order = jnp.asarray(RNG.permutation(sum(SIZES)))
    place = jnp.argsort(order)
    blocks = jnp.where(batch.blocks < sum(SIZES), place.at[batch.blocks].get(mode="clip"), sum(SIZES))
    rows = {name: getattr(batch, name)[order] for name in ("x", "y", "mask", "valid", "slot")}
    shuffled = batch._replace(**rows, blocks=blocks)
    both = fresh(lambda z, b: (prior.law(hyper, b).log_latents(values, z), prior.law(hyper, b).latents(z)))
    (density, latents), (again, moved) = both(local, batch), both(local[order], shuffled)
    np.testing.assert_allclose(again, density, rtol=1e-10)
    np.testing.assert_allclose(moved, latents[order], rtol=1e-8)


@pytest.mark.parametrize("name", checks.PRIORS)
def test_invalid_rows_do_not_count(name):
    """Padding adds nothing to the density, whatever stands in it."""
    prior, hyper, values, local, batch = world(name)
    N = sum(SIZES)
    pad = lambda a, fill: jnp.concatenate([a, jnp.full((2, *a.shape[1:]), fill, a.dtype)])  # noqa: E731
    padded = batch._replace(
        x=pad(batch.x, 1.0), y=pad(batch.y, 0.0), mask=pad(batch.mask, False), valid=pad(batch.valid, False),
        slot=pad(batch.slot, 0), blocks=jnp.where(batch.blocks == N, N + 2, batch.blocks),
    )  # fmt: skip
    found = _log_latents(prior, hyper, values, pad(local, 9.0), padded)
    np.testing.assert_allclose(found, _log_latents(prior, hyper, values, local, batch), rtol=1e-10)


@pytest.mark.parametrize("name", ["normal", "sparse", "full"])
def test_paths_have_the_marginal_moments(name):
    """Deep marginals are a mixture over fixed seeds, an approximation of what a path draws, so they are left out."""
    prior, hyper, values, _, _ = world(name)
    memory, query = memory_and_query(prior)
    law = fresh(prior.marginals)(hyper, values, memory, query)
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(1), i))(jnp.arange(4000))
    draws = jax.jit(jax.vmap(lambda k: prior.path(k, hyper, values, memory, query)))(keys)
    checks.assert_within_errors(draws, law.mean[0])
    checks.assert_within_errors((np.asarray(draws) - np.asarray(law.mean[0])) ** 2, law.variance[0])


@pytest.mark.parametrize("name", ["normal", "sparse", "deep", "full"])
def test_standardised_coordinates_have_the_density_of_the_latents(name):
    """log p(seed) = log p(z) + log |dz/dseed|, one query row at a time where rows are independent given v."""
    prior, hyper, values, _, _ = world(name)
    memory, query = memory_and_query(prior, num=1)
    seed = jnp.asarray(RNG.normal(size=(3, 1, 2)))
    z, log_density = fresh(prior.whitened)(hyper, values, memory, query, seed)
    law = fresh(prior.marginals)(hyper, values, memory, query)
    mixture = jax.scipy.special.logsumexp(
        jnp.sum(norm.logpdf(z[None], law.mean, jnp.sqrt(law.variance)), axis=(2, 3)), axis=0
    ) - jnp.log(law.mean.shape[0])
    slopes = fresh(jax.jacfwd(lambda s: prior.whitened(hyper, values, memory, query, s)[0]))(seed)
    for g in range(3):
        _, log_determinant = np.linalg.slogdet(slopes[g, 0, :, g, 0, :])
        np.testing.assert_allclose(log_density[g], mixture[g] + log_determinant, rtol=1e-4)


def test_an_unknown_group_has_the_prior_law():
    """Exact process: without known rows the marginal is N(0, k(x, x) + σ²)."""
    prior, hyper, _, _, _ = world("full")
    memory, query = memory_and_query(prior)
    law = fresh(prior.marginals)(hyper, None, memory, query)
    kernels, noise = prior.hyper_reference.resolve(hyper)
    np.testing.assert_allclose(law.mean[0, 2], 0.0, atol=1e-12)
    np.testing.assert_allclose(law.variance[0, 2], jnp.exp(kernels[0].log_variance) + noise**2, rtol=1e-6)
    assert np.all(law.variance[0, 0] < law.variance[0, 2])


@pytest.mark.parametrize("name", checks.PRIORS)
def test_hyper_priors_are_named_and_finite(name):
    prior, hyper, _, _, _ = world(name)
    terms = fresh(prior.log_hyper)(hyper)
    assert all(np.isfinite(t) for t in terms.values())
    assert ("kernel prior" in terms) == (name != "normal")
    assert all(np.all(np.isfinite(v)) for v in prior.describe(hyper).values())


def test_redrawn_values_are_stationary_under_the_joint_density():
    """Geweke's joint test: v ~ N(0, I), z | v, then v′ | z has the law of v again."""
    prior, hyper, _, _, batch = world("sparse")
    projection, variance = fresh(prior.project)(hyper, batch.x)

    def one(index):
        key_values, key_latents, key_redraw = jax.random.split(jax.random.fold_in(jax.random.key(2), index), 3)
        v = jax.random.normal(key_values, (len(SIZES), 2, 4))
        xi = jax.random.normal(key_latents, (sum(SIZES), 2))
        z = gp.sparse_mean(projection, v, batch.slot) + jnp.sqrt(variance) * xi
        again, _ = prior.law(hyper, batch).redraw_values(key_redraw, v, z, jnp.ones(()))
        return again, again**2

    first, second = jax.jit(jax.vmap(one))(jnp.arange(500))
    checks.assert_within_errors(first, 0.0)
    checks.assert_within_errors(second, 1.0)


def test_every_component_of_a_mixture_is_as_likely_as_any():
    """Also where fewer are drawn than there are, and where their number does not divide."""
    for num_components, num in ((8, 4), (3, 5), (1, 4)):
        keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(1), i))(jnp.arange(3000))
        drawn = jax.vmap(lambda k, Q=num_components, R=num: posterior._components(k, Q, R))(keys)
        shares = np.stack([np.mean(np.asarray(drawn) == q, axis=1) for q in range(num_components)], axis=1)
        if num_components > 1 and num % num_components:
            checks.assert_within_errors(shares, 1 / num_components)
        else:
            np.testing.assert_allclose(shares.mean(axis=0), 1 / num_components)


@pytest.mark.parametrize("name", checks.ROWWISE)
def test_the_spread_of_a_row_is_that_of_its_density(name):
    prior, hyper, values, local, batch = world(name)
    law = prior.law(hyper, batch)
    mean, sd = (np.broadcast_to(a, local.shape) for a in law.spread(values))
    axis = np.linspace(-8.0, 8.0, 401)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    log_rows = jax.jit(lambda grid: jax.lax.map(lambda z: law.log_rows(values, jnp.broadcast_to(z, local.shape)), grid))
    weight = np.exp(np.asarray(log_rows(jnp.asarray(grid)))) * (axis[1] - axis[0]) ** 2
    np.testing.assert_allclose(weight.sum(axis=0), 1.0, rtol=1e-5)
    first = weight.T @ grid
    np.testing.assert_allclose(first, mean, atol=1e-4)
    np.testing.assert_allclose(np.sqrt(weight.T @ grid**2 - first**2), sd, rtol=1e-3)


@pytest.mark.parametrize("name", ["normal", "sparse", "full", "full, whitened"])
def test_seeds_are_standard_normal_coordinates_of_the_latents(name):
    """There and back, and log p(ε) = log p(z | v) + log |dz/dε|."""
    prior, hyper, values, local, batch = world(name)
    law = prior.law(hyper, batch)
    seeds = fresh(law.seeds)(values, local)
    again, log_volume = fresh(law.placed)(values, seeds)
    np.testing.assert_allclose(again, local, rtol=1e-7, atol=1e-9)
    density = _log_latents(prior, hyper, values, local, batch) + log_volume
    np.testing.assert_allclose(density, np.sum(norm.logpdf(seeds)), rtol=1e-6)
