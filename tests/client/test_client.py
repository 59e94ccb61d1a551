"""The client against a real service: equal results in both encodings, errors with their codes, what it may import."""

import asyncio
import inspect

import numpy as np
import pytest

from ik_service import IKSolver, load_robot
from ik_service.client import AsyncClient, AsyncStream, Client, ServiceError, SolveTarget, Stream, UnreachableError
from ik_service.robots import builtin_urdf
from tests.client.conftest import refusal, stream_of

COUNT = 30
KEY = "a-key-that-is-long-enough-0123456789"
NOBODY = "http://127.0.0.1:9"  # the port is reserved
PLACE = [[0.4, 0.1, 0.5]]


@pytest.fixture(scope="module")
def panda():
    return load_robot("panda")


@pytest.fixture(scope="module")
def poses(panda):
    reached = panda.forward_kinematics(panda.random_free_joint_q(np.random.default_rng(1), COUNT), links=["panda_hand"])
    return reached.positions[:, 0], reached.orientations_xyzw[:, 0]


def test_both_encodings_and_both_clients_bring_the_same(service_url, panda, poses):
    def solve(client):
        return client.solve("panda", *poses, link="panda_hand", options={"seeds": 32})

    async def third():
        async with AsyncClient(service_url) as client:
            return (await asyncio.gather(*(solve(client) for _ in range(4))))[-1]

    with Client(service_url) as binary, Client(service_url, encoding="json") as text:
        first, *others = solve(binary), solve(text), asyncio.run(third())
    reached = panda.forward_kinematics(first.joint_q, links=["panda_hand"]).positions[:, 0]
    assert np.linalg.norm(reached - poses[0], axis=1)[first.success].max() <= 1e-3
    assert first.success.mean() > 0.9
    for result in (first, *others):
        assert (len(result), result.joint_q.shape) == (COUNT, (COUNT, 7))
        assert (result.success.dtype, result.seed_index.dtype.kind) == (bool, "i")
        assert set(result.status[result.success]) == {"converged"}
        assert result.coordinate_names == panda.coordinate_names
        assert (result.seeds, result.collision) == (32, "self")
        assert result.timing_ms["solve"] > 0.0
        assert np.array_equal(first.joint_q, result.joint_q.astype(np.float32))
        for name in ("success", "status", "iterations", "seed_index"):
            assert getattr(first, name).tolist() == getattr(result, name).tolist(), name
        assert result.position_error_m == pytest.approx(first.position_error_m)


@pytest.mark.evidence_cases("msgpack")
def test_objectives_go_with_targets_or_alone(client, poses):
    posture = {"type": "posture", "joint_q_reference": np.full((3, 7), 0.1), "weight": np.float32(0.001)}
    tool = {"position": np.array([0, 0, 0.1])}
    plane = {"type": "plane", "link": "panda_hand", "points": (0, 0, 0.3), "normals": [0, 0, 1], "offset": tool}
    result = client.solve("panda", poses[0][:3], link="panda_hand", objectives=[posture], include=["islands"])
    assert result.success.all()
    assert result.islands[0][0]["rows"] == ["target panda_hand", "posture"]
    alone = client.solve("panda", objectives=[plane], problem_count=2)
    assert alone.success.tolist() == [True, True]
    assert np.isnan(alone.position_error_m).all()


def test_numbers_of_numpy_do_as_well_as_those_of_python_and_any_time_can_be_waited(service_url):
    async def run():
        client = AsyncClient(service_url, timeout_s=float("inf"))
        async with client, stream_of(client) as stream:
            return await stream.step(PLACE, [[1, 0, 0, 0]])

    options = {"seeds": np.int64(4), "position_tolerance_m": np.float32(1e-3), "random_seed": np.array(3)}
    posture = {"type": "posture", "joint_q_reference": np.zeros(7)}
    for encoding in ("json", "msgpack"):
        with Client(service_url, encoding=encoding, timeout_s=np.float32(1e8)) as client:
            result = client.solve("panda", objectives=[posture], problem_count=np.int64(2), options=options)
            assert (len(result), result.seeds) == (2, 4)
            with stream_of(client, options={"seeds": np.int64(2)}) as stream:
                assert stream.configured.seeds == 2
                assert stream.step(PLACE, [[1, 0, 0, 0]]).success
    assert asyncio.run(run()).success


