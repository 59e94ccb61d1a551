"""`ik-service spheres` and `ik-service grid`: files for robots and worlds, made from meshes."""

import json

import numpy as np
import pytest
import trimesh

from ik_service import load_robot
from ik_service.cli import spheres_command
from ik_service.cli.spheres_command import TRIAL_SAMPLES
from ik_service.robots import Box, load_world, read_grid
from tests.robots.covered_robots import ARM, BLOCK, WEDGED

MESH = '<mesh filename="package://arm/upper.stl" scale="0.001 0.001 0.001"/>'


@pytest.fixture
def arm(tmp_path):
    folder = tmp_path / "arm"
    folder.mkdir()
    trimesh.creation.box((500, 60, 60)).export(folder / "upper.stl")  # mm
    (folder / "arm.urdf").write_text(ARM.format(shape=MESH))
    return folder / "arm.urdf"


def test_the_file_is_the_model_that_the_robot_has_afterwards(run, arm):
    assert load_robot(arm).collision_model is None
    output = arm.with_suffix(".collision.json")
    result = run("spheres", arm, "-o", output, "--stands-out", 0.02)
    robot = load_robot(arm)
    assert robot.collision_model.pairs == (("base", "fore"),)
    assert robot.collision_model.left_out["adjacent"] == (("base", "upper"), ("fore", "upper"))
    reach = robot.collision_model.spheres["upper"]
    assert np.abs(reach[:, 0] - 0.25).max() < 0.25 + 0.02
    check = robot.collision([[0.0, 0.0], [0.0, 3.0]])
    assert check.clearance[0] > 0.2
    assert check.closest_pairs == [("base", "fore")] * 2
    told = ("base", "upper", "fore", "100.00 %", "are checked: 1.\n  base + fore\n", "Left out, adjacent: 2.\n")
    assert [text for text in told if text not in result.output] == []
    document = json.loads(output.read_text())
    assert document["source"].startswith("fitted by ik-service spheres to the collision shapes of arm.urdf")
    numbers = np.concatenate([np.array(own).ravel() for own in document["spheres"].values()])
    np.testing.assert_allclose(numbers, numbers.round(4), atol=1e-12)


@pytest.mark.evidence
def test_a_model_is_tried_before_it_is_written_and_is_the_same_each_time(run, arm, tmp_path):
    output = tmp_path / "free.json"
    run("spheres", arm, "-o", output)
    before, robot = output.read_bytes(), load_robot(arm, collision=output)
    share = robot.collision(robot.random_joint_q(np.random.default_rng(1), TRIAL_SAMPLES)).is_free.mean()
    assert 0.0 < share < 1.0
    result = run("spheres", arm, "-o", output)
    assert output.read_bytes() == before
    assert f"Free of contact: {100 * share:.1f} % of {TRIAL_SAMPLES} random configurations." in result.output
    assert "Where all coordinates are zero: free. In the middle of the limits: free." in result.output
    assert "pair in contact" not in result.output


@pytest.fixture
def folded(arm):
    """The arm with an elbow that stays folded: the fore arm is in the base where the shoulder is up to 0.7 rad off."""
    text = arm.read_text().replace('<origin xyz="0.5 0 0"/>', '<origin xyz="0.05 0 0"/>')
    arm.write_text(text)
    return arm


def test_a_pair_in_contact_at_zero_alone_is_free_in_the_middle(run, folded, tmp_path):
    text = folded.read_text()
    folded.write_text(text.replace('upper="3"', 'upper="0.2"', 1))  # in the middle the fore arm is above the base
    result = run("spheres", folded, "-o", tmp_path / "folded.json", "--stands-out", 0.015)
    assert "Where all coordinates are zero: in contact. In the middle of the limits: free." in result.output
    assert "--free zero" in result.output
    (line,) = (line for line in result.output.splitlines() if "base + fore" in line and "mm deep" in line)
    depth = -1e3 * load_robot(folded, collision=tmp_path / "folded.json").collision([0.0, 0.0]).clearance[0]
    assert (line.count("mm deep"), line.count(f"{depth:.1f} mm deep")) == (1, 1)
    assert line.rindex("free") > line.index("mm deep")


def test_a_model_that_is_never_free_is_not_written(run, tmp_path):
    (tmp_path / "wedged.urdf").write_text(WEDGED)
    result = run("spheres", tmp_path / "wedged.urdf", "-o", tmp_path / "none.json", code=2)
    assert "Pairs that are checked: 2." in result.output
    assert "Nothing that was tried is free of contact" in result.output.replace("\n", " ")
    assert all(any(pair in line for line in result.output.splitlines()) for pair in ("left + slider", "right + slider"))
    assert not (tmp_path / "none.json").exists()


def test_a_model_that_is_free_at_zero_alone_is_written(run, tmp_path, monkeypatch):
    monkeypatch.setattr(spheres_command, "TRIAL_SAMPLES", 1)
    narrow = WEDGED.replace(BLOCK.format(1.0), BLOCK.format(0.2)).replace('"-0.5" upper="0.5"', '"-0.2" upper="0.8"')
    (tmp_path / "wedged.urdf").write_text(narrow)
    result = run("spheres", tmp_path / "wedged.urdf", "-o", tmp_path / "narrow.json")
    assert "Free of contact: 0.0 % of 1 random configurations." in result.output
    assert "Where all coordinates are zero: free. In the middle of the limits: in contact." in result.output
    assert (tmp_path / "narrow.json").exists()


@pytest.mark.parametrize("free", [("zero", "0,3"), ("0,0", "0,3")])
def test_pairs_in_contact_where_the_robot_is_free_are_left_out(run, arm, tmp_path, free):
    output = tmp_path / "free.json"
    run("spheres", arm, "-o", output, *(word for one in free for word in ("--free", one)))
    document = json.loads(output.read_text())
    assert document["pairs"] == []
    assert document["left_out"]["in contact in a free configuration"] == [["base", "fore"]]


@pytest.mark.parametrize(
    ("shape", "arguments", "message"),
    [
        (MESH, ["--stands-out", "0"], "--stands-out is 0 m"),
        (MESH, ["--looks-out=-1"], "--looks-out is -1 m"),
        (MESH, ["--free", "1,2,3"], "is not 2 numbers with commas, 'zero' or 'middle'"),
        ('<mesh filename="package://none/upper.stl"/>', [], "Name the folder that has the package"),
        ("<sphere/>", [], "Link 'upper' has shapes that cannot be read: sphere"),
        ("", [], "has no collision shapes"),
    ],
)
def test_what_is_wrong_is_named(run, arm, tmp_path, shape, arguments, message):
    arm.write_text(ARM.format(shape=shape))
    robot = arm if shape else "ur5e"
    result = run("spheres", robot, "-o", tmp_path / "none.json", *arguments, code=2)
    assert message in result.output.replace("\n", " ")
    assert not (tmp_path / "none.json").exists()


# ---------------------------------------------------------------------- `ik-service grid`
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
def test_what_is_no_mesh_or_grid_is_named(run, block, arguments, message):
    (block / "notes.stl").write_text("no mesh")
    result = run("grid", *arguments, "-o", "out.npz", code=2)
    assert message in " ".join(result.output.replace("│", " ").split())
    assert not (block / "out.npz").exists()
