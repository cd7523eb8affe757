"""What bears on intervals of hidden cells beside the cells: which columns were expected to fall short, and what a
model can be told to do."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpbae import networks
from gpbae.tabular import choice, tables, transforms


@dataclasses.dataclass(frozen=True)
class Circumstances:
    """Of a model and its table."""

    may_have_paths: bool = False
    """Whether columns have no paths of their own, and could have them."""
    zeros: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Columns with so many zeros that intervals are known to hold fewer of their cells, and the share of zeros."""


PLAIN = Circumstances()


def of_fitted(model: Any) -> Circumstances:
    may = _may_have_paths(model, model.num_outputs_, model.frame_size_)
    values = model.scaler_.inverse(np.asarray(model.table_.y, np.float64))
    values = np.where(np.asarray(model.table_.mask), values, np.nan)
    return Circumstances(may, transforms.many_zeros(model.scaler_.transforms, values, model.frame_.names()))


def of_wish(estimator: Any, y: Any) -> Circumstances:
    """Of what is to be fitted to a table; a baseline has none."""
    if not hasattr(estimator, "_may_have_paths"):
        return PLAIN
    seen = tables.observations(y)
    num_columns = seen.values.shape[1]
    likelihood, _ = choice.choose(estimator.likelihood, seen)
    bent = estimator._transforms(seen, np.array([kind == "real" for kind in likelihood.kinds(num_columns)]))
    zeros = transforms.many_zeros(bent, seen.values, seen.frame.names())
    return Circumstances(_may_have_paths(estimator, len(likelihood.owners(num_columns)), num_columns), zeros)


def _may_have_paths(estimator: Any, num_outputs: int, num_columns: int) -> bool:
    return not isinstance(estimator.decoder, networks.Private) and estimator._may_have_paths(num_outputs, num_columns)
