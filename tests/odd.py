"""Odd tables by Hypothesis, and what every question must do with them: answer with finite numbers, or refuse in a
sentence.  Shapes come from a short list, because every new one is compiled."""

import dataclasses
import functools
import signal
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from gpbae import BAE, GPBAE, SGPBAE
from gpbae.errors import GpbaeError

QUICK = dict(latent_dim=1, decoder="linear", encoder="linear", num_warmup=2, num_samples=2, thinning=1, sampler_steps=2,
             encoder_steps=1, num_map_steps=2, num_chains=1, progress=False)  # fmt: skip
MODELS = {"BAE": (BAE, {}), "GPBAE": (GPBAE, {}), "SGPBAE": (SGPBAE, dict(num_inducing=4))}
PATIENCE = 300
"""Seconds for one case, compilation on a busy machine included."""


@dataclasses.dataclass(frozen=True)
class World:
    """Sizes of the tables, so that M = 4 inducing inputs are more than some of them have rows."""

    model: str
    num_rows: int = 6
    num_columns: int = 2
    num_inputs: int = 1
    has_groups: bool = False


WORLDS = (World("SGPBAE", has_groups=True), World("SGPBAE", num_rows=1), World("GPBAE", num_inputs=2), World("BAE"),
          World("BAE", num_rows=1, num_columns=1))  # fmt: skip


# Cells that are odd.


def _exponents():
    return st.integers(-320, 308) | st.sampled_from([-12, -3, 0, 3, 12])


def _scaled(draw, a):
    return a * 10.0 ** np.array(draw(_exponents()), float)


def _scales_apart(draw, a):
    return a * 10.0 ** np.array([draw(_exponents()) for _ in range(a.shape[1])], float)


def _far(draw, a):
    return a + 10.0 ** draw(st.integers(0, 308))


def _constant(draw, a):
    return np.full(a.shape, draw(st.floats(width=64)))


def _constant_column(draw, a):
    return np.where(np.arange(a.shape[1]) == draw(st.integers(0, a.shape[1] - 1)), draw(st.floats(width=64)), a)


def _any_cell(draw, a):
    """A float of any kind in one place: infinities, NaN, minus zero, the largest, the smallest."""
    out = a.copy()
    out.flat[draw(st.integers(0, a.size - 1))] = draw(st.floats(width=64))
    return out


def _gaps(draw, a):
    """Any pattern of missing cells: all, all but one, whole rows, whole columns."""
    known = draw(st.lists(st.booleans(), min_size=a.size, max_size=a.size))
    return np.where(np.reshape(known, a.shape), a, np.nan)


def _one_cell(draw, a):
    place = draw(st.integers(0, a.size - 1))
    return np.where(np.arange(a.size).reshape(a.shape) == place, a, np.nan)


def _equal_rows(draw, a):
    return a[np.array([draw(st.integers(0, len(a) - 1)) for _ in range(len(a))])]


def _other_order(draw, a):
    return a[np.array(draw(st.permutations(range(len(a)))))]


def _whole(draw, a):
    return np.round(a * draw(st.sampled_from([1, 10, 1000])))


SPOILS = (_scaled, _scales_apart, _far, _constant, _constant_column, _any_cell, _gaps, _one_cell, _equal_rows,
          _other_order, _whole)  # fmt: skip


# Containers that are odd.


def _names(draw, a):
    names = st.sampled_from(["a", "b", "", " ", "<script>alert(1)</script>", "é\n", 0, 1.5, ("a", "b"), None])
    return [draw(names) for _ in range(a.shape[1])]


def _nullable(a):
    return pd.DataFrame({i: pd.array([None if c != c else c for c in a[:, i]], "Float64") for i in range(a.shape[1])})


