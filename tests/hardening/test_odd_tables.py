"""Tables that the campaigns of tests/fuzz stumbled over, the smallest of each kind."""

import numpy as np
import pandas as pd
import pytest
from random_tables import Case, ends_well, predicted
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from kinfolk import GAMTL, GAMTLCV, RBFGAMTL, GAMTLClassifier, GAMTLClassifierCV, load
from kinfolk.baselines import MSSL, Independent, RandomSlopes

SMALL = {"strengths": (1.0,), "ridges": (1.0,), "anchors": (0.0,), "neighbors": (3,), "cv": 2}


def rows(T=3, n=6, d=2, seed=0):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(T), n)
    X = np.column_stack([task, rng.normal(size=(T * n, d))])
    return X, X[:, 1] + task + rng.normal(size=T * n)


def test_a_fold_without_training_rows_is_named():
    X, y = rows(T=2, n=2)
    weight = np.array([1.0, 1.0, 1.0, 0.0])  # the second task has one row left, which its intercept takes
    with pytest.raises(ValueError, match="a fold of the cross-validation has no rows to train on"):
        Independent(task=0, penalty="cv", cv=2).fit(X, y, weight, time=[1, 2, 0, 0])


@pytest.mark.parametrize("model", [Independent(task=0, penalty="cv", cv=2), GAMTLCV(task=0, **SMALL)], ids=str)
def test_a_task_that_is_never_held_out_has_no_error_but_a_fit(model):
    X, y = rows()
    time = np.where(X[:, 0] == 0, 0, 1 + np.arange(len(y)))  # the first task comes before all others
    model.fit(X, y, time=time)
    assert np.isnan(model.cv_errors_[0]) and np.isfinite(model.cv_errors_[1:]).all()
    std = model.predict(X, return_std=True)[1]
    assert np.isfinite(std).all() and (std > 0).all()


@pytest.mark.parametrize("intercept", ["free", None])
def test_the_metric_of_functions_without_an_input_that_varies(intercept):
    X, y = rows(d=1)
    X[:, 1] = 2.0
    model = GAMTL(task=0, metric="function", intercept=intercept).fit(X, 1e-8 * y)
    assert np.isfinite(model.coef_).all() and np.isfinite(model.predict(X)).all()


def test_folds_whose_inputs_hardly_vary():
    X, y = rows(d=1)
    X[:, 1] = 3e-4
    assert np.isfinite(GAMTLCV(task=0, **SMALL).fit(X, y).predict(X)).all()


def constant_with_a_gap(column):
    column[:] = 700 * np.pi  # whose mean is rounded to another number
    column[3] = np.nan


def constant_but_for_its_last_digit(column):
    column[:] = 1e3 * np.where(np.arange(len(column)) % 2, 0.3, 0.1 + 0.2)


@pytest.mark.filterwarnings("ignore:missing values are filled in:UserWarning")
@pytest.mark.filterwarnings("ignore:feature .* is constant within:UserWarning")
@pytest.mark.filterwarnings("ignore:column .* follows from:UserWarning")
@pytest.mark.parametrize("spoil", [constant_with_a_gap, constant_but_for_its_last_digit])
@pytest.mark.parametrize("model", [GAMTL(), GAMTL(intercept="coupled"), GAMTLCV(**SMALL), RandomSlopes()], ids=str)
def test_a_column_that_differs_in_its_last_digits_only_gets_no_coefficient(model, spoil):
    X, y = rows(n=20)
    spoil(X[:, 2])
    frame = pd.DataFrame(X, columns=["task", "x", "constant"]).astype({"task": int})
    model.set_params(task="task").fit(frame, y)
    assert np.abs(model.coef_).max() < 10 and np.abs(model.intercept_).max() < 10
    assert np.mean((model.predict(frame) - y) ** 2) < 2


