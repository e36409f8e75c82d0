"""The relay's command line: parse the arguments, determine the workspace, and run the relay."""

from __future__ import annotations

import os
import sys

from codriver_relay.durations import WrongDurationError, from_environment
from codriver_relay.main_loop import Conversation, Relay
from codriver_relay.safe_files import SERVER_DIRECTORY
from codriver_relay.server_verification import Target, workspace_from_port_file
from codriver_relay.streams import CLIENT_OUT, DIAGNOSTICS, discard_message, open_streams, print_to_stderr
from codriver_relay.workspace_search import describe_untrusted_directory, find_workspace, named_directories

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

    from codriver_relay.durations import Durations
    from codriver_relay.roots import RootsDiscovery
    from codriver_relay.starter import Starter


USAGE = """\
usage: codriver-relay <port | port-file> [host] [--start] [--workspace DIR] [--no-skills] [--verbose]

Connects stdin and stdout to a Codriver server, given by its port or by the path of its port file.
  --start          start a server for the workspace if none is running
  --workspace DIR  the workspace; by default the one that contains the port file. `auto` uses the first of these:
                   $CLAUDE_PROJECT_DIR; the nearest folder, from the current one upward, with .calva/mcp-server,
                   codriver.toml, a project file or .git; the client's first root that is such a folder; its first
                   root. The choice is final. Your home, /, temporary folders, folders of other users and folders
                   that others can write to are never used. For a folder named auto, pass ./auto
  --no-skills      do not offer the server's skills, because the client has them as files
  --verbose        log the state of the connection to stderr
"""


VERSIONS, IN_USE = "relays", "in-use"
"""The directory for the installed versions, and the name of the file in which each running relay locks a byte."""


class WrongUsageError(Exception):
    """Raised when the command line is invalid. The message has no period at the end."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the relay and return its exit status. `arguments` default to `sys.argv[1:]`."""
    open_streams()
    try:
        words, flags, given = parse_arguments(sys.argv[1:] if arguments is None else arguments)
        if flags & {"--help", "-h"}:
            os.write(CLIENT_OUT, USAGE.encode())
            return 0
        check_arguments(words, given)
        run_relay(words, flags, given, from_environment())
    except (WrongUsageError, WrongDurationError) as error:
        os.write(DIAGNOSTICS, f"codriver-relay: {error}\n{USAGE}".encode("utf-8", "replace"))
        return 2


def parse_arguments(arguments: Sequence[str]) -> tuple[list[str], set[str], str | None]:
    """Split a command line into its positional arguments, its flags, and the value of `--workspace`.

    Raises:
        WrongUsageError: an option is unknown, or `--workspace` has no value.
    """
    words: list[str] = []
    flags: set[str] = set()
    given: str | None = None
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--workspace" and rest:
            given = rest.pop(0)
        elif word in ("--start", "--no-skills", "--verbose", "--help", "-h"):
            flags.add(word)
        elif word.startswith("-"):
            raise WrongUsageError(f"the option {word} is unknown or has no value")
        else:
            words.append(word)
    return words, flags, given


def check_arguments(words: Sequence[str], workspace: str | None) -> None:
    """Validate the positional arguments and the value of `--workspace`.

    Raises:
        WrongUsageError: the number of arguments is wrong, or the port is out of range.
    """
    if len(words) > 2 or not (words or workspace):
        raise WrongUsageError("pass the server's port or port file, and optionally a host")
    if words and words[0].isdecimal() and not 0 < int(words[0]) < 1 << 16:
        raise WrongUsageError(f"the port must be a number from 1 to 65535, not {words[0]}")


def run_relay(words: list[str], flags: set[str], given: str | None, durations: Durations) -> NoReturn:
    """Run the relay with validated arguments, then exit the process.

    `words` are the positional arguments, and `given` is the value of `--workspace`.

    Raises:
        WrongUsageError: a server must be started, but the workspace is unknown.
    """
    lock_version(os.path.dirname(os.path.dirname(__file__)))
    log = print_to_stderr if "--verbose" in flags else discard_message
    workspace, talk = determine_workspace(given, log, durations.roots_s)
    if talk and workspace is None:
        os._exit(1)
    if not words and workspace:
        words = [os.path.join(workspace, *SERVER_DIRECTORY, "port")]
    host = words[1] if len(words) > 1 else None
    target = Target(words[0], host, durations, starts="--start" in flags, wants_skills="--no-skills" not in flags)
    workspace = workspace or workspace_from_port_file(target.file)
    if "--start" in flags and workspace is None:
        raise WrongUsageError("--start needs --workspace, because the port file is not in a workspace")

    def new_starter() -> Starter:
        from codriver_relay.starter import Starter  # most relays find a running server

        return Starter(workspace or "", target.port, durations.start_grace_s)

    try:
        conversation = Conversation(durations, log, talk)
        status = Relay(target, conversation, new_starter if "--start" in flags else None, durations, log).run()
    except KeyboardInterrupt:
        status = 130
    os._exit(status)  # a thread may still be writing to a client that is not reading


def lock_version(directory: str) -> None:
    """Prevent the directory of the running version from being removed, because modules are loaded from it later.

    A byte of a file in the directory stays locked until this process ends. On systems without such locks, the file is
    kept open.
    """
    if os.path.basename(os.path.dirname(directory)) != VERSIONS:
        return  # this version was not installed by a server
    try:
        file = os.open(os.path.join(directory, IN_USE), os.O_RDWR | os.O_CREAT, 0o600)
        if sys.platform != "win32":
            os.lseek(file, os.getpid(), os.SEEK_SET)  # each relay locks its own byte
            os.lockf(file, os.F_TLOCK, 1)
    except OSError:
        return  # the disk is full, or does not support locks


def determine_workspace(
    given: str | None, log: Callable[[str], None], roots_s: float
) -> tuple[str | None, RootsDiscovery | None]:
    """Return the workspace to use, and the message exchange with the client if its roots had to be requested.

    `given` is the value of `--workspace`. A variable that the client did not expand, such as `${CLAUDE_PROJECT_DIR}`,
    counts as `auto`. `roots_s` limits how long to wait for the client's roots.
    """
    if given is None:
        return None, None
    if given != "auto" and not given.startswith("${"):
        return os.path.abspath(given), None
    workspace = find_workspace()
    if workspace is not None:
        if skipped := describe_untrusted_directory(named_directories()):
            print_to_stderr(f"CLAUDE_PROJECT_DIR is not used, because {skipped}. The workspace is {workspace}")
        else:
            log(f"the workspace is {workspace}")
        return workspace, None
    from codriver_relay.roots import RootsDiscovery  # most clients name their directory in other ways

    talk = RootsDiscovery(log, roots_s)
    try:
        return talk.run(), talk
    except KeyboardInterrupt:
        os._exit(130)
