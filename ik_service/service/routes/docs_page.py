"""`/`, the index of the service and, for browsers, its first page; `/docs`, Swagger UI from local files.

No network is needed. The files are those of the package `fastapi-offline`; its code is not used.
"""

import json
import re
import time
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from html import escape
from importlib.metadata import version
from importlib.resources import files
from string import Template

from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from pydantic import BaseModel, Field
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.staticfiles import StaticFiles

from ik_service.service.catalog.entries import ServedRobot
from ik_service.service.codecs.media_types import prefers_page
from ik_service.service.routes.speed import Speed
from ik_service.service.routes.state import State
from ik_service.service.schema.examples import SOLVE_REQUESTS

ASSETS_URL = "/docs/assets"

router = APIRouter()

_HTML = {"text/html": {"schema": {"type": "string"}}}
_FOLDER = files("ik_service.service.routes") / "first_page"
_PICTURES = _FOLDER / "pictures"
_PAGE = Template((_FOLDER / "page.html").read_text())
_SPEED = Template(re.findall('<div id="speed">.*?</p>', _PAGE.template, re.DOTALL)[0] + "</div>")
_SCRIPT = re.findall("<script>(.*?)</script>", _PAGE.template, re.DOTALL)[0]
_DIGEST = b64encode(sha256(_SCRIPT.encode()).digest()).decode()
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; img-src 'self' data:; "
    f"connect-src 'self'; script-src 'sha256-{_DIGEST}'"
)
_PICTURED = frozenset(path.name.removesuffix(".webp") for path in _PICTURES.iterdir())
_UNKNOWN = "\N{EM DASH}"
"""In place of an unmeasured number."""


class Index(BaseModel):
    """The service at this address, and links to its documents."""

    name: str
    version: str
    docs: str = Field(description="Path of the page for people.")
    openapi: str = Field(description="Path of the OpenAPI document.")
    robots: str = Field(description="Path of the list of robots.")


@router.head("/", include_in_schema=False)
@router.get(
    "/",
    summary="What is here",
    tags=["health"],
    response_model=Index,
    responses={200: {"description": "The index; a page for browsers.", "content": _HTML}},
)
async def index(request: Request, state: State) -> Response:
    """Tell what answers, and the paths of its documents, with the prefix that it is mounted at; to browsers as HTML."""
    prefix = request.scope.get("root_path", "")
    found = Index(
        name="ik-service",
        version=_version(),
        docs=f"{prefix}/docs",
        openapi=f"{prefix}/openapi.json",
        robots=f"{prefix}/v1/robots",
    )
    if not prefers_page(request.headers):
        return JSONResponse(found.model_dump(), headers={"Vary": "Accept"})
    keys = bool(state.settings.keys)
    robots = {} if keys else (await state.catalog_refresh.current()).entries
    measured = next((name for name in (*(state.settings.warm_up_robots or ()), "panda") if name in robots), None)
    speed = None
    if measured is not None and state.is_ready:
        speed = state.speed_meter.speed(measured, robots[measured].model)
    address, page_url = str(request.base_url).rstrip("/"), state.settings.page_url
    words = {
        "prefix": prefix,
        "version": found.version,
        "ready": "ready" if state.is_ready else "starting: kernels are being loaded",
        "command": f"ik-service page --url {address}",
        "curl": _curl(address, has_keys=keys),
        **_numbers(speed),
    }
    words = {name: escape(word) for name, word in words.items()}
    if "speed" in request.query_params:
        return HTMLResponse(_SPEED.substitute(words))
    text = _PAGE.substitute(words, live=_live(page_url), robots=_cards(escape(prefix), robots))
    policy = _POLICY if page_url is None else f"{_POLICY}; frame-src {'/'.join(page_url.split('/')[:3])}"
    return HTMLResponse(text, headers={"Content-Security-Policy": policy, "Vary": "Accept"})


@cache
def _version() -> str:
    """Return the version of the service, which is in a file."""
    return version("ik-service")


def _curl(address: str, *, has_keys: bool) -> str:
    """Return a request as a shell command."""
    key, body = ' -H "X-API-Key: $KEY"' if has_keys else "", json.dumps(SOLVE_REQUESTS["one_pose"])
    return f"curl -s {address}/v1/robots/panda/solve{key} -H 'Content-Type: application/json' -d '{body}'"


def _numbers(speed: Speed | None) -> dict[str, str]:
    """Return the numbers of a speed in words."""
    if speed is None:
        of = "Not measured yet: only an idle service without API keys measures."
        return {"solve_us": _UNKNOWN, "per_s": _UNKNOWN, "solved": _UNKNOWN, "measured": of}
    seconds = round(time.monotonic() - speed.measured_at)
    return {
        "solve_us": f"{speed.solve_us:,.0f} µs",
        "per_s": f"{speed.targets_per_s:,.0f}",
        "solved": f"{100.0 * speed.solved:.1f} %",
        "measured": f"Measured here {seconds} s ago by this service: robot {speed.robot}, device {speed.device}.",
    }


@cache
def _still() -> str:
    """Return the still picture of the page, inside the HTML, so no other request comes first."""
    light, dark = (b64encode((_PICTURES / f"{name}.webp").read_bytes()).decode() for name in ("live", "live_dark"))
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="data:image/webp;base64,{dark}">'
        f'<img src="data:image/webp;base64,{light}" width="1040" height="560" alt="A robot and its target"></picture>'
    )


def _live(page_url: str | None) -> str:
    """Return the still picture of the page, and in front of it the live page where there is one."""
    if page_url is None:
        return f'<div class="live">{_still()}</div>'
    address = escape(page_url)
    frame = f'<iframe title="The live page" src="{address}" loading="lazy"></iframe>'
    return f'<div class="live">{_still()}{frame}</div><p><a href="{address}">Open the live page</a></p>'


def _cards(prefix: str, robots: Mapping[str, ServedRobot]) -> str:
    """Return a card of each robot."""
    cards = []
    for name, robot in robots.items():
        source = f"{prefix}/docs/pictures/{name}.webp"
        picture = f'<img src="{source}" width="160" height="160" loading="lazy" alt="">' if name in _PICTURED else ""
        dofs = robot.model.active_dof_count
        cards.append(f"<li>{picture}<h3>{escape(name)}</h3><p>{dofs} DOFs</p><p>{escape(robot.ends)}</p></li>")
    return "".join(cards) or "<li>Robots are listed to those who have an API key.</li>"


@router.head("/docs", include_in_schema=False)
@router.get("/docs", include_in_schema=False)
async def docs_page() -> HTMLResponse:
    """Show every route with its examples, and let the reader try them."""
    return get_swagger_ui_html(
        openapi_url="/openapi.json",
        title="ik-service",
        swagger_js_url=f"{ASSETS_URL}/swagger-ui-bundle.js",
        swagger_css_url=f"{ASSETS_URL}/swagger-ui.css",
        swagger_favicon_url=f"{ASSETS_URL}/favicon.png",
        swagger_ui_parameters={"defaultModelsExpandDepth": 0, "tryItOutEnabled": True},
    )


def install_docs_page(app: FastAPI) -> None:
    """Serve the page and its files; the application must have been made with `docs_url=None`."""
    app.include_router(router)
    app.mount("/docs/pictures", StaticFiles(directory=str(_PICTURES)))
    app.mount(ASSETS_URL, StaticFiles(directory=str(files("fastapi_offline") / "static")))
