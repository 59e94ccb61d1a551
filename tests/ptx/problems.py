"""What is solved by PTX and by the CPU engine, where the answers go, and why the two may take different seeds."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import ik_service
from ik_service.bench.pose_problems import PoseProblems
from tests.foreign_robots import EXAMPLE, installed

LINKS = {
    "allegro": ("link_3.0_tip", "link_7.0_tip", "link_11.0_tip", "link_15.0_tip"),
    "delta": ("platform",),
    "dual_panda": ("left_panda_hand", "right_panda_hand"),
    "five_bar": ("tool",),
    "four_bar": ("coupler_point",),
    "humanoid": ("left_grasp",),
    "iiwa14": ("iiwa_link_ee",),
    "panda": ("panda_hand",),
    "panda_gripper": ("panda_hand_tcp",),
    "stewart": ("platform",),
    "ur5e": ("tool0",),
}
FOREIGN = {  # of `EXAMPLE`: files and links
    "baxter": ("baxter_description/urdf/baxter.urdf", ("left_gripper",)),
    "kinova": ("kinova_description/robots/kinova.urdf", ("j2s6s200_end_effector",)),
    "ur5": ("ur_description/urdf/ur5_robot.urdf", ("tool0",)),
    "xarm7": ("xarm_description/urdf/xarm7.urdf", ("link_eef",)),
}
POSITION, ORIENTATION = 1e-3, 1e-2  # tolerances of the solver [m, rad], which the check in float64 shares
MOVED = 1e-7  # [m]: how far a target is moved to see what rounding does, the last bit of a float32 of some 1 m
TRIES = 256  # targets moved, per problem
SEED = 5


@dataclass(frozen=True)
class Course:
    """How much is solved, by robot.

    Attributes:
        robots: Names of robots.
        count: Targets of each.
        schedules: In which the threads run, each with its share of the targets.
        noises: Seeds of errors of approximations; 0 for none.
        folder: Where the answers go.
    """

    robots: tuple[str, ...]
    count: int
    schedules: int
    noises: tuple[int, ...]
    folder: Path

    def put(self, patch) -> None:
        """Hand it to the process with the device, by environment variables."""
        numbers = f"{self.count} {self.schedules} {','.join(map(str, self.noises))}"
        patch.setenv("PTX_COURSE", f"{','.join(self.robots)} {numbers} {self.folder}")

    @classmethod
    def given(cls) -> "Course":
        """Return that of this process."""
        robots, count, schedules, noises, folder = os.environ["PTX_COURSE"].split(" ", 4)
        numbers = tuple(map(int, noises.split(",")))
        return cls(tuple(robots.split(",")), int(count), int(schedules), numbers, Path(folder))

    def file(self, robot: str) -> Path:
        """Where the answers of a robot go."""
        return self.folder / f"{robot}.npz"


def draw(name: str, count: int) -> PoseProblems:
    """Return targets of a robot, which it reaches; where it has loops, with all of them closed."""
    file, links = FOREIGN.get(name) or (None, LINKS[name])
    robot = ik_service.load_robot(name if file is None else installed(EXAMPLE, file), collision="ignore")
    joint_q = robot.random_joint_q(np.random.default_rng(SEED), count)
    if robot.constraint_names:
        joint_q = robot.constraints.close(joint_q).joint_q
    poses = robot.forward_kinematics(joint_q, list(links))
    return PoseProblems(robot, links, poses.positions, poses.orientations_xyzw)


def solver_of(problems: PoseProblems, device: str) -> ik_service.IKSolver:
    """Return a solver by the compiled engine."""
    options = ik_service.SolverOptions(position_tolerance=POSITION, orientation_tolerance=ORIENTATION)
    return ik_service.IKSolver(problems.robot, list(problems.links), device=device, engine="compiled", options=options)


def solve(solver: ik_service.IKSolver, problems: PoseProblems, rows=slice(None)) -> ik_service.IKResult:
    """Solve some of the problems."""
    return solver.solve(problems.positions[rows], problems.orientations_xyzw[rows])


def explained(solver: ik_service.IKSolver, problems: PoseProblems, row: int, seeds: np.ndarray) -> bool:
    """Whether rounding explains that other seeds win: it decides how the attempt of the lower seed ends.

    The solver is asked again, with targets moved by as much as rounding does: in some of these solves that attempt has
    to win, and in some a later one.

    Args:
        solver: On a CPU.
        problems: All problems.
        row: The problem whose winners differ.
        seeds: The other winners, of each island.
    """
    moves = np.random.default_rng(row).uniform(-MOVED, MOVED, (TRIES, *problems.positions.shape[1:]))
    moves[0] = 0.0
    orientations = np.repeat(problems.orientations_xyzw[row : row + 1], TRIES, axis=0)
    found = solver.solve(problems.positions[row] + moves, orientations).islands.seed_index
    lower, differs = np.minimum(found[0], seeds), found[0] != seeds
    wins, loses = (found == lower).any(axis=0), (found > lower).any(axis=0)
    return bool((wins & loses)[differs].all())
