"""Where chains start."""

import numpy as np

from gpbae import start


def test_rows_without_a_cell_start_on_their_groups_path():
    x = np.array([0.0, 1.0, 2.0, 3.0, 0.0, 1.0])[:, None]
    latents = np.array([0.0, 9.0, 9.0, 3.0, 5.0, 9.0])[:, None]
    seen = np.array([True, False, False, True, True, False])
    out = start.between_neighbours(latents, seen, x, np.array([0, 0, 0, 0, 1, 1]))
    np.testing.assert_allclose(out[:, 0], [0.0, 1.0, 2.0, 3.0, 5.0, 5.0])


def test_in_the_plane_they_start_at_their_neighbours_mean_and_alone_at_zero():
    x = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.4, 0.4], [5.0, 5.0]])
    latents = np.array([[1.0], [2.0], [6.0], [0.0], [7.0]])
    seen = np.array([True, True, True, False, False])
    out = start.between_neighbours(latents, seen, x, np.array([0, 0, 0, 0, 1]))
    np.testing.assert_allclose(out[:, 0], [1.0, 2.0, 6.0, 3.0, 0.0])
