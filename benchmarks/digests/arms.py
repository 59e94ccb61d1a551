"""Set-ups of 15 robots without loops or collision: targets, options, a posture, objectives alone; both engines."""

from functools import cached_property, partial
from typing import Any

import ik_service
from benchmarks.digests.answers import STAGED_OPTIONS, Drawn, drawn, of_result, solver_of
from benchmarks.digests.program import Budget, Parts, SetUps
from benchmarks.problems.compared_robots import ALLEGRO_TIPS, ComparedRobot
from objectives import IKObjectivePosition, IKObjectivePosture

HANDS = ("left_grasp", "right_grasp", "left_sole", "right_sole", "head")
TALOS = ("gripper_left_base_link", "gripper_right_base_link", "left_sole_link", "right_sole_link")
ROBOTS = (
    ComparedRobot("panda", "panda", ("panda_hand",)),
    ComparedRobot("ur5e", "ur5e", ("tool0",)),
    ComparedRobot("iiwa14", "iiwa14", ("iiwa_link_ee",)),
    ComparedRobot("dual_panda", "dual_panda", ("left_panda_hand", "right_panda_hand")),
    ComparedRobot("panda_gripper", "panda_gripper", ("panda_leftfinger",)),
    ComparedRobot("allegro", "allegro", ALLEGRO_TIPS),
    ComparedRobot("humanoid", "humanoid", HANDS),
    ComparedRobot("Kinova", "kinova_description/robots/kinova.urdf", ("j2s6s200_end_effector",)),
    ComparedRobot("xArm7", "xarm_description/urdf/xarm7.urdf", ("link_eef",)),
    ComparedRobot("UR5", "ur_description/urdf/ur5_robot.urdf", ("tool0",)),
    ComparedRobot("Baxter", "baxter_description/urdf/baxter.urdf", ("left_gripper", "right_gripper")),
    ComparedRobot("Allegro left", "allegro_hand_description/urdf/allegro_left_hand.urdf", ALLEGRO_TIPS),
    ComparedRobot("Talos", "talos_data/robots/talos_full_v2.urdf", TALOS),
    ComparedRobot("TIAGo", "tiago_description/robots/tiago_dual.urdf", ("hand_left_palm_link", "hand_right_palm_link")),
    ComparedRobot("Romeo", "romeo_description/urdf/romeo.urdf", ("l_gripper", "r_gripper")),
)
PROBLEMS = 100  # of one set-up; the plain one has four times as many
STAGED_PROBLEMS = 20
SOFT_WEIGHT = 0.03  # of a posture beside targets
OPTIONS: dict[str, dict[str, Any]] = {
    "best_of cost": {"best_of": "cost", "seeds": 16},
    "best_of nearest": {"best_of": "nearest", "seeds": 16},
    "solutions": {"solutions": 4, "seeds": 16},
    "float64": {"precision": "float64"},
}


class Arm:
    """A robot with its targets and solvers, made when they are first needed."""

    def __init__(self, case: ComparedRobot, budget: Budget) -> None:
        self.name, self.links, self.budget = case.name, list(case.links), budget
        self._case = case

    @cached_property
    def robot(self) -> ik_service.RobotModel:
        """The robot's model."""
        return self._case.robot

    @cached_property
    def given(self) -> Drawn:
        """All targets."""
        return drawn(self.robot, self.links, 4 * self.budget.count(PROBLEMS))

    @cached_property
    def solver(self) -> ik_service.IKSolver:
        """The solver of the targets."""
        return solver_of(self.robot, self.links, self.budget)

    def plain(self, threads: int) -> Parts:
        """Solve all targets from no start."""
        solver = self.solver if threads == self.budget.threads else self._with_threads(threads)
        return of_result(solver.solve(self.given.positions, self.given.orientations))

    def _with_threads(self, threads: int) -> ik_service.IKSolver:
        return solver_of(self.robot, self.links, Budget(threads=threads))

    def positions(self) -> Parts:
        """Solve positions alone."""
        return of_result(self.solver.solve(self.given.first(self.budget.count(PROBLEMS)).positions))

    def started(self, options: dict[str, Any] | None, *, at_solution: bool = False) -> Parts:
        """Solve targets from other configurations, or from those that the targets come from."""
        given = self.given.first(self.budget.count(PROBLEMS))
        start = given.joint_q if at_solution else given.starts
        return of_result(self.solver.solve(given.positions, given.orientations, initial_joint_q=start, options=options))

    def staged(self) -> Parts:
        """Solve targets in the staged engine."""
        given = self.given.first(self.budget.count(STAGED_PROBLEMS))
        solver = solver_of(self.robot, self.links, self.budget, "staged")
        return of_result(solver.solve(given.positions, given.orientations, options=STAGED_OPTIONS))

    def with_posture(self, engine: str) -> Parts:
        """Solve targets beside a posture."""
        given = self.given.first(self.budget.count(STAGED_PROBLEMS))
        posture = IKObjectivePosture(self.robot.mid_joint_q, weight=SOFT_WEIGHT)
        solver = solver_of(self.robot, self.links, self.budget, engine, objectives=[posture])
        return of_result(solver.solve(given.positions, given.orientations, options={"seeds": 2}))

    def objectives_alone(self, engine: str) -> Parts:
        """Solve a posture and a position that are objectives."""
        given = self.given.first(self.budget.count(STAGED_PROBLEMS))
        position = IKObjectivePosition(self.links[0], given.positions[:, 0])
        objectives = [IKObjectivePosture(self.robot.mid_joint_q), position]
        solver = solver_of(self.robot, [], self.budget, engine, objectives=objectives)
        count = len(given.positions)
        return of_result(solver.solve(problem_count=count, initial_joint_q=given.starts, options={"seeds": 2}))


def arms(budget: Budget) -> SetUps:
    """Yield the set-ups of all robots."""
    for case in ROBOTS:
        arm, name = Arm(case, budget), f"arms, {case.name}"
        yield f"{name}, plain", partial(arm.plain, budget.threads)
        yield f"{name}, two threads", partial(arm.plain, 2)
        yield f"{name}, start", partial(arm.started, None)
        yield f"{name}, start at the solution", partial(arm.started, None, at_solution=True)
        yield f"{name}, positions", arm.positions
        for option, options in OPTIONS.items():
            yield f"{name}, {option}", partial(arm.started, options)
        yield f"{name}, staged", arm.staged
        for engine in ("auto", "staged"):
            yield f"{name}, {engine}, targets and a posture", partial(arm.with_posture, engine)
            yield f"{name}, {engine}, objectives alone", partial(arm.objectives_alone, engine)
