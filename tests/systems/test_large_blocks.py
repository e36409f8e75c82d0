"""Memory of large strings goes back to the operating system when they are freed, even if small objects allocated
between them survive.
"""

import subprocess
import sys
from pathlib import Path

import pytest

import codriver

TEXTS = """
import sys
sys.path.insert(0, sys.argv[1])
from codriver.systems.machine import release_large_blocks
release_large_blocks()
def memory_mib():
    return int(open("/proc/self/status").read().partition("VmRSS:")[2].split()[0]) // 1024
before = memory_mib()
b"x" * (30 << 20)
stays = []
for _ in range(40):
    text = b"x" * (2 << 20)
    stays.append([text, b"y" * 100_000])
for kept in stays:
    del kept[0]
text = None
print(memory_mib() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc, which only Linux has")
def test_freed_large_strings_leave_no_holes_in_the_heap():
    """Without this, glibc would place the strings among small objects that stay: 80 MiB would never be released."""
    place = str(Path(codriver.__file__).parents[1])
    done = subprocess.run([sys.executable, "-I", "-c", TEXTS, place], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 20
