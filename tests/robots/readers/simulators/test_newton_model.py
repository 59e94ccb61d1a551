"""Robots from models of Newton: links stand where Newton's own kinematics put the bodies."""

import numpy as np
import pytest
import warp as wp

import ik_service
from ik_service import IKSolver
from ik_service.errors import RobotFileError
from ik_service.robots import builtin_urdf
from objectives import InputError
from tests.lazy_module import LazyModule

newton = LazyModule("newton")

TOLERANCE = 2e-5  # [m, quaternion] of Newton's float32, over metres and many joints
COUNT = 20
SOLID = {"mass": 1.0, "inertia": wp.mat33(np.eye(3))}


def turned(x, y, z, *axis_angle):
    axis, angle = wp.vec3(*axis_angle[:3]), axis_angle[3]
    return wp.transform(wp.vec3(x, y, z), wp.quat_from_axis_angle(wp.normalize(axis), angle))


def axes_of(*axes, limit=1.0):
    made = newton.ModelBuilder.JointDofConfig
    return [made(axis=axis, limit_lower=-limit, limit_upper=limit) for axis in axes]


def mechanism():
    """A floating trunk with an arm whose joints are of every type, not at the frames of their bodies."""
    builder = newton.ModelBuilder()
    names = ("trunk", "ball", "gantry", "slide", "hinge", "tool")
    bodies = [builder.add_link(label=f"mixed/{name}", **SOLID) for name in names]
    frames = {"parent_xform": turned(0.1, 0.2, 0.3, 1, 2, 3, 0.4), "child_xform": turned(-0.1, 0.0, 0.2, 0, 1, 1, -0.3)}
    joints = [builder.add_joint_free(child=bodies[0], label="mixed/base", **frames)]
    joints.append(builder.add_joint_ball(parent=bodies[0], child=bodies[1], label="mixed/shoulder", **frames))
    d6 = {"linear_axes": axes_of((1, 0, 0), (0, 0, 1)), "angular_axes": axes_of((0, 1, 0), (0, 0, 1))}
    joints.append(builder.add_joint_d6(parent=bodies[1], child=bodies[2], label="mixed/cart", **d6, **frames))
    limits = {"limit_lower": -0.5, "limit_upper": 0.7}
    slide = {"axis": (0, 1, 0), "parent": bodies[2], "child": bodies[3], **limits}
    joints.append(builder.add_joint_prismatic(label="mixed/rail", **slide, **frames))
    hinge = {"axis": (0, 0, 1), "parent": bodies[3], "child": bodies[4]}
    joints.append(builder.add_joint_revolute(label="mixed/wrist", **hinge, **frames))
    joints.append(builder.add_joint_fixed(parent=bodies[4], child=bodies[5], label="mixed/flange", **frames))
    builder.add_articulation(joints)
    return builder


def gripper():
    builder = newton.ModelBuilder()
    builder.add_urdf(builtin_urdf("panda_gripper").decode())
    return builder


def coordinates_of(robot, model, joint_q):
    """The configuration in Newton's order."""
    found = np.zeros(model.joint_coord_count, np.float32)
    starts = model.joint_q_start.numpy()
    for joint, label in enumerate(model.joint_label):
        name = label.partition("/")[2]
        own = [k for k, other in enumerate(robot.joint_names) if other == name or other.rpartition("/")[0] == name]
        values = [joint_q[robot.joint_q_start[k] : robot.joint_q_start[k + 1]] for k in own]
        width = sum(map(len, values))
        found[starts[joint] : starts[joint] + width] = np.concatenate(values) if values else []
    return found


def assert_bodies_stand_where_newton_has_them(model, robot, names, joint_q, theirs_q):
    """Compare links with Newton's bodies, and return where Newton has them."""
    state = model.state()
    newton.eval_fk(model, wp.array(theirs_q, dtype=wp.float32, device="cpu"), model.joint_qd, state)
    theirs, ours = state.body_q.numpy(), robot.forward_kinematics(joint_q, names)
    np.testing.assert_allclose(ours.positions[0], theirs[:, :3], atol=TOLERANCE)
    cosines = np.abs(np.sum(ours.orientations_xyzw[0] * theirs[:, 3:], axis=1))
    np.testing.assert_allclose(cosines, 1.0, atol=TOLERANCE)
    return theirs


