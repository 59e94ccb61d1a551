"""Which engine solves a request, and whether its islands are solved apart: by its options."""

import json

import numpy as np
import pytest
from websockets.sync.client import connect

import ik_service
from ik_service import IKSolver
from ik_service.client import Client, ServiceError, SolveTarget

HANDS = ["left_panda_hand", "right_panda_hand"]


@pytest.fixture
def client(service_url):
    with Client(service_url) as made:
        yield made


def drawn(robot, links, count):
    joint_q = robot.random_free_joint_q(np.random.default_rng(5), count)
    poses = robot.forward_kinematics(joint_q, links)
    return [(poses.positions[:, k], poses.orientations_xyzw[:, k]) for k in range(len(links))]


def targets_of(links, poses):
    each = zip(links, poses, strict=True)
    return [SolveTarget(link=link, positions=p, orientations_xyzw=o) for link, (p, o) in each]


@pytest.mark.evidence
@pytest.mark.parametrize("candidates", [1, 3])
def test_the_engine_that_is_asked_for_answers_as_in_python(client, candidates):
    robot = ik_service.load_robot("panda")
    poses = drawn(robot, ["panda_hand"], 4)
    options = {"engine": "staged", "seeds": 4, "candidates": candidates}
    found = client.solve("panda", targets=targets_of(["panda_hand"], poses), options=options)
    made = ik_service.SolverOptions(candidates=candidates, seeds=4)
    solver = IKSolver(robot, ["panda_hand"], device="cpu", engine="staged", options=made)
    expected = solver.solve(*poses[0])
    assert found.engine == "staged"
    assert expected.success.any()
    assert found.joint_q.tobytes() == expected.joint_q.tobytes()


@pytest.mark.evidence_cases("False")
@pytest.mark.parametrize("islands", [True, False])
def test_islands_are_solved_apart_unless_the_request_says_no(client, islands):
    robot = ik_service.load_robot("dual_panda")
    poses = drawn(robot, HANDS, 3)
    found = client.solve(
        "dual_panda", targets=targets_of(HANDS, poses), options={"islands": islands}, include=["islands"]
    )
    assert [len(one) for one in found.islands] == [2 if islands else 1] * 3
    solver = IKSolver(robot, HANDS, device="cpu", islands=islands)
    expected = solver.solve([p for p, _ in poses], [o for _, o in poses])
    assert found.joint_q.tobytes() == expected.joint_q.tobytes()


@pytest.mark.evidence
def test_a_stream_has_the_engine_that_it_asks_for(service_url):
    configuration = {
        "type": "configure",
        "targets": [{"link": "panda_hand"}],
        "options": {"engine": "staged", "seeds": 1},
    }
    with connect(service_url.replace("http", "ws", 1) + "/v1/robots/panda/stream") as stream:
        stream.send(json.dumps(configuration))
        assert json.loads(stream.recv(60))["resolved"]["engine"] == "staged"


@pytest.mark.parametrize("options", [{"engine": "fast"}, {"islands": "no"}, {"candidates": 9}, {"candidates": 0}])
def test_what_is_none_is_refused(client, options):
    with pytest.raises(ServiceError) as refused:
        client.solve("panda", targets=[SolveTarget(link="panda_hand", positions=[[0.4, 0, 0.5]])], options=options)
    assert refused.value.status == 422
    assert next(iter(options)) in str(refused.value)
