"""The function of an export that solves: it checks what it is given and calls the kernels that Python calls."""

from collections.abc import Mapping
from string import Template

import warp as wp

from ik_service.export.c_code.structs import CLayout
from ik_service.export.c_code.values import Constants, c_scalar
from ik_service.export.entries.solve_example import EXAMPLE, example_problems
from ik_service.export.frames.call_frame import TAKE, Frame, indented
from ik_service.export.texts.files import SOLVE_ADVICE, c_comment
from ik_service.solver import IKSolver
from ik_service.solver.lm import codes
from ik_service.solver.options import ITERATIONS_MAX, SEEDS_MAX
from ik_service.solver.problems.input_kernels import SOLVE_IO
from ik_service.solver.recorded_launches import RecordedLaunches
from ik_service.solver.solver import DEFAULT_SEEDS

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
C_TYPES = {
    "joint_q": "float",
    "success": "uint8_t",
    "status": "int8_t",
    "position_error": "double",
    "orientation_error": "double",
    "cost": "float",
    "active_limits": "uint8_t",
}
"""C types of results; others are int32_t."""
SETTINGS = ("PROBLEM_COUNT", "SEEDS", "ITERATIONS", "HAS_START", "RANDOM_SEED", "KEEP_ALL")
"""Places of the integer settings, by their names in `codes`."""
GIVEN = {
    "given_positions": "(void *)problems->positions",
    "given_joint_q": "(void *)problems->initial_joint_q",
}
"""Where the caller's own arrays are read, with the C expression of their address."""

