"""Robots put with the collision shapes that their URDF has: spheres alone, kept, and bounded."""

import pytest

from ik_service.errors import RobotFileError
from ik_service.robots import load_urdf
from ik_service.service.catalog.robot_catalog import PUT_SPHERES_MAX, RobotCatalog, read_uploaded, with_choices
from tests.service.catalog.conftest import XML, kept
from tests.service.messages import answered, problem

SHAPE = "<collision><origin xyz='{x} 0 0'/><geometry>{shape}</geometry></collision>"
BALL, BOX = '<sphere radius="0.04"/>', '<box size="0.2 0.05 0.05"/>'
ARM = """<robot name="arm">
  <link name="base">{base}</link><link name="upper">{upper}</link><link name="fore">{fore}</link>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 0 1"/>
    <limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
  <joint name="elbow" type="revolute"><parent link="upper"/><child link="fore"/><origin xyz="0.4 0 0"/>
    <axis xyz="0 0 1"/><limit lower="-3" upper="3" effort="1" velocity="1"/></joint></robot>"""


def arm(upper=BALL, count=1):
    shapes = "".join(SHAPE.format(x=0.2 + 1e-4 * k, shape=upper) for k in range(count))
    fore = "".join(SHAPE.format(x=x, shape=BALL) for x in (0.1, 0.2, 0.3, 0.4))
    return ARM.format(base=SHAPE.format(x=0, shape=BALL), upper=shapes, fore=fore).encode()


def test_links_keep_off_each_other_also_after_a_restart(open_client, folder):
    url = "/v1/robots/folded_arm"
    with kept(open_client, f"{url}?collision=shapes&constraints=ignore", arm()) as put:
        model = put.json()["collision"]
        assert model["pairs"] == [["base", "fore"]]
        assert model["spheres"]["base"] == [[0.0, 0.0, 0.0, 0.04]]
        assert model["spheres"]["fore"] == [[x, 0.0, 0.0, 0.04] for x in (0.1, 0.2, 0.3, 0.4)]
        expected = load_urdf(arm(), collision="shapes")
        assert put.json()["content_hash"] == expected.content_hash
        folded = answered(open_client, f"{url}/check", {"joint_q": [[0, 0], [0, 3]]})["clearance_m"]
        assert folded == expected.collision([[0.0, 0.0], [0.0, 3.0]]).clearance.tolist()
        assert folded[0] > 0.0 > folded[1]
        free = answered(open_client, f"{url}/solve", {"targets": [{"link": "fore", "positions": [[0.4, 0, 0]]}]})
        assert free["status"] == ["converged"]
        stored = open_client.get(f"{url}/urdf").content
        assert stored.startswith(arm())
        assert stored.endswith(b'<?ik_service constraints="ignore" collision="shapes"?>\n')
        restarted = RobotCatalog({}, folder)
        assert restarted.entry("folded_arm").model.content_hash == expected.content_hash
        for choice, text, found in (("shapes", stored, model), (None, arm(), None), ("ignore", stored, None)):
            again = open_client.put(url, params=choice and {"collision": choice}, content=text, headers=XML)
            assert again.json()["collision"] == found
        problem(open_client.put(f"{url}?collision=meshes", content=arm(), headers=XML), 422, "invalid_value")


NO_SPHERES = "link 'upper' has shapes that are no spheres"


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (arm('<mesh filename="upper.stl"/>'), NO_SPHERES),
        (arm(BOX), NO_SPHERES),
        (arm('<capsule radius="0.001" length="1e6"/>'), NO_SPHERES),
        (b'<robot name="one"><link name="base"/></robot>', "it has no collision shapes"),
    ],
)
def test_a_warning_says_why_there_is_no_model(text, warning):
    robot = read_uploaded(with_choices(text, collision="shapes"))
    assert robot.collision_model is None
    assert robot.warnings == (f"There is no collision model: {warning}.",)
    assert read_uploaded(text).warnings == ()


def test_spheres_are_bounded():
    many = read_uploaded(with_choices(arm(BALL, 256), collision="shapes"))  # the most shapes of a link
    assert many.collision_model.sphere_count == 256 + 5
    fore = "".join(SHAPE.format(x=1e-4 * k, shape=BALL) for k in range(256))
    text = ARM.format(base=SHAPE.format(x=0, shape=BALL), upper=fore, fore=fore).encode()
    with pytest.raises(RobotFileError, match=f"has 513 spheres for collision. Allowed: {PUT_SPHERES_MAX}"):
        read_uploaded(with_choices(text, collision="shapes"))


def test_what_is_not_chosen_stays_as_a_line_of_the_text_says():
    text = arm()
    shapes = with_choices(text, collision="shapes")
    both = with_choices(shapes, constraints="ignore")
    assert both == with_choices(text, constraints="ignore", collision="shapes")
    assert with_choices(both) == both
    assert with_choices(both, collision="ignore") == with_choices(text, constraints="ignore")
    assert with_choices(both, collision="ignore", constraints="read") == text
