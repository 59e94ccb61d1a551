"""The settings of the service: from options, then environment variables `IK_SERVICE_*`, then the defaults here.

Settings are loaded only through `load_settings`, which turns any fault into one error that names the setting and never
shows a possible secret. Units stand in the names.
"""

import os
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from ik_service.kernels.file_trust import why_others_may_write
from objectives.errors import InputError

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

ENV_PREFIX = "IK_SERVICE_"
DEVICES_MOST = 64
KEY_LENGTH_LEAST = 16
"""Shorter API keys can be guessed."""
_KEY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.-]+(:\d{1,5})?|https?://\[[0-9A-Fa-f:]+\](:\d{1,5})?")
_OTHERS = {
    f"{ENV_PREFIX}{name}" for name in ("CPU_TARGET", "KERNEL_CACHE_MB", "QUIET", "SHIPPED_KERNELS")
}  # read where there are no settings
# Kubernetes sets these in every container where there is a Service named ik-service.
_KUBERNETES = re.compile(r"IK_SERVICE_(SERVICE_(HOST|PORT(_.*)?)|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)")


def _words(value: object) -> object:
    return tuple(word.strip() for word in value.split(",") if word.strip()) if isinstance(value, str) else value


def _keys(value: object) -> object:
    return _named_keys(value.split(",")) if isinstance(value, str) else value


def _named_keys(entries: Iterable[str]) -> dict[str, str]:
    """Keys by name from entries `name:key`; error texts never show a key."""
    found: dict[str, str] = {}
    for number, entry in enumerate(entries, start=1):
        name, colon, key = (part.strip() for part in entry.partition(":"))
        if not entry.strip() or entry.lstrip().startswith("#"):
            continue
        if not colon:
            raise ValueError(f"entry {number} of the API keys is not 'name:key'")
        if name in found:
            raise ValueError(f"two API keys are named '{name}'")
        found[name] = key
    return found


Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_words)]
Keys = Annotated[dict[str, SecretStr], NoDecode, BeforeValidator(_keys)]


