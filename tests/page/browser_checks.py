"""The page in a real browser: dragging on the canvas, clicking on the panel, and what the visitor then sees."""

import subprocess
import threading

import numpy as np
import pytest

from ik_service.page import LocalSolving, Page, RemoteSolving
from tests.bounded import PATIENCE_S, until
from tests.page.browser import TWO_FRAMES, Seen, axe_core, chromium, opened, running_browser

pytestmark = pytest.mark.skipif(chromium() is None, reason="there is no Chromium on PATH or in CHROMIUM")

ON_GIZMO_M = 1e-3
NOTE_WORDS = """() => {
  window.shown = [];
  new MutationObserver(() => window.shown.push(document.body.innerText)).observe(
    document.body, {subtree: true, childList: true, characterData: true});
}"""
"""Notes all that is written on the page whenever anything on it changes."""
ARM = """<robot name="mine"><link name="base"/><link name="arm"/><joint name="lift" type="revolute">
<parent link="base"/><child link="arm"/><origin xyz="0 0 0.4"/><axis xyz="0 1 0"/><limit lower="-1" upper="1"/></joint>
<link name="tip"/><joint name="end" type="fixed"><parent link="arm"/><child link="tip"/><origin xyz="0.4 0 0"/></joint>
</robot>"""


@pytest.fixture(scope="module")
def browser():
    with running_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def served():
    with Page(LocalSolving("cpu"), "panda") as page:
        yield page


@pytest.fixture(scope="module")
def axe():
    """The text of axe-core, which looks for what keeps people from using a page."""
    try:
        return axe_core()
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"axe-core cannot be had: {error}")


@pytest.fixture
def seen(browser, served):
    known = set(served.visitors)
    with opened(browser, served.url) as page:
        yield Seen(page, served, known)


def click_tab(seen, name):
    seen.page.get_by_role("tab", name=name).click()


def test_a_drag_on_the_canvas_moves_the_gizmo_and_the_robot(seen):
    visitor = seen.visitor
    before, solves = visitor.posed.joint_q.copy(), visitor.solves
    seen.drag(visitor.stage.gizmos["panda_hand"], -0.12)
    until(lambda: seen.hand_gap("panda_hand") < ON_GIZMO_M)
    assert visitor.solves > solves + 2
    assert np.abs(visitor.posed.joint_q - before).max() > 0.05
    seen.page.get_by_text("Reached").wait_for()


def test_a_gizmo_is_dragged_along_axes_of_the_world(seen):
    seen.page.get_by_label("Arrows along", exact=True).click()
    seen.page.get_by_role("option", name="axes of the world").click()
    gizmo = seen.visitor.stage.gizmos["panda_hand"]
    until(lambda: gizmo.wxyz[0] == 1.0)
    seen.page.evaluate(TWO_FRAMES)
    before, turn = np.array(gizmo.position), seen.visitor.posed.targets["panda_hand"].pose[3:].copy()
    seen.drag(gizmo, -0.1)
    until(lambda: seen.hand_gap("panda_hand") < ON_GIZMO_M)
    assert np.abs((gizmo.position - before)[:2]).max() < 1e-6 < 0.02 < before[2] - gizmo.position[2]
    assert np.abs(seen.visitor.posed.targets["panda_hand"].pose[3:] - turn).max() < 1e-6


def test_a_target_out_of_reach_is_explained(seen):
    gizmo = seen.visitor.stage.gizmos["panda_hand"]
    for _ in range(2):
        seen.drag(gizmo, -0.25)
    until(lambda: seen.visitor.posed.answer is not None and not seen.visitor.posed.answer.success[0])
    seen.page.get_by_text("Not reached").or_(seen.page.get_by_text("Held by joint limits")).first.wait_for()
    until(lambda: seen.visitor.stage.miss is not None)


def test_dragging_one_arm_leaves_the_other_to_the_bit(browser):
    with Page(LocalSolving("cpu"), "dual_panda") as served, opened(browser, served.url) as page:
        seen = Seen(page, served)
        before = seen.visitor.posed.joint_q.copy()
        seen.drag(seen.visitor.stage.gizmos["left_panda_hand"], -0.1)
        until(lambda: seen.hand_gap("left_panda_hand") < ON_GIZMO_M)
        assert seen.visitor.posed.joint_q[7:].tobytes() == before[7:].tobytes()
        assert np.abs(seen.visitor.posed.joint_q[:7] - before[:7]).max() > 0.02


