"""Files of targets for the tests of bulk jobs, and what a solver that is called directly makes of them."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ik_service import IKSolver, load_robot
from ik_service.integrations.bulk import BulkJob, solve_job
from objectives import InputError

COUNT, PART_ROWS = 600, 100
PARTS = COUNT // PART_ROWS
LINK = "panda_hand"


def lists(array):
    """Arrays as lists of fixed size, nested where there are more axes."""
    values = pa.array(array.reshape(-1))
    for size in array.shape[:0:-1]:
        values = pa.FixedSizeListArray.from_arrays(values, size)
    return values


def write_targets(path, columns, **options):
    if path.suffix == ".npz":
        np.savez(path, **columns)
    else:
        pq.write_table(pa.table({name: lists(array) for name, array in columns.items()}), path, **options)
    return path


def random_columns(robot=None, links=(LINK,), count=COUNT):
    """Reachable targets and starts; of a Panda by itself."""
    robot, rng = robot or load_robot("panda"), np.random.default_rng(0)
    poses = robot.forward_kinematics(robot.random_free_joint_q(rng, count), links=list(links))
    one = len(links) == 1
    return {
        "positions": poses.positions[:, 0] if one else poses.positions,
        "orientations_xyzw": poses.orientations_xyzw[:, 0] if one else poses.orientations_xyzw,
        "initial_joint_q": robot.random_joint_q(rng, count),
    }


def rows(columns, selected):
    return {name: array[selected] for name, array in columns.items()}


def without(columns, *names):
    return {name: array for name, array in columns.items() if name not in names}


def panda_job(inputs, output: Path, **options):
    given = {"targets": [LINK], "device": "cpu", "part_rows": PART_ROWS} | options
    inputs = [inputs] if isinstance(inputs, Path) else inputs
    return BulkJob(robot=given.pop("robot", None) or load_robot("panda"), inputs=inputs, output=output, **given)


def solve(inputs, output, workers=None, *, mark_faulty=False, progress=None, **options):
    """The report on a job of a Panda."""
    return solve_job(panda_job(inputs, output, **options), workers, mark_faulty=mark_faulty, progress=progress)


def refused(message, inputs, output, error=InputError, **options):
    """The error of a job that is refused with a message."""
    with pytest.raises(error, match=message) as caught:
        solve(inputs, output, **options)
    return caught.value


def interrupted(inputs, output, after):
    """Runs a job until some problems are done with."""

    def stop(done, _):
        if done >= after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve(inputs, output, progress=stop)


def directly(columns, robot=None, links=(LINK,), **options):
    """The answers of a solver to all problems in one call."""
    solver = IKSolver(robot or load_robot("panda"), links, device="cpu", **options)
    given = [columns.get(name) for name in ("positions", "orientations_xyzw")]
    return solver.solve(*given, initial_joint_q=columns.get("initial_joint_q"))


def part_bytes(folder):
    """Contents of the files of results, by name; only those, the description and the lock may be there."""
    found = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    assert found.pop("_job.json")
    assert found.pop("_lock") == b""
    assert all(name.startswith("part-") for name in found)
    return found
