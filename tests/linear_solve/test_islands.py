"""Islands found on the host and on the device: small graphs by hand, random ones against networkx."""

import networkx as nx
import numpy as np
import pytest

from ik_service.linear_solve.islands import Islands, RowStructure, allocate_islands, find_islands
from tests.linear_solve.conftest import discover_islands

POISON = 7777


def on_device(incidence, row_on, dof_tree=None, coordinate_tree=None, join=False):
    """Islands of a batch of problems over one structure, arrays on the host; outputs were poisoned before."""
    incidence, row_on = np.asarray(incidence, dtype=bool), np.atleast_2d(np.asarray(row_on, dtype=bool))
    trees = incidence.shape[1]
    dof_tree = np.arange(trees) if dof_tree is None else np.asarray(dof_tree)
    coordinate_tree = dof_tree if coordinate_tree is None else np.asarray(coordinate_tree)
    structure = RowStructure(incidence, dof_tree, coordinate_tree)
    islands = allocate_islands(structure, len(row_on), "cpu")
    names = [name for name, kind in Islands.__annotations__.items() if kind is not int]
    for name in names:
        getattr(islands, name).fill_(POISON)
    discover_islands(structure, row_on, islands, join=join)
    return {name: getattr(islands, name).numpy().copy() for name in names}


def both(incidence, row_on=None):
    """Tree labels and sizes of one problem, after checking that host and device agree on everything."""
    incidence = np.asarray(incidence, dtype=bool)
    row_on = np.ones(len(incidence), dtype=bool) if row_on is None else np.asarray(row_on, dtype=bool)
    count, tree_island, row_island = find_islands(incidence, row_on)
    device = on_device(incidence, row_on)
    assert device["nisland"][0] == count
    np.testing.assert_array_equal(device["tree_island"][0], tree_island)
    np.testing.assert_array_equal(device["row_island"][0], row_island)
    return tree_island.tolist(), np.bincount(tree_island[tree_island >= 0], minlength=count).tolist()


def rows(trees, *members):
    """Incidence of rows given as the trees that they join."""
    incidence = np.zeros((len(members), trees), dtype=bool)
    for row, joined in enumerate(members):
        incidence[row, list(joined)] = True
    return incidence


BY_HAND = {
    "no rows": (rows(3), [-1, -1, -1], []),
    "one row on one tree": (rows(3, [1]), [-1, 0, -1], [1]),
    "a row that no tree moves": (rows(2, [], [1]), [-1, 0], [1]),
    "one pair": (rows(3, [0, 2]), [0, -1, 0], [2]),
    "two independent pairs": (rows(4, [1, 3], [0, 2]), [0, 1, 0, 1], [2, 2]),
    "a chain of three": (rows(3, [0, 1], [1, 2]), [0, 0, 0], [3]),
    "a chain given backwards": (rows(4, [2, 3], [1, 2], [0, 1]), [0, 0, 0, 0], [4]),
    "a star": (rows(5, [4, 0], [4, 1], [4, 2], [4, 3]), [0, 0, 0, 0, 0], [5]),
    "static links connect nothing": (rows(3, [0, 1], [1], [2]), [0, 0, 1], [2, 1]),  # A-B, B-static, C-static
    "one row over all": (rows(4, [0, 1, 2, 3]), [0, 0, 0, 0], [4]),
    "a row over many joins them all": (rows(5, [0, 2, 4], [1], [3]), [0, 1, 0, 2, 0], [3, 1, 1]),
    "the same row many times": (rows(3, [0, 1], [0, 1], [0, 1], [2]), [0, 0, 1], [2, 1]),
    "labels follow the lowest tree": (rows(4, [3], [2], [0, 1]), [0, 0, 1, 2], [2, 1, 1]),
}


@pytest.mark.parametrize("case", BY_HAND)
def test_small_graphs(case):
    incidence, tree_island, island_ntree = BY_HAND[case]
    assert both(incidence) == (tree_island, island_ntree)


