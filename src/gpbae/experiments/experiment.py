"""An experiment is a value: data, models with their settings, scores, figures, the paper's numbers and our bars."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUICK, FULL, SMOKE = "quick", "full", "smoke"
BUDGETS = (QUICK, FULL, SMOKE)
LEVEL = 0.9


@dataclasses.dataclass(frozen=True)
class Setting:
    """Everything that one model is told but its seed: its class, its arguments, and options of the experiment."""

    estimator: str
    arguments: Mapping[str, Any]
    options: Mapping[str, Any]

    def make(self, seed: int, progress: Any, **more: Any) -> Any:
        """The estimator, unfitted; `more` are arguments that only the data can give, to those who take them."""
        from gpbae import baselines, estimators

        cls = getattr(estimators if hasattr(estimators, self.estimator) else baselines, self.estimator)
        wanted = {name: value for name, value in more.items() if name in inspect.signature(cls).parameters}
        return cls(**{**self.arguments, **wanted, "seed": seed, "progress": progress})

    def described(self) -> dict[str, str]:
        """As text: equal if and only if the settings are."""
        import equinox as eqx

        told = {"estimator": self.estimator, **self.arguments, **self.options}
        return {name: eqx.tree_pformat(value, short_arrays=False) for name, value in told.items()}


@runtime_checkable
class Sampled(Protocol):
    """What only a model with chains can be asked; a model that was optimised has none of it."""

    @property
    def num_chains_(self) -> int: ...

    def kinetic_temperatures_(self) -> Mapping[str, tuple[float, float]]: ...

    def diagnostics(self) -> Any: ...


@dataclasses.dataclass(frozen=True)
class Model:
    """A row of the table: how it is called, what it is told in each budget that has it, and bars of its own."""

    title: str
    settings: Mapping[str, Setting]
    bars: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Metric:
    """A column of the table; from `low` to `high` is what we want to reach."""

    name: str
    title: str
    digits: int = 3
    low: float = -np.inf
    high: float = np.inf


@dataclasses.dataclass(frozen=True)
class Problem:
    """What a model is fitted to, what its answers are held against, and arguments that follow from the data."""

    x: Any
    y: Any
    truth: Any
    groups: Any = None
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Scores:
    """Metrics by name; arrays that figures are drawn from; `chains` are some predictive means, (chain, draw, cell),
    None for a model that was not sampled."""

    metrics: Mapping[str, float]
    arrays: Mapping[str, np.ndarray]
    chains: np.ndarray | None


@dataclasses.dataclass(frozen=True)
class Run:
    """One model with one seed, done: numbers, and what a reader should know before believing them."""

    experiment: str
    model: str
    seed: int
    metrics: Mapping[str, float]
    seconds: float
    settings: Mapping[str, str]
    temperatures: Mapping[str, Sequence[float]]
    warnings: Sequence[str]
    arrays: Mapping[str, np.ndarray]

    def row(self) -> dict[str, Any]:
        """As in every `results.json`."""
        return {"experiment": self.experiment, "model": self.model, "seed": self.seed, "metrics": dict(self.metrics),
                "seconds": self.seconds}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Plot:
    """A figure of the paper; `draw` takes the finished runs and gives None where they do not have what it shows."""

    name: str
    alt: str
    caption: str
    draw: "Callable[[Sequence[Run]], Figure | None]"


@dataclasses.dataclass(frozen=True)
class Experiment:
    """`load(options, seed)` gives the problem, `score(model, problem, options)` the scores of a fitted model.

    `paper` has the published numbers as text, by model and metric; models that we do not run stand there too.
    """

    name: str
    title: str
    about: str
    load: Callable[[Mapping[str, Any], int], Problem]
    score: Callable[[Any, Problem, Mapping[str, Any]], Scores]
    models: Mapping[str, Model]
    metrics: tuple[Metric, ...]
    plots: tuple[Plot, ...]
    paper: Mapping[str, Mapping[str, str]]

    def names(self, budget: str) -> list[str]:
        """The models that this budget has."""
        return [name for name, model in self.models.items() if budget in model.settings]

    def with_fold(self, fold: int) -> "Experiment":
        """The same on inner validation, where settings are chosen: known cells are hidden, test cells stay unseen."""

        def folded(setting: Setting) -> Setting:
            return dataclasses.replace(setting, options={**setting.options, "fold": fold})

        made = {name: dataclasses.replace(model, settings={b: folded(s) for b, s in model.settings.items()})
                for name, model in self.models.items()}  # fmt: skip
        return dataclasses.replace(self, title=f"{self.title} (validation fold {fold})", models=made)

    def bar(self, model: str, metric: Metric) -> tuple[float, float]:
        own = self.models[model].bars if model in self.models else {}
        return own.get(metric.name, (metric.low, metric.high))


def models(
    told: Mapping[str, Mapping[str, Any]],
    budgets: Mapping[str, Mapping[str, Any]],
    exceptions: Mapping[tuple[str, str], Mapping[str, Any]],
    options: Mapping[str, Any],
) -> dict[str, Model]:
    """Models from plain tables: by model, by budget, and by both, each overriding the one before.

    What is named in `options`, with its default, is the experiment's; "estimator", "title", "budgets" and "bars" are
    the row's; all else are arguments of the estimator.
    """
    made = {}
    for name, own in told.items():
        row = {key: own[key] for key in ("estimator", "title", "budgets", "bars") if key in own}
        settings = {}
        for budget in row.get("budgets", BUDGETS):
            flat = {k: v for k, v in own.items() if k not in row}
            flat = {**flat, **budgets[budget], **exceptions.get((name, budget), {})}
            arguments = {k: v for k, v in flat.items() if k not in options}
            chosen = {k: flat.get(k, default) for k, default in options.items()}
            settings[budget] = Setting(row["estimator"], arguments, chosen)
        made[name] = Model(row["title"], settings, row.get("bars", {}))
    return made
