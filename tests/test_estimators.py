"""The four models from outside: every kind of table, scikit-learn's contract, units, types, and words for mistakes."""

import copy
import itertools

import jax
import numpy as np
import pandas as pd
import pytest

from gpbae import BAE, DSGPBAE, GPBAE, SGPBAE
from gpbae.errors import GpbaeError, InputError
from gpbae.kernels import RBF, Embed, Matern32
from gpbae.likelihoods import Bernoulli, Gaussian
from gpbae.networks import MLP, Conv
from kept import assert_survives

NUM_ROWS = 14
QUICK = dict(latent_dim=2, num_chains=1, num_warmup=2, num_samples=3, thinning=1, sampler_steps=3, encoder_steps=2,
             num_map_steps=0, progress=False)  # fmt: skip
SPARSE = dict(num_inducing=4)
MODELS = {
    "BAE": lambda **more: BAE(**QUICK, **more),
    "GPBAE": lambda **more: GPBAE(**QUICK, **more),
    "SGPBAE": lambda **more: SGPBAE(**QUICK, **SPARSE, **more),
    "DSGPBAE": lambda **more: DSGPBAE(**QUICK, **SPARSE, num_propagations=2, **more),
}
NETWORKS = {"vector": MLP((5,)), "image": Conv(channels=2)}
EVENTS = {"vector": (3,), "image": (8, 8)}
GROUPS = {"alone": None, "ragged": np.array(["a", "b", "c"])[[0, 1, 0, 2, 0, 1, 0, 1, 2, 0, 1, 0, 1, 2]]}
X = np.linspace(0.0, 1.0, NUM_ROWS)[:, None]


