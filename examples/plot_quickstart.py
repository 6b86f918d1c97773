"""
A table, a group column, a graph
================================

Twenty tasks with twenty rows and thirty features each: too few rows for any task on its own. Twelve tasks were made
alike, six others were made alike, and two are like nobody. The method knows nothing of this.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from kinfolk import GAMTL
from kinfolk.baselines import Independent
from kinfolk.datasets import make_groups
from kinfolk.plots import plot_graph, plot_task_errors

# %%
# The data are one table. The task (patient, store, machine) is one of its columns.

syn = make_groups(random_state=0)
print(syn.data.iloc[[0, 1, 20, 21], :5].round(2))

# %%
# Fit all tasks together and, to compare with, an independent ridge per task with a cross-validated penalty.

kin = GAMTL(task="task").fit(syn.data, syn.target)
own = Independent(task="task", penalty="cv").fit(syn.data, syn.target)

# %%
# The graph
# ---------
# An edge joins tasks whose coefficients are near each other. Communities and outliers are read off the graph.

print(kin.graph_)
for members in kin.graph_.communities():
    print("together:", *members)
print("outliers:", kin.graph_.outliers())
print(pd.DataFrame(kin.graph_.edges()).head(3).round(2))

plot_graph(kin.graph_)
plt.show()

# %%
# Did it help?
# ------------
# Test errors by task. The noise has a standard deviation of 1, so 1 is the best that anybody can do. The groups
# gain a lot. The outliers do not: task 19 is pulled towards tasks it has nothing to do with, and is worse off than
# with a ridge of its own. The graph names it as an outlier, and :class:`~kinfolk.GAMTLCV` weighs such losses when it
# decides how much to share.

X, y = syn.test_data, syn.test_target
errors = {}
for name, model in {"own ridge": own, "kinfolk": kin}.items():
    squares = (model.predict(X) - y) ** 2
    rmse = np.sqrt(pd.Series(squares).groupby(X["task"]).mean())
    print(f"{name:10s} groups {rmse.loc[:18].mean():5.2f}   task 19 {rmse[19]:5.2f}   task 20 {rmse[20]:5.2f}")
    errors[name] = rmse.loc[:19]

plot_task_errors(errors, names=syn.tasks[:19], quantity="test RMSE (task 20 is off the scale)")
plt.show()
