"""
Curves instead of lines
=======================

:class:`~kinfolk.RBFGAMTL` puts the same graph on curves: all tasks share a set of radial basis functions, each task
has its own weights on them. Its functions (number, width, with or without linear terms) are chosen by
cross-validation.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from kinfolk import GAMTLCV, RBFGAMTL
from kinfolk.plots import plot_graph

# %%
# Ten engines, two kinds of response to throttle. Each engine was measured at twelve settings only, and in a range
# of its own.

rng = np.random.default_rng(2)
names = np.array(list("ABCDEFGHIJ"))
kinds = np.arange(10) % 2
shift = 0.15 * rng.normal(size=10)


def response(code, x):
    return np.where(kinds[code] == 0, np.sin(2 * x), np.exp(-(x**2)) - 0.5 * x) + shift[code]


code = np.repeat(np.arange(10), 12)
start = rng.uniform(-2.5, -0.5, size=10)[code]
x = start + 3.0 * rng.uniform(size=len(code))
X = pd.DataFrame({"engine": names[code], "throttle": x})
y = response(code, x) + 0.15 * rng.normal(size=len(code))

model = RBFGAMTL(task="engine").fit(X, y)
line = GAMTLCV(task="engine", nonlinear=False).fit(X, y)
print("chosen:", model.rbf_setting_)
print("predictions:", ", ".join(f"{share:.0%} {name}" for name, share in model.mixture_.items() if share > 0.01))

# %%
# In grey what was measured, black the truth. Neighbours let a curve go on, for a while, where its engine has no
# rows; beyond all rows of all engines there is nothing to go by.

grid = np.linspace(-2.5, 2.5, 60)
fig, axes = plt.subplots(2, 5, figsize=(11, 4.6), sharex=True, sharey=True, layout="constrained")
for t, ax in enumerate(axes.T.ravel()):
    new = pd.DataFrame({"engine": names[t], "throttle": grid})
    ax.plot(x[code == t], y[code == t], "o", color="#999999", markersize=4)
    ax.plot(grid, response(np.full(60, t), grid), color="black", linewidth=1, label="truth")
    ax.plot(grid, model.predict(new), color="#D55E00", label="RBFGAMTL")
    ax.plot(grid, line.predict(new), color="#0072B2", linewidth=1, linestyle="--", label="GAMTLCV, linear")
    ax.set_title(names[t], fontsize=9)
axes[0, 0].legend(fontsize=7)
plt.show()

inside = (grid > x.min()) & (grid < x.max())
everywhere = pd.DataFrame({"engine": np.repeat(names, inside.sum()), "throttle": np.tile(grid[inside], 10)})
truth = response(np.repeat(np.arange(10), inside.sum()), everywhere["throttle"].to_numpy())
for name, fitted in {"RBFGAMTL": model, "GAMTLCV": line}.items():
    print(f"{name:9s} RMSE to the true curves {np.sqrt(np.mean((fitted.predict(everywhere) - truth) ** 2)):.2f}")

# %%
# The graph of the curves: engines of one kind were A, C, E, G, I and B, D, F, H, J.

print(model.graph_.communities(), "graph used:", model.graph_helps_)
plot_graph(model.graph_)
plt.show()
