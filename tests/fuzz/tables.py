"""Random tables through every estimator and every door: `python tests/fuzz/tables.py [count]`, see `campaign`.

Every table ends in a finite certified fit, or in an error that names what is wrong with it. A fitted model has finite
standard deviations, predicts the same after save and load, and has a report; the command line says the same in one
line or a table.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import sys
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(Path(__file__).parent))

import campaign
from random_tables import (
    FAULTS,
    FLAWS,
    KINDS,
    LABELS,
    SCALES,
    SEEN,
    SOUND_LABELS,
    SPREADS,
    Case,
    ends_well,
    is_clear,
    predicted,
)

from kinfolk import GAMTL, GAMTLCV, GAMTLClassifier, GAMTLClassifierCV, load
from kinfolk.baselines import Independent
from kinfolk.cli import main as command
from kinfolk.explain import kinship
from kinfolk.large import predict_file
from kinfolk.methods.registry import all_methods

SMALL = {"strengths": (1.0,), "ridges": (1.0,), "anchors": (0.0,), "cv": 2}
QUICK = {
    "bmsl": {"n_samples": 40, "n_burn": 20, "n_chains": 2, "random_state": 0},
    "gamtlcv": {**SMALL, "neighbors": (3,)},
    "rbf-gamtl": {**SMALL, "neighbors": (3,)},
}
METRICS = ("auto", "identity", "learned", "learned_full", "function")
INTERCEPTS = ("free", "coupled", "shrunk", None)
SELDOM = {"gamtlcv": 0.25, "rbf-gamtl": 0.08, "bmsl": 0.15, "ccmtl": 0.3, "tat": 0.4, "gamtl": 4.0}
DOORS = 0.25  # share of the cases about where tables come from: lazy frames, columns left out, gaps, packed files
COMMAND, REPORT = 0.02, 0.04  # shares of the cases that go through these doors
OTHER_TARGETS, SEARCHED = 0.1, 0.2  # shares of the tables of classes and counts, and of searches among these
ORDINARY, FAULTLESS = 0.5, 0.95  # shares of the tables
NO_STD = ("bmsl", "ccmtl", "mssl", "tat", "mtrl", "gfl")
SUMMARY, QUANTILES = 0.1, (0.05, 0.5, 0.95)


def one(rng: np.random.Generator) -> str:
    """One table; how it ended."""
    if rng.random() < DOORS:
        return AT_THE_DOORS[rng.integers(len(AT_THE_DOORS))](rng)
    case = drawn(rng)
    if rng.random() < OTHER_TARGETS:
        return of_a_family(case, rng)
    names = list(all_methods())
    weight = np.array([SELDOM.get(name, 1.0) for name in names])
    name = str(rng.choice(names, p=weight / weight.sum()))
    if rng.random() < COMMAND:
        return by_command(case, name)
    model = all_methods()[name](**QUICK.get(name, {}), **choices(name, rng))
    SEEN.clear()
    return tried(case, model, rng, has_std=name not in NO_STD)


def of_a_family(case: Case, rng: np.random.Generator) -> str:
    """The table with classes, counts or amounts for targets."""
    kind = list(KINDS)[rng.integers(len(KINDS))]
    case = replace(case, kind=kind)
    searched = rng.random() < SEARCHED
    options = SMALL | {"neighbors": (3,), "trunk": [None, None, "auto"][rng.integers(3)]} if searched else {}
    if "classes" in kind:
        model = GAMTLClassifierCV if searched else GAMTLClassifier
        model = model(**options, class_weight=[None, "balanced"][rng.integers(2)])
    else:
        has_exposure = kind != "binomial" and not case.wide and rng.random() < ORDINARY
        model = GAMTLCV if searched else GAMTL
        model = model(**options, family=kind, exposure="at risk" if has_exposure else None)
    if not searched:
        drawn = choices("gamtl", rng)
        model.set_params(**{key: drawn[key] for key in ("metric", "intercept", "anchor", "strength", "self_loops")})
    SEEN.clear()
    return f"{'classes' if 'classes' in kind else kind}, {tried(case, model, rng, has_std='classes' not in kind)}"


def tried(case: Case, model, rng: np.random.Generator, *, has_std: bool) -> str:
    """Fit the table and use what was fitted; how it ended."""
    outcome = ends_well(case, model)
    if outcome is not None:
        used(outcome, has_std=has_std, report=rng.random() < REPORT)
        if rng.random() < SUMMARY:
            told(outcome)
    return next(iter(SEEN))


def drawn(rng: np.random.Generator) -> Case:
    """A recipe for a table."""

    def pick(values):
        return values[rng.integers(len(values))]

    def size():
        return 1.0 if rng.random() < ORDINARY else pick(SCALES)

    flaws = list(rng.choice(np.unique(FLAWS), size=rng.integers(4), replace=False))
    if rng.random() > FAULTLESS:
        flaws.append(pick(FAULTS))
    return Case(
        seed=int(rng.integers(2**20)),
        T=pick([1, 2, 3, 5, 9, 20]),
        d=pick([1, 2, 4]),
        rows=pick([1, 2, 3, 6, 15, 6, 15]),
        labels=pick(SOUND_LABELS * 4 + list(LABELS)),
        x_scale=size(),
        y_scale=size(),
        spread=pick(SPREADS),
        shift=pick([0.0, 0.0, 1.0, 1e6]),
        flaws=tuple(map(str, flaws)),
        wide=pick([False, False, True]),
    )


def choices(name: str, rng: np.random.Generator) -> dict:
    """Options of GAMTL and of the methods that cross-validate; the others have theirs."""
    found = {"extrapolate": "linear"} if rng.random() < 0.2 else {}
    if name in ("independent", "pooled", "mean-shrunk"):
        return found | {"penalty": [1.0, "cv", 0.0][rng.integers(3)]}
    if name == "gamtlcv":
        nonlinear = ["splines", False, "auto"][rng.integers(3)]
        return found | {"nonlinear": nonlinear, "trunk": [None, None, None, "auto"][rng.integers(4)]}
    if name != "gamtl":
        return found
    return found | {
        "metric": METRICS[rng.integers(5)],
        "intercept": INTERCEPTS[rng.integers(4)],
        "anchor": [0.0, "auto", 0.5, 1.0][rng.integers(4)],
        "strength": ["auto", 1.0, 0.0, 100.0][rng.integers(4)],
        "graph_metric": ["function", "shape", "coefficients"][rng.integers(3)],
        "self_loops": ["auto", "auto", None, 1.0][rng.integers(4)],
        "A0": [None, None, "l2"][rng.integers(3)],
    }


def told(outcome) -> None:
    """Summary, coefficients by name and the probabilities of kin: finite where they are numbers, whatever the table."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        summary = outcome.model.summary()
        assert str(summary) and summary._repr_html_()
        assert np.isfinite(outcome.model.coef_frame().to_numpy()).all(), "coef_frame"
        probability = getattr(kinship(outcome.model), "probability", np.zeros(1))
        assert ((probability >= 0) & (probability <= 1)).all(), "probabilities"


