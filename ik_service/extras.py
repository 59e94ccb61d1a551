"""How messages name an extra of this package: packages that only some uses need."""


def how_to_install(extra: str) -> str:
    """Return what to do where a package of an extra is missing, as a sentence.

    Args:
        extra: The extra, as in pyproject.toml.
    """
    return f"Install the extra '{extra}': pip install '.[{extra}]' in the repository of ik-service."
