"""Mutations of the code, drawn at random: small changes of one statement each, as a slip of the hand makes them.

Turned comparisons, swapped operators, negated conditions, changed numbers, deleted statements and lost results.
Docstrings, annotations, texts, messages of exceptions and logs stay as they are.
"""

import ast
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FOLDERS = ("ik_service", "objectives")
TURNED = {
    ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
SWAPPED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
DELETED = (ast.Expr, ast.AugAssign, ast.Raise, ast.Delete, ast.Continue, ast.Break)
LOGS = ("debug", "info", "warning", "error", "exception", "critical", "log")
ONCE = ("kernel", "func", "func_native", "struct", "cache", "lru_cache", "cached_property")  # not run by each test


class DrawnMutation(NamedTuple):
    """A change of one place of a file.

    `lines` are first and last line of the statement, `function` those of the outermost function around it that does
    not run for each test, or None; `start` is where the text stands in the file [bytes].
    """

    path: str
    lines: tuple[int, int]
    operator: str
    before: str
    after: str
    start: int
    function: tuple[int, int] | None

    def written(self, source: bytes) -> bytes:
        before = self.before.encode()
        assert source[self.start : self.start + len(before)] == before
        return source[: self.start] + self.after.encode() + source[self.start + len(before) :]


def drawn(root: Path, count: int, seed: int) -> list[DrawnMutation]:
    """Mutations of different statements, drawn evenly over the statements inside functions."""
    places = []
    for path in sorted(path for folder in FOLDERS for path in (root / folder).rglob("*.py")):
        source = path.read_bytes()
        begins = [0, *(k + 1 for k, byte in enumerate(source) if byte == ord("\n"))]
        for statement, function in _statements(ast.parse(source), None, inside=False):
            if changes := list(_changes(statement)):
                places.append((path.relative_to(root).as_posix(), source, begins, statement, function, changes))
    generator = random.Random(seed)
    mutations = []
    for path, source, begins, statement, function, changes in generator.sample(places, min(count, len(places))):
        operator, node, after = generator.choice(changes)
        start = begins[node.lineno - 1] + node.col_offset
        end = begins[node.end_lineno - 1] + node.end_col_offset
        body = getattr(statement, "body", None)
        last = body[0].lineno - 1 if isinstance(body, list) else statement.end_lineno
        lines = (statement.lineno, max(statement.lineno, last))
        mutations.append(DrawnMutation(path, lines, operator, source[start:end].decode(), after, start, function))
    return mutations


def _statements(
    node: ast.AST, function: tuple[int, int] | None, inside: bool
) -> Iterator[tuple[ast.stmt, tuple[int, int] | None]]:
    """Statements inside functions, each with the function around it that is run once for several tests."""
    for child in ast.iter_child_nodes(node):
        within, around = inside, function
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            within = True
            names = {ast.unparse(part).partition("(")[0].rpartition(".")[2] for part in child.decorator_list}
            if around is None and names & set(ONCE):
                around = (child.lineno, child.end_lineno)
        elif isinstance(child, ast.stmt) and inside and not isinstance(child, ast.ClassDef):
            yield child, function
        if not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            yield from _statements(child, around, within)


def _changes(statement: ast.stmt) -> Iterator[tuple[str, ast.AST, str]]:
    """What can be done to a statement: the operator, the node that is replaced, and the text in its place."""
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    if is_text or (isinstance(statement, ast.Expr) and _is_log(statement.value)):
        return
    sets_a_part = isinstance(statement, ast.Assign) and isinstance(statement.targets[0], (ast.Attribute, ast.Subscript))
    if isinstance(statement, DELETED) or sets_a_part:  # a name that nothing sets would be noticed at once
        yield "statement deleted", statement, "pass"
    if isinstance(statement, ast.Return) and statement.value is not None and ast.unparse(statement) != "return None":
        yield "None returned", statement, "return None"
    if isinstance(statement, ast.Raise):
        return
    for node in _expressions(statement):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in TURNED:
            turned = ast.Compare(node.left, [TURNED[type(node.ops[0])](), *node.ops[1:]], node.comparators)
            yield "comparison turned", node, f"({ast.unparse(turned)})"
        if isinstance(node, ast.BoolOp):
            yield "and/or swapped", node, f"({ast.unparse(ast.BoolOp(SWAPPED[type(node.op)](), node.values))})"
        if isinstance(node, ast.BinOp) and type(node.op) in SWAPPED and not _is_words(node.left):
            yield (
                "operator swapped",
                node,
                f"({ast.unparse(ast.BinOp(node.left, SWAPPED[type(node.op)](), node.right))})",
            )
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield "number + 1", node, f"({node.value!r} + 1)"
            yield "number * 2", node, f"({node.value!r} * 2)" if node.value else f"({node.value!r} - 1)"
        if isinstance(node, ast.Constant) and type(node.value) is bool:
            yield "truth turned", node, repr(not node.value)
    tests = [
        node.test for node in (statement, *_expressions(statement)) if isinstance(node, (ast.If, ast.While, ast.IfExp))
    ]
    for test in tests:
        yield "condition negated", test, f"(not ({ast.unparse(test)}))"


def _expressions(node: ast.AST) -> Iterator[ast.AST]:
    """The expressions of a statement, but for annotations, formatted texts, and statements below it."""
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            skipped = isinstance(child, (ast.stmt, ast.JoinedStr, ast.ExceptHandler)) or name in (
                "annotation",
                "returns",
            )
            if isinstance(child, ast.AST) and not skipped:
                if isinstance(child, ast.expr):
                    yield child
                yield from _expressions(child)


def _is_log(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOGS


def _is_words(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def function_lines(path: Path) -> set[int]:
    """First lines of the statements of a file that tests reach by calling its functions."""
    found = _statements(ast.parse(path.read_bytes()), None, inside=False)
    return {statement.lineno for statement, function in found if function is None}
