"""Gibbs sampler of the model behind BMSL, on Gram statistics, several chains at a time.

For task t with centred rows X_t, y_t, its intercept integrated out under a flat prior (hence n_t - 1 below):

    y_t | .  ~ N(X_t (s o w_t), I / tau_t)            tau_t ~ Gamma(noise_shape, rate noise_rate)
    W_.j | Phi ~ N(0, Phi^-1),  j = 1..d              Phi ~ Wishart(df, (psi I)^-1)
    s_j | pi ~ Bernoulli(pi)                          pi ~ Beta(pi_a, pi_b)

The chain holds B = W o s, with the columns of W that s switches off integrated out (they meet no data): B_.j = 0 for
those. With R_t = b_t - G_t B_t and S the set of switched-on features, one sweep draws

    1. (s_j, B_.j) for each feature, s_j with B_.j integrated out.  Q = Phi + diag(tau_t G_t[jj]),
       r_t = tau_t (R_t + G_t B_t,j)_j:   log odds = logit pi + (log|Phi| - log|Q| + r'Q^-1 r) / 2,
       B_.j | s_j = 1 ~ N(Q^-1 r, Q^-1)
    2. B_t,S for each task:  precision tau_t G_t[S,S] + Phi_tt I, linear term tau_t b_t,S - sum_{u != t} Phi_tu B_u,S
    3. which feature of a random j in S and all outside S takes the place of j: with probability proportional to
       |Q_k|^-1/2 exp(r_k'Q_k^-1 r_k / 2), the others kept; then its B
    4. a scale g_t for every task, B_t -> g_t B_t, Phi_tu -> Phi_tu / (g_t g_u), by Metropolis steps on l = log g_t,
       with tau_t integrated out. Prior and Jacobians leave -df l - psi Phi_tt e^-2l / 2, and the data
       -(noise_shape + (n_t - 1) / 2) log(noise_rate + ||y_t - e^l X_t B_t||^2 / 2); the tasks' scales are independent
    5. tau_t ~ Gamma(noise_shape + (n_t - 1) / 2, noise_rate + ||y_t - X_t B_t||^2 / 2)
    6. Phi ~ Wishart(df + |S|, (psi I + B B')^-1)
    7. pi ~ Beta(pi_a + |S|, pi_b + d - |S|)

Steps 2, 3 and 4 are not in the paper: 1 alone moves slowly along correlated features, and the size of a task's
coefficients holds the size of its block of Phi and is held by it (a group move after Liu and Sabatti 2000 breaks this).

Whether chains agree is told by split R-hat and the effective number of draws, which are those of Gelman et al.,
Bayesian Data Analysis (3rd ed.), section 11.4-11.5; the sum of autocorrelations is cut by Geyer's initial monotone
sequence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dtrtrs

from kinfolk.progress import Callback, report
from kinfolk.rows.gram import TINY, Array
from kinfolk.solvers.batched import times

SCALE_STEPS = (0.5, 0.2, 0.1, 0.05, 0.2)  # widths of the proposals of step 4
KEPT_NUMBERS = 25_000_000  # coefficients of kept draws in memory; beyond it the chains are thinned
FAINTEST = 0.01  # share of the data at the very beginning
STILL = 1e-24  # variance over mean square of draws that differ by rounding only


@dataclass(frozen=True)
class Prior:
    """The numbers of the priors above."""

    noise_shape: float
    noise_rate: float
    df: float
    psi: float
    pi_a: float
    pi_b: float


@dataclass(frozen=True, eq=False)
class ChainData:
    """G (T, d, d), b (T, d), yy (T,), and n - 1 (T,); b and yy may have a leading axis, one data set per chain."""

    G: Array
    b: Array
    yy: Array
    freedom: Array

    def tempered(self, share: float) -> ChainData:
        """As if every row counted for `share` of a row."""
        return ChainData(share * self.G, share * self.b, share * self.yy, share * self.freedom)

    def correlations(self, B: Array) -> Array:
        """R = b - G B: what the residuals still have in common with the features."""
        return self.b - times(self.G, B)

    def squared_errors(self, B: Array) -> Array:
        """||y_t - X_t B_t||^2."""
        return np.maximum(self.yy - np.sum((self.b + self.correlations(B)) * B, axis=-1), 0.0)


@dataclass(eq=False)
class ChainState:
    """C chains: B (C, T, d), active (C, d), tau (C, T), Phi (C, T, T), its log determinant and pi (C,)."""

    B: Array
    active: NDArray[np.bool_]
    tau: Array
    Phi: Array
    logdet: Array
    pi: Array


def draw_prior(prior: Prior, chains: int, T: int, d: int, rng: np.random.Generator) -> ChainState:
    """Independent draws of all unknowns from the prior."""
    pi = rng.beta(prior.pi_a, prior.pi_b, size=chains)
    active = rng.random((chains, d)) < pi[:, None]
    tau = rng.gamma(prior.noise_shape, size=(chains, T)) / prior.noise_rate
    P = np.broadcast_to(prior.psi * np.eye(T), (chains, T, T))
    Phi, logdet = wishart(P, np.full(chains, prior.df), rng)
    factor = np.linalg.cholesky(Phi)
    W = np.linalg.solve(np.swapaxes(factor, 1, 2), rng.normal(size=(chains, T, d)))
    return ChainState(W * active[:, None, :], active, tau, Phi, logdet, pi)


def sweep(state: ChainState, data: ChainData, prior: Prior, rng: np.random.Generator) -> None:
    """Draw every unknown once, given the others, in place."""
    if data.b.shape[1]:  # where no feature varies, noise and covariance are all there is to draw
        draw_features(state, data, rng)
        draw_tasks(state, data, rng)
        relocate(state, data, rng)
        rescale(state, data, prior, rng)
    draw_noise(state, data, prior, rng)
    draw_precision(state, prior, rng)
    draw_rate(state, prior, rng)


def draw_features(state: ChainState, data: ChainData, rng: np.random.Generator) -> None:
    """Step 1, feature after feature."""
    B = state.B
    tau = state.tau
    chains, T, d = B.shape
    R = data.correlations(B)
    diagonal = np.diagonal(data.G, axis1=1, axis2=2)
    pi = np.clip(state.pi, 1e-300, 1 - 1e-16)  # the logit ends at 0 and 1
    logit = np.log(pi) - np.log1p(-pi)
    noise = rng.normal(size=(d, chains, T))
    coin = rng.logistic(size=(d, chains))
    t = np.arange(T)
    for j in range(d):
        weight = tau * diagonal[:, j]
        Q = state.Phi.copy()
        Q[:, t, t] += weight
        draw, evidence = draw_normal(Q, tau * R[:, :, j] + weight * B[:, :, j], noise[j])
        on = logit + 0.5 * state.logdet + evidence > coin[j]
        new = draw * on[:, None]
        R += (B[:, :, j] - new)[:, :, None] * data.G[:, j, :]
        B[:, :, j] = new
        state.active[:, j] = on


def draw_tasks(state: ChainState, data: ChainData, rng: np.random.Generator) -> None:
    """Step 2, task after task; switched-off features are given a unit block of their own and stay 0."""
    B = state.B
    chains, T, d = B.shape
    on = state.active.astype(float)
    both = on[:, :, None] * on[:, None, :]
    linear = state.tau[:, :, None] * data.b
    noise = rng.normal(size=(T, chains, d))
    j = np.arange(d)
    for t in range(T):
        own = state.Phi[:, t, t]
        from_others = np.matmul(state.Phi[:, t, None, :], B)[:, 0, :] - own[:, None] * B[:, t]
        Q = both * (state.tau[:, t, None, None] * data.G[t])
        Q[:, j, j] += own[:, None]
        B[:, t] = on * draw_normal(Q, on * (linear[:, t] - from_others), noise[t])[0]


def relocate(state: ChainState, data: ChainData, rng: np.random.Generator) -> None:
    """Step 3, once per chain; a chain without switched-on features keeps still."""
    chains, T, d = state.B.shape
    c = np.arange(chains)
    t = np.arange(T)
    some = state.active.any(axis=1)
    # The largest of uniform numbers is a uniform choice: one switched-on feature per chain, all chains at once.
    leaving = np.argmax(np.where(state.active, rng.random((chains, d)), -1.0), axis=1)
    B = state.B.copy()
    B[c, :, leaving] = 0.0
    allowed = ~state.active
    allowed[c, leaving] = True  # a draw from the full conditional has the old value among its choices
    # Q and r of step 1 for every feature of every chain, as if each took the free place.
    weight = state.tau[:, None, :] * np.diagonal(data.G, axis1=1, axis2=2).T  # (C, d, T)
    r = state.tau[:, None, :] * np.swapaxes(data.correlations(B), 1, 2)
    Q = np.repeat(state.Phi[:, None], d, axis=1)
    Q[:, :, t, t] += weight
    noise = rng.normal(size=(chains, 1, T)).repeat(d, axis=1)  # one draw is used, so one noise serves all features
    flat = chains * d
    draw, evidence = draw_normal(Q.reshape(flat, T, T), r.reshape(flat, T), noise.reshape(flat, T))
    # The largest of log weights plus Gumbel noise is a draw with probability proportional to the weights.
    gumbel = rng.gumbel(size=(chains, d))
    entering = np.argmax(np.where(allowed, evidence.reshape(chains, d) + gumbel, -np.inf), axis=1)
    B[c, :, entering] = draw.reshape(chains, d, T)[c, entering]
    active = state.active.copy()
    active[c, leaving] = False
    active[c, entering] = True
    state.B[some] = B[some]
    state.active[some] = active[some]


def rescale(state: ChainState, data: ChainData, prior: Prior, rng: np.random.Generator) -> None:
    """Step 4; must be followed by step 5, which draws the tau that it leaves out."""
    fit = np.sum(state.B * data.b, axis=-1)
    size = np.sum(state.B * (data.b - data.correlations(state.B)), axis=-1)
    own = prior.psi * np.diagonal(state.Phi, axis1=1, axis2=2)
    shape = prior.noise_shape + 0.5 * data.freedom

    def log_density(log_g: Array) -> Array:
        g = np.exp(log_g)
        error = np.maximum(data.yy + g * (g * size - 2 * fit), 0.0)
        return -prior.df * log_g - 0.5 * own / g**2 - shape * np.log(prior.noise_rate + 0.5 * error)

    log_g = np.zeros_like(fit)
    density = log_density(log_g)
    for width in SCALE_STEPS:
        trial = log_g + width * rng.normal(size=fit.shape)
        trial_density = log_density(trial)
        accept = trial_density - density > np.log(rng.random(fit.shape))
        log_g = np.where(accept, trial, log_g)
        density = np.where(accept, trial_density, density)
    g = np.exp(log_g)
    state.B *= g[:, :, None]
    state.Phi /= g[:, :, None] * g[:, None, :]
    state.logdet -= 2 * log_g.sum(axis=1)


def draw_noise(state: ChainState, data: ChainData, prior: Prior, rng: np.random.Generator) -> None:
    """Step 5."""
    shape = prior.noise_shape + 0.5 * data.freedom
    rate = prior.noise_rate + 0.5 * data.squared_errors(state.B)
    state.tau = rng.gamma(np.broadcast_to(shape, rate.shape)) / rate


def draw_precision(state: ChainState, prior: Prior, rng: np.random.Generator) -> None:
    """Step 6."""
    state.Phi, state.logdet = wishart(scatter(state.B, prior), prior.df + state.active.sum(axis=1), rng)


def scatter(B: Array, prior: Prior) -> Array:
    """psi I + B B', for every chain."""
    return np.matmul(B, np.swapaxes(B, 1, 2)) + prior.psi * np.eye(B.shape[1])