class ServiceSettings(BaseSettings):
    """Settings of an operator. Lists are given as words with commas between them."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, env_ignore_empty=True, extra="forbid", frozen=True, hide_input_in_errors=True
    )

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(default=8000, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    device: str = Field(
        default="auto",
        min_length=1,
        description="auto, cpu, cuda, or one CUDA device such as cuda:1. Several with commas between them, as in "
        "cuda:0,cuda:1, are taken by workers in turn, and so are all cards with auto and cuda.",
    )
    threads: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Threads of a solve on a CPU; answers do not depend on it. None is one, and with several workers "
        "for each its share of the cores.",
    )
    workers: int | None = Field(
        default=None,
        ge=1,
        le=64,
        description="Whole services on one port, each a process with a solver of its own. None is one for each device.",
    )
    robots: Words | None = Field(
        default=None,
        description="Built-in robots to serve. None serves all of them; a comma alone none, with a catalog folder.",
    )
    warm_up_robots: Words | None = Field(
        default=None,
        description="Robots to solve once before the service is ready. None takes panda, or else the first. "
        "Code for more kinds of requests is compiled afterwards, at the lowest priority: for these robots, with None "
        "for all, with a comma alone for none.",
    )

    catalog_dir: Path | None = Field(
        default=None, description="Folder of robots and worlds put at run time. None: there are none."
    )
    uploads_enabled: bool = Field(
        default=False,
        description="Let robots and worlds be put and deleted at run time; needs a catalog folder and API keys.",
    )
    uploaders: Words | None = Field(
        default=None, description="Names of the API keys that may put and delete them. None: every key."
    )
    max_uploaded_robots: int = Field(
        default=64, ge=1, le=10_000, description="Robots that the catalog folder may hold; API keys share them."
    )
    max_uploaded_worlds: int = Field(
        default=64,
        ge=1,
        le=10_000,
        description="Worlds that the catalog folder may hold, of up to 16 MiB each; API keys share them.",
    )

    api_keys: Keys = Field(
        default_factory=dict, description=f"API keys as name:key, each key of {KEY_LENGTH_LEAST} characters or more."
    )
    api_keys_file: Path | None = Field(default=None, description="File with further API keys, one name:key a line.")
    insecure: bool = Field(
        default=False, description="Answer without API keys even where other machines can reach the service."
    )
    cors_origins: Words = Field(
        default=(), description="Web origins whose pages may call the service, such as https://lab.example; * is any."
    )
    page_url: str | None = Field(
        default=None,
        pattern=r"^https?://[^\s\"<>]+$",
        max_length=500,
        description="Address of a page of `ik-service page`, to which the first page leads people.",
    )
    page_port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="Port of a live page that `ik-service serve` starts beside the service, for this machine alone; it "
        "needs the extra `page`, and a service without API keys.",
    )

    requests_per_s: float | None = Field(
        default=None,
        gt=0,
        le=1_000_000,
        description="Requests per second of each API key. None: no limit.",
    )
    requests_burst: int = Field(
        default=32, ge=1, le=1_000_000, description="Requests of an API key that requests_per_s lets in at once."
    )
    max_body_bytes: int = Field(
        default=32 * 1024 * 1024, ge=1024, le=2**30, description="Most bytes of a request's body."
    )
    max_answer_bytes: int = Field(
        default=128 * 1024 * 1024,
        ge=1024,
        le=2**32,
        description="Most bytes of an answer, by its shape, before it is made.",
    )
    memory_bytes: int = Field(
        default=768 * 1024 * 1024,
        ge=2**20,
        le=2**40,
        description="Bytes of bodies and answers that requests may hold together; API keys share them.",
    )
    max_header_bytes: int = Field(
        default=32 * 1024, ge=1024, le=2**20, description="Most bytes of a request's line and headers."
    )
    max_connections: int = Field(default=2048, ge=1, le=1_000_000, description="Connections open at once.")
    max_streams: int = Field(default=512, ge=1, le=1_000_000, description="Streams open at once; API keys share them.")
    header_timeout_s: float = Field(
        default=10.0, gt=0, le=3600, description="Longest time for a request's line and headers to come in."
    )
    body_timeout_s: float = Field(
        default=30.0, gt=0, le=3600, description="Longest time for a request's body to come in."
    )
    answer_timeout_s: float = Field(
        default=60.0, gt=0, le=3600, description="Longest time for a caller to take an answer."
    )
    keep_alive_s: float = Field(
        default=75.0, gt=0, le=3600, description="How long a connection without a request stays open."
    )

    request_timeout_s: float = Field(
        default=60.0,
        gt=0,
        le=3600,
        description="Deadline of a solve, from when the request came; callers may have less time.",
    )
    queue_requests: int = Field(default=1024, ge=1, le=1_000_000, description="Requests that may wait.")
    queue_problems: int = Field(
        default=1_000_000, ge=1, le=10**9, description="Problems that may wait; one request alone may have more."
    )
    queue_keys: int = Field(
        default=64,
        ge=1,
        le=10_000,
        description="Kinds of requests that may wait at once; as many more may wait to be compiled.",
    )
    batch_problems: int = Field(
        default=16_384, ge=1, le=65_536, description="Problems that are solved together at most."
    )
    solvers: int = Field(default=16, ge=1, le=1024, description="Solvers kept for later requests.")

    drain_s: float = Field(
        default=30.0, ge=0, le=3600, description="After SIGTERM: longest time for requests under way to end."
    )
    drain_delay_s: float = Field(
        default=0.0, ge=0, le=600, description="After SIGTERM: time to go on while the ready route fails already."
    )
    access_log: bool = Field(default=True, description="Log one line per request; health routes are left out.")
    log_format: Literal["auto", "json", "console"] = Field(
        default="auto", description="One JSON object a line, or text for people; auto: text on a terminal."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severity of what is logged."
    )

    @model_validator(mode="after")
    def _check_keys(self) -> "Self":
        for name, key in self.keys.items():
            if not _KEY_NAME.fullmatch(name):
                raise ValueError("an API key's name holds letters, digits, '_', '.' and '-' only, 64 at most")
            if len(key) < KEY_LENGTH_LEAST or not key.isascii() or not key.isprintable() or " " in key:
                raise ValueError(
                    f"API key '{name}' must have {KEY_LENGTH_LEAST} or more printable ASCII characters and no space"
                )
        if self.uploads_enabled and (self.catalog_dir is None or not self.keys):
            raise ValueError("uploads_enabled needs catalog_dir and an API key")
        if self.requests_per_s is not None and not self.keys:
            raise ValueError("requests_per_s is a limit of each API key, and there is none")
        unknown = sorted(set(self.uploaders or ()) - set(self.keys))
        if unknown:
            raise ValueError(f"uploaders names '{unknown[0]}', which is no API key's name")
        return self

    @model_validator(mode="after")
    def _check_origins(self) -> "Self":
        for origin in self.cors_origins:
            if origin != "*" and not _ORIGIN.fullmatch(origin):
                raise ValueError(f"cors_origins: '{origin[:100]}' is no origin such as https://lab.example:8443")
        return self

    @model_validator(mode="after")
    def _check_devices(self) -> "Self":
        devices, kinds = self.devices, {one.partition(":")[0] for one in self.devices}
        if not all(devices) or len(devices) > DEVICES_MOST:
            raise ValueError(f"device: 1 to {DEVICES_MOST} names with commas between them are allowed")
        if len(kinds) > 1 or (len(devices) > 1 and "auto" in kinds):
            raise ValueError("device: several are of one kind, as in cuda:0,cuda:1, or answers would depend on which")
        if len({*devices}) < len(devices):
            raise ValueError("device: a device stands in it twice; more workers than devices share devices")
        if self.worker_count < len(devices):
            raise ValueError(f"workers is {self.workers}, and device names {len(devices)}: each needs a worker")
        return self

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of the devices."""
        return tuple(one.strip() for one in self.device.split(","))

    @property
    def worker_count(self) -> int:
        """Number of workers."""
        return len(self.devices) if self.workers is None else self.workers

    @cached_property
    def keys(self) -> Mapping[str, str]:
        """All API keys by name, with the keys of the file."""
        keys = {name: key.get_secret_value() for name, key in self.api_keys.items()}
        if self.api_keys_file is not None:
            for name, key in _read_keys(self.api_keys_file).items():
                if name in keys:
                    raise ValueError(f"two API keys are named '{name}'")
                keys[name] = key
        return keys


