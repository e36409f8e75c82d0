"""`codriver serve`, `status`, `stop`: one server's life from the outside, and the list of all servers of this user.

Exit status of `status`, which lists all servers with `--all`, one line each: 0 there is one, 3 there is none.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from codriver.commands.call import no_repl_here
from codriver.commands.mistaken_client import ClientWatch
from codriver.commands.options import (
    Whole,
    color_option,
    exact_workspace_option,
    json_option,
    quiet_option,
    workspace_above,
    workspace_option,
)
from codriver.commands.terminal import Styled, patience, reading, say, say_json
from codriver.errors import CodriverError, StartError
from codriver.files.own_folders import server_folder
from codriver.log.control_characters import one_line
from codriver.net import registration, server_record
from codriver.net.client import NoServerError, ask_to_stop, connect, process_of
from codriver.systems.other_processes import HAS_SIGNALS, daemonize, is_running, stay
from codriver.systems.programs import complete_path, to_end, to_name_holder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codriver.app.serve import Says
    from codriver.net.server_record import ServerRecord


STOP_S = 15.0
STARTING = "the server starts: it reads what it remembers of this workspace"
COMING_S = 15.0
"""How long `stop` waits for a starting server: within a second or two it can be reached."""
POLL_S = 0.02
HEAD = 60
"""Characters of code in a line about an evaluation."""
PHASES = {"connected": "green", "stopped": "red"}
"""The colours of the phases of a REPL; any other phase is a passing one."""


class _ReplOption(click.Option):
    """An option whose help names the words in the table of REPL kinds, which is read for the help alone."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """See the base class."""
        from codriver.repls import kinds  # noqa: PLC0415  # most commands show no help

        words = ", ".join([*kinds.by_word(), f"{kinds.JUPYTER}:SPEC"])
        self.help = f"Start this REPL: {words}, any command line, or {kinds.NO_REPL}. Can be repeated."
        return super().get_help_record(ctx)


@click.command("serve")
@exact_workspace_option
@click.option("--host", help="Address to listen on (127.0.0.1). One beyond loopback demands a token.")
@click.option("--port", type=Whole(0, server_record.LARGEST_PORT), help="Port to listen on (1664); 0 for any free one.")
@click.option("--nrepl", multiple=True, metavar="[KEY=][HOST:]PORT", help="Connect to this nREPL. Can be repeated.")
@click.option(
    "--repl",
    multiple=True,
    cls=_ReplOption,
    metavar="WORD|COMMAND",
    help="Start this REPL.",
)
@click.option(
    "--kernel",
    multiple=True,
    metavar="[KEY=]FILE|URL",
    help="Connect to this Jupyter kernel: its connection file, or its URL on a Jupyter Server. Can be repeated.",
)
@click.option("--python", metavar="PATH", help="Interpreter of the project's Python code (found by its environment).")
@click.option(
    "--idle-exit", type=Whole(0, 604_800), metavar="SECONDS", help="Stop when nobody was connected this long."
)
@click.option(
    "--on-demand", is_flag=True, help="Stop when nobody was connected for idleExitSeconds, as a relay starts it."
)
@quiet_option("Say only what goes wrong, and not that it can be reached.")
@click.option("--verbose", "-v", "is_verbose", is_flag=True, help="Say on standard error what the server does, too.")
@click.option("--detach", is_flag=True, help="Go on in the background once it can be reached.")
def serve_command(  # noqa: PLR0913  # one argument an option
    *,
    workspace: Path,
    host: str | None,
    port: int | None,
    nrepl: tuple[str, ...],
    repl: tuple[str, ...],
    kernel: tuple[str, ...],
    python: str | None,
    idle_exit: int | None,
    on_demand: bool,
    detach: bool,
    is_quiet: bool,
    is_verbose: bool,
) -> None:
    """Run the server of a workspace until it is stopped.

    It prints one line with its address when it can be reached, and finds REPLs that are started later by their port
    files. `codriver stop`, Ctrl-C or SIGTERM end it, and with it the REPLs that it started.

    MCP clients start `codriver-relay` and not this command. Exit status 2 if a client did, which standard error says.
    """
    if is_quiet and is_verbose:
        raise click.UsageError("--quiet and --verbose exclude one another")
    on_reached = daemonize() if detach else stay
    complete_path()
    watch = ClientWatch()
    if not (on_demand or detach):
        watch.start()
    if not (on_demand or is_quiet):
        _say_above(workspace.resolve())
    _load_server()
    from codriver.app.serve import ServeOptions, run  # noqa: PLC0415  # the server's imports are for the server alone

    given = {
        "host": host,
        "mcp_socket_server_port": port,
        "nrepl": nrepl or None,
        "repl": repl or None,
        "kernels": tuple(map(_from_here, kernel)) or None,
        "python": python,
        "idle_exit_seconds": idle_exit,
    }
    overrides = {name: value for name, value in given.items() if value is not None}
    with ExitStack() as waiting:
        waiting.enter_context(patience(lambda: STARTING))

        def reached() -> None:
            waiting.close()
            on_reached()

        says: Says = "quiet" if is_quiet else "verbose" if is_verbose else "usual"
        is_passing = on_demand or idle_exit is not None
        options = ServeOptions(workspace, overrides, is_passing, reached, is_on_demand=on_demand, says=says)
        options = replace(options, tells_arrivals=not (detach or on_demand) and _is_watched(says))
        sys.exit(watch.status_of(lambda: run(options)))


def _from_here(kernel: str) -> str:
    """`[KEY=]FILE|URL` with the file's path from the current folder on."""
    from codriver.repls.jupyter.named_kernels import split_key  # noqa: PLC0415  # for this option alone

    key, place = split_key(kernel)
    if "://" not in place:
        place = os.path.abspath(os.path.expanduser(place))  # noqa: PTH100, PTH111  # links stay as they are
    return f"{key}={place}" if key else place


