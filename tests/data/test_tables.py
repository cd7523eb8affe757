"""EEG, Jura and air quality: the split made in code is the published split, the scores are the published scores."""

import numpy as np
import pandas as pd
import pytest

from gpbae.data import air_quality, eeg, jura, score_eeg, score_jura
from gpbae.errors import InputError

SPLITS = {"eeg": (eeg, 300), "jura": (jura, 100)}


@pytest.fixture(params=SPLITS)
def split(request, data_dir):
    load, num_hidden = SPLITS[request.param]
    return request.param, load(), num_hidden, data_dir


def test_split_made_in_code_is_the_published_split(split):
    name, table, _, data_dir = split
    for part in ("train", "test"):
        published = pd.read_csv(data_dir / name / f"{name}_{part}.csv")
        pd.testing.assert_frame_equal(getattr(table, part), published, check_exact=True, check_index_type=False)


def test_truth_holds_exactly_the_hidden_cells(split):
    _, table, num_hidden, _ = split
    assert table.truth.shape == table.y.shape and int(table.truth.notna().sum().sum()) == num_hidden
    assert bool((table.truth.notna() == table.y.isna()).all(axis=None))
    hidden = [name for name in table.test.columns if name not in table.inputs]
    assert np.array_equal(table.truth[hidden].dropna().to_numpy(), table.test[hidden].to_numpy())
    assert list(table.x.columns) == list(table.inputs)


def test_constant_predictions_of_cadmium_score_as_documented(data_dir):
    table = jura()
    for constant, documented in [(table.train["Cd"].mean(), 0.566), (table.train["Cd"].median(), 0.561)]:
        mean = np.full(table.truth.shape, constant)
        assert score_jura(mean, np.ones_like(mean), table.truth)["mae"] == pytest.approx(documented, abs=5e-4)


def test_eeg_score_is_one_for_the_test_mean_and_is_averaged_over_columns(data_dir):
    """With the test mean and variance of each column, SMSE = 1 and NLL = ½ log 2πe s², column by column."""
    truth = eeg().test[["FZ", "F1", "F2"]].to_numpy()
    mean, var = (np.broadcast_to(a, truth.shape) for a in (truth.mean(axis=0), truth.var(axis=0)))
    score = score_eeg(mean, var, truth)
    assert score["smse"] == pytest.approx(1)
    assert score["nll"] == pytest.approx(np.mean(0.5 * np.log(2 * np.pi * np.e * truth.var(axis=0))))


def test_scores_look_at_hidden_cells_only(data_dir):
    table = eeg()
    mean, var = np.zeros(table.truth.shape), np.full(table.truth.shape, 4.0)
    elsewhere = table.truth.isna().to_numpy()
    spoiled = np.where(elsewhere, np.nan, mean), np.where(elsewhere, -1.0, var)
    assert score_eeg(*spoiled, table.truth) == score_eeg(mean, var, table.truth)


@pytest.mark.parametrize(
    ("mean", "var", "truth", "message"),
    [
        (np.zeros((2, 1)), np.ones((3, 1)), np.zeros((2, 1)), "one shape"),
        (np.zeros(2), np.ones(2), np.full(2, np.nan), "at least one hidden cell"),
        (np.zeros(2), np.zeros(2), np.zeros(2), "positive variances"),
        (np.full(2, np.nan), np.ones(2), np.zeros(2), "finite means"),
    ],
)
def test_scores_refuse_what_has_no_score(mean, var, truth, message):
    with pytest.raises(InputError, match=message):
        score_jura(mean, var, truth)


def test_air_quality_has_every_hour_and_its_own_gaps(data_dir):
    table = air_quality()
    assert table.y.shape == (9357, 13) and not (table.y == -200).any(axis=None)
    assert (np.diff(table.x["hour"]) == 1).all() and (table.train["timestamp"].diff().dropna() == "1h").all()
    missing = table.y.isna().mean()
    assert missing["NMHC_GT"] == pytest.approx(0.90, abs=0.01) and missing["T"] == pytest.approx(0.039, abs=0.001)
