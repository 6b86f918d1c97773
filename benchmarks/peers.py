"""kinfolk beside what a user would pick today, on the same data in one run: time, peak memory and test error.

Tasks have coefficients around those of their group, 20 rows for 10 features each, and noise of standard deviation 1:
no method can have a test error below 1. Every method fits and predicts in a process of its own. One that needs longer
than the limit, or more memory, is stopped and not tried at larger sizes.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np

ROWS = 20
FEATURES = 10


def write(path, T, seed=0):
    """Training and test rows, as many of each."""
    rng = np.random.default_rng([seed, T])
    groups = max(3, T // 20)
    W = rng.normal(size=(groups, FEATURES))[rng.integers(groups, size=T)] + 0.2 * rng.normal(size=(T, FEATURES))
    level = rng.normal(size=T)
    parts = {}
    for name in ("train", "test"):
        task = np.repeat(np.arange(T), ROWS)
        X = rng.normal(size=(len(task), FEATURES))
        y = level[task] + np.einsum("nd,nd->n", X, W[task]) + rng.normal(size=len(task))
        parts |= {f"{name}_task": task, f"{name}_X": X, f"{name}_y": y}
    np.savez(path, **parts)


def gamtl(task, X, y, new_task, new_X):
    from kinfolk import GAMTL

    return GAMTL(task=0).fit(np.column_stack([task, X]), y).predict(np.column_stack([new_task, new_X]))


def gamtlcv(task, X, y, new_task, new_X):
    from kinfolk import GAMTLCV

    return GAMTLCV(task=0).fit(np.column_stack([task, X]), y).predict(np.column_stack([new_task, new_X]))


def ridge_loop(task, X, y, new_task, new_X):
    """One RidgeCV per task; its penalty by leave-one-out."""
    from sklearn.linear_model import RidgeCV

    prediction = np.empty(len(new_X))
    for t in np.unique(task):
        model = RidgeCV(alphas=np.logspace(-2, 3, 11)).fit(X[task == t], y[task == t])
        prediction[new_task == t] = model.predict(new_X[new_task == t])
    return prediction


def statsmodels_mixedlm(task, X, y, new_task, new_X):
    """Random intercepts and slopes with a full covariance."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    Z, new_Z = (np.column_stack([np.ones(len(A)), A]) for A in (X, new_X))
    fit = MixedLM(y, Z, groups=task, exog_re=Z).fit(method="lbfgs")
    effects = fit.random_effects
    W = fit.fe_params + np.array([np.asarray(effects[t]) for t in range(task.max() + 1)])
    return np.einsum("nd,nd->n", new_Z, W[new_task])


def gpboost_mixed(task, X, y, new_task, new_X):
    """Random intercepts and independent random slopes."""
    import gpboost

    one, new_one = np.ones((len(X), 1)), np.ones((len(new_X), 1))
    model = gpboost.GPModel(
        group_data=task, group_rand_coef_data=X, ind_effect_group_rand_coef=[1] * FEATURES, likelihood="gaussian"
    )
    model.fit(y=y, X=np.hstack([one, X]))
    new = {"group_data_pred": new_task, "group_rand_coef_data_pred": new_X, "X_pred": np.hstack([new_one, new_X])}
    return model.predict(**new, predict_var=False)["mu"]


def lightgbm_with_id(task, X, y, new_task, new_X):
    """Boosted trees; the task is a categorical column."""
    from lightgbm import LGBMRegressor

    model = LGBMRegressor(n_estimators=300, verbose=-1, n_jobs=2, random_state=0)
    model.fit(np.column_stack([task, X]), y, categorical_feature=[0])
    return model.predict(np.column_stack([new_task, new_X]))


