"""Variational laws and bounds against closed forms: dense Gaussian algebra in NumPy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gpbae import gp, networks
from gpbae.baselines import banded, latents, product
from gpbae.baselines.latents import Evidence, Exact, FreeSparse, Independent, Sparse
from gpbae.baselines.variational import Condition, VariationalAutoencoder
from gpbae.kernels import RBF, Cauchy, gram
from gpbae.likelihoods import Gaussian
from gpbae.sampling.batches import FullBatch, RowBatch, Table
from passing import NOISE, Passing

RNG = np.random.default_rng(0)
KERNELS = (RBF(lengthscale=0.7), RBF(lengthscale=1.1, variance=1.5))
G, N, C = 2, 5, 2
X = jnp.asarray(np.sort(RNG.uniform(0, 3, (G, N, 1)), axis=1))
INFORMED = jnp.asarray([[True, True, False, True, True], [True, True, True, False, False]])
ONE = jnp.ones(())
LOG_VARIANCE = 2 * np.log(NOISE)


at = eqx.filter_jit(lambda law, told, asked, scale: law.at(told, asked, scale))
bound = eqx.filter_jit(lambda model, batch, whole_groups, key: model.bound(batch, whole_groups, key))
fresh = eqx.filter_jit(lambda f, *a: f(*a))


def evidence(informed=INFORMED):
    m, s2 = RNG.normal(size=(G, N, C)), RNG.uniform(0.1, 0.5, (G, N, C))
    return Evidence(X, informed, jnp.asarray(m), jnp.asarray(s2))


def kl(mean, covariance, prior):
    """KL(N(mean, covariance) ‖ N(0, prior))."""
    P = np.linalg.inv(prior)
    trace = np.trace(P @ covariance) + mean @ P @ mean - len(mean)
    return 0.5 * (trace + np.linalg.slogdet(prior)[1] - np.linalg.slogdet(covariance)[1])


def gaussian(K, m, s2):
    """Posterior of z ~ N(0, K) given m ~ N(z, s²)."""
    precision = np.linalg.inv(K) + np.diag(1 / s2)
    covariance = np.linalg.inv(precision)
    return covariance @ (m / s2), covariance


def test_exact_law_is_gaussian_conditioning_and_its_divergence():
    told = evidence()
    law = at(Exact(KERNELS, True), told, told, ONE)
    total = 0.0
    for g in range(G):
        i = np.flatnonzero(INFORMED[g])
        for c, k in enumerate(KERNELS):
            K = np.asarray(gram(k, X[g], X[g])) + 1e-9 * np.eye(N)
            mean, covariance = gaussian(
                K[np.ix_(i, i)], np.asarray(told.mean)[g, i, c], np.asarray(told.variance)[g, i, c]
            )
            total += kl(mean, covariance, K[np.ix_(i, i)])
            W = K[:, i] @ np.linalg.inv(K[np.ix_(i, i)])
            np.testing.assert_allclose(law.mean[g, :, c], W @ mean, atol=2e-4)
            everywhere = K - W @ K[i] + W @ covariance @ W.T
            np.testing.assert_allclose(law.variance[g, :, c], np.diag(everywhere), atol=2e-4)
    np.testing.assert_allclose(law.divergence, total, rtol=2e-4)


def test_a_shared_code_is_the_average_of_the_groups_codes():
    """Of rows with something observed only; a group without any has the prior."""
    informed = INFORMED.at[1].set(False)
    told = evidence(informed)
    asked = told._replace(informed=jnp.zeros((G, N), bool).at[0, 1].set(True))
    law = at(Independent(shared=True), told, asked, ONE)
    seen = np.flatnonzero(informed[0])
    mean, variance = (np.asarray(a)[0, seen] for a in told[2:])
    for row in (0, 2, 3, 4):
        np.testing.assert_allclose(law.mean[0, row], mean.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(law.variance[0, row], variance.sum(axis=0) / len(seen) ** 2, rtol=1e-12)
    np.testing.assert_allclose(law.mean[0, 1], told.mean[0, 1])
    np.testing.assert_allclose(law.variance[0, 1], told.variance[0, 1])
    np.testing.assert_allclose([law.mean[1], law.variance[1]], [np.zeros((N, C)), np.ones((N, C))])
    alone = at(Independent(), told, asked, ONE)
    np.testing.assert_allclose(law.divergence, alone.divergence, rtol=1e-12)


def test_sparse_law_at_the_data_is_the_exact_law():
    everything = evidence(jnp.ones((G, N), bool))
    one_group = Evidence(*(a[:1] for a in everything))
    exact = at(Exact(KERNELS[:1], True), one_group, one_group, ONE)
    sparse = at(Sparse(KERNELS[:1], X[0], True), one_group, one_group, ONE)
    np.testing.assert_allclose(sparse.mean, exact.mean, atol=2e-4)
    np.testing.assert_allclose(sparse.variance, exact.variance, atol=2e-4)
    np.testing.assert_allclose(sparse.divergence, exact.divergence, rtol=1e-3)


def test_sparse_law_with_few_inducing_inputs_is_dense_algebra():
    """q(u) ∝ N(u; 0, K_mm) Π N(mₙ; k_nm K_mm⁻¹ u, sₙ²) with M = 3 and N = 5, and f from p(f | u)."""
    told, S = evidence(), np.array([[0.2], [1.4], [2.9]])
    law = at(Sparse(KERNELS, jnp.asarray(S), True), told, told, ONE)
    total = 0.0
    for g in range(G):
        i = np.flatnonzero(INFORMED[g])
        for c, k in enumerate(KERNELS):
            K, cross = (np.asarray(gram(k, a, jnp.asarray(S))) for a in (jnp.asarray(S), X[g]))
            W = cross @ np.linalg.inv(K)
            weights = W[i].T / np.asarray(told.variance)[g, i, c]
            covariance = np.linalg.inv(np.linalg.inv(K) + weights @ W[i])
            mean = covariance @ weights @ np.asarray(told.mean)[g, i, c]
            total += kl(mean, covariance, K)
            left = np.diag(np.asarray(gram(k, X[g], X[g])) - W @ cross.T)
            np.testing.assert_allclose(law.mean[g, :, c], W @ mean, atol=1e-4)
            np.testing.assert_allclose(law.variance[g, :, c], left + np.diag(W @ covariance @ W.T), rtol=1e-3)
    np.testing.assert_allclose(law.divergence, total, rtol=1e-4)


def test_counting_rows_twice_is_having_them_twice():
    """scale = 2 on a batch is the table with every row there two times: what a minibatch estimates."""
    told = Evidence(*(a[:1] for a in evidence()))
    twice = Evidence(*(jnp.concatenate([a, a], axis=1) for a in told))
    q = Sparse(KERNELS[:1], jnp.linspace(0, 3, 3)[:, None], True)
    a, b = at(q, told, told, jnp.asarray(2.0)), at(q, twice, told, ONE)
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-6)
    np.testing.assert_allclose(a.divergence, b.divergence, rtol=1e-6)


def test_free_law_equals_the_amortised_one_at_its_values():
    told = evidence()
    S = jnp.linspace(0, 3, 3)[:, None]
    amortised = Sparse(KERNELS, S, True)
    law = fresh(amortised.values, told, ONE)
    covariance = np.linalg.inv(np.asarray(law.factor) @ np.swapaxes(law.factor, -1, -2))
    root = np.linalg.cholesky(covariance)
    diagonal = np.log(np.diagonal(root, axis1=-2, axis2=-1))
    free = FreeSparse(KERNELS, S, law.mean, jnp.asarray(np.tril(root, -1) + diagonal[..., None] * np.eye(3)), True)
    nothing = told._replace(mean=jnp.zeros((G, N, 0)), variance=jnp.zeros((G, N, 0)))
    a, b = at(amortised, told, told, ONE), at(free, nothing, nothing, ONE)
    for left, right in zip(a, b, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6)


def test_banded_law_has_the_precision_it_says():
    """Rows a lengthscale and more apart, so that the prior is well conditioned and a lost constant would show."""
    apart = jnp.asarray(np.cumsum(RNG.uniform(1.2, 2.0, (G, N, 1)), axis=1))
    kernels = (Cauchy(lengthscale=0.7), Cauchy(lengthscale=1.1, variance=1.5))
    told = evidence()._replace(x=apart)
    raw = told._replace(variance=jnp.asarray(0.4 * RNG.normal(size=(G, N, 2 * C))))
    q = banded.Banded(kernels, networks.Layer(jax.random.key(0), 3, 3), True)
    law, B = at(q, raw, raw, ONE), np.asarray(fresh(q.factor, raw))
    assert np.allclose(np.triu(B, 1), 0) and np.allclose(np.tril(B, -2), 0)
    total = 0.0
    for g in range(G):
        i = np.flatnonzero(INFORMED[g])
        for c, k in enumerate(kernels):
            covariance = np.linalg.inv(B[g, c] @ B[g, c].T)[np.ix_(i, i)]
            K = np.asarray(gram(k, apart[g], apart[g]))[np.ix_(i, i)]
            mean = np.asarray(raw.mean)[g, i, c]
            total += kl(mean, covariance, K)
            np.testing.assert_allclose(law.mean[g, i, c], mean, atol=1e-4)
            np.testing.assert_allclose(law.variance[g, i, c], np.diag(covariance), rtol=1e-4)
    assert total < 100
    np.testing.assert_allclose(law.divergence, total, rtol=1e-4)


def test_low_rank_divergence_is_brute_force():
    told = Evidence(*(a[:1] for a in evidence()))
    S = jnp.linspace(0, 3, 3)[:, None]
    q = product.LowRank(KERNELS[:1], S, jnp.log(jnp.asarray(0.4)), True)
    found = at(q, told, told, ONE).divergence
    projection = fresh(gp.sparse_projection, KERNELS[:1], X[0], S)
    A, i = np.asarray(projection.weights[0]), np.flatnonzero(INFORMED[0])
    K = (A.T @ A + np.diag(projection.residual[0]) + 0.16 * np.eye(N))[np.ix_(i, i)]
    wanted = sum(kl(np.asarray(told.mean)[0, i, c], np.diag(np.asarray(told.variance)[0, i, c]), K) for c in range(C))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("spread", [1e-4, 0.09, 1.0])
def test_low_rank_prediction_carries_what_the_encoder_does_not_know(spread):
    """z* = W z + e with z ~ N(μ, S) and e ~ N(0, k** − W K*), dense: the law of total variance."""
    told = Evidence(*(a[:1] for a in evidence()))
    told = told._replace(variance=spread * told.variance)
    S, where = jnp.linspace(0, 3, 3)[:, None], jnp.asarray([[[0.4], [2.2]]])
    q = product.LowRank(KERNELS[:1], S, jnp.log(jnp.asarray(0.4)), True)
    asked = Evidence(where, jnp.zeros((1, 2), bool), jnp.zeros((1, 2, C)), jnp.ones((1, 2, C)))
    law = at(q, told, asked, ONE)
    both = fresh(gp.sparse_projection, KERNELS[:1], jnp.concatenate([X[0], where[0]]), S)
    A, own = np.asarray(both.weights[0]), np.asarray(both.residual[0]) + 0.16
    K, i, new = A.T @ A + np.diag(own), np.flatnonzero(INFORMED[0]), [N, N + 1]
    W = K[np.ix_(new, i)] @ np.linalg.inv(K[np.ix_(i, i)])
    given = np.diag(K[np.ix_(new, new)] - W @ K[np.ix_(i, new)])
    for c in range(C):
        np.testing.assert_allclose(law.mean[0, :, c], W @ np.asarray(told.mean)[0, i, c], rtol=1e-5)
        np.testing.assert_allclose(law.variance[0, :, c], given + W**2 @ np.asarray(told.variance)[0, i, c], rtol=1e-5)


def test_batches_with_repeated_rows_have_the_gradient_of_the_table():
    """Over all ordered pairs of six rows, a row drawn twice among them, the mean of KL's gradient is that of all."""
    table = small_table()
    law = product.LowRank(KERNELS[:1], table.x[::2], jnp.log(jnp.asarray(0.4)), True)
    start = jnp.asarray([0.3, -0.5])
    say = lambda w: product.Memory(w[0] * table.y + w[0] ** 2, jnp.exp(w[1] * table.y))  # noqa: E731

    def loss(weights, rows):
        some = jax.tree.map(lambda a: a[rows], say(weights))
        memory = product.recalled(say(start), some, rows, jnp.asarray(6 / rows.shape[0]))
        return product.remembered_divergence(law, table, memory)

    pairs = jnp.stack(jnp.meshgrid(jnp.arange(6), jnp.arange(6)), axis=-1).reshape(-1, 2)
    value, gradient = jax.jit(jax.vmap(jax.value_and_grad(loss), (None, 0)))(start, pairs)
    whole = jax.value_and_grad(lambda w: product.remembered_divergence(law, table, say(w)))(start)
    np.testing.assert_allclose(value, np.full(36, whole[0]), rtol=1e-10)
    np.testing.assert_allclose(gradient.mean(axis=0), whole[1], rtol=1e-8)


