"""The compiled engine: the answers of the staged one, at its own pace."""

import numpy as np
import pytest
import warp as wp

from ik_service import EngineError, SolverOptions, Target, load_robot
from ik_service.robots import load_urdf
from ik_service.solver.compiled import island_launches
from objectives import IKObjectivePosition
from tests.solver.conftest import EACH_ENGINE, POSITION, Reachable, cpu_solver
from tests.solver.quick_objective import QuickObjective

pytestmark = pytest.mark.usefixtures("each_kernel")


def serial_chain(count):
    """A chain of revolute joints."""
    joints = [
        f'<link name="link{k + 1}"/><joint name="joint{k}" type="revolute"><parent link="link{k}"/>'
        f'<child link="link{k + 1}"/><origin xyz="0 0 0.1"/><axis xyz="{k % 2} {1 - k % 2} 0"/>'
        '<limit lower="-2" upper="2" effort="1" velocity="1"/></joint>'
        for k in range(count)
    ]
    return load_urdf(f'<robot name="chain"><link name="link0"/>{"".join(joints)}</robot>')


def make(robot, links, engine="compiled", **arguments):
    options = arguments.pop("options", SolverOptions(seeds=16))
    return cpu_solver(robot, links, engine=engine, options=options, **arguments)


@pytest.mark.evidence_cases("threads-compiled")
@EACH_ENGINE
def test_views_of_one_buffer_are_told_apart_by_their_lines(panda, engine):
    wanted = Reachable.draw(panda, ["panda_hand"], 7, random_seed=3).positions[:, 0]
    buffer = wp.array(wanted, dtype=wp.vec3, device="cpu")
    hand = IKObjectivePosition("panda_hand", buffer[:1])
    solver = cpu_solver(panda, objectives=[hand], engine=engine)
    for count, lines in ((7, slice(1)), (7, slice(7)), (5, slice(5)), (7, slice(7)), (3, slice(0, 6, 2))):
        hand.set_data("target_positions", buffer[lines])
        result = solver.solve(problem_count=count)
        reached = panda.forward_kinematics(result.joint_q, links=["panda_hand"]).positions[:, 0]
        assert result.success.all()
        assert np.linalg.norm(reached - wanted[lines], axis=1).max() < POSITION


def test_a_problem_that_is_not_covered_is_refused_with_the_reason(panda, each_kernel):
    end = IKObjectivePosition("link60", [1.0, 0.0, 1.0])
    quick = QuickObjective(panda.link_frame("panda_hand")[0], [(0.3, 0.2, 0.5)])
    refused = [
        (serial_chain(220), ["link220"], [], r"island has 220 DOFs.*1341 entries.*engine='staged'"),
        (serial_chain(60), (), [end], r"island has 60 DOFs.*1830 entries"),  # without targets all of J'J
        (panda, (), [quick], "QuickObjective is not stated as expressions"),
    ]
    if each_kernel == "threads":
        refused.append((serial_chain(60), ["link60"], [], r"60 DOFs.* entries; it holds 310.*engine='staged'"))
    for robot, links, objectives, reason in refused:
        with pytest.raises(EngineError, match=reason):
            make(robot, links, objectives=objectives)


@pytest.mark.evidence_cases("packets-float64", "threads-float32", "threads-float64")
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_further_solver_of_an_equal_signature_generates_no_code(precision, monkeypatch):
    options = SolverOptions(precision=precision)
    make(load_robot("panda", collision="ignore"), ["panda_hand"], options=options).solve([[0.4, 0.1, 0.5]])
    monkeypatch.setattr(island_launches, "build_program", None)
    weighted = Target("panda_hand", row_weights=[1.0, 2.0, 3.0, 1.0, 1.0, 1.0])
    again = make(load_robot("panda", collision="ignore"), [weighted], options=options, threads=2)
    assert again.solve([[0.3, 0.2, 0.5]]).success.all()