def graph_package(task, X, y, new_task, new_X):
    """Ridge per task, a graph over the coefficients by graph-structure-learning, coefficients smoothed along it.

    Its scale is set for about five neighbours by our own rule; the amount of smoothing is chosen on a fifth of the
    training rows.
    """
    from graph_learn.smooth_learning import gsp_learn_graph_log_degrees

    from kinfolk.baselines import Independent
    from kinfolk.graph import squared_distances, theta_for_neighbors

    def smoothed(rows):
        ridge = Independent(task=0, penalty="cv").fit(np.column_stack([task, X])[rows], y[rows])
        W = np.column_stack([ridge.intercept_, ridge.coef_])
        Z = squared_distances(ridge.coef_)
        z = theta_for_neighbors(Z, 5) * Z[np.triu_indices(len(Z), 1)]
        A = gsp_learn_graph_log_degrees(z, 1.0, 1.0, maxit=1000, tol=1e-5, edge_tol=0.0, step_size=0.99)
        L = np.diag(A.sum(axis=0)) - A
        slopes = {s: np.linalg.solve(np.eye(len(A)) + s * L, W[:, 1:]) for s in (0.1, 0.3, 1.0, 3.0, 10.0)}
        # The intercept of a task is what its own rows leave after the slopes.
        centre = np.array([X[rows][task[rows] == t].mean(axis=0) for t in range(len(A))])
        return {
            s: np.column_stack([W[:, 0] + np.einsum("td,td->t", centre, W[:, 1:] - V), V]) for s, V in slopes.items()
        }

    def predicted(W, task, X):
        return W[task, 0] + np.einsum("nd,nd->n", X, W[task, 1:])

    held_out = np.arange(len(y)) % 5 == 0
    errors = {s: np.mean((predicted(W, task, X) - y)[held_out] ** 2) for s, W in smoothed(~held_out).items()}
    return predicted(smoothed(np.ones(len(y), bool))[min(errors, key=errors.get)], new_task, new_X)


# Every method with the module whose import is not counted.
METHODS = {
    "kinfolk GAMTL": (gamtl, "kinfolk.estimators.gamtl"),
    "kinfolk GAMTLCV": (gamtlcv, "kinfolk.estimators.gamtlcv"),
    "loop of RidgeCV": (ridge_loop, "sklearn.linear_model"),
    "statsmodels MixedLM": (statsmodels_mixedlm, "statsmodels.regression.mixed_linear_model"),
    "gpboost, random slopes": (gpboost_mixed, "gpboost"),
    "LightGBM with id": (lightgbm_with_id, "lightgbm.sklearn"),
    "graph-structure-learning": (graph_package, "graph_learn.smooth_learning"),
}


def run(name, path, memory):
    """One method in this process; prints seconds, CPU seconds, peak GB and two test errors."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (int(memory * 1e9),) * 2)
    with np.load(path) as data:
        train, test = ([data[f"{part}_{key}"] for key in ("task", "X", "y")] for part in ("train", "test"))
    method, module = METHODS[name]
    import_module(module)
    wall, cpu = time.perf_counter(), time.process_time()
    prediction = method(*train, *test[:2])
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    squares = (prediction - test[2]) ** 2
    by_task = np.sqrt(np.bincount(test[0], squares) / np.bincount(test[0]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(json.dumps([wall, cpu, peak, float(np.sqrt(squares.mean())), float(by_task.mean())]))


def measured(name, path, options):
    """The columns of the table, or why there are none."""
    command = [sys.executable, __file__, "--run", name, "--file", str(path), "--memory", str(options.memory)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.limit)
    except subprocess.TimeoutExpired:
        return None, f"stopped after {options.limit:g} s"
    if done.returncode:
        error = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        if "ModuleNotFoundError" in error:
            return None, "not installed"
        if "Memory" in error or "bad_alloc" in done.stderr:
            return None, f"needs more than {options.memory:g} GB"
        return None, error[:70]
    return json.loads(done.stdout.splitlines()[-1]), None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[20, 100, 1000, 10_000])
    parser.add_argument("--limit", type=float, default=180, help="seconds for one method, imports included")
    parser.add_argument("--memory", type=float, default=8, help="GB of address space for one method")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--run", choices=METHODS, help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run(options.run, options.file, options.memory)
        return
    print(f"{ROWS} training rows and {FEATURES} features per task; limit {options.limit:g} s\n")
    print("| tasks | method | seconds | CPU seconds | peak GB | test RMSE, pooled | mean over tasks |")
    print("|---" * 7 + "|")
    stopped = set()
    with tempfile.TemporaryDirectory() as folder:
        for T in options.sizes:
            path = Path(folder) / f"{T}.npz"
            write(path, T)
            for name in (m for m in options.methods if m not in stopped):
                numbers, reason = measured(name, path, options)
                if numbers is None:
                    stopped.add(name)
                    print(f"| {T:,} | {name} | {reason} | | | | |", flush=True)
                else:
                    wall, cpu, peak, pooled, by_task = numbers
                    cells = f"{wall:.2f} | {cpu:.2f} | {peak:.2f} | {pooled:.3f} | {by_task:.3f}"
                    print(f"| {T:,} | {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
