"""Runs experiments: every model with every seed, each kept as soon as it is done, then the table, figures and page."""

import contextlib
import dataclasses
import hashlib
import io
import json
import shutil
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpbae.answering import diagnostics
from gpbae.experiments.experiment import Experiment, Run, Sampled, Scores
from gpbae.saving import storage

NUM_KEPT_TRACES = 8

Say = Callable[[str], None]
Pair = tuple[Experiment, str, int]


def reproduce(
    experiments: Sequence[Experiment], models: Sequence[str] | None, budget: str, seeds: int, out: Path,
    progress: Any = True, say: Say = lambda text: None,
) -> list[Run]:  # fmt: skip
    """Run what is not done yet, then draw; models None are all that the budget has.

    Each pair of model and seed is kept once it is scored, and a fit in its middle, so that a second call goes on.
    """
    pairs: list[Pair] = [(experiment, name, seed) for experiment in experiments
                         for name in (experiment.names(budget) if models is None else models)
                         for seed in range(seeds)]  # fmt: skip
    storage.make_folder(out / "runs")
    with _locked(out):
        runs: list[Run] = []
        for number, (experiment, name, seed) in enumerate(pairs, 1):
            place = f"[{number}/{len(pairs)}] {experiment.name}, {name}, seed {seed}"
            found = _done(out, experiment, name, budget, seed)
            say(f"{place}: {'done before.' if found else 'fitting …'}")
            if found is None:
                found = run(experiment, name, budget, seed, progress, _unfinished(out, experiment, name, budget, seed))
                _keep(out, experiment, found)
                say(f"{place}: {_headline(experiment, found)} in {found.seconds:.0f} s.")
            runs.append(found)
            _write_json(out / "results.json", [run.row() for run in runs])
        _draw(out, experiments, budget, runs, say)
    return runs


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    lock = storage.Lock(folder)
    try:
        yield
    finally:
        lock.release()


# One pair.


def run(
    experiment: Experiment, name: str, budget: str, seed: int, progress: Any = False, run_dir: Path | None = None
) -> Run:
    """Fit and score one model with one seed; what is fitted is kept in `run_dir` until it is scored."""
    begun = time.monotonic()
    setting = experiment.models[name].settings[budget]
    problem = experiment.load(setting.options, seed)
    model = setting.make(seed, progress, **problem.arguments)
    model.fit(problem.x, problem.y, groups=problem.groups, run_dir=run_dir)
    fitted = time.monotonic()
    scores = experiment.score(model, problem, setting.options)
    temperatures = model.kinetic_temperatures_() if isinstance(model, Sampled) else {}
    warned = problem.notes
    if isinstance(model, Sampled):
        warned = (*warned, *model.diagnostics().attrs["warnings"])
    health = _health(scores, temperatures)
    kept = {name: float(value) for name, value in {**scores.metrics, **health}.items() if np.isfinite(value)}
    arrays = _arrays(scores, model)
    earlier = max(0.0, max(e["seconds"] for e in model.history_) - (fitted - begun))  # of a fit that was interrupted
    seconds = round(time.monotonic() - begun + earlier, 1)
    return Run(experiment.name, name, seed, kept, seconds, setting.described(),
               {block: list(found) for block, found in temperatures.items()}, warned, arrays)  # fmt: skip


def _health(scores: Scores, temperatures) -> dict[str, float]:
    found = np.empty(0) if scores.chains is None else r_hat(scores.chains)
    median = {"r_hat_median": float(np.median(found))} if len(found) else {}
    return median | {f"kinetic_temperature.{block}": value for block, (value, _) in temperatures.items()}


def r_hat(chains: np.ndarray) -> np.ndarray:
    """Split R-hat of every cell of (chain, draw, cell) for which it is defined."""
    found = np.array([diagnostics.convergence(chains[..., i])[0] for i in range(chains.shape[2])])
    return found[np.isfinite(found)]


