"""Joints that close loops: row groups over where a frame stands in another, and the coordinates of these joints."""

from collections.abc import Callable, Mapping, Sequence

from objectives.expression import Scalar, atan2, where
from objectives.frame_algebra import Frame
from objectives.statement.rows import RowGroup, RowInputs

FRAME, REFERENCE_FRAME, SIZE = "link", "reference", "size"
"""Names in the row groups: the frames, and the number that some joints have."""
TURN = ("qx", "qy", "qz", "qw")

RelativeRows = Callable[[Frame, Scalar], Sequence[Scalar]]


def relative_group(name: str, row_count: int, rows: RelativeRows, *, has_size: bool = False) -> RowGroup:
    """Return a row group over where the frame stands in the reference frame, and a number where it has one."""

    def state(inputs: RowInputs) -> Sequence[Scalar]:
        frame = inputs.frames[FRAME].relative_to(inputs.frames[REFERENCE_FRAME])
        return rows(frame, inputs.constants.get(SIZE, 0.0))

    constants = (SIZE,) if has_size else ()
    return RowGroup(name, row_count, state, frames=(FRAME, REFERENCE_FRAME), constants=constants)


def _angle(frame: Frame) -> Scalar:
    """The angle about z of a frame that turns about z alone, from -pi to pi."""
    _, _, z, w = frame.orientation_xyzw
    return atan2(2.0 * z * w, w * w - z * z)


def _revolute(frame: Frame, _size: Scalar) -> Sequence[Scalar]:
    return [_angle(frame)]


def _prismatic(frame: Frame, _size: Scalar) -> Sequence[Scalar]:
    return frame.position[2:]


def _helical(frame: Frame, pitch: Scalar) -> Sequence[Scalar]:
    return [frame.position[2] / pitch]


def _cylindrical(frame: Frame, _size: Scalar) -> Sequence[Scalar]:
    return [frame.position[2], _angle(frame)]


def _universal(frame: Frame, _size: Scalar) -> Sequence[Scalar]:
    """The angle about z of the reference of the x axis, then that about this x axis."""
    x, y, z, w = frame.orientation_xyzw
    first = atan2(2.0 * (x * y + z * w), 1.0 - 2.0 * (y * y + z * z))
    return [first, atan2(2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y))]


def _spherical(frame: Frame, _size: Scalar) -> Sequence[Scalar]:
    w = frame.orientation_xyzw[3]
    return [where(w < 0.0, -part, part) for part in frame.orientation_xyzw]


def _planar(frame: Frame, _size: Scalar) -> Sequence[Scalar]:
    return [*frame.position[:2], _angle(frame)]


CLOSING_COORDINATES: Mapping[str, tuple[RowGroup, tuple[str, ...]]] = {
    "revolute": (relative_group("closing_revolute", 1, _revolute), ("",)),
    "prismatic": (relative_group("closing_prismatic", 1, _prismatic), ("",)),
    "helical": (relative_group("closing_helical", 1, _helical, has_size=True), ("",)),
    "cylindrical": (relative_group("closing_cylindrical", 2, _cylindrical), ("z", "angle")),
    "universal": (relative_group("closing_universal", 2, _universal), ("angle_z", "angle_x")),
    "spherical": (relative_group("closing_spherical", 4, _spherical), TURN),
    "planar": (relative_group("closing_planar", 3, _planar), ("x", "y", "angle")),
}
"""Coordinates of the joints that have some of their own, and their names; one alone has none."""
