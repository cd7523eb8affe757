"""Are the intervals of `gpbae fit` honest on a small table?  Four made tables, none drawn from the model.

    python benchmarks/small_tables.py [--tables weather sensors economy patient] [--seeds 0 1] [--ways cells blocks]
                                      [--set NAME=value ...] [--out rows.jsonl]

Every table is fitted as `gpbae fit TABLE --evaluate WAY` would: the same choices for what is left of it, the same
hidden cells, the same rivals.  `--set` changes an argument of the model, as there.  What is printed is in standard
deviations of a column, NLPD in the columns' own units; R-hat is the median of what `gpbae diagnose` shows.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from gpbae.cli import arguments
from gpbae.scoring import evaluation, scoreboard

SHOWN = ("mae", "nlpd", "coverage50", "coverage80", "coverage90", "coverage95")
NATURAL_GAPS = 0.04


def autoregression(rng: np.random.Generator, num: int, memory: float, num_columns: int = 1) -> np.ndarray:
    """Columns of a stationary AR(1) with unit variance that forgets a share 1/e in `memory` rows."""
    keep = np.exp(-1 / memory)
    path, steps = np.empty((num, num_columns)), rng.standard_normal((num, num_columns))
    path[0] = steps[0]
    for n in range(1, num):
        path[n] = keep * path[n - 1] + np.sqrt(1 - keep**2) * steps[n]
    return path


def weather(rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two weeks of hours: a daily cycle, fronts that pass, gusts that are skewed, a pressure that wanders."""
    hour = np.arange(336.0)
    front, cloud, gust = (autoregression(rng, 336, m)[:, 0] for m in (36, 8, 4))
    sun = np.maximum(np.sin(2 * np.pi * (hour - 6) / 24), 0.0) / (1 + np.exp(cloud))
    warmth = np.convolve(np.r_[np.zeros(5), sun], np.ones(6) / 6, "valid")
    temperature = 12 + 3 * front + 9 * warmth + 0.4 * rng.standard_normal(336)
    dew_point = 7 + 2 * front + 0.5 * np.cumsum(rng.standard_normal(336)) / 4
    humidity = np.clip(100 - 5 * (temperature - dew_point) + 2 * rng.standard_normal(336), 15, 100)
    wind = np.exp(1.0 + 0.4 * np.abs(front) + 0.5 * gust) + 0.1
    pressure = 1012 + np.cumsum(0.5 * rng.standard_normal(336)) - 2 * front
    y = {"temperature": temperature, "dew_point": dew_point, "humidity": humidity, "wind": wind, "pressure": pressure,
         "radiation": 600 * sun + 8 * np.abs(rng.standard_normal(336))}  # fmt: skip
    return pd.DataFrame({"hour": hour}), pd.DataFrame(y)


