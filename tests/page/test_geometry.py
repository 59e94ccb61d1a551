"""Drawn bodies stand at the links of a robot; `robot.show` draws configurations."""

import sys
import urllib.error
import urllib.request
from types import SimpleNamespace

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.collision.shapes import Box, Cylinder, Sphere
from ik_service.mechanism.names import leaf_links
from ik_service.mechanism.transforms import quaternion_rotate, transform_multiply
from ik_service.page.geometry import (
    JOINT_MATERIAL,
    MIXED,
    OWN,
    RESULT,
    Body,
    loop_rods,
    placed_bodies,
    robot_parts,
    robot_size,
    visible_bodies,
)
from ik_service.robots import JointType, builtin_robot_names, builtin_urdf
from objectives import InputError
from tests.page.guests import drawn_position, scene_server

DRAWN_M = 1e-6  # positions are sent as float32
NEAR_M = 1e-9  # both are sums of the same few products in float64
CUT_OFF = 0.05  # part of a ball outside of its mesh, 0.02, and of a box outside of its round edges
ROBOTS = builtin_robot_names()


def configurations(robot, count=3):
    return robot.random_joint_q(np.random.default_rng(0), count)


@pytest.fixture(params=ROBOTS)
def shown(request):
    robot = load_robot(request.param)
    tubes, _, balls = robot_parts(robot)
    return robot, tubes, balls


def test_every_part_is_shown_and_known_by_the_link_that_it_moves_with(shown):
    robot, *parts = shown
    assert (parts[0].share == RESULT).any()
    assert (parts[0].share == OWN).any()
    for part in parts:
        assert np.isfinite(part.X_body).all()
        assert (part.scales > 0.0).all()
        assert part.scales.max() < 3.0 * robot_size(robot)
        is_joint = part.share == RESULT
        assert (robot.link_body[part.link[~is_joint]] == part.body[~is_joint]).all()
        turned = robot.link_body[part.link[is_joint]]
        assert (robot.joint_qd_start[turned] <= part.index[is_joint]).all()
        assert (part.index[is_joint] < robot.joint_qd_start[turned + 1]).all()


def test_tips_are_drawn_where_links_are(shown):
    robot, _, balls = shown
    joint_q = configurations(robot)
    leaves = [robot.link_index(link) for link in leaf_links(robot)]
    tips = np.flatnonzero(np.isin(balls.link, leaves) & (balls.X_body == robot.link_X_body[balls.link]).all(axis=1))
    links = [robot.link_names[link] for link in balls.link[tips]]
    assert set(leaf_links(robot)) <= set(links)
    drawn = balls.poses(placed_bodies(robot, joint_q))[:, tips, :3]
    assert np.abs(drawn - robot.forward_kinematics(joint_q, links).positions).max() < NEAR_M


def test_every_rod_begins_and_ends_at_balls(shown):
    robot, joints, balls = shown
    bodies = placed_bodies(robot, configurations(robot))
    rods = np.flatnonzero(joints.share == OWN)
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
    discs = np.flatnonzero(joints.share == RESULT)
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
    centers = robot_parts(robot)[2].poses(bodies[None])[0, :, :3]
    assert np.linalg.norm(centers - ends[0], axis=1).min() < NEAR_M


def test_rods_of_loops_have_their_length():
    robot = load_robot("delta")
    joint_q = robot.constraints.close(robot.mid_joint_q).joint_q
    rods = loop_rods(robot, placed_bodies(robot, joint_q))
    lengths = [loop.distance for loop in robot.loops]
    assert len(rods) == len(lengths) == 3
    assert np.linalg.norm(rods[:, 0] - rods[:, 1], axis=1) == pytest.approx(lengths, abs=1e-6)
    assert loop_rods(load_robot("panda"), placed_bodies(load_robot("panda"), np.zeros(7))).shape == (0, 2, 3)


