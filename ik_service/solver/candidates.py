"""Candidates in groups, of which one answer a group is wanted: arguments of a caller, and the result."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from ik_service.errors import in_a_line
from ik_service.mechanism.transforms import Float64Array
from ik_service.robots import RobotModel
from ik_service.solver.given.arrays import as_numpy, host_array
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.reading import FROM_WXYZ, check_targets
from ik_service.solver.given.targets import Target
from ik_service.solver.lm.status import STATUS_WORDS
from objectives import InputError

Criterion = Literal["first", "nearest", "clearance", "manipulability", "limit_margin"]
FATES = ("proven_unreachable", "unreachable", "proven_blocked", "blocked", "not_needed", "solved")
PROVEN_UNREACHABLE, NOT_REACHED, PROVEN_BLOCKED, BLOCKED, NOT_NEEDED, SOLVED = range(len(FATES))
GROUPS_MAX = 2**20  # groups of one call


@dataclass(frozen=True, eq=False)
class CandidateResult:
    """The best candidate of each group; arrays with a line for each group.

    Attributes:
        candidate: Index of the candidate, int32 [groups]; -1 where none succeeds.
        joint_q: Its configuration [m or rad], [groups, coordinates]; NaN where none succeeds.
        value: Its value, lower is better: the criterion's plus the candidate's cost, [groups]; NaN where none succeeds.
        status: IKStatus codes, int8 [groups]: CONVERGED, NO_CANDIDATE for an empty group, or else the status of the
            candidates that came nearest to success.
        counts: Candidates by fate when last tried, int32 [groups, 6], in the order of FATES: proven to be out of reach,
            not reached, proven to be blocked by the hand, blocked, not needed, solved.
        fate: Fate of each candidate, the place of a word of FATES, int8 [candidates].
        via_joint_q: Configuration at the second pose of `via`, as `joint_q`; None without.
        coordinate_names: Names of the columns of `joint_q`.
    """

    candidate: NDArray[np.int32]
    joint_q: NDArray[np.floating[Any]]
    value: Float64Array
    status: NDArray[np.int8]
    counts: NDArray[np.int32]
    fate: NDArray[np.int8]
    coordinate_names: tuple[str, ...]
    via_joint_q: NDArray[np.floating[Any]] | None = None

    def __repr__(self) -> str:
        found = f"{int(self.success.sum())} of {len(self)} groups have an answer"
        return f"<CandidateResult: {found}, {int(self.counts.sum())} candidates>"

    def __len__(self) -> int:
        return len(self.candidate)

    @property
    def success(self) -> NDArray[np.bool_]:
        """Mask of groups with an answer, bool [groups]."""
        return self.candidate >= 0

    @property
    def status_names(self) -> list[str]:
        """Status of every group as a lower-case word."""
        return [STATUS_WORDS[code] for code in self.status.tolist()]


class Groups(NamedTuple):
    """Groups of candidates, and the candidates' own costs."""

    group: NDArray[np.intp]  # group of each candidate, [candidates]
    number: int  # of groups
    cost: Float64Array  # added to the value of each, [candidates]


def read_groups(group: Any, group_count: Any, cost: Any, candidates: int) -> Groups:
    """Return the groups of candidates, None for a single group; InputError for ids or costs that are not allowed."""
    if group_count is not None and (
        isinstance(group_count, bool)
        or not isinstance(group_count, Integral)
        or not 1 <= int(group_count) <= GROUPS_MAX
    ):
        raise InputError(f"group_count is {in_a_line(group_count)}. Allowed: a whole number from 1 to {GROUPS_MAX}.")
    costs = np.zeros(candidates) if cost is None else host_array("cost", cost)
    if costs.shape != (candidates,):
        raise InputError(f"cost has shape {list(costs.shape)}. Allowed: [{candidates}], a number for each candidate.")
    ids = np.zeros(candidates, np.intp) if group is None else np.asarray(as_numpy("group", group))
    most = candidates if group_count is None else int(group_count)
    if ids.dtype.kind not in "iu" or ids.shape != (candidates,):
        shown = f"{ids.dtype} of shape {list(ids.shape)}"
        raise InputError(f"group is {shown}. Allowed: [{candidates}] whole numbers, the group of each candidate.")
    outside = np.flatnonzero((ids < 0) | (ids >= most))
    if len(outside):
        other = ", or below group_count" if group_count is None else ""
        number = f"group[{outside[0]}] is {ids[outside[0]]}"
        raise InputError(f"{number}. Allowed: whole numbers from 0 to {most - 1}{other}.")
    return Groups(ids.astype(np.intp), int(ids.max()) + 1 if group_count is None else int(group_count), costs)


class Via(NamedTuple):
    """A second pose of each candidate, to be reached from the answer."""

    batch: Batch
    max_change: float  # largest change of a joint on the way [rad or m]


def read_via(targets: tuple[Target, ...], via: Any, candidates: int, *, wxyz: bool) -> Via | None:
    """Return the second poses, None for none; InputError for another form or number of poses."""
    if via is None:
        return None
    if not isinstance(via, tuple | list) or len(via) != 3:
        raise InputError("via must be (positions, orientations_xyzw, max_change): second poses, and a change [rad].")
    positions, orientations, most = via
    batch = check_targets(targets, positions, orientations, None)
    if wxyz:
        turned = (None if q is None else q[:, FROM_WXYZ] for q in batch.orientations_xyzw)
        batch = batch._replace(orientations_xyzw=tuple(turned))
    if batch.problem_count != candidates:
        raise InputError(f"via has {batch.problem_count} poses for {candidates} candidates. They must agree.")
    change = host_array("max_change of via", most)
    if change.shape != () or not change > 0.0:
        raise InputError(f"max_change of via is {in_a_line(most)}. Allowed: a number above 0 [rad or m].")
    return Via(batch, float(change))


class Choice(NamedTuple):
    """The choice among the candidates of a batch."""

    groups: Groups
    criterion: Criterion
    via: Via | None
    good_enough: float | None  # value at which a group is done; None for the best


def check_choice(robot: RobotModel, batch: Batch, choice: Choice) -> None:
    """Check the criterion, and the value that ends a group; InputError for a criterion without its data."""
    criterion, good_enough = choice.criterion, choice.good_enough
    if criterion not in get_args(Criterion):
        raise InputError(f"criterion is {in_a_line(criterion)}. Allowed: {', '.join(map(repr, get_args(Criterion)))}.")
    if criterion == "nearest" and batch.start is None:
        raise InputError("criterion='nearest' needs initial_joint_q: changes of joints are counted from there.")
    if criterion == "clearance" and batch.worlds is None:
        raise InputError(
            f"criterion='clearance' needs a check for collision, and robot '{robot.name}' is solved without: give it "
            "a collision model, or leave out the option collision='off'."
        )
    if criterion == "manipulability" and not batch.positions:
        raise InputError("criterion='manipulability' needs a target: the link that is to be moved.")
    if good_enough is not None and host_array("good_enough", good_enough).shape != ():
        raise InputError(f"good_enough is {in_a_line(good_enough)}. Allowed: one number, the value that ends a group.")
