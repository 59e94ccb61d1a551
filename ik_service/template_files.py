"""Templates of generated code in separate files, with placeholders of `string.Template`."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from string import Template


class TemplateFolder:
    """The folder `templates` of a package."""

    def __init__(self, package: str) -> None:
        self.path = files(package) / "templates"
        self._template = cache(self._read)

    def filled(self, name: str, words: Mapping[str, object]) -> str:
        """Return the text of a template, named without `.in`, with its words, without the newline at its end."""
        return self._template(name).substitute(words)

    def _read(self, name: str) -> Template:
        return Template((self.path / f"{name}.in").read_text().removesuffix("\n"))
