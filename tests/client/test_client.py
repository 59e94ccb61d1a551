"""The client against a real service: equal results in both encodings, errors with their codes, what it may import."""

import asyncio
import inspect
import subprocess
import sys
import time
from types import SimpleNamespace

import httpx2
import numpy as np
import pytest

from ik_service import load_robot
from ik_service.client import AsyncClient, Client, ClientError, ServiceError, SolveResult, SolveTarget, UnreachableError
from ik_service.client.requests import solve_call
from ik_service.robots import builtin_urdf
from ik_service.service.gate.deadline import preferred_wait_s
from tests.bounded import PATIENCE_S

COUNT = 30
KEY = "a-key-that-is-long-enough-0123456789"
PROBLEM = {"Content-Type": "application/problem+json"}
HANDS = ["left_panda_hand", "right_panda_hand"]


@pytest.fixture(scope="module")
def poses():
    panda = load_robot("panda")
    reached = panda.forward_kinematics(panda.random_free_joint_q(np.random.default_rng(1), COUNT), links=["panda_hand"])
    return reached.positions[:, 0], reached.orientations_xyzw[:, 0]


@pytest.fixture(params=["msgpack", "json"])
def client(request, service_url):
    with Client(service_url, encoding=request.param) as client:
        yield client


def test_a_batch_is_solved(client, poses):
    result = client.solve("panda", *poses, link="panda_hand", options={"seeds": 32})
    assert len(result) == COUNT
    assert result.success.dtype == bool
    assert result.success.mean() > 0.9
    assert set(result.status[result.success]) == {"converged"}
    assert result.joint_q.shape == (COUNT, 7)
    assert result.coordinate_names == load_robot("panda").coordinate_names
    assert (result.seeds, result.collision) == (32, "self")
    assert result.seed_index.dtype.kind == "i"
    reached = load_robot("panda").forward_kinematics(result.joint_q, links=["panda_hand"]).positions[:, 0]
    assert np.linalg.norm(reached - poses[0], axis=1)[result.success].max() <= 1e-3
    assert result.timing_ms["solve"] > 0.0


def test_both_encodings_and_both_clients_bring_the_same(service_url, poses):
    with Client(service_url) as binary, Client(service_url, encoding="json") as text:
        first, second = (client.solve("panda", *poses, link="panda_hand") for client in (binary, text))

    async def third() -> SolveResult:
        async with AsyncClient(service_url) as client:
            many = [client.solve("panda", *poses, link="panda_hand") for _ in range(4)]
            return (await asyncio.gather(*many))[-1]

    for other in (second, asyncio.run(third())):
        assert np.array_equal(first.joint_q, other.joint_q.astype(np.float32))
        for name in ("success", "status", "iterations", "seed_index"):
            assert getattr(first, name).tolist() == getattr(other, name).tolist(), name
        assert other.position_error_m == pytest.approx(first.position_error_m)


def test_the_start_of_one_problem_may_be_its_row_alone(client, poses):
    row = load_robot("panda").mid_joint_q + 0.1
    one = poses[0][:1], poses[1][:1]
    results = [client.solve("panda", *one, link="panda_hand", initial_joint_q=start) for start in (row, row[None])]
    assert results[0].joint_q.tolist() == results[1].joint_q.tolist()
    with pytest.raises(ServiceError, match="There are 1 rows here, and there are 30 problems"):
        client.solve("panda", *poses, link="panda_hand", initial_joint_q=row)


@pytest.mark.evidence
def test_targets_of_several_links_with_tool_and_weights(client):
    robot = load_robot("dual_panda")
    reached = robot.forward_kinematics(robot.random_free_joint_q(np.random.default_rng(2), 3), links=HANDS)
    targets = [
        SolveTarget(link=HANDS[0], positions=reached.positions[:, 0], row_weights=[1, 1, 1, 0, 0, 0]),
        SolveTarget(
            link=HANDS[1],
            positions=reached.positions[:, 1].astype(np.float32),
            orientations_xyzw=reached.orientations_xyzw[:, 1],
            offset_position=[0, 0, 0.0],
            reference_link="base",
        ),
    ]
    include = ["islands", "advice", "active_limits", "solutions"]
    result = client.solve("dual_panda", targets=targets, include=include, options={"solutions": 2})
    assert result.success.all()
    assert np.isnan(result.targets[0]["orientation_error_rad"]).all()
    assert result.targets[1]["position_error_m"].shape == (3,)
    assert len(result.islands) == len(result.advice) == 3
    assert result.active_limits.shape == (3, len(result.dof_names))
    assert result.solutions.shape == (3, 2, 14)
    assert (result.solution_count >= 1).all()


