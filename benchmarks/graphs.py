"""The graph that people read: neighbours against the wanted number, groups, loners, and what the data say of it.

    python benchmarks/graphs.py [--runs 3] [--curves]

prints two tables in Markdown. `--curves` adds RBFGAMTL, which takes minutes: so many runs of the Wiener network, and
one of the others.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from sklearn.preprocessing import StandardScaler

from kinfolk import GAMTL, GAMTLCV, RBFGAMTL
from kinfolk.experiments.reproduction.recovery import recovered
from kinfolk.experiments.reproduction.settings import SETTINGS
from kinfolk.experiments.reproduction.splits import Split, split
from kinfolk.experiments.reproduction.yardsticks import judged
from kinfolk.methods.gamtl.shown import usual_neighbors

STRENGTHS = ("auto", 0.1, 1.0, 10.0, 100.0)
KEYS = {
    "Syn 1, own inputs": "syn1-own",
    "Syn 1, shared inputs": "syn1-shared",
    "Syn 2, own inputs": "syn2-own",
    "Syn 2, shared inputs": "syn2-shared",
    "Wiener, 1,000 rows": "wiener-1000",
    "Birmingham, 2 hours": "birmingham-across_nights-4",
    "Parkinson, voice and time": "parkinsons-voice+time-rows-0.5",
}
SETTING = {setting.key: setting for setting in SETTINGS}
SCATTERED = (10, 20, 50, 100, 200, 500)


def scattered(T: int, seed: int = 0) -> Split:
    """Tasks around one mean: six inputs, twenty rows, slopes and levels that vary as much as the noise does."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(T), 20)
    X = rng.normal(size=(len(codes), 6))
    W = rng.normal(size=6) + rng.normal(size=(T, 6))
    y = np.einsum("nd,nd->n", X, W[codes]) + rng.normal(size=T)[codes] + rng.normal(size=len(codes))
    table = np.column_stack([codes, X])
    return Split(table, y, table[:0], y[:0], list(range(T)))


def fitted(method, rows: Split):
    """The model of a split, through the statistics that the reproduction uses."""
    groups = {} if isinstance(method, GAMTL) else {"groups": rows.groups}
    return method.fit(rows.X, rows.y, rows.weight, **groups)


def neighbors_table() -> None:
    """Mean number of neighbours in the shown graph at every strength, beside the wanted number and the coupling's."""
    print("| tasks | T | wanted | " + " | ".join(f"strength {s}" for s in STRENGTHS) + " | loners | coupling |")
    print("| --- | ---: | ---: | " + "---: | " * (len(STRENGTHS) + 2))
    cases = {name: (lambda key=key: split(SETTING[key], 0)) for name, key in KEYS.items()}
    cases |= {f"around one mean, {T}": (lambda T=T: scattered(T)) for T in SCATTERED}
    for name, rows_of in cases.items():
        rows = rows_of()
        models = [fitted(GAMTL(task=0, strength=s, tol=1e-4, features=StandardScaler()), rows) for s in STRENGTHS]
        T = len(models[0].tasks_)
        counts = [f"{m.adjacency_.nnz / T:.1f}" for m in models]
        loners = max(len(m.graph_.outliers()) for m in models)
        coupling = "-".join(f"{np.quantile([m.coupling_.nnz / T for m in models], q):.0f}" for q in (0, 1))
        print(f"| {name} | {T} | {usual_neighbors(T)} | {' | '.join(counts)} | {loners} | {coupling} |", flush=True)


def reading_table(runs: int, curves: bool) -> None:
    """What the shown graph of the tuned estimators finds; means over runs."""
    print("\n| tasks | method | runs | neighbours | edges | AUC | ARI | loners found | false | what the data say |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    methods = [GAMTL, GAMTLCV, *([RBFGAMTL] if curves else [])]
    for name, key in KEYS.items():
        for method in methods:
            drawn = ("wiener",) if method is RBFGAMTL else ("syn", "wiener")
            several = runs if key.startswith(drawn) else 1
            print(f"| {name} | {method.__name__} | {several} | {_means(key, method, several)} |", flush=True)


def _means(key: str, method, runs: int) -> str:
    found = []
    for run in range(runs):
        rows = split(SETTING[key], run)
        model = fitted(method(task=0), rows)
        facts = {"neighbors": model.adjacency_.nnz / len(model.tasks_), "edges": model.adjacency_.nnz / 2}
        facts["false"] = len(model.graph_.outliers())
        if rows.truth:
            facts |= recovered(model.graph_, None if method is RBFGAMTL else model.coef_, rows.truth)
            facts["false"] = facts["outliers_false"]
        elif key in SETTING:
            scores = model.adjacency_.toarray()
            facts["data"] = judged(SETTING[key], scores, model.tasks_.astype(int).tolist())
        found.append(facts)

    def mean(name: str, form: str) -> str:
        values = [facts[name] for facts in found if name in facts]
        return format(np.mean(values), form) if values else ""

    said = "; ".join(f"{k} {v:.3g}" for k, v in found[0].get("data", {}).items() if np.isscalar(v))
    numbers = [("neighbors", ".1f"), ("edges", ".0f"), ("edge_auc", ".2f"), ("rand_index", ".2f")]
    numbers += [("outliers_found", ".1f"), ("false", ".1f")]
    return " | ".join([mean(name, form) for name, form in numbers] + [said])


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--curves", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    neighbors_table()
    reading_table(options.runs, options.curves)


if __name__ == "__main__":
    main()
