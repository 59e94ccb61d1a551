"""What the service tells about its robots agrees with the models."""

import numpy as np
import pinocchio as pin
import pytest

from ik_service import builtin_robot_names, load_robot


def test_the_list_names_every_builtin_robot(client):
    robots = client.get("/v1/robots").json()["robots"]
    assert [robot["name"] for robot in robots] == list(builtin_robot_names())
    panda = next(robot for robot in robots if robot["name"] == "panda")
    assert panda["joint_coord_count"] == panda["active_dof_count"] == 7
    assert panda["leaf_links"] == ["panda_hand"]


@pytest.mark.parametrize("name", builtin_robot_names())
def test_a_robot_is_described_as_the_model_has_it(client, name):
    reply = client.get(f"/v1/robots/{name}")
    assert reply.status_code == 200, reply.text
    body, robot = reply.json(), load_robot(name)
    assert tuple(body["coordinate_names"]) == robot.coordinate_names
    assert (tuple(body["dof_names"]), body["content_hash"]) == (robot.dof_names, robot.content_hash)
    assert [joint["name"] for joint in body["joints"]] == list(robot.joint_names)
    assert [link["name"] for link in body["links"]] == list(robot.link_names)
    assert [dof["name"] for joint in body["joints"] for dof in joint["dofs"]] == list(robot.dof_names)
    assert sum(dof["active"] for joint in body["joints"] for dof in joint["dofs"]) >= robot.active_dof_count > 0
    lower = [dof["lower"] for joint in body["joints"] for dof in joint["dofs"]]
    assert [-np.inf if value is None else value for value in lower] == pytest.approx(robot.joint_limit_lower)


def test_the_description_is_enough_to_compute_forward_kinematics(client):
    body, robot = client.get("/v1/robots/panda").json(), load_robot("panda")
    joint_q = robot.random_joint_q(np.random.default_rng(0), 1)[0]

    def placed(pose):
        return pin.XYZQUATToSE3(np.array([*pose["position"], *pose["orientation_xyzw"]]))

    frames = {None: pin.SE3.Identity()}
    for joint, q in zip(body["joints"], joint_q, strict=True):
        turn = pin.SE3(pin.exp3(q * np.array(joint["axis"])), np.zeros(3))
        frames[joint["name"]] = frames[joint["parent"]] * placed(joint["origin"]) * turn
    hand = next(link for link in body["links"] if link["name"] == "panda_hand")
    position = (frames[hand["joint"]] * placed(hand["pose"])).translation
    expected = robot.forward_kinematics(joint_q, links=["panda_hand"]).positions[0, 0]
    assert position == pytest.approx(expected, abs=1e-12)  # the same float64 arithmetic in another order
