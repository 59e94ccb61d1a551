"""Build the documentation as a site: the README, docs/, what benchmarks/ measured, and a reference from the docstrings.

Usage: site.py [FOLDER], where the site is to be; without it the site is only checked. The pages are copied as they lie
in the repository, so that their links hold in both places. A link or an anchor that leads nowhere fails the build.
"""

import ast
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE"]
FOLDERS = ["docs", "benchmarks", "examples"]
PACKAGES = [
    "ik_service",
    "ik_service.robots",
    "ik_service.control",
    "ik_service.export",
    "ik_service.torch",
    "ik_service.jax",
    "ik_service.tape",
    "ik_service.client",
    "ik_service.deploy.bulk",
    "ik_service.api",
    "objectives",
]
OTHERS = {  # names that stand on the page of a package, which they come out of or go into
    "ik_service": [
        "ik_service.result_schema.ResultColumns",
        "ik_service.solver.Linearisation",
        "ik_service.solver.DofState",
    ],
    "objectives": ["objectives.expression_objective.ExpressionObjective", "objectives.expression.Expression"],
}


def public_names(package: str) -> list[str]:
    """Return what the package's __all__ names, in its order."""
    source = ROOT.joinpath(*package.split("."), "__init__.py").read_text()
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            return [name for name in ast.literal_eval(statement.value) if not name.startswith("__")]
    raise ValueError(f"{package} has no __all__.")


def write_reference(folder: pathlib.Path) -> None:
    """Write one page for each package, whose names mkdocstrings replaces by their docstrings."""
    folder.mkdir()
    for package in PACKAGES:
        names = [f"{package}.{name}" for name in public_names(package)] + OTHERS.get(package, [])
        (folder / f"{package}.md").write_text("\n\n".join([f"# {package}", *(f"::: {name}" for name in names)]) + "\n")


def copy_pages(folder: pathlib.Path) -> None:
    """Copy the pages, and the files beside them that they show or link to, into the folder."""
    for name in FILES:
        shutil.copy(ROOT / name, folder / name)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))


def main() -> int:
    """Build the site; return the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        pages = pathlib.Path(folder, "pages")
        pages.mkdir()
        copy_pages(pages)
        write_reference(pages / "reference")
        config = shutil.move(pages / "docs" / "mkdocs.yml", folder)
        site = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else pathlib.Path(folder, "site")
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", config, "-d", site]
        status = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=False
        ).returncode
        if status == 0 and len(sys.argv) > 1:
            print(f"The documentation is in {site}/index.html.")
    return status


if __name__ == "__main__":
    sys.exit(main())
