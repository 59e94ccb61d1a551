"""Requests made from the OpenAPI document, right and wrong ones: no 5xx, and every answer as the document says."""

from contextlib import nullcontext, suppress

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from ik_service.api import create_app
from ik_service.settings import ServiceSettings

EXAMPLES = 60  # per operation, right and wrong

# Not checked is `positive_data_acceptance`: a document for all robots cannot say which links one has, nor that a
# quaternion has length 1.


def statuses_of(operation, mode):
    """Statuses with which an operation answers requests made for it; each answer is checked."""
    seen = set()

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def call(case):
        seen.add(case.call_and_validate(excluded_checks=[positive_data_acceptance]).status_code)

    with suppress(Unsatisfiable) if mode.is_negative else nullcontext():  # nothing is wrong for a GET without arguments
        call()
    return seen


def test_answers_are_as_the_document_says():
    # An application of its own: schemathesis starts and ends it.
    app = create_app(ServiceSettings(device="cpu", insecure=True), compile_apart=False)
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    called = {}
    for result in schema.get_all_operations():
        operation = result.ok()
        called[operation.label] = [statuses_of(operation, mode) for mode in GenerationMode]
    right, wrong = called["POST /v1/robots/{robot}/solve"]
    assert 200 in right
    assert any(400 <= status < 500 for status in wrong)
    assert set(called) >= {"GET /v1/robots", "GET /v1/robots/{robot}", "GET /health/live"}
