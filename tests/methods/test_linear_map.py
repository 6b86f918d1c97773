"""A fitted model is a linear map of its targets: the map gives the model back."""

import numpy as np
import pytest
from scipy import sparse

import kinfolk.methods.gamtl.coupling
from kinfolk import GAMTL, GAMTLCV, RBFGAMTL
from kinfolk.baselines import MTRL, Independent, MeanShrunk, Pooled, RandomSlopes
from kinfolk.methods.gamtl.coupling import GraphInverse, worth_inverting
from kinfolk.methods.part import Scatter
from kinfolk.rows.gram import GramStats
from kinfolk.solvers.weights import weight_system
from kinfolk.solvers.weights.direct import definite_inverse, dense_matrix

MODELS = {
    "gamtl": GAMTL(task=0),
    "gamtl anchored": GAMTL(task=0, anchor=0.3, strength=3.0),
    "gamtl learned": GAMTL(task=0, metric="learned", intercept="shrunk"),
    "gamtl full": GAMTL(task=0, metric="learned_full", intercept="coupled", ridge=0.1),
    "gamtl without intercept": GAMTL(task=0, intercept=None),
    "independent": Independent(task=0, penalty=2.0),
    "independent cv": Independent(task=0, penalty="cv"),
    "independent unpenalised": Independent(task=0, penalty=0.0),
    "mean shrunk": MeanShrunk(task=0, penalty=3.0, ridge=0.5),
    "pooled": Pooled(task=0, penalty=1.0),
    "pooled level": Pooled(task=0, penalty=1.0, own_intercepts=False),
    "random slopes": RandomSlopes(task=0),
    "random slopes full": RandomSlopes(task=0, covariance="full", intercept="free"),
    "gamtlcv": GAMTLCV(task=0, neighbors=(3,), strengths=(1.0,), anchors=(0.0,), cv=3),
    "rbfgamtl": RBFGAMTL(task=0, strengths=(1.0,), anchors=(0.9,), cv=3),
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(4)
    task = np.repeat(np.arange(7), rng.integers(4, 12, size=7))
    W = rng.normal(size=(2, 3))[task % 2] + 0.1 * rng.normal(size=(7, 3))[task]
    X = rng.normal(size=(len(task), 3)) * [1.0, 5.0, 0.2] + 1.0
    return np.column_stack([task, X]), np.einsum("nd,nd->n", X, W) + task + rng.normal(size=len(task))


@pytest.fixture(scope="module", params=MODELS)
def model(request, rows):
    return MODELS[request.param].fit(*rows)


def coefficients(part):
    W, c = part.equations.coefficients(part.unknowns())
    return part.shares[:, None] * W / part.units, part.shares * c


def test_the_map_applied_to_the_targets_is_the_model(model):
    W, c = (sum(parts) for parts in zip(*map(coefficients, model.model_.maps), strict=True))
    np.testing.assert_allclose(W, model.coef_, atol=2e-8 * np.abs(model.coef_).max())
    np.testing.assert_allclose(c, model.intercept_, atol=2e-8 * np.abs(model.intercept_).max())


def test_rows_of_the_design_times_the_unknowns_are_predictions(model, rows):
    X, codes = rows[0][:, 1:], rows[0][:, 0].astype(int)
    X = model.rbf_.transform(X) if isinstance(model, RBFGAMTL) else X
    parts = [
        s.shares[codes] * (np.einsum("np,np->n", s.design(X, codes), s.unknowns()[codes]) + s.equations.y0[codes])
        for s in model.model_.maps
    ]
    np.testing.assert_allclose(sum(parts), model.predict(rows[0]), atol=1e-7)


def some_scatter(p):
    root = np.random.default_rng(p).normal(size=(p, p))
    return Scatter(np.arange(1.0, p + 1), root @ root.T)


def test_the_diagonal_blocks_are_those_of_the_columns(model):
    for part in model.model_.maps:
        N, G = part.inverse, part.equations.G
        T, p = part.equations.shape
        scatter = some_scatter(p)
        whole, noise, pulled = N.diagonal(np.arange(T), scatter)
        columns = np.stack([N.columns(t) for t in range(T)])
        np.testing.assert_allclose(whole, columns[np.arange(T), np.arange(T)], atol=1e-12)
        direct = np.einsum("tsap,sab,tsbq->tpq", columns, G, columns)
        np.testing.assert_allclose(noise, direct, atol=1e-10 * max(np.abs(direct).max(), 1.0))
        # N_ts G_s - [s = t] takes the true unknowns of task s to the error of task t.
        miss = np.einsum("tsap,sab->tspb", columns, G)
        miss[np.arange(T), np.arange(T)] -= np.eye(p)
        off = miss.sum(axis=1) @ scatter.mean
        direct = np.einsum("tspa,ab,tsqb->tpq", miss, scatter.covariance, miss) + off[:, :, None] * off[:, None, :]
        np.testing.assert_allclose(pulled, direct, atol=1e-10 * max(np.abs(direct).max(), 1.0))


def test_conjugate_gradients_give_the_blocks_of_the_whole_inverse(rows, monkeypatch):
    inverse = GAMTL(task=0).fit(*rows).model_.maps[0].inverse
    exact = inverse.columns(3)
    monkeypatch.setattr(kinfolk.methods.gamtl.coupling, "DENSE_UNKNOWNS", 0)
    monkeypatch.setattr(kinfolk.methods.gamtl.coupling, "WORTH", 0)
    np.testing.assert_allclose(inverse.columns(3), exact, atol=1e-9 * np.abs(exact).max())


def test_methods_that_are_not_linear_say_so(rows):
    with pytest.raises(ValueError, match="MTRL is not a linear function of the targets: use GAMTL"):
        MTRL(task=0).fit(*rows).predict(rows[0], return_std=True)


def two_pieces(d=2):
    """A weight system of seven tasks in two pieces, and the data part of it."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(7, 5, d))
    gram = GramStats.from_rows(X.reshape(-1, d), rng.normal(size=35), np.repeat(np.arange(7), 5))
    A = np.zeros((7, 7))
    for i, j in ((0, 2), (2, 5), (1, 3), (3, 4), (4, 6)):
        A[i, j] = A[j, i] = rng.uniform(0.5, 2)
    return GraphInverse(weight_system(gram.G, gram.b, sparse.csr_array(A), 3.0, ridge=0.1), gram.G), gram


@pytest.mark.parametrize(("kept", "worth"), [(4000, 0), (0, 0), (0, 40_000)])
def test_every_way_to_the_inverse_is_that_of_the_dense_matrix(monkeypatch, kept, worth):
    monkeypatch.setattr("kinfolk.methods.gamtl.coupling.DENSE_UNKNOWNS", kept)
    monkeypatch.setattr("kinfolk.methods.gamtl.coupling.WORTH", worth)
    monkeypatch.setattr("kinfolk.methods.gamtl.coupling.ERRORS_RESIDUAL", 1e-10)
    inverse, gram = two_pieces()
    assert [piece.tolist() for piece in inverse.pieces] == [[0, 2, 5], [1, 3, 4, 6]]
    N = np.linalg.inv(dense_matrix(inverse.system)).reshape(7, 2, 7, 2)
    np.testing.assert_allclose([inverse.columns(t) for t in range(7)], N.transpose(2, 0, 1, 3), atol=1e-9)
    asked = np.array([6, 0, 3])  # of both pieces, not in their order
    scatter = some_scatter(2)
    miss = np.einsum("tpsq,sqr->tspr", N, gram.G)
    miss[np.arange(7), np.arange(7)] -= np.eye(2)
    off = miss.sum(axis=1) @ scatter.mean
    pulled = np.einsum("tspa,ab,tsqb->tpq", miss, scatter.covariance, miss) + off[:, :, None] * off[:, None, :]
    found = inverse.diagonal(asked, scatter)
    np.testing.assert_allclose(found.whole, N[asked, :, asked], atol=1e-9)
    np.testing.assert_allclose(found.noise, np.einsum("tpsq,sqr,srtu->tpu", N, gram.G, N)[asked], atol=1e-9)
    np.testing.assert_allclose(found.pulled, pulled[asked], atol=1e-8)


def test_a_large_piece_is_inverted_once_for_many_tasks_and_solved_for_few(monkeypatch):
    sizes = []

    def counted(system):
        sizes.append(system.b.size)
        return definite_inverse(system)

    monkeypatch.setattr("kinfolk.methods.gamtl.coupling.DENSE_UNKNOWNS", 0)
    monkeypatch.setattr("kinfolk.methods.gamtl.coupling.WORTH", 10)
    monkeypatch.setattr("kinfolk.methods.gamtl.coupling.definite_inverse", counted)
    inverse, _ = two_pieces()
    inverse.diagonal(np.arange(7), some_scatter(2))  # 6^2 / 10 < 6 columns, 8^2 / 10 < 8
    assert sizes == [6, 8]
    inverse.diagonal(np.array([0, 1]), some_scatter(2))  # two columns of each
    assert sizes == [6, 8]


def test_no_inverse_is_tried_that_does_not_fit_into_memory(monkeypatch):
    assert worth_inverting(7140, 7140)
    assert not worth_inverting(7140, 100)
    assert not worth_inverting(9000, 9000)
    monkeypatch.setattr("kinfolk.memory.available_memory", lambda: 500 * 10**6)
    assert not worth_inverting(7140, 7140)
    assert worth_inverting(5000, 5000)
