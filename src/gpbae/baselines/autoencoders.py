"""Variational autoencoders as estimators: what each baseline is told, and what it puts together."""

import copy
import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gpbae import gp, networks
from gpbae.answering.predictive import Predictive
from gpbae.baselines.base import Baseline, normal_scores
from gpbae.baselines.latents import AbstractLaw, Exact, FreeSparse, Independent, Sparse
from gpbae.baselines.variational import Condition, VariationalAutoencoder, bound_at_start, negative_bound, train
from gpbae.errors import InputError
from gpbae.estimators import GPBAE
from gpbae.sampling import start
from gpbae.sampling.batches import Batching, FullBatch, GroupBatch, RowBatch, Table
from gpbae.sampling.building import Building, check_count
from gpbae.tabular import choice, tables

AUTO_BATCH_SIZE = 256


class Snapshot(NamedTuple):
    """The model in training: by the clock and of the processor since the fit began, after so many steps."""

    seconds: float
    processor_seconds: float
    num_steps: int
    model: VariationalAutoencoder


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class VAE(Baseline):
    """Variational autoencoder with independent N(0, I) latents (Kingma & Welling 2014); x is not needed.

    latent_dim : number of latents; None takes as many as principal components explain 90 % of the table (at most 8).
    likelihood : a value of `gpbae.likelihoods`; "auto" is Bernoulli for 0/1 tables, else Gaussian with learned noise.
    encoder, decoder : as of `gpbae.BAE`; the encoder says a mean and a variance of every latent.
    batch_size : rows per step; None takes all.
    learning_rate : of Adam, constant and then, over the last half of the steps, down to a tenth.
    num_start_steps : steps before those of the bound that teach the networks where latents start: at principal
        components or, where these are smoother in x or tell images better apart, at centres of mass.
    keep_snapshots : whether `snapshots_` keeps the model as it was after every twentieth of the training, for curves.
        They are not saved.
    """

    latent_dim: int | None = None
    likelihood: Any = "auto"
    encoder: Any = "auto"
    decoder: Any = "auto"
    batch_size: int | None = None
    learning_rate: float = 1e-3
    num_start_steps: int = 0
    keep_snapshots: bool = False

    _latent_dim = Building._latent_dim
    _num_shared = Building._num_shared
    _starting_latents = Building._starting_latents
    _may_be_placed = Building._may_be_placed

    def _settle_latents(self, latents, y_values, seen, x, codes, rng):
        """Only what is taught is placed."""
        if not self.num_start_steps:
            return latents
        return Building._settle_latents(self, latents, y_values, seen, x, codes, rng)  # type: ignore[arg-type]

    def _likelihood(self, seen):
        found, _ = choice.choose(self.likelihood, seen)
        owners = found.owners(num_columns := seen.values.shape[1])
        if len(owners) != num_columns:
            several = np.flatnonzero(np.bincount(owners, minlength=num_columns) != 1)
            names = ", ".join(str(seen.frame.names()[i]) for i in several[:8])
            raise InputError(
                f"{type(self).__name__} has one output for each column; classes and heteroscedastic noise need more: "
                f"{names}. Leave such columns out, or use SGPBAE."
            )
        return found

    def _check(self) -> None:
        super()._check()
        for name in ("latent_dim", "batch_size"):
            check_count(name, getattr(self, name), 1, or_none=True)
        check_count("num_start_steps", self.num_start_steps, 0)

    def _inputs(self, x, num_rows):
        if x is not None:
            tables.inputs(x, num_rows)  # checked, then forgotten: latents do not depend on it
        return np.zeros((num_rows, 1))

    def _asked(self, x, num_rows):
        if x is None and num_rows is None:
            raise InputError("VAE knows rows only by their number: pass x with one row per prediction.")
        return np.zeros((num_rows if x is None else len(tables.inputs(x, num_rows)), 1))

    # Training.

    def _train(self, table: Table, say) -> None:
        rng = np.random.default_rng(self.seed)
        y, mask = np.asarray(table.y, float), np.asarray(table.mask)
        self.latent_dim_ = self._latent_dim(self.frame_.event_shape, y.shape[1], y, mask)
        seen = tables.Observations(y, mask, self.frame_)
        starting = self._starting_latents(self.likelihood_, y, seen, (y, mask), self.latent_dim_, rng)
        starting = self._settle_latents(starting, y, seen, np.asarray(table.x), np.asarray(table.group), rng)
        law = self._law(table, starting, rng)
        batching = self._batching(law, table)
        key_model, key_train = jax.random.split(jax.random.key(self.seed))
        self.snapshots_: list[Snapshot] = []
        model = self._start(self._build(key_model, table, law), table, batching, starting, say)
        self._optimise(model, table, batching, key_train, say)
        self.likelihood_ = self.model_.likelihood

    def _start(self, model, table: Table, batching: Batching, latents, say) -> VariationalAutoencoder:
        if not self.num_start_steps:
            return model
        key, first = jax.random.fold_in(jax.random.key(self.seed), 1), jnp.asarray(latents)
        started = lambda event: say({**event, "phase": "start"})  # noqa: E731
        return train(model, table, batching, bound_at_start, self.num_start_steps, self.learning_rate, key, started,
                     first)[0]  # fmt: skip

    def _optimise(self, model, table: Table, batching: Batching, key, say) -> None:
        self.model_, _ = train(model, table, batching, negative_bound, self.num_steps, self.learning_rate, key, say,
                               show=self._show)  # fmt: skip

    def _show(self, model: VariationalAutoencoder) -> None:
        if self.keep_snapshots:
            last = self.history_[-1]
            self.snapshots_.append(Snapshot(last["seconds"], last["processor_seconds"], last["done"], model))

    def _build(self, key, table: Table, law: AbstractLaw) -> VariationalAutoencoder:
        key_encoder, key_decoder = jax.random.split(key)
        shape = self.frame_.event_shape
        encoder = gaussian_encoder(self.encoder, key_encoder, shape, self.latent_dim_)
        decoder = networks.build_decoder(self.decoder, key_decoder, self.latent_dim_, shape)
        return VariationalAutoencoder(encoder, decoder, self.likelihood_, law)

    def _law(self, table: Table, latents, rng) -> AbstractLaw:
        return Independent()

    def _batching(self, law: AbstractLaw, table: Table) -> Batching:
        num_rows, (num_groups, longest) = table.x.shape[0], table.group_rows.shape
        if self.batch_size is None or self.batch_size >= num_rows:
            return FullBatch()
        if law.couples_rows and self.batch_size < longest:
            raise InputError(
                f"{type(self).__name__} couples all rows of a group, so batch_size must cover whole groups; got "
                f"{self.batch_size} for a group of {longest}. Use SVGPVAE or batch_size=None."
            )
        if num_groups > 1 and self.batch_size >= longest:
            return GroupBatch(min(max(1, self.batch_size // longest), num_groups))
        if num_groups > 1 and not isinstance(law, Independent | FreeSparse):
            raise InputError(
                f"{type(self).__name__} needs whole groups in a batch; got batch_size={self.batch_size} for groups of "
                f"up to {longest} rows. Pass batch_size=None, or at least {longest}."
            )
        return RowBatch(int(self.batch_size))

    # Answers.

    def as_of(self, snapshot: "Snapshot"):
        """This estimator as it was when a snapshot was taken."""
        then = copy.copy(self)
        then.model_, then.likelihood_ = snapshot.model, snapshot.model.likelihood
        return then

    def encode(self, x: Any = None, y: Any = None, groups: Any = None, num_draws: int | None = None) -> Predictive:
        """Latents of rows, seen or not, with or without gaps."""
        self._fitted()
        seen = self._observations(y)
        rows = self._rows(x, seen, groups)
        mean, sd = self._moments(rows)
        scores = normal_scores(self._num_answers(rows, num_draws), mean.shape, self.seed)
        columns = None if seen.frame.columns is None else [f"latent{i}" for i in range(self.latent_dim_)]
        unit = tables.Scaler(np.zeros(self.latent_dim_), np.ones(self.latent_dim_))
        frame = tables.Frame((self.latent_dim_,), columns)
        return Predictive((mean + sd * scores)[:, None], None, unit, frame, seen.frame.index, self.seed)

    def _eta(self, rows: Table, num_draws: int):
        mean, sd = self._moments(rows)
        scores = normal_scores(num_draws, mean.shape, self.seed)
        return np.stack([np.asarray(_decode(self.model_, jnp.asarray(mean + sd * s), rows.x)) for s in scores])

    def _moments(self, rows: Table) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of every row's latents."""
        evidence = self._evidence(rows)
        num_groups = evidence.group_rows.shape[0]
        asked = tables.arrange(np.asarray(rows.group), num_groups)
        kept = np.unique(np.asarray(rows.group))  # other groups say nothing
        law = _answer(self.model_, evidence._replace(group_rows=evidence.group_rows[kept]),
                      rows._replace(group_rows=jnp.asarray(asked[kept], jnp.int32)), jnp.asarray(kept))  # fmt: skip
        mean, variance = (np.asarray(a) for a in law)
        return mean, np.sqrt(variance)


@eqx.filter_jit
def _decode(model: VariationalAutoencoder, z, x):
    return model.decode(z, x)


@eqx.filter_jit
def _answer(model: VariationalAutoencoder, evidence: Table, rows: Table, groups):
    told, asked = (
        model.evidence(t.x, t.y, t.mask, jnp.ones(t.x.shape[0], bool), t.group_rows) for t in (evidence, rows)
    )
    latents = model.latents
    if isinstance(latents, FreeSparse):
        latents = eqx.tree_at(lambda q: (q.mean, q.root), latents, (latents.mean[groups], latents.root[groups]))
    law = latents.at(told, asked, jnp.ones(()))
    return tuple(gp.scatter(a, rows.group_rows, rows.x.shape[0]) for a in (law.mean, law.variance))


def gaussian_encoder(network, key, event_shape, latent_dim: int):
    """The encoder of a `encoder=` argument with a mean and a log variance for every latent."""
    if hasattr(network, "gaussian_encoder"):
        return network.gaussian_encoder(key, event_shape, latent_dim)
    return networks.build_encoder(network, key, event_shape, 2 * latent_dim)


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class CVAE(VAE):
    """VAE whose encoder and decoder are also told x (Sohn et al. 2015); latents are independent N(0, I).

    shared_code : whether rows of a group show one thing: a row without observed cells then has the mean of its
        group's codes, as in the comparisons of Jazbec et al. (2021), and not a draw from the prior.
    """

    shared_code: bool = False

    def _law(self, table: Table, latents, rng) -> AbstractLaw:
        return Independent(self.shared_code)

    def _read(self, x, y, groups):
        if self.shared_code and groups is None:
            raise InputError("shared_code=True needs groups, which say what rows show one thing; got none.")
        return super()._read(x, y, groups)

    def _inputs(self, x, num_rows):
        return Baseline._inputs(self, x, num_rows)

    def _asked(self, x, num_rows):
        return Baseline._asked(self, x, num_rows)

    def _build(self, key, table: Table, law: AbstractLaw) -> VariationalAutoencoder:
        key_encoder, key_decoder = jax.random.split(key)
        shape, D = self.frame_.event_shape, table.x.shape[1]
        unit = np.asarray(table.x).std(axis=0) if self.standardise else np.ones(D)
        condition = Condition(jnp.asarray(np.where(unit > 0, unit, 1.0)), shape)
        encoder = gaussian_encoder(self.encoder, key_encoder, condition.joined_shape, self.latent_dim_)
        decoder = networks.build_decoder(self.decoder, key_decoder, self.latent_dim_ + D, shape)
        return VariationalAutoencoder(encoder, decoder, self.likelihood_, law, condition)


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class GPVAE(VAE):
    """VAE with an exact Gaussian process over x as latent prior, one per group (Pearce 2019).

    The encoder's normals are pseudo-observations, and q is GP regression on them.

    kernel : a value of `gpbae.kernels`, a list with one per latent, or "auto".
    learn_kernel : whether its hyper-parameters are optimised with everything else.
    """

    kernel: Any = "auto"
    learn_kernel: bool = True

    _given_kernels = GPBAE._given_kernels
    _kernels = GPBAE._kernels
    _settle_latents = GPBAE._settle_latents  # type: ignore[assignment]

    def _inputs(self, x, num_rows):
        return Baseline._inputs(self, x, num_rows)

    def _asked(self, x, num_rows):
        return Baseline._asked(self, x, num_rows)

    def _x_location(self, x_values):
        return _without_labels(self, Baseline._x_location(self, x_values), x_values)

    def _law(self, table: Table, latents, rng) -> AbstractLaw:
        return Exact(self._chosen_kernels(table, latents, rng), self.learn_kernel)

    def _chosen_kernels(self, table, latents, rng):
        return self._kernels(np.asarray(table.x), latents, np.asarray(table.group), self.latent_dim_, rng)


def _without_labels(estimator, location, x_values):
    """Labels are names, not quantities, and stay where they are."""
    from gpbae.kernels import label_columns

    labels = [c for k in estimator._given_kernels() for c in label_columns(k, x_values.shape[1])]
    location[labels] = 0.0
    return location


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class SGPVAE(GPVAE):
    """VAE with a sparse Gaussian process as latent prior, on tables with gaps (Ashman et al. 2020).

    `encoder` may be a partial inference network: `FactorNet()`, `IndexNet()` or `PointNet()` of `gpbae.networks`; any
    other network sees zeros in the gaps, and the mask.  Adds to GPVAE: num_inducing.
    """

    num_inducing: int = 64

    def _check(self) -> None:
        super()._check()
        check_count("num_inducing", self.num_inducing, 1)

    def _inducing(self, kernel, table: Table, rng) -> jax.Array:
        features = np.asarray(kernel.features(table.x))
        return jnp.asarray(start.inducing_inputs(features, int(self.num_inducing), rng))

    def _law(self, table: Table, latents, rng) -> AbstractLaw:
        kernels = self._chosen_kernels(table, latents, rng)
        return Sparse(kernels, self._inducing(kernels[0], table, rng), self.learn_kernel)


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class SVGPVAE(SGPVAE):
    """VAE with a sparse variational Gaussian process as latent prior, in minibatches (Jazbec et al. 2021).

    q(v) is estimated from each batch, its pseudo-observations counted N/B times; with all rows in the batch the bound
    is that of SGPVAE.
    """

    batch_size: int | None = 256
    num_inducing: int = 32


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class DeepSVIGP(SGPVAE):
    """Stochastic variational Gaussian process (Hensman et al. 2013) with a network as likelihood and no encoder.

    q(v) is free, so nothing is known of a group that was not fitted, and observed cells of new rows say nothing; the
    `encoder` argument, which the others share, has no effect.

    batch_size : rows per step; None takes all, "auto" 256 of a table without groups and all of one with groups.
    """

    batch_size: int | str | None = "auto"
    num_inducing: int = 32

    def _check(self) -> None:
        chosen = dataclasses.replace(self, batch_size=None) if self.batch_size == "auto" else self
        SGPVAE._check(chosen)

    def _build(self, key, table: Table, law: AbstractLaw) -> VariationalAutoencoder:
        decoder = networks.build_decoder(self.decoder, key, self.latent_dim_, self.frame_.event_shape)
        return VariationalAutoencoder(None, decoder, self.likelihood_, law)

    def _law(self, table: Table, latents, rng) -> AbstractLaw:
        kernels = self._chosen_kernels(table, latents, rng)
        shape = (table.group_rows.shape[0], self.latent_dim_, self.num_inducing)
        mean = jnp.asarray(0.1 * rng.standard_normal(shape))
        spread = jnp.broadcast_to(-2.0 * jnp.eye(shape[-1]), (*shape, shape[-1]))
        return FreeSparse(kernels, self._inducing(kernels[0], table, rng), mean, spread, self.learn_kernel)

    def _batching(self, law, table: Table) -> Batching:
        num_groups, is_auto = table.group_rows.shape[0], self.batch_size == "auto"
        size = (None if num_groups > 1 else AUTO_BATCH_SIZE) if is_auto else self.batch_size
        if size is None or int(size) >= table.x.shape[0]:
            return FullBatch()
        if num_groups > 1:
            raise InputError(
                f"DeepSVIGP takes all rows where there are groups; got batch_size={size}. Pass None, or leave it out."
            )
        return RowBatch(int(size))

    def _rows(self, x, seen, groups) -> Table:
        rows = super()._rows(x, seen, groups)
        if int(rows.group.max()) >= len(self.groups_):
            raise InputError("DeepSVIGP has no encoder, so it knows only the groups it was fitted to; use SVGPVAE.")
        return rows
