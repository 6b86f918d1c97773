import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform
from sklearn.manifold import smacof

from kinfolk.diagnostics import embed


def scattered(T, dimensions, seed=0):
    return np.random.default_rng(seed).normal(size=(T, dimensions))


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_distances_of_points_are_recovered(dimensions):
    D = squareform(pdist(scattered(15, dimensions)))
    found = embed(D, dimensions=dimensions)
    assert found.coordinates.shape == (15, dimensions)
    assert found.stress < 1e-4
    np.testing.assert_allclose(squareform(pdist(found.coordinates)), D, atol=1e-3)


def test_stress_is_the_share_of_what_is_missed():
    D = squareform(pdist(scattered(12, 6)))
    found = embed(D)
    missed = ((D - squareform(pdist(found.coordinates))) ** 2).sum()
    assert found.stress == pytest.approx(np.sqrt(missed / (D**2).sum()))
    assert repr(found) == f"Embedding(12 points in 2 dimensions, stress {found.stress:.3f})"


def test_more_dimensions_fit_better_and_units_do_not_matter():
    D = squareform(pdist(scattered(20, 8)))
    plane, space, metres = embed(D), embed(D, dimensions=3), embed(1000 * D)
    assert space.stress < plane.stress
    assert metres.stress == pytest.approx(plane.stress, rel=1e-6)


def test_no_worse_than_the_best_of_as_many_starts_of_scikit_learn():
    D = squareform(pdist(scattered(25, 5, seed=2))) ** 2
    theirs = smacof(D, n_init=8, random_state=0, max_iter=1000, eps=1e-9, normalized_stress=False)[0]
    missed = np.linalg.norm(D - squareform(pdist(theirs))) / np.linalg.norm(D)
    assert embed(D).stress <= missed * (1 + 1e-4)


def test_pictures_repeat_with_their_seed():
    D = squareform(pdist(scattered(10, 5)))
    np.testing.assert_array_equal(embed(D, random_state=3).coordinates, embed(D, random_state=3).coordinates)


def test_points_are_centred_and_widest_along_the_first_axis():
    z = embed(squareform(pdist(scattered(30, 5))), dimensions=3).coordinates
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-12)
    covariance = z.T @ z
    np.testing.assert_allclose(covariance - np.diag(np.diagonal(covariance)), 0, atol=1e-9)
    assert (np.diff(np.diagonal(covariance)) <= 0).all()


@pytest.mark.parametrize("T", [1, 2, 4])
def test_equal_tasks_lie_on_one_point(T):
    found = embed(np.zeros((T, T)), dimensions=3)
    np.testing.assert_array_equal(found.coordinates, np.zeros((T, 3)))
    assert found.stress == 0


def test_two_tasks_lie_at_their_distance():
    assert pdist(embed([[0, 7], [7, 0]], dimensions=3).coordinates)[0] == pytest.approx(7)


@pytest.mark.parametrize(
    ("D", "text"),
    [
        ([[0, 1, 2]], r"D of shape \(1, 3\): give a square matrix"),
        ([[0, -1], [-1, 0]], "negative, infinite or missing"),
        ([[0, 1], [2, 0]], r"not symmetric \(D\[0, 1\] = 1, D\[1, 0\] = 2\): use \(D \+ D.T\) / 2"),
    ],
)
def test_errors_say_what_to_do(D, text):
    with pytest.raises(ValueError, match=text):
        embed(D)
    with pytest.raises(ValueError, match="dimensions=0"):
        embed([[0, 1], [1, 0]], dimensions=0)
