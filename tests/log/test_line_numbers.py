"""Line numbers are reserved in a file before the log uses them."""

import math
import threading

import pytest

from codriver.log import line_numbers
from codriver.log.line_numbers import MAX_RESERVED_LINES, RESERVED_LINES, LineNumbers


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lines"


def loaded(path, last_known=0):
    numbers, errors = LineNumbers(path), []
    numbers.load(last_known, errors)
    assert errors == []
    return numbers


def test_line_numbers_are_reserved_again_when_half_are_used(path):
    numbers = loaded(path, 6)
    assert (numbers.next_line, int(path.read_text())) == (7, 7 + RESERVED_LINES)
    assert not numbers.record_used_line(7 + RESERVED_LINES // 2 - 2)
    assert not numbers.needs_extension
    assert numbers.record_used_line(7 + RESERVED_LINES // 2)
    assert numbers.needs_extension
    numbers.extend()
    assert int(path.read_text()) > 7 + RESERVED_LINES
    assert not numbers.needs_extension


def test_more_line_numbers_are_reserved_at_a_time_while_they_are_used_fast(path, monkeypatch):
    monkeypatch.setattr(line_numbers, "FAST_USE_THRESHOLD_S", math.inf)
    numbers = loaded(path)
    amounts = []
    for _ in range(12):
        numbers.record_used_line(int(path.read_text()))
        numbers.extend()
        amounts.append(int(path.read_text()) - numbers.next_line)
    assert amounts == sorted(amounts)
    assert amounts[-1] <= MAX_RESERVED_LINES


def test_a_log_without_reserved_line_numbers_waits_only_once_while_the_disk_fails(path):
    numbers = loaded(path)
    numbers.record_used_line(RESERVED_LINES)
    assert numbers.may_be_exhausted
    numbers.await_extension()
    assert numbers.is_stalled
    numbers.await_extension()
    numbers.extend()
    assert not numbers.may_be_exhausted
    numbers.await_extension()
    assert not numbers.is_stalled


def test_a_waiting_log_continues_when_line_numbers_are_reserved(path, monkeypatch):
    monkeypatch.setattr("codriver.log.line_numbers.MAX_RESERVATION_WAIT_S", 60)
    numbers = loaded(path)
    numbers.record_used_line(RESERVED_LINES)
    extending = threading.Thread(target=numbers.extend)
    extending.start()
    numbers.await_extension()
    extending.join(60)
    assert not numbers.is_stalled
    assert numbers.next_line < int(path.read_text())
