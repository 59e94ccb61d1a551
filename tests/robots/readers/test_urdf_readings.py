"""URDF that is odd and still a robot: how each form is read, and what warnings tell of it."""

import dataclasses
import tracemalloc

import numpy as np
import pytest

from ik_service.errors import RobotFileError
from ik_service.robots import load_urdf
from ik_service.robots.readers.description import MAX_LENGTH, MAX_WARNINGS
from ik_service.robots.readers.xml_reader import MAX_KINDS, XmlElement
from tests.robots.readers.test_urdf_errors import ELBOW_MIMIC, ORIGIN, PARENT, ROBOT, SHOULDER_LIMIT
from tests.robots.urdf_text import joint

ROUNDING = 1e-15  # of quaternions from files with 17 digits
AXIS = '<axis xyz="0 1 0"/>'


def changed(old: str, new: str, text: str = ROBOT) -> str:
    assert text.count(old) >= 1, old
    return text.replace(old, new, 1)


def inertial(content: str) -> str:
    return changed('<link name="upper"/>', f'<link name="upper">{content}</link>')


FREE_ELBOW = changed(ELBOW_MIMIC, "")
SHOULDER, ELBOW, MASS = "joint 'shoulder'", "joint 'elbow'", '<inertial><mass value="1"/></inertial>'
BOTH_LIMITS, ENDS_OF_ELBOW, TYPE_OF_ELBOW = (
    'lower="-1" upper="1"',
    'lower="-2" upper="2"',
    'name="elbow" type="revolute"',
)
FIXED_ELBOW, FLAT_ELBOW = 'name="elbow" type="fixed"', 'name="elbow" type="planar"'
FREE = f"line 16, <mimic> of {ELBOW}: the joint moves by itself: "
NO_SUCH, BETWEEN = "must not be negative, got -1: there is no such limit.", "the range between the two counts."
LIMITS = {  # what stands in the limits of the shoulder instead, what it is read as, and what is said
    "lower above upper": (BOTH_LIMITS, 'lower="1" upper="-1"', BOTH_LIMITS, "lower limit 1 is above upper limit -1: "),
    "lower above no upper": (BOTH_LIMITS, 'lower="1"', 'lower="0" upper="1"', "lower limit 1 is above upper limit 0: "),
    "a negative speed": ('velocity="2"', 'velocity="-1"', "", "attribute 'velocity' "),
    "a negative effort": ('effort="3"', 'effort="-1"', "", "attribute 'effort' "),
}
MASSES = {  # what stands in <inertial>, and what is said of it
    "no mass": ('<origin xyz="1 0 0"/>', "", "<mass> is missing."),
    "a mass without a value": ("<mass/>", "<mass> of ", "attribute 'value' is missing or empty."),
    "no number": ('<mass value="heavy"/>', "<mass> of ", "attribute 'value' must be one finite number, got 'heavy'."),
    "a negative mass": ('<mass value="-1"/>', "<mass> of ", "a mass must be between 0 and 1e+06 kg, got -1."),
    "a mass beyond any": ('<mass value="1e7"/>', "<mass> of ", "a mass must be between 0 and 1e+06 kg, got 1e+07."),
    "a centre of mass at infinity": (
        '<mass value="1"/><origin xyz="0 inf 0"/>',
        "<origin> of ",
        "attribute 'xyz' must be 3 finite numbers, got '0 inf 0'.",
    ),
}


def twice(tag: str, line: int, of: str = SHOULDER, times: int = 2) -> str:
    return f"line {line}, <{tag}> of {of}: <{tag}> stands {times} times here: the first one counts."


def flat(text: str, old: str = "revolute", new: str = "planar", ends: str = BOTH_LIMITS) -> str:
    return changed(old, new, text).replace(ends, "")


