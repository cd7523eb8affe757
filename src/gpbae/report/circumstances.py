"""What bears on intervals of hidden cells beside the cells: what a model can be told to do about them."""

from typing import Any, NamedTuple

from gpbae import networks
from gpbae.tabular import choice, tables


class Circumstances(NamedTuple):
    """Of a model and its table."""

    may_have_paths: bool = False
    """Whether columns have no paths of their own, and could have them."""


PLAIN = Circumstances()


def of_fitted(model: Any) -> Circumstances:
    return Circumstances(_may_have_paths(model, model.num_outputs_, model.frame_size_))


def of_wish(estimator: Any, y: Any) -> Circumstances:
    """Of what is to be fitted to a table; a baseline has none."""
    if not hasattr(estimator, "_may_have_paths"):
        return PLAIN
    seen = tables.observations(y)
    num_columns = seen.values.shape[1]
    likelihood, _ = choice.choose(estimator.likelihood, seen)
    return Circumstances(_may_have_paths(estimator, len(likelihood.owners(num_columns)), num_columns))


def _may_have_paths(estimator: Any, num_outputs: int, num_columns: int) -> bool:
    return not isinstance(estimator.decoder, networks.Private) and estimator._may_have_paths(num_outputs, num_columns)
