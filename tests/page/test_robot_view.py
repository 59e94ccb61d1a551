"""`robot.show`: a view of configurations, for whom a scene without a browser stands, and what is said without viser."""

import sys
import urllib.error
import urllib.request
from types import SimpleNamespace

import numpy as np
import pytest

from ik_service import load_robot
from objectives import InputError
from tests.page.guests import drawn_position, scene_server

AT = 1e-5  # [m] poses are drawn in float32


@pytest.fixture(scope="module")
def client():
    with scene_server() as server:
        camera = SimpleNamespace(aspect=1.5)
        yield SimpleNamespace(scene=server.scene, gui=server.gui, camera=camera, atomic=server.atomic)


@pytest.fixture
def view_of():
    views = []

    def shown(robot, *arguments, **options):
        views.append(robot.show(*arguments, **options))
        return views[-1]

    yield shown
    for view in views:
        view.close()


@pytest.mark.parametrize("name", ["panda", "humanoid"])
def test_the_first_configuration_is_the_robot_and_the_others_are_ghosts(client, view_of, name):
    robot = load_robot(name)
    joint_q = robot.random_joint_q(np.random.default_rng(0), 3)
    link = robot.link_names[-1]
    stage = view_of(robot, joint_q)._draw(client)
    expected = robot.forward_kinematics(joint_q, [link]).positions[:, 0]
    np.testing.assert_allclose(drawn_position(stage.drawing, link), expected[0], atol=AT)
    parts = sum(len(part.body) for part, _ in stage.drawing._drawn)
    assert sum(len(node.batched_positions) for _, node in stage.shown["ghosts"]._drawn) == 2 * parts > 0
    assert (stage.gizmos, stage.shown.keys()) == ({}, {"ghosts"})


def test_spheres_are_drawn_where_they_are_asked_for(client, view_of):
    robot = load_robot("panda")
    stage = view_of(robot, spheres=True)._draw(client)
    ((_, node),) = stage.shown["spheres"]._drawn
    assert len(node.batched_positions) == robot.collision_model.sphere_count
    assert view_of(robot.with_collision_model(None), spheres=True)._draw(client).shown == {}


def test_a_notebook_shows_the_page_of_the_view_and_other_websites_do_not(view_of):
    view = view_of(load_robot("panda"))
    assert f'<iframe src="{view.url}"' in view._repr_html_()
    assert view.url in repr(view)
    assert urllib.request.urlopen(view.url).status == 200
    foreign = urllib.request.Request(view.url, headers={"Origin": "https://example.org"})
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(foreign)


def test_what_is_no_configuration_is_refused():
    with pytest.raises(InputError, match="joint_q"):
        load_robot("panda").show(np.zeros(6))


def test_without_viser_the_extra_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("ik_service.page")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(ModuleNotFoundError, match=r"The page needs viser. Install the extra 'page'"):
        load_robot("panda").show()
