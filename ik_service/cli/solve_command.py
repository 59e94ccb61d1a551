"""`ik-service solve`: a file of targets to a file of results, or random reachable targets to a report."""

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ik_service.cli.console import message_console, progress_bar
from ik_service.cli.default_links import default_links
from ik_service.cli.random_report import print_report, random_request, report_of
from ik_service.cli.solve_files import check_output, csv_text, read_targets, write_answer
from ik_service.mechanism.caller_order import CallerOrder
from ik_service.robots import RobotModel, load_robot, load_world
from ik_service.service.pool.solver_cache import SolverCache
from ik_service.service.queue.solve_request import MotionCall, SolveRequest, TimedResult
from ik_service.solver.candidates import Choice, read_groups
from ik_service.solver.given.requested_limits import LimitReading
from ik_service.solver.lm.status import IKStatus
from ik_service.solver.result import IKResult
from ik_service.solver.verdict.advice import advice
from objectives.errors import InputError

ADVISED_PROBLEMS = 1000  # most failed problems with a look-up of advice
ADVICE_LINES = 5


@dataclass(frozen=True)
class Job:
    """Options of both forms of the command."""

    robot: str  # built-in name or path
    links: tuple[str, ...]  # given links; empty for the default link
    device: str  # device of the solve
    options: Mapping[str, object]  # solver options of the caller
    world: Path | None = None  # file of a world; None for the world of a .json file, if any
    # requested limits of joints, NAME=LOWER:UPPER each, in addition to the limits of a .json file
    joint_limits: tuple[str, ...] = ()
    criterion: Any = None  # value of a choice among candidates; None for that of the file
    motion: MotionCall | None = None  # motion through the targets, with the arguments given; None for single solves

    def with_options(self, robot: RobotModel, request: SolveRequest) -> SolveRequest:
        """Return the request with the caller's options and world instead of its own, and with narrower limits."""
        request = replace(request, options=request.options.merged(dict(self.options)))
        if self.criterion is not None:
            groups = read_groups(None, None, None, request.problem_count)
            choice = request.choice or Choice(groups, "first", None, None)
            request = replace(request, choice=choice._replace(criterion=self.criterion))
        if self.motion is not None:
            own = {**({} if request.motion is None else request.motion.arguments), **self.motion.arguments}
            if "dt" not in own:
                raise InputError("Give --dt, the time from row to row [s].")
            if request.choice is not None or request.batch.start is not None:
                raise InputError("A motion has positions and orientations alone. Leave the other columns out.")
            request = replace(request, motion=MotionCall(self.motion.call, own))
        if self.joint_limits:
            batch = request.batch
            reading = LimitReading(robot, CallerOrder(robot, None), batch.start, batch.problem_count, batch.limits)
            reading.narrow(dict(map(_named_limits, self.joint_limits)))
            request = replace(request, batch=batch._replace(limits=reading.found()))
        return request if self.world is None else replace(request, world=load_world(self.world), object_enabled=None)


def _named_limits(text: str) -> tuple[str, tuple[float, float]]:
    """Return a name and its limits, from NAME=LOWER:UPPER."""
    name, _, ends = text.rpartition("=")
    lower, _, upper = ends.partition(":")
    try:
        return name, (float(lower), float(upper))
    except ValueError:
        raise InputError(f"--joint-limits {text}: give NAME=LOWER:UPPER, such as elbow=-1.5:1.5.") from None


def solve_file(job: Job, targets: Path, output: Path | None) -> bool:
    """Solve the targets of a file and write the results; return whether any problem was solved.

    InputError for a wrong input, or a file that cannot be read or written.
    """
    check_output(output)
    robot = load_robot(job.robot)
    links = job.links if targets.suffix == ".json" else default_links(robot, job.links)
    decoded = read_targets(targets, robot, links, "" if job.motion is None else job.motion.call)
    decoded = replace(decoded, request=job.with_options(robot, decoded.request))
    request = decoded.request
    answer = _solve(SolverCache(job.device), robot, request)
    result = answer.result
    if output is None:
        sys.stdout.write(csv_text(robot, decoded, answer))
        sys.stdout.flush()  # before the messages
    else:
        write_answer(output, robot, decoded, answer)
    solved, count = int(getattr(result, "success", result.status != IKStatus.UNSETTLED).sum()), len(result)
    where = f", written to {output}" if output is not None else ""
    console = message_console()
    reached = ", ".join(target.link for target in request.targets)
    console.print(f"{solved} of {count} solved for {reached} in {answer.solve_ms / 1e3:.3g} s{where}.", markup=False)
    for line in advice_lines(robot, request, result) if not request.is_alone else ():
        console.print(line, markup=False)
    return solved > 0


def advice_lines(robot: RobotModel, request: SolveRequest, result: IKResult) -> list[str]:
    """Return a line of advice for each kind of failure, the most frequent first."""
    failed: dict[str, list[int]] = {}
    names = () if result.clearance is None else request.collision_names(robot)
    for problem in np.flatnonzero(~result.success)[:ADVISED_PROBLEMS].tolist():
        given = (robot, request.targets, request.options, result, result.islands)
        said = advice(*given, problem=problem, collision_names=names, batch=request.batch)
        failed.setdefault(said, []).append(problem)
    common = sorted(failed.items(), key=lambda entry: -len(entry[1]))[:ADVICE_LINES]
    return [
        f"Problem {problems[0]}{f' and {len(problems) - 1} more' if len(problems) > 1 else ''}: {said}"
        for said, problems in common
    ]


def solve_random(job: Job, problem_count: int, seed: int, *, as_json: bool) -> bool:
    """Solve random reachable targets and print a report; return whether any problem was solved."""
    robot = load_robot(job.robot)
    links = default_links(robot, job.links)
    request = job.with_options(robot, random_request(robot, links, problem_count, seed))
    cache = SolverCache(job.device)
    _solve(cache, robot, request, "Loading kernels")
    answer = _solve(cache, robot, request)
    print_report(report_of(robot, request, answer, seed), as_json=as_json)
    return bool(answer.result.success.any())


def _solve(cache: SolverCache, robot: RobotModel, request: SolveRequest, description: str = "Solving") -> TimedResult:
    with progress_bar(description, None if request.motion else request.problem_count) as bar:
        started = time.perf_counter()
        whole = cache.solve_together(robot, [request]) if request.is_alone else None
        result = cache.solve(robot, request, lambda count: bar(advance=count)) if whole is None else whole
        return TimedResult(result, 0.0, 1e3 * (time.perf_counter() - started))
