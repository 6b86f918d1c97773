import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from kinfolk import GAMTL, GAMTLCV, RBFGAMTL

# Needs arrays of other libraries, and skips unless an environment variable is set.
NOT_OURS = {"check_array_api_input"}


def conventions(estimators):
    """All of scikit-learn's checks for every estimator, each a test of its own."""
    for estimator in estimators:
        for instance, check in estimator_checks_generator(estimator, legacy=True, mark=None):
            name = getattr(check, "func", check).__name__
            if name not in NOT_OURS:
                yield pytest.param(instance, check, id=f"{type(estimator).__name__}-{name}")


# Small grids: these tests are about conventions.
SMALL = {"strengths": (1.0,), "ridges": (1.0,), "anchors": (0.0,), "cv": 2}


@pytest.mark.parametrize(("estimator", "check"), list(conventions([GAMTL(), GAMTLCV(**SMALL), RBFGAMTL(**SMALL)])))
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