@pytest.mark.filterwarnings("ignore:missing values are filled in:UserWarning")
def test_the_spread_of_a_column_with_gaps_may_be_too_large_for_a_number():
    X, y = rows()
    X[:, 2] *= 1e160
    X[3, 2] = np.nan
    frame = pd.DataFrame(X, columns=["task", "x", "far"]).astype({"task": int})
    with pytest.raises(ValueError, match="column 'far' has values up to"):
        Independent(task="task").fit(frame, y)


def frame():
    X, y = rows(T=4, n=10)
    return pd.DataFrame(X, columns=["task", "x", "z"]).astype({"task": int}), y


def labelled(labels):
    table, y = frame()
    return table.assign(task=[labels[t] for t in table.task]), y


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([(1, 2), (1, 3), (2, 1), (2, 2)], "has labels of type tuple: .*task=\\[...\\]"),
        ([[1], [2], [3], [4]], "has labels of type list"),
    ],
)
def test_labels_that_name_no_task(labels, said):
    table, y = labelled(labels)
    with pytest.raises(ValueError, match=said):
        Independent(task="task").fit(table, y)


def test_numbers_too_long_for_a_number_are_told_by_their_column():
    table, y = frame()
    with pytest.raises(ValueError, match="column 'z' is too large for a number"):
        Independent(task="task").fit(table.assign(z=["9" * 400, "1"] * 20), y)


def test_weights_that_are_no_numbers():
    table, y = frame()
    with pytest.raises(ValueError, match="sample_weight must be numbers"):
        Independent(task="task").fit(table, y, ["a"] * len(y))


@pytest.mark.parametrize("test", [[99], [-99], [0.5], ["a"]])
def test_folds_of_rows_that_are_not_there(test):
    table, y = frame()
    with pytest.raises(ValueError, match="pair 0 holds something else than positions of 40 rows"):
        GAMTLCV(task="task", **SMALL | {"cv": [(np.arange(39), test)]}).fit(table, y)


def test_infinite_values_of_a_lazy_frame_are_told_by_their_column():
    polars = pytest.importorskip("polars")
    table, y = frame()
    lazy = polars.from_pandas(table.assign(y=y, z=np.inf)).lazy()
    with pytest.raises(ValueError, match="column 'z' has missing or infinite values"):
        GAMTLCV(task="task", **SMALL).fit(lazy, "y")


@pytest.mark.parametrize("strength", [1.0, 0.0])
def test_what_a_model_without_intercept_leaves_of_one_value_is_its_noise(strength):
    X, _ = rows(T=1, n=3)
    model = GAMTL(task=0, intercept=None, strength=strength).fit(X, np.full(3, 1e30))
    std = model.predict(X, return_std=True)[1]
    assert np.isfinite(std).all() and (std > 1e28).all()


DRAWN = {"labels": "truths", "y_scale": 1.0, "d": 4}
EARLY = Case(seed=836925, T=3, rows=2, x_scale=1.0, spread=1e-6, shift=0.0, flaws=("missing y",), wide=False, **DRAWN)
IN_TIME = ("zero target", "constant column", "zero weights")
SHARED = Case(seed=378861, T=3, rows=6, x_scale=1.0, spread=1e-6, shift=1.0, flaws=IN_TIME, wide=True, **DRAWN)
ALIKE = Case(seed=524931, T=9, rows=15, x_scale=1e-8, spread=1e-20, shift=1e6, flaws=(), wide=False, **DRAWN)

EACH_ONE_VALUE = ("constant target", "own columns", "uneven")
LEVELS = Case(469087, 2, 1, 2, "texts", 1.0, 1e30, 1e-6, 0.0, EACH_ONE_VALUE, wide=True)
COPIES = Case(244506, 20, 4, 2, "truths", 1e38, 1.0, 1.0, 1.0, ("copied tasks",), wide=False)


