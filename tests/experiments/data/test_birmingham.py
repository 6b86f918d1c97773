import shutil

import numpy as np
import pytest

from kinfolk.datasets import load_birmingham

OPENED = np.datetime64("2016-10-11")


@pytest.fixture(scope="module")
def paper(data_home):
    return load_birmingham(data_home=data_home)


@pytest.mark.parametrize(
    ("windows", "lags", "total", "training"),
    [
        ("across_nights", 4, 35_513, 2_930),
        ("across_nights", 8, 35_397, 2_818),
        ("within_day", 4, 27_697, 2_366),
        ("within_day", 8, 19_765, 1_690),
    ],
)
def test_window_counts_are_the_documented_ones(data_home, windows, lags, total, training):
    b = load_birmingham(windows=windows, lags=lags, data_home=data_home)
    sizes = {len(part) for part in (b.data, b.target, b.time, b.groups)}
    test_sizes = {len(part) for part in (b.test_data, b.test_target, b.test_time, b.test_groups)}
    assert sizes == {training}
    assert test_sizes == {total - training}


def test_every_reading_of_30_lots_is_in_the_series(data_home):
    b = load_birmingham(lots=30, data_home=data_home)
    rates = np.concatenate([rates for _, rates in b.series.values()])
    assert len(rates) == 35_717
    assert (rates > 1).sum() == 373
    assert (rates < 0).sum() == 12
    assert (rates == 0).sum() == 17
    assert rates.max() == pytest.approx(1.041, abs=0.0005)


@pytest.mark.parametrize(("lots", "dropped"), [(30, set()), (29, {"BHMBRTARC01"}), (28, {"BHMBRTARC01", "NIA North"})])
def test_dropped_lots_are_in_neither_set(data_home, paper, lots, dropped):
    b = load_birmingham(lots=lots, data_home=data_home)
    assert len(b.tasks) == lots
    assert {*paper.tasks, "BHMBRTARC01"} - set(b.tasks) == dropped
    assert set(b.test_data["lot"]) == set(b.tasks) == set(b.series)


def test_numbers_8_9_17_are_the_lots_with_equal_coordinates(paper):
    three = [paper.tasks[number - 1] for number in (8, 9, 17)]
    assert three == ["BHMEURBRD01", "BHMEURBRD02", "Broad Street"]
    assert len({paper.locations[lot] for lot in three}) == 1
    assert sum(place == paper.locations[three[0]] for place in paper.locations.values()) == 3


def test_nia_north_is_a_task_without_training_row(paper):
    assert paper.tasks[19] == "NIA North"
    assert set(paper.tasks) - set(paper.data["lot"]) == {"NIA North"}
    assert (paper.test_data["lot"] == "NIA North").sum() == 162 - 4


def test_28_lots_all_have_training_rows(data_home):
    b = load_birmingham(lots=28, data_home=data_home)
    assert set(b.data["lot"]) == set(b.tasks)


def test_columns_run_from_the_oldest_to_the_newest_reading(paper):
    assert paper.task == "lot"
    assert list(paper.data.columns) == ["lot", "lag_4", "lag_3", "lag_2", "lag_1"]
    times, rates = paper.series["Shopping"]
    rows = (paper.data["lot"] == "Shopping").to_numpy()
    expected = np.column_stack([rates[k : k + rows.sum()] for k in range(4)])
    np.testing.assert_array_equal(paper.data.loc[rows, paper.feature_names], expected)
    np.testing.assert_array_equal(paper.target[rows], rates[4 : 4 + rows.sum()])
    np.testing.assert_array_equal(paper.time[rows], times[4 : 4 + rows.sum()])


def test_first_reading_is_a_rate(paper):
    times, rates = paper.series["BHMBCCMKT01"]
    assert times[0] == np.datetime64("2016-10-04T07:59:42")
    assert rates[0] == 61 / 577


def test_training_targets_are_in_the_first_week_and_test_targets_after_it(paper):
    assert paper.time.min() >= np.datetime64("2016-10-04")
    assert paper.time.max() < OPENED <= paper.test_time.min()
    assert paper.test_time.max() < np.datetime64("2016-12-20")


def test_series_are_in_time_order(paper):
    for times, _ in paper.series.values():
        assert (np.diff(times) >= np.timedelta64(0)).all()


def test_groups_count_the_days_from_october_4(paper):
    assert np.unique(paper.groups).tolist() == list(range(7))
    assert (paper.test_groups.min(), paper.test_groups.max()) == (7, 76)
    assert len(np.unique(paper.test_groups)) == 73 - 7


def test_windows_within_a_day_never_start_a_day(data_home):
    b = load_birmingham(windows="within_day", data_home=data_home)
    hour = (b.time - b.time.astype("datetime64[D]")) / np.timedelta64(1, "h")
    assert hour.min() > 8.5


def test_without_pandas_column_0_counts_the_lots(data_home, paper, no_pandas):
    b = load_birmingham(data_home=data_home)
    assert b.task == 0
    assert [b.tasks[int(code)] for code in b.test_data[:, 0]] == paper.test_data["lot"].tolist()
    np.testing.assert_array_equal(b.data[:, -1], paper.data["lag_1"].to_numpy())
    np.testing.assert_array_equal(b.target, paper.target)


def test_locations_cover_22_of_30_lots(data_home):
    b = load_birmingham(lots=30, data_home=data_home)
    assert len(b.locations) == 22
    unplaced = {lot for lot in b.tasks if lot.startswith(("Others", "Shopping"))}
    assert set(b.tasks) - set(b.locations) == unplaced
    assert b.locations["NIA South"] == (-1.916986979, 52.47891731)


def test_locations_are_empty_without_their_file(data_home, empty_machine, tmp_path):
    folder = tmp_path / "birmingham_parking"
    folder.mkdir()
    shutil.copy(data_home / "birmingham_parking" / "dataset.csv", folder)
    b = load_birmingham(data_home=tmp_path)
    assert b.locations == {}
    assert len(b.data) == 2_930


def test_longest_window_leaves_one_row_of_the_shortest_series(data_home):
    b = load_birmingham(lots=30, lags=87, data_home=data_home)
    assert (b.test_data["lot"] == "BHMBRTARC01").sum() == 1


def test_description_names_source_licence_and_quirks(paper):
    for text in ("10.24432/C51K5Z", "CC BY 4.0", "Stolfi", "NIA North", "overnight"):
        assert text in paper.DESCR


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        ({"lots": 31}, "lots must be 28, 29 or 30, got 31"),
        ({"lags": 0}, "lags must be from 1 to 87, got 0"),
        ({"lags": 88}, "lags must be from 1 to 87, got 88"),
        ({"windows": "all"}, 'windows must be "across_nights" or "within_day", got \'all\''),
    ],
)
def test_unknown_choice_is_refused(bad, text):
    with pytest.raises(ValueError, match=text):
        load_birmingham(**bad)
