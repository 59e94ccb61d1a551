"""Made-up arms with offsets and signs that no maker builds, one of each class, and targets at ends of tolerances."""

import functools
import math

import numpy as np

from ik_service import load_robot
from ik_service.compiler.closed_form import ArmProofs, arm_of, nominal_arm
from ik_service.compiler.closed_form.turns import LAST, TARGET, TOOL, lower_name, upper_name
from ik_service.mechanism.transforms import quaternion_exp, quaternion_multiply

X, Y, Z, ORIGIN = (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 0)
MINUS_Y, MINUS_Z, BENT = (0, -1, 0), (0, 0, -1), (0, math.sin(1.0), math.cos(1.0))
SKEW = (0.4, -0.7, 1.1)  # roll, pitch, yaw of the base
LIMITS = [(-2.1, 2.7), (-1.3, 1.9), (-2.6, 0.9), (-2.4, 2.9), (-1.7, 2.0), (-2.8, 1.6), (-2.5, 2.6)]
TOOL_PLACE = ("0.12 -0.08 0.25", "0.3 -0.5 0.9")
# origin in the frame of the joint before [m], axis
JOINTS = {
    "spherical": [
        ((0.1, -0.2, 0.3), Z),
        ((0.07, 0.11, 0.25), Y),
        ((0.05, -0.04, 0.42), MINUS_Y),
        ((0.06, 0.03, 0.2), MINUS_Z),
        ((0, 0, 0.21), Y),
        (ORIGIN, Z),
    ],
    "parallel": [
        ((0.1, -0.2, 0.3), Z),
        ((0.07, 0.11, 0.15), Y),
        ((0.03, 0.02, 0.42), MINUS_Y),
        ((-0.02, -0.05, 0.37), MINUS_Y),
        ((0, 0.09, 0), Z),
        ((0, 0, 0.1), Y),
    ],
    "searched": [
        ((0.1, -0.2, 0.3), Z),
        ((0.07, 0.11, 0.15), Y),
        ((0.03, 0.02, 0.42), MINUS_Y),
        ((0.06, 0.03, 0.3), Z),
        (ORIGIN, BENT),
        ((0.04, 0.05, 0.1), X),
    ],
    "seven": [
        ((0.1, -0.2, 0.3), Z),
        (ORIGIN, Y),
        (ORIGIN, MINUS_Z),
        ((0.08, 0.03, 0.32), Y),
        ((-0.08, -0.02, 0.1), Z),
        ((0, 0, 0.28), MINUS_Y),
        ((0.088, 0.02, 0), BENT),
    ],
}
BUILTIN = {"panda": "panda_hand", "iiwa14": "iiwa_link_ee", "ur5e": "tool0"}
NAMES = [*JOINTS, *BUILTIN]


def text_of(name, noise=0.0, length=0.0, random_seed=0):
    """URDF of a made-up arm; with `noise` [rad] and `length` [m] its joints are disturbed, as by a calibration."""
    rng = np.random.default_rng(random_seed)
    joints, parts = JOINTS[name], [f'<robot name="{name}"><link name="l0"/>']
    for k, (origin, axis) in enumerate(joints):
        xyz = np.array(origin) + length * rng.uniform(-1.0, 1.0, 3)
        rpy = np.array(SKEW if k == 0 else ORIGIN) + noise * rng.uniform(-1.0, 1.0, 3)
        parts.append(
            f'<link name="l{k + 1}"/><joint name="j{k + 1}" type="revolute">'
            f'<parent link="l{k}"/><child link="l{k + 1}"/>'
            f'<origin xyz="{xyz[0]} {xyz[1]} {xyz[2]}" rpy="{rpy[0]} {rpy[1]} {rpy[2]}"/>'
            f'<axis xyz="{axis[0]} {axis[1]} {axis[2]}"/>'
            f'<limit lower="{LIMITS[k][0]}" upper="{LIMITS[k][1]}" effort="1" velocity="1"/></joint>'
        )
    xyz, rpy = TOOL_PLACE
    parts.append(
        f'<link name="tip"/><joint name="tip" type="fixed"><parent link="l{len(joints)}"/><child link="tip"/>'
        f'<origin xyz="{xyz}" rpy="{rpy}"/></joint></robot>'
    )
    return "".join(parts)


@functools.cache
def robot_of(name, noise=0.0, length=0.0):
    """A robot, and the link with targets."""
    if name in BUILTIN:
        return load_robot(name, collision="ignore"), BUILTIN[name]
    return load_robot(text_of(name, noise, length)), "tip"


@functools.cache
def proofs_of(name, noise=0.0, length=0.0):
    """The nominal arm, and its proofs."""
    nominal = nominal_arm(arm_of(*robot_of(name, noise, length)))
    return nominal, ArmProofs(nominal)


def configurations(robot, count, rng, lower, upper):
    """Active joints within limits: many at a limit, some near multiples of a right angle, [count, joints]."""
    joint_q = rng.uniform(lower, upper, (count, len(lower)))
    at_limit = rng.random(joint_q.shape) < np.where(rng.random(count) < 0.3, 0.8, 0.2)[:, None]
    joint_q = np.where(at_limit, np.where(rng.random(joint_q.shape) < 0.5, lower, upper), joint_q)
    near = np.round(joint_q / (np.pi / 2)) * (np.pi / 2) + rng.normal(size=joint_q.shape) * 10.0 ** rng.uniform(
        -7, -2, (count, 1)
    )
    return np.where(rng.random((count, 1)) < 0.2, np.clip(near, lower, upper), joint_q)


def disturbed(positions, orientations_xyzw, rng, position_tolerance, orientation_tolerance):
    """Targets within the tolerances of poses, most of them at the very end."""
    count = len(positions)
    shift, turn = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in rng.normal(size=(2, count, 3)))
    shares = np.where(rng.random((2, count, 1)) < 0.6, 0.99999, rng.random((2, count, 1)))
    turned = quaternion_multiply(quaternion_exp(orientation_tolerance * shares[1] * turn), orientations_xyzw)
    return positions + position_tolerance * shares[0] * shift, turned


def anywhere(robot, link, rng, count):
    """Positions in a box around the reach, with random orientations."""
    reached = robot.forward_kinematics(robot.random_joint_q(rng, 2000), [link]).positions[:, 0]
    low, high = reached.min(axis=0), reached.max(axis=0)
    orientations_xyzw = rng.normal(size=(count, 4))
    orientations_xyzw /= np.linalg.norm(orientations_xyzw, axis=1, keepdims=True)
    return rng.uniform(low - 0.05 * (high - low), high + 0.05 * (high - low), (count, 3)), orientations_xyzw


def inputs_of(arm, positions, orientations_xyzw, tolerances, lower, upper, tool=None, last=None):
    """Values of the variables of proofs."""
    tool = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0] if tool is None else tool
    values = dict(zip(TARGET, [*positions.T, *orientations_xyzw.T], strict=True)) | dict(zip(TOOL, tool, strict=True))
    values |= {lower_name(k): lower[dof] for k, dof in enumerate(arm.dofs)}
    values |= {upper_name(k): upper[dof] for k, dof in enumerate(arm.dofs)}
    values |= dict(zip(("position_tolerance", "orientation_tolerance"), tolerances, strict=True))
    return values if last is None else values | dict(zip(LAST, last, strict=True))
