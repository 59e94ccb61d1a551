"""The targets of a solver with their objectives: declared once, their tools and weights replaced between solves."""

from collections.abc import Sequence
from typing import Any

from ik_service.robots import RobotModel
from ik_service.solver.arrays.problem_arrays import Problems
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.targets import Target, as_target, has_lines, pose_objective, replaced, touched_trees
from objectives import IKObjectiveNearPose, IKObjectivePose, InputError
from objectives.tasks.pose import DEADBAND


class PoseTargets:
    """Targets, and their objectives.

    Raises:
        UnknownNameError: A link is not in the robot.
        InputError: An offset or weights are not allowed.
    """

    def __init__(self, robot: RobotModel, targets: Sequence[Target | str]) -> None:
        self._robot = robot
        self._take(tuple(as_target(target, robot) for target in targets))
        self.touches = touched_trees(robot, self.all)  # trees touched by each, bool [targets, trees]
        # objectives of the targets, once there are arrays
        self.objectives: tuple[IKObjectiveNearPose | IKObjectivePose, ...] = ()
        self.is_replaced = False  # whether `replace` has been called since the last `upload`
        self._tolerances: tuple[float, float] | None = None
        self._versions: list[int] = []  # versions of the objectives' data in recorded launches

    def _take(self, targets: tuple[Target, ...]) -> None:
        self.all = targets  # the targets, checked
        # targets with a tool or weights per problem
        self.with_lines = [target for target in targets if has_lines(target)]
        # whether some target measures errors from its tolerances
        self.are_near = any(target.frame is not None for target in targets)

    def make_objectives(self, problems: Problems) -> tuple[IKObjectiveNearPose | IKObjectivePose, ...]:
        """Make the objectives, over the arrays of the problems, and return them."""
        self.objectives = tuple(
            pose_objective(target, problems.positions[k], problems.orientations_xyzw[k], problems.row_weights[k])
            for k, target in enumerate(self.all)
        )
        self._note_versions()
        return self.objectives

    def use_arrays(self, problems: Problems) -> None:
        """Let the objectives read other arrays."""
        for k, objective in enumerate(self.objectives):
            objective.set_data("target_positions", problems.positions[k])
            objective.set_data("target_orientations_xyzw", problems.orientations_xyzw[k])
            objective.set_data("row_weights", problems.row_weights[k])
        self._note_versions()  # everything is recorded again

    def replace(self, number: int, **data: Any) -> None:
        """Set new data of a target, None to keep its present data; `upload` copies them to the device."""
        self._take(replaced(self.all, number, data, self._robot))
        self.is_replaced = True

    def take(self, targets: tuple[Target, ...]) -> None:
        """Set targets with new data only; `upload` copies the data to the device."""
        if targets is not self.all:
            self._take(targets)
            self.is_replaced = True

    def use_tolerances(self, position: float, orientation: float) -> None:
        """Set the tolerances of a solve [m], [rad] as least error of near targets, from the next `upload`."""
        allowed = position, orientation
        if allowed != self._tolerances:
            self._tolerances, self.is_replaced = allowed, True

    def check_given(self, given: Batch) -> None:
        """Check that targets with rows in their own frame have orientations; InputError otherwise."""
        for target, orientations in zip(self.all, given.orientations_xyzw, strict=True):
            if target.frame == "target" and orientations is None:
                raise InputError(f"Target '{target.link}' has its rows in its own frame: give its orientations.")

    def upload(self) -> bool:
        """Copy replaced offsets and deadbands to the device; return whether an array was exchanged for a larger one."""
        # Raises InputError, before any copy, for a tolerance of a target above 0 and below the tolerance of the solve
        allowed = self._tolerances
        deadbands = [None if one.frame is None or allowed is None else one.deadband(*allowed) for one in self.all]
        for objective, target, deadband in zip(self.objectives, self.all, deadbands, strict=True):
            if target.offset is not None:
                objective.set_offset(target.offset)
            if deadband is not None:
                objective.set_data(DEADBAND, deadband)
        self.is_replaced, before = False, self._versions
        self._note_versions()
        return before != self._versions

    def _note_versions(self) -> None:
        self._versions = [objective.data_version for objective in self.objectives]
