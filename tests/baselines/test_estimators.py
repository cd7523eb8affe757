"""Baselines behind the surface of the four models: regression where it must be, gaps, groups, files, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import sklearn.base
import sklearn.gaussian_process as sk
from scipy import stats
from sklearn.gaussian_process import kernels as sk_kernels

import gpbae
from gpbae import baselines
from gpbae.baselines.latents import Independent
from gpbae.baselines.variational import STARTING_SPREAD, VariationalAutoencoder, bound_at_start
from gpbae.data.ball import affine_rmse
from gpbae.errors import GpbaeError, InputError
from gpbae.kernels import RBF, Embed, Linear, Periodic, Select
from gpbae.likelihoods import Gaussian
from gpbae.networks import MLP, FactorNet, IdentityDecoder, IndexNet, PointNet
from gpbae.sampling.batches import FullBatch, Table
from passing import NOISE, Passing

SMALL = {"num_steps": 4, "num_draws": 8, "progress": False}
NETWORKS = {"latent_dim": 1, "encoder": MLP((4,)), "decoder": MLP((4,))}
MODELS = {
    "VAE": baselines.VAE(**SMALL, **NETWORKS),
    "CVAE": baselines.CVAE(**SMALL, **NETWORKS),
    "GPPVAE": baselines.GPPVAE(**SMALL, **NETWORKS, num_inducing=4, batch_size=6),
    "GPVAE": baselines.GPVAE(**SMALL, **NETWORKS),
    "GP-VAE": baselines.BandedGPVAE(**SMALL, **NETWORKS),
    "SGP-VAE": baselines.SGPVAE(**{**SMALL, **NETWORKS, "encoder": PointNet(4, 2, (4,))}, num_inducing=4),
    "SVGP-VAE": baselines.SVGPVAE(**SMALL, **NETWORKS, num_inducing=4, batch_size=6),
    "DEEP-SVIGP": baselines.DeepSVIGP(**SMALL, **NETWORKS, num_inducing=4, batch_size=6),
    "IGP": baselines.IGP(**SMALL),
    "GPAR": baselines.GPAR(**SMALL),
}


def wavy(num_rows=12, seed=0):
    """Three columns of one wave, with gaps, a row without any cell, and time as input."""
    rng = np.random.default_rng(seed)
    time = np.sort(rng.uniform(0, 6, num_rows))
    y = np.sin(time)[:, None] * [1.0, -2.0, 5.0] + 0.1 * rng.standard_normal((num_rows, 3))
    y[3, 1] = y[5, 2] = np.nan
    y[7] = np.nan
    return pd.DataFrame({"time": time}), pd.DataFrame(y, columns=list("abc"))


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    x, y = wavy()
    return sklearn.base.clone(MODELS[request.param]).fit(x, y)


def test_every_baseline_answers_in_the_users_types(fitted, tmp_path):
    """Frames in, frames out; observed cells untouched; finite numbers; files give the same answers."""
    x, y = wavy()
    filled = fitted.impute(x, y)
    pd.testing.assert_frame_equal(filled.filled.where(y.notna()), y)
    assert filled.filled.notna().all().all()
    later = pd.DataFrame({"time": [1.5, 7.0]})
    answer = fitted.predict(later)
    assert list(answer.mean.columns) == list("abc") and answer.samples.shape == (8, 2, 3)
    assert np.isfinite(answer.sd).all().all() and (answer.sd > 0).all().all()
    assert np.isfinite(fitted.score(x, y))
    fitted.save(tmp_path / "model")
    again = gpbae.load(tmp_path / "model")
    assert type(again) is type(fitted)
    np.testing.assert_array_equal(again.predict(later).mean, answer.mean)


def test_latents_of_rows_that_were_not_fitted(fitted):
    if isinstance(fitted, baselines.IGP | baselines.GPAR):
        assert not hasattr(fitted, "encode")
        return
    x, y = wavy(9, seed=1)
    latents = fitted.encode(x, y.where(y > -9), num_draws=4)
    assert list(latents.mean.columns) == ["latent0"] and np.isfinite(latents.sd).all().all()


def test_the_decoder_is_a_point_so_it_has_no_part_of_the_variance(fitted):
    x, y = wavy()
    for answer in (fitted.predict(x + 50.0), fitted.impute(x, y)):
        parts = answer.variance_parts()
        assert (parts["decoder"] == 0).all().all()
        np.testing.assert_allclose(sum(parts.values()), answer.sd**2, rtol=1e-6)


# Theorems.


def kernel_in_sklearn():
    return sk_kernels.ConstantKernel(1.0, "fixed") * sk_kernels.RBF(0.8, "fixed")


@pytest.mark.parametrize("kind", ["IGP", "GPVAE"])
def test_gaussian_process_regression_is_what_scikit_learn_says(kind):
    """IGP with held hyper-parameters; GPVAE with an identity decoder and cells as pseudo-observations."""
    x, y = wavy(10)
    x, y = x.to_numpy(), y.to_numpy()
    shared = {
        "num_steps": 0,
        "num_draws": 4000,
        "progress": False,
        "standardise": False,
        "kernel": RBF(lengthscale=0.8),
    }
    if kind == "IGP":
        model = baselines.IGP(**shared, noise=NOISE)
    else:
        y = np.where(
            np.isnan(y).any(axis=1, keepdims=True), np.nan, y
        )  # a row's cells are there together or not at all
        model = baselines.GPVAE(**shared, decoder="identity", encoder=Passing(jnp.asarray(2 * np.log(NOISE))),
                                likelihood=Gaussian(NOISE, learn_noise=False))  # fmt: skip
    query = np.linspace(-1, 7, 9)[:, None]
    answer = model.fit(x, y).predict(query)
    for p in range(3):
        seen = ~np.isnan(y[:, p])
        reference = sk.GaussianProcessRegressor(kernel_in_sklearn(), alpha=NOISE**2).fit(x[seen], y[seen, p])
        mean, sd = reference.predict(query, return_std=True)
        np.testing.assert_allclose(answer.mean[:, p], mean, atol=2e-4)
        floor = 1e-6 if kind == "IGP" else 0.0
        np.testing.assert_allclose(answer.sd[:, p], np.sqrt(sd**2 + NOISE**2 + floor), rtol=2e-3)


def test_density_of_a_regression_does_not_depend_on_draws():
    """Two draws, and yet p(y) is the normal of scikit-learn's GP regression, also far from the data."""
    x, y = (a.to_numpy() for a in wavy(10))
    x, y = x[~np.isnan(y).any(axis=1)], y[~np.isnan(y).any(axis=1)]
    model = baselines.IGP(num_steps=0, num_draws=2, progress=False, standardise=False, kernel=RBF(lengthscale=0.8),
                          noise=NOISE).fit(x, y)  # fmt: skip
    query, cells = np.linspace(-3, 9, 9)[:, None], np.random.default_rng(0).standard_normal((9, 3))
    found = model.predict(query).log_density(cells, np.ones((9, 3), bool))
    for p in range(3):
        reference = sk.GaussianProcessRegressor(kernel_in_sklearn(), alpha=NOISE**2).fit(x, y[:, p])
        mean, sd = reference.predict(query, return_std=True)
        wanted = stats.norm.logpdf(cells[:, p], mean, np.sqrt(sd**2 + NOISE**2))
        np.testing.assert_allclose(found[:, p], wanted, rtol=1e-3)
    assert model.score(query, cells) == pytest.approx(found.mean())  # of a cell given x, not given the cell itself


