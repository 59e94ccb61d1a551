"""The page: how soon a robot is drawn, solves while dragging, and the time from a gizmo to the drawn pose.

A program of `benchmarks.service.page`, in an environment with viser.

A real Chromium without a window, which draws on the processor, drags on the canvas. Beside it a program speaks viser's
protocol and drags as fast as answers come: what the page does for a browser that has a graphics card. --write keeps the
figures in benchmarks/service/page.md, --picture takes the picture of the documentation.
"""

import argparse
import os
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import viser
import warp as wp
import zstandard
from websockets.sync.client import ClientConnection, connect

from benchmarks.report import Report, machine
from benchmarks.service.service_process import service
from ik_service.page import LocalSolving, Page, RemoteSolving
from ik_service.page.visitor import Visitor
from tests.bounded import until
from tests.page.browser import TWO_FRAMES, Seen, opened, running_browser

SERVICE = Path(__file__).parents[1] / "service"
HAND, ARM = "panda_hand", "left_panda_hand"
FIRST_BOUND_S, SOLVES_BOUND = 2.0, 30.0
LOADS, DRAG_S = 5, 6.0
TICKS, TURNS, WAY_M = 600, 4, 0.06
VISITORS, IDLE_S = 50, 5.0
NOTE_ROBOT = """(() => {
  const kind = WebGL2RenderingContext.prototype, draw = kind.drawElementsInstanced;
  kind.drawElementsInstanced = function (...given) {
    draw.apply(this, given);
    if (window.robotDrawn === undefined && given[1] >= 150 && given[4] > 6) {
      window.robotDrawn = 0;
      requestAnimationFrame(() => {
        this.readPixels(0, 0, 1, 1, this.RGBA, this.UNSIGNED_BYTE, new Uint8Array(4));
        window.robotDrawn = performance.timeOrigin + performance.now();
      });
    }
  };
})()"""
"""Notes when the first frame with many copies of a round mesh has been drawn to its last pixel, as Unix time [ms]."""
MOVE_EVERY_FRAME = """([from, to, seconds]) => new Promise(done => {
  const canvas = document.elementFromPoint(...from), begun = performance.now();
  let frames = 0;
  const move = now => {
    const part = Math.abs(((now - begun) / 1000 % 2) - 1), x = from.map((a, k) => a + (1 - part) * (to[k] - a));
    canvas.dispatchEvent(new PointerEvent('pointermove', {
      pointerId: 1, pointerType: 'mouse', buttons: 1, bubbles: true, clientX: x[0], clientY: x[1]}));
    frames += 1;
    if (now - begun < 1000 * seconds) requestAnimationFrame(move);
    else done(frames);
  };
  requestAnimationFrame(move);
})"""
"""Moves the mouse that holds something to and fro, once a frame as a hand does it; gives the number of frames."""


class FastDragger:
    """A program that is a browser for the page: it connects, drags, and waits until the robot has moved.

    Args:
        page: The page.
    """

    def __init__(self, page: Page) -> None:
        known = set(page.visitors)
        address = page.url.replace("http", "ws", 1)
        protocol = f"viser-v{viser.__version__}"
        self._open = connect(address, subprotocols=[protocol], compression=None, max_size=None)
        self._socket: ClientConnection = self._open.__enter__()
        self._show_camera()
        until(lambda: page.visitors.keys() - known)
        (number,) = page.visitors.keys() - known
        self.visitor: Visitor = page.visitors[number]
        for _ in range(2):  # a browser tells where its camera stands when the robot has been drawn
            self._show_camera()
        until(lambda: self.visitor.solves)

    def drag(self, link: str, position: Any) -> float:
        """Put a gizmo somewhere [m]; return the time until the robot's new pose has come [s]."""
        gizmo = self.visitor.stage.gizmos[link]
        begun = time.perf_counter()
        self._send(
            "TransformControlsUpdateMessage",
            name=gizmo.name,
            wxyz=tuple(map(float, gizmo.wxyz)),
            position=tuple(map(float, position)),
            owner=self.visitor.client.scene._owner_id,
        )
        while not self._moves_robot(self._socket.recv(timeout=30.0)):
            pass
        return time.perf_counter() - begun

    def _show_camera(self) -> None:
        self._send(
            "ViewerCameraMessage",
            wxyz=(1.0, 0.0, 0.0, 0.0),
            position=(2.0, 0.0, 1.0),
            fov=1.3,
            near=0.01,
            far=100.0,
            image_height=600,
            image_width=800,
            look_at=(0.0, 0.0, 0.0),
            up_direction=(0.0, 0.0, 1.0),
        )

    def drain(self) -> None:
        """Read what has come."""
        try:
            while True:
                self._socket.recv(timeout=0.3)
        except TimeoutError:
            pass

    def close(self) -> None:
        """Leave."""
        self._open.__exit__(None, None, None)

    def _send(self, kind: str, **fields: Any) -> None:
        self._socket.send(msgspec.msgpack.encode({"type": kind, **fields}))

    @staticmethod
    def _moves_robot(frame: bytes | str) -> bool:
        assert isinstance(frame, bytes)
        size, compressed = (int.from_bytes(frame[k : k + 8], "little") for k in (0, 8))
        inner = msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(frame[16 : 16 + compressed], size))
        names = [message.get("name", "") for message in inner["messages"] if "updates" in message]
        return any(str(name).startswith("/robot/") for name in names)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="keep the figures in page.md")
    parser.add_argument("--picture", type=Path, help="only take the picture of the documentation")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    if arguments.picture is not None:
        take_picture(arguments.picture)
        return
    report = Report("The page")
    load = f"{os.getloadavg()[0]:.1f}"
    report.line(f"\n{machine()}, two cores; Chromium draws on the same processor. Load average at the start: {load}.")
    with running_browser() as browser:
        show_loading(report, browser)
        show_browser(report, browser)
    show_protocol(report)
    show_arms(report)
    show_idle(report)
    if arguments.write:
        report.save(SERVICE / "page.md")
    raise SystemExit(1 if report.missed else 0)