SOLVE_TYPES = Template("""\
#define ${PREFIX}_TARGETS $targets /* of a problem, in this order: $links */
#define ${PREFIX}_ORIENTATIONS $orientations /* 0: targets are positions alone, and orientations are not read */

typedef struct {
    uint32_t abi;                 /* ${PREFIX}_ABI */
    int32_t seeds;                /* start configurations, 1 to $seeds_max: one after the other until one succeeds */
    int32_t max_iterations;       /* of one attempt, 1 to $iterations_max */
    uint32_t random_seed;         /* shifts the start configurations */
    double position_tolerance;    /* largest position error of a success [m] */
    double orientation_tolerance; /* largest orientation error of a success [rad] */
} ${prefix}_options;

/* Begin with these: ${prefix}_options options = ${PREFIX}_OPTIONS; */
#define ${PREFIX}_OPTIONS \\
    { ${PREFIX}_ABI, $seeds, $max_iterations, $random_seed, $position_tolerance, $orientation_tolerance }

typedef struct {
    int32_t count;                  /* problems */
    const double *positions;        /* [count][TARGETS][3] in the world frame$reference */
    const double *orientations_xyzw; /* [count][TARGETS][4], of unit length to 1e-3; see ORIENTATIONS */
    const double *initial_joint_q;  /* [initial_joint_q_count][COORDINATES]: first start configurations, or NULL */
    int32_t initial_joint_q_count;  /* 0: the middle of the ranges; 1: one for all; or count */
} ${prefix}_problems;

/* Arrays of the caller with a line for every problem; all but joint_q may be NULL. */
typedef struct {
$results
} ${prefix}_results;
""")
SOLVE_HEADER = Template("""\
/* Returns the bytes of workspace that ${prefix}_solve needs for so many problems; any alignment will do. */
size_t ${prefix}_workspace_size(int32_t count);

/*
 * Solves problems and returns one of the codes above. That a target is not reached is no error: see `success`.
 * Answers do not depend on what else is in the batch. `options` may be NULL. Results other than those of the last call
 * with ${PREFIX}_OK are undefined. The arrays of problems and results and the workspace must not overlap.
 */
int32_t ${prefix}_solve(
    const ${prefix}_problems *problems,
    const ${prefix}_options *options,
    const ${prefix}_results *results,
    void *workspace,
    size_t workspace_size);
""")
CHECKS = Template("""\
static int32_t check(
    const ${prefix}_problems *problems, const ${prefix}_options *options, const ${prefix}_results *results)
{
    int32_t starts;
    if (problems == NULL || results == NULL || results->joint_q == NULL) return ${PREFIX}_BAD_ARGUMENT;
    if (options->abi != ${PREFIX}_ABI) return ${PREFIX}_WRONG_ABI;
    starts = problems->initial_joint_q_count;
    if (problems->count < 0) return ${PREFIX}_BAD_ARGUMENT;
    if (problems->count > 0 && problems->positions == NULL) return ${PREFIX}_BAD_ARGUMENT;
    if (problems->count > 0 && ${PREFIX}_ORIENTATIONS && problems->orientations_xyzw == NULL)
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

static void set_numbers(solve_frame *f, const ${prefix}_problems *problems, const ${prefix}_options *options)
{
    int32_t starts = problems->initial_joint_q_count, k;
    f->numbers.settings[$PROBLEM_COUNT] = problems->count;
    f->numbers.settings[$SEEDS] = options->seeds;
    f->numbers.settings[$ITERATIONS] = options->max_iterations;
    f->numbers.settings[$HAS_START] = starts != 0;
    memcpy(&f->numbers.settings[$RANDOM_SEED], &options->random_seed, sizeof options->random_seed);
    f->numbers.settings[$KEEP_ALL] = 0;
    f->numbers.tolerances[0] = (float)options->position_tolerance;
    f->numbers.tolerances[1] = (float)options->orientation_tolerance;
    f->numbers.judged_tolerances[0] = options->position_tolerance;
    f->numbers.judged_tolerances[1] = options->orientation_tolerance;
    f->numbers.given[0] = starts == 0 ? 0 : starts == problems->count ? 2 : 1; /* none, one each, one for all */
    for (k = 0; k < 2 * ${PREFIX}_TARGETS; ++k) f->numbers.given[1 + k] = k % 2 == 0 || ${PREFIX}_ORIENTATIONS;
    f->numbers.fault[0] = 0;
}
""")
SOLVE = Template("""\
size_t ${prefix}_workspace_size(int32_t count)
{
    solve_frame f;
    memset(&f, 0, sizeof f);
    f.count = count < 1 ? 1 : count;
    return lay_out_solve(&f, NULL) + 63;
}

int32_t ${prefix}_solve(
    const ${prefix}_problems *problems,
    const ${prefix}_options *options,
    const ${prefix}_results *results,
    void *workspace,
    size_t workspace_size)
{
    static const ${prefix}_options defaults = ${PREFIX}_OPTIONS;
    solve_frame f;
    size_t skipped;
    int32_t code, k;

    if (options == NULL) options = &defaults;
    code = check(problems, options, results);
    if (code != ${PREFIX}_OK || problems->count == 0) return code;
    if (workspace == NULL || workspace_size < ${prefix}_workspace_size(problems->count))
        return ${PREFIX}_SMALL_WORKSPACE;
    memset(&f, 0, sizeof f);
    f.count = problems->count;
    skipped = (64 - (size_t)((uintptr_t)workspace % 64)) % 64;
    lay_out_solve(&f, (char *)workspace + skipped);
$given
    if (${PREFIX}_ORIENTATIONS) /* they are normalised in place */
        memcpy(f.given_orientations_xyzw, problems->orientations_xyzw,
            (size_t)f.count * ${PREFIX}_TARGETS * 4 * sizeof(double));
$taken
    set_numbers(&f, problems, options);
    for (k = 0; k < f.count; ++k) f.every[k] = k;
    set_addresses_of_solve(&f);
$read
    if (f.numbers.fault[0] != 0) return ${PREFIX}_BAD_NUMBER;
$solve
    return ${PREFIX}_OK;
}
""")


