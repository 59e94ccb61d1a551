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


PARTS = "tests/solver/arrays/test_parts.py"
TURNS = "tests/solver/verdict/test_turns.py"
MEMORY = "tests/service/gate/test_request_context.py"
CONNECTION = "tests/service/gate/test_connection.py"
STREAM_CONNECTION = "tests/service/gate/test_stream_connection.py"
KERNEL_BUILDER = "tests/service/pool/kernels/test_kernel_builder.py"
KERNEL_TRUST = "tests/kernels/test_kernel_trust.py"
PRETENDED_CUDA = "tests/pretended_cuda/test_pretended_cuda.py"
BULK_REFUSALS = "tests/integrations/bulk/test_bulk_refusals.py"

MUTATIONS = (
    Mutation(
        "keys are compared by one byte of their digests",
        "ik_service/service/gate/access.py",
        "hmac.compare_digest(digest, known)",
        "hmac.compare_digest(digest[:1], known[:1])",
        "tests/service/gate/test_access.py",
    ),
    Mutation(
        "solutions are copies of each other a turn apart",
        "ik_service/solver/compiled/solution_ranking.py",
        "gap = wrapped(gap)",
        "gap = gap",
        TURNS,
    ),
    Mutation(
        "the work of a caller who has gone is not cancelled",
        "ik_service/service/gate/answers.py",
        "        gone = True\n        answer.cancel()",
        "        gone = True",
        "tests/service/gate/test_answers.py",
    ),
    Mutation(
        "threads split lists of problems by places",
        "ik_service/solver/arrays/parts.py",
        "if problem[middle] < first:",
        "if middle < count[0] * part / parts:",
        PARTS,
    ),
    Mutation(
        "rows that no joint moves are not judged in a tick",
        "ik_service/control/tick_islands.py",
        "judged=self._judged_rows(rows),",
        "judged=[],",
        "tests/control/test_judgement.py",
    ),
    Mutation(
        "an answer may have any size",
        "ik_service/service/gate/gate.py",
        "if amount > most:",
        "if amount < 0:",
        MEMORY,
    ),
    Mutation(
        "large answers are not counted",
        "ik_service/service/gate/gate.py",
        "            )\n        self.reserve(amount)",
        "            )",
        MEMORY,
    ),
    Mutation(
        "large bodies are not counted",
        "ik_service/service/gate/gate.py",
        "            self.reserve(amount)\n            if",
        "            if",
        "tests/service/gate/test_gate.py",
    ),
    Mutation(
        "large answers go to the connection in one piece",
        "ik_service/service/gate/answers.py",
        "piece[start : start + PIECE_BYTES]",
        'piece if start == 0 else b""',
        "tests/service/gate/test_answers.py",
    ),
    Mutation(
        "one key may have all requests under way",
        "ik_service/service/gate/gate.py",
        "self._under_way.acquire(context.owner)",
        "self._under_way.add(context.owner)",
        "tests/service/gate/test_gate.py",
    ),
    Mutation(
        "requests are read however much is asked",
        "ik_service/service/gate/admission.py",
        "if self.pool is not None:",
        "if self.pool is None:",
        "tests/service/gate/test_unread.py",
    ),
    Mutation(
        "one key may use up what all keys share",
        "ik_service/service/queue/fair_cap.py",
        "own + amount > free",
        "own > self._most",
        "tests/service/gate/test_gate.py",
    ),
    Mutation(
        "robots are put on the event loop",
        "ik_service/service/routes/robots.py",
        "state.catalog_thread.run(owner, state.catalog.put, robot, text, replace(condition, owner=owner))",
        "asyncio.sleep(0.0, state.catalog.put(robot, text, replace(condition, owner=owner)))",
        "tests/service/catalog/test_catalog_routes.py",
    ),
    Mutation(
        "a key sends as many requests per second as it likes",
        "ik_service/service/gate/request_rate.py",
        "if tokens < 1.0:",
        "if tokens < -1e9:",
        "tests/service/gate/test_request_rate.py",
    ),
    Mutation(
        "a reset overtakes the answer to a body that still comes",
        "ik_service/service/gate/connection.py",
        "self._cycle.more_body and not self.is_closing()",
        "False",
        "tests/service/gate/test_unread.py",
    ),
    Mutation(
        "whoever has idle connections keeps them",
        "ik_service/service/gate/connection.py",
        "most = max((held for owner",
        "most = min((held for owner",
        CONNECTION,
    ),
    Mutation(
        "extra connections, for health, are kept without end",
        "ik_service/service/gate/connection.py",
        "if len(self.slots.extra) > EXTRA_MOST:",
        "if not self.slots.extra:",
        CONNECTION,
    ),
    Mutation(
        "pings have no rate",
        "ik_service/service/gate/stream_connection.py",
        "if self._control_left < 0.0:",
        "if self._control_left < -1e9:",
        STREAM_CONNECTION,
    ),
    Mutation(
        "streams are read from callers who take nothing",
        "ik_service/service/gate/stream_connection.py",
        "            self.transport.pause_reading()",
        "            pass",
        STREAM_CONNECTION,
    ),
    Mutation(
        "an owner has all turns of the compiler",
        "ik_service/service/pool/kernel_builder.py",
        "min(turns, key=lambda turn: turn[0])",
        "turns[0]",
        KERNEL_BUILDER,
    ),
    Mutation(
        "a build takes longer than its turn",
        "ik_service/service/pool/kernel_builder.py",
        "is_late = time.monotonic() > began + self._turn_s",
        "is_late = time.monotonic() < began",
        KERNEL_BUILDER,
    ),
    Mutation(
        "code that cannot be compiled is compiled again and again",
        "ik_service/service/pool/kernel_gate.py",
        "if code in self._failed and",
        "if code is None and",
        "tests/service/pool/kernels/test_kernel_gate.py",
    ),
    Mutation(
        "products along followers overflow",
        "ik_service/robots/readers/assembly.py",
        "<= size <= MAX_NUMBER",
        "<= size",
        "tests/robots/test_number_bounds.py",
    ),
    Mutation(
        "files that every user may write are believed",
        "ik_service/kernels/file_trust.py",
        "if found.st_mode & stat.S_IWOTH:",
        "if found.st_mode < 0:",
        KERNEL_TRUST,
    ),
    Mutation(
        "files of other users are believed",
        "ik_service/kernels/file_trust.py",
        "return found.st_uid not in (ROOT, os.geteuid())",
        "return found.st_uid < 0",
        KERNEL_TRUST,
    ),
    Mutation(
        "code that has not its checksum is run",
        "ik_service/kernels/kernel_cache.py",
        "return said.read_bytes() == _checksum(path)",
        "return True",
        "tests/kernels/test_kernel_cache.py",
    ),
    Mutation(
        "out of reach is never told where joints brake",
        "ik_service/control/tick/templates/answer.cpp.in",
        "(stands ? zero - 1.0 : gather(task.slowest, task.island))",
        "gather(task.slowest, task.island)",
        "tests/control/limits/test_at_the_edge.py",
    ),
    Mutation(
        "a first step commands from nowhere",
        "ik_service/control/controller.py",
        "        if joint_q is None:\n            raise InputError(",
        "        if joint_q is None:\n            return\n            raise InputError(",
        "tests/control/test_first_tick.py",
    ),
    Mutation(
        "answers stay on the turn that they were found on",
        "ik_service/solver/arrays/limit_arrays.py",
        "turns = wp.clamp(wp.floor(ahead * PER_TURN), least, most)",
        "turns = wp.float64(0.0)",
        TURNS,
    ),
    Mutation(
        "limits without a float32 between them cross",
        "ik_service/mechanism/coupling.py",
        "crossed = low > high",
        "crossed = low < low",
        "tests/solver/lm/test_limits.py",
    ),
    Mutation(
        "a bulk job takes results of another",
        "ik_service/integrations/bulk/results.py",
        "if of != (plan.digest, part.number):",
        "if of[0] is None:",
        BULK_REFUSALS,
    ),
    Mutation(
        "a solve on a GPU does not wait until it is done",
        "ik_service/kernels/host_device_array.py",
        "        wp.synchronize_stream(device.stream)",
        "        pass",
        PRETENDED_CUDA,
    ),
    Mutation(
        "a wave writes behind an array",
        "ik_service/solver/compiled/waves.py",
        "storage.next_row[0] = 0",
        "storage.next_row[1] = 0",
        PRETENDED_CUDA,
    ),
    Mutation(
        "arrays of a solver hold what was in memory before",
        "ik_service/linear_solve/islands.py",
        "wp.zeros(shapes.get(name, other)",
        "wp.empty(shapes.get(name, other)",
        PRETENDED_CUDA,
    ),
)
