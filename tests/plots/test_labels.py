import numpy as np

from kinfolk.plots.labels import place_names

FRAME = np.array([[0.0, 0.0], [100.0, 100.0]])


def place(marks, sizes, **options):
    marks = np.array(marks, float)
    settings = {"order": range(len(marks)), "frame": FRAME, "away_from": np.zeros((len(marks), 2)), **options}
    return place_names(marks, np.full(len(marks), 3.0), np.array(sizes, float), **settings)


def test_a_lone_name_stands_right_of_its_mark():
    (centre,) = place([[50, 50]], [[20, 6]]).values()
    np.testing.assert_allclose(centre, [50 + 3 + 2 + 10, 50])


def test_a_name_goes_the_other_way_than_the_lines():
    (centre,) = place([[50, 50]], [[20, 6]], away_from=np.array([[1.0, 0.0]])).values()
    assert centre[0] < 50


def test_a_name_does_not_leave_the_frame():
    (centre,) = place([[95, 50]], [[20, 6]]).values()
    assert centre[0] + 10 <= 100


def test_the_more_important_name_gets_the_place():
    marks, sizes = [[10, 50], [20, 50], [30, 50]], [[90, 90]] * 3
    assert list(place(marks, sizes, order=[1, 0, 2])) == []
    assert list(place(marks, sizes, order=[1, 0, 2], keep=[2])) == [2]
    assert next(iter(place([[50, 50], [55, 50]], [[40, 20]] * 2, order=[1, 0]))) == 1
