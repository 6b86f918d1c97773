"""The published numbers are all there, and are what the paper prints."""

import pytest

from kinfolk.experiments.reproduction import paper
from kinfolk.experiments.reproduction.settings import PARTS, SETTINGS, chosen

TABLES = [*paper.SYNTHETIC.values(), *paper.PARKINSONS.values(), *paper.BIRMINGHAM.values()]


def test_every_table_has_every_column_of_the_paper():
    assert [len(table) for table in TABLES] == [8, 8, 7, 7, 7, 7, 7, 7]


@pytest.mark.parametrize("table", TABLES)
def test_gamtl_is_the_best_linear_method_of_every_published_row(table):
    linear = {name: mean for name, (mean, _) in table.items() if name != "RBF-GAMTL"}
    assert min(linear, key=linear.get) == "GAMTL"


def test_numbers_from_all_corners_of_the_tables():
    assert paper.SYNTHETIC["syn1"]["MTRL"] == (5.996, 0.859)
    assert paper.SYNTHETIC["syn2"]["RBF-GAMTL"] == (4.092, 0.600)
    assert paper.PARKINSONS[0.3]["MTRL"] == (4.147, 3.038)
    assert paper.PARKINSONS[0.6]["RBF-GAMTL"] == (0.367, 0.032)
    assert paper.BIRMINGHAM[4]["MTRL"] == (0.0976, None)
    assert paper.BIRMINGHAM[8]["RBF-GAMTL"] == (0.0775, None)


def test_every_published_table_has_a_setting_that_shows_it():
    shown = [id(setting.published) for setting in SETTINGS]
    assert all(id(table) in shown for table in TABLES)


def test_every_figure_with_structures_is_redrawn_once():
    drawn = sorted(setting.figure for setting in SETTINGS if setting.figure)
    assert drawn == ["birmingham", "parkinsons", "syn1", "syn2", "wiener"]


def test_keys_are_unique_and_every_part_has_a_quick_version():
    assert len({setting.key for setting in SETTINGS}) == len(SETTINGS)
    assert {setting.part for setting in chosen("all", quick=True)} == set(PARTS)


def test_an_unknown_part_is_told_the_known_ones():
    with pytest.raises(ValueError, match="'paris' is no part .* synthetic, wiener, birmingham, parkinsons, all"):
        chosen("paris")
