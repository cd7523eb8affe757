"""Tables on disk: the rows are those of the file, the chains those of the same rows in memory, memory does not grow."""

import dataclasses
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import checks
import runs
from gpbae import GPBAE, SGPBAE, load
from gpbae.errors import InputError
from gpbae.kernels import RBF
from gpbae.sampling import inference, outofcore, sghmc, streamed
from gpbae.sampling.batches import RowBatch, StreamBatch
from gpbae.saving import merging, runfolder
from gpbae.tabular import ondisk
from gpbae.tabular.ondisk import Feed, OnDisk, Rows

RNG = np.random.default_rng(0)
N = 900
X = np.sort(RNG.uniform(0, 10, N))[:, None]
Y = np.stack([np.sin(X[:, 0]), np.cos(X[:, 0]), np.sin(X[:, 0] + 1)], axis=1) + 0.1 * RNG.standard_normal((N, 3))
Y[RNG.random(Y.shape) < 0.1] = np.nan


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    here = tmp_path_factory.mktemp("disk")
    np.save(here / "x.npy", X)
    np.save(here / "y.npy", Y)
    return here


def hdf5(path, array):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file["cells"] = array
    return h5py.File(path)["cells"]


def zarr(path, array):
    made = pytest.importorskip("zarr").create_array(path, shape=array.shape, chunks=(100, 1), dtype=array.dtype)
    made[:] = array
    return made


@pytest.fixture(params=[hdf5, zarr])
def stored(request, tmp_path):
    """Inputs and cells in a format that `OnDisk` is given as an array."""
    return OnDisk(request.param(tmp_path / "x", X)), OnDisk(request.param(tmp_path / "y", Y))


def test_rows_of_other_formats_are_those_of_the_npy_file(stored, files):
    numbers = np.random.default_rng(1).integers(0, N, (3, 50))
    for found, name in zip(stored, "xy", strict=True):
        expected = OnDisk(files / f"{name}.npy")
        np.testing.assert_array_equal(found.rows(numbers), expected.rows(numbers))
        np.testing.assert_array_equal(np.concatenate(list(found.blocks())), np.concatenate(list(expected.blocks())))


def test_a_fit_from_other_formats_has_the_draws_of_the_npy_file(stored, model):
    jax.tree.map(np.testing.assert_array_equal, tiny().fit(*stored).draws_, model.draws_)


def test_rows_are_those_of_the_file_in_any_order(files):
    on_disk = OnDisk(files / "y.npy")
    numbers = np.array([[5, 3, 3], [899, 0, 5]])
    np.testing.assert_array_equal(on_disk.rows(numbers), Y[numbers])
    assert len(on_disk) == N


