"""Colours, axes and marks that all pictures share; the only importer of matplotlib."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.rows.gram import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:  # for annotations; matplotlib itself is imported when something is drawn
    Axes = Figure = Any

# Okabe and Ito's colours, which colour-blind readers can distinguish. Grey is kept for outliers.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
OUTLIER = "#9A9A9A"
INK = "#333333"
MARKERS = "osD^vph"  # a second turn through the palette takes the second shape
LONGEST = 24  # characters of a name that are written
SMALLEST = 5.0  # points: names smaller than this are not written


def new_figure(**options: Any) -> Figure:
    """A figure that no window shows; an error says how to install matplotlib."""
    try:
        from matplotlib import figure
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'kinfolk[plots]'") from error
    return figure.Figure(**options)


def new_axes(ax: Axes | None, width: float = 7.0, height: float = 7.0, *, layout: str = "constrained") -> Axes:
    """The axes given, or those of a new figure, which pyplot and notebooks show if they are in use."""
    if ax is not None:
        return ax
    size: Any = {"figsize": (width, height), "layout": layout}
    figure = new_figure(**size)
    if "matplotlib.pyplot" in sys.modules or "ipykernel" in sys.modules:
        from matplotlib import pyplot

        figure = pyplot.figure(**size)
    return figure.add_subplot()


def read_groups(groups: Any, T: int) -> NDArray[np.intp]:
    """Given group numbers, one per task."""
    group = np.asarray(groups, dtype=np.intp)
    if group.shape != (T,):
        raise ValueError(f"{group.size} groups for {T} tasks: give one number per task, below 0 for outliers")
    return group


def group_order(group: NDArray[np.intp]) -> NDArray[np.intp]:
    """Positions of the tasks group by group, outliers last."""
    return np.argsort(np.where(group < 0, group.max(initial=0) + 1, group), kind="stable")


def blocks(values: NDArray[np.intp]) -> list[tuple[int, int]]:
    """Start and end of every run of equal values.

    Examples
    --------
    >>> blocks(np.array([0, 0, 1, -1, -1]))
    [(0, 2), (2, 3), (3, 5)]
    """
    cuts = np.flatnonzero(np.diff(values)) + 1
    return list(pairwise([0, *cuts.tolist(), len(values)]))


def group_colours(groups: NDArray[np.intp]) -> list[str]:
    """One colour per task: its group's, or grey."""
    return [OUTLIER if g < 0 else PALETTE[g % len(PALETTE)] for g in groups]


def group_marker(group: int) -> str:
    """Shape of a group: circles for the first seven groups, squares for the next seven, ..."""
    return MARKERS[max(group, 0) // len(PALETTE) % len(MARKERS)]


def text_on(colour: str) -> str:
    """Black or white, whichever can be read on the colour."""
    red, green, blue = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.6 else "white"


def short_name(label: Any, longest: int = LONGEST) -> str:
    """A name on one line; of long ones the beginning and the end, where names differ.

    Examples
    --------
    >>> short_name("Birmingham, Bull Ring, upper deck, east")
    'Birmingham, …r deck, east'
    """
    text = " ".join(str(label).split())
    if len(text) <= longest:
        return text
    head = longest // 2
    return text[:head] + "…" + text[len(text) - (longest - head) :]


def draw_lines(ax: Axes, segments: Array, *, widths: Any, colours: Any, dashed: bool = False) -> None:
    """Many lines (E, 2, 2) at once, behind the marks."""
    from matplotlib.collections import LineCollection

    style: Any = {"linestyles": (0, (3, 2))} if dashed else {"capstyle": "round"}
    ax.add_collection(LineCollection(list(segments), linewidths=widths, colors=colours, zorder=1, **style))


def rgba(colour: str, alpha: Any) -> Array:
    """The colour once for every opacity."""
    from matplotlib.colors import to_rgba_array

    return to_rgba_array(colour, np.atleast_1d(alpha))


def halo() -> list[Any]:
    """A white rim for text over lines."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=2.2, foreground="white")]


def loop_marker() -> Any:
    """A circle that hangs on the point instead of surrounding it: the paper's self-loop."""
    from matplotlib.path import Path

    circle = Path.unit_circle()
    return Path(np.asarray(circle.vertices) + np.array([0.0, 1.0]), circle.codes)


def in_pixels(ax: Axes, points: Array) -> Array:
    """Points (T, 2) in pixels."""
    return np.asarray(ax.transData.transform(points), dtype=np.float64)


def text_sizes(ax: Axes, texts: Iterable[str], size: float) -> Array:
    """Width and height of texts in pixels."""
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.font_manager import FontProperties

    renderer = RendererAgg(1, 1, ax.figure.dpi)
    font = FontProperties(size=size)
    sizes = [renderer.get_text_width_height_descent(text, font, False)[:2] for text in texts]
    return np.array(sizes, dtype=np.float64).reshape(-1, 2)


def extent_in_points(ax: Axes) -> tuple[float, float]:
    """Width and height of the axes in points, 72 to the inch, once the figure has found its layout."""
    ax.figure.canvas.figure.draw_without_rendering()
    box = ax.get_window_extent()
    scale = 72 / ax.figure.dpi
    return box.width * scale, box.height * scale


def tick_names(ax: Axes, axis: str, positions: Any, names: Iterable[str], *, size: float, rotation: float = 0) -> None:
    """Names at the ticks of one axis, as they are: dollar signs start no formula."""
    chosen = ax.xaxis if axis == "x" else ax.yaxis
    chosen.set_ticks(np.asarray(positions, dtype=np.float64), list(names))
    for tick in chosen.get_ticklabels():
        tick.set_parse_math(False)
        tick.set_fontsize(size)
        tick.set_rotation(rotation)


def bare(ax: Axes, *sides: str) -> None:
    """Without frame on these sides."""
    ax.spines[list(sides)].set_visible(False)


def without_ticks(ax: Axes, points: Array) -> None:
    """Positions without units: no ticks, equal scales, room at the rim."""
    ax.set_axis_off()
    ax.set_aspect("equal", adjustable="datalim")
    # Equal scales may take margins away again, but not data: room for marks and loops at the rim counts as such.
    room = 0.1 * np.ptp(points, axis=0).max(initial=0.0)
    ax.update_datalim(np.vstack([points - room, points + room]))
    ax.margins(0.01)


def legend_above(ax: Axes) -> None:
    """The legend on one or two lines above the axes, where it covers nothing."""
    texts = ax.get_legend_handles_labels()[1]
    width = extent_in_points(ax)[0]
    columns = int(np.clip(width / (6.0 * max(map(len, texts), default=1) + 30), 1, len(texts)))
    place: Any = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.2}
    legend = ax.legend(ncols=columns, frameon=False, fontsize=8, **place)
    for text in legend.get_texts():
        text.set_parse_math(False)
