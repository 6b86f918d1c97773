"""GAMTL's mathematics: the joint problem of weights and graph, its objective, its alternation, new tasks."""