def show_loading(report: Report, browser: Any) -> None:
    """Measure how soon a robot is drawn."""
    note = (
        "From the request of the page, in an empty browser: to the connection of viser's program, which has been read "
        "and started by then; to the end of the first frame that has the robot, to its last pixel; to the second frame "
        "after the panel says that the robot is on its target"
    )
    report.section("Loading", f"{note}. {LOADS} loads.")
    report.table("until", "median [s]", "least [s]", "most [s]")
    times = []
    with Page(LocalSolving("cpu"), "panda") as page:
        for _ in range(LOADS):
            with opened(browser, "about:blank") as tab:
                tab.add_init_script(NOTE_ROBOT)
                known, begun = set(page.visitors), time.time()
                tab.goto(page.url, wait_until="commit")
                until(lambda known=known: page.visitors.keys() - known)
                connected = time.time() - begun
                tab.get_by_text("Reached").wait_for()
                tab.wait_for_function("window.robotDrawn > 0")
                tab.evaluate(TWO_FRAMES)
                times.append((connected, 1e-3 * tab.evaluate("window.robotDrawn") - begun, time.time() - begun))
    for name, column in zip(("viser's program runs", "robot drawn", "on its target"), np.array(times).T, strict=True):
        report.row(name, *(f"{figure:.2f}" for figure in (np.median(column), column.min(), column.max())))
    report.line("")
    drawn = float(np.median(np.array(times)[:, 1]))
    report.claim("first robot drawn", f"{drawn:.2f} s", f"{FIRST_BOUND_S:g} s", drawn <= FIRST_BOUND_S)


def show_browser(report: Report, browser: Any) -> None:
    """Measure drags on the canvas of a browser."""
    report.section(
        "Dragging in the browser",
        "On the canvas with the mouse, an arrow of the Panda's target to and fro, a move for each frame. viser "
        "sends a target each 50 ms at most, and the page goes there in up to three steps. The time is within the "
        f"page's server, from the target's message to that of the first pose. Bound: {SOLVES_BOUND:g} solves a second.",
    )
    report.table("window", "frames per second", "solves per second", "p50 [ms]", "p99 [ms]", "drawn hand to gizmo [mm]")
    for width, height in ((760, 420), (1280, 800)):
        size = {"width": width, "height": height}
        with Page(LocalSolving("cpu"), "panda") as page, opened(browser, page.url, viewport=size) as tab:
            seen = Seen(tab, page)
            gizmo = seen.visitor.stage.gizmos[HAND]
            seen.drag(gizmo, -0.02)
            start, end = seen.grip(gizmo, -0.12)
            tab.mouse.move(*start)
            tab.mouse.down()
            seen.visitor.latencies.clear()
            begun, before = time.perf_counter(), seen.visitor.solves
            frames = tab.evaluate(MOVE_EVERY_FRAME, [start, end, DRAG_S])
            spent, solves = time.perf_counter() - begun, seen.visitor.solves - before
            tab.mouse.up()
            until(lambda seen=seen: seen.hand_gap(HAND) < 1e-3)
            figures = [f"{figure:.1f}" for figure in 1e3 * np.quantile(seen.visitor.latencies, (0.5, 0.99))]
            gap = f"{1e3 * seen.hand_gap(HAND):.4f}"
            report.row(f"{width} x {height}", f"{frames / spent:.1f}", f"{solves / spent:.1f}", *figures, gap)
            report.missed += [] if solves / spent >= SOLVES_BOUND else [f"solves per second, {width} x {height}"]


