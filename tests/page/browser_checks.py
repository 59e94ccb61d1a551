"""The page in a real browser: dragging on the canvas, clicking on the panel, and what the visitor then sees."""

import subprocess

import numpy as np
import pytest

from ik_service.page import LocalSolving, Page, RemoteSolving
from tests.bounded import until
from tests.page.browser import TWO_FRAMES, Seen, axe_core, chromium, opened, running_browser

pytestmark = pytest.mark.skipif(chromium() is None, reason="there is no Chromium on PATH or in CHROMIUM")

ON_GIZMO_M = 1e-3
VISERS = {"aria-input-field-name", "button-name", "label", "region"}
"""Rules that viser breaks: sliders, icons and parts of vectors have no names, and its parts are in no landmark."""
STATUS = "getComputedStyle(document.documentElement).getPropertyValue('--status')"
UNCUT = "inputs => inputs.length > 5 && inputs.every(input => input.scrollWidth <= input.clientWidth)"


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


def test_a_drag_on_the_canvas_moves_the_gizmo_and_the_robot(seen):
    visitor = seen.visitor
    before, solves = visitor.posed.joint_q.copy(), visitor.solves
    seen.drag(visitor.stage.gizmos["panda_hand"], -0.12)
    until(lambda: seen.hand_gap("panda_hand") < ON_GIZMO_M)
    assert visitor.solves > solves + 2
    assert np.abs(visitor.posed.joint_q - before).max() > 0.05
    seen.page.get_by_text("Reached").first.wait_for()


def test_a_link_is_picked_by_a_click_and_dragged(seen):
    visitor = seen.visitor
    seen.page.get_by_label("Add targets by clicking links").check()
    until(lambda: visitor.stage.drawing._drawn[0][1]._impl.click_cb)
    seen.page.evaluate(TWO_FRAMES)
    elbow = visitor.posed.robot.forward_kinematics(visitor.posed.joint_q, ["panda_link4"]).positions[0, 0]
    seen.page.mouse.click(*seen.place_of(elbow))
    until(lambda: "panda_link4" in visitor.stage.gizmos)
    until(lambda: seen.page.get_by_text("Position [m]").count() == 2)
    seen.page.get_by_label("Add targets by clicking links").uncheck()
    until(lambda: not visitor.stage.drawing._drawn[0][1]._impl.click_cb)
    seen.page.evaluate(TWO_FRAMES)
    before = visitor.posed.joint_q.copy()
    seen.drag(visitor.stage.gizmos["panda_link4"], 0.05)
    until(lambda: np.abs(visitor.posed.joint_q - before).max() > 0.01)


def test_other_solutions_of_an_arm_are_named_and_taken(seen):
    page = seen.page
    page.get_by_label("Robot", exact=True).click()
    page.get_by_role("option", name="ur5e", exact=True).click()
    until(lambda: seen.visitor.posed.name == "ur5e" and seen.visitor.posed.answer is not None)
    page.get_by_role("tab", name="Explore").click()
    page.get_by_role("button", name="Other solutions").click()
    page.get_by_text("These are all other solutions").wait_for()
    page.get_by_label("Take", exact=True).click()
    assert page.get_by_role("option", name="shoulder").count() == 7
    before = seen.visitor.posed.joint_q.copy()
    page.get_by_role("option", name="shoulder B, elbow B, wrist A").click()
    until(lambda: np.abs(seen.visitor.posed.joint_q - before).max() > 0.5)
    page.get_by_text("Reached").first.wait_for()


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
        page.get_by_role("tab", name="Code").click()
        page.get_by_text(f"curl -s {service_url}/v1/robots/panda/solve").wait_for()


