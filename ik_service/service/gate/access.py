"""Access control: an address within reach of other machines needs API keys, and every request is checked.

`create_app` decides whether keys are needed, from the server's address. Under another ASGI server the address is
unknown, so keys are needed there, too.
"""

import base64
import hashlib
import hmac
import ipaddress
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from starlette.types import Scope

from ik_service.service.errors.exceptions import (
    MetricsClosedError,
    MissingKeyError,
    UntrustedHostError,
    UntrustedOriginError,
    WrongKeyError,
)
from ik_service.settings import ServiceSettings
from objectives.errors import InputError

STREAM_PROTOCOL = "ik-service.v1"
"""Subprotocol of streams: browsers need one to be chosen where they offer any."""
KEY_PROTOCOL = "ik-service.key."
"""Begins the subprotocol that holds an API key in base64url: browsers set no other header of a web socket."""
_OPEN_PATHS = frozenset(("/", "/docs", "/openapi.json"))
_OPEN_PREFIXES = ("/health/", "/docs/")
_HOST = re.compile(r"(?:\[([0-9a-fA-F:.]*)\]|([^:\[\]]*))(?::[0-9]*)?")  # [address] or name, and a port


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def require_safe_address(settings: ServiceSettings, bound_to: str | None) -> None:
    """Refuse a service without API keys within reach of other machines.

    Args:
        settings: The settings.
        bound_to: Listening address of the server; None if unknown.

    Raises:
        InputError: No keys, not a loopback address, and `insecure` is not set.
    """
    if settings.keys or settings.insecure or (bound_to is not None and is_loopback(bound_to)):
        return
    where = "An address that is not known" if bound_to is None else f"Address {bound_to}"
    raise InputError(
        f"{where} may be open to other machines, and there are no API keys. Set IK_SERVICE_API_KEYS=name:key "
        "(or --api-keys-file), listen on 127.0.0.1, or say --insecure (IK_SERVICE_INSECURE=true) where the network is "
        "trusted."
    )


class Access:
    """Checks the API key, Host and Origin of requests; keeps digests. Arguments as in `require_safe_address`."""

    def __init__(self, settings: ServiceSettings, bound_to: str | None) -> None:
        self._digests = [(name, hashlib.sha256(key.encode()).digest()) for name, key in settings.keys.items()]
        self._on_loopback = bound_to is not None and is_loopback(bound_to)
        # Without keys, a web page could reach the service through a local browser by DNS rebinding.
        self._checks_host = not self._digests and not settings.insecure
        self._origins = frozenset(origin.encode() for origin in settings.cors_origins)

    def key_name(self, scope: Scope) -> str | None:
        """Return the name of a request's API key; None if the service has no keys or the path needs none.

        Raises:
            AccessError: The request is refused.
        """
        path, prefix, headers = scope["path"], scope.get("root_path", ""), dict(scope["headers"])
        if prefix and path.startswith(prefix + "/"):
            path = path.removeprefix(prefix)  # of the mounted application
        if self._checks_host and not _is_local_name(headers.get(b"host", b"localhost")):
            raise UntrustedHostError(
                "Without API keys the service answers to localhost and loopback addresses only. "
                "Ask under such a name, or let the operator set API keys."
            )
        if scope["type"] == "websocket":
            self._check_origin(headers)
        if path in _OPEN_PATHS or path.startswith(_OPEN_PREFIXES):
            return None
        if self._digests:
            return self._key_name(headers, scope.get("subprotocols", ()))
        if path == "/metrics" and not self._on_loopback:
            raise MetricsClosedError("Without API keys, metrics are open on a loopback address only.")
        return None

    def _key_name(self, headers: Mapping[bytes, bytes], protocols: Sequence[str]) -> str:
        given = headers.get(b"x-api-key")
        if given is None:
            scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not given:
                given = _offered_key(protocols)
            if given is None:
                raise MissingKeyError("Send an API key: 'X-API-Key: KEY' or 'Authorization: Bearer KEY'.")
        name = self.name_of(given.strip())
        if name is None:
            raise WrongKeyError("The API key is not one of this service.")
        return name

    def name_of(self, given: bytes) -> str | None:
        """Return the name of a key, None for an unknown key; takes the same time for every input."""
        digest, found = hashlib.sha256(given).digest(), None
        for name, known in self._digests:
            if hmac.compare_digest(digest, known):
                found = name
        return found

    def _check_origin(self, headers: Mapping[bytes, bytes]) -> None:
        """Refuse web pages of other origins; CORS does not apply to web sockets."""
        origin = headers.get(b"origin")
        if origin is None or b"*" in self._origins or origin in self._origins:
            return
        if origin.partition(b"://")[2] != headers.get(b"host"):
            raise UntrustedOriginError("Web pages of this origin may not open streams; see the setting cors_origins.")


def _offered_key(protocols: Sequence[str]) -> bytes | None:
    """Return the API key in the subprotocols of a web socket; None without a key, empty if the key is malformed."""
    texts = [protocol.removeprefix(KEY_PROTOCOL) for protocol in protocols if protocol.startswith(KEY_PROTOCOL)]
    try:
        return base64.b64decode(texts[0] + "=" * (-len(texts[0]) % 4), b"-_", validate=True) if texts else None
    except ValueError:
        return b""


@lru_cache(maxsize=256)
def _is_local_name(host: bytes) -> bool:
    found = _HOST.fullmatch(host.decode("latin-1"))
    return found is not None and is_loopback(found[1] or found[2].lower().rstrip("."))
