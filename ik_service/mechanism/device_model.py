"""View of a robot for kernels: the robot's arrays in float32 and int32 on one device.

Made once per robot and device. Limits are rounded inwards: a float32 inside the rounded limits is inside the exact
limits.
"""

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from ik_service.mechanism.coupling import active_inwards, inwards
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import Float64Array, identity_transform
from ik_service.warp_start import start_warp
from objectives.errors import InputError
from objectives.model import BodyMass, IKJointType

_LOCK = threading.Lock()


@dataclass(frozen=True, eq=False)
class DeviceModel:
    """Arrays of a robot on one device, with the names, meanings and shapes of ``RobotModel``.

    Objectives read the members of ``objectives.IKModel``: an objective for a ``newton.Model`` works with this class.

    Attributes:
        robot: The robot.
        device: The Warp device of the arrays.
        articulation_count: Number of subtrees of the root.
        joint_type: ``IKJointType`` values (numbers of Newton), shape [joint_count].
        joint_kind: ``JointType`` values, for kernels of this package, shape [joint_count].
        articulation_start: First joint of each subtree of the root and, last, joint_count, [articulation_count + 1].
        joint_X_p: Joint-parent frames [m, xyzw], shape [joint_count] of transforms.
        joint_X_c: Joint frames in the child bodies, always identity, shape [joint_count] of transforms.
        joint_axis: Unit axes in the joint-parent frame, shape [joint_dof_count] of vectors.
        body_com: Centre of mass of each body in the body's frame [m], zero without mass, shape [body_count].
        joint_q: Copy of ``mid_joint_q`` that objectives may read and write, shape [joint_coord_count].
        body_q: Poses of the bodies at ``mid_joint_q`` [m, xyzw], shape [body_count].
        joint_limit_lower: Lower limits, rounded upwards, shape [joint_dof_count].
        joint_limit_upper: Upper limits, rounded downwards, shape [joint_dof_count].
        active_limit_lower: Lower limits of active DOFs, rounded up until followers stay inside their limits, too.
        active_limit_upper: Upper limits of active DOFs, rounded down likewise.
    """

    robot: KinematicRobot
    device: wp.Device
    joint_count: int
    body_count: int
    articulation_count: int
    joint_coord_count: int
    joint_dof_count: int
    active_dof_count: int
    link_names: tuple[str, ...]
    joint_names: tuple[str, ...]
    body_masses: tuple[BodyMass, ...]
    joint_type: wp.array[wp.int32]
    joint_kind: wp.array[wp.int32]
    joint_parent: wp.array[wp.int32]
    joint_child: wp.array[wp.int32]
    joint_ancestor: wp.array[wp.int32]
    joint_articulation: wp.array[wp.int32]
    articulation_start: wp.array[wp.int32]
    joint_q_start: wp.array[wp.int32]
    joint_qd_start: wp.array[wp.int32]
    joint_dof_dim: wp.array[wp.int32]
    joint_X_p: wp.array[wp.transform]
    joint_X_c: wp.array[wp.transform]
    joint_axis: wp.array[wp.vec3]
    body_com: wp.array[wp.vec3]
    joint_q: wp.array[wp.float32]
    body_q: wp.array[wp.transform]
    joint_limit_lower: wp.array[wp.float32]
    joint_limit_upper: wp.array[wp.float32]
    joint_velocity_limit: wp.array[wp.float32]
    joint_effort_limit: wp.array[wp.float32]
    dof_coordinate: wp.array[wp.int32]
    dof_leader: wp.array[wp.int32]
    dof_multiplier: wp.array[wp.float32]
    dof_offset: wp.array[wp.float32]
    dof_active: wp.array[wp.int32]
    active_dof: wp.array[wp.int32]
    active_limit_lower: wp.array[wp.float32]
    active_limit_upper: wp.array[wp.float32]
    mid_joint_q: wp.array[wp.float32]

    def __repr__(self) -> str:
        return f"<DeviceModel on {self.device} of {self.robot!r}>"

    def link_frame(self, name: str) -> tuple[int, Float64Array]:
        """Give the body that carries a link and ``T_body_link``; see ``RobotModel.link_frame``."""
        return self.robot.link_frame(name)


def on_device(robot: KinematicRobot, device: str) -> DeviceModel:
    """Give the view of a robot on a device, made once; thread-safe. InputError: no such device."""
    start_warp()
    try:
        place = wp.get_device(device)
    except (ValueError, RuntimeError) as error:
        known = ", ".join(str(d) for d in wp.get_devices())
        raise InputError(f"Device '{device}' is not there ({error}). Devices: {known}.") from None
    with _LOCK:
        views: dict[str, DeviceModel] = robot.device_models
        if place.alias not in views:
            views[place.alias] = _make(robot, place)
        return views[place.alias]


def _make(robot: KinematicRobot, device: wp.Device) -> DeviceModel:
    lower, upper = inwards(robot.joint_limit_lower, robot.joint_limit_upper)
    active_lower, active_upper = active_inwards(robot)
    mid_joint_q = robot.mid_joint_q.astype(np.float32)
    coordinate = robot.dof_coordinate[robot.active_dof]
    own = coordinate >= 0
    mid_joint_q[coordinate[own]] = np.clip(mid_joint_q[coordinate[own]], active_lower[own], active_upper[own])
    first_joints = np.flatnonzero(robot.joint_parent < 0)  # an articulation begins at each child joint of the world
    changed: dict[str, Any] = {
        "joint_type": np.array([_NEWTON_TYPES[JointType(kind)] for kind in robot.joint_type], dtype=np.int32),
        "joint_kind": robot.joint_type,
        "articulation_count": len(first_joints),
        "articulation_start": np.append(first_joints, robot.joint_count),
        "joint_X_c": np.tile(identity_transform(), (robot.joint_count, 1)),
        "body_com": _body_com(robot),
        "body_q": robot.body_poses(robot.mid_joint_q)[0],
        "joint_limit_lower": lower,
        "joint_limit_upper": upper,
        "active_limit_lower": active_lower,
        "active_limit_upper": active_upper,
        "mid_joint_q": mid_joint_q,
        "joint_q": mid_joint_q,
    }
    found: dict[str, Any] = {"robot": robot, "device": device}
    for name, kind in list(DeviceModel.__annotations__.items())[len(found) :]:
        own = changed[name] if name in changed else getattr(robot, name)
        found[name] = wp.array(own, dtype=kind.dtype, device=device) if wp.types.is_array(kind) else own
    return DeviceModel(**found)


def _body_com(robot: KinematicRobot) -> Float64Array:
    body_com = np.zeros((robot.body_count, 3))
    for one in robot.body_masses:
        if one.body >= 0:
            body_com[one.body] = one.com
    return body_com


_NEWTON_TYPES = {
    JointType.REVOLUTE: IKJointType.REVOLUTE,
    JointType.CONTINUOUS: IKJointType.REVOLUTE,
    JointType.PRISMATIC: IKJointType.PRISMATIC,
    JointType.PLANAR: IKJointType.D6,
    JointType.FLOATING: IKJointType.FREE,
    JointType.BALL: IKJointType.BALL,
}
