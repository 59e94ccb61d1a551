"""The commands with their options. Bodies import what they need, so that help and version are there at once.

Exit codes: 0 when something was solved, 1 when nothing could be solved or the service could not start, 2 for bad input.
"""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ik_service.cli.console import reported_errors, reported_output
from ik_service.cli.solving import solve_options


class CommandGroup(TyperGroup):
    """The commands; the options of `serve` are made once it is called, because reading the settings takes a while."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the arguments name."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, serve_with_options() if name == "serve" else command, rest


app = typer.Typer(
    name="ik-service",
    cls=CommandGroup,
    help="Batched inverse kinematics: robots and pose targets in, joint configurations out.",
    epilog="Exit codes: 0 solved, 1 nothing could be solved, 2 bad input.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    rich_markup_mode="rich",
)

RobotArgument = Annotated[str, typer.Argument(help="A built-in robot, or a path to a .urdf or MJCF .xml file.")]
PositionOnlyOption = Annotated[
    bool, typer.Option("--position-only", help="Targets are positions alone, without orientations.")
]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda, or one CUDA device such as cuda:1.")]


def main() -> None:
    """Run the command line."""
    app()


def _version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback()
def common(
    *,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the versions and end.")
    ] = False,
) -> None:
    """Batched inverse kinematics: robots and pose targets in, joint configurations out."""


@app.command()
def serve() -> None:
    """Serve the robots over HTTP and print a request to try."""
    # Only for the list of commands: `CommandGroup` puts the command with its options in this one's place.


def serve_with_options() -> Any:
    """Return the command `serve` with an option for every setting."""
    from ik_service.cli.service.setting_options import EPILOG, with_setting_options

    def run(**options: Any) -> None:
        with reported_errors():
            from ik_service.cli.service.serve import run_server

            run_server(**options)

    single = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False, rich_markup_mode="rich")
    single.command("serve", help=serve.__doc__, epilog=EPILOG)(with_setting_options(run))
    return typer.main.get_command(single)


@app.command()
def config(*, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show the settings of the service, and where each comes from."""
    with reported_errors():
        from ik_service.cli.service.config_command import print_config

        print_config(as_json=as_json)


@app.command()
def solve(
    robot: RobotArgument,
    targets: solve_options.Targets = None,
    *,
    link: solve_options.Link = None,
    output: solve_options.Output = None,
    random: solve_options.Random = None,
    seed: solve_options.Seed = None,
    seeds: solve_options.Seeds = None,
    max_iterations: Annotated[int | None, typer.Option(help="Iterations from one start.")] = None,
    position_tolerance: solve_options.PositionTolerance = None,
    orientation_tolerance: solve_options.OrientationTolerance = None,
    device: DeviceOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="With --random: report as JSON.")] = False,
    ray: solve_options.Ray = None,
    workers: solve_options.Workers = None,
    result_format: solve_options.Format = None,
    column: solve_options.Column = None,
    part_rows: solve_options.PartRows = 1_048_576,
    mark_faulty: solve_options.MarkFaulty = False,
) -> None:
    """Solve a file of targets, files of millions of them into a folder, or random reachable ones."""
    with reported_errors():
        from ik_service.cli.solving import bulk_command
        from ik_service.cli.solving.solve_command import Job, solve_file, solve_random

        given = {
            "random_seed": seed,
            "seeds": seeds,
            "max_iterations": max_iterations,
            "position_tolerance": position_tolerance,
            "orientation_tolerance": orientation_tolerance,
        }
        options = {name: value for name, value in given.items() if value is not None}
        job = Job(robot, tuple(link or ()), device, options)
        bulk = bulk_command.BulkWishes(ray, workers, result_format, tuple(column or ()), part_rows, mark_faulty)
        files = targets or []
        if (not files) == (random is None):
            raise typer.BadParameter("Give either files of targets or --random N.")
        is_bulk = bulk_command.is_bulk(files, output, bulk)
        if random is not None and (output is not None or is_bulk):
            raise typer.BadParameter("--output goes with a file of targets; with --random use --json.")
        if random is None and as_json:
            raise typer.BadParameter("--json goes with --random; with a file of targets use --output OUT.json.")
        if random is not None:
            solved = solve_random(job, random, seed or 0, as_json=as_json)
        elif is_bulk:
            solved = bulk_command.solve_bulk(job, files, output, bulk)
        else:
            solved = solve_file(job, files[0], output)
    raise typer.Exit(0 if solved else 1)