READ_AS = {  # a text, another one that is read as the same robot, and the warning
    **{
        name: (
            changed(old, new),
            changed(old, same),
            f"line 10, <limit> of {SHOULDER}: {said}{BETWEEN if same else NO_SUCH}",
        )
        for name, (old, new, same, said) in LIMITS.items()
    },
    **{
        name: (
            inertial(f"<inertial>{content}</inertial>"),
            ROBOT,
            f"line 3, {place}<inertial> of link 'upper': {said} The link has no mass here.",
        )
        for name, (content, place, said) in MASSES.items()
    },
    "an origin twice": (changed(ORIGIN, ORIGIN + '<origin xyz="0 0 5"/>'), ROBOT, twice("origin", 8)),
    "an axis twice": (changed(AXIS, AXIS + '<axis xyz="1 0 0"/>'), ROBOT, twice("axis", 9)),
    "a limit three times": (
        changed(SHOULDER_LIMIT, SHOULDER_LIMIT + '<limit lower="-3" upper="3"/>' * 2),
        ROBOT,
        twice("limit", 10, times=3),
    ),
    "a parent twice": (changed(PARENT, PARENT + '<parent link="lower"/>'), ROBOT, twice("parent", 6)),
    "an inertial twice": (
        inertial(MASS + MASS.replace("1", "5")),
        inertial(MASS),
        twice("inertial", 3, "link 'upper'"),
    ),
    "no limit": (
        changed(SHOULDER_LIMIT, ""),
        changed(SHOULDER_LIMIT, "<limit/>"),
        f"line 5, {SHOULDER}: a revolute joint needs <limit>, which is missing: it has no limits.",
    ),
    "a leader that does not exist": (
        changed('joint="shoulder"', 'joint="knee"'),
        FREE_ELBOW,
        f"{FREE}'knee', which it follows, does not exist.",
    ),
    "a fixed leader": (
        changed("revolute", "fixed"),
        changed("revolute", "fixed", FREE_ELBOW),
        f"{FREE}'shoulder', which it follows, is fixed.",
    ),
    "a fixed follower": (
        changed(TYPE_OF_ELBOW, FIXED_ELBOW),
        changed(TYPE_OF_ELBOW, FIXED_ELBOW, FREE_ELBOW),
        f"line 16, <mimic> of {ELBOW}: a fixed joint does not move, so it follows no other.",
    ),
    "a planar leader": (flat(ROBOT), flat(FREE_ELBOW), f"{FREE}'shoulder', which it follows, is planar."),
    "a follower of several coordinates": (
        flat(ROBOT, TYPE_OF_ELBOW, FLAT_ELBOW, ENDS_OF_ELBOW),
        flat(FREE_ELBOW, TYPE_OF_ELBOW, FLAT_ELBOW, ENDS_OF_ELBOW),
        f"{FREE}a planar joint has several coordinates and cannot follow 'shoulder'.",
    ),
    "a call of a macro that is left": (
        changed('<link name="base"/>', '<link name="base"/><xacro:usb_sensors node="imu"/>'),
        ROBOT,
        "line 2, <xacro:usb_sensors>: the element is not read.",
    ),
}


@pytest.mark.parametrize("case", READ_AS)
def test_what_has_one_usual_reading_is_read_so_with_a_warning(case: str) -> None:
    text, same, warning = READ_AS[case]
    robot, expected = load_urdf(text), load_urdf(same)
    assert (robot.warnings, robot.content_hash) == ((warning,), expected.content_hash)
    assert load_urdf(text, constraints="ignore").warnings == robot.warnings


@pytest.mark.parametrize("blank", ["\n", "\n \r\n\t", "\ufeff\n", "\ufeff"])
def test_blank_lines_and_a_byte_order_mark_change_nothing_but_the_lines(blank: str) -> None:
    text = f'{blank}<?xml version="1.0" encoding="UTF-8"?>\n{ROBOT}'
    for given in (text, text.encode()):
        robot = load_urdf(given)
        assert (robot.warnings, robot.content_hash) == ((), load_urdf(ROBOT).content_hash)
    with pytest.raises(RobotFileError) as caught:
        load_urdf(text.replace('name="upper"', ""))
    assert caught.value.line == blank.count("\n") + 1 + 3


@pytest.mark.parametrize("word", ["inf", "Infinity", "+inf", "1e308"])
def test_limits_of_infinity_are_none(word: str) -> None:
    infinite = f'lower="-{word.lstrip("+")}" upper="{word}" velocity="{word}" effort="{word}"'
    robot = load_urdf(changed('lower="-1" upper="1" velocity="2" effort="3"', infinite))
    assert robot.warnings == ()
    assert (robot.joint_limit_lower[0], robot.joint_limit_upper[0]) == (-np.inf, np.inf)
    assert (robot.joint_velocity_limit[0], robot.joint_effort_limit[0]) == (np.inf, np.inf)


HALF = 0.5**0.5
BALL_SHAPE = '<collision><origin xyz="0 0 1" {}/><geometry><cylinder radius="0.1" length="0.4"/></geometry></collision>'


