"""The systems that the paper compares with, behind the same surface as its own models."""

from gpbae.baselines.autoencoders import CVAE, GPVAE, SGPVAE, SVGPVAE, VAE, DeepSVIGP
from gpbae.baselines.autoregression import GPAR
from gpbae.baselines.banded import Banded, BandedGPVAE
from gpbae.baselines.base import Baseline
from gpbae.baselines.latents import Exact, FreeSparse, Independent, Sparse
from gpbae.baselines.product import GPPVAE, LowRank
from gpbae.baselines.regression import IGP, Regression
from gpbae.baselines.variational import Condition, VariationalAutoencoder

ESTIMATORS = (VAE, CVAE, GPPVAE, GPVAE, BandedGPVAE, SGPVAE, SVGPVAE, DeepSVIGP, IGP, GPAR)

__all__ = [
    "CVAE",
    "ESTIMATORS",
    "GPAR",
    "GPPVAE",
    "GPVAE",
    "IGP",
    "SGPVAE",
    "SVGPVAE",
    "VAE",
    "Banded",
    "BandedGPVAE",
    "Baseline",
    "Condition",
    "DeepSVIGP",
    "Exact",
    "FreeSparse",
    "Independent",
    "LowRank",
    "Regression",
    "Sparse",
    "VariationalAutoencoder",
]
