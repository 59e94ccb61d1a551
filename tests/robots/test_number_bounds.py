"""Numbers of a robot that float32 cannot hold are refused, and what is accepted stays finite in generated code."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from ik_service.compiler import IslandSignature, build_program
from ik_service.errors import RobotFileError
from ik_service.robots import RobotModel, load_robot, load_urdf
from objectives import IKObjectivePose
from objectives.errors import InputError
from objectives.expression import reachable
from tests.robots.urdf_text import joint, urdf


def chain(*joints: tuple[str, str]) -> str:
    """Write a chain of joints j0, j1, ..., each a type and what stands inside it."""
    own = [joint(f"j{i}", kind, f"l{i}", f"l{i + 1}", inside=f"\n{inside}") for i, (kind, inside) in enumerate(joints)]
    return urdf("chain", "l0", *own)


def followers(multiplier: str, count: int, offset: str = "0") -> str:
    """Write a chain in which each joint follows the one before."""
    mimics = [f'<mimic joint="j{i}" multiplier="{multiplier}" offset="{offset}"/>' for i in range(count)]
    return chain(("continuous", ""), *(("continuous", mimic) for mimic in mimics))


OUT_OF_PROPORTION = {  # the joint, and what is said
    followers("1e6", 7): ("j2", "follows 'j0' through 'j1' with multiplier 1e+12"),
    followers("-2e3", 2): ("j2", "with multiplier 4e+06, which is out of proportion. Allowed: 0"),
    followers("1e-4", 9): ("j2", "with multiplier 1e-08"),
    followers("9e2", 2, "9e5"): ("j2", "with offset 8.109e+08, which is out of proportion"),
    followers("1e9", 1): ("j1", "follows 'j0' with multiplier 1e+09"),
    followers("1", 1, "-1e7"): ("j1", "Allowed: -1e+06 to 1e+06"),
}


@pytest.mark.parametrize(("text", "told"), OUT_OF_PROPORTION.items())
def test_products_along_a_chain_of_followers_are_bounded(text: str, told: tuple[str, str]) -> None:
    with pytest.raises(RobotFileError) as caught:
        load_urdf(text)
    assert told[1] in caught.value.reason
    assert caught.value.element == f"<mimic> of joint '{told[0]}'"
    assert caught.value.line is not None


def test_products_at_the_bound_are_taken() -> None:
    robot = load_urdf(followers("1e3", 2))
    assert robot.dof_multiplier.tolist() == [1.0, 1e3, 1e6]
    assert load_urdf(followers("0", 5, "2")).dof_offset.tolist() == [0.0, 2.0, 2.0, 2.0, 2.0, 2.0]


def test_links_frames_and_locks_may_not_be_out_of_range() -> None:
    far, number = ("fixed", '<origin xyz="1e6 0 0"/>'), [1e39, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    with pytest.raises(
        RobotFileError, match=r"Link 'l1001': its frame in its body holds 1\.001e\+09\. Allowed: -1e\+09"
    ):
        load_urdf(chain(*[far] * 1100))
    with pytest.raises(InputError, match=r"Link 'tool': its frame in its body holds 7\.07107e\+38"):
        load_robot("panda").with_frame("tool", "panda_hand", number)
    robot = load_urdf(chain(("continuous", "")), floating_base=True)
    for values in ({"j0": 1e39}, {"floating_base": number}):
        with pytest.raises(InputError, match=r"within \+-1e\+06"):
            robot.lock(values)


@pytest.mark.parametrize("field", ["link_mass", "link_com", "joint_X_p", "joint_limit_lower", "joint_limit_upper"])
@pytest.mark.parametrize("number", [1e39, -1e39, math.nan])
def test_no_model_is_made_of_numbers_out_of_range(field: str, number: float) -> None:
    panda = load_robot("panda")
    values = getattr(panda, field).copy()
    values[2] = number
    with pytest.raises(InputError, match=r"(panda_joint3|panda_link2)': its .* holds .*\. Allowed: -1e\+0[69] to"):
        dataclasses.replace(panda, **{field: values})


def constants(robot: RobotModel, link: str) -> list[float]:
    """Give the numbers that stand in the generated code of a pose target."""
    model, pose = robot.on_device("cpu"), IKObjectivePose(link, np.zeros(3), [0.0, 0.0, 0.0, 1.0])
    pose.bind_model(model)
    dofs = range(robot.active_dof_count)
    program = build_program(IslandSignature.of(robot, model, [pose], [0], dofs, range(6), [0]))
    outputs = [program.norm2, *program.gradient, *itertools.chain(*program.hessian)]
    factors = [number for _, multiplier, offset in program.halves.values() for number in (multiplier, offset)]
    return [node.value for node in reachable(outputs) if node.value is not None] + factors


@pytest.mark.parametrize("kind", ["continuous", "prismatic"])
def test_code_of_the_largest_numbers_that_are_taken_holds_no_infinity(kind: str) -> None:
    far = '<origin xyz="1e6 -1e6 1e6" rpy="1 2 3"/><axis xyz="1 2 3"/>'
    wide = far + '<limit lower="-9e5" upper="9e5"/>'
    mimics = ["", *(f'<mimic joint="j{i}" multiplier="1e3" offset="1e2"/>' for i in range(2))]
    joints = [(kind, wide + mimic) for mimic in mimics]
    numbers = constants(load_urdf(chain(*joints, *[("fixed", far)] * 50)), "l53")
    assert len(numbers) > 10
    assert np.isfinite(np.array(numbers, dtype=np.float32)).all()
    assert max(map(abs, numbers)) > 1e5


def test_axes_and_quaternions_of_huge_numbers_keep_their_direction() -> None:
    for text, axis in (("1.7e308 1.7e308 0", [1.0, 1.0, 0.0]), ("-1.7e308 1.7e308 1.7e308", [-1.0, 1.0, 1.0])):
        robot = load_urdf(chain(("continuous", f'<axis xyz="{text}"/>')))
        np.testing.assert_allclose(robot.joint_axis[0], np.array(axis) / np.linalg.norm(axis), atol=1e-15)
        orientation = robot.forward_kinematics([1.0], ["l1"]).orientations_xyzw
        assert np.linalg.norm(orientation) == pytest.approx(1.0, abs=1e-15)
    robot, half = load_urdf(chain(("ball", ""))), math.sqrt(0.5)
    poses = robot.forward_kinematics([[1e200, 0.0, 0.0, 1e200], [0.0, 1.7e308, 0.0, 0.0], [0.0, 0.0, 3.0, 4.0]])
    expected = [[half, 0.0, 0.0, half], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.6, 0.8]]
    np.testing.assert_allclose(poses.orientations_xyzw[:, 1], expected, atol=1e-15)
