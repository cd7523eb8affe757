"""Transforms of columns: invertible maps with the slope they claim, fitted from words, and undone in every answer."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from gpbae import BAE
from gpbae.answering.predictive import Predictive, num_noise_draws
from gpbae.errors import InputError
from gpbae.likelihoods import Gaussian, StudentT
from gpbae.tabular import transforms
from gpbae.tabular.tables import Frame, Scaler, fit_scaler
from gpbae.tabular.transforms import Identity, Log, Log1p, YeoJohnson

MAPS = {
    "identity": Identity(),
    "log": Log(),
    "log1p": Log1p(0.6),
    **{f"yeo-johnson {p}": YeoJohnson(p, 1.0, 2.0) for p in (0.0, 1e-9, 0.4, 1.0, 1.7, 2.0)},
}
Y = np.array([0.01, 0.3, 0.999, 1.0, 1.001, 2.5, 40.0])


@pytest.mark.parametrize("name", MAPS)
def test_inverse_undoes_forward_and_slope_is_the_derivative(name):
    t = MAPS[name]
    np.testing.assert_allclose(t.inverse(t.forward(Y)), Y, rtol=1e-9)
    h = 1e-6 * Y
    derivative = (t.forward(Y + h) - t.forward(Y - h)) / (2 * h)
    np.testing.assert_allclose(t.log_slope(Y), np.log(derivative), atol=1e-5)


@pytest.mark.parametrize("power", [0.0, 0.3, 1.0, 1.6, 2.0])
def test_yeo_johnson_is_that_of_scipy(power):
    y = np.linspace(-3, 5, 17)
    np.testing.assert_allclose(YeoJohnson(power, 0.0, 1.0).forward(y), stats.yeojohnson(y, power), rtol=1e-10)


def test_fitted_power_is_that_of_scipy_and_does_not_see_units():
    y = np.random.default_rng(0).gamma(2.0, size=400)
    (t,) = transforms.fit("yeo-johnson", y[:, None], ["a"])
    _, expected = stats.yeojohnson((y - np.median(y)) / np.std(y))
    assert t.power == pytest.approx(expected, abs=1e-3)
    (scaled,) = transforms.fit("yeo-johnson", 1000 * y[:, None] - 7, ["a"])
    assert scaled.power == pytest.approx(t.power, abs=1e-3)


def test_words_go_by_column_and_the_last_match_wins():
    values = np.abs(np.random.default_rng(0).standard_normal((20, 3))) + 0.1
    found = transforms.fit({"*": "log", "b": "none"}, values, ["a", "b", "c"])
    assert [type(t).__name__ for t in found] == ["Log", "Identity", "Log"]
    assert transforms.fit("none", values, list("abc")) == ()


def test_auto_takes_logs_of_skewed_positive_columns_only():
    rng = np.random.default_rng(0)
    rain = np.maximum(rng.standard_normal(200) - 0.3, 0.0) ** 2
    values = [np.exp(rng.standard_normal(200)), 5 + rng.uniform(size=200), rng.exponential(size=200) - 1, rain]
    found = transforms.fit("auto", np.stack(values, axis=1), list("abcd"))
    assert [type(t) for t in found] == [Log, Identity, Identity, Log1p]
    assert found[3].unit == np.median(rain[rain > 0])


@pytest.mark.filterwarnings("ignore:Precision loss occurred:RuntimeWarning")
def test_skewness_is_that_of_scipy_where_there_is_nothing_but_rounding_too():
    rng = np.random.default_rng(0)
    for y in (rng.standard_normal(50), rng.exponential(size=9), 1e9 * rng.gamma(0.1, size=200), 1e-200 * Y):
        np.testing.assert_allclose(transforms._skewness(y), stats.skew(y), rtol=1e-9)
    for y in (np.full(9, 0.1), np.array([1e16] * 8 + [1e16 + 2])):
        assert np.isnan(transforms._skewness(y)) and np.isnan(stats.skew(y))


@pytest.mark.parametrize("scale", [0.01, 1.0, 500.0])
def test_a_single_zero_leaves_the_others_their_logarithms(scale):
    """Up to a constant and log 2 at the unit, below which lies a twentieth of them, in whatever units they are."""
    y = scale * np.exp(np.random.default_rng(0).standard_normal(250))
    y[17] = 0.0
    (found,) = transforms.fit("auto", y[:, None], ["a"])
    above = y[y >= found.unit]
    assert isinstance(found, transforms.Log1p) and len(above) >= 0.94 * len(y)
    gap = found.forward(above) - np.log(above / found.unit)
    assert (gap >= 0).all() and (gap <= np.log(2) + 1e-12).all()
    (same,) = transforms.fit("auto", 7.0 * y[:, None], ["a"])
    np.testing.assert_allclose(same.forward(7.0 * y), found.forward(y))


def test_the_unit_of_log1p_grows_with_the_zeros_up_to_the_median():
    positive = np.exp(np.random.default_rng(0).standard_normal(400))
    units = [transforms._log1p(np.r_[np.zeros(n), positive]).unit for n in (1, 20, 100, 400, 4000)]
    assert units[0] == units[1] == np.quantile(positive, 0.05) and units[3] == units[4] == np.median(positive)
    assert units[1] < units[2] < units[3]


def test_what_log1p_gives_back_is_never_negative():
    t = Log1p(0.5)
    assert (t.inverse(np.linspace(-900, 5, 100)) >= 0).all() and t.inverse(t.forward(np.zeros(1))) == 0
    with pytest.raises(InputError, match="must not be below 0; got -2"):
        t.forward(np.array([-2.0, 1.0]))


def test_auto_by_name_leaves_alone_what_is_no_real_number():
    """Codes of labels and counts are skewed too, and nobody has asked for their logarithm."""
    rng = np.random.default_rng(0)
    y = pd.DataFrame({"a": np.exp(rng.standard_normal(40)), "n": rng.poisson(0.3, 40), "b": rng.standard_normal(40)})
    model = BAE(latent_dim=1, decoder="linear", encoder="linear", num_chains=1, num_warmup=2, num_samples=3,
                sampler_steps=2, num_map_steps=2, transform={"*": "auto"}, progress=False).fit(None, y)  # fmt: skip
    assert [type(t) for t in model.scaler_.transforms] == [Log, Identity, Identity]


@pytest.mark.parametrize(
    ("wanted", "words"),
    [("cube", "must be one of"), ("log", "needs values above 0; got -1 in column 'b'"), ({"z*": "log"}, "'z\\*'")],
)
def test_a_wrong_word_is_refused_in_a_sentence(wanted, words):
    with pytest.raises(InputError, match=words):
        transforms.fit(wanted, np.array([[1.0, -1.0], [2.0, 3.0]]), ["a", "b"])


def test_a_value_the_fitted_transform_cannot_take_is_refused():
    scaler = fit_scaler(np.ones((3, 1)), np.ones((3, 1), bool), True, (Log(),))
    with pytest.raises(InputError, match="above 0; got -2"):
        scaler.forward(np.array([[-2.0], [np.nan]]))


NOISE, ETA = 0.4, 0.7


@pytest.fixture(scope="module")
def lognormal():
    """One cell, whose log is N(2 · 0.7 + 1, (2 · 0.4)²), beside one without a transform."""
    eta = np.full((4000, 1, 1, 2), ETA)
    likelihood = jax.tree.map(lambda a: jnp.broadcast_to(a, (4000, *a.shape)), Gaussian(NOISE))
    scaler = Scaler(np.ones(2), np.full(2, 2.0), (Log(), Identity()))
    return Predictive(eta, likelihood, scaler, Frame((2,))), stats.lognorm(2 * NOISE, scale=np.exp(2 * ETA + 1))


def test_answers_are_in_original_units(lognormal):
    answer, law = lognormal
    error = 4 / np.sqrt(4000 * num_noise_draws(4000))
    assert answer.mean[0, 0] == pytest.approx(law.mean(), abs=error * law.std())
    assert answer.mean[0, 1] == pytest.approx(2 * ETA + 1, abs=error)
    assert answer.sd[0, 0] == pytest.approx(law.std(), rel=0.1)
    for q in (0.1, 0.5, 0.9):
        spread = np.sqrt(q * (1 - q) / 4000) / law.pdf(law.ppf(q))
        assert answer.quantile(q)[0, 0] == pytest.approx(law.ppf(q), abs=5 * spread)
    assert sum(p[0, 0] for p in answer.variance_parts().values()) == pytest.approx(answer.sd[0, 0] ** 2, rel=1e-6)


def test_one_value_of_a_transformed_cell_is_its_median():
    """The mean of exp t has no bound where t has heavy tails: a table was filled with 10⁶ among threes."""
    likelihood = jax.tree.map(lambda a: jnp.broadcast_to(a, (500, *a.shape)), StudentT(0.5, freedom=2.1))
    eta = 0.1 * np.random.default_rng(0).standard_normal((500, 1, 1, 2)) + ETA
    scaler = Scaler(np.ones(2), np.ones(2), (Log(), Identity()))
    answer = Predictive(eta, likelihood, scaler, Frame((2,)))
    assert answer.point[0, 0] == pytest.approx(np.exp(ETA + 1), rel=0.02)
    assert answer.point[0, 1] == answer.mean[0, 1] and answer.mean[0, 0] > 1.5 * answer.point[0, 0]


def test_density_carries_the_jacobian(lognormal):
    answer, law = lognormal
    y, mask = np.array([[5.0, np.nan]]), np.array([[True, False]])
    density = answer.log_density(y, mask)
    assert density[0, 0] == pytest.approx(law.logpdf(5.0), rel=1e-5) and np.isnan(density[0, 1])


def test_a_transformed_fit_is_saved_with_its_transform(tmp_path):
    from gpbae import load

    rng = np.random.default_rng(0)
    y = pd.DataFrame(np.exp(rng.standard_normal((12, 2))), columns=["a", "b"])
    y.iloc[3, 0] = np.nan
    model = BAE(latent_dim=1, decoder="linear", encoder="linear", num_chains=1, num_warmup=2, num_samples=3,
                sampler_steps=2, num_map_steps=2, transform={"a": "log"}, progress=False).fit(None, y)  # fmt: skip
    filled = model.impute(None, y).filled
    assert filled["a"].gt(0).all() and np.isfinite(filled.to_numpy()).all()
    model.save(tmp_path / "model")
    pd.testing.assert_frame_equal(load(tmp_path / "model").impute(None, y).filled, filled)
    with pytest.raises(InputError, match="above 0"):
        model.impute(None, -y)


def test_a_name_with_brackets_stands_for_itself_before_any_pattern():
    assert transforms.word({"NO2 [ug/m3]": "log", "*": "none"}, "NO2 [ug/m3]") == "log"
    assert transforms.word({"NO2*": "log1p", "*": "auto"}, "NO2 [ug/m3]") == "auto"
