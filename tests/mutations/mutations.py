"""Faults put into the code on purpose, each beside the tests that have to notice it.

The rules that they break were mended once, after attacks and trials: a change that breaks one of them again must fail.
"""

from typing import NamedTuple


class Mutation(NamedTuple):
    """A change of one place of the code, where a text stands exactly once, and the file of tests that fails then."""

    what: str
    path: str
    before: str
    after: str
    tests: str


TABLE = {  # by a file of ik_service/ and one of tests/: fault, text before, text after
    ("service/gate/access.py", "service/gate/test_access.py"): [
        (
            "keys are compared by one byte of their digests",
            "hmac.compare_digest(digest, known)",
            "hmac.compare_digest(digest[:1], known[:1])",
        )
    ],
    ("solver/compiled/solution_ranking.py", "solver/verdict/test_turns.py"): [
        ("solutions are copies of each other a turn apart", "gap = wrapped(gap)", "gap = gap")
    ],
    ("service/gate/answers.py", "service/gate/test_answers.py"): [
        (
            "the work of a caller who has gone is not cancelled",
            "        gone = True\n        answer.cancel()",
            "        gone = True",
        ),
        (
            "large answers go to the connection in one piece",
            "piece[start : start + PIECE_BYTES]",
            'piece if start == 0 else b""',
        ),
    ],
    ("solver/arrays/parts.py", "solver/arrays/test_parts.py"): [
        (
            "threads split lists of problems by places",
            "if problem[middle] < first:",
            "if middle < count[0] * part / parts:",
        )
    ],
    ("control/tick_islands.py", "control/test_judgement.py"): [
        ("rows that no joint moves are not judged in a tick", "judged=self._judged_rows(rows),", "judged=[],")
    ],
    ("service/gate/gate.py", "service/gate/test_request_context.py"): [
        ("an answer may have any size", "if amount > most:", "if amount < 0:"),
        ("large answers are not counted", "            )\n        self.reserve(amount)", "            )"),
    ],
    ("service/gate/gate.py", "service/gate/test_gate.py"): [
        ("large bodies are not counted", "            self.reserve(amount)\n            if", "            if"),
        (
            "one key may have all requests under way",
            "self._under_way.acquire(context.owner)",
            "self._under_way.add(context.owner)",
        ),
    ],
    ("service/gate/admission.py", "service/gate/test_unread.py"): [
        ("requests are read however much is asked", "if self.pool is not None:", "if self.pool is None:")
    ],
    ("service/queue/fair_cap.py", "service/gate/test_gate.py"): [
        ("one key may use up what all keys share", "own + amount > free", "own > self._most")
    ],
    ("service/routes/robots.py", "service/catalog/test_catalog_routes.py"): [
        (
            "robots are put on the event loop",
            "state.catalog_thread.run(owner, state.catalog.put, robot, text, replace(condition, owner=owner))",
            "asyncio.sleep(0.0, state.catalog.put(robot, text, replace(condition, owner=owner)))",
        )
    ],
    ("service/gate/request_rate.py", "service/gate/test_request_shares.py"): [
        ("a key sends as many requests per second as it likes", "if tokens < 1.0:", "if tokens < -1e9:")
    ],
    ("service/gate/connection.py", "service/gate/test_unread.py"): [
        (
            "a reset overtakes the answer to a body that still comes",
            "self._cycle.more_body and not self.is_closing()",
            "False",
        )
    ],
    ("service/gate/connection.py", "service/gate/test_connection.py"): [
        ("whoever has idle connections keeps them", "most = max((held for owner", "most = min((held for owner"),
        (
            "extra connections, for health, are kept without end",
            "if len(self.slots.extra) > EXTRA_MOST:",
            "if not self.slots.extra:",
        ),
    ],
    ("service/gate/stream_connection.py", "service/gate/test_stream_connection.py"): [
        ("pings have no rate", "if self._control_left < 0.0:", "if self._control_left < -1e9:"),
        (
            "streams are read from callers who take nothing",
            "            self.transport.pause_reading()",
            "            pass",
        ),
    ],
    ("service/pool/kernel_builder.py", "service/pool/kernels/test_kernel_builder.py"): [
        ("an owner has all turns of the compiler", "min(turns, key=lambda turn: turn[0])", "turns[0]"),
        (
            "a build takes longer than its turn",
            "is_late = time.monotonic() > began + self._turn_s",
            "is_late = time.monotonic() < began",
        ),
    ],
    ("service/pool/kernel_gate.py", "service/pool/kernels/test_kernel_gate.py"): [
        (
            "code that cannot be compiled is compiled again and again",
            "if code in self._failed and",
            "if code is None and",
        )
    ],
    ("robots/readers/assembly.py", "robots/test_number_bounds.py"): [
        ("products along followers overflow", "<= size <= MAX_NUMBER", "<= size")
    ],
    ("kernels/file_trust.py", "kernels/test_kernel_trust.py"): [
        ("files that every user may write are believed", "if found.st_mode & stat.S_IWOTH:", "if found.st_mode < 0:"),
        (
            "files of other users are believed",
            "return found.st_uid not in (ROOT, os.geteuid())",
            "return found.st_uid < 0",
        ),
    ],
    ("kernels/kernel_cache.py", "kernels/test_kernel_cache.py"): [
        ("code that has not its checksum is run", "return said.read_bytes() == _checksum(path)", "return True")
    ],
    ("control/tick/templates/answer.cpp.in", "control/limits/test_at_the_edge.py"): [
        (
            "out of reach is never told where joints brake",
            "(stands ? zero - 1.0 : gather(task.slowest, task.island))",
            "gather(task.slowest, task.island)",
        )
    ],
    ("control/controller.py", "control/test_first_tick.py"): [
        (
            "a first step commands from nowhere",
            "        if joint_q is None:\n            raise InputError(",
            "        if joint_q is None:\n            return\n            raise InputError(",
        )
    ],
    ("solver/arrays/limit_arrays.py", "solver/verdict/test_turns.py"): [
        (
            "answers stay on the turn that they were found on",
            "turns = wp.clamp(wp.floor(ahead * PER_TURN), least, most)",
            "turns = wp.float64(0.0)",
        )
    ],
    ("mechanism/coupling.py", "solver/lm/test_limits.py"): [
        ("limits without a float32 between them cross", "crossed = low > high", "crossed = low < low")
    ],
    ("integrations/bulk/results.py", "integrations/bulk/test_bulk_refusals.py"): [
        ("a bulk job takes results of another", "if of != (plan.digest, part.number):", "if of[0] is None:")
    ],
    ("kernels/host_device_array.py", "pretended_cuda/test_pretended_cuda.py"): [
        (
            "a solve on a GPU does not wait until it is done",
            "        wp.synchronize_stream(device.stream)",
            "        pass",
        )
    ],
    ("solver/compiled/waves.py", "pretended_cuda/test_pretended_cuda.py"): [
        ("a wave writes behind an array", "storage.next_row[0] = 0", "storage.next_row[1] = 0")
    ],
    ("linear_solve/islands.py", "pretended_cuda/test_pretended_cuda.py"): [
        (
            "arrays of a solver hold what was in memory before",
            "wp.zeros(shapes.get(name, other)",
            "wp.empty(shapes.get(name, other)",
        )
    ],
}
MUTATIONS = tuple(
    Mutation(what, f"ik_service/{path}", before, after, f"tests/{tests}")
    for (path, tests), rows in TABLE.items()
    for what, before, after in rows
)
