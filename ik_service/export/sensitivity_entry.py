"""The function of an export that says how answers follow their targets, where these are met."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.errors import EngineError
from ik_service.export.call_frame import CallFrame, indented
from ik_service.export.structs import CLayout
from ik_service.export.template_files import filled
from ik_service.export.values import Constants
from ik_service.ik_solver import IKSolver
from ik_service.mechanism.transforms import Float64Array, identity_transform, transform_inverse, transform_multiply
from ik_service.solver.derivatives.linearisation import TWIST
from ik_service.solver.derivatives.met_targets import target_islands
from ik_service.solver.derivatives.solver_rows import AT_LIMIT
from ik_service.solver.derivatives.target_motion import LEAST_SHARE, TargetIsland, TargetMotion
from objectives.data_field import UNIT_TOLERANCE

GIVEN = ("positions", "by_targets")
LONGEST = 1e-2
"""The longest step onto its targets, of any joint [m or rad], up to which an answer meets them."""
MOST_STACK = 48 * 1024
"""Stack that an island may take [bytes]: with what the program has on it, a call stays under 64 KiB."""
SENSITIVITY_SEED = 1
TRIED = 16
"""Configurations of which one must be regular: robots are singular at next to none, unless they are at all."""


class SensitivityEntry:
    """The function `PREFIX_sensitivity`, an `ExportedFunction`.

    Args:
        solver: The solver.
        prefix: What all names begin with.
        orientations: Whether targets have orientations, or are positions alone.
        count: Answers in the file of the example.

    Raises:
        EngineError: The robot closes loops, a target has a frame or tolerances of its own, its joints cannot move all
            rows of its targets, or an island of it is so large that a call would take too much stack.
    """

    name, prologue = "sensitivity", ""
    objects: tuple[str, ...] = ("sensitivity",)
    advice = filled("sensitivity/advice.md", {})
    example = ("sensitivity/example.c", "example_sensitivity", "answers.bin")

    def __init__(self, solver: IKSolver, prefix: str, *, orientations: bool, count: int) -> None:
        if solver.robot.every_constraint:
            raise EngineError(f"Robot '{solver.robot.name}' closes loops: how answers follow targets is not in C then.")
        if any(target.frame is not None for target in solver.targets):
            raise EngineError("Answers to targets with a frame, free axes or tolerances have no derivatives.")
        self._solver, self._prefix, self._orientations, self._count = solver, prefix, orientations, count
        tools = [identity_transform() if one.offset is None else np.ravel(one.offset) for one in solver.targets]
        self._tools = np.array(tools, np.float64)
        self._islands = self._found_islands()
        self._check_islands()
        self.recorded = self._motion(*self._poses(solver.robot.mid_joint_q[None])).recorded(self._islands)

    def _poses(self, joint_q: NDArray[np.floating]) -> tuple[Float64Array, Float64Array]:
        """Give targets that configurations meet; orientations that nothing asks for are the identity."""
        targets, robot = self._solver.targets, self._solver.robot
        links = robot.forward_kinematics(joint_q, [target.link for target in targets])
        found = transform_multiply(np.concatenate(links, axis=-1), self._tools)
        for k, target in enumerate(targets):
            if target.reference_link is not None:
                frame = np.concatenate(robot.forward_kinematics(joint_q, [target.reference_link]), axis=-1)[:, 0]
                found[:, k] = transform_multiply(transform_inverse(frame), found[:, k])
        if not self._orientations:
            found[..., 3:] = (0.0, 0.0, 0.0, 1.0)
        return found[..., :3].copy(), found[..., 3:].copy()

    def _motion(self, positions: Float64Array, orientations_xyzw: Float64Array) -> TargetMotion:
        targets = self._solver.targets
        lines = np.broadcast_to(self._tools, (len(positions), len(targets), 7))
        return TargetMotion(self._solver.robot, targets, lines, positions, orientations_xyzw)

    def _check_islands(self) -> None:
        """Refuse islands that always would be singular, or that take too much stack."""
        robot = self._solver.robot
        joint_q = robot.random_joint_q(np.random.default_rng(SENSITIVITY_SEED), TRIED)
        motion, free = self._motion(*self._poses(joint_q)), np.ones((TRIED, robot.active_dof_count), dtype=bool)
        for island in self._islands:
            names = ", ".join(self._solver.targets[k].link for k in np.flatnonzero(island.rows.any(axis=1)))
            what = f"{len(island.dofs)} DOFs and {int(island.rows.sum())} rows of targets ({names})"
            if motion.stack_bytes(island) > MOST_STACK:
                raise EngineError(
                    f"To derive {what} together takes {motion.stack_bytes(island)} bytes of stack. Allowed in C: "
                    f"{MOST_STACK}. Leave sensitivity out, or call linearise in Python."
                )
            if not motion.at(joint_q, np.arange(TRIED), free, [island]).is_regular.any():
                raise EngineError(
                    f"Of {what} the joints cannot move every row by itself: in C there would be no derivatives. Give "
                    "rows that they cannot move the weight 0 (Target(row_weights=)), leave orientations out, or call "
                    "linearise in Python."
                )

    def _found_islands(self) -> list[TargetIsland]:
        """Find the islands, which are the same in all problems."""
        positions, orientations = self._poses(self._solver.robot.mid_joint_q[None])
        solved = self._solver.solve_as_recorded(positions, orientations if self._orientations else None).islands
        place = solved.row_island[0, : TWIST * len(self._solver.targets)].reshape(-1, TWIST)
        dof_tree = self._solver.robot.trees.active_treeid
        return target_islands(solved.tree_island[0], place, int(solved.nisland[0]), dof_tree)

    def object_of(self, _kernel: wp.Kernel) -> str:
        """Return the name of the object that holds a kernel."""
        return self.objects[0]

    def texts(self, symbols: Mapping[wp.Kernel, str], layout: CLayout, constants: Constants) -> tuple[str, str]:
        """Return its part of the header, and its source but for the declarations of structs and constants.

        Args:
            symbols: Names of the kernels in the objects.
            layout: Where structs are declared.
            constants: Where constants are kept.
        """
        frame = CallFrame(self.name, self.recorded, symbols, layout, constants)
        words = {
            "prefix": self._prefix,
            "PREFIX": self._prefix.upper(),
            "orientations": int(self._orientations),
            "least_share": repr(LEAST_SHARE),
            "longest": repr(LONGEST),
            "unit_tolerance": repr(UNIT_TOLERANCE),
            "derive": "\n".join(indented(frame.calls("derive"))),
            **self._limit_words(constants),
        }
        header = filled("sensitivity/functions.h", words)
        return header, "\n\n".join([frame.source(GIVEN), filled("sensitivity/sensitivity.c", words)])

    def _limit_words(self, constants: Constants) -> dict[str, object]:
        """Return the words of the limits that hold DOFs."""
        arrays: list[wp.array[Any]] = [wp.array(values, device="cpu") for values in self._limits()]
        names = [constants.name(one, "active_limits") for one in arrays]
        words = dict(zip(("coordinate", "lower", "upper"), names, strict=True))
        return {"active": self._solver.robot.active_dof_count, **words}

    def _limits(self) -> tuple[NDArray[np.int32], Float64Array, Float64Array]:
        """Give of each active DOF its coordinate, -1 for none, and between which values no limit holds it."""
        robot, most = self._solver.robot, np.finfo(np.float64).max
        coordinate = robot.dof_coordinate[robot.active_dof].astype(np.int32)
        lower, upper = robot.active_limit_lower + AT_LIMIT, robot.active_limit_upper - AT_LIMIT
        if self._solver.options.joint_limits == "off":
            lower, upper = np.full_like(lower, -most), np.full_like(upper, most)
        return coordinate, np.maximum(lower, -most), np.minimum(upper, most)

    def example_data(self) -> bytes:
        """Return answers to random targets, and how they follow them, as the example program reads them."""
        robot = self._solver.robot
        joint_q = robot.random_joint_q(np.random.default_rng(SENSITIVITY_SEED), self._count).astype(np.float32)
        positions, orientations = self._poses(joint_q)
        head = np.array([self._count, len(self._solver.targets), robot.joint_coord_count], np.int32)
        arrays = [head, joint_q, positions, orientations, self.derived(joint_q, positions, orientations)[0]]
        return b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)

    def derived(
        self, joint_q: NDArray[np.floating], positions: Float64Array, orientations_xyzw: Float64Array
    ) -> tuple[Float64Array, NDArray[np.bool_]]:
        """Return what the function answers: how each DOF follows, shape [n, DOFs, targets, 6], and where it does."""
        at, (coordinate, lower, upper) = joint_q.astype(np.float64), self._limits()
        own = at[:, np.maximum(coordinate, 0)]
        free = (coordinate < 0) | ((own > lower) & (own < upper))
        turns = orientations_xyzw / np.sqrt((orientations_xyzw**2).sum(axis=-1, keepdims=True))
        motion = self._motion(positions, turns).at(at, np.arange(len(at)), free, self._islands)
        exists = motion.is_regular & (np.abs(motion.step) <= LONGEST).all(axis=1)
        return np.where(exists[:, None, None, None], motion.by_targets, 0.0), exists
