"""Robots that solvers are compared on: built-in ones, and ones that nobody here wrote, from example-robot-data."""

from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path

import ik_service
from benchmarks.problems.many_arms import HandProblems

BUILTIN = Path(ik_service.__file__).with_name("robots") / "builtin"
FOREIGN = "example-robot-data"


def installed(package: str, ending: str) -> Path:
    """Return the file of an installed package whose path ends so, without importing the package."""
    (found,) = [file for file in metadata.files(package) or [] if str(file).endswith(ending)]
    return Path(str(found.locate()))


@dataclass(frozen=True)
class ComparedRobot:
    """A robot and the links that get targets.

    Attributes:
        name: Name in the tables.
        file: Name of a built-in robot, or the end of a path in example-robot-data.
        links: The links.
    """

    name: str
    file: str
    links: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The URDF file."""
        if "/" not in self.file:
            return BUILTIN / f"{self.file}.urdf"
        return installed(FOREIGN, self.file)

    @cached_property
    def robot(self) -> ik_service.RobotModel:
        """The robot's model."""
        return ik_service.load_robot(self.path, collision="ignore")

    def problems(self, count: int, random_seed: int) -> HandProblems:
        """Return the poses that the links take together in random configurations inside the limits."""
        return HandProblems.random(self.robot, list(self.links), count, random_seed)


PANDA = ComparedRobot("panda", "panda", ("panda_hand",))
ARMS = (
    PANDA,
    ComparedRobot("ur5e", "ur5e", ("tool0",)),
    ComparedRobot("iiwa14", "iiwa14", ("iiwa_link_ee",)),
    ComparedRobot("Kinova j2s6s200", "kinova_description/robots/kinova.urdf", ("j2s6s200_end_effector",)),
    ComparedRobot("xArm7", "xarm_description/urdf/xarm7.urdf", ("link_eef",)),
)
WHOLE_BODY = ComparedRobot(
    "humanoid with a free base, 2 hands, 2 feet and head",
    "humanoid",
    ("left_grasp", "right_grasp", "left_sole", "right_sole", "head"),
)
ALLEGRO_TIPS = ("link_3.0_tip", "link_7.0_tip", "link_11.0_tip", "link_15.0_tip")
MANY_LIMBS = (
    ComparedRobot("dual_panda, 2 hands", "dual_panda", ("left_panda_hand", "right_panda_hand")),
    ComparedRobot("allegro, 4 fingertips", "allegro", ALLEGRO_TIPS),
    ComparedRobot("Allegro left, 4 fingertips", "allegro_hand_description/urdf/allegro_left_hand.urdf", ALLEGRO_TIPS),
    ComparedRobot(
        "Talos, 2 hands and 2 feet",
        "talos_data/robots/talos_full_v2.urdf",
        ("gripper_left_base_link", "gripper_right_base_link", "left_sole_link", "right_sole_link"),
    ),
    ComparedRobot(
        "TIAGo dual, 2 hands",
        "tiago_description/robots/tiago_dual.urdf",
        ("hand_left_palm_link", "hand_right_palm_link"),
    ),
    ComparedRobot("Romeo, 2 hands", "romeo_description/urdf/romeo.urdf", ("l_gripper", "r_gripper")),
)
