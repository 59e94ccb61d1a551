"""Fail where docstrings have more relative pronouns per 1000 words, or docs/ more words, than pyproject.toml allows.

"What", "those", "that" and "it" stand for a noun that the reader has to look for; the first word of a docstring is a
verb or a noun.
"""

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRONOUNS = {"what", "those", "that", "it"}
NO_BEGINNING = {"What", "Which", "How", "Whether", "Whoever"}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings() -> list[tuple[str, list[str]]]:
    """Return place and words of each docstring of the product."""
    found = []
    for path in sorted(path for top in ("ik_service", "objectives") for path in (ROOT / top).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
                line = getattr(node, "lineno", 1)
                found.append((f"{path.relative_to(ROOT)}:{line}", re.findall(r"[A-Za-z']+", text)))
    return found


def main() -> int:
    """Print both numbers beside their budgets, and docstrings that begin with a pronoun; return 1 where one fails."""
    budget, texts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ik-service"], docstrings()
    words = [word.lower() for _, text in texts for word in text]
    found = {
        "pronouns-per-1000-words": round(1000 * sum(word in PRONOUNS for word in words) / len(words), 1),
        "words-of-docs": sum(len(path.read_text().split()) for path in (ROOT / "docs").rglob("*.md")),
    }
    for name, count in found.items():
        sys.stdout.write(f"{name}: {count} of {budget[name]}\n")
    wrong = [place for place, text in texts if text and text[0] in NO_BEGINNING]
    for place in wrong:
        sys.stdout.write(f"{place} begins with a pronoun.\n")
    return int(bool(wrong) or any(count > budget[name] for name, count in found.items()))


if __name__ == "__main__":
    sys.exit(main())
