"""Every theorem holds for every kernel: to add a kernel, add a row to KERNELS (and to REFERENCES)."""

import copy
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from jax.flatten_util import ravel_pytree
from scipy.spatial.distance import cdist

from gpbae import kernels
from gpbae.errors import InputError
from gpbae.kernels import (
    RBF,
    Cauchy,
    Constant,
    Embed,
    Frozen,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    Polynomial,
    Product,
    RationalQuadratic,
    Select,
    Sum,
    White,
    describe,
    hyper_log_prior,
    label_columns,
    sampled,
)

gram = eqx.filter_jit(kernels.gram)
diagonal = eqx.filter_jit(kernels.diagonal)

SCALES = (0.5, 0.9, 2.0)

STATIONARY = {
    "RBF": lambda **kw: RBF(**kw),
    "Matern12": lambda **kw: Matern12(**kw),
    "Matern32": lambda **kw: Matern32(**kw),
    "Matern52": lambda **kw: Matern52(**kw),
    "Cauchy": lambda **kw: Cauchy(**kw),
    "RationalQuadratic": lambda **kw: RationalQuadratic(mixture=0.8, **kw),
    "Periodic": lambda **kw: Periodic(period=1.7, **kw),
}

KERNELS = {
    **{name: make(lengthscale=0.7, variance=1.3) for name, make in STATIONARY.items()},
    "RBF per column": RBF(SCALES, 1.3),
    "Matern52 per column": Matern52(SCALES, 1.3),
    "Periodic learned": Periodic(period=(1.7, 2.0, 3.0), lengthscale=SCALES, learn_period=True),
    "Linear": Linear(variance=0.4),
    "Linear per column": Linear(variance=SCALES),
    "Polynomial": Polynomial(degree=3, offset=0.5, variance=0.2),
    "Constant": Constant(variance=0.6),
    "White": White(variance=0.2),
    "Sum": RBF(0.7) + Linear(0.4) + 0.3,
    "Product": 2.0 * RBF(0.7) * (Linear(0.4) + Constant(0.5)),
    "Select": Matern52((0.5, 0.9)).on(0, 2) * Periodic(1.7, 0.8).on(1),
    "Embed": Embed(RBF(0.7).on(0, 1) * Linear(0.4).on(2, 3), column=2, num_labels=4, dim=2),
    "Frozen": Frozen(RBF(0.7)) * RBF(0.9),
}
CONTINUOUS = [name for name in KERNELS if name != "White"]

every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
every_stationary = pytest.mark.parametrize("make", STATIONARY.values(), ids=STATIONARY)


def some(names):
    return pytest.mark.parametrize("kernel", [KERNELS[name] for name in names], ids=names)


def draw_rows(num_rows, seed=0):
    """Two real columns and a column of labels, the first two rows equal."""
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.normal(size=(num_rows, 2)), rng.integers(0, 4, num_rows)])
    rows[1] = rows[0]
    return jnp.asarray(rows)


ROWS, OTHER_ROWS = draw_rows(24), draw_rows(24, seed=1)  # of one shape, so that a kernel compiles once


def r2(X, Y, lengthscale=0.7):
    """Squared distances in units of the lengthscale, as SciPy sees them."""
    return cdist(X / np.asarray(lengthscale), Y / np.asarray(lengthscale), "sqeuclidean")


def matern(X, Y, nu):
    from sklearn.gaussian_process.kernels import Matern

    return 1.3 * Matern(0.7, nu=nu)(X, Y)


def rational_quadratic(X, Y):
    from sklearn.gaussian_process.kernels import RationalQuadratic

    return 1.3 * RationalQuadratic(0.7, 0.8)(X, Y)


def periodic(X, Y):
    from sklearn.gaussian_process.kernels import ExpSineSquared

    columns = [ExpSineSquared(0.7, 1.7)(X[:, [d]], Y[:, [d]]) for d in range(3)]
    return 1.3 * math.prod(columns)