def test_hyperparameters_are_where_scikit_learn_finds_them():
    x, y = (a.to_numpy() for a in wavy(20))
    seen = ~np.isnan(y[:, 1])
    model = baselines.IGP(progress=False, standardise=False, kernel=RBF(lengthscale=0.5)).fit(x, y[:, 1:2]).models_[0]
    kernel = sk_kernels.ConstantKernel() * sk_kernels.RBF() + sk_kernels.WhiteKernel()
    best = sk.GaussianProcessRegressor(kernel, random_state=0, n_restarts_optimizer=2).fit(x[seen], y[seen, 1])
    found = model.log_marginal(
        jnp.asarray(x[seen])[None], jnp.ones((1, seen.sum()), bool), jnp.asarray(y[seen, 1])[None]
    )
    assert float(found) == pytest.approx(best.log_marginal_likelihood_value_, abs=0.02)


def test_groups_have_functions_of_their_own():
    x, y = (a.to_numpy() for a in wavy(12))
    model = baselines.IGP(**{**SMALL, "num_steps": 0}, standardise=False, kernel=RBF(lengthscale=0.8), noise=NOISE)
    both = model.fit(np.vstack([x, x]), np.vstack([y, -3 * y]), groups=["up"] * 12 + ["down"] * 12)
    found = both.predict(np.vstack([x, x, x]), groups=["up"] * 12 + ["down"] * 12 + ["new"] * 12).mean
    alone = model.fit(x, y).predict(x).mean
    np.testing.assert_allclose(found[:12], alone, atol=1e-6)
    np.testing.assert_allclose(found[12:24], -3 * alone, atol=1e-6)
    np.testing.assert_allclose(found[24:], 0.0, atol=1e-9)


