"""`ik-service constraints`: loop constraints and independent DOFs of a robot, and a sweep of one coordinate."""

from typing import Any

import orjson
from rich.table import Table

from ik_service.cli.console import escaped, output_console, print_json
from ik_service.cli.named_numbers import named_numbers
from ik_service.constraints.results import ClosureStatus, SweptPath
from ik_service.robots import RobotModel, load_robot


def print_constraints(name: str, *, as_json: bool) -> None:
    """Print the loop constraints of a robot; InputError for an unknown robot or an unreadable file."""
    report = report_constraints(load_robot(name))
    console = output_console()
    if as_json:
        print_json(report)
        return
    if report["constraints"]:
        console.print(_table(report))
    else:
        console.print(f"{report['robot']} has no constraints.", markup=False, soft_wrap=True)
    lines = [f"Warning: {warning}" for warning in report["warnings"]]
    if report["constraints"]:
        lines += [
            f"From the middle of the limits: {report['status'].replace('_', ' ')}",
            f"Independent rows: {report['rank']}",
            f"Driven by {len(report['independent'])}: {', '.join(report['independent'])}",
            f"Follow: {', '.join(report['dependent'])}",
        ]
        lines += [f"Redundant rows: {', '.join(report['redundant_rows'])}"] if report["redundant_rows"] else []
        lines += [f"Conflicting rows: {', '.join(report['conflicting_rows'])}"] if report["conflicting_rows"] else []
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


def report_constraints(robot: RobotModel) -> dict[str, Any]:
    """Return the loop constraints of a robot, and its mobility with loops closed from mid-range [m or rad]."""
    constraints = robot.constraints
    found = constraints.close(robot.mid_joint_q)
    parts = constraints.partition(found.joint_q)
    return {
        "robot": robot.name,
        "constraints": [
            {
                "name": one.name,
                "joint": one.joint,
                "link": one.link,
                "reference_link": one.reference_link,
                "limits": one.limits,
                "rows": len(range(*constraints.residual_rows(one.name).indices(constraints.residual_count))),
            }
            for one in robot.loops
        ],
        "warnings": robot.warnings,
        "status": found.status_names[0],
        "constraint_error": found.constraint_error[0].tolist(),  # largest row of each constraint
        "joint_q": dict(zip(robot.coordinate_names, found.joint_q[0].tolist(), strict=True)),
        "closing_joint_q": dict(zip(constraints.coordinate_names, found.closing_joint_q[0].tolist(), strict=True)),
        "rank": int(parts.rank[0]),  # independent rows
        "independent": parts.independent,  # DOFs that drive the mechanism
        "dependent": parts.dependent,
        "redundant_rows": ["/".join(row) for row in parts.redundant_rows()],  # linearly dependent on earlier rows
        "conflicting_rows": ["/".join(row) for row in parts.conflicting_rows()],  # redundant, in conflict with these
    }


def print_sweep(name: str, text: str, *, as_json: bool) -> None:
    """Print the coordinates of a robot while one coordinate goes from one value to another.

    `text` is JOINT=FIRST:LAST:STEP [rad or m], the joint one of the tree or a closing joint; InputError otherwise.
    """
    robot = load_robot(name)
    joint, (first, last, step) = named_numbers("--sweep", text, "JOINT=FIRST:LAST:STEP", count=3)
    path = robot.constraints.sweep(joint, (first, last), step)
    console = output_console()
    if as_json:
        console.out(orjson.dumps(_path_document(robot, joint, path)).decode(), highlight=False)
        return
    names = (*robot.coordinate_names, *robot.constraints.coordinate_names)
    console.out(",".join(("value", "status", "largest_error", *names)), highlight=False)
    for value, status, error, q, closing in zip(
        path.values, path.status[0], path.constraint_error[0], path.joint_q[0], path.closing_joint_q[0], strict=True
    ):
        numbers = ",".join(f"{number:.9g}" for number in (*q, *closing))
        word = ClosureStatus(status).name.lower()
        console.out(f"{value:.9g},{word},{error.max(initial=0.0):.3g},{numbers}", highlight=False)


def _path_document(robot: RobotModel, joint: str, path: SweptPath) -> dict[str, Any]:
    return {
        "robot": robot.name,
        "joint": joint,
        "values": path.values.tolist(),
        "status": [ClosureStatus(one).name.lower() for one in path.status[0]],
        "coordinate_names": robot.coordinate_names,
        "joint_q": path.joint_q[0].tolist(),
        "closing_coordinate_names": robot.constraints.coordinate_names,
        "closing_joint_q": path.closing_joint_q[0].tolist(),
        "constraint_names": robot.constraint_names,
        "constraint_error": path.constraint_error[0].tolist(),
    }


def _table(report: dict[str, Any]) -> Table:
    title = escaped(report["robot"])
    table = Table("constraint", "joint", "link", "to", "rows", "largest error", title=title, title_justify="left")
    for one, error in zip(report["constraints"], report["constraint_error"], strict=True):
        other = "the world" if one["reference_link"] is None else one["reference_link"]
        cells = map(escaped, (one["name"], one["joint"], one["link"], other))
        table.add_row(*cells, str(one["rows"]), f"{error:.2g}")
    return table
