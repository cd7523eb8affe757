"""The four models as scikit-learn style estimators: arguments stored as given, fitted attributes end in `_`."""

import dataclasses
import inspect
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gpbae import (
    diagnostics,
    inducing,
    likelihoods,
    metrics,
    networks,
    posterior,
    progress,
    run,
    start,
    tables,
    weights,
)
from gpbae.autoencoder import Autoencoder, Position
from gpbae.batches import FullBatch, GroupBatch, RowBatch, Table
from gpbae.errors import GpbaeError, InputError
from gpbae.inference import Plan
from gpbae.kernels import RBF, AbstractKernel, label_columns
from gpbae.predictive import Predictive
from gpbae.priors import DeepPrior, FullPrior, Hyper, NormalPrior, Query, SparsePrior

LARGEST_PERSISTENT = 50_000_000
LARGEST_ANSWER = 60_000_000
NUM_REFERENCE_ROWS = 300


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class BAE:
    """Bayesian autoencoder with independent N(0, I) latents; x is not needed.

    Parameters
    ----------
    latent_dim : number of latents; None takes as many as principal components explain 90 % of the table (at most 8).
    likelihood : a value of `gpbae.likelihoods`; "auto" is Bernoulli for 0/1 tables, else Gaussian with learned noise.
    encoder, decoder : "auto", "mlp", "conv", "linear", "identity", a value of `gpbae.networks`, or an Equinox module.
    weight_prior : "fan-in", "isotropic", "laplace", "hierarchical" or a value of `gpbae.weights`.
    latents : "persistent" (each row keeps its latent), "amortised" (born from the encoder each sweep) or "auto".
    num_chains, num_warmup, num_samples, thinning : chains; warm-up sweeps; draws kept per chain; sweeps per draw.
    batch_size : rows per sampler step; None takes all.
    sampler_steps, encoder_steps : K sampler steps per sweep; J encoder steps per sweep (amortised) or draw.
    step_size : "auto" measures the stiffest direction and keeps its discretisation error within 2 %; or a number.
    friction, temperature : of the sampler; anything but temperature 1 is not the posterior.
    standardise : work on standardised columns and centred inputs; undone on the way out.
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
    num_map_steps: int = 500
    seed: int = 0
    progress: bool = True

    # scikit-learn's contract, without importing it.

    @classmethod
    def _names(cls) -> list[str]:
        return list(inspect.signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any):
        for name, value in params.items():
            if name not in self._names():
                raise InputError(
                    f"{type(self).__name__} has no argument {name!r}; it takes {', '.join(self._names())}."
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = {n: p.default for n, p in inspect.signature(type(self)).parameters.items()}
        given = [f"{n}={v!r}" for n, v in self.get_params().items() if not _same(v, defaults[n])]
        return f"{type(self).__name__}({', '.join(given)})"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "draws_")

    def __sklearn_tags__(self):
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=True))

    # Fitting.

    def fit(self, x: Any, y: Any, groups: Any = None, run_dir: Any = None):
        """Sample the posterior given a table y (NaN = missing), its inputs x and optional group labels.

        With `run_dir` the fitted model is also saved in that folder, as by `save`.
        """
        problem = self._prepare(x, y, groups)
        model, plan, table, decoder_of, encoder_of, latents = problem
        chains, static = self._start(model, plan, table, decoder_of, encoder_of, latents)
        with progress.display(type(self).__name__, self.progress) as listener:
            if plan.amortised:
                chains = run.pretrain(plan, table, static, chains, jnp.asarray(latents), 400)
            result = run.Sampler(model, plan, table, static, chains, self._budget(), listener).run()
        self._keep(model, plan, table, static, result)
        if run_dir is not None:
            self.save(run_dir)
        return self

    def _budget(self) -> run.Budget:
        return run.Budget(self.num_warmup, self.num_samples, self.thinning, self.num_map_steps, self.friction,
                          self.temperature, self.step_size)  # fmt: skip

    def _check_arguments(self) -> None:
        counts = {"num_chains": 1, "num_warmup": 1, "num_samples": 1, "thinning": 1, "sampler_steps": 1,
                  "encoder_steps": 0, "num_map_steps": 0, "seed": 0}  # fmt: skip
        for name, least in counts.items():
            _check_count(name, getattr(self, name), least)
        for name in ("latent_dim", "batch_size"):
            _check_count(name, getattr(self, name), 1, or_none=True)
        for name, low, high in (("friction", 0, 1), ("temperature", 0, np.inf)):
            if isinstance(getattr(self, name), str) or not low < getattr(self, name) < high:
                raise InputError(f"{name} must lie between {low} and {high}; got {getattr(self, name)!r}.")
        if self.latents not in ("auto", "persistent", "amortised"):
            raise InputError(f"latents must be 'auto', 'persistent' or 'amortised'; got {self.latents!r}.")
        if self.step_size != "auto" and not (isinstance(self.step_size, int | float) and self.step_size > 0):
            raise InputError(f"step_size must be 'auto' or a number above 0; got {self.step_size!r}.")

    def _prepare(self, x, y, groups):
        """Check everything before anything is compiled."""
        self._check_arguments()
        seen = tables.observations(y)
        if not seen.mask.any():
            raise InputError("y must have at least one observed cell; got only NaN.")
        num_rows, num_columns = seen.values.shape
        labels = tables.group_codes(groups, num_rows)
        x_values = self._inputs(x, num_rows)
        rng = np.random.default_rng(self.seed)
        likelihood = self._likelihood(seen).initialise(num_columns)
        scaler = tables.fit_scaler(seen.values, seen.mask, self.standardise and likelihood.standardises)
        y_values = np.where(seen.mask, scaler.forward(seen.values), 0.0)
        latent_dim = self._latent_dim(y_values, seen.mask)
        latents = self._starting_latents(likelihood, y_values, seen.mask, latent_dim, rng)
        self.frame_, self.scaler_, self.groups_ = seen.frame, scaler, labels.labels
        self.grouped_ = groups is not None
        self.x_location_ = self._x_location(x_values)
        x_centred = x_values - self.x_location_
        latents = self._settle_latents(latents, y_values, seen, x_centred, labels.codes, rng)
        prior = self._prior(x_centred, latents, labels.codes, latent_dim, rng)
        group_rows = tables.arrange(labels.codes, len(labels.labels))
        batching = self._batching(prior, num_rows, group_rows)
        decoder_of = lambda k: networks.build_decoder(self.decoder, k, latent_dim, seen.frame.event_shape)  # noqa: E731
        encoder_of = lambda k: networks.build_encoder(self.encoder, k, seen.frame.event_shape, latent_dim)  # noqa: E731
        skeleton = decoder_of(jax.random.key(0))
        dtype = networks.network_dtype(skeleton)
        table = Table(jnp.asarray(x_centred), jnp.asarray(y_values, dtype), jnp.asarray(seen.mask),
                      jnp.asarray(labels.codes, jnp.int32), jnp.asarray(group_rows, jnp.int32))  # fmt: skip
        model = Autoencoder(prior, eqx.filter(skeleton, eqx.is_inexact_array, inverse=True), self._weight_prior(),
                            likelihood, batching.values_are_local)  # fmt: skip
        return model, self._plan(batching, prior, num_rows * latent_dim), table, decoder_of, encoder_of, latents

    def _plan(self, batching, prior, num_latents: int) -> Plan:
        fits = num_latents <= LARGEST_PERSISTENT
        amortised = self.latents == "amortised" or (self.latents == "auto" and not fits)
        redraw = not isinstance(batching, RowBatch) and not (amortised and not batching.is_exact)
        return Plan(batching, self.sampler_steps, self.encoder_steps, amortised, redraw)

    def _inputs(self, x, num_rows) -> np.ndarray:
        if x is not None:
            tables.inputs(x, num_rows)  # checked, then forgotten: latents do not depend on it
        return np.zeros((num_rows, 1))

    def _x_location(self, x_values) -> np.ndarray:
        return x_values.mean(axis=0) if self.standardise else np.zeros(x_values.shape[1])

    def _likelihood(self, seen):
        if isinstance(self.likelihood, likelihoods.AbstractLikelihood):
            likelihood = self.likelihood
        elif isinstance(self.likelihood, str) and self.likelihood in ("auto", "gaussian", "bernoulli"):
            observed = seen.values[seen.mask]
            binary = bool(np.isin(observed, (0.0, 1.0)).all())
            word = ("bernoulli" if binary else "gaussian") if self.likelihood == "auto" else self.likelihood
            likelihood = likelihoods.Bernoulli() if word == "bernoulli" else likelihoods.Gaussian()
        else:
            raise InputError(f"likelihood must be 'auto' or a value of gpbae.likelihoods; got {self.likelihood!r}.")
        if isinstance(likelihood, likelihoods.Bernoulli) and not np.isin(seen.values[seen.mask], (0.0, 1.0)).all():
            raise InputError("Bernoulli needs cells that are 0, 1 or NaN; got other numbers. Use Gaussian().")
        return likelihood

    def _latent_dim(self, y_values, mask) -> int:
        if self.latent_dim is not None:
            return int(self.latent_dim)
        identity = isinstance(self.decoder, networks.Identity) or self.decoder == "identity"
        return y_values.shape[1] if identity else start.choose_latent_dim(y_values, mask)

    def _starting_latents(self, likelihood, y_values, mask, latent_dim, rng) -> np.ndarray:
        if isinstance(self.decoder, networks.Identity) or self.decoder == "identity":
            return np.asarray(likelihood.link(jnp.asarray(y_values))) * mask
        return start.principal_latents(y_values, mask, latent_dim, rng)

    def _settle_latents(self, latents, y_values, seen, x, codes, rng) -> np.ndarray:
        """Without inputs there is nothing to choose by."""
        return latents

    def _weight_prior(self):
        if isinstance(self.weight_prior, weights.AbstractWeightPrior):
            return self.weight_prior
        if not isinstance(self.weight_prior, str) or self.weight_prior not in weights.WORDS:
            raise InputError(f"weight_prior must be one of {', '.join(weights.WORDS)}; got {self.weight_prior!r}.")
        return weights.WORDS[self.weight_prior]()

    def _prior(self, x, latents, codes, latent_dim, rng):
        return NormalPrior(latent_dim)

    def _batching(self, prior, num_rows, group_rows):
        """All rows, random rows, or whole groups where rows are coupled or a batch can hold them."""
        if self.batch_size is None or self.batch_size >= num_rows:
            return FullBatch()
        num_groups, longest = group_rows.shape
        if prior.couples_rows and self.batch_size < longest:
            raise InputError(
                f"{type(self).__name__} couples all rows of a group, so batch_size must cover whole groups; got "
                f"{self.batch_size} for a group of {longest}. Use SGPBAE(num_inducing=...) or batch_size=None."
            )
        if prior.couples_rows or (num_groups > 1 and self.batch_size >= longest and prior.latent_dim):
            return GroupBatch(min(max(1, self.batch_size // longest), num_groups))
        return RowBatch(int(self.batch_size))

    def _start(self, model, plan, table, decoder_of, encoder_of, latents):
        key = jax.random.key(self.seed)
        spread = 0.0 if isinstance(decoder_of(key), networks.IdentityDecoder) else 0.1
        chains = []
        for c in range(self.num_chains):
            key_decoder, key_encoder, key_chain = jax.random.split(jax.random.fold_in(key, c), 3)
            encoder = encoder_of(key_encoder)
            noisy = jnp.asarray(
                latents + spread * np.random.default_rng([self.seed, 2, c]).standard_normal(latents.shape)
            )
            chains.append(run.start_chain(model, plan, table, decoder_of(key_decoder), encoder, noisy, key_chain))
        static = eqx.filter(encoder, eqx.is_inexact_array, inverse=True)
        return jax.tree.map(lambda *a: jnp.stack(a), *chains), static

    def _keep(self, model, plan, table, static, result) -> None:
        self.model_, self.plan_, self.table_, self.encoder_static_ = model, plan, table, static
        self.draws_, self.encoders_ = result.draws, jax.tree.map(np.asarray, result.chains.encoder)
        self.step_size_, self.history_ = result.step_size, result.history
        self.kinetic_temperature_ = result.kinetic_temperature
        self.fraction_clamped_, self.noise_share_ = result.fraction_clamped, result.noise_share
        self.dead_chains_ = np.flatnonzero(result.dead)
        self.latent_dim_ = model.prior.latent_dim
        self.rotations_ = self._rotations()

    # Questions.

    def _fitted(self) -> None:
        if not hasattr(self, "draws_"):
            raise GpbaeError(f"This {type(self).__name__} is not fitted yet; call fit(x, y) first.")

    def _chosen(self, cells_per_draw: int, num_draws: int | None = None) -> np.ndarray:
        """Draws per chain to use: as many as the answer's size allows, evenly spread."""
        available = self._num_draws
        most = max(1, LARGEST_ANSWER // max(1, cells_per_draw * self.num_chains_))
        wanted = available if num_draws is None else max(1, -(-num_draws // self.num_chains_))
        count = min(available, most, wanted)
        return np.unique(np.linspace(available - 1, 0, count).round().astype(int))

    @property
    def _num_draws(self) -> int:
        return jax.tree.leaves(self.draws_)[0].shape[1]

    @property
    def num_chains_(self) -> int:
        return jax.tree.leaves(self.draws_)[0].shape[0]

    def _flat_draws(self, chosen: np.ndarray) -> Position:
        """(chain · draw, ...) of the chosen draws."""
        return jax.tree.map(lambda a: jnp.asarray(a[:, chosen].reshape(-1, *a.shape[2:])), self.draws_)

    def _observed_likelihood(self, draws: Position):
        return jax.vmap(self.model_.observe)(draws.shared) if jax.tree.leaves(
            draws.shared["likelihood"]) else self._broadcast_likelihood(draws)  # fmt: skip

    def _broadcast_likelihood(self, draws: Position):
        S = jax.tree.leaves(draws)[0].shape[0]
        return jax.tree.map(lambda a: jnp.broadcast_to(a, (S, *a.shape)), self.model_.likelihood)

    def _query(self, x: Any, groups: Any, num_rows: int | None, needs_groups: bool = True):
        """Rows arranged by group: the query and the (G, q) table of row numbers behind it."""
        x_values = self._new_inputs(x, num_rows)
        if groups is None and self.grouped_ and needs_groups:
            raise InputError(
                "This model was fitted with groups, so each row needs a label: pass groups=...; "
                "a label never seen is a new group."
            )
        labels = tables.group_codes(groups, len(x_values))
        fitted = {label: i for i, label in enumerate(self.groups_.astype(str))}
        slots = np.array([fitted.get(str(label), -1) for label in labels.labels])
        if not self.grouped_ and groups is None:
            slots = np.zeros(1, int)
        rows = tables.arrange(labels.codes, len(labels.labels))
        return x_values - self.x_location_, rows, slots

    def _new_inputs(self, x, num_rows):
        width = len(self.x_location_)
        if x is None:
            if not isinstance(self.model_.prior, NormalPrior):
                raise InputError(f"{type(self).__name__} needs inputs: pass x with {width} columns.")
            if num_rows is None:
                raise InputError("BAE knows rows only by their number: pass x with one row per prediction.")
            return np.zeros((num_rows, width))
        if isinstance(self.model_.prior, NormalPrior):
            return np.zeros((len(np.asarray(x)), width))
        return tables.inputs(x, num_rows, width)

    def _make_query(self, x, rows, slots) -> Query:
        valid = rows < len(x)
        return Query(jnp.asarray(x[np.minimum(rows, len(x) - 1)]), jnp.asarray(np.maximum(slots, 0)),
                     jnp.asarray(slots >= 0), jnp.asarray(valid))  # fmt: skip

    def _predictive(self, draws, eta, rows, num_rows, index, features=None) -> Predictive:
        """Answers arranged by group, (S, R, G, q, P), back in the order of the rows."""
        flat = _unarrange(np.asarray(eta), rows, num_rows)
        frame = self.frame_
        return Predictive(flat, self._observed_likelihood(draws), self.scaler_, frame, index, self.seed, features)

    def predict(self, x: Any = None, groups: Any = None, num_latents: int = 4) -> Predictive:
        """Predictive distribution of y at new inputs."""
        self._fitted()
        x_values, rows, slots = self._query(x, groups, None)
        chosen = self._chosen(num_latents * len(x_values) * self.frame_size_)
        draws = self._flat_draws(chosen)
        answer = posterior.predict(self.model_, draws, self.table_, self._make_query(x_values, rows, slots),
                                   self._key("predict"), num_latents)  # fmt: skip
        latent_mean = _unarrange(np.asarray(answer.latent_mean)[:, None], rows, len(x_values))[:, 0]
        features = {"hyper": self._hyper_features(draws), "latent_mean": latent_mean}
        return self._predictive(draws, answer.eta, rows, len(x_values), getattr(x, "index", None), features)

    @property
    def frame_size_(self) -> int:
        return int(np.prod(self.frame_.event_shape))

    def _key(self, purpose: str):
        return jax.random.fold_in(jax.random.key(self.seed + 2**20), sum(map(ord, purpose)))

    def _hyper_features(self, draws: Position) -> np.ndarray:
        """Sampled kernel hyper-parameters and noise, one row per draw."""
        hyper = {k: v for k, v in draws.shared["prior"].items() if k in ("kernel", "log_latent_noise")}
        leaves = jax.tree.leaves((hyper, draws.shared["likelihood"]))
        S = jax.tree.leaves(draws)[0].shape[0]
        flat = [np.asarray(a, np.float64).reshape(S, -1) for a in leaves]
        return np.concatenate(flat, axis=1) if flat else np.zeros((S, 0))

    def _refined(self, x, y, groups, num_draws):
        """Latents and η of given rows, (S, T, C) and (S, T, P), with the draws they belong to."""
        seen = tables.observations(y, self.frame_.event_shape)
        num_rows = len(seen.values)
        x_values, rows, slots = self._query(x, groups, num_rows)
        scaled = np.where(seen.mask, self.scaler_.forward(seen.values), 0.0)
        chosen = self._chosen(num_rows * self.frame_size_, num_draws)
        draws = jax.tree.map(lambda a: jnp.asarray(a[:, chosen]), self.draws_)
        z, eta = self._answer_rows(draws, x_values, scaled, seen.mask, rows, slots)
        return seen, chosen, z, eta

    def _answer_rows(self, draws, x_values, scaled, mask, rows, slots):
        if self._is_training_table(x_values, scaled, mask, rows, slots):
            z, eta = posterior.decode_training(self.model_, _merge(draws), self.table_)
            return np.asarray(z), np.asarray(eta)
        z = np.zeros((self.num_chains_, jax.tree.leaves(draws)[0].shape[1], len(x_values), self.latent_dim_))
        eta = np.zeros((*z.shape[:3], self.frame_size_), self.table_.y.dtype)
        for part_rows, part_slots in self._parts(rows, slots, len(x_values)):
            safe = np.minimum(part_rows, len(x_values) - 1)
            valid = part_rows < len(x_values)
            given = posterior.Rows(jnp.asarray(scaled[safe], self.table_.y.dtype),
                                   jnp.asarray(mask[safe] & valid[..., None]))  # fmt: skip
            encoders = eqx.combine(jax.tree.map(jnp.asarray, self.encoders_), self.encoder_static_)
            part_z, part_eta, _ = posterior.refine(
                self.model_, draws, self.table_, encoders, self._make_query(x_values, part_rows, part_slots), given,
                self._key("refine"), self._refinement_steps,
            )  # fmt: skip
            z[:, :, part_rows[valid]] = np.asarray(part_z)[:, :, valid]
            eta[:, :, part_rows[valid]] = np.asarray(part_eta)[:, :, valid]
        return z.reshape(-1, *z.shape[2:]), eta.reshape(-1, *eta.shape[2:])

    @property
    def _refinement_steps(self) -> int:
        return 5

    def _parts(self, rows, slots, num_rows):
        """Rows of known groups stand alone given the values; a new group, or an exact GP's, moves as one block."""
        if isinstance(self.model_.prior, NormalPrior):
            return [(np.arange(num_rows)[:, None], np.zeros(num_rows, int))]
        if self.model_.prior.couples_rows:
            return [(rows, slots)]
        parts = []
        for known in (True, False):
            members = (slots >= 0) == known
            if not members.any():
                continue
            if known:
                table = rows[members]
                valid = table < num_rows
                parts.append((table[valid][:, None], np.repeat(slots[members], valid.sum(axis=1))))
            else:
                parts.append((rows[members], slots[members]))
        return parts

    def _is_training_table(self, x_values, scaled, mask, rows, slots) -> bool:
        """Whether these are the fitted rows themselves, whose latents the chain has sampled."""
        if self.plan_.amortised or x_values.shape != self.table_.x.shape:
            return False
        group = np.empty(len(x_values), int)
        for r, s in zip(rows, slots, strict=True):
            group[r[r < len(x_values)]] = s
        return bool(
            np.array_equal(x_values, np.asarray(self.table_.x))
            and np.array_equal(mask, np.asarray(self.table_.mask))
            and np.array_equal(scaled.astype(self.table_.y.dtype), np.asarray(self.table_.y))
            and np.array_equal(group, np.asarray(self.table_.group))
        )

    def impute(self, x: Any = None, y: Any = None, groups: Any = None, num_draws: int | None = None) -> Predictive:
        """Every cell given the observed cells of its row and the GP; `.filled` is y with its gaps at the mean."""
        self._fitted()
        seen, chosen, _, eta = self._refined(x, y, groups, num_draws)
        draws = self._flat_draws(chosen)
        answer = Predictive(eta[:, None], self._observed_likelihood(draws), self.scaler_, seen.frame,
                            seen.frame.index, self.seed, {"hyper": self._hyper_features(draws)})  # fmt: skip
        mean = np.asarray(answer.mean).reshape(seen.values.shape)
        answer.filled = seen.frame.restore(np.where(seen.mask, seen.values, mean), seen.frame.index)  # type: ignore[attr-defined]
        return answer

    def encode(self, x: Any = None, y: Any = None, groups: Any = None, num_draws: int | None = None) -> Predictive:
        """Latents of rows, seen or not, with or without gaps; draws are turned into one common frame."""
        self._fitted()
        seen, chosen, z, _ = self._refined(x, y, groups, num_draws)
        rotations = self.rotations_[:, chosen].reshape(-1, self.latent_dim_, self.latent_dim_)
        aligned = np.einsum("stc,scd->std", z, rotations)
        columns = None
        if seen.frame.columns is not None:
            columns = [f"latent{i}" for i in range(self.latent_dim_)]
        frame = tables.Frame((self.latent_dim_,), columns)
        unit = tables.Scaler(np.zeros(self.latent_dim_), np.ones(self.latent_dim_))
        return Predictive(aligned[:, None], None, unit, frame, seen.frame.index, self.seed)

    def sample(self, x: Any, num_samples: int = 100, groups: Any = None, noise: bool = True) -> np.ndarray:
        """Joint draws of y along x, (num_samples, rows, ...), with or without observation noise."""
        self._fitted()
        x_values, rows, slots = self._query(x, groups, None)
        total = self.num_chains_ * self._num_draws
        picks = np.linspace(0, total - 1, num_samples).round().astype(int)
        everything = self._flat_draws(np.arange(self._num_draws))
        draws = jax.tree.map(lambda a: a[picks], everything)
        _, eta = posterior.sample_paths(self.model_, draws, self.table_, self._make_query(x_values, rows, slots),
                                        self._key("sample"))  # fmt: skip
        answer = self._predictive(draws, np.asarray(eta)[:, None], rows, len(x_values), None)
        if noise:
            return answer.samples
        return answer._means[:, 0].reshape(num_samples, len(x_values), *self.frame_.event_shape)

    def score(self, x: Any, y: Any, groups: Any = None) -> float:
        """Mean log predictive density of the observed cells given x alone, in the units of y."""
        self._fitted()
        seen = tables.observations(y, self.frame_.event_shape)
        if not seen.mask.any():
            raise InputError("score needs at least one observed cell; got only NaN.")
        if x is None and isinstance(self.model_.prior, NormalPrior):
            x = np.zeros((len(seen.values), 1))
        if x is not None and len(np.asarray(x)) != len(seen.values):
            raise InputError(f"x and y must have the same number of rows; got {len(x)} and {len(seen.values)}.")
        answer = self.predict(x, groups)
        return float(np.nanmean(answer.log_density(seen.values, seen.mask)))

    def evaluate(self, x: Any, y: Any, groups: Any = None, holdout: float = 0.1, seed: int = 0):
        """Hide a share of the known cells, refit on the rest, fill them and score: one row of metrics per column."""
        import pandas as pd

        seen = tables.observations(y)
        hidden = (np.random.default_rng(seed).random(seen.mask.shape) < holdout) & seen.mask
        if not hidden.any():
            raise InputError(f"holdout={holdout} hides no cell of this table; pass a larger share.")
        masked = seen.frame.restore(np.where(hidden, np.nan, seen.values), seen.frame.index)
        model = type(self)(**self.get_params()).fit(x, masked, groups)
        answer = model.impute(x, masked, groups)
        mean = np.asarray(answer.mean).reshape(seen.values.shape)
        samples = answer.samples.reshape(len(answer.samples), *seen.values.shape)
        density = answer.log_density(seen.values, hidden)
        names = list(seen.frame.columns) if seen.frame.columns is not None else list(range(seen.values.shape[1]))
        rows = {name: _scores(mean, samples, density, seen.values, hidden & (np.arange(len(names)) == i))
                for i, name in enumerate(names) if hidden[:, i].any()}  # fmt: skip
        rows["all"] = _scores(mean, samples, density, seen.values, hidden)
        return pd.DataFrame(rows).T

    # Diagnostics.

    def _rotations(self) -> np.ndarray:
        """For every draw the orthogonal map that turns its latents into the frame of the last draw (Procrustes)."""
        C, S = self.latent_dim_, self._num_draws
        eye = np.broadcast_to(np.eye(C), (self.num_chains_, S, C, C)).copy()
        if isinstance(self.model_.decoder, networks.IdentityDecoder):
            return eye
        z = self._reference_latents()
        target = z[0, -1]
        for c in range(self.num_chains_):
            for s in range(S):
                u, _, vt = np.linalg.svd(z[c, s].T @ target)
                eye[c, s] = u @ vt
        return eye

    def _reference_latents(self) -> np.ndarray:
        """(chain, draw, rows, C): sampled latents of some rows, or the encoder's where none are kept."""
        from gpbae.autoencoder import encode

        num_rows = self.table_.x.shape[0]
        rows = np.unique(np.linspace(0, num_rows - 1, min(num_rows, NUM_REFERENCE_ROWS)).astype(int))
        if not self.plan_.amortised:
            z, _ = posterior.decode_training(self.model_, _merge(self.draws_), self.table_)
            z = np.asarray(z)[:, rows]
            return z.reshape(self.num_chains_, self._num_draws, *z.shape[1:])
        encoders = eqx.combine(jax.tree.map(jnp.asarray, self.encoders_), self.encoder_static_)
        once = jax.vmap(lambda e: encode(e, self.table_.y[rows], self.table_.mask[rows], self._key("frame")))(encoders)
        return np.broadcast_to(np.asarray(once)[:, None], (self.num_chains_, self._num_draws, *once.shape[1:]))

    def scalars_(self) -> dict[str, np.ndarray]:
        """Function-space quantities by name, each (chain, draw): predictive means, hyper-parameters, noise."""
        chosen = np.arange(self._num_draws)
        draws = self._flat_draws(chosen)
        shape = (self.num_chains_, self._num_draws)
        named = {}
        sampled = draws.shared["prior"]
        described = jax.vmap(self.model_.prior.describe)(sampled) if jax.tree.leaves(sampled) else {}
        for name, value in described.items():
            if "inducing" in name or np.ptp(np.asarray(value), axis=0).max(initial=0.0) == 0:
                continue
            flat = np.asarray(value).reshape(*shape, -1)
            named |= {
                name if flat.shape[2] == 1 else f"{name}[{i}]": flat[:, :, i] for i in range(min(flat.shape[2], 8))
            }
        if hasattr(self.model_.likelihood, "log_noise") and jax.tree.leaves(draws.shared["likelihood"]):
            noise = np.exp(np.asarray(draws.shared["likelihood"].log_noise)).reshape(*shape, -1)
            named |= {"noise" if noise.shape[2] == 1 else f"noise[{i}]": noise[:, :, i] for i in range(noise.shape[2])}
        return {**named, **self._predictive_scalars(draws, shape)}

    def _predictive_scalars(self, draws, shape) -> dict[str, np.ndarray]:
        """Predictive means of a few training cells."""
        if self.plan_.amortised:
            return {}
        num_rows = self.table_.x.shape[0]
        rows = np.unique(np.linspace(0, num_rows - 1, min(num_rows, 8)).astype(int))
        _, eta = posterior.decode_training(self.model_, draws, self.table_)
        columns = np.unique(np.linspace(0, self.frame_size_ - 1, min(self.frame_size_, 4)).astype(int))
        picked = np.asarray(eta, np.float64)[:, rows][:, :, columns].reshape(*shape, len(rows), len(columns))
        return {f"output[{r},{c}]": picked[:, :, i, j] for i, r in enumerate(rows) for j, c in enumerate(columns)}

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
            "GP values": (values, [h["values"] for h in shared["prior"].get("hidden", ())]),
            "inducing inputs": inducing_leaves,
            "hyper-parameters": (hyper, hidden, shared["likelihood"]),
            "latents": local,
        }
        sizes = self._leaf_sizes()
        return {name: _weighted(tree, sizes) for name, tree in blocks.items() if jax.tree.leaves(tree)}

    def _leaf_sizes(self) -> dict[int, int]:
        """Coordinates behind each temperature: big leaves weigh more."""
        position = Position(self.draws_.shared, self.draws_.values, self.kinetic_temperature_.local)
        pairs = zip(jax.tree.leaves(self.kinetic_temperature_), jax.tree.leaves(position), strict=True)
        return {id(t): int(np.prod(np.shape(p)[2:])) for t, p in pairs}

    def diagnostics(self):
        """DataFrame of R-hat, ESS (function space) and kinetic temperatures; `.attrs["warnings"]` says it in words."""
        self._fitted()
        frame = diagnostics.table(self.scalars_(), self.kinetic_temperatures_())
        facts = {"temperature": self.temperature, "fraction_clamped": self.fraction_clamped_,
                 "num_chains": self.num_chains_, "dead": self.dead_chains_}  # fmt: skip
        frame.attrs["warnings"] = diagnostics.warnings(frame, facts)
        return frame

    def to_arviz(self):
        """Function-space draws as an ArviZ DataTree (chain, draw)."""
        from arviz_base import from_dict

        return from_dict({"posterior": self.scalars_()})

    # Keeping.

    def save(self, path: Any) -> None:
        """Write this fitted model to a folder that `gpbae.load` reads."""
        from gpbae import io

        io.save(self, path)

    def report(self, path: Any) -> None:
        """Write a page about this fit: what was fitted, how well it mixed, what it predicts."""
        from pathlib import Path

        from gpbae import report

        Path(path).write_text(report.model_page(self), encoding="utf-8")


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
        """Of the ways to start, the one that is smooth in x."""
        shape = seen.frame.event_shape
        if not networks.is_image(shape) or isinstance(self.decoder, networks.Identity) or self.decoder == "identity":
            return latents
        spatial = start.spatial_latents(y_values, seen.mask, shape, latents.shape[1], rng)
        return start.smoothest([latents, spatial], self._given_kernels()[0], x, codes, rng)

    def _x_location(self, x_values):
        """Labels are names, not quantities, and stay where they are."""
        labels = [c for k in self._given_kernels() for c in label_columns(k, x_values.shape[1])]
        location = super()._x_location(x_values)
        location[labels] = 0.0
        return location

    def _given_kernels(self) -> tuple[AbstractKernel, ...]:
        given = RBF() if isinstance(self.kernel, str) and self.kernel == "auto" else self.kernel
        given = tuple(given) if isinstance(given, list | tuple) else (given,)
        if not given or not all(isinstance(k, AbstractKernel) for k in given):
            raise InputError(f"kernel must be 'auto', a value of gpbae.kernels or a list of them; got {self.kernel!r}.")
        return given

    def _kernels(self, x, latents, codes, latent_dim, rng) -> tuple[AbstractKernel, ...]:
        given = self._given_kernels()
        if len(given) not in (1, latent_dim):
            raise InputError(
                f"kernel must be one kernel or a list of {latent_dim}, one per latent; got {self.kernel!r}."
            )
        return tuple(start.choose_lengthscale(k, x, latents, codes, rng) for k in given)

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

    Adds to GPBAE: num_inducing, inducing_prior ("uniform", "normal", "determinantal", "strauss"), sample_inducing.
    """

    latent_noise: float = 0.1
    num_inducing: int = 32
    inducing_prior: str = "uniform"
    sample_inducing: bool = True

    def _sparse(self, kernels, x, latent_dim, rng) -> SparsePrior:
        _check_count("num_inducing", self.num_inducing, 1)
        if not self.latent_noise > 0:
            raise InputError(f"{type(self).__name__} needs latent_noise above 0; got {self.latent_noise!r}. Try 0.1.")
        features = np.asarray(kernels[0].features(jnp.asarray(x)))
        prior = inducing.make(self.inducing_prior, features, kernels[0])
        start_at = jnp.asarray(start.inducing_inputs(features, int(self.num_inducing), rng))
        return SparsePrior(self._hyper(kernels), prior, start_at, latent_dim, self.sample_inducing)

    def _prior(self, x, latents, codes, latent_dim, rng):
        return self._sparse(self._kernels(x, latents, codes, latent_dim, rng), x, latent_dim, rng)


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class DSGPBAE(SGPBAE):
    """SGPBAE with a deep Gaussian process: num_layers − 1 sparse layers warp the inputs of the last one.

    Adds to SGPBAE: num_layers, num_propagations (Monte-Carlo seeds of the hidden layers).
    """

    num_layers: int = 2
    num_propagations: int = 8

    def _prior(self, x, latents, codes, latent_dim, rng):
        _check_count("num_layers", self.num_layers, 1)
        _check_count("num_propagations", self.num_propagations, 1)
        last = super()._prior(x, latents, codes, latent_dim, rng)
        width = x.shape[1]
        if last.inducing_start.shape[1] != width:
            raise InputError("DSGPBAE warps numeric inputs; labels (Embed) are for SGPBAE and GPBAE.")
        kernel = RBF(variance=0.1).initialise(x)
        hidden = tuple(self._sparse((kernel,), x, width, rng) for _ in range(self.num_layers - 1))
        hidden = tuple(eqx.tree_at(lambda h: h.hyper_reference.noise, h, jnp.asarray(1e-3)) for h in hidden)
        seeds = _seeds(self.num_propagations if hidden else 1, len(hidden), width)
        spread = np.where(x.std(axis=0) > 0, x.std(axis=0), 1.0)
        return DeepPrior(hidden, last, jnp.asarray(seeds), jnp.asarray(spread))


def _check_count(name: str, value: Any, least: int, or_none: bool = False) -> None:
    if value is None and or_none:
        return
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        either = " or None" if or_none else ""
        raise InputError(f"{name} must be a whole number of at least {least}{either}; got {value!r}.")


def _seeds(num: int, num_hidden: int, width: int) -> np.ndarray:
    """Antithetic standard normal seeds with unit spread: (Q, hidden, E)."""
    half = np.random.default_rng(0).standard_normal((-(-num // 2), num_hidden, width))
    both = np.concatenate([half, -half])[:num]
    return both / np.sqrt(np.mean(both**2, axis=0, keepdims=True)) if num > 1 and both.size else both


def _merge(draws: Position) -> Position:
    """(chain, draw, ...) to (chain · draw, ...)."""
    return jax.tree.map(lambda a: jnp.asarray(a.reshape(-1, *a.shape[2:])), draws)


def _unarrange(blocked: np.ndarray, rows: np.ndarray, num_rows: int) -> np.ndarray:
    """(S, R, G, q, P) by group back to (S, R, T, P) by row."""
    valid = rows < num_rows
    out = np.empty((*blocked.shape[:2], num_rows, blocked.shape[-1]), blocked.dtype)
    out[:, :, rows[valid]] = blocked[:, :, valid]
    return out


def _weighted(tree, sizes) -> tuple[float, float]:
    """Average over leaves by size, and the standard error from the spread over (chain, draw) blocks."""
    leaves = jax.tree.leaves(tree)
    weights_ = np.maximum([sizes[id(t)] for t in leaves], 1)
    series = np.average(np.stack([np.asarray(t) for t in leaves]), axis=0, weights=weights_)
    return float(series.mean()), float(series.std() / np.sqrt(max(series.size - 1, 1)))


def _scores(mean, samples, density, truth, where) -> dict[str, float]:
    m, s, t = mean[where], samples[:, where], truth[where]
    levels = {f"coverage{int(100 * q)}": metrics.coverage(s, t, q) for q in (0.5, 0.8, 0.9, 0.95)}
    return {"mae": metrics.mae(m, t), "rmse": metrics.rmse(m, t), "smse": metrics.smse(m, t),
            "nlpd": -float(np.mean(density[where])), "crps": metrics.crps(s, t), **levels, "cells": len(t)}  # fmt: skip


def _same(a, b) -> bool:
    try:
        return bool(a is b or a == b)
    except (TypeError, ValueError):
        return False