def test_a_new_row_is_told_by_its_observed_cells():
    """Given as a question's row or as a row of the table: the same regression on both."""
    x, y = (a.to_numpy() for a in wavy(10))
    model = baselines.IGP(**{**SMALL, "num_steps": 0}, standardise=False, kernel=RBF(lengthscale=0.8), noise=NOISE)
    asked, cells = np.array([[2.5]]), np.array([[3.0, np.nan, -3.0]])
    found = model.fit(x, y).impute(asked, cells).mean
    wanted = model.fit(np.vstack([x, asked]), np.vstack([y, cells])).impute(asked, cells).mean
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert found[0, 0] > 1 and found[0, 2] < 0


def conditioned(K, cross, prior, y):
    """Mean and variance of f at one place given y = f + noise."""
    w = np.linalg.solve(K + (NOISE**2 + 1e-6) * np.eye(len(y)), cross)
    return w @ y, prior - w @ cross


def test_gpar_with_a_linear_kernel_is_the_chain_rule_of_normals():
    """p(y¹) p(y² | y¹) with f² = g(x) + w y¹: given y¹ a normal in closed form, else that normal averaged over y¹."""
    rng = np.random.default_rng(0)
    x, a = np.arange(6.0)[:, None], rng.standard_normal(6)
    y = np.column_stack([a, 0.8 * a + 0.3 * rng.standard_normal(6)])
    model = baselines.GPAR(num_steps=0, num_draws=4000, progress=False, standardise=False, noise=NOISE, linear=True,
                           nonlinear=False, kernel=RBF(lengthscale=0.8, variance=0.5)).fit(x, y)  # fmt: skip
    where, cells = np.array([[2.4]]), np.array([[0.7, -0.4]])
    K = 0.5 * np.exp(-0.5 * ((x - x.T) / 0.8) ** 2)
    near = 0.5 * np.exp(-0.5 * ((x[:, 0] - 2.4) / 0.8) ** 2)
    second = lambda first: conditioned(K + np.outer(a, a), near + a * first, 0.5 + first**2, y[:, 1])  # noqa: E731
    given = model.impute(where, np.array([[0.7, np.nan]]), num_draws=2)
    mean, variance = second(0.7)
    assert given.mean[0, 1] == pytest.approx(mean, abs=1e-4)
    wanted = stats.norm.logpdf(-0.4, mean, np.sqrt(variance + NOISE**2))
    assert given.log_density(cells, np.array([[False, True]]))[0, 1] == pytest.approx(wanted, abs=1e-4)
    mean, variance = conditioned(K, near, 0.5, a)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    means, variances = np.transpose([second(mean + np.sqrt(variance + NOISE**2) * t) for t in nodes])
    density = stats.norm.pdf(-0.4, means, np.sqrt(variances + NOISE**2)) @ weights / weights.sum()
    found = model.predict(where).log_density(cells, np.ones((1, 2), bool))[0]
    assert found[0] == pytest.approx(stats.norm.logpdf(0.7, mean, np.sqrt(variance + NOISE**2)), abs=1e-4)
    assert found[1] == pytest.approx(np.log(density), abs=0.02)


