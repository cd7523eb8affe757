"""An answer's mean, sd, quantiles, parts and density agree with each other and with SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from gpbae.answering.large import LargePredictive
from gpbae.answering.predictive import Predictive
from gpbae.errors import GpbaeError, InputError
from gpbae.likelihoods import Bernoulli, Categorical, Gaussian, Poisson
from gpbae.tabular.columns import Coding
from gpbae.tabular.tables import Frame, Scaler
from gpbae.tabular.transforms import Identity, Log

S, R, T, P = 60, 4, 5, 3
NOISE = 0.3
SCALER = Scaler(np.array([1.0, -2.0, 0.0]), np.array([2.0, 0.5, 10.0]))
UNIT = Scaler(np.zeros(P), np.ones(P))


def every_draw(likelihood, num=S):
    return jax.tree.map(lambda a: jnp.broadcast_to(a, (num, *a.shape)), likelihood)


@pytest.fixture(scope="module")
def eta():
    return np.random.default_rng(0).standard_normal((S, R, T, P))


@pytest.fixture(scope="module")
def answer(eta):
    rng = np.random.default_rng(1)
    features = {"hyper": rng.standard_normal((S, 2)), "latent_mean": eta.mean(axis=1)[..., :2] + 0.1}
    return Predictive(eta, every_draw(Gaussian(NOISE)), SCALER, Frame((P,)), features=features)


def test_an_answer_that_is_no_number_is_not_given(eta):
    """The first such row is named; padding may hold anything."""
    broken = eta.copy()
    broken[7, 2, 3, 1] = np.nan
    with pytest.raises(GpbaeError, match="1 of 5 rows, the first of them row 3, have draws that are not"):
        Predictive(broken, every_draw(Gaussian(NOISE)), SCALER, Frame((P,)))
    padded = Predictive(broken, every_draw(Gaussian(NOISE)), SCALER, Frame((P,)), num_rows=3)
    assert np.isfinite(padded.mean).all()


def test_mean_and_sd_are_those_of_the_mixture(answer, eta):
    original = eta * SCALER.scale + SCALER.location
    np.testing.assert_allclose(answer.mean, original.mean(axis=(0, 1)), rtol=1e-12)
    variance = original.var(axis=(0, 1)) + (NOISE * SCALER.scale) ** 2
    np.testing.assert_allclose(answer.sd**2, variance, rtol=1e-12)


def test_samples_have_the_moments_of_the_answer(answer):
    assert answer.samples.shape == (S * R, T, P)
    error = answer.sd / np.sqrt(S * R)
    assert (np.abs(answer.samples.mean(axis=0) - answer.mean) < 4.5 * error).all()
    assert (np.abs(answer.samples.std(axis=0) / answer.sd - 1) < 4.5 / np.sqrt(2 * S * R)).all()


def test_quantiles_are_in_order_and_intervals_nest(answer):
    low, median, high = answer.quantile(0.05), answer.quantile(0.5), answer.quantile(0.95)
    assert (low < median).all()
    assert (median < high).all()
    wide, narrow = answer.interval(0.9), answer.interval(0.5)
    np.testing.assert_allclose(wide, (low, high), rtol=1e-12)
    assert (wide[0] < narrow[0]).all()
    assert (narrow[1] < wide[1]).all()


@pytest.mark.parametrize(
    ("given", "hint"), [(90.0, "90.0. Did you mean 0.9"), (-0.1, "-0.1. Pass"), (np.nan, "nan. Pass")]
)
def test_a_probability_is_none_above_one(answer, given, hint):
    """Of tables in blocks before any block is decoded."""
    large = LargePredictive.__new__(LargePredictive)
    for name, ask in {"level": Predictive.interval, "q": Predictive.quantile}.items():
        with pytest.raises(InputError, match=f"{name} must be a probability between 0 and 1; got {hint}"):
            ask(answer, given)
        with pytest.raises(InputError, match=f"{name} must be a probability between 0 and 1; got {hint}"):
            getattr(large, ask.__name__)(given)


def test_an_interval_of_few_draws_holds_as_much_as_it_says():
    """Truth and draws of one law: 19 draws are the fewest whose range can be cut to 90 %."""
    rng, num_rows = np.random.default_rng(2), 4000
    few = Predictive(rng.standard_normal((19, 1, num_rows, 1)), every_draw(Gaussian(NOISE), 19),
                     Scaler(np.zeros(1), np.ones(1)), Frame((1,)))  # fmt: skip
    truth = rng.standard_normal((num_rows, 1)) + NOISE * rng.standard_normal((num_rows, 1))
    low, high = few.interval(0.9)
    assert abs(np.mean((low <= truth) & (truth <= high)) - 0.9) < 4 * np.sqrt(0.9 * 0.1 / num_rows)


def test_variance_parts_add_up(answer):
    parts = answer.variance_parts()
    assert all((part >= 0).all() for part in parts.values())
    np.testing.assert_allclose(sum(parts.values()), answer.sd**2, rtol=1e-9)
    np.testing.assert_allclose(parts["observation noise"], np.broadcast_to((NOISE * SCALER.scale) ** 2, (T, P)))
    assert (parts["GP values"][:, :2] > parts["decoder"][:, :2]).all()  # what the features explain is given to them


def test_a_decoder_that_does_not_vary_gets_no_variance():
    """η differs by latents alone, R of them a draw: their mean still varies, and that is not the decoder's doing."""
    eta = np.random.default_rng(3).standard_normal((2000, R, T, P))
    parts = Predictive(eta, every_draw(Gaussian(NOISE), 2000), UNIT, Frame((P,))).variance_parts()
    error = np.sqrt(2 / (2000 * R))
    np.testing.assert_allclose(parts["latent conditional"], 1.0, atol=4.5 * error)
    assert (parts["decoder"] < 4.5 * error).all()


