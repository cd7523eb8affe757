"""Rows on disk that keep their latents: the chain is that of their law, and does not depend on how it is cut, kept or
killed."""

import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import runs
from gpbae import BAE, DSGPBAE, SGPBAE, load
from gpbae.errors import InputError
from gpbae.kernels import RBF
from gpbae.likelihoods import Gaussian
from gpbae.processes import distributed
from gpbae.sampling import keptlatents, outofcore, sghmc, stiffness, visits
from gpbae.sampling.batches import StreamBatch
from gpbae.sampling.keptlatents import KeptLatents
from gpbae.saving import runfolder
from gpbae.tabular.ondisk import OnDisk, Rows, distinct

RNG = np.random.default_rng(0)
N = 300
X = np.sort(RNG.uniform(0, 10, N))[:, None]
Y = np.stack([np.sin(X[:, 0]), np.cos(X[:, 0]), np.sin(X[:, 0] + 1)], axis=1) + 0.1 * RNG.standard_normal((N, 3))
Y[RNG.random(Y.shape) < 0.1] = np.nan


def tiny(**changes):
    arguments = dict(latent_dim=2, num_inducing=5, decoder="linear", encoder="linear", num_chains=2, num_warmup=6,
                     num_samples=4, thinning=2, sampler_steps=3, encoder_steps=2, num_map_steps=10, batch_size=32,
                     latents="persistent", progress=False)  # fmt: skip
    return SGPBAE(**arguments | changes)


@pytest.fixture(scope="module")
def model():
    return tiny().fit(X, OnDisk(Y))


def assert_same_draws(found, expected, chains=slice(None)):
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b[chains]), found.draws_, expected.draws_)


def started(estimator, batching, y, x=None, **changes):
    """Model, plan, table, static part and chains as a fit from disk begins."""
    model, plan, table, decoder_of, encoder_of, latents = estimator._prepare(x, y, None)
    plan = dataclasses.replace(plan, batching=batching, amortised=True, refresh=False, collapsed=False, placed=True,
                               **changes)  # fmt: skip
    chains, static = estimator._start(model, plan, table, decoder_of, encoder_of, latents)
    return model, plan, table, static, chains


def begun(size, num_visits, step_size):
    """A block of one chain that knows its rows by number, the chain, and the table of all rows."""
    *given, table, static, chains = started(tiny(num_chains=1), StreamBatch(size, N), Y, X, visits=num_visits)
    noise = jax.tree.map(jnp.zeros_like, chains.sampler.preconditioner)
    settings = sghmc.Settings(jnp.full(1, step_size), jnp.asarray(0.05), jnp.asarray(1.0), noise)

    def block(chains, numbers, slots, latents):
        rows = Rows(*(np.asarray(a)[numbers] for a in (table.x, table.y, table.mask, table.group)))
        return visits.run_block(*given, table, static, chains, settings, jnp.ones(numbers.shape[1]),
                                jnp.asarray(False), rows, slots, latents)  # fmt: skip

    return block, chains, table


def test_a_row_in_two_sweeps_of_a_block_goes_on_from_where_the_first_left_it(tmp_path):
    """A block of two sweeps is two blocks of one, between which the latents were in the file."""
    block, chains, _ = begun(size=8, num_visits=3, step_size=1e-2)
    numbers = distinct(12, 8, 6)(np.random.default_rng(0)).reshape(1, 2, 3, 8)  # twelve rows: all of them come again

    def run(kept, chains, numbers):
        found = kept.visited(numbers)
        chains, _, left = block(chains, numbers, *map(jnp.asarray, found[1:]))
        kept.write(found, np.asarray(left), np.ones(1, bool))
        return chains, kept.visited(np.arange(12)[None]).latents

    at_once, in_two = (KeptLatents(tmp_path / name, 1, N, 2) for name in "ab")
    for kept in (at_once, in_two):
        kept.begin()
    together = run(at_once, chains, numbers)
    middle, between = run(in_two, chains, numbers[:, :1])
    apart = run(in_two, middle, numbers[:, 1:])
    assert between.any() and not np.array_equal(between, apart[1])
    same = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)  # noqa: E731
    jax.tree.map(same, (together[0].sampler, together[1]), (apart[0].sampler, apart[1]))


