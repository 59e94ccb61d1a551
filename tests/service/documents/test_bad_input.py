"""Every kind of bad input gets its 4xx with its code, and the service goes on."""

import copy
import json
from typing import Any

import msgpack
import pytest
from fastapi.testclient import TestClient

from ik_service.service import create_app
from ik_service.service.schema import limits
from ik_service.service.schema.limits import MAX_PROBLEM_COUNT
from ik_service.settings import ServiceSettings
from ik_service.solver.given.options import DEFAULT_SEEDS

URL = "/v1/robots/panda/solve"
GOOD: dict[str, Any] = {
    "targets": [{"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]], "orientations_xyzw": [[1, 0, 0, 0]]}],
    "initial_joint_q": [[0, -0.785, 0, -2.356, 0, 1.571, 0.785]],
    "options": {"seeds": 16},
}
DELETED = object()


def changed(pointer: str, value: Any) -> dict[str, Any]:
    """The good request with one place changed."""
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


T0 = "/targets/0"
POSITIONS = f"{T0}/positions"
ORIENTATIONS = f"{T0}/orientations_xyzw"
TOO_MANY = [[0.4, 0.1, 0.5]] * (MAX_PROBLEM_COUNT + 1)
SECOND = {"link": "panda_link4", "positions": [[0.1, 0, 0.6]] * 2}
OBJECTIVES, O0, XYZW = "/objectives", "/objectives/0", "target_orientations_xyzw"


def objective(kind: str = "position", **fields: Any) -> list[dict[str, Any]]:
    """The objectives of a request that has one."""
    link = {} if kind in ("posture", "damping", "center_of_mass") else {"link": "panda_hand"}
    return [{"type": kind, **link, **fields}]


POINT = {"target_positions": [[0.4, 0.1, 0.5]]}

FIELDS = [
    # what is changed, to what, code, where the fault is (None: where the change is)
    (POSITIONS, [], "empty_batch", None),
    (POSITIONS, "0.4", "wrong_type", None),
    (POSITIONS, {}, "wrong_type", None),
    (POSITIONS, True, "wrong_type", None),
    (POSITIONS, [0.4, 0.1, 0.5], "wrong_type", f"{POSITIONS}/0"),
    (POSITIONS, [[0.4, 0.1]], "wrong_shape", f"{POSITIONS}/0"),
    (POSITIONS, [[0.4, 0.1, 0.5], [0.4, 0.1, 0.5, 0.6]], "wrong_shape", f"{POSITIONS}/1"),
    (POSITIONS, [[0.4, 0.1, 0.5], None], "wrong_type", f"{POSITIONS}/1"),
    (POSITIONS, [[[0.4], 0.1, 0.5]], "wrong_type", f"{POSITIONS}/0/0"),
    (POSITIONS, [[0.4, "0.1", 0.5]], "wrong_type", f"{POSITIONS}/0/1"),
    (POSITIONS, [[0.4, True, 0.5]], "wrong_type", f"{POSITIONS}/0/1"),
    (POSITIONS, [[0.4, None, 0.5]], "wrong_type", f"{POSITIONS}/0/1"),
    (POSITIONS, [[0.4, 0.1, 1e300]], "out_of_range", f"{POSITIONS}/0/2"),
    (POSITIONS, [[0.4, 0.1, -2e6]], "out_of_range", f"{POSITIONS}/0/2"),
    (POSITIONS, [[0.4, 0.1, 0.5]] * 2, "wrong_shape", ORIENTATIONS),
    (ORIENTATIONS, [[0, 0, 0, 0]], "not_unit_quaternion", f"{ORIENTATIONS}/0"),
    (ORIENTATIONS, [[1.002, 0, 0, 0]], "not_unit_quaternion", f"{ORIENTATIONS}/0"),
    (ORIENTATIONS, [[0.998, 0, 0, 0]], "not_unit_quaternion", f"{ORIENTATIONS}/0"),
    (ORIENTATIONS, [[1, 0, 0]], "wrong_shape", f"{ORIENTATIONS}/0"),
    (ORIENTATIONS, [1, 0, 0, 0], "wrong_type", f"{ORIENTATIONS}/0"),
    (f"{T0}/link", "panda_hnd", "unknown_link", None),
    (f"{T0}/link", "", "out_of_range", None),
    (f"{T0}/link", "x" * 1024, "unknown_link", None),
    (f"{T0}/link", "x" * 1025, "out_of_range", None),
    (f"{T0}/link", 5, "wrong_type", None),
    (f"{T0}/link", None, "wrong_type", None),
    (f"{T0}/link", DELETED, "missing_field", None),
    (f"{T0}/reference_link", "panda_elbow", "unknown_link", None),
    (f"{T0}/tool", [0, 0, 0], "unknown_field", None),
    (f"{T0}/a~b", 1, "unknown_field", f"{T0}/a~0b"),
    (f"{T0}/offset", [0, 0, 0.1], "wrong_type", None),
    (f"{T0}/offset", {"translation": [0, 0, 0.1]}, "unknown_field", f"{T0}/offset/translation"),
    (f"{T0}/offset", {"position": [0, 0]}, "wrong_shape", f"{T0}/offset/position"),
    (f"{T0}/offset", {"position": []}, "empty_batch", f"{T0}/offset/position"),
    (f"{T0}/offset", {"position": [0, 0, False]}, "wrong_type", f"{T0}/offset/position/2"),
    (f"{T0}/offset", {"position": [[0, 0, 0], [0, 0, 1]]}, "wrong_shape", f"{T0}/offset"),
    (f"{T0}/offset", {"orientation_xyzw": [0, 0, 0, 2]}, "not_unit_quaternion", f"{T0}/offset/orientation_xyzw"),
    (f"{T0}/row_weights", [1, 1, 1, 1, 1], "wrong_shape", None),
    (f"{T0}/row_weights", [1, 1, 1, 1, 1, -1], "out_of_range", f"{T0}/row_weights/5"),
    (f"{T0}/row_weights", [1, 1, 1, 1, 1e-300, 1], "out_of_range", f"{T0}/row_weights/4"),
    (f"{T0}/row_weights", [[1, 1, 1, 1, 1, 1]] * 2, "wrong_shape", f"{T0}/row_weights"),
    (T0, {"link": "panda_hand"}, "missing_field", None),
    (T0, "panda_hand", "wrong_type", None),
    ("/targets", [], "wrong_shape", None),
    ("/targets", {}, "wrong_type", None),
    ("/targets", DELETED, "missing_field", None),
    ("/targets", GOOD["targets"] * 33, "wrong_shape", None),
    ("/targets/1", SECOND, "wrong_shape", "/targets/1"),
    ("/initial_joint_q", [[0, 0, 0, 0, 0, 0]], "wrong_shape", "/initial_joint_q/0"),
    ("/initial_joint_q", [[0] * 7] * 2, "wrong_shape", None),
    ("/initial_joint_q", [0] * 6, "wrong_shape", None),
    ("/initial_joint_q", [0, 0, 0, 0, 0, 0, "0"], "wrong_type", "/initial_joint_q/6"),
    ("/initial_joint_q", [[0, 0, 0, 0, 0, 0, "0"]], "wrong_type", "/initial_joint_q/0/6"),
    ("/options", [], "wrong_type", None),
    ("/options/iterations", 3, "unknown_field", None),
    ("/options/seeds", 0, "out_of_range", None),
    ("/options/seeds", -4, "out_of_range", None),
    ("/options/seeds", 100_000, "out_of_range", None),
    ("/options/seeds", "16", "wrong_type", None),
    ("/options/seeds", 1.5, "wrong_type", None),
    ("/options/seeds", True, "wrong_type", None),
    ("/options/max_iterations", 0, "out_of_range", None),
    ("/options/max_iterations", None, "wrong_type", None),
    ("/options/position_tolerance_m", 0, "out_of_range", None),
    ("/options/position_tolerance_m", -0.001, "out_of_range", None),
    ("/options/orientation_tolerance_rad", "0.01", "wrong_type", None),
    ("/options/best_of", "all", "unknown_option", None),
    ("/options/solutions", 0, "out_of_range", None),
    ("/options/solution_difference", 0, "out_of_range", None),
    ("/options/precision", "float16", "unknown_option", None),
    ("/options", {"precision": "float64", "solutions": 2}, "invalid_value", None),
    ("/options/random_seed", -1, "out_of_range", None),
    ("/options/random_seed", 2**32, "out_of_range", None),
    ("/include", ["islets"], "unknown_option", "/include/0"),
    ("/include", "active_limits", "wrong_type", None),
    ("/problem_count", 3, "wrong_shape", None),
    ("/problem_count", 0, "out_of_range", None),
    ("/problem_count", MAX_PROBLEM_COUNT + 1, "out_of_range", None),
    ("/problem_count", "1", "wrong_type", None),
    (OBJECTIVES, {}, "wrong_type", None),
    (OBJECTIVES, [5], "wrong_type", O0),
    (OBJECTIVES, objective(**POINT) * 33, "wrong_shape", None),
    (OBJECTIVES, [POINT], "missing_field", f"{O0}/type"),
    (OBJECTIVES, objective("pose", **POINT), "unknown_option", f"{O0}/type"),
    (OBJECTIVES, objective(), "missing_field", f"{O0}/target_positions"),
    (OBJECTIVES, objective(target_positions=None), "wrong_type", f"{O0}/target_positions"),
    (OBJECTIVES, objective(target_positions=[0.4, 0.1]), "wrong_shape", f"{O0}/target_positions"),
    (OBJECTIVES, objective(target_positions=[[0.4, 0.1, 0.5]] * 2), "wrong_shape", f"{O0}/target_positions"),
    (OBJECTIVES, objective(target_positions=[[0.4, "0.1", 0.5]]), "wrong_type", f"{O0}/target_positions/0/1"),
    (OBJECTIVES, objective(target_points=[0, 0, 1], **POINT), "unknown_field", f"{O0}/target_points"),
    (OBJECTIVES, objective(link="panda_hnd", **POINT), "unknown_link", f"{O0}/link"),
    (OBJECTIVES, objective(reference_link="panda_hnd", **POINT), "unknown_link", f"{O0}/reference_link"),
    (OBJECTIVES, objective(offset={"position": [0, 0]}, **POINT), "wrong_shape", f"{O0}/offset/position"),
    (OBJECTIVES, objective(offset={"position": [[0, 0, 0]] * 2}, **POINT), "wrong_shape", f"{O0}/offset"),
    (OBJECTIVES, objective(weight=0, **POINT), "out_of_range", f"{O0}/weight"),
    (OBJECTIVES, objective(weight=-1.0, **POINT), "out_of_range", f"{O0}/weight"),
    (OBJECTIVES, objective(weight=1e6, row_weights=[1, 1, 2], **POINT), "out_of_range", f"{O0}/weight"),
    (OBJECTIVES, objective(weight=1e-6, row_weights=[1, 0, 1e-15], **POINT), "out_of_range", f"{O0}/weight"),
    (OBJECTIVES, objective(row_weights=[1, 1, 1e-300], **POINT), "out_of_range", f"{O0}/row_weights/2"),
    (OBJECTIVES, objective(row_weights=[1, 1], **POINT), "wrong_shape", f"{O0}/row_weights"),
    (OBJECTIVES, objective(row_weights=[1, 1, -1], **POINT), "out_of_range", f"{O0}/row_weights/2"),
    (OBJECTIVES, objective("rotation", target_orientations_xyzw=[0, 0, 0, 2]), "not_unit_quaternion", f"{O0}/{XYZW}"),
    (OBJECTIVES, objective("look_at", target_points=[0, 0, 1], axis=[0, 0, 0]), "out_of_range", f"{O0}/axis"),
    (
        OBJECTIVES,
        objective("look_at", target_points=[0, 0, 1], reference_link="x"),
        "unknown_field",
        f"{O0}/reference_link",
    ),
    (OBJECTIVES, objective("plane", points=[0, 0, 0], normals=[[0, 0, 0]]), "out_of_range", f"{O0}/normals/0"),
    (OBJECTIVES, objective("relative_pose", **POINT), "missing_field", f"{O0}/reference_link"),
    (OBJECTIVES, objective("posture", joint_q_reference=[0] * 6), "wrong_shape", f"{O0}/joint_q_reference"),
    (OBJECTIVES, objective("posture", joint_q_reference=None), "wrong_type", f"{O0}/joint_q_reference"),
    (OBJECTIVES, objective("damping", joints=["panda_joint9"]), "unknown_joint", f"{O0}/joints/0"),
    (OBJECTIVES, objective("damping", joints=[]), "wrong_shape", f"{O0}/joints"),
    (OBJECTIVES, objective("damping", row_weights=[1] * 6), "wrong_shape", f"{O0}/row_weights"),
    (OBJECTIVES, objective("center_of_mass", target_positions=[0, 0, 0]), "no_masses", f"{O0}/type"),
]
WITHOUT_TARGETS = [
    ({}, "missing_field", "/targets"),
    ({"objectives": []}, "missing_field", "/targets"),
    ({"objectives": objective(target_positions=[0.4, 0.1, 0.5])}, "missing_field", "/problem_count"),
    ({"objectives": objective("damping"), "problem_count": 1}, "missing_field", f"{O0}/joint_q_reference"),
    ({"objectives": objective(**POINT), "problem_count": 2}, "wrong_shape", f"{O0}/target_positions"),
]


def assert_problem(reply: Any, status: int, code: str) -> dict[str, Any]:
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    problem = reply.json()
    assert problem["status"] == status
    assert problem["code"] == code
    assert problem["type"].endswith(code)
    assert problem["title"]
    assert problem["detail"]
    assert "Traceback" not in reply.text
    assert ".py" not in reply.text
    return problem


def test_an_unknown_field_names_the_nearest_one(client):
    for pointer, meant in (("/options/seed", "seeds"), ("/options/margin", "margin_m"), (f"{T0}/xyz", None)):
        problem = assert_problem(client.post(URL, json=changed(pointer, 1)), 422, "unknown_field")
        expected = "There is no such field here." + (f" Did you mean '{meant}'?" if meant else "")
        assert problem["errors"][0]["detail"] == expected


def assert_still_served(client: TestClient) -> None:
    reply = client.post(URL, json=GOOD)
    assert reply.status_code == 200
    assert reply.json()["success"] == [True]


CODECS = {"application/json": json.dumps, "application/msgpack": msgpack.packb}


@pytest.mark.parametrize("media_type", CODECS)
@pytest.mark.parametrize(("pointer", "value", "code", "fault"), FIELDS)
def test_a_bad_field_is_422_with_a_pointer_to_it(client, media_type, pointer, value, code, fault):
    content = CODECS[media_type](changed(pointer, value))
    reply = client.post(URL, content=content, headers={"Content-Type": media_type})
    problem = assert_problem(reply, 422, code)
    assert problem["errors"][0]["pointer"] == (pointer if fault is None else fault)
    assert problem["errors"][0]["code"] == code
    assert_still_served(client)


def test_a_number_of_problems_is_not_told_as_rows(client):
    problem = assert_problem(client.post(URL, json={**GOOD, "problem_count": 2}), 422, "wrong_shape")
    assert problem["errors"][0]["detail"].startswith("This is 2, and there are 1 problems in the columns before.")


@pytest.mark.parametrize(("body", "code", "fault"), WITHOUT_TARGETS)
def test_a_request_without_targets_says_what_it_is_about(client, body, code, fault):
    problem = assert_problem(client.post(URL, json=body), 422, code)
    assert problem["errors"][0]["pointer"] == fault


GOOD_TEXT = json.dumps(GOOD)
JSON = {"Content-Type": "application/json"}
RAW = [
    ("not JSON", "{'targets': []}", JSON, 400, "malformed_json"),
    ("cut off", GOOD_TEXT[:40], JSON, 400, "malformed_json"),
    ("empty", "", JSON, 400, "malformed_json"),
    ("not UTF-8", GOOD_TEXT.encode().replace(b"panda_hand", b"panda_\xff\xfe"), JSON, 400, "malformed_json"),
    ("UTF-16", GOOD_TEXT.encode("utf-16"), JSON, 400, "malformed_json"),
    ("nested too deep", "[" * 100_000 + "]" * 100_000, JSON, 400, "malformed_json"),
    ("half a surrogate", GOOD_TEXT.replace("panda_hand", "\\ud800"), JSON, 400, "malformed_json"),
    ("a list", "[]", JSON, 422, "wrong_type"),
    ("a number", "1", JSON, 422, "wrong_type"),
    ("null", "null", JSON, 422, "wrong_type"),
    ("NaN", GOOD_TEXT.replace("0.4", "NaN"), JSON, 422, "not_finite"),
    ("Infinity", GOOD_TEXT.replace("0.5]", "Infinity]"), JSON, 422, "not_finite"),
    ("-Infinity", GOOD_TEXT.replace("0.5]", "-Infinity]"), JSON, 422, "not_finite"),
    ("1e999", GOOD_TEXT.replace("0.5]", "1e999]"), JSON, 422, "not_finite"),
    ("NaN in an option", GOOD_TEXT.replace('"seeds": 16', '"position_tolerance_m": NaN'), JSON, 422, "not_finite"),
    ("NaN under half a surrogate", '{"\\ud800": NaN}', JSON, 422, "not_finite"),
    ("no media type", GOOD_TEXT, {}, 415, "unsupported_media_type"),
    ("a form", GOOD_TEXT, {"Content-Type": "application/x-www-form-urlencoded"}, 415, "unsupported_media_type"),
    ("text", GOOD_TEXT, {"Content-Type": "text/plain"}, 415, "unsupported_media_type"),
]


@pytest.mark.parametrize(
    ("content", "headers", "status", "code"), [row[1:] for row in RAW], ids=[row[0] for row in RAW]
)
def test_a_bad_body_is_refused(client, content, headers, status, code):
    assert_problem(client.post(URL, content=content, headers=headers), status, code)
    assert_still_served(client)


def test_a_number_that_is_not_finite_is_pointed_at(client):
    body = GOOD_TEXT.replace("0.1", "NaN")
    problem = assert_problem(client.post(URL, content=body, headers=JSON), 422, "not_finite")
    assert problem["errors"][0]["pointer"] == "/targets/0/positions/0/1"


def test_all_faults_of_the_envelope_are_listed_but_not_without_end(client):
    options = {f"option_{k}": k for k in range(100)}
    problem = assert_problem(client.post(URL, json={**GOOD, "options": options}), 422, "unknown_field")
    assert 2 <= len(problem["errors"]) <= 16


@pytest.mark.parametrize("options", [{}, {"seeds": None}, {"seeds": DEFAULT_SEEDS}])
def test_default_seeds_count_as_attempts_like_those_given(client, monkeypatch, options):
    target = {"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]] * 3}
    body = {"targets": [target], "options": options}
    monkeypatch.setattr(limits, "MAX_ATTEMPT_COUNT", 3 * DEFAULT_SEEDS)
    assert client.post(URL, json=body).status_code == 200
    monkeypatch.setattr(limits, "MAX_ATTEMPT_COUNT", 3 * DEFAULT_SEEDS - 1)
    problem = assert_problem(client.post(URL, json=body), 422, "out_of_range")
    assert problem["errors"][0]["pointer"] == "/options/seeds"
    assert f"3 problems with {DEFAULT_SEEDS} seeds each are {3 * DEFAULT_SEEDS} attempts" in problem["detail"]


def test_too_many_problems_are_413(client):
    body = {"targets": [{"link": "panda_hand", "positions": TOO_MANY}]}
    problem = assert_problem(client.post(URL, json=body), 413, "too_many_problems")
    assert str(MAX_PROBLEM_COUNT) in problem["detail"]
    assert_still_served(client)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("POST", "/v1/robots/pandora/solve", 404, "unknown_robot"),
        ("POST", "/v1/robots/..%2f..%2fetc%2fpasswd/solve", 404, "not_found"),
        ("POST", "/v1/robots/panda.urdf/solve", 404, "unknown_robot"),
        ("GET", "/v1/robots/pandora", 404, "unknown_robot"),
        ("GET", "/v1/robots/%FF", 404, "unknown_robot"),
        ("GET", "/v1/robots/", 404, "not_found"),
        ("GET", "/v2", 404, "not_found"),
        ("GET", "/v1/robots/panda/solve", 405, "method_not_allowed"),
        ("DELETE", "/v1/robots", 405, "method_not_allowed"),
        ("POST", "/health/live", 405, "method_not_allowed"),
    ],
)
def test_a_wrong_address_or_method_is_a_problem_document_too(client, method, path, status, code):
    reply = client.request(method, path, content=GOOD_TEXT, headers=JSON)
    assert_problem(reply, status, code)
    assert status != 405 or reply.headers["allow"]
    assert_still_served(client)


def test_a_body_over_the_limit_is_413_whether_announced_or_not(client):
    service = client.app.state.service
    settings = ServiceSettings(device="cpu", insecure=True, max_body_bytes=2000)
    small = create_app(settings, robots={"panda": service.catalog.entries["panda"].model}, compile_apart=False)
    with TestClient(small) as other:
        body = json.dumps({**GOOD, "include": [" " * 2000]}).encode()
        assert_problem(other.post(URL, content=body, headers=JSON), 413, "body_too_large")
        assert_problem(other.post(URL, content=iter([body[:1600], body[1600:]]), headers=JSON), 413, "body_too_large")
        assert_still_served(other)
