"""
A new task with five rows
=========================

A store opens, a patient arrives. There are five rows, and thirty coefficients to learn. ``adopt`` attaches the
newcomer to a fitted model: it gets the edges and coefficients that are best for it, and nobody else's coefficients
change. We let in a task that is kin to many, and one that is kin to none.
"""

from copy import deepcopy

import matplotlib.pyplot as plt
import numpy as np

from kinfolk import GAMTL
from kinfolk.baselines import Independent
from kinfolk.datasets import make_groups
from kinfolk.plots import plot_graph

# %%
# Tasks 12 and 19 are held back. The rest are fitted once.

syn = make_groups(n_samples=40, random_state=4)
held_back = {12: "kin of 1-11", 19: "kin of none"}
known = ~syn.data["task"].isin([*held_back, 20])
model = GAMTL(task="task", unseen="mean").fit(syn.data[known], syn.target[known])
before = model.coef_.copy()

# %%
# Five rows of task 12 arrive.

first = syn.data["task"] == 12
model.adopt(syn.data[first][:5], syn.target[first][:5])
edges = [edge for edge in model.graph_.edges() if 12 in (edge.task, edge.neighbor)]
print("neighbours of task 12:", *sorted(e.task if e.neighbor == 12 else e.neighbor for e in edges))
old = model.tasks_ != 12
print("coefficients of the others unchanged:", np.array_equal(model.coef_[old], before))

plot_graph(model.graph_, highlight=[12])
plt.show()

# %%
# How far do five rows go?
# ------------------------
# The test error of each new task with more and more rows, versus a ridge on its own rows (its penalty
# cross-validated as soon as there are enough) and versus the mean of the known tasks, which needs no rows at all.


def rmse(model, task):
    mine = syn.test_data["task"] == task
    return np.sqrt(np.mean((model.predict(syn.test_data[mine]) - syn.test_target[mine]) ** 2))


model.drop([12])
rows = [2, 3, 5, 8, 12, 20, 30, 40]
fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for ax, (task, kind) in zip(axes, held_back.items(), strict=True):
    mine = syn.data["task"] == task
    curves = {"adopted": [], "ridge, own rows only": []}
    for n in rows:
        X, y = syn.data[mine][:n], syn.target[mine][:n]
        curves["adopted"].append(rmse(deepcopy(model).adopt(X, y), task))
        penalty = "cv" if n >= 5 else 1.0
        curves["ridge, own rows only"].append(rmse(Independent(task="task", penalty=penalty).fit(X, y), task))
    print(
        f"task {task}, {kind}:", {name: np.round(curve[2], 2).item() for name, curve in curves.items()}, "with 5 rows"
    )
    for name, curve in curves.items():
        ax.plot(rows, curve, "o-", label=name)
    ax.axhline(rmse(model, task), color="#999999", linestyle="--", label="mean of the known tasks, no rows")
    ax.axhline(1.0, color="#999999", linestyle=":", label="noise")
    ax.set(title=f"task {task}: {kind}", xlabel="rows of the new task", ylabel="test RMSE", ylim=(0, None))
axes[0].legend(fontsize=8)
plt.show()

# %%
# Kinship pays at once: with a few rows the new task is about as good as with forty. A task without kin loses.
# It is pulled towards unrelated tasks, and a ridge of its own is better however few its rows. After an adoption look at
# ``graph_.outliers()``, and keep a plain ridge as well, as long as you do not know the new task.