def test_gpar_denoised_goes_on_from_latent_functions():
    """f² = g(x) + w E[f¹ | y¹], at given and at asked rows alike."""
    rng = np.random.default_rng(0)
    x, first = np.append(np.arange(6.0), 2.4)[:, None], rng.standard_normal(7)
    second = np.append(0.8 * first[:6] + 0.3 * rng.standard_normal(6), np.nan)
    model = baselines.GPAR(num_steps=0, num_draws=2, progress=False, standardise=False, noise=NOISE, linear=True,
                           nonlinear=False, denoise=True, kernel=RBF(lengthscale=0.8, variance=0.5))  # fmt: skip
    found = model.fit(x, np.column_stack([first, second])).impute(x[6:], np.array([[first[6], np.nan]])).mean[0, 1]
    K = 0.5 * np.exp(-0.5 * ((x - x.T) / 0.8) ** 2)
    smooth = K @ np.linalg.solve(K + (NOISE**2 + 1e-6) * np.eye(7), first)
    both = K + np.outer(smooth, smooth)
    wanted, _ = conditioned(both[:6, :6], both[:6, 6], both[6, 6], second[:6])
    assert found == pytest.approx(wanted, abs=1e-4)


def test_gpar_takes_columns_by_how_much_is_known_and_gives_them_back_in_place():
    x, y = wavy()
    y = pd.DataFrame({"gaps": y["b"].where(np.arange(12) > 3), "full": y["a"].fillna(0.0)})
    model = baselines.GPAR(**{**SMALL, "num_steps": 0}).fit(x, y)
    assert model.order_.tolist() == [1, 0]
    alone = baselines.IGP(**{**SMALL, "num_steps": 0}, noise=model.noise).fit(x, y[["full"]])
    np.testing.assert_allclose(model.predict(x).mean["full"], alone.predict(x).mean["full"], rtol=1e-6)


def test_series_are_read_in_the_order_of_time():
    """Whatever the order of the rows, each has the same neighbours."""
    x, y = wavy()
    model = baselines.BandedGPVAE(**{**SMALL, **NETWORKS, "num_steps": 0}, kernel=RBF(lengthscale=1.0))
    order = np.random.default_rng(1).permutation(12)
    one, other = (np.asarray(model.fit(x.iloc[i], y.iloc[i]).encode(x, y).mean) for i in (np.arange(12), order))
    np.testing.assert_allclose(one, other, atol=1e-6)


def test_one_column_leaves_nothing_to_regress_on():
    x, y = wavy()
    one = y[["a"]]
    a, b = (model.fit(x, one).predict(x).mean for model in (MODELS["IGP"], sklearn.base.clone(MODELS["GPAR"])
            .set_params(noise=MODELS["IGP"].noise)))  # fmt: skip
    np.testing.assert_allclose(a, b, rtol=1e-6)


def test_gpar_sees_one_column_in_another():
    """The second column is a square of the first, which moves too fast for a GP over x to follow."""
    rng = np.random.default_rng(0)
    x, first = np.arange(30.0)[:, None], rng.standard_normal(30)
    truth = np.column_stack([first, first**2])
    y = truth.copy()
    y[20:, 1] = np.nan
    shared = {"num_steps": 60, "num_draws": 20, "progress": False}
    errors = [np.mean((model.fit(x, y).impute(x, y).mean[20:, 1] - truth[20:, 1]) ** 2)
              for model in (baselines.GPAR(**shared), baselines.IGP(**shared))]  # fmt: skip
    assert errors[0] < 0.3 * errors[1]


def test_object_and_view_kernel_is_exact_on_its_grid():
    """The low-rank form of Periodic × Linear(vector) leaves no residual at the views of the table."""
    angles = np.tile(np.linspace(0, 5, 4), 3)
    x = np.column_stack([angles, np.repeat(np.arange(3.0), 4)])
    y = np.random.default_rng(0).standard_normal((12, 2))
    kernel = Embed(Select(Periodic(period=6.0, lengthscale=1.0), (0,)) * Select(Linear(), (1, 2)), 1, 3, 2)
    model = baselines.GPPVAE(**{**SMALL, **NETWORKS, "num_steps": 0}, kernel=kernel, standardise=False).fit(x, y)
    law = model.model_.latents
    from gpbae import gp

    residual = gp.sparse_projection(law.kernels, jnp.asarray(x), law.inducing).residual
    assert law.inducing.shape == (8, 3) and float(residual.max()) < 1e-4


