"""The tables for people who come from other libraries have a row for all that these offer."""

import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TASKS_AND_LIMITS = (  # public names of mink.tasks and mink.limits, version 1.3
    "AxisAlignTask ComTask DampingTask DofFreezingTask EqualityConstraintTask FrameTask LookAtTask "
    "KineticEnergyRegularizationTask PostureTask RelativeFrameTask "
    "CollisionAvoidanceLimit ConfigurationLimit FreeJointVelocityLimit VelocityLimit"
)
KINEMATICS_BASE = (  # virtual functions of kinematics::KinematicsBase of MoveIt 2
    "getPositionIK searchPositionIK getPositionFK setRedundantJoints supportsGroup initialize "
    "getJointNames getLinkNames setSearchDiscretization getSearchDiscretization setDefaultTimeout"
)
ARGUMENTS_OF_MOVEIT = "consistency_limits solution_callback timeout return_approximate_solution lock_redundant_joints"


def offered(peer):
    if peer == "mink":
        return TASKS_AND_LIMITS.split()
    if peer == "moveit":
        return [*KINEMATICS_BASE.split(), *ARGUMENTS_OF_MOVEIT.split()]
    import newton.ik  # two seconds, for whoever collects the tests

    solver = newton.ik.IKSolver
    names = [
        *vars(newton.ik),
        *vars(solver),
        *inspect.signature(solver).parameters,
        *inspect.signature(solver.step).parameters,
    ]
    return sorted({name for name in names if not name.startswith("_") and name != "self"})


@pytest.mark.parametrize("peer", ["mink", "moveit", "newton"])
def test_a_table_has_a_row_for_each(peer):
    lines = (ROOT / "docs" / f"from_{peer}.md").read_text().splitlines()
    rows = [line.split(" | ", 1) for line in lines if line.startswith("| ")]
    words = {word for there, _ in rows for word in re.findall(r"\w+", there)}
    assert len(offered(peer)) > 10
    assert [name for name in offered(peer) if name not in words] == []
    assert all(here.strip(" |") for _, here in rows)