def sensors(rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Six sensors of two quantities, every ten minutes: gains and lags of their own, drift, sometimes a spike."""
    load, room = autoregression(rng, 280, 12)[:, 0], autoregression(rng, 280, 60)[:, 0]
    columns = {}
    for i in range(6):
        seen = rng.uniform(0.6, 1.4) * load + rng.uniform(-0.8, 0.8) * room
        lagged = pd.Series(seen).ewm(alpha=rng.uniform(0.3, 1.0)).mean().to_numpy()
        drift = np.cumsum(rng.standard_normal(280)) * rng.uniform(0.01, 0.06)
        noise = rng.uniform(0.05, 0.2) * rng.standard_t(3, 280)
        columns[f"sensor_{i}"] = 20 + 5 * (np.tanh(lagged / 2) * 2 + drift + noise)
    return pd.DataFrame({"minute": 10.0 * np.arange(280)}), pd.DataFrame(columns)


def economy(rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Twenty years of months: trends, a business cycle, seasons, rates that wander and stay."""
    month = np.arange(240.0)
    cycle, shocks = autoregression(rng, 240, 18)[:, 0], rng.standard_normal((240, 6))
    season = np.sin(2 * np.pi * month / 12 + rng.uniform(0, 6))
    price = np.cumsum(0.2 + 0.15 * autoregression(rng, 240, 10)[:, 0])
    output = 100 * np.exp(0.0015 * month + 0.02 * cycle + 0.02 * season + 0.008 * shocks[:, 0])
    jobless = 6 - 1.2 * np.r_[np.zeros(4), cycle[:-4]] + 0.3 * season + 0.15 * shocks[:, 1]
    rate = np.maximum(3 + np.cumsum(0.15 * shocks[:, 2]) + 0.4 * cycle, 0.05)
    spread = np.exp(0.3 - 0.5 * cycle + 0.3 * autoregression(rng, 240, 5)[:, 0])
    retail = output * (0.5 + 0.04 * season) + np.cumsum(0.4 * shocks[:, 3])
    exports = 40 * np.exp(0.1 * autoregression(rng, 240, 24)[:, 0] + 0.03 * shocks[:, 4])
    y = {"output": output, "jobless": jobless, "prices": 80 + price, "rate": rate, "spread": spread, "retail": retail,
         "exports": exports}  # fmt: skip
    return pd.DataFrame({"month": month}), pd.DataFrame(y)


def patient(rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Ten days on a ward at irregular hours: vital signs that belong together, a fever, a laboratory seldom asked."""
    hour = np.sort(rng.uniform(0, 240, 220))
    grid = np.arange(241.0)
    ill, stress, pain = (np.interp(hour, grid, autoregression(rng, 241, m)[:, 0]) for m in (48, 10, 5))
    fever = 2 * np.exp(-0.5 * ((hour - rng.uniform(60, 180)) / 15) ** 2)
    noise = rng.standard_normal((220, 6))
    y = {
        "pulse": 80 + 8 * stress + 5 * ill + 8 * fever + 3 * noise[:, 0],
        "systolic": 125 + 10 * stress - 6 * ill + 4 * pain + 4 * noise[:, 1],
        "diastolic": 75 + 6 * stress - 3 * ill + 3 * noise[:, 2],
        "breaths": 16 + 1.5 * stress + 2 * fever + pain + noise[:, 3],
        "temperature": 36.8 + 0.9 * fever + 0.15 * np.sin(2 * np.pi * hour / 24) + 0.12 * noise[:, 4],
        "lactate": np.exp(0.2 + 0.5 * ill + 0.2 * noise[:, 5]),
    }
    y = pd.DataFrame(y)
    y["lactate"] = y["lactate"].where(rng.random(220) < 0.6)
    return pd.DataFrame({"hour": hour}), y


TABLES: dict[str, Callable] = {"weather": weather, "sensors": sensors, "economy": economy, "patient": patient}


def table(name: str, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Inputs and columns of a made table, with a few gaps of its own."""
    rng = np.random.default_rng([seed, list(TABLES).index(name)])
    x, y = TABLES[name](rng)
    return x, y.mask(rng.random(y.shape) < NATURAL_GAPS)


def score(name: str, seed: int, way: str, given: dict) -> list[dict]:
    """All rows of an evaluation, as the command line would have them."""
    x, y = table(name, seed)
    model = arguments.estimator("SGPBAE", arguments.suited("SGPBAE", y) | {"progress": False} | given)
    kept: list = []

    def suited(left):
        kept.append(arguments.once_more(model, [*given, "progress"], left))
        return kept[0]

    began = time.process_time()
    found = evaluation.evaluate(model, x, y, holdout=evaluation.Holdout(way, seed=seed), suited=suited)
    about = {"table": name, "seed": seed, "way": way, "given": {k: str(v) for k, v in given.items()},
             "processor": round(time.process_time() - began), "latent_dim": kept[0].latent_dim_,
             "rhat": float(kept[0].diagnostics()["r_hat"].median())}  # fmt: skip
    return [about | row for row in found.rows()]


def show(rows: list[dict]) -> None:
    first = rows[0]
    print(f"\n{first['table']} {first['seed']}, {first['way']}, {first['given'] or 'defaults'}: C = "
          f"{first['latent_dim']}, R-hat {first['rhat']:.2f}, {first['processor']} s of processor time")  # fmt: skip
    print(f"{'':34s}" + "".join(f"{name.replace('coverage', 'in '):>8s}" for name in SHOWN))
    mine = first["model"]
    for row in rows:
        if row["column"] == scoreboard.ALL or row["model"] == mine:
            label = f"{row['model']}: {row['column']}" + f" ({row['metrics']['cells']:.0f})"
            print(f"{label:34s}" + "".join(f"{row['metrics'][name]:8.3f}" for name in SHOWN), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--ways", nargs="+", choices=("cells", "blocks"), default=["cells", "blocks"])
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=value")
    parser.add_argument("--out", type=Path, help="a file of JSON lines, appended to")
    given = parser.parse_args()
    for seed in given.seeds:
        for name in given.tables:
            for way in given.ways:
                rows = score(name, seed, way, arguments.pairs(given.set))
                show(rows)
                if given.out:
                    with given.out.open("a") as file:
                        file.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
