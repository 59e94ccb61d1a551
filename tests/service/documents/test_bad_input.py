"""Every kind of bad input gets its 4xx with its code, and the service goes on."""

import copy
import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

from ik_service.service.schema import limits
from ik_service.service.schema.limits import MAX_PROBLEM_COUNT, MAX_SENSITIVE_EFFORT
from ik_service.solver.given.options import DEFAULT_SEEDS
from tests.service.messages import JSON, MSGPACK, post, problem

URL = "/v1/robots/panda/solve"
POSE: dict[str, Any] = {"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]], "orientations_xyzw": [[1, 0, 0, 0]]}
READY = [0, -0.785, 0, -2.356, 0, 1.571, 0.785]
GOOD: dict[str, Any] = {"targets": [POSE], "initial_joint_q": [READY], "options": {"seeds": 16}}
DELETED = object()


def changed(pointer: str, value: Any) -> dict[str, Any]:
    """The good request with one place changed; with several fields changed where the place is the request itself."""
    if not pointer:
        return {**GOOD, **value}
    body = copy.deepcopy(GOOD)
    *path, last = [int(token) if token.isdecimal() else token for token in pointer.split("/")[1:]]
    place: Any = body
    for token in path:
        place = place[token]
    if value is DELETED:
        del place[last]
    elif isinstance(place, list) and last == len(place):
        place.append(value)
    else:
        place[last] = value
    return body


T0, O0, OBJECTIVES, XYZW = "/targets/0", "/objectives/0", "/objectives", "target_orientations_xyzw"
POSITIONS, ORIENTATIONS, OFFSET = f"{T0}/positions", f"{T0}/orientations_xyzw", f"{T0}/offset"
START, SEEDS, DERIVED = "/initial_joint_q", "/options/seeds", "/options/sensitivity"
PLACE = [[0.4, 0.1, 0.5]]
SECOND = {"link": "panda_link4", "positions": [[0.1, 0, 0.6]] * 2}
UNTURNED = {"link": "panda_hand", "positions": PLACE, "frame": "target"}
POSTURE = {"targets": [], "objectives": [{"type": "posture", "joint_q_reference": [[0] * 7]}]}
MANY = {"targets": [{"link": "panda_hand", "positions": PLACE * (MAX_SENSITIVE_EFFORT // 7**2 + 1)}]}
TARGET = {"sensitivity": "target"}


def objective(kind: str = "position", **fields: Any) -> list[dict[str, Any]]:
    """The objectives of a request that has one."""
    link = {} if kind in ("posture", "damping", "joint_limit", "center_of_mass") else {"link": "panda_hand"}
    return [{"type": kind, **link, **fields}]


def point(**fields: Any) -> list[dict[str, Any]]:
    return objective(**{"target_positions": PLACE, **fields})


POINT = point()
FAULTS = [
    # code, what is changed, where the fault is ("": there), values
    ("empty_batch", POSITIONS, "", []),
    ("wrong_type", POSITIONS, "", "0.4", {}, True),
    ("wrong_type", POSITIONS, f"{POSITIONS}/0", [0.4, 0.1, 0.5]),
    ("wrong_shape", POSITIONS, f"{POSITIONS}/0", [[0.4, 0.1]]),
    ("wrong_shape", POSITIONS, f"{POSITIONS}/1", [[0.4, 0.1, 0.5], [0.4, 0.1, 0.5, 0.6]]),
    ("wrong_type", POSITIONS, f"{POSITIONS}/1", [[0.4, 0.1, 0.5], None]),
    ("wrong_type", POSITIONS, f"{POSITIONS}/0/0", [[[0.4], 0.1, 0.5]]),
    ("wrong_type", POSITIONS, f"{POSITIONS}/0/1", [[0.4, "0.1", 0.5]], [[0.4, True, 0.5]], [[0.4, None, 0.5]]),
    ("out_of_range", POSITIONS, f"{POSITIONS}/0/2", [[0.4, 0.1, 1e300]], [[0.4, 0.1, -2e6]]),
    ("wrong_shape", POSITIONS, ORIENTATIONS, PLACE * 2),
    ("not_unit_quaternion", ORIENTATIONS, f"{ORIENTATIONS}/0", [[0, 0, 0, 0]], [[1.002, 0, 0, 0]], [[0.998, 0, 0, 0]]),
    ("wrong_shape", ORIENTATIONS, f"{ORIENTATIONS}/0", [[1, 0, 0]]),
    ("wrong_type", ORIENTATIONS, f"{ORIENTATIONS}/0", [1, 0, 0, 0]),
    ("unknown_link", f"{T0}/link", "", "panda_hnd", "x" * 1024),
    ("out_of_range", f"{T0}/link", "", "", "x" * 1025),
    ("wrong_type", f"{T0}/link", "", 5, None),
    ("missing_field", f"{T0}/link", "", DELETED),
    ("unknown_link", f"{T0}/reference_link", "", "panda_elbow"),
    ("unknown_field", f"{T0}/tool", "", [0, 0, 0]),
    ("unknown_field", f"{T0}/a~b", f"{T0}/a~0b", 1),
    ("wrong_type", OFFSET, "", [0, 0, 0.1]),
    ("unknown_field", OFFSET, f"{OFFSET}/translation", {"translation": [0, 0, 0.1]}),
    ("wrong_shape", OFFSET, f"{OFFSET}/position", {"position": [0, 0]}),
    ("empty_batch", OFFSET, f"{OFFSET}/position", {"position": []}),
    ("wrong_type", OFFSET, f"{OFFSET}/position/2", {"position": [0, 0, False]}),
    ("wrong_shape", OFFSET, OFFSET, {"position": [[0, 0, 0], [0, 0, 1]]}),
    ("not_unit_quaternion", OFFSET, f"{OFFSET}/orientation_xyzw", {"orientation_xyzw": [0, 0, 0, 2]}),
    ("wrong_shape", f"{T0}/row_weights", "", [1, 1, 1, 1, 1]),
    ("out_of_range", f"{T0}/row_weights", f"{T0}/row_weights/5", [1, 1, 1, 1, 1, -1]),
    ("out_of_range", f"{T0}/row_weights", f"{T0}/row_weights/4", [1, 1, 1, 1, 1e-300, 1]),
    ("wrong_shape", f"{T0}/row_weights", f"{T0}/row_weights", [[1, 1, 1, 1, 1, 1]] * 2),
    ("missing_field", T0, "", {"link": "panda_hand"}),
    ("wrong_type", T0, "", "panda_hand"),
    ("wrong_shape", "/targets", "", [], GOOD["targets"] * 33),
    ("wrong_type", "/targets", "", {}),
    ("missing_field", "/targets", "", DELETED),
    ("wrong_shape", "/targets/1", "/targets/1", SECOND),
    ("wrong_shape", START, "/initial_joint_q/0", [[0, 0, 0, 0, 0, 0]]),
    ("wrong_shape", START, "", [[0] * 7] * 2, [0] * 6),
    ("wrong_type", START, "/initial_joint_q/6", [0, 0, 0, 0, 0, 0, "0"]),
    ("wrong_type", START, "/initial_joint_q/0/6", [[0, 0, 0, 0, 0, 0, "0"]]),
    ("wrong_type", "/options", "", []),
    ("unknown_field", "/options/iterations", "", 3),
    ("out_of_range", SEEDS, "", 0, -4, 100_000),
    ("wrong_type", SEEDS, "", "16", 1.5, True),
    ("out_of_range", "/options/max_iterations", "", 0),
    ("wrong_type", "/options/max_iterations", "", None),
    ("out_of_range", "/options/position_tolerance_m", "", 0, -0.001),
    ("wrong_type", "/options/orientation_tolerance_rad", "", "0.01"),
    ("unknown_option", "/options/best_of", "", "all"),
    ("out_of_range", "/options/solutions", "", 0),
    ("out_of_range", "/options/solution_difference", "", 0),
    ("unknown_option", "/options/precision", "", "float16"),
    ("invalid_value", "/options", "", {"precision": "float64", "solutions": 2}),
    ("out_of_range", "/options/random_seed", "", -1, 2**32),
    ("unknown_option", "/include", "/include/0", ["islets"]),
    ("wrong_type", "/include", "", "active_limits"),
    ("wrong_shape", "/problem_count", "", 3),
    ("out_of_range", "/problem_count", "", 0, MAX_PROBLEM_COUNT + 1),
    ("wrong_type", "/problem_count", "", "1"),
    ("wrong_type", OBJECTIVES, "", {}),
    ("wrong_shape", OBJECTIVES, "", POINT * 33),
    ("missing_field", OBJECTIVES, f"{O0}/type", [{"target_positions": PLACE}]),
    ("wrong_type", OBJECTIVES, O0, [5]),
    ("invalid_value", "/joint_limits", "", {"panda_joint1": [1, 0]}, {"panda_joint1": [5, 6]}),
    ("invalid_value", "/joint_limits", "", {"panda_joint1": [[0, 1]] * 3}),
    ("unknown_joint", "/joint_limits", "", {"elbow": [0, 1]}),
    ("wrong_shape", "/joint_limits", "/joint_limits/panda_joint1", {"panda_joint1": [0]}),
    ("wrong_type", "/joint_limits", "/joint_limits/panda_joint1", {"panda_joint1": "0:1"}),
    ("wrong_type", "/joint_limits", "", [[0, 1]] * 7),
    ("out_of_range", "/max_change", "", -1),
    ("wrong_type", "/max_change", "/max_change/panda_joint1", {"panda_joint1": "far"}),
    ("unknown_joint", "/max_change", "", {"elbow": 1}),
    ("wrong_type", "/max_change", "", [0.1] * 7),
    ("invalid_value", "", "/max_change", {"max_change": 0.1, "initial_joint_q": None}),
    ("unknown_joint", "/frozen", "/frozen/0", ["elbow"]),
    ("wrong_type", "/frozen", "", "panda_joint1"),
    ("invalid_value", "", "/frozen", {"frozen": ["panda_joint1"], "initial_joint_q": None}),
    ("unknown_option", f"{T0}/free", f"{T0}/free/0", ["roll"]),
    ("wrong_shape", f"{T0}/tolerance", "", [0.1] * 5, [[0.1] * 6] * 3),
    ("invalid_value", f"{T0}/tolerance", "", [-0.1, 0, 0, 0, 0, 0], [1e-4, 0, 0, 0, 0, 0]),
    ("invalid_value", T0, f"{T0}/tolerance", {**POSE, "tolerance": [0, 0, 0, 0.1, 0.2, 0], "free": ["rz"]}),
    ("unknown_option", f"{T0}/frame", "", "hand"),
    ("invalid_value", T0, f"{T0}/frame", UNTURNED),
    ("unknown_option", "/options/approximate", "", "best"),
    ("unknown_option", "/options/engine", "", "fast"),
    ("wrong_type", "/options/islands", "", "no"),
    ("out_of_range", "/options/candidates", "", 0, 9),
    ("unknown_option", DERIVED, "", "weights"),
    ("out_of_range", "", DERIVED, {**MANY, "initial_joint_q": None, "options": TARGET}),
    ("invalid_value", "", DERIVED, {**POSTURE, "options": TARGET}),
    ("invalid_value", "", DERIVED, {"targets": [{**POSE, "free": ["rz"]}], "options": TARGET}),
]
OBJECTIVE_FAULTS = [
    # code, where the fault is in the objective, objectives
    ("unknown_option", "/type", objective("pose")),
    ("missing_field", "/target_positions", objective()),
    ("wrong_type", "/target_positions", point(target_positions=None)),
    ("wrong_shape", "/target_positions", point(target_positions=[0.4, 0.1]), point(target_positions=PLACE * 2)),
    ("wrong_type", "/target_positions/0/1", point(target_positions=[[0.4, "0.1", 0.5]])),
    ("unknown_field", "/target_points", point(target_points=[0, 0, 1])),
    ("unknown_link", "/link", point(link="panda_hnd")),
    ("unknown_link", "/reference_link", point(reference_link="panda_hnd")),
    ("wrong_shape", "/offset/position", point(offset={"position": [0, 0]})),
    ("wrong_shape", "/offset", point(offset={"position": [[0, 0, 0]] * 2})),
    ("out_of_range", "/weight", point(weight=0), point(weight=-1.0), point(weight=1e6, row_weights=[1, 1, 2])),
    ("out_of_range", "/weight", point(weight=1e-6, row_weights=[1, 0, 1e-15])),
    ("out_of_range", "/row_weights/2", point(row_weights=[1, 1, 1e-300]), point(row_weights=[1, 1, -1])),
    ("wrong_shape", "/row_weights", point(row_weights=[1, 1]), objective("damping", row_weights=[1] * 6)),
    ("not_unit_quaternion", f"/{XYZW}", objective("rotation", target_orientations_xyzw=[0, 0, 0, 2])),
    ("out_of_range", "/axis", objective("look_at", target_points=[0, 0, 1], axis=[0, 0, 0])),
    ("unknown_field", "/reference_link", objective("look_at", target_points=[0, 0, 1], reference_link="x")),
    ("out_of_range", "/normals/0", objective("plane", points=[0, 0, 0], normals=[[0, 0, 0]])),
    ("missing_field", "/reference_link", objective("relative_pose", target_positions=PLACE)),
    ("wrong_shape", "/joint_q_reference", objective("posture", joint_q_reference=[0] * 6)),
    ("wrong_type", "/joint_q_reference", objective("posture", joint_q_reference=None)),
    ("wrong_shape", "/joint_limit_upper", objective("joint_limit", joint_limit_upper=[0.1] * 6)),
    ("unknown_joint", "/joints/0", objective("damping", joints=["panda_joint9"])),
    ("wrong_shape", "/joints", objective("damping", joints=[])),
    ("no_masses", "/type", objective("center_of_mass", target_positions=[0, 0, 0])),
    ("out_of_range", "/priority", point(priority=2), point(priority=-1)),
    ("wrong_type", "/priority", *(point(priority=wrong) for wrong in (True, 0.5, "0", None))),
]
WITHOUT_TARGETS = [
    ({}, "missing_field", "/targets"),
    ({"objectives": []}, "missing_field", "/targets"),
    ({"objectives": point(target_positions=[0.4, 0.1, 0.5])}, "missing_field", "/problem_count"),
    ({"objectives": objective("damping"), "problem_count": 1}, "missing_field", f"{O0}/joint_q_reference"),
    ({"objectives": POINT, "problem_count": 2}, "wrong_shape", f"{O0}/target_positions"),
]
CASES = [
    *((changed(place, value), code, where or place) for code, place, where, *values in FAULTS for value in values),
    *(({**GOOD, OBJECTIVES[1:]: one}, code, O0 + place) for code, place, *all_ in OBJECTIVE_FAULTS for one in all_),
    *WITHOUT_TARGETS,
]


def assert_problem(client: TestClient, reply: Any, status: int, code: str, pointer: str | None = None) -> Any:
    """The problem document of a refusal, after which a good request is served."""
    document = problem(reply, status, code, pointer)
    assert document["status"] == status
    assert document["type"].endswith(code)
    assert document["title"]
    assert document["detail"]
    assert "Traceback" not in reply.text
    assert ".py" not in reply.text
    assert client.post(URL, json=GOOD).json()["success"] == [True]
    return document


@pytest.mark.parametrize("kind", [JSON, MSGPACK])
@pytest.mark.parametrize(("body", "code", "pointer"), CASES)
def test_a_bad_field_is_422_with_a_pointer_to_it(client, kind, body, code, pointer):
    assert_problem(client, post(client, URL, body, kind, JSON), 422, code, pointer)


def test_a_number_of_problems_is_not_told_as_rows(client):
    document = assert_problem(client, client.post(URL, json={**GOOD, "problem_count": 2}), 422, "wrong_shape")
    assert document["errors"][0]["detail"].startswith("This is 2, and there are 1 problems in the columns before.")


GOOD_TEXT = json.dumps(GOOD)
NAN_OPTION = GOOD_TEXT.replace('"seeds": 16', '"position_tolerance_m": NaN')
RAW = {
    "not JSON": ("{'targets': []}", "malformed_json"),
    "cut off": (GOOD_TEXT[:40], "malformed_json"),
    "empty": ("", "malformed_json"),
    "not UTF-8": (GOOD_TEXT.encode().replace(b"panda_hand", b"panda_\xff\xfe"), "malformed_json"),
    "UTF-16": (GOOD_TEXT.encode("utf-16"), "malformed_json"),
    "nested too deep": ("[" * 100_000 + "]" * 100_000, "malformed_json"),
    "half a surrogate": (GOOD_TEXT.replace("panda_hand", "\\ud800"), "malformed_json"),
    "a list": ("[]", "wrong_type"),
    "a number": ("1", "wrong_type"),
    "null": ("null", "wrong_type"),
    "NaN": (GOOD_TEXT.replace("0.1", "NaN"), "not_finite", f"{POSITIONS}/0/1"),
    "Infinity": (GOOD_TEXT.replace("0.5]", "Infinity]"), "not_finite"),
    "-Infinity": (GOOD_TEXT.replace("0.5]", "-Infinity]"), "not_finite"),
    "1e999": (GOOD_TEXT.replace("0.5]", "1e999]"), "not_finite"),
    "NaN in an option": (NAN_OPTION, "not_finite"),
    "NaN under half a surrogate": ('{"\\ud800": NaN}', "not_finite"),
}


@pytest.mark.parametrize("case", RAW.values(), ids=RAW)
def test_a_bad_body_is_refused(client, case):
    content, code, *pointer = case
    reply = client.post(URL, content=content, headers={"Content-Type": JSON})
    assert_problem(client, reply, 400 if code == "malformed_json" else 422, code, *pointer)


def test_all_faults_of_the_envelope_are_listed_but_not_without_end(client):
    options = {f"option_{k}": k for k in range(100)}
    document = assert_problem(client, client.post(URL, json={**GOOD, "options": options}), 422, "unknown_field")
    assert 2 <= len(document["errors"]) <= 16


@pytest.mark.parametrize("options", [{}, {"seeds": None}, {"seeds": DEFAULT_SEEDS}])
def test_default_seeds_count_as_attempts_like_those_given(client, monkeypatch, options):
    body = {"targets": [{"link": "panda_hand", "positions": PLACE * 3}], "options": options}
    monkeypatch.setattr(limits, "MAX_ATTEMPT_COUNT", 3 * DEFAULT_SEEDS)
    assert client.post(URL, json=body).status_code == 200
    monkeypatch.setattr(limits, "MAX_ATTEMPT_COUNT", 3 * DEFAULT_SEEDS - 1)
    document = problem(client.post(URL, json=body), 422, "out_of_range", SEEDS)
    assert f"3 problems with {DEFAULT_SEEDS} seeds each are {3 * DEFAULT_SEEDS} attempts" in document["detail"]


def test_too_many_problems_are_413(client):
    body = {"targets": [{"link": "panda_hand", "positions": PLACE * (MAX_PROBLEM_COUNT + 1)}]}
    document = assert_problem(client, client.post(URL, json=body), 413, "too_many_problems")
    assert str(MAX_PROBLEM_COUNT) in document["detail"]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("POST", "/v1/robots/pandora/solve", 404, "unknown_robot"),
        ("POST", "/v1/robots/..%2f..%2fetc%2fpasswd/solve", 404, "not_found"),
        ("POST", "/v1/robots/panda.urdf/solve", 404, "unknown_robot"),
        ("GET", "/v1/robots/%FF", 404, "unknown_robot"),
        ("GET", "/v1/robots/", 404, "not_found"),
        ("GET", "/v2", 404, "not_found"),
        ("GET", "/v1/robots/panda/solve", 405, "method_not_allowed"),
        ("DELETE", "/v1/robots", 405, "method_not_allowed"),
        ("POST", "/health/live", 405, "method_not_allowed"),
    ],
)
def test_a_wrong_address_or_method_is_a_problem_document_too(client, method, path, status, code):
    reply = client.request(method, path, content=GOOD_TEXT, headers={"Content-Type": JSON})
    assert_problem(client, reply, status, code)
    assert status != 405 or reply.headers["allow"]
