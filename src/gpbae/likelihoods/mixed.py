"""A likelihood for each column, under one mask."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Key

from gpbae.likelihoods.base import AbstractLikelihood, Cells, Kind, Mask, Outputs


@dataclasses.dataclass(frozen=True)
class Mixed:
    """Says which likelihood each column gets, by its name or position; the others get `default`.

        Mixed({"age": StudentT(), "sex": "categorical", 3: Poisson()}, default="auto")

    Columns with equal likelihoods share them: Gaussian columns have one noise between them, unless
    Gaussian(per_column=True) is asked for.
    """

    columns: dict[Any, Any]
    default: Any = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", {str(name): value for name, value in self.columns.items()})


class Blocks(AbstractLikelihood):
    """Blocks of columns, each with its own likelihood; outputs stand in the order of the columns."""

    members: tuple[AbstractLikelihood, ...]
    columns: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    def _gather(self, function: Callable[..., Cells], eta: Outputs, *cells: Array) -> Cells:
        """Apply a function of member, outputs and cells to every block, and put the cells back in order."""
        places = self._places(self._owners(), eta.shape[-1])
        parts = [
            function(member, eta[..., place], *(a[..., np.array(columns)] for a in cells))
            for member, columns, place in zip(self.members, self.columns, places, strict=True)
        ]
        order = np.argsort(np.concatenate([np.array(c) for c in self.columns]))
        return jnp.concatenate([part.astype(eta.dtype) for part in parts], axis=-1)[..., order]

    def _owners(self) -> list[np.ndarray]:
        """Of each block, the column that each of its outputs speaks of."""
        return [np.array(c)[m.owners(len(c))] for m, c in zip(self.members, self.columns, strict=True)]

    def _places(self, owners: list[np.ndarray], num_outputs: int) -> list[np.ndarray]:
        """Of each block, where its outputs stand among all."""
        order = np.argsort(np.concatenate(owners), kind="stable")
        assert len(order) == num_outputs, f"expected {len(order)} outputs, got {num_outputs}"
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        return np.split(rank, np.cumsum([len(o) for o in owners])[:-1])

    def owners(self, num_columns: int) -> np.ndarray:
        return np.sort(np.concatenate(self._owners()))

    def kinds(self, num_columns: int) -> tuple[Kind, ...]:
        found = {i: kind for m, c in zip(self.members, self.columns, strict=True)
                 for i, kind in zip(c, m.kinds(len(c)), strict=True)}  # fmt: skip
        return tuple(found[i] for i in range(num_columns))

    def supports(self, values: np.ndarray) -> np.ndarray:
        good = np.ones(values.shape, bool)
        for member, columns in zip(self.members, self.columns, strict=True):
            good[..., np.array(columns)] = member.supports(values[..., np.array(columns)])
        return good

    def check(self, values: np.ndarray, mask: np.ndarray, names: tuple[str, ...]) -> None:
        for member, columns in zip(self.members, self.columns, strict=True):
            index = np.array(columns)
            member.check(values[:, index], mask[:, index], tuple(names[i] for i in columns))

    def initialise(self, values: np.ndarray, mask: np.ndarray) -> "Blocks":
        pairs = zip(self.members, (np.array(c) for c in self.columns), strict=True)
        return Blocks(tuple(m.initialise(values[:, index], mask[:, index]) for m, index in pairs), self.columns)

    def sampled(self) -> "Blocks":
        return Blocks(tuple(member.sampled() for member in self.members), self.columns)

    def natural(self) -> "Blocks":
        return Blocks(tuple(member.natural() for member in self.members), self.columns)

    def log_prob(self, y: Cells, mask: Mask, eta: Outputs) -> Cells:
        return self._gather(lambda member, eta, y, mask: member.log_prob(y, mask, eta), eta, y, mask)

    def mean(self, eta: Outputs) -> Cells:
        return self._gather(lambda member, eta: member.mean(eta), eta)

    def variance(self, eta: Outputs) -> Cells:
        return self._gather(lambda member, eta: member.variance(eta), eta)

    def sample(self, key: Key[Array, ""], eta: Outputs) -> Cells:
        keys = iter(jax.random.split(key, len(self.members)))
        return self._gather(lambda member, eta: member.sample(next(keys), eta), eta)

    def cdf(self, y: Cells, eta: Outputs) -> Cells:
        return self._gather(lambda member, eta, y: member.cdf(y, eta), eta, y)

    def _scatter(self, parts: list[Array], owners: list[np.ndarray]) -> Array:
        """Outputs or features of every block, put in the order of their columns."""
        order = np.argsort(np.concatenate(owners), kind="stable")
        return jnp.concatenate(parts, axis=-1)[..., order]

    def link(self, y: Cells) -> Outputs:
        parts = [m.link(y[..., np.array(c)]) for m, c in zip(self.members, self.columns, strict=True)]
        return self._scatter(parts, self._owners())

    def expose(self, eta: Outputs, y: Cells, mask: Mask) -> Outputs:
        owners = self._owners()
        parts = [
            m.expose(eta[..., place], y[..., np.array(c)], mask[..., np.array(c)])
            for m, c, place in zip(self.members, self.columns, self._places(owners, eta.shape[-1]), strict=True)
        ]
        return self._scatter(parts, owners)

    def features(self, y: Cells, mask: Mask) -> tuple[Outputs, Bool[Array, "*rows H"]]:
        pairs = [m.features(y[..., np.array(c)], mask[..., np.array(c)])
                 for m, c in zip(self.members, self.columns, strict=True)]  # fmt: skip
        owners = [np.repeat(c, values.shape[-1] // len(c)) for c, (values, _) in zip(self.columns, pairs, strict=True)]
        values, known = zip(*pairs, strict=True)
        return self._scatter(list(values), owners), self._scatter(list(known), owners)


def join(members: list[AbstractLikelihood]) -> AbstractLikelihood:
    """One likelihood from one per column: equal ones become a block that shares its parameters."""
    blocks: list[tuple[AbstractLikelihood, list[int]]] = []
    for i, member in enumerate(members):
        block = next((columns for known, columns in blocks if _are_equal(known, member)), None)
        if block is None:
            blocks.append((member, [i]))
        else:
            block.append(i)
    if len(blocks) == 1:
        return blocks[0][0]
    return Blocks(tuple(m for m, _ in blocks), tuple(tuple(c) for _, c in blocks))


def part_of(
    likelihood: AbstractLikelihood, column: int, num_columns: int
) -> tuple[AbstractLikelihood, int, np.ndarray]:
    """Of a column: the likelihood it belongs to, its place among that one's columns, and where its outputs stand."""
    outputs = np.flatnonzero(likelihood.owners(num_columns) == column)
    if not isinstance(likelihood, Blocks):
        return likelihood, column, outputs
    block = next(i for i, columns in enumerate(likelihood.columns) if column in columns)
    return likelihood.members[block], likelihood.columns[block].index(column), outputs


def _are_equal(a: AbstractLikelihood, b: AbstractLikelihood) -> bool:
    return a is b or (type(a) is type(b) and bool(eqx.tree_equal(a, b)))
