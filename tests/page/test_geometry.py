"""What is drawn of a robot stands where its links are."""

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.mechanism.names import leaf_links
from ik_service.mechanism.transforms import quaternion_rotate, transform_multiply
from ik_service.page.drawing import JointArcs
from ik_service.page.geometry import Role, ball_mesh, cylinder_mesh, loop_rods, placed_bodies, robot_parts, robot_size
from ik_service.robots import JointType, builtin_robot_names

DRAWN_M = 1e-6  # positions are sent as float32
NEAR_M = 1e-9  # both are sums of the same few products in float64
CUT_OFF = 0.07  # part of a ball that is outside of the mesh with 16 sides in it, 0.063, and less of a cylinder
ROBOTS = builtin_robot_names()


def configurations(robot, count=3):
    return robot.random_joint_q(np.random.default_rng(0), count)


@pytest.fixture(params=ROBOTS)
def shown(request):
    robot = load_robot(request.param)
    return robot, *robot_parts(robot)[:2]


def test_every_part_is_shown_and_known_by_the_link_that_it_moves_with(shown):
    robot, *parts = shown
    assert (parts[0].role == Role.JOINT).any()
    assert (parts[0].role == Role.ROD).any()
    for part in parts:
        assert np.isfinite(part.X_body).all()
        assert (part.scales > 0.0).all()
        assert part.scales.max() < 3.0 * robot_size(robot)
        is_joint = part.role == Role.JOINT
        assert (robot.link_body[part.link[~is_joint]] == part.body[~is_joint]).all()
        turned = robot.link_body[part.link[is_joint]]
        assert (robot.joint_qd_start[turned] <= part.index[is_joint]).all()
        assert (part.index[is_joint] < robot.joint_qd_start[turned + 1]).all()


def test_tips_are_drawn_where_links_are(shown):
    robot, _, balls = shown
    joint_q = configurations(robot)
    tips = np.flatnonzero(balls.role == Role.TIP)
    links = [robot.link_names[link] for link in balls.index[tips]]
    assert set(leaf_links(robot)) <= set(links)
    drawn = balls.poses(placed_bodies(robot, joint_q))[:, tips, :3]
    assert np.abs(drawn - robot.forward_kinematics(joint_q, links).positions).max() < NEAR_M


def test_every_rod_begins_and_ends_at_balls(shown):
    robot, joints, balls = shown
    bodies = placed_bodies(robot, configurations(robot))
    rods = np.flatnonzero(joints.role == Role.ROD)
    poses, centers = joints.poses(bodies)[:, rods], balls.poses(bodies)[..., :3]
    half = 0.5 * joints.scales[rods, 2:] * np.array([0.0, 0.0, 1.0])
    for sign in (-1.0, 1.0):
        ends = poses[..., :3] + quaternion_rotate(poses[..., 3:], np.broadcast_to(sign * half, poses[..., :3].shape))
        gaps = np.linalg.norm(ends[:, :, None] - centers[:, None], axis=-1).min(axis=-1)
        assert gaps.max() < NEAR_M


def test_discs_turn_about_the_axes_of_their_joints(shown):
    robot, joints, _ = shown
    joint_q = configurations(robot, 1)
    poses = joints.poses(placed_bodies(robot, joint_q))[0]
    discs = np.flatnonzero(joints.role == Role.JOINT)
    kinds = robot.joint_type[np.searchsorted(robot.joint_qd_start, joints.index[discs], side="right") - 1]
    assert JointType.FLOATING not in kinds
    drawn = np.repeat(robot.joint_type != JointType.FLOATING, np.diff(robot.joint_qd_start))
    assert set(joints.index[discs]) == set(np.flatnonzero(drawn))
    motion, slides = robot.motion_subspace(joint_q)[0], kinds == JointType.PRISMATIC
    for disc, is_sliding in zip(discs, slides, strict=True):
        axis = quaternion_rotate(poses[disc, 3:], np.array([0.0, 0.0, 1.0]))
        twist = motion[joints.index[disc]]
        assert np.linalg.norm(np.cross(axis, twist[:3] if is_sliding else twist[3:])) < NEAR_M
    assert not slides.all()


