"""The clients' entries as the doctor sees them: whether each is there, and whether all it names is, too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from codriver.setup.change_plan import plan
from codriver.setup.clients import command_line, entry_name, found_clients, starts_relay
from codriver.setup.config_document import find_entry
from codriver.setup.doctor_report import Check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codriver.setup.change_plan import Change
    from codriver.setup.clients import Client, Environment, Launch, Scope


def check_entries(launch: Launch, environment: Environment) -> Iterator[Check]:
    """Checks of the entries of the clients that are found here."""
    clients = found_clients(launch.workspace, environment)
    if not clients:
        yield Check("clients", "note", "none found in this workspace or on this machine", "codriver init --client NAME")
    for client in clients:
        yield _check_client(client, launch, environment)


def _check_client(client: Client, launch: Launch, environment: Environment) -> Check:
    """The check of one client's entry: in the workspace, else in the user's own file."""
    changes = [plan([client], launch, environment, scope=scope)[0] for scope in client.scopes]
    good = next((change for change in changes if change.state == "same"), None)
    if good is not None:
        return _judge_good(client, good, launch, environment)
    bad = next((change for change in changes if change.state in ("refused", "replace")), None)
    if bad is not None:
        return _judge_other(client, bad, launch, environment)
    skipped = next((change for change in changes if change.state == "skipped"), None)
    if skipped is not None:
        told = f"{client.title} has no entry in {skipped.file}: {skipped.problem}"
        return Check("clients", "note", told, skipped.fix)
    return Check("clients", "note", f"{client.title} has no entry", f"codriver init --client {client.id}")


def _judge_good(client: Client, change: Change, launch: Launch, environment: Environment) -> Check:
    """An entry that a team shares may be right, and the program that it names may be missing here."""
    command, *_ = command_line(_entry(client, change, launch))
    if _is_missing_program(command, environment, is_command=True):
        fix = f"put {command} on the PATH, or codriver init --client {client.id} --force"
        return Check("clients", "wrong", f"{client.title}: {change.file}: {command} is not there", fix)
    return Check("clients", "ok", f"{client.title}: {change.file}")


def _judge_other(client: Client, change: Change, launch: Launch, environment: Environment) -> Check:
    """An entry that says something else still works when all it names is there, such as another Python of ours."""
    if change.state == "replace":
        fix = f"codriver init --client {client.id} writes one without paths of this machine"
        change = replace(change, problem="it has an older entry of codriver", fix=fix)
    entry = _entry(client, change, launch)
    words = command_line(entry)
    missing = [word for word in words if _is_missing_program(word, environment, is_command=word == words[0])]
    if starts_relay(entry) and not missing:
        text = f"{client.title}: {change.file} starts the relay in its own way: {' '.join(words)}"
        return Check("clients", "note", text, change.fix)
    problem = f"{change.problem}, and {missing[0]} is not there" if missing else change.problem
    return Check("clients", "wrong", f"{client.title}: {change.file}: {problem}", change.fix)


def _entry(client: Client, change: Change, launch: Launch) -> object:
    """The entry that is in the file now."""
    scope: Scope = "workspace" if change.file.is_relative_to(launch.workspace) else "user"
    return None if change.before is None else find_entry(client, change.before, entry_name(scope, launch.workspace))


def _is_missing_program(word: str, environment: Environment, *, is_command: bool) -> bool:
    """True of a word of a command line that names a program or script that is not there."""
    if Path(word).is_absolute():
        return (is_command or word.endswith(".py")) and not Path(word).exists()
    return is_command and not environment.has_command(word)
