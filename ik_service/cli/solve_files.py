"""Targets from files, and results to files.

Targets: CSV for spreadsheets, npz for NumPy, JSON with the body of an HTTP request. Results: CSV with a row per
problem, npz with an array per column, JSON with the document of HTTP.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.cli.console import message_console
from ik_service.integrations.bulk.targets import CSV_COLUMNS, read_archive
from ik_service.motion_columns import CLIP_COLUMNS, PATH_COLUMNS
from ik_service.result_column import Column
from ik_service.result_schema import ALWAYS_COLUMNS, edge_array, edge_arrays
from ik_service.robots import RobotModel
from ik_service.service.codecs.json_codec import JsonCodec
from ik_service.service.codecs.npz_codec import NpzCodec
from ik_service.service.documents.columns import check_unit_quaternions
from ik_service.service.documents.motion import read_clip, read_follow
from ik_service.service.documents.solve_answer import answer_document
from ik_service.service.documents.solve_any import read_solve_any
from ik_service.service.documents.solve_request import NO_WORLDS, DecodedSolve, read_solve
from ik_service.service.queue.solve_request import Float64Array, SolveRequest, TimedResult
from ik_service.solver.candidates import FATES, CandidateResult, Choice, read_groups
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.targets import Target
from ik_service.solver.lm.status import STATUS_WORDS
from objectives.errors import InputError

NPZ_ARRAYS = {"positions": 3, "orientations_xyzw": 4, "initial_joint_q": 0, "group": 1, "cost": 1}
"""Arrays of a target file with the width of their rows; 0 is the number of the robot's coordinates."""
CHOICE_COLUMNS = {"group": ("group",), "cost": ("cost",)}  # of candidates


def read_targets(path: Path, robot: RobotModel, links: Sequence[str], call: str = "") -> DecodedSolve:
    """Return the problems and optional columns of a file, with default options unless the file has options.

    A .csv or .npz file has targets of one given link; a .json file names its links. `call` is that of a motion, if any.
    InputError, with the place, if the file cannot be read, or one of its values is not allowed.
    """
    readers = {".csv": _read_csv, ".npz": _read_npz}
    if path.suffix == ".json":
        if links:
            raise InputError(f"'{path}' names its own links. Leave --link out.")
        document = JsonCodec().decode(_read_bytes(path))
        if call:
            return (read_clip if call == "fit_clip" else read_follow)(document, robot, NO_WORLDS)
        is_choice = isinstance(document, dict) and not {"criterion", "group"}.isdisjoint(document)
        return (read_solve_any if is_choice else read_solve)(document, robot, NO_WORLDS)
    if path.suffix not in readers:
        raise InputError(f"Targets '{path}' have the suffix {path.suffix!r}. Allowed: .csv, .npz, .json.")
    if len(links) != 1:
        raise InputError(
            f"A {path.suffix} file holds targets of one link; {len(links)} are given. Use .json for several."
        )
    robot.link_frame(links[0])
    columns = readers[path.suffix](path, robot)
    batch = Batch.of([columns.get("positions")], [columns.get("orientations_xyzw")])
    if not batch.problem_count:
        raise InputError(f"'{path}' holds no targets. Give positions, orientations or both, for one problem at least.")
    batch = batch._replace(start=columns.get("initial_joint_q"))
    request = SolveRequest((Target(links[0]),), batch)
    if not CHOICE_COLUMNS.keys().isdisjoint(columns):
        group, cost = (columns[name][:, 0] if name in columns else None for name in CHOICE_COLUMNS)
        whole = group if group is None or (group != np.round(group)).any() else group.astype(np.int64)
        groups = read_groups(whole, None, cost, batch.problem_count)
        request = replace(request, choice=Choice(groups, "first", None, None))
    return DecodedSolve(request, frozenset())


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"Cannot read '{path}': {error.strerror}.") from error


def _read_csv(path: Path, _: RobotModel) -> dict[str, Float64Array]:
    header, rows = read_csv_rows(path)
    known = [name for columns in CSV_COLUMNS.values() for name in columns]
    present = {key: own for key, own in (CSV_COLUMNS | CHOICE_COLUMNS).items() if set(own) & set(header)}
    wanted = sorted(name for columns in present.values() for name in columns)
    if not present or sorted(header) != wanted:
        raise InputError(
            f"'{path}' has the header {','.join(header)!r}. Allowed: {','.join(known)}, or only x,y,z or qx,...; "
            "group and cost of candidates."
        )
    if not rows:
        return {}
    arrays = {key: csv_numbers(path, header, rows, columns) for key, columns in present.items()}
    for line, quaternion in zip(rows, arrays.get("orientations_xyzw", ()), strict=False):
        check_unit_quaternions(quaternion, f"'{path}' line {line}")
    return arrays


