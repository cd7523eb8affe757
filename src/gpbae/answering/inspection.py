"""How well a fitted model was sampled: function-space quantities, kinetic temperatures, one frame for all draws."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gpbae import networks
from gpbae.answering import advice, diagnostics, posterior
from gpbae.answering.fitted import Fitted, merge
from gpbae.autoencoder import Position, encode
from gpbae.likelihoods import Blocks
from gpbae.priors import NormalPrior, SparsePrior

NUM_REFERENCE_ROWS = 300
FEWEST_ROWS = 100
"""Of a table of which it is asked what inputs alone say."""
MOST_COMPONENTS = 8
MOST_INPUTS = 3
NUM_FACTORISED = 8
"""Draws per chain whose covariances are factorised again, to see how much jitter they take."""


class Inspection(Fitted):
    """diagnostics and to_arviz, then the numbers behind them."""

    kinetic_temperature_: Position
    fraction_clamped_: float
    dead_chains_: np.ndarray
    temperature: float
    num_warmup: int
    num_samples: int
    thinning: int
    batch_size: int | None
    step_size_: np.ndarray

    def diagnostics(self, dates: Mapping[str, Any] | None = None):
        """DataFrame of R-hat, ESS (function space) and kinetic temperatures; `.attrs["warnings"]` says it in words, and
        `.attrs["warnings with commands"]` to those who type commands.

        `dates` are, by name, inputs that were dates: what has a `unit_name` and makes `text` of a number.
        """
        self._fitted()
        frame = diagnostics.table(self.scalars_(dates), self.kinetic_temperatures_())
        facts = {"temperature": self.temperature, "fraction_clamped": self.fraction_clamped_, "dead": self.dead_chains_,
                 "num_chains": self.num_chains_, "acceptance": self._acceptance(),
                 "latents_acceptance": self._acceptance("latents_acceptance"),
                 "unseen": self._unseen(), "of_images": self._of_images(), "jitter": self._jitter(),
                 "because": self._why_dead(),
                 "by_inputs": self._by_inputs(), "now": self._now()}  # fmt: skip
        frame.attrs["warnings"] = diagnostics.warnings(frame, facts)
        frame.attrs["warnings with commands"] = diagnostics.warnings(frame, facts, advice.COMMANDS)
        return frame

    def _now(self) -> dict[str, Any]:
        """What was fitted with, as `advice` takes it."""
        return {"num_warmup": self.num_warmup, "thinning": self.thinning, "num_samples": self.num_samples,
                "num_draws": self.num_chains_ * self._num_draws, "batch_size": self.batch_size or len(self.table_.mask),
                "step_size": float(np.min(self.step_size_)), "num_inducing": getattr(self, "num_inducing", 0),
                "latent_noise": getattr(self, "latent_noise", 0.0)}  # fmt: skip

    def _unseen(self) -> list[str]:
        """Columns without an observed cell."""
        empty = np.flatnonzero(~np.asarray(self.table_.mask).any(axis=0))
        names = self.frame_.columns
        return [f"{i}" if names is None else str(names[i]) for i in empty]

    def _of_images(self) -> bool:
        return len(self.frame_.event_shape) > 1

    def _jitter(self) -> np.ndarray:
        """Of some draws, the level of jitter that their covariances take; 0 is the usual one."""
        draws = self.draws_._replace(values=None, local=None)
        if isinstance(self.model_.prior, NormalPrior) or not jax.tree.leaves(draws):
            return np.zeros(1, int)
        chosen = np.unique(np.linspace(0, self._num_draws - 1, NUM_FACTORISED).round().astype(int))
        draws = merge(jax.tree.map(lambda a: np.asarray(a)[:, chosen], draws))
        return np.asarray(posterior.jitter_levels(self.model_, draws, self.table_))

    def _by_inputs(self) -> float:
        """How much of what latents say of the fitted rows their inputs say already, a share, under the last draw of
        each chain; all of it where that is not asked."""
        prior, num_rows = self.model_.prior, len(self.table_.x)
        if not isinstance(prior, SparsePrior) or self.plan_.amortised or num_rows < FEWEST_ROWS:
            return 1.0
        rows = np.unique(np.linspace(0, num_rows - 1, NUM_REFERENCE_ROWS).round().astype(int))
        last = self._flat_draws(np.array([self._num_draws - 1]))
        found = posterior.explained_by_inputs(self.model_, last, self.table_, jnp.asarray(rows))
        return float(np.mean(found))

    def _why_dead(self) -> dict[int, str]:
        """What was not finite, by chain."""
        events = [event for event in self.history_ if event["phase"] == "dead"]
        return {chain: event["because"] for event in events for chain in event["chains"]}

    def _acceptance(self, of: str = "acceptance") -> float | None:
        """Mean acceptance of the trajectories that refresh hyper-parameters, or of the moves of latents that are kept
        on disk; None where there are none."""
        found = [a for event in self.history_ if (a := event.get(of)) is not None]
        return float(np.mean(found)) if found else None

    def to_arviz(self):
        """Function-space draws as an ArviZ DataTree (chain, draw); a tree takes a slash in a column's name for a path,
        so it is replaced by the sign ∕."""
        from arviz_base import from_dict

        return from_dict({"posterior": {name.replace("/", "∕"): draws for name, draws in self.scalars_().items()}})

    def scalars_(self, dates: Mapping[str, Any] | None = None) -> dict[str, np.ndarray]:
        """Function-space quantities by name, each (chain, draw): predictive means, hyper-parameters, noise."""
        dates = dates or {}
        chosen = np.arange(self._num_draws)
        draws = self._flat_draws(chosen)
        shape = (self.num_chains_, self._num_draws)
        named = {}
        sampled = draws.shared["prior"]
        described = jax.vmap(self.model_.prior.describe)(sampled) if jax.tree.leaves(sampled) else {}
        for name, value in described.items():
            if "inducing" in name or np.ptp(np.asarray(value), axis=0).max(initial=0.0) == 0:
                continue
            along = name.endswith((".lengthscale", ".period"))
            units = [f" ({dates[n].unit_name})" if n in dates else "" for n in (self.x_columns_ or []) if along]
            labels = self.x_columns_ if along else None
            named |= _components(self._owned(name), np.asarray(value).reshape(*shape, -1), labels, units)
        for name, labels, leaf in _noises(draws.shared["likelihood"].natural(), self.frame_.names()):
            named |= _components(name, np.asarray(leaf).reshape(*shape, -1), labels)
        return {**named, **self._predictive_scalars(draws, shape, dates)}

    def _owned(self, name: str) -> str:
        """`latent5.RBF.variance` of the path of a single column is `path of CO.RBF.variance`."""
        latent, dot, rest = name.partition(".")
        number = int(latent.removeprefix("latent")) if latent.removeprefix("latent").isdigit() else 0
        if number < self.num_shared_:
            return name
        return f"path of {self.frame_.names()[number - self.num_shared_]}{dot}{rest}"

    def _predictive_scalars(self, draws, shape, dates) -> dict[str, np.ndarray]:
        """Predictive means of a few training cells."""
        if self.plan_.amortised:
            return {}
        num_rows = self.table_.x.shape[0]
        rows = np.unique(np.linspace(0, num_rows - 1, min(num_rows, 8)).astype(int))
        _, eta = posterior.decode_training(self.model_, draws, self.table_, jnp.asarray(rows))
        num_outputs = eta.shape[-1]
        columns = np.unique(np.linspace(0, num_outputs - 1, min(num_outputs, 4)).astype(int))
        picked = np.asarray(eta[:, :, columns], np.float64).reshape(*shape, len(rows), len(columns))
        cells = itertools.product(enumerate(rows.tolist()), enumerate(columns.tolist()))
        return {self._cell_name(row, column, dates): picked[:, :, i, j] for (i, row), (j, column) in cells}

    def _cell_name(self, row: int, output: int, dates: Mapping[str, Any]) -> str:
        """`output[3,0]` of arrays; of a data frame `output[zinc, row 3, time=0.5]`, rows counted from 0."""
        if self.frame_.columns is None:
            return f"output[{row},{output}]"
        owners = self.model_.likelihood.owners(self.frame_size_)
        name = self.frame_.names()[owners[output]]
        if np.sum(owners == owners[output]) > 1:
            name += f":{self._label(int(owners[output]), int(np.sum(owners[:output] == owners[output])))}"
        where = [f"row {row}", *([f"group {self.groups_[int(self.table_.group[row])]}"] if self.grouped_ else [])]
        place = np.asarray(self.table_.x[row]) + self.x_location_
        where += [f"{n}={dates[n].text(v) if n in dates else f'{v:.6g}'}"
                  for n, v in zip((self.x_columns_ or [])[:MOST_INPUTS], place, strict=False)]  # fmt: skip
        return f"output[{', '.join([name, *where])}]"

    def _label(self, column: int, code: int) -> str:
        """In the words of the table, where it had words."""
        labels = () if self.frame_.codings is None else self.frame_.codings[column].labels
        return str(labels[code]) if code < len(labels) else str(code)

    def kinetic_temperatures_(self) -> dict[str, tuple[float, float]]:
        """Kinetic temperature of each block of variables over the sampling phase, and its Monte-Carlo error."""
        shared, values, local = self.kinetic_temperature_
        hyper = {k: v for k, v in shared["prior"].items() if k in ("kernel", "log_latent_noise")}
        hidden = [{k: v for k, v in h["hyper"].items() if k != "inducing"} for h in shared["prior"].get("hidden", ())]
        inducing_leaves = [
            shared["prior"].get("inducing"),
            *(h["hyper"].get("inducing") for h in shared["prior"].get("hidden", ())),
        ]
        blocks = {
            "decoder": shared["decoder"],
            "GP values": (
                values,
                shared["prior"].get("values"),
                [h["values"] for h in shared["prior"].get("hidden", ())],
            ),
            "inducing inputs": inducing_leaves,
            "hyper-parameters": (hyper, hidden),
            "observation noise": shared["likelihood"],
            "latents": local,
        }
        sizes = self._leaf_sizes()
        return {name: _weighted(tree, sizes) for name, tree in blocks.items() if jax.tree.leaves(tree)}

    def _leaf_sizes(self) -> dict[int, int]:
        """Coordinates behind each temperature: big leaves weigh more."""
        position = Position(self.draws_.shared, self.draws_.values, self.kinetic_temperature_.local)
        pairs = zip(jax.tree.leaves(self.kinetic_temperature_), jax.tree.leaves(position), strict=True)
        return {id(t): int(np.prod(np.shape(p)[2:])) for t, p in pairs}

    def _rotations(self) -> np.ndarray:
        """For every draw the orthogonal map that turns its latents into the frame of the last draw (Procrustes); the
        path of a single column has no company to be turned with, only a sign."""
        C, S, shared = self.latent_dim_, self._num_draws, self.num_shared_
        eye = np.broadcast_to(np.eye(C), (self.num_chains_, S, C, C)).copy()
        if isinstance(self.model_.decoder, networks.IdentityDecoder):
            return eye
        z = self._reference_latents()
        target = z[0, -1]
        for c in range(self.num_chains_):
            for s in range(S):
                product = z[c, s].T @ target
                u, _, vt = np.linalg.svd(product[:shared, :shared])
                eye[c, s] = np.diag(np.where(np.diag(product) < 0, -1.0, 1.0))
                eye[c, s, :shared, :shared] = u @ vt
        return eye

    def _reference_latents(self) -> np.ndarray:
        """(chain, draw, rows, C): sampled latents of some rows, or the encoder's where none are kept."""
        num_rows = self.table_.x.shape[0]
        rows = np.unique(np.linspace(0, num_rows - 1, min(num_rows, NUM_REFERENCE_ROWS)).astype(int))
        if not self.plan_.amortised:
            z = np.asarray(posterior.training_latents(self.model_, merge(self.draws_), self.table_, jnp.asarray(rows)))
            return z.reshape(self.num_chains_, self._num_draws, *z.shape[1:])
        encoders = eqx.combine(jax.tree.map(jnp.asarray, self.encoders_), self.encoder_static_)
        seen = self.model_.presented(self.table_)
        once = jax.vmap(lambda e: encode(e, seen.y[rows], seen.mask[rows], self._key("frame")))(encoders)
        return np.broadcast_to(np.asarray(once)[:, None], (self.num_chains_, self._num_draws, *once.shape[1:]))


