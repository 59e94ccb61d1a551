"""Pairs of links checked for self-collision, chosen from the tree and from random configurations."""

from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ik_service.collision.body_spheres import body_spheres, slides_between
from ik_service.collision.check import CHECKED_PER_BLOCK, pair_distance, sphere_centers
from ik_service.mechanism.collision_model import CollisionModel, LinkPair
from ik_service.mechanism.configuration import checked_joint_q
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import Float64Array

SAMPLES, SAMPLES_LEAST = 10_000, 100  # random configurations for the choice of pairs, at most and at least
MOST_DISTANCES = 100_000_000  # distances between spheres computed in total, about; SAMPLES_LEAST takes precedence
NEVER_SAMPLES = 1000  # least number of configurations to declare a pair never in contact
ALWAYS_SHARE = 0.95  # share of configurations in contact that counts as always in contact: the spheres overlap
NEVER_DISTANCE = 0.01  # links with a larger least distance [m] in all configurations count as never in contact
LONGEST_SLIDE = 2.0  # pairs with longer sliding joints between them [m] stay: random configurations miss their contacts
SAME_BODY, ADJACENT, ALWAYS, NEVER = "same body", "adjacent", "always in contact", "never in contact"


def choose_pairs(
    robot: KinematicRobot,
    spheres: Mapping[str, ArrayLike],
    samples: int | None = None,
    *,
    most_distances: int = MOST_DISTANCES,
) -> CollisionModel:
    """Give a collision model with every pair of links that can be both in contact and free of contact.

    Left out, with the reason, are: links of one body; a link and its nearest parent with spheres; pairs in contact in
    nearly all random configurations; pairs near each other in none. The random configurations are the same in every
    run. Pairs with joints between them that slide further than 2 m in total stay, unless always in contact: random
    configurations would miss their contacts.

    Args:
        robot: The robot.
        spheres: Centres in the link's frame [m] and radii [m] by link, shape [k, 4].
        samples: Count of random configurations; None for 10 000, or fewer for a robot with very many spheres.
        most_distances: Bound of the distances between spheres computed in total, about, without `samples`.

    Raises:
        UnknownNameError: The robot has no link of a name.
        InputError: Spheres have another shape.
    """
    model = CollisionModel(spheres, combinations(spheres, 2))
    body = {link: robot.link_frame(link)[0] for link in model.spheres}
    model = model.without_pairs([(a, b) for a, b in model.pairs if body[a] == body[b]], SAME_BODY)
    slides = slides_between(robot)
    slides_far = {(a, b) for a, b in model.pairs if slides[body[a], body[b]] > LONGEST_SLIDE}
    adjacent = [(min(pair), max(pair)) for pair in _adjacent(robot, model)]
    model = model.without_pairs([pair for pair in adjacent if pair not in slides_far], ADJACENT)
    if samples is None:
        samples = int(np.clip(most_distances // max(model.distance_count, 1), SAMPLES_LEAST, SAMPLES))
    least, in_contact, _ = pair_contacts(robot, model, robot.random_joint_q(np.random.default_rng(0), samples))
    always = [pair for pair, share in zip(model.pairs, in_contact, strict=True) if share >= ALWAYS_SHARE]
    near = least <= NEVER_DISTANCE if samples >= NEVER_SAMPLES else np.ones(len(model.pairs), bool)
    far = [pair for pair, is_near in zip(model.pairs, near, strict=True) if not is_near and pair not in slides_far]
    return model.without_pairs(always, ALWAYS).without_pairs(far, NEVER)


def without_contacts(robot: KinematicRobot, model: CollisionModel, joint_q: ArrayLike) -> CollisionModel:
    """Give a model without pairs in contact in configurations known to be free, [joint_coord_count] or [n, ...]."""
    least, *_ = pair_contacts(robot, model, joint_q)
    touching = [pair for pair, own in zip(model.pairs, least, strict=True) if own <= 0.0]
    return model.without_pairs(touching, "in contact in a free configuration")


def pair_contacts(
    robot: KinematicRobot, model: CollisionModel, joint_q: ArrayLike
) -> tuple[Float64Array, Float64Array, NDArray[np.bool_]]:
    """Give least distance [m] and contact share of each pair, [pairs], and the free configurations, shape [n]."""
    configurations, spheres = checked_joint_q(robot, joint_q), body_spheres(robot, model)
    least, touching = np.full(len(spheres.pairs), np.inf), np.zeros(len(spheres.pairs))
    is_free = np.ones(len(configurations), bool)
    for start in range(0, len(configurations), CHECKED_PER_BLOCK):
        block = slice(start, start + CHECKED_PER_BLOCK)
        centers = sphere_centers(robot, spheres, configurations[block])
        for row, (first, second) in enumerate(spheres.pairs):
            distances = pair_distance(spheres, centers, first, second)
            least[row] = min(least[row], distances.min())
            touching[row] += (distances <= 0.0).sum()
            is_free[block] &= distances > 0.0
    return least, touching / len(configurations), is_free


def _adjacent(robot: KinematicRobot, model: CollisionModel) -> Iterator[LinkPair]:
    """Give each link with spheres and its nearest parent with spheres."""
    for link in model.spheres:
        above = int(robot.link_parent[robot.link_index(link)])
        while above >= 0 and robot.link_names[above] not in model.spheres:
            above = int(robot.link_parent[above])
        if above >= 0:
            yield link, robot.link_names[above]