def read_csv_rows(path: Path) -> tuple[list[str], dict[int, list[str]]]:
    """Return the header of a CSV file, and its rows by line, without blank ones; InputError for another file."""
    try:
        rows = list(csv.reader(_read_bytes(path).decode("utf-8-sig").splitlines()))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"'{path}' is not CSV in UTF-8: {error}.") from error
    header = [name.strip() for name in rows[0]] if rows else []
    filled = {line: row for line, row in enumerate(rows[1:], start=2) if len(row) > 1 or "".join(row).strip()}
    blank = len(rows) - 1 - len(filled)
    if blank > 0:
        message_console().print(f"'{path}' has {blank} blank line{'s' * (blank > 1)} without an answer.", markup=False)
    return header, filled


def csv_numbers(path: Path, header: list[str], rows: Mapping[int, list[str]], names: Sequence[str]) -> Float64Array:
    """Return the numbers of some columns of a CSV file, shape [rows, names]; InputError with the place of another."""
    return np.array([_csv_row(path, line, row, header, names) for line, row in rows.items()]).reshape(-1, len(names))


def _csv_row(path: Path, line: int, row: list[str], header: list[str], names: Sequence[str]) -> list[float]:
    if len(row) != len(header):
        raise InputError(f"'{path}' line {line} has {len(row)} values. Give {len(header)}: {','.join(header)}.")
    numbers = []
    for name in names:
        text = row[header.index(name)]
        try:
            number = np.nan if "_" in text else float(text)  # Python reads 1_0 as 10
        except ValueError:
            number = np.nan
        if not np.isfinite(number):
            raise InputError(f"'{path}' line {line}, column {name}: {text.strip()!r} is not a finite number.")
        numbers.append(number)
    return numbers


def _read_npz(path: Path, robot: RobotModel) -> dict[str, Float64Array]:
    names, _ = read_archive(str(path), ())
    if other := [name for name in names if name not in NPZ_ARRAYS]:
        raise InputError(f"'{path}' holds an array {other[0]!r}. Allowed: {', '.join(NPZ_ARRAYS)}.")
    _, found = read_archive(str(path), names)
    arrays = {name: own[:, None] if own.ndim == 1 and name in CHOICE_COLUMNS else own for name, own in found.items()}
    for name, array in arrays.items():
        label, width = f"'{path}' {name}", NPZ_ARRAYS[name] or robot.joint_coord_count
        if array.dtype.kind not in "fiu" or array.ndim != 2 or array.shape[1] != width:
            raise InputError(f"{label} is {array.dtype} {list(array.shape)}. Allowed: numbers of shape [n, {width}].")
        if not np.isfinite(array.astype(np.float64)).all():
            raise InputError(f"{label} has values that are not finite.")
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        raise InputError(f"The arrays of '{path}' hold different numbers of problems: {counts}.")
    if "orientations_xyzw" in arrays:
        check_unit_quaternions(arrays["orientations_xyzw"].astype(np.float64), f"'{path}' orientations_xyzw")
    return {name: array.astype(np.float64) for name, array in arrays.items()}


SUFFIXES = (".csv", ".npz", ".json")


def check_output(path: Path | None) -> None:
    """Refuse a result file before the solve: InputError for an unknown suffix or a missing folder."""
    if path is None:
        return
    if path.suffix not in SUFFIXES:
        raise InputError(
            f"Output '{path}' has the suffix {path.suffix!r}. Allowed: {', '.join(SUFFIXES)}, or a folder for Parquet."
        )
    if not path.parent.is_dir():
        raise InputError(f"Output '{path}' is in a folder that does not exist.")


