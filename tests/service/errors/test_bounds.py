"""Answers to faults are bounded in bytes and in work; the table of errors is complete and silent about the inside."""

import ast
import json
from pathlib import Path

import pytest
from pydantic import ValidationError

import ik_service.service
from ik_service.errors import EngineError, KernelCacheError
from ik_service.service.documents import envelope
from ik_service.service.documents.envelope import FAULT_CODES, read_envelope
from ik_service.service.errors.exceptions import FAULTS_MAX, FaultBody, FaultyFieldsError, faulty_field
from ik_service.service.errors.problem_documents import FRAMEWORK_PROBLEMS, PROBLEMS, error_response, kind_of
from ik_service.service.schema.fields import NAMES_MOST
from ik_service.service.schema.solve import SolveRequestBody
from objectives.errors import NEAR_NAME_EFFORT, NEAR_NAME_LENGTH, IKError, InputError, UnknownNameError, near_names
from tests.service.messages import post, problem

MOST_BYTES = 64_000
"""Of a document in ASCII, as `problem_document` says."""
LONG = "n" * 1_000_000
POSITION = {"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]]}
MANY_NAMES = {f"orientations_xyz{k}": 1 for k in range(NAMES_MOST - 6)}


def faults_of(document):
    with pytest.raises(FaultyFieldsError) as caught:
        read_envelope(SolveRequestBody, document)
    return caught.value.faults


def test_only_the_faults_that_are_told_are_described_and_a_known_field_is_read_behind_unknown_ones(monkeypatch):
    searched = []
    monkeypatch.setattr(envelope, "near_names", lambda name, names: searched.append(name) or [])
    assert len(faults_of({"targets": [MANY_NAMES] * 32})) == FAULTS_MAX
    assert 1 <= len(searched) <= FAULTS_MAX
    with pytest.raises(ValidationError) as caught:
        SolveRequestBody.model_validate({"targets": [POSITION | MANY_NAMES]})
    assert caught.value.error_count() == FAULTS_MAX
    faults = faults_of({"targets": [{**MANY_NAMES, "link": 5}]})
    assert [fault.pointer for fault in faults[:2]] == ["/targets/0/link", "/targets/0/orientations_xyz0"]


def in_world(**world):
    return {"targets": [POSITION], "world": world}


LONG_NAMES = {
    "a field": {LONG: 1},
    "many fields": {f"{k}{LONG[:50_000]}": 1 for k in range(NAMES_MOST)},
    "fields of many targets": {"targets": [{f"{LONG[:20_000]}{k}": 1} for k in range(32)]},
    "a field on the way to a number": {LONG: [1.0, float("nan")]},
    "control characters": {"\u0001" * 1_000_000: 1},
    "a type": {"objectives": [{"type": LONG}]},
    "a joint of limits": {"targets": [POSITION], "initial_joint_q": [[0] * 7], "max_change": {LONG: 1}},
    "a link that carries": in_world(attached={"cup": {"link": LONG, "spheres": [[0, 0, 0, 0.1]]}}),
    "an attached object": in_world(attached={LONG: {"link": "panda_hand"}}),
    "an object": in_world(objects={LONG: 1}),
    "a world": in_world(name=LONG),
    "a constraint": {"targets": [POSITION], "constraints": {"disable": [LONG]}},
}


@pytest.mark.parametrize("document", LONG_NAMES.values(), ids=LONG_NAMES)
def test_a_long_name_is_cut_in_the_answer(client, document):
    reply = post(client, "/v1/robots/panda/solve", document)
    assert reply.status_code == 422
    assert reply.json()["errors"]
    assert len(reply.content) < MOST_BYTES * (6 if "\u0001" in str(document) else 1)  # \u0001 is six bytes


@pytest.mark.parametrize(
    "error",
    [
        UnknownNameError(LONG),
        faulty_field(f"/{LONG}", "unknown_field", LONG),
        FaultyFieldsError(FaultBody(pointer=LONG, code="unknown_field", detail=LONG) for _ in range(1000)),
    ],
    ids=["text", "fault", "faults"],
)
def test_a_document_is_bounded_whatever_made_it(error):
    body = error_response(error).body
    assert len(body) < MOST_BYTES
    assert json.loads(body)["detail"].endswith("n...")


def test_short_texts_are_told_whole():
    faults = [FaultBody(pointer=f"/a/{k}", code="unknown_field", detail="d" * 500) for k in range(FAULTS_MAX)]
    document = json.loads(error_response(FaultyFieldsError(faults)).body)
    assert document["errors"] == [fault.model_dump() for fault in faults]


def test_what_is_compared_for_a_suggestion_is_bounded(monkeypatch):
    known = ["n" * NEAR_NAME_LENGTH]
    assert near_names("n" * NEAR_NAME_LENGTH, known) == known
    compared = []
    monkeypatch.setattr("objectives.errors.get_close_matches", lambda name, names, n: compared.extend(names) or names)
    assert near_names("n" * (NEAR_NAME_LENGTH + 1), known) == compared == []
    known = [f"link_{k:055d}" for k in range(2048)]
    near_names("l" * 60, known)
    assert compared == known[: NEAR_NAME_EFFORT // 60**2]


# ---------------------------------------------------------------------- suggestions of this object alone
OBJECTIVE = {"type": "look_at", "link": "panda_hand", "target_points": [0, 0, 1]}
SUGGESTED = [
    # what is sent in place of a target, the pointer in it, the suggestion
    ({"targets": [{**POSITION, "position": 1}]}, "/targets/0/position", "positions"),
    ({"targets": [{**POSITION, "orientation_xyzw": 1}]}, "/targets/0/orientation_xyzw", "orientations_xyzw"),
    ({"targets": [{**POSITION, "target_positions": 1}]}, "/targets/0/target_positions", "positions"),
    ({"targets": [{**POSITION, "offset": {"positions": 1}}]}, "/targets/0/offset/positions", "position"),
    ({"targets": [{**POSITION, "seeds": 1}]}, "/targets/0/seeds", None),
    ({"targets": [POSITION], "option": 1}, "/option", "options"),
    ({"targets": [POSITION], "options": {"seed": 1}}, "/options/seed", "seeds"),
    ({"targets": [POSITION], "options": {"margin": 1}}, "/options/margin", "margin_m"),
    ({"targets": [POSITION], "options": {"link": 1}}, "/options/link", None),
    ({"targets": [POSITION], "world": {"object": 1}}, "/world/object", "objects"),
    ({"targets": [POSITION], "constraints": {"disabled": 1}}, "/constraints/disabled", "disable"),
    ({"objectives": [{**OBJECTIVE, "target_point": 1}]}, "/objectives/0/target_point", "target_points"),
    ({"objectives": [{**OBJECTIVE, "target_position": 1}]}, "/objectives/0/target_position", "target_points"),
    ({"objectives": [{**OBJECTIVE, "offset": {"positon": 1}}]}, "/objectives/0/offset/positon", "position"),
]


@pytest.mark.parametrize(("document", "pointer", "suggested"), SUGGESTED, ids=[row[1] for row in SUGGESTED])
def test_a_suggested_field_is_one_of_the_same_object(document, pointer, suggested):
    (fault,) = (one for one in faults_of(document) if one.code == "unknown_field")
    assert fault.pointer == pointer
    assert fault.detail == "There is no such field here." + (f" Did you mean '{suggested}'?" if suggested else "")


# ---------------------------------------------------------------------- the table behind the errors
FAILING = {"targets": [{"link": "panda_link3", "positions": [[0.1, 0.1, 0.5]]}]}  # nobody else asks for this link


def all_subclasses(root):
    for child in root.__subclasses__():
        yield child
        yield from all_subclasses(child)


def test_every_error_of_ours_has_a_row():
    above = ("ik_service.cli", "ik_service.integrations", "ik_service.page")  # the service
    ours = {error for error in all_subclasses(IKError) if error.__module__.startswith(("ik_service.", "objectives."))}
    served = {error for error in ours if not error.__module__.startswith(above)}
    assert len(served) >= 10
    assert {error.__name__ for error in served - set(PROBLEMS)} == set()


def test_the_page_names_every_code():
    page = Path(__file__).parents[3].joinpath("docs/http_api.md").read_text()
    codes = {kind.code for kind in (*PROBLEMS.values(), *FRAMEWORK_PROBLEMS.values())} | set(FAULT_CODES.values())
    for module in Path(ik_service.service.__file__).parent.rglob("*.py"):
        calls = [one for one in ast.walk(ast.parse(module.read_text())) if isinstance(one, ast.Call)]
        faults = [one.args[1] for one in calls if getattr(one.func, "id", None) == "faulty_field"]
        codes |= {one.value for one in faults if isinstance(one, ast.Constant)}
    assert "not_unit_quaternion" in codes
    assert {code for code in codes if f"`{code}`" not in page} == set()


def test_an_error_takes_the_row_of_its_nearest_class():
    class NewNameError(UnknownNameError):
        pass

    assert kind_of(NewNameError("x")) is PROBLEMS[UnknownNameError]
    assert kind_of(KeyError("x")) is PROBLEMS[Exception]


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (InputError("what the solver found"), 422, "invalid_value"),
        (EngineError("no engine"), 422, "engine_unavailable"),
        (IKError("/srv/secret/file.py"), 500, "internal_error"),
        (RuntimeError("/srv/secret/file.py"), 500, "internal_error"),
        (MemoryError(), 500, "internal_error"),
        (KernelCacheError("'/srv/secret' cannot be written"), 500, "kernels_unavailable"),
    ],
)
def test_errors_of_the_solver_thread_become_problem_documents(client, monkeypatch, error, status, code):
    def fail(*_):
        raise error

    monkeypatch.setattr(client.app.state.service.pool._runner.solver_cache, "solve_together", fail)
    reply = client.post("/v1/robots/panda/solve", json=FAILING)  # that code cannot be kept is remembered
    problem(reply, status, code)
    assert "secret" not in reply.text