@pytest.mark.parametrize(
    ("case", "model"),
    [
        # Its first weights are rough, and the round after them is not taken.
        (EARLY, GAMTL(A0="l2", anchor=0.5, intercept="shrunk", metric="function", strength=1.0)),
        # Its tasks differ by what a rough weight step leaves, and the graph of rough weights is not that of exact ones.
        (ALIKE, GAMTL(extrapolate="linear", graph_metric="shape", metric="learned", strength=1.0)),
        # A fold whose rows have no weight is one of the lines, and was none of the splines.
        (SHARED, GAMTLCV(**SMALL)),
        # Its tasks differ in their levels alone: the ridge that keeps slopes at 0 is not infinite.
        (LEVELS, GAMTL(metric="learned", intercept="coupled", anchor=0.5)),
    ],
    ids=["rough weights", "tasks that are alike", "an empty fold", "levels alone"],
)
def test_tables_that_were_drawn(case, model):
    assert ends_well(case, model) is not None


# Precisions are squares of coefficients, which are small where inputs are large and targets small.
PRECISE = Case(804784, 20, 2, 6, "dates", 1e38, 1e-35, 1e-6, 0.0, ("constant column", "uneven", "times"), wide=True)
ONE_ROW = Case(441245, 2, 4, 6, "truths", 1.0, 1e38, 1e-20, 0.0, ("copied rows", "missing y"), wide=False)
WEIGHTLESS = ("times", "zero weights", "copied columns")
ABSENT = Case(378396, 20, 2, 3, "integers", 1e8, 1.0, 1e-20, 0.0, WEIGHTLESS, wide=False)
BALANCED = ("one row", "two task columns", "zero weights")
FOLDS = Case(817508, 2, 4, 6, "texts", 1e30, 1.0, 1e-6, 1e6, BALANCED, wide=False, kind="classes")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("case", "model"),
    [
        (PRECISE, MSSL()),
        (ONE_ROW, RBFGAMTL(extrapolate="linear", **SMALL)),
        (ABSENT, RBFGAMTL(**SMALL)),
        (FOLDS, GAMTLClassifierCV(class_weight="balanced", trunk=None, **SMALL)),
    ],
    ids=["large precisions", "rows that are all alike", "tasks without weight", "weights of folds"],
)
def test_what_was_fitted_to_tables_that_were_drawn_is_read_again(case, model, tmp_path):
    outcome = ends_well(case, model)
    again = load(outcome.model.save(tmp_path / "m.kin"))
    np.testing.assert_array_equal(predicted(again, outcome.table), outcome.prediction)


def test_a_precision_that_rounding_has_made_indefinite_is_told():
    case = Case(831624, 9, 4, 15, "integers", 1.0, 1.0, 1e-6, 1e6, ("zero weights", "uneven"), wide=False)
    with pytest.warns(ConvergenceWarning):
        assert np.isfinite(case.fit(MSSL()).prediction).all()


def test_a_step_of_several_classes_has_a_length_of_its_own():
    case = Case(310030, 3, 4, 1, "truths", 1e30, 1.0, 1.0, 1.0, ("one row",), wide=True, kind="classes")
    model = GAMTLClassifier(anchor=1.0, class_weight="balanced", metric="function", self_loops=1.0, strength=0.0)
    ends_well(case, model, may_warn=True)


def test_standard_deviations_where_rounding_has_made_a_free_direction_negative():
    outcome = ends_well(COPIES, GAMTL(metric="function", intercept="coupled", anchor=0.0, strength=1.0))
    std = outcome.model.predict(outcome.table, return_std=True)[1]
    assert np.isfinite(std).all() and (std >= 0).all()


def test_a_missing_text_of_pandas_is_told_by_its_row():
    table, y = labelled(["a", pd.NA, "c", "d"])
    with pytest.warns(UserWarning, match="rows without a task, the first is row 10"):
        Independent(task="task").fit(table.astype({"task": "string"}), y)


def test_whole_numbers_with_more_digits_than_floats_stay_apart():
    table, y = labelled([2**53 + t for t in range(4)])
    model = Independent(task="task").fit(table.astype({"task": "Int64"}), y)
    assert model.tasks_.tolist() == [2**53 + t for t in range(4)]


def test_true_is_not_task_one():
    table, y = labelled([True, 1, 2, 3])
    with pytest.raises(ValueError, match="mixes labels of type bool and int"):
        Independent(task="task").fit(table.astype({"task": object}), y)