def test_forward_tells_where_links_are(client, panda):
    joint_q, links = panda.random_joint_q(np.random.default_rng(0), 5), ["panda_hand", "panda_link4"]
    found, expected = client.forward("panda", joint_q, links), panda.forward_kinematics(joint_q, links=links)
    assert found.links == tuple(links)
    assert np.abs(found.positions - expected.positions).max() < 1e-9
    assert np.abs(found.orientations_xyzw - expected.orientations_xyzw).max() < 1e-9


def test_robots_are_listed_and_described(client, panda):
    assert "panda" in [robot["name"] for robot in client.robots()]
    assert client.robot("panda")["coordinate_names"] == list(panda.coordinate_names)


LOOP = b"""<constraint name="held" type="spherical">
  <parent link="base_link"/><parent_origin xyz="0.4 0.1 0.3"/><child link="tool0"/>
</constraint>"""


def test_robots_are_put_and_deleted(running_service, tmp_path):
    settings = {"api_keys": {"ann": KEY}, "catalog_dir": tmp_path, "uploads_enabled": True, "robots": ("panda",)}
    with running_service(**settings) as (url, _):
        with Client(url) as stranger, pytest.raises(ServiceError) as caught:
            stranger.robots()
        assert refusal(caught) == (401, "missing_api_key")
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
    assert refusal(caught) == (422, "not_finite")
    assert caught.value.errors[0]["pointer"] == "/targets/0/positions/0/1"
    assert caught.value.request_id
    with pytest.raises(ServiceError, match="unknown_robot"):
        client.robot("pandora")


def solve(*given, **options):
    return lambda client: client.solve("panda", *given, **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (solve(PLACE, link="hand", include="advice"), r"list of names: \['advice'\]"),
        (lambda client: client.forward("panda", np.zeros((1, 7)), "panda_hand"), "links is 'panda_hand'"),
        (solve(PLACE), "Give the link"),
        (solve(), "Give the link"),
        (solve(PLACE, targets=[SolveTarget(link="panda_hand")]), "not both"),
        (lambda client: client.stream("panda"), "Give the link"),
        (lambda client: client.stream("panda", link="panda_hand", targets=[]), "Give the link"),
        (lambda _: Client("http://service", encoding="xml"), "encoding is 'xml'"),
        (lambda _: Client("http://service", timeout_s=-1), "timeout_s is -1"),
        (lambda _: Client("http://service", timeout_s=float("nan")), "timeout_s is nan"),
    ],
)
def test_a_wrong_argument_is_refused_before_anything_is_sent(call, message):
    with Client(NOBODY) as client, pytest.raises(ValueError, match=message):
        call(client)


def test_no_service_is_an_error_of_its_own():
    with Client(NOBODY, retries=0) as client, pytest.raises(UnreachableError, match="GET http"):
        client.robots()


def test_what_takes_longer_than_anybody_waits_is_refused(service_url):
    positions = np.tile([0.4, 0.1, 0.5], (50_000, 1))
    with Client(service_url, retries=0) as client:
        client._timeout_s = 0.001  # of the header alone
        with pytest.raises(ServiceError) as caught:
            client.solve("panda", positions, link="panda_hand", options={"seeds": 2, "best_of": "cost"})
    assert refusal(caught) in ((504, "deadline_passed"), (503, "queue_full"))


def test_both_clients_have_the_same_methods():
    names = {name for name, method in vars(AsyncClient).items() if inspect.iscoroutinefunction(method)}
    public = {name for name in names if not name.startswith("_")} - {"aclose"}
    assert len(public) == 9
    for name in public:
        assert getattr(Client, name).__wrapped__ is getattr(AsyncClient, name)
        assert not inspect.iscoroutinefunction(getattr(Client, name))
    assert Stream.step.__wrapped__ is AsyncStream.step


def asked_of_all(service_url, call, *given, **options):
    """The results of a call, by both encodings and both clients, which refuse the call without a link."""

    async def third():
        async with AsyncClient(service_url) as client:
            return await getattr(client, call)("panda", *given, link="panda_hand", **options)

    target = SolveTarget(link="panda_hand", positions=given[0], orientations_xyzw=given[1])
    with Client(service_url) as binary, Client(service_url, encoding="json") as text:
        results = [getattr(client, call)("panda", targets=[target], **options) for client in (binary, text)]
        with pytest.raises(ValueError, match="Give the link"):
            getattr(text, call)("panda", *given, **options)
    return [*results, asyncio.run(third())]


