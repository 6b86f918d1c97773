"""What the search of GAMTLCV found: the models that were tried, the mixture that was chosen, and what a trunk adds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.methods.uncertainty import HeldOut
from kinfolk.rows.gram import Array
from kinfolk.search.errors import NO_GAIN, Gain, chain_of_gains
from kinfolk.search.mixture import OWN, OWN_CURVES, Mixture, Search
from kinfolk.search.rbf_search import FeatureSearch, TaskRows, block_by_block
from kinfolk.search.trunk_search import TrunkShares, TrunkTrial, trunk_shares


@dataclass(frozen=True, eq=False)
class Chosen:
    """The mixture that predicts, the best one without a graph, whether the graph helps, and its gain."""

    mixture: Mixture
    without_graph: Mixture
    graph_helps: bool
    gain: Gain


@dataclass(frozen=True, eq=False)
class Found:
    """What was tried and chosen; `scale` is what the features were divided by, `curves` those that are no lines."""

    search: Search
    chosen: Chosen
    scale: Array
    curves: FeatureSearch | None = None
    details: dict[str, Any] = field(default_factory=dict)

    def gains(self, with_trees: Mixture | None = None) -> dict[str, Gain]:
        """The chain from a straight ridge per task to the model: what curves, sharing, the graph and trees gain.

        Sharing is judged beside a ridge per task with the same curves; tasks with a single row have none.
        """
        search = self.search
        own = search.trial(OWN).errors
        curved = OWN_CURVES in search.yardsticks
        steps = {
            "start": own,
            "curves": search.best_of([OWN, OWN_CURVES], search.task_weights()) if curved else own,
            "sharing": self.chosen.without_graph.errors,
            "graph": self.chosen.mixture.errors if self.chosen.graph_helps else self.chosen.without_graph.errors,
        }
        steps["trees"] = steps["graph"] if with_trees is None else with_trees.errors
        both = search.folds.has_both()
        if not both.any():
            return dict.fromkeys(list(steps)[1:], NO_GAIN)
        judged = {id(errors): errors.among(both) for errors in steps.values()}  # steps that change nothing stay one
        chain = {name: judged[id(errors)] for name, errors in steps.items()}
        return chain_of_gains(chain, shared=search.errors_go_together(), left_out=1 / len(search.folds))

    def beside_own(self, gains: dict[str, Gain]) -> dict[str, Any]:
        """What the model gains over a ridge per task, with the standard errors of the chain `gains`."""
        about = self.search.beside_own(self.chosen.mixture)
        change = sum(gain.mean for name, gain in gains.items() if name != "curves")
        whole = about["own_gain_"].of_fewer_rows(change, 1 / len(self.search.folds))
        return about | {"own_gain_": whole}

    def held_out(self) -> HeldOut:
        """Errors by task on held-out rows, with the graph and without."""
        chosen = self.chosen
        without = chosen.without_graph.errors.by_task()
        return HeldOut(chosen.mixture.errors.by_task(), without, self.search.folds.trained_on)

    def shares_of(self, trial: TrunkTrial, mixture: Mixture, data: TaskRows) -> TrunkShares:
        """What a trunk earns beside a mixture, from the predictions of both for held-out rows."""
        W, c = self.search.held_out_lines(mixture)
        lines = np.full(len(data.y), np.nan)
        for f in range(len(W)):
            rows = data.fold == f
            lines[rows] = self._lines(data.inputs(f)[rows], data.codes[rows], f, W[f], c[f])
        return trunk_shares(data, lines, trial.prediction, self.search.task_weights())

    def _lines(self, inputs: Array, codes: NDArray[np.intp], f: int, W: Array, c: Array) -> Array:
        """What slopes W (T, D) and intercepts predict for rows that fold f has held out."""
        X = inputs / self.scale if self.curves is None else self.curves.of_fold(f, inputs)
        return c[codes] + block_by_block(X, lambda part, rows: np.einsum("nd,nd->n", part, W[codes[rows]]))
