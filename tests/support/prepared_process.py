"""The process from which servers and commands of the tests are forked, with everything they need already imported.

It runs as a program, with the number of a socket: each message on the socket is the command line, environment and
directory of one process, with its descriptors 0, 1 and 2; the answers are its pid and, at its end, its status and
memory. A process forked here is a real one; it only saves the second of processor time that its imports would take.
Tests of the start itself, and all tests on systems other than Linux, start new processes instead.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import random
import select
import signal
import socket
import sys
import threading

import codriver.app.serve
import codriver.commands
from codriver.app import features
from codriver.commands import cli

assert sys.platform != "win32"

MAX_BYTES = 1 << 20
LATE = (
    "anyio._backends._asyncio", "anyio.streams.buffered", "encodings.idna", "encodings.utf_8_sig", "platformdirs",
    "transit.writer", "codriver.editing.vscode", "codriver.features.jupyter.serve_options", "codriver.log.error_lines",
    "codriver.protocol.sdk.sdk_server", "codriver.setup.doctor", "codriver.setup.init",
)  # fmt: skip
"""What servers and commands import once they are running."""
FLUSH_FAILED = 120
"""The exit status of an interpreter that cannot write its remaining output. Source: CPython, `Py_RunMain`."""


def main():
    link = socket.socket(fileno=int(sys.argv[1]))
    load()
    awake, wake = os.pipe()
    for end in (awake, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([link.fileno(), awake], [], [])
        if awake in ready:
            os.read(awake, 4096)
            report_ended(link)
        if link.fileno() in ready:
            reported, descriptors, _, _ = socket.recv_fds(link, MAX_BYTES, 3)
            if not reported:
                return
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                link.close()
                os.close(awake)
                os.close(wake)
                become(json.loads(reported), descriptors)
                run()
            for descriptor in descriptors:
                os.close(descriptor)
            link.send(json.dumps({"started": pid}).encode())


def load():
    """Import what the commands import when they run; the server is imported already."""
    for module in pkgutil.iter_modules(codriver.commands.__path__):
        importlib.import_module(f"codriver.commands.{module.name}")
    for name in LATE:
        importlib.import_module(name)
    features.manifest()  # which imports all features, and describes their tools
    # Garbage collection in each fork does not visit existing objects, and so does not copy them.
    gc.collect()
    gc.freeze()


def run():
    """Run the command and exit without tearing down the modules.

    Tearing down all modules would take each process 70 ms of processor time.
    """
    code = 0
    try:
        cli.main()
    except SystemExit as end:
        code = end.code or 0
        if not isinstance(code, int):
            sys.stderr.write(f"{code}\n")
            code = 1
    except KeyboardInterrupt:
        sys.excepthook(*sys.exc_info())
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.raise_signal(signal.SIGINT)
    except BaseException:  # noqa: BLE001  # it is told, as the interpreter does
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # as the interpreter does it, with all that hangs on it
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or FLUSH_FAILED
    os._exit(code)


def report_ended(link):
    while True:
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        code = os.waitstatus_to_exitcode(status)
        link.send(json.dumps({"ended": pid, "code": code, "memory": usage.ru_maxrss * 1024}).encode())


def become(requested, descriptors):
    """Turn this process into the requested one, without visible differences."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    for number, handler in ((signal.SIGCHLD, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
        signal.signal(number, handler)
    if requested["terminal"]:
        os.login_tty(os.dup(0))
        sys.stdout.reconfigure(line_buffering=True)  # as the interpreter does it there
    elif requested["session"]:
        os.setsid()
    os.chdir(requested["folder"])
    os.environ.clear()
    os.environ.update(requested["environ"])
    sys.argv[:] = requested["words"]
    random.seed()


if __name__ == "__main__":
    main()
