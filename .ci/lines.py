"""Fail where ik_service and objectives have more lines (.py, .in) or packages than pyproject.toml allows."""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    """Print both numbers beside their budgets; return 1 where one is exceeded."""
    budget = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ik-service"]
    kinds = [(top, kind) for top in ("ik_service", "objectives") for kind in ("py", "in")]
    files = [path for top, kind in kinds for path in (ROOT / top).rglob(f"*.{kind}")]
    found = {
        "product-lines": sum(len(path.read_text().splitlines()) for path in files),
        "packages": sum(path.name == "__init__.py" for path in files),
    }
    for name, count in found.items():
        sys.stdout.write(f"{name}: {count} of {budget[name]}\n")
    return int(any(count > budget[name] for name, count in found.items()))


if __name__ == "__main__":
    sys.exit(main())