def used(outcome, *, has_std: bool, report: bool) -> None:
    """What people do with a fitted model."""
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        again = load(outcome.model.save(Path(folder) / "m.kin"))
        assert np.array_equal(predicted(again, outcome.table), outcome.prediction), "another prediction after load"
        if has_std:
            std = outcome.model.predict(outcome.table, return_std=True)[1]
            assert np.isfinite(std).all() and (std >= 0).all(), f"std {std.min()}, {std.max()}"
            ends = outcome.model.predict(outcome.table, quantiles=QUANTILES)
            assert np.isfinite(ends).all() and (np.diff(ends, axis=-1) >= 0).all(), "quantiles"
        if report:
            reported(outcome, Path(folder) / "r.html")


def reported(outcome, path: Path) -> None:
    """A whole report; or, for a table too small to judge by, an error that says so and no file."""
    y = np.where(np.isnan(outcome.y), outcome.model.predict(outcome.table), outcome.y)
    try:
        outcome.model.report(outcome.table, y, path)
    except ValueError as error:
        assert is_clear(str(error)), error
        assert not path.exists()
        return
    assert path.read_text(encoding="utf-8").endswith("</html>\n"), "the report is not whole"


def by_command(case: Case, name: str) -> str:
    """fit, predict, report and graph on the table as a file; whole outputs and exit 0, or one line and exit 1."""
    X, y, code = case.table()
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(case.d)]).assign(
        task=LABELS[case.labels](case.T)[code], y=y
    )
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        table.to_csv(folder / "t.csv", index=False)
        before = (folder / "t.csv").read_bytes()
        extra = [f"--set={key}={value}" for key, value in QUICK.get(name, {}).items() if not isinstance(value, tuple)]
        ends = [said("fit", folder / "t.csv", "--task", "task", "--target", "y", "--method", name, "--out",
                     folder / "m.kin", *(e for e in extra if not e.startswith("--set=cv")))]  # fmt: skip
        if ends[0] == 0:
            ends.append(said("predict", folder / "m.kin", folder / "t.csv", "--out", folder / "p.csv"))
            ends.append(said("report", folder / "m.kin", folder / "t.csv", "--target", "y", "--out", folder / "r.html"))
            ends.append(said("graph", folder / "m.kin", "--out", folder / "g.csv"))
        assert (folder / "t.csv").read_bytes() == before, "the input changed"
        left = {p.name for p in folder.iterdir()} - {"t.csv", "m.kin", "p.csv", "r.html", "g.csv"}
        assert not left, f"left behind: {left}"
        assert (folder / "m.kin").exists() == (ends[0] == 0)
    return "by command, fitted" if ends[0] == 0 else "by command, refused"


