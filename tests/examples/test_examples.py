"""Every example runs, and what it prints is so."""

import importlib.util
import re
import runpy
import sys
from pathlib import Path
from unittest.mock import MagicMock

import mujoco
import numpy as np
import pytest

import ik_service
from ik_service import IKSolver, load_robot
from ik_service.mechanism.transforms import quaternion_rotate, transform_multiply
from tests.page.guests import scene_server

URDF = Path(ik_service.__file__).parent / "robots" / "builtin" / "panda.urdf"
FOLDER = Path(__file__).parents[2] / "examples"
MET = 1e-4  # [m] the controller's own tolerance
ROUNDING = 1e-6  # of accelerations from differences of speeds, and of answers in float32
TOLERANCE = 1e-3, 1e-2  # [m], [rad] of the solver


@pytest.fixture
def example(request):
    name = request.param
    specification = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    try:
        specification.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[name]


def example_of(name):
    return pytest.mark.parametrize("example", [name], indirect=True, ids=[name])


def test_every_example_has_a_test():
    source = Path(__file__).read_text()
    source += (FOLDER.parent / "tests" / "frameworks" / "test_frameworks.py").read_text()
    names = [path.stem for path in FOLDER.glob("*.py")]
    assert len(names) >= 3
    assert [
        name for name in names if f'example_of("{name}")' not in source and f"examples/{name}.py" not in source
    ] == []


@example_of("track_circle")
def test_shapes_are_followed_within_all_limits(example, monkeypatch, tmp_path, capsys):
    pyplot = MagicMock()
    pyplot.subplots.return_value = MagicMock(), MagicMock()
    monkeypatch.setitem(sys.modules, "matplotlib", MagicMock(pyplot=pyplot))
    runs = example.main(["--seconds", "4", "--plot", str(tmp_path / "plot.png")])
    for run in runs.values():
        assert len(run.error) == 4000
        assert run.error.max() < MET
        assert run.success.all()
        assert 0.1 < np.abs(run.speeds).max() <= 1.0
        assert 0.1 < np.abs(run.accelerations).max() <= 1.0 + ROUNDING
    assert capsys.readouterr().out.count("error at most") == 2
    pyplot.subplots.return_value[0].savefig.assert_called_once_with(str(tmp_path / "plot.png"))


@example_of("dual_arm_carry")
def test_the_grip_is_kept_on_the_way(example, capsys):
    run = example.main(["--seconds", "3"])
    assert run.way_error.max() < MET
    assert run.grip_error.max() < 1e-6  # it weighs more than the way
    assert run.grip_angle.max() < 1e-6
    assert 0.1 < np.abs(run.speeds).max() <= 1.0
    assert "the grip gives at most" in capsys.readouterr().out


@example_of("dual_arm_carry")
def test_the_leading_hand_goes_the_way_of_the_object(example):
    there, back = example.leading_pose(0.5), example.leading_pose(1.0)
    assert np.linalg.norm(there[:3] - back[:3]) > 0.15
    np.testing.assert_allclose(np.linalg.norm(there[3:]), 1.0)
    np.testing.assert_allclose(example.leading_pose(0.0), back, atol=1e-12)


def test_without_mujoco_the_example_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(SystemExit, match=r"pip install '\.\[mujoco\]'"):
        runpy.run_path(str(FOLDER / "mujoco_in_the_loop.py"), run_name="__main__")


@example_of("mujoco_in_the_loop")
def test_the_simulated_arm_follows(example, capsys):
    run = example.main(["--seconds", "3"])
    assert run.commanded.max() < MET
    assert 1e-6 < run.simulated.max() < 5e-3  # it is late, as servos are, yet not by much
    assert run.joints.max() < 1e-2
    assert "simulated arm" in capsys.readouterr().out


@example_of("mujoco_in_the_loop")
def test_the_simulated_arm_is_the_controllers(example):
    robot = load_robot("panda")
    model = example.simulated_panda(URDF)
    data = mujoco.MjData(model)
    assert model.nu == 14
    for joint_q in robot.random_joint_q(np.random.default_rng(0), 5):
        data.qpos[:] = joint_q
        mujoco.mj_kinematics(model, data)
        hand = robot.forward_kinematics(joint_q[None], links=[example.LINK])
        np.testing.assert_allclose(data.xpos[model.body(example.LINK).id], hand.positions[0, 0], atol=1e-9)


@example_of("best_grasp")
def test_the_grasp_and_its_pre_grasp_are_met_clear_of_the_carton(example, capsys):
    best, robot = example.main(), load_robot("panda")
    assert best.success.tolist() == [True]
    world = example.World({"table": example.TABLE, "carton": example.CARTON})
    positions, turns, before = example.grasps()
    assert len(positions) == 2160
    for joint_q, wanted in ((best.joint_q, positions), (best.via_joint_q, before)):
        hand = robot.forward_kinematics(joint_q, ["panda_hand"])
        assert np.linalg.norm(hand.positions[0, 0] - wanted[best.candidate[0]]) < TOLERANCE[0]
        turned = np.abs(hand.orientations_xyzw[0, 0] @ turns[best.candidate[0]])
        assert 2.0 * np.arccos(min(turned, 1.0)) < TOLERANCE[1]
        assert robot.collision(joint_q, world).clearance[0] > 0.01 - ROUNDING
    np.testing.assert_allclose(np.abs(best.joint_q[0] - example.NOW).max(), best.value[0], atol=ROUNDING)
    assert 0.0 < np.abs(best.via_joint_q - best.joint_q).max() <= 0.8 + ROUNDING
    assert "grasp" in capsys.readouterr().out


