"""Rows that are images: an array with more than two axes keeps its shape, from the file to the answer."""

import json

import numpy as np
import pytest

from commands import run
from gpbae import load, networks
from gpbae.cli import cautions, pieces, reading, roles, runs

N, SHAPE = 40, (10, 9)
TINY = """
latent_dim = 2
num_inducing = 4
num_chains = 1
num_warmup = 4
num_samples = 3
sampler_steps = 2
encoder_steps = 2
num_map_steps = 5
progress = false
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A spot that wanders, with missing pixels, one missing frame and an edge without any value; fitted."""
    here = tmp_path_factory.mktemp("images")
    t, (rows, columns) = np.arange(N), np.indices(SHAPE)
    y = np.exp(-((rows - 5 - 3 * np.sin(t / 6)[:, None, None]) ** 2 + (columns - 4) ** 2) / 4)
    y += 0.05 * np.random.default_rng(0).standard_normal(y.shape)
    y[3, 2:4], y[7], y[:, 0, 0] = np.nan, np.nan, np.nan
    np.savez(here / "data.npz", t=t, y=y)
    np.savez(here / "new.npz", t=np.array([3.5, 7.0]))
    np.save(here / "data.npy", y)
    (here / "tiny.toml").write_text(TINY)
    fit = ["fit", here / "data.npz", "--inputs", "t", "--config", here / "tiny.toml", "--out", here / "run"]
    assert run(*fit, "--evaluate", "rows", "--report", "-q") == 0
    return here


def test_pixels_that_were_never_seen_are_counted_and_never_left_out(folder, capsys):
    """Without them there would be no image, and no convolutional network."""
    assert run("diagnose", folder / "run") == 0
    said = capsys.readouterr()
    assert "1 of the pixels" in said.out + said.err and "--exclude" not in said.out + said.err
    page = (folder / "run" / "report.html").read_text()
    assert "1 of the pixels" in page and "--exclude" not in page
    reading.read(folder / "data.npz", reading.Wish("t"))
    said = capsys.readouterr().err
    assert "1 of 90 pixels of y" in said and "--exclude" not in said


def test_pixels_below_zero_are_counted_not_listed():
    found = {f"y[{i}]": 1 for i in range(90)}
    words = cautions.below_zero_in_words(found, dict.fromkeys(found, "log"), None)
    assert "y[7], … (90 in all)" in words and "y[20]" not in words


def test_a_fit_sees_images(folder):
    model, columns = runs.load(folder / "run")
    assert columns.image == roles.Image("y", SHAPE) and model.frame_.event_shape == SHAPE
    assert networks.is_image(model.frame_.event_shape) and load(folder / "run").frame_.event_shape == SHAPE
    page = (folder / "run" / "report.html").read_text()
    assert "10 × 9 pixels" in page and "<h2>Images" in page
    rows = json.loads((folder / "run" / "evaluation.json").read_text())
    assert any(row["model"] == "SGPBAE" and row["column"] == "all" for row in rows)


@pytest.mark.parametrize("words", [["--outputs", "y"], ["--outputs", "all"], ["--exclude", "t"]])
def test_the_one_array_that_is_modelled_is_images_however_it_is_named(words, folder):
    wish = dict(zip(words[::2], words[1::2], strict=True))
    table = reading.read(folder / "data.npz", reading.Wish("t" if "--exclude" not in wish else "",
                         wish.get("--outputs", "all"), wish.get("--exclude", "")))  # fmt: skip
    assert table.columns.image == roles.Image("y", SHAPE)


def test_pixels_beside_other_columns_are_columns(folder, tmp_path):
    with np.load(folder / "data.npz") as found:
        np.savez(tmp_path / "more.npz", **found, level=found["t"] ** 0.5)
    assert reading.read(tmp_path / "more.npz", reading.Wish("t")).columns.image is None


def test_answers_are_images(folder, tmp_path):
    with np.load(folder / "data.npz") as found:
        y = found["y"]
    assert run("impute", folder / "run", folder / "data.npz", "-o", tmp_path / "f.npz", "--interval", "0.9", "-q") == 0
    assert run("impute", folder / "run", folder / "data.npz", "-o", tmp_path / "f.npy", "-q") == 0
    with np.load(tmp_path / "f.npz") as found:
        assert list(found) == ["t", "y", "y_lower", "y_upper"] and found["y_lower"].shape == y.shape
        np.testing.assert_array_equal(found["y"][~np.isnan(y)], y[~np.isnan(y)])
        assert not np.isnan(found["y"]).any() and (found["y_lower"] < found["y_upper"]).all()
        np.testing.assert_array_equal(np.load(tmp_path / "f.npy"), found["y"])
    for kind in ("npz", "npy"):
        assert run("predict", folder / "run", folder / "new.npz", "-o", tmp_path / f"p.{kind}", "-q") == 0
    assert np.load(tmp_path / "p.npy").shape == np.load(tmp_path / "p.npz")["y"].shape == (2, *SHAPE)
    assert run("encode", folder / "run", folder / "data.npz", "-o", tmp_path / "z.npz", "-q") == 0
    with np.load(tmp_path / "z.npz") as found:
        assert list(found) == ["t", "latent0", "latent0_sd", "latent1", "latent1_sd"]


@pytest.mark.parametrize("on_disk", [[], ["--on-disk"]], ids=["in memory", "on disk"])
def test_images_alone_come_back_as_they_came(on_disk, folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pieces, "ROWS_IN_MEMORY", 15)
    fit = ["fit", folder / "data.npy", "--model", "bae", "--config", tmp_path / "tiny.toml", "--out", tmp_path / "run"]
    (tmp_path / "tiny.toml").write_text(TINY.replace("num_inducing = 4", "batch_size = 20"))
    assert run(*fit, *on_disk) == 0
    assert "y is read as images of 10 × 9 pixels." in capsys.readouterr().err
    assert load(tmp_path / "run").frame_.event_shape == SHAPE
    assert run("impute", tmp_path / "run", folder / "data.npy", "-o", tmp_path / "f.npy", "-q") == 0
    y, filled = np.load(folder / "data.npy"), np.load(tmp_path / "f.npy")
    np.testing.assert_array_equal(filled[~np.isnan(y)], y[~np.isnan(y)])
    assert filled.shape == y.shape and not np.isnan(filled).any()
