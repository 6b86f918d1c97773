"""The table that comes with the package."""

from pathlib import Path

import numpy as np

from kinfolk.cli import main
from kinfolk.datasets import load_car_parks


def test_every_car_park_has_forty_readings_at_eight_times():
    parks = load_car_parks()
    assert set(parks.data.groupby("car_park").size()) == {40}
    assert parks.data["when"].nunique() == 8 and parks.task == "car_park"
    assert parks.target.min() >= 0 and parks.target.max() <= 105 and np.isfinite(parks.target).all()
    assert "CC BY 4.0" in parks.DESCR and "Open Government Licence" in parks.DESCR


def test_the_demo_writes_the_table(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--table", "car_parks.csv"]) == 0
    assert capsys.readouterr().out == "28 car parks, 1,120 rows: car_parks.csv\n"
    assert (tmp_path / "car_parks.csv").read_text() == Path(load_car_parks().path).read_text()
    assert list(tmp_path.iterdir()) == [tmp_path / "car_parks.csv"]
