"""The call that fits clips, of an `IKSolver`."""

from collections.abc import Mapping
from typing import Any

from ik_service.collision.world import World
from ik_service.mechanism.caller_order import CallerOrder
from ik_service.motion.clip import fitted
from ik_service.motion.clip_passes import DrawnSolver
from ik_service.motion.clip_problem import read_clip
from ik_service.motion.clip_result import ClipResult, clip_result
from ik_service.motion.result import RateLimits
from ik_service.robots import RobotModel
from ik_service.solver.construction import SolverSetup
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.reading import raise_fault, read_targets
from ik_service.solver.given.worlds import read_worlds
from ik_service.solver.second_tries.second_tries import SecondTries
from objectives import InputError


class ClipFitting:
    """The part of a solver that fits clips."""

    robot: RobotModel
    options: SolverOptions
    wxyz: bool
    _order: CallerOrder
    _setup: SolverSetup
    _solves: SecondTries
    _drawn: DrawnSolver | None = None

    def fit_clip(
        self,
        positions: Any,
        orientations_xyzw: Any,
        dt: float,
        *,
        row_weights: Any = None,
        velocity: Any = None,
        acceleration: Any = None,
        held: "Mapping[str, Any] | None" = None,
        plane: Any = None,
        smoothness: float = 1.0,
        clip_start: Any = None,
        first_joint_q: Any = None,
        world: "World | None" = None,
        options: "dict[str, object] | SolverOptions | None" = None,
    ) -> ClipResult:
        """Fit a clip: the least error of targets over all frames, within limits of speed and acceleration.

        Targets need not be met; `row_weights` say which matter. The result is a local minimum. All joints with a
        coordinate keep the limits of position, speed and acceleration in every frame; rotations of ball and floating
        joints have none. The answer depends on the data alone: a floating base is placed at the whole pose of a link
        near it.

        Args:
            positions: Targets of the frames, a line each, as in `solve`.
            orientations_xyzw: Orientations, in the same way.
            dt: Time between frames [s].
            row_weights: Weights of the targets' rows, [targets, 6] or [frames, targets, 6]; None for those of the
                targets.
            velocity: Largest speeds [m/s or rad/s] as in `follow`; None for the limits of the robot's model.
            acceleration: Largest changes of speed [m/s^2 or rad/s^2], in the same forms; None for those of the model,
                which often has none.
            held: Links that stand still, a mapping from links of targets to booleans [frames]: in each run of True the
                target is its mean over the run, with 20 times its weight, blended in and out over 6 frames.
            plane: Plane for held links, as (nx, ny, nz, distance from the origin [m]): their frames have their origins
                in the plane, and the axis nearest to its normal along it; None leaves the mean as it is.
            smoothness: Factor of the draw of each joint to the mean of its two neighbours.
            clip_start: First frames of several clips, ascending from 0; None for a single clip.
            first_joint_q: Configuration one `dt` before each clip, where the robot stands, [coordinates]; None begins
                anywhere.
            world: Obstacles, such as the ground; the clearance is reported, without effect on the clip.
            options: As in `solve`; `seeds`, `deadline_s`, `best_of`, `solutions` and `precision` have no effect.

        Raises:
            UnknownNameError: The robot has no joint of a name, or no target is on a held link.
            InputError: A value that is not allowed, or a solver with objectives or constraints.
            EngineError: The compiled engine cannot hold an island of this problem.
            KernelCacheError: Compiled kernels can be neither read nor kept.
        """
        robot, targets = self.robot, self._solves.core.targets.all
        rates = RateLimits.read(robot, dt, velocity, acceleration)
        of_one: dict[str, object] = {"seeds": 1, "best_of": None, "solutions": 1, "deadline_s": None}
        of_one["precision"] = "float32"
        chosen = self.options.of_solve(options).merged(of_one)
        if self._solves.core.objectives or robot.constraint_names or not targets:
            raise InputError("fit_clip is for solvers with targets, without objectives, of robots without constraints.")
        batch = read_targets(targets, positions, orientations_xyzw, None, wxyz=self.wxyz)
        given = row_weights, held, plane, smoothness, clip_start, first_joint_q
        problem = read_clip(robot, self._order, targets, batch, rates, *given)
        if self._drawn is None:
            self._drawn = DrawnSolver(robot, targets, self._setup)
        found = fitted(problem, self._drawn, chosen)
        if found is None:
            raise_fault(robot, self._order, targets, (positions, orientations_xyzw, None, None))
        worlds = read_worlds(robot, chosen, world, None, None, None, batch.problem_count)
        judged = self._drawn.core.judge(worlds, chosen, found.joint_q)
        return clip_result(problem, found, judged, self._order, rates)
