"""The four models as scikit-learn style estimators: arguments stored as given, fitted attributes end in `_`."""

import contextlib
import copy
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gpbae import networks
from gpbae.answering import posterior
from gpbae.answering.inspection import Inspection
from gpbae.answering.predictive import Predictive
from gpbae.answering.streams import Streams
from gpbae.contract import Contract
from gpbae.errors import GpbaeError, InputError
from gpbae.kernels import RBF, AbstractKernel, Matern32, label_columns
from gpbae.priors import DeepPrior, FullPrior, Hyper, SparsePrior, inducing, seeded
from gpbae.processes import distributed, progress
from gpbae.sampling import checkpoint, outofcore, run, start, starting, warping
from gpbae.sampling.building import Building, check_count
from gpbae.tabular import codes, tables
from gpbae.tabular.ondisk import OnDisk

ENOUGH_ROWS = 2000
"""To say where fitted rows lie."""


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class BAE(Building, Streams, Inspection, Contract):
    """Bayesian autoencoder with independent N(0, I) latents; x is not needed.

    Parameters
    ----------
    latent_dim : number of latents; None takes as many as principal components explain 90 % of the table (at most 8).
    likelihood : a value of `gpbae.likelihoods`, its word ("gaussian", "student-t", "heteroscedastic", "bernoulli",
        "categorical", "poisson", "negative-binomial") or a dictionary of these by column; "auto" suits each column to
        what it holds, and `likelihood_choice_` says how.
    encoder, decoder : "auto", "mlp", "conv", "linear", "identity", a value of `gpbae.networks`, or an Equinox module;
        `decoder=Private()` leaves every column a path of its own beside the latents that it shares with the others.
    weight_prior : "fan-in", "isotropic", "laplace", "hierarchical" or a value of `gpbae.weights`.
    latents : "persistent" (each row keeps its latents, of a table on disk in a file), "amortised" (born anew each
        sweep) or "auto": persistent while latents of all rows fit in memory, or a table on disk is seen several times.
    num_chains, num_warmup, num_samples, thinning : chains; warm-up sweeps; draws kept per chain; sweeps per draw.
    batch_size : rows per sampler step; None takes all.
    sampler_steps, encoder_steps : K sampler steps per sweep; J encoder steps per sweep (amortised) or draw.
    step_size : "auto" measures the stiffest direction and keeps its discretisation error within 2 %; or a number.
    friction, temperature : of the sampler; anything but temperature 1 is not the posterior.
    standardise : work on standardised columns and centred inputs; undone on the way out.
    transform : "none", "log", "log1p" (of columns with zeros; answers are never below 0), "yeo-johnson" or "auto" (one
        of the logarithms for skewed columns without negative values), or words by column name, where * and ? stand for
        letters: {"NO*": "log"}; answers and densities are in the units of y all the same.
    progress : whether to show it, or a function that is told of every event.
    """

    latent_dim: int | None = None
    likelihood: Any = "auto"
    encoder: Any = "auto"
    decoder: Any = "auto"
    weight_prior: Any = "fan-in"
    latents: str = "auto"
    num_chains: int = 4
    num_warmup: int = 200
    num_samples: int = 100
    thinning: int = 10
    batch_size: int | None = None
    sampler_steps: int = 30
    encoder_steps: int = 50
    step_size: float | str = "auto"
    friction: float = 0.05
    temperature: float = 1.0
    standardise: bool = True
    transform: Any = "none"
    num_map_steps: int = 500
    seed: int = 0
    progress: bool | Callable[[dict[str, Any]], None] = True

    def fit(self, x: Any, y: Any, groups: Any = None, run_dir: Any = None):
        """Sample the posterior given a table y (NaN = missing), its inputs x and optional group labels.

        With `run_dir` the run is kept in that folder as it goes: called again with the same data and arguments, it goes
        on after the last checkpoint, to the same draws as if it had never stopped.  `load(run_dir)` reads the model.

        With y (and x) as `gpbae.tabular.OnDisk` the table stays on disk, however long it is; so do its latents, unless
        the run is too short to come by every row a few times: then they are born anew at every sweep.
        """
        fresh = copy.copy(self)  # a fit that fails must not leave half of itself beside the draws of the last one
        fresh._fit(x, y, groups, run_dir)
        vars(self).update(vars(fresh))
        return self

    def _fit(self, x, y, groups, run_dir) -> None:
        if isinstance(y, OnDisk):
            outofcore.fit(self, x, y, groups, run_dir)
            return
        problem = self._prepare(x, y, groups)
        codes.warn(tables.observations(y), stacklevel=3)
        with self._keeping(run_dir, x, y, groups) as keeper:
            self._sample(*problem, keeper)
            keeper.finish(self)

    def _keeping(self, run_dir, x, y, groups, rows_on_disk=None):
        from gpbae.saving import following, runfolder

        if run_dir is None:
            if distributed.is_on():
                following.check_alike(self, x, y, groups, rows_on_disk)
            return contextlib.nullcontext(checkpoint.Keeper())
        kept = following if distributed.is_on() else runfolder
        return kept.keeping(run_dir, self, x, y, groups, rows_on_disk)

    def _sample(self, model, plan, table, decoder_of, encoder_of, latents, keeper, feed=None, kept=None) -> None:
        chains, static = self._start(model, plan, table, decoder_of, encoder_of, latents)
        shown = self.progress if distributed.number() == 0 else False
        with progress.display(type(self).__name__, shown) as listener:
            if plan.amortised and not keeper.has_begun():
                chains = starting.pretrain(plan, model.presented(table), static, chains, jnp.asarray(latents), 400)
            sampler = run.Sampler(model, plan, table, static, chains, self._budget(), listener, keeper, feed, kept)
            result = sampler.run()
        self._keep(model, plan, table, static, result)

    def _keep(self, model, plan, table, static, result) -> None:
        self.model_, self.plan_, self.table_, self.encoder_static_ = model, plan, table, static
        sound = ~result.dead
        self.draws_ = jax.tree.map(lambda a: a[sound], result.draws)
        self.encoders_ = jax.tree.map(lambda a: np.asarray(a)[sound], result.chains.encoder)
        self.step_size_, self.history_ = result.step_sizes[sound], result.history
        self.kinetic_temperature_ = jax.tree.map(lambda a: a[sound], result.kinetic_temperature)
        self.fraction_clamped_, self.noise_share_ = result.fraction_clamped, result.noise_shares[sound]
        self.dead_chains_ = np.flatnonzero(result.dead)
        self.latent_dim_ = model.prior.latent_dim
        self.rotations_ = self._rotations()

    def save(self, path: Any) -> None:
        """Write this fitted model to a folder that `gpbae.load` reads."""
        from gpbae.saving import io

        io.save(self, path)

    def report(self, path: Any) -> None:
        """Write a page about this fit: what was fitted, how well it mixed, what it predicts; folders are made."""
        from gpbae import report
        from gpbae.saving import storage

        page = Path(path)
        storage.make_folder(page.parent)
        text = report.model_page(self)
        try:
            page.write_text(text, encoding="utf-8")
        except OSError as problem:
            raise GpbaeError(f"Could not write the page {page}: {problem.strerror}; name another file.") from problem

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "draws_")


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class GPBAE(BAE):
    """Bayesian autoencoder with an exact Gaussian process over x as latent prior, one independent draw per group.

    Adds to BAE: kernel (a value of `gpbae.kernels`, a list with one per latent, or "auto" for an RBF with a
    lengthscale per input set from the data), latent_noise σ, and whether hyper-parameters and σ are sampled.
    """

    kernel: Any = "auto"
    latent_noise: float = 0.0
    sample_hyperparameters: bool = True
    sample_latent_noise: bool = False

    def _inputs(self, x, num_rows):
        if x is None:
            raise InputError(f"{type(self).__name__} needs inputs: pass x with one row per row of y, or use BAE.")
        return tables.inputs(x, num_rows)

    def _settle_latents(self, latents, y_values, seen, x, codes, rng):
        """Of the ways to start, the one that is smooth in x; rows that say nothing start on their path."""
        told, latent_dim = seen.mask.any(axis=1), latents.shape[1]
        kernels = self._given_kernels(latent_dim)
        if self._may_be_placed(y_values, seen, latent_dim):
            spatial, found = start.spatial_latents(y_values, seen.mask, seen.frame.event_shape, latent_dim, rng)
            if start.is_smoother(spatial, latents, kernels, x, codes, rng):
                latents, told = spatial, found
        if num := networks.num_private(self.decoder, seen.mask.shape[1:]):
            told = np.column_stack([np.repeat(told[:, None], latent_dim - num, axis=1), seen.mask])
        return start.on_their_paths(latents, told, x, codes, kernels, rng)

    def _x_location(self, x_values):
        """Labels are names, not quantities, and stay where they are."""
        labels = [c for k in self._given_kernels() for c in label_columns(k, x_values.shape[1])]
        location = super()._x_location(x_values)
        location[labels] = 0.0
        return location

    def _given_kernels(self, latent_dim: int | None = None) -> tuple[AbstractKernel, ...]:
        """One kernel, or one per latent where their number is known; paths of single columns are each as smooth as
        they are."""
        private = isinstance(self.decoder, networks.Private)
        given = self.kernel
        if isinstance(given, str) and given == "auto":
            given = Matern32() if private else RBF()
        given = tuple(given) if isinstance(given, list | tuple) else (given,)
        if not given or not all(isinstance(k, AbstractKernel) for k in given):
            raise InputError(f"kernel must be 'auto', a value of gpbae.kernels or a list of them; got {self.kernel!r}.")
        if latent_dim is not None and len(given) not in (1, latent_dim):
            raise InputError(
                f"kernel must be one kernel or a list of {latent_dim}, one per latent; got {self.kernel!r}."
            )
        return given * latent_dim if private and latent_dim is not None and len(given) == 1 else given

    def _kernels(self, x, latents, codes, latent_dim, rng) -> tuple[AbstractKernel, ...]:
        given = self._given_kernels(latent_dim)
        own = zip(given, start.by_kernel(latents, len(given)), strict=True)
        grid = start.SMOOTH_GRID if isinstance(self.decoder, networks.Private) else start.LENGTHSCALE_GRID
        return tuple(start.choose_lengthscale(k, x, z, codes, rng, grid) for k, z in own)

    def _hyper(self, kernels) -> Hyper:
        if not self.latent_noise >= 0 or (self.sample_latent_noise and self.latent_noise == 0):
            raise InputError(f"latent_noise must be at least 0, and above 0 to be sampled; got {self.latent_noise!r}.")
        return Hyper(kernels, jnp.asarray(float(self.latent_noise)), jnp.ones(()), self.sample_hyperparameters,
                     self.sample_latent_noise)  # fmt: skip

    def _prior(self, x, latents, codes, latent_dim, rng):
        hyper = self._hyper(self._kernels(x, latents, codes, latent_dim, rng))
        return FullPrior(hyper, latent_dim, self.latent_noise == 0 and not self.sample_latent_noise)


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class SGPBAE(GPBAE):
    """Bayesian autoencoder with a fully Bayesian sparse Gaussian process as latent prior; scales to many rows.

    Adds to GPBAE: num_inducing, inducing_prior ("determinantal", "strauss", "uniform", "normal"), sample_inducing, and
    latent_coordinates: the chain moves in the "latents" themselves or in "seeds" ε with z = μ̃ + σ̃ ε, which suits
    latents tied closely to the GP (small latent_noise, no groups).
    """

    latent_noise: float = 0.1
    num_inducing: int = 32
    inducing_prior: str = "determinantal"
    sample_inducing: bool = True
    latent_coordinates: str = "latents"

    def _sparse(self, kernels, x, latent_dim, rng) -> SparsePrior:
        check_count("num_inducing", self.num_inducing, 1)
        if not self.latent_noise > 0:
            raise InputError(f"{type(self).__name__} needs latent_noise above 0; got {self.latent_noise!r}. Try 0.1.")
        features = np.asarray(kernels[0].features(jnp.asarray(x)))
        prior = inducing.make(self.inducing_prior, features, kernels[0])
        start_at = jnp.asarray(start.inducing_inputs(features, int(self.num_inducing), rng))
        return SparsePrior(self._hyper(kernels), prior, start_at, latent_dim, self.sample_inducing)

    def _prior(self, x, latents, codes, latent_dim, rng):
        prior = self._sparse(self._kernels(x, latents, codes, latent_dim, rng), x, latent_dim, rng)
        if self.latent_coordinates == "latents":
            return prior
        alone = codes.max() == 0 and type(self) is SGPBAE and self.latents != "amortised"
        if self.latent_coordinates != "seeds" or not alone:
            raise InputError(
                "latent_coordinates must be 'latents', or 'seeds' for SGPBAE without groups, its latents persistent; "
                f"got {self.latent_coordinates!r} for {type(self).__name__}, {codes.max() + 1} group(s) and "
                f"latents={self.latents!r}."
            )
        return seeded(prior, jnp.asarray(x), jnp.asarray(latents))


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class DSGPBAE(SGPBAE):
    """SGPBAE with a deep Gaussian process: num_layers − 1 sparse layers warp the inputs of the last one.

    For inputs along which things change fast here and slowly there.  Adds to SGPBAE: num_layers (begin with 2; 1 is
    SGPBAE), num_propagations (Monte-Carlo seeds of the hidden layers).  `warp` says what clock was learned.
    """

    num_layers: int = 2
    num_propagations: int = 8

    def warp(self, x: Any, num_draws: int | None = None) -> Predictive:
        """What the hidden layers make of inputs: the clock, or the map, on which the last layer has one lengthscale.

        That lengthscale makes any stretch good, so every draw is given the location, the spread and the direction that
        x has over the fitted rows.  Read where it is steep: there things change fast.
        """
        self._fitted()
        x_values, rows = self._new_inputs(x, None) - self.x_location_, np.asarray(self.table_.x)
        some = rows[:: -(-len(rows) // ENOUGH_ROWS)]
        chosen = self._chosen(self.num_propagations * x_values.size, num_draws)
        h = posterior.warped(self.model_, self._flat_draws(chosen), jnp.asarray(x_values), jnp.asarray(some))
        return self._warped(tables.row_index(x), np.asarray(h) + self.x_location_)

    def _prior(self, x, latents, codes, latent_dim, rng):
        check_count("num_layers", self.num_layers, 1)
        check_count("num_propagations", self.num_propagations, 1)
        last = super()._prior(x, latents, codes, latent_dim, rng)
        width = x.shape[1]
        if last.inducing_start.shape[1] != width:
            raise InputError("DSGPBAE warps numeric inputs; labels (Embed) are for SGPBAE and GPBAE.")
        kernel = RBF(variance=0.1).initialise(x)
        hidden = tuple(self._sparse((kernel,), x, width, rng) for _ in range(self.num_layers - 1))
        hidden = tuple(eqx.tree_at(lambda h: h.hyper_reference.noise, h, jnp.asarray(1e-3)) for h in hidden)
        seeds = _seeds(self.num_propagations if hidden else 1, len(hidden), width)
        spread = np.where(x.std(axis=0) > 0, x.std(axis=0), 1.0)
        prior = DeepPrior(hidden, last, jnp.asarray(seeds), jnp.asarray(spread))
        return warping.started(prior, x, latents, codes, rng)


def _seeds(num: int, num_hidden: int, width: int) -> np.ndarray:
    """Antithetic standard normal seeds with unit spread: (Q, hidden, E)."""
    half = np.random.default_rng(0).standard_normal((-(-num // 2), num_hidden, width))
    both = np.concatenate([half, -half])[:num]
    return both / np.sqrt(np.mean(both**2, axis=0, keepdims=True)) if num > 1 and both.size else both
