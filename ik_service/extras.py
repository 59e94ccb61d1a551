"""Optional dependencies (extras) of this package, and their names in messages."""

from collections.abc import Iterator
from contextlib import contextmanager


def how_to_install(extra: str) -> str:
    """Return advice for a missing package of an extra, as a sentence."""
    return f"Install the extra '{extra}': pip install '.[{extra}]' in the repository of ik-service."


@contextmanager
def needs(extra: str, what: str) -> Iterator[None]:
    """Name the extra, and the feature `what`, in the ModuleNotFoundError of an import, if a package is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] in {"ik_service", "objectives"}:
            raise
        raise ModuleNotFoundError(f"{what} needs {error.name}. {how_to_install(extra)}", name=error.name) from None