def table(event="vector", likelihood="gaussian", missing="complete"):
    """A smooth table with gaps of one kind."""
    rng = np.random.default_rng(3)
    shape = (NUM_ROWS, *EVENTS[event])
    y = 5.0 + 2.0 * np.sin(3.0 * X.reshape(-1, *(1,) * len(EVENTS[event])) + rng.uniform(0, 6, EVENTS[event]))
    y = y + 0.1 * rng.standard_normal(shape)
    if likelihood == "bernoulli":
        y = (y > 5.0).astype(float)
    if missing == "cells":
        y[rng.random(shape) < 0.2] = np.nan
    if missing == "rows":
        y[[2, 7, 13]] = np.nan
    if missing == "blocks":
        y[4:9, : EVENTS[event][0] // 2] = np.nan
    return y


# Every model on every kind of table.

TABLE = list(itertools.product(MODELS, GROUPS, ("gaussian", "bernoulli"), EVENTS))


# One case per model always runs, so chosen that any two of the other choices meet; a case is 20 s of compilation.
QUICK_CASES = {
    ("BAE", "alone", "bernoulli", "image"),
    ("GPBAE", "ragged", "bernoulli", "vector"),
    ("SGPBAE", "ragged", "gaussian", "image"),
    ("DSGPBAE", "alone", "gaussian", "vector"),
}


@pytest.mark.parametrize(
    ("name", "grouping", "likelihood", "event"),
    [case if case in QUICK_CASES else pytest.param(*case, marks=pytest.mark.slow) for case in TABLE],
)
def test_every_model_takes_every_table(name, grouping, likelihood, event, tmp_path):
    groups = GROUPS[grouping]
    family = Gaussian() if likelihood == "gaussian" else Bernoulli()
    for missing in ("complete", "cells", "rows", "blocks"):
        y = table(event, likelihood, missing)
        model = MODELS[name](likelihood=family, encoder=NETWORKS[event], decoder=NETWORKS[event])
        assert model.fit(X, y, groups) is model
        check_answers(model, y, groups)
    twin = assert_survives(model, tmp_path / "model")
    np.testing.assert_array_equal(twin.predict(X, groups).mean, model.predict(X, groups).mean)
    jax.clear_caches()  # all cases in one process would hold more memory maps than it may have


def check_answers(model, y, groups):
    observed = ~np.isnan(y)
    predicted = model.predict(X, groups)
    assert_sound(predicted, y.shape)
    for seen in (y, np.where(observed, y[::-1], np.nan)):  # the fitted rows, then rows never seen
        filled = model.impute(X, seen, groups)
        assert_sound(filled, y.shape)
        known = ~np.isnan(seen)
        np.testing.assert_array_equal(filled.filled[known], seen[known])
        np.testing.assert_array_equal(filled.filled[~known], filled.point[~known])
        assert_sound(model.encode(X, seen, groups), (NUM_ROWS, 2))
    for noise in (True, False):
        path = model.sample(X, num_samples=4, groups=groups, noise=noise)
        assert path.shape == (4, *y.shape)
        assert np.isfinite(path).all()
    assert np.isfinite(model.score(X, y, groups))


def assert_sound(answer, shape):
    assert answer.mean.shape == answer.sd.shape == answer.samples.shape[1:] == shape
    assert np.isfinite(answer.mean).all()
    assert np.isfinite(answer.sd).all()
    assert (answer.sd > 0).all()


# One fitted model that many questions share.


@pytest.fixture(scope="module")
def fitted():
    return plain().fit(X, table())


def plain(**more):
    return MODELS["SGPBAE"](encoder=NETWORKS["vector"], decoder=NETWORKS["vector"], **more)


def test_columns_of_a_frame_are_known_by_name():
    """Another order of the columns, of y or of x, is another order of the same answer; lists go by position."""
    x = pd.DataFrame(np.concatenate([X, X[::-1] ** 2], axis=1), columns=["time", "depth"])
    y = pd.DataFrame(table(missing="cells"), columns=["zinc", "lead", "nickel"])
    model = plain().fit(x, y)
    expected, turned = model.impute(x, y), model.impute(x[["depth", "time"]], y[["nickel", "zinc", "lead"]])
    pd.testing.assert_frame_equal(turned.mean, expected.mean)
    assert list(turned.filled.columns) == ["zinc", "lead", "nickel"]
    np.testing.assert_array_equal(model.predict(x.to_numpy().tolist()).mean, model.predict(x).mean)
    with pytest.raises(InputError, match="missing depth"):
        model.predict(x.rename(columns={"depth": "height"}))


def test_variance_parts_of_imputed_cells_name_the_latents(fitted):
    y = table()
    parts, filled = fitted.impute(X, y).variance_parts(), fitted.impute(X, y)
    assert set(parts) == {"observation noise", "hyper-parameters", "latents", "decoder"}
    np.testing.assert_allclose(sum(parts.values()), filled.sd**2, rtol=1e-6)
    assert set(fitted.encode(X, y).variance_parts()) == {"latents"}


def test_units_are_restored(fitted):
    factor, shift = np.array([4.0, 1e-3, 250.0]), np.array([1.0, 0.0, -70.0])
    moved = plain().fit(X, factor * table() + shift)
    expected, got = fitted.predict(X), moved.predict(X)
    error = np.abs(got.mean - (factor * expected.mean + shift)) / (factor * table().std(axis=0))
    assert error.max() < 1e-6
    np.testing.assert_allclose(got.sd, factor * expected.sd, rtol=1e-6)


def test_doubling_the_units_is_exact(fitted):
    moved = plain().fit(X, 2.0 * table())
    np.testing.assert_allclose(moved.predict(X).mean, 2.0 * fitted.predict(X).mean, rtol=1e-6)
    difference = fitted.score(X, table()) - moved.score(X, 2.0 * table())
    np.testing.assert_allclose(difference, np.log(2.0), rtol=1e-6)  # a density per unit


def test_moving_the_inputs_changes_nothing(fitted):
    """Exact in binary: multiples of 1/8 and a shift by 4."""
    x = np.arange(NUM_ROWS)[:, None] / 8
    here, there = plain().fit(x, table()).predict(x), plain().fit(x + 4.0, table()).predict(x + 4.0)
    np.testing.assert_allclose(there.mean, here.mean, rtol=1e-6)


def test_frames_in_frames_out(fitted):
    days = pd.date_range("2024-01-01", periods=NUM_ROWS)
    y = pd.DataFrame(table(missing="cells"), columns=["zinc", "lead", "nickel"], index=days)
    x = pd.DataFrame({"depth": X[:, 0]}, index=days)
    model = plain().fit(x, y)
    filled, latents = model.impute(x, y), model.encode(x, y).mean
    for frame in (model.predict(x).mean, model.predict(x).sd, filled.mean, filled.filled, *filled.interval(0.8)):
        assert list(frame.columns) == ["zinc", "lead", "nickel"]
        pd.testing.assert_index_equal(frame.index, days, check_freq=False)
    assert list(latents.columns) == ["latent0", "latent1"]
    arrays = plain().fit(X, y.to_numpy())
    np.testing.assert_array_equal(arrays.impute(X, y.to_numpy()).filled, filled.filled.to_numpy())
    assert isinstance(arrays.predict(X).mean, np.ndarray)


def test_answers_keep_the_order_of_rows(fitted):
    order = np.random.default_rng(0).permutation(NUM_ROWS)
    answer, shuffled = fitted.impute(X, table()), fitted.impute(X[order], table()[order])
    correlation = np.corrcoef(answer.mean[order].ravel(), shuffled.mean.ravel())[0, 1]
    assert correlation > 0.9  # refined anew, so equal up to Monte Carlo
    np.testing.assert_array_equal(shuffled.filled, table()[order])


def test_predicting_does_not_change_the_model(fitted):
    before = jax.tree.map(np.copy, fitted.draws_)
    first = fitted.predict(X).samples
    fitted.impute(X, table())
    fitted.encode(X, table()[::-1])
    np.testing.assert_array_equal(fitted.predict(X).samples, first)
    jax.tree.map(np.testing.assert_array_equal, fitted.draws_, before)


def test_seeds_decide_everything(fitted):
    np.testing.assert_array_equal(plain().fit(X, table()).predict(X).samples, fitted.predict(X).samples)
    assert not np.array_equal(plain(seed=1).fit(X, table()).predict(X).mean, fitted.predict(X).mean)


def test_a_table_may_be_constant_empty_or_repeated_in_places(fitted):
    constant, empty = table(), table()
    constant[:, 1], empty[:, 1] = 7.0, np.nan
    for x, y in ((X, constant), (X, empty), (np.zeros_like(X), table()), (np.repeat(X[::2], 2, axis=0), table())):
        model = plain().fit(x, y)
        assert np.isfinite(model.predict(x).mean).all()
        assert np.isfinite(model.impute(x, y).filled).all()
    assert abs(plain().fit(X, constant).predict(X).mean[:, 1].mean() - 7.0) < 5.0


def test_a_fit_that_fails_leaves_the_last_one_alone(fitted, monkeypatch):
    model = copy.copy(fitted)
    before = model.predict(X).mean

    def break_off(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(model), "_sample", break_off)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, 100.0 * table())
    np.testing.assert_array_equal(model.predict(X).mean, before)


