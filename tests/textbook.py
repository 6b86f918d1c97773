"""Look-alikes of textbook tables, small, with what makes the real ones hard; and the fit of a table by both doors."""

import numpy as np
import pandas as pd

from kinfolk import GAMTLCV, load
from kinfolk.cli import main


def growth(rng, boys=8, visits=4):
    """As Orthodont: four visits per child at the same ages, a text column that never varies within a child."""
    age = np.tile(np.arange(8, 8 + 2 * visits, 2), boys)
    who = np.repeat(np.arange(boys), visits)
    size = 17 + 0.6 * age + rng.normal(size=boys)[who] + rng.normal(size=len(age))
    sex = np.where(who % 2, "Female", "Male")
    return pd.DataFrame({"distance": size, "age": age, "Subject": [f"M{k:02d}" for k in who], "Sex": sex})


def houses(rng):
    """As Hedonic: most towns with a single house, yes and no, columns of very different size."""
    town = np.repeat(np.arange(1, 13), [1, 1, 1, 1, 1, 2, 1, 4, 9, 1, 6, 12])
    n = len(town)
    table = {"tax": rng.integers(180, 700, n), "rm": rng.normal(36, 8, n), "chas": rng.choice(["yes", "no"], n)}
    value = 10 - 0.001 * table["tax"] + 0.005 * table["rm"] + 0.1 * rng.normal(size=n)
    return pd.DataFrame({"mv": value, **table, "townid": town})


def exams(rng):
    """As Gcsemv: scores missing, of the input as of the target, and a school without any."""
    school = np.repeat([20920, 22520, 30474, 35270], [9, 14, 3, 12])
    written = rng.normal(46, 13, len(school)).round()
    course = (20 + written + 5 * rng.normal(size=len(school))).round()
    table = {"school": school, "student": np.arange(len(school)), "gender": rng.choice(["F", "M"], len(school))}
    written[[2, 11, 30]] = course[[5, 12]] = np.nan
    course[school == 30474] = np.nan
    return pd.DataFrame({**table, "written": written, "course": course})


def tracks(rng):
    """As storms: days, text with missing values, a diameter that was not measured before some year."""
    name = np.repeat(["Amy", "Bob", "Cleo", "Dora"], [14, 9, 20, 11])
    n = len(name)
    day = pd.Timestamp("2001-06-27") + pd.to_timedelta(6 * np.arange(n), "h")
    status = rng.choice(["hurricane", "tropical storm", None], n)
    diameter = np.where(np.arange(n) < 20, np.nan, rng.normal(100, 20, n))
    wind = 50 + 20 * (status == "hurricane") + 3 * rng.normal(size=n)
    return pd.DataFrame({"name": name, "time": day, "status": status, "diameter": diameter, "wind": wind})


LOOK_ALIKES = {
    "growth": (growth, "Subject", "distance"),
    "houses": (houses, "townid", "mv"),
    "exams": (exams, "school", "course"),
    "tracks": (tracks, "name", "wind"),
}


def fitted_by_both_doors(table, task, target, folder):
    """Predictions for the rows by `fit` in Python and by the command, both with the defaults."""
    table = table.reset_index(drop=True)
    table.to_csv(folder / "table.csv", index=False)
    model = GAMTLCV(task=task).fit(table, target)
    command = ["fit", folder / "table.csv", "--task", task, "--target", target, "--out", folder / "model.kin"]
    assert main([*map(str, command), "--quiet"]) == 0
    command = ["predict", folder / "model.kin", folder / "table.csv", "--out", folder / "predictions.csv", "--quiet"]
    assert main([*map(str, command)]) == 0
    by_command = pd.read_csv(folder / "predictions.csv")["prediction"].to_numpy()
    return model, model.predict(table), load(folder / "model.kin"), by_command
