"""The columns of motions at edges: fitted clips and followed paths, a row for each frame or waypoint.

A column of `ClipResult` or `PathResult` comes to HTTP, client and command line by a line here. Its axis is the field of
an answer with the names of its entries.
"""

from typing import Any

from ik_service.result_column import Column


def _of(name: str, axis: str, description: str, **more: Any) -> Column:
    return Column(**{"name": name, "dtype": "float64", "axes": (axis,) * bool(axis), "description": description} | more)


_CLEARANCE = "If collision is checked: least distance from contact [m], of a path on the way from the row before."
_MOTION = (
    _of("joint_q", "coordinate_names", "Configurations [rad or m]."),
    _of("joint_qd", "dof_names", "Speeds from the row before [rad/s or m/s]."),
    _of("status", "", "", dtype="status"),
    _of("position_error", "links", "By target [m]; null where free.", unit="m", null="nan"),
    _of("orientation_error", "links", "By target [rad]; null where free.", unit="rad", null="nan"),
    _of("over_velocity", "dof_names", "DOFs beyond their speed limit.", dtype="bool"),
    _of("over_acceleration", "dof_names", "DOFs beyond their acceleration limit.", dtype="bool"),
    _of("clearance", "", _CLEARANCE, unit="m", null="inf", include="check"),
)
CLIP_COLUMNS = (
    *_MOTION,
    _of("cost", "", "Half the sum of squared weighted errors."),
    _of("held_drift", "held_links", "Distance from where a held link stands [m].", unit="m", null="nan"),
)
PATH_COLUMNS = (
    *_MOTION,
    _of("success", "", "Whether all targets are met and the way is free of contact, where checked.", dtype="bool"),
    _of("joint_qdd", "dof_names", "Changes of the speeds [rad/s^2 or m/s^2]."),
    _of("joint_change", "", "Largest change of a joint from the row before [rad or m]."),
    _of("is_break", "", "Whether another configuration begins here: lift the tool off before.", dtype="bool"),
)
