"""The final output of a run is that of the process that best explains why the run ended."""

import os
import sys

import pytest

from codriver.features.run.final_output import MAX_LINES, FinalOutput, collect_from_now, read_final_output

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="`codriver run` refuses other systems")
ERROR = '  File "shop.py", line 1\n    def broken(:\nSyntaxError: invalid syntax'


@pytest.fixture
def run(tmp_path):
    collect_from_now(tmp_path)
    return tmp_path


def store(run, *texts):
    for number, text in enumerate(texts, 1):
        path = run / "final-output" / str(number)
        path.write_text(text)
        os.utime(path, ns=(number, number))


def test_the_process_that_ended_last_is_reported_without_colors(run):
    store(run, ERROR, "\x1b[31mno port\x1b[0m\n\n", "still runs")
    assert read_final_output(run, {3}, ()) == FinalOutput(2, "no port")


def test_supervisors_and_healthy_workers_that_end_later_are_not_reported(run):
    store(run, ERROR, "Worker exiting", ERROR + " of the arbiter")
    assert read_final_output(run, (), {3}, prefers_errors=True) == FinalOutput(1, ERROR)
    assert read_final_output(run, (), {1, 2, 3}).pid == 3


def test_only_the_last_lines_are_reported(run):
    store(run, "\n".join(map(str, range(100))))
    assert read_final_output(run, (), ()).text.splitlines() == [str(number) for number in range(100 - MAX_LINES, 100)]


def test_a_run_without_stored_output_has_no_final_output(run, tmp_path):
    assert read_final_output(run, (), ()) is None
    store(run, "\n")
    assert read_final_output(run, (), ()) is None
    assert read_final_output(tmp_path / "missing", (), ()) is None
    store(run, ERROR)
    collect_from_now(run)
    assert read_final_output(run, (), ()) is None
