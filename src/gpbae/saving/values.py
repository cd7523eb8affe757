"""Values as JSON and back, arrays apart.  Nothing that is read is ever executed.

Objects are written as {"type": name, "fields": {...}} and read back by a list of the package's own value types, so
reading runs no code of a file's choosing.  A network of the user's own has no name here: its weights are written, its
code is given again.
"""

import dataclasses
import inspect
import json
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gpbae import autoencoder, baselines, kernels, likelihoods, networks, weights
from gpbae import priors as latent_priors
from gpbae.errors import InputError
from gpbae.priors import inducing
from gpbae.sampling import batches, inference
from gpbae.tabular import columns, tables, transforms

HOMES = (autoencoder, baselines, batches, inducing, inference, kernels, latent_priors, likelihoods, networks, tables,
         transforms, weights)  # fmt: skip
ROLES = ("decoder", "encoder")
LARGEST_TEXT = 2**28
"""Bytes of an array of words: its type says how wide each is, whatever the words are."""


def _value_types() -> dict[str, type]:
    """Every dataclass and named tuple of the modules and packages that hold values, by "home.Class": a file does not
    say where in the package a home is, nor where in a home a type, so that both may move."""
    found = {}
    for home in HOMES:
        for thing in vars(home).values():
            is_value = inspect.isclass(thing) and (dataclasses.is_dataclass(thing) or hasattr(thing, "_fields"))
            if is_value and thing.__module__.startswith(home.__name__):
                found[f"{home.__name__.rpartition('.')[2]}.{thing.__qualname__}"] = thing
    return found


def _short(name: str) -> str:
    """Older files say where in a home a type was."""
    home, _, rest = name.partition(".")
    return f"{home}.{rest.rpartition('.')[2]}"


TYPES = _value_types()
NAMES = {cls: name for name, cls in TYPES.items()}
SINCE_VERSION_2 = {
    "likelihoods.Gaussian": {"floor": 0.0},
    "likelihoods.Bernoulli": {"offset": None},
    "likelihoods.StudentT": {"per_column": False, "floor": 0.0},
    "priors.DeepPrior": {"hyper_start": None},
    "inference.Plan": {"placed": False, "visits": 1},
    "batches.StreamBatch": {"is_given": False, "unseen": 1.0},
}
"""Fields that came later, with the value that means what was before."""
ACTIVATION_NAMES = {function: name for name, function in networks.ACTIVATIONS.items()}


# Arrays go to a separate dictionary and are referred to by number.


class Writer:
    """Turns values into JSON; what belongs to a user's own module is written as leaves of that role."""

    def __init__(self, role: str = ""):
        self.arrays: dict[str, np.ndarray] = {}
        self.role = role

    def write(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if np.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.ndarray | np.generic | jax.Array):
            return self._array(value)
        if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
            return {type(value).__name__: [self.write(v) for v in value]}
        if isinstance(value, dict) and all(isinstance(k, str) for k in value):
            return {"dict": {k: self.write(v) for k, v in value.items()}}
        if callable(value) and not inspect.isclass(value) and _is_hashable(value) and value in ACTIVATION_NAMES:
            return {"activation": ACTIVATION_NAMES[value]}
        return self._object(value)

    def _array(self, value: Any) -> dict[str, Any]:
        array = np.asarray(value)
        if array.dtype.kind in "UO" and all(isinstance(v, str) for v in array.ravel()):
            return {"strings": array.ravel().tolist(), "shape": list(array.shape), "dtype": array.dtype.str}
        if array.dtype.kind not in "biufM":
            raise InputError(f"A model can be saved when its arrays hold numbers or text; got {array.dtype}.")
        key = str(len(self.arrays))
        kind = "jax" if isinstance(value, jax.Array) else "scalar" if isinstance(value, np.generic) else "numpy"
        self.arrays[key] = np.array(array.view(np.int64) if array.dtype.kind == "M" else array, order="C")
        return {"array": key, "kind": kind, "dtype": array.dtype.str}

    def _object(self, value: Any) -> dict[str, Any]:
        name = NAMES.get(type(value))
        if name is not None:
            names = value._fields if hasattr(value, "_fields") else [f.name for f in dataclasses.fields(value)]
            return {"type": name, "fields": {n: self.write(getattr(value, n)) for n in names}}
        if self.role in ROLES and isinstance(value, eqx.Module):
            return self._module(value)
        what = f"{self.role} of type {type(value).__name__}" if self.role else type(value).__name__
        raise InputError(
            f"A {what} cannot be saved: a saved model holds gpbae's own values and numbers only. "
            "Your own code may be the decoder or the encoder, to be passed to load again."
        )

    def _module(self, value: eqx.Module) -> dict[str, Any]:
        """A user's module: its weights, or a note that this is the part without them."""
        leaves = jax.tree.leaves(eqx.filter(value, eqx.is_inexact_array))
        if leaves:
            return {"like": self.role, "leaves": [self._array(a) for a in leaves]}
        return {"like": self.role, "part": "code" if jax.tree.leaves(value) else "nothing"}


def _is_hashable(value: Any) -> bool:
    return type(value).__hash__ is not None and not isinstance(value, eqx.Module)