# Bounds.  With an identity decoder and Gaussian noise the expectation has a closed form.


def regression_model(law, log_variance=LOG_VARIANCE):
    return VariationalAutoencoder(Passing(jnp.asarray(log_variance)), networks.IdentityDecoder(), Gaussian(NOISE), law)


def small_table():
    x, y = np.linspace(0, 3, 6)[:, None], RNG.normal(size=(6, 1))
    return Table(jnp.asarray(x), jnp.asarray(y), jnp.ones((6, 1), bool), jnp.zeros(6, int), jnp.arange(6)[None])


@eqx.filter_jit
def _law(model, table):
    told = model.evidence(table.x, table.y, table.mask, jnp.ones(6, bool), table.group_rows)
    return model.latents.at(told, told, ONE)


def closed_bound(model, table):
    """E_q log p(y | z) − KL with the expectation done by hand."""
    law = _law(model, table)
    expected = stats.norm.logpdf(table.y, law.mean[0], NOISE) - 0.5 * np.asarray(law.variance[0]) / NOISE**2
    return float(expected.sum() - law.divergence)


def log_marginal(table):
    K = np.asarray(gram(KERNELS[0], table.x, table.x)) + NOISE**2 * np.eye(6)
    return stats.multivariate_normal.logpdf(np.asarray(table.y)[:, 0], np.zeros(6), K)


