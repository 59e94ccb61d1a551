"""How far joints move the spheres of a robot at most, and between which links clearance can be kept."""

import numpy as np
from numpy.typing import NDArray

from ik_service.robots.collision_checks.body_spheres import BodySpheres
from ik_service.robots.collision_checks.check import pair_distance, sphere_centers
from ik_service.robots.joint_type import JointType
from ik_service.robots.kinematic_robot import KinematicRobot
from objectives import InputError

SAMPLES = (8, 200, 800)
"""Random configurations in which pairs are looked at that were near in all before."""
STILL = 1e-3
"""By how much the distance of links varies that count as standing still against each other, per length unit [m]."""


def levers(robot: KinematicRobot, spheres: BodySpheres) -> NDArray[np.float64]:
    """Return how far centres of a link's spheres move at most for a unit of each coordinate, in any configuration.

    Args:
        robot: The robot.
        spheres: Its spheres.

    Returns:
        m per rad or m, shape [links, joint_coord_count]; 0 where it does not move them, and in quaternions.

    Raises:
        InputError: A joint turns what slides without a limit.
    """
    found = np.zeros((len(spheres.links), robot.joint_coord_count))
    for place, body in enumerate(spheres.link_body):
        reach = float(np.linalg.norm(spheres.centers[spheres.of_link(place)], axis=1).max())
        joint = int(body)
        while joint >= 0:
            slides, turns = _coordinates(robot, joint)
            found[place, slides], found[place, turns] = 1.0, reach
            reach += _farthest_slide(robot, joint) + float(np.linalg.norm(robot.joint_X_p[joint][:3]))
            joint = int(robot.joint_parent[joint])
    if not np.isfinite(found).all():
        name = robot.coordinate_names[int(np.flatnonzero(~np.isfinite(found).all(axis=0))[0])]
        raise InputError(
            f"ControlLimits.clearance: '{name}' turns a joint that slides without a limit. Give that one a limit."
        )
    return found


def pairs_to_keep(robot: KinematicRobot, spheres: BodySpheres, margin: float) -> NDArray[np.bool_]:
    """Return which pairs of links clearance is kept between: all but those that stay at one distance below the margin.

    Args:
        robot: The robot.
        spheres: Its spheres.
        margin: Clearance that is kept [m].

    Returns:
        Shape [pairs].

    Raises:
        InputError: A pair comes nearer and goes apart, and is not as far apart as the margin anywhere.
    """
    least, most = np.full(len(spheres.pairs), np.inf), np.full(len(spheres.pairs), -np.inf)
    rng = np.random.default_rng(0)
    for count in SAMPLES:
        drawn = np.vstack([robot.random_joint_q(rng, count), robot.mid_joint_q])
        centers = sphere_centers(robot, spheres, drawn)
        for k in np.flatnonzero(most < margin):
            distances = pair_distance(spheres, centers, *spheres.pairs[k])
            least[k], most[k] = min(least[k], distances.min()), max(most[k], distances.max())
    for k in np.flatnonzero((most < margin) & (most - least > STILL * robot.length_unit)):
        one, other = (spheres.links[place] for place in spheres.pairs[k])
        leave_out = "robot.with_collision_model(robot.collision_model.without_pairs([...], reason))"
        if spheres.pairs[k].max() >= len(spheres.links) - len(spheres.touches):
            leave_out = "AttachedObject(touches=[...])"
        raise InputError(
            f"ControlLimits.clearance is {margin:g} m, but in {sum(SAMPLES)} random configurations '{one}' and "
            f"'{other}' are at most {most[k]:.4f} m apart. Give less, or leave the pair out: {leave_out}."
        )
    return np.asarray(most >= margin)


def _coordinates(robot: KinematicRobot, joint: int) -> tuple[list[int], list[int]]:
    """Give the coordinates of a joint along which it slides, and those about which it turns."""
    kind, first = JointType(robot.joint_type[joint]), int(robot.joint_q_start[joint])
    if kind == JointType.PLANAR:
        return [first, first + 1], [first + 2]
    if kind == JointType.PRISMATIC:
        return [first], []
    return [], [first] if kind in (JointType.REVOLUTE, JointType.CONTINUOUS) else []


def _farthest_slide(robot: KinematicRobot, joint: int) -> float:
    if JointType(robot.joint_type[joint]) == JointType.FLOATING:
        return np.inf
    slides, _ = _coordinates(robot, joint)
    dofs = np.arange(len(slides)) + int(robot.joint_qd_start[joint])
    most = np.maximum(np.abs(robot.joint_limit_lower[dofs]), np.abs(robot.joint_limit_upper[dofs]))
    return float(np.linalg.norm(most))