@pytest.mark.evidence
@pytest.mark.parametrize("build", [gripper, mechanism])
def test_links_stand_where_newton_puts_the_bodies(build):
    model = build().finalize(device="cpu")
    robot = ik_service.load_robot(model)
    assert robot.joint_coord_count == model.joint_coord_count
    names = [label.partition("/")[2] for label in model.body_label]
    assert set(names) <= set(robot.link_names)
    for joint_q in robot.random_joint_q(np.random.default_rng(1), COUNT):
        theirs_q = coordinates_of(robot, model, joint_q)
        assert_bodies_stand_where_newton_has_them(model, robot, names, joint_q, theirs_q)


def test_limits_followers_masses_and_names_are_those_of_the_model():
    robot, builtin = ik_service.load_robot(gripper().finalize(device="cpu")), ik_service.load_robot("panda_gripper")
    assert (robot.name, robot.joint_names) == ("panda_gripper", builtin.joint_names)
    np.testing.assert_allclose(robot.joint_limit_lower, builtin.joint_limit_lower, atol=1e-6)
    np.testing.assert_allclose(robot.joint_velocity_limit, builtin.joint_velocity_limit, atol=1e-6)
    assert robot.dof_leader.tolist() == builtin.dof_leader.tolist()
    mixed = ik_service.load_robot(mechanism().finalize(device="cpu"))
    assert mixed.link_mass[mixed.link_index("hinge")] == 1.0
    lower = dict(zip(mixed.dof_names, mixed.joint_limit_lower, strict=True))
    assert (lower["rail"], lower["cart/0"], lower["wrist"]) == (-0.5, -1.0, -np.inf)


def test_a_model_is_solved_as_the_urdf_is():
    answers = []
    for robot in (ik_service.load_robot(gripper().finalize(device="cpu")), ik_service.load_robot("panda_gripper")):
        solver = IKSolver(robot, ["panda_hand"], device="cpu")
        answers.append(solver.solve([[0.4, 0.1, 0.5]], [[1, 0, 0, 0]], options={"collision": "off"}))
    assert all(answer.success.all() for answer in answers)
    np.testing.assert_allclose(answers[0].joint_q, answers[1].joint_q, atol=1e-3)


def test_joints_that_close_loops_and_bodies_without_a_joint_are_left_out():
    builder = mechanism()
    builder.add_link(label="mixed/spare", **SOLID)
    builder.add_joint_revolute(parent=0, child=4, axis=(0, 0, 1), label="mixed/strut")
    robot = ik_service.load_robot(builder.finalize(device="cpu"))
    assert "strut" not in robot.joint_names
    assert "spare" not in robot.link_names
    told = ["Joint 'strut' closes a loop at body 'hinge'", "Body 'spare' has no joint"]
    assert [warning.partition(":")[0] for warning in robot.warnings] == told


def stand_and_arm():
    """An arm on a stand without a joint, which Newton places by its body_q."""
    builder = newton.ModelBuilder()
    stand = builder.add_link(xform=turned(0.1, -0.2, 0.15, 0, 1, 0, 0.3), label="r/stand", **SOLID)
    arm = builder.add_link(label="r/arm", **SOLID)
    frame = turned(0.0, 0.1, 0.4, 1, 0, 0, 0.2)
    joint = builder.add_joint_revolute(stand, arm, parent_xform=frame, axis=newton.Axis.Z, label="r/j")
    builder.add_articulation([joint])
    return builder


@pytest.mark.evidence
def test_a_body_without_a_joint_that_carries_one_stands_at_its_body_q():
    model = stand_and_arm().finalize(device="cpu")
    robot = ik_service.load_robot(model)
    theirs = assert_bodies_stand_where_newton_has_them(model, robot, ["stand", "arm"], [0.7], [0.7])
    assert np.abs(theirs[1, :3]).min() > 0.01
    assert robot.warnings == ("Body 'stand' has no joint: it stands where the body_q of the model has it.",)


def test_a_distance_joint_without_bounds_is_a_free_joint_and_what_cannot_be_represented_is_refused():
    for most in (-1.0, 1.0):
        builder = newton.ModelBuilder()
        body = builder.add_link(label="r/body", **SOLID)
        bounds = {"min_distance": -1.0, "max_distance": most}
        builder.add_articulation([builder.add_joint_distance(parent=-1, child=body, label="r/rope", **bounds)])
        model = builder.finalize(device="cpu")
        if most < 0.0:
            axes = ("vx", "vy", "vz", "wx", "wy", "wz")
            assert ik_service.load_robot(model).dof_names == tuple(f"rope/{axis}" for axis in axes)
        else:
            with pytest.raises(RobotFileError, match="joint 'rope': joints of Newton's type"):
                ik_service.load_robot(model)
    several = newton.ModelBuilder()
    several.replicate(gripper(), 2)
    with pytest.raises(InputError, match="has 2 worlds"):
        ik_service.load_robot(several.finalize(device="cpu"))
