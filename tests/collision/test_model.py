"""Collision models and worlds as data: what they hold, what they refuse, and that equal ones hash equally."""

import pickle

import numpy as np
import pytest

from ik_service.collision.shapes import Box, Sphere
from ik_service.collision.world import World
from ik_service.mechanism.collision_model import CollisionModel
from objectives import InputError

SPHERES = {"a": [[0.0, 0.0, 0.0, 0.1]], "b": [[0.0, 0.0, 0.1, 0.1], [0.0, 0.0, 0.2, 0.1]], "c": [[1.0, 0.0, 0.0, 0.2]]}


def test_pairs_are_sorted_and_stand_once():
    model = CollisionModel(SPHERES, [("c", "a"), ("a", "c"), ("b", "a")])
    assert model.pairs == (("a", "b"), ("a", "c"))
    assert repr(model) == "<CollisionModel: 4 spheres on 3 links, 2 pairs>"


def test_pairs_that_are_left_out_keep_their_reason_also_in_parts():
    model = CollisionModel(SPHERES, [("a", "b"), ("a", "c")]).without_pairs([("b", "a"), ("b", "c")], "never")
    assert model.pairs == (("a", "c"),)
    assert dict(model.left_out) == {"never": (("a", "b"),)}  # b and c were not checked before either
    more = model.without_pairs([("a", "c")], "never")
    assert dict(more.left_out) == {"never": (("a", "b"), ("a", "c"))}
    part = model.of_links(["b", "a", "other"])
    assert list(part.spheres) == ["a", "b"]
    assert part.pairs == ()
    assert dict(part.left_out) == {"never": (("a", "b"),)}
    assert model.of_links(["other"]) is None


def test_models_cannot_be_changed_and_equal_ones_hash_equally_also_after_pickling():
    model = CollisionModel(SPHERES, [("a", "b")])
    assert pickle.loads(pickle.dumps(model)).content_hash == model.content_hash
    assert CollisionModel(SPHERES, [("a", "c")]).content_hash != model.content_hash
    wider = {**SPHERES, "a": [[0.0, 0.0, 0.0, 0.2]]}
    assert CollisionModel(wider, [("a", "b")]).content_hash != model.content_hash
    with pytest.raises(ValueError, match="read-only"):
        model.spheres["a"][0, 0] = 1.0
    with pytest.raises(TypeError):
        model.spheres["d"] = np.zeros((1, 4))
    world = World({"table": Box((1.0, 1.0, 0.1)), "ball": Sphere(0.2, (0.0, 0.0, 1.0))})
    assert world.names == ("table", "ball")
    assert pickle.loads(pickle.dumps(world)).objects == world.objects


@pytest.mark.parametrize(
    ("spheres", "pairs", "reason"),
    [
        ({"a": [[0.0, 0.0, 0.0]]}, [], "Spheres of link 'a' must have the shape"),
        ({"a": [[0.0, 0.0, 0.0]] * 4}, [], r"must have the shape \[k, 4\], got \[4, 3\]"),
        ({"a": [0.0, 0.0, 0.0, 0.1]}, [], r"must have the shape \[k, 4\], got \[4\]"),
        ({"a": [[0.0, 0.0, 0.0, 0.0]]}, [], "radii above 0"),
        ({"a": [[0.0, np.nan, 0.0, 0.1]]}, [], "finite centres"),
        ({}, [], "A collision model has 1 to 4096 spheres, got 0"),
        (SPHERES, [("a", "d")], "needs spheres of link 'd'; it has none"),
        ([1], [], "spheres of a collision model must be a mapping of names, got"),
        ({1: [[0.0, 0.0, 0.0, 0.1]]}, [], "spheres of a collision model must be a mapping of names, got"),
        ({"a": [[10**400, 0.0, 0.0, 0.1]]}, [], "Spheres of link 'a' must have the shape"),
        (SPHERES, None, "Pairs must be a list, each the names of two links, got None"),
        (SPHERES, "ab", "Pairs must be a list, each the names of two links, got 'ab'"),
        (SPHERES, ["ab"], "A pair must be the names of two links, got 'ab'"),
        (SPHERES, [("a", "b", "c")], "A pair must be the names of two links, got"),
        (SPHERES, [("a", ["b"])], "A pair must be the names of two links, got"),
        (SPHERES, [1], "A pair must be the names of two links, got 1"),
        (SPHERES, [("a", "a")], "A pair needs two links, got 'a' twice"),
        ({"a": np.ones((5000, 4))}, [], "A collision model has 1 to 4096 spheres, got 5000"),
    ],
)
def test_what_makes_no_model_is_refused(spheres, pairs, reason):
    with pytest.raises(InputError, match=reason):
        CollisionModel(spheres, pairs)


@pytest.mark.parametrize("left_out", [[1], 1, {1: [("a", "b")]}, {"never": 1}, {"never": [1]}])
def test_pairs_that_are_left_out_are_pairs_by_reasons(left_out):
    with pytest.raises(InputError, match=r"left_out of a collision model|Pairs must be|A pair must be"):
        CollisionModel(SPHERES, [], left_out)


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([1], "A world needs a mapping of names to shapes, got list"),
        (None, "A world needs a mapping of names to shapes, got NoneType"),
        ({"": Sphere(0.1)}, "needs a name that is a text"),
        ({"table": (1.0, 2.0)}, "Object 'table' must be a shape or a DistanceGrid, got tuple"),
        ({str(k): Sphere(0.1) for k in range(5000)}, "A world may have 4096 objects, got 5000"),
    ],
)
def test_what_makes_no_world_is_refused(objects, reason):
    with pytest.raises(InputError, match=reason):
        World(objects)
