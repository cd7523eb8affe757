"""Names of sampled quantities in words, for whoever reads a table or a figure; `scalars_` and ArviZ keep the names."""

import re
from collections.abc import Sequence

MOST_NAMES = 8
OF_CELLS = {
    "noise": "noise",
    "scale": "noise scale",
    "excess": "degrees of freedom beyond 2 (large: nearly Gaussian)",
    "dispersion": "dispersion",
    "output": "output",
}
_OF_CELLS = re.compile(rf"({'|'.join(OF_CELLS)})(?:\[(.*)\])?", flags=re.DOTALL)
_OF_A_KERNEL = re.compile(
    r"(?P<layer>layer\d+\.)?(?P<latent>latent\d+\.)?(?P<path>path of .*\.)?"
    r"(?P<kernel>\w+(?:\[\d+\])?)\.(?P<what>[a-z_]+)(?:\[(?P<along>.*)\])?(?P<unit> \([^()]*\))?",
    flags=re.DOTALL,
)
_OF_THE_LATENTS = re.compile(r"(?P<layer>layer\d+\.)?latent_noise")


def in_words(name: str) -> str:
    """`excess[a]` is `degrees of freedom … of a`, `RBF.lengthscale[time]` the `RBF lengthscale along time`; what is in
    words already stays as it is."""
    if found := _OF_CELLS.fullmatch(name):
        return OF_CELLS[found[1]] + ("" if found[2] is None else f" of {_cell(found[2])}")
    if found := _OF_THE_LATENTS.fullmatch(name):
        return "noise of the latents" + _place(found["layer"])
    if found := _OF_A_KERNEL.fullmatch(name):
        along = "" if found["along"] is None else f" along {found['along']}"
        where = _place(found["latent"]) + _place(found["layer"]) + (f", {found['path'][:-1]}" if found["path"] else "")
        return f"{found['kernel']} {found['what'].replace('_', ' ')}{along}{found['unit'] or ''}{where}"
    return name


def some(names: Sequence[str]) -> str:
    """A list that stays readable however long it is."""
    return ", ".join(names[:MOST_NAMES]) + (f", … ({len(names)} in all)" if len(names) > MOST_NAMES else "")


def _cell(text: str) -> str:
    """`3,0` of an array has no names."""
    place = re.fullmatch(r"(\d+),(\d+)", text)
    return text if place is None else f"column {place[2]}, row {place[1]}"


def _place(prefix: str | None) -> str:
    """`latent0.` as `, latent 0`."""
    return "" if prefix is None else re.sub(r"([a-z]+)(\d+)\.", r", \1 \2", prefix)
