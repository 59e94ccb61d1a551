"""The view of a robot that kernels read: the same arrays in float32 and int32 on one device.

Made once per robot and device. Limits are rounded inwards: what is inside them in float32 is inside the exact ones.
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
    """Arrays of a robot on one device; names and meanings are those of ``RobotModel``, but for the joint types.

    What objectives may read is ``objectives.IKModel``: an objective that reads a ``newton.Model`` can read this.

    Attributes:
        robot: The model that this is a view of.
        device: The Warp device that holds the arrays.
        joint_type: ``IKJointType`` values, which are those of Newton, shape [joint_count].
        joint_kind: ``JointType`` values, which kernels of this package read, shape [joint_count].
        joint_parent: Shape [joint_count].
        joint_child: Shape [joint_count].
        joint_ancestor: Shape [joint_count].
        joint_articulation: Shape [joint_count].
        joint_q_start: Shape [joint_count + 1].
        joint_qd_start: Shape [joint_count + 1].
        joint_dof_dim: Linear and angular DOFs, shape [joint_count, 2].
        articulation_start: First joint of each subtree of the root and, last, their number, [articulation_count + 1].
        joint_X_p: Joint-parent frames [m, xyzw], shape [joint_count].
        joint_X_c: Joint frames in the child bodies, which are those of the bodies: identity, shape [joint_count].
        body_com: Centre of mass of each body in its frame [m], zero where it has no mass, shape [body_count].
        joint_q: Copy of ``mid_joint_q`` that objectives may read and write, shape [joint_coord_count].
        body_q: Poses of the bodies there [m, xyzw], shape [body_count].
        joint_axis: Unit axes in the joint-parent frame, shape [joint_dof_count].
        joint_limit_lower: Rounded upwards, shape [joint_dof_count].
        joint_limit_upper: Rounded downwards, shape [joint_dof_count].
        joint_velocity_limit: Shape [joint_dof_count].
        joint_effort_limit: Shape [joint_dof_count].
        dof_coordinate: Shape [joint_dof_count].
        dof_leader: Shape [joint_dof_count].
        dof_multiplier: Shape [joint_dof_count].
        dof_offset: Shape [joint_dof_count].
        dof_active: Shape [joint_dof_count].
        active_dof: Shape [active_dof_count].
        active_limit_lower: Rounded inwards so far that followers stay inside theirs too, shape [active_dof_count].
        active_limit_upper: The same from above, shape [active_dof_count].
        mid_joint_q: Shape [joint_coord_count].
    """

    robot: KinematicRobot
    device: wp.Device
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

    @property
    def joint_count(self) -> int:
        """Number of moving joints, locked ones included."""
        return self.robot.joint_count

    @property
    def body_count(self) -> int:
        """Number of bodies; equal to ``joint_count``."""
        return self.robot.body_count

    @property
    def articulation_count(self) -> int:
        """Number of subtrees of the root."""
        return len(self.articulation_start) - 1

    @property
    def joint_coord_count(self) -> int:
        """Number of coordinates, the length of ``joint_q``."""
        return self.robot.joint_coord_count

    @property
    def joint_dof_count(self) -> int:
        """Number of DOFs, the length of ``joint_qd``."""
        return self.robot.joint_dof_count

    @property
    def active_dof_count(self) -> int:
        """Number of DOFs that a solver may move."""
        return self.robot.active_dof_count

    @property
    def link_names(self) -> tuple[str, ...]:
        """Names of all links."""
        return self.robot.link_names

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the moving joints."""
        return self.robot.joint_names

    @property
    def body_masses(self) -> tuple[BodyMass, ...]:
        """Bodies that have mass; see ``RobotModel.body_masses``."""
        return self.robot.body_masses

    def link_frame(self, name: str) -> tuple[int, Float64Array]:
        """Give the body that carries a link and ``T_body_link``; see ``RobotModel.link_frame``."""
        return self.robot.link_frame(name)


def on_device(robot: KinematicRobot, device: str) -> DeviceModel:
    """Give the view of a robot on a device, made once; safe from several threads. InputError: no such device."""
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
    floats = {name: getattr(robot, name) for name in _FLOAT_FIELDS} | {
        "joint_limit_lower": lower,
        "joint_limit_upper": upper,
        "active_limit_lower": active_lower,
        "active_limit_upper": active_upper,
        "mid_joint_q": mid_joint_q,
        "joint_q": mid_joint_q,
    }
    first_joints = np.flatnonzero(robot.joint_parent < 0)  # an articulation begins where a joint stands on the world
    integers = {name: getattr(robot, name) for name in _INT_FIELDS} | {
        "joint_type": np.array([_NEWTON_TYPES[JointType(kind)] for kind in robot.joint_type], dtype=np.int32),
        "joint_kind": robot.joint_type,
        "articulation_start": np.append(first_joints, robot.joint_count),
    }
    ints: dict[str, Any] = {name: wp.array(values, dtype=wp.int32, device=device) for name, values in integers.items()}
    rounded: dict[str, Any] = {
        name: wp.array(values, dtype=wp.float32, device=device) for name, values in floats.items()
    }
    transforms = {"joint_X_p": robot.joint_X_p, "body_q": robot.body_poses(robot.mid_joint_q)[0]}
    transforms["joint_X_c"] = np.tile(identity_transform(), (robot.joint_count, 1))
    placed: dict[str, Any] = {
        name: wp.array(values, dtype=wp.transform, device=device) for name, values in transforms.items()
    }
    return DeviceModel(
        robot=robot,
        device=device,
        joint_axis=wp.array(robot.joint_axis, dtype=wp.vec3, device=device),
        body_com=wp.array(_body_com(robot), dtype=wp.vec3, device=device),
        **ints,
        **rounded,
        **placed,
    )


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
_INT_FIELDS = (
    "joint_parent",
    "joint_child",
    "joint_ancestor",
    "joint_articulation",
    "joint_q_start",
    "joint_qd_start",
    "joint_dof_dim",
    "dof_coordinate",
    "dof_leader",
    "dof_active",
    "active_dof",
)
_FLOAT_FIELDS = ("joint_velocity_limit", "joint_effort_limit", "dof_multiplier", "dof_offset")
