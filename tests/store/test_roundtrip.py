"""A model that was saved and loaded is the model."""

import datetime
import json
import sys
import uuid
import warnings
from dataclasses import fields, is_dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.preprocessing import KernelCenterer

sys.path.insert(0, str(Path(__file__).parent))

from stored_models import TABLE, TRANSFORMERS, WIDE_X, WIDE_Y, Y, fitted, table_for, table_of, with_transformer

from kinfolk import GAMTL, GramStats
from kinfolk.baselines import Independent
from kinfolk.store import ModelFileError, load, save
from kinfolk.store.archive import open_archive, write_archive
from kinfolk.store.classes import MODELS
from kinfolk.store.classes import TRANSFORMERS as LISTED
from kinfolk.store.decode import Decoder
from kinfolk.store.encode import Encoder


def again(model, tmp_path):
    return load(save(model, tmp_path / "model.kin"))


def same(one, two):
    """Whether two values are equal in type and content, parts included."""
    assert type(one) is type(two)
    if isinstance(one, np.ndarray):
        assert one.dtype == two.dtype and one.flags.writeable == two.flags.writeable
        np.testing.assert_array_equal(one, two)
    elif sparse.issparse(one):
        np.testing.assert_array_equal(one.toarray(), two.toarray())
    elif isinstance(one, dict):
        assert list(one) == list(two)
        [same(one[k], two[k]) for k in one]
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(two)
        [same(a, b) for a, b in zip(one, two, strict=True)]
    elif is_dataclass(one):  # what they have computed and keep does not count
        [same(getattr(one, f.name), getattr(two, f.name)) for f in fields(one)]
    elif hasattr(one, "__dict__") and not isinstance(one, type):
        same(dict(sorted(vars(one).items())), dict(sorted(vars(two).items())))
    else:
        assert one == two or (one != one and two != two)


@pytest.mark.parametrize("name", MODELS)
def test_every_attribute_of_every_method_comes_back(name, tmp_path):
    model = fitted(name)
    loaded = again(model, tmp_path)
    same(loaded, model)


@pytest.mark.parametrize("name", MODELS)
def test_predictions_are_the_same_to_the_bit(name, tmp_path):
    model = fitted(name)
    assert again(model, tmp_path).predict(table_of(name)).tobytes() == model.predict(table_of(name)).tobytes()


@pytest.mark.parametrize("name", MODELS)
def test_the_same_model_gives_the_same_bytes_also_after_loading(name, tmp_path):
    one = save(fitted(name), tmp_path / "one.kin").read_bytes()
    assert save(load(tmp_path / "one.kin"), tmp_path / "two.kin").read_bytes() == one
    assert save(fitted(name), tmp_path / "three.kin").read_bytes() == one


def test_every_transformer_on_the_list_has_an_example():
    assert set(TRANSFORMERS) == set(LISTED)