def test_bound_is_at_most_the_log_marginal_and_reaches_it_with_inducing_inputs_at_the_data():
    table = small_table()
    evidence_of_y = log_marginal(table)
    best = closed_bound(regression_model(Exact(KERNELS[:1], True)), table)
    np.testing.assert_allclose(best, evidence_of_y, atol=1e-3)
    at_data = closed_bound(regression_model(Sparse(KERNELS[:1], table.x, True)), table)
    np.testing.assert_allclose(at_data, evidence_of_y, atol=1e-3)
    fewer = Sparse(KERNELS[:1], table.x[::2] + 0.1, True)
    for q, spread in ((fewer, 2 * np.log(NOISE)), (fewer, 0.0), (Exact(KERNELS[:1], True), 0.5)):
        assert closed_bound(regression_model(q, spread), table) < evidence_of_y - 1e-3


def test_free_bound_reaches_the_log_marginal_with_the_best_q_at_the_data():
    """q(v) = p(v | y) at S = X, from dense algebra: v = L⁻¹ f with K = L Lᵀ, Λ = I + Lᵀ L / σ²."""
    table = small_table()
    L = np.linalg.cholesky(np.asarray(gram(KERNELS[0], table.x, table.x)) + 1e-9 * np.eye(6))
    covariance = np.linalg.inv(np.eye(6) + L.T @ L / NOISE**2)
    root = np.linalg.cholesky(covariance)
    raw = np.tril(root, -1) + np.diag(np.log(np.diag(root)))
    mean = covariance @ L.T @ np.asarray(table.y)[:, 0] / NOISE**2
    for shift in (0.0, 0.3):
        moved, spread = jnp.asarray((1 + shift) * mean)[None, None], jnp.asarray(raw)[None, None]
        model = regression_model(FreeSparse(KERNELS[:1], table.x, moved, spread, True))
        model = eqx.tree_at(lambda m: m.encoder, model, None)
        away = 0.5 * shift**2 * mean @ np.linalg.solve(covariance, mean)  # log p(y) − bound = KL(q ‖ p(v | y))
        np.testing.assert_allclose(closed_bound(model, table), log_marginal(table) - away, atol=1e-3)


