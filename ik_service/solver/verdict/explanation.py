"""Words about a batch: advice on every problem, and a summary with the worst problems."""

from collections import Counter
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ik_service.mechanism.configuration import degrees_hint
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.verdict.advice import advice

if TYPE_CHECKING:
    from ik_service.solver.result import IKResult

WORST = 5  # problems in a summary


class AskedSolve(NamedTuple):
    """Options and problems of a solve."""

    options: SolverOptions
    batch: Batch


def advice_on(result: "IKResult", problem: int) -> str:
    """Return the advice on a problem."""
    asked, robot = result.asked, result.islands.robot
    options = SolverOptions() if asked is None else asked.options
    return advice(
        robot,
        result.targets,
        options,
        result,
        result.islands,
        problem=problem,
        collision_names=_collision_names(result, problem),
        batch=None if asked is None else asked.batch,
    )


def explanation(result: "IKResult", problem: int | None = None) -> str:
    """Return the statuses of a batch and its worst problems in words, or one problem; see `IKResult.explain`."""
    if problem is not None:
        return _of_problem(result, problem)
    lines = [f"{int(result.success.sum())} of {len(result)} problems solved: {_counts(result)}"]
    start = None if result.asked is None else result.asked.batch.start
    hint = None if start is None else degrees_hint(result.islands.robot, np.asarray(start, np.float64))
    lines += [] if hint is None else [f"initial_joint_q: {hint}"]
    return "\n".join(lines + [_of_problem(result, k) for k in _worst(result)])


def explanation_html(result: "IKResult") -> str:
    """Return the same as a table for notebooks."""
    head = f"{int(result.success.sum())} of {len(result)} problems solved"
    bars = "".join(
        f"<tr><td>{escape(word)}</td><td>{count}</td>"
        f"<td><progress max='{len(result)}' value='{count}'></progress></td></tr>"
        for word, count in Counter(result.status_names).most_common()
    )
    worst = "".join(
        f"<pre style='white-space: pre-wrap'>{escape(_of_problem(result, k))}</pre>" for k in _worst(result)
    )
    return f"<p><b>{head}</b></p><table>{bars}</table>{worst}"


def _counts(result: "IKResult") -> str:
    return ", ".join(f"{word} {count}" for word, count in Counter(result.status_names).most_common())


def _worst(result: "IKResult") -> list[int]:
    """Return the failed problems of largest cost, largest first."""
    failed = np.flatnonzero(~result.success)
    return [int(k) for k in failed[np.argsort(-result.cost[failed], kind="stable")][:WORST]]


def _of_problem(result: "IKResult", problem: int) -> str:
    place = range(len(result))[problem]
    lines = [f"problem {place}: {result.status_names[place]}. {advice_on(result, place)}"]
    errors = result.position_error[place], result.orientation_error[place]
    for target, far, turned in zip(result.targets, *errors, strict=True):
        parts = [] if np.isnan(far) else [f"{1e3 * far:.3g} mm" if far < 1.0 else f"{far:.4g} m"]
        parts += [] if np.isnan(turned) else [f"{np.degrees(turned):.3g} deg"]
        lines.append(f"  {target.link}: {' and '.join(parts) + ' off' if parts else 'free'}")
    held = [name for name, at in zip(result.dof_names, result.active_limits[place], strict=True) if at]
    if held:
        lines.append(f"  at a limit: {', '.join(held)}")
    return "\n".join(lines)


def _collision_names(result: "IKResult", problem: int) -> tuple[str, ...]:
    """Return names for the indices in the column `closest`; none where these are not known."""
    spheres = result.islands.robot.body_spheres
    if result.clearance is None or spheres is None or result.asked is None:
        return ()
    given = result.asked.batch.worlds
    if given is None:
        return spheres.links
    number = int(given.number[min(problem, len(given.number) - 1)])
    world = given.worlds[number].names if given.worlds else ()
    return (*spheres.links, *given.attached, *world)