def test_rows_that_are_off_join_nothing():
    incidence = rows(3, [0], [0, 1], [1], [1, 2])
    assert both(incidence, [1, 1, 1, 0]) == ([0, 0, -1], [2])
    assert both(incidence, [1, 0, 1, 0]) == ([0, 1, -1], [1, 1])
    assert both(incidence, [0, 0, 0, 0]) == ([-1, -1, -1], [])


def test_a_complete_graph_and_a_long_chain_are_one_island():
    pairs = [(a, b) for a in range(40) for b in range(a)]
    assert both(rows(40, *pairs)) == ([0] * 40, [40])
    chain = rows(1024, *[(a, a + 1) for a in range(1023)])
    assert both(chain) == ([0] * 1024, [1024])
    assert both(chain[::-1]) == ([0] * 1024, [1024])
    assert both(rows(1024, *[(a,) for a in range(1024)])) == (list(range(1024)), [1] * 1024)


def random_incidence(random):
    trees, count = random.integers(1, 13), random.integers(0, 16)
    return random.random((count, trees)) < random.choice([0.08, 0.15, 0.3])


def test_a_thousand_random_graphs_against_networkx():
    random = np.random.default_rng(0)
    shapes = set()
    for _ in range(1000):
        incidence = random_incidence(random)
        row_on = random.random(len(incidence)) < 0.8
        graph = nx.Graph()
        for row in np.flatnonzero(row_on):
            members = np.flatnonzero(incidence[row])
            graph.add_nodes_from(members)
            nx.add_path(graph, members)
        expected = np.full(incidence.shape[1], -1)
        for label, component in enumerate(sorted(nx.connected_components(graph), key=min)):
            expected[list(component)] = label
        labels, sizes = both(incidence, row_on)
        assert labels == expected.tolist()
        shapes.add(len(sizes))
    assert shapes >= set(range(7))


def test_members_are_listed_exactly_and_in_order():
    dof_tree = [0, 0, 1, 2, 2, 2, 1, 3]  # tree 1 has DOFs apart from each other
    coordinate_tree = [0, 0, 0, -1, 1, 2, 3, 1, 2]
    incidence = rows(4, [2], [0], [0, 1], [3], [], [2])
    found = on_device(incidence, [1, 1, 1, 0, 1, 1], dof_tree, coordinate_tree)
    assert found["nisland"].tolist() == [2]
    lists = {"dof": ([0, 1, 2, 6], [3, 4, 5]), "row": ([1, 2], [0, 5]), "coord": ([0, 1, 2, 4, 7], [5, 8])}
    for name, expected in lists.items():
        adr, items = found[f"{name}adr"][0], found[name][0]
        for island, members in enumerate(expected):
            assert items[adr[island] : adr[island + 1]].tolist() == members
        assert adr[2:].tolist() == [adr[2]] * 3
    assert found["row_island"][0].tolist() == [1, 0, 0, -1, -1, 1]
    assert found["hessian_adr"][0].tolist() == [0, 16, 25, 25, 25]
    assert found["jacobian_adr"][0].tolist() == [0, 8, 14, 14, 14]
    assert found["tree_island"][0].tolist() == [0, 0, 1, -1]


def test_every_problem_of_a_batch_has_islands_of_its_own():
    random = np.random.default_rng(2)
    incidence = rows(6, [0], [1], [2], [3], [4], [5], [0, 1], [2, 3], [4, 5], [1, 2])
    row_on = random.random((64, 10)) < 0.6
    together = on_device(incidence, row_on)
    assert len(set(together["nisland"].tolist())) > 3
    for p in range(64):
        alone = on_device(incidence, row_on[p])
        for name in ("nisland", "tree_island", "row_island", "dofadr", "hessian_adr"):
            np.testing.assert_array_equal(together[name][p], alone[name][0], err_msg=name)


def test_joined_islands_are_one_and_leave_untouched_trees_out():
    found = on_device(rows(5, [0], [2], [3, 4]), [1, 1, 1], join=True)
    assert found["nisland"].tolist() == [1]
    assert found["tree_island"][0].tolist() == [0, -1, 0, 0, 0]
    assert found["dof"][0][:4].tolist() == [0, 2, 3, 4]
