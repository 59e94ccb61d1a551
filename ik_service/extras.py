"""Extras of this package: what only some uses need, and how messages name it."""

from collections.abc import Iterator
from contextlib import contextmanager


def how_to_install(extra: str) -> str:
    """Return what to do where a package of an extra is missing, as a sentence.

    Args:
        extra: The extra, as in pyproject.toml.
    """
    return f"Install the extra '{extra}': pip install '.[{extra}]' in the repository of ik-service."


@contextmanager
def needs(extra: str, what: str) -> Iterator[None]:
    """Name the extra where an import fails for a package that is not installed.

    Args:
        extra: The extra that has what is imported.
        what: What needs it, the beginning of a sentence.

    Raises:
        ModuleNotFoundError: A package is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] in {"ik_service", "objectives"}:
            raise
        raise ModuleNotFoundError(f"{what} needs {error.name}. {how_to_install(extra)}", name=error.name) from None
