"""Hidden cells, the scores they are given, and the simple rivals that a model is compared with."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

from gpbae.errors import InputError
from gpbae.processes import progress
from gpbae.scoring import cellscores, evaluation, metrics, rivals, scoreboard
from gpbae.scoring.evaluation import Holdout
from gpbae.tabular.transforms import Identity, Log, Log1p, YeoJohnson

N, P = 200, 3
HALF = np.array([0.5])


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
    drawn = cellscores.of_draws(mean, samples, stats.norm.logpdf(truth, mean, sd), truth)
    exact = cellscores.of_normal(mean, sd, truth)
    for a, b, error in zip(drawn[:4], exact[:4], (0, 0, 5 * 2 / 141, 5 * 0.5 / 141), strict=True):
        np.testing.assert_allclose(a, b, atol=error + 1e-12)


def test_summary_has_the_closed_forms_of_a_calibrated_normal():
    rng = np.random.default_rng(1)
    num, sd = 40_000, 3.0
    found = cellscores.summary(cellscores.of_normal(np.zeros(num), np.full(num, sd), sd * rng.standard_normal(num)),
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


@pytest.mark.parametrize("block_length", [4, 24])
@pytest.mark.parametrize("share", [0.1, 0.6])
def test_blocks_hide_the_share_asked_for_within_a_block(block_length, share):
    mask = np.random.default_rng(0).random((20_000, 3)) < 0.7
    hidden = Holdout("blocks", share, block_length).choose(mask, None, np.zeros(20_000, int), "abc")
    assert share * mask.sum() <= hidden.sum() < share * mask.sum() + block_length


def test_blocks_that_cannot_hide_the_share_are_refused():
    with pytest.raises(InputError, match="Blocks of 24 rows can hide"):
        Holdout("blocks", 0.9, 24).choose(np.eye(100, dtype=bool), None, np.zeros(100, int), [*map(str, range(100))])


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
        (Holdout(("column", "a", 0.0)), "nothing would be left of it to learn from"),
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
    found = cellscores.summary(cellscores.of_normal(filled.mean[hidden], filled.sd[hidden], y[hidden]), 1.0, 1.0)
    assert 0.8 < found["coverage90"] <= 1.0
    if name == "GP per column":  # noise 0.1, 0.1 and 0.1, and a wave that it can follow
        assert found["rmse"] < 0.13 and np.median(filled.sd[hidden]) == pytest.approx(0.1, rel=0.3)


def test_a_rival_takes_the_model_s_transform_where_it_helps():
    """Logarithms of a column that is a normal after them, none of one that is not; the density has the right slope."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((2000, 2))
    y = np.stack([np.exp(2 * z[:, 0]), 30 + z[:, 1]], axis=1)
    hidden = rng.random(y.shape) < 0.2
    left = np.where(hidden, np.nan, y)
    again = lambda mask: mask & (np.random.default_rng(1).random(mask.shape) < 0.2)  # noqa: E731
    for transforms in ((Log(), Log()), (Log(), Identity())):
        filled = rivals.fill(rivals.column_mean, None, np.zeros(2000, int), left, again, transforms)
        assert filled.transforms[0] == Log()
        scores = evaluation._of_rival(filled, y, hidden, np.full(y.shape, "real"))
        column = np.broadcast_to([0, 1], y.shape)[hidden]
        entropy = [np.log(2) + np.mean(np.log(y[hidden[:, 0], 0])), 0.0]
        for p in range(2):
            expected = entropy[p] + 0.5 * np.log(2 * np.pi) + 0.5
            assert scores.nlpd[column == p].mean() == pytest.approx(expected, abs=5 / np.sqrt(hidden[:, p].sum()))
    assert filled.transforms[1] == Identity()


def test_a_spread_is_found_where_nothing_can_be_hidden_once_more():
    filled = rivals.fill(rivals.column_mean, None, np.zeros(50, int), np.arange(50.0)[:, None], np.zeros_like)
    np.testing.assert_allclose(filled.sd, np.arange(50).std())


def test_a_lengthscale_is_looked_for_all_over_the_column():
    """The first cells are a line; only later ones show waves a hundred times shorter than the table."""
    x = np.linspace(0, 100, 1500)[:, None]
    y = np.where(x < 30, 0.0, np.sin(2 * np.pi * x)) + 0.05 * np.random.default_rng(0).standard_normal(x.shape)
    hidden = np.random.default_rng(1).random(y.shape) < 0.1
    filled = rivals.gp_per_column(x, np.zeros(1500, int), np.where(hidden, np.nan, y))
    assert np.sqrt(np.mean((filled.mean - y)[hidden] ** 2)) < 0.2


