"""What the programs of digests compare, and what they take apart."""

import json

import msgpack
import numpy as np
import pytest

from benchmarks.digests.answers import of_result
from benchmarks.digests.bodies import parts_of
from benchmarks.digests.program import compared, digest, run
from ik_service import IKResult, IKSolver, load_robot
from ik_service.result_schema import ISLAND_COLUMNS, RESULT_COLUMNS

BEFORE = {"arm": {"joint_q": "1", "cost": "2"}, "loop": {"joint_q": "3"}}


@pytest.mark.parametrize(
    ("before", "after", "status", "line"),
    [
        (BEFORE, BEFORE, 0, "2 set-ups compared, 0 differ"),
        (BEFORE, BEFORE | {"arm": {"joint_q": "1", "cost": "9"}}, 1, "1 differ\n  arm: cost\n"),
        (BEFORE, {"loop": {"joint_q": "3"}}, 1, "arm: missing"),
        (BEFORE, {}, 1, "loop: missing"),
        (
            BEFORE,
            BEFORE | {"arm": BEFORE["arm"] | {"torque": "7"}, "cart": {"joint_q": "4"}},
            0,
            "new, not compared: 2\n  arm: torque\n  cart: all parts\n",
        ),
        ({}, BEFORE, 1, ""),
    ],
    ids=["equal", "a part differs", "a set-up is missing", "all are missing", "new parts", "nothing to compare"],
)
def test_what_differs_is_named(before, after, status, line, capsys):
    assert compared(before, after) == status
    assert line in capsys.readouterr().out


def test_digests_tell_types_shapes_and_bytes_apart():
    values = [np.zeros(2), np.zeros(2, np.float32), np.zeros((2, 1)), np.array([0.0, -0.0]), b"", "", None]
    assert len({digest(value) for value in values}) == len(values)
    assert digest(np.arange(6).reshape(2, 3).T) == digest(np.arange(6).reshape(2, 3).T.copy())


@pytest.mark.parametrize(("media_type", "encode"), [("application/json", None), ("application/msgpack", msgpack.packb)])
def test_bodies_are_taken_apart_to_the_byte_but_for_times(media_type, encode):
    body = {"robot": "a}", "timing_ms": {"solve": 1.0}, "cost": [1.5, None], "of": {"x": "]"}}
    encode = encode or (lambda value: json.dumps(value, separators=(",", ":")).encode())
    kept = {name: encode(value) for name, value in body.items() if name != "timing_ms"}
    assert parts_of(media_type, encode(body)) == kept


def test_every_column_of_the_schema_is_a_part():
    robot = load_robot("panda", collision="ignore")
    poses = robot.forward_kinematics(robot.mid_joint_q, ["panda_hand"])
    result = IKSolver(robot, ["panda_hand"], device="cpu").solve(poses.positions, poses.orientations_xyzw)
    assert isinstance(result, IKResult)
    names = [column.name for column in RESULT_COLUMNS] + [f"island_{column.name}" for column in ISLAND_COLUMNS]
    assert list(of_result(result)) == names


def test_a_set_up_that_fails_hides_no_other_and_resuming_keeps_what_the_file_has(tmp_path, monkeypatch, capsys):
    def fails():
        raise ValueError("no answer")

    def set_ups(_budget):
        yield "arm, plain", lambda: {"joint_q": np.zeros(2)}
        yield "arm, broken", fails
        yield "loop, plain", lambda: {"joint_q": np.ones(2)}

    file = tmp_path / "before.json"
    file.write_text(json.dumps({"arm, plain": {"joint_q": "kept"}}))
    monkeypatch.setattr("sys.argv", ["digests", "--write", str(file), "--resume"])
    assert run("title", set_ups) == 1
    assert json.loads(file.read_text()) == {
        "arm, plain": {"joint_q": "kept"},
        "loop, plain": {"joint_q": digest(np.ones(2))},
    }
    assert "ValueError: no answer" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["digests", "--compare", str(file), "--only", "loop, plain"])
    assert run("title", set_ups) == 0
