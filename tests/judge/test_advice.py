"""Advice that can be followed: a parameter that a message names is one of the method, an option one of the command."""

import inspect
import re
import warnings

import numpy as np
import pandas as pd
import pytest

from kinfolk.cli import main
from kinfolk.cli.parser import build_parser
from kinfolk.methods.registry import all_methods

SMALL = {"strengths": (1.0,), "ridges": (1.0,), "anchors": (0.0,), "neighbors": (3,), "cv": 2}
QUICK = {"gamtlcv": SMALL, "rbf-gamtl": SMALL, "bmsl": {"n_samples": 20, "n_burn": 10, "n_chains": 2}}
ARGUMENTS = {"sample_weight", "groups", "time", "n_samples"}  # of fit; the last is how scikit-learn counts rows
OTHERS = {"own_intercepts", "graph"}  # named beside the class that has them


def shops(T=5, n=8, d=2):
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(T), n)
    table = pd.DataFrame(rng.normal(size=(T * n, d)), columns=[f"x{j}" for j in range(d)])
    table["task"] = task
    return table, table["x0"].to_numpy() + task + rng.normal(size=T * n)


def provoking():
    """Tables that every method has something to say about: name -> table, targets, arguments of fit."""
    table, y = shops()
    return {
        "one row per task": (*shops(n=1), {}),
        "two rows per task": (*shops(n=2), {}),
        "one row": (*shops(T=1, n=1), {}),
        "constant in tasks": (table.assign(x0=table["task"] * 1.0), y, {}),
        "sizes apart": (table.assign(x0=1e-9 * table["x0"]), y, {}),
        "weights below 1": (table, y, {"sample_weight": np.full(len(y), 0.01)}),
        "two times": (table, y, {"time": np.arange(len(y)) % 2}),
        "two groups": (table, y, {"groups": np.arange(len(y)) % 2}),
        "no targets": (table, 0 * y, {}),
    }


def said_by(model, table, y, more):
    """Errors and warnings of what people do with a model; none comes from inside NumPy."""
    found = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("error", RuntimeWarning)
        try:
            model.fit(table, y, **more)
            model.predict(table.assign(x0=50 * table["x0"], task=99))
            model.summary()
            model.predict(table, return_std=True)
        except ValueError as error:
            found.append(str(error))
    return found + [str(warning.message) for warning in caught]


@pytest.mark.parametrize("name", all_methods())
def test_messages_name_parameters_that_the_method_has(name):
    method = all_methods()[name]
    known = set(inspect.signature(method).parameters)
    cases = list(provoking().values())
    cases = cases[::3] if name == "rbf-gamtl" else cases  # it takes long, and is a GAMTLCV
    for setting in [{}, {"max_iter": 1}, {"penalty": "cv"}]:
        if set(setting) <= known:
            for case in cases:
                for text in said_by(method(task="task", **QUICK.get(name, {}), **setting), *case):
                    named = set(re.findall(r"\b([a-z_]\w*)=", text)) | set(re.findall(r"[Rr]aise (\w+_\w+)", text))
                    assert named <= known | ARGUMENTS | OTHERS, text


OPTIONS = {option for command in build_parser()._subparsers._group_actions[0].choices.values()
           for option in command._option_string_actions}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in all_methods() if name != "rbf-gamtl"])
def test_messages_of_the_command_line_name_its_options(name, tmp_path, capsys):
    known = set(inspect.signature(all_methods()[name]).parameters)
    quick = [f"--set={key}={value}" for key, value in QUICK.get(name, {}).items() if key != "cv"]
    settings = [[], *([["--set", "max_iter=1"]] if "max_iter" in known else [])]
    for case in ("one row per task", "two rows per task", "two groups", "constant in tasks"):
        table, y, _ = provoking()[case]
        folder = tmp_path / case
        folder.mkdir()
        table.assign(y=y, day=np.arange(len(y)) % 2).to_csv(folder / "t.csv", index=False)
        table.assign(x0=50 * table["x0"], task=99).to_csv(folder / "far.csv", index=False)
        for setting in settings:
            more = ["--groups", "day"] if case == "two groups" else ["--drop", "day"]
            more += ["--cv", "3" if case == "two groups" or name == "gamtlcv" else "0"]
            out = ["--out", f"{folder}/m.kin"]
            code = main(["fit", f"{folder}/t.csv", "--task", "task", "--target", "y", "--method", name,
                         *out, *quick, *more, *setting])  # fmt: skip
            if code == 0:
                main(["predict", f"{folder}/m.kin", f"{folder}/far.csv", "--unseen", "mean"])
            text = capsys.readouterr().err
            assert set(re.findall(r"(?<!\w)--[a-z-]+", text)) <= OPTIONS, text
            assert set(re.findall(r"--set (\w+)=", text)) <= known, text
            spelled = set(re.findall(r"(?<!--set )\b([a-z_]\w*)=", text))
            assert spelled <= {"tol", "max_iter", "n_samples", "own_intercepts", "graph"}, text
