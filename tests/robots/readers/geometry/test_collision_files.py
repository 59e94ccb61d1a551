"""Collision models from files: shapes in URDF and MJCF, files of spheres in three forms, and pairs of SRDF."""

import json

import numpy as np
import pytest

import ik_service
from ik_service.collision.shapes import NO_SHAPES, Box, Capsule, Cylinder, Sphere
from ik_service.errors import RobotFileError
from ik_service.robots.readers.mjcf import read_mjcf
from ik_service.robots.readers.sphere_file import IGNORED, read_spheres
from ik_service.robots.readers.urdf import read_urdf
from objectives import InputError
from objectives.errors import UnknownNameError
from tests.robots.urdf_text import joint

BASE = '<link name="base"><collision><geometry><box size="0.2 0.2 0.1"/></geometry></collision></link>'
URDF = f"""<robot name="arm">{BASE}
  <link name="upper"><collision><origin xyz="0 0 0.15" rpy="0 0 0"/>
    <geometry><cylinder radius="0.04" length="0.3"/></geometry></collision></link>
  <link name="lower"><collision><origin xyz="0 0 0.35"/><geometry>{{shape}}</geometry></collision></link>
  <joint name="a" type="continuous"><parent link="base"/><child link="upper"/><origin xyz="0 0 0.05"/></joint>
  <joint name="b" type="continuous"><parent link="upper"/><child link="lower"/><origin xyz="0 0 0.4"/></joint>
  {joint("c", "fixed", "lower", "tool")}</robot>"""
BALL = '<sphere radius="0.05"/>'
IDENTITY = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


def shapes_of(shape):
    return {link.name: link.shapes for link in read_urdf(URDF.format(shape=shape).encode()).links}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "arm.urdf").write_text(URDF.format(shape=BALL))
    return tmp_path


def test_shapes_of_a_urdf_are_read():
    shapes = shapes_of('<capsule radius="0.03" length="0.2"/>')
    assert shapes["base"].shapes == (Box((0.2, 0.2, 0.1), IDENTITY),)
    assert shapes["upper"].shapes == (Cylinder(0.04, 0.3, (0.0, 0.0, 0.15, *IDENTITY[3:])),)
    assert shapes["lower"].shapes == (Capsule(0.03, 0.2, (0.0, 0.0, 0.35, *IDENTITY[3:])),)
    assert shapes["tool"] == NO_SHAPES
    assert shapes_of(BALL)["lower"].shapes == (Sphere(0.05, (0.0, 0.0, 0.35)),)


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ('<mesh filename="package://arm/lower.stl"/>', "mesh"),
        ('<sphere radius="-1"/>', "sphere"),
        ('<sphere radius="0"/>', "sphere of radius 0"),
        ('<capsule radius="0" length="0"/>', "capsule of radius 0"),
        ("<sphere/>", "sphere"),
        ('<box size="1 2"/>', "box"),
        ("", "nothing"),
    ],
)
def test_a_shape_that_cannot_be_read_leaves_the_robot_without_a_model(tmp_path, shape, kind):
    assert shapes_of(shape)["lower"][:2] == ((), (kind,))
    (tmp_path / "arm.urdf").write_text(URDF.format(shape=shape))
    robot = ik_service.load_robot(tmp_path / "arm.urdf", collision="shapes")
    assert robot.collision_model is None
    assert f"a shape of link 'lower' is not read ({kind})" in robot.warnings[-1]
    assert ik_service.load_robot(tmp_path / "arm.urdf").warnings == ()


PLATE = '<box size="2 1 0.01"/></geometry></collision><collision><geometry>'