def test_one_row_is_a_table_too():
    model = plain().fit(X[:1], table()[:1])  # and has more inducing inputs than rows
    assert_sound(model.predict(X), (NUM_ROWS, 3))
    assert_sound(model.impute(X[:1], table()[:1]), (1, 3))


def test_a_vector_is_one_column():
    model = BAE(**QUICK | {"latent_dim": 1}, encoder="linear", decoder="linear").fit(None, table()[:, 0])
    assert model.predict(np.zeros(5)).mean.shape == (5, 1)
    assert model.impute(None, table()[:, 0]).filled.shape == (NUM_ROWS, 1)
    with pytest.raises(InputError, match="by their number"):
        model.predict(None)


# Minibatches, latents, kernels.

LABELLED = np.column_stack([X[:, 0], np.arange(NUM_ROWS) % 3])


def test_embedded_labels_and_random_rows():
    kernel = Embed(RBF(), column=1, num_labels=3, dim=2)
    model = plain(kernel=kernel, batch_size=5, latents="persistent").fit(LABELLED, table(missing="cells"))
    assert type(model.plan_.batching).__name__ == "RowBatch"
    assert not model.plan_.amortised
    assert_sound(model.predict(LABELLED), (NUM_ROWS, 3))
    assert model.x_location_[1] == 0.0
    with pytest.raises(InputError, match="labels 0 to 2, got 3"):
        plain(kernel=kernel).fit(LABELLED + np.array([0, 1]), table())


def test_amortised_latents_whole_groups_and_a_kernel_per_latent(tmp_path):
    model = plain(kernel=[RBF(), Matern32(lengthscale=0.3)], batch_size=12, latents="amortised")
    model.fit(X, table(missing="cells"), GROUPS["ragged"])
    assert type(model.plan_.batching).__name__ == "GroupBatch"
    assert model.plan_.amortised
    assert model.draws_.local is None
    assert_sound(model.predict(X, GROUPS["ragged"]), (NUM_ROWS, 3))
    assert_sound(model.encode(X, table(missing="cells"), GROUPS["ragged"]), (NUM_ROWS, 2))
    assert {"RBF lengthscale, latent 0", "Matern32 lengthscale, latent 1"} <= set(model.diagnostics().index)
    assert_survives(model, tmp_path / "model")


def test_exact_gp_over_labels_in_batches_of_whole_groups():
    kernel = Embed(RBF(), column=1, num_labels=3, dim=2)
    model = MODELS["GPBAE"](kernel=kernel, batch_size=7, encoder=NETWORKS["vector"], decoder=NETWORKS["vector"])
    model.fit(LABELLED, table(), GROUPS["ragged"])
    assert type(model.plan_.batching).__name__ == "GroupBatch"
    assert_sound(model.predict(LABELLED, GROUPS["ragged"]), (NUM_ROWS, 3))


