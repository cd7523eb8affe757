"""What is shown of an evaluation: numbers and labels apart, and an honest word on simple rivals."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from gpbae.processes import progress
from gpbae.scoring import cellscores, evaluation, metrics, rivals, scoreboard
from gpbae.scoring.scoreboard import LABELS, NUMBERS


def row(method, mae, nlpd=1.0, column="all", how="cells", **others):
    found = {"mae": mae, "nlpd": nlpd, "cells": 30, "coverage90": 0.9} | others
    return {"experiment": how, "model": method, "column": column, "metrics": found}


class Guesses:
    """A model that answers 0 in columns of numbers and draws the first of two labels."""

    kinds, transforms = np.array(["real", "class"]), ()

    def get_params(self):
        return {}

    def fit(self, x, y, groups):
        return self

    def impute(self, x, y, groups):
        self.unwarned_mean = self.point_values = np.zeros(y.shape)
        return self

    def samples_of(self, cells):
        draws = np.random.default_rng(1).standard_normal((50, *cells.shape))
        return np.where(self.kinds == "class", 0.0, draws)[:, cells]

    def log_density(self, y, mask):
        return np.where(mask, -1.0, np.nan)


@pytest.fixture(scope="module")
def mixed():
    """Scores of 60 rows of a number and a label."""
    rng = np.random.default_rng(0)
    y = pd.DataFrame({"a": 7 * rng.standard_normal(60), "sky": rng.choice(["clear", "rain"], 60)})
    return evaluation.evaluate(Guesses(), np.arange(60.0)[:, None], y, holdout=evaluation.Holdout("cells", 0.4))


def test_numbers_and_labels_have_summaries_of_their_own(mixed):
    own = mixed.table.loc["Guesses"]
    assert list(own.index) == ["a", "sky", NUMBERS, LABELS]
    assert own.loc[LABELS, "mae"] == own.loc["sky", "mae"] and own.loc[NUMBERS, "smse"] == own.loc["a", "smse"]
    assert own.loc[NUMBERS, "cells"] + own.loc[LABELS, "cells"] == round(0.4 * 120)
    assert sum(mixed.pit["Guesses"]) == own.loc[NUMBERS, "cells"]
    assert mixed.overall().loc["Guesses", "cells"] == own.loc["a", "cells"]


def test_boards_have_no_heading_without_a_number(mixed):
    """Also once the scores have been a file, and for a table of labels alone."""
    rows = json.loads(json.dumps(progress.plain(mixed.rows())))
    for of_what in (rows, evaluation.Evaluation.of_rows("Guesses", rows).rows()):
        numbers, labels = scoreboard.boards(of_what)
        assert numbers.header[:2] == ("MAE", "RMSE") and numbers.header[-1].startswith("in 95")
        assert labels.of_labels and labels.header == ("share wrong", "NLPD", "half the Brier score")
    alone = [r | {"column": "all"} for r in rows if r["column"] == LABELS]
    (board,) = scoreboard.boards(alone)
    assert board.of_labels and board.header == labels.header
    (earlier,) = scoreboard.boards([row("m", 0.3)])
    assert not earlier.of_labels


def test_ties_of_one_column_are_not_those_of_the_next():
    """Else columns of yes and no would be right and wrong together."""
    half = np.full((50, 2), 0.5)
    filled = rivals.Filled(half, half)
    values, hidden, kinds = np.ones((50, 2)), np.ones((50, 2), bool), np.full((50, 2), "truth")
    pit = evaluation._of_rival(filled, values, hidden, kinds).pit.reshape(50, 2)
    assert abs(np.corrcoef(pit.T)[0, 1]) < 4 / np.sqrt(50)
    alone = cellscores.of_whole(half.ravel(), half.ravel(), values.ravel(), 1.0, metrics.parts_of_ties((100,))).pit
    np.testing.assert_array_equal(pit.ravel(), alone)  # and they are the model's


@pytest.mark.parametrize(
    ("theirs", "nlpd", "words"),
    [(0.2, 0.5, "did better than M (MAE 0.2 against 0.3)."),
     (0.3, 0.5, "was about as good as M (MAE 0.3 against 0.3)."),
     (0.305, 2.0, "was about as good as M (MAE 0.305 against 0.3), though its distributions told less (NLPD 2 against "
      "1)."),
     (0.4, 2.0, None)],
)  # fmt: skip
def test_a_rival_that_does_as_well_is_named(theirs, nlpd, words):
    found = scoreboard.against_rivals([row("M", 0.3), row("line", theirs, nlpd), row("mean", 0.9)], "M")
    if words is None:
        assert found == []
    else:
        assert found[0] == f"For hidden cells, line {words}" and "--evaluate blocks" in found[1]


@pytest.mark.parametrize(("theirs", "verdict"), [(0.2, "about as good as"), (0.4, "about as good as"),
                                                 (0.1, "better than"), (0.5, None)])  # fmt: skip
def test_a_difference_within_its_margin_is_no_verdict(theirs, verdict):
    found = scoreboard.against_rivals([row("M", 0.3, doubt=None), row("line", theirs, 0.5, doubt=0.12)], "M")
    if verdict is None:
        assert found == []
    else:
        assert f"{verdict} M (MAE {theirs} against 0.3; the difference is known to ± 0.12)" in found[0]


@pytest.mark.parametrize("doubt", [None, np.nan])
def test_a_single_stretch_gives_no_verdict(doubt):
    """A margin that is not known is not none: files say null, tables NaN."""
    found = scoreboard.against_rivals([row("M", 0.3, doubt=0.0), row("line", 0.1, 0.5, doubt=doubt)], "M")
    assert "about as good as M" in found[0] and "single stretch" in found[0]


def test_margins_of_a_mean_count_clusters_not_cells():
    """Alone in its cluster every value counts; copies of a value count once, whatever their number."""
    values = np.random.default_rng(0).standard_normal(5)
    low, high = stats.t.interval(0.95, 4, values.mean(), stats.sem(values))
    margin = pytest.approx((high - low) / 2)
    assert metrics.clustered_margin(values, np.arange(5) * 3) == margin
    assert metrics.clustered_margin(np.repeat(values, 7), np.repeat(np.arange(5), 7)) == margin
    assert np.isnan(metrics.clustered_margin(values, np.zeros(5, int)))


def test_cells_of_a_block_are_one_cluster():
    """Gaps inside a block do not part it; what is visible, another column and another group do."""
    x, codes = np.array([5.0, 4, 3, 2, 1, 0, 0, 1])[:, None], np.array([0] * 6 + [1] * 2)
    mask = np.ones((8, 2), bool)
    hidden = np.array([[1, 1], [0, 0], [1, 0], [0, 0], [1, 0], [0, 0], [1, 0], [1, 0]], bool)
    mask[3, 0] = False
    holdout = evaluation.Holdout("blocks")
    found = np.full(hidden.shape, -1)
    found[hidden] = holdout.clusters(mask, hidden, x, codes)
    assert found[2, 0] == found[4, 0] and found[6, 0] == found[7, 0]
    assert len({found[0, 0], found[0, 1], found[2, 0], found[6, 0]}) == 4
    by_row = evaluation.Holdout("cells").clusters(mask, hidden, None, codes)
    assert by_row[0] == by_row[1] and len(set(by_row)) == 5
    by_stretch = evaluation.Holdout("cells", block_length=2).clusters(mask, hidden, x, codes)
    assert list(by_stretch) == [2, 2, 1, 0, 3, 3]


def test_rivals_have_the_error_of_their_difference(mixed):
    doubt, methods = mixed.table[scoreboard.DOUBT], mixed.table.index.get_level_values("method")
    assert (doubt[methods == "Guesses"] == 0).all() and (doubt[methods != "Guesses"] > 0).all()


def test_the_gaps_for_which_the_model_is_worth_it_are_said():
    """And where it is a little better, no more than that is said."""
    for theirs, worth in ((0.7, ": there it is worth its time."), (0.315, ".")):
        rows = [row("M", 0.3), row("line", 0.3), row("M", 0.3, how="blocks"), row("line", theirs, how="blocks")]
        _, said = scoreboard.against_rivals(rows, "M")
        assert said == f"For hidden blocks, M had the smallest error (MAE 0.3; line {theirs}){worth}"


def test_columns_in_which_a_rival_does_as_well_are_named():
    rows = [row("M", 0.3), row("line", 0.5)]
    for column, theirs in (("a", 4.0), ("b", 2.0), ("c", 1.9)):
        rows += [row("M", 2.0, column=column), row("line", theirs, column=column)]
    rows += [row("M", 9.0, column="few", cells=2), row("line", 1.0, column="few", cells=2)]
    (words,) = scoreboard.against_rivals(rows, "M")
    assert "in b (line, 2 against 2), c (line, 1.9 against 2) (MAE" in words
    assert scoreboard.against_rivals([r for r in rows if r["model"] == "M"], "M") == []


def test_two_that_make_no_error_are_as_good_as_each_other():
    found = scoreboard.against_rivals([row("M", 0.0), row("line", 0.0)], "M")
    assert found[0].startswith("For hidden cells, line was about as good as M")


@pytest.mark.parametrize("num_draws", [6, 10, 19, 60])
def test_coverage_is_that_of_the_intervals_that_are_cut_from_the_draws(num_draws):
    """However few the draws: a calibrated truth lies beyond all of them twice in n + 1."""
    rng = np.random.default_rng(num_draws)
    samples, truth = rng.standard_normal((num_draws, 20_000)), rng.standard_normal(20_000)
    found = cellscores.summary(cellscores.of_draws(0 * truth, samples, truth, truth), 1.0, 1.0)
    for level in cellscores.LEVELS:
        expected = metrics.coverage(samples, truth, level)
        assert found[f"coverage{round(100 * level)}"] == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("model", ["SGPBAE", "BAE"])
def test_no_rival_is_advised_for_labels_which_no_command_fills_by_it(model):
    rows = [row(model, 0.3), row("line", 0.5)]
    rows += [row(model, 0.6, column="sky", coverage90=None), row("line", 0.2, column="sky", coverage90=None)]
    rows += [row(model, 1.0, column="a"), row("line", 2.0, column="a")]
    (words,) = scoreboard.against_rivals(rows, model)
    assert "in sky (line, 0.2 against 0.6)" in words and "etter fill" not in words
    assert ("Where there is a cycle" in words) == (model == "SGPBAE")


@pytest.mark.parametrize(("theirs", "doubt", "is_said"), [(1.0, 0.1, True), (1.0, 3.0, False), (1.6, 0.1, False)])
def test_a_column_that_a_rival_fills_much_better_gets_advice(theirs, doubt, is_said):
    rows = [row("SGPBAE", 0.3), row("line", 0.5), row("SGPBAE", 1.0, column="a"), row("line", 2.0, column="a")]
    rows += [row("SGPBAE", 2.0, column="b"), row("line", theirs, column="b", doubt=doubt)]
    (words,) = scoreboard.against_rivals(rows, "SGPBAE")
    assert ("Better fill b by line; or" in words) == ("Periodic(period=…)" in words) == is_said
    others = [r | {"model": r["model"].replace("SGPBAE", "BAE")} for r in rows]
    assert "Periodic" not in scoreboard.against_rivals(others, "BAE")[0]  # which has no kernel


def test_a_huge_nlpd_is_explained():
    rows = [row("M", 0.3), row("line", 0.4, 1.65e10), row("odd", 0.4, impossible=1), row("line", 0.4, 2e9, "a")]
    (words,) = scoreboard.sure_and_wrong(rows)
    assert "the NLPD of line (1.65e+10) is huge: sure and wrong" in words
    assert scoreboard.sure_and_wrong(rows[:1]) == []