@pytest.mark.parametrize("shape", ['<capsule radius="1e9" length="1e9"/>', 3 * PLATE + BALL])
def test_without_shapes_or_with_too_large_or_too_many_spheres_a_robot_has_no_model_and_says_so(shape):
    robot = ik_service.robots.load_urdf(URDF.format(shape=shape), collision="shapes")
    assert robot.collision_model is None
    assert "too many or too large" in robot.warnings[-1]
    bare = '<robot name="bare"><link name="base"/></robot>'
    assert "no link has shapes" in ik_service.robots.load_urdf(bare, collision="shapes").warnings[-1]


def test_a_robot_of_simple_shapes_has_a_model(folder):
    assert ik_service.load_robot(folder / "arm.urdf").collision_model is None
    robot = ik_service.load_robot(folder / "arm.urdf", collision="shapes")
    model = robot.collision_model
    assert list(model.spheres) == ["base", "upper", "lower"]
    assert model.pairs == (("base", "lower"),)
    np.testing.assert_array_equal(model.spheres["lower"], [[0.0, 0.0, 0.35, 0.05]])
    assert robot.collision([0.0, 0.0]).clearance[0] > 0.5
    folded = robot.collision([0.0, np.pi])
    assert folded.clearance[0] < 0.02
    assert set(folded.closest_pairs[0]) == {"base", "lower"}
    assert ik_service.load_robot(folder / "arm.urdf", collision="ignore").collision_model is None
    for word in ("none", None):
        with pytest.raises(
            InputError, match=rf"collision is {word!r}\. Allowed: 'read', 'shapes', 'spheres', 'ignore'"
        ):
            ik_service.load_robot(folder / "arm.urdf", collision=word)


def test_a_file_of_spheres_beside_a_robot_comes_first(folder):
    spheres = {"base": [[0, 0, 0, 0.1]], "lower": [[0, 0, 0, 0.05]], "tool": [[0, 0, 0.1, 0.02]]}
    document = {"spheres": spheres, "pairs": [["tool", "base"]], "left_out": {"never": [["base", "lower"]]}}
    (folder / "arm.collision.json").write_text(json.dumps(document))
    model = ik_service.load_robot(folder / "arm.urdf").collision_model
    assert list(model.spheres) == ["base", "lower", "tool"]
    other = folder / "other.yaml"
    other.write_text("spheres: {base: [[0, 0, 0, 0.3]], tool: [[0, 0, 0, 0.01]]}")
    for path in (other, str(other)):  # comes before the one beside the robot
        assert [*ik_service.load_robot(folder / "arm.urdf", collision=path).collision_model.spheres] == ["base", "tool"]
    with pytest.raises(UnknownNameError, match=r"no file 'else\.yaml', which collision names"):
        ik_service.load_robot(folder / "arm.urdf", collision="else.yaml")
    other.write_text("spheres: 3")
    with pytest.raises(RobotFileError, match=r"other\.yaml"):
        ik_service.load_robot(folder / "arm.urdf", collision=other)
    assert model.pairs == (("base", "tool"),)
    assert dict(model.left_out) == {"never": (("base", "lower"),)}
    (folder / "arm.collision.yaml").write_text("spheres: {base: [[0, 0, 0, 0.1]]}")
    with pytest.raises(RobotFileError, match="two files of spheres"):
        ik_service.load_robot(folder / "arm.urdf")
    (folder / "arm.collision.yaml").unlink()
    (folder / "arm.collision.json").write_text('{"spheres": {"leg": [[0, 0, 0, 0.1]]}}')
    with pytest.raises(UnknownNameError, match="leg"):
        ik_service.load_robot(folder / "arm.urdf")


def test_pairs_of_an_srdf_are_not_checked(folder):
    (folder / "arm.srdf").write_text(
        '<robot name="arm"><disable_collisions link1="lower" link2="base" reason="User"/>'
        '<disable_collisions link1="tool" link2="base"/></robot>'
    )
    model = ik_service.load_robot(folder / "arm.urdf", collision="shapes").collision_model
    assert (model.pairs, model.left_out["disabled in the SRDF file"]) == ((), (("base", "lower"),))


