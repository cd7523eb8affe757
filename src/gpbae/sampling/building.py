"""From an estimator's arguments and a table to a model, a plan, starting points and chains."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gpbae import networks, weights
from gpbae.autoencoder import Autoencoder
from gpbae.errors import InputError
from gpbae.priors import NormalPrior
from gpbae.processes import distributed
from gpbae.sampling import run, start, starting
from gpbae.sampling.batches import FullBatch, GroupBatch, RowBatch, Table
from gpbae.sampling.inference import Plan
from gpbae.tabular import choice, tables, transforms

LARGEST_PERSISTENT = 50_000_000
LARGEST_REFRESHED = 100_000
LARGEST_WARPED = 12_500
"""Latents.  Beyond, moves that look at the whole table cost more than the minibatch steps between them."""


MOST_PATHS = 64
"""Columns that may have a path of their own, each with a kernel: a pixel is no column in this sense."""

LARGEST_SEED = 2**62
"""Seeds are keys of 64 bits, some of them with a number added."""


class Building:
    """Reads the arguments of an estimator; what differs between models is a method to override."""

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
        likelihood, self.likelihood_choice_ = choice.choose(self.likelihood, seen)
        likelihood = likelihood.initialise(seen.values, seen.mask)
        are_real = np.array([kind == "real" for kind in likelihood.kinds(num_columns)])
        wanted = self._transforms(seen, are_real)
        scaler = tables.fit_scaler(seen.values, seen.mask, are_real & self.standardise, wanted)
        y_values = np.where(seen.mask, scaler.forward(seen.values), 0.0)
        tables.check_scaled(y_values, seen.mask)
        features = _features(likelihood, y_values, seen.mask)
        output_shape = networks.widened(seen.frame.event_shape, likelihood.owners(num_columns))
        input_shape = seen.frame.event_shape if features[0].shape[1] == num_columns else features[0].shape[1:]
        latent_dim = self._latent_dim(output_shape, num_columns, *features)
        latents = self._starting_latents(likelihood, y_values, seen, features, latent_dim, rng)
        self.frame_, self.scaler_, self.groups_ = seen.frame, scaler, labels.labels
        self.x_columns_ = tables.column_names(x)
        self.grouped_ = groups is not None
        self.x_location_ = self._x_location(x_values)
        x_centred = x_values - self.x_location_
        latents = self._settle_latents(latents, y_values, seen, x_centred, labels.codes, rng)
        prior = self._prior(x_centred, latents, labels.codes, latent_dim, rng)
        group_rows = tables.arrange(labels.codes, len(labels.labels))
        batching = self._batching(prior, num_rows, group_rows)
        decoder_of = lambda k: networks.build_decoder(self.decoder, k, latent_dim, output_shape)  # noqa: E731
        encoder_of = lambda k: networks.build_encoder(self.encoder, k, input_shape, latent_dim)  # noqa: E731
        skeleton = _checked(decoder_of(jax.random.key(0)), latent_dim, output_shape)
        dtype = networks.network_dtype(skeleton)
        table = Table(jnp.asarray(x_centred), jnp.asarray(y_values, dtype), jnp.asarray(seen.mask),
                      jnp.asarray(labels.codes, jnp.int32), jnp.asarray(group_rows, jnp.int32))  # fmt: skip
        model = Autoencoder(prior, eqx.filter(skeleton, eqx.is_inexact_array, inverse=True), self._weight_prior(),
                            likelihood, batching.values_are_local)  # fmt: skip
        return model, self._plan(batching, prior, num_rows * latent_dim), table, decoder_of, encoder_of, latents

    def _check_arguments(self) -> None:
        counts = {"num_chains": 1, "num_warmup": 1, "num_samples": 1, "thinning": 1, "sampler_steps": 1,
                  "encoder_steps": 0, "num_map_steps": 0, "seed": 0}  # fmt: skip
        for name, least in counts.items():
            check_count(name, getattr(self, name), least)
        for name in ("latent_dim", "batch_size"):
            check_count(name, getattr(self, name), 1, or_none=True)
        for name, low, high in (("friction", 0, 1), ("temperature", 0, np.inf)):
            if not is_number(getattr(self, name)) or not low < getattr(self, name) < high:
                raise InputError(f"{name} must lie between {low} and {high}; got {getattr(self, name)!r}.")
        distributed.check_chains(self.num_chains)
        noise = getattr(self, "latent_noise", 0.0)
        if not is_number(noise) or not 0 <= noise < np.inf:
            raise InputError(f"latent_noise must be a number of at least 0; got {noise!r}.")
        if self.seed >= LARGEST_SEED:
            raise InputError(f"seed must be below {LARGEST_SEED}; got {self.seed}.")
        for name in ("standardise", "sample_hyperparameters", "sample_latent_noise", "sample_inducing"):
            if not isinstance(getattr(self, name, False), bool | np.bool_):
                raise InputError(f"{name} must be True or False; got {getattr(self, name)!r}.")
        if self.latents not in ("auto", "persistent", "amortised"):
            raise InputError(f"latents must be 'auto', 'persistent' or 'amortised'; got {self.latents!r}.")
        by_itself = isinstance(self.step_size, str) and self.step_size == "auto"
        if not by_itself and not (is_number(self.step_size) and 0 < self.step_size < np.inf):
            raise InputError(f"step_size must be 'auto' or a number above 0; got {self.step_size!r}.")

    # What differs between models.

    def _inputs(self, x, num_rows) -> np.ndarray:
        if x is not None:
            tables.inputs(x, num_rows)  # checked, then forgotten: latents do not depend on it
        return np.zeros((num_rows, 1))

    def _x_location(self, x_values) -> np.ndarray:
        return x_values.mean(axis=0) if self.standardise else np.zeros(x_values.shape[1])

    def _settle_latents(self, latents, y_values, seen, x, codes, rng) -> np.ndarray:
        """Of the ways to start, the one whose neighbours look alike: without inputs there is no other judge."""
        if not self._may_be_placed(y_values, seen, latents.shape[1]):
            return latents
        spatial, _ = start.spatial_latents(y_values, seen.mask, seen.frame.event_shape, latents.shape[1], rng)
        return spatial if start.is_clearer(spatial, latents, y_values, seen.mask) else latents

    def _prior(self, x, latents, codes, latent_dim, rng):
        return NormalPrior(latent_dim)

    # What all have.

    def _may_be_placed(self, y_values, seen, latent_dim) -> bool:
        """Whether places in the image could be latents: not where the decoder says what latents are, nor where
        principal components say most of it."""
        told = networks.Identity | networks.Private | networks.Starting
        knows = isinstance(self.decoder, told) or self.decoder == "identity"
        shown = networks.is_image(seen.frame.event_shape) and not knows
        return shown and not start.is_low_rank(y_values, seen.mask, latent_dim)

    def _transforms(self, seen, are_real) -> tuple[transforms.Transform, ...]:
        """Of real columns; asked for by a column's name, any other column is a mistake."""
        by_name, names = not isinstance(self.transform, str | None), seen.frame.names()
        asked = [by_name and transforms.word(self.transform, str(name)) != "auto" for name in names]
        wanted = transforms.fit(self.transform, np.where(are_real | np.array(asked), seen.values, np.nan), names)
        odd = [i for i, t in enumerate(wanted) if not are_real[i] and not isinstance(t, transforms.Identity)]
        if odd and (by_name or not are_real.any()):
            raise InputError(
                f"transform is for real-valued columns; got {self.transform!r} with column {names[odd[0]]!r}, whose "
                f"likelihood is {self.likelihood!r}. Leave it out, or pass likelihood=Gaussian() for it."
            )
        return tuple(transforms.Identity() if i in odd else t for i, t in enumerate(wanted))

    def _latent_dim(self, output_shape, num_columns, features, known) -> int:
        """Of what the decoder takes: the latents asked for, or as many as suit the table, and those of the columns."""
        own = networks.num_private(self.decoder, output_shape)
        if own and not self._may_have_paths(own, num_columns):
            raise InputError(
                "decoder=Private() gives each column a path over x, so it needs a model with a kernel, one output for "
                f"each column and at most {MOST_PATHS} of them; got {type(self).__name__} with {own} outputs for "
                f"{num_columns} columns. Use decoder='auto'."
            )
        return self._num_shared(output_shape, features, known) + own

    def _may_have_paths(self, num_outputs: int, num_columns: int) -> bool:
        """Whether decoder=Private() could give each column a path of its own."""
        return hasattr(self, "kernel") and num_outputs == num_columns <= MOST_PATHS

    def _num_shared(self, output_shape, features, known) -> int:
        if self.latent_dim is not None:
            return int(self.latent_dim)
        identity = isinstance(self.decoder, networks.Identity) or self.decoder == "identity"
        return math.prod(output_shape) if identity else start.choose_latent_dim(features, known)

    def _starting_latents(self, likelihood, y_values, seen, features, latent_dim, rng) -> np.ndarray:
        if isinstance(self.decoder, networks.Identity) or self.decoder == "identity":
            outputs = np.asarray(likelihood.link(jnp.asarray(y_values)))
            return np.where(seen.mask[:, likelihood.owners(y_values.shape[1])], outputs, 0.0)
        if isinstance(self.decoder, networks.Starting):
            return self.decoder.starting_latents(y_values, seen.mask, seen.frame.event_shape, latent_dim)
        if isinstance(self.decoder, networks.Private):
            return start.private_latents(*features, latent_dim - features[0].shape[1], rng)
        return start.principal_latents(*features, latent_dim, rng)

    def _weight_prior(self):
        if isinstance(self.weight_prior, weights.AbstractWeightPrior):
            return self.weight_prior
        if not isinstance(self.weight_prior, str) or self.weight_prior not in weights.WORDS:
            raise InputError(f"weight_prior must be one of {', '.join(weights.WORDS)}; got {self.weight_prior!r}.")
        return weights.WORDS[self.weight_prior]()

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
        if prior.couples_rows or (num_groups > 1 and self.batch_size >= longest):
            return GroupBatch(min(max(1, self.batch_size // longest), num_groups))
        return RowBatch(int(self.batch_size))

    def _plan(self, batching, prior, num_latents: int) -> Plan:
        fits = num_latents <= LARGEST_PERSISTENT
        amortised = self.latents == "amortised" or (self.latents == "auto" and not fits and not prior.couples_rows)
        if amortised and prior.couples_rows:
            raise InputError(
                f"{type(self).__name__} predicts from the latents of all fitted rows, which latents='amortised' does "
                "not keep; use latents='persistent' or SGPBAE."
            )
        # components of a tempered mixture have another law than the mixture tempered, and need latents that last
        conjugate = prior.collapses or (prior.conjugates and self.temperature == 1 and not amortised)
        dear = not (prior.collapses or batching.is_exact)  # hidden layers take trajectories over rows of no batch
        few = num_latents <= (LARGEST_WARPED if dear else LARGEST_REFRESHED)
        refresh = conjugate and (batching.is_exact or not amortised) and few
        collapsed = refresh and (batching.is_exact or (prior.collapses and not isinstance(batching, RowBatch)))
        return Plan(batching, self.sampler_steps, self.encoder_steps, amortised, refresh, collapsed)

    def _budget(self) -> run.Budget:
        return run.Budget(self.num_warmup, self.num_samples, self.thinning, self.num_map_steps, self.friction,
                          self.temperature, self.step_size)  # fmt: skip

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
            chains.append(starting.start_chain(model, plan, table, decoder_of(key_decoder), encoder, noisy, key_chain))
        static = eqx.filter(encoder, eqx.is_inexact_array, inverse=True)
        return starting.side_by_side(chains), static


def _features(likelihood, y_values, mask) -> tuple[np.ndarray, np.ndarray]:
    values, known = likelihood.features(jnp.asarray(y_values), jnp.asarray(mask))
    return np.asarray(values), np.asarray(known)


def _checked(decoder, latent_dim: int, output_shape: tuple[int, ...]):
    """A decoder that maps a latent vector to as many outputs as the likelihood needs."""
    z = jax.ShapeDtypeStruct((latent_dim,), networks.network_dtype(decoder))
    try:
        found = math.prod(eqx.filter_eval_shape(decoder, z).shape)
    except InputError:
        raise
    except Exception as problem:  # whatever a user's own code may raise
        raise InputError(f"decoder must take a vector of {latent_dim} latents; on one it failed: {problem}.") from None
    if found != (expected := math.prod(output_shape)):
        raise InputError(f"decoder must give {expected} outputs for this table and likelihood; got {found}.")
    return decoder


def is_number(value: Any) -> bool:
    """One real number, Python's or NumPy's, and not a truth value."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def check_count(name: str, value: Any, least: int, or_none: bool = False) -> None:
    if value is None and or_none:
        return
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        either = " or None" if or_none else ""
        raise InputError(f"{name} must be a whole number of at least {least}{either}; got {value!r}.")


def check_positive(name: str, value: Any) -> None:
    if not is_number(value) or not 0 < value < math.inf:
        raise InputError(f"{name} must be a number above 0; got {value!r}.")


def check_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False; got {value!r}.")
