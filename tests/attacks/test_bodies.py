"""One key whose bodies cost more than they say: archives that unpack to more than they state, names without end."""

import contextlib
import http.client
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.attacks.attack import for_a_moment_and_a_minute, under_attack
from tests.attacks.service import KEYS
from tests.attacks.untrue_archive import untrue_archive

MEMORY_BYTES = 64 << 20
MOST_MEMORY_MB = 400.0
LEAST_SHARE = 0.9  # of the honest caller's solves
CONNECTIONS = 4
TIMEOUT_S = 90.0
NAMES = {f"orientations_xyz{k}": 1 for k in range(250)}
MANY_NAMES = json.dumps({"targets": [NAMES] * 32}).encode()
LONG_NAME = json.dumps({"n" * 10_000_000: 1}).encode()
NOT_FINITE = b'{"x":[NaN,' + b"1," * 500_000 + b"1]}"


@pytest.fixture(scope="module")
def service(start_service):
    """A service whose requests may hold little memory."""
    return start_service(memory_bytes=MEMORY_BYTES)


def sent_again_and_again(media_type, body, key):
    """An attack: some connections that send a body, each again once it is answered."""
    headers = {"X-API-Key": key, "Content-Type": media_type}

    def on_one_connection(service, stop):
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

    def bodies_of_one_key(service, stop):
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            told = list(pool.map(on_one_connection, CONNECTIONS * [service], CONNECTIONS * [stop]))
        return sum((codes for codes, _ in told), Counter()), max(longest for _, longest in told)

    return bodies_of_one_key


@pytest.mark.evidence
@pytest.mark.parametrize(
    ("media_type", "body", "code"),
    [
        ("application/x-npz", None, "malformed_npz"),
        ("application/json", MANY_NAMES, "missing_field"),
        ("application/json", LONG_NAME, "unknown_field"),
        ("application/json", NOT_FINITE, "not_finite"),
        ("application/json", LONG_NAME, "invalid_api_key"),
    ],
    ids=["archive", "names", "name", "numbers", "stranger"],
)
@for_a_moment_and_a_minute
def test_bodies_of_one_key_cost_what_was_counted_for_them(service, media_type, body, code, seconds):
    body = untrue_archive(512) if body is None else body
    key = KEYS["attacker"] if code != "invalid_api_key" else "of-nobody-0123456789"
    report = under_attack(service, sent_again_and_again(media_type, body, key), seconds)
    codes, longest = report.outcome
    assert codes[code] > 0
    assert set(codes) <= {code, "share_exhausted", "queue_full"}
    assert longest < 64_000
    assert report.memory_peak_mb < MOST_MEMORY_MB
    assert report.solved_share >= LEAST_SHARE
    assert report.live_share >= LEAST_SHARE
    assert report.recovery_s < float("inf")
