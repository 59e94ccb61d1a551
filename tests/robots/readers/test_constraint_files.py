"""Constraints beside a URDF: what entries say becomes loops, and what cannot be read is left out with a warning."""

import json
import pathlib
import pickle
import sys

import numpy as np
import pytest

from ik_service.robots import CoordinateConstraint, LoopConstraint, RobotModel, builtin_robot_names, load_robot
from ik_service.robots.readers import catalog
from ik_service.robots.readers.catalog import load_urdf
from ik_service.robots.readers.constraint_file import MAX_CONSTRAINTS
from objectives import InputError
from tests.solver.test_loops import FOUR_BAR

FRAMES = ((0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0), (0.4, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0))
PIN = LoopConstraint("pin", "revolute", "coupler", "rocker", *FRAMES)
YAML = """
loops:
  - name: pin  # one that closes the mechanism
    joint: revolute
    link: coupler
    offset: {position: [5e-1, 0, 0]}
    reference_link: rocker
    reference_offset: {xyz: [0.4, 0, 0], rpy: [0, 0, 0]}
"""


def read(*entries: object, **keywords: object) -> RobotModel:
    return load_urdf(FOUR_BAR, json.dumps({"loops": entries}), **keywords)


def entry(**changes: object) -> dict[str, object]:
    return {"name": "pin", "joint": "spherical", "link": "coupler", "reference_link": "rocker"} | changes


REFERENCE = {"position": [0.4, 0, 0], "orientation_xyzw": [0, 0, 0, 1]}
JSON = json.dumps({"loops": [entry(joint="revolute", offset=FRAMES[0], reference_offset=REFERENCE, pitch=None)]})


@pytest.mark.parametrize(("suffix", "text"), [("yaml", YAML), ("json", JSON)])
def test_a_file_of_constraints_beside_a_urdf_is_read_with_it(tmp_path, suffix, text):
    (tmp_path / "bar.urdf").write_text(FOUR_BAR)
    assert load_robot(tmp_path / "bar.urdf").loops == ()
    (tmp_path / f"bar.constraints.{suffix}").write_text(text)
    robot = load_robot(tmp_path / "bar.urdf")
    assert (robot.loops, robot.warnings) == ((PIN,), ())
    assert robot.content_hash == load_urdf(FOUR_BAR).with_loops([PIN]).content_hash
    assert load_robot(tmp_path / "bar.urdf", constraints="ignore").loops == ()


def test_angles_of_urdf_and_quaternions_say_the_same():
    (turned,) = read(entry(offset={"rpy": [0.3, 0.2, 0.1]})).loops
    (same,) = read(entry(offset={"orientation_xyzw": list(turned.offset[3:])})).loops
    assert (turned, turned.offset[:3]) == (same, (0.0, 0.0, 0.0))
    yaw = read(entry(offset={"rpy": [0, 0, 0.8]})).loops[0].offset
    np.testing.assert_allclose(yaw[3:], [0, 0, np.sin(0.4), np.cos(0.4)], atol=1e-15)


def test_numbers_and_limits_of_joints_are_read():
    for joint, given, limits in (
        ("revolute", [-0.5, "1e0"], ((-0.5, 1.0),)),
        ("prismatic", [[None, 0.2]], ((-np.inf, 0.2),)),
        ("cylindrical", [[0, None], [-1, 1]], ((0.0, np.inf), (-1.0, 1.0))),
    ):
        assert read(entry(joint=joint, limits=given)).loops[0].limits == limits
    screw, rod = read(entry(joint="helical", pitch=0.01), entry(name="rod", joint="distance", distance="2e-1")).loops
    assert (screw.pitch, screw.distance, rod.pitch, rod.distance) == (0.01, None, None, 0.2)