@pytest.mark.evidence_cases("msgpack")
def test_objectives_go_with_targets_or_alone(client, poses, service_url):
    posture = {"type": "posture", "joint_q_reference": np.full((3, 7), 0.1), "weight": np.float32(0.001)}
    tool = {"position": np.array([0, 0, 0.1])}
    plane = {"type": "plane", "link": "panda_hand", "points": (0, 0, 0.3), "normals": [0, 0, 1], "offset": tool}
    result = client.solve("panda", poses[0][:3], link="panda_hand", objectives=[posture], include=["islands"])
    assert result.success.all()
    assert result.islands[0][0]["rows"] == ["target panda_hand", "posture"]
    alone = client.solve("panda", objectives=[plane], problem_count=2)
    assert alone.success.tolist() == [True, True]
    assert np.isnan(alone.position_error_m).all()

    async def again() -> SolveResult:
        async with AsyncClient(service_url) as other:
            return await other.solve("panda", objectives=[plane], problem_count=2)

    assert np.array_equal(asyncio.run(again()).joint_q.astype(np.float32), alone.joint_q.astype(np.float32))


def test_numbers_of_numpy_do_as_well_as_those_of_python(client):
    options = {"seeds": np.int64(4), "position_tolerance_m": np.float32(1e-3), "random_seed": np.array(3)}
    posture = {"type": "posture", "joint_q_reference": np.zeros(7)}
    result = client.solve("panda", objectives=[posture], problem_count=np.int64(2), options=options)
    assert (len(result), result.seeds) == (2, 4)
    with client.stream("panda", link="panda_hand", options={"seeds": np.int64(2)}, tick_timeout_s=PATIENCE_S) as stream:
        assert stream.configured.seeds == 2


def test_a_name_is_no_list_of_letters(client):
    with pytest.raises(ValueError, match=r"include is 'advice'. Give a list of names: \['advice'\]"):
        client.solve("panda", [[0.4, 0.1, 0.5]], link="panda_hand", include="advice")
    with pytest.raises(ValueError, match="links is 'panda_hand'"):
        client.forward("panda", np.zeros((1, 7)), "panda_hand")


@pytest.mark.parametrize("timeout_s", [float("inf"), 1e10, 1e300, np.float32(1e8)])
def test_any_time_can_be_waited(service_url, timeout_s):
    async def run() -> SolveResult:
        async with AsyncClient(service_url, timeout_s=timeout_s) as client:
            return await client.solve("panda", [[0.4, 0.1, 0.5]], link="panda_hand")

    with Client(service_url, timeout_s=timeout_s) as client:
        assert client.solve("panda", [[0.4, 0.1, 0.5]], link="panda_hand").success.all()
        with client.stream("panda", link="panda_hand", tick_timeout_s=PATIENCE_S) as stream:
            assert stream.step([0.4, 0.1, 0.5], [1, 0, 0, 0]).success
    assert asyncio.run(run()).success.all()


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("timeout_s", [-1, float("nan")])
def test_a_time_below_0_is_refused(kind, timeout_s):
    with pytest.raises(ValueError, match="timeout_s is"):
        kind("http://service", timeout_s=timeout_s)


def test_forward_tells_where_links_are(client):
    panda = load_robot("panda")
    joint_q = panda.random_joint_q(np.random.default_rng(0), 5)
    found = client.forward("panda", joint_q, ["panda_hand", "panda_link4"])
    expected = panda.forward_kinematics(joint_q, links=["panda_hand", "panda_link4"])
    assert found.links == ("panda_hand", "panda_link4")
    assert np.abs(found.positions - expected.positions).max() < 1e-9
    assert np.abs(found.orientations_xyzw - expected.orientations_xyzw).max() < 1e-9


def test_robots_are_listed_and_described(client):
    assert "panda" in [robot["name"] for robot in client.robots()]
    assert client.robot("panda")["coordinate_names"] == list(load_robot("panda").coordinate_names)


