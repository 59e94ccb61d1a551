"""Take the pictures of the service's first page: `python -m docs.record_pictures` writes them into the package.

Needs Chromium on PATH or in CHROMIUM; Playwright is installed into an environment of its own. The first page shows the
still pictures until the live page is there, in its size, and a picture of each built-in robot on its card.
"""

import io
import subprocess
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from PIL import Image

import ik_service
from ik_service.page import LocalSolving, Page
from ik_service.page.visitor import Visitor
from ik_service.robots import builtin_robot_names
from tests.bounded import until
from tests.other_environments import python_with
from tests.page.browser import TWO_FRAMES, Seen, opened, running_browser
from tests.page.test_browser import PLAYWRIGHT

FOLDER = Path(ik_service.__file__).parent / "service" / "routes" / "first_page" / "pictures"
LIVE, CARD = {"width": 1040, "height": 560}, {"width": 1024, "height": 640}  # of the browser [pixels]
CARD_SHOWN, QUALITY, SETTLING_MS, QUICK_MS = (320, 320), 72, 1500, 0.5
MIDDLE = (0.17, 0.15, 0.83, 0.81)  # of the square at the left, over its side
HIDDEN = '[class*="Notification"] { display: none }'  # about rendering in software


def taken(page: Any, path: Path, size: tuple[int, int] | None = None) -> None:
    """Write the picture in a browser as WebP."""
    page.wait_for_timeout(SETTLING_MS)
    page.evaluate(TWO_FRAMES)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    if size is not None:
        side = picture.height
        picture = picture.crop(tuple(round(part * side) for part in MIDDLE)).resize(size, Image.Resampling.LANCZOS)
    picture.save(path, quality=QUALITY, method=6)


def take_card(page: Any, served: Page, robot: str) -> None:
    """Write the picture of a robot, without its targets."""
    visitor = Seen(page, served).visitor
    before = visitor.posed
    page.add_style_tag(content=HIDDEN)
    visitor.enqueue("robot", robot)
    until(lambda: visitor.posed is not before and visitor.posed.answer is not None)
    for gizmo in visitor.stage.gizmos.values():
        gizmo.visible = False
    taken(page, FOLDER / f"{robot}.webp", CARD_SHOWN)


def is_quick(visitor: Visitor) -> bool:
    """Solve again; return whether the last solve was as quick as a solve with loaded code."""
    visitor.enqueue("again")
    return visitor.posed.answer.solve_ms < QUICK_MS


def take_all() -> None:
    """Write all pictures."""
    FOLDER.mkdir(exist_ok=True)
    with running_browser() as browser, Page(LocalSolving("cpu"), "panda") as served:
        for scheme, name in (("light", "live"), ("dark", "live_dark")):
            with opened(browser, served.url, viewport=LIVE, color_scheme=scheme) as page:
                visitor = Seen(page, served).visitor
                page.add_style_tag(content=HIDDEN)
                until(partial(is_quick, visitor))
                taken(page, FOLDER / f"{name}.webp")
            until(lambda: not served.visitors)
        for robot in builtin_robot_names():
            with opened(browser, served.url, viewport=CARD) as page:
                take_card(page, served, robot)
            until(lambda: not served.visitors)


if __name__ == "__main__":
    if find_spec("playwright") is None:
        subprocess.run([python_with("page", PLAYWRIGHT), "-m", "docs.record_pictures"], check=True)
    else:
        take_all()
