"""Envelopes of documents: all fields except numeric columns, checked by the models of the schema and the robot."""

from collections.abc import Mapping
from typing import Any, TypeVar, get_args

from pydantic import ValidationError

from ik_service.robots import RobotModel
from ik_service.service.errors.exceptions import FaultBody, FaultyFieldsError, faulty_field, pointer_token
from ik_service.service.schema.fields import TOO_MANY_NAMES, Envelope
from objectives.errors import UnknownNameError, near_names

FAULT_CODES = {
    "extra_forbidden": "unknown_field",
    TOO_MANY_NAMES: "unknown_field",
    "missing": "missing_field",
    "finite_number": "not_finite",
    "greater_than": "out_of_range",
    "greater_than_equal": "out_of_range",
    "less_than": "out_of_range",
    "less_than_equal": "out_of_range",
    "literal_error": "unknown_option",
    "union_tag_invalid": "unknown_option",
    "union_tag_not_found": "missing_field",
    "too_short": "wrong_shape",
    "too_long": "wrong_shape",
    "string_too_short": "out_of_range",
    "string_too_long": "out_of_range",
}
"""Codes of the faults that the envelope's validation finds; types of values that do not fit are `wrong_type`."""

Body = TypeVar("Body", bound=Envelope)


def read_envelope(kind: type[Body], document: Any) -> Body:
    """Return the envelope of a document, its columns not checked; FaultyFieldsError if a field violates the schema."""
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        raise FaultyFieldsError(_fault(kind, entry["loc"], entry["type"], entry["msg"]) for entry in found) from error


def check_link(name: str, robot: RobotModel, pointer: str) -> None:
    """Raise FaultyFieldsError if the robot has no link of this name."""
    try:
        robot.link_index(name)
    except UnknownNameError as error:
        raise faulty_field(pointer, "unknown_link", str(error)) from error


def check_left_out(options: Envelope, usual: Mapping[str, object], reason: str) -> None:
    """Raise FaultyFieldsError for an option that has not its usual value, and has no meaning in this request."""
    for name, value in usual.items():
        if getattr(options, name) != value:
            raise faulty_field(f"/options/{name}", "invalid_value", f"Leave the option out: {reason}.")


def _fault(body: type[Envelope], place: tuple[int | str, ...], kind: str, message: str) -> FaultBody:
    detail = f"{'Field required' if kind == 'union_tag_not_found' else message}."
    if kind == "extra_forbidden":
        close = near_names(str(place[-1]), _field_names(body, place[:-1]))
        detail = "There is no such field here." + (f" Did you mean '{close[0]}'?" if close else "")
    code = "wrong_type" if kind.endswith("_type") else FAULT_CODES.get(kind, "invalid_value")
    return FaultBody(pointer=_pointer(place, kind), code=code, detail=detail)


def _field_names(body: type[Envelope], place: tuple[int | str, ...]) -> list[str]:
    """Return the names of the fields of the object at a place in a body."""
    kinds = [body]
    for token in place:
        fields = [kind.model_fields[token] for kind in kinds if token in kind.model_fields]
        if fields:
            kinds = [model for field in fields for model in _models(field.annotation)]
        elif isinstance(token, str):  # type of an objective: pydantic puts the type between index and field
            kinds = [kind for kind in kinds if token in get_args(kind.model_fields["type"].annotation)]
    return [name for kind in kinds for name in kind.model_fields]


def _models(annotation: Any) -> list[type[Envelope]]:
    if hasattr(annotation, "model_fields"):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]


def _pointer(place: tuple[int | str, ...], kind: str) -> str:
    """Return the JSON pointer to a fault, without the type of an objective inserted by pydantic."""
    tokens = list(place)
    if tokens[:1] == ["objectives"] and len(tokens) > 2:
        del tokens[2]
    elif kind.startswith("union_tag_"):
        tokens.append("type")
    return "".join(f"/{pointer_token(token)}" for token in tokens)
