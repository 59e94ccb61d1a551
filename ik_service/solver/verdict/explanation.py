"""Words about a batch: advice on every problem, and a summary with the worst problems."""

from collections import Counter
from html import escape
from typing import NamedTuple

import numpy as np

from ik_service.mechanism.configuration import degrees_hint
from ik_service.result_schema import ResultColumns
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.targets import Target
from ik_service.solver.lm.status import STATUS_WORDS
from ik_service.solver.verdict.advice import advice
from ik_service.solver.verdict.island_results import IslandResults

WORST = 5  # problems in a summary


class AskedSolve(NamedTuple):
    """Options and problems of a solve."""

    options: SolverOptions
    batch: Batch


class ExplainedResult(ResultColumns):
    """Columns of a result with advice and a summary in words."""

    dof_names: tuple[str, ...]
    islands: IslandResults
    targets: tuple[Target, ...]
    asked: AskedSolve | None

    @property
    def status_names(self) -> list[str]:
        """Status of every problem as a lower-case word."""
        return [STATUS_WORDS[code] for code in self.status.tolist()]

    @property
    def advice(self) -> list[str]:
        """Advice on every problem, in words, computed on each access."""
        return [self.advice_on(problem) for problem in range(len(self.success))]

    def explain(self, problem: int | None = None) -> str:
        """Return a summary of the batch: statuses, and the failed problems of largest cost with advice.

        Args:
            problem: Index of one problem to be told alone; None for the whole batch.

        Raises:
            IndexError: There is no such problem.
        """
        if problem is not None:
            return self._told(range(len(self.success))[problem])
        counts = ", ".join(f"{word} {count}" for word, count in Counter(self.status_names).most_common())
        lines = [f"{self._solved()}: {counts}"]
        start = None if self.asked is None else self.asked.batch.start
        hint = None if start is None else degrees_hint(self.islands.robot, np.asarray(start, np.float64))
        lines += [] if hint is None else [f"initial_joint_q: {hint}"]
        return "\n".join(lines + [self._told(k) for k in self._worst()])

    def _repr_html_(self) -> str:
        count = len(self.success)
        bars = "".join(
            f"<tr><td>{escape(word)}</td><td>{own}</td><td><progress max='{count}' value='{own}'></progress></td></tr>"
            for word, own in Counter(self.status_names).most_common()
        )
        worst = "".join(f"<pre style='white-space: pre-wrap'>{escape(self._told(k))}</pre>" for k in self._worst())
        return f"<p><b>{self._solved()}</b></p><table>{bars}</table>{worst}"

    def _solved(self) -> str:
        return f"{int(self.success.sum())} of {len(self.success)} problems solved"

    def _worst(self) -> list[int]:
        """Return the failed problems of largest cost, largest first."""
        failed = np.flatnonzero(~self.success)
        return [int(k) for k in failed[np.argsort(-self.cost[failed], kind="stable")][:WORST]]

    def _told(self, problem: int) -> str:
        """Return status, advice, errors and limits of a problem."""
        lines = [f"problem {problem}: {self.status_names[problem]}. {self.advice_on(problem)}"]
        errors = self.position_error[problem], self.orientation_error[problem]
        for target, far, turned in zip(self.targets, *errors, strict=True):
            parts = [] if np.isnan(far) else [f"{1e3 * far:.3g} mm" if far < 1.0 else f"{far:.4g} m"]
            parts += [] if np.isnan(turned) else [f"{np.degrees(turned):.3g} deg"]
            lines.append(f"  {target.link}: {' and '.join(parts) + ' off' if parts else 'free'}")
        held = [name for name, at in zip(self.dof_names, self.active_limits[problem], strict=True) if at]
        return "\n".join([*lines, f"  at a limit: {', '.join(held)}"] if held else lines)

    def advice_on(self, problem: int) -> str:
        """Return advice on a problem, in words."""
        robot, options, batch = self.islands.robot, SolverOptions(), None
        if self.asked is not None:
            options, batch = self.asked
        given = robot, self.targets, options, self, self.islands
        return advice(*given, problem=problem, collision_names=self.collision_names(problem), batch=batch)

    def collision_names(self, problem: int) -> tuple[str, ...]:
        """Return names for the indices in the column `closest`; none where these are not known."""
        spheres = self.islands.robot.body_spheres
        if self.clearance is None or spheres is None or self.asked is None:
            return ()
        given = self.asked.batch.worlds
        if given is None:
            return spheres.links
        number = int(given.number[min(problem, len(given.number) - 1)])
        world = given.worlds[number].names if given.worlds else ()
        return (*spheres.links, *given.attached, *world)