def show_protocol(report: Report) -> None:
    """Measure drags of a program that waits for nothing but the robot's pose."""
    report.section(
        "Dragging without a browser's drawing",
        f"{TICKS} targets on a line of 6 cm, each sent when the robot's pose for the one before has come: what a "
        "browser that draws quickly sees. The time is from the target's message to that of the pose.",
    )
    report.table("robot", "solved by", "solves per second", "p50 [ms]", "p99 [ms]")
    for robot, link in (("panda", HAND), ("dual_panda", ARM), ("humanoid", "left_grasp")):
        with Page(LocalSolving("cpu"), robot) as page:
            _drag_row(report, page, robot, link, "this process")
    with service(0) as running, Page(RemoteSolving(running.url), "panda") as page:
        _drag_row(report, page, "panda", HAND, "a service")


def _drag_row(report: Report, page: Page, robot: str, link: str, by: str) -> None:
    dragger = FastDragger(page)
    dragger.drain()
    start, before = np.array(dragger.visitor.stage.gizmos[link].position), dragger.visitor.solves
    begun = time.perf_counter()
    ways = WAY_M * (1.0 - np.abs(1.0 - 2.0 * ((1.0 + np.arange(TICKS)) * TURNS / TICKS % 1.0)))
    times = [1e3 * dragger.drag(link, start - np.array([0.0, 0.0, down])) for down in ways]
    rate = (dragger.visitor.solves - before) / (time.perf_counter() - begun)
    p50, p99 = np.quantile(times, (0.5, 0.99))
    report.row(robot, by, f"{rate:.0f}", f"{p50:.1f}", f"{p99:.1f}")
    if robot == "panda":
        report.missed += [] if rate >= SOLVES_BOUND else [f"solves per second, {by}"]
    dragger.close()


def show_arms(report: Report) -> None:
    """Check that an arm whose target stays keeps its joints."""
    report.section(
        "Two arms", "The target of the left arm is dragged; the joints of the right arm are compared by bytes."
    )
    with Page(LocalSolving("cpu"), "dual_panda") as page:
        dragger = FastDragger(page)
        start, posed = np.array(dragger.visitor.stage.gizmos[ARM].position), dragger.visitor.posed
        before, others = posed.joint_q.copy(), 0
        for k in range(200):
            dragger.drag(ARM, start - np.array([0.0, 0.0, 5e-4 * (k + 1)]))
            others += int(posed.joint_q[7:].tobytes() != before[7:].tobytes())
        moved = float(np.abs(posed.joint_q[:7] - before[:7]).max())
        dragger.close()
    report.claim("drags that changed the right arm", f"{others} of 200, left arm {moved:.2f} rad", "0", others == 0)


def show_idle(report: Report) -> None:
    """Measure visitors that do nothing."""
    report.section("Idle visitors", f"{VISITORS} connections that have a robot and do nothing, for {IDLE_S:g} s.")
    with Page(LocalSolving("cpu"), "panda") as page:
        guests = [FastDragger(page) for _ in range(VISITORS)]
        for guest in guests:
            guest.drain()
        begun, threads = time.process_time(), threading.active_count()
        time.sleep(IDLE_S)
        used = time.process_time() - begun
        for guest in guests:
            guest.close()
        until(lambda: not page.visitors)
    figure = f"{100.0 * used / IDLE_S:.1f} % of a core, {threads} threads"
    report.claim("processor time, connections of the measuring program included", figure, "5 %", used < 0.05 * IDLE_S)


def take_picture(path: Path) -> None:
    """Take the picture of the documentation: a Panda whose target has been dragged."""
    size = {"width": 1280, "height": 720}
    with (
        running_browser() as browser,
        Page(LocalSolving("cpu"), "panda") as page,
        opened(browser, page.url, viewport=size) as tab,
    ):
        seen = Seen(tab, page)
        seen.drag(seen.visitor.stage.gizmos[HAND], 0.1)
        seen.drag(seen.visitor.stage.gizmos[HAND], 0.1, axis=0)
        tab.get_by_role("alert").get_by_role("button").click()  # it says that this browser draws slowly
        tab.mouse.move(20, 400)
        tab.wait_for_timeout(3000)
        tab.screenshot(path=path)


if __name__ == "__main__":
    main()
