"""Robots that solvers are compared on: built-in ones, and ones that nobody here wrote, from example-robot-data."""

from dataclasses import dataclass, replace
from functools import cached_property
from importlib import metadata
from pathlib import Path

import ik_service
from benchmarks.problems.pose_problems import PoseProblems

BUILTIN = Path(ik_service.__file__).with_name("robots") / "builtin"
FOREIGN = "example-robot-data"


def installed(package: str, ending: str) -> Path:
    """Return the file of an installed package whose path ends so, without importing the package."""
    (found,) = [file for file in metadata.files(package) or [] if str(file).endswith(ending)]
    return Path(str(found.locate()))


@dataclass(frozen=True)
class ComparedRobot:
    """A robot and the links that get targets."""

    name: str  # name in the tables
    file: str  # name of a built-in robot, or the end of a path in example-robot-data
    links: tuple[str, ...]
    base: str | None = None  # where it is only a part of the file: the link that this part stands on

    @property
    def path(self) -> Path:
        """The URDF file."""
        return installed(FOREIGN, self.file) if "/" in self.file else BUILTIN / f"{self.file}.urdf"

    @cached_property
    def robot(self) -> ik_service.RobotModel:
        """The robot's model."""
        robot = ik_service.load_robot(self.path, collision="ignore")
        return robot if self.base is None else robot.subrobot(self.base, branches=list(self.links))

    def problems(self, count: int, random_seed: int) -> PoseProblems:
        """Return the poses that the links take together in random configurations inside the limits."""
        return PoseProblems.random(self.robot, list(self.links), count, random_seed)


ALLEGRO_TIPS = ("link_3.0_tip", "link_7.0_tip", "link_11.0_tip", "link_15.0_tip")
LINKS = {
    "panda": ["panda_hand"],
    "ur5e": ["tool0"],
    "iiwa14": ["iiwa_link_ee"],
    "dual_panda": ["left_panda_hand", "right_panda_hand"],
    "allegro": [*ALLEGRO_TIPS],
    "humanoid": ["left_grasp", "right_grasp", "left_sole", "right_sole", "head"],
}
"""Built-in robots and the links that get targets."""
BUILTIN_ROBOTS = {name: ComparedRobot(name, name, tuple(links)) for name, links in LINKS.items()}
PANDA = BUILTIN_ROBOTS["panda"]
KINOVA = ComparedRobot("Kinova", "kinova_description/robots/kinova.urdf", ("j2s6s200_end_effector",))
UR5 = ComparedRobot("UR5", "ur_description/urdf/ur5_robot.urdf", ("tool0",))
XARM7 = ComparedRobot("xArm7", "xarm_description/urdf/xarm7.urdf", ("link_eef",))
Z1 = ComparedRobot("Z1", "z1_description/urdf/z1.urdf", ("link06",))
ARMS = (
    PANDA,
    BUILTIN_ROBOTS["ur5e"],
    BUILTIN_ROBOTS["iiwa14"],
    replace(KINOVA, name="Kinova j2s6s200"),
    XARM7,
)
MORE_ARMS = (
    ComparedRobot("UR3, joints limited", "ur_description/urdf/ur3_joint_limited_robot.urdf", ("tool0",)),
    ComparedRobot("UR5, joints limited", "ur_description/urdf/ur5_joint_limited_robot.urdf", ("tool0",)),
    ComparedRobot("UR10, joints limited", "ur_description/urdf/ur10_joint_limited_robot.urdf", ("tool0",)),
    Z1,
    ComparedRobot("SO-100", "so_arm_description/urdf/so100.urdf", ("gripper",)),
    ComparedRobot("Talos, left arm", "talos_data/robots/talos_left_arm.urdf", ("gripper_left_base_link",)),
    ComparedRobot("Romeo, left arm", "romeo_description/urdf/romeo.urdf", ("l_wrist",), "torso"),
    ComparedRobot("TIAGo, torso and arm", "tiago_description/robots/tiago_no_hand.urdf", ("arm_tool_link",)),
    ComparedRobot(
        "TIAGo Pro, left arm", "tiago_pro_description/robots/tiago_pro.urdf", ("arm_left_7_link",), "torso_lift_link"
    ),
    ComparedRobot("PR2, left arm", "pr2_description/urdf/pr2.urdf", ("l_wrist_roll_link",), "torso_lift_link"),
    ComparedRobot("Baxter, left arm", "baxter_description/urdf/baxter.urdf", ("left_hand_link",), "torso"),
    ComparedRobot("iCub, left arm", "icub_description/robots/icub.urdf", ("l_hand",), "chest"),
    ComparedRobot("Alex, left arm", "alex_description/urdf/alex_nub_hands.urdf", ("leftNub",), "Torso"),
    ComparedRobot("Centauro, one arm", "centauro_description/urdf/centauro.urdf", ("arm1_8",), "torso_2"),
    ComparedRobot("G1, left arm", "g1_description/urdf/g1_29dof_rev_1_0.urdf", ("left_rubber_hand",), "torso_link"),
)
WHOLE_BODY = replace(BUILTIN_ROBOTS["humanoid"], name="humanoid with a free base, 2 hands, 2 feet and head")
TIAGO_HANDS = ("hand_left_palm_link", "hand_right_palm_link")
TALOS_LIMBS = ("gripper_left_base_link", "gripper_right_base_link", "left_sole_link", "right_sole_link")
MANY_LIMBS = (
    replace(BUILTIN_ROBOTS["dual_panda"], name="dual_panda, 2 hands"),
    replace(BUILTIN_ROBOTS["allegro"], name="allegro, 4 fingertips"),
    ComparedRobot("Allegro left, 4 fingertips", "allegro_hand_description/urdf/allegro_left_hand.urdf", ALLEGRO_TIPS),
    ComparedRobot("Talos, 2 hands and 2 feet", "talos_data/robots/talos_full_v2.urdf", TALOS_LIMBS),
    ComparedRobot("TIAGo dual, 2 hands", "tiago_description/robots/tiago_dual.urdf", TIAGO_HANDS),
    ComparedRobot("Romeo, 2 hands", "romeo_description/urdf/romeo.urdf", ("l_gripper", "r_gripper")),
)
G1 = ComparedRobot(
    "G1, 2 hands and 2 feet",
    "g1_description/urdf/g1_29dof_rev_1_0.urdf",
    ("left_rubber_hand", "right_rubber_hand", "left_ankle_roll_link", "right_ankle_roll_link"),
)