CONTAINERS = {
    "array": lambda draw, a: a,
    "float32": lambda draw, a: a.astype(np.float32),
    "float16": lambda draw, a: a.astype(np.float16),
    "long double": lambda draw, a: a.astype(np.longdouble),
    "integers": lambda draw, a: np.nan_to_num(np.clip(a, -1e9, 1e9)).astype(int),
    "bytes": lambda draw, a: np.nan_to_num(np.clip(a, 0, 255)).astype(np.uint8),
    "truth": lambda draw, a: a > 0,
    "complex": lambda draw, a: a.astype(complex),
    "objects": lambda draw, a: np.where(np.isnan(a), None, a.astype(object)),
    "text": lambda draw, a: a.astype(str),
    "dates": lambda draw, a: np.full(a.shape, np.datetime64("2020-01-01")),
    "masked": lambda draw, a: np.ma.masked_invalid(a),
    "fortran": lambda draw, a: np.asfortranarray(a),
    "list": lambda draw, a: a.tolist(),
    "ragged": lambda draw, a: [row[: 1 + i % 2] for i, row in enumerate(a.tolist())],
    "frame": lambda draw, a: pd.DataFrame(a),
    "named frame": lambda draw, a: pd.DataFrame(a, columns=_names(draw, a)),
    "shuffled frame": lambda draw, a: pd.DataFrame(a).iloc[::-1],
    "nullable frame": lambda draw, a: _nullable(a),
    "frame of text": lambda draw, a: pd.DataFrame(a).astype(str),
    "frame of labels": lambda draw, a: pd.DataFrame(np.where(a > 0, "u", "v")),
    "frame of dates": lambda draw, a: pd.DataFrame(a).assign(t=pd.Timestamp("2020-01-01")),
    "series": lambda draw, a: pd.Series(a[:, 0]),
    "one column": lambda draw, a: a[:, 0],
    "images": lambda draw, a: a[:, :, None],
    "too many columns": lambda draw, a: np.concatenate([a, a], axis=1),
    "no columns": lambda draw, a: a[:, :0],
    "no rows": lambda draw, a: a[:0],
    "empty frame": lambda draw, a: pd.DataFrame(),
    "fewer rows": lambda draw, a: a[1:],
    "a number": lambda draw, a: float(a.flat[0]),
    "a word": lambda draw, a: "table",
    "dictionary": lambda draw, a: {"a": a},
    "nothing": lambda draw, a: None,
}
PLAIN = ("array", "array", "array", "frame")
RESHAPING = {"truth", "frame of labels", "series", "one column", "images", "too many columns"}
"""Tables of another shape or likelihood, which are fitted by BAE alone, the one that compiles fastest."""
GROUPS = {
    "pairs": lambda n: np.arange(n) // 2,
    "each its own": lambda n: [f"g{i}" for i in range(n)],
    "text": lambda n: [f"<b>{i // 2}</b>" for i in range(n)],
    "floats": lambda n: np.arange(n) // 2 * 1.0,
    "huge": lambda n: np.arange(n) // 2 * 1e300,
    "NaN": lambda n: np.where(np.arange(n) == 0, np.nan, 1.0),
    "blank": lambda n: [None, *"a" * (n - 1)],
    "too few": lambda n: np.zeros(n - 1, int),
    "table": lambda n: np.zeros((n, 2)),
    "a word": lambda n: "label",
}


@st.composite
def tables(draw, num_rows: int, num_columns: int, containers):
    """Up to two oddities of the numbers, mostly in a plain container, now and then in an odd one."""
    cells = np.random.default_rng(draw(st.integers(0, 9))).standard_normal((num_rows, num_columns))
    with np.errstate(all="ignore"):
        for spoil in draw(st.lists(st.sampled_from(SPOILS), max_size=2)):
            cells = spoil(draw, cells)
        return CONTAINERS[draw(st.sampled_from(PLAIN) | st.sampled_from(sorted(containers)))](draw, cells)


@st.composite
def rows(draw, world: World, containers):
    """Inputs, table and groups, each of them now and then as it should be."""
    grid, plain, _ = plain_rows(world)
    odd_x, odd_y = (tables(world.num_rows, width, containers) for width in (world.num_inputs, world.num_columns))
    x, y = draw(st.just(grid) | st.just(grid) | odd_x), draw(st.just(plain) | odd_y | odd_y)
    groups = draw(st.sampled_from(sorted(GROUPS))) if world.has_groups and draw(st.booleans()) else None
    return x, y, None if groups is None else GROUPS[groups](world.num_rows)


