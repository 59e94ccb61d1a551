"""Between which links clearance can be kept."""

import numpy as np
from numpy.typing import NDArray

from ik_service.collision.body_spheres import BodySpheres
from ik_service.collision.check import pair_distance, sphere_centers
from ik_service.mechanism.kinematic_robot import KinematicRobot
from objectives import InputError

SAMPLES = (8, 200, 800)
"""Random configurations in which pairs are looked at that were near in all before."""
STILL = 1e-3
"""By how much the distance of links varies that count as standing still against each other, per length unit [m]."""


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
