"""Parts of the documents of several routes: envelopes, names, and the schemas of numeric columns.

Numeric columns are of type `Any` in the models. Their annotation carries their JSON schema, and for objectives a
`NumericColumn`, which says how `documents/columns.py` checks them: a model per row would cost more than the solve.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from ik_service.service.errors.exceptions import FAULTS_MAX
from ik_service.service.schema import limits

NAMES_MOST = 256
"""Names in one object of a body; none has so many fields."""
TOO_MANY_NAMES = "too_many_names"
"""Type of the error of an object with more names than that."""
Name = Annotated[str, Field(min_length=1, max_length=limits.NAME_LENGTH)]


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole)]
"""A whole number; 16.0 is accepted, as in JSON schema."""


class Envelope(BaseModel):
    """A caller's document: nothing but the known fields, of their own types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _few_names(cls, value: Any) -> Any:
        """Refuse an object of many names, and leave out unknown ones that are not told: each would become an error."""
        if type(value) is not dict or len(value) <= FAULTS_MAX:
            return value
        if len(value) > NAMES_MOST:
            message = "The object has {count} names. Allowed: {most}, of which none is unknown"
            raise PydanticCustomError(TOO_MANY_NAMES, message, {"count": len(value), "most": NAMES_MOST})
        told = [*(fields := cls.model_fields), *[name for name in value if name not in fields][:FAULTS_MAX]]
        return {name: value[name] for name in told if name in value}


def row(width: int | None, least: float = -limits.MAX_VALUE, least_width: int = 1) -> dict[str, Any]:
    """Return the schema of a row of numbers, `least` or more; without a width, the robot decides (>= `least_width`)."""
    number = {"type": "number", "minimum": least, "maximum": limits.MAX_VALUE}
    if width is not None:
        return {"type": "array", "items": number, "minItems": width, "maxItems": width}
    return {"type": "array", "items": number, **({"minItems": least_width} if least_width else {})}


def column(of_rows: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a column of rows."""
    return {"type": "array", "items": of_rows, "minItems": 1, "maxItems": limits.MAX_PROBLEM_COUNT}


def refused(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema that refuses an object in which each of these properties is so, or absent."""
    return {"not": {"properties": properties}}


def row_or_rows(width: int | None, least: float = -limits.MAX_VALUE) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schemas of one row for all problems and of a column."""
    return row(width, least), column(row(width, least))


def required(*schemas: dict[str, Any]) -> WithJsonSchema:
    """Return the annotation of a field that has one of several schemas."""
    return WithJsonSchema({"anyOf": [*schemas]})


def nullable(*schemas: dict[str, Any]) -> WithJsonSchema:
    """Return the annotation of a field that has one of several schemas, or is null."""
    return required(*schemas, {"type": "null"})


NAMES: dict[str, Any] = {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": limits.NAME_LENGTH}}
"""Schema of a list of names."""
NAME_LISTS = required(NAMES, column(NAMES))
"""Annotation of a field that has one list of names, or one per problem."""


@dataclass(frozen=True)
class NumericColumn:
    """Reading of a numeric column of an objective, in the annotation of the field."""

    # meaning of its rows, which decides how they are checked
    kind: Literal["vector", "direction", "quaternion", "configuration", "dof_values", "weights"]
    # numbers in a row; None where the robot decides: its coordinates, its DOFs, or the rows of the objective
    width: int | None = None


@cache
def numeric_columns(model: type[BaseModel]) -> Mapping[str, NumericColumn]:
    """Return the numeric columns of a model by the names of their fields, in the order of the fields."""
    fields = model.model_fields.items()
    return {name: entry for name, field in fields for entry in field.metadata if isinstance(entry, NumericColumn)}


class Offset(Envelope):
    """A tool frame (TCP) in the frame of the link that carries it."""

    position: Annotated[Any, nullable(*row_or_rows(3))] = Field(
        default=None,
        description="Position of the tool in the link frame [m], one row or one per problem. Default: 0, 0, 0.",
    )
    orientation_xyzw: Annotated[Any, nullable(*row_or_rows(4))] = Field(
        default=None,
        description="Unit quaternion x, y, z, w of the tool in the link frame, one row or one per problem.",
    )
