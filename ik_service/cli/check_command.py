"""`ik-service fk` and `ik-service check`: poses of links in configurations, their limits and distances from contact."""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.table import Table

from ik_service.cli.console import escaped, output_console
from ik_service.cli.solve_files import csv_numbers, read_csv_rows
from ik_service.integrations.bulk.targets import CSV_COLUMNS, read_archive
from ik_service.mechanism.configuration import checked_joint_q, degrees_hint
from ik_service.mechanism.names import leaf_links
from ik_service.mechanism.transforms import Float64Array
from ik_service.robots import RobotModel, load_robot, load_world
from ik_service.robots.readers.fitted_spheres import named_configurations
from objectives.errors import InputError

OF_FILE = 1e-6  # distance beyond a limit caused by the digits of a file [rad or m]
ROWS_SHOWN = 20  # configurations in a table


def read_configurations(robot: RobotModel, given: Sequence[str]) -> Float64Array:
    """Return configurations, shape [n, joint_coord_count]; InputError if they cannot be read.

    They are a .csv file with a column per coordinate, an .npz file with the array `joint_q`, or one in numbers. Results
    of `ik-service solve` are such files; other columns and arrays are passed over.
    """
    path = Path(given[0])
    if path.suffix == ".csv":
        header, rows = read_csv_rows(path)
        if missing := [name for name in robot.coordinate_names if name not in header]:
            raise InputError(f"'{path}' has no column '{missing[0]}'. Columns: {','.join(robot.coordinate_names)}.")
        found = csv_numbers(path, header, rows, robot.coordinate_names)
    elif path.suffix == ".npz":
        found = read_archive(str(path), ["joint_q"])[1]["joint_q"]
    else:
        found = np.array(read_numbers(robot, ",".join(given)))
    if not len(found := checked_joint_q(robot, found)):
        raise InputError(f"'{path}' holds no configuration.")
    return found


def read_numbers(robot: RobotModel, text: str, what: str = "The configuration") -> list[float]:
    """Return the coordinates in a text: numbers with commas, 'zero' or 'middle'; InputError for others."""
    if text in (named := named_configurations(robot)):
        return [*named[text]]
    try:
        numbers = [float(word) for word in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != robot.joint_coord_count:
        raise InputError(f"{what} {text!r} is not {robot.joint_coord_count} numbers with commas, 'zero' or 'middle'.")
    return numbers


def print_poses(name: str, given: Sequence[str], links: Sequence[str]) -> None:
    """Print the poses of links, by default of the leaf links, as CSV: of one link a file of targets for `solve`."""
    robot = load_robot(name)
    links = links or leaf_links(robot) or robot.link_names
    poses = np.concatenate(robot.forward_kinematics(read_configurations(robot, given), links), axis=-1)
    names = [name for columns in CSV_COLUMNS.values() for name in columns]
    rows = [["link", *names]]
    rows += [[link, *map("{:.9g}".format, pose)] for own in poses for link, pose in zip(links, own, strict=True)]
    sys.stdout.writelines(f"{','.join(row[len(links) == 1 :])}\n" for row in rows)  # the name of one link is left out


def print_check(name: str, given: Sequence[str], world: Path | None) -> bool:
    """Print which configurations are within limits and free of contact; return whether all are.

    The check for contact needs a collision model, and with a world an InputError says so.
    """
    robot = load_robot(name)
    joint_q = read_configurations(robot, given)
    dofs = np.flatnonzero(robot.dof_coordinate >= 0)
    q = joint_q[:, robot.dof_coordinate[dofs]]
    beyond = np.maximum(robot.joint_limit_lower[dofs] - q, q - robot.joint_limit_upper[dofs])
    clearance, closest = np.full(len(q), np.nan), list[tuple[str, str] | None]([None] * len(q))
    if robot.collision_model is not None or world is not None:
        found = robot.collision(joint_q, None if world is None else load_world(world))
        clearance, closest = found.clearance, found.closest_pairs
    within = (beyond <= OF_FILE).all(axis=1)
    sound = within & ~(clearance <= 0.0)
    console = output_console()
    table = Table("row", "beyond limits", "clearance", "closest")
    for row in (np.flatnonzero(~sound) if len(q) > ROWS_SHOWN else np.arange(len(q)))[:ROWS_SHOWN]:
        far = [f"{robot.dof_names[dofs[k]]} by {beyond[row, k]:.3g}" for k in np.flatnonzero(beyond[row] > OF_FILE)]
        distance = "" if np.isnan(clearance[row]) else f"{clearance[row]:.4g} m"
        words = ", ".join(far) or "none", distance, " + ".join(closest[row] or ())
        table.add_row(str(row), *map(escaped, words))
    if table.row_count:
        console.print(table)
    is_checked = robot.collision_model is not None
    free = f", {int((clearance > 0.0).sum())} free of contact" * is_checked
    lines = [f"{int(within.sum())} of {len(q)} within the limits{free}.", *[robot.collision_words] * (not is_checked)]
    for line in (*lines, *filter(None, [degrees_hint(robot, joint_q)])):
        console.print(line, markup=False, soft_wrap=True)
    return bool(sound.all())
