"""Numerical solvers: arrays in, a `Solution` out."""
