"""The clearance of one configuration in a kernel, against the host's float64 check, for all types of joints."""

import numpy as np
import pytest
import warp as wp

from ik_service.collision import ClearanceSize, CollisionSpheres, CollisionWorlds, clearance_function
from ik_service.compiler import Lanes
from ik_service.robots import Box, Capsule, CollisionModel, Cylinder, HalfSpace, Sphere, World, load_robot, load_urdf
from ik_service.solver.collisions.collision_data import CollisionData

JOINTS = ("revolute", "prismatic", "planar", "floating", "spherical", "continuous")
PARTS = [
    f'<link name="l{k + 1}"/><joint name="j{k}" type="{kind}"><parent link="l{k}"/><child link="l{k + 1}"/>'
    f'<origin xyz="0.1 0.05 0.2" rpy="0.3 -0.2 0.{k}"/><axis xyz="0.6 -0.{k} 0.8"/>'
    f'<limit lower="-1" upper="1"/></joint>'
    for k, kind in enumerate(JOINTS)
]
MIXED = "".join(['<robot name="mixed"><link name="l0"/>', *PARTS, "</robot>"])
TURNED = (0.3, 0.1, 0.4, 0.0, 0.6, 0.0, 0.8)
WORLD = World(
    {
        "box": Box((0.4, 0.3, 0.2), TURNED),
        "ball": Sphere(0.2, (-0.3, 0.4, 0.6)),
        "post": Capsule(0.05, 0.5, TURNED),
        "can": Cylinder(0.2, 0.4, (-0.5, -0.3, 0.2, 0.6, 0.0, 0.0, 0.8)),
        "floor": HalfSpace((0.0, 0.6, 0.8), -0.3),
    }
)


def with_spheres(robot):
    rng, links = np.random.default_rng(0), robot.link_names
    counts = rng.integers(1, 12, len(links))
    spheres = {
        link: np.column_stack([rng.normal(0.0, 0.04, (n, 3)), rng.uniform(0.01, 0.03, n)])
        for link, n in zip(links, counts, strict=True)
    }
    return robot.with_collision_model(CollisionModel(spheres, [(a, b) for a in links for b in links if a < b][::3]))


@pytest.mark.parametrize("lanes", [Lanes.on_cpu(), Lanes(1)], ids=["packets", "one by one"])
@pytest.mark.parametrize("make", [lambda: load_robot("panda"), lambda: load_urdf(MIXED)], ids=["panda", "mixed"])
def test_clearance_is_that_of_the_host(make, lanes):
    robot = with_spheres(make())
    model = robot.on_device("cpu")
    data = CollisionData(model, lanes)
    enabled = np.random.default_rng(1).random((400, 5)) < 0.5
    data.use((WORLD,), np.zeros(1, np.int32), enabled, 0.0)
    assert isinstance(data.size, ClearanceSize)
    clearance, count = clearance_function(data.size), data.size.coordinates
    configuration = wp.types.vector(count, wp.float32)

    @wp.kernel(module="unique", enable_backward=False)
    def check(
        joint_q: wp.array2d[float],
        spheres: CollisionSpheres,
        worlds: CollisionWorlds,
        least: float,
        clearance_out: wp.array[float],
    ):
        p = wp.tid()
        q = configuration()
        for k in range(count):
            q[k] = joint_q[p, k]
        clearance_out[p] = clearance(p, q, spheres, worlds, least)

    joint_q = robot.random_joint_q(np.random.default_rng(2), 400).astype(np.float32)
    found = wp.zeros(400, dtype=float, device="cpu")
    spheres = data.spheres(range(robot.trees.ntree))
    given = wp.array(joint_q, dtype=float, device="cpu")
    expected = robot.collision(joint_q.astype(float), WORLD, enabled).clearance
    for least in (10.0, float(np.median(expected))):
        wp.launch(check, 400, [given, spheres, data.worlds, least], [found], device="cpu")
        np.testing.assert_allclose(found.numpy(), np.minimum(expected, least), atol=3e-6)