def test_a_row_is_taken_from_its_slot_and_left_there(monkeypatch):
    """Where moves are refused and steps are nothing rows keep what they had, and those never seen (zeros) what they are
    born with: no momentum of other rows carries them away.  The encoder learns from the last visit."""
    birth = lambda *given: jnp.where(given[7][:, None], 5.0, given[6])  # noqa: E731
    stay = lambda key, z, given: (z, jnp.zeros_like(z), jnp.zeros(len(z), bool))  # noqa: E731
    told = lambda model, plan, table, static, chain, *_: (chain, jnp.sum(table.y))  # noqa: E731
    monkeypatch.setattr(visits, "_born", birth)
    monkeypatch.setattr(visits.redraw, "move", stay)
    monkeypatch.setattr(visits.inference, "train_encoder", told)
    block, chains, table = begun(size=7, num_visits=2, step_size=1e-12)
    momentum = chains.sampler.momentum._replace(local=jnp.ones_like(chains.sampler.momentum.local))
    chains = chains._replace(sampler=chains.sampler._replace(momentum=momentum))
    numbers = distinct(12, 7, 6)(np.random.default_rng(0)).reshape(1, 3, 2, 7)
    slots = np.unique(numbers, return_inverse=True)[1].reshape(numbers.shape).astype(np.int32)
    kept = np.random.default_rng(1).standard_normal((1, slots.max() + 1, 2)).astype(np.float32)
    kept[0, 3], expected = 0.0, kept.copy()
    expected[0, 3] = 5.0
    chains, report, left = block(chains, numbers, jnp.asarray(slots), jnp.asarray(kept))
    np.testing.assert_allclose(left, expected, atol=1e-6)
    np.testing.assert_allclose(chains.sampler.position.local[0], expected[0, slots[0, -1, -1]], atol=1e-6)
    of_the_last = np.asarray(table.y)[numbers[0, :, -1]].sum(axis=(1, 2))
    np.testing.assert_allclose(report.encoder_loss[0], of_the_last.mean(), rtol=1e-4)


