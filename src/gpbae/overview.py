"""A fitted model as its reader meets it: names, a choice of rows, and what the draws say of them, as plain arrays."""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from gpbae import networks
from gpbae.answering import wording
from gpbae.errors import InputError
from gpbae.kernels import label_columns
from gpbae.priors import NormalPrior
from gpbae.scoring import metrics
from gpbae.tabular import tables
from gpbae.tabular.transforms import Identity, Log, Log1p, YeoJohnson

LEVEL = 0.9
MOST_ROWS, MOST_SERIES, MOST_CELLS = 400, 4, 12
MOST_LABELLED, MOST_LABELS = 6, 8
MOST_GENERATED = 6
MOST_WARPED = 200
MOST_NUMBERS = 8_000_000
FEWEST_DRAWS, MOST_DRAWS = 40, 200
NUM_BINS = 60


MODELLED_AS = {
    Log: " (its logarithm is modelled)",
    Log1p: " (its log1p is modelled)",
    YeoJohnson: " (its Yeo–Johnson transform is modelled)",
}


@dataclass(frozen=True)
class Series:
    """Rows of one group (and label), in the order of the axis they are drawn against."""

    label: str
    rows: Int[np.ndarray, " n"]
    total: int


@dataclass(frozen=True)
class Bands:
    """Mean and central interval, rows × things."""

    mean: Float[np.ndarray, "n K"]
    low: Float[np.ndarray, "n K"]
    high: Float[np.ndarray, "n K"]


class Gap(NamedTuple):
    """A stretch of one series along the axis in which a drawn cell is missing."""

    series: int
    cell: int
    low: float
    high: float


