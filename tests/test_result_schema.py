"""The table of result columns: its typed fields, and the tables of the documentation."""

import dataclasses
import re
import typing
from pathlib import Path

import numpy as np
import pytest

from ik_service import IKResult
from ik_service.client import SolveResult
from ik_service.control.caller_arrays import ControlResult
from ik_service.control.tick.arrays import CLEARANCE_COLUMN, TICK_COLUMNS
from ik_service.result_schema import (
    ALWAYS_COLUMNS,
    EDGE_COLUMNS,
    ISLAND_COLUMNS,
    RESULT_COLUMNS,
    EdgeColumns,
    ResultColumns,
)
from ik_service.service.schema.solve import Include, SolveOptions
from ik_service.solver.verdict.island_results import IslandResults

DOCS = Path(__file__).resolve().parent.parent / "docs"
TYPES = {
    "precision": np.floating,
    "status": np.int8,
    "bool": np.bool_,
    "int32": np.int32,
    "float32": np.float32,
    "float64": np.float64,
}
EDGE_TYPES = TYPES | {"status": np.str_, "int32": np.integer, "float32": np.floating}


def array_types(fields):
    """Element types of the arrays that a class has as fields, by name."""
    found = {}
    for name, hint in typing.get_type_hints(fields).items():
        arrays = [one for one in (hint, *typing.get_args(hint)) if typing.get_origin(one) is np.ndarray]
        for array in arrays:
            element = typing.get_args(typing.get_args(array)[1])[0]
            found[name] = typing.get_origin(element) or element
    return found


@pytest.mark.parametrize(
    ("fields", "columns", "types", "attribute"),
    [
        (ResultColumns, RESULT_COLUMNS, TYPES, "name"),
        (EdgeColumns, EDGE_COLUMNS, EDGE_TYPES, "edge_name"),
    ],
)
def test_the_typed_fields_are_those_of_the_table(fields, columns, types, attribute):
    expected = {getattr(column, attribute): types[column.dtype] for column in columns}
    assert array_types(fields) == expected
    assert list(array_types(fields)) == list(expected)


@pytest.mark.parametrize(("result", "columns"), [(IKResult, ResultColumns), (SolveResult, EdgeColumns)])
def test_the_results_of_the_solver_and_of_the_client_have_the_columns_of_the_table(result, columns):
    assert issubclass(result, columns)
    for field in dataclasses.fields(columns):
        assert f"    {field.name}: " in columns.__doc__


def test_islands_have_the_columns_of_the_table():
    types = array_types(IslandResults)
    assert {column.name: TYPES[column.dtype] for column in ISLAND_COLUMNS} == types


def test_ticks_have_the_columns_of_their_table():
    types = {column.name: TYPES[column.dtype] for column in (*TICK_COLUMNS.values(), CLEARANCE_COLUMN)}
    assert array_types(ControlResult) == types


def test_columns_at_edges_are_in_the_order_of_their_fields():
    assert [column.edge_name for column in EDGE_COLUMNS] == [field.name for field in dataclasses.fields(EdgeColumns)]


def test_what_a_column_asks_for_can_be_included_or_is_an_option():
    wanted = {column.include for column in RESULT_COLUMNS} - {""}
    assert wanted - set(typing.get_args(Include)) == {"sensitivity"}
    assert "sensitivity" in SolveOptions.model_fields


@pytest.mark.parametrize(("page", "columns"), [("http_api.md", EDGE_COLUMNS), ("bulk.md", ALWAYS_COLUMNS)])
def test_the_documentation_names_every_column(page, columns):
    named = set(re.findall(r"\w+", (DOCS / page).read_text()))
    assert {column.edge_name for column in columns} <= named
