"""Collision models of the built-in robots: what the script writes, and for the Panda judged by coal on its meshes."""

import numpy as np
import pinocchio as pin
import pytest

from benchmarks.collision.builtin_models import BUILTIN, ROBOTS, text_of
from ik_service.robots import builtin_robot_names, load_robot
from tests.foreign_robots import EXAMPLE, installed

CONFIGURATIONS = 2000
MOST_REFUSED, MOST_PASSED = 0.05, 0.003  # shares of configurations that are free, or in contact, by meshes alone


@pytest.mark.evidence_cases("dual_panda", "panda_gripper")
@pytest.mark.parametrize("name", ROBOTS)
def test_a_file_is_what_the_script_writes(name):
    assert (BUILTIN / f"{name}.collision.json").read_text() == text_of(name)


@pytest.mark.parametrize("name", builtin_robot_names())
def test_a_robot_brings_its_model_and_is_free_in_the_middle_of_its_limits(name):
    robot = load_robot(name)
    assert (robot.collision_model is not None) == (name in ROBOTS)
    if robot.collision_model is not None:
        assert robot.collision(robot.mid_joint_q).is_free.all()
    if name == "panda_gripper":
        closed = robot.mid_joint_q * [*[1.0] * 7, 0.0, 0.0]
        assert robot.collision(closed).is_free.all()
    assert load_robot(name, collision="ignore").collision_model is None


def test_both_arms_have_the_spheres_of_one():
    one, two = load_robot("panda").collision_model, load_robot("dual_panda").collision_model
    for side in ("left", "right"):
        for link, spheres in one.spheres.items():
            np.testing.assert_array_equal(two.spheres[f"{side}_{link}"], spheres)
    across = [pair for pair in two.pairs if pair[0].startswith("left") and pair[1].startswith("right")]
    assert len(across) > 40


def test_spheres_of_the_panda_say_what_its_meshes_say():
    file = installed(EXAMPLE, "panda_description/urdf/panda.urdf")
    model = pin.buildModelFromUrdf(str(file))
    geometry = pin.buildGeomFromUrdf(model, str(file), pin.GeometryType.COLLISION, package_dirs=[str(file.parents[4])])
    number = {shape.name.removesuffix("_0"): k for k, shape in enumerate(geometry.geometryObjects)}
    robot = load_robot("panda")
    own = robot.collision_model
    for pair in (*own.pairs, *own.left_out["never in contact"]):
        geometry.addCollisionPair(pin.CollisionPair(*(number[link] for link in pair)))
    data, checked = model.createData(), geometry.createData()
    joint_q = robot.random_joint_q(np.random.default_rng(5), CONFIGURATIONS)
    fingers = [0.02, 0.02]  # of the meshes' robot; no pair has them
    free = np.array(
        [not pin.computeCollisions(model, data, geometry, checked, np.append(q, fingers), True) for q in joint_q]
    )
    assert 0.8 < free.mean() < 0.95
    passed = robot.collision(joint_q).is_free
    assert (free & ~passed).mean() < MOST_REFUSED
    assert (~free & passed).mean() < MOST_PASSED