class Reader:
    """The inverse of Writer; `given` holds the user's own modules by role, `holds_weights` says whether what is read
    in their place are weights (with axes in front) or one number for each."""

    def __init__(self, arrays: dict[str, np.ndarray], given: dict[str, Any], holds_weights: bool = False):
        self.arrays, self.given, self.holds_weights = arrays, given, holds_weights

    def read(self, node: Any) -> Any:
        if node is None or isinstance(node, bool | int | float | str):
            return node
        readers = {"float": self._float, "array": self._array, "strings": self._strings, "list": self._list,
                   "tuple": self._tuple, "dict": self._dict, "activation": self._activation, "type": self._object,
                   "like": self._module}  # fmt: skip
        kind = next((k for k in readers if k in node), None) if isinstance(node, dict) else None
        if kind is None:
            raise Damaged(f"holds an entry of an unknown kind ({str(node)[:60]})")
        return readers[kind](node)

    def _float(self, node):
        return float(node["float"])

    def _array(self, node):
        if node["array"] not in self.arrays:
            raise Damaged(f"refers to array {node['array']!r}, which is not there")
        array = self.arrays[node["array"]]
        array = array.view(node["dtype"]) if np.dtype(node["dtype"]).kind == "M" else array
        return jnp.asarray(array) if node["kind"] == "jax" else array[()] if node["kind"] == "scalar" else array

    def _strings(self, node):
        dtype, count = np.dtype(node["dtype"]), len(node["strings"])
        if dtype.kind not in "UO" or dtype.itemsize * count > LARGEST_TEXT:
            raise Damaged(f"holds {count} words of {dtype}")
        return np.array(node["strings"], dtype=dtype).reshape(node["shape"])

    def _list(self, node):
        return [self.read(v) for v in node["list"]]

    def _tuple(self, node):
        return tuple(self._list({"list": node["tuple"]}))

    def _dict(self, node):
        return {k: self.read(v) for k, v in node["dict"].items()}

    def _activation(self, node):
        if node["activation"] not in networks.ACTIVATIONS:
            raise Damaged(f"names an unknown activation {node['activation']!r}")
        return networks.ACTIVATIONS[node["activation"]]

    def _object(self, node):
        cls = TYPES.get(_short(node["type"]))
        if cls is None:
            raise Damaged(f"names an unknown type {node['type']!r}")
        names = cls._fields if hasattr(cls, "_fields") else [f.name for f in dataclasses.fields(cls)]
        written = {**SINCE_VERSION_2.get(_short(node["type"]), {}), **node["fields"]}
        if set(names) != set(written):
            raise Damaged(f"has other fields for {node['type']} than this release")
        fields = {n: self.read(written[n]) for n in names}
        if hasattr(cls, "_fields"):
            return cls(**fields)
        value = object.__new__(cls)  # as pytrees are rebuilt: checked and converted when first made, not again
        for name, field in fields.items():
            object.__setattr__(value, name, field)
        return value

    def _module(self, node):
        role = node["like"]
        if role not in self.given:
            raise InputError(
                f"This model has a {role} of your own, whose code is not in the file: pass it again, "
                f"load(path, {role}=module)."
            )
        module_weights, code = eqx.partition(self.given[role], eqx.is_inexact_array)
        if "leaves" not in node:
            return code if node["part"] == "code" else jax.tree.map(lambda _: None, module_weights)
        leaves, treedef = jax.tree.flatten(module_weights)
        saved = [self._array(a) for a in node["leaves"]]
        fits = [s.shape[s.ndim - a.ndim :] == a.shape for s, a in zip(saved, leaves, strict=False)]
        if len(saved) != len(leaves) or (self.holds_weights and not all(fits)):
            raise InputError(f"The {role} passed to load differs in its weights' shapes from the one that was fitted.")
        return jax.tree.unflatten(treedef, saved)


class Damaged(Exception):
    """A file that is not as `save` wrote it; becomes a sentence that names the file."""


# Column labels of a data frame, and arguments of an estimator.


def write_frame(frame: tables.Frame) -> dict[str, Any]:
    if frame.columns is None:
        return {"event_shape": list(frame.event_shape), "columns": None}
    labels = [list(c) if isinstance(c, tuple) else c for c in frame.columns.tolist()]
    try:
        json.dumps(labels)
    except TypeError:
        raise InputError(
            f"A model is saved with columns named by text or numbers; got {labels[0]!r}. Rename the columns of y."
        ) from None
    node = {"event_shape": list(frame.event_shape), "columns": labels, "names": list(frame.columns.names)}
    if frame.codings is None:
        return node
    return node | {"codings": [[c.holds, c.dtype, list(c.labels), c.ordered] for c in frame.codings]}


def read_frame(node: dict[str, Any]) -> tables.Frame:
    shape = tuple(node["event_shape"])
    if node["columns"] is None:
        return tables.Frame(shape)
    import pandas as pd

    labels = [tuple(c) if isinstance(c, list) else c for c in node["columns"]]
    codings = node.get("codings")
    if codings is not None:
        codings = tuple(columns.Coding(holds, dtype, tuple(known), ordered) for holds, dtype, known, ordered in codings)
    return tables.Frame(shape, pd.Index(labels).set_names(node["names"]), None, codings)


def write_argument(name: str, value: Any, writer: Writer) -> Any:
    """A constructor's argument; a user's own network is asked for again."""
    writer.role = name
    if name == "progress":
        return bool(value)  # a listener of the user's own is not part of the model
    if name in ROLES and isinstance(value, eqx.Module) and type(value) not in NAMES:
        return {"given": name}
    return writer.write(value)


def read_argument(node: Any, reader: Reader) -> Any:
    if isinstance(node, dict) and "given" in node:
        if node["given"] not in reader.given:
            return reader._module({"like": node["given"]})
        return reader.given[node["given"]]
    return reader.read(node)