@pytest.mark.parametrize("name", TRANSFORMERS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:feature .* is constant")
@pytest.mark.filterwarnings("ignore:.TargetEncoder.shuffle.*are deprecated:FutureWarning")  # the seed, from 1.9 on
def test_fitted_transformers_come_back(name, tmp_path):
    model, table = with_transformer(name), table_for(name)
    loaded = again(model, tmp_path)
    assert loaded.predict(table).tobytes() == model.predict(table).tobytes()
    assert repr(loaded.get_params()) == repr(model.get_params())
    assert clone(loaded).fit(table, Y).coef_.tobytes() == model.coef_.tobytes()


LABELS = {
    "texts": ["b", "ä", "日本"],
    "numbers": [3, -1, 2**40],
    "truths": [True, False, True],
    "dates": [datetime.date(2020, 1, k) for k in (1, 2, 3)],
    "times": list(pd.date_range("2020-01-01", periods=3)),
    "uuids": [uuid.UUID(int=k) for k in (1, 2, 3)],
    "decimals": [Decimal("1.5"), Decimal("2.5"), Decimal("10")],
    "bytes": [b"x", b"y", b"z"],
}


@pytest.mark.parametrize("kind", LABELS)
def test_task_names_of_every_kind_come_back(kind, tmp_path):
    names = LABELS[kind]
    table = pd.DataFrame({"x": np.arange(12.0) ** 2, "who": [names[k % 3] for k in range(12)]})
    model = Independent(task="who", penalty=1.0).fit(table, np.arange(12.0))
    loaded = again(model, tmp_path)
    assert loaded.tasks_.dtype == model.tasks_.dtype and loaded.tasks_.tolist() == model.tasks_.tolist()
    np.testing.assert_array_equal(loaded.predict(table), model.predict(table))


def test_more_rows_can_be_added_after_loading(tmp_path):
    half = len(Y) // 2
    model = GAMTL(task="who").fit(TABLE[:half], Y[:half])
    loaded = again(model, tmp_path).partial_fit(TABLE[half:], Y[half:])
    np.testing.assert_array_equal(loaded.coef_, model.partial_fit(TABLE[half:], Y[half:]).coef_)


def test_statistics_can_be_fitted_after_loading(tmp_path):
    gram = GramStats.from_rows(WIDE_X, WIDE_Y)
    model = GAMTL().fit_gram(gram)
    loaded = again(model, tmp_path)
    assert loaded.gram_.G.strides[0] == 0
    np.testing.assert_array_equal(loaded.fit_gram(loaded.gram_ + gram).coef_, model.fit_gram(gram + gram).coef_)


def wide_model():
    X = pd.DataFrame(np.random.default_rng(5).normal(size=(12, 700))).rename(columns=str).assign(who=list("ab") * 6)
    return GAMTL(task="who", strength=1.0, ridge=1.0).fit(X, np.arange(12.0)), X


def test_wide_statistics_and_diagonal_penalties_take_the_room_of_the_rows(tmp_path):
    model, X = wide_model()
    path = save(model, tmp_path / "wide.kin")
    dense = sum(matrix.nbytes for matrix in (model.gram_.G, model.model_.parts[0].coupling.penalty.ridge))
    assert path.stat().st_size < dense / 20
    loaded = load(path)
    np.testing.assert_allclose(loaded.gram_.G, model.gram_.G, atol=1e-12 * np.abs(model.gram_.G).max())
    same(loaded.model_.parts, model.model_.parts)
    np.testing.assert_allclose(loaded.predict(X, return_std=True), model.predict(X, return_std=True), rtol=1e-9)
    assert save(loaded, tmp_path / "again.kin").read_bytes() == path.read_bytes()


def test_wide_statistics_that_all_tasks_share_stay_one_matrix(tmp_path):
    X = np.random.default_rng(6).normal(size=(8, 100))
    loaded = again(Independent(penalty=1.0).fit_gram(GramStats.from_rows(X, X[:, :3])), tmp_path)
    assert loaded.gram_.G.strides[0] == 0 and loaded.gram_.G.shape == (3, 100, 100)


def test_the_callback_stays_behind(tmp_path):
    model = GAMTL(task="who", callback=lambda progress: None).fit(TABLE, Y)
    assert again(model, tmp_path).callback is None


def test_numpy_opens_the_arrays_without_pickle(tmp_path):
    model = fitted("GAMTL")
    with np.load(save(model, tmp_path / "model.kin"), allow_pickle=False) as arrays:
        assert any(np.array_equal(arrays[name], model.coef_) for name in arrays.files if name.startswith("arrays/"))


@pytest.mark.parametrize(
    "value",
    [
        [None, True, -3, 2**100, 0.1, -0.0, "ä\ud800"],
        [float("nan"), float("inf"), float("-inf")],
        {"a": (1, [2, (3,)]), 5: {None: "x"}, (1, "b"): {}},
        [
            np.float64(0.1),
            np.int32(4),
            np.bool_(True),
            np.str_("é"),
            np.datetime64("2020-01-01", "D"),
            np.float32("nan"),
        ],
        np.array([[1, "a"], [None, 2.5]], dtype=object),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        [np.zeros((0, 3)), np.array(3.0), np.array(["", "xyz"])],
        sparse.csr_array(np.eye(3)),
        [slice(1, None, 2), np.float32, float, np.dtype("f4"), np.log1p, datetime.datetime(2020, 1, 2, 3, 4, 5, 6)],
    ],
    ids=str,
)
def test_values_of_every_kind_come_back(value, tmp_path):
    encoder = Encoder()
    node = encoder.value(value, "value")
    write_archive(tmp_path / "values.kin", json.dumps(node).encode(), encoder.arrays)
    with (tmp_path / "values.kin").open("rb") as file:
        archive = open_archive(file)
        back = Decoder(archive).value(json.loads(archive.header()))
    assert repr(back) == repr(value)
    assert type(back) is type(value)


def test_a_transformer_that_is_not_on_the_list_is_named_with_the_remedy(tmp_path):
    class Own(KernelCenterer):
        def fit(self, X, y=None):
            return self

        def transform(self, X):
            return np.asarray(X)

    model = GAMTL(task="who", features=Own()).fit(TABLE, Y)
    with pytest.raises(ModelFileError, match="model.features is a .*Own, which model files do not hold. Use one of"):
        save(model, tmp_path / "model.kin")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"random_state": np.random.RandomState(0)},
            r"model.random_state is a .*RandomState.*set_params\(random_state=",
        ),
        ({"features": lambda X: X}, "model.features is code"),
        ({"neighbors": np.longdouble(5)}, "model.neighbors"),
    ],
    ids=["random state", "code", "long double"],
)
def test_values_that_cannot_be_kept_are_named(change, message, tmp_path):
    model = GAMTL(task="who").fit(TABLE, Y).set_params(**change)
    with pytest.raises(ModelFileError, match=message):
        save(model, tmp_path / "model.kin")