def test_kept_latents_have_the_law_of_their_rows(monkeypatch):
    """z ~ N(0, 1) and y = z + noise: given y it is normal with mean y / (1 + s²) and variance s² / (1 + s²)."""
    files, s, num = [], 0.7, 6000
    made = outofcore.KeptLatents
    monkeypatch.setattr(outofcore, "KeptLatents", lambda *a: files.append(made(*a)) or files[0])
    y = np.random.default_rng(3).standard_normal((num, 2)) * np.sqrt(1 + s**2)
    y[::5, 0] = np.nan
    model = BAE(latent_dim=2, decoder="identity", encoder="linear", likelihood=Gaussian(noise=s, learn_noise=False),
                standardise=False, num_chains=2, num_warmup=40, num_samples=10, thinning=4, sampler_steps=5,
                encoder_steps=1, num_map_steps=2, batch_size=400, latents="persistent",
                progress=runs.stopping("sampling", 10))  # fmt: skip
    with pytest.raises(runs.Stop):  # nothing but latents is sampled, so there is no model to be kept
        model.fit(None, OnDisk(y))
    z = files[0].visited(np.tile(np.arange(num), (2, 1))).latents
    assert z.any(axis=2).all()
    known = np.isfinite(y)
    mean, sd = np.where(known, y, 0.0) / (1 + s**2), np.where(known, np.sqrt(s**2 / (1 + s**2)), 1.0)
    standard = (z - mean) / sd
    error = 1 / np.sqrt(standard.size)
    assert abs(standard.mean()) < 4 * error
    assert abs(standard.var() - 1) < 4 * np.sqrt(2) * error
    apart = np.corrcoef(standard[0].ravel(), standard[1].ravel())[0, 1]
    assert abs(apart) < 4 * np.sqrt(2) * error


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_rows_that_were_never_seen_are_born_and_the_others_stay_as_they_were(temperature):
    """y = z + noise as above; at a temperature T the variances are T times as large."""
    s, num = 0.7, 3200
    y = np.random.default_rng(3).standard_normal((num, 2)) * np.sqrt(1 + s**2)
    estimator = BAE(latent_dim=2, decoder="identity", encoder="linear", standardise=False, num_chains=1,
                    likelihood=Gaussian(noise=s, learn_noise=False))  # fmt: skip
    model, plan, table, static, chains = started(estimator, StreamBatch(num, num, is_given=True), y)
    position, encoder = jax.tree.map(lambda a: a[0], (chains.sampler.position, chains.encoder))
    is_new = np.random.default_rng(4).random(num) < 0.7
    born = jax.jit(lambda z, is_new, key: visits._born(model, plan, table, eqx.combine(encoder, static), position,
                                                       jnp.asarray(temperature), z, is_new, key))  # fmt: skip
    z = np.asarray(born(jnp.full((num, 2), 7.0), jnp.asarray(is_new), jax.random.key(0)))
    assert np.all(z[~is_new] == 7.0)
    standard = (z - y / (1 + s**2))[is_new] / np.sqrt(temperature * s**2 / (1 + s**2))
    error = 1 / np.sqrt(standard.size)
    assert abs(standard.mean()) < 4 * error and abs(standard.var() - 1) < 4 * np.sqrt(2) * error


SMALL = np.random.default_rng(0).standard_normal((256, 1)) @ np.array([[1.0, -1.0, 1.0]])
SMALL = SMALL + 1.2 * np.random.default_rng(1).standard_normal(SMALL.shape)


def linear(**changes):
    """One latent, of which cells say so little that most of the decoder's gradient is the noise of latents."""
    arguments = dict(latent_dim=1, decoder="linear", encoder="linear", standardise=False, num_chains=1, num_warmup=300,
                     num_samples=300, thinning=5, sampler_steps=10, encoder_steps=1, num_map_steps=50,
                     likelihood=Gaussian(noise=1.2, learn_noise=False), latents="persistent",
                     progress=False)  # fmt: skip
    return BAE(**arguments | changes)


@pytest.mark.parametrize("batch_size", [256, 64])
def test_gradient_noise_is_that_of_drawn_rows_and_that_of_drawn_latents(batch_size):
    """Var e = (N²/B) [(1 − B/N) V_rows + V_latents], with latents of a linear decoder drawn from their normal law."""
    estimator, N = linear(batch_size=batch_size), len(SMALL)
    batching = StreamBatch(batch_size, N, unseen=1 - batch_size / N)
    model, plan, table, static, chains = started(estimator, batching, SMALL, visits=estimator.sampler_steps)
    state, encoder = jax.tree.map(lambda a: a[0], (chains.sampler, chains.encoder))
    decoder = jax.tree.map(lambda a: a + 0.7, state.position.shared["decoder"])
    shared = {**state.position.shared, "decoder": decoder}
    state = state._replace(position=state.position._replace(shared=shared))
    given = model, plan, table, eqx.combine(encoder, static), state, jnp.asarray(1.0)
    keys = jax.random.split(jax.random.key(0), 30)
    found = jax.jit(lambda keys: jax.lax.map(lambda k: stiffness._gradient_noise(*given, k).shared["decoder"], keys))

    y = jnp.asarray(SMALL)

    def decode(decoder, z):
        return model.decode({**shared, "decoder": decoder}, z[None])[0].astype(jnp.float64)

    start = decode(decoder, jnp.zeros(1))
    slope = decode(decoder, jnp.ones(1)) - start
    precision = 1 + jnp.sum(slope**2) / 1.2**2
    mean = ((y - start[None]) @ slope / 1.2**2 / precision)[:, None]
    z = mean[None] + jax.random.normal(jax.random.key(1), (300, N, 1)) / jnp.sqrt(precision)
    energy = lambda decoder, y, z: 0.5 * jnp.sum((y - decode(decoder, z)) ** 2) / 1.2**2  # noqa: E731
    of_rows = jax.vmap(jax.grad(energy), (None, 0, 0))
    drawn = jax.lax.map(lambda z: of_rows(decoder, y, z), z)
    for measured, g in zip(jax.tree.leaves(found(keys)), jax.tree.leaves(drawn), strict=True):
        measured, g = np.asarray(measured, float), np.asarray(g, float)
        of_latents, of_drawn = np.var(g, axis=0).mean(axis=0), np.var(g.mean(axis=0), axis=0)
        expected = N**2 / batch_size * ((1 - batch_size / N) * of_drawn + of_latents)
        error = np.std(measured, axis=0) / np.sqrt(len(keys))
        assert np.all(np.abs(np.mean(measured, axis=0) - expected) < 4 * error + 0.02 * expected)


