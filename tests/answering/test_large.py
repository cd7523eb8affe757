"""Answers to many rows are found block by block; they are the answers that the rows have together."""

import numpy as np
import pandas as pd
import pytest

from gpbae import SGPBAE
from gpbae.answering import answers, blocks, posterior
from gpbae.answering.large import LargePredictive
from gpbae.errors import InputError

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 10, 40))[:, None]
CURVES = np.stack([np.sin(X[:, 0]), np.cos(X[:, 0]), np.sin(X[:, 0] + 1)], axis=1)
Y = CURVES + 0.1 * RNG.standard_normal(CURVES.shape)
Y[RNG.random(Y.shape) < 0.15] = np.nan
LABELS = np.where(np.arange(40) % 2, "odd", "even")
NEW_X = RNG.uniform(0, 10, 23)[:, None]
NEW_Y = np.stack([np.sin(NEW_X[:, 0]), np.full(23, np.nan), np.sin(NEW_X[:, 0] + 1)], axis=1)
NEW_Y[5] = np.nan


def fit(groups=None, **changes):
    arguments = dict(latent_dim=2, num_inducing=6, decoder="linear", encoder="linear", num_chains=2, num_warmup=20,
                     num_samples=40, thinning=1, sampler_steps=4, encoder_steps=5, num_map_steps=50,
                     progress=False)  # fmt: skip
    return SGPBAE(**arguments | changes).fit(X, pd.DataFrame(Y, columns=["a", "b", "c"]), groups)


@pytest.fixture(scope="module")
def model():
    return fit()


@pytest.fixture(scope="module")
def grouped():
    return fit(LABELS, num_chains=1, num_samples=20)


@pytest.fixture
def small_blocks(monkeypatch):
    """Everything is large, and a block has eight rows."""
    monkeypatch.setattr(answers, "LARGEST_ANSWER", 0)
    monkeypatch.setattr("gpbae.answering.questions.LARGEST_ANSWER", 0)
    monkeypatch.setattr(blocks, "MOST_ROWS", 8)


def frame(values, index=None):
    return pd.DataFrame(values, columns=["a", "b", "c"], index=index)


def standard_errors(large, whole, num_draws=60):
    """Distances of means in units of their Monte-Carlo error, and ratios of standard deviations."""
    z = (np.asarray(large.mean) - np.asarray(whole.mean)) / (np.asarray(whole.sd) * np.sqrt(2 / num_draws))
    return np.abs(z), np.asarray(large.sd) / np.asarray(whole.sd)


def check_agreement(large, whole):
    z, ratio = standard_errors(large, whole)
    assert z.max() < 4.5
    assert 0.7 < ratio.min() and ratio.max() < 1.4 and abs(np.median(ratio) - 1) < 0.1


def test_predictions_in_blocks_are_those_of_all_rows(model, small_blocks, monkeypatch):
    large = model.predict(NEW_X)
    assert isinstance(large, LargePredictive)
    assert [r.stop - r.start for r, _ in large.blocks()] == [8, 8, 7]
    monkeypatch.undo()
    whole = model.predict(NEW_X)
    check_agreement(large, whole)
    low, high = large.interval(0.9)
    assert (np.asarray(low) < np.asarray(large.mean)).all() and (np.asarray(high) > np.asarray(large.mean)).all()
    assert list(large.mean.columns) == ["a", "b", "c"] and len(large.point) == len(NEW_X)
    seen = np.isfinite(NEW_Y)
    densities = [np.nanmean(a.log_density(NEW_Y, seen)) for a in (large, whole)]
    assert abs(densities[0] - densities[1]) < 0.5


