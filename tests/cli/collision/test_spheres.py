"""`ik-service spheres`: a file that load_robot reads, with figures and a picture of what is covered."""

import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import trimesh

from ik_service import load_robot

ARM = """<robot name="arm">
  <link name="base"><collision><geometry><box size="0.2 0.2 0.1"/></geometry></collision></link>
  <link name="upper"><collision><origin xyz="0.25 0 0"/><geometry>{shape}</geometry></collision></link>
  <link name="fore"><collision><origin xyz="0.25 0 0" rpy="0 1.5707963 0"/>
    <geometry><cylinder radius="0.04" length="0.4"/></geometry></collision></link>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/><origin xyz="0 0 0.1"/>
    <axis xyz="0 1 0"/><limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
  <joint name="elbow" type="revolute"><parent link="upper"/><child link="fore"/><origin xyz="0.5 0 0"/>
    <axis xyz="0 1 0"/><limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
</robot>"""
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
    output, picture = arm.with_suffix(".collision.json"), arm.with_suffix(".svg")
    result = run("spheres", arm, "-o", output, "--stands-out", 0.02, "--picture", picture)
    robot = load_robot(arm)
    assert robot.collision_model.pairs == (("base", "fore"),)
    assert robot.collision_model.left_out["adjacent"] == (("base", "upper"), ("fore", "upper"))
    reach = robot.collision_model.spheres["upper"]
    assert np.abs(reach[:, 0] - 0.25).max() < 0.25 + 0.02
    check = robot.collision([[0.0, 0.0], [0.0, 3.0]])
    assert check.clearance[0] > 0.2
    assert check.closest_pairs == [("base", "fore")] * 2
    for text in ("base", "upper", "fore", "100.00 %", "Pairs that are checked: 1. base + fore"):
        assert text in result.output
    document = json.loads(output.read_text())
    assert document["source"].startswith("fitted by ik-service spheres to the collision shapes of arm.urdf")
    numbers = np.concatenate([np.array(own).ravel() for own in document["spheres"].values()])
    np.testing.assert_allclose(numbers, numbers.round(4), atol=1e-12)
    drawn = ET.parse(picture).getroot()
    circles = list(drawn.iter("{http://www.w3.org/2000/svg}circle"))
    assert len(circles) == 3 * robot.collision_model.sphere_count


def test_the_same_command_writes_the_same_bytes(run, arm, tmp_path):
    files = [tmp_path / name for name in ("one.json", "two.json")]
    for file in files:
        run("spheres", arm, "-o", file)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_pairs_in_contact_where_the_robot_is_free_are_left_out(run, arm, tmp_path):
    output = tmp_path / "free.json"
    run("spheres", arm, "-o", output, "--free", "0,0", "--free", "0,3")
    document = json.loads(output.read_text())
    assert document["pairs"] == []
    assert document["left_out"]["in contact in a free configuration"] == [["base", "fore"]]


@pytest.mark.parametrize(
    ("shape", "arguments", "message"),
    [
        (MESH, ["--stands-out", "0"], "--stands-out is 0 m"),
        (MESH, ["--looks-out=-1"], "--looks-out is -1 m"),
        (MESH, ["--free", "1,2,3"], "is not 2 numbers"),
        ('<mesh filename="package://none/upper.stl"/>', [], "Name the folder that has the package"),
        ("<sphere/>", [], "Link 'upper' has shapes that cannot be read: sphere"),
    ],
)
def test_what_is_wrong_is_named(run, arm, tmp_path, shape, arguments, message):
    arm.write_text(ARM.format(shape=shape))
    result = run("spheres", arm, "-o", tmp_path / "none.json", *arguments, code=2)
    assert message in result.output.replace("\n", " ")
    assert not (tmp_path / "none.json").exists()


def test_a_robot_without_shapes_is_refused(run, tmp_path):
    result = run("spheres", "ur5e", "-o", tmp_path / "none.json", code=2)
    assert "has no collision shapes" in result.output
