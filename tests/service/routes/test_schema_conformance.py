"""Requests made from the OpenAPI document, right and wrong ones: no 5xx, and every answer as the document says."""

from contextlib import nullcontext, suppress

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from ik_service.service import create_app
from ik_service.settings import ServiceSettings

SOLVE = "POST /v1/robots/{robot}/solve"
ANSWERED = {
    "targets": [{"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]], "orientations_xyzw": [[1.0, 0.0, 0.0, 0.0]]}],
    "include": ["solutions", "islands", "advice", "active_limits"],
}
TIMEOUT_S = 300.0  # on a busy machine that has to compile kernels for a request
# Requests of every operation, and of solves: right ones, and as many wrong ones.
EXAMPLES = [(3, 20), pytest.param((100, 100), marks=pytest.mark.evidence)]

# Not checked is `positive_data_acceptance`: a document for all robots cannot say which links one has, nor that a
# quaternion has length 1.


def statuses_of(operation, mode, examples):
    """Statuses with which an operation answers requests made for it; each answer is checked."""
    seen = set()

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=examples[operation.label == SOLVE],
        deadline=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def call(case):
        seen.add(case.call_and_validate(excluded_checks=[positive_data_acceptance], timeout=TIMEOUT_S).status_code)

    with suppress(Unsatisfiable) if mode.is_negative else nullcontext():  # nothing is wrong for a GET without arguments
        call()
    return seen


@pytest.mark.parametrize("examples", EXAMPLES, ids=str)
def test_answers_are_as_the_document_says(examples):
    # An application of its own: schemathesis starts and ends it.
    app = create_app(ServiceSettings(device="cpu", insecure=True), compile_apart=False)
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    # A precondition that does not hold is told before the content is looked at.
    refusal = schema.config.checks.negative_data_rejection
    refusal.expected_statuses = [*refusal.expected_statuses, "412"]
    called = {}
    for result in schema.get_all_operations():
        operation = result.ok()
        called[operation.label] = [statuses_of(operation, mode, examples) for mode in GenerationMode]
        if operation.label == SOLVE:  # drawn requests rarely name a robot, a link and a pose within its reach
            given = {"path_parameters": {"robot": "panda"}, "media_type": "application/json"}
            answer = operation.Case(**given, body=ANSWERED).call_and_validate(timeout=TIMEOUT_S)
            assert answer.json()["success"] == [True]
    _, wrong = called[SOLVE]
    assert any(400 <= status < 500 for status in wrong)
    assert set(called) >= {"GET /v1/robots", "GET /v1/robots/{robot}", "GET /health/live"}
