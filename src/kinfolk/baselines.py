"""The methods to compare with, by their public name: every file of `kinfolk.methods` that defines one."""

from __future__ import annotations

from typing import Any

from kinfolk.methods.registry import methods_in

METHODS: dict[str, type[Any]] = methods_in("kinfolk.methods")
globals().update(METHODS)
__all__ = ["METHODS", *METHODS]