LOOP = b"""<constraint name="held" type="spherical">
  <parent link="base_link"/><parent_origin xyz="0.4 0.1 0.3"/><child link="tool0"/>
</constraint>"""


def test_robots_are_put_and_deleted(running_service, tmp_path):
    settings = {"api_keys": {"ann": KEY}, "catalog_dir": tmp_path, "uploads_enabled": True, "robots": ("panda",)}
    with running_service(**settings) as (url, _):
        with Client(url) as stranger, pytest.raises(ServiceError) as caught:
            stranger.robots()
        assert (caught.value.status, caught.value.code) == (401, "missing_api_key")
        with Client(url, KEY) as client:
            assert client.put_robot("my_arm", builtin_urdf("ur5e"), if_none_match="*")["name"] == "my_arm"
            assert client.solve("my_arm", [[0.3, 0.2, 0.5]], link="tool0").success.all()
            with pytest.raises(ServiceError) as caught:
                client.put_robot("my_arm", builtin_urdf("ur5e").decode(), if_none_match="*")
            assert caught.value.code == "precondition_failed"
            looped = builtin_urdf("ur5e").replace(b"</robot>", LOOP + b"</robot>")
            assert [loop["name"] for loop in client.put_robot("my_arm", looped)["loops"]] == ["held"]
            assert client.put_robot("my_arm", looped, constraints="ignore")["loops"] == []
            client.delete_robot("my_arm")
            with pytest.raises(ServiceError, match="unknown_robot"):
                client.robot("my_arm")


def test_a_refusal_carries_code_and_faults(client):
    with pytest.raises(ServiceError) as caught:
        client.solve("panda", [[0.4, float("nan"), 0.5]], link="panda_hand")
    assert (caught.value.status, caught.value.code) == (422, "not_finite")
    assert caught.value.errors[0]["pointer"] == "/targets/0/positions/0/1"
    assert caught.value.request_id
    with pytest.raises(ServiceError, match="unknown_robot"):
        client.robot("pandora")


def test_targets_are_given_once(client):
    with pytest.raises(ValueError, match="Give the link"):
        client.solve("panda", [[0.4, 0.1, 0.5]])
    with pytest.raises(ValueError, match="not both"):
        client.solve("panda", [[0.4, 0.1, 0.5]], targets=[SolveTarget(link="panda_hand")])
    with pytest.raises(ValueError, match="encoding"):
        Client("http://127.0.0.1:1", encoding="xml")


def test_no_service_is_an_error_of_its_own():
    with Client("http://127.0.0.1:1", retries=0) as client, pytest.raises(UnreachableError, match="GET http"):
        client.robots()


# ---------------------------------------------------------------------- tries again
class Scripted(httpx2.BaseTransport, httpx2.AsyncBaseTransport):
    """Answers as it is told, one outcome per request."""

    def __init__(self, *outcomes):
        self.outcomes, self.count = list(outcomes), 0

    def handle_request(self, request):
        self.count += 1
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def handle_async_request(self, request):
        return self.handle_request(request)


def busy(wait=None):
    problem = {"status": 503, "code": "queue_full", "detail": "Too much is waiting."}
    headers = PROBLEM | ({} if wait is None else {"Retry-After": str(wait)})
    return httpx2.Response(503, json=problem, headers=headers)


def share_exhausted():
    problem = {"status": 429, "code": "share_exhausted", "detail": "Your API key has its share."}
    return httpx2.Response(429, json=problem, headers=PROBLEM | {"Retry-After": "1"})


def robots():
    return httpx2.Response(200, json={"robots": []})


def ask(kind, transport, **options):
    """What a client of a kind gets, and how long it waited [s]; services in the same process go on to sleep."""
    waits = []
    if kind is Client:
        with pytest.MonkeyPatch.context() as patch, Client("http://service", transport=transport, **options) as client:
            patch.setattr("ik_service.client.client.time", SimpleNamespace(**{**vars(time), "sleep": waits.append}))
            return client.robots(), waits

    async def run():
        async with AsyncClient("http://service", transport=transport, **options) as client:
            return await client.robots()

    async def note(wait_s):
        waits.append(wait_s)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ik_service.client.async_client.asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": note}))
        return asyncio.run(run()), waits


@pytest.fixture(params=[Client, AsyncClient])
def kind(request):
    return request.param


