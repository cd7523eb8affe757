"""Scores against their closed forms."""

import numpy as np
import pytest
from scipy import stats

from gpbae.scoring import metrics


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_absolute_and_squared_errors():
    mean, truth = np.array([1.0, 2.0, 6.0]), np.array([1.0, 4.0, 3.0])
    assert metrics.mae(mean, truth) == pytest.approx(5 / 3)
    assert metrics.rmse(mean, truth) == pytest.approx(np.sqrt(13 / 3))


def test_smse_is_one_for_the_mean_itself_and_zero_for_the_truth(rng):
    truth = rng.standard_normal(50)
    assert metrics.smse(np.full(50, truth.mean()), truth) == pytest.approx(1.0)
    assert metrics.smse(truth, truth) == 0.0
    assert metrics.smse(10 * truth + 1, 10 * truth) == pytest.approx(0.01 / np.var(truth))
    assert np.isnan(metrics.smse(np.array([1.0]), np.array([2.0])))


def test_gaussian_nll_is_the_normal_density():
    assert metrics.gaussian_nll(np.zeros(2), np.ones(2), np.array([0.0, 2.0])) == pytest.approx(
        0.5 * np.log(2 * np.pi) + 1.0
    )
    truth, mean, sd = np.array([1.0, -3.0]), np.array([0.5, 0.0]), np.array([2.0, 0.1])
    assert metrics.gaussian_nll(mean, sd, truth) == pytest.approx(-np.mean(stats.norm.logpdf(truth, mean, sd)))


def crps_of_a_normal(y, mean, sd):
    """Gneiting and Raftery (2007), equation 5."""
    z = (y - mean) / sd
    return sd * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))


def test_crps_of_normal_draws_is_the_closed_form(rng):
    """Unbiased, so within Monte-Carlo errors: 4000 replicates of 20 draws."""
    y, mean, sd = 1.3, 0.4, 0.7
    scores = [metrics.crps(rng.normal(mean, sd, (20, 1)), np.array([y])) for _ in range(4000)]
    error = np.std(scores) / np.sqrt(len(scores))
    assert abs(np.mean(scores) - crps_of_a_normal(y, mean, sd)) < 4 * error


def test_crps_is_the_mean_over_pairs(rng):
    draws, truth = rng.standard_normal((7, 3)), rng.standard_normal(3)
    pairs = [np.abs(draws[i] - draws[j]) for i in range(7) for j in range(7) if i != j]
    expected = np.mean(np.abs(draws - truth)) - 0.5 * np.mean(pairs)
    assert metrics.crps(draws, truth) == pytest.approx(expected)


def test_crps_of_one_draw_is_the_absolute_error():
    assert metrics.crps(np.array([[2.0, 5.0]]), np.array([1.0, 1.0])) == pytest.approx(2.5)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
def test_coverage_of_calibrated_draws_is_the_level(rng, level):
    cells, draws = 20_000, 400
    covered = metrics.coverage(rng.standard_normal((draws, cells)), rng.standard_normal(cells), level)
    assert abs(covered - level) < 4.5 * np.sqrt(level * (1 - level) / cells) + 2 / draws


def test_coverage_counts_cells_inside():
    draws = np.linspace(0, 1, 101)[:, None] * np.ones((1, 4))
    assert metrics.coverage(draws, np.array([0.04, 0.06, 0.94, 0.96]), 0.9) == 0.5


def test_pit_is_the_place_among_the_draws():
    draws = np.array([0.0, 1.0, 2.0, 3.0])[:, None]
    assert 0.4 <= metrics.pit(draws, np.array([1.5])) <= 0.6  # between the second and the third of five places
    assert 0.2 <= metrics.pit(draws, np.array([1.0])) <= 0.6  # some part of the tie


@pytest.mark.parametrize("num_draws", [7, 40])
def test_pit_of_few_draws_is_uniform(num_draws):
    """Also where bins of a histogram and places among the draws do not fit each other."""
    rng = np.random.default_rng(0)
    pit = metrics.pit(rng.standard_normal((num_draws, 40_000)), rng.standard_normal(40_000))
    assert stats.kstest(pit, "uniform").pvalue > 1e-3
    assert stats.chisquare(np.histogram(pit, 20, (0, 1))[0]).pvalue > 1e-3


@pytest.mark.parametrize(("num_cells", "num_draws"), [(60, 40), (500, 7), (4000, 40)])
def test_bars_of_a_calibrated_histogram_lie_in_its_band(num_cells, num_draws):
    """99 of 100 of them; a binomial is in whole steps, so a few more."""
    bins = metrics.num_bins(num_cells, num_draws)
    assert 5 <= bins <= min(20, num_draws + 1)
    low, high = metrics.band_of_bins(num_cells, bins)
    assert low < 1 < high
    pit = np.random.default_rng(0).uniform(size=(2000, num_cells))
    bars = np.array([np.histogram(one, bins, (0, 1))[0] for one in pit]) * bins / num_cells
    inside = np.mean((bars >= low - 1e-9) & (bars <= high + 1e-9))
    assert 0.99 - 5 * np.sqrt(0.01 / bars.size) <= inside < 0.9999


def test_probability_integral_of_counts_is_uniform():
    rng = np.random.default_rng(0)
    for law in (lambda n: rng.integers(0, 2, n), lambda n: rng.poisson(0.7, n)):
        pit = metrics.pit(law((400, 4000)).astype(float), law(4000).astype(float))
        for level in (0.5, 0.8, 0.9):
            inside = np.mean(np.abs(pit - 0.5) <= level / 2)
            assert abs(inside - level) < 5 * np.sqrt(level * (1 - level) / 4000) + 0.01  # the draws' own error
