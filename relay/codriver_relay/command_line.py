"""The command line of the relay."""

from __future__ import annotations

import os
import sys

from codriver_relay.own_files import PLACE
from codriver_relay.reconnect import GIVE_UP_S, Relay
from codriver_relay.streams import CLIENT_OUT, DIAGNOSTICS, ignore, open_streams, report
from codriver_relay.target import Target
from codriver_relay.workspace import find_workspace, workspace_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codriver_relay.roots import RootsTalk


USAGE = """\
usage: codriver-relay <port | port-file> [host] [--start] [--workspace DIR] [--verbose]

Connects stdin and stdout to a Codriver server: a number is its port, anything else the file that holds it.
  --start          start a server for the workspace when none is running
  --workspace DIR  the workspace; without it, the one that the port file lies in. `auto` finds it: the folder that
                   CLAUDE_PROJECT_DIR names, else the nearest from the current one upward that has .calva/mcp-server,
                   codriver.toml, a project file or .git, else the client's first root that is such a folder, else its
                   first; once chosen, it stays. Never home, /, a folder for temporary files, one of another user or
                   to which others may write. A folder of the name is ./auto
  --verbose        say on stderr what happens to the connection
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the relay; the exit status. Given `arguments` are those behind the command's name."""
    open_streams()
    words: list[str] = []
    flags: set[str] = set()
    given: str | None = None
    rest = list(sys.argv[1:] if arguments is None else arguments)
    while rest:
        word = rest.pop(0)
        if word == "--workspace" and rest:
            given = rest.pop(0)
        elif word in ("--start", "--verbose", "--help", "-h"):
            flags.add(word)
        elif word.startswith("-"):
            return refuse(f"unknown option, or one without its value: {word}")
        else:
            words.append(word)
    if flags & {"--help", "-h"}:
        os.write(CLIENT_OUT, USAGE.encode())
        return 0
    problem = fault_of(words, given)
    if problem:
        return refuse(problem)
    say = report if "--verbose" in flags else ignore
    workspace, talk = resolve(given, say)
    if talk and workspace is None:
        os._exit(1)
    if not words and workspace:
        words = [os.path.join(workspace, *PLACE, "port")]
    target = Target(words[0], words[1] if len(words) > 1 else "127.0.0.1", starts="--start" in flags)
    workspace = workspace or workspace_of(target.file)
    if "--start" in flags and workspace is None:
        return refuse("--start needs --workspace, as the port file lies in no workspace")
    starter = None
    if "--start" in flags and workspace:
        from codriver_relay.starter import Starter

        starter = Starter(workspace, target.port)
    give_up_s = float(os.environ.get("CODRIVER_RELAY_GIVE_UP_S", GIVE_UP_S))
    relay = Relay(target, starter, give_up_s=give_up_s, say=say, talk=talk)
    try:
        status = relay.run()
    except KeyboardInterrupt:
        status = 130
    os._exit(status)  # a thread may still be writing to a client that does not read


def fault_of(words: Sequence[str], workspace: str | None) -> str:
    """Why the relay cannot run with these words and this value of `--workspace`; empty when it can."""
    if len(words) > 2 or not (words or workspace):
        return "give the server's port or port file, and at most a host"
    if words and words[0].isdecimal() and not 0 < int(words[0]) < 1 << 16:
        return f"a port is a number from 1 to 65535, not {words[0]}"
    try:
        float(os.environ.get("CODRIVER_RELAY_GIVE_UP_S", GIVE_UP_S))
    except ValueError:
        return "CODRIVER_RELAY_GIVE_UP_S is no number of seconds"
    return ""


def resolve(given: str | None, say: Callable[[str], None]) -> tuple[str | None, RootsTalk | None]:
    """The workspace that `--workspace` gives, and the talk with the client that it took to find it.

    A variable that the client left as text, such as `${CLAUDE_PROJECT_DIR}`, is as good as `auto`.
    """
    if given is None:
        return None, None
    if given != "auto" and not given.startswith("${"):
        return os.path.abspath(given), None
    workspace = find_workspace()
    if workspace is not None:
        say(f"the workspace is {workspace}")
        return workspace, None
    from codriver_relay.roots import RootsTalk  # most clients say where they work

    talk = RootsTalk(say)
    try:
        return talk.run(), talk
    except KeyboardInterrupt:
        os._exit(130)


def refuse(problem: str) -> int:
    """Say why the command line cannot be used; the exit status."""
    os.write(DIAGNOSTICS, f"codriver-relay: {problem}\n{USAGE}".encode("utf-8", "replace"))
    return 2
