"""The budget of a query: time, rows and memory, exact to the last unit."""

import pytest

from codriver_datalog.budget import ITEM_BYTES, MAX_CREATED_BYTES, MAX_UNCOUNTED_LENGTH, Budget
from codriver_datalog.errors import OutOfRowsError, OutOfTimeError


class Clock:
    """A clock that stands still until it is told to advance."""

    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


def test_the_budget_is_exhausted_exactly_at_its_time_limit():
    clock = Clock()
    budget = Budget(clock, 2.0)
    clock.now_s = 101.5
    budget.check()
    assert budget.remaining_s() == 0.5
    clock.now_s = 102.0
    with pytest.raises(OutOfTimeError):
        budget.check()
    with pytest.raises(OutOfTimeError):
        budget.remaining_s()


def test_released_rows_can_be_used_again():
    budget = Budget(Clock(), 1, max_rows_in_memory=10)
    budget.charge_rows(10)
    budget.charge_rows(-4)
    budget.charge_rows(4)
    with pytest.raises(OutOfRowsError):
        budget.charge_rows(1)


@pytest.mark.parametrize("weight", ["a character", "an item"])
def test_the_total_memory_of_large_values_is_limited(weight):
    budget = Budget(Clock(), 1)
    value, size = ("x" * 2**20, 2**20) if weight == "a character" else ((1,) * 2**18, 2**18 * ITEM_BYTES)
    for _ in range(MAX_CREATED_BYTES // size):
        budget.charge_value(value)
    with pytest.raises(OutOfRowsError):
        budget.charge_value(value)


@pytest.mark.slow
def test_small_values_are_limited_only_by_the_number_of_rows():
    budget = Budget(Clock(), 1)
    for _ in range(MAX_CREATED_BYTES // MAX_UNCOUNTED_LENGTH + 2):
        budget.charge_value("x" * MAX_UNCOUNTED_LENGTH)
        budget.charge_value(5)
