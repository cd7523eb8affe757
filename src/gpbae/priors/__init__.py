"""Interchangeable latent priors p(Z | X)."""

from gpbae.priors.base import (
    GUESS_VARIANCE,
    AbstractLatentPrior,
    AbstractLaw,
    Batch,
    Collapsing,
    Marginals,
    Memory,
    Query,
)
from gpbae.priors.deep import DeepPrior
from gpbae.priors.full import FullPrior
from gpbae.priors.hyper import Hyper
from gpbae.priors.normal import NormalPrior
from gpbae.priors.seeded import SeededPrior, seeded
from gpbae.priors.sparse import SparsePrior

__all__ = [
    "GUESS_VARIANCE",
    "AbstractLatentPrior",
    "AbstractLaw",
    "Batch",
    "Collapsing",
    "DeepPrior",
    "FullPrior",
    "Hyper",
    "Marginals",
    "Memory",
    "NormalPrior",
    "Query",
    "SeededPrior",
    "SparsePrior",
    "seeded",
]
