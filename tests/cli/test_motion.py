"""`ik-service clip` and `ik-service follow`: files of targets in, files of motions out, as the library gives them."""

import csv
import io
import json

import numpy as np
import pytest

from ik_service import IKSolver, load_robot
from ik_service.motion_columns import CLIP_COLUMNS, PATH_COLUMNS
from tests.cli.test_solve_file import HEADER, write_csv

COUNT, DT = 20, 0.02
X = np.linspace(0.4, 0.5, COUNT)
PATH = np.column_stack([X, 0.1 + 0 * X, X, np.tile([1.0, 0.0, 0.0, 0.0], (COUNT, 1))])
CALLS = {"clip": ("fit_clip", CLIP_COLUMNS), "follow": ("follow", PATH_COLUMNS)}


@pytest.fixture
def path_csv(tmp_path):
    return write_csv(tmp_path / "path.csv", HEADER, PATH.tolist())


@pytest.fixture(scope="module")
def solver():
    return IKSolver(load_robot("panda"), ["panda_hand"], device="cpu")


def move(run, name, path, *flags, **expected):
    return run(name, "panda", path, "--device", "cpu", *flags, **expected)


@pytest.mark.parametrize("name", CALLS)
def test_csv_has_each_column_by_the_names_of_its_entries(run, path_csv, solver, name):
    call, columns = CALLS[name]
    result = move(run, name, path_csv, "--dt", DT, "--velocity", 0.5, "--acceleration", 30, "-l", "panda_hand")
    found = getattr(solver, call)(PATH[:, :3], PATH[:, 3:], DT, velocity=0.5, acceleration=30.0)
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    names = {"coordinate_names": found.coordinate_names, "dof_names": found.dof_names, "links": ["panda_hand"]}
    labels = [
        (column, label)
        for column in columns
        for label in (names.get(column.axes[0], ()) if column.axes else [None])
        if getattr(found, column.name) is not None
    ]
    assert len(rows[0]) == len(labels) > 30
    for column, label in labels:
        header = column.edge_name if label is None else f"{column.edge_name}.{label}"
        texts = [row[label if column.name == "joint_q" else header] for row in rows]
        values = getattr(found, column.name)
        values = values if label is None else values[:, list(names[column.axes[0]]).index(label)]
        if column.dtype == "status":
            assert texts == found.status_names
        elif column.dtype == "bool":
            assert texts == [str(bool(value)).lower() for value in values]
        else:
            np.testing.assert_allclose([float(text or "nan") for text in texts], values, rtol=1e-5, atol=1e-12)
    assert f"of {COUNT} solved for panda_hand" in result.stderr


@pytest.mark.parametrize("name", CALLS)
def test_npz_and_json_hold_the_answers_of_http(run, tmp_path, solver, name):
    path, output = tmp_path / "path.npz", tmp_path / "motion.npz"
    np.savez(path, positions=PATH[:, :3], orientations_xyzw=PATH[:, 3:])
    move(run, name, path, "--dt", DT, "-o", output)
    found = getattr(solver, CALLS[name][0])(PATH[:, :3], PATH[:, 3:], DT)
    with np.load(output) as saved:
        for column in CALLS[name][1]:
            expected = getattr(found, column.name)
            if expected is not None:
                np.testing.assert_array_equal(saved[column.edge_name], expected)
        assert saved["status_names"][saved["status"]].tolist() == found.status_names
        assert saved["dof_names"].tolist() == list(found.dof_names)
    asked, answer = tmp_path / "asked.json", tmp_path / "answer.json"
    target = {"link": "panda_hand", "positions": PATH[:, :3].tolist(), "orientations_xyzw": PATH[:, 3:].tolist()}
    own = {"smoothness": 3.0} if name == "clip" else {"start_joint_q": found.joint_q[0].tolist()}
    asked.write_text(json.dumps({"targets": [target], "dt": 1.0, **own}))
    move(run, name, asked, "--dt", DT, "-o", answer)  # the option counts
    again = getattr(solver, CALLS[name][0])(PATH[:, :3], PATH[:, 3:], DT, **own)
    written = json.loads(answer.read_text())
    np.testing.assert_array_equal(written["joint_q"], again.joint_q)
    np.testing.assert_array_equal(written["joint_qd"], again.joint_qd)


def test_a_path_keeps_off_the_objects_of_a_file(run, path_csv, tmp_path):
    world = tmp_path / "world.json"
    world.write_text('{"objects": {"ball": {"shape": "sphere", "radius": 0.03, "position": [0.55, 0.1, 0.6]}}}')
    result = move(run, "follow", path_csv, "--dt", DT, "--world", world)
    status = [row["status"] for row in csv.DictReader(io.StringIO(result.stdout))]
    assert status[0] == "converged"
    assert status[-1] == "blocked_by_collision"


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ([], "Give --dt"),
        (["--dt", 0], "dt is 0.0. Allowed: above 0 s."),
        (["--dt", DT, "--velocity", 0], "velocity is 0 for a joint"),
        (["--dt", DT, "-l", "foot"], "foot"),
        (["--dt", DT, "-o", "motion.txt"], "suffix '.txt'"),
    ],
)
def test_what_cannot_be_is_told_in_a_line(run, path_csv, flags, text):
    for name in CALLS:
        result = move(run, name, path_csv, *flags, code=2)
        assert text in result.stderr


def test_columns_of_other_commands_are_refused(run, tmp_path):
    path = write_csv(tmp_path / "groups.csv", f"{HEADER},group", [[*row, 0] for row in PATH[:3].tolist()])
    assert "positions and orientations alone" in move(run, "follow", path, "--dt", DT, code=2).stderr
    np.savez(tmp_path / "starts.npz", positions=PATH[:, :3], initial_joint_q=np.zeros((COUNT, 7)))
    assert "Leave the other columns out" in move(run, "clip", tmp_path / "starts.npz", "--dt", DT, code=2).stderr


def test_a_path_of_which_nothing_is_met_has_the_exit_code_of_nothing_solved_and_a_clip_held_back_has_not(run, tmp_path):
    far = write_csv(tmp_path / "far.csv", "x,y,z", [[9, 9, 9]] * 3)
    assert "0 of 3 solved" in move(run, "follow", far, "--dt", DT, code=1).stderr
    fast = write_csv(tmp_path / "fast.csv", HEADER, PATH[::9].tolist())
    result = move(run, "clip", fast, "--dt", DT, "--velocity", 1)
    assert "blocked_by_limits" in result.stdout
    assert "3 of 3 solved" in result.stderr