def test_the_noise_of_a_batch_that_stays_counts_at_every_step_that_it_stays_for():
    """Latents born at every sweep; over longer times the noise acts like independent noise of so many times as much."""
    estimator = linear(sampler_steps=1)
    model, plan, table, static, chains = started(estimator, StreamBatch(32, 1000), SMALL)
    state, encoder = jax.tree.map(lambda a: a[0], (chains.sampler, chains.encoder))

    def noise(sampler_steps):
        staying = dataclasses.replace(plan, sampler_steps=sampler_steps)
        given = staying, table, eqx.combine(encoder, static), state, jnp.asarray(1.0), jax.random.key(0)
        return stiffness._gradient_noise(model, *given).shared["decoder"]

    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, 7 * b, rtol=1e-4), noise(7), noise(1))


def test_a_table_no_larger_than_a_batch_is_not_hot():
    """All of the noise comes from latents then; allowed for with 1 − B/N, the decoder had a temperature of 1.13."""
    temperature, error = linear().fit(None, OnDisk(SMALL)).kinetic_temperatures_()["decoder"]
    assert error < 0.025 and abs(temperature - 1) < 4 * error


def test_the_noise_of_a_long_table_settles_and_is_not_hot():
    """A batch that stays for a sweep lets it creep for hundreds of sweeps, which its temperature shows: 2 and more."""
    rng = np.random.default_rng(5)
    x, phase = rng.uniform(0, 10, (6000, 1)), np.array([0.0, 2.0])
    group = rng.integers(0, 2, len(x))
    y = np.sin(x + phase[group][:, None] + np.arange(4)) + 0.2 * rng.standard_normal((len(x), 4))
    model = SGPBAE(latent_dim=2, num_inducing=16, kernel=RBF(lengthscale=1.5), decoder="linear", encoder="linear",
                   num_chains=1, num_warmup=100, num_samples=20, thinning=4, progress=False)  # fmt: skip
    model.fit(OnDisk(x), OnDisk(y), groups=group)
    assert model.plan_.visits == 30  # rows keep their latents by themselves
    at = np.linspace(0.5, 9.5, 30)[:, None]
    for number, shift in enumerate(phase):
        mean = np.asarray(model.predict(at, groups=np.full(30, number)).mean)
        assert np.sqrt(np.mean((mean - np.sin(at + shift + np.arange(4))) ** 2)) < 0.1
    temperatures = model.kinetic_temperatures_()
    for name in ("decoder", "observation noise"):
        temperature, error = temperatures[name]
        assert abs(temperature - 1) < 0.15 + 3 * error