@example_of("best_camera_pose")
def test_the_camera_looks_at_the_part_and_moves_better_than_from_the_first_place(example, capsys):
    best, first = example.main()
    robot = load_robot("panda")
    directions, distances = example.views(1000)
    for found in (best, first):
        assert found.success[0]
        hand = robot.forward_kinematics(found.joint_q, ["panda_hand"])
        pose = np.concatenate([hand.positions[0, 0], hand.orientations_xyzw[0, 0]])
        camera = transform_multiply(pose, np.array(example.CAMERA))
        k = found.candidate[0]
        wanted = example.PART + distances[k] * directions[k]
        assert np.linalg.norm(camera[:3] - wanted) < TOLERANCE[0]
        assert quaternion_rotate(camera[3:], np.array([0.0, 0.0, 1.0])) @ -directions[k] > np.cos(TOLERANCE[1])
        assert robot.collision(found.joint_q, example.WORLD).is_free[0]
    with_cost = [
        example.COST * (1.0 - directions[found.candidate[0], 2])
        - robot.manipulability(found.joint_q, "panda_hand", offset=example.CAMERA)[0]
        for found in (best, first)
    ]
    np.testing.assert_allclose(best.value[0], with_cost[0], atol=ROUNDING)
    assert with_cost[0] < with_cost[1]
    assert capsys.readouterr().out.count("manipulability") == 2


@example_of("reach_map")
def test_the_map_says_what_solves_say_and_finds_a_base(example, monkeypatch, tmp_path, capsys):
    pyplot = MagicMock()
    package = MagicMock(pyplot=pyplot)
    package.__spec__ = MagicMock()  # it is installed
    monkeypatch.setitem(sys.modules, "matplotlib", package)
    monkeypatch.chdir(tmp_path)
    example.main()
    pyplot.savefig.assert_called_once_with("reach_map.png")
    kept = np.load(tmp_path / "reach_map.npz")
    met = kept["met"]
    assert met.shape == (*map(len, example.AXES), example.TURNS)
    assert 0.2 < met.mean() < 0.4
    np.testing.assert_allclose(np.linalg.norm(kept["turns"], axis=1), 1.0)
    rng = np.random.default_rng(0)
    some = tuple(rng.integers(0, size, 500) for size in met.shape)
    positions = np.column_stack([kept[axis][index] for axis, index in zip("xyz", some[:3], strict=True)])
    solver = IKSolver(load_robot("panda"), ["panda_hand"])
    assert (solver.solve(positions, kept["turns"][some[3]]).success == met[some]).mean() > 0.99
    by_map, solved = map(
        int, re.search(r"by the map (\d+) of 600 grasps, solved (\d+)", capsys.readouterr().out).groups()
    )
    assert solved > 400
    assert abs(by_map - solved) < 60


@example_of("mouse_teleoperation")
def test_the_hand_follows_the_arrows_only_while_the_clutch_is_engaged(example):
    robot = load_robot("panda")
    with scene_server() as server:
        scene, drags = server.scene, {20: [0.1, 0.0, -0.1], 60: [-0.1, 0.0, 0.1], 80: [0.0, 0.2, 0.0]}
        made, pictures = [], iter(range(1000))
        add, check = scene.add_transform_controls, server.gui.add_checkbox
        scene.add_transform_controls = lambda *given, **more: made.append(add(*given, **more)) or made[-1]
        server.gui.add_checkbox = lambda *given, **more: made.append(check(*given, **more)) or made[-1]

        def played(_):
            picture = next(pictures)
            if picture in drags:
                made[0].position = made[0].position + np.array(drags[picture])
            made[1].value = not 50 <= picture < 70  # the arrows go back while the clutch is released

        joint_q = example.lead(server, 5.0, sleep=played)
    hand = robot.forward_kinematics(joint_q, ["panda_hand"]).positions[:, 0]
    ticks = round(example.PICTURE_S / example.DT)
    moved = [hand[k * ticks - 1] - hand[0] for k in (49, 79, 146)]
    np.testing.assert_allclose(moved, [[0.1, 0.0, -0.1], [0.1, 0.0, -0.1], [0.1, 0.2, -0.1]], atol=2e-3)
    joints = np.diff(joint_q, axis=0) / example.DT
    assert np.abs(np.diff(joints, axis=0)).max() / example.DT <= 10.0 * (1.0 + ROUNDING)
    assert np.linalg.norm(np.diff(hand, axis=0), axis=1).max() / example.DT < 0.6
