"""The numbers that the paper prints, transcribed: mean and standard deviation, or None where it gives none."""

from __future__ import annotations

Published = dict[str, tuple[float, float | None]]

RUNS = 10  # "over 10 independent runs"
SIX = ("MTRL", "MSSL", "BMSL", "TAT", "GFL", "CCMTL")


def _row(text: str, names: tuple[str, ...]) -> Published:
    """One row of a table, "mean sd" or "mean" by column."""
    row: Published = {}
    for name, cell in zip(names, text.split("|"), strict=True):
        mean, *sd = map(float, cell.split())
        row[name] = (mean, sd[0] if sd else None)
    return row


_ALL = (*SIX, "GAMTL", "RBF-GAMTL")
_REAL = tuple(name for name in _ALL if name != "GFL")

SYNTHETIC = {
    "syn1": _row(
        "5.996 .859 | 6.046 .797 | 8.361 .992 | 6.016 .919 | 6.750 1.019 | 5.609 .977 | 5.595 .983 | 7.100 .465", _ALL
    ),
    "syn2": _row(
        "3.451 .563 | 3.584 .548 | 4.533 .915 | 3.188 .652 | 3.993 .660 | 3.175 .650 | 3.164 .649 | 4.092 .600", _ALL
    ),
}
PARKINSONS = {
    0.3: _row("4.147 3.038 | 1.144 .007 | 1.221 .110 | 1.146 .011 | 1.228 .016 | 1.121 .031 | 0.609 .067", _REAL),
    0.4: _row("3.202 2.587 | 1.129 .011 | 1.150 .100 | 1.130 .010 | 1.149 .013 | 1.068 .009 | 0.535 .060", _REAL),
    0.5: _row("1.761 .850 | 1.130 .009 | 1.110 .085 | 1.129 .015 | 1.115 .011 | 1.057 .013 | 0.417 .046", _REAL),
    0.6: _row("1.045 .050 | 1.123 .013 | 1.068 .036 | 1.124 .019 | 1.092 .015 | 1.037 .015 | 0.367 .032", _REAL),
}
BIRMINGHAM = {
    4: _row("0.0976 | 0.0950 | 0.0860 | 0.0923 | 0.0857 | 0.0853 | 0.0730", _REAL),
    8: _row("0.0970 | 0.1120 | 0.0880 | 0.0903 | 0.0842 | 0.0838 | 0.0775", _REAL),
}
