"""Covariance functions: frozen pytrees on an unconstrained scale, combined with +, * and wrappers.

    RBF(lengthscale=0.2)                      one lengthscale; a sequence gives one per column, None sets it from data
    Periodic(period=24.0).on(0) * RBF().on(1, 2)
    Embed(Periodic(period=360.0).on(0) * Linear().on(1, 2, 3), column=1, num_labels=400, dim=3)

Leaves whose name starts with `log_`, and learned `vectors`, are sampled; every other array is a constant.
To add a kernel, write `__call__` on two points and a row in tests/density/test_kernels.py; the fast forms are optional.
"""

from gpbae.kernels.base import (
    AbstractCombination,
    AbstractKernel,
    Constant,
    Frozen,
    Product,
    Select,
    Sum,
    diagonal,
    gram,
)
from gpbae.kernels.elementary import Linear, Polynomial, White
from gpbae.kernels.hyperparameters import describe, explain_cholesky_failure, hyper_log_prior, sampled
from gpbae.kernels.labels import Embed, label_columns
from gpbae.kernels.stationary import (
    RBF,
    AbstractStationary,
    Cauchy,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
    median_distance,
    squared_distances,
)

__all__ = [
    "RBF",
    "AbstractCombination",
    "AbstractKernel",
    "AbstractStationary",
    "Cauchy",
    "Constant",
    "Embed",
    "Frozen",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "Periodic",
    "Polynomial",
    "Product",
    "RationalQuadratic",
    "Select",
    "Sum",
    "White",
    "describe",
    "diagonal",
    "explain_cholesky_failure",
    "gram",
    "hyper_log_prior",
    "label_columns",
    "median_distance",
    "sampled",
    "squared_distances",
]