def test_independent_bound_is_the_log_marginal_less_the_gap():
    """A VAE's ELBO = log p(y) − KL(q ‖ p(z | y)), with z, y scalar normals."""
    table = small_table()
    found = closed_bound(regression_model(Independent()), table)
    y, s2 = np.asarray(table.y)[:, 0], NOISE**2
    variance = s2 / (1 + s2)
    gap = 0.5 * (s2 / variance + (y - y / (1 + s2)) ** 2 / variance - 1 + np.log(variance / s2))
    np.testing.assert_allclose(found, np.sum(stats.norm.logpdf(y, 0, np.sqrt(1 + s2)) - gap), rtol=1e-6)


def averages_to(values, wanted):
    """Within the Monte-Carlo error of the mean."""
    values = np.asarray(values)
    return abs(values.mean() - wanted) < 4.5 * values.std() / np.sqrt(len(values))


def test_bound_told_the_inputs_is_the_conditional_log_marginal_less_the_gap():
    """z ~ N(0, 1), y = w z + u x + noise, q(z) = N(a y + b x, s²): ELBO = log p(y | x) − KL(q ‖ p(z | x, y))."""
    table, (a, b, s, w, u) = small_table(), (0.6, -0.2, 0.5, 0.9, 0.4)
    single = lambda sizes: networks.Dense(jax.random.key(0), sizes, jnp.tanh)  # noqa: E731
    weight = lambda d: d.layers[0].weight  # noqa: E731
    said = eqx.tree_at(weight, single((4, 2)), jnp.asarray([[a, b, 0, 0], [0, 0, 0, 0]], jnp.float32))
    said = eqx.tree_at(lambda d: d.layers[0].bias, said, jnp.asarray([0, 2 * np.log(s)], jnp.float32))
    decoder = eqx.tree_at(weight, single((2, 1)), jnp.asarray([[w, u]], jnp.float32))
    condition, encoder = Condition(jnp.ones(1), (1,)), networks.DenseEncoder(said, 0)
    model = VariationalAutoencoder(encoder, decoder, Gaussian(NOISE), Independent(), condition)
    found = eqx.filter_jit(jax.vmap(lambda k: model.bound(whole(table), True, k)))(
        jax.random.split(jax.random.key(1), 4000)
    )
    x, y = np.asarray(table.x)[:, 0], np.asarray(table.y)[:, 0]
    variance = NOISE**2 / (NOISE**2 + w**2)
    mean, said = w * (y - u * x) / (NOISE**2 + w**2), a * y + b * x
    gap = 0.5 * ((s**2 + (said - mean) ** 2) / variance - 1 - np.log(s**2 / variance))
    wanted = np.sum(stats.norm.logpdf(y, u * x, np.hypot(w, NOISE)) - gap)
    assert averages_to(found.likelihood - found.divergence, wanted)