def _components(
    name: str, draws: np.ndarray, labels: Sequence[str] | None, units: Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """The first components of a vector, (chain, draw, n), by label if there is one for each, else by number; with
    their units if there is one for each."""
    num = draws.shape[2]
    units = units if len(units) == num else [""] * num
    if num == 1:
        return {name + units[0]: draws[:, :, 0]}
    labels = labels if labels is not None and len(labels) == num else [str(i) for i in range(num)]
    return {f"{name}[{labels[i]}]{units[i]}": draws[:, :, i] for i in range(min(num, MOST_COMPONENTS))}


def _noises(likelihood: Any, names: list[str]) -> Iterator[tuple[str, list[str], Any]]:
    """Sampled leaves: `noise` of log_noise, the columns it has a component for, and its draws.

    In a table of several likelihoods a leaf that a block shares, or has for its one column, is named after them.
    """
    if not isinstance(likelihood, Blocks):
        yield from ((_leaf_name(path), names, leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(likelihood))
        return
    for member, columns in zip(likelihood.members, likelihood.columns, strict=True):
        mine = [names[i] for i in columns]
        few = ", ".join([*mine[:MOST_INPUTS], *(["…"] if len(mine) > MOST_INPUTS else [])])
        for path, leaf in jax.tree_util.tree_leaves_with_path(member):
            is_vector = leaf.ndim > 1 and leaf.shape[1] > 1
            yield _leaf_name(path) + ("" if is_vector else f"[{few}]"), mine, leaf


def _leaf_name(path) -> str:
    return " ".join(str(getattr(key, "name", getattr(key, "idx", ""))) for key in path).replace("log_", "")


def _weighted(tree, sizes) -> tuple[float, float]:
    """Average over leaves by size, and the standard error from the spread over (chain, draw) blocks."""
    leaves = jax.tree.leaves(tree)
    weights_ = np.maximum([sizes[id(t)] for t in leaves], 1)
    series = np.average(np.stack([np.asarray(t) for t in leaves]), axis=0, weights=weights_)
    return float(series.mean()), float(series.std() / np.sqrt(max(series.size - 1, 1)))
