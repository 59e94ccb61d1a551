"""One key that asks for more than its share of solves, of kinds to be compiled, of turns of the compiler."""

import itertools
import random
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from ik_service import load_robot
from ik_service.service.schema.limits import MAX_SENSITIVE_EFFORT
from tests.attacks.attack import ATTACK_S, under_attack
from tests.attacks.callers import TIMEOUT_S, again_and_again, ask_once
from tests.attacks.service import KEYS
from tests.attacks.victim import PANDA

CONNECTIONS = 80
HOGS = 3
PROBLEMS = 100
LEAST_SHARE = 0.9  # of the honest caller's solves
MOST_GROWTH_MB = 500.0  # solvers of some dozen kinds, and what waits
PATTERNS = [list(pattern) for pattern in itertools.product([0, 1], repeat=6) if any(pattern)]
POSE = {"positions": [[0.3, 0.1, 0.5]], "orientations_xyzw": [[0, 0, 0, 1]]}
CHEAP = {"seeds": 1, "max_iterations": 1}
HEAD_START_S = 5.0  # of the attackers, so that all of theirs wait for the compiler
COMPILING_S = 15.0  # several kinds are compiled meanwhile
pytestmark = pytest.mark.evidence


@pytest.fixture(scope="module")
def service(start_service):
    """A service of its own: its compiler is busy for long afterwards."""
    return start_service()


def at_once(service, stop, connections, body_of):
    """Ask on many connections, again and again, what `body_of(connection, turn)` says: a robot and a body.

    Returns:
        How often each answer came; who still waits at the end goes.
    """

    def request_of(number, turn):
        robot, body = body_of(number, turn)
        return "POST", f"/v1/robots/{robot}/solve", body

    answers = again_and_again(service, stop, connections, request_of, is_cut_off=True)
    return Counter(answer.code for answer in answers)


def links_of_humanoid():
    """Names of its links, in an order that no run before had: what was asked for then is in the cache now."""
    names = [*load_robot("humanoid").link_names[1:]]
    random.Random(time.time_ns()).shuffle(names)
    return names


def flood_of_the_same_kind(service, stop):
    """Requests of the very kind that the honest caller's are of, each a hundred times as large."""
    target = {name: rows * PROBLEMS for name, rows in PANDA["targets"][0].items() if name != "link"}
    body = {"targets": [{"link": "panda_hand", **target}]}
    return at_once(service, stop, CONNECTIONS, lambda number, turn: ("panda", body))


def flood_of_derivatives(service, stop):
    """As many derivatives in a request as are allowed, of answers with a posture: the slow ones."""
    count = MAX_SENSITIVE_EFFORT // 7**2
    target = {name: rows * count for name, rows in PANDA["targets"][0].items() if name != "link"}
    posture = {"type": "posture", "joint_q_reference": [0.1] * 7, "weight": 0.05}
    body = {"targets": [{"link": "panda_hand", **target}], "objectives": [posture]}
    body["options"] = {"sensitivity": "target"}
    return at_once(service, stop, CONNECTIONS, lambda number, turn: ("panda", body))


def kinds_that_are_not_compiled(service, stop):
    """Ever new sets of three links of the humanoid, each of which needs code of its own."""
    sets = list(itertools.combinations(links_of_humanoid(), 3))

    def body_of(number, turn):
        chosen = sets[(number + CONNECTIONS * turn) % len(sets)]
        targets = [{"link": link, "positions": POSE["positions"]} for link in chosen]
        return "humanoid", {"targets": targets, "options": CHEAP}

    return at_once(service, stop, CONNECTIONS, body_of)


def many_patterns(service, stop):
    """A few requests of 63 patterns of row weights, so of about as many kernels each."""
    pairs = list(itertools.permutations(links_of_humanoid(), 2))
    columns = {name: rows * len(PATTERNS) for name, rows in POSE.items()}

    def body_of(number, turn):
        link, reference = pairs[(number + HOGS * turn) % len(pairs)]
        target = {"link": link, "reference_link": reference, "row_weights": PATTERNS, **columns}
        return "humanoid", {"targets": [target], "options": CHEAP}

    return at_once(service, stop, HOGS, body_of)


@pytest.mark.parametrize(
    ("attack", "seconds"),
    [
        (flood_of_the_same_kind, ATTACK_S),
        (flood_of_derivatives, ATTACK_S),
        (kinds_that_are_not_compiled, COMPILING_S),
        (many_patterns, COMPILING_S),
    ],
)
def test_one_key_does_not_keep_another_from_its_answers(service, attack, seconds):
    report = under_attack(service, attack, seconds=seconds, least=LEAST_SHARE)
    sys.stdout.write(f"{report.outcome}\n")
    assert report.memory_grown_mb < MOST_GROWTH_MB


def test_a_new_kind_of_another_key_is_compiled_before_all_that_one_key_asked_for(start_service):
    """The attackers ask first, for 63 times as much each; nobody's deadline ends the wait for the compiler."""

    def many_patterns_and_a_newcomer(service, stop):
        link, reference = links_of_humanoid()[:2]
        body = {"targets": [{"link": link, "reference_link": reference, "positions": POSE["positions"]}]}

        def newcomer():
            time.sleep(HEAD_START_S)
            try:
                return ask_once(service, "POST", "/v1/robots/humanoid/solve", body, key=KEYS["victim"]).code
            finally:
                stop.set()

        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(newcomer)
            hogs = many_patterns(service, stop)
            return asked.result(), hogs

    service = start_service(request_timeout_s=TIMEOUT_S)
    report = under_attack(service, many_patterns_and_a_newcomer, seconds=TIMEOUT_S, least=0.0)
    code, hogs = report.outcome
    sys.stdout.write(f"the new kind: {code}; the attackers: {hogs}\n")
    assert code == "ok"
    assert not hogs["ok"]
