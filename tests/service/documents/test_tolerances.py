"""Tolerances and free axes over HTTP: the bytes of Python, joined without a change, refused by name."""

import msgpack
import numpy as np
import pytest

from ik_service import IKSolver, Target, load_robot
from ik_service.client import SolveTarget, StreamTarget
from ik_service.service.documents.solve_request import read_solve
from ik_service.service.documents.stream_messages import read_configuration
from ik_service.service.errors.exceptions import FaultyFieldsError
from ik_service.service.pool.solver_cache import SolverCache

COUNT, HAND = 4, "panda_hand"
SOLVE = "/v1/robots/panda/solve"
CONE = [0.0, 0.0, 0.0, 0.2, 0.2, 0.0]
EACH = np.linspace(0.02, 0.1, 6 * COUNT).reshape(COUNT, 6)
ASKED = [
    {"free": ["rz"]},
    {"free": ["rz"], "tolerance": CONE},
    {"tolerance": EACH, "frame": "target"},
    {"row_weights": [1.0, 1.0, 1.0, 1.0, 1.0, 0.0], "frame": "tool"},
]


@pytest.fixture(scope="module")
def panda():
    return load_robot("panda")


@pytest.fixture(scope="module")
def given(panda):
    poses = panda.forward_kinematics(panda.random_free_joint_q(np.random.default_rng(0), COUNT), [HAND])
    return poses.positions[:, 0], poses.orientations_xyzw[:, 0]


def document(given, **fields):
    positions, turns = (column.tolist() for column in given)
    fields = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in fields.items()}
    return {"targets": [{"link": HAND, "positions": positions, "orientations_xyzw": turns, **fields}]}


@pytest.mark.evidence_cases("asked2")
@pytest.mark.parametrize("asked", ASKED)
def test_answers_are_those_of_python_in_both_encodings(client, panda, given, asked):
    body = document(given, **asked)
    answer = client.post(SOLVE, json=body).json()
    expected = IKSolver(panda, [Target(HAND, **asked)], device="cpu").solve(*given)
    assert np.array(answer["joint_q"], np.float32).tobytes() == expected.joint_q.tobytes()
    assert expected.joint_q.tobytes() != IKSolver(panda, [HAND], device="cpu").solve(*given).joint_q.tobytes()
    kinds = {"Content-Type": "application/msgpack", "Accept": "application/json"}
    packed = client.post(SOLVE, content=msgpack.packb(body), headers=kinds)
    assert packed.json()["joint_q"] == answer["joint_q"]


@pytest.mark.parametrize("asked", ASKED)
def test_the_clients_write_it_so(given, asked):
    positions, turns = given
    written = SolveTarget(link=HAND, positions=positions, orientations_xyzw=turns, **asked).document()
    assert set(written) == {"link", "positions", "orientations_xyzw", *asked}
    assert all(np.array_equal(written[name], value) for name, value in asked.items())
    one = {name: value[0] if isinstance(value, np.ndarray) else value for name, value in asked.items()}
    assert set(StreamTarget(link=HAND, **one).document()) == {"link", "constrain", *asked}


def test_requests_with_other_tolerances_share_a_batch_without_a_change(panda, given):
    bodies = [document(given, free=["rz"]), document(given, tolerance=[0.05] * 6), document(given, tolerance=EACH)]
    requests = [read_solve(body, panda).request for body in bodies]
    assert len({request.structure for request in requests}) == 1
    assert len({request.batch_key for request in requests[1:]}) == 1
    cache = SolverCache(device="cpu", threads=1)
    joined = cache.solve_together(panda, requests[1:])
    alone = [cache.solve_together(panda, [request]) for request in requests]
    assert joined.joint_q.tobytes() == np.concatenate([one.joint_q for one in alone[1:]]).tobytes()
    expected = IKSolver(panda, [Target(HAND, free=["rz"])], device="cpu").solve(*given)
    assert alone[0].joint_q.tobytes() == expected.joint_q.tobytes()


FAULTS = [
    ({"free": ["roll"]}, "/targets/0/free/0"),
    ({"tolerance": [0.1] * 5}, "/targets/0/tolerance"),
    ({"tolerance": [[0.1] * 6] * 3}, "/targets/0/tolerance"),
    ({"tolerance": [-0.1, 0, 0, 0, 0, 0]}, "/targets/0/tolerance"),
    ({"tolerance": [1e-4, 0, 0, 0, 0, 0]}, "/targets/0/tolerance"),
    ({"tolerance": [0, 0, 0, 0.1, 0.2, 0], "free": ["rz"]}, "/targets/0/tolerance"),
    ({"frame": "hand"}, "/targets/0/frame"),
]


@pytest.mark.parametrize(("fields", "pointer"), FAULTS)
def test_faults_are_named(panda, given, fields, pointer):
    with pytest.raises(FaultyFieldsError) as caught:
        read_solve(document(given, **fields), panda)
    assert [fault.pointer for fault in caught.value.faults] == [pointer]


def test_axes_of_a_target_need_its_orientations(panda, given):
    body = document(given, frame="target")
    del body["targets"][0]["orientations_xyzw"]
    with pytest.raises(FaultyFieldsError) as caught:
        read_solve(body, panda)
    assert [fault.pointer for fault in caught.value.faults] == ["/targets/0/frame"]


def test_derivatives_are_refused(panda, given):
    body = {**document(given, free=["rz"]), "options": {"sensitivity": "target"}}
    with pytest.raises(FaultyFieldsError, match="have no derivatives"):
        read_solve(body, panda)


def test_a_stream_takes_them_once(panda):
    message = '{{"type": "configure", "targets": [{{"link": "panda_hand", "free": ["rz"], "tolerance": {}}}]}}'
    (target,) = read_configuration(message.format(CONE), panda).request.targets
    assert target.frame == "tool"
    assert target.weights().tolist() == [1, 1, 1, 1, 1, 0]
    with pytest.raises(FaultyFieldsError, match="one row of each"):
        read_configuration(message.format([CONE]), panda)
