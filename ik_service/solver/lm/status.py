"""Status of a solved problem, with a sentence of advice and the corresponding code of MoveIt."""

from enum import IntEnum


class IKStatus(IntEnum):
    """Reason for the end of a problem's solve.

    CONVERGED comes with `success`; if objectives alone are minimised, so does BLOCKED_BY_LIMITS at a minimum.
    """

    CONVERGED = 0
    STALLED = 1
    MAX_ITERATIONS = 2
    DEADLINE = 3
    BLOCKED_BY_LIMITS = 4
    INVALID = 5
    LOOP_OPEN = 6
    BLOCKED_BY_COLLISION = 7
    UNREACHABLE = 8
    NO_CANDIDATE = 9
    UNSETTLED = 10

    @property
    def word(self) -> str:
        """The status as a lower-case word, as in all results outside of Python."""
        return STATUS_WORDS[self]

    @property
    def advice(self) -> str:
        """Advice to the caller, in one sentence."""
        return _ADVICE[self]

    @property
    def advice_without_targets(self) -> str:
        """Advice for objectives alone, in one sentence."""
        return _ADVICE_WITHOUT_TARGETS.get(self, _ADVICE[self])

    @property
    def moveit_error_code(self) -> int:
        """The corresponding value of `moveit_msgs/MoveItErrorCodes`."""
        return _MOVEIT_ERROR_CODES[self]


STATUS_WORDS = tuple(status.name.lower() for status in IKStatus)
"""Words of the statuses, by code."""
_ADVICE = {
    IKStatus.CONVERGED: "Every target is met within its tolerance.",
    IKStatus.STALLED: "No way was found to reduce the error further: the target is probably out of reach; "
    "check its frame and units, start from elsewhere, or ask for a number of seeds, all of which are tried then: by "
    "default a search ends once its least error has come up often.",
    IKStatus.MAX_ITERATIONS: "The iterations ran out before the error settled: allow more of them or more seeds, "
    "or bring the target within reach.",
    IKStatus.DEADLINE: "The deadline passed first: the configuration is the best one found by then.",
    IKStatus.BLOCKED_BY_LIMITS: "The nearest configuration sits at joint limits that push against the target: "
    "see active_limits, move the target or start elsewhere.",
    IKStatus.INVALID: "Numbers that are not finite came up: check the targets and weights written to device arrays, "
    "and the values and derivatives of the objectives.",
    IKStatus.LOOP_OPEN: "A loop of the robot could not be closed: allow more seeds, or a start near a closed "
    "configuration; or its joints and lengths allow none.",
    IKStatus.BLOCKED_BY_COLLISION: "Every target is met, but links touch each other or an object, or come nearer than "
    "the margin: see the closest pair, allow more seeds, or move the target or the object.",
    IKStatus.UNREACHABLE: "Proven to be out of reach: no configuration within the joint limits comes within the "
    "tolerances. Check frame and units, or move the pose.",
    IKStatus.NO_CANDIDATE: "The group has no candidates: give it some, or leave its number out.",
    IKStatus.UNSETTLED: "Another pass of the fit would still move this frame: see its errors, which may be small.",
}
_ADVICE_WITHOUT_TARGETS = {
    IKStatus.CONVERGED: "The objectives are at a minimum, or at zero.",
    IKStatus.STALLED: "No step was found that lowers the cost, though it is no proven minimum: look at the cost, "
    "or try other weights, or a start or more seeds.",
    IKStatus.MAX_ITERATIONS: "The iterations ran out before the cost settled: allow more of them.",
    IKStatus.BLOCKED_BY_LIMITS: "The least cost found sits at joint limits, beyond which it would fall further: "
    "see active_limits, look at the cost or start elsewhere.",
    IKStatus.BLOCKED_BY_COLLISION: "Links touch each other or an object, or come nearer than the margin: see the "
    "closest pair, allow more seeds, or move the object.",
}
_SUCCESS, _TIMED_OUT, _GOAL_IN_COLLISION, _INVALID_ROBOT_STATE, _NO_IK_SOLUTION = 1, -6, -12, -17, -31
_MOVEIT_ERROR_CODES = {
    IKStatus.CONVERGED: _SUCCESS,
    IKStatus.STALLED: _NO_IK_SOLUTION,
    IKStatus.MAX_ITERATIONS: _NO_IK_SOLUTION,
    IKStatus.DEADLINE: _TIMED_OUT,
    IKStatus.BLOCKED_BY_LIMITS: _NO_IK_SOLUTION,
    IKStatus.INVALID: _INVALID_ROBOT_STATE,
    IKStatus.LOOP_OPEN: _NO_IK_SOLUTION,
    IKStatus.BLOCKED_BY_COLLISION: _GOAL_IN_COLLISION,
    IKStatus.UNREACHABLE: _NO_IK_SOLUTION,
    IKStatus.NO_CANDIDATE: _NO_IK_SOLUTION,
    IKStatus.UNSETTLED: _NO_IK_SOLUTION,
}
