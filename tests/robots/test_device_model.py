"""The view that kernels read: the same arrays in float32, with limits rounded inwards."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import warp as wp

from ik_service.mechanism.coupling import inwards
from ik_service.robots import RobotModel, builtin_robot_names, load_robot, load_urdf
from objectives import IKJointType
from objectives.errors import InputError
from tests.lazy_module import LazyModule
from tests.objectives.conftest import scene
from tests.robots.urdf_text import joint, urdf

newton, ik_common = LazyModule("newton"), LazyModule("newton._src.sim.ik.ik_common")
FLOAT32_POSES = 1e-5  # roundings of float32 along a chain of some ten joints, poses of a few metres

INT_ARRAYS = ["joint_parent", "joint_child", "joint_ancestor", "joint_articulation", "joint_q_start"]
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
    assert np.array_equal(view.joint_kind.numpy(), robot.joint_type)
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
        assert ((gap >= 0) & (gap <= np.spacing(np.abs(rounded[finite])))).all()
        compared += finite.sum()
    assert compared >= {"four_bar": 0, "five_bar": 16}.get(name, 21)


def test_limits_are_rounded_inwards_and_a_range_without_a_float32_in_it_becomes_the_nearest_one() -> None:
    lower, upper = np.array([-2.8973, 0.1, -1.7628]), np.array([2.8973, 0.3, 1.7628])
    low, high = inwards(lower, upper)
    assert (low.astype(np.float64) >= lower).all()
    assert (high.astype(np.float64) <= upper).all()
    assert (np.float32(upper).astype(np.float64) > upper).any(), "rounding to the nearest would have passed a limit"
    low, high = inwards(np.array([0.1, -np.inf]), np.array([0.1, np.inf]))
    assert low[0] == high[0] == np.float32(0.1)
    assert (low[1], high[1]) == (-np.inf, np.inf)


def _linked(multiplier: float, offset: float, lower: float, upper: float) -> RobotModel:
    lead = joint("lead", "revolute", "a", "b", limit=(-3, 3))
    return load_urdf(
        urdf(
            "linked",
            "a",
            lead,
            joint("follow", "revolute", "b", "c", limit=(lower, upper), mimic=("lead", multiplier, offset)),
        )
    )


def test_followers_computed_in_float32_stay_inside_their_limits() -> None:
    rng = np.random.default_rng(0)
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
            assert ((follower.astype(np.float64) >= lower) & (follower.astype(np.float64) <= upper)).all()
        assert np.abs(np.sort(separate) - [lower, upper]).max() < 1e-5 * (1 + abs(multiplier))


def test_the_middle_stays_inside_the_limits_in_float32() -> None:
    robot = _linked(3.0, 0.1, 0.4, 0.4 + 1e-7)
    view = robot.on_device("cpu")
    assert view.active_limit_lower.numpy()[0] <= view.mid_joint_q.numpy()[0] <= view.active_limit_upper.numpy()[0]
    assert view.mid_joint_q.numpy() == pytest.approx([0.1, 0.4])


def test_views_are_made_once_per_device_also_by_many_threads() -> None:
    robot = load_robot("panda")
    with ThreadPoolExecutor(8) as pool:
        views = list(pool.map(lambda _: robot.on_device("cpu"), range(64)))
    assert {id(view) for view in views} == {id(robot.on_device("cpu"))}
    assert robot.with_frame("tip", "panda_hand", (0, 0, 0.1, 0, 0, 0, 1)).on_device("cpu") is not robot.on_device("cpu")
    with pytest.raises(InputError, match=r"Device 'cuda:99' is not there.*Devices: .*cpu"):
        robot.on_device("cuda:99")


def test_joint_types_have_the_names_and_numbers_of_newton() -> None:
    assert len(IKJointType) == 5
    for kind in IKJointType:
        assert newton.JointType[kind.name].value == kind.value
    assert set(load_robot("panda").on_device("cpu").joint_type.numpy()) == {newton.JointType.REVOLUTE}
    kinds = {newton.JointType.REVOLUTE, newton.JointType.PRISMATIC}
    assert set(load_robot("panda_gripper").on_device("cpu").joint_type.numpy()) == kinds


@pytest.mark.evidence
@pytest.mark.parametrize("name", ["floating", "two_trees"])
def test_kinematics_of_newton_read_the_view(name: str) -> None:
    robot = scene(name).robot
    view, n = robot.on_device("cpu"), 5
    joint_q = robot.complete_joint_q(robot.random_joint_q(np.random.default_rng(3), n))
    q = wp.array(joint_q, dtype=wp.float32, device="cpu")
    qd = wp.zeros((n, view.joint_dof_count), dtype=wp.float32, device="cpu")
    body_q = wp.zeros((n, view.body_count), dtype=wp.transform, device="cpu")
    body_qd = wp.zeros((n, view.body_count), dtype=wp.spatial_vector, device="cpu")
    starts = view.articulation_start.numpy()
    order = wp.array(np.arange(view.joint_count), dtype=wp.int32, device="cpu")
    ends = wp.array(starts[1:], dtype=wp.int32, device="cpu")
    flags = wp.full(view.body_count, int(newton.BodyFlags.DYNAMIC), dtype=wp.int32, device="cpu")
    tree = [view.articulation_start, ends, order, view.joint_articulation, q, qd, view.joint_q_start]
    tree += [view.joint_qd_start, view.joint_type, view.joint_parent, view.joint_child]
    wp.launch(
        ik_common._eval_fk_articulation_batched,
        dim=[n, view.articulation_count],
        inputs=[*tree, view.joint_X_p, view.joint_X_c, view.joint_axis, view.joint_dof_dim, view.body_com, flags, None],
        outputs=[body_q, body_qd],
        device="cpu",
    )
    expected = robot.body_poses(joint_q)
    same_sign = np.sign((body_q.numpy()[..., 3:] * expected[..., 3:]).sum(axis=-1, keepdims=True))
    expected[..., 3:] *= same_sign
    np.testing.assert_allclose(body_q.numpy(), expected, atol=FLOAT32_POSES)
    assert set(view.joint_type.numpy()) >= ({0, 1, 2, 4, 6} if name == "floating" else {1, 2})


@pytest.mark.parametrize("name", ["humanoid", "dual_panda", "panda_gripper"])
def test_the_view_says_what_a_model_of_newton_says(name: str) -> None:
    robot = load_robot(name)
    view = robot.on_device("cpu")
    starts, articulation = view.articulation_start.numpy(), robot.joint_articulation
    assert view.articulation_count == articulation.max() + 1 == len(starts) - 1
    for number in range(view.articulation_count):
        assert (articulation[starts[number] : starts[number + 1]] == number).all()
    assert (starts[0], starts[-1]) == (0, robot.joint_count)
    masses = {one.body: one.com for one in robot.body_masses}
    centres = np.float32([masses.get(b, (0, 0, 0)) for b in range(robot.body_count)])
    assert np.array_equal(view.body_com.numpy(), centres)
    assert name != "humanoid" or view.body_com.numpy().any()
    assert np.array_equal(view.joint_q.numpy(), view.mid_joint_q.numpy())
    assert view.joint_q.ptr != view.mid_joint_q.ptr  # Newton's examples write what they solve into it
    np.testing.assert_allclose(view.body_q.numpy(), robot.body_poses(robot.mid_joint_q)[0], atol=FLOAT32_POSES)
