"""Tables that memory does not hold: lines of all rows in blocks, and what needs rows of a random sample of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.rows.folds import Folds, folds_as_seen, train_on_the_past
from kinfolk.rows.gram import Array
from kinfolk.rows.splits import InTime, assign_folds, generator, share_distinct
from kinfolk.rows.table import Rows, read_rows
from kinfolk.search.rbf_search import FeatureSearch
from kinfolk.sources.dealing import Dealt, check_folds, folds_of_parts
from kinfolk.sources.files import Source, polars
from kinfolk.sources.fits import Model, columns_of, fit_statistics
from kinfolk.sources.plan import FeaturePlan
from kinfolk.sources.roles import Roles
from kinfolk.sources.stream import Labels, checked_rows, labels_like, sum_source

BASIS = 4  # copies of the functions of a block of rows that are there while its statistics are summed
MOST_ROWS = 200_000  # of the sample, as of trees in memory; of every task one row more, if it has none among them


@dataclass(frozen=True, eq=False)
class Drawn:
    """What was drawn for the rows of a table, in their order, from their tasks, groups and times alone.

    Attributes
    ----------
    part : (n,), the part of every row; in time they are in its order, and the first is never held out
    k : number of parts
    in_time : whether they are in the order of time
    kept : (s,), positions of the rows of the sample
    distinct : (T,), share of every task's rows that are observations of their own; None if all are
    """

    part: NDArray[np.intp]
    k: int
    in_time: bool
    kept: NDArray[np.intp]
    distinct: Array | None


def draw_rows(model: MultiTaskRegressor, source: Source, frame: Any, roles: Roles, *, time: str | None = None) -> Drawn:
    """Folds of all rows with a target, the same as if they were in memory, and a sample of them."""
    if time is not None and roles.groups is not None:
        raise ValueError("give groups or time: rows of equal time stay together as groups do")
    columns = list(dict.fromkeys(filter(None, [roles.task, roles.groups, time])))
    pl = polars()
    whole = frame.select(*columns, pl.col(roles.target).is_not_null().alias("\0used")).collect()
    table = whole.filter("\0used")
    tasks = Labels(roles.task, source, whole=source.text)
    number = tasks.numbers(table[roles.task])
    order = tasks.sorted()[1]
    codes = np.argsort(order)[number]
    together = None if roles.groups is None else Labels(roles.groups, source).numbers(table[roles.groups])
    seed = getattr(model, "random_state", None)
    kept = _kept(codes, generator(seed))
    if not model.wants_folds():
        return Drawn(np.zeros(len(codes), np.intp), 1, False, kept, None)
    k = check_folds(model.cv)
    if time is not None:
        when = InTime.of(whole[time].to_numpy(), None, whole.height)
        used = whole["\0used"].to_numpy()
        together = when.when[used]
        part = (model.folds_in_time(when.folds(k)) + 1)[used]
    else:
        part = assign_folds(codes, k, groups=together, random_state=seed)
    distinct = None if together is None else share_distinct(codes, together, len(order))
    return Drawn(part, int(part.max()) + 1, time is not None, kept, distinct)


def _kept(codes: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
    """Positions of a random sample, and of the first row of every task."""
    if len(codes) <= MOST_ROWS:
        return np.arange(len(codes))
    drawn = rng.choice(len(codes), MOST_ROWS, replace=False)
    return np.union1d(drawn, np.unique(codes, return_index=True)[1])


def sample_of(frame: Any, drawn: Drawn) -> Any:
    """The rows of the sample, in memory."""
    pl = polars()
    if len(drawn.kept) == len(drawn.part):
        return frame.collect()
    kept = pl.Series(drawn.kept.astype(np.uint32)).implode()
    return frame.with_row_index("\0row").filter(pl.col("\0row").is_in(kept)).drop("\0row").collect(engine="streaming")


@dataclass(frozen=True, eq=False)
class _InBlocks:
    """Statistics of the folds of all rows, in any features: every call is a pass over the table."""

    source: Source
    frame: Any
    roles: Roles
    drawn: Drawn
    plan: FeaturePlan
    options: dict[str, Any]

    def folds(self, basis: Any = None, names: tuple[str, ...] | None = None) -> Folds:
        """In the inputs, or in functions of them."""
        plan = self.plan
        roles = replace(self.roles, groups=None)
        options = self.options | {"dealer": Dealt(self.drawn.part, self.drawn.k)}
        if basis is not None:
            plan = replace(plan, basis=basis, names=names)
            options["batch_rows"] = checked_rows(None, BASIS * len(names or ()) + 2)
        parts = sum_source(self.source, roles, plan, frame=self.frame.select(roles.used()), **options)
        if self.drawn.in_time:
            folds = train_on_the_past(Folds.of_parts(parts))
        elif self.drawn.k == 1:
            folds = Folds.of_parts(parts)
        else:
            folds = folds_of_parts(parts, groups=self.roles.groups)
        return replace(folds, distinct=self.drawn.distinct)

    def in_basis(self, search: FeatureSearch) -> Folds:
        """In curves; in time every fold has those of its past."""
        names = search.folds.total.feature_names
        whole = self.folds(search.features, names)
        if all(features is search.features for features in search.by_fold):
            return whole
        return folds_as_seen(whole, lambda f: self.folds(search.by_fold[f], names))


def fit_sampled(
    model: Model,
    source: Source,
    roles: Roles,
    plan: FeaturePlan,
    *,
    frame: Any,
    drawn: Drawn,
    sample: Any,
    **options: Any,
) -> Model:
    """Fit to the rows of a lazy `frame` in blocks, and to the `sample` what needs rows: curves, trees, ends."""
    roles = replace(roles, names=tuple(frame.collect_schema()))
    blocks = _InBlocks(source, frame, roles, drawn, plan, options)
    folds = blocks.folds()
    if not hasattr(model, "fit_sample"):
        return fit_statistics(model, folds.total, folds if model.wants_folds() else None, roles, plan)
    columns = columns_of(roles, folds.total, plan.fitted)
    rows = _rows_of(sample, roles, folds)
    groups = None if roles.groups is None and not drawn.in_time else drawn.part[drawn.kept]
    return model.fit_sample(rows, columns, drawn.part[drawn.kept], folds, blocks.in_basis, groups)


def _rows_of(sample: Any, roles: Roles, folds: Folds) -> Rows:
    """The sample as checked rows, with task labels of the kind that the statistics have."""
    X = sample.select(labels_like(folds.total.labels, sample[roles.task]), *roles.features)
    return read_rows(X, sample[roles.target].to_numpy(), task=roles.task)