def test_one_draw_has_the_density_of_a_normal():
    eta = np.random.default_rng(2).standard_normal((1, 1, T, P))
    answer = Predictive(eta, every_draw(Gaussian(NOISE), 1), SCALER, Frame((P,)))
    y = SCALER.inverse(eta[0, 0] + 0.2)
    mask = np.arange(T * P).reshape(T, P) % 4 != 0
    expected = stats.norm.logpdf(y, SCALER.inverse(eta[0, 0]), NOISE * SCALER.scale)
    got = answer.log_density(np.where(mask, y, np.nan), mask)
    np.testing.assert_allclose(got[mask], expected[mask], rtol=1e-12)
    assert np.isnan(got[~mask]).all()


def test_the_density_of_many_draws_is_the_mean_of_densities(answer, eta):
    y = SCALER.inverse(np.zeros((T, P)))
    density = stats.norm.pdf(y, eta * SCALER.scale + SCALER.location, NOISE * SCALER.scale)
    got = answer.log_density(y, np.ones((T, P), bool))
    np.testing.assert_allclose(got, np.log(density.mean(axis=(0, 1))), rtol=1e-10)


def test_binary_answers_are_probabilities(eta):
    answer = Predictive(eta, every_draw(Bernoulli()), UNIT, Frame((P,)))
    p = (1 / (1 + np.exp(-eta))).mean(axis=(0, 1))
    np.testing.assert_allclose(answer.mean, p, rtol=1e-10)
    np.testing.assert_allclose(answer.sd**2, p * (1 - p), rtol=1e-10)
    assert set(np.unique(answer.samples)) == {0.0, 1.0}
    np.testing.assert_allclose(answer.log_density(np.ones((T, P)), np.ones((T, P), bool)), np.log(p), rtol=1e-10)


def test_who_asks_for_the_mean_of_labels_is_told_what_they_have():
    """The names of what is NaN, and what gives the likeliest label and the probability of each; inside, nobody asks."""
    eta = np.random.default_rng(0).standard_normal((S, R, T, 6))
    likelihood = Categorical(3).initialise(np.ones((4, 2)), np.ones((4, 2), bool))
    coding = Coding("labels", "object", ("calm", "rough", "wild"))
    frame = Frame((2,), ["sea", "sky"], codings=(coding, coding))
    answer = Predictive(eta, every_draw(likelihood), Scaler(np.zeros(2), np.ones(2)), frame)
    chances = answer.probabilities("sea")
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert list(answer.point["sea"]) == list(chances.idxmax(axis=1))
    several = LargePredictive(lambda number, rows: answer, T, T)
    assert several.point.equals(answer.point) and np.isnan(answer.unwarned_mean).all(axis=None)
    for asked in (answer, several):
        with pytest.warns(UserWarning, match=r"sea, sky is NaN: use .point .* or .probabilities\('sea'\)"):
            assert np.isnan(asked.mean).all(axis=None)


def test_what_cannot_occur_has_no_density(eta):
    """A 2 among yes and no, a code that no class has, half a count, a negative number among logarithms."""
    y, every = np.array([[2.0, 0.0, 1.0]] * T), np.ones((T, P), bool)
    found = Predictive(eta + 5, every_draw(Bernoulli()), UNIT, Frame((P,))).log_density(y, every)
    np.testing.assert_array_equal(np.isneginf(found), y == 2)
    assert (found[y != 2] <= 0).all()
    for likelihood, stray in ((Categorical(3), 3.0), (Poisson(), 0.5), (Poisson(), -1.0)):
        sized = likelihood.initialise(np.ones((4, P)), np.ones((4, P), bool))
        wide = np.repeat(eta, 3, axis=3) if stray == 3 else eta
        cells = np.where(np.arange(P) == 1, stray, np.ones((T, P)))
        found = Predictive(wide, every_draw(sized), UNIT, Frame((P,))).log_density(cells, every)
        assert np.isneginf(found[:, 1]).all() and np.isfinite(found[:, [0, 2]]).all()
    bent = Scaler(np.zeros(P), np.ones(P), (Identity(), Log(), Log()))
    found = Predictive(eta, every_draw(Gaussian(NOISE)), bent, Frame((P,))).log_density(y - 0.5, every)
    np.testing.assert_array_equal(np.isneginf(found), (np.arange(P) > 0) & (y - 0.5 <= 0))


def test_latents_have_no_noise_and_no_density(eta):
    answer = Predictive(eta, None, UNIT, Frame((P,)))
    np.testing.assert_allclose(answer.sd, eta.std(axis=(0, 1)))
    with pytest.raises(ValueError, match="no observation density"):
        answer.log_density(np.zeros((T, P)), np.ones((T, P), bool))


def test_frames_come_back_as_frames(eta):
    answer = Predictive(eta, None, UNIT, Frame((P,), ["a", "b", "c"]), index=list("vwxyz"))
    for frame in (answer.mean, answer.sd, answer.quantile(0.3), *answer.interval(), *answer.variance_parts().values()):
        assert isinstance(frame, pd.DataFrame)
        assert list(frame.columns) == ["a", "b", "c"]
        assert list(frame.index) == list("vwxyz")


def test_images_keep_their_shape(eta):
    answer = Predictive(np.repeat(eta, 2, axis=-1), None, UNIT, Frame((2, 3)))
    assert answer.mean.shape == answer.quantile(0.5).shape == (T, 2, 3)
    assert answer.samples.shape == (S * R, T, 2, 3)