@app.command()
def robots(
    name: Annotated[
        str | None, typer.Argument(help="A built-in robot, or a path to a file. Default: list them.")
    ] = None,
    *,
    tree: Annotated[bool, typer.Option("--tree", help="Draw the tree of joints and links.")] = False,
) -> None:
    """List the built-in robots, or show one."""
    with reported_errors():
        from ik_service.cli.robots.robot_views import print_robot, print_robots, print_tree

        if name is None:
            if tree:
                raise typer.BadParameter("--tree needs the name of a robot.")
            print_robots()
        elif tree:
            print_tree(name)
        else:
            print_robot(name)


@app.command()
def islands(
    robot: RobotArgument,
    *,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            "-t",
            metavar="LINK[:REFERENCE_LINK]",
            help="Link with a target, seen from the world or from another link; may be repeated. Default: show the "
            "kinematic trees.",
        ),
    ] = None,
    lock: Annotated[
        list[str] | None,
        typer.Option("--lock", metavar="JOINT=VALUE", help="Hold a joint at a value \\[rad or m]; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show which joints targets couple: each island is solved by itself."""
    with reported_errors():
        from ik_service.cli.robots.islands_command import print_islands

        print_islands(robot, target or (), lock or (), as_json=as_json)


@app.command()
def warmup(
    robots: Annotated[
        list[str] | None, typer.Argument(metavar="[ROBOT]...", help="Built-in robots or paths. Default: all built in.")
    ] = None,
    *,
    link: Annotated[
        list[str] | None,
        typer.Option(
            "--link", "-l", help="Link with a target; several together. Default: each leaf link, then all of them."
        ),
    ] = None,
    position_only: PositionOnlyOption = False,
    float64: Annotated[
        bool, typer.Option("--float64", help='Also what precision="float64", best_of and solutions need.')
    ] = False,
    device: DeviceOption = "auto",
    arch: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER,...",
            help="With --device cuda: architectures to compile for, such as 80,90, of which none is needed here; and "
            "PTX of the lowest for others.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compile kernels for pose targets into the cache, so that later processes start at once."""
    with reported_errors():
        from ik_service.cli.robots.warmup_command import WarmUpJob, print_warm_up

        numbers = [word.strip() for word in (arch or "").split(",") if word.strip()]
        if numbers and (device != "cuda" or not all(map(str.isdecimal, numbers))):
            raise typer.BadParameter("--arch goes with --device cuda, and is numbers such as 80,90.")
        architectures = tuple(map(int, numbers))
        job = WarmUpJob(robots or (), link or (), device, architectures, position_only=position_only, float64=float64)
        print_warm_up(job, as_json=as_json)


@app.command()
def health(
    url: Annotated[
        str | None,
        typer.Argument(help="Where the service listens, such as http://127.0.0.1:8000. Default: as the settings say."),
    ] = None,
    *,
    live: Annotated[bool, typer.Option("--live", help="Ask whether it lives, not whether it is ready.")] = False,
    timeout: Annotated[float, typer.Option(min=0.0, help=r"Longest time for the answer \[s].")] = 3.0,
) -> None:
    """Tell whether a running service is ready, for containers and supervisors: exit code 0, else 1."""
    from ik_service.cli.service.health_command import print_health

    raise typer.Exit(0 if print_health(url, live=live, timeout_s=timeout) else 1)


@app.command()
def export(
    robot: RobotArgument,
    *,
    link: Annotated[
        list[str] | None,
        typer.Option("--link", "-l", help="Link with a target; may be repeated. Default: the only leaf link."),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the files; made if it is not there.")],
    prefix: Annotated[
        str | None, typer.Option(help="What all names in C begin with. Default: the robot's name.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="CPUs to compile for: x86-64-v4, x86-64-v3, x86-64-v2, generic (64-bit Arm). Default: "
            "IK_SERVICE_CPU_TARGET, else the highest of this machine without AVX-512."
        ),
    ] = None,
    position_only: PositionOnlyOption = False,
    problems: Annotated[int, typer.Option(min=1, help="Random reachable targets for the example program.")] = 1000,
    entry: Annotated[
        list[str] | None,
        typer.Option(help="Function to write: solve, or tick of a controller; may be repeated. Default: both."),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, or cuda for GPUs, none of which is needed here.")] = "cpu",
    arch: Annotated[
        list[int] | None,
        typer.Option(
            help="With --device cuda: architecture to compile for, such as 90; may be repeated. Default: one for each "
            "generation from 75 on."
        ),
    ] = None,
) -> None:
    """Write a solver and a controller for programs in C and C++: objects or cubins, header, source, examples."""
    with reported_errors():
        from ik_service.cli.robots.export_command import ENTRIES, ExportJob, write_export

        if device not in ("cpu", "cuda"):
            raise typer.BadParameter("--device is cpu or cuda.")
        if (device == "cpu" and arch) or (device == "cuda" and target):
            raise typer.BadParameter("--target goes with --device cpu, --arch with --device cuda.")
        if not set(entry or ()) <= set(ENTRIES) or (device == "cuda" and "tick" in (entry or ())):
            raise typer.BadParameter("--entry is solve or tick, and with --device cuda solve.")
        job = ExportJob(
            robot,
            tuple(link or ()),
            output,
            entries=tuple(entry or ()),
            prefix=prefix,
            orientations=not position_only,
            target=target,
            problem_count=problems,
            for_gpus=device == "cuda",
            architectures=tuple(arch or ()),
        )
        write_export(job)


@app.command()
def bench(
    robot: RobotArgument,
    *,
    link: Annotated[
        list[str] | None, typer.Option("--link", "-l", help="Link with a target. Default: the only leaf link.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Random reachable targets.")] = 10_000,
    batch: Annotated[int | None, typer.Option(min=1, help="Targets of a call. Default: all at once.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the targets.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads to try. Default: one per core.")] = None,
    staged: Annotated[bool, typer.Option("--staged", help="Measure the staged engine too.")] = False,
    repeats: Annotated[int, typer.Option(min=1, help="Measurements of each figure.")] = 7,
    device: DeviceOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure a robot on this machine: time per target, success, latency, threads."""
    with reported_errors():
        from ik_service.cli.robots.bench_command import bench_robot

        plan = {"count": count, "batch": batch, "random_seed": seed, "threads": threads, "staged": staged}
        solved = bench_robot(robot, link or (), as_json=as_json, repeats=repeats, device=device, **plan)
    raise typer.Exit(0 if solved else 1)


@app.command()
def load(
    url: Annotated[str, typer.Argument(help="Where the service listens, such as http://127.0.0.1:8000.")],
    *,
    robot: Annotated[str, typer.Option(help="Robot to solve for.")] = "panda",
    link: Annotated[str | None, typer.Option(help="Link with the target. Default: the last one of the robot.")] = None,
    problems: Annotated[int, typer.Option(min=1, help="Problems in each request.")] = 1,
    rate: Annotated[
        float | None, typer.Option(help="Requests per second, sent whether answers come or not. Default: as they come.")
    ] = None,
    clients: Annotated[int, typer.Option(min=1, help="Connections.")] = 64,
    duration: Annotated[float, typer.Option(help=r"How long to measure \[s].")] = 10.0,
    warm_up: Annotated[float, typer.Option(help=r"How long to send before that \[s].")] = 2.0,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of targets and arrivals.")] = 0,
    api_key: Annotated[str | None, typer.Option(envvar="IK_SERVICE_API_KEY", help="Key of the service.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Put a running service under load: answers per second, latencies, problems per launch."""
    with reported_errors():
        from ik_service.bench.load import LoadPlan
        from ik_service.cli.service.load_command import load_service

        plan = LoadPlan(
            url=url,
            robot=robot,
            link=link,
            problems=problems,
            rate_hz=rate,
            clients=clients,
            duration_s=duration,
            warm_up_s=warm_up,
            random_seed=seed,
            api_key=api_key,
        )
        answered = load_service(plan, as_json=as_json)
    raise typer.Exit(0 if answered else 1)


@app.command()
def openapi() -> None:
    """Print the OpenAPI document of the service."""
    with reported_errors():
        from ik_service.cli.service.openapi_command import print_openapi

        print_openapi()


@app.command()
def version() -> None:
    """Print the versions of this program and of what it stands on."""
    from ik_service.cli.console import print_versions

    with reported_output():
        print_versions()
