"""Fields of a request: the bytes of Python in both encodings, joined with other requests without a change."""

import json
import threading

import numpy as np
import pytest

from ik_service import IKSolver, SolverOptions, Target, load_robot
from ik_service.client import SolveTarget, StreamTarget
from ik_service.service.documents import frames
from ik_service.service.documents.solve_request import read_solve
from ik_service.service.documents.stream_messages import read_configuration
from ik_service.service.errors.exceptions import FaultyFieldsError
from ik_service.service.queue import solve_request
from ik_service.service.schema.limits import MAX_LIMIT_COUNT
from tests.service.conftest import assert_one_batch, in_process
from tests.service.messages import NPZ, answered, archive

COUNT, HAND = 4, "panda_hand"
LARGE = 20_000  # problems: more than are decoded on the event loop
DERIVED = {"sensitivity": "target"}
HANDS = ["left_panda_hand", "right_panda_hand"]
SOLVE = "/v1/robots/panda/solve"
CONE = [0.0, 0.0, 0.0, 0.2, 0.2, 0.0]
EACH = np.linspace(0.02, 0.1, 6 * COUNT).reshape(COUNT, 6)
PAIRS = np.array([[-1.0, 0.5], [-0.5, 1.0], [-2.0, 0.2], [-0.2, 2.0]])
STAYS = np.zeros((COUNT, 7), dtype=bool)
STAYS[0, 2] = STAYS[2, 0] = STAYS[2, 1] = True
TOOLS = np.array([[0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0]] * 2 + [[0.02, 0.0, 0.2, 0.0, 0.0, 0.6, 0.8]] * 2)
ON_TARGETS = {
    "one tool": {"offset": TOOLS[0]},
    "tools": {"offset": TOOLS},
    "reference": {"reference_link": "panda_link2"},
    "weights each": {"row_weights": np.array([[1.0, 1.0, 0.0, 0.0, 0.0, 0.0]] * COUNT)},
    "free": {"free": ["rz"]},
    "cone": {"free": ["rz"], "tolerance": CONE},
    "tolerances": {"tolerance": EACH, "frame": "target"},
    "weights": {"row_weights": [1.0, 1.0, 1.0, 1.0, 1.0, 0.0], "frame": "tool"},
}
OF_REQUESTS = {
    # as a request has it, as Python has it where that differs
    "limits": ({"joint_limits": {"panda_joint1": [-1.0, 1.5]}}, {"joint_limits": {"panda_joint1": (-1.0, 1.5)}}),
    "pairs": ({"joint_limits": {"panda_joint1": PAIRS}}, {"joint_limits": {"panda_joint1": PAIRS.T}}),
    "options": ({"options": {"seeds": 3, "max_iterations": 1}}, {}),
    "position": ({"options": {"position_tolerance_m": 1e-7}}, {"options": {"position_tolerance": 1e-7}}),
    "orientation": ({"options": {"orientation_tolerance_rad": 1e-7}}, {"options": {"orientation_tolerance": 1e-7}}),
    "max_change": ({"max_change": 0.01}, {}),
    "max_change of a joint": ({"max_change": {"panda_joint2": 0.001}}, {}),
    "frozen": ({"frozen": ["panda_joint3"]}, {}),
    "frozen each": ({"frozen": [["panda_joint3"], [], ["panda_joint1", "panda_joint2"], []]}, {"frozen": STAYS}),
}
CASES = {name: (fields, {}, {}) for name, fields in ON_TARGETS.items()}
CASES |= {name: ({}, fields, fields | python) for name, (fields, python) in OF_REQUESTS.items()}


def drawn(robot, links, count=COUNT):
    """Configurations, positions and orientations of links."""
    joint_q = robot.random_free_joint_q(np.random.default_rng(0), count)
    poses = robot.forward_kinematics(joint_q, links)
    return joint_q, [*poses.positions.swapaxes(0, 1)], [*poses.orientations_xyzw.swapaxes(0, 1)]


@pytest.fixture(scope="module")
def given(panda):
    """A start near a solution, and poses."""
    joint_q, positions, turns = drawn(panda, [HAND])
    return panda.clamp_joint_q(joint_q + 0.05), positions[0], turns[0]


