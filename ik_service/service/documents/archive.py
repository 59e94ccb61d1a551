"""Solve request as an archive: arrays in the body, links and options in the query of the URL."""

from typing import Any

from numpy.typing import NDArray

from ik_service.service.codecs.npz_codec import TEXTS, ArchiveFields
from ik_service.service.errors.exceptions import faulty_field

_BY_LINK = {"positions": 3, "orientations_xyzw": 4}


def solve_document(fields: ArchiveFields) -> dict[str, Any]:
    """Return the JSON document equivalent to an archive and its query.

    Args:
        fields: Arrays `positions` [m] and `orientations_xyzw`, of shape [n, 3 or 4] for one link and [n, links, 3 or 4]
            for several, and `initial_joint_q`, of shape [n, joint_coord_count]; `link`, `include` and `disable` may
            repeat; options by their names.

    Raises:
        FaultyFieldsError: An array of another name or shape, or an option given twice.
    """
    links = [value for name, value in fields.query if name == "link"]
    document: dict[str, Any] = {"targets": [{"link": link} for link in links], "options": {}}
    document["include"] = [value for name, value in fields.query if name == "include"]
    document["constraints"] = {"disable": [value for name, value in fields.query if name == "disable"]}
    for name, array in fields.arrays.items():
        if name in _BY_LINK:
            columns = _by_link(name, array, len(links))
            for target, column in zip(document["targets"], columns, strict=True):
                target[name] = column
        else:
            document[name] = array
    for name, value in fields.query:
        if name in document["options"]:
            raise faulty_field(f"/options/{name}", "invalid_value", "The option is given twice.")
        if name not in TEXTS:
            document["options"][name] = value
    return document


def _by_link(name: str, array: NDArray[Any], count: int) -> list[NDArray[Any]]:
    """Return the columns of an array, one per link."""
    if count <= 1 and array.ndim == 2:
        return [array] * count
    if array.ndim != 3 or array.shape[1] != count:
        shape = f"[n, {count}, {_BY_LINK[name]}]" if count > 1 else f"[n, {_BY_LINK[name]}]"
        detail = f"The array has shape {list(array.shape)}. Give {shape}: the query names {count} links."
        raise faulty_field(f"/{name}", "wrong_shape", detail)
    return [array[:, k] for k in range(count)]
