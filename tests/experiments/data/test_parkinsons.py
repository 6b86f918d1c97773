import numpy as np
import pytest

from kinfolk.datasets import load_parkinsons


@pytest.fixture(scope="module")
def full(data_home):
    return load_parkinsons(inputs="voice+time", demographics=True, data_home=data_home)


@pytest.mark.parametrize(
    ("inputs", "demographics", "size", "first"),
    [
        ("voice", False, 16, "Jitter(%)"),
        ("voice", True, 18, "age"),
        ("voice+time", False, 17, "test_time"),
        ("voice+time", True, 19, "age"),
    ],
)
def test_inputs_are_those_asked_for(data_home, inputs, demographics, size, first):
    b = load_parkinsons(inputs=inputs, demographics=demographics, data_home=data_home)
    assert len(b.feature_names) == size
    assert b.data.shape == (5875, size + 1)
    assert list(b.data.columns) == ["patient", *b.feature_names]
    assert (b.feature_names[0], b.feature_names[-1]) == (first, "PPE")


def test_targets_are_never_inputs(full):
    assert not {"motor_UPDRS", "total_UPDRS", "subject#"} & set(full.feature_names)


def test_42_patients_with_101_to_168_rows(full):
    counts = full.data[full.task].value_counts()
    assert full.task == "patient"
    assert full.tasks == list(range(1, 43))
    assert (len(counts), counts.min(), counts.max()) == (42, 101, 168)


def test_first_row_is_that_of_the_file(full):
    row = full.data.iloc[0]
    assert row[["patient", "age", "sex", "test_time", "Jitter(Abs)", "PPE"]].tolist() == [
        1, 72, 0, 5.6431, 3.38e-5, 0.16006,
    ]  # fmt: skip
    assert full.target[0] == 28.199


def test_values_are_finite_floats(full):
    assert np.isfinite(full.data.to_numpy()).all()
    assert full.target.dtype == float
    assert np.isfinite(full.target).all()


def test_spread_of_the_score_is_the_documented_one(full):
    means = full.data[["patient"]].assign(y=full.target).groupby("patient")["y"].transform("mean").to_numpy()
    assert full.target.std() == pytest.approx(8.13, abs=0.005)
    assert np.sqrt(np.mean((full.target - means) ** 2)) == pytest.approx(2.33, abs=0.005)


def test_age_and_sex_are_constant_within_a_patient(full):
    assert (full.data.groupby("patient")[["age", "sex"]].nunique() == 1).all(axis=None)


def test_twelve_times_are_negative(full):
    assert (full.time < 0).sum() == 12
    assert full.time.min() == pytest.approx(-4.26, abs=0.005)
    assert full.time.max() == pytest.approx(215.49, abs=0.005)
    np.testing.assert_array_equal(full.time, full.data["test_time"])


def test_990_sittings_nearly_always_of_six_recordings(full):
    sizes = np.bincount(full.groups)
    assert len(sizes) == 990
    assert (sizes == 6).sum() == 909
    assert (sizes.min(), sizes.max()) == (3, 12)


def test_sitting_belongs_to_one_patient_and_one_day(full):
    patients = full.data["patient"].to_numpy()
    for sitting in range(990):
        rows = full.groups == sitting
        assert len(set(patients[rows])) == 1
        assert np.ptp(full.time[rows]) < 1.0


def test_score_is_the_same_throughout_a_sitting(full):
    table = full.data[["patient"]].assign(y=full.target, sitting=full.groups)
    spread = table.groupby("sitting")["y"].agg(np.ptp)
    assert spread.max() == pytest.approx(0.006)


def test_without_pandas_column_0_is_the_patient(data_home, full, no_pandas):
    b = load_parkinsons(data_home=data_home)
    assert b.task == 0
    assert b.data.shape == (5875, 17)
    np.testing.assert_array_equal(b.data[:, 0], full.data["patient"])


def test_description_names_source_and_licence(full):
    for text in ("10.24432/C5ZS3N", "CC BY 4.0", "Tsanas", "constant within a patient"):
        assert text in full.DESCR


def test_unknown_inputs_are_refused():
    with pytest.raises(ValueError, match='inputs must be "voice" or "voice\\+time", got \'all\''):
        load_parkinsons(inputs="all")