def document(given, on_target=None, **fields):
    start, positions, turns = given
    target = {"link": HAND, "positions": positions.tolist(), "orientations_xyzw": turns.tolist(), **(on_target or {})}
    return {"targets": [target], "initial_joint_q": start.tolist(), **fields}


def split(on_target):
    """Fields of a target with the parts of its tool, as clients take them."""
    fields = dict(on_target)
    if (tool := fields.pop("offset", None)) is not None:
        fields |= {"offset_position": tool[..., :3], "offset_orientation_xyzw": tool[..., 3:]}
    return fields


@pytest.mark.evidence_cases("tolerances", "one tool", "reference")
@pytest.mark.parametrize("case", CASES)
def test_answers_are_those_of_python_in_both_encodings(client, panda, given, case):
    (start, *poses), (on_target, fields, arguments) = given, CASES[case]
    arguments = {"initial_joint_q": start, **arguments}
    expected = IKSolver(panda, [Target(HAND, **on_target)], device="cpu").solve(*poses, **arguments)
    plain = IKSolver(panda, [HAND], device="cpu").solve(*poses, initial_joint_q=start)
    assert expected.joint_q.tobytes() != plain.joint_q.tobytes()
    target = SolveTarget(link=HAND, positions=poses[0], orientations_xyzw=poses[1], **split(on_target))
    for encoding in ("json", "msgpack"):
        with in_process(client, encoding) as one:
            found = one.solve("panda", targets=[target], initial_joint_q=start, **fields)
        assert found.joint_q.astype(np.float32).tobytes() == expected.joint_q.tobytes()


@pytest.mark.parametrize("asked", ON_TARGETS.values(), ids=ON_TARGETS)
def test_targets_of_streams_are_written_so(asked):
    one = {name: value[0] if np.ndim(value) == 2 else value for name, value in asked.items()}
    assert set(StreamTarget(link=HAND, **split(one)).document()) == {"link", "constrain", *asked}


def test_requests_with_other_tolerances_share_a_batch_without_a_change(panda, given):
    asked = ({"free": ["rz"]}, {"tolerance": [0.05] * 6}, {"tolerance": EACH.tolist()})
    free, *others = [read_solve(document(given, one), panda).request for one in asked]
    assert len({request.structure for request in (free, *others)}) == 1
    assert_one_batch(panda, others)


def test_requests_with_other_limits_share_a_batch_without_a_change(panda, given):
    fields = [{"max_change": 0.3}, {"joint_limits": {"panda_joint1": [-1.0, 1.0]}}, {"frozen": ["panda_joint7"]}]
    requests = [read_solve(document(given, **one), panda).request for one in fields]
    assert read_solve(document(given), panda).request.batch_key != requests[0].batch_key
    cache = assert_one_batch(panda, requests)
    halves = [cache.solve(panda, requests[0].part(rows)).joint_q for rows in (slice(0, 1), slice(1, COUNT))]
    assert np.concatenate(halves).tobytes() == cache.solve(panda, requests[0]).joint_q.tobytes()


def test_the_nearest_minimum_over_http(client, panda, given):
    start, positions, turns = given
    body = document((start, 3.0 * positions, turns), options={"approximate": "nearest"})
    answer = answered(client, SOLVE, body)
    solver = IKSolver(panda, [HAND], device="cpu", options=SolverOptions(approximate="nearest"))
    expected = solver.solve(3.0 * positions, turns, initial_joint_q=start)
    assert answer["seed_index"] == [0] * COUNT
    assert np.array(answer["joint_q"], np.float32).tobytes() == expected.joint_q.tobytes()


def test_more_limits_than_there_is_memory_for_are_refused(panda, given, monkeypatch):
    monkeypatch.setattr(frames, "MAX_LIMIT_COUNT", 7 * COUNT - 1)
    with pytest.raises(FaultyFieldsError) as caught:
        read_solve(document(given, max_change=0.5), panda)
    assert caught.value.faults[0].pointer == "/problem_count"
    assert MAX_LIMIT_COUNT > 7 * 100_000  # the built-in arms may have limits in the largest requests