def test_closed_loops_are_drawn_closed():
    robot = load_robot("four_bar")
    joint_q = robot.constraints.close(robot.mid_joint_q).joint_q
    bodies, (loop,) = placed_bodies(robot, joint_q)[0], robot.loops
    ends = []
    for link, offset in ((loop.link, loop.offset), (loop.reference_link, loop.reference_offset)):
        body, frame = robot.link_frame(link)
        ends.append(transform_multiply(bodies[body], transform_multiply(frame, np.array(offset)))[:3])
    assert np.abs(ends[0] - ends[1]).max() < 1e-6
    centers = robot_parts(robot)[1].poses(bodies[None])[0, :, :3]
    assert np.linalg.norm(centers - ends[0], axis=1).min() < NEAR_M


def test_rods_of_loops_have_their_length():
    robot = load_robot("delta")
    joint_q = robot.constraints.close(robot.mid_joint_q).joint_q
    rods = loop_rods(robot, placed_bodies(robot, joint_q))
    lengths = [loop.distance for loop in robot.loops]
    assert len(rods) == len(lengths) == 3
    assert np.linalg.norm(rods[:, 0] - rods[:, 1], axis=1) == pytest.approx(lengths, abs=1e-6)
    assert loop_rods(load_robot("panda"), placed_bodies(load_robot("panda"), np.zeros(7))).shape == (0, 2, 3)


def test_a_sleeve_and_its_rod_reach_from_joint_to_joint():
    robot, parts = load_robot("stewart"), robot_parts(load_robot("stewart"))
    joint_q = robot.constraints.close(robot.mid_joint_q).joint_q
    poses = parts[0].poses(placed_bodies(robot, joint_q))[0]
    sliding = [dof for dof in range(robot.joint_dof_count) if robot.joint_limit_lower[dof] > 0.0]
    assert len(sliding) == 6
    for dof in sliding:
        sleeve, rod = np.flatnonzero((parts[0].role == Role.JOINT) & (parts[0].index == dof))
        gap = np.linalg.norm(poses[sleeve, :3] - poses[rod, :3])
        assert gap <= 0.5 * (parts[0].scales[sleeve, 2] + parts[0].scales[rod, 2])


@pytest.mark.parametrize("mesh", [cylinder_mesh(), ball_mesh()], ids=["cylinder", "ball"])
def test_meshes_are_closed_and_look_outwards(mesh):
    vertices, faces = mesh
    corners = vertices[faces.astype(int)]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    middles = corners.mean(axis=1)
    flat = np.linalg.norm(normals, axis=1) < 1e-12  # triangles at the poles of the ball
    assert (np.einsum("ij,ij->i", normals, middles)[~flat] > 0.0).all()
    volume = np.einsum("ij,ij->i", corners[:, 0], normals).sum() / 6.0
    round_volume = np.pi if vertices[:, 2].max() < 0.6 else 4.0 * np.pi / 3.0
    assert (1.0 - CUT_OFF) * round_volume < volume < round_volume


@pytest.mark.parametrize("name", ["panda", "four_bar", "stewart"])
def test_arcs_lead_from_limit_to_limit_of_each_joint_and_lines_to_its_angle(name, server):
    robot = load_robot(name)
    (joint_q,) = configurations(robot, 1)
    arcs = JointArcs(server.scene, robot, robot.mid_joint_q)
    arcs.move(joint_q)
    pieces, angles = (np.array(node.points, np.float64) for node in arcs._nodes)
    joints = np.flatnonzero(np.isin(robot.joint_type, (JointType.REVOLUTE, JointType.CONTINUOUS)))
    assert len(angles) == len(joints) > 2
    for k, joint in enumerate(joints):
        dof, coordinate = robot.joint_qd_start[joint], robot.joint_q_start[joint]
        own = pieces[arcs._place == k]
        center = angles[k, 0]
        assert np.abs(np.linalg.norm(own - center, axis=2) - np.linalg.norm(own[0, 0] - center)).max() < DRAWN_M
        ends = np.array([robot.joint_limit_lower[dof], robot.joint_limit_upper[dof]])
        is_circle = not np.ptp(ends) < 2.0 * np.pi
        assert (np.linalg.norm(own[0, 0] - own[-1, 1]) < DRAWN_M) == is_circle
        for limit, end in zip(ends, () if is_circle else (own[0, 0], own[-1, 1]), strict=not is_circle):
            there = joint_q.copy()
            there[coordinate] = limit  # the line comes to the end of the arc
            _, moved = arcs.lines(there)
            across = np.cross(moved[k, 1] - center, end - center)
            assert np.linalg.norm(across) < DRAWN_M
            assert (moved[k, 1] - center) @ (end - center) > 0.0
    arcs.remove()
    assert all(node._impl.removed for node in arcs._nodes)
