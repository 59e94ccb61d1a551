"""Record the page in a browser: `python -m docs.record_page` writes page.webp and page.png beside this file.

Needs Chromium on PATH or in CHROMIUM; Playwright is installed into an environment of its own. The mouse drags arrows of
the target, and a picture is taken after each of its moves, when the robot has followed.
"""

import argparse
import io
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image

from ik_service.mechanism.transforms import quaternion_rotate
from ik_service.page import LocalSolving, Page
from tests.bounded import until
from tests.other_environments import python_with
from tests.page.browser import TWO_FRAMES, Seen, opened, running_browser
from tests.page.test_browser import PLAYWRIGHT

SIZE, SHOWN = {"width": 1120, "height": 640}, 840  # of the browser and width of the moving picture [pixels]
LEGS = ((2, -0.18), (1, 0.25), (2, 0.22), (1, -0.25))  # axes of the tool and ways along them [m], back to the start
MOVES, FRAME_MS = 14, 70  # of the mouse along a leg; time that a picture is shown
ON_GIZMO_M, SETTLING_MS, MOST_BYTES = 1e-3, 4000, 1_500_000


def drags(seen: Seen, link: str) -> Iterator[None]:
    """Drag the arrows of a link's target, leg by leg; stop after each move of the mouse that the robot has followed."""
    mouse, gizmo = seen.page.mouse, seen.visitor.stage.gizmos[link]
    for axis, way in LEGS:
        w, x, y, z = gizmo.wxyz
        along = quaternion_rotate(np.array([x, y, z, w]), np.eye(3)[axis])
        grip = np.array(gizmo.position) + 0.88 * seen.visitor.stage.gizmo_size * along
        mouse.move(*seen.place_of(grip))
        mouse.down()
        for share in 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, MOVES + 1)[1:]):
            mouse.move(*seen.place_of(grip + share * way * along))
            seen.page.evaluate(TWO_FRAMES)
            until(lambda: np.allclose(seen.visitor.posed.targets[link].pose[:3], gizmo.position, atol=ON_GIZMO_M))
            seen.page.evaluate(TWO_FRAMES)
            yield
        mouse.up()


def record(robot: str, folder: Path) -> None:
    """Write the moving picture and a still one."""
    pictures = []
    with (
        running_browser() as browser,
        Page(LocalSolving("cpu"), robot) as served,
        opened(browser, served.url, viewport=SIZE) as page,
    ):
        seen = Seen(page, served)
        until(lambda: seen.visitor.posed.answer is not None)
        page.wait_for_timeout(SETTLING_MS)
        page.add_style_tag(content='[class*="Notification"] { display: none }')  # about rendering in software
        for _ in drags(seen, next(iter(seen.visitor.stage.gizmos))):
            pictures.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    pictures[0].save(folder / "page.png", optimize=True)
    small = [one.resize((SHOWN, SHOWN * one.height // one.width), Image.Resampling.LANCZOS) for one in pictures]
    for quality in (80, 60, 40, 25):
        small[0].save(
            folder / "page.webp",
            save_all=True,
            append_images=small[1:],
            duration=FRAME_MS,
            loop=0,
            quality=quality,
            method=6,
        )
        size = (folder / "page.webp").stat().st_size
        if size <= MOST_BYTES:
            return
    raise SystemExit(f"{size} bytes at the lowest quality: take fewer MOVES or a smaller SHOWN.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robot", default="panda")
    given = parser.parse_args()
    if find_spec("playwright") is None:
        subprocess.run([python_with("page", PLAYWRIGHT), "-m", "docs.record_page", "--robot", given.robot], check=True)
    else:
        record(given.robot, Path(__file__).parent)
