"""Robot files that others wrote: how many load, and why the others do not.

python -m benchmarks.accuracy.robot_files [FOLDER ...]

Every URDF and every MJCF file below the folders is loaded; without folders, those of two packages that tests install.
Scenes and fragments of robots are counted too: they are files of that format, whatever they are for. Files of MJCF that
have equalities are opened by MuJoCo too: in configurations that are closed by the constraints that were read, its own
residuals of these are printed. URDF files are loaded by Pinocchio too: which files one of the two loads and the other
does not, and by how much poses of links differ in random configurations, with lengths above 1 m in proportion.
"""

import argparse
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import mujoco
import numpy as np
import pinocchio as pin

from ik_service.robots import RobotModel, load_robot
from objectives.errors import IKError

PACKAGES = ("example-robot-data", "frax")
LONGEST = 110  # characters of a reason
CLOSED_COUNT = 20
POSE_COUNT = 5  # configurations of each file
MJCF = re.compile(rb"<mujoco(include)?[\s>]")


class FileOutcome(NamedTuple):
    """What became of a file."""

    path: Path
    reason: str | None
    robot: RobotModel | None = None


def robot_files(folder: Path) -> Iterator[Path]:
    """Find robot files; an .xml that is no MJCF is none."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and (is_urdf(path) or (path.suffix == ".xml" and MJCF.search(path.read_bytes()))):
            yield path


def is_urdf(path: Path) -> bool:
    """Tell whether the name is that of a URDF file."""
    return path.suffix.lower() == ".urdf"


def installed(package: str) -> Iterator[Path]:
    """Find robot files of an installed package."""
    for file in sorted(metadata.files(package) or []):
        if file.suffix == ".urdf":
            yield Path(str(file.locate()))


def load(path: Path) -> FileOutcome:
    """Load a file."""
    try:
        robot = load_robot(path)
    except IKError as error:
        return FileOutcome(path, str(error))
    return FileOutcome(path, None, robot)


def show_residuals(outcomes: Sequence[FileOutcome]) -> None:
    """Print MuJoCo's residuals of the equalities that were read, where these are met."""
    print("\n## MuJoCo's residuals where the constraints are closed\n")
    heads = ("file", "loops", "followers", "of configurations", "closed", "largest residual [m or rad]")
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    for path, _, robot in outcomes:
        if robot is None or is_urdf(path):
            continue
        model = mujoco.MjModel.from_xml_path(str(path))
        read = [
            e
            for e in np.flatnonzero(model.eq_active0)
            if not is_left_out(robot, model.equality(e).name or f"equality_{e}")
        ]
        if not read:
            continue
        closure = robot.constraints.close(robot.random_joint_q(np.random.default_rng(0), CLOSED_COUNT))
        largest = max((residual(model, robot, q, read) for q in closure.joint_q[closure.closed]), default=np.nan)
        counts = (len(robot.loops), len(robot.follower_dofs), CLOSED_COUNT, int(closure.closed.sum()))
        print(f"| {path.name} | {' | '.join(map(str, counts))} | {largest:.1e} |")


def is_left_out(robot: RobotModel, equality: str) -> bool:
    """Tell whether an equality is named by a warning."""
    return any(f"'{equality}'" in warning.partition(":")[0] for warning in robot.warnings)


def residual(model: Any, robot: RobotModel, joint_q: np.ndarray, equalities: Sequence[int]) -> float:
    """Compute the largest of MuJoCo's residuals of equalities, in one of our configurations."""
    data = mujoco.MjData(model)
    for joint in range(model.njnt):
        ours = robot.joint_index(model.joint(joint).name or f"joint_{joint}")
        q = joint_q[robot.joint_q_start[ours] : robot.joint_q_start[ours + 1]].copy()
        if len(q) > 1:
            q[-4:] = np.roll(q[-4:], 1)  # w first there
        data.qpos[model.jnt_qposadr[joint] : model.jnt_qposadr[joint] + len(q)] = q
    mujoco.mj_fwdPosition(model, data)
    rows = (data.efc_type == int(mujoco.mjtConstraint.mjCNSTR_EQUALITY)) & np.isin(data.efc_id, equalities)
    return float(np.abs(data.efc_pos[rows]).max())


def show_pinocchio(files: Mapping[str, Sequence[FileOutcome]]) -> None:
    """Print what Pinocchio loads of the URDF files of each folder, and how far poses differ."""
    print("\n## URDF beside Pinocchio\n")
    heads = ("folder", "files", "load", "Pinocchio loads", "which fail here", "largest difference of a pose [m or 1]")
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    for name, found in files.items():
        models = [pinocchio_model(one.path) for one in found]
        loads = [model is not None for model in models]
        alone = sum(one.robot is None for one, is_loaded in zip(found, loads, strict=True) if is_loaded)
        differences = [
            pose_difference(one.robot, model)
            for one, model in zip(found, models, strict=True)
            if one.robot is not None and model is not None
        ]
        ours = sum(one.robot is not None for one in found)
        print(f"| {name} | {len(found)} | {ours} | {sum(loads)} | {alone} | {max(differences, default=np.nan):.1e} |")