def test_a_new_group_is_a_new_draw(fitted):
    groups = GROUPS["ragged"]
    model = plain().fit(X, table(), groups)
    known, new = model.predict(X, np.full(NUM_ROWS, "a")), model.predict(X, np.full(NUM_ROWS, "never seen"))
    assert_sound(new, (NUM_ROWS, 3))
    assert not np.array_equal(known.mean, new.mean)
    with pytest.raises(InputError, match="fitted with groups"):
        model.predict(X)
    with pytest.raises(InputError, match="one label per row"):
        model.predict(X, groups[:3])


def test_equal_numbers_are_one_group_whatever_their_type():
    """Fitted rows in their groups are answered by what the chain sampled, in other groups they are refined anew."""
    numbers = np.arange(NUM_ROWS) % 2
    model = BAE(**QUICK, encoder="linear", decoder="linear").fit(None, table(), numbers)
    expected = model.encode(None, table(), numbers).samples
    for same in (numbers.astype(float), numbers.astype("float32"), numbers.astype(object)):
        np.testing.assert_array_equal(model.encode(None, table(), same).samples, expected)
    assert not np.array_equal(model.encode(None, table(), numbers + 0.5).samples, expected)


def test_evaluate_scores_hidden_cells(fitted):
    scores = plain().evaluate(X, table(), holdout=0.2)
    assert {"mae", "smse", "nlpd", "crps", "coverage90", "cells"} <= set(scores.columns)
    assert scores.loc["all", "cells"] == scores["cells"].iloc[:-1].sum()
    with pytest.raises(InputError, match="hides no cell"):
        plain().evaluate(X, table(), holdout=0.0)


def test_to_arviz_has_chain_and_draw(fitted):
    posterior = fitted.to_arviz()["posterior"]
    assert dict(posterior.sizes)["chain"] == 1
    assert dict(posterior.sizes)["draw"] == 3


# scikit-learn's contract.


@pytest.mark.parametrize("name", MODELS)
def test_scikit_learn_can_clone_and_ask(name):
    from sklearn.base import clone
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    family, network = Gaussian(noise=0.2), MLP((4,))
    model = MODELS[name](likelihood=family, decoder=network)
    assert model.get_params()["likelihood"] is family
    assert model.get_params()["decoder"] is network
    twin = clone(model)
    assert twin is not model
    assert repr(twin) == repr(model)
    assert type(model)(**model.get_params()).get_params() == model.get_params()
    assert twin.set_params(seed=7, thinning=3) is twin
    assert (twin.seed, twin.thinning, model.seed) == (7, 3, 0)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    with pytest.raises(InputError, match=r"no argument 'colour'\. It takes "):
        model.set_params(colour="red")
    with pytest.raises(InputError, match=r"no argument 'num_chain'\. Did you mean num_chains\?"):
        model.set_params(num_chain=2)


def test_arguments_are_stored_as_given_even_when_wrong():
    """Checked by fit, as scikit-learn asks, so that set_params can repair them."""
    model = SGPBAE(num_inducing=-3, kernel="nonsense", latents="many")
    assert (model.num_inducing, model.kernel, model.latents) == (-3, "nonsense", "many")


def test_fitted_models_are_told_from_unfitted_ones(fitted):
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(fitted)
    blank = SGPBAE()
    questions = {"predict": (X,), "impute": (X, table()), "encode": (X, table()), "sample": (X,), "score": (X, table()),
                 "diagnostics": (), "save": ("somewhere",)}  # fmt: skip
    for question, arguments in questions.items():
        with pytest.raises(GpbaeError, match="not fitted yet"):
            getattr(blank, question)(*arguments)


# Mistakes, each answered in one sentence before anything is compiled.

