"""The Gibbs sampler behind BMSL: draws, sweeps, chains and their diagnostics."""
