"""Seeds are other coordinates of the same law: the sparse prior of latents, through a change of variables."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

from gpbae import SGPBAE
from gpbae.errors import InputError
from gpbae.estimators import DSGPBAE
from gpbae.kernels import RBF
from gpbae.priors import Batch, Hyper, SparsePrior, seeded

rng = np.random.default_rng(0)
N, C, M = 12, 2, 5
X = jnp.asarray(np.sort(rng.uniform(0, 3, (N, 1)), axis=0))
Z = jnp.asarray(np.column_stack([np.sin(X[:, 0]), np.cos(X[:, 0])]))


@pytest.fixture(scope="module")
def priors():
    from gpbae.priors import inducing

    kernel = RBF(lengthscale=0.8)
    hyper = Hyper((kernel,), jnp.asarray(0.1), jnp.ones(()), True, True)
    S = jnp.linspace(0.0, 3.0, M)[:, None]
    sparse = SparsePrior(hyper, inducing.make("normal", np.asarray(X), kernel), S, C, True)
    return sparse, seeded(sparse, X, Z)


@pytest.fixture(scope="module")
def batch():
    return Batch(X, jnp.zeros((N, 1)), jnp.ones((N, 1), bool), jnp.ones(N, bool), jnp.zeros(N, jnp.int32),
                 jnp.arange(N)[None], jnp.ones(()))  # fmt: skip


def test_density_is_that_of_the_sparse_prior_after_the_change_of_variables(priors, batch):
    sparse, other = priors
    hyper, _ = other.init(None, 1)
    seeds = jnp.asarray(rng.standard_normal((N, C)))
    z = other.law(hyper, batch).latents(seeds)
    _, variance = sparse.project(hyper, X)
    direct = sparse.law(hyper, batch).log_latents(hyper["values"], z)
    changed = other.law(hyper, batch).log_latents(None, seeds) - 0.5 * jnp.sum(jnp.log(variance))
    np.testing.assert_allclose(direct, changed, rtol=1e-10)
    np.testing.assert_allclose(other.log_hyper(hyper)["values"], jnp.sum(norm.logpdf(hyper["values"])))


def test_values_start_where_the_latents_are(priors, batch):
    _, other = priors
    hyper, _ = other.init(None, 1)
    start = other.law(hyper, batch).latents(other.law(hyper, batch).coordinates(Z))
    assert float(jnp.max(jnp.abs(start - Z))) < 0.15


@pytest.mark.parametrize("batch_size", [None, 8])
def test_seeds_fill_a_gap_of_a_smooth_table(batch_size):
    x = np.linspace(0, 6, 24)[:, None]
    noise = 0.1 * np.random.default_rng(1).standard_normal((24, 2))
    y = np.column_stack([np.sin(x[:, 0]), np.cos(x[:, 0])]) + noise
    y[5:8, 0] = np.nan
    told = dict(latent_dim=2, num_inducing=8, decoder="linear", num_chains=2, num_warmup=60, num_samples=40, thinning=2,
                sample_inducing=False, progress=False, batch_size=batch_size)  # fmt: skip
    model = SGPBAE(**told, latent_coordinates="seeds").fit(x, y)
    answer = model.impute(x, y)
    truth = np.column_stack([np.sin(x[:, 0]), np.cos(x[:, 0])])
    assert np.sqrt(np.mean((np.asarray(answer.mean)[5:8, 0] - truth[5:8, 0]) ** 2)) < 0.25
    assert model.predict(x).mean.shape == (24, 2)
    assert model.encode(x + 0.1, y).mean.shape == (24, 2)
    assert model.sample(x, 3).shape == (3, 24, 2)


def test_seeds_are_for_one_sparse_layer_and_one_group():
    x, y = np.arange(6.0)[:, None], rng.standard_normal((6, 2))
    with pytest.raises(InputError, match="latent_coordinates"):
        SGPBAE(latent_coordinates="seeds").fit(x, y, groups=[0, 0, 0, 1, 1, 1])
    with pytest.raises(InputError, match="latent_coordinates"):
        DSGPBAE(latent_coordinates="seeds").fit(x, y)
    with pytest.raises(InputError, match="latent_coordinates"):
        SGPBAE(latent_coordinates="ε").fit(x, y)
    with pytest.raises(InputError, match="latent_coordinates"):
        SGPBAE(latent_coordinates="seeds", latents="amortised").fit(x, y)


def test_gradients_reach_the_values_through_the_data(priors, batch):
    _, other = priors
    hyper, _ = other.init(None, 1)
    latents = lambda v: other.law({**hyper, "values": v}, batch).latents(jnp.zeros((N, C)))  # noqa: E731
    pull = jax.grad(lambda v: jnp.sum(latents(v)))(hyper["values"])
    assert float(jnp.max(jnp.abs(pull))) > 0.1
