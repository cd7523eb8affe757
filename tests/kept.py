"""What it means for a fitted model to survive being saved; used where models are fitted anyway."""

import equinox as eqx

from gpbae import load


def fitted(model):
    """Everything a fit leaves behind, but how the table looked."""
    return {name: value for name, value in vars(model).items() if name.endswith("_") and name != "frame_"}


def assert_survives(model, folder):
    """Save, load, and find every argument and fitted value again, bit for bit; returns the twin."""
    model.save(folder)
    twin = load(folder)
    assert type(twin) is type(model)
    assert repr(twin) == repr(model)
    assert fitted(twin).keys() == fitted(model).keys()
    for attribute, value in fitted(model).items():
        assert eqx.tree_equal(value, getattr(twin, attribute)), attribute
    return twin