def test_rivals_do_without_inputs_where_there_are_none():
    assert "linear interpolation" not in rivals.suited(None, 3) and "GP per column" not in rivals.suited(None, 3)
    assert "linear interpolation" not in rivals.suited(np.zeros((3, 2)), 3)


# A model.


class Knows:
    """A model that answers every cell with N(truth + bias, 1)."""

    truth, bias, kinds, transforms = np.zeros((N, P)), 0.0, np.array(["real"] * P), ()

    def get_params(self):
        return {}

    def fit(self, x, y, groups):
        self.was_given = y
        return self

    def impute(self, x, y, groups):
        self.mean = self.unwarned_mean = self.truth + self.bias
        self.samples = self.mean + np.random.default_rng(5).standard_normal((400, N, P))
        return self

    def samples_of(self, cells):
        return self.samples[:, cells]

    def log_density(self, y, mask):
        return np.where(mask, stats.norm.logpdf(np.where(mask, y, 0), self.mean, 1.0), np.nan)


def test_rivals_that_would_take_hours_are_left_out_and_named(table, monkeypatch):
    x, codes, y = table
    monkeypatch.setattr(rivals, "MANY_COLUMNS", P - 1)
    with pytest.warns(UserWarning, match="3 columns would take hours of iterative ridge and GP per column"):
        found = evaluation.evaluate(Knows(), x, y, codes, Holdout("cells", 0.1))
    assert set(found.overall().index) == {"Knows", *rivals.RIVALS} - set(rivals.SLOW_ON_MANY_COLUMNS)


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
    sure = cellscores.of_whole(np.array([0.999]), np.array([1e-3]), np.array([1.0]), 1.0, HALF)
    assert 0 <= sure.nlpd[0] < 1e-9


@pytest.mark.parametrize(("mean", "sd"), [(0.5, 0.5), (-3.0, 2.0), (4.2, 1.0), (40.0, 0.1)])
@pytest.mark.parametrize("largest", [1.0, np.inf])
def test_masses_of_whole_numbers_add_up_to_one(mean, sd, largest):
    """What a normal says of numbers below 0, or above the largest, goes to the ends: none of it is lost."""
    truth = np.arange(2.0 if largest == 1 else 60.0)
    found = cellscores.of_whole(np.full(len(truth), mean), np.full(len(truth), sd), truth, largest, HALF)
    assert np.exp(-found.nlpd).sum() == pytest.approx(1)
    assert np.isfinite(found.nlpd).all()  # also far in the tail, in logarithms


@pytest.mark.parametrize("largest", [1.0, np.inf])
def test_the_pit_of_a_rounded_normal_is_that_of_its_draws(largest):
    """Of rivals as of the model: uniform where calibrated, certain where the truth cannot be."""
    rng = np.random.default_rng(1)  # ties are broken by the stream of 0
    mean, sd = rng.uniform(-1, 3, 400), rng.uniform(0.3, 2, 400)
    samples = np.clip(np.round(mean + sd * rng.standard_normal((20_001, 400))), 0, largest)
    truth, samples = samples[0], samples[1:]
    truth[:3] = -1.0, 0.5, 9.0
    found = cellscores.of_whole(mean, sd, truth, largest, metrics.parts_of_ties(mean.shape)).pit
    np.testing.assert_allclose(found, metrics.pit(samples, truth), atol=5 * 0.5 / np.sqrt(len(samples)))
    assert stats.kstest(found[3:], "uniform").pvalue > 1e-3


def test_a_fair_coin_that_is_known_exactly_scores_the_log_of_two():
    found = cellscores.of_whole(np.full(2, 0.5), np.full(2, 0.5), np.array([0.0, 1.0]), 1.0, HALF)
    np.testing.assert_allclose(found.nlpd, np.log(2))
    np.testing.assert_allclose(found.crps, 0.25, atol=1e-3)  # (p − y)²
    assert cellscores.of_whole(np.ones(1), np.ones(1), np.full(1, 2.0), 1.0, HALF).nlpd[0] == np.inf


