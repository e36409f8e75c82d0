"""Real Jupyter kernels, each started on first use and ended with the run.

`kernel(name)` returns one that modules share, one after the other, `fresh(name)` a separate one, for a test that
breaks it, and `human(kernel)` another client of one. They come from the environment in `tests/jupyter/.venv`, which
needs

    pip install ipykernel xeus-python bash_kernel deno

and R's from Debian. A missing kernel skips the test, and fails it on CI.
"""

import json
import os
import shutil
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from queue import Empty

import pytest
from lent_servers import Watched, borrow, new_directory
from needs import do_without, features

VENV = Path(__file__).parents[1] / "jupyter" / ".venv"
START_S = 120
FILE = "kernel-of-tests.json"

PACKAGES = {
    "ipykernel": "ipykernel",
    "xpython": "xeus-python",
    "bash": "bash_kernel",
    "deno": "deno",
    "ir": "apt-get install --no-install-recommends r-cran-irkernel",
}
NAMES = tuple(PACKAGES)


@dataclass
class RealKernel:
    name: str
    file: Path
    watched: Watched

    @property
    def folder(self):
        return self.watched.folder

    @property
    def pid(self):
        return self.watched.pid

    @property
    def address(self):
        return f"jupyter://{self.file}"

    def is_running(self):
        return self.watched.is_running()

    def kill(self):
        """End it as a crash would."""
        self.watched.kill()

    def start_again(self):
        """Start it again at the same address, as anyone who restarts a kernel does."""
        self.watched.end()
        self.watched = begin(self.name, self.file)
        _wait_until_it_answers(self)

    def stop(self):
        self.watched.stop()


def _python(*arguments):
    return [str(VENV / "bin" / "python"), *arguments]


def command(name, file):
    """Return the command that starts a kernel that listens as its connection file says."""
    return {
        "ipykernel": _python("-m", "ipykernel_launcher", "-f", file),
        "xpython": _python("-m", "xpython_launcher", "-f", file),
        "bash": _python("-m", "bash_kernel", "-f", file),
        "deno": [str(VENV / "bin" / "deno"), "jupyter", "--kernel", "--conn", file],
        "ir": ["R", "--slave", "-e", "IRkernel::main()", "--args", file],
    }[name]


@cache
def missing(name):
    """Return what to install before the kernel can run; empty if nothing is missing."""
    if name == "ir":
        is_there = shutil.which("R") is not None and Path("/usr/share/jupyter/kernels/ir").exists()
    elif name == "deno":
        is_there = (VENV / "bin" / "deno").exists()
    else:
        is_there = any(VENV.glob(f"lib/python*/site-packages/{command(name, '')[2]}*"))
    return "" if is_there else PACKAGES[name]


def need(*names):
    """Continue if one of these kernels is installed."""
    features("jupyter")
    absent = [missing(name) for name in names]
    if all(absent):
        do_without(f"no kernel of {', '.join(names)} is installed: {', '.join(absent)}")


def environment(folder):
    """Return the environment of a kernel that shares nothing with the user's own and does not know that it is in a
    test.

    In a test, ipykernel would not capture the output of child processes.
    """
    ours = {"PYTEST_CURRENT_TEST", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "VIRTUAL_ENV"}
    env = {key: value for key, value in os.environ.items() if key not in ours and not key.startswith("JPY_")}
    return {
        **env,
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "IPYTHONDIR": str(folder / "ipython"),
        "DENO_DIR": str(folder / "deno"),
        "NO_COLOR": "",
    }


def begin(name, file):
    """Start a kernel with its connection file in a directory of its own."""
    return Watched.start(file.parent, command(name, str(file)), environment(file.parent))


def start(name):
    """Start a new kernel that listens; the caller stops it."""
    need(name)
    from jupyter_client.connect import write_connection_file  # noqa: PLC0415  # where kernels are tested only

    for tries_left in (2, 1, 0):
        file = new_directory(name) / FILE
        write_connection_file(str(file), key=os.urandom(16).hex().encode())
        kernel = RealKernel(name, file, begin(name, file))
        try:
            _wait_until_it_answers(kernel)
        except BaseException:
            # Its ports were chosen before it started, and another process may have taken one in the meantime.
            is_taken = "Address already in use" in kernel.watched.output
            kernel.stop()
            if not (is_taken and tries_left):
                raise
        else:
            return kernel
    raise AssertionError("the last try returns or raises")


def _wait_until_it_answers(kernel):
    deadline = time.monotonic() + START_S
    with client(kernel.file) as opened:
        while time.monotonic() < deadline and kernel.is_running():
            opened.kernel_info()
            try:
                opened.get_shell_msg(timeout=0.5)
            except Empty:
                continue
            return
    pytest.fail(f"the kernel {kernel.name!r} did not start: {kernel.watched.output[-2000:]}")


@contextmanager
def client(file):
    """Return a blocking client of the kernel of a connection file, as a separate program would have one."""
    from jupyter_client.blocking.client import BlockingKernelClient  # noqa: PLC0415

    opened = BlockingKernelClient()
    opened.load_connection_info(json.loads(file.read_text()))
    opened.start_channels(hb=False)
    try:
        yield opened
    finally:
        opened.stop_channels()


@asynccontextmanager
async def human(kernel):
    """Return another client of a kernel, such as a person's notebook."""
    from jupyter_client.asynchronous.client import AsyncKernelClient  # noqa: PLC0415

    opened = AsyncKernelClient()
    opened.load_connection_info(json.loads(kernel.file.read_text()))
    opened.start_channels(hb=False)
    try:
        await opened.wait_for_ready(timeout=30)
        yield opened
    finally:
        opened.stop_channels()


def rows(client):
    """Return the sessions that a server lists, by their keys."""
    return {row["key"]: row for row in client.call("list_sessions")["sessions"]}


def all_connected(client, keys):
    """Return whether a server is connected to each of these."""
    found = rows(client)
    return all(key in found and found[key]["phase"] == "connected" for key in keys)


@contextmanager
def variables(**values):
    """Set environment variables for the duration of the context."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setenv(name, str(value))
        yield


def kernel(name):
    """Return the shared kernel `name` while no other module uses it."""
    features("jupyter")
    return borrow(name, lambda: start(name), lambda folder: RealKernel(name, folder / FILE, Watched(folder)))


@contextmanager
def fresh(name):
    """Start a kernel for one test."""
    running = start(name)
    try:
        yield running
    finally:
        running.stop()
