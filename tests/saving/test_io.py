"""A saved model answers as it did; a file that was changed, cut or swapped is refused in a sentence."""

import json
import pickle
import shutil

import equinox as eqx
import jax
import numpy as np
import pandas as pd
import pytest

import checks
from gpbae import BAE, DSGPBAE, GPBAE, SGPBAE, load
from gpbae.errors import GpbaeError, InputError
from gpbae.kernels import RBF, Embed, Periodic
from gpbae.likelihoods import Bernoulli, Gaussian, StudentT
from gpbae.sampling import batches, inference
from gpbae.saving import io, storage, values
from kept import assert_survives

QUICK = dict(num_chains=1, num_warmup=1, num_samples=4, thinning=1, sampler_steps=2, encoder_steps=1, num_map_steps=0,
             progress=False, latent_dim=2)  # fmt: skip
X = np.linspace(0.0, 1.0, 14)[:, None]
Y = np.random.default_rng(0).standard_normal((14, 3))
Y[2, 1] = Y[5] = np.nan
MODELS = {
    "BAE": lambda: BAE(**QUICK, weight_prior="hierarchical"),
    "GPBAE": lambda: GPBAE(**QUICK, kernel=[RBF(lengthscale=0.3), Periodic(period=0.5) + 0.1]),
    "SGPBAE": lambda: SGPBAE(**QUICK, num_inducing=4, likelihood=Gaussian(per_column=True), latents="amortised"),
    "DSGPBAE": lambda: DSGPBAE(**QUICK, num_inducing=4, inducing_prior="determinantal", num_propagations=2),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The cheapest fitted model, and the folder it was saved to."""
    model = BAE(**QUICK, decoder="linear", encoder="linear").fit(None, Y)
    folder = tmp_path_factory.mktemp("saved") / "model"
    model.save(folder)
    return model, folder


@pytest.fixture
def copy(saved, tmp_path):
    return shutil.copytree(saved[1], tmp_path / "copy")


@pytest.mark.parametrize("name", [n if n == "BAE" else pytest.param(n, marks=pytest.mark.slow) for n in MODELS])
def test_a_loaded_model_is_the_same_and_predicts_bit_for_bit(name, tmp_path):
    """The table in test_estimators.py saves all four as well; these have the rarer arguments."""
    model = MODELS[name]().fit(X, Y)
    twin = assert_survives(model, tmp_path / "model")
    np.testing.assert_array_equal(twin.predict(X).samples, model.predict(X).samples)
    assert twin.score(X, Y) == model.score(X, Y)


def test_a_loaded_model_answers_every_question_bit_for_bit(saved):
    model, twin = saved[0], load(saved[1])
    x, y = X[3:9], Y[3:9] + 0.01
    np.testing.assert_array_equal(twin.impute(None, Y).samples, model.impute(None, Y).samples)
    np.testing.assert_array_equal(twin.encode(x, y).samples, model.encode(x, y).samples)
    np.testing.assert_array_equal(twin.sample(X, num_samples=4), model.sample(X, num_samples=4))
    pd.testing.assert_frame_equal(twin.diagnostics(), model.diagnostics())


def test_frames_and_group_labels_survive(tmp_path):
    frame = pd.DataFrame(Y, columns=["zinc", "lead", "nickel"], index=np.arange(14) + 100)
    groups = np.repeat(["a", "b"], 7)
    model = BAE(**QUICK, decoder="linear", encoder="linear").fit(None, frame, groups)
    model.save(tmp_path / "model")
    twin = load(tmp_path / "model")
    pd.testing.assert_frame_equal(twin.impute(None, frame, groups).filled, model.impute(None, frame, groups).filled)
    np.testing.assert_array_equal(twin.groups_, ["a", "b"])


def test_kernels_with_labels_are_written_by_name():
    kernel = Embed(RBF(lengthscale=(0.3, 1.0, 2.0)).on(0, 1) * 2.0, column=1, num_labels=3, dim=2)
    writer = values.Writer("kernel")
    node = json.loads(json.dumps(writer.write(kernel)))
    twin = values.Reader(writer.arrays, {}).read(node)
    assert repr(twin) == repr(kernel)
    assert jax.tree.structure(twin) == jax.tree.structure(kernel)


class Own(eqx.Module):
    """A user's decoder."""

    linear: eqx.nn.Linear

    def __call__(self, z):
        return jax.numpy.tanh(self.linear(z))


def test_a_users_own_decoder_is_passed_again(tmp_path):
    module = Own(eqx.nn.Linear(2, 3, key=jax.random.key(3), dtype=jax.numpy.float32))
    model = BAE(**QUICK, decoder=module, encoder="linear").fit(None, Y)
    model.save(tmp_path / "model")
    with pytest.raises(InputError, match=r"load\(path, decoder=module\)"):
        load(tmp_path / "model")
    narrow = Own(eqx.nn.Linear(1, 3, key=jax.random.key(3), dtype=jax.numpy.float32))
    with pytest.raises(InputError, match="differs in its weights' shapes"):
        load(tmp_path / "model", decoder=narrow)
    twin = load(tmp_path / "model", decoder=module)
    np.testing.assert_array_equal(twin.predict(X).mean, model.predict(X).mean)


def test_what_cannot_be_saved_is_said_before_anything_is_written(saved, tmp_path):
    with pytest.raises(GpbaeError, match="not fitted"):
        BAE().save(tmp_path / "model")
    with pytest.raises(InputError, match="kernel of type Own cannot be saved"):
        values.Writer("kernel").write(Own(eqx.nn.Linear(1, 1, key=jax.random.key(0))))
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("…")
    with pytest.raises(InputError, match="something other than a saved model"):
        saved[0].save(tmp_path / "thesis")
    assert [p.name for p in tmp_path.rglob("*")] == ["thesis", "chapter.tex"]


def test_saving_again_replaces_the_old_model_and_leaves_nothing_behind(saved, tmp_path):
    model, folder = saved
    shutil.copytree(folder, tmp_path / "model")
    (tmp_path / "model" / io.DRAWS).unlink()
    model.save(tmp_path / "model")
    load(tmp_path / "model")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model"]
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == [io.ARRAYS, io.DRAWS, io.MANIFEST]


def test_a_failed_write_leaves_the_old_model_in_place(saved, tmp_path, monkeypatch):
    model, folder = saved
    target = shutil.copytree(folder, tmp_path / "model")
    monkeypatch.setattr(io.os, "fsync", lambda handle: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(GpbaeError, match=r"Could not write the model to .*model: disk full; what was there before"):
        model.save(target)
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    load(target)


def test_an_old_model_comes_back_when_the_new_one_cannot_take_its_place(saved, tmp_path, monkeypatch):
    model, folder = saved
    target, rename, calls = shutil.copytree(folder, tmp_path / "model"), io.os.rename, []

    def second_fails(*places):
        calls.append(places)
        if len(calls) == 2:
            raise OSError(5, "Input/output error")
        rename(*places)

    monkeypatch.setattr(io.os, "rename", second_fails)
    with pytest.raises(GpbaeError, match="Input/output error"):
        model.save(target)
    assert len(calls) == 3 and [p.name for p in tmp_path.iterdir()] == ["model"]
    load(target)


def test_the_folder_holds_no_pickle(saved):
    for file in saved[1].iterdir():
        with pytest.raises((pickle.UnpicklingError, ValueError, KeyError, EOFError, IndexError, OverflowError)):
            pickle.loads(file.read_bytes())
    manifest = json.loads((saved[1] / io.MANIFEST).read_text())
    assert manifest["packages"]["gpbae"]
    assert set(manifest["files"]) == {io.DRAWS, io.ARRAYS}


@pytest.mark.parametrize("name", [io.DRAWS, io.ARRAYS])
def test_a_changed_or_cut_file_is_refused_by_name(copy, name):
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(InputError, match=f"{name} has another sha256"):
        load(copy)
    (copy / name).write_bytes(content[:-8])
    with pytest.raises(InputError, match=rf"{name} must have .* truncated"):
        load(copy)
    (copy / name).unlink()
    with pytest.raises(InputError, match=f"{name} cannot be read"):
        load(copy)


def test_links_out_of_the_folder_are_refused(saved, copy):
    (copy / io.DRAWS).unlink()
    (copy / io.DRAWS).symlink_to(saved[1] / io.DRAWS)
    with pytest.raises(InputError, match=f"{io.DRAWS} points out of the folder"):
        load(copy)


def rewrite(folder, change):
    """A manifest that says something else and has the right checksum all the same."""
    manifest = json.loads((folder / io.MANIFEST).read_text())
    del manifest["checksum"]
    change(manifest)
    (folder / io.MANIFEST).write_bytes(storage.seal(manifest))


def test_a_manifest_without_checksum_is_of_the_first_version(saved, copy):
    rewrite(copy, lambda m: m.update(version=1))
    manifest = json.loads((copy / io.MANIFEST).read_text())
    del manifest["checksum"]
    (copy / io.MANIFEST).write_text(json.dumps(manifest))
    np.testing.assert_array_equal(load(copy).predict(X).mean, saved[0].predict(X).mean)
    (copy / io.MANIFEST).write_text(json.dumps(manifest | {"version": 2}))
    with pytest.raises(InputError, match="has another checksum than it says"):
        load(copy)


def replace_type(manifest):
    manifest["fitted"]["model_"]["type"] = "os.system"


def test_a_type_may_move_within_its_package(saved, copy):
    """Files name the package and the class; those of older releases, which name the module too, are read as well."""

    def lengthen(manifest):
        prior = manifest["fitted"]["model_"]["fields"]["prior"]
        assert prior["type"] == "priors.NormalPrior"
        prior["type"] = "priors.normal.NormalPrior"

    rewrite(copy, lengthen)
    np.testing.assert_array_equal(load(copy).predict(X).mean, saved[0].predict(X).mean)


OF_VERSION_2 = {
    "inference.Plan": {"batching", "sampler_steps", "encoder_steps", "amortised", "refresh", "collapsed",
                       "learning_rate"},
    "batches.StreamBatch": {"size", "num_rows"},
    "priors.DeepPrior": {"hidden", "last", "seeds", "width"},
    "likelihoods.Gaussian": {"log_noise", "learn_noise", "per_column"},
    "likelihoods.Bernoulli": set(),
    "likelihoods.StudentT": {"log_scale", "log_excess", "learn_scale", "learn_freedom"},
}  # fmt: skip
LATER = {
    "a model": None,
    "a stream": inference.Plan(batches.StreamBatch(4, 9), 3, 3, True, False),
    "yes and no": Bernoulli(),
    "outliers": StudentT(),
    "warps": checks.deep_prior(),
}


def of_version_2(node):
    """As it was written before fields were added."""
    if isinstance(node, list):
        return [of_version_2(item) for item in node]
    if not isinstance(node, dict):
        return node
    if (known := OF_VERSION_2.get(node.get("type", ""))) is not None:
        node = node | {"fields": {name: value for name, value in node["fields"].items() if name in known}}
    return {name: of_version_2(value) for name, value in node.items()}


@pytest.mark.parametrize("what", LATER)
def test_what_was_saved_before_fields_were_added_is_read(what, saved, copy):
    assert set(OF_VERSION_2) == set(values.SINCE_VERSION_2)
    if LATER[what] is None:
        rewrite(copy, lambda m: m.update(of_version_2(m)))
        np.testing.assert_array_equal(load(copy).impute(None, Y).samples, saved[0].impute(None, Y).samples)
        return
    writer = values.Writer()
    node = writer.write(LATER[what])
    older = of_version_2(node)
    assert older != node
    assert eqx.tree_equal(values.Reader(writer.arrays, {}).read(older), LATER[what])


TAMPERED = {
    "version": (lambda m: m.update(version=99), "format version 99"),
    "format": (lambda m: m.update(format="other"), "does not describe a gpbae model"),
    "files": (lambda m: m["files"].update({"model.pkl": {}}), "must list"),
    "class": (lambda m: m.update({"class": "Popen"}), "unknown model 'Popen'"),
    "type": (replace_type, "unknown type 'os.system'"),
    "attribute": (lambda m: m["fitted"].update(fit=1), "'fit', which is no fitted attribute"),
    "argument": (lambda m: m["arguments"].update(surprise=1), "damaged or from another release"),
    "node": (lambda m: m["arguments"].update(seed={"eval": "1"}), "unknown kind"),
    "array": (lambda m: m["arguments"].update(seed={"array": "x", "kind": "numpy", "dtype": "<f8"}), "not there"),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_a_manifest_that_asks_for_anything_else_is_refused(copy, what):
    change, sentence = TAMPERED[what]
    rewrite(copy, change)
    with pytest.raises(InputError, match=sentence) as caught:
        load(copy)
    assert io.MANIFEST in str(caught.value)


BLOATED = {
    "entries": b"[" + b"{}," * (storage.MOST_ENTRIES + 1) + b"{}]",
    "a number without end": b'{"a": ' + b"9" * 10_000 + b"}",
    "nested": b"[" * 100_000,
}


@pytest.mark.parametrize("what", BLOATED)
def test_a_manifest_that_would_fill_the_memory_is_not_parsed(copy, what):
    (copy / io.MANIFEST).write_bytes(BLOATED[what])
    with pytest.raises(InputError, match=io.MANIFEST):
        load(copy)


def test_words_wider_than_the_file_are_not_made(copy):
    """One word of a hundred million letters would be 400 MB."""
    node = {"strings": ["a"], "shape": [1], "dtype": "<U100000000"}
    rewrite(copy, lambda m: m["fitted"].update(groups_=node))
    with pytest.raises(InputError, match="holds 1 words of <U100000000"):
        load(copy)


def header(**arrays):
    text = json.dumps(arrays).encode()
    return len(text).to_bytes(8, "little") + text


HOSTILE_HEADERS = {
    "numbers NumPy has not": header(a={"dtype": "BF16", "shape": [0], "data_offsets": [0, 0]}),
    "more than the file": header(a={"dtype": "F64", "shape": [2**40], "data_offsets": [0, 2**43]}),
    "more than can be counted": header(a={"dtype": "F64", "shape": [2**40, 2**40], "data_offsets": [0, 0]}),
    "nothing, a million times": header(
        **{str(i): {"dtype": "F64", "shape": [0], "data_offsets": [0, 0]} for i in range(storage.MOST_ARRAYS + 1)}
    ),
    "a header without end": (2**62).to_bytes(8, "little") + b"{}",
    "nothing at all": b"",
}


@pytest.mark.parametrize("what", HOSTILE_HEADERS)
def test_arrays_that_promise_too_much_are_refused_by_name(what, tmp_path):
    with pytest.raises(InputError, match=r"here\.safetensors"):
        storage.arrays(HOSTILE_HEADERS[what], tmp_path / "here.safetensors")


def test_pickles_and_other_files_are_refused(copy, tmp_path):
    (tmp_path / "model.pkl").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(InputError, match="pickles are never read"):
        load(tmp_path / "model.pkl")
    with pytest.raises(InputError, match=f"there is no {io.MANIFEST}"):
        load(tmp_path / "nowhere")
    (copy / io.MANIFEST).write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(InputError, match="is not JSON"):
        load(copy)
    content = pickle.dumps({"a": 1})
    (copy / io.DRAWS).write_bytes(content)
    shutil.copy(tmp_path / "model.pkl", copy / io.ARRAYS)
    with pytest.raises(InputError, match="load takes decoder and encoder"):
        load(copy, network=1)


@pytest.mark.parametrize(
    ("likelihood", "later"),
    [(Gaussian(noise=0.4), "floor"), (Bernoulli(), "offset"), (StudentT(), "per_column"), (StudentT(), "floor")],
)
def test_a_field_that_came_later_means_what_was_before(likelihood, later):
    """Models saved before floors and offsets still load, and say what they said."""
    writer = values.Writer()
    node = writer.write(likelihood)
    del node["fields"][later]
    twin = values.Reader(writer.arrays, {}).read(node)
    assert jax.tree.structure(twin) == jax.tree.structure(likelihood)
    assert not getattr(twin, later)
