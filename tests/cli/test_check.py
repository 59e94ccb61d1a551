"""`ik-service fk` and `ik-service check`: numbers, files of solve, limits, contact with the robot and a world."""

import csv

import numpy as np
import pytest

from ik_service import load_robot
from tests.robots.covered_robots import ARM

HOME = (0.0, -0.4, 0.0, -2.0, 0.0, 1.6, -0.8)
FOLDED = (0.0, 0.0, 0.0, -3.0, 0.0, 0.1, 0.0)  # the hand in the forearm
DIGITS = 1e-8  # of poses as text


def rows_of(text):
    return list(csv.DictReader(text.splitlines()))


def pose_of(row):
    return [float(row[name]) for name in ("x", "y", "z", "qx", "qy", "qz", "qw")]


def write_csv(path, robot, joint_q, **columns):
    header = [*robot.coordinate_names, *columns]
    lines = [[*q, *more] for q, *more in zip(joint_q, *columns.values(), strict=True)]
    path.write_text("\n".join(",".join(map(str, line)) for line in (header, *lines)))
    return path


@pytest.mark.parametrize("given", [HOME, (",".join(map(str, HOME)),), ("-0.1,0,0,-2,0,1.6,0",)])
def test_numbers_apart_or_with_commas_are_one_configuration(run, given):
    robot, q = load_robot("panda"), [float(word) for word in ",".join(map(str, given)).split(",")]
    (row,) = rows_of(run("fk", "panda", *given).stdout)
    expected = np.concatenate(robot.forward_kinematics(q, ["panda_hand"]), -1)[0, 0]
    np.testing.assert_allclose(pose_of(row), expected, atol=DIGITS)


def test_poses_of_several_links_and_configurations_name_their_links(run, tmp_path):
    robot = load_robot("dual_panda")
    joint_q = robot.random_joint_q(np.random.default_rng(0), 3)
    path = write_csv(tmp_path / "q.csv", robot, joint_q, status=["converged"] * 3)
    rows = rows_of(run("fk", "dual_panda", path).stdout)
    hands = ["left_panda_hand", "right_panda_hand"]
    assert [row["link"] for row in rows] == hands * 3
    expected = np.concatenate(robot.forward_kinematics(joint_q, hands), -1).reshape(6, 7)
    np.testing.assert_allclose([pose_of(row) for row in rows], expected, atol=DIGITS)
    assert [row["link"] for row in rows_of(run("fk", "dual_panda", "zero", "-l", hands[1], "-l", hands[0]).stdout)] == [
        hands[1],
        hands[0],
    ]


@pytest.mark.parametrize("suffix", ["csv", "npz"])
def test_results_of_solve_are_checked_and_their_poses_are_targets_again(run, tmp_path, suffix):
    targets, results, again = tmp_path / "targets.csv", tmp_path / f"results.{suffix}", tmp_path / "again.csv"
    targets.write_text("x,y,z,qx,qy,qz,qw\n0.4,0.1,0.5,1,0,0,0\n0.5,-0.2,0.4,1,0,0,0\n")
    run("solve", "panda", targets, "-o", results, "--device", "cpu")
    poses = run("fk", "panda", results).stdout
    given = np.array([pose_of(row) for row in rows_of(targets.read_text())])
    found = np.array([pose_of(row) for row in rows_of(poses)])
    np.testing.assert_allclose(found[:, :3], given[:, :3], atol=1e-3)
    again.write_text(poses)
    assert "2 of 2 solved" in run("solve", "panda", again, "--device", "cpu").stderr
    assert "2 of 2 within the limits, 2 free of contact." in run("check", "panda", results).stdout


def test_what_is_beyond_limits_or_in_contact_fails(run, tmp_path):
    beyond = (*HOME[:1], -2.0, *HOME[2:])
    path = write_csv(tmp_path / "q.csv", load_robot("panda"), [HOME, beyond, FOLDED])
    said = run("check", "panda", path, code=1).stdout
    assert "2 of 3 within the limits, 2 free of contact." in said
    rows = [line for line in said.splitlines() if line.startswith("│")]
    assert "panda_joint2 by 0.237" in rows[1]
    assert "-0." not in rows[0]
    assert "-0." in rows[2]
    assert "panda_hand" in rows[2]
    path = write_csv(tmp_path / "many.csv", load_robot("panda"), [HOME] * 25 + [FOLDED])
    rows = [line for line in run("check", "panda", path, code=1).stdout.splitlines() if line.startswith("│")]
    assert [line.split()[1] for line in rows] == ["25"]  # of many, the failing are listed
    assert "Are the angles in degrees?" in run("check", "panda", 0, -40, 0, -120, 0, 90, 45, code=1).stdout


def test_a_world_is_checked(run, tmp_path):
    world = tmp_path / "cell.json"
    x, y, z = load_robot("panda").forward_kinematics(HOME, ["panda_hand"]).positions[0, 0].tolist()
    world.write_text(f'{{"objects": {{"ball": {{"shape": "sphere", "radius": 0.1, "position": [{x}, {y}, {z}]}}}}}}')
    assert "1 free of contact" in run("check", "panda", *HOME).stdout
    said = run("check", "panda", *HOME, "--world", world, code=1).stdout
    assert "0 free of contact" in said
    assert "panda_hand + ball" in said


def test_a_robot_without_spheres_is_checked_for_limits_and_says_so(run, tmp_path):
    arm = tmp_path / "arm.urdf"
    arm.write_text(ARM.format(shape='<sphere radius="0.1"/>'))
    said = run("check", arm, "zero").stdout
    assert "1 of 1 within the limits.\n" in said
    assert "Collision: not checked" in said
    world = tmp_path / "cell.json"
    world.write_text('{"objects": {}}')
    assert "no collision model" in run("check", arm, "zero", "--world", world, code=2).stderr


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("1,2",), "The configuration '1,2' is not 7 numbers with commas, 'zero' or 'middle'."),
        (("home",), "The configuration 'home' is not 7 numbers"),
        (("--bogus", "3"), "The configuration '--bogus,3' is not 7 numbers"),
        (("nan,0,0,0,0,0,0",), "joint_q[0, 0] is nan"),
        (("no.csv",), "Cannot read 'no.csv'"),
        (("{part}",), "has no column 'panda_joint2'. Columns: panda_joint1,panda_joint2,"),
        (("{words}",), "line 2, column panda_joint1: 'a' is not a finite number."),
        (("{npz}",), "column 'joint_q' cannot be read"),
    ],
)
@pytest.mark.parametrize("command", ["fk", "check"])
def test_what_is_no_configuration_is_exit_code_2(run, tmp_path, command, given, message):
    files = {"{part}": tmp_path / "part.csv", "{words}": tmp_path / "words.csv", "{npz}": tmp_path / "q.npz"}
    files["{part}"].write_text("panda_joint1\n0\n")
    write_csv(files["{words}"], load_robot("panda"), [("a", *HOME[1:])])
    np.savez(files["{npz}"], positions=np.zeros((1, 3)))
    result = run(command, "panda", *(files.get(word, word) for word in given), code=2)
    assert message in result.stderr
    assert "Traceback" not in result.output
