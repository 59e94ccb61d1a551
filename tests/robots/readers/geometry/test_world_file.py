"""Worlds in files: every shape with and without its pose, and what is refused by which name."""

import json

import numpy as np
import pytest

from ik_service.robots import Box, Capsule, Cylinder, DistanceGrid, HalfSpace, Sphere, read_grid, write_grid
from ik_service.robots.readers.world_file import SHAPES, load_world, read_world, world_document
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
    assert {fields["shape"] for fields, _ in EXPECTED.values()} | {"grid"} == {*SHAPES}


VALUES = np.random.default_rng(0).normal(0.1, 0.1, (2, 3, 4)).astype(np.float32)


def same(one, other):
    return (one.values.tobytes(), one.spacing, one.pose) == (other.values.tobytes(), other.spacing, other.pose)


@pytest.mark.parametrize("values", [VALUES, VALUES.astype(float).tolist()], ids=["array", "lists"])
def test_a_grid_is_read(values):
    fields = {"shape": "grid", "values": values, "spacing": 0.1, "position": PLACE, "orientation_xyzw": TURN}
    found = read_world({"objects": {"rock": fields}}).objects["rock"]
    assert same(found, DistanceGrid(VALUES, 0.1, (*PLACE, *TURN)))


@pytest.mark.parametrize("folder", ["", "parts/"])
def test_a_file_names_files_of_grids_beside_it(tmp_path, folder):
    grid = DistanceGrid(VALUES, 0.1, (0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0))
    (tmp_path / folder).mkdir(exist_ok=True)
    write_grid(grid, tmp_path / folder / "rock.npz")
    assert same(read_grid(tmp_path / folder / "rock.npz"), grid)
    fields = {"shape": "grid", "file": f"{folder}rock.npz", "position": PLACE, "orientation_xyzw": TURN}
    (tmp_path / "cell.json").write_text(json.dumps({"objects": {"rock": fields}}))
    found = load_world(tmp_path / "cell.json").objects["rock"]
    assert same(found, grid.placed((*PLACE, *TURN)))
    np.testing.assert_allclose(found.pose[:3], np.add(PLACE, [0.0, 0.5, 0.0]), atol=1e-12)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda path: None, "cannot be read: No such file"),
        (lambda path: path.write_text("no archive"), "is no archive with values, spacing and pose"),
        (lambda path: np.savez(path, values=VALUES), "is no archive with values, spacing and pose"),
        (lambda path: np.savez(path, values=VALUES, spacing=0.0, pose=np.eye(7)[6]), "spacing of a grid must be at"),
        (lambda path: np.savez(path, values=np.array([{}]), spacing=1, pose=0, allow_pickle=True), "is no archive"),
        (lambda path: np.savez_compressed(path, values=np.zeros(1 << 25), spacing=1, pose=0), "an array of 26"),
    ],
)
def test_what_is_no_file_of_a_grid_is_refused(tmp_path, write, message):
    write(tmp_path / "rock.npz")
    (tmp_path / "cell.json").write_text('{"objects": {"rock": {"shape": "grid", "file": "rock.npz"}}}')
    with pytest.raises(InputError, match=r"Object 'rock': Grid '.*rock.npz'") as raised:
        load_world(tmp_path / "cell.json")
    assert message in str(raised.value)


def test_a_world_is_written_as_it_is_read():
    rock = {"shape": "grid", "values": VALUES, "spacing": 0.1}
    world = read_world({"objects": {**DOCUMENT["objects"], "rock": rock}})
    again = read_world(world_document(world))
    assert list(again.objects) == list(world.objects)
    assert all(again.objects[name] == shape for name, shape in world.objects.items() if name != "rock")
    assert same(again.objects["rock"], world.objects["rock"])


def test_a_file_is_read_in_both_languages(tmp_path):
    yaml = "objects:\n  ball:\n    shape: sphere\n    radius: 2e-1\n"
    for name, text in (("cell.json", json.dumps(DOCUMENT)), ("cell.yaml", yaml)):
        (tmp_path / name).write_text(text)
        assert load_world(tmp_path / name).objects["ball"] == Sphere(0.2)


def only(**fields):
    return {"objects": {"a": fields}}


def grid(values):
    return only(shape="grid", spacing=1, values=values)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "'objects'"),
        ({"objects": {}, "robots": {}}, "'objects'"),
        ({"objects": []}, "names to shapes"),
        ({"objects": {"a": 1}}, "Object 'a' must be a mapping"),
        (only(), "Object 'a' needs a 'shape'. Shapes: sphere, capsule"),
        (only(shape="mesh"), "Object 'a' has the unknown shape 'mesh'. Shapes: sphere"),
        (only(shape="box"), "needs the field 'size'"),
        (only(shape="box", size=[1, 1]), "'size' must be a list of 3 numbers"),
        (only(shape="sphere", radius=[1]), "'radius' must be a number"),
        (only(shape="sphere", radius=-1), "Object 'a': The radius of a sphere must not be"),
        (only(shape="sphere", radius=1, size=[1, 1, 1]), "field 'size', which a sphere has"),
        (only(shape="half_space", normal=[0, 0, 2]), "Object 'a': The normal"),
        (only(shape="box", size=[1, 1, 1], orientation_xyzw=[0, 0, 0, 0]), "Object 'a'"),
        ({"objects": {"": {"shape": "sphere", "radius": 1}}}, "needs a name"),
        (grid([[[1, 2], [1]]] * 2), "lists of lists of lists"),
        (grid([[["1"] * 2] * 2] * 2), "lists of lists of lists"),
        (grid([[True] * 2] * 2), "lists of lists of lists"),
        (grid([[1, 2], [1, 2]]), "got [2, 2]"),
        (only(shape="grid", file="/etc/passwd"), "field 'file', which a grid has not"),
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
