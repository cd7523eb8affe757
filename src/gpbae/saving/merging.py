"""Independent runs of one model on one table, as the chains of one posterior: machines need not know of each other."""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from gpbae.errors import InputError
from gpbae.sampling import checkpoint
from gpbae.saving import io, runfolder, settings, storage

FREE = ("seed", "num_chains")
"""Arguments in which runs of one posterior may differ; in the seed they must."""
BY_CHAIN = ("draws_", "encoders_", "kinetic_temperature_", "step_size_", "noise_share_")


def merge(folders: Sequence[Any]) -> Any:
    """A fitted model with the chains of all runs, in the order of the folders."""
    paths = [Path(folder) for folder in folders]
    if len(paths) < 2:
        raise InputError(f"merge needs at least two folders of runs; got {len(paths)}.")
    _check_same_data(paths)
    models = [io.load(path) for path in paths]
    for path, model in zip(paths, models, strict=True):
        if not hasattr(model, "draws_"):
            raise InputError(f"{path} holds a {type(model).__name__}, which was optimised: it has no chains to merge.")
    for path, model in zip(paths[1:], models[1:], strict=True):
        _check_same_model(paths[0], models[0], path, model)
    _check_seeds(paths, models)
    return _joined(models)


def _check_same_data(paths: list[Path]) -> None:
    first, *others = (runfolder.read_manifest(path)["fingerprint"] for path in paths)
    for path, found in zip(paths[1:], others, strict=True):
        if found != first:
            raise InputError(
                f"Runs to be merged must have the same data; {paths[0]} has fingerprint {first[:12]}, {path} has "
                f"{found[:12]}. Merge runs of one table only."
            )


def _check_same_model(where: Path, one: Any, path: Path, other: Any) -> None:
    """The same class and arguments, and the same priors: what is chosen from random rows may differ with the seed."""
    arguments = [{k: v for k, v in m.get_params().items() if k not in (*FREE, *settings.NOT_COMPARED)}
                 for m in (one, other)]  # fmt: skip
    if type(one) is not type(other):
        raise InputError(f"Runs to be merged must be of one model; {where} is {type(one).__name__}, {path} is "
                         f"{type(other).__name__}.")  # fmt: skip
    for name, value in arguments[0].items():
        if not _are_same(value, arguments[1][name]):
            raise InputError(
                f"Runs to be merged must have the same configuration; {where} has {name} = {value!r}, {path} has "
                f"{arguments[1][name]!r}."
            )
    if not _are_same(_law(one), _law(other)):
        raise InputError(
            f"{where} and {path} have other priors, for they were chosen from random rows of the table; fit again with "
            "kernel=... and, if sample_inducing is off, the same seed."
        )


def _law(estimator: Any) -> Any:
    """The model but for where its chains began."""
    starts = {"values_start", "hyper_start"}
    starts |= {"inducing_start"} if getattr(estimator, "sample_inducing", False) else set()
    kept = lambda path, a: None if {getattr(k, "name", "") for k in path} & starts else a  # noqa: E731
    return jax.tree_util.tree_map_with_path(kept, eqx.filter(estimator.model_, eqx.is_array))


def _are_same(one: Any, other: Any) -> bool:
    return bool(eqx.tree_equal(one, other, rtol=1e-9, atol=1e-12))


def _check_seeds(paths: list[Path], models: list[Any]) -> None:
    seen: dict[int, Path] = {}
    for path, model in zip(paths, models, strict=True):
        if model.seed in seen:
            raise InputError(
                f"Runs to be merged must be independent; {seen[model.seed]} and {path} both have seed {model.seed}, so "
                "they hold the same draws. Fit one of them with another seed."
            )
        seen[model.seed] = path


def _joined(models: list[Any]) -> Any:
    whole = copy.copy(models[0])
    for name in BY_CHAIN:
        parts = [getattr(m, name) for m in models]
        setattr(whole, name, jax.tree.map(lambda *a: np.concatenate([np.asarray(b) for b in a]), *parts))
    sizes = [m.num_chains_ + len(m.dead_chains_) for m in models]
    offsets = np.cumsum([0, *sizes[:-1]])
    whole.dead_chains_ = np.concatenate([m.dead_chains_ + o for m, o in zip(models, offsets, strict=True)]).astype(int)
    whole.fraction_clamped_ = float(np.average([m.fraction_clamped_ for m in models], weights=sizes))
    whole.num_chains, whole.history_ = int(sum(sizes)), _history([m.history_ for m in models])
    whole.rotations_ = whole._rotations()
    return whole


def _history(histories: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Blocks that all runs have done, as one event of all chains."""
    by_block = [{(e["phase"], e["done"]): e for e in h if "log_joint" in e and "done" in e} for h in histories]
    common = [key for key in by_block[0] if all(key in blocks for blocks in by_block)]
    return [_event([blocks[key] for blocks in by_block]) for key in common]


def _event(events: list[dict[str, Any]]) -> dict[str, Any]:
    merged = dict(events[0])
    for name in checkpoint.TOLD_BY_CHAIN:
        if all(name in e for e in events):
            merged[name] = np.concatenate([np.atleast_1d(e[name]) for e in events])
    merged["seconds"] = max(e["seconds"] for e in events)
    for name in ("acceptance", "latents_acceptance", "encoder_loss"):
        found = [e[name] for e in events if e.get(name) is not None]
        if name in merged:
            merged[name] = float(np.mean(found)) if found else None
    return merged


def write(folders: Sequence[Any], out: Path) -> Any:
    """Merge, and keep the model in a folder of its own, with how the table was read."""
    if out.exists():
        raise InputError(f"{out} exists already; name a new folder.")
    model = merge(folders)
    io.save(model, out)
    columns = runfolder.columns(Path(folders[0]))
    if columns is not None:
        storage.write(out / runfolder.COLUMNS, columns)
    return model
