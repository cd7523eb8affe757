"""The moving ball, start to finish: learn from videos, say where the ball is in videos never seen, and score it."""

import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from gpbae.data.ball import MovingBall, affine_rmse, moving_ball

TRUE_LENGTHSCALE = 2.0
LEVEL = 0.9
HALF_CANVAS = 2.5  # the picture shows paths from −2.5 to 2.5, whatever its number of pixels
NUM_DRAWN_VIDEOS = 4
EXPERIMENT = "moving-ball"


@dataclasses.dataclass(frozen=True)
class Settings:
    """Everything the experiment can be told but its seed."""

    num_videos: int = 35
    num_test_videos: int = 35
    num_frames: int = 30
    size: int = 32
    width: int = 128
    weight_gain: float = 6.0  # logits of a sharp ball need large weights; with gain 1 the picture stays blurred
    num_inducing: int = 15
    latent_noise: float = 0.03  # where the chain starts; it is sampled, for a wrong one would bend the lengthscale
    num_chains: int = 1
    num_warmup: int = 40
    num_samples: int = 45
    thinning: int = 1
    sampler_steps: int = 30
    encoder_steps: int = 50
    num_map_steps: int = 1000
    bae_num_warmup: int = 12
    bae_num_samples: int = 10
    num_encoded_draws: int = 20


