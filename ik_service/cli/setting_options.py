"""The settings on the command line: options of `ik-service serve` made from them, and `ik-service config`."""

import inspect
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table

from ik_service.cli.console import escaped, message_console, output_console, print_json
from ik_service.settings import ENV_PREFIX, ServiceSettings, load_settings, setting_source, unknown_variables

EPILOG = f"Every option is an environment variable too: --drain-s is {ENV_PREFIX}DRAIN_S. Keys: {ENV_PREFIX}API_KEYS."
"""What the help says below the options."""
NO_OPTION = frozenset(("api_keys",))
"""Settings that are no options: command lines can be read by everybody on a machine."""


def with_setting_options(run: Callable[..., None]) -> Callable[..., None]:
    """Return a function with a keyword argument per setting, for typer; `run` gets only the given arguments."""

    def command(**options: Any) -> None:
        run(**{name: value for name, value in options.items() if value is not None})

    hints = {name: _hint(name, field) for name, field in ServiceSettings.model_fields.items() if name not in NO_OPTION}
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
        for name, hint in hints.items()
    ]
    command.__annotations__ = hints
    command.__dict__["__signature__"] = inspect.Signature(parameters)  # read by inspect
    return command


def shown_default(field: Any) -> str:
    """Return the default of a setting as readable text."""
    value = field.get_default(call_default_factory=True)
    if isinstance(value, bool):
        return "on" if value else "off"
    return "none" if value in (None, (), {}) else str(value)


def _hint(name: str, field: Any) -> Any:
    flag = "--" + name.replace("_", "-")
    kind = _kind(field.annotation)
    declared = f"{flag}/--no-{flag[2:]}" if kind is bool and name != "insecure" else flag
    text = escaped(f"{field.description} Default: {shown_default(field)}.")
    option = typer.Option(declared, help=text, show_default=False)
    return Annotated[kind | None, option]


def _kind(annotation: Any) -> Any:
    """The type of an option's value: the type of the setting; a list of words is one text."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        annotation = next(part for part in typing.get_args(annotation) if part is not type(None))
    if typing.get_origin(annotation) is Literal or annotation in (bool, int, float, Path):
        return annotation
    return str


def print_config(*, as_json: bool) -> None:
    """Print the settings of `ik-service serve` without options; InputError for a setting that is not allowed."""
    settings = load_settings()
    rows = {name: (shown(settings, name), setting_source(name, {})) for name in ServiceSettings.model_fields}
    unknown = unknown_variables()
    if as_json:
        document: dict[str, Any] = {name: {"value": value, "source": source} for name, (value, source) in rows.items()}
        print_json({"settings": document, "unknown_variables": unknown})
        return
    table = Table("setting", "value", "from", box=None, pad_edge=False)
    for name, (value, source) in rows.items():
        table.add_row(name, escaped(_text(value)), "" if source == "default" else source)
    output_console().print(table)
    for name in unknown:
        message_console().print(f"[yellow]Warning:[/] {escaped(name)} is no setting.")


def shown(settings: ServiceSettings, name: str) -> Any:
    """Return a setting for display: API keys are replaced by their names."""
    if name == "api_keys":
        return dict.fromkeys(settings.api_keys, "***")
    value = getattr(settings, name)
    return str(value) if isinstance(value, Path) else value


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}:{masked}" for name, masked in value.items())
    if isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, bool):
        return "on" if value else "off"
    return "" if value is None else str(value)
