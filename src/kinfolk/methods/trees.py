"""Nested groups of tasks, from the leaves to the root, with the tasks' own names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from kinfolk.declared import holds
from kinfolk.methods.structures import Structure
from kinfolk.rows.gram import Array
from kinfolk.rows.splits import by_appearance
from kinfolk.solvers.graph.communities import by_size


@holds(labels="names T", levels="integers L T")
@dataclass(frozen=True, eq=False)
class TaskTree(Structure):
    """A tree whose leaves are tasks; a level is a partition of the tasks, and groups only grow towards the root.

    Attributes
    ----------
    levels : array of shape (L, T): group number of every task; level 0 is the finest, level L - 1 the root, one group.
        Numbers count groups in the order of their first task.
    labels : task names (T,)

    Examples
    --------
    Two pairs that meet at the root:

    >>> tree = TaskTree([[0, 0, 1, 1], [0, 0, 0, 0]], ["a", "b", "c", "d"])
    >>> tree
    TaskTree(4 tasks in 2, 1 groups)
    >>> tree.members(0)
    [['a', 'b'], ['c', 'd']]
    >>> tree.to_newick()
    '((a:1,b:1):1,(c:1,d:1):1);'
    >>> tree.to_linkage()[:, 2]
    array([1., 1., 2.])
    """

    levels: NDArray[np.intp]
    labels: NDArray[Any]
    kind = "tree"
    edges_are = "the share of levels at which tasks are together"
    described: ClassVar[dict[str, str]] = {"levels": "levels"}

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", np.asarray(self.labels))
        levels = np.asarray(self.levels)
        if levels.ndim != 2 or not len(levels) or levels.shape[1] != len(self.labels) or not levels.shape[1]:
            raise ValueError(
                f"levels of shape {levels.shape} for {len(self.labels)} tasks: give at least one level (the root) and "
                "one group number per task in each"
            )
        numbered = [by_appearance(np.unique(level, return_inverse=True)[1].ravel()) for level in levels]
        object.__setattr__(self, "levels", np.array(numbered))
        self._check_nested()

    def _check_nested(self) -> None:
        for h, (fine, coarse) in enumerate(zip(self.levels, self.levels[1:], strict=False)):
            first = np.unique(fine, return_index=True)[1][fine]
            parted = np.flatnonzero(coarse != coarse[first])
            if len(parted):
                t = parted[0]
                one, two = self.labels[[first[t], t]].tolist()
                raise ValueError(
                    f"level {h} groups tasks {one!r} and {two!r}, but level {h + 1} parts them: groups must only grow "
                    "from level 0 (finest) to the last (root)"
                )
        if self.levels[-1].any():
            raise ValueError(
                f"the last level has {self.levels[-1].max() + 1} groups, but the root is one: add a level of zeros"
            )

    def __len__(self) -> int:
        return len(self.levels)

    def groups(self, level: int | None = None) -> NDArray[np.intp]:
        """Group number of every task at a level; negative levels count from the root.

        Without a level: the groups of the coarsest level that has more than one, 0 the largest, -1 for tasks alone.
        """
        if level is None:
            parted = [group for group in self.levels if group.any()]
            if not parted:
                return np.zeros(len(self.labels), np.intp)
            return np.where(np.bincount(parted[-1])[parted[-1]] > 1, by_size(parted[-1]), -1)
        if not -len(self) <= level < len(self):
            raise ValueError(f"level={level}: the tree has levels 0 (finest) to {len(self) - 1} (root)")
        return self.levels[level].copy()

    def members(self, level: int) -> list[list[Any]]:
        """The groups of a level as lists of task names, in the order of their first task."""
        group = self.groups(level)
        return [self.labels[group == g].tolist() for g in range(group.max() + 1)]

    def joins(self) -> Iterator[tuple[int, NDArray[np.intp], NDArray[np.intp]]]:
        """Every place where subtrees meet, from the leaves up: level, tasks below, and one task of each subtree."""
        below = np.arange(len(self.labels))
        for h, group in enumerate(self.levels):
            for g in range(group.max() + 1):
                inside = np.flatnonzero(group == g)
                # One task stands for each subtree that meets here.
                children = inside[np.unique(below[inside], return_index=True)[1]]
                if len(children) > 1:
                    yield h, inside, children
            below = group

    def branches(self) -> tuple[Array, NDArray[np.intp], NDArray[np.intp]]:
        """The tree as lines from (height, row) to (height, row), array (n, 2, 2), with the leaves at height 0.

        At a join the subtrees are led to its height and joined by an upright line, in whose middle the tree goes on.

        Returns
        -------
        lines
        owner : a task below every line; -1 for the upright line of the root
        order : the task in every row, so that the tasks of a group stand together
        """
        order = np.lexsort(self.levels)  # the last key, the root, comes first
        row = np.empty(len(order))
        row[order] = np.arange(len(order))
        height = np.zeros(len(order))
        lines: list[Any] = []
        owner: list[int] = []
        for h, inside, children in self.joins():
            lines += [[(height[t], row[t]), (h + 1, row[t])] for t in children]
            ends = row[children].min(), row[children].max()
            lines.append([(h + 1, ends[0]), (h + 1, ends[1])])
            owner += [*children, -1 if h == len(self) - 1 else children[0]]
            height[inside] = h + 1
            # From here on all tasks below are one line, in the middle of what met.
            row[inside] = sum(ends) / 2
        return np.array(lines, dtype=np.float64).reshape(-1, 2, 2), np.array(owner, dtype=np.intp), order

    def to_linkage(self) -> Array:
        """The tree as a linkage matrix (T - 1, 4) for `scipy.cluster.hierarchy`.

        Tasks that share a group for the first time at level h merge at height h + 1, so that `fcluster` with
        `criterion="distance"` and t = h + 1 gives the groups of level h back. A group of more than two parts is a
        chain of merges at one height.
        """
        T = len(self.labels)
        rows: list[tuple[float, ...]] = []
        size = np.ones(2 * T - 1)
        node = np.arange(T)
        for h, inside, children in self.joins():
            top, *others = sorted(node[children].tolist())
            for other in others:
                new = T + len(rows)
                size[new] = size[top] + size[other]
                rows.append((min(top, other), max(top, other), h + 1, size[new]))
                top = new
            node[inside] = top
        return np.array(rows, dtype=np.float64).reshape(-1, 4)

    def to_newick(self) -> str:
        """The tree in Newick form; a group of level h stands at height h + 1, a task at height 0.

        Groups that do not change from one level to the next are written once, with the longer branch.
        """
        # Every task carries the text and height of its subtree; one task of each subtree speaks for it.
        text = [_newick_name(str(label)) for label in self.labels.tolist()]
        height = [0] * len(text)
        for h, inside, children in self.joins():
            joined = ",".join(f"{text[t]}:{h + 1 - height[t]}" for t in children)
            for t in inside:
                text[t] = f"({joined})"
                height[t] = h + 1
        return text[0] + ";"

    def scores(self) -> Array:
        """The share of levels below the root at which two tasks are in one group."""
        below = self.levels[:-1]
        scores = np.zeros(2 * self.labels.shape)
        for level in below:
            scores += (level[:, None] == level) / len(below)
        np.fill_diagonal(scores, 0.0)
        return scores

    def among(self, tasks: NDArray[Any]) -> Self:
        """The tree over the tasks given, by positions or a mask."""
        return replace(self, levels=self.levels[:, tasks], labels=self.labels[tasks])

    def expanded(self, labels: NDArray[Any]) -> Self:
        """The same tree among more tasks; the new ones stand alone up to the root."""
        labels = np.asarray(labels)
        known = np.isin(labels, self.labels)
        levels = np.tile(np.arange(len(self.labels), len(self.labels) + len(labels)), (len(self), 1))
        levels[:, known] = self.levels[:, np.searchsorted(self.labels, labels[known])]
        levels[-1] = 0
        return replace(self, levels=levels, labels=labels)

    def __repr__(self) -> str:
        counts = ", ".join(str(level.max() + 1) for level in self.levels)
        return f"TaskTree({len(self.labels)} tasks in {counts} groups)"


def _newick_name(name: str) -> str:
    """A label, quoted if it has characters with a meaning in Newick."""
    return name if re.fullmatch(r"[^\s()\[\]{}',:;_]+", name) else "'" + name.replace("'", "''") + "'"
