"""The C source of a solve: it lays out memory, fills argument structs and calls the kernels that Python calls."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from string import Template
from typing import Any

import warp as wp

from ik_service.export.c_layout import CLayout
from ik_service.export.c_values import Constants, Filler, Place, c_scalar
from ik_service.solver import slots
from ik_service.solver.options import ITERATIONS_MAX, SEEDS_MAX
from ik_service.solver.recorded_solve import RecordedSolve

RESULTS = {
    "joint_q": "configurations, within the limits [m, rad], COORDINATES each",
    "success": "1 where every target is within the tolerances",
    "status": "how it ended: one of the codes above",
    "position_error": "[m], TARGETS each, recomputed in double from joint_q",
    "orientation_error": "[rad], TARGETS each",
    "cost": "1/2 |r|^2 of the weighted residual",
    "iterations": "steps of the best attempt",
    "seed_index": "start configuration that led to the answer; -1 where islands chose different ones",
    "active_limits": "1 where a DOF is at a limit, DOFS each",
}
"""What a solve gives, one line for each problem; all but the first may be NULL."""
SETTINGS = ("PROBLEM_COUNT", "SEEDS", "ITERATIONS", "HAS_START", "RANDOM_SEED", "KEEP_ALL")
"""Places of the integer settings, by their names in `slots`."""
GIVEN = {
    "given_positions": "(void *)problems->positions",
    "given_joint_q": "(void *)problems->initial_joint_q",
}
"""Where the caller's own arrays are read, with the C expression of their address."""

LAY_OUT = Template("""\
/* The next piece of the workspace, or, to see how large it is, nothing. */
static void *take(char *memory, size_t *used, size_t bytes)
{
    size_t at = *used;
    *used = at + (bytes + 63) / 64 * 64;
    return memory == NULL ? NULL : memory + at;
}

static size_t lay_out(frame *f, char *memory)
{
    size_t n = (size_t)f->count, used = 0;
$pieces
    return used;
}
""")

