"""XML into small element trees, safe on untrusted bytes.

Document type declarations and entities are refused, no file or address is opened, and size, depth, number of elements
and length of attributes are capped. Every error is a ``RobotFileError`` that names the element and its line.

A reader asks elements for attributes and children. Everything not asked for is reported afterwards, so that no second
list of known names is needed.
"""

import re
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from xml.parsers import expat

from ik_service.errors import RobotFileError

MAX_BYTES = 2_000_000
MAX_DEPTH = 64
HEAD_BYTES = 64 * 1024  # in which the outermost element begins
MAX_ELEMENTS = 65_536
MAX_ATTRIBUTE_LENGTH = 1024
MAX_KINDS = 16  # most kinds of attributes and elements listed as not read; further kinds are only counted
_LATE_DECLARATION = re.compile(rb"\A((?:\xef\xbb\xbf)?\s+)<\?xml(?=\s)")


@dataclass(slots=True, eq=False)
class XmlElement:
    """An XML element with its attributes, children and line."""

    tag: str
    attributes: dict[str, str]
    line: int
    owner: "XmlElement | None" = field(default=None, repr=False)
    warnings: list[str] = field(default_factory=list, repr=False)  # one list for all elements of a document
    children: list["XmlElement"] = field(default_factory=list)
    asked: tuple[str, ...] = ()  # attributes and tags (as <tag>) that readers asked for

    @property
    def label(self) -> str:
        """Name of this element in messages: ``joint 'elbow'``, or ``<limit> of joint 'elbow'`` inside one."""
        name = self.attributes.get("name")
        own = f"{shortened(self.tag)} '{shortened(name)}'" if name else f"<{shortened(self.tag)}>"
        return own if self.owner is None or self.owner.owner is None else f"{own} of {self.owner.label}"

    def error(self, reason: str) -> RobotFileError:
        """Give an error with ``reason`` about this element."""
        return RobotFileError(reason, element=self.label, line=self.line)

    def warn(self, reason: str) -> None:
        """Add a warning with ``reason`` about this element."""
        self.warnings.append(str(self.error(reason)))

    def all(self, tag: str) -> Iterator["XmlElement"]:
        """Give the direct children with this tag, in document order."""
        self._ask(f"<{tag}>")
        return (child for child in self.children if child.tag == tag)

    def one(self, tag: str) -> "XmlElement | None":
        """Give the first direct child with this tag, None if there is none; remove further ones with a warning."""
        found = list(self.all(tag))
        if len(found) > 1:
            found[1].warn(f"<{tag}> stands {len(found)} times here: the first one counts.")
            self.leave_out(tag, but=found[:1])
        return found[0] if found else None

    def leave_out(self, tag: str, *, but: "Collection[XmlElement]" = ()) -> None:
        """Remove the direct children with this tag except `but`; no warning names their content."""
        self.children = [child for child in self.children if child.tag != tag or child in but]

    def get(self, attribute: str) -> str | None:
        """Give an attribute, None if missing."""
        self._ask(attribute)
        return self.attributes.get(attribute)

    def _ask(self, name: str) -> None:
        if name not in self.asked:
            self.asked += (name,)

    def text(self, attribute: str) -> str:
        """Give a required attribute; RobotFileError if missing or empty."""
        value = (self.get(attribute) or "").strip()
        if not value:
            raise self.error(f"attribute '{attribute}' is missing or empty.")
        return value

    def number(self, attribute: str, default: float, *, largest: float = sys.float_info.max) -> float:
        """Give an attribute as one number, finite unless `largest` is infinite; RobotFileError otherwise."""
        return self.numbers(attribute, (default,), largest=largest)[0]

    def numbers(
        self, attribute: str, default: tuple[float, ...], *, largest: float = sys.float_info.max
    ) -> tuple[float, ...]:
        """Give an attribute as a list of numbers, as many as `default` has; RobotFileError otherwise."""
        raw = self.get(attribute)
        if raw is None:
            return default
        try:
            values = tuple(_number(word) for word in raw.split())
        except ValueError:
            values = ()
        if len(values) != len(default) or not all(abs(value) <= largest for value in values):
            count = "one finite number" if len(default) == 1 else f"{len(default)} finite numbers"
            raise self.error(f"attribute '{attribute}' must be {count}, got '{shortened(raw)}'.")
        return values

    def warn_of_unread(self, harmless: Collection[str]) -> None:
        """Warn of attributes and elements, here and below, that no reader asked for, except harmless ones."""
        places: dict[tuple[str, str], list[XmlElement]] = {}
        others: list[XmlElement] = []
        for name, element in _unread(self, harmless):
            is_named = (element.tag, name) in places or len(places) < MAX_KINDS
            (places.setdefault((element.tag, name), []) if is_named else others).append(element)
        for (_, name), found in places.items():
            what = "the element is not read" if name.startswith("<") else f"attribute '{shortened(name)}' is not read"
            found[0].warn(f"{what}, like {len(found) - 1} more of its kind." if len(found) > 1 else f"{what}.")
        if others:
            others[0].warn(f"not read, like {len(others) - 1} more attributes and elements of other kinds.")