def load_settings(**options: Any) -> ServiceSettings:
    """Return the settings of this process; options, settings by name, override the environment.

    InputError for a value that is not allowed; the message names the setting and does not show secrets.
    """
    try:
        return ServiceSettings(**{**_kubernetes_port(), **options})
    except ValidationError as error:
        raise InputError(" ".join(map(_sentence, error.errors(include_input=False, include_url=False)))) from None


def setting_source(name: str, options: Mapping[str, object]) -> str:
    """Tell where a setting comes from: `option`, the name of an environment variable, or `default`."""
    if name in options:
        return "option"
    variable = f"{ENV_PREFIX}{name.upper()}"
    given = {known.upper(): known for known, value in os.environ.items() if value}
    return given[variable] if variable in given and name not in _kubernetes_port() else "default"


def unknown_variables() -> list[str]:
    """Return unknown environment variables with the prefix of settings, sorted."""
    known = {f"{ENV_PREFIX}{name.upper()}" for name in ServiceSettings.model_fields} | _OTHERS
    given = {name for name in os.environ if name.upper().startswith(ENV_PREFIX)}
    return sorted(name for name in given if name.upper() not in known and not _KUBERNETES.fullmatch(name))


def _kubernetes_port() -> dict[str, Any]:
    """The default port, used where Kubernetes has set the variable to an address."""
    value = os.environ.get(f"{ENV_PREFIX}PORT", "")
    return {"port": ServiceSettings.model_fields["port"].default} if value.startswith(("tcp://", "udp://")) else {}


def _read_keys(path: Path) -> dict[str, str]:
    try:
        text, reason = path.read_text(encoding="utf-8"), why_others_may_write(path.stat())
    except (OSError, UnicodeDecodeError):
        raise ValueError(f"api_keys_file '{path}' cannot be read as text") from None
    if reason is not None:
        raise ValueError(f"api_keys_file '{path}' {reason}, so others could add keys; take that right from them")
    return _named_keys(text.splitlines())


def _sentence(fault: Mapping[str, Any]) -> str:
    place = f"Setting {fault['loc'][0]} ({ENV_PREFIX}{str(fault['loc'][0]).upper()}): " if fault["loc"] else ""
    return f"{place}{fault['msg'].removeprefix('Value error, ')}."
