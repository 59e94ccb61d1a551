"""Options of the form NAME=NUMBERS."""

from objectives.errors import InputError


def named_numbers(option: str, text: str, form: str, *, count: int | None = None) -> tuple[str, list[float]]:
    """Return a name and its numbers: `count` with ':' between them, or any with ','; InputError for another form."""
    name, _, values = text.rpartition("=")
    try:
        numbers = [float(value) for value in values.split("," if count is None else ":")]
    except ValueError:
        numbers = []
    if not name or not numbers or count not in (None, len(numbers)):
        raise InputError(f"{option} {text!r} is not {form}.")
    return name, numbers
