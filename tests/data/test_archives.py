"""The larger datasets arrive whole, in the layout `fit` takes."""

import numpy as np
import pytest

from gpbae.data import era5_uk, mouse_olfactory_bulb, physionet2012
from gpbae.errors import InputError


def test_patients_are_stacked_with_their_record_id(data_dir):
    patients = physionet2012()
    assert patients.y.shape == (4000 * 48, 37) and len(patients.variables) == 37
    assert np.array_equal(patients.groups.reshape(4000, 48)[:, 7], patients.record_id)
    assert np.array_equal(patients.x.reshape(4000, 48)[123], np.arange(48.0))
    assert np.isnan(patients.y).mean() == pytest.approx(0.798, abs=5e-4)
    assert patients.died.mean() == pytest.approx(0.1385)
    with np.load(data_dir / "physionet2012" / "physionet2012_set_a_hourly.npz", allow_pickle=False) as stored:
        np.testing.assert_array_equal(patients.y[48 * 5 + 9], stored["x"][5, 9])


def test_temperature_maps_are_complete(data_dir):
    maps = era5_uk()
    assert maps.y.shape == (744, 33, 49) == (len(maps.x), len(maps.latitude), len(maps.longitude))
    assert np.isfinite(maps.y).all() and 240 < maps.y.min() < maps.y.max() < 310
    assert (maps.latitude[[0, -1]] == [58, 50]).all() and (maps.longitude[[0, -1]] == [-10, 2]).all()


def test_gene_counts_lie_at_the_spots_they_are_named_for(data_dir):
    bulb = mouse_olfactory_bulb()
    assert bulb.y.shape == (260, 16218) == (len(bulb.spots), len(bulb.genes))
    named = np.array([[float(part) for part in spot.split("x")] for spot in bulb.spots])
    np.testing.assert_allclose(bulb.x, named, atol=1e-9)
    assert (bulb.y == 0).mean() == pytest.approx(0.60, abs=0.01)


def test_normalised_counts_are_the_most_variable_genes(data_dir):
    bulb = mouse_olfactory_bulb()
    some, names = bulb.log_normalised(20)
    all_genes, _ = bulb.log_normalised(len(bulb.genes))
    np.testing.assert_allclose(np.expm1(all_genes).sum(axis=1), 1e4)
    kept = [bulb.genes.index(name) for name in names]
    np.testing.assert_array_equal(some, all_genes[:, kept])
    assert some.var(axis=0).min() >= np.delete(all_genes, kept, axis=1).var(axis=0).max()
    with pytest.raises(InputError, match="num_genes"):
        bulb.log_normalised(0)
