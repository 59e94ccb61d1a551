"""Jerk limits: commands are means of the configurations of the last ticks, which keep all other limits.

With accelerations of at most A, that of a mean over n ticks changes by at most 2 A / n per tick, and a mean keeps all
limits of position, speed and acceleration that the configurations keep.
"""

import numpy as np
import warp as wp

from ik_service.control.limits import ControlLimits, limits_of_active
from ik_service.control.tick.arrays import DT, HISTORY, NOW, WINDOW, TickArrays
from ik_service.kernels.host_device_array import HostDeviceArray
from ik_service.mechanism.configuration import dof_values
from ik_service.mechanism.transforms import Float64Array
from ik_service.robots import RobotModel
from objectives import InputError


def add_smoothing(arrays: TickArrays, robot: RobotModel, limits: ControlLimits, acceleration: Float64Array) -> float:
    """Make arrays of jerk limits; return the time of a mean [s], 0 without a limit. InputError for bad limits."""
    given = dof_values(robot, "ControlLimits.jerk", limits.jerk, np.full(robot.joint_dof_count, np.inf))
    jerk = limits_of_active(robot, given)
    limited = np.isfinite(jerk)
    if not limited.any():
        return 0.0
    if (jerk == 0.0).any() or not np.isfinite(acceleration[limited]).all():
        raise InputError("ControlLimits.jerk needs numbers above 0, and an acceleration limit for each of its joints.")
    if robot.every_constraint or robot.velocity_constraints or limits.clearance is not None:
        raise InputError("ControlLimits.jerk is not for robots with constraints, nor beside clearance, yet.")
    if (robot.dof_coordinate[robot.dof_active >= 0] < 0).any():
        raise InputError("ControlLimits.jerk is not for ball and floating joints that move yet. Lock them.")
    (robots, coordinates), dofs = arrays.joint_q.host.shape, arrays.joint_qd.host.shape[1]
    device = wp.get_device(arrays.joint_q.device.device)
    for name, columns in (("inner_q", coordinates), ("inner_qd", dofs), ("history", HISTORY * coordinates)):
        arrays.smoothed[name] = HostDeviceArray((robots, columns), wp.float64, device, per_problem=False)
    return float((2.0 * acceleration[limited] / jerk[limited]).max())


def begin_smoothing(arrays: TickArrays, robot: RobotModel, time: float, dt: float, *, moved: bool) -> None:
    """Begin a tick; after a reset, go on from its position and speed. InputError for another `dt` or `moved` robots."""
    settings = arrays.settings.host
    if moved:
        raise InputError("With ControlLimits.jerk ticks go on from the last command. Call reset to start elsewhere.")
    if settings[WINDOW] > 0:
        if dt != arrays.numbers.host[DT]:
            raise InputError(
                f"With ControlLimits.jerk all ticks after reset have one length, {arrays.numbers.host[DT]:g} s. "
                f"dt is {dt:g} s. Give the planned length of your ticks, not the measured one."
            )
        settings[NOW] = (settings[NOW] + 1) % settings[WINDOW]
        return
    window = max(int(np.ceil(time / dt * (1.0 - 1e-9))), 1)
    if window > HISTORY:
        raise InputError(f"ControlLimits.jerk needs {window} ticks. Allowed: {HISTORY}; take a larger jerk or dt.")
    joint_q, joint_qd = arrays.answers["joint_q_out"].host, arrays.answers["joint_qd_out"].host
    rates, moving = np.zeros_like(joint_q), robot.dof_coordinate >= 0
    rates[:, robot.dof_coordinate[moving]] = joint_qd[:, moving]
    ticks = np.arange(window) - 0.5 * (window - 1)  # from the middle of the mean
    history = arrays.smoothed["history"].host.reshape((*joint_q.shape, HISTORY))
    history[..., :window] = joint_q[..., None] + rates[..., None] * dt * ticks
    arrays.smoothed["inner_q"].host[...], arrays.smoothed["inner_qd"].host[...] = history[..., window - 1], joint_qd
    settings[WINDOW], settings[NOW] = window, 0
