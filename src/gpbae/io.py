"""A fitted model as a folder: a manifest in JSON and two files of arrays.  Nothing in it is ever executed.

    manifest.json          what the model is: class, arguments, fitted values by name, checksums of the other files
    draws.safetensors      the draws and the encoders' weights
    arrays.safetensors     every other array: training table, priors, scales

Objects are written as {"type": name, "fields": {...}} and read back by a list of the package's own value types, so
loading runs no code of the file's choosing.  A network of the user's own has no name here: its weights are saved, its
code is passed again, `load(path, decoder=module)`.
"""

import dataclasses
import hashlib
import importlib.metadata
import inspect
import json
import os
import platform
import shutil
import tempfile
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import gpbae
from gpbae import (
    autoencoder,
    baselines,
    batches,
    columns,
    estimators,
    inducing,
    inference,
    kernels,
    likelihoods,
    networks,
    storage,
    tables,
    transforms,
    weights,
)
from gpbae import priors as latent_priors
from gpbae.errors import GpbaeError, InputError

FORMAT, VERSION = "gpbae model", 1
MANIFEST, DRAWS, ARRAYS = storage.MANIFEST, "draws.safetensors", "arrays.safetensors"
FILES = (DRAWS, ARRAYS, MANIFEST)
OWN = (estimators.BAE, estimators.GPBAE, estimators.SGPBAE, estimators.DSGPBAE)
ESTIMATORS = {c.__name__: c for c in (*OWN, *baselines.ESTIMATORS)}
PACKAGES = ("jax", "jaxlib", "equinox", "numpy", "safetensors")
HOMES = (autoencoder, baselines, batches, inducing, inference, kernels, latent_priors, likelihoods, networks, tables,
         transforms, weights)  # fmt: skip
ROLES = ("decoder", "encoder")


def _value_types() -> dict[str, type]:
    """Every dataclass and named tuple of the modules and packages that hold values, by "module.Class"."""
    found = {}
    for home in HOMES:
        for thing in vars(home).values():
            is_value = inspect.isclass(thing) and (dataclasses.is_dataclass(thing) or hasattr(thing, "_fields"))
            if is_value and thing.__module__.startswith(home.__name__):
                found[_name(thing)] = thing
    return found


def _name(cls: type) -> str:
    return _short(f"{cls.__module__.removeprefix('gpbae.')}.{cls.__qualname__}")


def _short(name: str) -> str:
    """Module or package, and class: a file does not say where in a package a type lives, so that it may move."""
    home, _, rest = name.partition(".")
    return f"{home}.{rest.rpartition('.')[2]}"


TYPES = _value_types()
ACTIVATION_NAMES = {function: name for name, function in networks.ACTIVATIONS.items()}


# Values to JSON and back.  Arrays go to a separate dictionary and are referred to by number.


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
        name = _name(type(value))
        if TYPES.get(name) is type(value):
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
            raise _Damaged(f"holds an entry of an unknown kind ({str(node)[:60]})")
        return readers[kind](node)

    def _float(self, node):
        return float(node["float"])

    def _array(self, node):
        if node["array"] not in self.arrays:
            raise _Damaged(f"refers to array {node['array']!r}, which is not there")
        array = self.arrays[node["array"]]
        array = array.view(node["dtype"]) if np.dtype(node["dtype"]).kind == "M" else array
        return jnp.asarray(array) if node["kind"] == "jax" else array[()] if node["kind"] == "scalar" else array

    def _strings(self, node):
        return np.array(node["strings"], dtype=node["dtype"]).reshape(node["shape"])

    def _list(self, node):
        return [self.read(v) for v in node["list"]]

    def _tuple(self, node):
        return tuple(self._list({"list": node["tuple"]}))

    def _dict(self, node):
        return {k: self.read(v) for k, v in node["dict"].items()}

    def _activation(self, node):
        if node["activation"] not in networks.ACTIVATIONS:
            raise _Damaged(f"names an unknown activation {node['activation']!r}")
        return networks.ACTIVATIONS[node["activation"]]

    def _object(self, node):
        cls = TYPES.get(_short(node["type"]))
        if cls is None:
            raise _Damaged(f"names an unknown type {node['type']!r}")
        names = cls._fields if hasattr(cls, "_fields") else [f.name for f in dataclasses.fields(cls)]
        if set(names) != set(node["fields"]):
            raise _Damaged(f"has other fields for {node['type']} than this release")
        fields = {n: self.read(node["fields"][n]) for n in names}
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