@click.command("status")
@click.option("--all", "is_every", is_flag=True, help="List all servers of yours, of every workspace, a line each.")
@workspace_option
@color_option
@json_option
def status_command(*, is_every: bool, workspace: Path, as_json: bool) -> None:
    """Say whether a server runs for the workspace, and how it is. Exit status 3: none runs."""
    if is_every:
        show_all(as_json=as_json)
    try:
        with connect(workspace.resolve(), name="codriver-status") as connection:
            health = connection.call("server_health", {})
    except NoServerError as error:
        is_for_good = registration.is_stopped_for_good(workspace.resolve())
        if as_json:
            say_json({"ok": False, "message": str(error), **({"stoppedForGood": True} if is_for_good else {})})
        else:
            say(str(error), hang=2)
            if is_for_good:
                say("it was stopped for good: relays with --start start none until you do")
        sys.exit(error.exit_status)
    if as_json:
        say_json(health, indent=2)
        return
    with reading("server_health"):
        lines = list(_health_lines(health))
    for line in lines:
        say(replace(line, text=one_line(line.text)), hang=4)


def _is_watched(says: Says) -> bool:
    """True if a person sees the server's words, and wants more than faults."""
    return says != "quiet" and sys.stdout.isatty()


def _load_server() -> None:
    """Import the server. All its objects stay: garbage collection would take a tenth of the time."""
    gc.disable()
    try:
        import codriver.app.serve  # noqa: F401, PLC0415  # for this command alone
    finally:
        gc.freeze()
        gc.enable()


def _say_above(workspace: Path) -> None:
    above = _server_above(workspace)
    if above is not None:
        place = one_line(str(above))
        say(f"codriver: a server of the folder above runs, too: `codriver status -w {place}`", err=True)


def _server_above(workspace: Path) -> Path | None:
    """The workspace around this one, if a server runs there too; only then is the right to look there checked."""
    if not any(server_record.is_claimed(server_folder(folder)) for folder in workspace.parents):
        return None
    above = workspace_above(workspace)
    return above if above is not None and server_record.is_claimed(server_folder(above)) else None


def _health_lines(health: dict[str, Any]) -> Iterator[Styled]:
    """The health of a server in lines, for a person."""
    yield Styled(
        f"running: pid {health['pid']} on {health['host']}:{health['port']}, since {health['startedAt']}", bold=True
    )
    if not health["repls"]:
        yield Styled(f"  {no_repl_here(Path(health['workspace']))}", fg="yellow")
    for repl in health["repls"]:
        note = f": {repl['note']}" if "note" in repl else ""
        unfinished = _unfinished(health, repl["key"])
        busy = ", busy" if any(row["status"] != "queued" for row in unfinished) else ""
        text = f"  REPL {repl['key']} ({_kind(repl)}): {repl['phase']}{busy}{note}"
        yield Styled(text, fg=PHASES.get(repl["phase"], "yellow"))
        for row in unfinished:
            yield Styled(f"    {_doing(row)}", fg="yellow")
        if "caution" in repl:
            yield Styled(f"    note: {repl['caution']}", fg="yellow")
    names = [client["name"] or "not introduced" for client in health["clients"] if client["name"] != "codriver-status"]
    yield Styled(f"  clients: {', '.join(names) or 'none'}")
    if keepers := _keepers(health):
        yield Styled(f"  kept alive by {keepers}: `codriver stop --for-good` ends it all the same")
    notes = [str(repl["note"]) for repl in health["repls"] if repl.get("note")]
    for latch in health["errors"]:
        if not any(note in latch["message"] for note in notes):  # the REPL's line says it
            times = "once" if latch["count"] == 1 else f"{latch['count']} times"
            yield Styled(f"  error: {latch['message']} ({times})", fg="red")