SOLVE = Template("""\
size_t ${prefix}_workspace_size(int32_t count)
{
    frame f;
    memset(&f, 0, sizeof f);
    f.count = count < 1 ? 1 : count;
    return lay_out(&f, NULL) + 63;
}

static int32_t check(
    const ${prefix}_problems *problems, const ${prefix}_options *options, const ${prefix}_results *results)
{
    int32_t starts;
    if (problems == NULL || results == NULL || results->joint_q == NULL) return ${PREFIX}_BAD_ARGUMENT;
    if (options->abi != ${PREFIX}_ABI) return ${PREFIX}_WRONG_ABI;
    starts = problems->initial_joint_q_count;
    if (problems->count < 0) return ${PREFIX}_BAD_ARGUMENT;
    if (problems->count > 0 && (problems->positions == NULL || problems->orientations_xyzw == NULL))
        return ${PREFIX}_BAD_ARGUMENT;
    if (starts != 0 && starts != 1 && starts != problems->count) return ${PREFIX}_BAD_ARGUMENT;
    if (starts != 0 && problems->initial_joint_q == NULL) return ${PREFIX}_BAD_ARGUMENT;
    if (options->seeds < 1 || options->seeds > $seeds_max) return ${PREFIX}_BAD_ARGUMENT;
    if (options->max_iterations < 1 || options->max_iterations > $iterations_max) return ${PREFIX}_BAD_ARGUMENT;
    if (problems->count > INT32_MAX / options->seeds) return ${PREFIX}_BAD_ARGUMENT;
    if (!(options->position_tolerance > 0.0 && options->position_tolerance <= DBL_MAX)) return ${PREFIX}_BAD_ARGUMENT;
    if (!(options->orientation_tolerance > 0.0 && options->orientation_tolerance <= DBL_MAX))
        return ${PREFIX}_BAD_ARGUMENT;
    return ${PREFIX}_OK;
}

static void set_numbers(frame *f, const ${prefix}_problems *problems, const ${prefix}_options *options)
{
    int32_t starts = problems->initial_joint_q_count, k;
    f->settings[$PROBLEM_COUNT] = problems->count;
    f->settings[$SEEDS] = options->seeds;
    f->settings[$ITERATIONS] = options->max_iterations;
    f->settings[$HAS_START] = starts != 0;
    memcpy(&f->settings[$RANDOM_SEED], &options->random_seed, sizeof options->random_seed);
    f->settings[$KEEP_ALL] = 0;
    f->tolerances[0] = (float)options->position_tolerance;
    f->tolerances[1] = (float)options->orientation_tolerance;
    f->judged_tolerances[0] = options->position_tolerance;
    f->judged_tolerances[1] = options->orientation_tolerance;
    f->given[0] = starts == 0 ? 0 : starts == problems->count ? 2 : 1; /* none, one each, one for all */
    for (k = 0; k < 2 * ${PREFIX}_TARGETS; ++k) f->given[1 + k] = 1;
    f->fault[0] = 0;
    for (k = 0; k < f->count; ++k) f->every[k] = k;
}

int32_t ${prefix}_solve(
    const ${prefix}_problems *problems,
    const ${prefix}_options *options,
    const ${prefix}_results *results,
    void *workspace,
    size_t workspace_size)
{
    static const ${prefix}_options defaults = ${PREFIX}_OPTIONS;
    frame f;
    size_t skipped;
    int32_t code;

    if (options == NULL) options = &defaults;
    code = check(problems, options, results);
    if (code != ${PREFIX}_OK || problems->count == 0) return code;
    if (workspace == NULL || workspace_size < ${prefix}_workspace_size(problems->count))
        return ${PREFIX}_SMALL_WORKSPACE;
    memset(&f, 0, sizeof f);
    f.count = problems->count;
    skipped = (64 - (size_t)((uintptr_t)workspace % 64)) % 64;
    lay_out(&f, (char *)workspace + skipped);
$given
    memcpy(f.given_orientations_xyzw, problems->orientations_xyzw,
        (size_t)f.count * ${PREFIX}_TARGETS * 4 * sizeof(double)); /* is normalised in place */
$results
    set_numbers(&f, problems, options);
$addresses
$read
    if (f.fault[0] != 0) return ${PREFIX}_BAD_NUMBER;
$solve
    return ${PREFIX}_OK;
}
""")