CUROBO = """
robot_cfg:
  kinematics:
    collision_spheres:
      base: [{center: [0, 0, 0.1], radius: 0.2}, {center: [0, 0, 0], radius: -1.0}]
      arm: [{center: [0.1, 0, 0], radius: 0.05}]
      tool: []
    self_collision_ignore: {base: [arm, tool]}
"""


def test_spheres_of_curobo_and_foam_are_read():
    document = read_spheres(CUROBO)
    assert document.spheres == {"base": [(0.0, 0.0, 0.1, 0.2)], "arm": [(0.1, 0.0, 0.0, 0.05)], "tool": []}
    assert document.pairs is None
    assert document.left_out == {IGNORED: (("base", "arm"),)}
    foam = read_spheres('{"arm": {"mean": 0.1, "spheres": [{"origin": [0, 0, 1], "radius": 0.5}]}}')
    assert foam == ({"arm": [(0.0, 0.0, 1.0, 0.5)]}, None, {})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "It must be a mapping"),
        ("{}", "neither 'spheres' nor 'collision_spheres'"),
        ('{"spheres": {}}', "It must have 1 to 4096 spheres, got 0"),
        ('{"spheres": {"a": [[0, 0, 0]]}}', "a sphere of a' must be a list of 4 numbers"),
        ('{"spheres": {"a": [[0, 0, 0, 1]]}, "pears": []}', "It has no key 'pears'"),
        ('{"spheres": {"a": [[0, 0, 0, 1]]}, "pairs": [["a"]]}', "A pair must be a list of two links"),
        ('{"spheres": {"a": [[0, 0, 0, 1]]}, "left_out": []}', "'left_out' must be a mapping"),
        ('{"collision_spheres": {"a": {"b": 1}}}', "'a' must have a list, got dict"),
        ('{"collision_spheres": {"a": [1]}}', "A sphere of 'a' must be a mapping of 'center' and 'radius'"),
        ('{"collision_spheres": {"a": [{"center": [0, 0, 0]}]}}', "radius of a"),
    ],
)
def test_a_document_of_no_known_form_is_refused(text, reason):
    with pytest.raises(InputError, match=reason):
        read_spheres(text)


MJCF = """<mujoco><worldbody><geom type="plane" size="1 1 1"/>
  <body name="arm" pos="0 0 1"><joint type="hinge" axis="1 0 0" range="-90 90" limited="true"/>
    <geom type="capsule" fromto="0 0 0 0 0 0.4" size="0.03"/>
    <geom type="sphere" size="0.1" contype="0" conaffinity="0"/>
    <body name="hand" pos="0 0 0.5"><joint type="hinge" axis="0 1 0"/>
      <geom type="box" size="0.05 0.02 0.01" pos="0 0 0.1"/><geom type="{kind}" size="0.02 0.03 0.04"/></body>
  </body></worldbody></mujoco>"""


@pytest.mark.parametrize(("kind", "unread"), [("cylinder", ()), ("ellipsoid", ("ellipsoid",))])
def test_geoms_of_an_mjcf_are_read(tmp_path, kind, unread):
    (tmp_path / "arm.xml").write_text(MJCF.format(kind=kind))
    shapes = {link.name: link.shapes for link in read_mjcf(tmp_path / "arm.xml").links}
    assert shapes["world"] == NO_SHAPES
    (capsule,) = shapes["arm"].shapes
    assert (capsule.radius, capsule.length, capsule.pose[:3]) == (0.03, 0.4, (0.0, 0.0, 0.2))
    assert shapes["hand"].shapes[0] == Box((0.1, 0.04, 0.02), (0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0))
    assert (shapes["hand"].unread, len(shapes["hand"].shapes)) == (unread, 2 - len(unread))
    robot = ik_service.load_robot(tmp_path / "arm.xml", collision="shapes")
    assert (robot.collision_model is None) == bool(unread)
