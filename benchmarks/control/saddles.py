"""Arms at zero whose hands go along short straight lines: many zeros are exact saddles or beside one.

arms stretched out at zero -> lines of 5 cm along each axis, there to stay -> the last tick
a miss -> curvatures of the error at its configuration, in float64, of the joints that no limit holds

    python -m benchmarks.control.saddles > saddles.txt
"""

import sys

import numpy as np

from benchmarks.problems.compared_robots import ComparedRobot
from ik_service import IKSolver, RobotModel
from ik_service.control import IKController

DISTANCE, SPEED, DT = 0.05, 0.05, 2e-3  # [m], [m/s], [s]
TICKS_MAX = 20_000
STANDING = 200  # ticks in which no joint moves by more than STILL: the arm has come to rest
STILL = 1e-7  # [rad or m]
NUDGE = 1e-4  # [rad or m] of the differences
NEAR_LIMIT = 1e-6  # [rad or m]
SOLVE = {"best_of": "nearest", "position_tolerance": 1e-4, "orientation_tolerance": 1e-3}  # those of a controller
AXES = ("+x", "-x", "+y", "-y", "+z", "-z")
ARMS = {
    "panda": ("panda", "panda_hand"),
    "ur5e": ("ur5e", "tool0"),
    "iiwa14": ("iiwa14", "iiwa_link_ee"),
    "kinova": ("kinova_description/robots/kinova.urdf", "j2s6s200_end_effector"),
    "xarm7": ("xarm_description/urdf/xarm7.urdf", "link_eef"),
    "ur3": ("ur_description/urdf/ur3_robot.urdf", "tool0"),
    "ur5": ("ur_description/urdf/ur5_robot.urdf", "tool0"),
    "ur10": ("ur_description/urdf/ur10_robot.urdf", "tool0"),
    "ur5, limited": ("ur_description/urdf/ur5_joint_limited_robot.urdf", "tool0"),
    "z1": ("z1_description/urdf/z1.urdf", "link06"),
    "so100": ("so_arm_description/urdf/so100.urdf", "gripper"),
    "so101": ("so_arm_description/urdf/so101.urdf", "gripper_frame_link"),
    "tiago": ("tiago_description/robots/tiago.urdf", "hand_palm_link"),
    "tiago dual, left": ("tiago_description/robots/tiago_dual.urdf", "hand_left_palm_link"),
    "tiago dual, right": ("tiago_description/robots/tiago_dual.urdf", "hand_right_palm_link"),
    "tiago pro": ("tiago_pro_description/robots/tiago_pro.urdf", "gripper_left_base_link"),
    "talos, left": ("talos_data/robots/talos_full_v2.urdf", "gripper_left_base_link"),
    "talos, right": ("talos_data/robots/talos_full_v2.urdf", "gripper_right_base_link"),
    "baxter, left": ("baxter_description/urdf/baxter.urdf", "left_gripper"),
    "baxter, right": ("baxter_description/urdf/baxter.urdf", "right_gripper"),
    "romeo, left": ("romeo_description/urdf/romeo.urdf", "l_gripper"),
    "romeo, right": ("romeo_description/urdf/romeo.urdf", "r_gripper"),
    "pr2, left": ("pr2_description/urdf/pr2.urdf", "l_gripper_palm_link"),
    "g1, left": ("g1_description/urdf/g1_29dof_rev_1_0.urdf", "left_rubber_hand"),
    "b1 with z1": ("b1_description/urdf/b1-z1.urdf", "link06"),
    "icub, left": ("icub_description/robots/icub.urdf", "l_hand"),
}


def followed(robot: RobotModel, link: str, start, ends, orientation):
    """Return the result of the last tick of hands that go along straight lines to their ends."""
    begin = robot.forward_kinematics([start], [link]).positions[0, 0]
    controller = IKController(robot, [link], robots=len(ends))
    controller.reset(start)
    rest, before = 0, start
    for tick in range(TICKS_MAX):
        share = min(1.0, (tick + 1) * SPEED * DT / DISTANCE)
        poses = np.hstack([begin + share * (ends - begin), np.tile(orientation, (len(ends), 1))])
        result = controller.step(poses[:, None], dt=DT)
        rest = rest + 1 if share == 1.0 and np.abs(result.joint_q - before).max() < STILL else 0
        before = result.joint_q.copy()
        if rest > STANDING:
            break
    return result


def least_curvature(robot: RobotModel, link: str, joint_q, position, orientation) -> float:
    """Return the lowest curvature of the error's square over the largest, of DOFs that no limit holds."""
    count, scale = len(joint_q), 2.0 * 0.4 * robot.length_unit

    def cost(configurations):
        pose = robot.forward_kinematics(configurations, [link])
        x, y, z, w = (-orientation * [1, 1, 1, -1]).tolist()
        a = pose.orientations_xyzw[:, 0]
        vector = a[:, :3] * w + a[:, 3:] * [x, y, z] + np.cross(a[:, :3], [x, y, z])
        return 0.5 * ((pose.positions[:, 0] - position) ** 2).sum(axis=1) + 0.5 * scale**2 * (vector**2).sum(axis=1)

    steps = NUDGE * np.eye(count)
    gradient = (cost(joint_q + steps) - cost(joint_q - steps)) / (2.0 * NUDGE)
    lower, upper = robot.joint_limit_lower, robot.joint_limit_upper
    held = (joint_q <= lower + NEAR_LIMIT) & (gradient > 0) | (joint_q >= upper - NEAR_LIMIT) & (gradient < 0)
    free = np.flatnonzero(~held & (robot.dof_active >= 0))
    ahead, across = (steps[free][:, None] + sign * steps[free][None] for sign in (1, -1))
    around = [cost((joint_q + sign * one).reshape(-1, count)) for one in (ahead, across) for sign in (1, -1)]
    hessian = (around[0] + around[1] - around[2] - around[3]).reshape(len(free), -1) / (4.0 * NUDGE**2)
    values = np.linalg.eigvalsh(hessian)
    return float(values[0] / values[-1])


def main(names) -> None:
    """Print a line for each arm."""
    print("| arm | met | met by a solve nearby | missed: error [mm], largest move, status, lowest curvature |")
    print("|---|---|---|---|")
    for name in names or ARMS:
        file, link = ARMS[name]
        robot = ComparedRobot(name, file, (link,)).robot
        start = robot.clamp_joint_q(np.zeros((1, robot.joint_coord_count)))[0]
        pose = robot.forward_kinematics([start], [link])
        position, orientation = pose.positions[0, 0], pose.orientations_xyzw[0, 0]
        ends = position + DISTANCE * np.repeat(np.eye(3), 2, axis=0) * np.tile([[1.0], [-1.0]], (3, 1))
        result = followed(robot, link, start, ends, orientation)
        given, starts = np.tile(orientation, (6, 1)), np.tile(start, (6, 1))
        solved = IKSolver(robot, [link]).solve(ends, given, initial_joint_q=starts, options=SOLVE)
        misses = []
        for k in np.flatnonzero(~result.success):
            move, far = np.abs(result.joint_q[k] - start).max(), np.abs(solved.joint_q[k] - start).max()
            curvature = least_curvature(robot, link, result.joint_q[k], ends[k], orientation)
            words = f"{AXES[k]}: {1e3 * result.position_error[k, 0]:.2f}, {move:.1e}, {result.status_names[k]}, "
            misses.append(words + f"{curvature:.1e}" + (f" (solved {far:.2f} away)" if solved.success[k] else ""))
        met = int(result.success.sum())
        print(f"| {name} | {met} | {int(solved.success.sum())} | {'; '.join(misses)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
