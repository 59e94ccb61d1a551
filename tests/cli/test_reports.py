"""`ik-service solve --random`, `robots` and `version`."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from ik_service import builtin_robot_names, load_robot
from ik_service.cli.pose_problems import PoseProblems
from ik_service.cli.random_report import report_of, request_of
from ik_service.robots import builtin_urdf
from ik_service.service.pool.solver_cache import SolverCache
from ik_service.service.queue.solve_request import TimedResult


def test_the_random_report_as_json_and_for_people(run):
    report = json.loads(run("solve", "panda", "--random", "40", "--seed", "3", "--json", "--device", "cpu").stdout)
    assert (report["links"], report["problem_count"]) == (["panda_hand"], 40)
    assert report["solved"] == report["confirmed"] == report["status"]["converged"] >= 39
    assert report["success_rate"] == report["solved"] / 40
    assert 0 < report["position_error_m"]["median"] < 1e-3
    assert report["time_per_problem_us"] > 0
    text = run("solve", "ur5e", "--random", "5", "--device", "cpu").stdout
    assert "5 random reachable targets for tool0" in text
    assert re.search(r"solved.*\d of 5", text)


def test_several_links_have_targets_that_one_configuration_reaches(run):
    links = ("left_panda_hand", "right_panda_hand")
    flags = [argument for link in links for argument in ("--link", link)]
    report = json.loads(run("solve", "dual_panda", "--random", "5", "--json", "--device", "cpu", *flags).stdout)
    assert tuple(report["links"]) == links
    assert report["confirmed"] == report["solved"] >= 4


def test_equal_seeds_draw_equal_targets_and_others_do_not():
    panda = load_robot("panda")
    drawn = [PoseProblems.random(panda, ("panda_hand",), 4, seed) for seed in (1, 1, 2)]
    for first, second, third in (
        [request_of(problems).batch.positions[0] for problems in drawn],
        [problems.positions for problems in drawn],
    ):
        assert np.array_equal(first, second)
        assert not np.array_equal(first, third)


def test_a_false_success_would_show_in_the_report():
    panda = load_robot("panda")
    problems = PoseProblems.random(panda, ("panda_hand",), 4, 0)
    request = request_of(problems)
    result = SolverCache("cpu").solve(panda, request)
    assert report_of(problems, request.options, TimedResult(result, 0.0, 1.0), 0).confirmed == result.success.sum() > 0
    moved = replace(result, joint_q=result.joint_q + np.float32(0.1), success=np.ones(4, bool))
    assert report_of(problems, request.options, TimedResult(moved, 0.0, 1.0), 0).confirmed == 0


@pytest.mark.parametrize("name", builtin_robot_names())
def test_a_robot_and_its_tree_name_every_joint_and_link(run, name):
    robot = load_robot(name)
    assert name in run("robots").stdout
    listed, tree = run("robots", name).stdout, run("robots", name, "--tree").stdout
    assert all(dof in listed for dof in robot.dof_names)
    assert all(joint in tree for joint in robot.joint_names)
    assert all(link in tree and link in listed for link in robot.link_names)
    assert f": {robot.trees.ntree} kinematic tree" in tree
    assert all(f"Loop {loop.name}: {loop.joint}, " in listed for loop in robot.loops)


def test_what_was_left_out_of_a_file_is_shown_with_the_robot(run, tmp_path):
    (tmp_path / "arm.urdf").write_bytes(builtin_urdf("ur5e"))
    (tmp_path / "arm.constraints.json").write_text("[]")
    assert "Warning: arm.constraints.json: It must be a mapping" in run("robots", str(tmp_path / "arm.urdf")).stdout


def test_help_is_shown_without_arguments_and_has_units(run):
    for command in ("serve", "solve", "robots", "islands", "warmup", "bench", "version"):
        assert command in run(code=2).output
        assert "--help" in run(command, "--help").stdout
    assert "[m]" in run("solve", "--help").stdout
    assert "[rad or m]" in run("islands", "--help").stdout
