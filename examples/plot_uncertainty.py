"""
How sure is a prediction?
=========================

``predict(X, return_std=True)`` gives the standard deviation of a new observation at every row: the noise, and what
is not known about the coefficients, to which neighbours contribute. Are these intervals honest? Count on fresh
rows.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from kinfolk import GAMTLCV

# %%
# Fifteen machines in three families. Most have 40 rows; three, one of each family, have 4. Every machine has the
# same noise.

rng = np.random.default_rng(3)
names = np.array([f"machine {k:02d}" for k in range(1, 16)])
slopes = rng.normal(size=(3, 4))[np.arange(15) % 3] + 0.3 * rng.normal(size=(15, 4))
level = rng.normal(size=15)
poor = names[:3]


def draw(rows):
    code = np.repeat(np.arange(15), rows)
    X = rng.normal(size=(len(code), 4))
    y = level[code] + (X * slopes[code]).sum(axis=1) + 0.5 * rng.normal(size=len(code))
    return pd.DataFrame(X, columns=["load", "speed", "heat", "age"]).assign(machine=names[code]), y


X, y = draw(np.where(np.isin(names, poor), 4, 40))
model = GAMTLCV(task="machine").fit(X, y)

# %%
# Fresh rows: how many fall inside the interval of mean plus and minus 1.64 standard deviations, which should hold
# 90 %?

X_new, y_new = draw(np.full(15, 200))
mean, std = model.predict(X_new, return_std=True)
inside = np.abs(y_new - mean) <= 1.64 * std
by_machine = pd.DataFrame({"inside": inside, "std": std}).groupby(X_new["machine"]).mean()
few = by_machine.index.isin(poor)
print(f"all rows: {inside.mean():.1%} inside")
for kind, rows in {"40 rows": by_machine[~few], "4 rows": by_machine[few]}.items():
    print(f"machines with {kind}: {rows['inside'].mean():.1%} inside, mean std {rows['std'].mean():.2f}")

# %%
# The intervals are wider where less is known. With many rows about 90 % of the new rows fall inside, as they
# should. With four rows the intervals are too cautious here: four rows say little about how well the neighbours
# fit, and the model does not take their word for it.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
left.axvline(0.9, color="#999999", linestyle="--")
colours = np.where(few, "#D55E00", "#0072B2")
left.scatter(by_machine["inside"], by_machine.index, c=colours, zorder=3)
left.set(title="share of new rows inside the 90 % interval", xlim=(0.5, 1.0))
right.barh(by_machine.index, by_machine["std"], color=colours)
right.axvline(0.5, color="#999999", linestyle="--")
right.set(title="mean standard deviation (dashed: noise alone)", yticklabels=[])
plt.show()
