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
    "ik_service.integrations.bulk",
    "ik_service.service",
    "objectives",
]
FIRST = {  # names that a reader looks for first; the others follow, errors last
    "ik_service": [
        "ik_service.load_robot",
        "ik_service.IKSolver",
        "ik_service.Target",
        "ik_service.SolverOptions",
        "ik_service.IKResult",
        "ik_service.result_schema.ResultColumns",
        "ik_service.IKStatus",
        "ik_service.RobotModel",
        "ik_service.PathResult",
        "ik_service.CandidateResult",
        "ik_service.ClipResult",
        "ik_service.solver.derivatives.linearisation.Linearisation",
        "ik_service.solver.derivatives.linearisation.DofState",
    ],
    "ik_service.client": ["ik_service.client.Client", "ik_service.client.AsyncClient"],
    "objectives": [
        "objectives.IKObjective",
        "objectives.expression.expression_objective.ExpressionObjective",
        "objectives.data_field.DataField",
        "objectives.expression.element_table.Element",
        "objectives.expression.rows.RowGroup",
        "objectives.expression",
        "objectives.expression.frame_algebra",
    ],
}
INHERITED = {  # classes that are shown with what they inherit
    "ik_service.IKSolver",
    "ik_service.RobotModel",
    "ik_service.client.AsyncStream",
    "ik_service.client.Client",
    "ik_service.client.Stream",
}


def public_names(package: str) -> list[str]:
    """Return what the package's __all__ names, in its order."""
    path = ROOT.joinpath(*package.split("."))
    source = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            return [name for name in ast.literal_eval(statement.value) if not name.startswith("__")]
    raise ValueError(f"{package} has no __all__.")


def write_reference(folder: pathlib.Path) -> None:
    """Write one page for each package, whose names mkdocstrings replaces by their docstrings."""
    folder.mkdir()
    for package in PACKAGES:
        first = FIRST.get(package, [])
        own = [f"{package}.{name}" for name in public_names(package)]
        own.sort(key=lambda name: name.endswith("Error"))
        lines = [f"# {package}"]
        for name in [*first, *(name for name in own if name not in first)]:
            lines.append(f"::: {name}" + ("\n    options:\n      inherited_members: true" if name in INHERITED else ""))
        (folder / f"{package}.md").write_text("\n\n".join(lines) + "\n")


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
            print(f"The documentation is in {site}/index.html; with its search: python -m http.server -d {site}")
    return status


if __name__ == "__main__":
    sys.exit(main())
