"""Derivatives over HTTP: in all encodings what Python gives, and only for those who ask."""

import numpy as np
import pytest

from ik_service import IKSolver, load_robot
from ik_service.client import SolveTarget
from tests.service.conftest import in_process
from tests.service.messages import NPZ, answered, archive

COUNT, URL = 5, "/v1/robots/dual_panda/solve"
HANDS = ["left_panda_hand", "right_panda_hand"]
DERIVED = {"sensitivity": "target"}


@pytest.fixture(scope="module")
def robot():
    return load_robot("dual_panda")


@pytest.fixture(scope="module")
def poses(robot):
    found = robot.forward_kinematics(robot.random_free_joint_q(np.random.default_rng(0), COUNT), HANDS)
    return found.positions, found.orientations_xyzw


@pytest.fixture(scope="module")
def expected(robot, poses):
    result = IKSolver(robot, HANDS).solve(*poses, options=DERIVED)
    assert result.is_differentiable.any()
    return result


def targets(poses):
    columns = zip(HANDS, poses[0].swapaxes(0, 1), poses[1].swapaxes(0, 1), strict=True)
    return [{"link": link, "positions": p.tolist(), "orientations_xyzw": o.tolist()} for link, p, o in columns]


@pytest.mark.parametrize("encoding", ["json", "msgpack"])
def test_the_client_has_what_python_has(client, poses, expected, encoding):
    asked = [SolveTarget(**target) for target in targets(poses)]
    with in_process(client, encoding) as one:
        found = one.solve("dual_panda", targets=asked, options=DERIVED)
    assert found.joint_q_by_targets.shape == (COUNT, 14, 2, 6)
    np.testing.assert_array_equal(found.joint_q_by_targets, expected.joint_q_by_targets)
    np.testing.assert_array_equal(found.is_differentiable, expected.is_differentiable)


def test_an_archive_has_the_columns(client, poses, expected):
    query = "?" + "&".join(f"link={link}" for link in HANDS) + "&sensitivity=target"
    columns = answered(client, URL + query, archive(positions=poses[0], orientations_xyzw=poses[1]), NPZ)
    assert columns["joint_q_by_targets"].tobytes() == expected.joint_q_by_targets.tobytes()


def test_nobody_has_them_who_does_not_ask(client, poses):
    assert not {"joint_q_by_targets", "is_differentiable"} & answered(client, URL, {"targets": targets(poses)}).keys()