def volume_of(part):
    """Volume of the first part's mesh at its scales [m^3]; no triangle may look inwards."""
    vertices, faces = part.mesh.vertices * part.scales[0], part.mesh.faces.astype(int)
    corners = vertices[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    outwards = np.einsum("ij,ij->i", normals, corners.mean(axis=1) - vertices.mean(axis=0))
    assert (outwards > -1e-12).all()
    assert (outwards > 1e-9).sum() > 0.5 * len(outwards)
    return float(np.einsum("ij,ij->i", corners[:, 0], normals).sum() / 6.0)


def test_balls_and_boxes_are_closed_and_look_outwards():
    shapes = Sphere(0.1), Box((0.2, 0.3, 0.4))
    bodies = {"panda_link0": [Body(shape, JOINT_MATERIAL, (1, 2, 3)) for shape in shapes]}
    ball, box = robot_parts(load_robot("panda"), bodies)
    for part, volume in ((ball, 4e-3 * np.pi / 3.0), (box, 0.024)):
        assert (1.0 - CUT_OFF) * volume < volume_of(part) < volume
        assert part.color.tolist() == [[1, 2, 3]]


def test_a_cylinder_has_its_length_and_radius_with_round_edges():
    cylinder = Cylinder(0.1, 0.4)
    tube, caps = robot_parts(load_robot("panda"), {"panda_link0": [Body(cylinder, JOINT_MATERIAL)]})
    ends = [
        quaternion_rotate(caps.X_body[k, 3:], caps.mesh.vertices * caps.scales[k]) + caps.X_body[k, :3]
        for k in range(2)
    ]
    points = np.concatenate([*ends, tube.mesh.vertices * tube.scales[0]])
    np.testing.assert_allclose(points.min(axis=0), [-0.1, -0.1, -0.2], atol=1e-3)
    np.testing.assert_allclose(points.max(axis=0), [0.1, 0.1, 0.2], atol=1e-3)
    rims = [end[np.isclose(np.hypot(end[:, 0], end[:, 1]), 0.1)][:, 2] for end in ends]
    side = tube.mesh.vertices[:, 2] * tube.scales[0, 2]
    assert sorted({round(float(z), 9) for rim in rims for z in rim}) == sorted({round(float(z), 9) for z in side})


def test_bodies_are_drawn_instead_of_rods_where_a_file_has_them():
    for name in ROBOTS:
        robot, bodies = load_robot(name), visible_bodies(builtin_urdf(name))
        parts = robot_parts(robot, bodies)
        roles = {int(role) for part in parts for role in part.share}
        assert roles == {OWN, RESULT}  # in their own colors, and in that of the result
        drawn = {int(link) for part in parts for link in part.link}
        assert {robot.link_names[link] for link in drawn} == bodies.keys()
        for part in parts:
            np.testing.assert_array_equal(robot.link_body[part.link], part.body)


def test_links_without_bodies_keep_their_rods_beside_those_with_some():
    robot = load_robot("panda")
    parts = robot_parts(robot, {"panda_link4": [Body(Sphere(0.1), "steel", (9, 9, 9))]})
    for role in (OWN, MIXED, RESULT):
        links = {robot.link_names[k] for part in parts for k in part.link[part.share == role]}
        assert ("panda_link4" in links) == (role in (MIXED, RESULT))
        assert links


# ---------------------------------------------------------------------- `robot.show`
AT = 1e-5  # [m] poses are drawn in float32


@pytest.fixture(scope="module")
def client():
    with scene_server() as server:
        camera = SimpleNamespace(aspect=1.5)
        yield SimpleNamespace(scene=server.scene, gui=server.gui, camera=camera, atomic=server.atomic)


@pytest.fixture
def view_of():
    views = []

    def shown(robot, *arguments, **options):
        views.append(robot.show(*arguments, **options))
        return views[-1]

    yield shown
    for view in views:
        view.close()


@pytest.mark.parametrize("name", ["panda", "humanoid"])
def test_the_first_configuration_is_the_robot_and_the_others_are_ghosts(client, view_of, name):
    robot = load_robot(name)
    joint_q = robot.random_joint_q(np.random.default_rng(0), 3)
    link = robot.link_names[-1]
    stage = view_of(robot, joint_q)._draw(client)
    expected = robot.forward_kinematics(joint_q, [link]).positions[:, 0]
    np.testing.assert_allclose(drawn_position(stage.drawing, link), expected[0], atol=AT)
    parts = sum(len(part.body) for part, _ in stage.drawing._drawn)
    assert sum(len(node.batched_positions) for _, node in stage.shown["ghosts"]._drawn) == 2 * parts > 0
    assert (stage.gizmos, stage.shown.keys()) == ({}, {"ghosts"})


def test_spheres_are_drawn_where_they_are_asked_for(client, view_of):
    robot = load_robot("panda")
    stage = view_of(robot, spheres=True)._draw(client)
    ((_, node),) = stage.shown["spheres"]._drawn
    assert len(node.batched_positions) == robot.collision_model.sphere_count
    assert view_of(robot.with_collision_model(None), spheres=True)._draw(client).shown == {}


def test_a_notebook_shows_the_page_of_the_view_and_other_websites_do_not(view_of):
    view = view_of(load_robot("panda"))
    assert f'<iframe src="{view.url}"' in view._repr_html_()
    assert view.url in repr(view)
    assert urllib.request.urlopen(view.url).status == 200
    foreign = urllib.request.Request(view.url, headers={"Origin": "https://example.org"})
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(foreign)


def test_what_is_no_configuration_is_refused():
    with pytest.raises(InputError, match="joint_q"):
        load_robot("panda").show(np.zeros(6))


def test_without_viser_the_extra_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("ik_service.page")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(ModuleNotFoundError, match=r"The page needs viser. Install the extra 'page'"):
        load_robot("panda").show()
