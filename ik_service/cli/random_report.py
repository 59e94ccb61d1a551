"""Random reachable targets, and the report on their solve."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from ik_service.cli.console import output_console, print_json
from ik_service.cli.pose_problems import PoseProblems
from ik_service.result_schema import worst_over_targets
from ik_service.service.queue.solve_request import SolveRequest, TimedResult
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.targets import Target


@dataclass(frozen=True)
class Quantiles:
    """Quantiles over all problems, solved or not."""

    median: float
    p99: float
    max: float

    @classmethod
    def of(cls, values: NDArray[Any]) -> "Quantiles":
        """Return the quantiles of an array."""
        median, p99, largest = np.quantile(values.astype(np.float64), (0.5, 0.99, 1.0)).tolist()
        return cls(median, p99, largest)


@dataclass(frozen=True)
class RandomSolveReport:
    """Report on a solve of random reachable targets."""

    robot: str  # name of the robot
    links: tuple[str, ...]  # links that had targets
    problem_count: int  # number of problems
    seed: int  # seed of the targets and of the start configurations
    solved: int  # problems with success
    confirmed: int  # successes confirmed by forward kinematics in float64 on the host, inside the limits
    success_rate: float  # solved over all
    status: dict[str, int]  # number of problems by status
    position_error_m: Quantiles  # worst over the targets [m]
    orientation_error_rad: Quantiles  # worst over the targets [rad]
    iterations: Quantiles  # iterations of the winning start
    time_per_problem_us: float  # wall time of the second run over the number of problems [us]
    engine: str  # engine that ran
    seeds: int  # start configurations available to each problem
    device: str  # device of the solve


def request_of(problems: PoseProblems) -> SolveRequest:
    """Return a request for the poses of problems."""
    batch = Batch.of(*(list(array.swapaxes(0, 1)) for array in (problems.positions, problems.orientations_xyzw)))
    return SolveRequest(tuple(map(Target, problems.links)), batch)


def report_of(problems: PoseProblems, options: SolverOptions, answer: TimedResult, seed: int) -> RandomSolveReport:
    """Return the report on a result of the request of problems."""
    result, count = answer.result, len(problems)
    accepted = problems.judge(result.joint_q, options.position_tolerance, options.orientation_tolerance)
    names, counts = np.unique(np.array(result.status_names), return_counts=True)
    solved = int(result.success.sum())
    return RandomSolveReport(
        robot=problems.robot.name,
        links=problems.links,
        problem_count=count,
        seed=seed,
        solved=solved,
        confirmed=int((result.success & accepted).sum()),
        success_rate=solved / count,
        status=dict(zip(names.tolist(), counts.tolist(), strict=True)),
        position_error_m=Quantiles.of(worst_over_targets(result.position_error)),
        orientation_error_rad=Quantiles.of(worst_over_targets(result.orientation_error)),
        iterations=Quantiles.of(result.iterations),
        time_per_problem_us=1e3 * answer.solve_ms / count,
        engine=result.engine,
        seeds=result.seeds,
        device=result.device,
    )


def print_report(report: RandomSolveReport, *, as_json: bool) -> None:
    """Print a report, as JSON or as a table."""
    if as_json:
        print_json(asdict(report))
        return
    title = f"{report.robot}: {report.problem_count} random reachable targets for {', '.join(report.links)}"
    table = Table(title=title, show_header=False, title_justify="left")
    for label, value in _lines(report):
        table.add_row(label, value)
    output_console().print(table)


def _lines(report: RandomSolveReport) -> list[tuple[str, str]]:
    def spread(values: Quantiles, unit: str) -> str:
        return f"median {values.median:.3g}{unit}, p99 {values.p99:.3g}{unit}, max {values.max:.3g}{unit}"

    return [
        ("solved", f"{report.solved} of {report.problem_count} ({100 * report.success_rate:.2f} %)"),
        ("confirmed in float64", f"{report.confirmed} of {report.solved}, inside the limits"),
        ("status", ", ".join(f"{name} {count}" for name, count in report.status.items())),
        ("position error", spread(report.position_error_m, " m")),
        ("orientation error", spread(report.orientation_error_rad, " rad")),
        ("iterations", spread(report.iterations, "")),
        ("time per problem", f"{report.time_per_problem_us:.3g} us"),
        ("ran on", f"{report.device}, {report.engine} engine, {report.seeds} seeds"),
    ]