class SolveEntry:
    """The function `PREFIX_solve`.

    Args:
        solver: The solver.
        prefix: What all names begin with.
        orientations: Whether targets have orientations, or are positions alone.
        problem_count: Targets in the file of the example.

    Attributes:
        name: What names of its kernels hold.
        recorded: Its launches.
        objects: Names of its objects.
        prologue: What comes before all includes of the source.
        example: The example program and what it reads.
        advice: What a host should know.

    Raises:
        EngineError: The solver cannot be exported.
    """

    name, prologue, advice = "solve", "", SOLVE_ADVICE
    objects: tuple[str, ...] = ("io", "islands")
    example = ("example", "problems.bin")

    def __init__(self, solver: IKSolver, prefix: str, *, orientations: bool, problem_count: int) -> None:
        self._solver, self._prefix, self._orientations = solver, prefix, orientations
        self._problem_count = problem_count
        self.recorded = solver.recorded(orientations=orientations)

    def object_of(self, kernel: wp.Kernel) -> str:
        """Return the name of the object that holds a kernel: those of all solves apart from those made for islands."""
        return "io" if kernel.module is SOLVE_IO else "islands"

    def texts(self, symbols: Mapping[wp.Kernel, str], layout: CLayout, constants: Constants) -> tuple[str, str]:
        """Return its part of the header, and its source but for the declarations of structs and constants.

        Args:
            symbols: Names of the kernels in the objects.
            layout: Where structs are declared.
            constants: Where constants are kept.
        """
        frame = Frame(self.name, self.recorded, symbols, layout, constants)
        words = solve_words(self._solver, self._prefix, orientations=self._orientations) | array_words(self.recorded)
        words["read"] = "\n".join(indented(frame.calls("read")))
        words["solve"] = "\n".join(indented(frame.calls("solve", "judge")))
        header = "\n".join(template.substitute(words) for template in (SOLVE_TYPES, SOLVE_HEADER))
        return header, "\n\n".join([TAKE, frame.source(GIVEN), CHECKS.substitute(words), SOLVE.substitute(words)])

    def example_files(self, words: Mapping[str, object]) -> dict[str, bytes]:
        """Return the example program and what it reads.

        Args:
            words: What all texts tell of the robot.
        """
        program, data = self.example
        problems = example_problems(self._solver, self._problem_count, orientations=self._orientations)
        return {f"{program}.c": EXAMPLE.substitute(words).encode(), data: problems}


def solve_words(solver: IKSolver, prefix: str, *, orientations: bool) -> dict[str, object]:
    """Return what texts tell of the solves of a solver.

    Args:
        solver: The solver.
        prefix: What all names begin with.
        orientations: Whether targets have orientations.
    """
    options, PREFIX = solver.options, prefix.upper()
    results = [f"    {C_TYPES.get(name, 'int32_t')} *{name}; /* {text} */" for name, text in RESULTS.items()]
    relative = any(target.reference_link for target in solver.targets)
    return {
        **{name: int(getattr(codes, name)) for name in SETTINGS},
        "prefix": prefix,
        "PREFIX": PREFIX,
        "reference": ", or of the target's reference link" if relative else "",
        "targets": len(solver.targets),
        "links": c_comment(", ".join(target.link for target in solver.targets)),
        "orientations": int(orientations),
        "seeds_max": SEEDS_MAX,
        "iterations_max": ITERATIONS_MAX,
        "seeds": options.seeds if options.seeds is not None else DEFAULT_SEEDS,
        "max_iterations": options.max_iterations,
        "random_seed": f"{options.random_seed}u",
        "position_tolerance": repr(float(options.position_tolerance)),
        "orientation_tolerance": repr(float(options.orientation_tolerance)),
        "results": "\n".join(results),
    }


def array_words(recorded: RecordedLaunches) -> dict[str, object]:
    """Return the statements by which a solve takes the caller's arrays into its frame `f`."""
    lines = recorded.lines
    given = [f"f.{name} = ({c_scalar(lines[name])} *){expression};" for name, expression in GIVEN.items()]
    taken = [f"if (results->{name} != NULL) f.{name} = results->{name};" for name in RESULTS]
    return {"given": "\n".join(indented(given)), "taken": "\n".join(indented(taken))}
