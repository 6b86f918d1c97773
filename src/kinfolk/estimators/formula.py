"""A formula of lme4, `y ~ x + z + (1 + x | shop)`, as a fit of the mixed model that it stands for."""

from __future__ import annotations

import re
from typing import Any

from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.random_slopes import RandomSlopes
from kinfolk.rows.table import read_table

NAME = r"[^\W\d][\w.]*"
BAR = re.compile(r"\(([^|()]+)(\|\|?)([^|()]+)\)")
OTHER_MODELS = {
    "*": "multiply the columns before, or let facts about tasks move slopes: RandomSlopes(task=..., facts=[...])",
    ":": "multiply the columns before, or let facts about tasks move slopes: RandomSlopes(task=..., facts=[...])",
    "^": "compute the column before: data.assign(x2=data.x**2)",
    "-": 'levels are part of every model: a model without them is GAMTL(task="...", intercept=None)',
    "(": 'compute the column before: data.assign(log_x=np.log(data.x)); curves are found by GAMTLCV(task="...")',
}


def fit(formula: str, data: Any, *, method: MultiTaskRegressor | None = None, **parameters: Any) -> MultiTaskRegressor:
    """Fit a mixed model that is written as in lme4: names, `.` for all other columns, `+`, and one term in brackets.

    Columns that are not among those of the bracket have one coefficient for all tasks; columns that are constant within
    tasks move levels. `(1 + x || shop)` has slopes that vary independently, `(1 + x | shop)` correlated ones, as in
    lme4; `(1 | region/shop)` takes every shop of a region as a task. Estimates are those of maximum likelihood.
    Anything else is refused, with the line of Python that does it.

    Parameters
    ----------
    formula : target ~ columns + (columns | task)
    data : a data frame
    method : another method to be fitted to the same columns, as `GAMTLCV()`; by default `RandomSlopes`
    parameters : of the method, as family="poisson"

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"shop": list("aaabbb"), "ads": [0, 1, 2, 0, 1, 3], "sales": [1.0, 3, 5, 4, 6, 10]})
    >>> model = fit("sales ~ ads + (1 | shop)", table)
    >>> model.coef_.ravel().round(3), model.common
    (array([2., 2.]), ['ads'])
    """
    target, fixed, random, bar, task = _parts(formula)
    names = [str(name) for name in read_table(data, name="data").names or ()]
    columns = [name for part in fixed for name in (_others(names, target, fixed, task) if part == "." else [part])]
    missing = [name for name in dict.fromkeys([target, *columns, *random, *task]) if name not in names]
    if missing:
        raise ValueError(f"{formula!r}: data has no column {', '.join(map(repr, missing))}; it has {', '.join(names)}")
    outside = [name for name in random if name not in columns]
    if outside:
        raise ValueError(
            f"{formula!r}: {', '.join(outside)} varies between tasks around a mean of 0. Here the mean is estimated: "
            f"add it, {target} ~ {' + '.join([*fixed, *outside])} + (...)"
        )
    about: dict[str, Any] = {"task": task if len(task) > 1 else task[0]}
    about["common"] = [name for name in columns if name not in random]
    if method is None:
        correlated = bar == "|" and bool(random)
        method = RandomSlopes(facts=None, covariance="full" if correlated else "diagonal")
    return method.set_params(**about, **parameters).fit(data[[*columns, *task]], data[target])


def _parts(formula: str) -> tuple[str, list[str], list[str], str, list[str]]:
    """Target, fixed columns, those of the bracket, its bar, and the columns that name a task."""
    target, tilde, right = (part.strip() for part in formula.partition("~"))
    bars = BAR.findall(right)
    if not tilde or not re.fullmatch(NAME, target) or len(bars) != 1:
        several = (
            "; of several groupings take the finest as the task and the others as columns" if len(bars) > 1 else ""
        )
        raise ValueError(f"{formula!r}: write target ~ columns + (columns | task), with one term in brackets{several}")
    inside, bar, task = bars[0]
    fixed = _names(BAR.sub("", right), formula, allowed=".")
    random = _names(inside, formula)
    if "0" in fixed or "0" in random:
        raise ValueError(
            f'{formula!r}: levels vary here: leave 0 out, or use GAMTL(task="{task.strip()}", intercept=None)'
        )
    groups = [part.strip() for part in task.split("/")]
    wrong = [part for part in groups if not re.fullmatch(NAME, part)]
    if wrong:
        raise ValueError(f"{formula!r}: {wrong[0]!r} is no column that names tasks; join several with task=[...]")
    return target, [name for name in fixed if name != "1"], [name for name in random if name != "1"], bar, groups


def _names(text: str, formula: str, allowed: str = "") -> list[str]:
    """The terms of a sum."""
    terms = [term.strip() for term in text.split("+") if term.strip()]
    for term in terms:
        if not re.fullmatch(rf"{NAME}|[01{allowed}]", term):
            remedy = next((line for mark, line in OTHER_MODELS.items() if mark in term), "write names of columns")
            raise ValueError(f"{formula!r}: {term!r} is not understood; {remedy}")
    return terms


def _others(names: list[str], target: str, fixed: list[str], task: list[str]) -> list[str]:
    """All columns that have no other place."""
    return [name for name in names if name not in (target, *fixed, *task)]
