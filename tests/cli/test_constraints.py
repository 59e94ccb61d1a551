"""`ik-service constraints`: loops, what drives a mechanism, and sweeps, as text and as JSON."""

import json

import numpy as np
import pytest

from ik_service import load_robot

SWEEP = ("constraints", "four_bar", "--sweep", "crank_joint=0:0.5:0.25")


def test_it_tells_what_closes_a_mechanism_and_what_drives_it(run):
    shown = json.loads(run("constraints", "stewart", "--json").stdout)
    assert [one["name"] for one in shown["constraints"]] == [f"leg{k}_ball" for k in range(1, 7)]
    assert {one["rows"] for one in shown["constraints"]} == {3}
    assert shown["status"] == "closed"
    assert max(shown["constraint_error"]) <= 1e-10
    assert (shown["rank"], len(shown["independent"]), len(shown["dependent"])) == (18, 6, 18)
    robot = load_robot("stewart")
    joint_q = [shown["joint_q"][name] for name in robot.coordinate_names]
    assert np.abs(robot.constraints.residual(joint_q)).max() <= 1e-10
    text = run("constraints", "stewart").stdout
    assert "leg6_ball" in text
    assert "Independent rows: 18\n" in text


def test_rows_that_say_nothing_new_and_warnings_are_named(run, tmp_path):
    from ik_service.robots.readers.catalog import builtin_urdf

    path = tmp_path / "bar.urdf"
    path.write_bytes(builtin_urdf("four_bar"))
    pin = {"joint": "revolute", "link": "coupler", "offset": {"xyz": [0.5, 0, 0]}, "reference_link": "rocker"}
    pin |= {"name": "pin", "reference_offset": {"xyz": [0.4, 0, 0]}}
    document = {"loops": [pin, {"name": "lost", "joint": "weld", "link": "nowhere"}]}
    path.with_name("bar.constraints.json").write_text(json.dumps(document))
    shown = json.loads(run("constraints", path, "--json").stdout)
    assert (shown["rank"], len(shown["redundant_rows"])) == (2, 3)
    assert all(name.startswith("pin/") for name in shown["redundant_rows"])
    assert shown["conflicting_rows"] == []
    (warning,) = shown["warnings"]
    assert "'lost'" in warning
    assert "Redundant rows: pin/" in run("constraints", path).stdout
    assert f"Warning: {warning}\n" in run("constraints", path).stdout


def test_a_robot_without_loops_says_so(run):
    assert run("constraints", "panda").stdout == "panda has no constraints.\n"
    shown = json.loads(run("constraints", "panda", "--json").stdout)
    assert (shown["constraints"], shown["rank"]) == ([], 0)


def test_a_sweep_moves_one_joint_and_keeps_loops_closed(run):
    shown = json.loads(run(*SWEEP, "--json").stdout)
    joint_q = np.array(shown["joint_q"])
    assert shown["values"] == [0.0, 0.25, 0.5]
    assert joint_q[:, shown["coordinate_names"].index("crank_joint")].tolist() == shown["values"]
    assert set(shown["status"]) == {"closed"}
    assert np.abs(load_robot("four_bar").constraints.residual(joint_q)).max() <= 1e-10
    head, *lines = [line.split(",") for line in run(*SWEEP).stdout.splitlines()]
    assert (head[:3], len(set(head))) == (["value", "status", "largest_error"], len(head))
    assert [line[0] for line in lines] == ["0", "0.25", "0.5"]
    column = head.index("rocker_joint")
    np.testing.assert_allclose([float(line[column]) for line in lines], joint_q[:, column - 3], rtol=1e-8)


@pytest.mark.parametrize("text", ["crank_joint", "crank_joint=0:1", "=0:1:0.1", "crank_joint=0:1:0", "nix=0:1:0.1"])
def test_a_sweep_that_cannot_be_made_is_refused(run, text):
    assert "Error: " in run("constraints", "four_bar", "--sweep", text, code=2).output
