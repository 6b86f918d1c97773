"""What people are told when an iteration has stopped before its certificates were met."""

from __future__ import annotations

from sklearn.exceptions import ConvergenceWarning

from kinfolk.words import warn_user


def warn_of_stop(method: str, steps: str, certificates: dict[str, float], tol: float, remedy: str) -> None:
    """Say after which `steps` a method stopped, how far its certificates are from their tolerance, and what helps."""
    parts = ", ".join(f"{name.replace('_', ' ')} {value:.1e}" for name, value in certificates.items())
    warn_user(f"{method} stopped after {steps} ({parts}; tol={tol:g}). {remedy}", ConvergenceWarning)