def sales(rng: np.random.Generator) -> tuple[pd.DataFrame, pd.Series]:
    """A table of numbers with two columns that name tasks, of many types, and its targets."""
    n = int(rng.integers(24, 120))
    labels = [lambda k: k, lambda k: k * 1.0, lambda k: f"no. {k}", lambda k: k > 0, lambda k: f"{k:03d}"]
    kinds = rng.integers(len(labels), size=2)
    region, shop = ([labels[kind](k) for k in rng.integers(0, 3, n).tolist()] for kind in kinds)
    table = pd.DataFrame(
        {"region": region, "shop": shop, "x": rng.normal(size=n), "z": 10 ** rng.uniform(-3, 3) * rng.normal(size=n)}
    )
    table["x"] += rng.choice([0.0, 1e3])
    y = pd.Series(table.x * rng.normal() + rng.normal(size=n), name="y")
    return table[list(rng.permutation(table.columns))], y


def learner(task, rng: np.random.Generator):
    """A method whose answer follows from the statistics alone."""
    scaler = StandardScaler() if rng.random() < 0.5 else None
    return Independent(task=task, penalty=float(10 ** rng.uniform(-1, 1)), features=scaler)


def lazy_of(table: pd.DataFrame, rng: np.random.Generator):
    """The table as a lazy frame of some engine, and what collects such frames."""
    if rng.random() < 0.5:
        return pl.from_pandas(table).lazy(), lambda frame: frame.collect().to_pandas()
    relation = duckdb.connect().from_arrow(pl.from_pandas(table).to_arrow())
    return relation, lambda frame: frame.pl().to_pandas()


