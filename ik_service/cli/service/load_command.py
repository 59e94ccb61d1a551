"""`ik-service load`: a service under load, and how it bore it."""

import orjson
import typer
from rich.table import Table

from ik_service.bench.load import LoadPlan, LoadReport, run_load
from ik_service.cli.console import message_console, output_console


def load_service(plan: LoadPlan, *, as_json: bool) -> bool:
    """Put a service under load and print the report; return whether it answered anything.

    Args:
        plan: What to do.
        as_json: Whether to print JSON.

    Raises:
        LoadError: The service is not there, or refuses the request.
    """
    rate = "as fast as answers come" if plan.rate_hz is None else f"{plan.rate_hz:g} requests/s"
    message_console().print(
        f"{plan.url}: {rate}, {plan.problems} problems each, {plan.clients} connections, {plan.duration_s:g} s ...",
        markup=False,
    )
    report = run_load(plan)
    if as_json:
        typer.echo(orjson.dumps(report.document(), option=orjson.OPT_INDENT_2))
    else:
        output_console().print(_table(report))
    return report.answers_per_second > 0.0


def _table(report: LoadReport) -> Table:
    table = Table(show_header=False, box=None)
    table.add_row("answers per second", f"{report.answers_per_second:.1f}")
    table.add_row("problems per second", f"{report.answers_per_second * report.problems:.1f}")
    table.add_row("statuses", ", ".join(f"{status}: {count}" for status, count in sorted(report.statuses.items())))
    table.add_row("solved", f"{report.solved_share:.2%}")
    for name, value in report.quantiles().items():
        table.add_row(f"latency {name}", f"{value:.3f} ms")
    if report.problems_per_launch is not None:
        table.add_row("problems per launch", f"{report.problems_per_launch:.1f}")
    return table
