"""What `solver.islands()` and the advice tell: members, static links, targets that nothing can move."""

import numpy as np
import pytest

import objectives
from ik_service import SolverOptions, Target
from ik_service.solver.verdict.advice import advice, why_static
from tests.solver.conftest import bare_robot, cpu_solver, poses_of

HANDS = ["left_panda_hand", "right_panda_hand"]
ARMS = [tuple(f"{side}_panda_joint{k}" for k in range(1, 8)) for side in ("left", "right")]
ROWS = [(f"target {hand}",) for hand in HANDS]


def members(report):
    return [(island.rows, island.joints) for island in report.islands]


BOTH = [(ROWS[0] + ROWS[1], ARMS[0] + ARMS[1])]
ISLANDS = {  # targets, whether islands are told apart, the islands, and joints that no row touches
    "two arms": (HANDS, True, list(zip(ROWS, ARMS, strict=True)), ()),
    "seen from the other hand": ([Target(HANDS[0], reference_link=HANDS[1]), HANDS[1]], True, BOTH, ()),
    "islands=False": (HANDS, False, BOTH, ()),
    "one arm": (HANDS[1:], True, [(ROWS[1], ARMS[1])], ARMS[0]),
}


@pytest.mark.parametrize(("targets", "islands", "expected", "untouched"), ISLANDS.values(), ids=ISLANDS)
def test_targets_and_joints_are_those_of_their_islands(dual_panda, targets, islands, expected, untouched):
    report = cpu_solver(dual_panda, targets, islands=islands).islands()
    assert members(report) == expected
    assert (report.untouched_joints, report.unmoved, report.locked_joints) == (untouched, (), ())


def test_a_static_reference_is_named_and_joins_nothing(dual_panda):
    targets = [Target(hand, reference_link="base") for hand in HANDS]
    report = cpu_solver(dual_panda, targets).islands()
    assert [island.static_links for island in report.islands] == [("base",), ("base",)]
    assert "refers to static links: base" in str(report)


def test_the_report_is_that_of_the_solve(dual_panda):
    posture = objectives.IKObjectivePosture(dual_panda.mid_joint_q, weight=0.01, joints=list(ARMS[0]))
    solver = cpu_solver(dual_panda, HANDS, objectives=[posture])
    before = solver.islands()
    poses = dual_panda.forward_kinematics(dual_panda.random_joint_q(np.random.default_rng(0), 2), HANDS)
    result = solver.solve(poses.positions, poses.orientations_xyzw)
    assert solver.islands() == before
    assert len(before.islands) == 2
    assert before.islands[0].rows == ("target left_panda_hand", "IKObjectivePosture")
    for islands in result.islands:
        assert [(island.rows, island.joints) for island in islands] == members(before)


def test_weights_that_differ_between_problems_give_each_its_islands(dual_panda):
    weights = np.array([[1.0] * 6, [0.0] * 6])
    between = objectives.IKObjectiveRelativePose(*HANDS, [0.0, 0, 0], [0.0, 0, 0, 1], row_weights=weights)
    solver = cpu_solver(dual_panda, HANDS, objectives=[between])
    assert [len(solver.islands(problem).islands) for problem in (0, 1)] == [1, 2]
    for problem in (2, -1):
        with pytest.raises(objectives.InputError, match="0 to 1"):
            solver.islands(problem)


def test_an_objective_that_nothing_moves_is_in_no_island(dual_panda):
    still = objectives.IKObjectivePosition("base", [0.0, 0.0, 0.0])
    report = cpu_solver(dual_panda, HANDS, objectives=[still]).islands()
    (unmoved,) = report.unmoved
    assert (unmoved.rows, unmoved.links) == ("IKObjectivePosition", ("base",))
    assert "'base'" in unmoved.reason


def test_text_names_every_joint_and_row(dual_panda):
    locked = dual_panda.lock({"right_panda_joint2": 0.5})
    text = str(cpu_solver(locked, [HANDS[1], "base"]).islands())
    told = "dual_panda: 1 island", "target right_panda_hand", "target base", "locked: right_panda_joint2", *ARMS[0]
    assert [name for name in told if name not in text] == []


REASONS = [
    (Target("base"), {}, "Link 'base' is static (fixed to the world)"),
    (Target("left_panda_hand", reference_link="left_panda_link8"), {}, "static relative to 'left_panda_link8' (one is"),
    (Target("left_panda_link1"), {"left_panda_joint1": 0.0}, "locked: 'left_panda_joint1'), so nothing brings it"),
    (Target("left_panda_link1", reference_link="base"), {"left_panda_joint1": 0.0}, "unlock a joint"),
]


@pytest.mark.parametrize(("target", "locked", "expected"), REASONS)
def test_the_reason_names_the_static_link_and_what_holds_it(dual_panda, target, locked, expected):
    robot = dual_panda.lock(locked)
    reason = why_static(robot, target)
    assert expected in reason
    assert f"'{target.link}'" in reason
    (unmoved,) = cpu_solver(robot, [target, HANDS[1]]).islands().unmoved
    assert unmoved.reason == reason
    for moving in (Target(HANDS[0]), Target("base", reference_link=HANDS[0])):
        assert why_static(dual_panda, moving) is None


def test_a_link_that_moves_but_never_turns_is_told():
    robot, link = bare_robot("panda_gripper").activate(["panda_finger_joint1"]), "panda_leftfinger"
    solver = cpu_solver(robot, [link])
    (unmoved,) = solver.islands().unmoved
    assert f"No active joint turns link '{link}'" in unmoved.reason
    assert len(solver.islands().islands) == 1
    position, turn = poses_of(robot, robot.mid_joint_q[None], link)
    result = solver.solve(np.tile(position, (2, 1)), np.concatenate([turn[:, ::-1], turn]))
    assert result.success.tolist() == [False, True]
    said = [advice(robot, solver.targets, SolverOptions(), result, result.islands, problem=k) for k in (0, 1)]
    assert f"No active joint turns link '{link}'" in said[0]
    assert said[1] == "Every target is met within its tolerance."


def test_advice_names_a_static_link_that_misses_and_the_island_in_trouble(dual_panda):
    solver = cpu_solver(dual_panda, [*HANDS, "base"], options=SolverOptions(seeds=2))
    poses = dual_panda.forward_kinematics(dual_panda.random_joint_q(np.random.default_rng(1), 1), HANDS)
    positions = np.array([[*poses.positions[0], [1.0, 0.0, 0.0]], [*poses.positions[0], [0.0, 0.0, 0.0]]])
    positions[1, 1] = [9.0, 0.0, 0.0]
    result = solver.solve(positions)
    assert not result.success.any()
    static, far = (
        advice(dual_panda, solver.targets, solver.options, result, result.islands, problem=k) for k in (0, 1)
    )
    assert static == why_static(dual_panda, solver.targets[2])
    assert "'base'" not in far
    assert far.startswith("target right_panda_hand: ")
