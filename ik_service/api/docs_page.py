"""`/docs`: Swagger UI from files of this machine; the page fetches nothing from elsewhere.

The files are those that the package `fastapi-offline` carries; none of its code is used.
"""

from importlib.resources import files

from fastapi import APIRouter, FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

ASSETS_URL = "/docs/assets"

router = APIRouter(include_in_schema=False)


@router.head("/docs")
@router.get("/docs")
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