class _Damaged(Exception):
    """A file that is not as `save` wrote it; becomes a sentence that names the file."""


# Column labels of a data frame.


def _write_frame(frame: tables.Frame) -> dict[str, Any]:
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


def _read_frame(node: dict[str, Any]) -> tables.Frame:
    shape = tuple(node["event_shape"])
    if node["columns"] is None:
        return tables.Frame(shape)
    import pandas as pd

    labels = [tuple(c) if isinstance(c, list) else c for c in node["columns"]]
    codings = node.get("codings")
    if codings is not None:
        codings = tuple(columns.Coding(holds, dtype, tuple(known), ordered) for holds, dtype, known, ordered in codings)
    return tables.Frame(shape, pd.Index(labels).set_names(node["names"]), None, codings)


# Saving.

IN_DRAWS = ("draws_", "encoders_")
ROLE_OF = {"model_": "decoder", "draws_": "decoder", "kinetic_temperature_": "decoder",
           "encoders_": "encoder", "encoder_static_": "encoder"}  # fmt: skip


def save(model: estimators.BAE | baselines.Baseline, path: Any) -> None:
    """Write a fitted model to a folder, at once or not at all."""
    from safetensors.numpy import save as to_bytes

    model._fitted()
    writers = {DRAWS: Writer(), ARRAYS: Writer()}
    fitted = {}
    for name, value in vars(model).items():
        if name == "frame_":
            fitted[name] = _write_frame(value)
        elif name.endswith("_") and not name.startswith("_"):
            writer = writers[DRAWS if name in IN_DRAWS else ARRAYS]
            writer.role = ROLE_OF.get(name, name.removesuffix("_"))
            fitted[name] = writer.write(value)
    arguments = {name: _write_argument(name, value, writers[ARRAYS]) for name, value in model.get_params().items()}
    files = {name: to_bytes(writer.arrays) for name, writer in writers.items()}
    manifest = {
        "format": FORMAT, "version": VERSION, "class": type(model).__name__,
        "packages": {"gpbae": gpbae.__version__, "python": platform.python_version()}
        | {p: importlib.metadata.version(p) for p in PACKAGES},
        "files": {name: {"size": len(b), "sha256": hashlib.sha256(b).hexdigest()} for name, b in files.items()},
        "arguments": arguments, "fitted": fitted,
    }  # fmt: skip
    files[MANIFEST] = json.dumps(manifest, indent=1, allow_nan=False).encode()
    _write_folder(Path(path), files)


def _write_argument(name: str, value: Any, writer: Writer) -> Any:
    """A constructor's argument; a user's own network is asked for again."""
    writer.role = name
    if name == "progress":
        return bool(value)  # a listener of the user's own is not part of the model
    if name in ROLES and isinstance(value, eqx.Module) and _name(type(value)) not in TYPES:
        return {"given": name}
    return writer.write(value)


