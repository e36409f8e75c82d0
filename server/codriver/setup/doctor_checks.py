"""Check the state directory, clients, hooks and reachability for `codriver doctor`, and format its report.

The report is text for a terminal or JSON. The history, the memory and long outputs need disk space. Each client's entry
must exist, and so must all files that it names. Each installed hook is run with a recorded input, and its duration and
answer are reported; nothing is run from a file in the workspace that differs from what Codriver would install. Clients
must be able to reach the server through the relay, and strangers must not reach any port.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from codriver.errors import CodriverError, truncate
from codriver.files.codriver_paths import workspace_state_directory
from codriver.net.admission import is_loopback
from codriver.net.kernel_sockets import address_distrust_reason, listening_hosts
from codriver.net.server_record import MAX_PORT
from codriver.repls import kinds
from codriver.repls.launch.projects import read_port_text
from codriver.setup.change_plan import find_entry, plan_entries
from codriver.setup.client_entries import command_line, starts_relay
from codriver.setup.client_hooks import HOOK_DIRECTORY, HOOK_PROGRAM, known_hooks, plan_hooks
from codriver.setup.clients import detect_clients, entry_name, known_clients, read_packaged_text
from codriver.setup.environment import Environment, path_exists
from codriver.systems.file_system import is_mine
from codriver.systems.programs import grant_access_command
from codriver_relay.hook import EVENT_NAMES_BY_CLIENT
from codriver_relay.starter import server_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from codriver.setup.change_plan import Change
    from codriver.setup.client_hooks import HookFile
    from codriver.setup.clients import Client
    from codriver.setup.relay_launch import Launch, Scope

    CallTool = Callable[[str, dict[str, Any]], dict[str, Any]]

State = Literal["ok", "note", "wrong"]
Support = Literal["works", "adapted", "missing"]
Tone = Literal["ok", "note", "wrong", "fix", "head", "plain"]
"""The meaning of a part of the report, which determines its color."""

_TONE_BY_SUPPORT: Final[dict[Support, Tone]] = {"works": "ok", "adapted": "plain", "missing": "note"}
"""How a capability is colored, by its support."""
_MARK_BY_STATE: Final = {"ok": "ok   ", "note": "note ", "wrong": "WRONG"}
"""The first word of a check's line, by the check's state."""
ANSWER_TIMEOUT_S: Final = 10.0
"""Maximum time to wait for an answer through the relay."""
CLIENT_NAME: Final = "codriver-doctor"
"""The doctor's name as a client."""

CONNECT_TIMEOUT_S: Final = 0.3
"""Maximum time to wait for a connection to a port."""

INITIALIZE_REQUEST: Final = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": CLIENT_NAME, "version": "0"},
    },
}
"""The request that the doctor sends through the relay."""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check of `codriver doctor`.

    A `note` is not an error, but may be unexpected. `fix` is a command or other advice.
    """

    area: str
    state: State
    text: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class FeatureChecks:
    """The checks that a feature adds to `codriver doctor`."""

    packages: tuple[str, ...] = ()
    """Optional Python packages whose versions are included in the report."""
    always: Callable[[Path], Iterator[Check]] | None = None
    """Check a workspace, whether or not it has a server."""
    without_server: Callable[[Path, Environment], Iterator[Check]] | None = None
    """Check a workspace that has no server."""
    fix_for: Callable[[Mapping[str, Any]], str | None] | None = None
    """Return advice on one of the feature's REPLs that is not connected, or None for any other REPL."""
    rows: Mapping[str, Callable[[Mapping[str, Any], Support | None, CallTool], CapabilityRow | None]] = field(
        default_factory=dict
    )
    """Functions that replace the usual row of a capability in the report of a session, by capability.

    The support is None if the REPL lacks the capability. If the function returns None, the capability is not mentioned.
    """


