"""Intervals of a run's answers: from as many draws as their probability needs, or with a word on what is missing."""

import types

import numpy as np
import pandas as pd
import pytest

from commands import run
from gpbae.answering.predictive import Predictive
from gpbae.cli import cautions, pieces

N, DRAWS = 14, 5
TINY = f"""
latent_dim = 1
decoder = "linear"
encoder = "linear"
num_inducing = 4
num_chains = 1
num_warmup = 4
num_samples = {DRAWS}
sampler_steps = 3
encoder_steps = 2
num_map_steps = 5
progress = false
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    here = tmp_path_factory.mktemp("intervals")
    t = np.arange(N)
    pd.DataFrame({"t": t, "a": np.where(t == 5, np.nan, np.sin(t)), "b": np.cos(t)}).to_csv(here / "data.csv")
    (here / "tiny.toml").write_text(TINY)
    assert run("fit", here / "data.csv", "--inputs", "t", "--outputs", "a,b", "--config", here / "tiny.toml", "--out",
               here / "run", "-q") == 0  # fmt: skip
    return here


@pytest.fixture(params=["pieces", "too large to hold", "at once"])
def limits(request, monkeypatch):
    """Answers that have two draws, unless more are asked for; at once they have all."""
    if request.param != "at once":
        monkeypatch.setattr("gpbae.answering.blocks.NUM_DRAWS", 2)
        monkeypatch.setattr("gpbae.answering.blocks.MOST_ROWS", 4)
    if request.param == "pieces":
        monkeypatch.setattr(pieces, "ROWS_IN_MEMORY", 5)
    elif request.param == "too large to hold":
        monkeypatch.setattr("gpbae.answering.questions.LARGEST_ANSWER", 2 * N)
    return request.param


@pytest.fixture
def cut(monkeypatch):
    """The number of draws that each interval was cut from."""
    found, whole = [], Predictive.interval

    def counted(self, level=0.9):
        found.append(self._eta.shape[0])
        return whole(self, level)

    monkeypatch.setattr(Predictive, "interval", counted)
    return found


@pytest.mark.parametrize("command", ["impute", "predict"])
@pytest.mark.parametrize(("interval", "enough"), [(0.66, True), (0.99, False)])
def test_an_interval_has_the_draws_that_it_needs_or_says_how_many(
    interval, enough, command, limits, folder, cut, tmp_path, capsys
):
    output = tmp_path / "o.csv"
    assert run(command, folder / "run", folder / "data.csv", "-o", output, "--interval", interval) == 0
    said = capsys.readouterr().err
    assert set(cut) == {DRAWS}
    assert ("5 draws are too few for 99% intervals" in said) == (not enough)
    assert (f" --set num_samples=199 --out {folder / 'run'}-2" in said) == (not enough)
    assert "too few for 66% intervals" not in said


@pytest.mark.parametrize("interval", [0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
def test_the_draws_for_an_interval_are_the_fewest_whose_outermost_hold_it(interval):
    n = cautions.num_draws_for(interval)
    assert (n - 1) / (n + 1) >= interval - 1e-9 and (n - 2) / n < interval


def test_more_samples_are_advised_for_each_chain_and_only_where_they_help():
    model = types.SimpleNamespace(num_chains_=4, _now=lambda: {"num_draws": 100})
    advised = cautions.few_draws(model, 0.99, 100)
    assert advised is not None and advised.endswith("gpbae fit … --set num_samples=50 --out NEW")
    asked = cautions.few_draws(model, 0.99, 64)
    assert asked is not None and "num_samples" not in asked and "ask about fewer rows" in asked
    assert cautions.few_draws(model, 0.95, 64) is None
    assert cautions.draws_to_ask_for(model, 0.95, 64) is None and cautions.draws_to_ask_for(model, None, 64) is None
    assert cautions.draws_to_ask_for(model, 0.99, 64) == 199