def test_task_names_that_differ_by_a_zero_character_stay_two_or_are_refused(tmp_path):
    X, y = np.arange(6.0)[:, None] ** 2, np.arange(6.0)
    names = np.array(["a"] * 3 + ["a\0"] * 3, dtype=object)
    model = Independent(penalty=1.0).fit_gram(GramStats.from_rows(X, y, names))
    assert again(model, tmp_path).tasks_.tolist() == ["a", "a\0"]
    numpy_names = np.array([np.str_(name) for name in names] + [None], dtype=object)[:-1]
    model = Independent(penalty=1.0).fit_gram(GramStats.from_rows(X, y, numpy_names))
    with pytest.raises(ModelFileError, match="NumPy drops zero characters at the end: strip them"):
        save(model, tmp_path / "model.kin")


def test_a_value_that_contains_itself_is_refused(tmp_path):
    model = GAMTL(task="who").fit(TABLE, Y)
    model.notes_ = []
    model.notes_.append(model.notes_)
    with pytest.raises(ModelFileError, match="contains itself"):
        save(model, tmp_path / "model.kin")


def test_only_fitted_models_are_saved(tmp_path):
    with pytest.raises(ModelFileError, match="not fitted yet: call fit before save"):
        save(GAMTL(), tmp_path / "model.kin")
    with pytest.raises(ModelFileError, match="dict is not a model of kinfolk"):
        save({}, tmp_path / "model.kin")
    with pytest.raises(ModelFileError, match="is a folder: give the path of a file"):
        save(fitted("GAMTL"), tmp_path)


def test_a_file_of_another_scikit_learn_is_told_as_scikit_learn_does(tmp_path, monkeypatch):
    path = save(with_transformer("StandardScaler"), tmp_path / "model.kin")
    plain = save(fitted("GAMTL"), tmp_path / "plain.kin")
    monkeypatch.setattr("sklearn.__version__", "99.0")
    with pytest.warns(match="version"):
        load(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(plain)
