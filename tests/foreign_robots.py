"""Robots that nobody here wrote, and Pinocchio as a witness of their kinematics."""

from functools import cache
from importlib import metadata
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from numpy.typing import NDArray

from ik_service.robots import JointType, RobotModel, load_robot

Float64Array = NDArray[np.float64]


def installed(distribution: str, ending: str) -> Path:
    """Find a file of a distribution without importing it (frax would ask for JAX)."""
    found = [file for file in metadata.files(distribution) or [] if str(file).endswith(ending)]
    assert len(found) == 1, f"{distribution} has {len(found)} files that end in {ending}"
    return Path(str(found[0].locate()))


EXAMPLE = "example-robot-data"
FIXED_BASE = [
    (EXAMPLE, "panda_description/urdf/panda.urdf"),
    (EXAMPLE, "ur_description/urdf/ur5_robot.urdf"),
    (EXAMPLE, "xarm_description/urdf/xarm7.urdf"),
    (EXAMPLE, "kinova_description/robots/kinova.urdf"),
    (EXAMPLE, "baxter_description/urdf/baxter.urdf"),
    (EXAMPLE, "pr2_description/urdf/pr2.urdf"),
    (EXAMPLE, "tiago_description/robots/tiago_dual.urdf"),
    (EXAMPLE, "tiago_pro_description/robots/tiago_pro.urdf"),
    (EXAMPLE, "allegro_hand_description/urdf/allegro_left_hand.urdf"),
    (EXAMPLE, "centauro_description/urdf/centauro.urdf"),
    ("frax", "assets/iiwa/iiwa14.urdf"),
    ("frax", "assets/unitree_g1/floating_g1_29dof_rev_1_0.urdf"),
]
FLOATING_BASE = [
    (EXAMPLE, "talos_data/robots/talos_full_v2.urdf"),
    (EXAMPLE, "romeo_description/urdf/romeo.urdf"),
    (EXAMPLE, "icub_description/robots/icub.urdf"),
    (EXAMPLE, "solo_description/robots/solo12.urdf"),
    (EXAMPLE, "anymal_b_simple_description/robots/anymal-kinova.urdf"),
    ("frax", "assets/unitree_g1/g1_29dof_rev_1_0.urdf"),
]
CASES = [pytest.param(*case, False, id=case[1].split("/")[-1]) for case in FIXED_BASE] + [
    pytest.param(*case, True, id=f"floating {case[1].split('/')[-1]}") for case in FLOATING_BASE
]


@cache
def load_foreign(distribution: str, ending: str, floating: bool) -> tuple[RobotModel, pin.Model]:
    return load_both(installed(distribution, ending), floating)


def load_both(path: Path, floating: bool) -> tuple[RobotModel, pin.Model]:
    robot = load_robot(path, floating_base=floating)
    root = (pin.JointModelFreeFlyer(), robot.joint_names[0]) if floating else ()
    return robot, pin.buildModelFromXML(path.read_text(encoding="utf-8"), *root)


class Witness:
    """Pinocchio's model, asked in our coordinates, link names and tangents."""

    def __init__(self, robot: RobotModel, model: pin.Model) -> None:
        self.robot = robot
        self.model = model
        self.data = model.createData()
        self.frames = {
            frame.name: index for index, frame in enumerate(model.frames) if frame.type == pin.FrameType.BODY
        }

    def place(self, joint_q: Float64Array) -> None:
        q = pin.neutral(self.model)
        for joint, name in enumerate(self.robot.joint_names):
            ours = joint_q[self.robot.joint_q_start[joint] : self.robot.joint_q_start[joint + 1]]
            theirs = self.model.joints[self.model.getJointId(name)]
            # a continuous joint is (cos, sin) there
            turns = theirs.nq == 2 and len(ours) == 1
            q[theirs.idx_q : theirs.idx_q + theirs.nq] = [np.cos(ours[0]), np.sin(ours[0])] if turns else ours
        pin.computeJointJacobians(self.model, self.data, q)
        pin.updateFramePlacements(self.model, self.data)

    def pose(self, link: str) -> pin.SE3:
        return self.data.oMf[self.frames[link]]

    def jacobian(self, link: str) -> Float64Array:
        """Give the twist of the link's origin per unit of each of our DOFs, world axes, shape [6, joint_dof_count]."""
        theirs = pin.getFrameJacobian(self.model, self.data, self.frames[link], pin.ReferenceFrame.LOCAL_WORLD_ALIGNED)
        ours = np.zeros((6, self.robot.joint_dof_count))
        for joint, name in enumerate(self.robot.joint_names):
            first = int(self.robot.joint_qd_start[joint])
            their_joint = self.model.joints[self.model.getJointId(name)]
            block = theirs[:, their_joint.idx_v : their_joint.idx_v + their_joint.nv]
            if self.robot.joint_type[joint] == JointType.FLOATING:
                # their tangent is local to the child, ours to the joint-parent frame: the world, for a root
                R_child_world = self.data.oMi[self.model.getJointId(name)].rotation.T
                block = np.hstack([block[:, :3] @ R_child_world, block[:, 3:] @ R_child_world])
            ours[:, first : first + block.shape[1]] = block
        return ours


def link_jacobian(robot: RobotModel, subspace: Float64Array, link: str, position: Float64Array) -> Float64Array:
    """Give the same from our motion subspace [joint_dof_count, 6]."""
    jacobian = np.zeros((6, robot.joint_dof_count))
    body, _ = robot.link_frame(link)
    while body >= 0:
        for dof in range(robot.joint_qd_start[body], robot.joint_qd_start[body + 1]):
            linear, angular = subspace[dof, :3], subspace[dof, 3:]
            jacobian[:, dof] = np.concatenate([linear + np.cross(angular, position), angular])
        body = int(robot.joint_parent[body])
    return jacobian
