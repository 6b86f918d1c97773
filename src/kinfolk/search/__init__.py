"""The search of GAMTLCV: members, what they predict for held-out rows, and the shares that this earns them."""
