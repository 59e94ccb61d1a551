"""`/`, the index of the service, and `/docs`: Swagger UI from local files, so that no network is needed.

The files are those of the package `fastapi-offline`; its code is not used.
"""

from importlib.metadata import version
from importlib.resources import files

from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from pydantic import BaseModel, Field
from starlette.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

ASSETS_URL = "/docs/assets"

router = APIRouter()


class Index(BaseModel):
    """What answers here, and where to read on."""

    name: str
    version: str
    docs: str = Field(description="Path of the page for people.")
    openapi: str = Field(description="Path of the OpenAPI document.")
    robots: str = Field(description="Path of the list of robots.")


@router.head("/", include_in_schema=False)
@router.get("/", summary="What is here", tags=["health"])
async def index(request: Request) -> Index:
    """Tell what answers, and the paths of its documents, with the prefix that it is mounted at."""
    prefix = request.scope.get("root_path", "")
    return Index(
        name="ik-service",
        version=version("ik-service"),
        docs=f"{prefix}/docs",
        openapi=f"{prefix}/openapi.json",
        robots=f"{prefix}/v1/robots",
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
