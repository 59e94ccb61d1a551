"""`ik-service grid`: the distances from a mesh in a file that worlds name."""

import json

import numpy as np
import pytest
import trimesh

from ik_service.robots import Box, load_world, read_grid


@pytest.fixture
def block(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trimesh.creation.box((300, 200, 100)).export("block.stl")  # mm
    return tmp_path


def test_the_file_has_the_distances_of_the_mesh(run, block):
    result = run("grid", "block.stl", "-o", "block.npz", "--spacing", "0.02", "--padding", "0.05", "--scale", "0.001")
    assert "21 x 16 x 11 nodes, 20 mm apart." in result.stdout
    assert "Wrote block.npz." in result.stdout
    grid, box = read_grid("block.npz"), Box((0.3, 0.2, 0.1))
    nodes = np.stack(np.indices(grid.values.shape), axis=-1) * grid.spacing + grid.pose[:3]
    np.testing.assert_allclose(grid.values, box.signed_distance(nodes), atol=1e-5)
    fields = {"shape": "grid", "file": "block.npz", "position": [1, 0, 0]}
    (block / "cell.json").write_text(json.dumps({"objects": {"block": fields}}))
    placed = load_world("cell.json").objects["block"]
    assert placed.signed_distance(np.array([1.0, 0.0, 0.0])) == pytest.approx(-0.05, abs=1e-5)


def test_it_says_how_far_distances_are_off(run, block):
    trimesh.creation.icosphere(radius=0.15).export("ball.stl")
    stated = []
    for spacing in ("0.05", "0.01"):
        result = run("grid", "ball.stl", "-o", "ball.npz", "--spacing", spacing)
        line = next(line for line in result.stdout.splitlines() if "off by" in line)
        stated.append([float(word) for word in line.split() if word.replace(".", "").isdigit()])
    (coarse_mean, coarse_most), (mean, most) = stated
    assert coarse_mean > mean
    assert coarse_most > most
    assert most < 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.stl"], "'none.stl' is not there"),
        (["block.stl", "--spacing", "0"], "--spacing must be above 0, got 0."),
        (["block.stl", "--padding", "-1"], "--padding must be above 0, got -1."),
        (["block.stl", "--scale", "nan"], "--scale must be above 0, got nan."),
        (["block.stl"], "are too many for a grid"),
        (["notes.stl"], "has 0 triangles"),
    ],
)
def test_what_is_wrong_is_named(run, block, arguments, message):
    (block / "notes.stl").write_text("no mesh")
    result = run("grid", *arguments, "-o", "out.npz", code=2)
    assert message in " ".join(result.output.replace("│", " ").split())
    assert not (block / "out.npz").exists()