def several_task_columns(rng: np.random.Generator) -> str:
    """A lazy frame whose task is named by two columns: the same tasks, lines and predictions as in memory."""
    table, y = sales(rng)
    model = learner(["region", "shop"], rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        here = clone(model).fit(table, y)
        there = clone(model).fit(lazy_of(table.assign(y=y), rng)[0], "y")
        assert here.tasks_.tolist() == there.tasks_.tolist(), (here.tasks_, there.tasks_)
        close(there.coef_, here.coef_)
        frame, collected = lazy_of(table.assign(row=np.arange(len(y))), rng)
        found = collected(there.predict(frame)).sort_values("row")
        close(found["prediction"].to_numpy(), here.predict(table))
    return "several task columns, as in memory"


def left_out_columns(rng: np.random.Generator) -> str:
    """Wide targets, or a task by its position, beside columns that fit leaves out: the table of fit is predicted."""
    table, y = sales(rng)
    n = len(y)
    extra = {
        "row_id": rng.permutation(n) + 100,
        "counter": np.arange(n),
        "same": 3.0,
        "nothing": pd.array([None] * n, "Int64"),
    }
    chosen = {name: extra[name] for name in rng.choice(list(extra), rng.integers(1, 4), replace=False)}
    wide = rng.random() < 0.5
    inputs = table[["x", "z"] if wide else ["x", "z", "shop"]].assign(**chosen)
    inputs = inputs[list(rng.permutation(inputs.columns))]
    target = pd.DataFrame({"s": y, "t": -y + table.x}) if wide else y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = Independent(task=None if wide else list(inputs.columns).index("shop"), penalty=1.0).fit(inputs, target)
        expected = model.predict(inputs)
        assert np.isfinite(expected).all()
        by_name = not wide or model.features_ is not None  # shared inputs that are plain numbers must be those of fit
        turned = inputs[list(rng.permutation(inputs.columns))].assign(more="new") if by_name else inputs
        assert np.array_equal(model.predict(turned), expected), "another order of columns, another prediction"
        assert np.isfinite(model.score(inputs, target))
    return "columns left out, predicted"


def gaps_in_new_rows(rng: np.random.Generator) -> str:
    """A gap in new rows is filled by the mean of fit: in memory, in lazy frames and in files."""
    table, y = sales(rng)
    table = table.drop(columns="region")
    model = learner("shop", rng).fit(table, y)
    new = table.copy()
    column = str(rng.choice(["x", "z"]))
    new.loc[rng.random(len(new)) < rng.choice([0.1, 1.0]), column] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = model.predict(new.fillna({column: table[column].mean()}))
        convert = [lambda t: t, pl.from_pandas, lambda t: t.convert_dtypes()][rng.integers(3)]
        close(model.predict(convert(new)), expected)
        frame, collected = lazy_of(new.assign(row=np.arange(len(new))), rng)
        close(collected(model.predict(frame)).sort_values("row")["prediction"].to_numpy(), expected)
        with tempfile.TemporaryDirectory() as place:
            new.to_parquet(Path(place) / "t.parquet")
            out = predict_file(model, Path(place) / "t.parquet", Path(place) / "p.parquet")
            close(pl.read_parquet(out)["prediction"].to_numpy(), expected)
    return "gaps in new rows, filled"


def cut_files(rng: np.random.Generator) -> str:
    """A packed table that ends too soon: one line that says so; a whole one is fitted."""
    table, y = sales(rng)
    text = table.assign(y=y).to_csv(index=False).encode()
    kind = str(rng.choice(list(PACKERS)))
    whole = PACKERS[kind](text)
    cut = rng.random() < 0.9
    data = whole[: int(rng.integers(1, len(whole)))] if cut else whole
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / f"t.csv.{kind}"
        file.write_bytes(data)
        options = ["--task", "shop", "--target", "y", "--method", "independent", "--cv", "0"]
        stream = ["--stream"] if rng.random() < 0.3 else []
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = command(["fit", str(file), *options, *stream, "--out", str(Path(place) / "m.kin"), "--quiet"])
        assert code == int(cut), f"exit {code}: {err.getvalue()[-300:]}"
        assert err.getvalue().count("\n") == code and "internal error" not in err.getvalue(), err.getvalue()[-300:]
        assert not cut or f"t.csv.{kind} is cut" in err.getvalue(), err.getvalue()
        assert (Path(place) / "m.kin").exists() != cut
    return f"packed file, {'cut' if cut else 'whole'}"


def by_zstd(text: bytes) -> bytes:
    """Polars writes such files itself."""
    packed = io.BytesIO()
    pl.read_csv(text, infer_schema=False).write_csv(packed, compression="zstd")
    return packed.getvalue()


def close(found, expected) -> None:
    """Equal but for the last digits."""
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * max(1.0, float(np.abs(expected).max())))


PACKERS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": by_zstd}
AT_THE_DOORS = (several_task_columns, left_out_columns, gaps_in_new_rows, cut_files)


def said(*arguments) -> int:
    """The exit code of a command, whose words on stderr are checked."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = command([*map(str, arguments), "--quiet"])
    lines = [line for line in err.getvalue().splitlines() if not line.startswith("note: ")]
    assert code in (0, 1) and len(lines) == code, f"{arguments[0]}: exit {code}, said {lines[:3]}"
    assert "Traceback" not in err.getvalue()
    return code


if __name__ == "__main__":
    sys.exit(campaign.main("random tables", one, count=20_000))