@pytest.mark.parametrize("transform", [Log(), YeoJohnson(0.3, 1.0, 2.0)])
def test_scores_of_a_transformed_normal_are_those_of_its_draws(transform):
    rng = np.random.default_rng(0)
    mean, sd = rng.standard_normal(6), rng.uniform(0.2, 0.6, 6)
    truth = transform.inverse(mean + sd * rng.standard_normal(6))
    samples = transform.inverse(mean + sd * rng.standard_normal((200_000, 6)))
    found = cellscores.of_bent(mean, sd, truth, transform, HALF)
    error = 5 * samples.std(axis=0) / np.sqrt(len(samples))
    assert (np.abs(found.error - (np.median(samples, axis=0) - truth)) < 2 * error).all()
    assert (np.abs(found.crps - metrics.crps_of_cells(samples, truth)) < 2 * error + 1e-3 * found.crps).all()
    np.testing.assert_allclose(found.pit, (samples < truth).mean(axis=0), atol=5 * 0.5 / np.sqrt(len(samples)))
    width = 1e-4
    mass = stats.norm.cdf(transform.forward(truth + width), mean, sd)
    mass -= stats.norm.cdf(transform.forward(truth - width), mean, sd)
    np.testing.assert_allclose(found.nlpd, -np.log(mass / (2 * width)), atol=1e-4)


def test_a_clipped_normal_is_calibrated_at_its_zeros():
    """Rivals of rain: zeros have the mass of all that lies below, draws and closed form agree, and PIT is uniform."""
    rng = np.random.default_rng(0)
    mean, sd, transform = rng.standard_normal(3000), rng.uniform(0.2, 1, 3000), Log1p(0.7)
    truth = transform.inverse(mean + sd * rng.standard_normal(3000))
    found = cellscores.of_bent(mean, sd, truth, transform, metrics.parts_of_ties((3000,)))
    assert (truth == 0).mean() > 0.2 and stats.kstest(found.pit, "uniform").pvalue > 1e-3
    np.testing.assert_allclose(found.error + truth, transform.inverse(mean), atol=1e-12)


def test_a_logarithm_gives_no_density_to_what_it_does_not_take():
    found = cellscores.of_bent(np.zeros(2), np.ones(2), np.array([-1.0, 1.0]), Log(), HALF)
    assert found.nlpd[0] == np.inf and np.isfinite(found.nlpd[1]) and found.pit[0] == 0


def test_cells_without_density_make_the_score_infinite_and_are_told(table, monkeypatch):
    """Also once the scores have been a file; and what is no number is not left out of an average."""
    x, codes, y = table
    monkeypatch.setattr(Knows, "truth", np.nan_to_num(y))
    first = np.flatnonzero(Holdout().choose(~np.isnan(y), x, codes, "abc")[:, 0])[0]
    known = Knows.log_density

    def log_density(self, y, mask):
        found = known(self, y, mask)
        found[first, 0] = -np.inf
        return found

    monkeypatch.setattr(Knows, "log_density", log_density)
    frame = pd.DataFrame(y, columns=list("abc"))
    found = evaluation.evaluate(Knows(), x, frame, codes)
    rows = json.loads(json.dumps(progress.plain(found.rows())))
    for one in (found, evaluation.Evaluation.of_rows("Knows", rows)):
        np.testing.assert_array_equal(np.isinf(one.table.loc["Knows"]["nlpd"]), [True, False, False, True])
        (words,) = scoreboard.impossible(one.rows())
        assert "values in a (1) cannot occur" in words and words.endswith("infinite for Knows.")
    assert np.isnan(cellscores.summary(cellscores.CellScores(*np.ones((5, 2)))._replace(nlpd=np.array([1, np.nan])),
                                       1.0, 1.0)["nlpd"])  # fmt: skip


def test_labels_have_no_interval_and_rivals_no_density_of_them():
    cells = (np.array([1.2, 0.4]), np.ones(2), np.array([1.0, 1.0]))
    found = evaluation._of_rival_column(*cells, "class", Identity(), HALF)
    assert found.error.tolist() == [0.0, 1.0]
    assert np.isnan(found.nlpd).all() and np.isnan(found.pit).all()
    assert np.isnan(cellscores.summary(found, 1.0, np.nan)["coverage90"])


def test_hidden_cells_are_hidden_from_the_model(table, monkeypatch):
    x, codes, y = table
    given = []
    monkeypatch.setattr(Knows, "fit", lambda self, x, y, groups: given.append(np.asarray(y)) or self)
    holdout = Holdout("cells", 0.3)
    evaluation.evaluate(Knows(), x, y, codes, holdout, with_rivals=False)
    hidden = holdout.choose(~np.isnan(y), x, codes, list("abc"))
    np.testing.assert_array_equal(np.isnan(given[0]), hidden | np.isnan(y))
