"""XML into small element trees, safe on untrusted bytes.

Document type declarations and entities are refused, nothing is ever opened or fetched, and size, depth, number of
elements and length of attributes are capped. Every error is a ``RobotFileError`` that names the element and its line.
"""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from xml.parsers import expat

from ik_service.errors import RobotFileError

MAX_BYTES = 2_000_000
MAX_DEPTH = 64
HEAD_BYTES = 64 * 1024  # in which the outermost element begins
MAX_ELEMENTS = 65_536
MAX_ATTRIBUTE_LENGTH = 1024


@dataclass(slots=True)
class XmlElement:
    """An XML element with its attributes, children and line."""

    tag: str
    attributes: dict[str, str]
    line: int
    owner: "XmlElement | None" = field(default=None, repr=False)
    children: list["XmlElement"] = field(default_factory=list)

    @property
    def label(self) -> str:
        """How messages call this element: ``joint 'elbow'``, or ``<limit> of joint 'elbow'`` inside one."""
        name = self.attributes.get("name")
        own = f"{shortened(self.tag)} '{shortened(name)}'" if name else f"<{shortened(self.tag)}>"
        return own if self.owner is None or self.owner.owner is None else f"{own} of {self.owner.label}"

    def error(self, reason: str) -> RobotFileError:
        """Give the error that says ``reason`` about this element."""
        return RobotFileError(reason, element=self.label, line=self.line)

    def all(self, tag: str) -> Iterator["XmlElement"]:
        """Give the direct children with this tag, in document order."""
        return (child for child in self.children if child.tag == tag)

    def one(self, tag: str) -> "XmlElement | None":
        """Give the only direct child with this tag, None where there is none.

        Raises:
            RobotFileError: There are two.
        """
        found = list(self.all(tag))
        if len(found) > 1:
            raise found[1].error(f"<{tag}> stands twice here; only one is allowed.")
        return found[0] if found else None

    def text(self, attribute: str) -> str:
        """Give a required attribute.

        Raises:
            RobotFileError: It is missing or empty.
        """
        value = self.attributes.get(attribute, "").strip()
        if not value:
            raise self.error(f"attribute '{attribute}' is missing or empty.")
        return value

    def number(self, attribute: str, default: float) -> float:
        """Give an attribute as one finite number.

        Raises:
            RobotFileError: It is not one finite number.
        """
        return self.numbers(attribute, (default,))[0]

    def numbers(self, attribute: str, default: tuple[float, ...]) -> tuple[float, ...]:
        """Give an attribute as as many finite numbers as its default has.

        Raises:
            RobotFileError: Another count, not numbers, or not finite.
        """
        raw = self.attributes.get(attribute)
        if raw is None:
            return default
        try:
            values = tuple(_number(word) for word in raw.split())
        except ValueError:
            values = ()
        if len(values) != len(default) or not all(map(math.isfinite, values)):
            count = "one finite number" if len(default) == 1 else f"{len(default)} finite numbers"
            raise self.error(f"attribute '{attribute}' must be {count}, got '{shortened(raw)}'.")
        return values


def _number(word: str) -> float:
    # float() also takes '1_0' and digits of other scripts, which no other reader of robot files does.
    if "_" in word or not word.isascii():
        raise ValueError(word)
    return float(word)


def shortened(text: str, length: int = 60) -> str:
    """Give a text short enough for a message."""
    return text if len(text) <= length else text[: length - 3] + "..."


def read_xml(data: bytes) -> XmlElement:
    """Read one XML document.

    Args:
        data: The document, UTF-8.

    Returns:
        Its root element.

    Raises:
        RobotFileError: Too large, empty, not UTF-8, not well-formed, with a document type declaration or entities,
            nested too deep, with too many elements or with a too long attribute.
    """
    if len(data) > MAX_BYTES:
        raise RobotFileError(f"the file has more than {MAX_BYTES} bytes.")
    if not data.strip():
        raise RobotFileError("the file is empty.")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise RobotFileError(f"not UTF-8 text (byte {error.start}).", line=line) from None
    return _TreeBuilder().build(data)


class _TreeBuilder:
    """Receives the parser's events and keeps the open elements on a stack."""

    def __init__(self) -> None:
        # The explicit encoding overrides the one that the document claims: what was checked above is what is parsed.
        self._parser = expat.ParserCreate(encoding="utf-8")
        self._parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        self._parser.StartDoctypeDeclHandler = self._refuse_doctype
        self._parser.EntityDeclHandler = self._refuse_doctype
        self._parser.ExternalEntityRefHandler = self._refuse_doctype
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._open: list[XmlElement] = []
        self._root: XmlElement | None = None
        self._count = 0

    def build(self, data: bytes) -> XmlElement:
        try:
            self._parser.Parse(data, True)
        except expat.ExpatError as error:
            raise RobotFileError(f"not well-formed XML: {expat.ErrorString(error.code)}.", line=error.lineno) from None
        if self._root is None:
            raise RobotFileError("the file holds no XML element.")
        return self._root

    def _refuse_doctype(self, *_declaration: object) -> int:
        raise RobotFileError(
            "document type declarations and entities are refused; remove the <!DOCTYPE ...>.",
            element="<!DOCTYPE>",
            line=self._parser.CurrentLineNumber,
        )

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        parent = self._open[-1] if self._open else None
        # The owner itself, not its label: labels of deep elements are long, and a file may hold many such elements.
        element = XmlElement(tag, attributes, self._parser.CurrentLineNumber, parent)
        self._check_caps(element)
        if parent is None:
            self._root = element
        else:
            parent.children.append(element)
        self._open.append(element)

    def _check_caps(self, element: XmlElement) -> None:
        self._count += 1
        longest = max(map(len, (element.tag, *element.attributes, *element.attributes.values())))
        if len(self._open) >= MAX_DEPTH:
            reason = f"nested deeper than {MAX_DEPTH} elements."
        elif self._count > MAX_ELEMENTS:
            reason = f"more than {MAX_ELEMENTS} elements."
        elif longest > MAX_ATTRIBUTE_LENGTH:
            reason = f"a name or value of {longest} characters; at most {MAX_ATTRIBUTE_LENGTH} are allowed."
        else:
            return
        raise RobotFileError(reason, element=f"<{shortened(element.tag)}>", line=element.line)

    def _end(self, _tag: str) -> None:
        self._open.pop()


def outermost_tag(data: bytes) -> str:
    """Give the tag of the outermost element; empty where none is found, of which readers say what is wrong."""
    found = list[str]()
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda tag, _: found.append(tag)
    with suppress(expat.ExpatError):
        parser.Parse(data[:HEAD_BYTES], False)
    return found[0] if found else ""
