"""What every latent prior p(Z | X) offers, and the shapes in which rows reach it."""

import abc
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int, Key

Latents = Float[Array, "B C"]

GUESS_VARIANCE = 0.02
"""Of an encoder's errors, where latents have unit variance: how closely a path must follow guesses."""


class Batch(NamedTuple):
    """Rows of a (mini)batch.  `slot` is the row's group among the values at hand, `blocks` the rows of each group
    (positions in the batch, padded with B), `scale` the factor N/B that belongs to global variables."""

    x: Float[Array, "B D"]
    y: Float[Array, "B P"]
    mask: Bool[Array, "B P"]
    valid: Bool[Array, " B"]
    slot: Int[Array, " B"]
    blocks: Int[Array, "G n"]
    scale: Float[Array, ""]


class Query(NamedTuple):
    """Where latents are asked for, arranged by group: `slot` is the fitted group, meaningful where `known`."""

    x: Float[Array, "G q D"]
    slot: Int[Array, " G"]
    known: Bool[Array, " G"]
    valid: Bool[Array, "G q"]


class Memory(NamedTuple):
    """Training latents by group, which an exact GP conditions on."""

    x: Float[Array, "G n D"]
    valid: Bool[Array, "G n"]
    z: Float[Array, "G n C"]


class Marginals(NamedTuple):
    """Latent marginals at a query: an equal mixture of Q normals (Q = 1 but for deep priors)."""

    mean: Float[Array, "Q *rows C"]
    variance: Float[Array, "Q *rows C"]


class AbstractLaw(eqx.Module):
    """The law of a batch's latents at given hyper-parameters: all that need not be computed again when latents and
    values move and hyper-parameters do not.

    Local coordinates are the latents themselves unless the prior whitens them; `latents` and `coordinates` go
    between the two.
    """

    @abc.abstractmethod
    def log_latents(self, values: Any, local: Latents) -> Array:
        """log p of the local coordinates given the values, summed over valid rows."""

    def log_rows(self, values: Any, local: Latents) -> Float[Array, " B"]:
        """The same row by row, where rows are independent given the values."""
        raise NotImplementedError(f"rows of {type(self).__name__} are not independent")

    def spread(self, values: Any) -> tuple[Array, Array]:
        """Mean and standard deviation of the rows' local coordinates given the values, where rows are independent given
        these; numbers, where all are alike."""
        raise NotImplementedError(f"rows of {type(self).__name__} are not independent")

    @abc.abstractmethod
    def latents(self, local: Latents) -> Latents:
        """The latents that local coordinates stand for."""

    @abc.abstractmethod
    def coordinates(self, latents: Latents) -> Latents:
        """Local coordinates near given latents: where a chain starts."""

    @abc.abstractmethod
    def log_collapsed(self, local: Latents, temperature: Array) -> Array:
        """log ∫ (p(Z | v, θ) p(v))^(1/T) dv up to a constant: what Z alone says of the hyper-parameters."""

    @abc.abstractmethod
    def redraw_values(self, key: Key[Array, ""], values: Any, local: Latents, temperature: Array) -> tuple[Any, Array]:
        """An exact draw of v given everything else, and the temperature it shows."""

    @abc.abstractmethod
    def seeds(self, values: Any, local: Latents) -> Latents:
        """Coordinates that are standard normal and independent given the values."""

    @abc.abstractmethod
    def placed(self, values: Any, seeds: Latents) -> tuple[Latents, Array]:
        """The local coordinates that seeds stand for, and the log of the volume of ∂ local / ∂ seeds."""


@runtime_checkable
class Collapsing(Protocol):
    """What a sweep asks of a prior whose values can be integrated out."""

    @property
    def collapses(self) -> bool: ...

    def law(self, hyper: dict[str, Any], batch: Batch) -> AbstractLaw: ...

    def log_hyper(self, hyper: dict[str, Any]) -> dict[str, Array]: ...


class AbstractLatentPrior(eqx.Module):
    """p(Z | X) with sampled hyper-parameters, per-group values v and per-row local coordinates."""

    latent_dim: eqx.AbstractVar[int]

    @property
    @abc.abstractmethod
    def couples_rows(self) -> bool:
        """Whether a group's rows can only be batched together."""

    @abc.abstractmethod
    def init(self, key: Key[Array, ""], num_groups: int) -> tuple[dict[str, Any], Any]:
        """Starting hyper-parameters and values."""

    @abc.abstractmethod
    def log_hyper(self, hyper: dict[str, Any]) -> dict[str, Array]:
        """Named log priors of the hyper-parameters, on the scale on which they are sampled."""

    @abc.abstractmethod
    def log_values(self, values: Any) -> Array:
        """log p(v), summed over the groups given."""

    @abc.abstractmethod
    def law(self, hyper: dict[str, Any], batch: Batch) -> AbstractLaw:
        """The law of the batch's latents at given hyper-parameters."""

    @property
    @abc.abstractmethod
    def collapses(self) -> bool:
        """Whether values can be integrated out given the latents, as `log_collapsed` and `redraw_values` need."""

    @property
    def conjugates(self) -> bool:
        """Whether they can be once auxiliary variables are drawn, as `conjugate` does."""
        return self.collapses

    def conjugate(
        self, key: Key[Array, ""], hyper: dict[str, Any], values: Any, batch: Batch, local: Latents, temperature: Array
    ) -> Collapsing:
        """This prior given auxiliary variables that are drawn from their law given everything else."""
        return self

    @abc.abstractmethod
    def marginals(self, hyper: dict[str, Any], values: Any, memory: Memory | None, query: Query) -> Marginals:
        """Marginal law of z at the query, given one value array per query block."""

    @abc.abstractmethod
    def path(
        self, key: Key[Array, ""], hyper: dict[str, Any], values: Any, memory: Memory | None, query: Query
    ) -> Float[Array, "G q C"]:
        """A joint draw of z along each block of the query."""

    @abc.abstractmethod
    def whitened(
        self, hyper: dict[str, Any], values: Any, memory: Memory | None, query: Query, seed: Float[Array, "G q C"]
    ) -> tuple[Float[Array, "G q C"], Float[Array, " G"]]:
        """z as a function of standardised coordinates, and their log density block by block."""

    @abc.abstractmethod
    def standardised(
        self, hyper: dict[str, Any], memory: Memory | None, query: Query, z: Float[Array, "G q C"]
    ) -> tuple[Any, Float[Array, "G q C"]]:
        """Values and standardised coordinates near given latents at the query: where refinement starts."""

    @abc.abstractmethod
    def covariances(self, hyper: dict[str, Any], batch: Batch) -> tuple[Float[Array, "*batch M M"], ...]:
        """The matrices that are factorised, jitter not added yet."""

    @abc.abstractmethod
    def describe(self, hyper: dict[str, Any]) -> dict[str, Array]:
        """Named hyper-parameters on their natural scale."""
