"""`ik-service config`: the present settings and the source of each; secrets stay hidden."""

from pathlib import Path
from typing import Any

from rich.table import Table

from ik_service.cli.console import escaped, message_console, output_console, print_json
from ik_service.settings import ServiceSettings, load_settings, setting_source, unknown_variables


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
