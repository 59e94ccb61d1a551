"""`ik-service spheres`: collision spheres of the links of a robot, checked link pairs, and quality figures.

shapes and meshes of the robot's file -> solid of each link -> spheres -> pairs -> trial -> file, figures
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.table import Table

from ik_service.cli.check_command import read_numbers
from ik_service.cli.console import escaped, output_console, progress_bar
from ik_service.collision.covering import CoveringFigures, cover_solid, covering_figures, rounded
from ik_service.collision.link_pairs import pair_contacts
from ik_service.robots import CollisionModel, RobotModel, choose_pairs, load_robot, without_contacts
from ik_service.robots.readers.catalog import link_shapes
from ik_service.robots.readers.fitted_spheres import link_solids, named_configurations
from ik_service.robots.readers.sphere_file import model_document
from ik_service.robots.readers.sphere_fit import PER_LINK, Fit, fit_spheres
from ik_service.whole_file import write_whole
from objectives.errors import InputError

TRIAL_SAMPLES = 500  # random configurations in which a model is tried
OFTEN = 0.5  # share of them from which on a pair that is in contact there is named
WHAT_TO_DO = """Leave out pairs that touch where the real robot is free: --free zero, --free middle, --free Q1,Q2,...
Pairs that are left out are never checked. More or smaller spheres touch less: --per-link, --fit inner."""


@dataclass(frozen=True)
class SpheresJob:
    """A robot whose links get spheres, with the options."""

    robot: str  # a built-in robot or the path of a file
    output: Path  # file to write
    per_link: float = PER_LINK  # budget of spheres, on average
    fit: Fit = "balanced"  # see `fit_spheres`
    # a proven covering in place of a fit: largest overhang of a sphere [m], None for 15 % of a link's least width
    stands_out: float | None = None
    looks_out: float = 0.0  # of a covering: largest distance of an uncovered point of a link from the spheres [m]
    packages: tuple[Path, ...] = ()  # search folders for packages of meshes
    free: tuple[str, ...] = ()  # configurations known to be free of contact: comma-separated coordinates, or names

    @property
    def covers(self) -> bool:
        """Return whether the spheres are a proven covering."""
        return self.stands_out is not None or self.looks_out > 0.0


def write_spheres(job: SpheresJob) -> None:
    """Cover the links of a robot, print the quality, test the model, and write the file.

    InputError if an argument is not allowed, a shape is unreadable, or no tested configuration is free of contact.
    """
    robot, model, figures = cover_robot(job)
    console = output_console()
    console.print(_table(robot, model, figures))
    console.print(f"Pairs that are checked: {len(model.pairs)}.{_listed(model.pairs)}", markup=False, soft_wrap=True)
    for reason, pairs in model.left_out.items():
        console.print(f"Left out, {reason}: {len(pairs)}.{_listed(pairs)}", markup=False, soft_wrap=True)
    if not _print_trial(robot, model):
        raise InputError(f"Nothing that was tried is free of contact, so {job.output} is not written.")
    document = model_document(model, _source(job))
    write_whole(job.output, lambda file: file.write(document.encode()))
    console.print(f"Wrote {job.output}.", markup=False, soft_wrap=True)


def _print_trial(robot: RobotModel, model: CollisionModel) -> bool:
    """Print contacts in random and in named configurations; return whether any configuration is free."""
    console, named = output_console(), named_configurations(robot)
    drawn = robot.random_joint_q(np.random.default_rng(1), TRIAL_SAMPLES)  # other samples than for the choice of pairs
    _, shares, is_free = pair_contacts(robot, model, drawn)
    least = np.array([pair_contacts(robot, model, joint_q)[0] for joint_q in named.values()])
    zero, middle = ("free" if (own > 0.0).all() else "in contact" for own in least)
    console.print(f"Free of contact: {100.0 * is_free.mean():.1f} % of {TRIAL_SAMPLES} random configurations.")
    console.print(f"Where all coordinates are zero: {zero}. In the middle of the limits: {middle}.")
    table = Table("pair in contact", "of random ones", *named)
    for k in np.argsort(-shares, kind="stable"):
        if shares[k] >= OFTEN or (least[:, k] <= 0.0).any():
            depths = (f"{-1e3 * own:.1f} mm deep" if own <= 0.0 else "free" for own in least[:, k])
            table.add_row(escaped(" + ".join(model.pairs[k])), f"{100.0 * shares[k]:.0f} %", *depths)
    if table.row_count:
        console.print(table)
        console.print(WHAT_TO_DO, markup=False, soft_wrap=True)
    return bool(is_free.any() or (least > 0.0).all(axis=1).any())


def cover_robot(job: SpheresJob) -> tuple[RobotModel, CollisionModel, dict[str, CoveringFigures]]:
    """Return a robot, the spheres and checked pairs of its links, and the quality by link."""
    if job.stands_out is not None and not 0.0 < job.stands_out < math.inf:
        raise InputError(f"--stands-out is {job.stands_out:g} m. Allowed: a length above 0 m.")
    if not 0.0 <= job.looks_out < math.inf:
        raise InputError(f"--looks-out is {job.looks_out:g} m. Allowed: a length of 0 m or more.")
    if not job.per_link > 0.0:
        raise InputError(f"--per-link is {job.per_link:g}. Allowed: a number above 0.")
    robot = load_robot(job.robot, collision="ignore")
    free = np.array([read_numbers(robot, text, "--free") for text in job.free])
    solids = link_solids(link_shapes(job.robot), Path(job.robot), job.packages)
    with progress_bar("Covering links" if job.covers else "Fitting spheres", 100) as bar:
        if not job.covers:
            rest = np.array([*named_configurations(robot).values()])
            model = fit_spheres(
                robot,
                solids,
                rest,
                per_link=job.per_link,
                fit=job.fit,
                progress=lambda done: bar(completed=100 * done),
            )
        else:
            spheres = {}
            for link, solid in solids.items():
                bar(description=f"Covering {link}", advance=100.0 / len(solids))
                spheres[link] = rounded(cover_solid(solid, job.stands_out, job.looks_out))
            model = choose_pairs(robot, spheres)
        bar(description="Measuring", completed=100)
        figures = {link: covering_figures(solids[link], own) for link, own in model.spheres.items()}
        if len(free):
            model = without_contacts(robot, model, free)
    return robot, model, figures


def _source(job: SpheresJob) -> str:
    fitted = f"fitted by ik-service spheres to the collision shapes of {Path(job.robot).name}"
    if not job.covers:
        return f"{fitted}; {job.per_link:g} spheres a link, {job.fit}"
    bound = "15 % of the least width of each link" if job.stands_out is None else f"{1e3 * job.stands_out:g} mm"
    return f"{fitted}; spheres stand out by {bound}, links look out by {1e3 * job.looks_out:g} mm"


def _listed(pairs: tuple[tuple[str, str], ...]) -> str:
    """Return a line for each first link of the pairs."""
    firsts = dict.fromkeys(first for first, _ in pairs)
    return "".join(f"\n  {link} + {', '.join(b for a, b in pairs if a == link)}" for link in firsts)


def _table(robot: RobotModel, model: CollisionModel, quality: Mapping[str, CoveringFigures]) -> Table:
    title = escaped(f"{robot.name}: {model.sphere_count} spheres")
    columns = ("link", "spheres", "covered", "stands out by at most", "95 % of the gap")
    table = Table(*columns, title=title, title_justify="left")
    for link, figures in quality.items():
        numbers = (
            f"{100 * figures.coverage:.2f} %",
            f"{1e3 * figures.protrusion:.1f} mm",
            f"{1e3 * figures.gap_95:.1f} mm",
        )
        table.add_row(escaped(link), str(len(model.spheres[link])), *numbers)
    return table