@dataclass(frozen=True, slots=True)
class CapabilityRow:
    """A capability of a REPL. `detail` is the nREPL op that provides it, or a description of how to get it."""

    capability: str
    support: Support
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ReplReport:
    """A REPL session and its capabilities."""

    key: str
    title: str
    state: str
    rows: tuple[CapabilityRow, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The report of `codriver doctor`: the results of all checks, and the REPLs."""

    checks: tuple[Check, ...]
    repls: tuple[ReplReport, ...] = ()

    @property
    def exit_status(self) -> int:
        """Return 1 if any check is `wrong`, or else 0."""
        return int(any(check.state == "wrong" for check in self.checks))

    @property
    def indent(self) -> int:
        """Return the column at which the texts of the checks start."""
        return max((len(check.area) for check in self.checks), default=0) + 9  # mark and gaps

    def to_json(self) -> dict[str, object]:
        """Return the report as a JSON object."""
        return {
            "ok": self.exit_status == 0,
            "checks": [asdict(check) for check in self.checks],
            "repls": [asdict(repl) for repl in self.repls],
        }

    def to_text(self) -> str:
        """Return the report as text. Each check has a line, followed by its fix."""
        return "".join(text for _, text in self.parts())

    def parts(self, *, is_brief: bool = False) -> Iterator[tuple[Tone, str]]:
        """Yield the parts of the report with their tones. With `is_brief`, checks that passed are left out."""
        checks = [check for check in self.checks if not (is_brief and check.state == "ok")]
        width = max((len(check.area) for check in self.checks), default=0)
        for check in checks:
            yield check.state, _MARK_BY_STATE[check.state]
            yield "plain", f"  {check.area:<{width}}  {check.text}\n"
            if check.fix:
                yield "fix", f"{'':<{width + 7}}  → {check.fix}\n"
        if not is_brief:
            yield from self._repl_parts()
        wrong = sum(check.state == "wrong" for check in self.checks)
        if wrong:
            yield "wrong", f"\n{wrong} of {len(self.checks)} checks failed.\n"
        elif not is_brief:
            yield "ok", f"\n{self._conclusion()}\n"

    def _conclusion(self) -> str:
        """Return the last sentence of a report without a `wrong` check."""
        notes = sum(check.state == "note" for check in self.checks)
        has = "has" if notes == 1 else "have"
        return f"No errors; {notes} of {len(self.checks)} checks {has} a note." if notes else "No problems found."

    def _repl_parts(self) -> Iterator[tuple[Tone, str]]:
        for repl in self.repls:
            yield "head", f"\n{repl.key}: {repl.title} ({repl.state})\n"
            for row in repl.rows:
                yield "plain", f"  {row.capability:<13} "
                yield _TONE_BY_SUPPORT[row.support], f"{row.support:<8} {row.detail}".rstrip() + "\n"
            for note in repl.notes:
                yield "note", f"  note: {note}\n"


MIN_STATE_FREE_BYTES: Final = 64 * 2**20
"""Minimum free disk space for the state. With less, long outputs and a busy day's log cannot be stored."""
MIN_SERVER_FREE_BYTES: Final = 64 * 2**10
"""Minimum free disk space in the workspace. With less, the files by which clients find the server may not fit."""
MEMORY_ONLY_WARNING: Final = "code and output are kept only in memory and are lost when the server stops"


SEPARATE_CHECKOUT_ADVICE: Final = "work in your own checkout, because users cannot share a directory"
"""Advice for a project that belongs to another user."""


def access_advice(directory: Path) -> str:
    """Return advice for getting access to a directory in a project, which depends on who owns it."""
    for path in (directory, *directory.parents):
        with suppress(OSError):  # a directory above it cannot be entered, and its owner decides
            return grant_access_command(path) if is_mine(path.lstat().st_uid) else SEPARATE_CHECKOUT_ADVICE
    return SEPARATE_CHECKOUT_ADVICE


def check_state(workspace: Path) -> Iterator[Check]:
    """Check that a workspace's state directory, or the directory in which it would be created, is writable."""
    directory = workspace_state_directory(workspace)
    existing = next(path for path in (directory, *directory.parents) if os.path.exists(path))  # noqa: PTH110  # `Path.exists` raises if permission is denied
    if not existing.is_dir():
        yield Check(
            "state",
            "wrong",
            f"{directory} cannot be created because {existing} is a file: {MEMORY_ONLY_WARNING}",
            f"mv {existing} …",
        )
    elif not os.access(existing, os.W_OK | os.X_OK):
        grant = f"{grant_access_command(existing)}, or " if is_mine(existing.stat().st_uid) else ""
        remedy = f"{grant}set XDG_STATE_HOME to a writable folder"
        yield Check("state", "wrong", f"{existing} cannot be written by this user: {MEMORY_ONLY_WARNING}", remedy)
    elif (free := shutil.disk_usage(existing).free) < MIN_STATE_FREE_BYTES:
        text = f"{free / 2**20:.0f} MiB are free on the disk of {existing}. Once it is full, {MEMORY_ONLY_WARNING}"
        yield Check("state", "wrong", text, "free some space, or set XDG_STATE_HOME to a folder on another disk")
    elif (free := shutil.disk_usage(workspace).free) < MIN_SERVER_FREE_BYTES:
        text = f"{free / 2**10:.0f} KiB are free on the disk of {workspace}, so no server can start there"
        yield Check("workspace", "wrong", text, "free some space there")
    else:
        yield Check(
            "state", "ok", f"{directory} {'' if existing == directory else 'will be created, and '}can be written"
        )


def check_entries(launch: Launch, environment: Environment) -> Iterator[Check]:
    """Check the entries of all clients that are used in the workspace or installed on this machine."""
    clients = detect_clients(launch.workspace, environment)
    if not clients:
        yield Check(
            "clients", "note", "no client found in this workspace or on this machine", "codriver init --client NAME"
        )
    without: list[Client] = []
    has_entry = False
    for client in clients:
        check = _check_client(client, launch, environment)
        if check is None:
            without.append(client)
        else:
            has_entry |= check.state == "ok"
            yield check
    if without:
        # Nobody uses every client that is installed, so one with an entry is enough.
        names = ", ".join(client.title for client in without)
        fix = f"codriver init --client {without[0].id}" if len(without) == 1 else "codriver init --client NAME"
        yield Check(
            "clients", "ok" if has_entry else "note", f"clients without an entry: {names}", "" if has_entry else fix
        )


def _check_client(client: Client, launch: Launch, environment: Environment) -> Check | None:
    """Check the entry of one client in the workspace, or else in the user's file. Return None if it has none."""
    changes = [plan_entries([client], launch, environment, scope=scope)[0] for scope in client.scopes]
    good = next((change for change in changes if change.state == "same"), None)
    if good is not None:
        return _check_matching_entry(client, good, launch, environment)
    bad = next((change for change in changes if change.state in ("refused", "replace")), None)
    if bad is not None:
        return _check_different_entry(client, bad, launch, environment)
    skipped = next((change for change in changes if change.state == "skipped"), None)
    if skipped is not None:
        message = f"{client.title} has no entry in {skipped.file}: {skipped.reason}"
        return Check("clients", "note", message, skipped.fix)
    return None


def _check_matching_entry(client: Client, change: Change, launch: Launch, environment: Environment) -> Check:
    """Check that the program in a correct entry exists on this machine."""
    command, *_ = command_line(_current_entry(client, change, launch))
    if _is_missing_program(command, environment, is_command=True):
        fix = f"put {command} on the PATH, or codriver init --client {client.id} --force"
        return Check("clients", "wrong", f"{client.title}: {change.file}: {command} does not exist", fix)
    return Check("clients", "ok", f"{client.title}: {change.file}")


def _check_different_entry(client: Client, change: Change, launch: Launch, environment: Environment) -> Check:
    """Check an entry that differs from what `init` would write. It may work, for example with another Python."""
    if change.state == "replace":
        fix = f"codriver init --client {client.id} writes an entry without paths from this machine"
        change = replace(change, reason="the file has an entry from an older version of Codriver", fix=fix)
    entry = _current_entry(client, change, launch)
    words = command_line(entry)
    missing = [word for word in words if _is_missing_program(word, environment, is_command=word == words[0])]
    if starts_relay(entry) and not missing:
        text = f"{client.title}: {change.file} starts the relay differently: {' '.join(words)}"
        return Check("clients", "note", text, change.fix)
    stated = f"{change.reason}, and {missing[0]} does not exist" if missing else change.reason
    return Check("clients", "wrong", f"{client.title}: {change.file}: {stated}", change.fix)


def _current_entry(client: Client, change: Change, launch: Launch) -> object:
    scope: Scope = "workspace" if change.file.is_relative_to(launch.workspace) else "user"
    return None if change.before is None else find_entry(client, change.before, entry_name(scope, launch.workspace))


def _is_missing_program(word: str, environment: Environment, *, is_command: bool) -> bool:
    """Return whether a word of a command line names a program or script that does not exist or cannot be reached."""
    if Path(word).is_absolute():
        return (is_command or word.endswith(".py")) and not path_exists(Path(word))
    return is_command and not environment.has_command(word)


HOOK_TIMEOUT_S: Final = 40.0
"""Maximum time that a hook may run."""
MAX_REPORTED_ANSWER_CHARACTERS: Final = 60
"""Maximum length of a hook's answer in the report."""
HOOK_PLACEHOLDER: Final = re.compile(r"\$\{([a-z_.A-Z]+)\}")
"""Matches a client's placeholder in the arguments of a hook."""


def check_hooks(launch: Launch, environment: Environment, call_tool: CallTool) -> Iterator[Check]:
    """Run each hook that is installed in the workspace with recorded input, and check the answer."""
    recorded = json.loads(read_packaged_text(f"{HOOK_DIRECTORY}/recorded.json"))
    for client_id, files in known_hooks().items():
        client = known_clients()[client_id]
        changes = plan_hooks([client], launch, environment, force=True)
        if any(change.state in ("same", "replace") for change in changes):
            yield _check_client_hooks(
                client, files, changes, _Runner(launch, environment, call_tool, recorded[client_id])
            )


def _check_client_hooks(client: Client, files: Sequence[HookFile], changes: Sequence[Change], runner: _Runner) -> Check:
    paths = ", ".join(str(change.file) for change in changes)
    if any(change.state != "same" for change in changes):
        text = f"{client.title}: {paths}: the hooks are from another version of Codriver, so they were not tried"
        return Check("hooks", "note", text, f"codriver init --hooks --client {client.id}")
    results = [runner.run(client, files[0], event) for event in EVENT_NAMES_BY_CLIENT[client.id]]
    text = f"{client.title}: {paths}: {', '.join(words for words, _ in results)}"
    if all(is_good for _, is_good in results):
        return Check("hooks", "ok", text)
    return Check("hooks", "wrong", text, f"codriver init --hooks --client {client.id}, or --remove --hooks")


class _Runner:
    """Runs the hooks of one client with recorded input for each event."""

    def __init__(
        self, launch: Launch, environment: Environment, call_tool: CallTool, recorded: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._launch = launch
        self._environment = environment
        self._call_tool = call_tool
        self._recorded = recorded

    def run(self, client: Client, file: HookFile, event: str) -> tuple[str, bool]:
        """Run a hook. Return a string with the event, duration and answer, and whether the answer is valid."""
        started = time.monotonic()
        call = _tool_calls(client, file, self._launch).get(event)
        answer = self._run_program_hook(client, file, event) if call is None else self._run_tool_hook(call, event)
        elapsed_ms = round((time.monotonic() - started) * 1000)
        excerpt = truncate(answer, MAX_REPORTED_ANSWER_CHARACTERS)
        return f"{event} {elapsed_ms} ms {excerpt}", answer.startswith(("{", "no server"))

    def _run_program_hook(self, client: Client, file: HookFile, event: str) -> str:
        words = list(file.command_words(self._launch, self._environment))
        words[0] = self._environment.which(words[0]) or words[0]
        try:
            done = subprocess.run(  # noqa: S603  # Codriver's own program with the command line that `init` installs
                [*words, client.id, event],
                input=json.dumps(self._recorded[event]).encode(),
                cwd=self._launch.workspace,
                # A hook on the PATH is an ordinary Python program, which could import modules from the workspace.
                env=server_environment(str(self._launch.workspace), self._environment.variables),
                capture_output=True,
                timeout=HOOK_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"failed: {error}"
        output = done.stdout.decode("utf-8", "replace").strip()
        return output if done.returncode == 0 else f"exited with status {done.returncode}"

    def _run_tool_hook(self, call: Mapping[str, Any], event: str) -> str:
        given = {key: self._fill_placeholders(value, event) for key, value in call.items()}
        try:
            answer = self._call_tool("note_edit", given)
        except (CodriverError, OSError, ValueError) as error:
            return "no server" if isinstance(error, CodriverError) else f"failed: {error}"
        return json.dumps(answer, ensure_ascii=False)

    def _fill_placeholders(self, value: Any, event: str) -> Any:
        """Replace the client's placeholders in a value with values from the recorded input."""

        def found(placeholder: re.Match[str]) -> str:
            node: Any = self._recorded[event]
            for key in placeholder[1].split("."):
                node = node.get(key) if isinstance(node, dict) else None
            return placeholder[0] if node is None else str(node)

        return HOOK_PLACEHOLDER.sub(found, value) if isinstance(value, str) else value


def _tool_calls(client: Client, file: HookFile, launch: Launch) -> Mapping[str, Mapping[str, Any]]:
    """Return the arguments of hooks that call a tool directly, by event. Hooks that run a program are omitted."""
    if not file.template.endswith(".json"):
        return {}
    server = entry_name(client.scopes[0], launch.workspace)
    hooks = json.loads(file.text((HOOK_PROGRAM,), server, is_windows=False))["hooks"]
    named = {client_event: event for event, client_event in EVENT_NAMES_BY_CLIENT[client.id].items()}
    return {
        named[client_event]: hook["input"]
        for client_event, groups in hooks.items()
        for group in groups
        for hook in group.get("hooks", ())
        if "tool" in hook
    }


def find_obstacle(launch: Launch, port_file: Path) -> str | None:
    """Return the reason why a client cannot reach the running server through the relay, or None if it can."""
    command = [str(launch.python), "-I", "-S", str(launch.relay), str(port_file)]  # the command in the clients' entries
    try:
        done = subprocess.run(  # noqa: S603  # the command in the clients' entries
            command,
            input=json.dumps(INITIALIZE_REQUEST) + "\n",
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=ANSWER_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer was received through the relay within {ANSWER_TIMEOUT_S:g} s"
    except OSError as error:
        return f"{command[0]} cannot be started: {error.strerror or error}"
    try:
        answer = json.loads(done.stdout.splitlines()[0])
        name = answer["result"]["serverInfo"]["name"]
    except (IndexError, ValueError, KeyError, TypeError):
        output = done.stderr.strip().splitlines() or done.stdout.strip().splitlines() or ["the relay printed nothing"]
        return f"the relay exited with status {done.returncode}: {output[-1][:300]}"
    return None if name == "codriver" else f"the server that answers through the relay is called {name}"


def find_start_failure(python: str) -> str | None:
    """Return how a Python interpreter fails when it starts, as in "exits with status 1: …", or None if it works.

    No code of the current directory runs, but code in the interpreter's environment may run.
    """
    try:
        done = subprocess.run(  # noqa: S603  # an interpreter outside the checkout, or in an accepted environment
            [python, "-I", "-c", ""],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=ANSWER_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"does not finish an empty program within {ANSWER_TIMEOUT_S:g} s"
    except OSError as error:
        return f"cannot be started: {error.strerror or error}"
    if done.returncode == 0:
        return None
    last = done.stderr.strip().splitlines()[-1:]
    return f"exits with status {done.returncode}" + "".join(f": {line[:300]}" for line in last)


def check_exposure(name: str, host: str, port: int) -> Iterator[Check]:
    """Report a REPL that other machines may be able to reach, or whose connection crosses the network."""
    if not is_loopback(host):
        text = f"{name}: {host} is another machine, so code and results cross the network unencrypted"
        yield Check("REPLs", "note", text, "use a tunnel: ssh -L")
    elif wide := non_loopback_listener(port):
        text = (
            f"{name}: port {port} accepts connections from other machines ({wide}), so anyone who can reach this "
            "machine can run code in the REPL"
        )
        yield Check("REPLs", "wrong", text, "start the REPL bound to 127.0.0.1")


def check_found_port(repl: Mapping[str, Any], text: str) -> Check | None:
    """Check the listener of a REPL that was found through a port file. Return None if it is trusted."""
    host, _, port = str(repl.get("address", "")).rpartition(":")
    if repl.get("kind") != "port-file" or not port.isdecimal() or not has_listener(int(port)):
        return None
    why = address_distrust_reason((host, int(port)), Path(str(repl.get("origin"))))
    return Check("REPLs", "wrong", f"{text}: {why}", _connection_advice(f"{host}:{port}")) if why else None


def _connection_advice(address: str) -> str:
    """Return advice on connecting to a REPL whose process seems to belong to another user."""
    intended = f"if this is intended, run codriver serve --nrepl {address}, or set nrepl in your own settings"
    return f"{intended}. Otherwise, start your REPL again"


def check_port_files(workspace: Path) -> Iterator[Check]:
    """Check the port files of a workspace without a server, and whether anything listens on their ports."""
    for name in kinds.port_file_names():
        written = read_port_text(workspace, name)
        if written.isdecimal() and not has_listener(int(written)):
            message = f"{name} has port {written}, where nothing is listening, so its REPL has ended"
            yield Check("REPLs", "note", message, f"start the REPL again, or rm {name}")
        elif written.isdecimal() and (why := address_distrust_reason(("127.0.0.1", int(written)), workspace / name)):
            yield Check(
                "REPLs", "wrong", f"{name} has port {written}: {why}", _connection_advice(f"127.0.0.1:{written}")
            )
        elif written.isdecimal():
            yield Check("REPLs", "note", f"{name} has port {written}", "codriver serve connects to this REPL")
            yield from check_exposure(name, "127.0.0.1", int(written))


def non_loopback_listener(port: int) -> str | None:
    """Return an address other than loopback at which something listens on `port`, or None."""
    try:
        hosts = listening_hosts(port)
    except OSError:
        return _reachable_outer_address(port)
    return next((host for host in hosts if not is_loopback(host)), None)


def has_listener(port: int) -> bool:
    """Return whether something accepts connections on `port` at a loopback address."""
    if not 0 < port <= MAX_PORT:  # some resolvers reduce the port modulo 65536
        return False
    for host in ("127.0.0.1", "::1"):
        with suppress(OSError, OverflowError), socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S):
            return True
    return False


def _reachable_outer_address(port: int) -> str | None:
    """Return an address of this machine at which the port can be reached from outside, or None.

    Used on systems without a table of listeners.
    """
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            # Connecting a datagram socket sends nothing. It only selects the local address.
            probe.connect(("192.0.2.1", 9))
            host = str(probe.getsockname()[0])
        if is_loopback(host):
            return None
        with socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S):
            return host
    except OSError:
        return None
