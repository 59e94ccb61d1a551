"""Chooses the codecs of a request and of its answer: Content-Type and Accept (RFC 9110)."""

from collections.abc import Iterator, Sequence

from starlette.datastructures import Headers

from ik_service.service.codecs.codec import Codec
from ik_service.service.codecs.json_codec import JsonCodec
from ik_service.service.codecs.msgpack_codec import MsgpackCodec
from ik_service.service.codecs.npz_codec import NpzCodec
from ik_service.service.errors.exceptions import ContentEncodingError, MediaTypeError, NotAcceptableError

CODECS: tuple[Codec, ...] = (JsonCodec(), MsgpackCodec(), NpzCodec())
"""Codecs that are served; earlier ones are preferred where a client has no preference."""

BY_NAME: dict[str, Codec] = {name: codec for codec in CODECS for name in (codec.media_type, *codec.other_names)}

_SERVED = ", ".join(codec.media_type for codec in CODECS)
_RANGES_MOST = 32


def codecs_of(headers: Headers, *, documents: str | None = None) -> tuple[Codec, Codec]:
    """Return the codecs of a request and of its answer.

    `documents` names the request, as the beginning of a sentence, where both are documents of several levels; None
    where they may hold arrays alone. MediaTypeError if Content-Type is missing, not served, or holds arrays alone;
    ContentEncodingError if the body is compressed; NotAcceptableError if Accept names none that is served.
    """
    media_type = headers.get("content-type", "")
    codec = BY_NAME.get(media_type) or BY_NAME.get(media_type.partition(";")[0].strip().lower())
    if codec is None:
        given = f"{media_type[:100]!r}" if media_type else "none"
        raise MediaTypeError(
            f"The body's Content-Type is {given}. Send for example 'Content-Type: application/json'. Served: {_SERVED}."
        )
    if "content-encoding" in headers:
        require_uncompressed(headers)
    output_codec = answer_codec(headers, codec) if "accept" in headers else codec
    if documents is not None and codec.is_flat:
        raise MediaTypeError(f"{documents} takes no {codec.media_type}. Send application/json.")
    if documents is not None and output_codec.is_flat:
        raise NotAcceptableError(f"{documents} is not answered as {output_codec.media_type}.")
    return codec, output_codec


def require_uncompressed(headers: Headers) -> None:
    """Raise ContentEncodingError for a compressed body."""
    encoding = headers.get("content-encoding")
    if encoding is not None and encoding.strip().lower() not in ("", "identity"):
        raise ContentEncodingError(f"The body's Content-Encoding is {encoding[:100]!r}. Send it uncompressed.")


def answer_codec(headers: Headers, preferred: Codec) -> Codec:
    """Return the codec of an answer, `preferred` if Accept prefers no other; NotAcceptableError if none is served."""
    accept = ", ".join(headers.getlist("accept"))
    if accept in ("", "*/*", preferred.media_type):
        return preferred
    ranges = list(_ranges(accept))
    candidates = (preferred, *(codec for codec in CODECS if codec is not preferred))
    quality, best = max(
        ((_quality((codec.media_type, *codec.other_names), ranges), codec) for codec in candidates),
        key=lambda pair: pair[0],
    )
    if quality <= 0.0:
        raise NotAcceptableError(f"Accept is {accept[:200]!r}. Served: {_SERVED}.")
    return best


def prefers_page(headers: Headers) -> bool:
    """Return whether a client would rather read HTML than JSON: browsers say so, and nobody else does."""
    ranges = list(_ranges(", ".join(headers.getlist("accept"))))
    return _quality(("text/html",), ranges) > _quality((JsonCodec.media_type,), ranges)


def _quality(names: Sequence[str], ranges: list[tuple[str, float]]) -> float:
    """Return the quality of a media type by its names: that of the most specific range that matches, 0 for none."""
    for closeness in (names, (f"{names[0].partition('/')[0]}/*",), ("*/*",)):
        found = [quality for name, quality in ranges if name in closeness]
        if found:
            return max(found)
    return 0.0


def _ranges(accept: str) -> Iterator[tuple[str, float]]:
    """Give the media ranges with their quality; malformed parts are ignored."""
    for part in accept.split(",", _RANGES_MOST)[:_RANGES_MOST]:
        name, *parameters = (token.strip().lower() for token in part.split(";"))
        weights = [parameter[2:] for parameter in parameters if parameter.startswith("q=")]
        try:
            quality = float(weights[0]) if weights else 1.0
        except ValueError:
            continue
        if name and 0.0 <= quality <= 1.0:
            yield name, quality
