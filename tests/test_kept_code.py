"""Compiled code that is kept: equal code is found again, whatever the process has made before."""

import warp as wp

from tests.kept_code import renumbered

SOURCE = "float {0}(float x); float add_1(float x) {{ return {0}(x) + {1}(x) + var_0; }}"


def new_function():
    """The name in C of a function that Warp numbers."""

    @wp.func
    def numbered(x: float) -> float:
        return x

    return numbered.native_func


def test_the_numbers_that_functions_have_in_a_process_do_not_matter():
    first, second = new_function(), new_function()
    assert first != second
    assert renumbered(SOURCE.format(first, first)) == renumbered(SOURCE.format(second, second))


def test_different_functions_stay_different():
    first, second = new_function(), new_function()
    assert renumbered(SOURCE.format(first, second)) == renumbered(SOURCE.format(second, first))
    assert renumbered(SOURCE.format(first, second)) != renumbered(SOURCE.format(first, first))


def test_other_names_stay():
    assert renumbered("add_1 var_0") == "add_1 var_0"