@pytest.mark.evidence_cases("0 3 0 3")
@pytest.mark.parametrize("quaternion", [f"0 {HALF} 0 {HALF}", "0 3 0 3", "0 -1e300 0 -1e300", "0 5e-324 0 5e-324"])
def test_a_quaternion_of_an_origin_is_its_rotation(quaternion: str) -> None:
    turned, written = f'quat_xyzw="{quaternion}"', f'rpy="0 {np.pi / 2.0!r} 0"'
    for place in ('rpy="0 0 0"', "shape"):
        robot, expected = (
            load_urdf(inertial(BALL_SHAPE.format(one)) if place == "shape" else changed(place, one), collision="shapes")
            for one in (turned, written)
        )
        assert robot.warnings == expected.warnings
        poses, same = (one.forward_kinematics(np.full((1, 2), 0.3)) for one in (robot, expected))
        signs = np.sign((poses.orientations_xyzw * same.orientations_xyzw).sum(axis=-1, keepdims=True))
        np.testing.assert_allclose(poses.orientations_xyzw, signs * same.orientations_xyzw, atol=ROUNDING)
        if place == "shape":
            spheres, others = robot.collision_model.spheres, expected.collision_model.spheres
            assert len(spheres["upper"]) > 1
            np.testing.assert_allclose(spheres["upper"], others["upper"], atol=ROUNDING)
        else:
            assert abs(poses.orientations_xyzw[0, 1, 1]) > 0.5


def test_a_very_small_rotation_of_a_link_is_kept() -> None:
    """The rotation 2e-9 has a quaternion whose w is 1 to the last bit."""
    robot = load_urdf(changed("</robot>", joint("t", "fixed", "lower", "tip", rpy="2e-9 0 0") + "</robot>"))
    poses = robot.forward_kinematics(np.zeros((1, 2)), ["lower", "tip"]).orientations_xyzw[0]
    assert robot.link_X_body[robot.link_index("tip"), 6] == 1.0
    assert (poses[1] - poses[0])[0] == pytest.approx(1e-9)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ('acceleration="4"', 4.0),
        ('acceleration="4" deceleration="3"', 3.0),
        ('drake:acceleration="5"', 5.0),
        ('acceleration="0"', np.inf),
        ('acceleration="inf"', np.inf),
        ("", np.inf),
    ],
)
def test_the_least_of_acceleration_and_deceleration_is_the_limit_of_the_joint(attributes: str, expected: float) -> None:
    robot = load_urdf(changed('velocity="2"', f'velocity="2" {attributes}', FREE_ELBOW))
    assert (robot.warnings, robot.joint_acceleration_limit.tolist()) == ((), [expected, np.inf])
    assert robot.subrobot("upper").joint_acceleration_limit.tolist() == [np.inf]
    assert robot.subrobot("base", ["upper"], ["upper"]).joint_acceleration_limit.tolist() == [expected]
    none = load_urdf(FREE_ELBOW)
    assert (robot.content_hash == none.content_hash) == (expected == np.inf)
    unlimited = dataclasses.replace(robot, joint_acceleration_limit=none.joint_acceleration_limit)
    assert unlimited.content_hash == none.content_hash


ATTRIBUTE = 'a{}="0"'
UNREAD = {
    "a jerk": (
        changed('velocity="2"', 'velocity="2" jerk="9"'),
        f"<limit> of {SHOULDER}: attribute 'jerk' is not read.",
    ),
    "a typing error": (changed('xyz="0 1 0"', 'xzy="0 1 0"'), f"<axis> of {SHOULDER}: attribute 'xzy' is not read."),
    "soft limits": (
        changed(SHOULDER_LIMIT, SHOULDER_LIMIT + '<safety_controller soft_upper_limit="0.5"/>'),
        "<safety_controller> of joint 'shoulder': the element is not read.",
    ),
    "a frame of a link": (inertial('<origin xyz="0 0 1"/>'), "<origin> of link 'upper': the element is not read."),
    "a loop of another format": (
        changed("</robot>", '<loop_joint name="pin"><link1 link="base" rpy="0 0 0"/></loop_joint></robot>'),
        "loop_joint 'pin': the element is not read.",
    ),
    "limits of a joint that turns on": (
        changed('type="revolute"', 'type="continuous"').replace(' upper="1"', ""),
        "<limit> of joint 'shoulder': attribute 'lower' is not read.",
    ),
}


