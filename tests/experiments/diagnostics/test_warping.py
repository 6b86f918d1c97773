import numpy as np
import pytest
from dtaidistance import dtw

from kinfolk.diagnostics import dtw_distances
from kinfolk.experiments.diagnostics import warping


def reference_distance(a, b, reach):
    n = len(a)
    table = np.full((n + 1, n + 1), np.inf)
    table[0, 0] = 0.0
    for i in range(n):
        for j in range(max(0, i - reach), min(n, i + reach + 1)):
            table[i + 1, j + 1] = (a[i] - b[j]) ** 2 + min(table[i, j], table[i, j + 1], table[i + 1, j])
    return np.sqrt(table[n, n])


def walks(T, n, seed=0):
    return np.random.default_rng(seed).normal(size=(T, n)).cumsum(axis=1)


@pytest.mark.parametrize("band", [0.0, 0.04, 0.1, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("n", [1, 2, 7, 24, 25])
def test_distances_are_those_of_a_plain_loop(n, band):
    S = walks(4, n, seed=n)
    expected = [[reference_distance(a, b, int(band * n + 1e-9)) for b in S] for a in S]
    np.testing.assert_allclose(dtw_distances(S, band=band), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("band", "window"), [(0.0, 1), (0.1, 31), (1.0, 301)])
def test_distances_are_those_of_dtaidistance(band, window):
    S = walks(6, 300)
    expected = dtw.distance_matrix(S, window=window)
    np.testing.assert_allclose(dtw_distances(S, band=band), expected, rtol=1e-10)


def test_a_wider_band_never_lengthens_a_distance():
    S = walks(5, 60)
    by_band = np.array([dtw_distances(S, band=band) for band in (0, 0.02, 0.1, 0.4, 1)])
    assert (np.diff(by_band, axis=0) <= 0).all()
    assert by_band[-1].max() < by_band[0].max()


def test_blocks_and_workers_change_nothing(monkeypatch):
    S = walks(7, 40)
    plain = dtw_distances(S)
    np.testing.assert_array_equal(dtw_distances(S, n_jobs=2), plain)
    monkeypatch.setattr(warping, "CELLS", 15)
    steps = []
    np.testing.assert_array_equal(dtw_distances(S, callback=steps.append), plain)
    assert [p.done for p in steps] == list(range(3, 22, 3))


def test_one_series_has_no_distance():
    np.testing.assert_array_equal(dtw_distances([[1.0, 2.0]]), [[0.0]])


@pytest.mark.parametrize(
    ("series", "band", "text"),
    [
        ([[1.0, 2.0], [1.0]], 0.1, "different lengths .* cut or resample"),
        ([1.0, 2.0], 0.1, r"series of shape \(2,\): give one series per row"),
        ([[1.0, 2.0], [np.nan, 1.0]], 0.1, "series 1 is nan at position 0: fill the gaps"),
        ([[1.0, 2.0]], 5, r"band=5: give a share of the length"),
    ],
)
def test_errors_say_what_to_do(series, band, text):
    with pytest.raises(ValueError, match=text):
        dtw_distances(series, band=band)