DEMO = Settings()
QUICK = Settings(num_videos=4, num_test_videos=3, num_frames=8, size=8, width=8, num_inducing=5, num_chains=1,
                 num_warmup=4, num_samples=5, sampler_steps=4, encoder_steps=2, num_map_steps=10, bae_num_warmup=4,
                 bae_num_samples=5, num_encoded_draws=5)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Answer:
    """What one model says of the unseen videos; `paths` are posterior draws in the coordinates of the truth,
    `temperatures` those of each block of variables with their Monte-Carlo errors.
    """

    model: str
    metrics: dict[str, float]
    seconds: float
    paths: Float[np.ndarray, "S V F 2"]
    temperatures: dict[str, tuple[float, float]]
    log_joint: Float[np.ndarray, "events chains"]
    lengthscale: Float[np.ndarray, "chains draws"] | None
    warnings: tuple[str, ...]

    def lengthscale_text(self) -> str:
        """Posterior mean and 90 % interval, or nothing for a model without one."""
        if self.lengthscale is None:
            return "–"
        m = self.metrics
        return f"{m['lengthscale']:.2f} ({m['lengthscale_lower']:.2f}, {m['lengthscale_upper']:.2f})"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The whole experiment, as numbers."""

    settings: Settings
    seed: int
    truth: Float[np.ndarray, "V F 2"]
    answers: tuple[Answer, ...]
    seconds: float

    def rows(self) -> list[dict[str, Any]]:
        """One row per model, as in every `results.json`."""
        return [
            {"experiment": EXPERIMENT, "model": a.model, "seed": self.seed, "metrics": a.metrics, "seconds": a.seconds}
            for a in self.answers
        ]


def run(settings: Settings = DEMO, seed: int = 0, progress: Any = True,
        say: Callable[[str], None] = lambda text: None) -> Outcome:  # fmt: skip
    """Fit BAE and SGP-BAE to training videos and locate the ball in unseen ones."""
    begun = time.monotonic()
    train = _videos(settings, settings.num_videos, seed)
    test = _videos(settings, settings.num_test_videos, seed + 1_000_003)
    say(f"{settings.num_videos} videos to learn from, {settings.num_test_videos} unseen, "
        f"{settings.num_frames} frames of {settings.size} × {settings.size} pixels.")  # fmt: skip
    answers = tuple(
        _answer(name, model, train, test, settings, say)
        for name, model in (("SGP-BAE", _sgpbae(settings, seed, progress)), ("BAE", _bae(settings, seed, progress)))
    )
    truth = test.paths.reshape(settings.num_test_videos, settings.num_frames, 2)
    return Outcome(settings, seed, truth, answers, time.monotonic() - begun)


def _videos(settings, num_videos, seed) -> MovingBall:
    return moving_ball(num_videos, settings.num_frames, TRUE_LENGTHSCALE, settings.size, seed)


def _shared(settings, seed, progress) -> dict[str, Any]:
    from gpbae import networks, weights

    network = networks.MLP((settings.width,), "tanh")
    return {
        "weight_prior": weights.FanIn(settings.weight_gain),
        "latent_dim": 2,
        "likelihood": "bernoulli",
        "encoder": network,
        "decoder": network,
        "num_chains": settings.num_chains,
        "thinning": settings.thinning,
        "sampler_steps": settings.sampler_steps,
        "encoder_steps": settings.encoder_steps,
        "num_map_steps": settings.num_map_steps,
        "seed": seed,
        "progress": progress,
    }


def _sgpbae(settings, seed, progress):
    from gpbae.estimators import SGPBAE

    return SGPBAE(num_inducing=settings.num_inducing, latent_noise=settings.latent_noise, sample_latent_noise=True,
                  num_warmup=settings.num_warmup, num_samples=settings.num_samples,
                  **_shared(settings, seed, progress))  # fmt: skip


def _bae(settings, seed, progress):
    from gpbae.estimators import BAE

    return BAE(num_warmup=settings.bae_num_warmup, num_samples=settings.bae_num_samples,
               **_shared(settings, seed, progress))  # fmt: skip


def _answer(name, model, train, test, settings, say) -> Answer:
    begun = time.monotonic()
    say(f"Fitting {name} …")
    model.fit(train.x, train.y, groups=train.groups)
    say(f"{name}: locating the ball in unseen videos …")
    unseen = np.char.add("unseen ", test.groups.astype(str))
    latents = model.encode(test.x, test.y, groups=unseen, num_draws=settings.num_encoded_draws)
    mean, draws = np.asarray(latents.mean), latents.samples
    paths = align(mean, test.paths, draws)
    scores = affine_rmse(mean, test.paths)
    seconds = time.monotonic() - begun
    metrics = {"rmse": scores["rmse_coord"], "rmse_frame": scores["rmse_frame"]}
    lengthscale = model.scalars_().get("RBF.lengthscale")
    if lengthscale is not None:
        low, high = np.quantile(lengthscale, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
        metrics |= {"lengthscale": float(lengthscale.mean()), "lengthscale_lower": float(low),
                    "lengthscale_upper": float(high)}  # fmt: skip
    temperatures = model.kinetic_temperatures_()
    metrics |= {f"kinetic_temperature.{block}": value for block, (value, _) in temperatures.items()}
    shape = (len(draws), settings.num_test_videos, settings.num_frames, 2)
    return Answer(name, metrics, seconds, paths.reshape(shape), temperatures, _log_joint(model.history_), lengthscale,
                  tuple(model.diagnostics().attrs["warnings"]))  # fmt: skip


def align(
    mean: Float[np.ndarray, "N C"], truth: Float[np.ndarray, "N 2"], draws: Float[np.ndarray, "S N C"]
) -> Float[np.ndarray, "S N 2"]:
    """Draws of the latents seen in the frame of the truth: latents are known only up to one affine map."""
    design = np.column_stack([mean, np.ones(len(mean))])
    weights = np.linalg.lstsq(design, truth, rcond=None)[0]
    return draws @ weights[:-1] + weights[-1]


def _log_joint(history) -> np.ndarray:
    """One row per block of sweeps, one column per chain, from the warm-up on."""
    kept = [np.atleast_1d(e["log_joint"]) for e in history if e["phase"] in ("warm-up", "sampling")]
    return np.array(kept, float)


def write(outcome: Outcome, out: Path) -> tuple[Path, ...]:
    """results.json, two pictures and the page that shows them."""
    from gpbae import plots
    from gpbae.experiments import demo_page

    out.mkdir(parents=True, exist_ok=True)
    results = out / "results.json"
    results.write_text(json.dumps(outcome.rows(), indent=2) + "\n", encoding="utf-8")
    shown = slice(0, NUM_DRAWN_VIDEOS)
    pictures = {"trajectories.png": plots.trajectories(
        outcome.truth[shown], {a.model: a.paths[:, shown] for a in outcome.answers}, HALF_CANVAS)}  # fmt: skip
    sparse = outcome.answers[0]
    if sparse.lengthscale is not None:
        pictures["lengthscale.png"] = plots.density(sparse.lengthscale, "lengthscale ℓ (frames)", TRUE_LENGTHSCALE)
    for name, figure in pictures.items():
        figure.savefig(out / name)
    page = out / "index.html"
    page.write_text(demo_page.text(outcome, {n: out / n for n in pictures}), encoding="utf-8")
    return page, *(out / name for name in pictures), results