def _unread(root: XmlElement, harmless: Collection[str]) -> Iterator[tuple[str, XmlElement]]:
    """Give the names no reader asked for, each with its element, in document order."""
    stack = [root]
    while stack:
        element = stack.pop()
        for name in element.attributes:
            if name not in element.asked and name not in harmless and not name.startswith(("xmlns", "xml:", "xsi:")):
                yield name, element
        inside = [child for child in element.children if f"<{child.tag}>" not in harmless]
        for child in inside:
            if f"<{child.tag}>" not in element.asked:
                yield f"<{child.tag}>", child
        stack.extend(child for child in reversed(inside) if f"<{child.tag}>" in element.asked)


def _number(word: str) -> float:
    # float() also takes '1_0' and digits of other scripts, which no other reader of robot files does.
    if "_" in word or not word.isascii():
        raise ValueError(word)
    return float(word)


def shortened(text: str, length: int = 60) -> str:
    """Cut a text to the length of a message."""
    return text if len(text) <= length else text[: length - 3] + "..."


def read_xml(data: bytes) -> XmlElement:
    """Read one XML document in UTF-8 and give its root element.

    RobotFileError if the document is too large, empty, not UTF-8 or not well-formed, has a document type declaration or
    entities, is nested too deep, or has too many elements or too long an attribute.
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
    """Receiver of the parser's events; a stack holds the open elements."""

    def __init__(self) -> None:
        # The explicit encoding overrides the declared encoding: the parser reads the bytes that were checked above.
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
        self._warnings: list[str] = []

    def build(self, data: bytes) -> XmlElement:
        try:
            self._parser.Parse(with_declaration_passed_over(data), True)
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
        # Keep the owner, not its label: labels of deep elements are long, and a file may hold many such elements.
        element = XmlElement(tag, attributes, self._parser.CurrentLineNumber, parent, self._warnings)
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


def is_xml_text(source: object) -> bool:
    """Return whether a source is the text of a document rather than a name or a path."""
    return isinstance(source, str) and source.lstrip("\ufeff \t\r\n").startswith("<")


def with_declaration_passed_over(data: bytes) -> bytes:
    """Turn an XML declaration after blank lines, refused by parsers, into an ignored instruction; line numbers stay."""
    return _LATE_DECLARATION.sub(rb"\1<?was", data)


def outermost_tag(data: bytes) -> str:
    """Give the tag of the outermost element; empty if none is found, for a reader to report."""
    found = list[str]()
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda tag, _: found.append(tag)
    with suppress(expat.ExpatError):
        parser.Parse(with_declaration_passed_over(data[:HEAD_BYTES]), False)
    return found[0] if found else ""
