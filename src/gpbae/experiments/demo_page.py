"""The demo's page: the result first, then the pictures, then whether to believe them."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gpbae.plots import COLOURS
from gpbae.report import ABOUT_TEMPERATURE, CAPTION_OF_TEMPERATURES, Chart, Picture, Section, Table, charts, html

if TYPE_CHECKING:
    from gpbae.experiments.ball import Outcome


def text(outcome: "Outcome", pictures: Mapping[str, Path]) -> str:
    """One HTML file that asks nothing of the network."""
    best, *others = outcome.answers
    versus = "".join(f", {a.model} of {a.metrics['rmse']:.2f}" for a in others)
    lead = (
        f"After watching {outcome.settings.num_videos} videos of a ball, {best.model} locates the ball in "
        f"{outcome.settings.num_test_videos} videos it has never seen with a root-mean-square error of "
        f"{best.metrics['rmse']:.2f} per coordinate{versus}. Positions have standard deviation 1, and nobody told the "
        "models what a position is."
    )
    sections = [_scores(outcome), _paths(outcome, pictures), _lengthscale(outcome, pictures), _trust(outcome),
                _settings(outcome)]  # fmt: skip
    return html("The moving ball", lead, [s for s in sections if s is not None])


def _scores(outcome) -> Section:
    rows = [(a.model, f"{a.metrics['rmse']:.3f}", f"{a.metrics['rmse_frame']:.3f}", a.lengthscale_text(),
             f"{a.seconds:.0f}") for a in outcome.answers]  # fmt: skip
    text = (
        "Latents are identified only up to an affine map, so one such map is fitted to all frames of all unseen videos "
        "before the distance to the truth is taken. BAE looks at each frame alone. SGP-BAE also knows that the frames "
        "of a video follow each other, which places the ball where it is off the picture."
    )
    header = ("model", "RMSE per coordinate", "RMSE per frame", "lengthscale (truth 2)", "seconds")
    return Section("Where is the ball?", [text], [Table(header, rows, "Unseen videos; lower RMSE is better.")])


def _paths(outcome, pictures) -> Section:
    picture = Picture(
        pictures["trajectories.png"],
        "True and inferred paths of the ball in some unseen videos, with posterior draws and 90% bands",
        "Unseen videos. Upper rows: paths in the plane, thin lines are posterior draws. Lower rows: the two "
        "coordinates in time with 90% bands. A frame whose path lies beyond the dotted edge shows no ball.",
        least_width=720,
    )
    chart = charts.paths(outcome.truth, {a.model: a.paths for a in outcome.answers})
    caption = "Choose a video and a coordinate; bands hold 90% of the posterior."
    return Section("Paths, with their uncertainty", pictures=[picture], charts=[Chart("paths", chart, caption)])


def _lengthscale(outcome, pictures) -> Section | None:
    if "lengthscale.png" not in pictures:
        return None
    metrics = outcome.answers[0].metrics
    text = (
        "The paths were drawn with lengthscale 2. The posterior mean is "
        f"{metrics['lengthscale']:.2f}, the 90% interval {metrics['lengthscale_lower']:.2f} to "
        f"{metrics['lengthscale_upper']:.2f}: learned from pixels alone. After so few sweeps the interval is too "
        "narrow, and with ten inducing inputs the model itself prefers a little more than 2."
    )
    picture = Picture(pictures["lengthscale.png"], "Posterior density of the lengthscale with the true value 2",
                      "Posterior of the lengthscale of the latent paths, in frames.")  # fmt: skip
    return Section("How fast does the ball move?", [text], pictures=[picture])


def _trust(outcome) -> Section:
    notes = [f"{a.model}: {words}" for a in outcome.answers for words in a.warnings]
    shown = [_temperatures({a.model: a.temperatures for a in outcome.answers})]
    shown += [_log_joint(a.model, a.log_joint, c) for c, a in zip(COLOURS, outcome.answers, strict=False)]
    return Section("Is it to be trusted?", [ABOUT_TEMPERATURE], notes=notes, charts=shown)


def _temperatures(blocks) -> Chart:
    return Chart("temperatures", charts.temperatures(blocks), CAPTION_OF_TEMPERATURES)


def _log_joint(model, trace, colour) -> Chart:
    caption = f"{model}: log joint density, one line per chain. A sampler that has settled wanders without trend."
    return Chart(f"log-joint-{model}", charts.trace(trace, "log joint (nats)", colour), caption)


def _settings(outcome) -> Section:
    rows = [(name, str(value)) for name, value in dataclasses.asdict(outcome.settings).items()]
    return Section("What was run", [f"Seed {outcome.seed}; {outcome.seconds:.0f} seconds in all."],
                   [Table(("setting", "value"), rows)])  # fmt: skip
