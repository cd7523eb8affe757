"""A table with gaps: fill them, say how sure, and write a page to send to a colleague."""

import numpy as np
import pandas as pd

from gpbae import SGPBAE

rng = np.random.default_rng(0)
hours = np.sort(rng.uniform(0, 10, 200))
day = np.column_stack([np.sin(hours), np.cos(hours), np.sin(hours) ** 2])
truth = pd.DataFrame(day, columns=["temperature", "wind", "light"])
x, y = pd.DataFrame({"hour": hours}), truth + 0.1 * rng.standard_normal(truth.shape)
hidden = rng.random(y.shape) < 0.2
hidden[100:115, 0] = True  # the thermometer fails for a while

model = SGPBAE(latent_dim=2, seed=0).fit(x, y.mask(hidden))
answer = model.impute(x, y.mask(hidden))
low, high = answer.interval(0.9)

error = (answer.mean - y).to_numpy()[hidden]
inside = ((low <= y) & (y <= high)).to_numpy()[hidden]
print(
    f"{hidden.sum()} hidden cells: RMSE {np.sqrt(np.mean(error**2)):.3f} (noise 0.1, spread {y.to_numpy().std():.2f})"
)
print(f"90% intervals hold {inside.mean():.0%} of them")
answer.filled.to_csv("filled.csv")
model.report("report.html")