Y = table()
DAYS = [f"2024-01-{day:02d}" for day in range(1, 15)]
INFINITE = np.where(np.arange(3) == 1, np.inf, Y)
MISTAKES = {
    "different lengths": (SGPBAE(), (X[:5], Y), "same number of rows; got 5 and 14"),
    "no rows": (SGPBAE(), (X[:0], Y[:0]), "at least one row and one column"),
    "a single number": (BAE(), (None, 3.0), "at least one row"),
    "nothing observed": (SGPBAE(), (X, np.full_like(Y, np.nan)), "at least one observed cell; got only NaN"),
    "infinite y": (SGPBAE(), (X, INFINITE), "infinity in row 0, column 1"),
    "infinite x": (SGPBAE(), (np.where(X > 0.9, np.inf, X), Y), "x must be finite"),
    "missing x cell": (SGPBAE(), (np.where(X > 0.9, np.nan, X), Y), "x must be finite"),
    "text in y": (SGPBAE(), (X, Y.astype(str).astype(object) + "?"), "y must hold numbers, NaN for missing"),
    "text in x": (SGPBAE(), (np.full((14, 1), "today"), Y), "x must hold numbers, without gaps; got 'today'"),
    "dates": (SGPBAE(), (pd.date_range("2024", periods=14).to_numpy(), Y), "timedelta64"),
    "dates as text": (SGPBAE(), (DAYS, Y), "x must hold numbers; got the date '2024-01-01'.* pandas.to_datetime"),
    "dates as objects": (SGPBAE(), (pd.DataFrame({"t": DAYS}), Y), "the date '2024-01-01'"),
    "complex": (SGPBAE(), (X, Y + 1j), "must be real"),
    "x in three dimensions": (SGPBAE(), (np.zeros((14, 2, 2)), Y), r"shape \(rows, inputs\)"),
    "x missing": (SGPBAE(), (None, Y), "needs inputs"),
    "amortised latents of coupled rows": (GPBAE(latents="amortised"), (X, Y), "does not keep"),
    "repeated columns": (SGPBAE(), (X, pd.DataFrame(Y, columns=["a", "a", "b"])), "distinct column names"),
    "too few groups": (SGPBAE(), (X, Y, [1, 2]), "one label per row; got 2"),
    "NaN among groups": (SGPBAE(), (X, Y, np.full(14, np.nan)), "must not hold NaN"),
    "Bernoulli of reals": (SGPBAE(likelihood=Bernoulli()), (X, Y), "0, 1 or NaN"),
    "group larger than batch": (GPBAE(batch_size=5), (X, Y), "must cover whole groups; got 5 for a group of 14"),
    "conv on a table": (BAE(decoder="conv"), (X, Y), "Conv needs y of shape"),
    "identity": (GPBAE(decoder="identity", latent_dim=2), (X, Y), "one latent per column"),
    "labels in a deep model": (DSGPBAE(kernel=Embed(RBF(), 1, 3, 2)), (LABELLED, Y), "warps numeric inputs"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_table_gets_a_sentence(mistake):
    model, data, sentence = MISTAKES[mistake]
    with pytest.raises(InputError, match=sentence) as caught:
        model.fit(*data)
    assert "\n" not in str(caught.value)


COUNTS = ("num_chains", "num_warmup", "num_samples", "thinning", "sampler_steps", "encoder_steps", "num_map_steps",
          "batch_size", "latent_dim", "num_inducing", "num_layers", "num_propagations", "seed")  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", [True, -1, 2.5, "3"])
def test_counts_are_whole_numbers(name, value):
    with pytest.raises(InputError, match=f"{name} must be a whole number of at least"):
        DSGPBAE().set_params(**{name: value}).fit(X, Y)


WORDS = {
    "likelihood": "poison", "encoder": "resnet", "decoder": "resnet", "weight_prior": "flat", "latents": "eternal",
    "inducing_prior": "grid", "kernel": "rbf", "step_size": "small", "friction": 1.5, "temperature": 0.0,
    "latent_noise": 0.0,
}  # fmt: skip


@pytest.mark.parametrize("name", WORDS)
def test_unknown_words_are_named(name):
    with pytest.raises(InputError, match=f"{name}.*got {WORDS[name]!r}"):
        SGPBAE().set_params(**{name: WORDS[name]}).fit(X, Y)
    if isinstance(WORDS[name], str) and name != "inducing_prior":
        with pytest.raises(InputError, match=name):
            SGPBAE().set_params(**{name: None}).fit(X, Y)


def test_a_fitted_model_checks_new_rows(fitted):
    with pytest.raises(InputError, match="must have 1 columns as in fit; got 2"):
        fitted.predict(LABELLED)
    with pytest.raises(InputError, match=r"rows of shape \(3,\) as in fit"):
        fitted.impute(X, Y[:, :2])
    with pytest.raises(InputError, match="same number of rows"):
        fitted.impute(X[:4], Y)
    with pytest.raises(InputError, match="same number of rows"):
        fitted.score(X[:4], Y)
    with pytest.raises(InputError, match="needs inputs"):
        fitted.score(None, Y)
    with pytest.raises(InputError, match="only NaN"):
        fitted.score(X, np.full_like(Y, np.nan))
    with pytest.raises(InputError, match=r"one per latent|list of 2"):
        plain(kernel=[RBF(), RBF(), RBF()]).fit(X, Y)
