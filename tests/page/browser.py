"""A real browser without a window: where it is found, how it is started, and what it may not do.

It is Debian's Chromium or one that PATH has, driven through Playwright; nothing is fetched. What a page writes to its
console as an error, and every request to another host, fails the test.
"""

import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from benchmarks.peers.environments import ENVIRONMENTS
from ik_service.mechanism.transforms import quaternion_rotate
from tests.bounded import until
from tests.page.guests import drawn_position

AXE = "axe-core@4.14.1"
NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = [  # it draws on the processor, in a sandbox of the test's own machine
    "--no-sandbox",
    "--disable-gpu",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
]
SIZE = {"width": 900, "height": 600}  # small, since it draws slowly
TRIES = 8
STEPS = 8
TWO_FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
OWN_HOSTS = ("127.0.0.1", "localhost")


def chromium() -> str | None:
    found = (os.environ.get("CHROMIUM"), *map(shutil.which, NAMES))
    return next((path for path in found if path), None)


def axe_core() -> str:
    package = ENVIRONMENTS / f"{AXE}.tgz"
    if not package.exists():
        package.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["npm", "pack", AXE], cwd=folder, check=True, capture_output=True)
            (fetched,) = Path(folder).glob("*.tgz")
            shutil.move(fetched, package)
    with tarfile.open(package) as files:
        return files.extractfile("package/axe.min.js").read().decode()


@contextmanager
def running_browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=OPTIONS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Any, url: str, **options: Any) -> Iterator[Any]:
    """A page in a context of its own; at the end it has had no error and has asked no other host."""
    context = browser.new_context(**{"viewport": SIZE, **options})
    page, faults = context.new_page(), []
    page.on("console", lambda message: faults.append(message.text) if is_fault(message) else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: faults.append(request.url) if is_foreign(request.url) else None)
    page.on("websocket", lambda socket: faults.append(socket.url) if is_foreign(socket.url) else None)
    try:
        page.goto(url)
        yield page
        assert faults == [], faults
    finally:
        context.close()


def is_fault(message: Any) -> bool:
    """True for errors, but for one of viser, which applies the updates of a frame after the removals of the frame."""
    return message.type == "error" and not message.text.startswith("Tried to update non-existent component")


def is_foreign(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in ("http", "https", "ws", "wss") and parts.hostname not in OWN_HOSTS


class Seen:
    """A visitor as the browser and the server see it, who has come beside those that are known."""

    def __init__(self, page: Any, served: Any, known: set[int] = frozenset()) -> None:
        self.page = page
        until(lambda: served.visitors.keys() - known)
        (self.number,) = served.visitors.keys() - known
        self.visitor = served.visitors[self.number]
        until(lambda: self.visitor.solves)
        page.get_by_role("tab", name="Targets").wait_for()
        page.evaluate(TWO_FRAMES)  # what can be dragged came with the panel and is drawn by now

    def hand_gap(self, link: str) -> float:
        """How far the drawn end of a link is from its gizmo [m]."""
        gizmo = self.visitor.stage.gizmos[link]
        return float(np.linalg.norm(drawn_position(self.visitor.stage.drawing, link) - gizmo.position))

    def place_of(self, point: Any) -> tuple[float, float]:
        """Where a point of the world [m] is on the page, in pixels."""
        camera, box = self.visitor.client.camera, self.page.locator("canvas").first.bounding_box()
        w, x, y, z = camera.wxyz
        right, down, ahead = quaternion_rotate(np.array([-x, -y, -z, w]), np.asarray(point) - camera.position)
        per_slope = 0.5 * box["height"] / np.tan(0.5 * camera.fov)
        left, top = box["x"] + 0.5 * box["width"], box["y"] + 0.5 * box["height"]
        return float(left + per_slope * right / ahead), float(top + per_slope * down / ahead)

    def drag(self, gizmo: Any, way: float) -> None:
        """Drag the upright arrow of a gizmo with the mouse, by about so many metres, until it has moved."""
        w, x, y, z = gizmo.wxyz
        along = quaternion_rotate(np.array([x, y, z, w]), np.array([0.0, 0.0, 1.0]))
        before = np.array(gizmo.position)
        for _ in range(TRIES):  # the first times the camera may not stand yet
            grip = np.array(gizmo.position) + 0.88 * self.visitor.stage.gizmo_size * along
            start, end = self.place_of(grip), self.place_of(grip + way * along)
            self.page.mouse.move(*start)
            self.page.mouse.down()
            for part in np.arange(1, STEPS + 1) / STEPS:
                self.page.mouse.move(*(a + part * (b - a) for a, b in zip(start, end, strict=True)))
            self.page.mouse.up()
            if np.linalg.norm(gizmo.position - before) > 0.2 * abs(way):
                return
        raise AssertionError(f"the gizmo has not been dragged: {before} to {gizmo.position}")
