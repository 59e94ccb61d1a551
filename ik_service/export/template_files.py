"""The templates of the exported files: C, CMake and Markdown with words of `string.Template` in them."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from string import Template

FOLDER = files("ik_service.export") / "templates"


def filled(name: str, words: Mapping[str, object]) -> str:
    """Return the text of a template with its words filled in, without the newline at its end.

    Args:
        name: Its path in the folder of templates, without `.in`.
        words: Text of each word; those that the template does not hold are allowed.
    """
    return _template(name).substitute(words)


@cache
def _template(name: str) -> Template:
    return Template((FOLDER / f"{name}.in").read_text().removesuffix("\n"))
