"""LeRobot's SO-101 led by poses of its gripper: a step for LeRobot's pipelines of actions, on `IKController`.

python examples/lerobot_so101.py so101.urdf    (needs LeRobot, and a URDF of the arm)

The step replaces LeRobot's `InverseKinematicsEEToJoints`: it takes the same actions and returns motor positions.
The arm has five joints, one too few for a whole pose. The position comes first; the orientation is met as nearly as
the position permits, and `orientation_error` is the remaining angle.
"""

import math
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from lerobot.configs.types import FeatureType, PipelineFeatureType, PolicyFeature
from lerobot.processor import ProcessorStepRegistry, RobotActionProcessorStep, RobotProcessorPipeline, TransitionKey
from lerobot.processor.converters import robot_action_observation_to_transition, transition_to_robot_action

from ik_service import Target, load_robot
from ik_service.control import ControlLimits, IKController
from objectives import IKObjectiveRotation

MOTORS = ["shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper"]
POSE = ["x", "y", "z", "wx", "wy", "wz"]  # position [m], rotation vector [rad]
FAR = 10.0  # [degrees] between a joint and its last command, beyond which the arm begins anew where it is


@ProcessorStepRegistry.register("ik_service_ee_to_joints")
@dataclass
class EEToJointsWithinLimits(RobotActionProcessorStep):
    """Poses of the gripper to positions of the motors in degrees, within limits of position and speed in every step.

    Attributes:
        urdf: URDF file of the arm, whose joints have the names of the motors.
        motors: Names of the motors; the one named gripper passes through.
        link: Link that is led.
        dt: Time between actions [s].
        limits: Further limits of the motion.
        result: Answer of the controller to the last action: status, errors, active limits.
    """

    urdf: str
    motors: list[str] = field(default_factory=MOTORS.copy)
    link: str = "gripper_frame_link"
    dt: float = 1.0 / 30.0
    limits: ControlLimits = field(default_factory=ControlLimits)

    def __post_init__(self) -> None:
        """Make the controller: a target for the position, an objective for the orientation, in its null space."""
        robot = load_robot(self.urdf)
        self._turn = IKObjectiveRotation(self.link, [0.0, 0.0, 0.0, 1.0])
        target = Target(self.link, row_weights=[1, 1, 1, 0, 0, 0])
        self._controller = IKController(robot, [target], objectives=[self._turn], limits=self.limits)
        self._robot, self._columns = robot, [robot.coordinate_names.index(name) for name in self.motors]
        self._pose, self._command = np.zeros(7), None  # position and quaternion xyzw; [degrees], as the motors

    @property
    def orientation_error(self) -> float:
        """Angle between the gripper and its target after the last action [rad]."""
        command = np.zeros(self._robot.joint_coord_count)
        command[self._columns] = np.radians(self._command)
        turn = self._robot.forward_kinematics(command, [self.link]).orientations_xyzw[0, 0]
        return 2.0 * float(np.arccos(min(abs(turn @ self._pose[3:]), 1.0)))

    def action(self, action: dict[str, Any]) -> dict[str, Any]:
        """Replace the pose by positions of the motors."""
        x, y, z, wx, wy, wz = (float(action.pop(f"ee.{name}")) for name in POSE)
        gripper = action.pop("ee.gripper_pos")
        there = [float(self.transition[TransitionKey.OBSERVATION][f"{name}.pos"]) for name in self.motors]
        if self._command is None or max(abs(a - b) for a, b in zip(there[:-1], self._command, strict=False)) > FAR:
            self.reset_to(there)
        angle = math.hypot(wx, wy, wz)
        share = math.sin(0.5 * angle) / angle if angle else 0.5
        self._pose[:] = x, y, z, share * wx, share * wy, share * wz, math.cos(0.5 * angle)
        self._turn.data("target_orientations_xyzw").numpy()[0] = self._pose[3:]
        self.result = self._controller.step(self._pose, dt=self.dt)
        self._command = np.degrees(self.result.joint_q[0, self._columns]).tolist()
        for name, degrees in zip(self.motors, self._command, strict=True):
            action[f"{name}.pos"] = float(gripper) if name == "gripper" else degrees
        return action

    def reset_to(self, degrees: list[float]) -> None:
        """Begin at positions of the motors [degrees]."""
        q = np.zeros(self._robot.joint_coord_count)
        q[self._columns] = np.radians(degrees)
        self._controller.reset(np.clip(q, self._robot.joint_limit_lower, self._robot.joint_limit_upper))
        self._command = degrees

    def reset(self) -> None:
        """Forget the last command."""
        self._command = None

    def transform_features(self, features: dict[PipelineFeatureType, dict[str, PolicyFeature]]) -> Any:
        """Replace the features of the pose by those of the motors."""
        actions = features[PipelineFeatureType.ACTION]
        for name in (*POSE, "gripper_pos"):
            actions.pop(f"ee.{name}", None)
        actions |= {f"{name}.pos": PolicyFeature(type=FeatureType.ACTION, shape=(1,)) for name in self.motors}
        return features


def main(urdf: str) -> None:
    """Lead the gripper along a figure of eight with a fixed orientation, and print the errors."""
    step = EEToJointsWithinLimits(urdf)
    ends = {"to_transition": robot_action_observation_to_transition, "to_output": transition_to_robot_action}
    pipeline = RobotProcessorPipeline(steps=[step], **ends)
    seen = dict(zip([f"{name}.pos" for name in MOTORS], [0.0, -40.0, 50.0, 60.0, 0.0, 10.0], strict=True))
    errors = []
    for turn in np.linspace(0.0, 4.0 * np.pi, 300):  # above the table, the gripper downwards
        pose = [0.21 + 0.04 * np.sin(turn), 0.06 * np.sin(0.5 * turn), 0.07, 0.0, np.pi, 0.0]
        action = dict(zip([f"ee.{name}" for name in POSE], pose, strict=True)) | {"ee.gripper_pos": 10.0}
        seen = pipeline((action, seen))  # the motors do what they are told
        errors.append((1e3 * step.result.position_error[0, 0], np.degrees(step.orientation_error)))
    (mean, tilt), (most, most_tilt) = np.mean(errors[30:], axis=0), np.max(errors[30:], axis=0)  # after the approach
    print(f"mean and largest error: {mean:.4f}, {most:.4f} mm; {tilt:.2f}, {most_tilt:.2f} degrees")


if __name__ == "__main__":
    main(*sys.argv[1:])
