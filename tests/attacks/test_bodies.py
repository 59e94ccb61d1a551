"""One key whose bodies cost more than they say: archives that unpack to more than they state, names without end."""

import json

import pytest

from tests.attacks.attack import under_attack
from tests.attacks.callers import JSON, again_and_again
from tests.attacks.service import KEYS
from tests.attacks.untrue_archive import untrue_archive

MOST_MEMORY_MB = 400.0
NAMES = {f"orientations_xyz{k}": 1 for k in range(250)}
LONG_NAME = json.dumps({"n" * 10_000_000: 1}).encode()
BODIES = {
    # body, media type, code of the refusal
    "archive": (None, "application/x-npz", "malformed_npz"),
    "names": (json.dumps({"targets": [NAMES] * 32}).encode(), JSON, "missing_field"),
    "name": (LONG_NAME, JSON, "unknown_field"),
    "numbers": (b'{"x":[NaN,' + b"1," * 500_000 + b"1]}", JSON, "not_finite"),
    "stranger": (LONG_NAME, JSON, "invalid_api_key"),
}
pytestmark = pytest.mark.evidence


@pytest.mark.parametrize(("body", "media_type", "code"), BODIES.values(), ids=BODIES)
def test_bodies_of_one_key_cost_what_was_counted_for_them(service, body, media_type, code):
    request = "POST", "/v1/robots/panda/solve?link=panda_hand", untrue_archive(512) if body is None else body
    key = KEYS["attacker"] if code != "invalid_api_key" else "of-nobody-0123456789"

    def bodies_of_one_key(service, stop):
        return again_and_again(service, stop, 4, lambda number, turn: request, key=key, media_type=media_type)

    report = under_attack(service, bodies_of_one_key, least=0.9)
    codes = {answer.code for answer in report.outcome}
    assert code in codes
    assert codes <= {code, "share_exhausted", "queue_full"}
    assert max(answer.size for answer in report.outcome) < 64_000
    assert report.memory_peak_mb < MOST_MEMORY_MB