def test_a_busy_service_is_asked_again_when_it_says(kind):
    transport = Scripted(busy(2), busy(), httpx2.ConnectError("no route"), robots())
    found, waits = ask(kind, transport)
    assert found == []
    assert 2.0 <= waits[0] <= 3.0
    assert all(0.0 < wait < 1.0 for wait in waits[1:])
    assert len(waits) == 3


def test_a_caller_that_has_its_share_asks_again_later(kind):
    transport = Scripted(share_exhausted(), robots())
    found, waits = ask(kind, transport)
    assert found == []
    assert len(waits) == 1
    assert 1.0 <= waits[0] <= 1.5


def test_it_gives_up_after_some_tries(kind):
    transport = Scripted(*[busy() for _ in range(9)])
    with pytest.raises(ServiceError) as caught:
        ask(kind, transport, retries=2)
    assert (caught.value.code, caught.value.retry_after_s, transport.count) == ("queue_full", None, 3)


def test_it_does_not_wait_longer_than_its_timeout(kind):
    transport = Scripted(busy(30), robots())
    with pytest.raises(ServiceError) as caught:
        ask(kind, transport, timeout_s=10.0)
    assert (caught.value.retry_after_s, transport.count) == (30.0, 1)


@pytest.mark.parametrize(
    ("timeout_s", "wait"), [(60.0, "60"), (2.5, "2.5"), (100, "100"), (0.25, "0.25"), (1e-6, "0.001")]
)
def test_the_service_is_told_how_long_anybody_waits(timeout_s, wait):
    call = solve_call("panda", {"targets": []}, "json", timeout_s)
    assert call.headers["Prefer"] == f"wait={wait}"
    assert preferred_wait_s(call.headers["Prefer"].encode()) == pytest.approx(float(wait))


def test_what_takes_longer_than_anybody_waits_is_refused(service_url):
    positions = np.tile([0.4, 0.1, 0.5], (50_000, 1))
    with Client(service_url, retries=0) as client:
        client._timeout_s = 0.001  # of the header alone
        with pytest.raises(ServiceError) as caught:
            client.solve("panda", positions, link="panda_hand", options={"seeds": 2, "best_of": "cost"})
    assert (caught.value.status, caught.value.code) in ((504, "deadline_passed"), (503, "queue_full"))


@pytest.mark.parametrize("error", [httpx2.ReadTimeout("slow"), httpx2.WriteError("cut off")])
def test_what_may_have_been_sent_is_not_sent_again(kind, error):
    transport = Scripted(error, robots())
    with pytest.raises(UnreachableError):
        ask(kind, transport)
    assert transport.count == 1


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (lambda: httpx2.Response(502, html="<html>Bad gateway</html>"), ServiceError),
        (lambda: httpx2.Response(200, html="<html>Sign in</html>"), ClientError),
        (lambda: httpx2.Response(200, json=[]), ClientError),
        (
            lambda: httpx2.Response(404, content=b"{", headers={"Content-Type": "application/problem+json"}),
            ServiceError,
        ),
        (lambda: httpx2.Response(200, content=b"\xc1", headers={"Content-Type": "application/msgpack"}), ClientError),
    ],
)
def test_a_reply_of_something_else_is_an_error(kind, reply, error):
    with pytest.raises(error):
        ask(kind, Scripted(reply()))


def test_both_clients_have_the_same_methods():
    names = [name for name in vars(Client) if not name.startswith("_") and name != "close"]
    assert len(names) >= 6
    for name in ("__init__", *names):
        ours, theirs = getattr(Client, name), getattr(AsyncClient, name)
        assert ours.__doc__ == theirs.__doc__, name
        parameters = [list(inspect.signature(method).parameters.values()) for method in (ours, theirs)]
        same = [(p.name, p.kind, p.default) for p in parameters[0]] == [
            (p.name, p.kind, p.default) for p in parameters[1]
        ]
        assert same, name


def test_without_httpx2_the_extra_is_named():
    code = "import sys; sys.modules['httpx2'] = None; import ik_service.client"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: The client needs httpx2.")
    assert "pip install '.[client]'" in last


def test_the_client_needs_neither_warp_nor_the_service():
    code = (
        "import sys, ik_service.client; print(sorted({'warp', 'fastapi', 'pydantic', 'objectives'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