def test_a_link_is_picked_by_a_click_and_dragged(seen):
    visitor = seen.visitor
    seen.page.get_by_label("Pick links").check()
    until(lambda: visitor.stage.drawing._drawn[0][1]._impl.click_cb)
    seen.page.evaluate(TWO_FRAMES)
    elbow = visitor.posed.robot.forward_kinematics(visitor.posed.joint_q, ["panda_link4"]).positions[0, 0]
    seen.page.mouse.click(*seen.place_of(elbow))
    until(lambda: "panda_link4" in visitor.stage.gizmos)
    until(lambda: seen.page.get_by_text("Position [m]").count() == 2)
    seen.page.get_by_label("Pick links").uncheck()
    until(lambda: not visitor.stage.drawing._drawn[0][1]._impl.click_cb)
    seen.page.evaluate(TWO_FRAMES)
    before = visitor.posed.joint_q.copy()
    seen.drag(visitor.stage.gizmos["panda_link4"], 0.05)
    until(lambda: np.abs(visitor.posed.joint_q - before).max() > 0.01)


def test_a_slider_moves_the_robot_and_its_target(seen):
    click_tab(seen, "Joints")
    target = np.array(seen.visitor.stage.gizmos["panda_hand"].position)
    thumb = seen.page.get_by_role("slider").first
    thumb.focus()
    for _ in range(20):
        thumb.press("ArrowRight")
    until(lambda: seen.visitor.posed.joint_q[0] > np.radians(1.9))
    until(lambda: seen.hand_gap("panda_hand") < 1e-5)
    assert np.linalg.norm(seen.visitor.stage.gizmos["panda_hand"].position - target) > 0.01
    seen.page.get_by_text("Posed by hand").wait_for()


def test_an_axis_is_left_free_and_the_request_says_so(seen):
    seen.page.get_by_label("Free about z").check()
    until(lambda: seen.visitor.posed.targets["panda_hand"].free == ("rz",))
    click_tab(seen, "Request")
    seen.page.get_by_text("free=['rz']").first.wait_for()
    seen.page.get_by_text('"free": ["rz"]').wait_for()


def test_branches_are_free_where_that_is_ticked(seen):
    seen.page.get_by_label("Any branch").check()
    until(lambda: seen.visitor.question is not None and "seeds" not in seen.visitor.question.options)


def test_other_solutions_and_random_targets(seen):
    click_tab(seen, "Batch")
    seen.page.get_by_role("button", name="Other solutions").click()
    until(lambda: len(seen.visitor.others) >= 2)
    taken = seen.visitor.others[0].copy()
    seen.page.get_by_label("Take", exact=True).click()
    seen.page.get_by_role("option", name="ghost 1").click()
    until(lambda: np.abs(seen.visitor.posed.joint_q - taken).max() < 1e-3)
    seen.page.get_by_role("button", name="1000 random targets").click()
    seen.page.get_by_text("1000 of 1000 reached").wait_for()


def test_nothing_is_said_to_be_reached_while_it_is_solved_for(browser):
    solving, answers = LocalSolving("cpu"), threading.Event()
    solve = solving.solve
    answers.set()
    solving.solve = lambda question: answers.wait(PATIENCE_S) and solve(question)
    with Page(solving, "panda") as served, opened(browser, served.url) as page:
        seen = Seen(page, served)
        reached, waits = page.get_by_text("Reached"), page.get_by_text("Solving ...")

        def choose(label, option):
            page.get_by_label(label, exact=True).click()
            page.get_by_role("option", name=option).click()

        button = page.get_by_role("button", name="Other solutions")
        for tab, press in (
            ("Batch", button.click),
            ("Collision", lambda: choose("Obstacle", "box")),
            ("Targets", lambda: choose("Robot", "ur5e")),
        ):
            click_tab(seen, tab)
            reached.wait_for()
            answers.clear()
            press()
            waits.wait_for()
            page.evaluate(NOTE_WORDS)
            page.get_by_text("Solving ... 2 s").wait_for()
            assert tab != "Batch" or button.is_disabled()
            assert reached.count() == 0
            shown = page.evaluate("() => window.shown")
            assert len(shown) >= 1
            assert not [text for text in shown if "Reached" in text or " mm\n" in text]
            answers.set()
            reached.wait_for()
            assert waits.count() == 0
        assert seen.visitor.posed.name == "ur5e"


def test_spheres_and_an_obstacle_that_is_dragged(seen):
    click_tab(seen, "Collision")
    seen.page.get_by_label("Show spheres").check()
    until(lambda: seen.visitor.stage.spheres is not None)
    seen.page.get_by_label("Obstacle", exact=True).click()
    seen.page.get_by_role("option", name="box").click()
    until(lambda: seen.visitor.stage.obstacle is not None)
    until(lambda: seen.visitor.question is not None and seen.visitor.question.objects)
    seen.drag(seen.visitor.stage.obstacle, 0.1)
    place = seen.visitor.stage.objects()["obstacle"]["position"]
    until(lambda: seen.visitor.question.objects["obstacle"]["position"] == place)


