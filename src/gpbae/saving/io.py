"""A fitted model as a folder: a manifest in JSON and two files of arrays.  Nothing in it is ever executed.

    manifest.json          what the model is: class, arguments, fitted values by name, checksums of the other files
    draws.safetensors      the draws and the encoders' weights
    arrays.safetensors     every other array: training table, priors, scales

The code of a network of the user's own is not saved: it is passed again, `load(path, decoder=module)`.
"""

import importlib.metadata
import os
import platform
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import gpbae
from gpbae import baselines, estimators
from gpbae.errors import GpbaeError, InputError
from gpbae.saving import storage
from gpbae.saving.values import ROLES, Damaged, Reader, Writer, read_argument, read_frame, write_argument, write_frame

FORMAT, VERSION, SEALED_SINCE = "gpbae model", 2, 2
MANIFEST, DRAWS, ARRAYS = storage.MANIFEST, "draws.safetensors", "arrays.safetensors"
FILES = (DRAWS, ARRAYS, MANIFEST)
OWN = (estimators.BAE, estimators.GPBAE, estimators.SGPBAE, estimators.DSGPBAE)
ESTIMATORS = {c.__name__: c for c in (*OWN, *baselines.ESTIMATORS)}
PACKAGES = ("jax", "jaxlib", "equinox", "numpy", "safetensors")


# Saving.

NOT_SAVED = ("snapshots_",)
IN_DRAWS = ("draws_", "encoders_")
ROLE_OF = {"model_": "decoder", "draws_": "decoder", "kinetic_temperature_": "decoder",
           "encoders_": "encoder", "encoder_static_": "encoder"}  # fmt: skip


def save(model: estimators.BAE | baselines.Baseline, path: Any) -> None:
    """Write a fitted model to a folder, at once or not at all."""
    try:
        write(model, Path(path))
    except OSError as problem:
        raise GpbaeError(
            f"Could not write the model to {path}: {problem.strerror or problem}; what was there before is as it was. "
            "Make room, or name another folder."
        ) from problem


def write(model: estimators.BAE | baselines.Baseline, path: Path) -> None:
    """`save`, for those who have a sentence of their own for a failed write."""
    from safetensors.numpy import save as to_bytes

    model._fitted()
    writers = {DRAWS: Writer(), ARRAYS: Writer()}
    fitted = {}
    for name, value in vars(model).items():
        if name == "frame_":
            fitted[name] = write_frame(value)
        elif name.endswith("_") and not name.startswith("_") and name not in NOT_SAVED:
            writer = writers[DRAWS if name in IN_DRAWS else ARRAYS]
            writer.role = ROLE_OF.get(name, name.removesuffix("_"))
            fitted[name] = writer.write(value)
    arguments = {name: write_argument(name, value, writers[ARRAYS]) for name, value in model.get_params().items()}
    files = {name: to_bytes(writer.arrays) for name, writer in writers.items()}
    manifest = {
        "format": FORMAT, "version": VERSION, "class": type(model).__name__,
        "packages": {"gpbae": gpbae.__version__, "python": platform.python_version()}
        | {p: importlib.metadata.version(p) for p in PACKAGES},
        "files": {name: storage.describe(content) for name, content in files.items()},
        "arguments": arguments, "fitted": fitted,
    }  # fmt: skip
    files[MANIFEST] = storage.seal(manifest)
    _write_folder(path, files)


def _write_folder(path: Path, files: dict[str, bytes]) -> None:
    """Write beside the target, flush, then rename: a reader finds a whole model or none.  An old one steps aside for
    the moment between two renames; a crash just then leaves it, whole, in a hidden folder beside."""
    if path.is_symlink() or (path.exists() and not _replaceable(path)):
        raise InputError(f"{path} exists and holds something other than a saved model; name a new folder.")
    storage.make_folder(path.parent)
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
            _replace(path, fresh)
        else:
            os.rename(fresh, path)
        storage.sync(path.parent)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _replace(path: Path, fresh: Path) -> None:
    """The new folder in the old one's place; the old one comes back if that fails."""
    aside = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        os.rename(path, aside / path.name)
        try:
            os.rename(fresh, path)
        except BaseException:
            os.rename(aside / path.name, path)
            raise
        storage.sync(path.parent)
    finally:
        if path.exists():
            shutil.rmtree(aside)


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
    except Damaged as problem:
        raise InputError(f"{folder / MANIFEST} {problem}: it is damaged or from another release.") from None
    except (KeyError, TypeError, AttributeError, ValueError) as problem:
        if isinstance(problem, GpbaeError):
            raise
        raise InputError(f"{folder / MANIFEST} is damaged or from another release ({problem!r}).") from None


def _rebuild(manifest: dict[str, Any], stored: dict[str, dict[str, np.ndarray]], given: dict[str, Any]) -> Any:
    cls = ESTIMATORS.get(manifest["class"])
    if cls is None:
        raise Damaged(f"names an unknown model {manifest['class']!r}")
    readers = {name: Reader(arrays, given, name == DRAWS) for name, arrays in stored.items()}
    model = cls(**{n: read_argument(v, readers[ARRAYS]) for n, v in manifest["arguments"].items()})
    for name, node in manifest["fitted"].items():
        if not name.endswith("_") or name.startswith("_"):
            raise Damaged(f"sets {name!r}, which is no fitted attribute")
        reader = readers[DRAWS if name in IN_DRAWS else ARRAYS]
        setattr(model, name, read_frame(node) if name == "frame_" else reader.read(node))
    return model


def _read_manifest(folder: Path) -> dict[str, Any]:
    if folder.is_file():
        raise InputError(f"{folder} must be a folder written by model.save(path); got a file (pickles are never read).")
    if not (folder / MANIFEST).exists():
        raise InputError(f"{folder} must be a folder written by model.save(path); there is no {MANIFEST} in it.")
    manifest = storage.read_manifest(folder)
    if manifest.get("format") != FORMAT:
        raise InputError(f"{folder / MANIFEST} does not describe a gpbae model; pass a folder that model.save wrote.")
    if manifest.get("version") not in range(1, VERSION + 1):
        raise InputError(
            f"{folder / MANIFEST} has format version {manifest.get('version')!r} and this release reads 1 to "
            f'{VERSION}; load it with the release that wrote it (see its "packages").'
        )
    if manifest["version"] >= SEALED_SINCE:
        storage.check_seal(folder, manifest)
    files = manifest.get("files")
    if not isinstance(files, dict) or set(files) != {DRAWS, ARRAYS}:
        raise InputError(f"{folder / MANIFEST} must list {DRAWS} and {ARRAYS}; got {str(files)[:80]}.")
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
        resume = f"gpbae resume {shlex.quote(str(folder))}"
        raise InputError(f"The run in {folder} is not finished; `{resume}` goes on with it.")
    storage.read(folder, f"model/{MANIFEST}", manifest["files"].get(f"model/{MANIFEST}", {}))
    return folder / "model"
