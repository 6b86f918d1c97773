"""Solvers of the competitors: arrays in, a `Solution` out."""