def test_a_robot_is_chosen_and_the_page_turns_dark(seen):
    seen.page.get_by_label("Robot", exact=True).click()
    seen.page.get_by_role("option", name="ur5e").click()
    until(lambda: seen.visitor.posed.name == "ur5e" and seen.visitor.posed.answer is not None)
    seen.page.get_by_text("tool0").first.wait_for()
    seen.page.get_by_text("View", exact=True).click()
    seen.page.get_by_label("Dark", exact=True).check()
    seen.page.locator("[data-mantine-color-scheme=dark]").first.wait_for(state="attached")


def test_a_target_of_the_next_robot_is_where_its_numbers_say(seen):
    """A browser keeps what it knows of a name where a robot's target has no rotation, as that of the platform."""
    seen.page.get_by_label("Robot", exact=True).click()
    seen.page.get_by_role("option", name="stewart").click()
    until(lambda: seen.visitor.posed.name == "stewart" and seen.visitor.posed.answer is not None)
    seen.page.get_by_role("alert").get_by_role("button").click()  # it covers the platform
    seen.page.evaluate(TWO_FRAMES)
    gizmo = seen.visitor.stage.gizmos["platform"]
    seen.drag(gizmo, -0.03)
    assert np.abs(gizmo.wxyz - [1.0, 0.0, 0.0, 0.0]).max() < 1e-6


def test_a_robot_of_ones_own_comes_and_the_browser_says_that_it_has(seen, tmp_path):
    file = tmp_path / "mine.urdf"
    file.write_text(ARM)
    seen.page.locator("input[type=file]").set_input_files(file)
    until(lambda: seen.visitor.posed.name.startswith("mine ") and seen.visitor.posed.answer is not None)
    seen.page.get_by_text("File uploaded successfully").wait_for(state="attached")
    until(lambda: not seen.page.get_by_text("Uploading").count())


def test_the_panel_stays_where_it_is_when_a_joint_is_moved(seen):
    click_tab(seen, "Joints")
    tab = seen.page.get_by_role("tab", name="Joints")
    before = tab.bounding_box()
    seen.visitor.enqueue("joint 3", -0.2)
    seen.page.get_by_text("Posed by hand").wait_for()
    assert tab.bounding_box() == before


def test_every_visitor_has_a_state_of_its_own(browser, served, seen):
    known = set(served.visitors)
    with opened(browser, served.url) as page:
        other = Seen(page, served, known)
        other.drag(other.visitor.stage.gizmos["panda_hand"], -0.1)
        until(lambda: other.hand_gap("panda_hand") < ON_GIZMO_M)
        assert not np.array_equal(other.visitor.posed.joint_q, seen.visitor.posed.joint_q)
        assert seen.hand_gap("panda_hand") < 1e-5
    until(lambda: other.number not in served.visitors)
    assert other.visitor.is_gone
    assert seen.number in served.visitors


def test_a_service_solves_for_the_page(browser, service_url):
    with Page(RemoteSolving(service_url), "panda") as served, opened(browser, served.url) as page:
        seen = Seen(page, served)
        seen.drag(seen.visitor.stage.gizmos["panda_hand"], -0.1)
        until(lambda: seen.hand_gap("panda_hand") < ON_GIZMO_M)
        click_tab(seen, "Request")
        page.get_by_text(f"curl -s {service_url}/v1/robots/panda/solve").wait_for()


def serious(page, axe):
    """What axe-core finds on a page that keeps people from using it."""
    page.evaluate(axe)
    found = page.evaluate("axe.run()")
    assert found["passes"]
    return [(one["id"], one["impact"]) for one in found["violations"] if one["impact"] in ("serious", "critical")]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_first_page_of_the_service_is_for_everybody(browser, service_url, axe, width, scheme):
    with opened(browser, service_url, viewport={"width": width, "height": 800}, color_scheme=scheme) as page:
        page.get_by_role("heading", name="ik-service").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 30)"}[scheme]
        assert serious(page, axe) == []
        for link in page.get_by_role("link").all():  # they are reached by keyboard, in order
            page.keyboard.press("Tab")
            assert link.evaluate("link => link === document.activeElement")
        page.get_by_role("link", name="Every route, with examples to try").click()
        page.get_by_text("ik-service").first.wait_for()


def test_the_first_page_shows_the_live_page(browser, served, running_service):
    with running_service(page_url=served.url, robots=("panda",)) as (url, _), opened(browser, url) as page:
        assert page.get_by_role("link", name="the live page").get_attribute("href") == served.url
        page.frame_locator("iframe").get_by_text("Reached").wait_for()