def test_parquet_is_copied_column_by_column(files, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(ondisk, "ROWS_AT_A_TIME", 100)
    pd.DataFrame(Y, columns=["a", "b", "c"]).to_parquet(files / "y.parquet")
    copied = ondisk.from_parquet(files / "y.parquet", ["c", "a"], files / "copy.npy")
    np.testing.assert_array_equal(copied.rows(np.arange(N)), Y[:, [2, 0]])
    pd.DataFrame(Y.astype(np.float32), columns=["a", "b", "c"]).to_parquet(files / "small.parquet")
    assert ondisk.from_parquet(files / "small.parquet", ["c"], files / "small.npy").source.dtype == np.float32
    pd.DataFrame({"when": pd.date_range("2024", periods=3)}).to_parquet(files / "dates.parquet")
    with pytest.raises(InputError, match="when holds timestamp"):
        ondisk.from_parquet(files / "dates.parquet", ["when"], files / "dates.npy")
    assert not (files / "dates.npy").exists()
    with pytest.raises(InputError, match="missing d"):
        ondisk.from_parquet(files / "y.parquet", ["d"], files / "copy.npy")


def make_feed(num_chains=2, threads=None, at_once=None):
    def gather(numbers):
        if threads is not None:
            threads.append(threading.current_thread().name)
        return Rows(numbers, numbers, numbers, numbers)

    return Feed(gather, ondisk.independent(50, 4), num_chains, 0, at_once)


def test_every_sweep_of_every_chain_has_rows_of_its_own_however_it_is_asked():
    whole = make_feed(num_chains=3).numbers(0, 8)
    for at_once in (None, 2, 1):
        threads, drawn = [], []
        feed = make_feed(threads=threads, at_once=at_once)
        draw = feed.draw
        feed.draw = lambda rng, draw=draw, drawn=drawn: drawn.append(1) or draw(rng)
        for start in (0, 4):
            numbers, parts = feed.block(start, 4)
            some = list(parts)
            assert [part.x.shape[1] for part in some] == [at_once or 4] * (4 // (at_once or 4))
            np.testing.assert_array_equal(np.concatenate([part.x for part in some], axis=1), numbers)
            np.testing.assert_array_equal(numbers, whole[:2, start : start + 4])
            assert feed.coming[0] == (start + 4, 4)  # the next are fetched while these are in use
        feed.close()
        assert all("gpbae-rows" in name for name in threads)
        assert len(drawn) <= 2 * 3 * 4  # which rows they are is found once for each block
    assert len({tuple(rows) for rows in whole.reshape(-1, 4)}) == 24
    counts = np.bincount(make_feed(num_chains=1).numbers(0, 2000).ravel(), minlength=50)
    assert abs(counts - 160).max() < 5 * np.sqrt(160)


def test_a_batch_of_a_stream_counts_for_the_whole_table():
    table = checks.ragged_table()
    num, key = table.x.shape[0], jax.random.key(0)
    batching = StreamBatch(4, num)
    here = batching.select(key, table)
    for found, expected in zip(batching.batch(table, here), RowBatch(4).batch(table, here), strict=True):
        np.testing.assert_array_equal(found, expected)
    small = table._replace(x=table.x[:4], y=table.y[:4], mask=table.mask[:4], group=table.group[:4])
    given = StreamBatch(4, num, is_given=True)
    np.testing.assert_array_equal(given.select(key, small).rows, np.arange(4))
    assert float(given.batch(small, given.select(key, small)).scale) == num / 4


def tiny(**changes):
    arguments = dict(latent_dim=2, num_inducing=5, decoder="linear", encoder="linear", num_chains=2, num_warmup=6,
                     num_samples=4, thinning=2, sampler_steps=3, encoder_steps=2, num_map_steps=30, batch_size=32,
                     latents="amortised", progress=False)  # fmt: skip
    return SGPBAE(**arguments | changes)


@pytest.fixture(scope="module")
def model(files):
    return tiny().fit(OnDisk(files / "x.npy"), OnDisk(files / "y.npy"))


def test_a_fit_from_disk_answers_like_any_other(model):
    assert model.plan_.batching == StreamBatch(32, N) and model.plan_.amortised
    assert np.isfinite(model.predict(X[:5]).mean).all()
    filled = model.impute(X[:8], Y[:8]).filled
    assert np.isfinite(filled).all()
    np.testing.assert_array_equal(filled[np.isfinite(Y[:8])], Y[:8][np.isfinite(Y[:8])])
    assert len(model.diagnostics())


def test_the_rows_and_not_their_home_decide_the_chain(model):
    """The same rows from memory: bit for bit the same draws."""
    twin = tiny().fit(X, OnDisk(Y))
    jax.tree.map(np.testing.assert_array_equal, twin.draws_, model.draws_)


def test_a_streamed_block_is_the_block_of_a_table_of_those_rows():
    """One sweep of a stream of B rows is one sweep of `run_block` on a table that holds these rows, scaled alike."""
    estimator = tiny(num_chains=1)
    model, plan, table, decoder_of, encoder_of, latents = estimator._prepare(X[:32], Y[:32], None)
    stream = StreamBatch(32, N, is_given=True)
    plan = dataclasses.replace(plan, batching=stream, amortised=True, refresh=False, collapsed=False, placed=True)
    chains, static = estimator._start(model, plan, table, decoder_of, encoder_of, latents)
    noise = jax.tree.map(jnp.zeros_like, chains.sampler.preconditioner)
    settings = sghmc.Settings(jnp.full(1, 1e-3), jnp.asarray(0.05), jnp.asarray(1.0), noise)
    common = (model, plan, table, static, chains, settings, jnp.ones(1), jnp.asarray(True))
    rows = Rows(*(np.asarray(a)[None, None] for a in (table.x, table.y, table.mask, table.group)))
    expected, _ = inference.run_block(*common)
    found, _ = streamed.run_block(*common, rows)
    difference = jax.tree.map(lambda a, b: float(jnp.abs(a - b).max()) if a.dtype.kind == "f" else 0.0,
                              found.sampler, expected.sampler)  # fmt: skip
    assert max(jax.tree.leaves(difference)) < 1e-5


def test_rows_reach_the_chain_as_they_would_from_memory(files, monkeypatch):
    """Scaled, centred, and with the group they have in the file."""
    labels = np.array(["north", "east", "south"])[np.arange(N) % 3]
    feeds, made = [], outofcore.Feed
    monkeypatch.setattr(outofcore, "Feed", lambda *a: feeds.append(made(*a)) or feeds[0])
    found = tiny().fit(OnDisk(files / "x.npy"), OnDisk(files / "y.npy"), groups=labels)
    _, _, table, *_ = tiny()._prepare(X, Y, labels)
    numbers = np.array([[[700, 3, 4], [5, 899, 700]]])
    rows = feeds[0].gather(numbers)
    for given, expected in zip(rows, (table.x, table.y, table.mask, table.group), strict=True):
        np.testing.assert_allclose(given, np.asarray(expected)[numbers], atol=1e-6)
    assert set(found.groups_) == {"east", "north", "south"} and len(np.unique(rows.group)) == 3


def test_a_fit_from_disk_finds_the_curves_and_is_not_hot():
    """Born from the encoder alone, latents push decoder and values at every birth: the error of a curve was 0.24."""
    rng = np.random.default_rng(5)
    x, phase = rng.uniform(0, 10, (6000, 1)), np.array([0.0, 2.0])
    group = rng.integers(0, 2, len(x))
    y = np.sin(x + phase[group][:, None] + np.arange(4)) + 0.2 * rng.standard_normal((len(x), 4))
    model = SGPBAE(latent_dim=2, num_inducing=16, kernel=RBF(lengthscale=1.5), decoder="linear", encoder="linear",
                   num_chains=1, num_warmup=100, num_samples=20, thinning=4, progress=False)  # fmt: skip
    model.fit(OnDisk(x), OnDisk(y), groups=group)
    at = np.linspace(0.5, 9.5, 30)[:, None]
    for number, shift in enumerate(phase):
        mean = np.asarray(model.predict(at, groups=np.full(30, number)).mean)
        assert np.sqrt(np.mean((mean - np.sin(at + shift + np.arange(4))) ** 2)) < 0.1
    temperature, error = model.kinetic_temperatures_()["decoder"]
    assert abs(temperature - 1) < 0.15 + 3 * error


def test_gradient_noise_is_that_of_independent_rows_however_large_the_batch():
    """A batch of as many rows as the sample has would otherwise be the sample, and its noise nothing."""
    _, _, table, *_ = tiny()._prepare(X, Y, None)
    chosen = StreamBatch(N, 10 * N).select(jax.random.key(0), table).rows
    assert len(np.unique(chosen)) < 0.75 * N  # 1 − 1/e of them are distinct
    with pytest.raises(InputError, match="at most 10000"):
        tiny(batch_size=20_000).fit(X, OnDisk(Y))


def test_runs_of_one_table_have_one_sample_and_the_row_of_a_group_is_any_of_its_rows(monkeypatch):
    monkeypatch.setattr(outofcore, "SAMPLE", 20)
    codes = np.repeat(np.arange(400), 10)
    chosen = outofcore.chosen_rows(outofcore.tables.group_codes(codes, 4000), 4000)
    np.testing.assert_array_equal(np.unique(codes[chosen]), np.arange(400))
    assert abs((chosen % 10).mean() - 4.5) < 4 * np.sqrt(99 / 12 / 400)


def test_a_stopped_fit_from_disk_goes_on_to_the_same_draws(model, files, tmp_path):
    folder = tmp_path / "run"
    given = (OnDisk(files / "x.npy"), OnDisk(files / "y.npy"))
    with pytest.raises(runs.Stop):
        tiny(progress=runs.stopping("sampling", 1)).fit(*given, run_dir=folder)
    with pytest.raises(InputError, match=f"sample of a table of {N} rows"):
        runfolder.reopen(folder)
    with pytest.raises(InputError, match="begun with other data"):
        tiny().fit(X[:-1], OnDisk(Y[:-1]), run_dir=folder)
    found = tiny().fit(*given, run_dir=folder)
    jax.tree.map(np.testing.assert_array_equal, found.draws_, model.draws_)
    jax.tree.map(np.testing.assert_array_equal, load(folder).draws_, model.draws_)


def test_runs_of_one_table_on_disk_are_merged(files, tmp_path, monkeypatch):
    monkeypatch.setattr(outofcore, "SAMPLE", 200)
    for seed in (0, 1):
        given = (OnDisk(files / "x.npy"), OnDisk(files / "y.npy"))
        tiny(seed=seed, kernel=RBF(), num_chains=1).fit(*given, run_dir=tmp_path / str(seed))
    merged = merging.merge([tmp_path / "0", tmp_path / "1"])
    assert merged.num_chains_ == 2 and len(merged.table_.x) == 200
    assert merged.plan_.batching == StreamBatch(32, N)  # a row of a batch counts for the table, not for its sample


def test_what_cannot_be_fitted_from_disk_is_refused(files, tmp_path):
    y = OnDisk(files / "y.npy")
    with pytest.raises(InputError, match="same number of rows"):
        tiny().fit(X[:5], y)
    with pytest.raises(InputError, match=r"too little of 900 groups.*batch_size=225"):
        tiny().fit(X, y, groups=np.arange(N))
    with pytest.raises(InputError, match="needs the latents of all rows"):
        GPBAE(latent_dim=2, num_chains=1, decoder="linear", encoder="linear", progress=False).fit(
            X[:20], OnDisk(Y[:20])
        )
    for wrong in (tmp_path / "none.npy", ["a"], np.zeros((0, 2))):
        with pytest.raises(InputError, match="OnDisk needs"):
            OnDisk(wrong)


def test_rows_that_the_likelihood_gives_no_probability_are_refused_wherever_they_are(monkeypatch):
    """The sample by which it is chosen may hold zeros and ones alone."""
    monkeypatch.setattr(outofcore, "SAMPLE", 300)
    y = (Y > 0).astype(float)
    sampled = outofcore.chosen_rows(outofcore.tables.group_codes(None, N), N)
    y[np.setdiff1d(np.arange(N), sampled), 1] = 2.0
    with pytest.raises(InputError, match="0, 1 or NaN; got 2 in column 1"):
        tiny().fit(X, OnDisk(y))


def test_the_sample_has_a_row_of_every_group(monkeypatch):
    monkeypatch.setattr(outofcore, "SAMPLE", 5)
    labels = outofcore.tables.group_codes(np.repeat(["a", "b", "c"], [50, 1, 50]), 101)
    chosen = outofcore.chosen_rows(labels, 101)
    assert set(labels.codes[chosen]) == {0, 1, 2} and len(chosen) <= 8


@pytest.mark.parametrize(("name", "value"), [("y", -np.inf), ("y", 1e200), ("x", np.nan), ("x", np.inf)])
def test_numbers_outside_the_sample_that_cannot_be_used_are_named_by_row_and_column(name, value, monkeypatch):
    """In memory they are refused at once; on disk the chains would meet them, and be said to diverge."""
    monkeypatch.setattr(outofcore, "SAMPLE", 300)
    given = {"x": X.copy(), "y": Y.copy()}
    outside = np.setdiff1d(np.arange(N), outofcore.chosen_rows(outofcore.tables.group_codes(None, N), N))
    given[name][outside, -1] = value
    column = 0 if name == "x" else 2
    with pytest.raises(
        InputError, match=rf"^{name} must be finite and within .*; got .* in row \d+, column {column}\."
    ):
        tiny(num_map_steps=1).fit(OnDisk(given["x"]), OnDisk(given["y"]))


def test_a_table_on_disk_is_refused_where_rows_in_memory_are_needed(model):
    with pytest.raises(InputError, match="Rows in memory are needed here; got a table of 900 rows on disk"):
        tiny().fit(OnDisk(X), Y)
    for ask in (lambda: model.predict(OnDisk(X)), lambda: model.impute(X, OnDisk(Y))):
        with pytest.raises(InputError, match="pass some rows at a time to stream"):
            ask()
