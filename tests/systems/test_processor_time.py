"""The time in which a process waits for a processor."""

import os
import subprocess
import sys

import pytest
from live_server import until

from codriver.systems.other_processes import processor_wait_s

BUSY = "import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nwhile True: pass\n"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not report it")
def test_time_spent_waiting_for_a_processor_is_measured_for_each_process():
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(2)]
    try:
        until(lambda: all(processor_wait_s(item.pid) > 0.1 for item in busy), "both to wait")
    finally:
        for item in busy:
            item.kill()
            item.wait()
    assert processor_wait_s(busy[0].pid) == 0
    assert processor_wait_s(os.getpid()) >= 0