def _arrays(scores: Scores, model: Any) -> dict[str, np.ndarray]:
    """What figures need: the experiment's own arrays, R-hats, traces and the log joint along the run."""
    if scores.chains is None:
        return {name: _small(np.asarray(values)) for name, values in scores.arrays.items()}
    shown = np.unique(np.linspace(0, scores.chains.shape[2] - 1, NUM_KEPT_TRACES).round().astype(int))
    events = [np.atleast_1d(e["log_joint"]) for e in model.history_ if e["phase"] in ("warm-up", "sampling")]
    every = {**scores.arrays, "r_hat": r_hat(scores.chains), "traces": scores.chains[..., shown],
             "log_joint": np.array(events, float)}  # fmt: skip
    return {name: _small(np.asarray(values)) for name, values in every.items()}


def _small(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32) if values.dtype == np.float64 else values


# Files: a pair is done when its JSON file is there, which is written last.


def _stem(out: Path, experiment: Experiment, name: str, seed: int) -> Path:
    return out / "runs" / f"{experiment.name}-{name}-{seed}"


def _unfinished(out: Path, experiment: Experiment, name: str, budget: str, seed: int) -> Path:
    """Where a fit is kept while it runs; other settings have another place."""
    described = json.dumps(experiment.models[name].settings[budget].described(), sort_keys=True)
    stem = _stem(out, experiment, name, seed)
    return stem.with_name(f"{stem.name}.unfinished-{hashlib.sha256(described.encode()).hexdigest()[:8]}")


def _keep(out: Path, experiment: Experiment, done: Run) -> None:
    stem = _stem(out, experiment, done.model, done.seed)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **done.arrays)
    storage.write(stem.with_name(f"{stem.name}.npz"), buffer.getvalue())
    facts = {field.name: getattr(done, field.name) for field in dataclasses.fields(done) if field.name != "arrays"}
    _write_json(stem.with_name(f"{stem.name}.json"), facts)
    for folder in stem.parent.glob(f"{stem.name}.unfinished-*"):
        shutil.rmtree(folder)


def _done(out: Path, experiment: Experiment, name: str, budget: str, seed: int) -> Run | None:
    """A pair that was run before with these very settings."""
    stem = _stem(out, experiment, name, seed)
    try:
        facts = json.loads(stem.with_name(f"{stem.name}.json").read_text(encoding="utf-8"))
        if facts["settings"] != experiment.models[name].settings[budget].described():
            return None
        content = stem.with_name(f"{stem.name}.npz").read_bytes()
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            return Run(**facts, arrays={key: stored[key] for key in stored.files})
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):  # absent, damaged or of another version
        return None


def _write_json(path: Path, content: Any) -> None:
    storage.write(path, (json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n").encode())


def _headline(experiment: Experiment, done: Run) -> str:
    shown = [m for m in experiment.metrics if m.name in done.metrics]
    return ", ".join(f"{m.title} {done.metrics[m.name]:.{m.digits}f}" for m in shown)


# Figures and the page.


def _draw(out: Path, experiments: Sequence[Experiment], budget: str, runs: Sequence[Run], say: Say) -> None:
    from gpbae.experiments import page, summary

    say("Drawing …")
    storage.make_folder(out / "figures")
    pictures: dict[str, dict[str, Path]] = {}
    for experiment in experiments:
        mine = [run for run in runs if run.experiment == experiment.name]
        pictures[experiment.name] = {}
        for plot in experiment.plots:
            figure = plot.draw(mine)
            if figure is not None:
                path = out / "figures" / f"{experiment.name}-{plot.name}.png"
                figure.savefig(path)
                pictures[experiment.name][plot.name] = path
    texts = [summary.across(experiment, runs).markdown for experiment in experiments]
    storage.write(out / "tables.md", ("\n\n".join(texts) + "\n").encode())
    storage.write(out / "report.html", page.text(experiments, budget, runs, pictures).encode())