@pytest.mark.parametrize("network", [PointNet(4, 2, (4,)), IndexNet(4, (4,)), FactorNet((4,))])
def test_partial_networks_do_not_see_missing_cells(network):
    from gpbae.autoencoder import encode_with

    encoder = network.encoder(jax.random.key(0), (3,), 2)
    mask = jnp.asarray([[True, False, True]])
    y = jnp.asarray([[0.3, 9.0, -1.0]])
    seeds = jnp.zeros((1, encoder.seed_size), jnp.float32)
    same = encode_with(encoder, y.at[0, 1].set(-5.0), mask, seeds)
    found = encode_with(encoder, y, mask, seeds)
    assert found.shape == (1, 2) and np.isfinite(found).all()
    np.testing.assert_array_equal(found, same)
    assert np.abs(found - encode_with(encoder, y, mask.at[0, 1].set(True), seeds)).max() > 1e-6


# Refusals.


def test_a_view_that_was_not_seen_has_the_mean_code_of_its_object():
    rng = np.random.default_rng(0)
    thing, angle = np.repeat(["cup", "jug", "pan"], 4), np.tile(np.arange(4.0), 3)
    y = rng.normal(size=(12, 3))
    model = baselines.CVAE(**SMALL, **NETWORKS, shared_code=True).fit(angle[:, None], y, groups=thing)
    codes = np.asarray(model.encode(angle[:, None], y, groups=thing, num_draws=SMALL["num_draws"]).mean)
    rows = model._rows(np.full((2, 1), 9.0), None, ["jug", "a kettle, never seen"])
    mean, sd = model._moments(rows)
    np.testing.assert_allclose(mean[0], codes[thing == "jug"].mean(axis=0), atol=1e-6)
    assert np.all(sd[0] < 1) and (mean[1], sd[1]) == (0, 1)


def test_a_conditional_autoencoder_does_not_depend_on_the_units_of_its_inputs():
    x, y = wavy()
    one, other = (
        baselines.CVAE(**SMALL, **NETWORKS).fit(factor * x + 5, y).impute(factor * x + 5, y) for factor in (1, 1e5)
    )
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-5)