def test_imputing_rows_never_seen_is_the_refinement_of_each(model, small_blocks, monkeypatch):
    """Metropolis moves around the normal law against Hamiltonian trajectories, on the same rows."""
    index = [f"row {i}" for i in range(len(NEW_X))]
    large = model.impute(NEW_X, frame(NEW_Y, index))
    latents = model.encode(NEW_X, frame(NEW_Y))
    monkeypatch.undo()
    check_agreement(large, model.impute(NEW_X, frame(NEW_Y)))
    check_agreement(latents, model.encode(NEW_X, frame(NEW_Y)))
    np.testing.assert_array_equal(large.filled.to_numpy()[np.isfinite(NEW_Y)], NEW_Y[np.isfinite(NEW_Y)])
    assert list(large.filled.index) == index and np.isfinite(large.filled.to_numpy()).all()


def test_fitted_rows_are_recalled_among_new_ones(model, small_blocks, monkeypatch):
    x, y = np.concatenate([NEW_X[:3], X[10:17]]), np.concatenate([NEW_Y[:3], Y[10:17]])
    order = np.array([4, 0, 5, 1, 6, 7, 2, 8, 9, 3])
    large = model.impute(x[order], frame(y[order]))
    monkeypatch.undo()
    check_agreement(large, model.impute(x[order], frame(y[order])))


@pytest.mark.slow
def test_rows_of_groups_bring_their_own_values(grouped, small_blocks, monkeypatch):
    labels = np.where(np.arange(23) % 3, "even", "odd")
    large, filled = grouped.predict(NEW_X, labels), grouped.impute(NEW_X, frame(NEW_Y), labels)
    with_new = grouped.impute(NEW_X, frame(NEW_Y), np.full(23, "neither"))
    assert not isinstance(with_new, LargePredictive)  # rows of a new group are answered together
    with pytest.raises(InputError, match="'neither'"):
        list(grouped.stream("impute", [(NEW_X, frame(NEW_Y), np.full(23, "neither"))]))
    monkeypatch.undo()
    for big, whole in ((large, grouped.predict(NEW_X, labels)), (filled, grouped.impute(NEW_X, frame(NEW_Y), labels))):
        z, _ = standard_errors(big, whole, 20)
        assert z.max() < 4.5


def test_every_block_is_one_program(model, small_blocks):
    """However many blocks, also when the last one is not full."""
    model.predict(NEW_X).interval()
    before = posterior.predict._cached._cache_size()
    for _ in model.predict(np.linspace(0, 10, 45)[:, None]).blocks():
        pass
    assert posterior.predict._cached._cache_size() == before


def test_a_block_has_the_same_answer_whoever_asks(model, small_blocks):
    large = model.impute(NEW_X, frame(NEW_Y))
    (_, first), (_, again) = next(large.blocks()), next(large.blocks())
    np.testing.assert_array_equal(first.mean, again.mean)
    pieces = list(model.stream("impute", [(NEW_X[:8], frame(NEW_Y[:8]), None), (NEW_X[8:], frame(NEW_Y[8:]), None)]))
    np.testing.assert_array_equal(pd.concat([p.mean for p in pieces]), large.mean)


def test_blocks_of_the_same_rows_have_draws_of_their_own(model, small_blocks):
    """Else what is wrong with one block by chance would be wrong with all."""
    for question, cells in (("impute", frame(NEW_Y[:8])), ("predict", None)):
        one, other = (np.asarray(block.mean) for block in model.stream(question, [(NEW_X[:8], cells, None)] * 2))
        assert np.isfinite(one).all() and not np.isclose(one[:, 1], other[:, 1], rtol=0, atol=1e-9).any()


def test_what_cannot_be_held_is_refused_in_a_sentence(model, small_blocks):
    with pytest.raises(InputError, match="go through them with blocks"):
        _ = model.predict(NEW_X).samples
    with pytest.raises(InputError, match="'score'"):
        model.rows_per_block("score")


def test_progress_counts_rows(model, small_blocks):
    heard = []
    model.progress = heard.append
    try:
        _ = model.predict(NEW_X).mean
    finally:
        model.progress = False
    assert [event["done"] for event in heard] == [8, 16, 23] and heard[0]["total"] == 23
