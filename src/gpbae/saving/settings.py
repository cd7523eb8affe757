"""What a run was begun with, as files: the model's arguments in TOML, the table in arrays; and are they the same?"""

import hashlib
import tomllib
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gpbae.errors import InputError
from gpbae.sampling.checkpoint import Arrays
from gpbae.saving import io, values
from gpbae.tabular import tables

NOT_COMPARED = ("progress",)
ON_DISK = "rows on disk"


class Writer(values.Writer):
    """Values with their arrays among the words: arguments are few and small."""

    def _array(self, value: Any) -> dict[str, Any]:
        node = super()._array(value)
        if "array" not in node:
            return node
        array = self.arrays.pop(node["array"])
        return node | {"array": array.ravel().tolist(), "shape": list(array.shape)}


class Reader(values.Reader):
    def __init__(self) -> None:
        super().__init__({}, {})

    def _array(self, node):
        dtype = np.dtype(node["dtype"])
        if dtype.kind not in "biufM":
            raise values.Damaged(f"holds an array of {dtype}")
        array = np.array(node["array"], np.int64).view(dtype) if dtype.kind == "M" else np.array(node["array"], dtype)
        array = array.reshape(node["shape"])
        return jnp.asarray(array) if node["kind"] == "jax" else array[()] if node["kind"] == "scalar" else array


# Arguments.


def text(estimator: Any, x: Any, y: Any) -> bytes:
    """Class, arguments and names of columns as TOML."""
    import tomli_w

    frame = tables.observations(y).frame
    arguments = {name: _argument(name, value) for name, value in estimator.get_params().items()}
    config = {"class": type(estimator).__name__, "arguments": arguments, "frame": values.write_frame(frame),
              "inputs": tables.column_names(x)}  # fmt: skip
    return tomli_w.dumps(_without_none(config)).encode()


def _argument(name: str, value: Any) -> Any:
    node = values.write_argument(name, value, Writer())
    if isinstance(node, dict) and "given" in node:  # a network of the user's own: its weights by their checksum
        leaves = [np.asarray(a) for a in jax.tree.leaves(eqx.filter(value, eqx.is_array))]
        return node | {"sha256": _digest(leaves)}
    return node


def _without_none(node: Any) -> Any:
    """TOML has no null."""
    if node is None:
        return {"none": True}
    if isinstance(node, dict):
        return {k: _without_none(v) for k, v in node.items()}
    return [_without_none(v) for v in node] if isinstance(node, list) else node


def _with_none(node: Any) -> Any:
    if node == {"none": True}:
        return None
    if isinstance(node, dict):
        return {k: _with_none(v) for k, v in node.items()}
    return [_with_none(v) for v in node] if isinstance(node, list) else node


def read(content: bytes, file: Path) -> tuple[Any, tables.Frame, list[str] | None]:
    """The model, unfitted, how its table looked, and the names of its inputs."""
    config = _parse(content, file)
    try:
        return _rebuilt(config, file)
    except (KeyError, TypeError, ValueError, AttributeError, values.Damaged) as problem:
        if isinstance(problem, InputError):
            raise
        raise InputError(f"{file} is damaged or from another release ({problem!r}).") from None


def _rebuilt(config: dict[str, Any], file: Path) -> tuple[Any, tables.Frame, list[str] | None]:
    arguments = config["arguments"]
    own = [name for name, node in arguments.items() if isinstance(node, dict) and "given" in node]
    if config["class"] not in io.ESTIMATORS or own:
        what = f"{own[0]} of your own" if own else f"class {config['class']!r} of your own"
        raise InputError(
            f"{file} describes a model with a {what}, whose code is not in the folder: resume it in Python, by "
            "fit(x, y, groups, run_dir=...) with the same arguments."
        )
    given = {name: Reader().read(node) for name, node in arguments.items()}
    return io.ESTIMATORS[config["class"]](**given), values.read_frame(config["frame"]), config["inputs"]


def _parse(content: bytes, file: Path) -> dict[str, Any]:
    try:
        return _with_none(tomllib.loads(content.decode()))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError):
        raise InputError(f"{file} is not TOML: damaged; copy it again.") from None


