"""Conditionals of the exact and the sparse process against brute force, SciPy and scikit-learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import sklearn.gaussian_process as sk
from sklearn.gaussian_process import kernels as sk_kernels

import checks
from checks import fresh
from gpbae import gp
from gpbae.kernels import RBF, Matern32, gram
from gpbae.priors import inducing

RNG = np.random.default_rng(0)
KERNELS = {
    "shared": (RBF(lengthscale=0.8),),
    "one per channel": (RBF(lengthscale=0.5), Matern32(lengthscale=1.0, variance=2.0)),
    "one of a kind per channel": (RBF(lengthscale=0.5), RBF(lengthscale=1.0, variance=2.0)),
}


def test_exact_density_is_a_multivariate_normal_over_ragged_groups():
    checks.check_exact_density_is_multivariate_normal()


def test_fitc_is_exact_when_inducing_inputs_are_the_data():
    checks.check_fitc_at_the_data_is_the_exact_process()


@pytest.mark.parametrize("name", KERNELS)
def test_sparse_marginals_are_gaussian_conditionals(name):
    """E and Var of f given u = L v, from the joint covariance of (u, f)."""
    kernels, x, S = KERNELS[name], jnp.asarray(RNG.uniform(0, 3, (6, 1))), jnp.linspace(0, 3, 4)[:, None]
    values = jnp.asarray(RNG.normal(size=(1, 2, 4)))
    projection = fresh(gp.sparse_projection)(kernels, x, S)
    mean = gp.sparse_mean(projection, values, jnp.zeros(6, int))
    variance = gp.sparse_variance(projection, 2)
    for c in range(2):
        k = kernels[c % len(kernels)]
        L = np.asarray(gp.cholesky(gram(k, S, S)))
        W = np.linalg.solve(L @ L.T, np.asarray(gram(k, S, x))).T
        np.testing.assert_allclose(mean[:, c], W @ (L @ values[0, c]), rtol=1e-8)
        joint = np.asarray(gram(k, x, x)) - W @ np.asarray(gram(k, S, x))
        np.testing.assert_allclose(variance[:, c], np.diag(joint), rtol=1e-7)
        full = fresh(gp.sparse_joint_covariance)(kernels, x, S)[c % len(kernels)]
        np.testing.assert_allclose(full, joint, atol=1e-9)


@pytest.mark.parametrize("name", KERNELS)
def test_values_posterior_is_brute_force_conditioning(name):
    """Joint Gaussian of (v, z) over ragged groups, conditioned on z with plain inverses."""
    table = checks.ragged_table((4, 2, 3))
    kernels, S, N = KERNELS[name], jnp.linspace(0, 3, 3)[:, None], 9
    z = jnp.asarray(RNG.normal(size=(N, 2)))
    projection = fresh(gp.sparse_projection)(kernels, table.x, S)
    variance = gp.sparse_variance(projection, 2) + 0.2
    law = fresh(gp.values_posterior)(projection, z, jnp.asarray(0.2), table.group_rows)
    A, log_marginal, log_determinant = np.asarray(projection.weights), 0.0, 0.0
    for g in range(3):
        rows = np.flatnonzero(table.group == g)
        for c in range(2):
            a = A[c % len(A)][:, rows]
            cov_z = a.T @ a + np.diag(np.asarray(variance)[rows, c])
            expected = a @ np.linalg.solve(cov_z, np.asarray(z)[rows, c])
            covariance = np.eye(3) - a @ np.linalg.solve(cov_z, a.T)
            np.testing.assert_allclose(law.mean[g, c], expected, rtol=1e-4, atol=1e-4)
            L = np.asarray(law.factor[g, c % len(A)])
            np.testing.assert_allclose(np.linalg.inv(L @ L.T), covariance, atol=1e-4)
            log_marginal += scipy.stats.multivariate_normal(np.zeros(len(rows)), cov_z).logpdf(np.asarray(z)[rows, c])
            log_determinant -= np.linalg.slogdet(covariance)[1]
    np.testing.assert_allclose(law.log_marginal, log_marginal, rtol=1e-5)
    np.testing.assert_allclose(law.log_determinant, log_determinant, rtol=1e-4)


def test_draws_of_the_values_have_the_posterior_moments():
    L = jnp.asarray(np.linalg.cholesky(np.array([[2.0, 0.5], [0.5, 1.0]])))[None, None]
    mean = jnp.asarray([[[1.0, -1.0]]])
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(0), i))(jnp.arange(4000))
    law = gp.ValuesPosterior(mean, L, jnp.zeros(()), jnp.zeros(()))
    draws, shown = jax.vmap(lambda k: gp.draw_values(k, law, jnp.asarray(0.5)))(keys)
    checks.assert_within_errors(shown, 0.5)
    draws = draws[:, 0, 0]
    checks.assert_within_errors(draws, mean[0, 0])
    residual = np.asarray(draws) - np.asarray(mean[0, 0])
    products = residual[:, [0, 0, 1]] * residual[:, [0, 1, 1]]
    checks.assert_within_errors(products, 0.5 * np.linalg.inv([[2.0, 0.5], [0.5, 1.0]])[[0, 0, 1], [0, 1, 1]])


@pytest.mark.parametrize("dim", [1, 2])
def test_exact_conditional_is_gaussian_process_regression(dim):
    """Mean and covariance at new inputs as scikit-learn finds them, group by group, padding ignored."""
    sizes, q, noise = (6, 4), 3, 0.3
    x, z = RNG.uniform(0, 3, (2, 6, dim)), RNG.normal(size=(2, 6, 2))
    query = RNG.uniform(0, 3, (2, q, dim))
    valid = np.arange(6)[None] < np.array(sizes)[:, None]
    kernels = (RBF(lengthscale=0.9, variance=1.5),)
    train = (jnp.asarray(x), jnp.asarray(valid), jnp.asarray(z))
    mean, covariance = fresh(gp.exact_conditional)(kernels, train, jnp.asarray(query), jnp.asarray(noise**2))
    for g, n in enumerate(sizes):
        k = sk_kernels.ConstantKernel(1.5) * sk_kernels.RBF(0.9)
        model = sk.GaussianProcessRegressor(k, alpha=noise**2, optimizer=None).fit(x[g, :n], z[g, :n])
        expected, cov = model.predict(query[g], return_cov=True)
        np.testing.assert_allclose(mean[g], expected, atol=1e-4)
        np.testing.assert_allclose(covariance[g, 0], cov[..., 0], atol=1e-4)


def test_gather_and_scatter_are_inverse():
    table = checks.ragged_table((4, 1, 3))
    rows = jnp.asarray(RNG.normal(size=(8, 2)))
    blocked = gp.gather(rows, table.group_rows)
    assert blocked.shape == (3, 4, 2)
    np.testing.assert_array_equal(blocked[1, 1:], 0.0)
    np.testing.assert_array_equal(gp.scatter(blocked, table.group_rows, 8), rows)


# Priors on inducing inputs

BOX = (jnp.asarray([-1.0]), jnp.asarray([3.0]))
INDUCING = {
    "uniform": inducing.Uniform(*BOX),
    "normal": inducing.Normal(*BOX),
    "determinantal": inducing.Determinantal(*BOX, RBF(lengthscale=0.5)),
    "strauss": inducing.Strauss(*BOX),
}


@pytest.mark.parametrize("name", INDUCING)
def test_coordinates_and_inputs_are_inverse(name):
    prior, S = INDUCING[name], jnp.asarray([[-0.9], [0.2], [2.5]])
    np.testing.assert_allclose(prior.inputs(prior.coordinates(S)), S, rtol=1e-12)


@pytest.mark.parametrize("name", ["uniform", "normal"])
def test_density_of_the_coordinates_integrates_to_one(name):
    density = jax.jit(lambda r: jnp.exp(INDUCING[name].log_prob(r[None, None])))
    total, _ = scipy.integrate.quad(lambda r: float(density(jnp.asarray(r))), -40, 40, points=[0.0])
    assert abs(total - 1) < 1e-6


def test_uniform_coordinates_push_forward_to_the_uniform_density():
    """p(r) |dr/dS| = 1/(high − low) wherever it is evaluated."""
    prior = INDUCING["uniform"]
    for r in (-3.0, 0.0, 1.7):
        slope = jax.grad(lambda r: prior.inputs(r[None, None])[0, 0])(jnp.asarray(r))
        np.testing.assert_allclose(jnp.exp(prior.log_prob(jnp.full((1, 1), r))) / slope, 0.25, rtol=1e-12)


@pytest.mark.parametrize("name", ["determinantal", "strauss"])
def test_repulsive_priors_prefer_spread_inputs(name):
    """Against the uniform prior at the same inputs, close pairs lose; swapping two inputs changes nothing."""
    prior, uniform = INDUCING[name], INDUCING["uniform"]
    excess = lambda S: float(prior.log_prob(c := prior.coordinates(jnp.asarray(S)[:, None])) - uniform.log_prob(c))  # noqa: E731
    assert excess([0.0, 1.0, 2.0]) > excess([0.0, 0.05, 2.0]) + 0.5
    np.testing.assert_allclose(excess([0.0, 0.3, 2.0]), excess([0.3, 2.0, 0.0]), rtol=1e-6)


def test_an_unknown_inducing_prior_is_refused_in_one_sentence():
    with pytest.raises(ValueError, match=r"inducing_prior must be one of .*; got 'cubic'"):
        inducing.make("cubic", np.zeros((3, 1)), RBF(lengthscale=1.0))


@pytest.mark.parametrize("name", INDUCING)
def test_made_priors_cover_the_data(name):
    features = np.array([[0.0, 5.0], [2.0, 5.0]])
    prior = inducing.make(name, features, RBF(lengthscale=1.0))
    assert np.all(prior.low < features.min(axis=0)) and np.all(prior.high > features.max(axis=0))