def pinocchio_model(path: Path) -> Any:
    """Load a file with Pinocchio; None where it cannot."""
    try:
        return pin.buildModelFromUrdf(str(path))
    except (ValueError, RuntimeError):
        return None


def pose_difference(robot: RobotModel, model: Any) -> float:
    """Compute the largest difference of positions [m] and of entries of rotations, relative to lengths above 1 m."""
    data, joint_q = model.createData(), robot.random_joint_q(np.random.default_rng(0), POSE_COUNT)
    frames = [
        k for k, one in enumerate(model.frames) if one.type == pin.FrameType.BODY and one.name in robot.link_names
    ]
    poses = robot.forward_kinematics(joint_q, [model.frames[k].name for k in frames])
    largest = 0.0
    for q, positions, orientations_xyzw in zip(joint_q, poses.positions, poses.orientations_xyzw, strict=True):
        pin.framesForwardKinematics(model, data, coordinates(robot, model, q))
        for frame, position, q_xyzw in zip(frames, positions, orientations_xyzw, strict=True):
            pose = data.oMf[frame]
            off = np.abs(pose.translation - position).max() / max(1.0, np.abs(position).max())
            turned = np.abs(pose.rotation - pin.Quaternion(q_xyzw).toRotationMatrix()).max()
            largest = max(largest, float(off), float(turned))
    return largest


def coordinates(robot: RobotModel, model: Any, joint_q: np.ndarray) -> np.ndarray:
    """Write a configuration as Pinocchio has it: angles without limits, and those of planar joints, as cos and sin."""
    found = pin.neutral(model)
    for joint, name in [*zip(model.joints, model.names, strict=True)][1:]:  # the first one is the world
        ours = robot.joint_index(name)
        q = joint_q[robot.joint_q_start[ours] : robot.joint_q_start[ours + 1]]
        is_angle = joint.nq == len(q) + 1
        q = np.array([*q[:-1], np.cos(q[-1]), np.sin(q[-1])]) if is_angle else q
        found[joint.idx_q : joint.idx_q + joint.nq] = q
    return found


def general(reason: str) -> str:
    """Put a mark for what differs from file to file."""
    text = re.sub(r"'[^']*'", "'...'", " ".join(reason.split()))
    text = re.sub(r"-?\d+(\.\d*)?(e[-+]?\d+)?", "N", re.sub(r"^line \d+, [^:]*: |\[.*\]", "", text))
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def show_reasons(title: str, reasons: Sequence[tuple[str, Path]]) -> None:
    """Print each reason with its count and a file that it is about."""
    found = Counter(general(reason) for reason, _ in reasons)
    examples = {general(reason): path for reason, path in reversed(reasons)}
    print(f"\n## {title}\n\n| count | reason | for example |\n|---|---|---|")
    for reason, count in found.most_common():
        print(f"| {count} | {reason} | {'/'.join(examples[reason].parts[-3:])} |")


def main() -> None:
    """Load the files and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    folders = [folder.absolute() for folder in parser.parse_args().folders]
    with TemporaryDirectory() as elsewhere, chdir(elsewhere):  # where MuJoCo leaves its log
        show(folders)


def show(folders: Sequence[Path]) -> None:
    """Load the files below folders and print what became of them."""
    files = {folder.name: robot_files(folder) for folder in folders} or {name: installed(name) for name in PACKAGES}
    outcomes: dict[tuple[str, str], list[FileOutcome]] = defaultdict(list)
    for name, paths in files.items():
        for path in paths:
            outcomes[name, "URDF" if is_urdf(path) else "MJCF"].append(load(path))
    print("| folder | format | files | load | with loops | with warnings |\n|---|---|---|---|---|---|")
    for (name, kind), found in outcomes.items():
        robots = [one.robot for one in found if one.robot is not None]
        counts = (len(robots), sum(bool(one.loops) for one in robots), sum(bool(one.warnings) for one in robots))
        print(f"| {name} | {kind} | {len(found)} | {' | '.join(map(str, counts))} |")
    everything = [one for found in outcomes.values() for one in found]
    show_reasons("Files that do not load", [(one.reason, one.path) for one in everything if one.reason])
    warnings = [(text, one.path) for one in everything if one.robot is not None for text in one.robot.warnings]
    show_reasons("Warnings", warnings)
    show_residuals(everything)
    show_pinocchio({name: found for (name, kind), found in outcomes.items() if kind == "URDF"})


if __name__ == "__main__":
    main()