REFERENCES = {
    "RBF": lambda X, Y: 1.3 * np.exp(-0.5 * r2(X, Y)),
    "RBF per column": lambda X, Y: 1.3 * np.exp(-0.5 * r2(X, Y, SCALES)),
    "Matern12": lambda X, Y: matern(X, Y, 0.5),
    "Matern32": lambda X, Y: matern(X, Y, 1.5),
    "Matern52": lambda X, Y: matern(X, Y, 2.5),
    "Matern52 per column": lambda X, Y: matern(X * 0.7 / SCALES, Y * 0.7 / SCALES, 2.5),
    "Cauchy": lambda X, Y: 1.3 / (1.0 + r2(X, Y)),
    "RationalQuadratic": rational_quadratic,
    "Periodic": periodic,
    "Linear": lambda X, Y: 0.4 * X @ Y.T,
    "Linear per column": lambda X, Y: (X * SCALES) @ Y.T,
    "Polynomial": lambda X, Y: 0.2 * (X @ Y.T + 0.5) ** 3,
    "Constant": lambda X, Y: np.full((len(X), len(Y)), 0.6),
    "White": lambda X, Y: 0.2 * (cdist(X, Y) == 0.0),
    "Sum": lambda X, Y: np.exp(-0.5 * r2(X, Y)) + 0.4 * X @ Y.T + 0.3,
    "Product": lambda X, Y: 2.0 * np.exp(-0.5 * r2(X, Y)) * (0.4 * X @ Y.T + 0.5),
    "Frozen": lambda X, Y: np.exp(-0.5 * r2(X, Y)) * np.exp(-0.5 * r2(X, Y, 0.9)),
}


# What a covariance function is


@every_kernel
def test_gram_is_symmetric_and_positive_semidefinite(kernel):
    X = kernel.features(ROWS)
    K = np.asarray(gram(kernel, X, X))
    np.testing.assert_allclose(K, K.T, rtol=1e-13)
    assert np.linalg.eigvalsh(K)[0] > -1e-10 * np.trace(K)


@every_kernel
def test_gram_is_the_definition_on_all_pairs(kernel):
    X = kernel.features(ROWS)
    Y = X.at[5:].set(kernel.features(OTHER_ROWS)[5:])
    definition = jax.jit(jax.vmap(jax.vmap(kernel, (None, 0)), (0, None)))(X, Y)
    np.testing.assert_allclose(gram(kernel, X, Y), definition, rtol=1e-12, atol=1e-12)


@every_kernel
def test_diagonal_is_that_of_the_gram_matrix(kernel):
    X = kernel.features(ROWS)
    np.testing.assert_allclose(diagonal(kernel, X), jnp.diagonal(gram(kernel, X, X)), rtol=1e-12)


def every_equation(kernel, X):
    return jax.make_jaxpr(lambda X: kernels.diagonal(kernel, X))(X).eqns


@every_kernel
def test_diagonal_of_many_rows_builds_no_matrix(kernel):
    X = kernel.features(ROWS)
    X = jax.ShapeDtypeStruct((200_000, X.shape[1]), X.dtype)
    sizes = [math.prod(v.aval.shape) for eqn in every_equation(kernel, X) for v in eqn.outvars]
    assert max(sizes) <= 200_000 * 8


@pytest.mark.parametrize("name", REFERENCES)
def test_gram_agrees_with_an_independent_reference(name):
    X, Y = np.asarray(ROWS), np.concatenate([OTHER_ROWS[5:], ROWS[:5]])
    actual = gram(KERNELS[name], jnp.asarray(X), jnp.asarray(Y))
    np.testing.assert_allclose(actual, REFERENCES[name](X, Y), rtol=1e-12, atol=1e-12)


@every_stationary
@pytest.mark.parametrize("lengthscale", [1e-8, 1e-3, 1e8])
def test_equal_inputs_have_correlation_one_at_any_lengthscale(make, lengthscale):
    K = gram(make(lengthscale=lengthscale), ROWS, ROWS)
    np.testing.assert_array_equal(np.diagonal(K), 1.0)
    assert K[0, 1] == 1.0


def test_rational_quadratic_tends_to_the_rbf():
    limit = gram(RationalQuadratic(0.7, mixture=1e8), ROWS, ROWS)
    np.testing.assert_allclose(limit, gram(RBF(0.7), ROWS, ROWS), atol=1e-7)


# Derivatives


def energy(kernel):
    """A scalar function of everything sampled and of the inputs, some of which coincide; and where to evaluate it."""
    leaves, static = eqx.partition(kernel, sampled(kernel))
    X = kernel.features(ROWS)[:8]
    start, unravel = ravel_pytree((leaves, X, X[:4]))
    weights = jnp.asarray(np.random.default_rng(3).normal(size=(8, 4)))

    def value(flat):
        leaves, X, Y = unravel(flat)
        k = eqx.combine(leaves, static)
        return jnp.sum(weights * kernels.gram(k, X, Y)) + jnp.sum(kernels.diagonal(k, X) ** 2)

    return value, start


