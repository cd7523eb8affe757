"""What an evaluation has not tried is said below it."""

import numpy as np
import pandas as pd
import pytest

from gpbae.cli import roles, scores, untried
from gpbae.scoring.evaluation import Holdout


def known(mask, codes=None):
    x = np.arange(len(mask), dtype=float)[::-1, None]
    codes = np.zeros(len(mask), int) if codes is None else np.asarray(codes)
    return untried.Known(mask, x, codes, [f"c{i}" for i in range(mask.shape[1])])


def said(mask, how="blocks", **more):
    return " ".join(untried.in_words(known(mask), Holdout(how, **more)))


def test_columns_of_which_nothing_was_hidden_are_named():
    """One that has no value at all could not be."""
    mask = np.ones((400, 4), bool)
    mask[5:, 2], mask[:, 3] = False, False
    assert "Nothing was hidden of c2, so" in said(mask, block_length=20)
    assert said(mask, ("column", "c0", 300.0)) == ""
    assert said(mask[:, :2], "cells") == ""


@pytest.mark.parametrize(("gap", "words"), [(20, ""), (120, "gaps of 120 rows or more, about which blocks of 24")])
def test_gaps_much_longer_than_blocks_are_told_with_a_length_that_can_be_hidden(gap, words):
    mask = np.ones((400, 3), bool)
    mask[100 : 100 + gap, 0] = False
    found = said(mask, share=0.2)
    assert words in found and ("hide longer ones with --block-length 120." in found) == bool(words)
    assert ("gaps of" in found) == bool(words)
    assert "--block-length" not in said(mask, "cells", share=0.2)


def test_no_longer_blocks_are_advised_than_can_be_hidden():
    """A column keeps half of what is not to be hidden, here 80 of 200 cells."""
    mask = np.ones((200, 3), bool)
    mask[10:190, 0] = False
    found = said(mask, share=0.2)
    assert "gaps of 180 rows or more" in found and "--block-length 120." in found
    hidden = Holdout("blocks", 0.2, 120).choose(mask, None, np.zeros(200, int), ["c0", "c1", "c2"])
    assert hidden.sum(axis=0).max() > 24
    assert "--block-length" not in said(mask, share=0.2, block_length=60)


def test_gaps_end_with_their_group_and_a_column_that_a_group_lacks_is_no_gap():
    mask = np.ones((60, 2), bool)
    mask[10:20, 0] = False
    mask[30:60, 1] = False
    assert untried.typical_gap(known(mask, np.repeat([0, 1], 30))) == 10
    assert untried.typical_gap(known(mask)) == 30
    assert untried.typical_gap(known(np.ones((5, 2), bool))) == 0


@pytest.mark.parametrize("image", [None, roles.Image("y", (2, 2))])
def test_pixels_that_were_not_tried_are_not_told(image, capsys):
    y = pd.DataFrame(np.zeros((40, 4)), columns=[f"y[{i}]" for i in range(4)])
    y.loc[1:, "y[3]"] = np.nan
    columns = roles.Columns((), tuple(y.columns), image=image)
    scores._show_untried(scores.Asked(None, None, y, None, columns), Holdout("cells", 0.1))
    assert ("Nothing was hidden of y[3]" in capsys.readouterr().out) == (image is None)
