"""The guard: what takes part in the mixture, family by family, each of which must earn its place.

Straight lines without a graph come first; the graph, curves and boosted trees follow. A family takes part if the
mixture with it has clearly less held-out error than the one before: by `guard` standard errors, and by half of them
for trees, of which one number is fitted, their share.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from kinfolk.methods.search_report import NO_GAIN, CurvesTried, Gain, SearchReport, TreesTried, VersusRidge
from kinfolk.methods.uncertainty import HeldOut
from kinfolk.rows.gram import Array
from kinfolk.search.cross_errors import CrossErrors, mixture_errors
from kinfolk.search.errors import Errors, chain_of_gains, rmse
from kinfolk.search.members import COMMON_SLOPES, OWN, OWN_CURVES, TREES, Member
from kinfolk.search.mixture import Mixture, mixture_of
from kinfolk.search.shares import best_mixture
from kinfolk.search.tries import Search

FINALISTS = 4  # graphs that may share in the mixture
HALF = 0.5  # of the guard, for trees
LEAST_GRAPH_GAIN = 0.001  # of a graph, below which nobody would notice it
LEAST_GAIN = 0.01  # of curves, below which these are not worth that coefficients are harder to read


@dataclass(frozen=True, eq=False)
class Step:
    """Whether a family takes part in the mixture, and what it gains."""

    helps: bool
    gain: Gain


@dataclass(frozen=True, eq=False)
class Chosen:
    """What a search has chosen so far.

    Attributes
    ----------
    search : the members that were tried
    guard : standard errors that a gain must have
    lines : the mixture of straight lines, without curves and trees
    mixture : the one that predicts
    without_graph : the best one without a graph
    shown : the member whose graph people see; None before graphs were judged
    curves, graph, trees : what came of each family; None of those that were not judged
    chain : held-out errors after every step, from a straight ridge per task on
    """

    search: Search
    guard: float
    weight: Array
    lines: Mixture
    mixture: Mixture
    without_graph: Mixture
    chain: dict[str, Errors]
    shown: Member | None = None
    curves: Step | None = None
    graph: Step | None = None
    trees: Step | None = None
    trees_setting: dict[str, Any] | None = None

    @classmethod
    def of_lines(cls, search: Search, guard: float) -> Self:
        """The mixture of the methods of straight lines that have no graph."""
        weight = search.task_weights()
        E = search.cross_errors(search.keys(graph=False, on_curves=False))
        lines = mixture_of(search, E, weight)
        start = E.errors_of(OWN)
        chain = {"start": start, "curves": start, "sharing": lines.errors}
        return cls(search, guard, weight, lines, lines, lines, chain)

    def with_curves(self, search: Search, *, always: bool = False) -> Self:
        """With the curves of a search that has gone on with them, if they help or are wanted `always`.

        They are judged with the graph that is best with them, against lines with theirs: any other model of the same
        slopes would help lines that had to do without.
        """
        keys = self.without_graph.asked + search.keys(graph=False, on_curves=True)
        mixture = mixture_of(search, search.cross_errors(keys), self.weight)
        chain = {**self.chain, "sharing": mixture.errors}
        if OWN_CURVES in search.tried:
            both = search.cross_errors([OWN, OWN_CURVES])
            chain["curves"] = both.errors(best_mixture(both.by_task(), self.weight))
        curved = replace(self, search=search, mixture=mixture, without_graph=mixture, chain=chain).with_graph()

        gain = self._gain(curved.mixture)
        helps = always or bool(gain.mean > max(self.guard * gain.standard_error, LEAST_GAIN))
        step = Step(helps, gain)
        return replace(curved, lines=self.lines, curves=step) if helps else replace(self, curves=step)

    def with_graph(self) -> Self:
        """With the best graphs, if they help."""
        search = self.search
        # A graph of curves is one of all features, as the explanations of it expect.
        graphs = search.keys(graph=True, on_curves=True) + search.keys(graph=True, on_curves=False)
        if not graphs:
            member, trial = search.hopeless_graph()
            gain = trial.errors.gain_over(self.mixture.errors.only(range(1)))
            return replace(self, shown=member, graph=Step(False, gain))

        mixture = mixture_of(search, search.cross_errors(self.mixture.asked + graphs[:FINALISTS]), self.weight)
        gain = self._gain(mixture)
        tasks = int((mixture.errors.task_rows > 0).sum())
        # A graph whose share is too small to keep has still moved the others a little.
        helps = gain.mean > LEAST_GRAPH_GAIN and gain.clears(self.guard, tasks)
        step = Step(mixture.has_graph and helps, gain)
        if not step.helps:
            return replace(self, shown=search.tried[graphs[0]][0], graph=step)
        shares = {m.key: share for m, share in zip(mixture.members, mixture.task_shares.mean(axis=0), strict=True)}
        shown = max((m for m in mixture.members if m.has_graph), key=lambda member: shares[member.key])
        chain = {**self.chain, "graph": mixture.errors}
        return replace(self, lines=mixture, mixture=mixture, shown=shown, graph=step, chain=chain)

    def with_trees(self, E: CrossErrors, setting: dict[str, Any]) -> Self:
        """With boosted trees, if they help; E are the cross errors of all members so far and of the trees.

        Of very many rows E are those of a sample, so what trees gain is judged within the sample.
        """
        before = mixture_of(self.search, E.among(self.mixture.asked), self.weight)
        mixture = mixture_of(self.search, E, self.weight)
        if not mixture.members:  # trees alone: the lines that they leave room for are those before
            mixture = replace(mixture, members=before.members, shares=before.shares, task_shares=before.task_shares)
        gain = mixture.errors.gain_over(before.errors, shared=self.search.errors_go_together())
        step = Step(bool(mixture.trees > 0 and gain.mean > HALF * self.guard * gain.standard_error), gain)
        if not step.helps:
            return replace(self, trees=step, trees_setting=setting)

        mixture = replace(mixture, errors=_on_all(mixture.errors, before.errors, self.mixture.errors))
        without = mixture
        if self.mixture.has_graph:
            keys = [key for key in E.keys if key == TREES or not self.search.tried[key][0].has_graph]
            without = mixture_of(self.search, E.among(keys), self.weight)
            without = replace(without, errors=_on_all(without.errors, before.errors, self.mixture.errors))
        chain = {**self.chain, "trees": mixture.errors}
        return replace(self, mixture=mixture, without_graph=without, trees=step, trees_setting=setting, chain=chain)

    def _gain(self, mixture: Mixture) -> Gain:
        return mixture.errors.gain_over(self.mixture.errors, shared=self.search.errors_go_together())

    def gains(self) -> dict[str, Gain]:
        """The chain from a straight ridge per task to the model: what curves, sharing, the graph and trees gain.

        Sharing is judged with a ridge per task that has the same curves; tasks with a single row have no ridge.
        """
        errors = {name: self.chain[name] for name in ("start", "curves", "sharing")}
        # In this order, whatever takes part: a step that does not changes nothing.
        errors["graph"] = self.chain.get("graph", errors["sharing"])
        errors["trees"] = self.chain.get("trees", errors["graph"])
        lines = self.search.lines
        both = lines.has_both()
        if not both.any():
            return dict.fromkeys(list(errors)[1:], NO_GAIN)
        judged = {id(after): after.among(both) for after in errors.values()}  # steps that change nothing stay the same
        chain = {name: judged[id(after)] for name, after in errors.items()}
        return chain_of_gains(chain, shared=self.search.errors_go_together(), left_out=1 / len(lines))

    @property
    def has_trees(self) -> bool:
        """Whether trees take part."""
        return self.trees is not None and self.trees.helps

    def worth_of_curves(self) -> tuple[bool, float]:
        """What helps comes before what does not, then what gains most."""
        assert self.curves is not None
        return self.curves.helps, self.curves.gain.mean

    def report(self) -> SearchReport:
        """What the search found."""
        assert self.shown is not None and self.graph is not None
        gains = self.gains()
        shares, task_shares = self.mixture.all_shares()
        return SearchReport(
            graph_helps=self.graph.helps,
            graph_gain=self.graph.gain,
            mixture=shares,
            shares=task_shares,
            gains=gains,
            versus_ridge=self._versus_ridge(gains),
            best_params=self.shown.parameters,
            n_splits=len(self.search.lines),
            cv_results=self.search.table(),
            curves=self._curves_tried(),
            trees=self._trees_tried(),
        )

    def _versus_ridge(self, gains: dict[str, Gain]) -> VersusRidge:
        """The model beside a ridge per task, of tasks that have one."""
        both = self.search.lines.has_both()
        own = self.chain["start"].among(both)
        after = self.mixture.errors.among(both)
        change = sum(gain.mean for name, gain in gains.items() if name != "curves")
        gain = after.gain_over(own, shared=self.search.errors_go_together())
        left_out = 1 / len(self.search.lines)
        _, common = (self.search.tried | self.search.repeated).get(COMMON_SLOPES, (None, None))
        return VersusRidge(
            own.by_task(),
            gain.of_fewer_rows(change, left_out),
            after.chance_of_rise(own),
            None if common is None else common.errors.by_task(),
        )

    def _trees_tried(self) -> TreesTried | None:
        if self.trees is None:
            return None
        return TreesTried(self.trees.gain, self.trees.helps, self.trees_setting or {})

    def _curves_tried(self) -> CurvesTried | None:
        if self.curves is None:
            return None
        curves = self.search.curves
        return CurvesTried(self.curves.gain) if curves is None else curves.tried(self.curves.gain)

    def held_out(self) -> HeldOut:
        """Errors by task on held-out rows, with the graph and without."""
        errors = self.mixture.errors.by_task()
        without = self.without_graph.errors.by_task()
        return HeldOut(errors, without, self.search.lines.trained_on, self._working_errors())

    def _working_errors(self) -> Array | None:
        """Root mean squared errors of the working targets by task, of a family of classes or counts; lines alone."""
        members = [member.key for member in self.mixture.members]
        if self.mixture.errors.roots or not members:
            return None
        E = self.search.cross_errors(members)
        return rmse(mixture_errors(E.by_task(), self.mixture.task_shares), E.rows.sum(axis=0))


def _on_all(after: Errors, before: Errors, all_before: Errors) -> Errors:
    """Errors on all rows, where some were judged: those before, times what became of them on the rows that were."""
    if np.allclose(after.rows, all_before.rows):
        return after
    ratio = np.divide(after.squared, before.squared, out=np.ones_like(after.squared), where=before.squared > 0)
    return replace(all_before, squared=all_before.squared * ratio)
