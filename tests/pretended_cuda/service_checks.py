"""The service: what leaves the process is what it is with a CPU."""

from contextlib import contextmanager

import numpy as np
import pytest
from fastapi.testclient import TestClient

from ik_service import IKSolver, load_robot
from ik_service.service import create_app
from ik_service.settings import ServiceSettings
from ik_service.solver import construction
from tests.pretended_cuda.conftest import draw

READY_S = 600.0  # the first solve compiles kernels
DEVICES = {"cpu": "cpu", "cuda": "cuda:0"}
SAME_PLACE = 2e-2  # as in the checks of the solver
ROBOT = "panda"


@contextmanager
def serving(device):
    """A client of the service on a device, and how it asks for a solve."""
    app = create_app(ServiceSettings(device=device, insecure=True, request_timeout_s=READY_S), compile_apart=False)
    with TestClient(app) as client:
        app.state.service.warm_up.result(READY_S)
        yield client, lambda body: client.post(f"/v1/robots/{ROBOT}/solve", json=body)


def test_requests_are_solved_on_the_device_with_the_answers_of_the_cpu():
    problems, found = draw(), {}
    target = {name: getattr(problems, name)[:3, 0].tolist() for name in ("positions", "orientations_xyzw")}
    for device in DEVICES:
        with serving(device) as (_, ask):
            for engine in ("auto", "staged"):
                options = {"seeds": 4, "engine": engine}
                reply = ask({"targets": [{"link": "panda_hand", **target}], "options": options})
                assert reply.status_code == 200, reply.text
                found[device, engine] = reply.json()
    for (device, engine), gpu in found.items():
        cpu = found["cpu", engine]
        assert gpu["resolved"]["device"] == DEVICES[device]
        assert gpu["success"] == cpu["success"] == [True] * 3
        assert gpu["seed_index"] == cpu["seed_index"]
        np.testing.assert_allclose(gpu["joint_q"], cpu["joint_q"], atol=SAME_PLACE)


@pytest.mark.evidence
def test_a_device_that_is_lost_is_told_and_nothing_is_answered_from_what_is_left(device, caplog):
    targets = [{"link": "panda_hand", "positions": [[0.4, 0.1, 0.5], [0.4, 0.0, 0.5]]}]
    body = {"targets": targets, "options": {"seeds": 4}}
    with serving("cuda") as (client, ask):
        assert [ask(body).status_code for _ in range(4)] == [200] * 4  # recorded
        assert client.get("/health/ready").status_code == 200
        with device.lost():
            replies = [ask(body) for _ in range(2)]
            health = [client.get(f"/health/{what}") for what in ("live", "ready")]
        for reply in (*replies, *health):
            assert (reply.status_code, reply.json()["code"]) == (503, "solver_lost")
        assert reply.json()["detail"].endswith(("Start the service again.", "Restart the service."))
    (line,) = [record.getMessage() for record in caplog.records if "Nothing is solved any more" in record.getMessage()]
    assert line.startswith("Device cuda:0 works no more: ")


@pytest.mark.evidence
def test_where_the_operator_lets_it_the_cpu_takes_over_at_the_next_start(device, caplog):
    with device.lost():
        robot = load_robot(ROBOT, collision="ignore")
        solver = IKSolver(robot, ["panda_hand"])
        with pytest.raises(RuntimeError):
            IKSolver(robot, ["panda_hand"], device="cuda:0").solve([[0.4, 0.1, 0.5]])
    assert str(solver.device) == "cpu"
    assert solver.solve([[0.4, 0.1, 0.5]]).success.all()
    assert "Device cuda:0 does not work: solving on the CPU" in caplog.text


def test_the_log_says_once_which_gpu_it_is(caplog):
    construction._tell_once.cache_clear()
    with caplog.at_level("INFO", "ik_service"):
        gpu, _ = (construction.resolve_device("cuda:0") for _ in range(2))
    (line,) = [record.getMessage() for record in caplog.records if "multiprocessors" in record.getMessage()]
    assert line.startswith(f"Device cuda:0 is {gpu.name}: compute capability {gpu.arch / 10:.1f}, {gpu.sm_count} multi")
    assert line.endswith(" GiB.")