@dataclass
class SolveSource:
    """The C source of a solve, but for the declarations of structs and constants.

    Args:
        recorded: The solve.
        prefix: What all names begin with.
        symbols: Name of every kernel in the objects.
        layout: Where structs are declared.
        constants: Where constants are kept.

    Attributes:
        text: The source.
    """

    recorded: RecordedSolve
    prefix: str
    symbols: Mapping[wp.Kernel, str]
    layout: CLayout
    constants: Constants
    text: str = field(init=False)

    def __post_init__(self) -> None:
        """Write the source."""
        places = {array.ptr: Place(f"f->{name}", "(size_t)f->count") for name, array in self.recorded.lines.items()}
        places |= {array.ptr: Place(f"f->{name}") for name, array in self.recorded.numbers.items()}
        self._filler = Filler(self.layout, self.constants, places)
        self._addresses: list[str] = []
        self._address_members: list[str] = []
        calls = [self._call(k) for k in range(len(self.recorded.steps))]
        numbers = [_member(array, name) for name, array in self.recorded.numbers.items()]
        lines = [_pointer(array, name) for name, array in self.recorded.lines.items() if self._is_used(name)]
        members = ["int32_t count;", *numbers, *self._address_members, *lines]
        frame = "\n".join(["/* What a call works on. */", "typedef struct {", *_indented(members), "} frame;"])
        self.text = "\n\n".join([frame, self._lay_out(), *calls, self._solve()])

    def _is_used(self, name: str) -> bool:
        return f"f->{name}" in self._filler.used

    def _call(self, k: int) -> str:
        """The function of one step; notes the addresses that its task holds."""
        step = self.recorded.steps[k]
        for argument, value in zip(step.kernel.adj.args, step.arguments, strict=True):
            if argument.label == "task":
                self._note_addresses(k, value)
        size = "(size_t)f->count" if step.per_problem else "1"
        body = self._filler.call(step.kernel, self.symbols[step.kernel], step.arguments, size)
        return f"static void step_{k}(frame *f)\n{{\n{body}\n}}"

    def _note_addresses(self, k: int, task: Any) -> None:
        """Give a task's addresses, and whether there is a line for every problem behind them, a place in the frame."""
        addresses, line_counts = task.source.numpy().tolist(), task.source_lines.numpy().tolist()
        if not addresses:
            return
        self._filler.place(task.source, Place(f"f->source_{k}"))
        self._filler.place(task.source_lines, Place(f"f->source_lines_{k}"))
        count = len(addresses)
        self._address_members += [f"uint64_t source_{k}[{count}];", f"int32_t source_lines_{k}[{count}];"]
        for m, (address, lines) in enumerate(zip(addresses, line_counts, strict=True)):
            base, first, rows = self._found(address, lines)
            self._addresses.append(f"f.source_{k}[{m}] = (uint64_t)(uintptr_t)({base} + {first});")
            self._addresses.append(f"f.source_lines_{k}[{m}] = {rows};")

    def _found(self, address: int, lines: int) -> tuple[str, int, str]:
        """C expressions of the array that an address lies in, its place there, and the array's lines."""
        named = [(f"f.{name}", array) for name, array in self.recorded.lines.items()]
        named += [("", array) for array in self.recorded.data]
        for name, array in named:
            item = array.numpy().itemsize
            if array.ptr <= address < array.ptr + array.capacity:
                first = (address - array.ptr) // item
                if name:
                    self._filler.used.add(f"f->{name[2:]}")
                    return name, first, "f.count"
                return self.constants.name(array, "data"), first, str(lines)
        raise NotImplementedError("A task holds the address of an array of which nothing is known.")

    def _lay_out(self) -> str:
        pieces = []
        for name, array in self.recorded.lines.items():
            if name not in GIVEN and self._is_used(name):
                kind, width = c_scalar(array), array.size // array.shape[0]
                size = f"n * {width} * sizeof({kind})"
                pieces.append(f"f->{name} = ({kind} *)take(memory, &used, {size});")
        return LAY_OUT.substitute(pieces="\n".join(_indented(pieces)))

    def _solve(self) -> str:
        recorded = self.recorded
        steps = {"read": [f"step_{k}(&f);" for k, step in enumerate(recorded.steps) if step.phase == "read"]}
        steps["solve"] = [f"step_{k}(&f);" for k, step in enumerate(recorded.steps) if step.phase != "read"]
        given = [f"f.{name} = ({c_scalar(recorded.lines[name])} *){expression};" for name, expression in GIVEN.items()]
        results = [f"if (results->{name} != NULL) f.{name} = results->{name};" for name in RESULTS]
        return SOLVE.substitute(
            {name: int(getattr(slots, name)) for name in SETTINGS},
            prefix=self.prefix,
            PREFIX=self.prefix.upper(),
            seeds_max=SEEDS_MAX,
            iterations_max=ITERATIONS_MAX,
            given="\n".join(_indented(given)),
            results="\n".join(_indented(results)),
            addresses="\n".join(_indented(self._addresses)),
            read="\n".join(_indented(steps["read"])),
            solve="\n".join(_indented(steps["solve"])),
        )


def _member(array: "wp.array[Any]", name: str) -> str:
    return f"{c_scalar(array)} {name}[{array.size}];"


def _pointer(array: "wp.array[Any]", name: str) -> str:
    return f"{c_scalar(array)} *{name};"


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
