"""Texts of generated code in files of their own: templates with words of `string.Template` in them."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from string import Template


class TemplateFolder:
    """The folder `templates` of a package.

    Args:
        package: Dotted name of the package.

    Attributes:
        path: The folder.
    """

    def __init__(self, package: str) -> None:
        self.path = files(package) / "templates"
        self._template = cache(self._read)

    def filled(self, name: str, words: Mapping[str, object]) -> str:
        """Return the text of a template with its words filled in, without the newline at its end.

        Args:
            name: Its path in the folder, without `.in`.
            words: Text of each word; those that the template does not hold are allowed.
        """
        return self._template(name).substitute(words)

    def _read(self, name: str) -> Template:
        return Template((self.path / f"{name}.in").read_text().removesuffix("\n"))
