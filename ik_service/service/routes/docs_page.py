"""`/`, the index of the service and, for browsers, its first page; `/docs`, Swagger UI from local files.

No network is needed. The files are those of the package `fastapi-offline`; its code is not used.
"""

import json
from collections.abc import Mapping
from functools import cache
from html import escape
from importlib.metadata import version
from importlib.resources import files

from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from pydantic import BaseModel, Field
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.staticfiles import StaticFiles

from ik_service.service.catalog.entries import ServedRobot
from ik_service.service.codecs.media_types import prefers_page
from ik_service.service.routes.state import State
from ik_service.service.schema.examples import SOLVE_REQUESTS

ASSETS_URL = "/docs/assets"

router = APIRouter()

_HTML = {"text/html": {"schema": {"type": "string"}}}
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>ik-service</title>
<style>
:root {{ --text: #1d2430; --soft: #4d5766; --line: #d5dae1; --ground: #fff; --code: #f2f4f7; --link: #1a5fb4 }}
@media (prefers-color-scheme: dark) {{
  :root {{ --text: #e8ebf0; --soft: #aab3c0; --line: #39424f; --ground: #14181e; --code: #1f262f; --link: #7db7ff }}
}}
body {{ max-width: 46rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; font: 1rem/1.55 system-ui, sans-serif;
  color: var(--text); background: var(--ground); overflow-wrap: anywhere }}
h1 {{ margin: 0; font-size: 1.6rem }} h2 {{ margin: 2rem 0 0.5rem; font-size: 1.15rem }}
p {{ margin: 0.4rem 0 }} .soft {{ color: var(--soft) }} a {{ color: var(--link) }}
code, pre {{ font: 0.87rem/1.5 ui-monospace, monospace; background: var(--code); border-radius: 0.3rem }}
code {{ padding: 0.1rem 0.3rem }} pre {{ padding: 0.8rem; white-space: pre-wrap }}
iframe {{ width: 100%; height: 28rem; margin-top: 0.6rem; box-sizing: border-box; border: 1px solid var(--line) }}
@media (max-width: 40rem) {{ iframe {{ display: none }} }}
table {{ width: 100%; border-collapse: collapse }}
th, td {{ padding: 0.3rem 0.6rem 0.3rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line) }}
tr > :first-child {{ min-width: 7.5rem }} tr > :nth-child(2) {{ text-align: right; white-space: nowrap }}
</style>
</head>
<body>
<main>
<h1>ik-service</h1>
<p class="soft">Batched inverse kinematics, version {version}: {ready}.</p>
<h2>Look</h2>
<p>Drag a target, watch the robot: {live}</p>
<p><a href="{docs}">Every route, with examples to try</a>; <a href="{openapi}">the same as OpenAPI</a>;
<a href="{robots}">robots as JSON</a>.</p>
<h2>Ask</h2>
<pre tabindex="0">{curl}</pre>
<h2>Robots</h2>
{table}
</main>
</body>
</html>
"""


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
    address, page_url = str(request.base_url).rstrip("/"), state.settings.page_url
    text = _page(found, robots, address, page_url=page_url, has_keys=keys, is_ready=state.is_ready)
    policy = _POLICY if page_url is None else f"{_POLICY}; frame-src {'/'.join(page_url.split('/')[:3])}"
    return HTMLResponse(text, headers={"Content-Security-Policy": policy, "Vary": "Accept"})


@cache
def _version() -> str:
    """Return the version of the service, which is in a file."""
    return version("ik-service")


def _page(
    found: Index,
    robots: Mapping[str, ServedRobot],
    address: str,
    *,
    page_url: str | None,
    has_keys: bool,
    is_ready: bool,
) -> str:
    """Return the first page: what runs here, in HTML without a script."""
    cells = [(name, str(robot.model.active_dof_count), robot.ends) for name, robot in robots.items()]
    rows = "".join(f"<tr><td>{'</td><td>'.join(map(escape, row))}</td></tr>" for row in cells)
    table = f"<table><tr><th>robot</th><th>DOFs</th><th>ends</th></tr>{rows}</table>"
    name, key = ("panda", ' -H "X-API-Key: $KEY"' if has_keys else "")
    body = json.dumps(SOLVE_REQUESTS["one_pose"])
    curl = f"curl -s {address}/v1/robots/{name}/solve{key} -H 'Content-Type: application/json' -d '{body}'"
    see = f"<code>{escape(f'ik-service page --url {address}')}</code>"
    if page_url:
        shown = escape(page_url)
        see = f'<a href="{shown}">the live page</a><iframe title="The live page" src="{shown}" loading="lazy"></iframe>'
    return _PAGE.format(
        version=escape(found.version),
        ready="ready" if is_ready else "starting: kernels are being loaded",
        docs=escape(found.docs),
        openapi=escape(found.openapi),
        robots=escape(found.robots),
        live=see,
        curl=escape(curl),
        table="<p>Robots are listed to those who have an API key.</p>" if has_keys else table,
    )


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
    app.mount(ASSETS_URL, StaticFiles(directory=str(files("fastapi_offline") / "static")))