def test_encoders_of_images_are_told_inputs_as_channels():
    rng = np.random.default_rng(0)
    y, mask, x = rng.normal(size=(3, 80)), rng.random((3, 80)) < 0.7, rng.normal(size=(3, 2))
    condition = Condition(jnp.asarray([2.0, 4.0]), (8, 10))
    cells, known = (np.asarray(a).reshape(3, *condition.joined_shape)
                    for a in condition.beside_cells(jnp.asarray(x), jnp.asarray(y), jnp.asarray(mask)))  # fmt: skip
    np.testing.assert_array_equal(cells[..., 0].reshape(3, -1), y)
    np.testing.assert_array_equal(known[..., 0].reshape(3, -1), mask)
    for channel, unit in enumerate((2, 4)):
        np.testing.assert_array_equal(
            cells[..., 1 + channel], np.broadcast_to(x[:, channel, None, None] / unit, (3, 8, 10))
        )
    assert known[..., 1:].all()


def test_low_rank_bound_is_the_log_marginal_less_the_gap():
    """z ~ N(0, AᵀA + diag(residual) + α²), y = z + noise, q = Π N(yₙ, s²): brute force."""
    table, spread = small_table(), 0.3**2
    law = product.LowRank(KERNELS[:1], table.x[::2], jnp.log(jnp.asarray(0.4)), True)
    model = regression_model(law, np.log(spread))
    memory = product.Memory(table.y, jnp.full((6, 1), spread))
    one = lambda k: -6 * product.remembered_bound(model, table, FullBatch(), memory, k)[0]  # noqa: E731
    found = eqx.filter_jit(jax.vmap(one))(jax.random.split(jax.random.key(1), 4000))
    projection = fresh(gp.sparse_projection, KERNELS[:1], table.x, table.x[::2])
    A, y = np.asarray(projection.weights[0]), np.asarray(table.y)[:, 0]
    K = A.T @ A + np.diag(projection.residual[0]) + 0.16 * np.eye(6)
    mean, covariance = gaussian(K, y, np.full(6, NOISE**2))
    gap = kl(y - mean, spread * np.eye(6), covariance)
    wanted = stats.multivariate_normal.logpdf(y, np.zeros(6), K + NOISE**2 * np.eye(6)) - gap
    assert averages_to(found, wanted)


