import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from kinfolk import GAMTL, GAMTLCV, RBFGAMTL, GAMTLClassifier, GAMTLClassifierCV

# Needs arrays of other libraries, and skips unless an environment variable is set.
NOT_OURS = {"check_array_api_input"}


def estimator_name(estimator):
    return type(estimator).__name__ + ("-trunk" if getattr(estimator, "trunk", None) else "")


def conventions(estimators):
    """All of scikit-learn's checks for every estimator, each a test of its own."""
    for estimator in estimators:
        for instance, check in estimator_checks_generator(estimator, legacy=True, mark=None):
            name = getattr(check, "func", check).__name__
            if name not in NOT_OURS:
                yield pytest.param(instance, check, id=f"{estimator_name(estimator)}-{name}")


# Small grids: these tests are about conventions.
SMALL = {"strengths": (1.0,), "ridges": (1.0,), "anchors": (0.0,), "cv": 2}


ESTIMATORS = [GAMTL(), GAMTLCV(**SMALL), RBFGAMTL(**SMALL), GAMTLCV(**SMALL, trunk="auto", guard=0.0)]


@pytest.fixture(autouse=True)
def _few_trees(monkeypatch):
    monkeypatch.setattr("kinfolk.search.trees.ROUNDS", 30)
    monkeypatch.setattr("kinfolk.search.trees.STEP", 30)


@pytest.mark.parametrize(("estimator", "check"), list(conventions(ESTIMATORS)))
@pytest.mark.filterwarnings("ignore:the target is counts")
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize(("estimator", "check"), list(conventions([GAMTLClassifier(), GAMTLClassifierCV()])))
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_conventions_of_classifiers(estimator, check):
    check(estimator)