def check_same(stored: bytes, given: bytes, file: Path) -> None:
    """Refuse arguments other than those a run was begun with, and name the first that differs."""
    old, new = _parse(stored, file), _parse(given, file)
    if absent := [name for name in new if name not in old or (name == "arguments" and not isinstance(old[name], dict))]:
        raise InputError(f"{file} must say {absent[0]}: damaged; copy it again.")
    before, now = (
        {"class": c["class"], **c["arguments"], "columns": c["frame"], "inputs": c["inputs"]} for c in (old, new)
    )
    _check_columns(_columns(old["frame"]), _columns(new["frame"]), file.parent)
    for name in [*before, *(n for n in now if n not in before)]:
        if name not in NOT_COMPARED and before.get(name) != now.get(name):
            raise InputError(
                f"{file.parent} was begun with {name} = {_short(before.get(name))}; got {_short(now.get(name))}. "
                "Pass the same arguments, or name a new folder."
            )


def _check_columns(before: list[str], now: list[str], folder: Path) -> None:
    """Name what is missing or new among outputs that have names on both sides."""
    if not before or not now or before == now:
        return
    changes = (("without", [n for n in before if n not in now]), ("with", [n for n in now if n not in before]))
    said = " and ".join(f"{word} {', '.join(names)}" for word, names in changes if names) or "in another order"
    raise InputError(
        f"{folder} was begun with other output columns; got them {said}. Choose the same ones, or name a new folder."
    )


def _columns(frame: Any) -> list[str]:
    """Names of the outputs, where they have some."""
    names = frame.get("columns") if isinstance(frame, dict) else None
    return [str(n) for n in names] if isinstance(names, list) else []


def _short(node: Any) -> str:
    try:
        return repr(Reader().read(node))
    except Exception:  # only for a message: what cannot be read back is shown as it is
        return str(node)[:80]


# The table.


def table(x: Any, y: Any, groups: Any, rows_on_disk: int | None = None) -> Arrays:
    """x, y and groups as arrays; labels as numbers, which may stand for characters or dates.  Of a table that stays on
    disk they are a sample, and its length is kept beside them."""
    seen = tables.observations(y)
    values = np.where(seen.mask, seen.values, np.nan)  # one NaN only
    data = {"y": values.reshape(len(values), *seen.frame.event_shape)}
    if x is not None:
        data["x"] = tables.inputs(x, len(values))
    if groups is not None:
        labels = tables.group_codes(groups, len(values))
        data |= _labels(labels.labels[labels.codes])
    if rows_on_disk is not None:
        data[ON_DISK] = np.array([rows_on_disk])
    return {name: np.ascontiguousarray(a) for name, a in data.items()}


def _labels(rows: np.ndarray) -> Arrays:
    if rows.dtype.kind == "U":
        width = max(rows.dtype.itemsize // 4, 1)
        return {"names": rows.astype(f"<U{width}").view("<u4").reshape(len(rows), width)}
    if rows.dtype.kind == "M":
        return {f"dates {rows.dtype.str}": rows.view(np.int64)}
    if rows.dtype.kind not in "biuf":
        raise InputError(f"groups must be numbers, text or dates to be kept in a folder; got {rows.dtype}.")
    return {"labels": rows}


def given(data: Arrays, frame: tables.Frame, inputs: list[str] | None) -> tuple[Any, Any, Any]:
    """What `table` was made of, to all that a fit can see."""
    y = data["y"] if frame.columns is None else frame.decode(data["y"].reshape(len(data["y"]), -1))
    groups = data.get("labels")
    if "names" in data:
        groups = np.ascontiguousarray(data["names"]).view(f"<U{data['names'].shape[1]}").reshape(-1)
    for name in data:
        groups = data[name].view(name.removeprefix("dates ")) if name.startswith("dates ") else groups
    x = data.get("x")
    return (x if x is None or inputs is None else tables.Frame((), inputs).restore(x)), y, groups


def difference(before: Arrays, now: Arrays) -> str:
    """The first thing in which two tables differ, in words."""
    for name in [*before, *(n for n in now if n not in before)]:
        old, new = before.get(name), now.get(name)
        if old is None or new is None:
            return f"{name} {'is new' if old is None else 'is gone'}"
        if old.shape != new.shape:
            return f"expected {name} of shape {old.shape}, got {new.shape}"
        other = ~np.isclose(old, new, rtol=0, atol=0, equal_nan=old.dtype.kind == "f")
        if np.any(other):
            rows = np.flatnonzero(other.reshape(len(other), -1).any(axis=1))
            return f"{other.sum()} of {other.size} values of {name} are others, the first in row {rows[0] + 1}"
    return "expected the same kinds of numbers"


def fingerprint(data: Arrays) -> str:
    """sha256 of names, types, shapes and bytes."""
    return _digest([part for name in sorted(data) for part in (np.frombuffer(name.encode(), np.uint8), data[name])])


def _digest(arrays: list[np.ndarray]) -> str:
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype.str}{array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()
