"""Messages as plain objects with the fields of the definitions, for tests of what needs no ROS."""

from types import SimpleNamespace

from tests.integrations.ros.definitions import MESSAGES, SERVICES

PRIMITIVES = {
    "bool": False,
    "string": "",
    **dict.fromkeys(("byte", "uint8", "int32", "uint32"), 0),
    **dict.fromkeys(("float32", "float64"), 0.0),
}
BUILTIN = dict.fromkeys(("builtin_interfaces/Time", "builtin_interfaces/Duration"), "int32 sec\nuint32 nanosec")


def _made(text, package):
    made = SimpleNamespace()
    for line in text.strip().splitlines():
        kind, name, *default = line.split()
        if "[" in kind:
            value = []
        elif kind in PRIMITIVES:
            value = type(PRIMITIVES[kind])(float(default[0])) if default else PRIMITIVES[kind]
        else:
            value = message(kind if "/" in kind else f"{package}/{kind}")
        setattr(made, name, value)
    return made


def message(name, /, **fields):
    """Return a message of a type such as "geometry_msgs/Pose" in which every field has its default, or one of these."""
    made = _made({**MESSAGES, **BUILTIN}[name], name.partition("/")[0])
    assert fields.keys() <= vars(made).keys()
    vars(made).update(fields)
    return made


def service(name):
    """Return the request and the response of a service such as "moveit_msgs/GetPositionIK"."""
    return tuple(_made(part, name.partition("/")[0]) for part in SERVICES[name].split("---"))


TYPES = SimpleNamespace(
    PoseStamped=lambda: message("geometry_msgs/PoseStamped"), Transform=lambda: message("geometry_msgs/Transform")
)


def stamped_pose(values, frame=""):
    """Return a `PoseStamped` of position [m] and quaternion xyzw."""
    made = message("geometry_msgs/PoseStamped")
    made.header.frame_id = frame
    place, turn = made.pose.position, made.pose.orientation
    place.x, place.y, place.z, turn.x, turn.y, turn.z, turn.w = map(float, values)
    return made


def pose_values(pose):
    """Return position and quaternion xyzw of a `Pose`, 7 numbers."""
    place, turn = pose.position, pose.orientation
    return [place.x, place.y, place.z, turn.x, turn.y, turn.z, turn.w]


def ik_request(group, tips, poses, frame="", seed=None, **fields):
    """Return request and response of `GetPositionIK` as MoveIt's plugin writes the request: a pose for each tip."""
    request, response = service("moveit_msgs/GetPositionIK")
    asked = request.ik_request
    asked.group_name = group
    asked.robot_state.joint_state.name = list(seed or {})
    asked.robot_state.joint_state.position = [float(value) for value in (seed or {}).values()]
    stamped = [stamped_pose(pose, frame) for pose in poses]
    if len(tips) == 1:
        asked.ik_link_name, asked.pose_stamped = tips[0], stamped[0]
    else:
        asked.ik_link_names, asked.pose_stamped_vector = list(tips), stamped
    vars(asked).update(fields)
    return request, response
