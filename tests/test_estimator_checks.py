import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from kinfolk import GAMTL

# Needs arrays of other libraries, and skips unless an environment variable is set.
NOT_OURS = {"check_array_api_input"}


def conventions(estimators):
    """All of scikit-learn's checks for every estimator, each a test of its own."""
    for estimator in estimators:
        for instance, check in estimator_checks_generator(estimator, legacy=True, mark=None):
            name = getattr(check, "func", check).__name__
            if name not in NOT_OURS:
                yield pytest.param(instance, check, id=f"{type(estimator).__name__}-{name}")


@pytest.mark.parametrize(("estimator", "check"), list(conventions([GAMTL()])))
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
