"""Runs that differ in their seed are chains of one posterior; anything else is refused."""

import equinox as eqx
import jax
import numpy as np
import pytest

import runs
from gpbae import cli, load
from gpbae.errors import InputError
from gpbae.saving import merging

NAME = "values integrated out"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    here = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        runs.fit(NAME, here / str(seed), seed=seed)
    return [here / "0", here / "1"]


def test_merged_chains_are_those_of_the_runs(folders, tmp_path):
    whole, parts = merging.write(folders, tmp_path / "merged"), [load(folder) for folder in folders]
    again = load(tmp_path / "merged")
    assert whole.num_chains_ == again.num_chains_ == 4 and whole.num_chains == 4
    for attribute in ("draws_", "encoders_", "kinetic_temperature_", "step_size_"):
        joined = jax.tree.map(lambda *a: np.concatenate(a), *(getattr(m, attribute) for m in parts))
        for model in (whole, again):
            jax.tree.map(np.testing.assert_array_equal, getattr(model, attribute), joined)
    runs.assert_same_draws(merging.merge(folders), again)


def test_diagnostics_see_the_chains_of_all_runs(folders):
    whole, (one, other) = merging.merge(folders), [load(folder) for folder in folders]
    found, parts = whole.scalars_(), (one.scalars_(), other.scalars_())
    for name, series in found.items():
        np.testing.assert_allclose(series, np.concatenate([part[name] for part in parts]), rtol=1e-6)
    assert len(whole.diagnostics()) == len(one.diagnostics())
    for name in ("log_joint", "kinetic_temperature"):
        told = [event[name] for event in whole.history_ if name in event]
        assert told and all(len(values) == 4 for values in told)
    both = [m.predict(runs.X[:3]).mean for m in (one, other)]
    np.testing.assert_allclose(whole.predict(runs.X[:3]).mean, np.mean(both, axis=0), atol=1.0)


def test_deep_models_merge_though_their_warps_began_elsewhere(tmp_path):
    for seed in (0, 1):
        runs.fit("a deep prior", tmp_path / str(seed), seed=seed)
    parts = [load(tmp_path / str(seed)) for seed in (0, 1)]
    starts = [m.model_.prior.hyper_start for m in parts]
    assert not eqx.tree_equal(*starts, rtol=1e-9), "starts that are alike would prove nothing"
    assert merging.merge([tmp_path / "0", tmp_path / "1"]).num_chains_ == 4


def test_the_same_draws_twice_are_refused(folders):
    with pytest.raises(InputError, match="both have seed 0"):
        merging.merge([folders[0], folders[0]])


def test_other_data_arguments_and_formats_are_refused(folders, tmp_path, monkeypatch):
    manifest = merging.runfolder.read_manifest
    monkeypatch.setattr(merging.runfolder, "read_manifest",
                        lambda p: manifest(p) | ({"fingerprint": "other"} if p == folders[1] else {}))  # fmt: skip
    with pytest.raises(InputError, match="the same data"):
        merging.merge(folders)
    monkeypatch.undo()
    reading = merging.io.load
    changed = {"friction": 0.5, "num_inducing": 7}
    for name, value in changed.items():
        monkeypatch.setattr(merging.io, "load", lambda p: _with(reading(p), p == folders[1], name, value))  # noqa: B023
        with pytest.raises(InputError, match=f"{name} = "):
            merging.merge(folders)
    monkeypatch.undo()
    with pytest.raises(InputError, match=r"no manifest\.json"):
        merging.merge([folders[0], tmp_path])
    with pytest.raises(InputError, match="at least two"):
        merging.merge(folders[:1])


def _with(model, changed, name, value):
    if changed:
        setattr(model, name, value)
    return model


def test_priors_chosen_from_other_rows_are_refused(folders, monkeypatch):
    reading = merging.io.load

    def shifted(path):
        model = reading(path)
        if path == folders[1]:
            model.model_ = jax.tree.map(lambda a: a * 1.01 if hasattr(a, "shape") else a, model.model_)
        return model

    monkeypatch.setattr(merging.io, "load", shifted)
    with pytest.raises(InputError, match="other priors"):
        merging.merge(folders)


def test_merge_on_the_command_line(folders, tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["merge", *map(str, folders), "--out", str(tmp_path / "merged")])
    assert not stopped.value.code
    assert "4 chains of 2 runs" in capsys.readouterr().err
    assert load(tmp_path / "merged").num_chains_ == 4
