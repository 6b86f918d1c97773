"""One judge for all methods: held-out errors on common folds, the choice of parameters, and comparisons."""
