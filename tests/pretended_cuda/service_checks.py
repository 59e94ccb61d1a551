"""The service, exports and the program for a first contact: what leaves the process is what it is with a CPU."""

import numpy as np
import pytest
import warp as wp
from fastapi.testclient import TestClient

from benchmarks import first_contact
from benchmarks.gpu.contact import Contact
from benchmarks.report import Report
from ik_service import IKSolver, load_robot
from ik_service.service import create_app
from ik_service.settings import ServiceSettings
from ik_service.solver import construction
from tests.solver.conftest import Reachable

READY_S = 600.0  # the first solve compiles kernels
DEVICES = {"cpu": "cpu", "cuda": "cuda:0"}
SAME_PLACE = 2e-2  # as in the checks of the solver
ROBOT = "panda"


@pytest.fixture(scope="module")
def answers():
    """What the service answers to the same requests, by its device."""
    problems = Reachable.draw(load_robot(ROBOT), ["panda_hand"], 3, random_seed=5)
    target = {
        "link": "panda_hand",
        "positions": problems.positions[:, 0].tolist(),
        "orientations_xyzw": problems.orientations_xyzw[:, 0].tolist(),
    }
    given = {"targets": [target]}
    found = {}
    for device in DEVICES:
        app = create_app(ServiceSettings(device=device, insecure=True, request_timeout_s=READY_S), compile_apart=False)
        with TestClient(app) as client:
            app.state.service.warm_up.result(READY_S)
            for engine in ("auto", "staged"):
                reply = client.post(
                    f"/v1/robots/{ROBOT}/solve", json={**given, "options": {"seeds": 4, "engine": engine}}
                )
                assert reply.status_code == 200, reply.text
                found[device, engine] = reply.json()
    return found


@pytest.mark.parametrize("engine", ["auto", "staged"])
def test_a_request_is_solved_on_the_device_with_the_answers_of_the_cpu(answers, engine):
    cpu, gpu = (answers[device, engine] for device in DEVICES)
    assert gpu["resolved"]["device"] == DEVICES["cuda"]
    assert cpu["resolved"]["device"] == "cpu"
    assert gpu["success"] == cpu["success"] == [True] * 3
    assert gpu["seed_index"] == cpu["seed_index"]
    np.testing.assert_allclose(gpu["joint_q"], cpu["joint_q"], atol=SAME_PLACE)


@pytest.mark.evidence
def test_a_device_that_is_lost_is_told_and_nothing_is_answered_from_what_is_left(device, caplog):
    target = {"link": "panda_hand", "positions": [[0.4, 0.1, 0.5], [0.4, 0.0, 0.5]]}
    app = create_app(ServiceSettings(device="cuda", insecure=True, request_timeout_s=READY_S), compile_apart=False)
    with TestClient(app) as client:
        app.state.service.warm_up.result(READY_S)
        request = {"targets": [target], "options": {"seeds": 4}}
        solved = [client.post(f"/v1/robots/{ROBOT}/solve", json=request) for _ in range(4)]  # recorded
        assert [reply.status_code for reply in solved] == [200] * 4
        assert client.get("/health/ready").status_code == 200
        with device.lost():
            replies = [client.post(f"/v1/robots/{ROBOT}/solve", json=request) for _ in range(2)]
            health = [client.get(f"/health/{what}") for what in ("live", "ready")]
        for reply in (*replies, *health):
            assert (reply.status_code, reply.json()["code"]) == (503, "solver_lost")
        assert reply.json()["detail"].endswith(("Start the service again.", "Restart the service."))
    (line,) = [record.getMessage() for record in caplog.records if "Nothing is solved any more" in record.getMessage()]
    assert line.startswith("Device cuda:0 works no more: ")


@pytest.mark.evidence
def test_where_the_operator_lets_it_the_cpu_takes_over_at_the_next_start(device, caplog):
    with device.lost():
        solver = IKSolver(load_robot(ROBOT, collision="ignore"), ["panda_hand"])
        with pytest.raises(RuntimeError):
            IKSolver(load_robot(ROBOT, collision="ignore"), ["panda_hand"], device="cuda:0").solve([[0.4, 0.1, 0.5]])
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


@pytest.mark.evidence
def test_the_first_contact_finds_nothing_wrong_and_tells_what_is(monkeypatch):
    report = Report("First contact")
    contact = Contact(report, wp.get_device(DEVICES["cuda"]), 12, 0.0, (ROBOT,))
    monkeypatch.setattr(first_contact, "TICKS", 12)
    monkeypatch.setattr(first_contact, "FIRST_SOLVE_S", np.inf)  # it compiles here
    monkeypatch.setattr(first_contact, "ALONE", 2)
    monkeypatch.setattr(first_contact, "SIZES", (1, 12))
    monkeypatch.setattr(first_contact, "LAUNCHES", ((8, 768), (8, 384)))
    first_contact.take_steps(contact, ["machine", "answers", "laws", "ticks", "launches"])
    assert report.missed == []
    assert [line.split()[-2] for line in report.lines if line.startswith("| 8 |")] == ["same", "same"]
    monkeypatch.setattr(first_contact, "TOLERANCES", (1e-9, 1e-9))  # nothing is that near
    monkeypatch.setattr(first_contact, "SAME_COMMANDS", -1.0)
    monkeypatch.setitem(first_contact.STEPS, "machine", lambda _: 1 / 0)
    first_contact.take_steps(contact, ["machine", "answers", "ticks"])
    assert report.missed == ["step machine", "false successes", "commands beside the CPU's"]
