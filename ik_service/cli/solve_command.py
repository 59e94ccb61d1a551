"""`ik-service solve`: a file of targets to a file of results, or random reachable targets to a report."""

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ik_service.cli.console import message_console, progress_bar
from ik_service.cli.default_links import default_links
from ik_service.cli.named_numbers import named_numbers
from ik_service.cli.pose_problems import PoseProblems
from ik_service.cli.random_report import print_report, report_of, request_of
from ik_service.cli.solve_files import check_output, csv_text, read_targets, write_answer
from ik_service.mechanism.caller_order import CallerOrder
from ik_service.robots import RobotModel, load_robot, load_world
from ik_service.service.pool.solver_cache import SolverCache
from ik_service.service.queue.solve_request import MotionCall, SolveRequest, TimedResult
from ik_service.solver.candidates import Choice, read_groups
from ik_service.solver.given.requested_limits import LimitReading
from ik_service.solver.lm.status import IKStatus
from objectives.errors import InputError


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
            form = "NAME=LOWER:UPPER, such as elbow=-1.5:1.5"
            narrow = [named_numbers("--joint-limits", text, form, count=2) for text in self.joint_limits]
            reading.narrow({name: (lower, upper) for name, (lower, upper) in narrow})
            request = replace(request, batch=batch._replace(limits=reading.found()))
        return request if self.world is None else replace(request, world=load_world(self.world), object_enabled=None)


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
    for line in () if request.is_alone else result.explain().splitlines()[1:]:
        console.print(line, markup=False)
    return solved > 0


def solve_random(job: Job, problem_count: int, seed: int, *, as_json: bool) -> bool:
    """Solve random reachable targets and print a report; return whether any problem was solved."""
    robot = load_robot(job.robot)
    links = default_links(robot, job.links)
    problems = PoseProblems.random(robot, links, problem_count, seed)
    request = job.with_options(robot, request_of(problems))
    cache = SolverCache(job.device)
    _solve(cache, robot, request, "Loading kernels")
    answer = _solve(cache, robot, request)
    print_report(report_of(problems, request.options, answer, seed), as_json=as_json)
    return bool(answer.result.success.any())


def _solve(cache: SolverCache, robot: RobotModel, request: SolveRequest, description: str = "Solving") -> TimedResult:
    with progress_bar(description, None if request.motion else request.problem_count) as bar:
        started = time.perf_counter()
        whole = cache.solve_together(robot, [request]) if request.is_alone else None
        result = cache.solve(robot, request, lambda count: bar(advance=count)) if whole is None else whole
        return TimedResult(result, 0.0, 1e3 * (time.perf_counter() - started))