def test_a_stream_takes_tolerances_once(panda):
    message = '{{"type": "configure", "targets": [{{"link": "panda_hand", "free": ["rz"], "tolerance": {}}}]}}'
    (target,) = read_configuration(message.format(CONE), panda).request.targets
    assert target.frame == "tool"
    assert target.weights().tolist() == [1, 1, 1, 1, 1, 0]
    with pytest.raises(FaultyFieldsError, match="one row of each"):
        read_configuration(message.format([CONE]), panda)


@pytest.mark.evidence
@pytest.mark.parametrize("candidates", [1, 3])
def test_the_engine_that_is_asked_for_answers_as_in_python(client, panda, given, candidates):
    _, *poses = given
    options = {"engine": "staged", "seeds": 4, "candidates": candidates}
    with in_process(client) as one:
        found = one.solve("panda", *poses, link=HAND, options=options)
    made = SolverOptions(candidates=candidates, seeds=4)
    expected = IKSolver(panda, [HAND], device="cpu", engine="staged", options=made).solve(*poses)
    assert found.engine == "staged"
    assert expected.success.any()
    assert found.joint_q.tobytes() == expected.joint_q.tobytes()
    with client.websocket_connect("/v1/robots/panda/stream") as stream:
        stream.send_text(json.dumps({"type": "configure", "targets": [{"link": HAND}], "options": options}))
        assert stream.receive_json()["resolved"]["engine"] == "staged"


@pytest.mark.evidence_cases("False")
@pytest.mark.parametrize("islands", [True, False])
def test_islands_are_solved_apart_unless_the_request_says_no(client, islands):
    robot = load_robot("dual_panda")
    _, *poses = drawn(robot, HANDS)
    each = zip(HANDS, *poses, strict=True)
    targets = [SolveTarget(link=link, positions=places, orientations_xyzw=turns) for link, places, turns in each]
    with in_process(client) as one:
        found = one.solve("dual_panda", targets=targets, options={"islands": islands}, include=["islands"])
    assert [len(problem) for problem in found.islands] == [2 if islands else 1] * COUNT
    expected = IKSolver(robot, HANDS, device="cpu", islands=islands).solve(*poses)
    assert found.joint_q.tobytes() == expected.joint_q.tobytes()


@pytest.mark.parametrize("count", [3, LARGE])
def test_patterns_of_weights_are_found_where_the_body_is_decoded(client, monkeypatch, count):
    seen = []

    def patterns_on(weights, of=solve_request.patterns_on):
        seen.append(threading.current_thread().name)
        return of(weights)

    monkeypatch.setattr(solve_request, "patterns_on", patterns_on)
    weights = np.where(np.arange(count)[:, None] % 2, [1, 1, 1, 0, 0, 0], [1.0] * 6).tolist()
    target = {"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]] * count, "row_weights": weights}
    answered(client, SOLVE, {"targets": [target], "options": {"seeds": 1}})
    assert (len(seen), seen[0].startswith("ik-side")) == (1, count == LARGE)


def test_derivatives_are_those_of_python_in_all_encodings_and_only_for_who_asks(client):
    robot = load_robot("dual_panda")
    _, *poses = drawn(robot, HANDS)
    expected = IKSolver(robot, HANDS).solve(*poses, options=DERIVED)
    assert expected.is_differentiable.any()
    each = zip(HANDS, *poses, strict=True)
    targets = [SolveTarget(link=link, positions=places, orientations_xyzw=turns) for link, places, turns in each]
    for encoding in ("json", "msgpack"):
        with in_process(client, encoding) as one:
            found = one.solve("dual_panda", targets=targets, options=DERIVED)
            plain = one.solve("dual_panda", targets=targets)
        assert found.joint_q_by_targets.shape == (COUNT, 14, 2, 6)
        np.testing.assert_array_equal(found.joint_q_by_targets, expected.joint_q_by_targets)
        np.testing.assert_array_equal(found.is_differentiable, expected.is_differentiable)
        assert (plain.joint_q_by_targets, plain.is_differentiable) == (None, None)
    query = "?" + "&".join(f"link={link}" for link in HANDS) + "&sensitivity=target"
    arrays = archive(positions=np.stack(poses[0], axis=1), orientations_xyzw=np.stack(poses[1], axis=1))
    columns = answered(client, f"/v1/robots/dual_panda/solve{query}", arrays, NPZ)
    assert columns["joint_q_by_targets"].tobytes() == expected.joint_q_by_targets.tobytes()
