"""How small is nothing: every tolerance that more than one solver uses, with its reason.

All are relative; what to, the place that uses one says. A tolerance of one solver alone stands at the head of its file.
"""

LAST_DIGIT = 1e-15  # one number changed by no more than its last digit: several times the spacing of doubles
ROUNDING = 1e-13  # a sum of products of some hundred terms is exact to this: eigenvalues and values of an objective
MARGIN = 1e-12  # beyond what rounding explains: singular directions, strict bounds, symmetry of a given matrix
NEVER_SEEN = 1e-11  # eigenvalues of a pooled Gram matrix below this share of the largest: directions nobody has seen
SAME_SQUARE = 1e-28  # squared difference of numbers that agree but for their last digits
SAME_ERRORS = 1e-9  # held-out errors are differences of statistics, so that equal ones differ by this much
GRAPH_TIE = 1e-14  # a pair this little beyond the price of an edge would get an edge of weight zero

GRAPH_GAP = 1e-12  # duality gap of the graph step, per task: Newton ends quadratically, so this costs a step at most
GRAPH_ROUGH = 1e-5  # the same of graphs that are tried on folds or whose edges are only counted
GRAPH_CHANGE = 1e-8  # change per iteration at which the first-order graph step stops
MIXED_MODEL = 1e-3  # of mixed models that give a scale, a shape or a member of a mixture: they are estimates themselves
WEIGHTS_RESIDUAL = 1e-10  # of the weight step: it moves the objective, which is compared, by about its square
SHARE_STEPS = 5  # of Newton's to the shares of least loss among classes and counts; they end once it does not fall