def _kind(repl: dict[str, Any]) -> str:
    """The origin of a REPL and its dialect, each once; for a file of runtime its name."""
    origin, dialect = str(repl["origin"]), str(repl["dialect"])
    origin = origin.rpartition("/")[2] if origin.endswith(".json") else origin
    return origin if origin == dialect else f"{origin}, {dialect}"


def _unfinished(health: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """The unfinished evaluations in a REPL, the running ones first."""
    rows = [row for row in health["evaluations"].get("unfinished", ()) if row["sessionKey"].partition("/")[0] == key]
    return sorted(rows, key=lambda row: row["status"] == "queued")


def _doing(row: dict[str, Any]) -> str:
    """The standing of an unfinished evaluation: its owner, its begin, and the cause of its wait."""
    head = str(row["code"]).strip().partition("\n")[0][:HEAD]
    since = f"{row['who']} since {row['elapsedMs'] // 1000} s"
    if row["status"] == "queued":
        return f"{row['who']} waits to run {head} ({row['evaluationId']}): {row.get('waits', '')}"
    what = f"runs {head}" if row["kind"] == "run-tests" else head
    waits = ", waits for input" if row["status"] == "needs-input" else ""
    return f"{since}{waits}: {what} ({row['evaluationId']})"


def _keepers(health: dict[str, Any]) -> str:
    """The relays that start a server if none runs, in words; blank for none."""
    names = [str(client["name"]) or "not introduced" for client in health["clients"] if client.get("startsServer")]
    if not names:
        return ""
    return f"{len(names)} {'relay' if len(names) == 1 else 'relays'} with --start ({', '.join(names)})"


@click.command(
    "relay",
    short_help="Run codriver-relay, for an MCP client.",
    context_settings={"ignore_unknown_options": True},
    add_help_option=False,
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def relay_command(*, words: tuple[str, ...]) -> None:
    """Run codriver-relay, for a client that starts Codriver by the name of its package, as uvx does."""
    import codriver_relay  # noqa: PLC0415  # no other command needs it

    sys.exit(codriver_relay.main(words))


@click.command("stop")
@click.option("--for-good", is_flag=True, help="Let relays start no other one, until `serve` or a --start of yours.")
@workspace_option
def stop_command(*, workspace: Path, for_good: bool) -> None:
    """Stop the server of the workspace. Harmless when none runs.

    A relay with --start that an MCP client keeps open starts another server at once: with --for-good none does.
    """
    workspace = workspace.resolve()
    if for_good:
        registration.stop_for_good(workspace)
    keepers, unkept = _last_words(workspace)
    _stop(workspace)
    if unkept:
        say(f"code that was evaluated last may not be kept: {one_line(unkept)}", err=True)
    if for_good:
        say("none is started here until `codriver serve`, or a command with --start")
    elif keepers:
        say(f"{one_line(keepers)} may start another one at once; `codriver stop --for-good` lets none", err=True)


def _last_words(workspace: Path) -> tuple[str, str]:
    """The clients that will start another server, as the running one tells, and why its history cannot be written.

    Each is blank for none, or if the server cannot be asked.
    """
    try:
        with connect(workspace, name="codriver-stop") as connection, reading("server_health"):
            health = connection.call("server_health", {})
            errors = {latch["code"]: str(latch["message"]) for latch in health["errors"]}
            return _keepers(health), errors.get("history-unwritable", "")
    except (CodriverError, OSError):
        return "", ""


def _stop(workspace: Path) -> None:
    """End the running server, and say so, or that there is none."""
    folder = server_folder(workspace)
    claimed = _awaited_record(folder)
    if claimed is None:
        say("no server runs for this workspace")
        return
    process = process_of(workspace, claimed)
    if process is None:
        _say_nobody(folder, claimed)
        return
    _ask_to_stop(workspace, claimed, process)
    deadline = time.monotonic() + STOP_S
    while server_record.read_record(folder) == claimed and is_running(process):
        if time.monotonic() > deadline:
            say(f"pid {process} did not stop in {STOP_S:g} s: end it with `{to_end(process)}`", err=True)
            sys.exit(1)
        time.sleep(POLL_S)
    say(f"stopped pid {process}")


def _ask_to_stop(workspace: Path, claimed: ServerRecord, process: int) -> None:
    """Tell the server to wind down: by a signal, which also a busy server gets, or by its socket."""
    if HAS_SIGNALS:
        os.kill(process, signal.SIGTERM)
        return
    with suppress(CodriverError, OSError, ValueError):  # the server ends just now, or is waited for
        ask_to_stop(workspace, claimed)


def _say_nobody(folder: Path, claimed: ServerRecord) -> None:
    """Say why no server was stopped: files name a process that is not known to be the server."""
    if not is_running(claimed.pid) or server_record.is_claimed(folder) is False:
        removed: list[str] = []
        with suppress(StartError):  # then the next start does it
            removed = registration.remove_left_over(folder)
        now = f", which are removed now: {', '.join(removed)}" if removed else ""
        say(f"no server runs for this workspace: the last one, pid {claimed.pid}, died and left its files{now}")
    else:
        lock = server_record.lock_file(folder)
        say(
            f"pid {claimed.pid}, which {folder} names, is not known to be the server of this workspace: "
            f"`{to_name_holder(lock)}` names who holds its lock; if that is a server that hangs, end it with "
            f"`{to_end('PID')}`",
            err=True,
        )
        sys.exit(1)


def _awaited_record(folder: Path) -> ServerRecord | None:
    """The record of the workspace's server, None for none; a server that starts or ends is waited for."""
    deadline = time.monotonic() + COMING_S
    is_told = False
    # The lock precedes the record at a server's start, and outlives it at the end.
    while (is_held := server_record.is_claimed(folder)) and time.monotonic() < deadline:
        claimed = server_record.read_record(folder)
        if claimed is not None and is_running(claimed.pid):
            return claimed
        if not is_told:
            say("a server is just starting or ending here: waiting until it is one or the other", err=True)
            is_told = True
        time.sleep(POLL_S)
    if is_held:
        lock = server_record.lock_file(folder)
        say(
            f"a process has held {lock} for {COMING_S:g} s and cannot be reached: a server that hangs while it starts "
            f"or ends. `{to_name_holder(lock)}` names its pid; end it with `{to_end('PID')}`",
            err=True,
        )
        sys.exit(1)
    return server_record.read_record(folder)


NO_SERVER = 3
NAME = "codriver-status"


def show_all(*, as_json: bool) -> None:
    """Print the standing of each server of this user, of all workspaces and working trees, dead servers included."""
    from codriver.net.known_servers import ask_all  # noqa: PLC0415  # only for this list

    known = ask_all(NAME)
    servers = [server.health for server in known if server.health is not None]
    gone = [server for server in known if server.health is None]
    if as_json:
        left_out = [{"workspace": str(server.workspace), "message": server.why} for server in gone]
        say_json({"ok": bool(servers), "servers": servers, "count": len(servers), "leftOut": left_out}, indent=2)
    else:
        with reading("server_health"):
            lines = [server_line(health) for health in servers]
        for line in lines or ["no codriver server of yours runs"]:
            say(one_line(line))
        for server in gone:
            say(one_line(f"left out: {server.workspace}: {server.why}"), err=True)
    sys.exit(0 if servers else NO_SERVER)


def server_line(health: Mapping[str, Any]) -> str:
    """A server in a line: its workspace, port, REPLs and clients, and its uptime."""
    repls = [_repl(repl) for repl in health["repls"]]
    names = [str(client["name"]) or "not introduced" for client in health["clients"] if client["name"] != NAME]
    words = [
        f"port {health['port']}",
        f"REPLs: {', '.join(repls) or 'none'}",
        f"clients: {', '.join(names) or 'none'}",
        f"up {_length(int(health['uptimeS']))}",
        f"pid {health['pid']}",
    ]
    return f"{health['workspace']}  {'; '.join(words)}"


def _repl(repl: Mapping[str, Any]) -> str:
    return str(repl["key"]) if repl["phase"] == "connected" else f"{repl['key']} ({repl['phase']})"


def _length(seconds: int) -> str:
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
