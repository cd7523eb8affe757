"""Masked likelihoods p(y | η) with η the decoder's outputs, cell by cell.

    Gaussian(noise=0.3), Gaussian(per_column=True), StudentT(), HeteroscedasticGaussian()      real numbers
    Bernoulli(), Categorical()                                                                  classes
    Poisson(), NegativeBinomial(exposure="rows")                                                counts
    Mixed({"age": StudentT(), "sex": Categorical()}, default="auto")                            one for each column

Leaves whose name starts with `log_` are sampled where they are learned; every other array is a constant.
To add one, write the abstract methods of `base.AbstractLikelihood` and a row in tests/density/test_likelihoods.py.
"""

from gpbae.likelihoods.base import AbstractLikelihood, Kind, hyper_log_prior
from gpbae.likelihoods.classes import Bernoulli, Categorical
from gpbae.likelihoods.continuous import Gaussian, HeteroscedasticGaussian, StudentT
from gpbae.likelihoods.counts import NegativeBinomial, Poisson
from gpbae.likelihoods.mixed import Blocks, Mixed, join, part_of

WORDS = {
    "gaussian": Gaussian,
    "student-t": StudentT,
    "heteroscedastic": HeteroscedasticGaussian,
    "bernoulli": Bernoulli,
    "categorical": Categorical,
    "poisson": Poisson,
    "negative-binomial": NegativeBinomial,
}

__all__ = [
    "WORDS",
    "AbstractLikelihood",
    "Bernoulli",
    "Blocks",
    "Categorical",
    "Gaussian",
    "HeteroscedasticGaussian",
    "Kind",
    "Mixed",
    "NegativeBinomial",
    "Poisson",
    "StudentT",
    "hyper_log_prior",
    "join",
    "part_of",
]
