"""--quiet leaves out the news and what words mean, and nothing that is or may be wrong."""

import types

import numpy as np
import pandas as pd
import pytest

from commands import run
from gpbae.cli import runs

WARNING = "The chains disagree: R-hat is 1.5. Use num_warmup=600."


@pytest.fixture
def sampled(monkeypatch):
    """A model that is sampled in no time, and not well."""
    frame = types.SimpleNamespace(attrs={"warnings with commands": [WARNING]})
    model = types.SimpleNamespace(latent_dim=1, progress=False, diagnostics=lambda dates: frame)
    model.fit = lambda *data, run_dir: model
    monkeypatch.setattr(runs, "is_sampled", lambda model: True)
    return model


@pytest.mark.parametrize("quiet", [False, True])
def test_warnings_are_told_and_explained_unless_quiet(quiet, sampled, tmp_path, capsys):
    runs.sample(sampled, (None, None, None), tmp_path, quiet)
    said = capsys.readouterr().err
    assert f"Warning: {WARNING}" in said and ("(R-hat: how much the chains disagree" in said) == (not quiet)


@pytest.mark.parametrize("more", [[], ["--on-disk"]], ids=["in memory", "on disk"])
def test_a_quiet_fit_says_only_what_may_be_wrong(more, sampled, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runs, "sample", lambda *given: None)
    time = pd.date_range("2020-01-01", periods=60).astype(str)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"time": time, "a": np.where(np.arange(60) < 4, -999, rng.standard_normal(60).round(3)),
                          "b": np.exp(rng.standard_normal(60)), "word": "x"})  # fmt: skip
    frame.to_csv(tmp_path / "data.csv", index=False)
    news = ("time is read as days", "Likelihoods: ", "Next: ", "latent", *(("The table stays",) if more else ()))
    for quiet in ([], ["-q"]):
        out = tmp_path / f"run{len(quiet)}"
        assert run("fit", tmp_path / "data.csv", "--inputs", "time", "--set", "latent_dim=1", "--set", "batch_size=16",
                   "--set", "likelihood=student-t", *more, *quiet, "--out", out) == 0  # fmt: skip
        said = capsys.readouterr().err
        assert "a: -999 occurs 4 times" in said and "Left out, not being numbers: word" in said
        assert [words for words in news if words in said and quiet] == []
        assert quiet or "time is read as days" in said