def test_draws_do_not_depend_on_the_home_of_rows_nor_on_checkpoints_nor_on_other_chains(model, tmp_path, monkeypatch):
    np.save(tmp_path / "y.npy", Y)
    monkeypatch.setattr(keptlatents, "LARGEST_JOURNAL", 1)  # a checkpoint after every block
    alone = tiny(num_chains=1).fit(X, OnDisk(tmp_path / "y.npy"), run_dir=tmp_path / "run")
    assert_same_draws(alone, model, slice(1))
    assert not (tmp_path / "run" / keptlatents.FILE).exists()  # a run that is over needs it no more
    assert_same_draws(load(tmp_path / "run"), model, slice(1))


@pytest.mark.parametrize(("phase", "done"), [("warm-up", 2), ("sampling", 3)])
def test_a_stopped_run_goes_on_to_the_same_draws(phase, done, model, tmp_path, monkeypatch):
    monkeypatch.setattr(keptlatents, "LARGEST_JOURNAL", 1)
    with pytest.raises(runs.Stop):
        tiny(progress=runs.stopping(phase, done)).fit(X, OnDisk(Y), run_dir=tmp_path / "run")
    monkeypatch.setattr(keptlatents, "LARGEST_JOURNAL", 2**20)
    assert_same_draws(tiny().fit(X, OnDisk(Y), run_dir=tmp_path / "run"), model)


KILLED = """
import os, signal, sys
import numpy as np
import test_visits
from gpbae.sampling import keptlatents
from gpbae.tabular.ondisk import OnDisk

take, taken = keptlatents.KeptLatents._take, []

def killed(self, arrays):
    taken.append(1)
    if len(taken) == 5:  # half of a journal is in the file
        arrays = arrays | {"kept.places": arrays["kept.places"][::2], "kept.latents": arrays["kept.latents"][::2]}
    take(self, arrays)
    if len(taken) == 5:
        os.kill(os.getpid(), signal.SIGKILL)

keptlatents.KeptLatents._take = killed
keptlatents.LARGEST_JOURNAL = 1
test_visits.tiny().fit(test_visits.X, OnDisk(test_visits.Y), run_dir=sys.argv[1])
"""


@pytest.mark.skipif(os.name == "nt", reason="no such signal there")
def test_a_run_that_is_killed_while_it_writes_goes_on_to_the_same_draws(model, tmp_path):
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parent), *sys.path])
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "run")], env=os.environ | {"PYTHONPATH": path},
                          capture_output=True, check=False)  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()[-2000:]
    assert runfolder.read_manifest(tmp_path / "run")["finished"] is False
    assert_same_draws(tiny().fit(X, OnDisk(Y), run_dir=tmp_path / "run"), model)


def test_rows_keep_latents_by_themselves_where_a_run_comes_by_often(monkeypatch):
    visits_of = lambda rows, **changes: outofcore.num_visits_of_a_sweep(tiny(**changes), (rows, 3))  # noqa: E731
    assert visits_of(N, latents="auto") == 3  # 14 sweeps of 3 batches of 32 rows
    assert visits_of(10 * N, latents="auto") == visits_of(N, latents="auto", num_samples=1, num_warmup=1) == 0
    assert visits_of(10**9) == 3 and visits_of(N, latents="amortised") == 0
    monkeypatch.setattr(outofcore, "LARGEST_BLOCK", 2 * 32 * 3 * 4)  # two chains, four batches
    assert visits_of(N, latents="auto", sampler_steps=4) == 4 and visits_of(N, latents="auto", sampler_steps=5) == 0
    with pytest.raises(InputError, match=r"at most 768 cells; got 960 .* Make one of these smaller"):
        tiny(sampler_steps=5).fit(X, OnDisk(Y))
    monkeypatch.setattr(distributed, "is_on", lambda: True)
    assert visits_of(N, latents="auto") == 0
    with pytest.raises(InputError, match="kept by one process; got several"):
        tiny().fit(X, OnDisk(Y))