BAD_ENTRIES = {
    "no mapping": ([1, 2], "must be a mapping of fields, got [1, 2]"),
    "unknown field": (entry(axis=[0, 0, 1]), "no field 'axis'. Fields: name, joint, link"),
    "no name": (entry(name=None), "field 'name' is missing"),
    "a number for a name": (entry(name=3), "'name' must be a text that is not empty, got 3"),
    "unknown joint": (entry(joint="pin"), "joint is 'pin'. Allowed: 'weld'"),
    "unknown link": (entry(link="lever"), "about link 'lever', which the robot does not have"),
    "unknown reference": (entry(reference_link="lever"), "about link 'lever', which the robot does not have"),
    "six numbers": (entry(offset=[0.0] * 6), "'offset' must be a list of 7 numbers"),
    "a text": (entry(offset="0 0 0"), "'offset' must be a list of 7 numbers, got '0 0 0'"),
    "no numbers": (entry(offset={"xyz": [0, None, 0]}), "'xyz of offset' must be a number from -1e+06 to 1e+06"),
    "not finite": (entry(offset={"rpy": [0, 0, "nan"]}), "'rpy of offset' must be a number"),
    "true": (entry(joint="distance", distance=True), "'distance' must be a number"),
    "too large": (entry(offset={"xyz": [0, 2e6, 0]}), "got 2000000.0"),
    "two positions": (entry(offset={"xyz": [0, 0, 0], "position": [0, 0, 0]}), "must have 'position' or 'xyz'"),
    "another key": (entry(offset={"quat": [0, 0, 0, 1]}), "must have 'position' or 'xyz'"),
    "not unit": (entry(offset={"orientation_xyzw": [0, 0, 0, 2]}), "quaternion of offset has length 2"),
    "a pitch too many": (entry(pitch=1.0), "has no pitch"),
    "no distance": (entry(joint="distance"), "needs distance"),
    "limits of a ball": (entry(limits=[0, 1]), "joint 'spherical' takes no limits"),
    "one limit": (entry(joint="revolute", limits=[0]), "'limits' must be pairs of a lower and an upper limit"),
    "a number for limits": (entry(joint="revolute", limits=1), "'limits' must be pairs"),
    "a text in limits": (entry(joint="revolute", limits=[0, "far"]), "'limits' must be a number"),
    "limits turned round": (entry(joint="revolute", limits=[1, 0]), "allowed: 1 pair of a lower and an upper limit"),
    "four limits": (entry(joint="planar", limits=[[0, 1]] * 4), "'limits' must be pairs"),
}


CAM = {"name": "cam", "joint": "swing", "reference_joint": "drive", "coefficients": [1, 0, "3e-1"]}
OTHER = {"loops": {"joint": "weld"}, "coordinate_constraints": {"coefficients": [0, 2]}}  # so that no two say the same
BAD_CAMS = {  # of constraints of coordinates
    "no coefficients": (CAM | {"coefficients": None}, "field 'coefficients' is missing"),
    "a number": (CAM | {"coefficients": 2.0}, "'coefficients' must be a list of up to 16 numbers"),
    "too few": (CAM | {"coefficients": [1]}, "allowed: 2 to 16 finite numbers"),
    "not finite": (CAM | {"coefficients": [0, "inf"]}, "'coefficients' must be a number"),
    "a field of loops": (CAM | {"link": "rocker"}, "no field 'link'. Fields: name, joint, reference_joint"),
    "unknown joint": (CAM | {"joint": "lever"}, "about joint 'lever', which is not in the robot"),
    "one joint": (CAM | {"joint": "drive"}, "couples joint 'drive' to itself"),
}


@pytest.mark.parametrize(("bad", "reason"), [*BAD_ENTRIES.values(), *BAD_CAMS.values()], ids=[*BAD_ENTRIES, *BAD_CAMS])
def test_an_entry_that_is_no_constraint_is_left_out_and_named(bad, reason):
    if "reference_joint" in bad:
        key, good, names = "coordinate_constraints", CAM, ("'cam'",)
    else:
        key, good, names = "loops", entry(), ("'pin'", "loop 2")
    robot = load_urdf(
        FOUR_BAR, json.dumps({key: [good | {"name": "first"}, bad, good | {"name": "last", **OTHER[key]}]})
    )
    assert robot.constraint_names == ("first", "last")
    (warning,) = robot.warnings
    assert reason in warning
    assert any(name in warning for name in names)


def test_constraints_of_coordinates_are_read_beside_loops():
    robot = load_urdf(FOUR_BAR, json.dumps({"coordinate_constraints": [CAM], "loops": [entry()]}))
    assert robot.constraint_names == ("pin", "cam")
    assert robot.coordinate_constraints == (CoordinateConstraint("cam", "swing", "drive", (1.0, 0.0, 0.3)),)
    assert load_urdf(FOUR_BAR, json.dumps({"coordinate_constraints": [CAM]})).constraint_names == ("cam",)
    robot = load_urdf(FOUR_BAR, json.dumps({"loops": [entry()], "coordinate_constraints": [CAM | {"name": "pin"}]}))
    assert robot.warnings == ("Constraint 'pin' is left out: Two constraints have the name 'pin'.",)


def test_of_two_loops_of_one_name_or_that_say_the_same_the_first_is_kept():
    robot = read(entry(), entry(joint="weld"))
    assert [loop.joint for loop in robot.loops] == ["spherical"]
    assert robot.warnings == ("Loop 'pin' is left out: Two loops have the name 'pin'.",)
    turned = {"link": "rocker", "reference_link": "coupler"}
    robot = read(entry(), entry(name="again"), entry(name="turned", **turned), entry(name="other", joint="weld"))
    assert robot.constraint_names == ("pin", "other")
    left_out = [f"Loop '{name}' is left out" for name in ("again", "turned")]
    assert [warning.partition(":")[0] for warning in robot.warnings] == left_out
    assert "Loops 'pin' and 'again' join the same frames" in robot.warnings[0]