def draw_rate(state: ChainState, prior: Prior, rng: np.random.Generator) -> None:
    """Step 7."""
    on = state.active.sum(axis=1)
    state.pi = rng.beta(prior.pi_a + on, prior.pi_b + state.active.shape[1] - on)


def draw_normal(Q: Array, r: Array, z: Array) -> tuple[Array, Array]:
    """A draw of N(Q^-1 r, Q^-1) for every chain, and (r'Q^-1 r - log|Q|) / 2.

    With Q = L L' the draw is L^-T (L^-1 r + z), z standard normal. One LAPACK call after the other: for the sizes that
    occur (20 to 50) a third of the time of NumPy's stacked routines, which have no triangular solve.

    Parameters
    ----------
    Q : array of shape (C, m, m); r, z : arrays of shape (C, m)

    Examples
    --------
    >>> draw_normal(np.array([[[4.0]]]), np.array([[8.0]]), np.array([[0.0]]))[0]
    array([[2.]])
    """
    draw, half, diagonal = np.empty_like(r), np.empty_like(r), np.empty_like(r)
    for c in range(len(Q)):
        L, failed = dpotrf(Q[c], lower=1, clean=0)
        if failed:
            raise np.linalg.LinAlgError("a conditional precision is not positive definite: scale the features")
        half[c] = dtrtrs(L, r[c], lower=1)[0]
        draw[c] = dtrtrs(L, half[c] + z[c], lower=1, trans=1)[0]
        diagonal[c] = L.diagonal()
    return draw, 0.5 * np.sum(half * half, axis=1) - np.log(diagonal).sum(axis=1)


