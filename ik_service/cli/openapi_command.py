"""`ik-service openapi`: the document of /openapi.json, without a running service."""

import orjson
import typer

from ik_service.service import create_app
from ik_service.settings import ServiceSettings


def print_openapi() -> None:
    """Print the document of a service with default settings, with sorted keys, so versions can be compared."""
    document = create_app(ServiceSettings(insecure=True)).openapi()  # opens no port
    typer.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS))