BAD_DOCUMENTS = {
    "a list": ("[]", "must be a mapping with the key 'loops'"),
    "empty": ("", "must be a mapping with the key 'loops'"),
    "another key": ('{"loops": [], "links": []}', "must be a mapping with the key 'loops'"),
    "no list": ("loops: 3", "must be a mapping with the key 'loops'"),
    "no YAML": ("loops: [", "neither JSON nor YAML: while parsing"),
    "a date that is none": ("loops: 2026-99-99", "neither JSON nor YAML: month must be"),
    "a number that is none": ("loops: !!int ''", "neither JSON nor YAML: string index out of range"),
    "a truth value that is none": ("loops: !!bool x", "neither JSON nor YAML: 'x'"),
    "a time that is none": ("loops: !!timestamp x", "neither JSON nor YAML: 'NoneType'"),
    "code": ("loops: !!python/object/apply:os.getcwd []", "neither JSON nor YAML: could not determine"),
    "nested": ("[" * 100_000, "nested too deep"),
    "not UTF-8": (b"\xff", "not UTF-8 text (byte 0)"),
    "too large": (b" " * 2_000_001, "more than 2000000 bytes"),
}


@pytest.mark.parametrize("case", BAD_DOCUMENTS)
def test_a_document_that_is_none_leaves_the_robot_without_constraints(case):
    text, reason = BAD_DOCUMENTS[case]
    robot = load_urdf(FOUR_BAR, text)
    assert robot.loops == ()
    (warning,) = robot.warnings
    assert warning.startswith("constraints: It")
    assert reason in warning
    assert warning.endswith("Its constraints are left out.")


def test_long_documents_are_read_in_part_and_shown_short():
    robot = read(*(entry(name=f"pin{k}", offset={"xyz": [k, 0, 0]}) for k in range(MAX_CONSTRAINTS + 3)))
    assert len(robot.loops) == MAX_CONSTRAINTS
    assert "after the first 256" in robot.warnings[0]
    layers = "\n".join(f"  - &l{k} [{', '.join([f'*l{k - 1}'] * 9)}]" for k in range(1, 12))
    (first, *_) = load_urdf(FOUR_BAR, f"loops:\n  - &l0 [1, 2]\n{layers}\n").warnings
    assert len(first) < 200


def test_a_file_that_cannot_be_opened_is_named(tmp_path, monkeypatch):
    (tmp_path / "bar.urdf").write_text(FOUR_BAR)
    (tmp_path / "bar.constraints.yaml").write_text(YAML)
    opened = pathlib.Path.open

    def refuse(path, mode):
        if path.suffix == ".yaml":
            raise PermissionError(13, "Permission denied")
        return opened(path, mode)

    monkeypatch.setattr(pathlib.Path, "open", refuse)
    robot = load_robot(tmp_path / "bar.urdf")
    assert robot.warnings == ("bar.constraints.yaml: the file cannot be read: Permission denied.",)


def test_without_pyyaml_json_is_read(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert load_urdf(FOUR_BAR, JSON).loops == (PIN,)
    (warning,) = load_urdf(FOUR_BAR, YAML).warnings
    assert "Install the extra 'yaml'" in warning


def test_warnings_go_with_what_is_made_of_the_robot():
    robot = read(entry(), entry())
    assert len(robot.warnings) == 1
    variants = [
        robot.lock({"drive": 0.0}),
        robot.activate(["drive"]),
        robot.with_frame("tip", "coupler", [0.5, 0, 0, 0, 0, 0, 1]),
        robot.subrobot("crank"),
        robot.with_loops([]),
        pickle.loads(pickle.dumps(robot)),
    ]
    assert {variant.warnings for variant in variants} == {robot.warnings}
    assert robot.content_hash == read(entry()).content_hash
    floating = read(entry(reference_link=None), floating_base=True)
    assert floating.loops[0].reference_link is None  # the world stays the world


def test_built_in_robots_may_have_constraints(tmp_path, monkeypatch):
    (tmp_path / "bar.urdf").write_text(FOUR_BAR)
    (tmp_path / "bar.constraints.yaml").write_text(YAML)
    monkeypatch.setattr(catalog, "_BUILTIN", tmp_path)
    builtin_robot_names.cache_clear()
    try:
        assert load_robot("bar").loops == (PIN,)
    finally:
        builtin_robot_names.cache_clear()


def test_only_the_words_there_are_say_what_becomes_of_constraints():
    assert read(entry(), entry(), constraints="ignore").warnings == ()
    for load in (lambda: read(entry(), constraints="skip"), lambda: load_robot("panda", constraints="skip")):
        with pytest.raises(InputError, match=r"constraints is 'skip'\. Allowed: 'read', 'ignore'"):
            load()
