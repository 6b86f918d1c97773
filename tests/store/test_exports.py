"""What other programs read agrees with the model."""

import csv
import json
import sys
from pathlib import Path

import networkx
import numpy as np
import pytest
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

sys.path.insert(0, str(Path(__file__).parent))

from stored_models import TABLE, WIDE_X, WIDE_Y, Y, fitted, table_of

from kinfolk import GAMTL, RBFFeatures, TaskGraph
from kinfolk.export.graphs import write_coefficients, write_graph
from kinfolk.export.onnx import to_onnx
from kinfolk.methods.splines import SplineFeatures

ODD = ['a<b>&"c"', "日本, x", "line\nbreak", "bell\x07"]
GRAPH = TaskGraph(sparse.csr_array(np.diag([0.1, 0.2, 0.3], 1) + np.diag([0.1, 0.2, 0.3], -1)), np.array(ODD))


def weights(graph):
    return sorted(w for _, _, w in graph.edges(data="weight"))


def test_graphml_is_read_by_networkx_with_the_names(tmp_path):
    back = networkx.read_graphml(write_graph(GRAPH, tmp_path / "graph.graphml"))
    assert weights(back) == [0.1, 0.2, 0.3]
    assert [node["task"] for _, node in back.nodes(data=True)] == [*ODD[:3], "bell\ufffd"]
    assert [node["degree"] for _, node in back.nodes(data=True)] == GRAPH.degree.tolist()


def test_json_is_read_by_networkx_with_the_names(tmp_path):
    data = json.loads(write_graph(GRAPH, tmp_path / "graph.json").read_text())
    back = networkx.node_link_graph(data, edges="links")
    assert set(back) == set(ODD)
    assert back.edges[ODD[0], ODD[1]]["weight"] == 0.1


def test_csv_lists_the_edges_heaviest_first(tmp_path):
    path = write_graph(GRAPH, tmp_path / "graph.txt", format="csv")
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["task", "neighbor", "weight"],
        [ODD[2], ODD[3], "0.3"],
        [ODD[1], ODD[2], "0.2"],
        [ODD[0], ODD[1], "0.1"],
    ]


@pytest.mark.parametrize("format", ["csv", "graphml", "json"])
def test_matrices_are_written_as_the_graph_of_their_correlations(format, tmp_path):
    structure = fitted("MTRL").structure_
    one = write_graph(structure, tmp_path / f"one.{format}").read_text()
    assert one == write_graph(structure.graph(), tmp_path / f"two.{format}").read_text()


def test_a_method_without_a_graph_says_so(tmp_path):
    with pytest.raises(ValueError, match="no graph to write: this method learns no relations"):
        write_graph(fitted("Pooled").structure_, tmp_path / "graph.csv")
    with pytest.raises(ValueError, match="format 'png'.*choose one of 'csv', 'graphml', 'json'"):
        write_graph(GRAPH, tmp_path / "graph.png")
    assert not list(tmp_path.iterdir())


def test_coefficients_come_back_to_the_last_digit(tmp_path):
    model = fitted("GAMTL")
    with write_coefficients(model, tmp_path / "coefficients.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["task", "rows", "intercept", "x0", "x1", "x2", "x3"]
    assert [row[0] for row in rows] == model.tasks_.tolist()
    np.testing.assert_array_equal(np.array(rows)[:, 3:].astype(float), model.coef_)


def run(path, features, task=None):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    feed = {"features": np.asarray(features, dtype=np.float64)} | ({} if task is None else {"task": np.asarray(task)})
    return session.run(["prediction"], feed)[0]


FEATURES = {
    "none": None,
    "scaled": StandardScaler(),
    "not centred": StandardScaler(with_mean=False),
    "bumps": RBFFeatures(6, random_state=0),
    "splines": SplineFeatures(),
    "scaled bumps": make_pipeline(StandardScaler(), RBFFeatures(6, random_state=0, linear=True)),
}
X = TABLE.drop(columns="who")


@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
def test_onnx_predicts_what_the_model_predicts(features, tmp_path):
    model = GAMTL(task="who", features=features).fit(TABLE, Y)
    path = to_onnx(model, tmp_path / "model.onnx")
    np.testing.assert_allclose(run(path, X, TABLE.who.astype(object)), model.predict(TABLE), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["GAMTLCV", "RBFGAMTL", "RandomSlopes", "BMSL"])
def test_onnx_predicts_what_other_methods_predict(name, tmp_path):
    path = to_onnx(fitted(name), tmp_path / "model.onnx")
    expected = fitted(name).predict(table_of(name))
    np.testing.assert_allclose(run(path, X, TABLE.who.astype(object)), expected, rtol=1e-9, atol=1e-9)


def test_onnx_of_wide_targets_has_a_column_per_target(tmp_path):
    model = GAMTL().fit(WIDE_X, WIDE_Y)
    np.testing.assert_allclose(run(to_onnx(model, tmp_path / "m.onnx"), WIDE_X), model.predict(WIDE_X), atol=1e-9)
    single = GAMTL().fit(WIDE_X, WIDE_Y[:, 0])
    np.testing.assert_allclose(run(to_onnx(single, tmp_path / "s.onnx"), WIDE_X), single.predict(WIDE_X), atol=1e-9)


def test_onnx_takes_integer_tasks_and_gives_strangers_the_population_model(tmp_path):
    table = np.column_stack([np.arange(20) % 4 * 10, WIDE_X])
    model = GAMTL(task=0, unseen="mean").fit(table, WIDE_Y[:, 0])
    strangers = np.array([0, 10, 99, -5])
    expected = model.predict(np.column_stack([strangers, WIDE_X[:4]]))
    path = to_onnx(model, tmp_path / "model.onnx")
    np.testing.assert_allclose(run(path, WIDE_X[:4], strangers), expected, rtol=1e-9, atol=1e-9)
    strict = to_onnx(model.set_params(unseen="error"), tmp_path / "strict.onnx")
    assert np.isnan(run(strict, WIDE_X[:4], strangers)).tolist() == [False, False, True, True]


def test_features_without_an_onnx_form_are_named(tmp_path):
    model = GAMTL(task="who", features=MinMaxScaler()).fit(TABLE, Y)
    with pytest.raises(ValueError, match="features: MinMaxScaler has no ONNX form here. Use None, StandardScaler"):
        to_onnx(model, tmp_path / "model.onnx")