def directions(size, num_leaves):
    """Random directions that move hyper-parameters only, or inputs only: a kink at equal inputs stays symmetric."""
    U = np.random.default_rng(4).normal(size=(20, size))
    U[:10, num_leaves:] = 0.0
    U[10:, :num_leaves] = 0.0
    return jnp.asarray(U)


@some(CONTINUOUS)
def test_gradient_is_that_of_central_differences_also_where_inputs_coincide(kernel):
    value, start = energy(kernel)
    U, h = directions(start.size, start.size - 12 * kernel.features(ROWS).shape[1]), 1e-5
    f = jax.jit(jax.value_and_grad(value))
    slopes = [(f(start + h * u)[0] - f(start - h * u)[0]) / (2.0 * h) for u in U]
    np.testing.assert_allclose(U @ f(start)[1], slopes, rtol=1e-6, atol=1e-7)


@some(["RBF", "Matern52", "RationalQuadratic", "Periodic learned"])
def test_hessian_product_is_that_of_central_differences_also_where_inputs_coincide(kernel):
    value, start = energy(kernel)
    gradient, h = jax.jit(jax.grad(value)), 1e-5
    u = jnp.cos(jnp.arange(float(start.size)))
    product = jax.jit(lambda x: jax.jvp(gradient, (x,), (u,))[1])(start)
    slope = (gradient(start + h * u) - gradient(start - h * u)) / (2.0 * h)
    np.testing.assert_allclose(product, slope, rtol=1e-5, atol=1e-6 * np.abs(slope).max())


@pytest.mark.parametrize(
    ("kernel", "curvature"), [(RBF(0.5, 2.0), 1.0), (Matern32(0.5, 2.0), 3.0), (Matern52(0.5, 2.0), 5.0 / 3.0)]
)
def test_the_variance_of_a_slope_is_the_curvature_of_the_kernel(kernel, curvature):
    """Var f′(x) = −k″(0): 1, 3 and 5/3 times σ²/ℓ². A square root differentiated at zero loses it."""
    x = jnp.array([[0.3]])
    second = jax.jit(jax.hessian(lambda y: kernels.gram(kernel, x, y)[0, 0]))(x)
    np.testing.assert_allclose(jnp.sum(second), -curvature * 2.0 / 0.25, rtol=1e-12)


@some(["Matern12", "White"])
def test_derivatives_are_finite_where_the_kernel_has_none(kernel):
    value, start = energy(kernel)
    derivatives = jax.jit(lambda x: jax.jvp(jax.grad(value), (x,), (jnp.ones_like(x),)))(start)
    assert all(np.all(np.isfinite(derivative)) for derivative in derivatives)


# Algebra and wrappers


def test_plus_and_times_are_those_of_matrices_and_flatten():
    a, b, c = RBF(0.7), Linear(), Matern32(0.5)
    A, B, C = (gram(k, ROWS, OTHER_ROWS) for k in (a, b, c))
    np.testing.assert_allclose(gram(a + b * c, ROWS, OTHER_ROWS), A + B * C, rtol=1e-14)
    np.testing.assert_allclose(gram((a + b) * c, ROWS, OTHER_ROWS), (A + B) * C, rtol=1e-14)
    assert len((a + b + c).terms) == len((a * b * c).terms) == 3


def test_a_plain_number_is_a_constant_that_is_not_sampled():
    for kernel, expected in [(3.0 * RBF(0.7), 3.0), (RBF(0.7) * 3, 3.0), (2.0 + RBF(0.7), 3.0), (RBF(0.7) + 2, 3.0)]:
        np.testing.assert_allclose(diagonal(kernel, ROWS), expected, rtol=1e-14)
        assert len(jax.tree.leaves(eqx.filter(kernel, sampled(kernel)))) == 2


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan])
def test_a_kernel_is_not_scaled_by_what_is_not_positive(wrong):
    with pytest.raises(InputError, match="positive number"):
        wrong * RBF()


@every_stationary
def test_one_lengthscale_is_that_lengthscale_for_every_column(make):
    shared, separate = make(lengthscale=0.6), make(lengthscale=(0.6, 0.6, 0.6))
    np.testing.assert_allclose(gram(shared, ROWS, OTHER_ROWS), gram(separate, ROWS, OTHER_ROWS), rtol=1e-14)