def test_a_label_beyond_whole_numbers_is_refused_without_a_warning():
    table, y = labelled([np.inf, 1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="holds fractions like inf"):
        Independent(task="task").fit(table, y)


def test_times_of_a_zone_as_labels_are_saved(tmp_path):
    table, y = labelled(pd.date_range("2020-01-01", periods=4, tz="Europe/Berlin"))
    model = Independent(task="task").fit(table, y)
    again = load(model.save(tmp_path / "m.kin"))
    assert np.array_equal(again.predict(table), model.predict(table))


def test_what_a_mask_hides_is_not_there():
    X, y = rows()
    hidden = np.arange(len(y)) == 3
    told = np.ma.masked_array(np.where(hidden, -9999.0, y), hidden)
    with pytest.warns(UserWarning, match="left out 1 of"):
        model = Independent(task=0).fit(X, told)
    with pytest.warns(UserWarning, match="left out 1 of"):
        plain = Independent(task=0).fit(X, np.where(hidden, np.nan, y))
    assert np.array_equal(model.coef_, plain.coef_)
    with pytest.raises(ValueError, match=r"X contains NaN \(column 1, row 3"):
        Independent(task=0).fit(np.ma.masked_array(X, np.outer(hidden, [False, False, True])), y)


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        (pd.date_range("2020-01-01", periods=18), "y holds dates like 2020-01-01"),
        (["low", "high"] * 9, "y holds text like 'low'"),
        (["1.5", "2", "three"] * 6, "y holds text like 'three'"),
    ],
)
def test_targets_that_are_no_numbers(targets, said):
    X, _ = rows()
    with pytest.raises(ValueError, match=said):
        Independent(task=0).fit(X, targets)


def test_durations_are_counted_in_days_as_inputs_are():
    X, y = rows()
    durations = pd.to_timedelta(y, unit="D")
    assert np.allclose(Independent(task=0).fit(X, durations).coef_, Independent(task=0).fit(X, y).coef_)


@pytest.mark.parametrize(
    ("cv", "said"),
    [
        (KFold(2), r"list\(splitter.split\(X, y, groups\)\)"),
        (KFold(2).split(np.zeros(18)), "must be a whole number of folds"),
        ("5", "must be a whole number of folds"),
        ([1, 2], "pair 0 is 1, and not the positions"),
        ([(np.arange(9), np.arange(9)), (np.arange(9, 18), np.arange(9, 18))], "pair 0 overlaps .* or has one twice"),
    ],
    ids=["splitter", "generator", "text", "numbers", "trained on its own test"],
)
def test_folds_that_are_no_folds(cv, said):
    X, y = rows()
    with pytest.raises(ValueError, match=said):
        Independent(task=0, penalty="cv", cv=cv).fit(X, y)


def test_times_and_given_folds_contradict_each_other():
    X, y = rows()
    pairs = list(KFold(2).split(X))
    with pytest.raises(ValueError, match="time makes its own folds"):
        Independent(task=0, penalty="cv", cv=pairs).fit(X, y, time=np.arange(len(y)))


@pytest.mark.parametrize("how", ["adopt", "partial_fit"])
def test_a_new_task_of_another_type_does_not_join(how):
    table, y = labelled(list("abcd"))
    model = GAMTL(task="task").fit(table, y)
    with pytest.raises(ValueError, match="task labels were like 'a' in fit but are like 7 now"):
        getattr(model, how)(table[:5].assign(task=7), y[:5])


@pytest.mark.parametrize("model", [Independent(task=0, penalty="cv", cv=2), GAMTLCV(task=0, **SMALL)], ids=str)
def test_weights_count_by_what_they_are_to_each_other(model):
    X, y = rows(n=20)
    small = model.fit(X, y, np.full(len(y), 1e-15)).predict(X)
    assert np.allclose(small, model.fit(X, y, np.full(len(y), 1e-8)).predict(X), atol=1e-6)