def violations(page, axe, part="document"):
    """The rules that a page or a part of it breaks, by their names."""
    page.evaluate(axe)
    found = page.evaluate(f"axe.run({part})")
    assert found["passes"]
    return {one["id"] for one in found["violations"]}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_first_page_of_the_service_is_for_everybody(browser, service_url, axe, width, scheme):
    with opened(browser, service_url, viewport={"width": width, "height": 800}, color_scheme=scheme) as page:
        page.get_by_role("heading", name="inverse kinematics").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 30)"}[scheme]
        assert violations(page, axe) == set()
        stops = page.locator("a, button, pre").all()
        assert len(stops) >= 7
        for stop in stops:  # they are reached by keyboard, in order
            page.keyboard.press("Tab")
            assert stop.evaluate("stop => stop === document.activeElement")
        page.get_by_role("link", name="Every route, with examples to try").click()
        page.get_by_text("ik-service").first.wait_for()


def test_commands_of_the_first_page_are_copied(browser, service_url):
    with opened(browser, service_url, permissions=["clipboard-read", "clipboard-write"]) as page:
        page.get_by_role("button", name="Copy").first.click()
        page.get_by_role("button", name="Copied").wait_for()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith(f"curl -s {service_url}/v1/robots/panda/solve")


def test_numbers_come_to_the_first_page(browser, running_service):
    with running_service(robots=("panda",)) as (url, _), opened(browser, url) as page:
        page.get_by_text("Measured here").wait_for()
        assert "\N{EM DASH}" not in page.locator("dl").inner_text()


def test_the_first_page_shows_the_live_page(browser, served, running_service):
    with running_service(page_url=served.url, robots=("panda",)) as (url, _), opened(browser, url) as page:
        assert page.get_by_role("link", name="Open the live page").get_attribute("href") == served.url
        assert page.locator("picture img").evaluate("image => image.naturalWidth") > 1000
        page.frame_locator("iframe").get_by_text("Reached").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_only_widgets_of_viser_break_rules_on_the_live_page(browser, served, axe, scheme):
    known = set(served.visitors)
    with opened(browser, served.url, viewport={"width": 1280, "height": 800}, color_scheme=scheme) as page:
        Seen(page, served, known)
        page.get_by_text("Reached").first.wait_for()
        for tab in ("Targets", "Joints", "Obstacles", "Explore", "Path", "Code"):
            page.get_by_role("tab", name=tab).click()
            page.evaluate(TWO_FRAMES)
            assert violations(page, axe) <= VISERS
            assert violations(page, axe, "'.ik'") == set()


@pytest.mark.parametrize(("way", "told"), [(0.0, "1 chosen"), (2.0, "proven out of reach")])
def test_directions_are_tried_and_told_in_colours_that_can_be_read(seen, axe, way, told):
    page, visitor = seen.page, seen.visitor
    gizmo = visitor.stage.gizmos["panda_hand"]
    gizmo.position = np.add(gizmo.position, [way, 0.0, 0.0])
    visitor.dragged()
    page.get_by_text("Proven: out of reach" if way else "Reached").first.wait_for()
    page.get_by_role("tab", name="Explore").click()
    page.get_by_role("button", name="Try other directions").click()
    page.get_by_text(told).wait_for()
    page.get_by_text("directions tried").wait_for()
    assert violations(page, axe, "'.ik'") == set()


@pytest.mark.parametrize("robot", ["panda", "humanoid"])
def test_a_phone_shows_the_robot_above_a_sheet_that_is_folded(browser, served, robot):
    known = set(served.visitors)
    with opened(browser, served.url, viewport={"width": 390, "height": 844}) as page:
        visitor = Seen(page, served, known).visitor
        visitor.enqueue("robot", robot)
        until(lambda: visitor.posed.name == robot and visitor.posed.answer is not None)
        page.wait_for_function(f"{STATUS} === \"'Reached'\"")
        sheet = page.locator(".mantine-Paper-root[style*=fixed]")
        box = sheet.bounding_box()
        assert (box["x"], box["width"]) == (0, 390)
        assert box["y"] > 0.5 * 844
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.locator("input[inputmode=decimal]").evaluate_all(UNCUT)
        page.get_by_text("Connected").click()
        until(lambda: sheet.bounding_box()["height"] < 80)
        assert page.evaluate(STATUS) == "'Reached'"
