"""A path that a visitor draws by dragging targets, and the joint motion along the path."""

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.transforms import Float64Array, rotation_between
from ik_service.motion.clip_result import ClipResult
from ik_service.motion.result import PathResult
from ik_service.page.posed_robot import TOLERANCES, PosedRobot
from ik_service.page.questions import Question

APART_M, APART_RAD = 0.005, 0.03  # least way of a target from waypoint to waypoint [m], or turn [rad]
WAYPOINT_S = 0.05  # time from waypoint to waypoint [s]
RAMP_S = 0.2  # least time in which a joint of a clip comes to its full speed [s]
WAYPOINTS_MOST = 1000


class DrawnPath:
    """A path."""

    def __init__(self) -> None:
        self.followed: PathResult | ClipResult | None = None  # joint motion along the path; None before the solve
        self.at: int | None = None  # the next waypoint of the robot; None while the robot does not move
        self._links: tuple[str, ...] = ()
        self._poses: list[Float64Array] = []

    def add(self, posed: PosedRobot) -> None:
        """Add the present target poses if they have changed; another set of active targets starts a new path."""
        links, poses = tuple(one.link for one in posed.asked), np.array([one.pose for one in posed.asked])
        if links != self._links:
            self._links, self._poses = links, []
        is_apart = not self._poses or _is_apart(self._poses[-1], poses)
        if is_apart and len(self._poses) < WAYPOINTS_MOST:
            self._poses.append(poses)
            self.followed = None

    def __len__(self) -> int:
        return len(self._poses)

    def poses(self, at: int) -> dict[str, Float64Array]:
        """Return the pose of every target at a waypoint, by link [m, xyzw]."""
        return dict(zip(self._links, self._poses[at], strict=True))

    @property
    def met(self) -> NDArray[np.bool_]:
        """Mask of waypoints where the motion meets every target, free of contact, shape [n]."""
        path = self.followed
        assert path is not None
        errors = np.nan_to_num(np.stack([path.position_error, path.orientation_error], axis=2))
        is_near = (errors <= TOLERANCES).all(axis=(1, 2))
        return np.asarray(is_near if path.clearance is None else is_near & (path.clearance > 0.0))

    @property
    def lines(self) -> Float64Array:
        """The way of every target from waypoint to waypoint [m], shape [pieces, 2, 3]."""
        if len(self) < 2:
            return np.empty((0, 2, 3))
        places = np.array(self._poses)[:, :, :3]
        return np.stack([places[:-1], places[1:]], axis=2).reshape(-1, 2, 3)

    @property
    def csv(self) -> bytes:
        """The joint motion as CSV: time [s], coordinates [rad or m], speeds of the DOFs [rad/s or m/s]."""
        path, text = self.followed, io.StringIO()
        assert path is not None
        columns = path.dt * np.arange(len(path)), path.joint_q, path.joint_qd
        names = "time_s", *path.coordinate_names, *(f"{name}_speed" for name in path.dof_names)
        np.savetxt(text, np.column_stack(columns), "%.9g", ",", header=",".join(names), comments="")
        return text.getvalue().encode()

    def question(self, posed: PosedRobot, **given: Any) -> Question:
        """Return the waypoints as the problems of a question, with options and objects."""
        return posed.question_at([posed.targets[link] for link in self._links], np.array(self._poses), **given)


def _is_apart(before: Float64Array, after: Float64Array) -> bool:
    way = np.linalg.norm(after[:, :3] - before[:, :3], axis=1)
    turn = np.linalg.norm(rotation_between(before[:, 3:], after[:, 3:]), axis=1)
    return bool((way > APART_M).any() or (turn > APART_RAD).any())
