"""The moving ball: the generator is the published recipe, the score is the published score."""

import numpy as np
import pytest

from gpbae.data import affine_rmse, moving_ball, moving_ball_reference
from gpbae.data.ball import render
from gpbae.errors import InputError


@pytest.fixture(scope="session")
def stored(data_dir):
    with np.load(data_dir / "moving_ball" / "moving_ball_reference.npz", allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


@pytest.mark.parametrize("split", ["train", "test"])
def test_rendering_the_stored_paths_gives_the_stored_videos(stored, split):
    assert np.array_equal(render(stored[f"{split}_paths"]), stored[f"{split}_videos"])


def test_seed_zero_is_the_stored_training_draw(stored):
    ball = moving_ball(seed=0)
    np.testing.assert_allclose(ball.paths.reshape(35, 30, 2), stored["train_paths"], atol=1e-10)
    assert np.array_equal(ball.y.reshape(35, 30, 32, 32), stored["train_videos"])


def test_reference_has_one_training_batch_and_ten_test_batches(data_dir, stored):
    train, test = moving_ball_reference()
    assert np.array_equal(train.y.reshape(35, 30, 32, 32), stored["train_videos"])
    assert np.array_equal(np.stack([batch.paths for batch in test]).reshape(10, 35, 30, 2), stored["test_paths"])


def test_rendering_is_the_rule_pixel_by_pixel():
    ball = moving_ball(num_videos=1, num_frames=4, seed=3)
    for frame, (px, py) in zip(ball.y, ball.paths, strict=True):
        cx, cy = px * 32 / 5 + 16, py * 32 / 5 + 16
        slow = [[float((c - cx) ** 2 + (r - cy) ** 2 < 9) for c in range(32)] for r in range(32)]
        assert np.array_equal(frame, slow)


def test_rows_are_frames_of_videos_in_order():
    ball = moving_ball(num_videos=3, num_frames=4, size=16)
    assert ball.y.shape == (12, 16, 16) and ball.y.dtype == np.float32 and set(np.unique(ball.y)) == {0.0, 1.0}
    assert np.array_equal(ball.x[:, 0], np.tile(np.arange(4.0), 3))
    assert np.array_equal(ball.groups, np.repeat(np.arange(3), 4))


def test_paths_have_the_covariance_of_their_kernel():
    """20 000 independent coordinates, so that each covariance has standard error ≤ √2/√20 000 = 0.01."""
    paths = moving_ball(num_videos=10_000, num_frames=6, lengthscale=1.5, size=1).paths.reshape(-1, 6, 2)
    coordinates = paths.transpose(0, 2, 1).reshape(-1, 6)
    t = np.arange(6.0)
    K = np.exp(-0.5 * ((t[:, None] - t) / 1.5) ** 2)
    np.testing.assert_allclose(coordinates.T @ coordinates / len(coordinates), K, atol=0.045)


def test_score_of_the_pixel_centroid_is_the_documented_one(stored):
    """SSE 81.4 per batch, the mean over the ten test batches; empty frames are put at the centre of the canvas."""
    grid = np.arange(32)
    total = 0.0
    for videos, paths in zip(stored["test_videos"], stored["test_paths"], strict=True):
        mass = videos.sum(axis=(-1, -2))
        centroid = np.stack([(videos * grid).sum(axis=(-1, -2)), (videos * grid[:, None]).sum(axis=(-1, -2))], axis=-1)
        centroid = np.where(mass[..., None] > 0, centroid / np.maximum(mass, 1)[..., None], 16.0)
        total += 2100 * affine_rmse(centroid, paths)["rmse_coord"] ** 2
    assert total / 10 == pytest.approx(81.4, abs=0.05)


def test_score_ignores_any_affine_map_and_nothing_else():
    rng = np.random.default_rng(1)
    paths, noise = rng.standard_normal((2, 500, 2))
    mapped = (paths + 0.1 * noise) @ np.array([[2.0, 1.0], [-1.0, 3.0]]) + np.array([5.0, -7.0])
    plain = affine_rmse(paths + 0.1 * noise, paths)
    assert affine_rmse(mapped, paths) == pytest.approx(plain)
    assert plain["rmse_frame"] == pytest.approx(2**0.5 * plain["rmse_coord"])
    assert affine_rmse(3 * paths - 1, paths)["rmse_coord"] == pytest.approx(0, abs=1e-12)


def test_collapsed_latents_score_like_a_constant():
    paths = np.random.default_rng(2).standard_normal((200, 2))
    assert affine_rmse(np.zeros((200, 2)), paths)["rmse_coord"] == pytest.approx(np.sqrt(paths.var(axis=0).mean()))


@pytest.mark.parametrize("bad", [{"num_videos": 0}, {"num_frames": 0}, {"size": 0}, {"lengthscale": 0.0}])
def test_impossible_balls_are_refused(bad):
    with pytest.raises(InputError, match="moving_ball needs"):
        moving_ball(**bad)


def test_scores_of_unusable_latents_are_refused():
    with pytest.raises(InputError, match="finite"):
        affine_rmse(np.full((4, 2), np.nan), np.zeros((4, 2)))
