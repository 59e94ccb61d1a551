"""Worlds in files: every shape with and without its pose, and what is refused by which name."""

import json

import numpy as np
import pytest

from ik_service.robots import Box, Capsule, Cylinder, HalfSpace, Sphere
from ik_service.robots.files.geometry.world_file import SHAPES, load_world, read_world
from objectives import InputError

TURN = [0.0, 0.0, np.sin(np.pi / 4), np.cos(np.pi / 4)]  # a quarter about z
PLACE = [0.1, -0.2, 0.3]
EXPECTED = {
    "ball": ({"shape": "sphere", "radius": 0.2}, Sphere(0.2)),
    "moved ball": ({"shape": "sphere", "radius": 0.2, "position": PLACE}, Sphere(0.2, tuple(PLACE))),
    "post": ({"shape": "capsule", "radius": 0.05, "length": 1}, Capsule(0.05, 1.0)),
    "pipe": (
        {"shape": "cylinder", "radius": 0.05, "length": 1.0, "orientation_xyzw": TURN},
        Cylinder(0.05, 1.0, (0, 0, 0, *TURN)),
    ),
    "table": (
        {"shape": "box", "size": [1, 2, 0.1], "position": PLACE, "orientation_xyzw": TURN},
        Box((1, 2, 0.1), (*PLACE, *TURN)),
    ),
    "shelf": ({"shape": "box", "size": [1, 2, 0.1], "position": PLACE}, Box((1, 2, 0.1), (*PLACE, 0, 0, 0, 1))),
    "floor": ({"shape": "half_space", "normal": [0, 0, 1]}, HalfSpace((0, 0, 1))),
    "wall": ({"shape": "half_space", "normal": [1, 0, 0], "offset": -0.5}, HalfSpace((1, 0, 0), -0.5)),
}
DOCUMENT = {"objects": {name: fields for name, (fields, _) in EXPECTED.items()}}


def test_every_shape_is_read():
    world = read_world(DOCUMENT)
    assert dict(world.objects) == {name: shape for name, (_, shape) in EXPECTED.items()}
    assert {fields["shape"] for fields, _ in EXPECTED.values()} == {*SHAPES}


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_a_file_is_read_in_both_languages(tmp_path, suffix):
    path = tmp_path / f"cell.{suffix}"
    text = json.dumps(DOCUMENT)
    path.write_text(text if suffix == "json" else "objects:\n  ball:\n    shape: sphere\n    radius: 2e-1\n")
    assert load_world(path).objects["ball"] == Sphere(0.2)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "'objects'"),
        ({"objects": {}, "robots": {}}, "'objects'"),
        ({"objects": []}, "names to shapes"),
        ({"objects": {"a": 1}}, "Object 'a' must be a mapping"),
        ({"objects": {"a": {}}}, "Object 'a' needs a 'shape'. Shapes: sphere, capsule"),
        ({"objects": {"a": {"shape": "mesh"}}}, "needs a 'shape'"),
        ({"objects": {"a": {"shape": "box"}}}, "needs the field 'size'"),
        ({"objects": {"a": {"shape": "box", "size": [1, 1]}}}, "'size' must be a list of 3 numbers"),
        ({"objects": {"a": {"shape": "sphere", "radius": [1]}}}, "'radius' must be a number"),
        ({"objects": {"a": {"shape": "sphere", "radius": -1}}}, "Object 'a': The radius of a sphere must not be"),
        ({"objects": {"a": {"shape": "sphere", "radius": 1, "size": [1, 1, 1]}}}, "field 'size', which a sphere has"),
        ({"objects": {"a": {"shape": "half_space", "normal": [0, 0, 2]}}}, "Object 'a': The normal"),
        ({"objects": {"a": {"shape": "box", "size": [1, 1, 1], "orientation_xyzw": [0, 0, 0, 0]}}}, "Object 'a'"),
        ({"objects": {"": {"shape": "sphere", "radius": 1}}}, "needs a name"),
    ],
)
def test_what_is_wrong_is_named(document, message):
    with pytest.raises(InputError) as raised:
        read_world(document)
    assert message in str(raised.value)


def test_the_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.json' cannot be read: No such file"):
        load_world(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text('{"objects": {"a": 1}}')
    with pytest.raises(InputError, match=r"bad\.json': Object 'a'"):
        load_world(tmp_path / "bad.json")
