import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import dendrogram, fcluster, is_valid_linkage

from kinfolk.methods.trees import TaskTree


@st.composite
def nested_levels(draw: st.DrawFn) -> np.ndarray:
    """Partitions of up to 12 tasks, each joining groups of the one before at random, the last of one group."""
    T = draw(st.integers(2, 12))
    levels = [np.array(draw(st.lists(st.integers(0, T - 1), min_size=T, max_size=T)))]
    for _ in range(draw(st.integers(0, 3))):
        joined = np.array(draw(st.lists(st.integers(0, T // 2), min_size=T, max_size=T)))
        levels.append(joined[levels[-1]])
    return np.array([*levels, np.zeros(T, int)])


def same_partition(one: np.ndarray, two: np.ndarray) -> bool:
    return np.array_equal(one[:, None] == one, two[:, None] == two)


@given(nested_levels())
@settings(max_examples=60, deadline=None)
def test_linkage_is_valid_and_cutting_it_gives_every_level_back(levels):
    tree = TaskTree(levels, np.arange(levels.shape[1]))
    Z = tree.to_linkage()
    assert is_valid_linkage(Z, throw=True)
    for h in range(len(tree)):
        assert same_partition(fcluster(Z, h + 1, criterion="distance"), levels[h])


@given(nested_levels())
@settings(max_examples=60, deadline=None)
def test_newick_names_every_task_once_and_balances_its_brackets(levels):
    text = TaskTree(levels, [f"t{i}x" for i in range(levels.shape[1])]).to_newick()
    assert all(text.count(f"t{i}x") == 1 for i in range(levels.shape[1]))
    assert text.count("(") == text.count(")") and text.endswith(";")


def test_dendrogram_draws_neighbours_side_by_side():
    tree = TaskTree([[0, 1, 0, 1], [0, 0, 0, 0]], list("abcd"))
    leaves = dendrogram(tree.to_linkage(), labels=tree.labels, no_plot=True)["ivl"]
    assert {frozenset(leaves[:2]), frozenset(leaves[2:])} == {frozenset("ac"), frozenset("bd")}


def test_newick_lengths_add_up_to_the_height_of_the_root():
    tree = TaskTree([[0, 0, 1, 2], [0, 0, 1, 1], [0, 0, 0, 0]], list("abcd"))
    assert tree.to_newick() == "((a:1,b:1):2,(c:2,d:2):1);"


def test_newick_quotes_names_with_special_characters():
    assert TaskTree([[0, 0]], ["lot 1", "O'Hara:x"]).to_newick() == "('lot 1':1,'O''Hara:x':1);"


def test_group_numbers_do_not_matter():
    one = TaskTree([[7, 7, 3], [2, 2, 2]], list("abc"))
    two = TaskTree([[0, 0, 1], [0, 0, 0]], list("abc"))
    assert np.array_equal(one.levels, two.levels)


def test_groups_and_members_speak_of_the_same_partition():
    tree = TaskTree([[0, 1, 0], [0, 0, 0]], ["x", "y", "z"])
    assert tree.groups(0).tolist() == [0, 1, 0]
    assert tree.members(0) == [["x", "z"], ["y"]]
    assert tree.members(-1) == [["x", "y", "z"]]


def test_new_tasks_stand_alone_up_to_the_root():
    tree = TaskTree([[0, 0, 1], [0, 0, 0]], np.array(["a", "c", "d"])).expanded(np.array(["a", "b", "c", "d"]))
    assert tree.members(0) == [["a", "c"], ["b"], ["d"]]
    assert tree.members(1) == [["a", "b", "c", "d"]]


def test_one_task_is_a_tree():
    tree = TaskTree([[0]], ["only"])
    assert tree.to_linkage().shape == (0, 4)
    assert tree.to_newick() == "only;"
    assert repr(tree) == "TaskTree(1 tasks in 1 groups)"


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ([[0, 0, 1], [0, 1, 1], [0, 0, 0]], "level 0 groups tasks 'a' and 'b', but level 1 parts them"),
        ([[0, 0, 1]], "the last level has 2 groups, but the root is one"),
        ([[0, 0]], r"levels of shape \(1, 2\) for 3 tasks"),
        (np.zeros((0, 3), int), r"levels of shape \(0, 3\) for 3 tasks"),
    ],
)
def test_levels_that_are_no_tree_are_refused(levels, message):
    with pytest.raises(ValueError, match=message):
        TaskTree(levels, ["a", "b", "c"])


def test_a_level_outside_the_tree_is_refused():
    with pytest.raises(ValueError, match=r"level=2: the tree has levels 0 \(finest\) to 1 \(root\)"):
        TaskTree([[0, 1], [0, 0]], ["a", "b"]).groups(2)
