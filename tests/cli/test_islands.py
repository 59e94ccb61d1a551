"""`ik-service islands` and `ik-service constraints`: moving trees and closing rows, as text and as JSON."""

import json

import numpy as np
import pytest

from ik_service import load_robot

HANDS = ["left_panda_hand", "right_panda_hand"]
ARMS = [[f"{side}_panda_joint{k}" for k in range(1, 8)] for side in ("left", "right")]
TARGETS = [argument for hand in HANDS for argument in ("--target", hand)]


def report(run, *arguments):
    return json.loads(run("islands", *arguments, "--json").stdout)


def test_without_targets_the_trees_are_shown(run):
    shown = report(run, "dual_panda")
    assert shown["trees"] == ARMS
    assert shown["static_links"] == ["base", "left_panda_link0", "right_panda_link0"]
    text = run("islands", "dual_panda").stdout
    assert text.startswith("dual_panda: 2 kinematic trees\n")
    assert f"  tree 1: {', '.join(ARMS[1])}\n" in text


def test_two_arms_are_two_islands(run):
    shown = report(run, "dual_panda", *TARGETS)
    assert [island["joints"] for island in shown["islands"]] == ARMS
    assert [island["rows"] for island in shown["islands"]] == [[f"target {hand}"] for hand in HANDS]
    text = run("islands", "dual_panda", *TARGETS).stdout
    assert text.startswith("dual_panda: 2 islands\n")
    assert f"    joints: {', '.join(ARMS[0])}\n" in text


@pytest.mark.parametrize(
    ("arguments", "joints", "static_links"),
    [
        (("dual_panda", "-t", ":".join(HANDS)), ARMS[0] + ARMS[1], []),  # the reference couples the arms
        (("dual_panda", "-t", f"{HANDS[1]}:base"), ARMS[1], ["base"]),
    ],
)
def test_a_reference_link_couples_trees_or_is_static(run, arguments, joints, static_links):
    (island,) = report(run, *arguments)["islands"]
    assert (island["joints"], island["static_links"]) == (joints, static_links)


def test_what_moves_nothing_is_named(run):
    shown = report(run, "panda", "-t", "panda_hand", "--lock", "panda_joint1=0.5", "--lock", "panda_joint4=-1")
    assert shown["locked_joints"] == ["panda_joint1", "panda_joint4"]
    assert len(shown["islands"][0]["joints"]) == 5
    assert report(run, "panda", "--lock", "panda_joint1=0.5")["static_links"] == ["panda_link0", "panda_link1"]
    text = run("islands", "dual_panda", "-t", "base", "-t", HANDS[0]).stdout
    assert "in no island: target base. Link 'base' is static" in text


def test_links_whose_names_hold_colons_are_found(run, tmp_path):
    path = tmp_path / "colons.urdf"
    way = '<parent link="a"/><child link="arm:tip"/><axis xyz="0 0 1"/>'
    path.write_text(
        f'<robot name="r"><link name="a"/><link name="arm:tip"/><joint name="j" type="continuous">{way}</joint></robot>'
    )
    for target, static in (("arm:tip", []), ("arm:tip:a", ["a"]), ("a:arm:tip", ["a"])):
        (island,) = report(run, path, "-t", target)["islands"]
        assert island["static_links"] == static


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("pandora",), "Robot 'pandora'"),
        (("panda", "-t", "tool1"), "Link 'tool1'"),
        (("panda", "-t", "panda_hand:tool1"), "Link 'tool1'"),
        (("panda", "--lock", "panda_joint1"), "JOINT=VALUE"),
        (("panda", "--lock", "panda_joint1=fast"), "JOINT=VALUE"),
        (("panda", "--lock", "panda_joint1=nan"), "finite"),
        (("panda", "--lock", "panda_joint1=9"), "limits [-2.8973, 2.8973]"),
        (("panda", "--lock", "panda_joint1=0", "--lock", "panda_joint1=1"), "twice"),
        (("panda", "--lock", "wrist=0"), "Joint 'wrist'"),
    ],
)
def test_bad_arguments_are_exit_code_2_and_say_what_is_allowed(run, arguments, message):
    result = run("islands", *arguments, code=2)
    assert message in result.stderr
    assert "Traceback" not in result.output


# ---------------------------------------------------------------------- `ik-service constraints`
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