WRONG = {
    "learning_rate must be a number above 0; got 'fast'": (baselines.VAE(), {"learning_rate": "fast"}),
    "learning_rate must be a number above 0; got inf": (baselines.VAE(), {"learning_rate": float("inf")}),
    "noise must be a number above 0; got None": (baselines.IGP(), {"noise": None}),
    "noise must be a number above 0; got -1": (baselines.GPAR(), {"noise": -1}),
    "latent_noise must be a number above 0; got 'a'": (baselines.GPPVAE(), {"latent_noise": "a"}),
    "learn_kernel must be True or False; got 'no'": (baselines.GPVAE(), {"learn_kernel": "no"}),
    "shared_code must be True or False; got 'no'": (baselines.CVAE(), {"shared_code": "no"}),
    "shared_code=True needs groups": (baselines.CVAE(), {"shared_code": True}),
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_arguments_are_refused_before_the_training(words):
    model, arguments = WRONG[words]
    with pytest.raises(InputError, match=words):
        model.set_params(**arguments).fit(*wavy())


def test_errors_are_one_sentence():
    x, y = wavy()
    with pytest.raises(GpbaeError, match="not fitted"):
        baselines.IGP().predict(x)
    with pytest.raises(InputError, match="no encoder"):
        groups = np.repeat(["a", "b"], 6)
        model = baselines.DeepSVIGP(**{**SMALL, **NETWORKS, "num_steps": 0}, num_inducing=3, batch_size=None)
        model.fit(x, y, groups).predict(x, groups=["c"] * 12)
    with pytest.raises(InputError, match="linear=True or nonlinear=True"):
        baselines.GPAR(nonlinear=False).fit(x, y)
    with pytest.raises(InputError, match="couples all rows"):
        baselines.GPVAE(**SMALL, batch_size=3).fit(x, y)
    with pytest.raises(InputError, match="needs inputs"):
        baselines.CVAE().fit(None, y)
    with pytest.raises(InputError, match="num_draws must be a whole number of at least 1"):
        baselines.VAE(**{**SMALL, **NETWORKS, "num_steps": 0}).fit(None, y).encode(None, y, num_draws=-3)


NO_STEPS = {**SMALL, **NETWORKS, "num_steps": 0}


def test_a_product_kernel_is_one_and_its_grid_is_for_linear_vectors():
    x, y = wavy()
    with pytest.raises(InputError, match="one kernel for all latents; got 2"):
        baselines.GPPVAE(**{**NO_STEPS, "latent_dim": 2}, kernel=[RBF(), RBF()]).fit(x, y)
    labelled = np.column_stack([np.tile(np.arange(4.0), 3), np.repeat(np.arange(3.0), 4)])
    bent = Embed(Select(Periodic(period=6.0, lengthscale=1.0), (0,)) * Select(RBF(lengthscale=1.0), (1, 2)), 1, 3, 2)
    model = baselines.GPPVAE(**NO_STEPS, kernel=bent, num_inducing=5, standardise=False).fit(labelled, y.fillna(0.0))
    assert model.model_.latents.inducing.shape == (5, 3)  # not the 4 × 2 of views × basis


@pytest.mark.parametrize("kind", [baselines.IGP, baselines.GPAR])
def test_labels_are_not_regressed_on(kind):
    x, y = wavy()
    for cells in (["calm", "wild", "rough"] * 4, [True, False] * 6):
        with pytest.raises(InputError, match=f"{kind.__name__} regresses on numbers.*: sea"):
            kind(**SMALL).fit(x, y.assign(sea=cells))


def test_questions_are_checked_before_they_are_answered():
    x, y = wavy()
    with pytest.raises(GpbaeError, match="not fitted"):
        baselines.IGP().score(x, y)
    model = baselines.VAE(**NO_STEPS).fit(x, y)
    for wrong in (1.0, np.zeros((0, 1)), np.array([[np.nan]])):
        with pytest.raises(InputError, match="x must"):
            model.predict(wrong)
    with pytest.raises(InputError, match="same number of rows"):
        model.impute(x[:3], y)
    assert model.predict(x, num_draws=5).samples.shape[0] == model.impute(x, y, num_draws=5).samples.shape[0] == 5
    with pytest.raises(InputError, match="num_draws must be a whole number"):
        model.predict(x, num_draws=0)


def test_default_batches_take_groups_longer_than_a_batch():
    rng = np.random.default_rng(0)
    x, y, groups = np.arange(600.0)[:, None], rng.standard_normal((600, 2)), np.repeat(["a", "b"], 300)
    baselines.DeepSVIGP(**NO_STEPS, num_inducing=3, kernel=RBF(lengthscale=9.0)).fit(x, y, groups)
    with pytest.raises(InputError, match="batch_size=None, or at least 300"):
        baselines.SVGPVAE(**NO_STEPS, num_inducing=3, kernel=RBF(lengthscale=9.0)).fit(x, y, groups)


# Training.


def discs(num_videos=4, num_frames=12, size=12, seed=0):
    """Videos of a small disc on a smooth path, and where it is."""
    rng = np.random.default_rng(seed)
    t = np.arange(num_frames, dtype=float)
    K = np.exp(-0.5 * ((t[:, None] - t) / 3) ** 2) + 1e-6 * np.eye(num_frames)
    paths = (np.linalg.cholesky(K) @ rng.standard_normal((num_videos, num_frames, 2))).reshape(-1, 2)
    centre = np.clip(size / 2 + paths * size / 6, 1, size - 2)
    squares = (np.arange(size) - centre[..., None]) ** 2
    y = (squares[:, 1, :, None] + squares[:, 0, None, :] < 4).astype(float)
    return np.tile(t, num_videos)[:, None], y, np.repeat(np.arange(num_videos), num_frames), centre


@pytest.mark.parametrize("kind", ["VAE", "GPVAE", "BandedGPVAE"])
def test_networks_are_taught_where_latents_start(kind):
    """Before the first step of the bound the encoder says where the disc is; without, it says little of it."""
    x, y, groups, centre = discs()
    shared = {"num_steps": 0, "latent_dim": 2, "likelihood": "bernoulli", "encoder": MLP((16,)), "decoder": MLP((16,)),
              "learning_rate": 1e-2, "batch_size": 24, "progress": False, "num_draws": 4}  # fmt: skip
    shared |= {} if kind == "VAE" else {"kernel": RBF(lengthscale=3.0), "learn_kernel": False}
    errors = []
    for num in (0, 300):
        model = getattr(baselines, kind)(**shared, num_start_steps=num).fit(x, y, groups)
        errors.append(affine_rmse(np.asarray(model.encode(x, y, groups).mean), centre)["rmse_coord"])
        assert {e["phase"] for e in model.history_} == ({"start"} if num else set())
    assert errors[1] < 0.45 * errors[0] and errors[1] < 0.6


def test_a_free_law_starts_at_the_starting_latents_and_leaves_the_kernel():
    x, y, _, centre = discs(num_videos=1, num_frames=30)
    model = baselines.DeepSVIGP(num_steps=0, num_start_steps=300, latent_dim=2, likelihood="bernoulli", num_inducing=20,
                                decoder=MLP((16,)), kernel=RBF(lengthscale=3.0), batch_size=None, learning_rate=3e-2,
                                progress=False)  # fmt: skip
    model.fit(x, y)
    assert affine_rmse(np.asarray(model.encode(x, y).mean), centre)["rmse_coord"] < 0.5
    assert float(model.model_.latents.kernels[0].log_lengthscale[0]) == pytest.approx(np.log(3.0))


def test_the_bound_at_the_start_is_that_of_a_prior_around_the_starting_latents():
    """With an identity decoder and cells as pseudo-observations it is known in closed form."""
    y, aim = jnp.asarray(np.random.default_rng(0).standard_normal((2, 6, 2)))
    table = Table(jnp.zeros((6, 1)), y, jnp.ones((6, 2), bool), jnp.zeros(6, jnp.int32), jnp.arange(6)[None])
    encoder = Passing(jnp.asarray(2 * np.log(NOISE)))
    model = VariationalAutoencoder(encoder, IdentityDecoder(), Gaussian(NOISE), Independent())
    one = lambda key: bound_at_start(model, table, FullBatch(), aim, key)[0]  # noqa: E731
    losses = np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), 2000)))
    kl = np.log(STARTING_SPREAD / NOISE) + (NOISE**2 + np.asarray(y - aim) ** 2) / (2 * STARTING_SPREAD**2) - 0.5
    surprise = 0.5 - stats.norm.logpdf(0, scale=NOISE)  # −E log N(y; z, s²) with z ~ N(y, s²)
    error = losses.std() / np.sqrt(len(losses))
    assert losses.mean() == pytest.approx(kl.sum() / 6 + 2 * surprise, abs=4 * error)


@pytest.mark.parametrize("kind", [baselines.VAE, baselines.GPPVAE])
def test_snapshots_are_the_model_in_training_and_are_not_saved(kind, tmp_path):
    x, y = wavy()
    model = kind(**{**SMALL, **NETWORKS, "num_steps": 40}, batch_size=6, keep_snapshots=True).fit(x, y)
    assert [s.num_steps for s in model.snapshots_] == list(range(2, 42, 2))
    clock = [s.seconds for s in model.snapshots_]
    assert clock == sorted(clock) and model.snapshots_[0].processor_seconds > 0
    first, last = (model.as_of(model.snapshots_[i]).predict(x).mean for i in (0, -1))
    pd.testing.assert_frame_equal(last, model.predict(x).mean)
    assert np.abs(first - last).max().max() > 1e-3
    model.save(tmp_path / "model")
    assert not hasattr(gpbae.load(tmp_path / "model"), "snapshots_")
