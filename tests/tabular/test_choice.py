"""Each column gets the likelihood that was asked for, or one that suits what it holds."""

import numpy as np
import pandas as pd
import pytest

from gpbae.errors import InputError
from gpbae.likelihoods import Blocks, Categorical, Gaussian, Mixed, NegativeBinomial, Poisson, StudentT
from gpbae.tabular import choice, tables

RNG = np.random.default_rng(0)
N = 60
COLUMNS = {
    "real": (RNG.normal(size=N), "gaussian"),
    "whole but negative": (RNG.integers(-5, 5, N), "gaussian"),
    "ages": (RNG.integers(18, 90, N), "gaussian"),
    "ratings": (RNG.integers(1, 6, N), "gaussian"),
    "constant": (np.zeros(N), "gaussian"),
    "empty": (np.full(N, np.nan), "gaussian"),
    "few whole numbers": (np.where(np.arange(N) < 9, np.arange(N) % 4, np.nan), "gaussian"),
    "counts": (RNG.poisson(3.0, N), "poisson"),
    "scattered counts": (RNG.negative_binomial(1, 0.1, N), "negative-binomial"),
    "counts with gaps": (np.where(RNG.random(N) < 0.5, RNG.poisson(2.0, N), np.nan), "poisson"),
    "large counts": (RNG.negative_binomial(3, 0.03, N) + 1, "negative-binomial"),
    "heights in metres": (RNG.integers(100, 900, N), "gaussian"),
    "heart rates": (np.round(RNG.normal(80, 17, N)), "gaussian"),
    "zeros and ones": (RNG.integers(0, 2, N), "bernoulli"),
    "zeros and ones with gaps": (np.where(RNG.random(N) < 0.5, RNG.integers(0, 2, N), np.nan), "bernoulli"),
    "yes and no": (RNG.random(N) < 0.5, "bernoulli"),
    "always yes": (np.ones(N, bool), "bernoulli"),
    "labels": (RNG.choice(["a", "b", "c"], N), "categorical"),
    "categories": (pd.Categorical(RNG.choice(["a", "b"], N)), "categorical"),
}
FRAME = pd.DataFrame({name: values for name, (values, _) in COLUMNS.items()})


def words(argument, y):
    return choice.choose(argument, tables.observations(y))[1]


def test_choices_are_told_in_words():
    assert choice.in_words(words("auto", np.ones((3, 2)) * 0.5)) == "gaussian"
    chosen = {"a": "gaussian: real numbers", "n": "poisson: whole numbers", "b": "gaussian: as asked"}
    assert choice.in_words(chosen) == "gaussian for a, b; poisson for n"
    many = {f"n{i}": "poisson: whole numbers" for i in range(9)}
    assert choice.in_words({"a": "gaussian: real numbers", **many}).endswith("n6, n7 …")


def test_every_column_gets_a_likelihood_that_suits_it():
    found = words("auto", FRAME)
    assert {name: text.split(":")[0] for name, text in found.items()} == {n: w for n, (_, w) in COLUMNS.items()}
    assert found["labels"] == "categorical: 3 labels"
    assert "times the mean" in found["counts"]


def test_counts_without_a_zero_are_counts_only_if_they_should_hold_none():
    """Geometric draws from 1 have no zero, where a count of their mean and scatter would have shown dozens of them."""
    counts = {"from 1": RNG.geometric(0.05, 1000), "many": np.maximum(RNG.negative_binomial(5, 0.05, 1000), 1)}
    found = words("auto", pd.DataFrame(counts))
    assert found["from 1"] == "gaussian: real numbers" and found["many"].startswith("negative-binomial: whole numbers")


def test_real_columns_share_one_gaussian_whatever_else_there_is():
    likelihood, _ = choice.choose("auto", tables.observations(FRAME[["real", "labels", "ages"]]))
    assert isinstance(likelihood, Blocks)
    assert dict(zip(likelihood.columns, map(type, likelihood.members), strict=True)) == {
        (0, 2): Gaussian,
        (1,): Categorical,
    }


@pytest.mark.parametrize("y", [FRAME[["real", "ages"]], FRAME[["real", "ages"]].to_numpy()])
def test_a_table_of_real_columns_has_a_plain_gaussian(y):
    likelihood, found = choice.choose("auto", tables.observations(y))
    assert isinstance(likelihood, Gaussian)
    assert set(found.values()) == {"gaussian: real numbers"}


def test_images_are_of_one_piece():
    counts = RNG.poisson(3.0, (N, 8, 8)).astype(float)
    assert words("auto", counts) == {"every column": "gaussian: real numbers"}
    assert words("auto", np.minimum(counts, 1)) == {"every column": "bernoulli: 0 and 1"}


def test_what_is_asked_for_by_name_or_position_goes_first():
    y = FRAME[["real", "counts", "ages", "labels"]]
    for asked in ({"real": "student-t", 1: NegativeBinomial()}, Mixed({0: StudentT(), "counts": "negative-binomial"})):
        found = words(asked, y)
        assert found["real"] == "student-t: as asked"
        assert found["counts"] == "negative-binomial: as asked"
        assert found["ages"] == "gaussian: real numbers"
        assert found["labels"].startswith("categorical")
    found = words(Mixed({"labels": "categorical"}, default="student-t"), y)
    assert found["ages"] == "student-t: as asked"


def test_equal_likelihoods_share_their_parameters():
    asked = {
        "real": Gaussian(noise=0.2),
        "ages": Gaussian(noise=0.2),
        "ratings": Gaussian(noise=0.5),
        "counts": Poisson(),
    }
    likelihood, _ = choice.choose(asked, tables.observations(FRAME[["real", "counts", "ages", "ratings"]]))
    assert isinstance(likelihood, Blocks)
    assert likelihood.columns == ((0, 2), (1,), (3,))


def test_codes_in_an_array_can_be_classes():
    likelihood, _ = choice.choose({0: "categorical"}, tables.observations(np.array([[0.0, 1.5], [3.0, 2.5]])))
    assert isinstance(likelihood, Blocks)
    assert likelihood.members[0] == Categorical(4)


REFUSED = {
    "an unknown word": ("normal", ["real"], "must be 'auto'"),
    "an unknown column": ({"none": "poisson"}, ["real"], "names the column 'none'"),
    "labels as numbers": ("gaussian", ["labels"], "holds labels such as 'a'"),
    "labels as counts": ({"labels": "poisson"}, ["labels"], "holds labels"),
    "reals as counts": ("poisson", ["real"], "whole numbers from 0"),
    "reals as truth": ("bernoulli", ["real"], "0, 1 or NaN"),
    "reals as classes": ("categorical", ["real"], "Pass that column as text"),
    "one label": ("auto", ["same"], "holds the label 'x' only"),
    "too few classes": (Categorical(2), ["labels"], "codes from 0 to 1"),
}


def test_one_row_is_not_enough_for_labels():
    with pytest.raises(InputError, match=r"labels in at least two rows to learn from; got 1\. Pass more"):
        words("auto", FRAME[["labels"]].iloc[:1])


@pytest.mark.parametrize("what", REFUSED)
def test_likelihoods_that_cannot_be_are_refused(what):
    argument, names, sentence = REFUSED[what]
    with pytest.raises(InputError, match=sentence):
        words(argument, FRAME.assign(same="x")[names])