def test_a_very_long_lengthscale_switches_a_column_off():
    wide = gram(RBF((0.5, 1e9, 1e9)), ROWS, OTHER_ROWS)
    np.testing.assert_allclose(wide, gram(RBF(0.5).on(0), ROWS, OTHER_ROWS), rtol=1e-12)


def test_a_selected_kernel_sees_its_columns_only():
    kernel = RBF((0.5, 0.9)).on(2, 0)
    np.testing.assert_allclose(
        gram(kernel, ROWS, OTHER_ROWS), gram(RBF((0.9, 0.5)), ROWS[:, ::2], OTHER_ROWS[:, ::2]), rtol=1e-13
    )
    with pytest.raises(InputError, match="at least one column"):
        RBF().on()


def test_white_is_zero_between_distinct_inputs():
    np.testing.assert_array_equal(gram(White(0.2), ROWS, OTHER_ROWS), 0.0)
    K = gram(White(0.2), ROWS, ROWS)
    expected = 0.2 * np.eye(24)
    expected[0, 1] = expected[1, 0] = 0.2
    np.testing.assert_allclose(K, expected, rtol=1e-15)


def test_embed_replaces_the_label_by_its_vector_at_the_end():
    vectors = np.arange(8.0).reshape(4, 2)
    kernel = Embed(Linear(), column=1, num_labels=4, dim=2, vectors=vectors)
    features = kernel.features(jnp.array([[0.5, 3.0, 0.25], [0.1, 0.0, 0.2]]))
    np.testing.assert_array_equal(features, [[0.5, 0.25, 6.0, 7.0], [0.1, 0.2, 0.0, 1.0]])
    np.testing.assert_allclose(gram(kernel, features, features), features @ features.T, rtol=1e-14)


def test_embedding_vectors_get_a_gradient_for_the_labels_that_occur():
    kernel = Embed(RBF(1.0), column=0, num_labels=3, dim=2)
    rows = jnp.array([[0.0], [2.0]])

    def value(kernel):
        X = kernel.features(rows)
        return kernels.gram(kernel, X, X)[0, 1]

    moved = np.any(np.asarray(eqx.filter_jit(eqx.filter_grad(value))(kernel).vectors) != 0.0, axis=1)
    np.testing.assert_array_equal(moved, [True, False, True])


def test_two_label_columns_are_two_embeddings():
    inner = Embed(RBF(1.0), column=1, num_labels=2, dim=1, vectors=np.array([[5.0], [6.0]]))
    kernel = Embed(inner, column=0, num_labels=2, dim=1, vectors=np.array([[7.0], [8.0]]))
    np.testing.assert_array_equal(kernel.features(jnp.array([[1.0, 0.5, 0.0]])), [[0.5, 8.0, 5.0]])
    assert label_columns(Frozen(kernel), 3) == (0, 2)
    assert label_columns(RBF(), 3) == ()


@pytest.mark.parametrize("label", [-1.0, 4.0, 0.5])
def test_a_label_out_of_range_is_refused(label):
    with pytest.raises(InputError, match="labels 0 to 3"):
        KERNELS["Embed"].initialise(np.array([[0.0, 0.0, label]]))


@pytest.mark.parametrize("label", [-1.0, 4.0])
def test_a_label_out_of_range_is_never_mistaken_for_another(label):
    assert np.all(np.isnan(KERNELS["Embed"].features(jnp.array([[0.0, 0.0, label]]))[:, 2:]))


@pytest.mark.parametrize("combine", [lambda k: k + RBF(), lambda k: RBF() * Frozen(k), lambda k: k.on(0)])
def test_embed_is_outermost(combine):
    with pytest.raises(InputError, match="outermost"):
        combine(KERNELS["Embed"])


def test_frozen_leaves_are_not_sampled_and_nothing_else_changes():
    inner = KERNELS["Embed"]
    frozen = Frozen(inner)
    assert not any(jax.tree.leaves(sampled(frozen)))
    assert all(jax.tree.leaves(sampled(inner)))
    X = frozen.features(ROWS)
    np.testing.assert_array_equal(gram(frozen, X, X), gram(inner, X, X))


