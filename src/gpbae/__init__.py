"""Bayesian autoencoders with Gaussian-process latent priors."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpbae.estimators import BAE, DSGPBAE, GPBAE, SGPBAE
    from gpbae.saving.io import load

__version__ = "0.1.0"
__all__ = ["BAE", "DSGPBAE", "GPBAE", "SGPBAE", "load"]

_HOMES = dict.fromkeys(("BAE", "GPBAE", "SGPBAE", "DSGPBAE"), "estimators") | {"load": "saving.io"}


def __getattr__(name: str) -> Any:
    """Public names are loaded when first used, so that `import gpbae` and `gpbae --help` stay cheap."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"gpbae.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'gpbae' has no attribute {name!r}")
