"""Options of the solver: budgets, tolerances, joint limits and Jacobians. Checked when made."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal

from ik_service.mechanism.names import unknown_name
from ik_service.solver.lm.codes import SAMPLERS
from ik_service.solver.lm.ranking import PRECISE_ORIENTATION, PRECISE_POSITION
from objectives import IKJacobianType, InputError

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

JointLimits = Literal["hard", "soft", "off"]
JacobianMode = Literal["analytic", "autodiff", "mixed"]

DEFAULT_SEEDS = 64  # where every seed is run, and of the staged engine
SOLUTION_SEEDS = 256  # where several solutions are wanted in the order of seeds
SEARCH_SEEDS = 1024  # of the compiled engine: a seed starts only if all before it have failed
SEARCH_ITERATIONS = 40  # of an attempt; fewer iterations give fewer seeds
SEEDS_MAX = 4096
ATTEMPTS_MAX = 2**31 - 1  # of a solve: they are numbered in 32 bits
ITERATIONS_MAX = 10_000
OF_SOLVER = ("joint_limits", "jacobian_mode", "candidates", "check_jacobians", "use_graph")  # fixed with the solver
CANDIDATES_MAX = 8
SOLUTIONS_MAX = 256
ALL_SOLUTIONS = 16  # most isolated solutions of an arm of six joints


@dataclass(frozen=True, kw_only=True)
class SolverOptions:
    """Budgets and tolerances of a solve.

    Attributes:
        seeds: Start configurations tried per problem, one after another until one succeeds; an upper bound with
            `deadline_s`. None is SEARCH_SEEDS at most, fewer if `max_iterations` is less than 40. The compiled engine
            then ends the search of a problem without success once the least cost has come up 12 times, or 16 times if
            several targets share joints; an attempt stopped by joint limits counts 0, an attempt stopped away from a
            minimum counts 1/8. The search ends after 64 seeds if there are no targets, and after 256 and a quarter of
            the seeds if targets are met only in contact. With `solutions` None is SOLUTION_SEEDS; with `best_of` and in
            the staged engine DEFAULT_SEEDS.
        max_iterations: Levenberg-Marquardt iterations of one attempt. Without targets the compiled engine on a CPU
            continues the best attempt for up to four times as many if it has used them up; results do not count these.
            In this engine attempts near targets with lower-priority rows have four times as many, and count them.
        position_tolerance: Largest position error of a success [m].
        orientation_tolerance: Largest orientation error of a success [rad].
        deadline_s: Time of the search after which no attempt begins [s], in the compiled engine on a GPU at most one
            more wave of attempts; None for none. Problems unsolved by then return the best attempt so far, with status
            DEADLINE. Answers then depend on the time; with `best_of` and `solutions` solved problems have chosen among
            fewer attempts. The first solves of a kind load and record code; this time does not count. `IKSolver.warmup`
            does this beforehand.
        random_seed: Seed of the sampler; equal values give equal bytes.
        sampler: Distribution of starts after `initial_joint_q` and the middle of the ranges: "roberts" is one
            quasi-random sequence through the ranges, with the most even coverage; "uniform" is independent; "gauss" is
            around `initial_joint_q`, or the middle without one; "none": this configuration is the only start.
        noise_std: Standard deviation of the sampler "gauss" [rad or m].
        best_of: None takes the first seed that succeeds; "cost" runs all and takes the least cost, "nearest" the
            success whose largest joint change from `initial_joint_q`, as given, is least, whole turns counted,
            "clearance" the success furthest from contact, up to 1 m, if collision is checked; islands are chosen
            independently. Without targets "clearance" chooses among converged attempts.
        approximate: Attempt returned for an unsolved problem: None is the attempt of least cost, "nearest" the attempt
            of the first seed: the minimum reached from `initial_joint_q`.
        want: "success" asks only whether a target is within reach, and for the configuration if it is: a target that is
            proven out of reach before the first attempt gets none. Its `joint_q` is then the start, its cost NaN.
        solutions: Distinct solutions per problem; "all" is for up to ALL_SOLUTIONS. An arm with a closed form gives its
            branches, with seven joints samples, see `complete` of a result. Otherwise seeds are run until this number
            is found or 64 in a row bring no new solution, and with `best_of` all. Without targets, a solution is an
            attempt of cost zero, or otherwise one at a minimum; the least cost comes first.
        solution_difference: Two solutions are distinct if some joint, angles taken modulo a turn, differs by more than
            this [m or rad].
        precision: "float64" finishes in double precision, to about 1e-9 m and in up to four times as many iterations,
            and returns float64.
        collision: "self" checks links against each other, "world" also against a given world, "off" checks nothing;
            None is "world" if a world is given, else "self" if the robot has a collision model.
        margin: Least distance from contact of a success [m].
        world_clearance: Whether a result has `world_clearance`, which takes more time among many objects.
        repair: Whether answers in contact are moved out of contact, as far as limits and tolerances allow; takes some
            milliseconds. Only with one solution per problem, and for robots without loops.
        sensitivity: "target" adds the derivatives of answers by their targets: `joint_q_by_targets` and
            `is_differentiable`, as in `IKSolver.linearise`; None adds nothing.
        joint_limits: "hard" keeps every configuration inside the limits, exactly; only if no float32 lies between two
            limits, float32 answers are outside by half a step of float32 at most (6e-8 of the value). "soft" adds
            penalty rows outside the limits; "off" ignores limits.
        jacobian_mode: "analytic" (autodiff only for objectives without an analytic Jacobian), "autodiff" or "mixed".
        candidates: Trial steps evaluated side by side in every iteration, of different damping and length; the best
            is kept.
        check_jacobians: Compare every objective's Jacobian with finite differences at the start of each solve, and
            raise where they differ. Slow; for developing objectives.
        use_graph: Record an iteration once and replay it. Switch off to debug objectives.
    """

    seeds: int | None = None
    max_iterations: int = 40
    position_tolerance: float = 1e-3
    orientation_tolerance: float = 1e-2
    deadline_s: float | None = None
    random_seed: int = 0
    sampler: Literal["roberts", "uniform", "gauss", "none"] = "roberts"
    noise_std: float = 0.1
    best_of: Literal["cost", "nearest", "clearance"] | None = None
    approximate: Literal["nearest"] | None = None
    want: Literal["answer", "success"] = "answer"
    solutions: int | Literal["all"] = 1
    solution_difference: float = 0.1
    precision: Literal["float32", "float64"] = "float32"
    collision: Literal["self", "world", "off"] | None = None
    margin: float = 0.0
    world_clearance: bool = False
    repair: bool = False
    sensitivity: Literal["target"] | None = None
    joint_limits: JointLimits = "hard"
    jacobian_mode: JacobianMode | IKJacobianType = "analytic"
    candidates: int = 1
    check_jacobians: bool = False
    use_graph: bool = True

    def __post_init__(self) -> None:
        """Refuse values outside the allowed ranges; InputError with the option, its value and the allowed values."""
        if self.seeds is not None:
            _check_integer("seeds", self.seeds, 1, SEEDS_MAX)
        _check_integer("max_iterations", self.max_iterations, 1, ITERATIONS_MAX)
        if self.deadline_s is not None:
            _check_tolerance("deadline_s", self.deadline_s)
        _check_integer("random_seed", self.random_seed, 0, 2**32 - 1)
        _check_choice("sampler", self.sampler, tuple(SAMPLERS))
        _check_tolerance("noise_std", self.noise_std)
        _check_integer("candidates", self.candidates, 1, CANDIDATES_MAX)
        _check_tolerance("position_tolerance", self.position_tolerance)
        _check_tolerance("orientation_tolerance", self.orientation_tolerance)
        if self.solutions != "all":
            _check_integer("solutions", self.solutions, 1, SOLUTIONS_MAX)
        _check_tolerance("solution_difference", self.solution_difference)
        _check_choice("best_of", self.best_of, (None, "cost", "nearest", "clearance"))
        _check_choice("want", self.want, ("answer", "success"))
        _check_choice("approximate", self.approximate, (None, "nearest"))
        _check_choice("precision", self.precision, ("float32", "float64"))
        _check_choice("collision", self.collision, (None, "self", "world", "off"))
        if isinstance(self.margin, bool) or not isinstance(self.margin, Real) or not 0.0 <= float(self.margin) < 1e6:
            raise InputError(f"Option margin is {self.margin!r}. Allowed: a number from 0 to 1e6 m.")
        _check_choice("sensitivity", self.sensitivity, (None, "target"))
        if self.precision == "float64" and self.solution_count > 1:
            raise InputError(
                "Option precision='float64' gives one solution. Use solutions=1, or solve again from each."
            )
        if self.repair and self.solution_count > 1:
            raise InputError("Option repair is for one solution of each problem. Use solutions=1.")
        _check_choice("joint_limits", self.joint_limits, ("hard", "soft", "off"))
        self.jacobian_type()
        for name in ("world_clearance", "repair", "check_jacobians", "use_graph"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"Option {name} is {getattr(self, name)!r}. Allowed: True, False.")

    @cached_property
    def seed_count(self) -> int:
        """Start configurations of a problem if all are run, and in the staged engine."""
        if self.sampler == "none":
            return 1
        if self.seeds is not None:
            return self.seeds
        return SOLUTION_SEEDS if self.solution_count > 1 and self.best_of is None else DEFAULT_SEEDS

    @cached_property
    def search_seeds(self) -> int:
        """Largest number of start configurations per problem in the compiled engine."""
        if self.seeds is not None or self.sampler == "none" or self.runs_all_seeds:
            return self.seed_count
        return max(DEFAULT_SEEDS, SEARCH_SEEDS * min(self.max_iterations, SEARCH_ITERATIONS) // SEARCH_ITERATIONS)

    @cached_property
    def runs_all_seeds(self) -> bool:
        """Return whether seeds are run after the first success: all seeds, or until there are enough solutions."""
        return self.best_of is not None or self.solution_count > 1

    @cached_property
    def solution_count(self) -> int:
        """Number of solutions asked for."""
        return ALL_SOLUTIONS if self.solutions == "all" else self.solutions

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, field.name) for field in fields(self)))

    def __hash__(self) -> int:
        """Return a hash, equal for equal options; options are the key of many caches used in every request."""
        return self._hash

    def __getstate__(self) -> dict[str, object]:
        """Return the options alone: another process has other hashes of texts."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def jacobian_type(self) -> IKJacobianType:
        """Return the Jacobian mode as a member of the objectives' enumeration; InputError for an unknown mode."""
        if isinstance(self.jacobian_mode, IKJacobianType):
            return self.jacobian_mode
        by_name = {member.name.lower(): member for member in IKJacobianType}
        if self.jacobian_mode not in by_name:
            raise InputError(
                f"Option jacobian_mode is {self.jacobian_mode!r}. Allowed: {', '.join(map(repr, by_name))}."
            )
        return by_name[self.jacobian_mode]

    def search_tolerances(self, length_unit: float) -> tuple[float, float]:
        """Return the tolerances of position [m] and orientation [rad] for the choice among float32 attempts.

        With a float64 finish, never below the precision of float32: otherwise all attempts would fail.
        """
        if self.precision == "float32":
            return self.position_tolerance, self.orientation_tolerance
        position = max(self.position_tolerance, PRECISE_POSITION * length_unit)
        return position, max(self.orientation_tolerance, PRECISE_ORIENTATION)

    def of_solve(self, changes: "dict[str, object] | SolverOptions | None") -> "SolverOptions":
        """Return the options of one solve: these options with changes, by name or all options; None for none.

        InputError for an unknown option, a value that is not allowed, or an option that is fixed for a solver.
        """
        if changes is None:
            return self
        if isinstance(changes, SolverOptions):
            if all(getattr(changes, name) == getattr(self, name) for name in OF_SOLVER):
                return changes
            given, names = changes, [field.name for field in fields(self)]
            changes = {name: getattr(given, name) for name in names if getattr(given, name) != getattr(self, name)}
        if not isinstance(changes, dict):
            raise InputError(f"options is {changes!r}. Allowed: a dict of option names and values, or SolverOptions.")
        try:
            return _of_solve(self, tuple((name, type(value), value) for name, value in changes.items()))
        except TypeError:  # an unhashable value is not allowed, and reported there
            return self.merged(changes)

    def merged(self, changes: "dict[str, object] | None") -> "Self":
        """Return these options with some changed; InputError for an unknown option, or a value that is not allowed."""
        if not changes:
            return self
        known = [field.name for field in fields(self)]
        for name in changes:
            if name not in known:
                raise InputError(unknown_name(f"Unknown option {name!r}.", "Option", known, name))
        values: dict[str, Any] = dict(changes)  # checked in __post_init__
        return replace(self, **values)


@lru_cache(maxsize=256)
def _of_solve(options: SolverOptions, changes: tuple[tuple[str, type, Any], ...]) -> SolverOptions:
    """Return options of a solve, cached: callers of many small solves repeat the same changes.

    The key holds types because True equals 1 and is not allowed for numbers.
    """
    merged = options.merged({name: value for name, _, value in changes})
    for name, _, _ in changes:
        if name in OF_SOLVER:
            others = tuple(field.name for field in fields(options) if field.name not in OF_SOLVER)
            raise InputError(f"Option {name!r} is fixed when the solver is made. Per solve: {others}.")
    return merged


def _check_choice(name: str, value: object, allowed: Sequence[object]) -> None:
    if value not in allowed:
        raise InputError(f"Option {name} is {value!r}. Allowed: {', '.join(map(repr, allowed))}.")


def _check_integer(name: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) <= most:
        raise InputError(f"Option {name} is {value!r}. Allowed: a whole number from {least} to {most}.")


def _check_tolerance(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < math.inf:
        raise InputError(f"Option {name} is {value!r}. Allowed: a finite number above 0.")