def test_sampled_bound_averages_to_the_closed_form():
    table = small_table()
    model = regression_model(Sparse(KERNELS[:1], table.x[::2], True))
    batch = whole(table)
    draw = eqx.filter_jit(jax.vmap(lambda k: model.bound(batch, True, k)))
    found = draw(jax.random.split(jax.random.key(1), 2000))
    values = np.asarray(found.likelihood - found.divergence)
    assert abs(values.mean() - closed_bound(model, table)) < 4.5 * values.std() / np.sqrt(2000)


def whole(table):
    return FullBatch().batch(table, FullBatch().select(jax.random.key(0), table))


@pytest.mark.parametrize("law", [Independent(), Sparse(KERNELS[:1], X[0], True), Exact(KERNELS[:1], True)])
def test_hidden_cells_do_not_matter(law):
    """Whatever stands in a cell that is not observed, the bound is the same, and finite."""
    table = small_table()
    mask = table.mask.at[2, 0].set(False)
    bounds = [
        bound(
            regression_model(law),
            whole(table._replace(mask=mask, y=table.y.at[2, 0].set(value))),
            True,
            jax.random.key(3),
        )
        for value in (0.0, 1e6)
    ]
    np.testing.assert_array_equal(*(np.array(b) for b in bounds))
    assert np.isfinite(bounds[0]).all()


def test_batches_of_rows_estimate_the_bound_of_a_free_law():
    """Over a partition into batches, likelihood terms average to the full one; the divergence is the same."""
    table = small_table()
    q = FreeSparse(
        KERNELS[:1], table.x[::2], jnp.ones((1, 1, 3)), jnp.broadcast_to(-9 * jnp.eye(3), (1, 1, 3, 3)), True
    )
    model = eqx.tree_at(lambda m: m.encoder, regression_model(q), None)
    quiet = eqx.tree_at(lambda m: m.latents.kernels[0].log_lengthscale, model, jnp.asarray([6.0]))  # q has no spread
    batching = RowBatch(2)
    selection = batching.select(jax.random.key(0), table)
    parts = [bound(quiet, batching.batch(table, selection._replace(rows=jnp.arange(i, i + 2))), False,
                   jax.random.key(i + 1))
             for i in (0, 2, 4)]  # fmt: skip
    full = bound(quiet, whole(table), True, jax.random.key(9))
    np.testing.assert_allclose(np.mean([p.likelihood for p in parts]), full.likelihood, rtol=1e-2)
    np.testing.assert_allclose([p.divergence for p in parts], full.divergence, rtol=1e-9)


def test_pseudo_observations_have_positive_variance():
    mean, variance = latents.pseudo_observations(jnp.asarray([[1.0, -1e4], [2.0, 1e4]]))
    assert mean.tolist() == [[1.0], [2.0]] and 0 < float(variance.min()) < float(variance.max()) < np.inf
