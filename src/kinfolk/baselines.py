"""The methods to compare with, by their public name: every file of `kinfolk.methods` and `kinfolk.rivals` that
defines one."""

from __future__ import annotations

from typing import Any

from kinfolk.methods.registry import methods_in

METHODS: dict[str, type[Any]] = dict(sorted((methods_in("kinfolk.methods") | methods_in("kinfolk.rivals")).items()))
globals().update(METHODS)
__all__ = ["METHODS", *METHODS]