@st.composite
def cases(draw, worlds: tuple[World, ...]):
    """A world, what to ask, and the odd rows: one time in three they are fitted too, else a plain table was."""
    world = draw(st.sampled_from(worlds))
    is_fitted = draw(st.integers(0, 2)) == 0
    containers = set(CONTAINERS) - (RESHAPING if is_fitted and world.model != "BAE" else set())
    return world, draw(st.sampled_from(sorted(QUESTIONS))), is_fitted, draw(rows(world, containers))


def plain_rows(world: World):
    """A table as it should be."""
    y = np.random.default_rng(0).standard_normal((world.num_rows, world.num_columns))
    x = np.linspace(0.0, 1.0, world.num_rows)[:, None] * np.ones((1, world.num_inputs))
    return x, y, GROUPS["pairs"](world.num_rows) if world.has_groups else None


def unfitted(world: World):
    cls, arguments = MODELS[world.model]
    return cls(**QUICK | arguments)


@functools.cache
def plainly_fitted(world: World):
    return unfitted(world).fit(*plain_rows(world))


# Questions, each giving the numbers that must be finite.


def _moments(answer):
    """Classes have no mean: what is asked for is a value that the cell could hold."""
    real = np.broadcast_to(answer.kinds != "class", answer.point_values.shape)
    yield "point", answer.point_values
    for name in ("mean", "sd"):
        yield name, np.asarray(getattr(answer, name), float).reshape(real.shape)[real]
    for end in answer.interval(0.9):
        yield "interval", np.asarray(end, float).reshape(real.shape)[real]


def _predict(model, x, y, groups):
    yield from _moments(model.predict(x, groups))


def _impute(model, x, y, groups):
    answer = model.impute(x, y, groups)
    yield from _moments(answer)
    filled = pd.DataFrame(np.asarray(answer.filled, object).reshape(len(answer.filled), -1))
    yield "filled", np.where(filled.isna(), np.nan, 0.0)


def _encode(model, x, y, groups):
    answer = model.encode(x, y, groups)
    yield "latents", np.asarray(answer.mean, float)
    yield "their spread", np.asarray(answer.sd, float)


def _evaluate(model, x, y, groups):
    """SMSE of a column is undefined where the hidden cells are all alike, intervals of classes always."""
    table = model.evaluate(x, y, groups, holdout=0.5)
    yield "scores", table[["mae", "rmse"]].to_numpy(float)


def _score(model, x, y, groups):
    yield "score", np.asarray(model.score(x, y, groups))


QUESTIONS = {"predict": _predict, "impute": _impute, "encode": _encode, "evaluate": _evaluate, "score": _score}


class TooLong(BaseException):
    """A case that hangs; no Exception, so that nothing on the way mistakes it for one."""


def outcome(case) -> str:
    """Answered, refused, or what went wrong."""
    world, question, is_fitted, table = case
    step = "fit"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = unfitted(world).fit(*table) if is_fitted else plainly_fitted(world)
            step = question
            for name, values in QUESTIONS[question](model, *table):
                if not np.isfinite(values).all():
                    return f"{question}: {name} is not finite"
    except GpbaeError as error:
        is_sentence = str(error).rstrip("'\"").endswith((".", "?", ":")) and len(str(error)) < 600
        return f"refused by {step}" if is_sentence else f"{step}: no sentence: {error}"
    except Exception as error:
        return f"{step}: {type(error).__name__}: {str(error)[:200]}"
    return f"answered by {question}"


def tried(case, counts: Counter) -> str:
    """The outcome, counted, with an alarm around it."""

    def ring(*_: Any):
        raise TooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(PATIENCE)
    try:
        found = outcome(case)
    except TooLong:
        found = "hangs"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    counts[found] += 1
    return found


def is_good(found: str) -> bool:
    return found.startswith(("answered by", "refused by"))
