"""The page of a fitted model: what was fitted, what it found, and whether to believe it.

A section is a value: when it applies, and how it is built.  To add one, write a function and name it in SECTIONS.
"""

import dataclasses
import importlib.metadata
import platform
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gpbae import __version__
from gpbae.answering.advice import Typed
from gpbae.overview import Overview
from gpbae.priors import SparsePrior
from gpbae.report import belief, found
from gpbae.report.page import Section, Table, html
from gpbae.report.subject import Subject, cell, count
from gpbae.tabular import choice
from gpbae.tabular.transforms import Log, Log1p

PACKAGES = ("jax", "jaxlib", "equinox", "numpy", "scipy", "pandas")


@dataclasses.dataclass(frozen=True)
class Part:
    """A section that may apply."""

    build: Callable[[Subject], Section]
    applies: Callable[[Subject], bool] = lambda subject: True


def model_page(
    model: Any, columns: Any = None, evaluation: Sequence[Mapping[str, Any]] = (), unfinished: str = "",
    typed: Typed | None = None, run: str = "RUN",
) -> str:  # fmt: skip
    """The HTML of a fitted model's page; `evaluation` are the rows of a test on hidden cells (evaluation.json),
    `unfinished` says how to go on with one that was stopped, `typed` what it was fitted by, `run` in which folder."""
    view = Overview(model, dates=getattr(columns, "dates", {}))
    subject = Subject(view, columns, evaluation, unfinished, typed, run)
    name, table = type(model).__name__, getattr(columns, "table", "")
    title = f"{name}, fitted to {table}" if table else f"{name}: a fitted model"
    return html(title, _lead(subject), [p.build(subject) for p in SECTIONS if p.applies(subject)])


def _lead(subject: Subject) -> str:
    model, mask = subject.model, subject.view.mask
    cells = "pixel" if subject.view.is_image else "column"
    return (
        f"{type(model).__name__} with {_latents(model)}, fitted to {_on_disk(model)}"
        f"{count(len(mask), 'row')} of {count(mask.shape[1], cells)}, {1 - mask.mean():.1%} of the cells missing, in "
        f"{count(len(model.groups_), 'group')}."
    )


def _latents(model: Any) -> str:
    found = count(model.num_shared_, "latent")
    return found if model.num_shared_ == model.latent_dim_ else f"{found}, and for each column a path of its own"


def _on_disk(model: Any) -> str:
    """Of a table that stays on disk, a model keeps a sample."""
    if model.num_rows_on_disk_ is None:
        return ""
    rows = count(model.num_rows_on_disk_, "row")
    return f"{rows} of a table that stays on disk. This page counts and shows the sample that the model keeps: "


def _fitted(subject: Subject) -> Section:
    model, view = subject.model, subject.view
    kernels = "" if not view.quantities else "; ".join(repr(k) for k in model._given_kernels())
    sampling = f"{count(model.num_chains_, 'chain')} of {count(model._num_draws, 'draw')}, {_seconds(model):.0f} s"
    inputs = [f"{n} ({view.dates[n].words})" if n in view.dates else n for n in view.input_names if view.quantities]
    facts = {"model": type(model).__name__, "inputs": ", ".join(inputs) or "none",
             "outputs": " × ".join(map(str, view.shape)) + (" pixels" if view.is_image else " columns"),
             "latents": _latents(model), "kernel": kernels,
             "inducing inputs": _num_inducing(model), "likelihood": choice.in_words(model.likelihood_choice_),
             "logarithms of": _logged(model),
             "decoder": type(model.model_.decoder).__name__, "sampled": sampling}  # fmt: skip
    return Section("What was fitted", tables=[Table(("what", "choice"), [pair for pair in facts.items() if pair[1]])])


def _num_inducing(model: Any) -> str:
    return str(len(model.model_.prior.inducing_start)) if isinstance(model.model_.prior, SparsePrior) else ""


def _logged(model: Any) -> str:
    """Columns of which logarithms were modelled, by name."""
    how = {Log: "", Log1p: " (log1p: it has zeros)"}
    found = zip(model.frame_.names(), model.scaler_.transforms, strict=False)
    return ", ".join(f"{name}{how[type(t)]}" for name, t in found if type(t) in how)


def _seconds(model: Any) -> float:
    return max((event["seconds"] for event in model.history_), default=0.0)


def _settings(subject: Subject) -> Section:
    model, columns = subject.model, subject.columns
    rows = [(name, str(value)) for name, value in model.get_params().items()]
    if columns is not None:
        image = getattr(columns, "image", None)
        outputs = ", ".join(columns.outputs) if image is None else f"{image.name}, {image} pixels"
        rows = [("inputs", ", ".join(columns.inputs)), ("outputs", outputs),
                ("groups", columns.groups or "none"), *rows]  # fmt: skip
    rows = rows if subject.typed is None else [("command", subject.typed.command), *rows]
    rows.append(("step size found", cell(float(np.mean(model.step_size_)))))
    versions = [("gpbae", __version__), ("python", platform.python_version())]
    versions += [(name, importlib.metadata.version(name)) for name in PACKAGES]
    tables = [
        Table(("setting", "value"), rows, "Every setting.", folded=True),
        Table(("package", "version"), versions, "Made with"),
    ]
    return Section("Configuration and versions", tables=tables)


SECTIONS = (
    Part(belief.lights),
    Part(_fitted),
    Part(found.data),
    Part(found.images, lambda s: s.view.is_image),
    Part(found.imputation, lambda s: not s.view.is_map),
    Part(found.latents, lambda s: not s.view.is_map),
    Part(found.maps, lambda s: s.view.is_map),
    Part(found.warp, lambda s: s.view.is_deep),
    Part(found.hyperparameters, lambda s: bool(s.view.hyperparameters) or s.view.inducing is not None),
    Part(belief.calibration, lambda s: len(s.view.pit) > 0),
    Part(belief.scores, lambda s: bool(s.tests or s.unfinished)),
    Part(belief.traces),
    Part(_settings),
)
