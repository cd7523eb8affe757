"""Finding a dataset's files: `$GPBAE_DATA_DIR` first, then the user's cache, then the public source.

Wherever a file comes from, it must have the registered checksum or hold the registered numbers: a table written again
by another program has other bytes and the same contents.
"""

import csv
import hashlib
import os
from pathlib import Path

import numpy as np

from gpbae.data.sources import DATASETS, FILES, Dataset, File
from gpbae.errors import GpbaeError, InputError

__all__ = ["DATASETS", "FILES", "Dataset", "File", "cache_dir", "contents_sha256", "fetch", "find", "locate"]


def locate(key: str) -> Path:
    """Path of the verified file `folder/name`, downloaded first if it is nowhere on this machine."""
    return find(key) or _download(key, FILES[key])


def fetch(name: str) -> tuple[Path, ...]:
    """Verified paths of all files of a dataset: what `gpbae data fetch NAME` does."""
    if name not in DATASETS:
        raise InputError(f"Expected a dataset among {', '.join(DATASETS)}; got {name!r}.")
    return tuple(locate(key) for key in DATASETS[name].files)


def find(key: str) -> Path | None:
    """Path of the file if this machine has it; a wrong file in `$GPBAE_DATA_DIR` is an error, in the cache a miss."""
    root = os.environ.get("GPBAE_DATA_DIR")
    if root and (path := Path(root) / key).is_file():
        return _checked(path, FILES[key])
    cached = cache_dir() / key
    return cached if cached.is_file() and _matches(cached, FILES[key]) else None


def cache_dir() -> Path:
    """Folder of downloaded files, where the operating system keeps such things."""
    import pooch

    return Path(pooch.os_cache("gpbae"))


def contents_sha256(path: Path) -> str:
    """Checksum of the named columns (.csv) or arrays (.npz) of a file, whatever its line ends, types or compression."""
    digest = hashlib.sha256()
    for name, values in _columns(path):
        digest.update(f"{name}{values.shape}".encode())
        digest.update(_canonical(values))
    return digest.hexdigest()


def _columns(path: Path) -> list[tuple[str, np.ndarray]]:
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as stream:
            header, *rows = csv.reader(stream)
        return [(name, _parsed(cells)) for name, cells in zip(header, zip(*rows, strict=True), strict=True)]
    with np.load(path, allow_pickle=False) as arrays:
        return [(name, arrays[name]) for name in sorted(arrays.files)]


def _parsed(cells: tuple[str, ...]) -> np.ndarray:
    """A column as numbers if it has nothing else; Python's `float` rounds correctly, table readers not always."""
    try:
        return np.array([float(cell or "nan") for cell in cells])
    except ValueError:
        return np.array(cells)


def _canonical(values: np.ndarray) -> bytes:
    """Numbers as float64 with one kind of NaN, anything else as text."""
    if values.dtype.kind not in "biuf":
        return "\n".join(values.ravel().astype(str)).encode()
    floats = values.astype("<f8")
    return np.where(np.isnan(floats), np.nan, floats).tobytes()


def _matches(path: Path, file: File) -> bool:
    if _sha256(path) == file.sha256:
        return True
    try:
        return bool(file.contents) and contents_sha256(path) == file.contents
    except Exception:  # whatever a parser says of a damaged file, it is not the one expected
        return False


def _checked(path: Path, file: File) -> Path:
    if _matches(path, file):
        return path
    raise InputError(
        f"Expected {path} with SHA-256 {file.sha256[:12]}… or the same contents, but its contents differ; "
        f"replace it: {file.remedy}"
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _download(key: str, file: File) -> Path:
    target = cache_dir() / key
    if not file.url:
        raise GpbaeError(
            f"{key} is not on this machine and has no direct download: {file.remedy[:-1]}, and put it at {target} "
            f"(or at the same place below $GPBAE_DATA_DIR)."
        )
    source = _retrieve(key, file, target)
    if file.convert is None:
        return source
    return _converted(source, target, file)


def _retrieve(key: str, file: File, target: Path) -> Path:
    """The public file in the cache; pooch keeps it only if its checksum is right."""
    import pooch

    name = Path(file.url).name
    try:
        got = pooch.retrieve(file.url, f"sha256:{file.url_sha256 or file.sha256}", name, target.parent)
    except Exception as error:  # network, disk and checksum failures all end in the same advice
        raise GpbaeError(
            f"Could not download {key} from {file.url} ({type(error).__name__}: {error}); try again, "
            f"or {file.remedy[:-1]}, and put it at {target}."
        ) from error
    return Path(got)


def _converted(source: Path, target: Path, file: File) -> Path:
    """Write the wanted form beside its source and show it only when it is whole and right."""
    assert file.convert is not None
    draft = target.with_name(f"draft-{os.getpid()}-{target.name}")
    try:
        file.convert(source, draft)
        _checked(draft, file)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    source.unlink()
    return target
