"""Hidden cells, the scores they are given, and the simple rivals that a model is compared with."""

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

from gpbae import evaluation, metrics, rivals
from gpbae.errors import InputError
from gpbae.evaluation import Holdout

N, P = 200, 3


@pytest.fixture(scope="module")
def table():
    """Three columns of one slow wave and noise 0.1, in two groups, with gaps."""
    rng = np.random.default_rng(0)
    x = np.tile(np.linspace(0, 10, N // 2), 2)[:, None]
    codes = np.repeat([0, 1], N // 2)
    wave = np.sin(x[:, 0] + codes)
    y = np.stack([wave, 2 * wave, 100 - wave], axis=1) + 0.1 * rng.standard_normal((N, P))
    return x, codes, np.where(rng.random(y.shape) < 0.05, np.nan, y)


# Scores.


@pytest.mark.parametrize("truth", [-2.0, 0.3, 5.0])
def test_crps_of_a_normal_is_the_integral_that_defines_it(truth):
    law = stats.norm(0.5, 2.0)
    below = integrate.quad(lambda t: law.cdf(t) ** 2, -40, truth)[0]
    above = integrate.quad(lambda t: (1 - law.cdf(t)) ** 2, truth, 40)[0]
    closed = metrics.gaussian_crps(np.array([0.5]), np.array([2.0]), np.array([truth]))
    assert closed[0] == pytest.approx(below + above, rel=1e-6)


def test_scores_of_many_draws_are_those_of_the_normal_they_come_from():
    rng = np.random.default_rng(0)
    truth, mean, sd = rng.standard_normal(50), rng.standard_normal(50), rng.uniform(0.5, 2, 50)
    samples = mean + sd * rng.standard_normal((20_000, 50))
    drawn = evaluation.of_draws(mean, samples, stats.norm.logpdf(truth, mean, sd), truth)
    exact = evaluation.of_normal(mean, sd, truth)
    for a, b, error in zip(drawn, exact, (0, 0, 5 * 2 / 141, 5 * 0.5 / 141), strict=True):
        np.testing.assert_allclose(a, b, atol=error + 1e-12)


def test_summary_has_the_closed_forms_of_a_calibrated_normal():
    rng = np.random.default_rng(1)
    num, sd = 40_000, 3.0
    found = evaluation.summary(evaluation.of_normal(np.zeros(num), np.full(num, sd), sd * rng.standard_normal(num)),
                               sd, sd**2)  # fmt: skip
    error = 5 / np.sqrt(num)
    assert found["mae"] == pytest.approx(np.sqrt(2 / np.pi), abs=error)
    assert found["rmse"] == pytest.approx(1, abs=error) and found["smse"] == pytest.approx(1, abs=2 * error)
    assert found["nlpd"] == pytest.approx(np.log(sd) + 0.5 * np.log(2 * np.pi) + 0.5, abs=error)
    assert found["crps"] == pytest.approx(1 / np.sqrt(np.pi), abs=error)
    for level in (50, 80, 90, 95):
        assert found[f"coverage{level}"] == pytest.approx(level / 100, abs=error)


# Hiding.


@pytest.mark.parametrize("how", ["cells", "blocks", "rows"])
def test_a_share_of_the_known_cells_is_hidden(how, table):
    x, codes, y = table
    mask = ~np.isnan(y)
    hidden = Holdout(how, 0.2, block_length=10).choose(mask, x, codes, list("abc"))
    assert not (hidden & ~mask).any()
    assert 0.1 * mask.sum() < hidden.sum() < 0.3 * mask.sum()
    again = Holdout(how, 0.2, block_length=10).choose(mask, x, codes, list("abc"))
    np.testing.assert_array_equal(hidden, again)


def test_blocks_are_runs_within_a_group_in_order_of_x(table):
    x, codes, _ = table
    shuffled = np.random.default_rng(0).permutation(N)
    hidden = Holdout("blocks", 0.1, block_length=10).choose(np.ones((N, P), bool), x[shuffled], codes[shuffled], "abc")
    order = np.lexsort((x[shuffled, 0], codes[shuffled]))
    for column in hidden[order].T:
        edges = np.flatnonzero(np.diff(np.concatenate([[0], column.astype(int), [0]])))
        ends = set(np.flatnonzero(np.diff(codes)) + 1) | {N}
        for start, stop in edges.reshape(-1, 2):
            assert stop - start >= 10 or stop in ends


def test_one_column_is_hidden_from_a_place_on(table):
    x, codes, y = table
    hidden = Holdout(("column", "b", 5.0)).choose(~np.isnan(y), x, codes, list("abc"))
    np.testing.assert_array_equal(hidden[:, 1], (x[:, 0] >= 5) & ~np.isnan(y[:, 1]))
    assert not hidden[:, [0, 2]].any()


@pytest.mark.parametrize(
    ("holdout", "words"),
    [
        (Holdout("squares"), "how must be"),
        (Holdout(share=1.5), "between 0 and 1"),
        (Holdout(share=1e-9), "hides no cell"),
        (Holdout(("column", "z", 0.0)), "name a column"),
        (Holdout(("column", "a", 99.0)), "no known cell from"),
    ],
)
def test_hiding_nothing_or_nonsense_is_refused(holdout, words, table):
    x, codes, y = table
    with pytest.raises(InputError, match=words):
        holdout.choose(~np.isnan(y), x, codes, list("abc"))


# Rivals.


def test_interpolation_is_exact_on_lines_and_never_crosses_groups():
    x, codes = np.array([[0.0], [1.0], [3.0], [0.0], [1.0]]), np.array([0, 0, 0, 1, 1])
    y = np.array([[0.0], [np.nan], [6.0], [np.nan], [100.0]])
    np.testing.assert_allclose(rivals.linear_interpolation(x, codes, y)[:, 0], [0, 2, 6, 100, 100])


@pytest.mark.parametrize("name", rivals.RIVALS)
def test_a_rival_s_interval_holds_what_it_says(name, table):
    x, codes, y = table
    holdout = Holdout("cells", 0.2, seed=3)
    hide = lambda mask: holdout.choose(mask, x, codes, list("abc"))  # noqa: E731
    hidden = hide(~np.isnan(y))
    filled = rivals.fill(rivals.RIVALS[name], x, codes, np.where(hidden, np.nan, y), hide)
    found = evaluation.summary(evaluation.of_normal(filled.mean[hidden], filled.sd[hidden], y[hidden]), 1.0, 1.0)
    assert 0.8 < found["coverage90"] <= 1.0
    if name == "GP per column":  # noise 0.1, 0.1 and 0.1, and a wave that it can follow
        assert found["rmse"] < 0.13 and np.median(filled.sd[hidden]) == pytest.approx(0.1, rel=0.3)


def test_rivals_do_without_inputs_where_there_are_none():
    assert "linear interpolation" not in rivals.suited(None) and "GP per column" not in rivals.suited(None)
    assert "linear interpolation" not in rivals.suited(np.zeros((3, 2)))


# A model.


class Knows:
    """A model that answers every cell with N(truth + bias, 1)."""

    truth, bias, kinds = np.zeros((N, P)), 0.0, np.array(["real"] * P)

    def get_params(self):
        return {}

    def fit(self, x, y, groups):
        self.was_given = y
        return self

    def impute(self, x, y, groups):
        self.mean = self.truth + self.bias
        self.samples = self.mean + np.random.default_rng(5).standard_normal((400, N, P))
        return self

    def samples_of(self, cells):
        return self.samples[:, cells]

    def log_density(self, y, mask):
        return np.where(mask, stats.norm.logpdf(np.where(mask, y, 0), self.mean, 1.0), np.nan)


@pytest.mark.parametrize("how", ["cells", "blocks", "rows", ("column", "b", 7.0)])
def test_evaluation_scores_the_model_beside_its_rivals_on_the_same_cells(how, table, monkeypatch):
    x, codes, y = table
    frame = pd.DataFrame(y, columns=["a", "b", "c"])
    monkeypatch.setattr(Knows, "truth", np.nan_to_num(y))
    monkeypatch.setattr(Knows, "bias", 0.5)
    found = evaluation.evaluate(Knows(), x, frame, codes, Holdout(how, 0.1, block_length=12))
    assert set(found.overall().index) == {"Knows", *rivals.RIVALS}
    assert found.overall()["cells"].nunique() == 1
    own = found.table.loc["Knows"]
    np.testing.assert_allclose(own["mae"].drop("all"), 0.5)
    expected = -stats.norm.logpdf(0.5)
    np.testing.assert_allclose(own["nlpd"], expected, rtol=1e-9)
    assert sum(found.pit["Knows"]) == own.loc["all", "cells"]
    rows = found.rows()
    assert {"experiment", "model", "column", "metrics", "seconds"} <= set(rows[0])


def test_whole_numbers_are_scored_by_mass_whoever_predicts_them():
    """A normal squeezed onto the truth has density without bound, but no more than all the mass."""
    sure = evaluation._of_rival(np.array([0.999]), np.array([1e-3]), np.array([1.0]), np.array(["truth"]))
    assert 0 <= sure.nlpd[0] < 1e-9


def test_labels_have_no_interval_and_rivals_no_density_of_them():
    found = evaluation._of_rival(np.array([1.2, 0.4]), np.ones(2), np.array([1.0, 1.0]), np.array(["class", "class"]))
    assert found.error.tolist() == [0.0, 1.0]
    assert np.isnan(found.nlpd).all() and np.isnan(found.pit).all()
    assert np.isnan(evaluation.summary(found, 1.0, np.nan)["coverage90"])


def test_hidden_cells_are_hidden_from_the_model(table, monkeypatch):
    x, codes, y = table
    given = []
    monkeypatch.setattr(Knows, "fit", lambda self, x, y, groups: given.append(np.asarray(y)) or self)
    holdout = Holdout("cells", 0.3)
    evaluation.evaluate(Knows(), x, y, codes, holdout, with_rivals=False)
    hidden = holdout.choose(~np.isnan(y), x, codes, list("abc"))
    np.testing.assert_array_equal(np.isnan(given[0]), hidden | np.isnan(y))
