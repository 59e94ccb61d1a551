"""One key whose bodies cost more than they say: archives that unpack to more than they state, names without end."""

import contextlib
import http.client
import json
from collections import Counter

import pytest

from tests.attacks.attack import for_a_moment_and_a_minute, under_attack
from tests.attacks.service import KEYS
from tests.attacks.untrue_archive import untrue_archive

MEMORY_BYTES = 64 << 20
MOST_MEMORY_MB = 400.0
LEAST_SHARE = 0.9  # of the honest caller's solves
TIMEOUT_S = 90.0
ARCHIVE = untrue_archive(512)
NAMES = {f"orientations_xyz{k}": 1 for k in range(250)}
MANY_NAMES = json.dumps({"targets": [NAMES] * 32}).encode()
LONG_NAME = json.dumps({"n" * 10_000_000: 1}).encode()
NOT_FINITE = b'{"x":[NaN,' + b"1," * 500_000 + b"1]}"


@pytest.fixture(scope="module")
def service(start_service):
    """A service whose requests may hold little memory."""
    return start_service(memory_bytes=MEMORY_BYTES)


def sent_again_and_again(media_type, body):
    """An attack: one connection that sends a body, again once it is answered."""

    def bodies_of_one_key(service, stop):
        headers = {"X-API-Key": KEYS["attacker"], "Content-Type": media_type}
        codes, longest = Counter(), 0
        with contextlib.closing(service.connect(TIMEOUT_S)) as connection:
            while not stop.is_set():
                try:
                    connection.request("POST", "/v1/robots/panda/solve?link=panda_hand", body, headers)
                    content = connection.getresponse().read()
                except (OSError, http.client.HTTPException):
                    connection.close()
                    continue
                codes[json.loads(content).get("code", "ok")] += 1
                longest = max(longest, len(content))
        return codes, longest

    return bodies_of_one_key


@pytest.mark.parametrize(
    ("media_type", "body", "code"),
    [
        ("application/x-npz", ARCHIVE, "malformed_npz"),
        ("application/json", MANY_NAMES, "missing_field"),
        ("application/json", LONG_NAME, "unknown_field"),
        ("application/json", NOT_FINITE, "not_finite"),
    ],
    ids=["archive", "names", "name", "numbers"],
)
@for_a_moment_and_a_minute
def test_bodies_of_one_key_cost_what_was_counted_for_them(service, media_type, body, code, seconds):
    report = under_attack(service, sent_again_and_again(media_type, body), seconds)
    codes, longest = report.outcome
    assert codes[code] > 0
    assert set(codes) <= {code, "share_exhausted", "queue_full"}
    assert longest < 64_000
    assert report.memory_peak_mb < MOST_MEMORY_MB
    assert report.solved_share >= LEAST_SHARE
    assert report.live_share >= LEAST_SHARE
    assert report.recovery_s < float("inf")