def _write_folder(path: Path, files: dict[str, bytes]) -> None:
    """Write beside the target, flush, then rename, so that a reader finds the old model or the new one."""
    if path.is_symlink() or (path.exists() and not _replaceable(path)):
        raise InputError(f"{path} exists and holds something other than a saved model; name a new folder.")
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        for name, content in files.items():
            with open(fresh / name, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        fresh.chmod(0o755)
        storage.sync(fresh)
        if path.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
            os.rename(path, old / path.name)
            os.rename(fresh, path)
            shutil.rmtree(old)
        else:
            os.rename(fresh, path)
        storage.sync(path.parent)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _replaceable(path: Path) -> bool:
    return path.is_dir() and {p.name for p in path.iterdir()} <= {MANIFEST, DRAWS, ARRAYS}


# Loading.


def load(path: Any, **given: Any) -> Any:
    """A model as it was saved: the same answers, bit for bit, on the same machine and versions.

    Networks of your own are passed again by the name of their argument, `load(path, decoder=module)`.
    """
    if unknown := set(given) - set(ROLES):
        raise InputError(f"load takes {' and '.join(ROLES)} beside the path; got {', '.join(sorted(unknown))}.")
    folder = _inside(Path(path))
    manifest = _read_manifest(folder)
    try:
        stored = {name: _read_arrays(folder, name, manifest) for name in (DRAWS, ARRAYS)}
        return _rebuild(manifest, stored, given)
    except _Damaged as problem:
        raise InputError(f"{folder / MANIFEST} {problem}: it is damaged or from another release.") from None
    except (KeyError, TypeError, AttributeError, ValueError) as problem:
        if isinstance(problem, GpbaeError):
            raise
        raise InputError(f"{folder / MANIFEST} is damaged or from another release ({problem!r}).") from None


def _rebuild(manifest: dict[str, Any], stored: dict[str, dict[str, np.ndarray]], given: dict[str, Any]) -> Any:
    cls = ESTIMATORS.get(manifest["class"])
    if cls is None:
        raise _Damaged(f"names an unknown model {manifest['class']!r}")
    readers = {name: Reader(arrays, given, name == DRAWS) for name, arrays in stored.items()}
    model = cls(**{n: _read_argument(v, readers[ARRAYS]) for n, v in manifest["arguments"].items()})
    for name, node in manifest["fitted"].items():
        if not name.endswith("_") or name.startswith("_"):
            raise _Damaged(f"sets {name!r}, which is no fitted attribute")
        reader = readers[DRAWS if name in IN_DRAWS else ARRAYS]
        setattr(model, name, _read_frame(node) if name == "frame_" else reader.read(node))
    return model


def _read_argument(node: Any, reader: Reader) -> Any:
    if isinstance(node, dict) and "given" in node:
        if node["given"] not in reader.given:
            return reader._module({"like": node["given"]})
        return reader.given[node["given"]]
    return reader.read(node)


def _read_manifest(folder: Path) -> dict[str, Any]:
    if folder.is_file():
        raise InputError(f"{folder} must be a folder written by model.save(path); got a file (pickles are never read).")
    if not (folder / MANIFEST).exists():
        raise InputError(f"{folder} must be a folder written by model.save(path); there is no {MANIFEST} in it.")
    manifest = storage.read_manifest(folder)
    if manifest.get("format") != FORMAT:
        raise InputError(f"{folder / MANIFEST} does not describe a gpbae model; pass a folder that model.save wrote.")
    if manifest.get("version") != VERSION:
        raise InputError(
            f"{folder / MANIFEST} has format version {manifest.get('version')!r} and this release reads {VERSION}; "
            'load it with the release that wrote it (see its "packages").'
        )
    if set(manifest.get("files", ())) != {DRAWS, ARRAYS}:
        raise InputError(f"{folder / MANIFEST} must list {DRAWS} and {ARRAYS}; got {list(manifest.get('files', ()))}.")
    return manifest


def _read_arrays(folder: Path, name: str, manifest: dict[str, Any]) -> dict[str, np.ndarray]:
    """Read once, check what was read, and only then look inside."""
    return storage.arrays(storage.read(folder, name, manifest["files"][name]), folder / name)


def _inside(folder: Path) -> Path:
    """Where the model lies: in a folder of fit(run_dir=...), inside it, if the run is over and the model untouched."""
    if not (folder / MANIFEST).is_file():
        return folder
    manifest = storage.read_manifest(folder)
    if manifest.get("format") != "gpbae run":
        return folder
    storage.check_seal(folder, manifest)
    if not manifest.get("finished"):
        raise InputError(f"The run in {folder} is not finished; `gpbae resume {folder}` goes on with it.")
    storage.read(folder, f"model/{MANIFEST}", manifest["files"].get(f"model/{MANIFEST}", {}))
    return folder / "model"
