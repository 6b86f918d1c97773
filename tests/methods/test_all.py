"""What every method in the folder must hold; a new file in the folder is tested here by being there."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import check_estimator

from kinfolk import GramStats, TaskCovariance, TaskGraph, TaskPrecision, TaskTree
from kinfolk.baselines import METHODS

# Sampling is made short: these tests are about conventions, not about convergence.
QUICK = {"BMSL": {"n_samples": 40, "n_burn": 20, "n_chains": 2, "random_state": 0}}
STRUCTURES = {
    "MTRL": TaskCovariance,
    "MSSL": TaskPrecision,
    "BMSL": TaskCovariance,
    "TAT": TaskTree,
    "GFL": TaskGraph,
    "CCMTL": TaskGraph,
}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(15, 3))
TASK = np.repeat(np.arange(4), 15)
LONG = np.column_stack([TASK, np.tile(X, (4, 1))])  # shared inputs: GFL's correlations need them
Y = np.einsum("nd,nd->n", LONG[:, 1:], (RNG.normal(size=(2, 3))[[0, 0, 1, 1]])[TASK]) + 0.1 * RNG.normal(size=60)


def fitted(name, table=LONG, y=Y, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return METHODS[name](task=0, **QUICK.get(name, {}), **kwargs).fit(table, y)


def test_the_folder_holds_the_ten_methods():
    honest = {"Independent", "Pooled", "MeanShrunk", "RandomSlopes"}
    assert set(METHODS) >= honest | set(STRUCTURES)


@pytest.mark.parametrize("name", METHODS)
def test_rows_in_any_order_give_the_same_model(name):
    order = np.random.default_rng(1).permutation(60)
    one, two = fitted(name), fitted(name, LONG[order], Y[order])
    np.testing.assert_allclose(two.coef_, one.coef_, atol=1e-4)


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"BMSL"}))
def test_relabelling_permutes_the_tasks(name):
    renamed = LONG.copy()
    renamed[:, 0] = 9 - renamed[:, 0]
    one, two = fitted(name), fitted(name, renamed)
    np.testing.assert_allclose(two.coef_[::-1], one.coef_, atol=2e-3)
    np.testing.assert_allclose(two.predict(renamed), one.predict(LONG), atol=5e-3)


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"GFL"}))
def test_statistics_of_row_blocks_give_the_model_of_the_table(name):
    parts = [GramStats.from_rows(LONG[i::2, 1:], Y[i::2], TASK[i::2]) for i in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        merged = METHODS[name](task=0, **QUICK.get(name, {})).fit_gram(parts[0] + parts[1])
    np.testing.assert_allclose(merged.coef_, fitted(name).coef_, atol=1e-4)


@pytest.mark.parametrize("name", METHODS)
def test_unseen_tasks_get_the_population_model_with_a_warning_or_are_an_error(name):
    stranger = np.column_stack([np.full(15, 7), X])
    model = fitted(name)
    with pytest.warns(UserWarning, match=r"task 7, not seen in fit \(4 tasks: 0, ...\), is predicted by the pop"):
        prediction = model.predict(stranger)
    np.testing.assert_allclose(prediction, X @ model.population_coef_ + model.population_intercept_)
    np.testing.assert_array_equal(model.set_params(unseen="mean").predict(stranger), prediction)
    with pytest.raises(ValueError, match='predict got task 7, not seen in fit .*unseen="mean"'):
        model.set_params(unseen="error").predict(stranger)


@pytest.mark.parametrize("name", METHODS)
def test_tasks_with_one_row_or_without_targets_are_fitted_by_what_the_others_know(name):
    few = np.column_stack([[4, 5, 5], X[:3]])
    table, y = np.vstack([LONG, few]), np.concatenate([Y, [X[0] @ [0.8, 1.4, 1.1], np.nan, np.nan]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = METHODS[name](task=0, **QUICK.get(name, {})).fit(table, y)
    usual = fitted(name)
    np.testing.assert_allclose(model.coef_[:4], usual.coef_, atol=2e-2)
    np.testing.assert_allclose(model.coef_[5], model.population_coef_)
    assert np.isfinite(model.predict(table)).all()
    assert list(model.tasks_) == [0, 1, 2, 3, 4, 5]
    slopes = np.linalg.norm(model.coef_[4] - model.population_coef_)
    # What one row says about slopes is nothing where intercepts are own, and little where they are shared.
    assert slopes <= 0.5 * np.linalg.norm(usual.coef_[[0, 2]] - usual.population_coef_)


@pytest.mark.parametrize("name", METHODS)
def test_bad_rows_are_refused_with_their_place(name):
    broken = LONG.copy()
    broken[7, 2] = np.nan
    with pytest.raises(ValueError, match="contains NaN .column 1, row 7"):
        fitted(name, broken)


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"Pooled", "TaskMean"}))
def test_tasks_of_two_kinds_are_predicted_well_by_all_that_tell_them_apart(name):
    assert fitted(name).score(LONG, Y) > 0.8 > fitted("Pooled").score(LONG, Y)


@pytest.mark.parametrize("name", STRUCTURES)
def test_the_structure_is_of_its_kind_and_names_the_tasks(name):
    structure = fitted(name).structure_
    assert isinstance(structure, STRUCTURES[name])
    assert list(structure.labels) == [0, 1, 2, 3]


VARIANTS = [METHODS["Independent"](penalty="cv"), METHODS["Pooled"](own_intercepts=False)]


@pytest.mark.parametrize("method", [*(METHODS[name](**QUICK.get(name, {})) for name in METHODS), *VARIANTS], ids=str)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:the target is counts")
def test_scikit_learn_conventions(method):
    check_estimator(method, on_skip=None)


@pytest.mark.parametrize("name", METHODS)
def test_the_first_line_of_the_docstring_says_what_it_is(name):
    assert METHODS[name].__doc__.splitlines()[0].endswith(".")


@pytest.mark.parametrize("name", METHODS)
def test_the_docstring_describes_every_parameter_once(name):
    section = METHODS[name].__doc__.partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    heads = [line.partition(" :")[0] for line in section.splitlines() if not line.startswith(" ")]
    assert sorted(", ".join(heads).split(", ")) == sorted(METHODS[name]().get_params())
