"""The paper's six competitors, one file each, and the solvers that only they need. Nothing in the core imports them."""
