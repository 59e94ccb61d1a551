"""The view that kernels read: the same arrays in float32, with limits rounded inwards."""

import numpy as np
import pytest
import warp as wp

from ik_service.robots import RobotModel, builtin_robot_names, load_robot, load_urdf
from ik_service.robots.float32_limits import inwards
from objectives.errors import InputError

INT_ARRAYS = ["joint_type", "joint_parent", "joint_child", "joint_ancestor", "joint_articulation", "joint_q_start"]
INT_ARRAYS += ["joint_qd_start", "joint_dof_dim", "dof_coordinate", "dof_leader", "dof_active", "active_dof"]
FLOAT_ARRAYS = ["joint_velocity_limit", "joint_effort_limit", "dof_multiplier", "dof_offset", "joint_X_p", "joint_axis"]
LIMITS = ["joint_limit_lower", "joint_limit_upper", "active_limit_lower", "active_limit_upper"]


@pytest.mark.parametrize("name", builtin_robot_names())
def test_the_view_holds_the_arrays_of_the_robot(name: str) -> None:
    robot = load_robot(name)
    view = robot.on_device("cpu")
    for field in INT_ARRAYS:
        assert getattr(view, field).dtype is wp.int32
        assert np.array_equal(getattr(view, field).numpy(), getattr(robot, field)), field
    for field in FLOAT_ARRAYS:
        assert np.array_equal(getattr(view, field).numpy(), getattr(robot, field).astype(np.float32)), field
    assert view.joint_X_p.dtype is wp.transformf
    assert view.joint_axis.dtype is wp.vec3f
    assert (view.joint_count, view.joint_dof_count) == (robot.joint_count, robot.joint_dof_count)
    assert (view.link_names, view.joint_names) == (robot.link_names, robot.joint_names)
    assert view.link_frame(robot.link_names[-1])[0] == robot.link_frame(robot.link_names[-1])[0]
    assert view.robot is robot
    assert view.device == wp.get_device("cpu")


@pytest.mark.parametrize("name", builtin_robot_names())
def test_limits_in_float32_lie_inside_and_next_to_the_exact_ones(name: str) -> None:
    robot = load_robot(name)
    view = robot.on_device("cpu")
    compared = 0
    for field in LIMITS:
        exact, rounded = getattr(robot, field), getattr(view, field).numpy()
        assert rounded.dtype == np.float32
        finite = np.isfinite(exact)
        assert np.array_equal(exact[~finite], rounded[~finite])
        gap = (rounded[finite].astype(np.float64) - exact[finite]) * (1 if field.endswith("lower") else -1)
        assert (gap >= 0).all()
        assert (gap <= np.spacing(np.abs(rounded[finite]))).all()
        compared += finite.sum()
    assert compared > 20


def test_the_nearest_float32_on_the_wrong_side_is_not_taken() -> None:
    low, high = inwards(np.array([-2.8973, 0.1, -1.7628]), np.array([2.8973, 0.3, 1.7628]))
    assert (low.astype(np.float64) >= [-2.8973, 0.1, -1.7628]).all()
    assert (high.astype(np.float64) <= [2.8973, 0.3, 1.7628]).all()
    nearest = np.float32([2.8973, 0.3, 1.7628]).astype(np.float64)
    assert (nearest > [2.8973, 0.3, 1.7628]).any(), "rounding to the nearest would have passed a limit"


def test_a_range_without_a_float32_in_it_becomes_the_nearest_one() -> None:
    low, high = inwards(np.array([0.1, -np.inf]), np.array([0.1, np.inf]))
    assert low[0] == high[0] == np.float32(0.1)
    assert (low[1], high[1]) == (-np.inf, np.inf)


def _linked(multiplier: float, offset: float, lower: float, upper: float) -> RobotModel:
    return load_urdf(
        '<robot><link name="a"/><link name="b"/><link name="c"/><joint name="lead" type="revolute"><parent link="a"/>'
        '<child link="b"/><limit lower="-3" upper="3"/></joint><joint name="follow" type="revolute"><parent link="b"/>'
        f'<child link="c"/><limit lower="{lower!r}" upper="{upper!r}"/>'
        f'<mimic joint="lead" multiplier="{multiplier!r}" offset="{offset!r}"/></joint></robot>'
    )


def test_followers_computed_in_float32_stay_inside_their_limits() -> None:
    rng = np.random.default_rng(0)
    binding = 0
    for _ in range(300):
        multiplier = float(rng.choice([-1, 1]) * rng.uniform(0.05, 8))
        offset = float(rng.uniform(-2, 2))
        lower, upper = np.sort(multiplier * rng.uniform(-2.9, 2.9, 2) + offset)
        robot = _linked(multiplier, offset, float(lower), float(upper))
        view = robot.on_device("cpu")
        ends = np.array([view.active_limit_lower.numpy()[0], view.active_limit_upper.numpy()[0]])
        factor, shift = np.float32(multiplier), np.float32(offset)
        separate = factor * ends + shift
        fused = (factor.astype(np.float64) * ends + shift).astype(np.float32)
        for follower in (separate, fused):
            assert follower.dtype == np.float32
            assert (follower.astype(np.float64) >= lower).all()
            assert (follower.astype(np.float64) <= upper).all()
        assert np.abs(np.sort(separate) - [lower, upper]).max() < 1e-5 * (1 + abs(multiplier))
        binding += 1
    assert binding == 300


def test_the_middle_stays_inside_the_limits_in_float32() -> None:
    robot = _linked(3.0, 0.1, 0.4, 0.4)
    view = robot.on_device("cpu")
    assert view.active_limit_lower.numpy()[0] <= view.mid_joint_q.numpy()[0] <= view.active_limit_upper.numpy()[0]
    assert view.mid_joint_q.numpy() == pytest.approx([0.1, 0.4])


def test_views_are_made_once_per_device() -> None:
    robot = load_robot("panda")
    assert robot.on_device("cpu") is robot.on_device("cpu")
    with pytest.raises(InputError, match=r"Device 'cuda:99' is not there.*Devices: .*cpu"):
        robot.on_device("cuda:99")