@pytest.mark.parametrize("latents", ["persistent", "amortised"])
def test_a_block_that_is_too_large_for_memory_is_computed_in_parts(latents, monkeypatch):
    """Every step sees another batch whatever the columns, and draws and latents are those of the whole block but for
    rounding.  Draws alone would not tell: with a linear decoder a row forgets which latents it was given."""
    left, write = [], KeptLatents.write
    monkeypatch.setattr(KeptLatents, "write", lambda kept, *given: left.append(given[1]) or write(kept, *given))
    whole = tiny(latents=latents, num_warmup=4, num_samples=2).fit(X, OnDisk(Y))
    seen, gathered = [], outofcore.Feed._in_turn
    monkeypatch.setattr(outofcore.Feed, "_in_turn", lambda *a: (seen.append(r.mask.shape) or r for r in gathered(*a)))
    visits_of_a_sweep = 3 if latents == "persistent" else 1
    monkeypatch.setattr(outofcore, "LARGEST_BLOCK", 2 * 32 * 3 * visits_of_a_sweep)
    parts = tiny(latents=latents, num_warmup=4, num_samples=2).fit(X, OnDisk(Y))
    assert len(seen) == 8 and all(shape[1] == 1 for shape in seen)  # as many as sweeps
    if latents == "persistent":
        assert all(shape == (2, 1, 3, 32, 3) for shape in seen) and parts.plan_.stay == 1
    assert len(left) == (8 if latents == "persistent" else 0)  # of each fit, warm-up and sampling have two blocks
    same = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)  # noqa: E731
    jax.tree.map(same, (parts.draws_, left[4:]), (whole.draws_, left[:4]))


@pytest.mark.parametrize("phase", ["warm-up", "sampling"])
def test_latents_that_are_not_finite_never_reach_the_file(phase, monkeypatch):
    """Those of the last visit of a block are the chain's; of a visit before, nothing but the file would know."""
    written, write, run_block, events = [], KeptLatents.write, visits.run_block, []

    def broken_once(*given):
        chains, report, latents = run_block(*given)
        seen = sum(event["phase"] == phase for event in events)
        told = any(event["phase"] in ("back-off", "dead") for event in events)
        return chains, report, latents.at[1, 0].set(jnp.nan) if seen == 1 and not told else latents

    def spy(kept, visited, latents, sound):
        written.append(latents[sound])
        write(kept, visited, latents, sound)

    monkeypatch.setattr(visits, "run_block", broken_once)
    monkeypatch.setattr(KeptLatents, "write", spy)
    found = tiny(progress=events.append).fit(X, OnDisk(Y))
    assert len(written) == 7 and all(np.isfinite(latents).all() for latents in written)
    trouble = [event for event in events if event["phase"] in ("back-off", "dead")]
    assert len(trouble) == 1 and trouble[0]["because"] == "the variables latents"
    assert found.dead_chains_.tolist() == ([1] if phase == "sampling" else [])


def test_a_deep_prior_is_fitted_from_disk_and_its_kept_latents_move():
    arguments = dict(latent_dim=2, num_inducing=4, num_propagations=2, decoder="linear", encoder="linear", num_chains=1,
                     num_warmup=6, num_samples=4, thinning=2, sampler_steps=3, encoder_steps=2, num_map_steps=10,
                     batch_size=32, latents="persistent", progress=False)  # fmt: skip
    model = DSGPBAE(**arguments).fit(X, OnDisk(Y))
    assert np.isfinite(model.impute(X[:8], Y[:8]).filled).all()
    assert 0.2 < model._acceptance("latents_acceptance") <= 1 and model._acceptance() is None


def test_a_batch_has_no_row_twice():
    drawn = distinct(40, 32, 50)(np.random.default_rng(0))
    assert drawn.shape == (50, 32) and all(len(set(rows)) == 32 for rows in drawn)
    counts = np.bincount(drawn.ravel(), minlength=40)
    assert abs(counts - 40).max() < 5 * np.sqrt(40 * 0.2)
