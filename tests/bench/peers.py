"""Other servers that evaluate Python for agents, each in its own virtual environment, which is created on demand.

The environments are in `tests/bench/out/peers`. Remove a directory there to create it again.
"""

import os
import shutil
import subprocess
import sys
import venv
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from live_server import Relayed

ENVIRONMENTS = Path(__file__).parent / "out" / "peers"
INSTALL_S = 400


@contextmanager
def serving_least(repl_port, counts=""):
    """Run a server that only translates between JSON and the REPL's bencode, and yield its process and port.

    `counts` is the file to which it writes its processor time when it receives a signal.
    """
    command = [sys.executable, str(Path(__file__).with_name("least_server.py")), str(repl_port), str(counts)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


class MissingPeerError(Exception):
    """Raised when a peer cannot be installed, or does not evaluate here."""


@dataclass(frozen=True)
class Peer:
    """A server by its package; `argument` is the name of the code in the arguments of its tool."""

    package: str
    program: tuple[str, ...]
    tool: str
    argument: str = "code"
    requirements: tuple[str, ...] = ("mcp<2",)
    is_nested: bool = False
    """Whether the arguments are one object named `params`, and only the value of the variable `result` is displayed."""

    def arguments(self, code):
        """Return the arguments that evaluate `code`."""
        if not self.is_nested:
            return {self.argument: code}
        return {"params": {self.argument: code if code.startswith(("for ", "print(")) else f"result = {code}"}}


# Inside another sandbox, the first one's own sandbox is not available.
PEERS = (
    Peer(
        "posit-mcp-repl", ("posit-mcp-repl", "--interpreter", "python", "--sandbox", "danger-full-access"), "repl",
        "input", (),
    ),
    Peer("clikernel", ("clikernel-mcp",), "execute"),
    Peer("mcp-python", ("mcp-python",), "execute_python"),
    Peer("mcp-python-repl", ("mcp-python-repl",), "repl_run_code", is_nested=True),
)  # fmt: skip
BY_PACKAGE = {peer.package: peer for peer in PEERS}


@contextmanager
def serving_peer(peer, workspace):
    """Run a peer in this directory, and yield a client of it. Raises `MissingPeerError` if it is not available."""
    programs = _installed(peer)
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environ = {**kept, "PYTHONPATH": str(workspace), "PATH": f"{programs}{os.pathsep}{kept['PATH']}"}
    command = [str(programs / peer.program[0]), *peer.program[1:]]
    try:
        client = Relayed(command, environ, folder=workspace, stderr=subprocess.DEVNULL, name="some-client")
    except ConnectionError as error:
        raise MissingPeerError(f"{peer.package} does not start here") from error
    try:
        yield client
    finally:
        client.process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            client.process.wait(5)
        client.process.kill()  # not all of them end with their input
        client.close()


def _installed(peer):
    """Return the directory of the peer's programs, after installing it if necessary."""
    folder = ENVIRONMENTS / peer.package
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    if not list(programs.glob(f"{peer.program[0]}*")):
        try:
            shutil.rmtree(folder, ignore_errors=True)  # of an installation that was broken off
            venv.create(folder, with_pip=True)
            install = [str(programs / "python"), "-m", "pip", "install", "-q", peer.package, *peer.requirements]
            subprocess.run(install, check=True, capture_output=True, timeout=INSTALL_S)
        except (OSError, subprocess.SubprocessError) as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise MissingPeerError(f"{peer.package} cannot be installed") from error
    return programs