def test_the_period_is_sampled_only_if_asked():
    held, learned = Periodic(1.7, 0.7), Periodic(1.7, 0.7, learn_period=True)
    assert len(jax.tree.leaves(eqx.filter(held, sampled(held)))) == 2
    assert len(jax.tree.leaves(eqx.filter(learned, sampled(learned)))) == 3
    np.testing.assert_allclose(gram(held, ROWS, OTHER_ROWS), gram(learned, ROWS, OTHER_ROWS), rtol=1e-12)


# Lengthscales from data


def test_an_open_lengthscale_is_the_median_distance_per_column_times_the_root_of_their_number():
    X = np.random.default_rng(0).normal(size=(50, 3)) * np.array([1.0, 10.0, 0.1])
    i, j = np.triu_indices(50, 1)
    expected = np.sqrt(3) * np.median(np.abs(X[i] - X[j]), axis=0)
    np.testing.assert_allclose(np.exp(RBF().initialise(X).log_lengthscale), expected, rtol=1e-12)
    np.testing.assert_allclose(np.exp(RBF().initialise(X, 0.5).log_lengthscale), expected / 2.0, rtol=1e-12)


def test_a_given_lengthscale_is_left_alone():
    X = np.asarray(ROWS)
    assert RBF(0.3).initialise(X, 2.0) == RBF(0.3)
    assert RBF(0.3).log_lengthscale.shape == (1,)


@every_stationary
def test_open_lengthscales_give_a_sound_kernel_wherever_they_are(make):
    kernel = Frozen((1.5 * make() + make().on(0)) * make(lengthscale=2.0))
    K = gram(kernel.initialise(np.asarray(ROWS)), ROWS, ROWS)
    assert np.all(np.isfinite(K)) and 0.0 < np.min(K) < np.max(K)


def test_embed_opens_lengthscales_in_feature_space():
    kernel = Embed(RBF(), column=2, num_labels=4, dim=2).initialise(np.asarray(ROWS))
    features = np.asarray(kernel.features(ROWS))
    np.testing.assert_allclose(kernel.kernel.log_lengthscale, RBF().initialise(features).log_lengthscale, rtol=1e-12)


@pytest.mark.parametrize("num_rows", [1, 2, 5000])
def test_constant_and_mostly_constant_columns_have_a_lengthscale(num_rows):
    X = np.zeros((num_rows, 2))
    X[0, 1] = 4.0
    lengthscale = np.exp(RBF().initialise(X).log_lengthscale)
    np.testing.assert_allclose(lengthscale[0], np.sqrt(2.0), rtol=1e-12)
    assert np.all(lengthscale > 0.0) and (num_rows != 2 or np.isclose(lengthscale[1], 4.0 * np.sqrt(2.0)))


def test_a_kernel_without_lengthscale_says_what_to_do():
    with pytest.raises(InputError, match=r"RBF has no lengthscale yet.*initialise"):
        gram(RBF(), ROWS, ROWS)


@pytest.mark.parametrize(
    "make",
    [
        lambda: RBF(0.0),
        lambda: RBF((1.0, -1.0)),
        lambda: RBF(np.array([[1.0]])),
        lambda: RBF(1.0, variance=math.inf),
        lambda: Periodic(period=-1.0),
        lambda: Polynomial(degree=2, offset=0.0),
        lambda: Polynomial(degree=0),
        lambda: Embed(RBF(), 0, num_labels=3, dim=2, vectors=np.ones((2, 2))),
    ],
)
def test_wrong_values_are_refused_in_one_sentence(make):
    with pytest.raises(InputError, match="must"):
        make()


# Hyper-parameters


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_hyper_prior_is_normal_on_the_log_scale(scale):
    reference = RationalQuadratic((0.5, 0.9), variance=1.2, mixture=0.8) + 0.5 * Linear(0.3) + Periodic(2.0, 0.4)
    kernel = RationalQuadratic((0.6, 0.7), variance=1.5, mixture=0.9) + 0.5 * Linear(0.2) + Periodic(2.0, 0.5)
    lengthscales = scipy.stats.norm.logpdf(np.log([0.6, 0.7, 0.5]), np.log([0.5, 0.9, 0.4]), scale)
    others = scipy.stats.norm.logpdf(np.log([1.5, 0.9, 0.2, 1.0]), np.log([1.2, 0.8, 0.3, 1.0]), 0.5 * scale)
    actual = hyper_log_prior(kernel, reference, scale)
    np.testing.assert_allclose(actual, lengthscales.sum() + others.sum(), rtol=1e-12)


