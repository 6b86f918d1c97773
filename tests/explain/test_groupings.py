"""Groupings drawn by Gibbs chains have the shares of the exact posterior, which for few tasks is a sum over all."""

from functools import partial

import numpy as np
import pytest
from scipy.special import beta, gamma, logsumexp

from kinfolk.explain import groupings
from kinfolk.explain.groupings import Messages, together

TASKS = 5
WIDTHS = 2
PAIRS = np.triu_indices(TASKS, k=1)


def messages(rng, rank=2):
    """N = F F' and u in its span, for every task and width, and constants of the widths."""
    F = 2 * rng.normal(size=(TASKS, WIDTHS, 3, rank))
    means = 0.7 * rng.normal(size=(2, 3))[np.arange(TASKS) % 2]
    N = F @ F.transpose(0, 1, 3, 2)
    u = np.einsum("twij,tj->twi", N, means) + np.einsum("twir,twr->twi", F, rng.normal(size=(TASKS, WIDTHS, rank)))
    return u, N, rng.normal(size=WIDTHS)


def all_groupings(tasks):
    """Every way to put tasks into groups or leave them alone (-1)."""
    if not tasks:
        yield ()
        return
    for before in all_groupings(tasks - 1):
        for place in range(-1, max(before, default=-1) + 2):
            yield (*before, place)


def log_evidence(u, N):
    M = np.eye(len(u)) + N
    return u @ np.linalg.solve(M, u) / 2 - np.linalg.slogdet(M)[1] / 2


def log_prior(sizes, alpha):
    """Share of lone tasks uniform; Chinese restaurant process for the others."""
    m = sum(sizes)
    seated = alpha ** len(sizes) * gamma(alpha) / gamma(alpha + m) * np.prod([gamma(size) for size in sizes])
    return np.log(beta(m + 1, TASKS - m + 1) * seated)


def exact_shares(u, N, constant):
    """Probability of every pair to be in one group: the sum over all groupings, values of alpha and widths."""
    weights, kin = [], []
    for grouping in map(np.array, all_groupings(TASKS)):
        groups = [np.flatnonzero(grouping == g) for g in range(grouping.max() + 1)]
        alphas = np.geomspace(groupings.LEAST_OPEN, 1.0, groupings.OPENNESS)
        prior = logsumexp([log_prior([len(g) for g in groups], alpha) for alpha in alphas])
        parts = groups + [np.array([t]) for t in np.flatnonzero(grouping < 0)]
        said = [sum(log_evidence(u[g, w].sum(0), N[g, w].sum(0)) for g in parts) + constant[w] for w in range(WIDTHS)]
        weights.append(prior + logsumexp(said))
        one, other = grouping[PAIRS[0]], grouping[PAIRS[1]]
        kin.append((one == other) & (one >= 0))
    return np.exp(np.array(weights) - logsumexp(weights)) @ np.array(kin)


def bordered(u, N, constant):
    """The same for the chains."""
    M = np.zeros((*N.shape[:2], 4, 4))
    M[:, :, :3, :3] = N
    M[:, :, 3, :3] = u
    return Messages(M, constant)


def test_there_are_as_many_groupings_as_bells_number_of_one_task_more():
    assert [len(list(all_groupings(T))) for T in range(5)] == [1, 2, 5, 15, 52]


@pytest.mark.parametrize("slots", [1, groupings.SLOTS])
def test_shares_are_those_of_the_exact_posterior(slots, monkeypatch):
    monkeypatch.setattr(groupings, "SLOTS", slots)  # so that more of them are needed
    tables = [messages(np.random.default_rng(seed)) for seed in (3, 6)]
    chains = np.random.default_rng(0).spawn(150)
    shares = [together(bordered(*table), chains, PAIRS, uncounted=10, counted=60).mean(axis=0) for table in tables]
    exact = np.array([exact_shares(*table) for table in tables])
    assert (np.ptp(exact, axis=1) > 0.2).all() and np.ptp(exact, axis=0).max() > 0.3
    np.testing.assert_allclose(shares, exact, atol=0.025)


def test_a_chain_has_random_numbers_of_its_own_whoever_advances_beside_it():
    draw = partial(together, bordered(*messages(np.random.default_rng(1))), pairs=PAIRS, uncounted=2, counted=9)
    apart = [draw([np.random.default_rng(seed)])[0] for seed in (3, 4)]
    beside = draw([np.random.default_rng(seed) for seed in (3, 4)])
    np.testing.assert_array_equal(beside, apart)