@pytest.mark.parametrize("case", UNREAD)
def test_what_is_not_read_is_named_with_its_line(case: str) -> None:
    text, told = UNREAD[case]
    (warning,) = load_urdf(text).warnings
    line, _, rest = warning.partition(", ")
    assert rest == told
    assert text.splitlines()[int(line.removeprefix("line ")) - 1].count(told.partition(" ")[0].strip("<>:")) > 0


def test_what_changes_neither_kinematics_nor_limits_nor_shapes_is_passed_over() -> None:
    harmless = '<gazebo reference="x"><any thing="1"/></gazebo><transmission name="t"/><material name="m"/>'
    dynamics = '<dynamics damping="1"/><calibration rising="0"/>'
    link = '<visual><geometry/></visual><inertial><mass value="1"/><inertia ixx="1"/></inertial>'
    text = changed("</robot>", f"{harmless}</robot>", changed("<axis", f"{dynamics}<axis", inertial(link)))
    text = changed('<robot name="arm">', '<robot name="arm" version="1.0" xmlns:a="b">', text)
    fixed = '<link name="tip"/><joint name="t" type="fixed"><parent link="lower"/><child link="tip"/>'
    text = changed("</robot>", f'{fixed}<axis xyz="0 0 0"/><limit lower="1" twist="2"/></joint></robot>', text)
    assert load_urdf(text).warnings == ()


def test_what_stands_often_is_named_once_and_counted() -> None:
    robot = load_urdf(ROBOT.replace("<parent ", '<parent frame="map" '))
    assert robot.warnings == (
        "line 6, <parent> of joint 'shoulder': attribute 'frame' is not read, like 1 more of its kind.",
    )


@pytest.mark.parametrize("kind", ["attributes of one element", "attributes of many elements", "elements", "twins"])
def test_warnings_of_a_hostile_file_are_few_and_short(kind: str) -> None:
    name = "n" * 1000
    hostile = {
        "attributes of one element": f"<link name='x' {' '.join(ATTRIBUTE.format(k) for k in range(100_000))}/>",
        "attributes of many elements": "".join(f"<link name='{name}{k}' {name}{k}=''/>" for k in range(500)),
        "elements": "".join(f"<{name}{k}/>" for k in range(1500)),
        "twins": "".join(f"<link name='{name}{k}'><inertial/><inertial/></link>" for k in range(500)),
    }[kind]
    text = changed("</robot>", f"{hostile}</robot>")
    words = [part.split("'")[0] for part in hostile.split("<link name='")[1:]]
    fixed = '<joint name="j{}" type="fixed"><parent link="base"/><child link="{}"/></joint>'
    joints = "".join(fixed.format(k, word) for k, word in enumerate(words))
    tracemalloc.start()
    robot = load_urdf(changed("</robot>", f"{joints}</robot>", text))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 2 <= len(robot.warnings) <= MAX_WARNINGS + 1
    assert max(map(len, robot.warnings)) <= MAX_LENGTH + 3
    assert "n" * 100 not in "".join(robot.warnings)
    assert peak < 100 * len(text)
    if kind == "twins":
        assert robot.warnings[-1] == f"There are {2 * 500 - MAX_WARNINGS} more warnings of this file."
    else:
        assert len(robot.warnings) == MAX_KINDS + 1
        count = {"attributes of one element": 100_000, "attributes of many elements": 500, "elements": 1500}[kind]
        others = f"not read, like {count - MAX_KINDS - 1} more attributes and elements of other kinds."
        assert robot.warnings[-1].endswith(others)


def test_a_xacro_file_is_told_from_what_is_left_of_one() -> None:
    for word in ("include", "macro", "arg", "property", "if", "unless"):
        with pytest.raises(RobotFileError, match="this is a xacro file"):
            load_urdf(changed("</robot>", f'<xacro:{word} name="x"/></robot>'))
    with pytest.raises(RobotFileError, match="this is a xacro file"):
        load_urdf('<robot name="arm"><xacro:make_arm/></robot>')


def test_calls_of_macros_in_front_of_links_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, search, counts = [], XmlElement.all, []
    monkeypatch.setattr(XmlElement, "all", lambda element, tag: looked.append(tag) or search(element, tag))
    for calls in (1, 100):
        looked.clear()
        load_urdf(changed('<link name="base"/>', "<xacro:call/>" * calls + '<link name="base"/>'))
        counts.append(len(looked))
    assert counts[0] == counts[1] > 0