def assert_same(found, own, columns):
    """Assert that a result has the columns of Python, by their names of the client and of Python."""
    for name, of_python in columns.items():
        values, expected = getattr(found, name), getattr(own, of_python or name)
        if isinstance(expected, np.ndarray):
            assert np.asarray(values, expected.dtype).tobytes() == np.ascontiguousarray(expected).tobytes(), name
        else:
            assert values == expected, name


def test_the_best_of_many_candidates_comes_by_both_encodings_and_both_clients(service_url, panda, poses):
    given = {"group": np.repeat([0, 1, 3], COUNT // 3), "group_count": 4, "cost": np.linspace(0, 1, COUNT)}
    given |= {"criterion": "nearest", "initial_joint_q": panda.mid_joint_q}
    lifted = {"positions": poses[0] + [0, 0, 0.01], "orientations_xyzw": poses[1]}
    via = {"targets": [lifted], "max_change": 1.0}
    solver = IKSolver(panda, ["panda_hand"], device="cpu")
    own = solver.solve_any(*poses, via=(*lifted.values(), 1.0), **given)
    assert own.success.tolist() == [True, True, False, True]
    for result in asked_of_all(service_url, "solve_any", *poses, via=via, **given):
        assert_same(result, own, dict.fromkeys(("candidate", "coordinate_names", "joint_q", "via_joint_q", "value")))
        assert (result.robot, result.status.tolist()) == ("panda", own.status_names)
        assert np.stack([*result.counts.values()], axis=1).tolist() == own.counts.tolist()
        assert result.timing_ms["solve"] > 0.0
    with Client(service_url) as client, pytest.raises(ServiceError, match="Give a list of whole numbers") as caught:
        client.solve_any("panda", *poses, link="panda_hand", group=[0.5] * 2)
    assert refusal(caught)[0] == 422


@pytest.mark.parametrize("name", ["fit_clip", "follow"])
def test_a_motion_comes_by_both_encodings_and_both_clients(service_url, panda, name):
    share = np.linspace(0.0, 1.0, 12)
    joint_q = panda.mid_joint_q + share[:, None] * np.array([0.3, 0.2, 0.0, -0.4, 0.0, 0.3, 0.1])
    reached = panda.forward_kinematics(joint_q, ["panda_hand"])
    given = reached.positions[:, 0], reached.orientations_xyzw[:, 0]
    more = {"dt": 0.02, "velocity": {"panda_joint1": 0.6}, "acceleration": 30.0}
    columns = dict.fromkeys(("coordinate_names", "dof_names", "joint_q", "joint_qd", "over_velocity"))
    columns |= {"over_acceleration": None, "position_error_m": "position_error"}
    columns |= {"orientation_error_rad": "orientation_error"}
    if name == "fit_clip":
        more |= {"held": {"panda_hand": share < 0.3}, "plane": [0, 0, 1, 0.5], "smoothness": 0.5}
        more |= {"clip_start": np.array([0, 8]), "first_joint_q": joint_q[0]}
        columns |= {"held_drift_m": "held_drift", "cost": None}
    else:
        more |= {"start_joint_q": joint_q[0], "solutions": 2}
        columns |= dict.fromkeys(("success", "joint_qdd", "joint_change"))
    own = getattr(IKSolver(panda, ["panda_hand"], device="cpu"), name)(*given, **more)
    assert np.abs(own.joint_qd).max() > 0.0
    for result in asked_of_all(service_url, name, *given, **more):
        assert_same(result, own, columns)
        assert (result.robot, result.links, result.status.tolist()) == ("panda", ("panda_hand",), own.status_names)
        assert result.held_links == (("panda_hand",) if name == "fit_clip" else None)
        assert name == "follow" or result.success is None
    with Client(service_url) as client, pytest.raises(ServiceError) as caught:
        getattr(client, name)("panda", *given, link="panda_hand", **{**more, "dt": 0.0})
    assert refusal(caught) == (422, "out_of_range")
    assert caught.value.errors[0]["pointer"] == "/dt"
