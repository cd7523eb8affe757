"""Where chains start."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as reference

from gpbae import BAE, SGPBAE
from gpbae.data.ball import affine_rmse, moving_ball
from gpbae.kernels import RBF, Linear
from gpbae.networks import Conv
from gpbae.sampling import start


def test_rows_that_say_nothing_start_where_a_gp_through_their_group_passes():
    rng = np.random.default_rng(0)
    x, codes = np.tile(np.arange(12.0), 2)[:, None], np.repeat([0, 1], 12)
    latents, told = rng.standard_normal((24, 2)), np.ones(24, bool)
    told[[3, 4, 20]] = False
    out = start.on_their_paths(latents, told, x, codes, [RBF(lengthscale=2.0)], rng)
    np.testing.assert_array_equal(out[told], latents[told])
    for group in (0, 1):
        kept, gone = told & (codes == group), ~told & (codes == group)
        exact = GaussianProcessRegressor(reference.RBF(2.0), alpha=0.01, optimizer=None).fit(x[kept], latents[kept])
        np.testing.assert_allclose(out[gone], exact.predict(x[gone]), rtol=1e-6)


@pytest.mark.parametrize("told", [[False, False, True], [False, False, False]])
def test_groups_that_say_nothing_start_at_zero(told):
    x = np.array([[0.0, 0.0], [0.0, 1.0], [5.0, 5.0]])
    out = start.on_their_paths(
        np.full((3, 1), 7.0), np.array(told), x, np.array([0, 0, 1]), [RBF()], np.random.default_rng(0)
    )
    np.testing.assert_array_equal(out[:2], 0.0)


def test_a_ball_out_of_the_picture_is_not_in_its_middle():
    """Frames without a ball have no centre of mass; one in the middle would bend every path near it."""
    videos = moving_ball(seed=0)
    y = videos.y.reshape(len(videos.y), -1)
    rng = np.random.default_rng(0)
    latents, found = start.spatial_latents(y, np.ones(y.shape, bool), (32, 32), 2, rng)
    assert not found[y.sum(axis=1) == 0].any()
    assert found.mean() > 0.95
    placed = start.on_their_paths(latents, found, videos.x, videos.groups, [RBF()], rng)
    assert affine_rmse(placed, videos.paths)["rmse_coord"] < 0.6 * affine_rmse(latents, videos.paths)["rmse_coord"]


def test_a_kernel_that_vanishes_where_nothing_is_told_is_no_obstacle():
    x = np.linspace(-1, 1, 11)[:, None]
    told = np.arange(11) != 5
    out = start.on_their_paths(2 * x, told, x, np.zeros(11, int), [Linear()], np.random.default_rng(0))
    np.testing.assert_allclose(out[5], 0.0, atol=1e-9)


def test_a_folded_map_is_less_clear_than_an_open_one():
    """A bump at t: neighbours in |t| may be at opposite places."""
    t = np.linspace(-1, 1, 60)
    values = np.exp(-0.5 * ((np.linspace(-1, 1, 12) - t[:, None]) / 0.15) ** 2)
    mask = np.ones(values.shape, bool)
    assert start.is_clearer(t[:, None], np.abs(t)[:, None], values, mask)
    assert not start.is_clearer(np.abs(t)[:, None], t[:, None], values, mask)
    assert not start.is_clearer(t[:1, None], t[:1, None], values[:1], mask[:1])


def test_every_latent_starts_on_a_path_of_its_own_kernel():
    rng = np.random.default_rng(0)
    x, told = np.arange(12.0)[:, None], np.arange(12) != 5
    latents, kernels = rng.standard_normal((12, 2)), [RBF(lengthscale=1.0), RBF(lengthscale=5.0)]
    codes = np.zeros(12, int)
    both = start.on_their_paths(latents, told, x, codes, kernels, rng)
    alone = [start.on_their_paths(latents[:, [c]], told, x, codes, [k], rng)[:, 0] for c, k in enumerate(kernels)]
    np.testing.assert_array_equal(both, np.stack(alone, axis=1))
    assert abs(both[5, 1] - start.on_their_paths(latents, told, x, codes, kernels[:1], rng)[5, 1]) > 0.1


def test_a_field_that_warms_and_cools_is_low_rank_and_a_ball_that_moves_is_not():
    """Maps whose principal components say nearly all start from these, though a centre of mass may be smoother."""
    rng = np.random.default_rng(0)
    t, pixels = np.arange(200.0), rng.standard_normal((3, 256))
    field = np.stack([np.sin(t / 9), np.cos(t / 13), np.sin(t / 31)], axis=1) @ pixels
    noisy = field + 0.5 * rng.standard_normal(field.shape)
    assert start.is_low_rank(noisy, np.ones(noisy.shape, bool), 3)
    ball = moving_ball(seed=0).y.reshape(-1, 1024)
    assert not start.is_low_rank(ball, np.ones(ball.shape, bool), 2)


def test_maps_of_low_rank_start_from_their_principal_components(monkeypatch):
    """However smooth the centre of what is warm or cold may be."""
    monkeypatch.setattr(start, "is_smoother", lambda *arguments: True)
    rng = np.random.default_rng(0)
    t = np.arange(120.0)
    paths = np.stack([np.sin(t / 9), np.cos(t / 13)], axis=1)
    rows, columns = np.mgrid[0:8, 0:8] / 8
    maps = paths @ np.stack([1 + rows.ravel(), columns.ravel() - 0.3]) + 0.05 * rng.standard_normal((120, 64))
    model = SGPBAE(latent_dim=2, num_inducing=8, decoder=Conv(channels=2))
    *_, latents = model._prepare(t[:, None], maps.reshape(120, 8, 8), None)
    standard = (maps - maps.mean(axis=0)) / maps.std(axis=0)
    expected = start.principal_latents(standard, np.ones(maps.shape, bool), 2, rng)
    np.testing.assert_allclose(np.abs(latents), np.abs(expected), atol=1e-6)


@pytest.mark.parametrize("model", [BAE(latent_dim=2), SGPBAE(latent_dim=2, num_inducing=8)])
def test_a_ball_starts_where_it_is_with_inputs_and_without(model):
    """Principal components of a small thing that moves are no places: 0.9 of the paths' spread is lost in them."""
    videos = moving_ball(seed=0)
    *_, latents = model._prepare(videos.x, videos.y, videos.groups)
    assert affine_rmse(np.asarray(latents), videos.paths)["rmse_coord"] < 0.3


def test_gaps_do_not_ask_for_more_latents():
    rng = np.random.default_rng(0)
    values = rng.standard_normal((400, 2)) @ rng.standard_normal((2, 12)) + 0.1 * rng.standard_normal((400, 12))
    whole, gappy = np.ones(values.shape, bool), rng.random(values.shape) > 0.3
    assert start.choose_latent_dim(values, whole) == start.choose_latent_dim(values, gappy) == 2