@dataclass(frozen=True)
class Overview:
    """What pages and pictures draw; rows and cells are chosen so that a page stays small and quick to make."""

    model: Any
    group: Any = None
    """Label of the one series to show; None takes a few."""
    columns: tuple[Any, ...] | None = None
    """Names or numbers of the columns to show; None takes a few."""
    dates: Mapping[str, Any] = field(default_factory=dict)
    """For inputs that were dates, what makes dates of their numbers: `.dates(numbers)` and `.text(number)`; and says in
    which `.unit_name` and `.zone` they are."""

    # The table.

    @functools.cached_property
    def x(self) -> Float[np.ndarray, "N D"]:
        """Inputs in the user's units."""
        return np.asarray(self.model.table_.x) + self.model.x_location_

    @functools.cached_property
    def mask(self) -> Bool[np.ndarray, "N P"]:
        return np.asarray(self.model.table_.mask)

    def observed(self, rows: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n P"]:
        """Cells in the user's units, NaN where missing."""
        cells = self.model.scaler_.inverse(np.asarray(self.model.table_.y, np.float64)[rows])
        return np.where(self.mask[rows], cells, np.nan)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.model.frame_.event_shape

    @property
    def is_image(self) -> bool:
        return networks.is_image(self.shape)

    @functools.cached_property
    def cell_names(self) -> list[str]:
        columns = self.model.frame_.columns
        if columns is not None:
            return [str(name) for name in columns]
        if len(self.shape) == 1:
            return [f"column {i}" for i in range(self.shape[0])]
        return [f"pixel {', '.join(map(str, place))}" for place in np.ndindex(*self.shape)]

    @functools.cached_property
    def input_names(self) -> list[str]:
        named = self.model.x_columns_
        return (
            [str(n) for n in named]
            if named
            else [f"x{i}" if self.x.shape[1] > 1 else "x" for i in range(self.x.shape[1])]
        )

    @functools.cached_property
    def kinds(self) -> np.ndarray:
        """What each column holds: real numbers, counts, truths, classes."""
        return np.array(self.model.model_.likelihood.kinds(self.mask.shape[1]))

    # What is drawn against what.

    @functools.cached_property
    def quantities(self) -> list[int]:
        """Columns of x that are quantities: not labels, and none where the model takes no inputs."""
        if isinstance(self.model.model_.prior, NormalPrior):
            return []
        labels = {c for k in self.model._given_kernels() for c in label_columns(k, self.x.shape[1])}
        return [i for i in range(self.x.shape[1]) if i not in labels]

    @property
    def is_map(self) -> bool:
        """Two inputs that are places: drawn as a plane."""
        return len(self.quantities) == 2

    @functools.cached_property
    def _axis(self) -> int | None:
        """The input with most values; None where there is none."""
        return max(self.quantities, key=lambda i: len(np.unique(self.x[:, i])), default=None)

    @functools.cached_property
    def along(self) -> Float[np.ndarray, " N"]:
        """Where each row lies on the axis: its input, or its number."""
        return np.arange(len(self.x), dtype=float) if self._axis is None else self.x[:, self._axis]

    @property
    def along_name(self) -> str:
        return "row" if self._axis is None else self.input_names[self._axis]

    @property
    def order(self) -> str:
        """What rows are sorted by."""
        return f"groups and {self.along_name}" if self.model.grouped_ else self.along_name

    @property
    def along_title(self) -> str:
        """The name of the axis, and the zone of its dates."""
        reader = self.dates.get(self.along_name)
        return self.along_name + (f" ({reader.zone.strip()})" if reader is not None and reader.zone else "")

    def dated(self, places: Float[np.ndarray, " n"]) -> list[str] | None:
        """Places on the axis as dates that browsers read alike wherever they are; None where it is no axis of dates."""
        reader = self.dates.get(self.along_name)
        return None if reader is None else [f"{time:%Y-%m-%dT%H:%M:%SZ}" for time in reader.dates(places)]

    def place_text(self, place: float) -> str:
        """A place on the axis, as a reader would write it."""
        reader = self.dates.get(self.along_name)
        return f"{self.along_name} {place:g}" if reader is None else reader.text(place)

    @functools.cached_property
    def _keys(self) -> tuple[np.ndarray, np.ndarray]:
        """Groups, with the labels among the inputs: the distinct ones, and which of them every row has."""
        labels = [c for c in range(self.x.shape[1]) if c not in self.quantities] if self.quantities else []
        keys = np.column_stack([np.asarray(self.model.table_.group), *(self.x[:, c] for c in labels)])
        return np.unique(keys, axis=0, return_inverse=True)

    @property
    def num_series(self) -> int:
        return 1 if self.is_map else len(self._keys[0])

    @functools.cached_property
    def series(self) -> list[Series]:
        """A few groups; of a long one the stretch with most gaps."""
        if self.is_map:
            return [Series("all", _spread(np.arange(len(self.x)), self._most_rows), len(self.x))]
        present, codes = self._keys
        chosen = _spread(self._wanted(present[:, 0]), MOST_SERIES)
        most = min(MOST_ROWS, self._most_rows // len(chosen))
        return [self._series(present[i], np.flatnonzero(codes.ravel() == i), most) for i in chosen]

    def _wanted(self, groups: np.ndarray) -> np.ndarray:
        if self.group is None:
            return np.arange(len(groups))
        found = np.flatnonzero(groups == tables.find_labels(np.array([self.group]), self.model.groups_)[0])
        if not len(found):
            some = ", ".join(str(label) for label in self.model.groups_[:5])
            raise InputError(f"group must be a label of the fit, such as {some}; got {self.group!r}.")
        return found

    def _series(self, key: np.ndarray, rows: np.ndarray, most: int) -> Series:
        ordered = rows[np.argsort(self.along[rows], kind="stable")]
        label = f"{self.model.groups_[int(key[0])]}" if self.model.grouped_ else "all rows"
        label += "".join(f", label {value:g}" for value in key[1:])
        return Series(label, _with_most_gaps(ordered, self.mask, most), len(rows))

    @property
    def _most_rows(self) -> int:
        most = MOST_NUMBERS // (FEWEST_DRAWS * self.mask.shape[1])
        return int(np.clip(most, 4 * MOST_SERIES, MOST_ROWS * MOST_SERIES))

    @functools.cached_property
    def rows(self) -> Int[np.ndarray, " n"]:
        """All rows that are drawn, series after series."""
        return np.concatenate([s.rows for s in self.series])

    @functools.cached_property
    def cells(self) -> Int[np.ndarray, " K"]:
        """Columns that are drawn: all of a narrow table but classes, which have no scale, the ones with most gaps of a
        wide one, a few pixels."""
        if self.columns is not None:
            return np.array([self._number(name) for name in self.columns])
        if self.is_image:
            height, width = self.shape[:2]
            places = [(r, c) for r in (height // 4, 3 * height // 4) for c in (width // 4, 3 * width // 4)]
            return np.array([np.ravel_multi_index((*p, *(0,) * (len(self.shape) - 2)), self.shape) for p in places])
        gaps = (~self.mask).sum(axis=0) - len(self.mask) * ~self.mask.any(axis=0)
        drawn = np.flatnonzero((self.kinds != "class") | (self.kinds == "class").all())
        return np.sort(drawn[np.argsort(-gaps[drawn], kind="stable")[:MOST_CELLS]])

    @functools.cached_property
    def gaps(self) -> list[Gap]:
        """Where drawn cells are missing; a stretch ends halfway to the rows that have the cell.  Maps have none."""
        found: list[Gap] = []
        if self.is_map:
            return found
        for number, series in enumerate(self.series):
            missing = ~self.mask[np.ix_(series.rows, self.cells)]
            found += [Gap(number, *stretch) for stretch in _stretches(self.along[series.rows], missing)]
        return found

    @property
    def widest(self) -> int:
        """The drawn cell with the widest gap in the series that is shown first; the first where there is none."""
        width = np.zeros(len(self.cells))
        for gap in self.gaps:
            if gap.series == 0 and self.mask[:, self.cells[gap.cell]].any():
                width[gap.cell] = max(width[gap.cell], gap.high - gap.low)
        return int(np.argmax(width)) if len(width) else 0

    def _number(self, column: Any) -> int:
        if str(column) in self.cell_names:
            return self.cell_names.index(str(column))
        if not isinstance(column, int | np.integer) or not 0 <= column < self.mask.shape[1]:
            some = ", ".join(self.cell_names[:5])
            raise InputError(f"columns must be names, such as {some}, or numbers from 0; got {column!r}.")
        return int(column)

    def measure(self, cell: int) -> str:
        """What is drawn of a column, and what was modelled in its place."""
        name = self.cell_names[cell]
        if self.kinds[cell] == "truth":
            return f"{name}: probability of yes"
        transforms = self.model.scaler_.transforms
        return name + (MODELLED_AS.get(type(transforms[cell]), "") if transforms else "")

    @functools.cached_property
    def labelled(self) -> list[int]:
        """Columns of labels that are drawn."""
        return [int(c) for c in np.flatnonzero(self.kinds == "class")[:MOST_LABELLED]]

    # What the draws say.

    @functools.cached_property
    def _recalled(self):
        wanted = MOST_NUMBERS // max(1, len(self.rows) * self.mask.shape[1])
        return self.model.recall(self.rows, int(np.clip(wanted, FEWEST_DRAWS, MOST_DRAWS)))

    def fans(self, level: float = LEVEL) -> Bands:
        """Predictive mean (the median where a transform was modelled) and interval of the drawn rows and cells,
        observation noise included; of yes and no the probability of yes and its interval, for a cell itself is anything
        from 0 to 1."""
        cells, _ = self._recalled
        draws = cells.samples.reshape(len(cells.samples), len(self.rows), -1)[:, :, self.cells]
        is_truth = self.kinds[self.cells] == "truth"
        draws[:, :, is_truth] = cells.chances(self.cells[is_truth])
        mean = np.asarray(cells.unwarned_mean, float).reshape(len(self.rows), -1)
        if transforms := self.model.scaler_.transforms:
            mean = np.where([isinstance(t, Identity) for t in transforms], mean, cells.point_values)
        return _bands(draws, level, mean[:, self.cells])

    def label_chances(self, cell: int) -> tuple[list[str], Float[np.ndarray, "n K"], Int[np.ndarray, " n"]]:
        """Of a column of labels and the drawn rows: the labels, the probability of each, and which one was observed, -1
        where none was.  All but the commonest few labels are taken together."""
        cells, _ = self._recalled
        columns = self.model.frame_.columns
        found = cells.probabilities(cell if columns is None else columns[cell])
        names = [str(name) for name in getattr(found, "columns", range(found.shape[1]))]
        chances, codes = np.asarray(found, float), self.observed(self.rows)[:, cell]
        seen = np.where(np.isnan(codes), -1, codes).astype(int)
        if len(names) <= MOST_LABELS:
            return names, chances, seen
        kept = np.sort(np.argsort(-chances.mean(axis=0))[: MOST_LABELS - 1])
        place = np.full(len(names) + 1, MOST_LABELS - 1)
        place[kept], place[-1] = np.arange(len(kept)), -1
        others = 1 - chances[:, kept].sum(axis=1, keepdims=True)
        return [*(names[i] for i in kept), "all others"], np.hstack([chances[:, kept], others]), place[seen]

    def latents(self, level: float = LEVEL) -> Bands:
        _, latents = self._recalled
        return _bands(latents.samples, level, np.asarray(latents.mean, float))

    @property
    def num_draws(self) -> int:
        """Draws that the drawn rows are answered by."""
        return len(self._recalled[0].samples)

    @functools.cached_property
    def pit(self) -> Float[np.ndarray, " cells"]:
        """Of every observed cell among the drawn rows, its place among the predictive draws: uniform if calibrated.

        These cells were seen by the fit, so this shows gross faults only.  Labels have no order, so nothing below them.
        """
        cells, _ = self._recalled
        seen = self.mask[self.rows] & (self.kinds != "class")
        truth = self.observed(self.rows)[seen]
        return metrics.pit(cells.samples.reshape(len(cells.samples), *seen.shape)[:, seen], truth)

    @functools.cached_property
    def images(self) -> dict[str, np.ndarray]:
        """Some rows as images, those with gaps first: what was observed, the mean, the standard deviation."""
        cells, _ = self._recalled
        gaps = (~self.mask[self.rows]).any(axis=1)
        pick = np.sort(np.concatenate([_spread(np.flatnonzero(gaps), 4), _spread(np.flatnonzero(~gaps), 2)]))
        shaped = {"observed": self.observed(self.rows[pick]), "mean": np.asarray(cells.mean)[pick],
                  "sd": np.asarray(cells.sd)[pick]}  # fmt: skip
        return {"along": self.along[self.rows[pick]],
                **{name: a.reshape(len(pick), *self.shape) for name, a in shaped.items()}}  # fmt: skip

    @functools.cached_property
    def between(self) -> tuple[Float[np.ndarray, "n D"], Int[np.ndarray, " n"]]:
        """Inputs halfway between neighbours of one group and label, in the user's units, and the group of each: where
        nothing was observed; none where the model takes no inputs."""
        first, second = _spread(self._neighbours(), MOST_GENERATED).T
        halfway = self.x[first].copy()
        halfway[:, self.quantities] = 0.5 * (self.x[first] + self.x[second])[:, self.quantities]
        return halfway, np.asarray(self.model.table_.group)[first]

    def _neighbours(self) -> Int[np.ndarray, "n 2"]:
        """Drawn rows at different places: those that follow each other in a series, and on a map the nearest ones."""
        if not self.quantities:
            return np.empty((0, 2), int)
        if self.is_map:
            some = _spread(self.rows, MOST_GENERATED)
            pairs = np.stack([some, [self._nearest(int(row)) for row in some]], axis=1)
        else:
            pairs = np.concatenate([np.stack([s.rows[:-1], s.rows[1:]], axis=1) for s in self.series])
        first, second = self.x[pairs][..., self.quantities].swapaxes(0, 1)
        return pairs[(first != second).any(axis=1)]

    def _nearest(self, row: int) -> int:
        """The row of the same group and label that is nearest, but elsewhere; the row itself where there is none."""
        codes = self._keys[1].ravel()
        places = self.x[:, self.quantities]
        scale = places.std(axis=0)
        distance = np.sum(((places - places[row]) / np.where(scale > 0, scale, 1.0)) ** 2, axis=1)
        others = (codes == codes[row]) & (distance > 0)
        return int(np.argmin(np.where(others, distance, np.inf))) if others.any() else int(row)

    @functools.cached_property
    def generated(self) -> dict[str, np.ndarray]:
        """Images at inputs between the rows, where nothing is known but the place: a draw, the mean, the standard
        deviation."""
        x, group = self.between
        named = self.model.x_columns_
        given = x if named is None else tables.Frame((), named).restore(x)
        found = self.model.predict(given, self.model.groups_[group] if self.model.grouped_ else None)
        along = x[:, self._axis] if len(x) else np.empty(0)
        shaped = {"one draw": found.samples[-1], "mean": np.asarray(found.mean), "sd": np.asarray(found.sd)}
        return {"along": along, **{name: a.reshape(len(x), *self.shape) for name, a in shaped.items()}}

    @functools.cached_property
    def scalars(self) -> dict[str, Float[np.ndarray, "chains draws"]]:
        """By their names in words."""
        return {wording.in_words(name): draws for name, draws in self.model.scalars_(self.dates).items()}

    @functools.cached_property
    def hyperparameters(self) -> dict[str, Float[np.ndarray, "chains draws"]]:
        return {name: draws for name, draws in self.scalars.items() if not name.startswith("output of ")}

    @property
    def is_deep(self) -> bool:
        """Whether hidden layers warp the inputs."""
        return bool(getattr(self.model.model_.prior, "hidden", ()))

    def warp(self, level: float = LEVEL) -> tuple[Float[np.ndarray, "n D"], Bands]:
        """Inputs and what hidden layers make of them: even steps of one input, some rows where there are more."""
        x = np.unique(self.x, axis=0)
        if x.shape[1] == 1:
            x = np.linspace(x[0], x[-1], MOST_WARPED)
        x = x[np.unique(np.linspace(0, len(x) - 1, MOST_WARPED).round().astype(int))]
        found = self.model.warp(x)
        return x, _bands(found.samples, level, np.asarray(found.mean, float))

    @functools.cached_property
    def inducing(self) -> Float[np.ndarray, "draws M D"] | None:
        """Sampled inducing inputs in the user's units; None where there are none, or where they live among vectors or
        behind hidden layers."""
        import jax

        prior = self.model.draws_.shared["prior"]
        if "inducing" not in prior or self.is_deep or self.x.shape[1] != len(self.quantities):
            return None
        flat = self.model._flat_draws(np.arange(self.model._num_draws)).shared["prior"]
        found = np.asarray(jax.vmap(self.model.model_.prior.describe)(flat)["inducing"])
        return found + self.model.x_location_

    @functools.cached_property
    def log_joint(self) -> Float[np.ndarray, "steps chains"]:
        """Along warm-up and sampling."""
        events = [e for e in self.model.history_ if e["phase"] in ("warm-up", "sampling")]
        return np.array([np.atleast_1d(e["log_joint"]) for e in events], float).reshape(len(events), -1)

    def missing_share(self) -> Float[np.ndarray, "bins P"]:
        """Share of missing cells in stretches of rows, in the order of groups and the axis."""
        order = np.lexsort((self.along, np.asarray(self.model.table_.group)))
        stretches = np.array_split(order, min(NUM_BINS, len(order)))
        return np.stack([1 - self.mask[rows].mean(axis=0) for rows in stretches])


def coverages(pit: Float[np.ndarray, " cells"], levels: Float[np.ndarray, " L"]) -> Float[np.ndarray, " L"]:
    """Share of cells inside the central interval of each probability: |PIT − ½| ≤ level / 2."""
    distance = np.sort(np.abs(pit - 0.5))
    return np.searchsorted(distance, levels / 2, side="right") / max(len(pit), 1)


def _bands(draws: np.ndarray, level: float, mean: np.ndarray) -> Bands:
    low, high = np.quantile(draws, [0.5 - level / 2, 0.5 + level / 2], axis=0, method="weibull")
    return Bands(mean, low, high)


def _stretches(places: Float[np.ndarray, " n"], missing: Bool[np.ndarray, "n K"]) -> Iterator[tuple[int, float, float]]:
    """Column, from and to of every stretch of missing cells."""
    edges = np.concatenate([places[:1], (places[1:] + places[:-1]) / 2, places[-1:]])
    for k, column in enumerate(missing.T):
        ends = np.flatnonzero(np.diff(np.concatenate([[False], column, [False]])))
        yield from ((k, float(edges[a]), float(edges[b])) for a, b in ends.reshape(-1, 2))


def _spread(items: np.ndarray, most: int) -> np.ndarray:
    """At most so many of them, evenly."""
    return items if len(items) <= most else items[np.linspace(0, len(items) - 1, most).round().astype(int)]


def _with_most_gaps(rows: np.ndarray, mask: np.ndarray, most: int) -> np.ndarray:
    """The stretch of rows with most missing cells; the first of several."""
    if len(rows) <= most:
        return rows
    gaps = np.concatenate([[0], np.cumsum((~mask[rows]).sum(axis=1))])
    start = int(np.argmax(gaps[most:] - gaps[:-most]))
    return rows[start : start + most]
