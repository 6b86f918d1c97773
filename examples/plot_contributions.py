"""
Where did this prediction come from?
====================================

"Your model says 12.4 for store 3. Says who?" With its graph fixed, a model is a linear function of all targets, so
every coefficient and every prediction splits exactly into what each task's data put in: ``model.contributions()``.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from kinfolk import GAMTL
from kinfolk.plots import plot_graph

# %%
# Ten stores in two districts. Store 3 has 6 rows, all others 60.

rng = np.random.default_rng(11)
names = np.array([f"store {k:02d}" for k in range(1, 11)])
slopes = np.array([[2.0, -1.0, 0.5], [-1.0, 1.0, 2.0]])[np.arange(10) // 5] + 0.2 * rng.normal(size=(10, 3))
code = np.repeat(np.arange(10), np.where(names == "store 03", 6, 60))
X = pd.DataFrame(rng.normal(size=(len(code), 3)), columns=["price", "weather", "footfall"]).assign(store=names[code])
y = 10 + (X[["price", "weather", "footfall"]].to_numpy() * slopes[code]).sum(axis=1) + rng.normal(size=len(code))

# Each store has four others in its district. With the default of five neighbours store 03, with its few rows, is tied
# to both districts and gets about a tenth of its coefficients from every store: keep `neighbors` below the group size.
model = GAMTL(task="store", neighbors=3).fit(X, y)
plot_graph(model.graph_, highlight=["store 03"])
plt.show()

# %%
# Whom does a store listen to?
# ----------------------------
# ``shares`` are weights: how much each task's own estimate counts in the coefficients of another. Rows add up to
# one, with the pull of the ridge penalty towards zero (``prior``).

parts = model.contributions()
print(parts)
print(pd.DataFrame(parts.of("store 03")).head(6).round(3))
print(f"left for the penalty: {parts.prior[2]:.3f}")

fig, ax = plt.subplots(figsize=(6, 5), layout="constrained")
image = ax.imshow(parts.shares, cmap="Blues", vmin=0, vmax=1)
ax.set_xticks(range(10), names, rotation=60, ha="right")
ax.set_yticks(range(10), names)
ax.set(xlabel="whose data", ylabel="whose coefficients", title="Shares")
fig.colorbar(image, shrink=0.8)
plt.show()

# %%
# One prediction, part by part
# ----------------------------
# The parts of a row sum to its prediction, to rounding. Store 3's own rows give its level (intercepts are its own)
# and part of its slopes; the others enter through the slopes only.

row = X[X["store"] == "store 03"][:1]
split = parts.split(row)[0]
print(f"prediction {model.predict(row)[0]:.6f}, sum of parts {split.sum():.6f}")

fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
ax.bar(names, split, color=np.where(names == "store 03", "#D55E00", "#0072B2"))
ax.tick_params(axis="x", rotation=60)
ax.set(ylabel="part of the prediction", title=f"Prediction {split.sum():.2f} for one row of store 03")
plt.show()
