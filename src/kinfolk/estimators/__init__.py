"""The estimators that users meet first: GAMTL, GAMTLCV and RBFGAMTL."""
