"""
A stream that changes its mind
==============================

Rows arrive day by day. ``partial_fit`` merges them into the statistics of the tasks and solves again: no earlier
row is needed, and the result is that of a fit on all rows. With ``forget`` below 1 older rows fade, so that the
model follows a change.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from kinfolk import GAMTL

# %%
# Twelve sensors in two groups, five rows a day each. On day 20 sensors 9-12 are moved, and behave like 1-6 from
# then on.

rng = np.random.default_rng(5)
T = 12
d = 5
days = 40
moved_on = 20
groups = np.repeat([0, 1], [6, 6])
after = np.where(np.arange(T) >= 8, 0, groups)
centres = rng.normal(size=(2, d)) * 1.5
own = 0.1 * rng.normal(size=(T, d))


def a_day(day):
    code = np.repeat(np.arange(T), 5)
    X = rng.normal(size=(5 * T, d))
    slopes = centres[groups if day < moved_on else after] + own
    y = (X * slopes[code]).sum(axis=1) + rng.normal(size=len(code))
    return pd.DataFrame(X).add_prefix("x").assign(sensor=code + 1), y


# %%
# Every morning predict the day, then learn from it. One model remembers everything, one gives yesterday's knowledge
# 80 % of its weight.

models = {1.0: GAMTL(task="sensor"), 0.8: GAMTL(task="sensor")}
X, y = a_day(0)
for model in models.values():
    model.partial_fit(X, y)
errors = {forget: [] for forget in models}
pictures = {}
for day in range(1, days):
    X, y = a_day(day)
    for forget, model in models.items():
        errors[forget].append(np.sqrt(np.mean((model.predict(X) - y) ** 2)))
        model.partial_fit(X, y, forget=forget)
    if day in (moved_on - 1, days - 1):
        pictures[day] = {forget: model.graph_ for forget, model in models.items()}

for forget, daily in errors.items():
    calm = np.mean(daily[10 : moved_on - 1])
    settled = np.mean(daily[moved_on + 10 :])
    print(f"forget={forget}: RMSE {calm:.2f} before the move, {settled:.2f} from the tenth day after it (noise 1.0)")

fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
for forget, daily in errors.items():
    ax.plot(range(1, days), daily, label=f"forget={forget}")
ax.axvline(moved_on, color="#999999", linestyle="--")
ax.text(moved_on + 0.3, ax.get_ylim()[1] * 0.93, "sensors 9-12 moved", fontsize=8)
ax.set(xlabel="day", ylabel="RMSE of the day, predicted in advance")
ax.legend()
plt.show()

# %%
# The graph follows as well. While nothing changes, forgetting costs a little: fewer rows count.

for day, graphs in pictures.items():
    for forget, graph in graphs.items():
        print(f"day {day}, forget={forget}:", graph.communities())