def wishart(P: Array, df: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """A draw of Wishart(df, P^-1) for every P, (C, T, T), by Bartlett's decomposition, and its log determinant.

    With P = K K' and A lower triangular, A_ii^2 ~ chi^2(df - i), A_ij ~ N(0, 1): Phi = F F', F = K^-T A.
    """
    chains, T, _ = P.shape
    K = np.linalg.cholesky(P)
    A = np.tril(rng.normal(size=(chains, T, T)), -1)
    diagonal = np.sqrt(rng.chisquare(df[:, None] - np.arange(T)))
    A[:, np.arange(T), np.arange(T)] = diagonal
    F = np.linalg.solve(np.swapaxes(K, 1, 2), A)
    logdet = 2 * (np.log(diagonal) - np.log(np.diagonal(K, axis1=1, axis2=2))).sum(axis=1)
    return np.matmul(F, np.swapaxes(F, 1, 2)), logdet


@dataclass(eq=False)
class Draws:
    """Kept draws, (chains, length, ...), and the mean of the task covariance."""

    B: Array
    log_tau: Array
    logdet: Array
    active: NDArray[np.bool_]
    covariance: Array

    @classmethod
    def empty(cls, shape: tuple[int, int], T: int, d: int) -> Self:
        """Room for draws."""
        active = np.zeros((*shape, d), dtype=bool)
        return cls(np.empty((*shape, T, d)), np.empty((*shape, T)), np.empty(shape), active, np.zeros((T, T)))


def sample(
    data: ChainData,
    prior: Prior,
    rng: np.random.Generator,
    n_chains: int,
    n_burn: int,
    n_samples: int,
    callback: Callback | None = None,
) -> Draws:
    """Draws from the posterior, after `n_burn` sweeps.

    Over the first half of the burn-in every row counts for a growing share of a row. On 42 tasks with 17 correlated
    features four chains then meet in one set of 3 features (log evidence 2266); with all data from the start they stay
    apart in sets of 7 to 12 (2188 to 2233).
    """
    T, d = data.b.shape
    state = draw_prior(prior, n_chains, T, d, rng)
    state.B[:] = 0.0  # step 1 begins with what is not yet explained
    state.active[:] = False
    warm = n_burn // 2
    thin = -(-n_chains * n_samples * T * max(d, 1) // KEPT_NUMBERS)
    draws = Draws.empty((n_chains, -(-n_samples // thin)), T, d)
    for k in range(n_burn + n_samples):
        sweep(state, data if k >= warm else data.tempered(FAINTEST ** (1 - k / warm)), prior, rng)
        kept, left_over = divmod(k - n_burn, thin)
        if kept >= 0 and left_over == 0:
            draws.B[:, kept] = state.B
            draws.log_tau[:, kept] = np.log(state.tau)
            draws.logdet[:, kept] = state.logdet
            draws.active[:, kept] = state.active
            # The mean of the inverse Wishart of step 6: less noise than the mean of its draws.
            freedom = prior.df + state.active.sum(axis=1) - T - 1
            draws.covariance += (scatter(state.B, prior) / freedom[:, None, None]).mean(axis=0)
        if (k + 1) % 100 == 0:
            report(callback, "sample", k + 1, n_burn + n_samples)
    draws.covariance /= draws.B.shape[1]
    return draws


def diagnose(draws: Draws, data: ChainData) -> dict[str, Any]:
    """Split R-hat and effective sample sizes of the coefficients and of what summarises them.

    `fitted` is y_t'X_t B_t, a prediction that needs statistics alone.
    """
    quantities = {
        "coef": draws.B,
        "coef_norm": np.linalg.norm(draws.B, axis=-1),
        "fitted": np.einsum("...td,td->...t", draws.B, data.b),
        "log_precision": draws.log_tau,
        "log_det": draws.logdet[..., None],
        "n_active": draws.active.sum(axis=-1, dtype=float)[..., None],
    }
    rhat = {}
    ess = {}
    for name, values in quantities.items():
        flat = values.reshape(*values.shape[:2], math.prod(values.shape[2:]))
        rhat[name] = split_rhat(flat).reshape(values.shape[2:])
        ess[name] = effective_size(flat).reshape(values.shape[2:])
    summaries = [name for name in quantities if name != "coef"]
    return {
        "rhat": rhat,
        "ess": ess,
        "rhat_max": float(max(rhat[name].max() for name in summaries)),
        "ess_min": float(min(ess[name].min() for name in summaries)),
    }


def split_rhat(draws: Array) -> Array:
    """Potential scale reduction of every quantity, from draws of shape (chains, length, quantities).

    Every chain is cut into halves, so a single drifting chain shows too. A quantity that never moves has 1.

    >>> steady = np.tile([0.0, 1.0], (2, 4))[:, :, None]
    >>> apart = steady + np.array([0.0, 9.0])[:, None, None]
    >>> split_rhat(steady).round(2), bool(split_rhat(apart)[0] > 5)
    (array([0.87]), True)
    """
    halves = _halves(draws)
    length = halves.shape[1]
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = length * halves.mean(axis=1).var(axis=0, ddof=1)
    total = (length - 1) / length * within + between / length
    still = total <= STILL * np.mean(halves**2, axis=(0, 1))
    return np.where(still, 1.0, np.sqrt(total / np.maximum(within, STILL * total + TINY)))


def effective_size(draws: Array) -> Array:
    """How many independent draws would give every mean as exactly, from draws of shape (chains, length, quantities)."""
    halves = _halves(draws)
    chains, length, quantities = halves.shape
    size = chains * length
    covariance = _autocovariance(halves).mean(axis=0)  # (length, quantities)
    within = covariance[0] * length / (length - 1)
    total = covariance[0] + halves.mean(axis=1).var(axis=0, ddof=1)
    still = total <= STILL * np.mean(halves**2, axis=(0, 1))
    rho = 1 - (within - covariance) / np.where(still, 1.0, total)
    rho[0] = 1.0
    pairs = rho[: length // 2 * 2].reshape(length // 2, 2, quantities).sum(axis=1)
    alive = np.cumprod(pairs > 0, axis=0).astype(bool)
    monotone = np.minimum.accumulate(np.where(alive, pairs, 0.0), axis=0)
    time = np.maximum(2 * monotone.sum(axis=0) - 1, 1 / np.log10(size))
    return np.where(still, size, size / time)


def _halves(draws: Array) -> Array:
    length = draws.shape[1] // 2
    return np.concatenate([draws[:, :length], draws[:, -length:]])


def _autocovariance(draws: Array) -> Array:
    """Biased autocovariances over the second axis, by FFT."""
    length = draws.shape[1]
    centred = draws - draws.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centred, n=2 * length, axis=1)
    return np.fft.irfft(spectrum * spectrum.conj(), n=2 * length, axis=1)[:, :length] / length
