"""Processes of another user of this machine, for tests that only root can run."""

import contextlib
import subprocess
import sys
from pathlib import Path

import posix_only
import pytest
from ports import listen_on_unusual_port

import codriver

NOBODY = 65534
WAIT_S = 60
BECOME = f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
needs_root = pytest.mark.skipif(
    not posix_only.is_root() or sys.platform != "linux",
    reason="only root can take another user's place, and only Linux tells whose a listener is: run the tests as root",
)
WORKER = f"""
import ast, encodings.idna, importlib, inspect, linecache, locale, os, shutil, socket, sys, traceback
sys.argv = ["worker", "--workspace", "/", "--supervised", *sys.argv[1:]]
sys.path.insert(0, {str(Path(codriver.__file__).parents[1])!r})
from codriver.repls.worker import __main__ as begin
begin.load_privately({str(Path(codriver.__file__).parent / "repls" / "worker")!r})
start = importlib.import_module(begin.PACKAGE_NAME + ".serving.start")
listen = socket.create_server
def listen_as_the_other(*place):
    # Only now, as the other user may not be allowed to read what the worker imports until here.
    {BECOME.strip()}
    return listen(*place)
socket.create_server = listen_as_the_other
start.main()
"""
LISTENER = f"""
import encodings.idna, os, socket, sys, threading
{BECOME}
heard, listeners = [], [socket.create_server(("127.0.0.1", int(port))) for port in sys.argv[2:]]
def hear(peer):
    try:
        peer.sendall(bytes.fromhex(sys.argv[1]))
        while data := peer.recv(1 << 16):
            heard.append(data)
    except OSError:
        pass
def accept(listener):
    while True:
        threading.Thread(target=hear, args=(listener.accept()[0],), daemon=True).start()
for listener in listeners:
    threading.Thread(target=accept, args=(listener,), daemon=True).start()
print("up", flush=True)
sys.stdin.read()
sys.stdout.buffer.write(b"".join(heard))
"""


def free_ports(count):
    """Return ports on which nothing is listening."""
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(listen_on_unusual_port()) for _ in range(count)]
        return [item.getsockname()[1] for item in taken]


@contextlib.contextmanager
def repl(port=0):
    """Start a real REPL of another user, the embedded worker, and return its port."""
    command = [sys.executable, "-I", "-c", WORKER, "--port", str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/") as process:
        yield int(process.stdout.readline().rsplit(":", 1)[1])
        process.kill()


@contextlib.contextmanager
def listening(*ports, says=b""):
    """Run a listener of another user that sends `says`; yield a function that ends it and returns what it received."""
    command = [sys.executable, "-I", "-S", "-c", LISTENER, says.hex(), *map(str, ports)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"up\n"

        def output():
            text, _ = process.communicate(timeout=WAIT_S)
            return text

        yield output
        process.kill()


def run(code, *arguments):
    """Run Python code as another user who can import Codriver, and return what it printed."""
    place = str(Path(codriver.__file__).parents[1])
    begin = f"import encodings.idna, os, socket, sys\nsys.path.insert(0, {place!r})\n"
    command = [sys.executable, "-I", "-c", begin + code.replace("BECOME", BECOME), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextlib.contextmanager
def holding(address, *ports):
    """Start a process of another user that listens on an address and sends nothing; it ends when its input ends."""
    code = f"""
import encodings.idna, os, socket, sys
{BECOME}
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
held = [socket.create_server((sys.argv[1], int(port)), family=family) for port in sys.argv[2:]]
print("up", flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-I", "-S", "-c", code, address, *map(str, ports)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"up\n"
        yield process
        process.kill()
