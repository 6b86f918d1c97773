import numpy as np
import pytest

from kinfolk import GAMTL
from kinfolk.baselines import MTRL, Independent
from kinfolk.plots import plot_convergence, plot_predictions, plot_task_errors
from problems import frame


def legend(ax):
    return [t.get_text() for t in ax.get_legend().get_texts()]


def names(ax):
    return [t.get_text() for t in ax.get_yticklabels()]


@pytest.mark.parametrize("method", [GAMTL, MTRL])
def test_the_course_is_drawn_with_its_certificate(method):
    table, y = frame(T=8, n=(8, 12))
    model = method(task="who").fit(table, y)
    ax = plot_convergence(model)
    drawn = ax.lines[0].get_ydata()
    history = model.objective_history_
    assert len(drawn) == len(history)
    above = (history - history.min()) / history.min()
    np.testing.assert_allclose(drawn[above > 0], above[above > 0])
    text = ax.get_title(loc="left")
    assert f"converged after {model.n_iter_} rounds" in text
    assert f"duality gap {model.optimality_['duality_gap']:.1e}" in text
    assert ("graph that is drawn certified for 100 % of tasks" in text) == ("shown_certified" in model.optimality_)


def test_a_model_without_a_course_says_so():
    table, y = frame()
    with pytest.raises(ValueError, match="Independent has no objective_history_"):
        plot_convergence(Independent(task="who").fit(table, y))


ERRORS = {"own": [1.0, 3.0, 2.0], "kin": [0.5, 3.5, np.nan]}


def test_few_tasks_have_a_row_each_the_worst_on_top():
    ax = plot_task_errors(ERRORS, names=["a", "b", "c"], quantity="RMSE")
    assert names(ax) == ["b", "c", "a"]
    own, kin = (line.get_xdata() for line in ax.lines)
    np.testing.assert_array_equal(own, [3, 2, 1])
    np.testing.assert_array_equal(kin, [3.5, np.nan, 0.5])
    assert legend(ax) == ["own (mean 2)", "kin (mean 2)"]
    assert ax.get_xlabel() == "RMSE"


def test_tasks_of_a_group_stand_together():
    ax = plot_task_errors(ERRORS, names=["a", "b", "c"], groups=[0, -1, 0])
    assert names(ax) == ["c", "a", "b"]


def test_many_tasks_are_points_and_the_largest_changes_are_named():
    rng = np.random.default_rng(0)
    own = rng.uniform(1, 2, size=200)
    kin = own * rng.uniform(0.9, 1.0, size=200)
    kin[37] = 9.0
    ax = plot_task_errors({"own": own, "kin": kin}, names=[f"store {k}" for k in range(200)])
    assert "store 37" in {t.get_text() for t in ax.texts}
    assert len(ax.texts) <= 12
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), np.sort(own)[::-1])


def test_predictions_stand_beside_what_was_observed():
    y = np.array([1.0, 2.0, 3.0])
    ax = plot_predictions(
        y, {"GAMTL": y + 0.5, "$MTRL$": y - 2}, time=np.array(["2016-10-04", "2016-10-05", "2016-10-06"], "M8[D]")
    )
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), y)
    assert legend(ax) == ["observed", "GAMTL (0.5)", "$MTRL$ (2)"]
    assert len({(line.get_color(), str(line.get_linestyle())) for line in ax.lines}) == 3


def test_errors_say_what_to_do():
    with pytest.raises(ValueError, match="errors is empty"):
        plot_task_errors({})
    with pytest.raises(ValueError, match=r"'own': \(2,\), 'kin': \(3,\): give one error per task"):
        plot_task_errors({"own": [1, 2], "kin": [1, 2, 3]})
    with pytest.raises(ValueError, match="1 names for 3 tasks"):
        plot_task_errors(ERRORS, names=["a"])
    with pytest.raises(ValueError, match=r"'m' predicts shape \(2,\), but truth has \(3,\)"):
        plot_predictions([1, 2, 3], {"m": [1, 2]})


def test_one_row_is_a_point_and_many_are_a_line():
    one = plot_predictions([3.0], {"kin": [2.0]})
    assert [line.get_marker() for line in one.lines] == ["o", "o"]
    many = plot_predictions([3.0, 4.0], {"kin": [2.0, 3.0]})
    assert [line.get_marker() for line in many.lines] == ["", ""]