def write_answer(path: Path, robot: RobotModel, decoded: DecodedSolve, answer: TimedResult) -> None:
    """Write the results to a file, in the format of its suffix; InputError if the file cannot be written.

    JSON results hold the included columns of the request.
    """
    if path.suffix == ".csv":
        content = csv_text(robot, decoded, answer).encode()
    elif path.suffix == ".npz":
        content = _npz_bytes(robot, decoded, answer)
    else:
        content = JsonCodec().encode(answer_document(robot, robot.name, decoded, answer))
    try:
        path.write_bytes(content)
    except OSError as error:
        raise InputError(f"Cannot write '{path}': {error.strerror}.") from error


def csv_text(robot: RobotModel, decoded: DecodedSolve, answer: TimedResult) -> str:
    """Return the results as CSV: coordinates by name, then the verdict; errors of free axes are empty."""
    if decoded.request.motion is not None:
        return motion_text(answer_document(robot, robot.name, decoded, answer, is_binary=True))
    result, text = answer.result, io.StringIO()
    if decoded.request.choice is not None:
        return choice_text(robot, result)
    writer = csv.writer(text, lineterminator="\n")
    judgement = [column for column in ALWAYS_COLUMNS if not column.axes or column.is_per_target]
    writer.writerow((*robot.coordinate_names, *(column.edge_name for column in judgement)))
    texts = [_texts(column, edge_array(column, result)) for column in judgement]
    for joint_q, *row in zip(result.joint_q, *texts, strict=True):
        writer.writerow([*(f"{value:.9g}" for value in joint_q), *row])
    return text.getvalue()


def choice_columns(result: CandidateResult) -> dict[str, NDArray[Any]]:
    """Return the columns of a choice, a line for each group."""
    counts = {name: result.counts[:, place] for place, name in enumerate(FATES)}
    found = {"joint_q": result.joint_q, "candidate": result.candidate, "value": result.value}
    return found | {"status": np.array(result.status_names)} | counts


def choice_text(robot: RobotModel, result: CandidateResult) -> str:
    """Return a choice as CSV, a row for each group: coordinates by name, then the other columns."""
    text, columns = io.StringIO(), choice_columns(result)
    writer, joint_q = csv.writer(text, lineterminator="\n"), columns.pop("joint_q")
    writer.writerow((*robot.coordinate_names, *columns))
    for own, *row in zip(joint_q, *columns.values(), strict=True):
        cells = ["" if isinstance(one, float) and np.isnan(one) else one for one in row]
        writer.writerow([*("" if np.isnan(value) else f"{value:.9g}" for value in own), *cells])
    return text.getvalue()


def motion_text(document: Mapping[str, Any]) -> str:
    """Return the answer of a motion as CSV: coordinates by name, then the other columns, by the names of their axis."""
    text, header, cells = io.StringIO(), list[str](), list[list[object]]()
    for column in CLIP_COLUMNS if "held_links" in document else PATH_COLUMNS:
        if (values := document.get(column.edge_name)) is not None:
            own = "" if column.name == "joint_q" else f"{column.edge_name}."
            names = [f"{own}{name}" for axis in column.axes for name in document[axis]]
            header += names if column.axes else [column.edge_name]
            cells += [_texts(column, entry) for entry in (values.T if column.axes else values[None])]
    csv.writer(text, lineterminator="\n").writerows([header, *zip(*cells, strict=True)])
    return text.getvalue()


def _texts(column: Column, values: NDArray[Any]) -> list[object]:
    if column.dtype == "status":
        return [STATUS_WORDS[code] for code in values]
    if column.dtype == "bool":
        return ["true" if value else "false" for value in values]
    if values.dtype.kind == "f":
        digits = 9 if column.name == "joint_q" else 6
        return ["" if np.isnan(value) else f"{value:.{digits}g}" for value in values]
    return list(values)


def _npz_bytes(robot: RobotModel, decoded: DecodedSolve, answer: TimedResult) -> bytes:
    if decoded.request.motion is not None:
        return NpzCodec().encode(answer_document(robot, robot.name, decoded, answer, is_binary=True))
    if decoded.request.choice is not None:
        return _npz_of(robot, choice_columns(answer.result))
    arrays: dict[str, Any] = {}
    for name, values in edge_arrays(answer.result).items():
        arrays[name] = values
        if name == "status":
            arrays["status_names"] = np.array(answer.result.status_names)
    return _npz_of(robot, arrays)


def _npz_of(robot: RobotModel, arrays: dict[str, Any]) -> bytes:
    arrays["joint_names"] = np.array(robot.joint_names)
    arrays["coordinate_names"] = np.array(robot.coordinate_names)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()
