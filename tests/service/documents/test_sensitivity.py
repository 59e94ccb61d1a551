"""Derivatives over HTTP: in all encodings what Python gives, bounded, refused where there are none."""

import io

import numpy as np
import pytest
from starlette.datastructures import Headers

from ik_service import IKSolver, load_robot
from ik_service.client import Client, SolveTarget
from ik_service.service.codecs.json_codec import JsonCodec
from ik_service.service.codecs.media_types import answer_codec
from ik_service.service.documents.answer_size import solve_bytes
from ik_service.service.documents.solve_request import read_solve
from ik_service.service.schema.limits import MAX_SENSITIVE_EFFORT

COUNT = 5
HANDS = ["left_panda_hand", "right_panda_hand"]
DERIVED = {"sensitivity": "target"}


@pytest.fixture(scope="module")
def poses():
    robot = load_robot("dual_panda")
    found = robot.forward_kinematics(robot.random_free_joint_q(np.random.default_rng(0), COUNT), HANDS)
    return found.positions, found.orientations_xyzw


@pytest.fixture(scope="module")
def expected(poses):
    result = IKSolver(load_robot("dual_panda"), HANDS).solve(*poses, options=DERIVED)
    assert result.is_differentiable.any()
    return result


def document(poses, **fields):
    columns = zip(HANDS, poses[0].swapaxes(0, 1).tolist(), poses[1].swapaxes(0, 1).tolist(), strict=True)
    targets = [{"link": link, "positions": p, "orientations_xyzw": o} for link, p, o in columns]
    return {"targets": targets, "options": DERIVED, **fields}


@pytest.mark.parametrize("encoding", ["json", "msgpack"])
def test_the_client_has_what_python_has(client, poses, expected, encoding):
    targets = [
        SolveTarget(link=link, positions=p, orientations_xyzw=o)
        for link, p, o in zip(HANDS, *(one.swapaxes(0, 1) for one in poses), strict=True)
    ]
    with Client("http://testserver", transport=client._transport, encoding=encoding) as one:
        found = one.solve("dual_panda", targets=targets, options=DERIVED)
    assert found.joint_q_by_targets.shape == (COUNT, 14, 2, 6)
    np.testing.assert_array_equal(found.joint_q_by_targets, expected.joint_q_by_targets)
    np.testing.assert_array_equal(found.is_differentiable, expected.is_differentiable)


def test_limits_of_a_request_hold_joints(client, poses):
    robot = load_robot("dual_panda")
    start = robot.random_free_joint_q(np.random.default_rng(0), COUNT)
    given = {"initial_joint_q": start.tolist(), "max_change": 0.2, "frozen": ["left_panda_joint3"]}
    found = client.post("/v1/robots/dual_panda/solve", json=document(poses, **given)).json()
    python = IKSolver(robot, HANDS).solve(
        *poses, initial_joint_q=start, max_change=0.2, frozen=given["frozen"], options=DERIVED
    )
    assert python.is_differentiable.any()
    assert found["is_differentiable"] == python.is_differentiable.tolist()
    np.testing.assert_array_equal(found["joint_q_by_targets"], python.joint_q_by_targets)
    assert not python.joint_q_by_targets[:, robot.coordinate_names.index("left_panda_joint3")].any()


def test_an_archive_has_the_columns(client, poses, expected):
    arrays = io.BytesIO()
    np.savez(arrays, positions=poses[0], orientations_xyzw=poses[1])
    links = "&".join(f"link={link}" for link in HANDS)
    reply = client.post(
        f"/v1/robots/dual_panda/solve?{links}&sensitivity=target",
        content=arrays.getvalue(),
        headers={"Content-Type": "application/x-npz"},
    )
    assert reply.status_code == 200, reply.text
    columns = np.load(io.BytesIO(reply.content))
    assert columns["joint_q_by_targets"].tobytes() == expected.joint_q_by_targets.tobytes()


def test_nobody_has_them_who_does_not_ask(client, poses):
    answer = client.post("/v1/robots/dual_panda/solve", json=document(poses, options={})).json()
    assert not {"joint_q_by_targets", "is_differentiable"} & answer.keys()


@pytest.mark.parametrize("accept", ["application/json", "application/msgpack", "application/x-npz"])
def test_an_answer_has_no_more_bytes_than_were_reserved(client, poses, accept):
    reply = client.post("/v1/robots/dual_panda/solve", json=document(poses), headers={"Accept": accept})
    assert reply.status_code == 200, reply.text
    codec, robot = answer_codec(Headers({"accept": accept}), JsonCodec()), load_robot("dual_panda")
    assert len(reply.content) <= solve_bytes(robot, read_solve(document(poses), robot), codec)[0]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        (
            {"targets": [{"link": HANDS[0], "positions": [[0.4, 0, 0.5]] * (MAX_SENSITIVE_EFFORT // 14**2 + 1)}]},
            "out_of_range",
        ),
        ({"targets": [], "objectives": [{"type": "posture", "joint_q_reference": [[0] * 14]}]}, "invalid_value"),
        ({"options": {"sensitivity": "weights"}}, "unknown_option"),
    ],
)
def test_what_is_not_derived_is_refused(client, poses, fields, code):
    reply = client.post("/v1/robots/dual_panda/solve", json={**document(poses), **fields})
    assert reply.status_code == 422, reply.text
    (fault,) = reply.json()["errors"]
    assert fault["pointer"] == "/options/sensitivity"
    assert fault["code"] == code
