"""The models that `gpbae fit` knows."""

from enum import StrEnum


class Model(StrEnum):
    """The name of a class, and the word for it."""

    BAE = "bae"
    GPBAE = "gp-bae"
    SGPBAE = "sgp-bae"
    DSGPBAE = "dsgp-bae"
    VAE = "vae"
    CVAE = "cvae"
    GPPVAE = "gppvae"
    GPVAE = "gpvae"
    BandedGPVAE = "gp-vae"
    SGPVAE = "sgp-vae"
    SVGPVAE = "svgp-vae"
    DeepSVIGP = "deep-svigp"
    IGP = "igp"
    GPAR = "gpar"
