"""The controller sends a simulated Panda along a circle: MuJoCo's joints follow as a real machine's would, a bit late.

python examples/mujoco_in_the_loop.py [--seconds 4]

It needs the extra `mujoco`. The arm comes from the URDF file that the controller has. That file has no masses, so every
link gets the same simple ones here; position and speed of every joint are servoed to the controller's commands.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

try:
    import mujoco
except ModuleNotFoundError:
    raise SystemExit("This example needs MuJoCo, the extra 'mujoco': pip install '.[mujoco]'") from None

import ik_service
from ik_service.control import ControlLimits, IKController

DT = 1e-3  # [s] of ticks and of steps of the simulation
LINK = "panda_hand"
START = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.8, 0.7])
ACCELERATION = np.array([15.0, 7.5, 10.0, 12.5, 15.0, 20.0, 20.0])  # [rad/s^2] of the maker; the URDF has none
MASS, INERTIA = 2.0, 0.02  # [kg], [kg m^2] of every link
ARMATURE = 0.1  # [kg m^2] of the motors, at the joints
STIFFNESS, DAMPING = 4000.0, 200.0  # [N m/rad], [N m s/rad] of the servos


@dataclass
class Run:
    """What happened, a line per tick.

    Attributes:
        commanded: Distance of the commanded hand to the target [m].
        simulated: Distance of the simulated hand to the target [m].
        joints: Largest distance of a simulated joint to its command [rad].
    """

    commanded: np.ndarray
    simulated: np.ndarray
    joints: np.ndarray


def simulated_panda(urdf: Path) -> mujoco.MjModel:
    """Return a Panda with masses, and servos for position and speed of every joint."""
    spec = mujoco.MjSpec.from_string(urdf.read_text(encoding="utf-8"))
    spec.compiler.fusestatic = False  # keep the hand, which is fixed to the last link
    spec.option.timestep = DT
    for body in spec.bodies[1:]:
        body.mass, body.inertia, body.explicitinertial = MASS, np.full(3, INERTIA), True
    for joint in spec.joints:
        joint.armature = ARMATURE
    names = [joint.name for joint in spec.joints]
    for name in names:
        servo = spec.add_actuator(name=f"{name}_position", target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        servo.set_to_position(kp=STIFFNESS)
    for name in names:
        servo = spec.add_actuator(name=f"{name}_speed", target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        servo.set_to_velocity(kv=DAMPING)
    return spec.compile()


def circle(start: np.ndarray, seconds: float) -> np.ndarray:
    """Return poses along one round, from rest to rest, [ticks, 7]."""
    s = np.linspace(0.0, 1.0, int(seconds / DT))
    turn = 2.0 * np.pi * s**3 * (10.0 - 15.0 * s + 6.0 * s**2)
    poses = np.tile(start, (len(s), 1))
    poses[:, :3] += 0.1 * np.column_stack([np.cos(turn) - 1.0, np.sin(turn), np.zeros_like(turn)])
    return poses


def run(seconds: float) -> Run:
    """Run controller and simulation side by side."""
    urdf = Path(ik_service.__file__).parent / "robots" / "builtin" / "panda.urdf"
    model = simulated_panda(urdf)
    names = [model.joint(k).name for k in range(model.njnt)]
    limits = ControlLimits(acceleration=ACCELERATION)
    # Joints in the order of the simulation, quaternions as it writes them.
    controller = IKController(ik_service.load_robot(urdf), [LINK], limits=limits, joint_order=names, wxyz=True)
    data, hand = mujoco.MjData(model), model.body(LINK).id
    data.qpos[:] = START
    mujoco.mj_forward(model, data)
    controller.reset(data.qpos)  # start from where the arm is
    controller.warmup()
    lines = []
    for pose in circle(np.concatenate([data.xpos[hand], data.xquat[hand]]), seconds):
        # The next tick starts from the command of this one, not from where the arm is: a servo is always a little
        # late, and a controller that started from there would be as late again in every tick.
        result = controller.step(pose, dt=DT)
        data.ctrl[:] = np.concatenate([result.joint_q[0], result.joint_qd[0]])
        data.qfrc_applied[:] = data.qfrc_bias  # gravity and the like, as controllers of arms compensate them
        mujoco.mj_step(model, data)
        mujoco.mj_kinematics(model, data)  # where the step has led
        error = np.linalg.norm(data.xpos[hand] - pose[:3])
        lines.append((result.position_error[0, 0], error, np.abs(data.qpos - result.joint_q[0]).max()))
    return Run(*(np.array(column) for column in zip(*lines, strict=True)))


def main(arguments: Sequence[str] | None = None) -> Run:
    """Run the simulation and print how it went."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4.0, help="time for the round")
    found = run(parser.parse_args(arguments).seconds)
    print(f"commands: at most {1e3 * found.commanded.max():.3g} mm off the circle")
    print(f"simulated arm: {1e3 * found.simulated.max():.3g} mm, {1e3 * found.simulated[-1]:.3g} mm at the end")
    print(f"simulated joints: at most {1e3 * found.joints.max():.3g} mrad behind their commands")
    return found


if __name__ == "__main__":
    main()
