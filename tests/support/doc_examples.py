"""The examples of a documentation page, run as a reader would run them.

A comment on the line before a fenced block says what the block is:

``<!-- run -->``
    A console session. Lines that start with ``$ `` are commands, and the lines after each are its output.
    Options follow a colon: ``exit N`` for the expected status of the last command, ``needs PROGRAM``.
``<!-- file: PATH -->``
    The content of a file that the reader writes, relative to the current directory.
``<!-- append: PATH -->``
    Lines that the reader adds at the end of a file.
``<!-- content: PATH -->``
    The content of a file that an earlier command wrote.
``<!-- NAME -->``
    A block that the named test of another module reads.

A block that no test runs follows a line that starts with ``*Not run by us (DATE, PROGRAM VERSION)``. In output, ``…``
stands for any text within a line, and a line with nothing but ``…`` for any number of lines.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import needs
from live_server import environ
from ports import closed_port

ROOT = Path(__file__).parents[2]
COMMAND_S = 240
BLOCK = re.compile(r"^(?P<fence>`{3,})(?P<language>[^\n`]*)\n(?P<text>.*?)^(?P=fence)$", re.MULTILINE | re.DOTALL)
DIRECTIVE = re.compile(r"<!-- (?P<kind>[\w-][\w -]*?)(?:: (?P<argument>[^\n]*?))? -->\n\Z")
NOT_RUN = re.compile(r"^\*Not run by us \(\d{4}-\d\d-\d\d, [^()]*\d[^()]*\)[^\n]*\n\n?\Z", re.MULTILINE)
MARK = "\x1e"
PORT = "5050"
"""The port of applications in examples. A test uses a different one, because several may run at once."""
PROGRAMS = {
    "clojure": "the packages clojure, libnrepl-clojure and libtools-nrepl-clojure of Debian",
    "git": "install git",
}


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    line: int
    language: str
    text: str
    kind: str
    argument: str

    def option(self, name: str) -> str:
        """Return the word after `name` in the options, or an empty string."""
        found = re.search(rf"\b{name} ([\w.-]+)", self.argument)
        return found[1] if found else ""


def blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a page's text."""
    found = []
    for match in BLOCK.finditer(page):
        before = page[: match.start()]
        directive, not_run = DIRECTIVE.search(before), NOT_RUN.search(before)
        kind = directive["kind"] if directive else "not-run" if not_run else ""
        argument = (directive["argument"] or "") if directive else ""
        found.append(Block(before.count("\n") + 1, match["language"], match["text"], kind, argument))
    return found


def commands(session: str) -> list[tuple[str, str]]:
    """Return the commands of a console session, each with its expected output."""
    found: list[tuple[str, list[str]]] = []
    for line in session.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found and line.startswith("> ") and not found[-1][1]:
            found[-1] = (f"{found[-1][0]}\n{line[2:]}", [])
        else:
            assert found, f"output without a command: {line}"
            found[-1][1].append(line)
    return [(command, "\n".join(lines)) for command, lines in found]


def matches(expected: str, output: str) -> bool:
    """Return whether an output is the expected one."""
    parts = []
    for line in expected.rstrip().splitlines():
        if line.strip() == "…":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(".*".join(re.escape(part) for part in line.rstrip().split("…")) + r"[ \t]*\n")
    lines = "".join(f"{line.rstrip()}\n" for line in output.strip("\n").splitlines())
    return re.fullmatch("".join(parts), lines) is not None


class Reader:
    """A reader with a home directory, a shell and Codriver, and nothing else."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        self.home.mkdir()
        for name in ("codriver", "codriver-relay", "codriver-hook"):
            (self.bin / name).symlink_to(Path(sys.executable).with_name(name))
        kept = environ(folder)
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "CI", "GITHUB_ACTIONS", "CODRIVER_REPL"):
            kept.pop(name, None)
        kept |= {
            "HOME": str(self.home),
            "PATH": os.pathsep.join([str(self.bin), kept["PATH"]]),
            "CODRIVER_MCP_SOCKET_SERVER_PORT": "0",
            "TERM": "dumb",
            "COLUMNS": "120",
            "LC_ALL": "C.UTF-8",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_COMPILE": "1",
            "PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR", str(Path.home() / ".cache" / "pip")),
        }
        self.environment = kept
        self.folder = self.home
        self.exports = folder / "exports"
        self.exports.write_text("")
        self.where = folder / "where"

    def run(self, block: Block) -> None:
        """Run a console session, and compare what it prints."""
        if program := block.option("needs"):
            needs.program(program, install=PROGRAMS[program])
        todo = commands(block.text)
        script = [f". {self.exports}"]
        for command, _ in todo:
            script += [command, f"printf '{MARK}%s{MARK}' $?"]
        script += [f"export -p >{self.exports}", f"pwd >{self.where}"]
        done = subprocess.run(
            ["bash", "-c", "\n".join(script)],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            timeout=COMMAND_S,
            check=False,
        )
        pieces = done.stdout.split(MARK)
        outputs, statuses = pieces[0:-1:2], pieces[1::2]
        assert len(statuses) == len(todo), f"line {block.line}: {done.stdout}"
        required = ["0"] * (len(todo) - 1) + [block.option("exit") or "0"]
        for (command, expected), output, status, want in zip(todo, outputs, statuses, required, strict=True):
            text = f"line {block.line}: $ {command}\n--- status {status}, output:\n{output}\n--- expected:\n{expected}"
            assert status == want, text
            assert matches(expected, output), text
        self.folder = Path(self.where.read_text().strip())

    def follow(self, page: str) -> None:
        """Follow all steps of a page, from top to bottom."""
        for block in blocks(page.replace(PORT, str(closed_port()))):
            if block.kind == "run":
                self.run(block)
            elif block.kind in ("file", "append"):
                path = self.folder / block.argument
                path.parent.mkdir(parents=True, exist_ok=True)
                before = path.read_text("utf-8") if block.kind == "append" else ""
                path.write_text(before + block.text, "utf-8")
            elif block.kind == "content":
                written = (self.folder / block.argument).read_text("utf-8")
                assert matches(block.text, written), f"line {block.line}: {block.argument} is\n{written}"

    def close(self) -> None:
        """Stop the servers and the applications that the page started."""
        for file in self.home.rglob("app.pid"):
            with contextlib.suppress(OSError, ValueError):  # it has ended
                os.kill(int(file.read_text()), signal.SIGTERM)
        for port in self.home.rglob(".calva/mcp-server/port"):
            command = [str(self.bin / "codriver"), "stop", "-w", str(port.parents[2])]
            subprocess.run(command, env=self.environment, check=False, capture_output=True, timeout=COMMAND_S)
