"""
Ten methods on one table
========================

Every method of :mod:`kinfolk.baselines` has the same interface. :func:`~kinfolk.tune` chooses the parameters of
each on the same folds, and ``structure_`` is what the method says about the tasks: a graph, a covariance, a
precision, a tree, or nothing.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from kinfolk import GAMTL, tune
from kinfolk.baselines import METHODS
from kinfolk.plots import plot_structure

# %%
# Fourteen tasks in two groups (a, b) and two outliers (z), six features, and fifteen rows that all tasks have in
# common. So Y has one column per task, and no task column is needed.

rng = np.random.default_rng(1)
names = [*(f"a{k}" for k in range(1, 8)), *(f"b{k}" for k in range(1, 6)), "z1", "z2"]
slopes = rng.normal(size=(4, 6))[np.repeat([0, 1, 2, 3], [7, 5, 1, 1])] + 0.2 * rng.normal(size=(14, 6))


def draw(rows):
    X = rng.normal(size=(rows, 6))
    return X, pd.DataFrame(X @ slopes.T + rng.normal(size=(rows, 14)), columns=names)


X, Y = draw(15)
X_test, Y_test = draw(1000)

# %%
# Grids are small here, to keep this page quick; without one, ``tune`` takes the method's ``default_grid``. GFL
# fuses along correlations of the targets, which folds of statistics do not carry, so it is given them. BMSL
# averages over its posterior and has nothing to tune; its chains are short here.

grids = {
    "GAMTL": {"strength": [1.0, 10.0], "ridge": [0.1, 1.0]},
    "CCMTL": {"strength": [0.3, 1.0, 3.0]},
    "GFL": {"fusion": [0.01, 0.1], "sparsity": [0.01]},
}
given = {
    "GFL": {"graph": np.corrcoef(Y.T)},
    "BMSL": {"n_samples": 400, "n_burn": 200, "n_chains": 2, "random_state": 0},
}

results = []
models = {}
for name, method in {"GAMTL": GAMTL, **METHODS}.items():
    started = time.process_time()
    model = method(**given.get(name, {}))
    grid = grids.get(name, model.default_grid)
    model = tune(model, grid, X, Y, cv=3).best_estimator_ if grid else model.fit(X, Y)
    error = np.sqrt(np.mean((model.predict(X_test) - Y_test.to_numpy()) ** 2))
    says = "" if model.structure_ is None else type(model.structure_).__name__
    models[name] = model
    results.append({"method": name, "test RMSE": error, "structure": says, "seconds": time.process_time() - started})

print(pd.DataFrame(results).sort_values("test RMSE").round(2).to_string(index=False))

# %%
# One draw of one kind of data: no ranking of methods follows from it. Nearly all see the groups; most put the outliers
# into one of them. Try your own table with ``kinfolk compare``, which runs every method on the same outer folds, with
# the alternatives that share nothing as well.

drawn = {name: model for name, model in models.items() if model.structure_ is not None}
fig, axes = plt.subplots(2, 4, figsize=(13, 6.5), layout="constrained")
for ax, (name, model) in zip(axes.flat, drawn.items(), strict=False):
    plot_structure(model, ax=ax)
    ax.set_title(name)
for ax in axes.flat[len(drawn) :]:
    ax.axis("off")
plt.show()
