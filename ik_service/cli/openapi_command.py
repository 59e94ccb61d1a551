"""`ik-service openapi`: the document that the service serves at /openapi.json, without starting it."""

import orjson
import typer

from ik_service.service import create_app
from ik_service.settings import ServiceSettings


def print_openapi() -> None:
    """Print the document of a service with default settings, keys in order, so that two can be compared."""
    document = create_app(ServiceSettings(insecure=True)).openapi()  # it listens nowhere
    typer.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS))
