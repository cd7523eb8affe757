"""Rotated MNIST: what we rebuild from raw digits is what was published."""

import numpy as np
import pytest

from gpbae.data import rotated_mnist


@pytest.fixture(scope="module")
def rebuilt(data_dir):
    return rotated_mnist()


@pytest.fixture(scope="module")
def published(data_dir):
    def load(name):
        with np.load(data_dir / "rotated_mnist3" / f"{name}3.npz", allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}

    return load


@pytest.mark.parametrize("part", ["test", "eval"])
def test_held_out_images_agree_to_rounding(rebuilt, published, part):
    np.testing.assert_allclose(getattr(rebuilt, part).y[..., None], published(f"{part}_data")["images"], atol=2e-14)


def test_training_images_agree_in_single_precision(rebuilt, published):
    """The stored file has been cast to float32 (rounding 2⁻²⁴ relative), ours may round the other way on a last bit."""
    ours, stored = rebuilt.train.y.astype(np.float32)[..., None], published("train_data")["images"]
    np.testing.assert_allclose(ours, stored, rtol=2**-22, atol=1e-13)


@pytest.mark.parametrize("part", ["train", "test", "eval"])
def test_side_information_agrees(rebuilt, published, part):
    views, aux = getattr(rebuilt, part), published(f"{part}_data")["aux_data"]
    assert np.array_equal(views.digit, aux[:, 0])
    np.testing.assert_allclose(views.angle, aux[:, 1], atol=1e-12)
    np.testing.assert_allclose(views.objects, aux[:, 2:], atol=0.0034)  # published by a randomised solver
    assert np.array_equal(views.x, np.column_stack([views.angle, views.digit]))


def test_every_tested_digit_was_seen_at_another_angle(rebuilt):
    assert set(rebuilt.test.digit) <= set(rebuilt.train.digit) and not set(rebuilt.eval.digit) & set(
        rebuilt.train.digit
    )
    assert not np.isin(rebuilt.train.angle, rebuilt.test.angle).any()


def test_mean_training_image_scores_as_documented(rebuilt):
    assert np.mean((rebuilt.test.y - rebuilt.train.y.mean(axis=0)) ** 2) == pytest.approx(0.0780, abs=5e-5)