def test_embedding_vectors_are_standard_normal_a_priori():
    kernel = Embed(Frozen(RBF(1.0)), column=0, num_labels=3, dim=2)
    expected = scipy.stats.norm.logpdf(kernel.vectors).sum()
    np.testing.assert_allclose(hyper_log_prior(kernel, kernel, scale=0.1), expected, rtol=1e-12)


def test_a_frozen_kernel_has_no_prior():
    assert hyper_log_prior(Frozen(RBF(1.0)), Frozen(RBF(2.0))) == 0.0


def test_description_names_natural_values():
    kernel = 2.0 * RBF(0.5) + RBF((0.25, 4.0), 3.0).on(0, 1) * Periodic(24.0, 0.75, learn_period=True)
    values = {name: np.asarray(value).tolist() for name, value in describe(kernel).items()}
    assert values == {
        "RBF[0].lengthscale": pytest.approx([0.5]),
        "RBF[0].variance": pytest.approx(1.0),
        "RBF[1].lengthscale": pytest.approx([0.25, 4.0]),
        "RBF[1].variance": pytest.approx(3.0),
        "Periodic.lengthscale": pytest.approx([0.75]),
        "Periodic.variance": pytest.approx(1.0),
        "Periodic.period": pytest.approx([24.0]),
    }
    assert list(describe(KERNELS["Embed"])) == ["RBF.lengthscale", "RBF.variance", "Linear.variance"]


def test_a_failed_factorisation_is_explained():
    sentence = kernels.explain_cholesky_failure(RBF(0.5) + Matern32((3.0, 1e6)))
    assert "Matern32.lengthscale = 1e+06" in sentence and "shorter" in sentence and repr(RBF(0.5)) in sentence
    away = eqx.tree_at(lambda k: k.log_variance, RBF(0.5), jnp.asarray(1e4))
    assert "RBF.variance ran away" in kernels.explain_cholesky_failure(away)
    assert "no lengthscale" in kernels.explain_cholesky_failure(Linear())


# Modules as values


@every_kernel
def test_repr_is_a_constructor_call(kernel):
    again = eval(repr(kernel), vars(kernels))
    X, Y = kernel.features(ROWS), kernel.features(OTHER_ROWS)
    np.testing.assert_allclose(gram(again, X, Y), gram(kernel, X, Y), rtol=1e-4, atol=1e-6)
    assert "..." in repr(sampled(kernel))


@every_kernel
def test_copies_are_equal_and_changes_are_not(kernel):
    assert copy.deepcopy(kernel) == kernel
    assert jax.tree.map(lambda leaf: leaf + 1.0, kernel) != kernel


def test_kernels_of_one_form_compile_once():
    traces = []

    @eqx.filter_jit
    def traced(kernel, X):
        traces.append(repr(kernel))
        return kernels.gram(kernel, X, X)

    for lengthscale in (0.5, (0.7,), np.array([0.9])):
        kernel = 2.0 * RBF(lengthscale).on(0, 1) * Periodic(1.0 + np.max(lengthscale), 0.5).on(2) + Polynomial(2)
        traced(kernel, ROWS)
        traced(copy.deepcopy(kernel), ROWS)
        traced(jax.tree.map(lambda leaf: leaf + 0.1, kernel), ROWS)
    traced(RBF().on(0).initialise(np.asarray(ROWS)), ROWS)
    traced(RBF(3.0).on(0), ROWS)
    assert len(traces) == 2


def test_a_chain_of_kernels_is_a_kernel_with_a_leading_axis():
    chain = jax.tree.map(lambda *leaves: jnp.stack(leaves), RBF(0.5), RBF(0.7))
    K = jax.vmap(lambda k: gram(k, ROWS, ROWS))(chain)
    np.testing.assert_allclose(K[1], gram(RBF(0.7), ROWS, ROWS), rtol=1e-14)
    np.testing.assert_allclose(describe(chain)["RBF.lengthscale"], [[0.5], [0.7]], rtol=1e-14)


def test_leaves_are_double_precision():
    assert {leaf.dtype for k in KERNELS.values() for leaf in jax.tree.leaves(k)} == {jnp.dtype("float64")}
    assert isinstance(RBF() + RBF(), Sum) and isinstance(RBF() * RBF(), Product) and isinstance(RBF().on(0), Select)
