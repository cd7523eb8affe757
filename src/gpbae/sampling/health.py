"""Is every chain still made of numbers, and if not, which term or variable went first?"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from gpbae.sampling.inference import Chain, Report


def total(terms: dict[str, Array]) -> np.ndarray:
    return np.sum([np.asarray(t) for t in terms.values()], axis=0)


def heat(report: Report) -> np.ndarray:
    """Kinetic temperature by chain: the mean over blocks of variables of what a block of sweeps measured."""
    leaves = [np.asarray(a, float) for a in jax.tree.leaves(report.kinetic_temperature)]
    return np.mean([a.reshape(len(a), -1).mean(axis=1) for a in leaves], axis=0)


def finite_chains(chains: Chain, report: Report, left: np.ndarray | None = None) -> np.ndarray:
    """Chain by chain: the energy along the block, every variable at its end, and all latents that it left behind for
    rows that come again, are numbers."""
    leaves = jax.tree.leaves((chains.sampler.position, chains.values, chains.encoder, left))
    sound = [np.isfinite(np.asarray(a)).reshape(a.shape[0], -1).all(axis=1) for a in leaves]
    return np.isfinite(total(report.terms)) & np.all(sound, axis=0)


def culprits_of(chains: Chain, report: Report, broken: np.ndarray, left: np.ndarray | None = None) -> str:
    """Terms of the log joint and variables that are not finite in broken chains, terms that are infinite first: what
    follows an infinity is NaN."""
    values = {name: np.asarray(term)[broken] for name, term in report.terms.items()}
    bad = {name: term for name, term in values.items() if not np.isfinite(term).all()}
    terms = sorted(bad, key=lambda name: not np.isinf(bad[name]).any())
    position = chains.sampler.position
    named, _ = jax.tree_util.tree_flatten_with_path(position._replace(local=(position.local, left)))
    variables = [_plain(path) for path, a in named if not np.isfinite(np.asarray(a)[broken]).all()]
    parts = [f"the {kind} {', '.join(names[:4])}{' and others' if len(names) > 4 else ''}"
             for kind, names in (("terms", terms), ("variables", list(dict.fromkeys(variables)))) if names]  # fmt: skip
    return " and ".join(parts) or "the encoder's weights"


def _plain(path) -> str:
    names = [str(getattr(k, "key", getattr(k, "name", getattr(k, "idx", "")))) for k in path]
    return "latents" if names[0] == "local" else ".".join(names)


def keep_sound(old: Chain, new: Chain, healthy: np.ndarray) -> Chain:
    """New chains where they are sound, the last good state elsewhere."""
    flags = jnp.asarray(healthy)

    def pick(a, b):
        return jnp.where(flags.reshape(-1, *(1,) * (b.ndim - 1)), b, a)

    return jax.tree.map(pick, old._replace(key=None), new._replace(key=None))._replace(key=new.key)