def test_a_column_far_from_zero_that_varies_is_not_called_constant():
    X, y = rows(n=20)
    y += 3 * X[:, 2]
    X[:, 2] = 1e9 + 1e-3 * X[:, 2]  # ten thousand times what its digits hold
    assert np.allclose(GAMTL(task=0).fit(X, y).coef_[:, 1], 3e3, rtol=0.5)


def test_a_model_is_judged_by_the_column_that_it_was_fitted_to():
    table, y = frame()
    model = Independent(task="task").fit(table.assign(y=y), "y")
    assert model.score(table.assign(y=y), "y") == model.score(table, y)


def test_groups_of_any_types_stay_together():
    X, y = rows(n=20)
    labels = np.arange(len(y)) % 7
    mixed = np.array([str(k) if k % 2 else k for k in labels], dtype=object)
    model = GAMTLCV(task=0, **SMALL)
    assert np.array_equal(model.fit(X, y, groups=mixed).coef_, model.fit(X, y, groups=labels).coef_)
    mixed[5] = None
    with pytest.raises(ValueError, match="groups has a missing label in row 5"):
        model.fit(X, y, groups=mixed)


def test_wide_targets_that_came_as_texts():
    X, y = rows(T=1, n=20)
    Y = np.column_stack([y, 2 * y])
    assert np.array_equal(Independent().fit(X, Y.astype(str)).coef_, Independent().fit(X, Y).coef_)
    with pytest.raises(ValueError, match="y holds text like 'none'"):
        Independent().fit(X, np.where(Y > 1, "none", Y.astype(str)))


def wild(seed):
    """A rare column, a sum of two others, a target that is a line or the number of the task; weights 1e-6 to 1e6."""
    rng = np.random.default_rng(seed)
    T = int(rng.choice([2, 4, 25]))
    task = np.arange(6 * T) % T
    x, z = rng.normal(size=(2, len(task)))
    rare = (np.arange(len(task)) == 3) * 1.0
    X = np.column_stack([task, x, z, x + z, rare])
    y = task * 1.0 if seed % 2 else x * (1 + task) + z
    return X, y, 10 ** rng.uniform(-6, 6, size=len(task))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("noise", ["common", "task"])
@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_no_weights_lead_to_a_matrix_without_a_factor(covariance, noise):
    for seed in range(40):
        X, y, weight = wild(seed)
        model = RandomSlopes(task=0, covariance=covariance, noise=noise).fit(X, y, weight)
        assert np.isfinite(model.predict(X, return_std=True)).all(), seed


@pytest.mark.filterwarnings("ignore")
def test_whatever_the_weights_there_is_a_summary():
    for seed in range(30):
        X, y, weight = wild(seed)
        assert str(Independent(task=0).fit(X, y, weight).summary())


COPIED = ("uneven", "zero target", "copied tasks")
LONE = Case(522763, 9, 1, 6, "dates", 1.0, 1.0, 1.0, 0.0, COPIED, wide=False, kind="two classes")
FAR = Case(874696, 20, 2, 2, "categories", 1e8, 1e-8, 1.0, 1e6, ("uneven", "own columns"), wide=False, kind="gamma")
WIDE = Case(805024, 3, 2, 1, "integers", 1.0, 1e-8, 1.0, 0.0, ("copied rows",), wide=False, kind="binomial")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("case", "model"),
    [
        # What is known of its levels from other tasks stays in the statistics beside a task of a single row.
        (LONE, GAMTLClassifier(metric="learned_full", self_loops=None, strength=100.0)),
        (FAR, GAMTLCV(family="gamma", exposure="at risk", trunk=None, **SMALL)),
    ],
    ids=["a single row", "amounts of many sizes"],
)
def test_classes_and_amounts_that_were_drawn(case, model):
    assert ends_well(case, model) is not None


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_report_of_rows_too_few_for_folds_ends_well(tmp_path):
    model = WIDE.fit(GAMTL(anchor=1.0, family="binomial", strength=1.0))
    with pytest.raises(ValueError, match="row"):
        model.model.report(model.table, model.y, tmp_path / "r.html")
