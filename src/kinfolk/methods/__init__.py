"""Methods, one per file: statistics in, a fitted model out."""
