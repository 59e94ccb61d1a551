"""Every status has advice and a code of MoveIt."""

from ik_service import IKStatus

# Constants of moveit_msgs/MoveItErrorCodes.
MOVEIT = {"SUCCESS": 1, "TIMED_OUT": -6, "GOAL_IN_COLLISION": -12, "INVALID_ROBOT_STATE": -17, "NO_IK_SOLUTION": -31}


def test_every_status_has_its_code_of_moveit():
    codes = {status.name: status.moveit_error_code for status in IKStatus}
    assert codes == {
        "CONVERGED": MOVEIT["SUCCESS"],
        "STALLED": MOVEIT["NO_IK_SOLUTION"],
        "MAX_ITERATIONS": MOVEIT["NO_IK_SOLUTION"],
        "DEADLINE": MOVEIT["TIMED_OUT"],
        "BLOCKED_BY_LIMITS": MOVEIT["NO_IK_SOLUTION"],
        "INVALID": MOVEIT["INVALID_ROBOT_STATE"],
        "LOOP_OPEN": MOVEIT["NO_IK_SOLUTION"],
        "BLOCKED_BY_COLLISION": MOVEIT["GOAL_IN_COLLISION"],
        "UNREACHABLE": MOVEIT["NO_IK_SOLUTION"],
        "NO_CANDIDATE": MOVEIT["NO_IK_SOLUTION"],
        "UNSETTLED": MOVEIT["NO_IK_SOLUTION"],
    }
