"""Diagnose the setup for `codriver doctor`, and suggest a fix for each problem."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from codriver import __version__, files
from codriver.errors import CodriverError
from codriver.files import OTHERS_PERMISSIONS, LinkRefusedError, is_private_directory
from codriver.files.codriver_paths import port_file, server_directory
from codriver.net import server_record
from codriver.net.admission import is_loopback
from codriver.net.kernel_sockets import format_address
from codriver.net.registration import is_stopped_for_good
from codriver.net.relay_install import SOURCE_RULES as RELAY_RULES
from codriver.net.relay_install import relay_files, shipped_relay_directory
from codriver.net.server_record import is_claimed, locate_server_file, read_port, read_record
from codriver.repls import kinds
from codriver.repls.launch.projects import find_projects, find_safe_python
from codriver.repls.launch.recipes import lapse_clause
from codriver.settings import acceptance_records
from codriver.settings.layers import SettingsError, load_settings, withheld_message
from codriver.settings.model import Settings
from codriver.setup.doctor_checks import (
    CLIENT_NAME,
    SEPARATE_CHECKOUT_ADVICE,
    CapabilityRow,
    Check,
    ReplReport,
    Report,
    access_advice,
    check_entries,
    check_exposure,
    check_found_port,
    check_hooks,
    check_port_files,
    check_state,
    find_obstacle,
    find_start_failure,
)
from codriver.skills import SkillLibrary, SkillSelection
from codriver.systems.file_system import is_current_group, is_mine, is_open
from codriver.systems.other_processes import is_running
from codriver.systems.programs import (
    LAUNCHD_PATH_DIRECTORIES,
    kill_command,
    missing_program_directories,
)
from codriver.wire.untrusted import mapping_or_empty, mappings_or_empty

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from codriver.net.server_record import ServerRecord
    from codriver.settings.machine_policy import MachinePolicy
    from codriver.setup.doctor_checks import FeatureChecks, Support
    from codriver.setup.environment import Environment
    from codriver.setup.relay_launch import Launch

CallTool = Callable[[str, dict[str, Any]], dict[str, Any]]
"""Calls a tool on the running server with a name and arguments, and returns its answer.

Raises `CodriverError`, `OSError` or `ValueError` if there is no server or another program answers.
"""

Reach = Callable[["Launch", Path], "str | None"]
"""Tries to reach the server through the relay, and returns the problem or None."""

SUPPORT_BY_KIND: Final[Mapping[str, Support]] = MappingProxyType({"native": "works", "adapted": "adapted"})
RESTART_COMMANDS: Final = "codriver stop && codriver serve"
PENDING_PHASES: Final = frozenset({"connecting", "starting"})
"""The phases of a REPL that is expected to be connected soon."""


def diagnose(
    launch: Launch,
    call_tool: CallTool,
    environment: Environment,
    reach: Reach = find_obstacle,
    *,
    settings_model: type[Settings] = Settings,
    of_features: Sequence[FeatureChecks] = (),
) -> Report:
    """Check the versions, settings, skills, server, relay, clients, permissions and REPLs of a workspace.

    `settings_model` defines the settings of the base and of features, and `of_features` contains the checks that
    features add. Nothing is changed and no program is started, except that the relay runs for a moment if there is a
    server, and the interpreter for agents' code if there is none.
    """
    workspace = launch.workspace
    checks = [
        _check_versions(of_features),
        *_check_programs(),
        *_check_settings(workspace, environment, settings_model),
    ]
    health = _try_call(call_tool, "server_health")
    listed = _try_call(call_tool, "list_sessions") if isinstance(health, dict) else {}
    sessions = _get_rows(listed, "sessions")
    checks += _check_server(workspace, health)
    checks.append(_check_relay(launch, reach if isinstance(health, dict) else None))
    checks += _check_permissions(workspace)
    checks += check_state(workspace)
    checks += check_entries(launch, environment)
    checks += check_hooks(launch, environment, call_tool)
    checks += (check for feature in of_features if feature.always for check in feature.always(workspace))
    repls = _get_rows(health, "repls") if isinstance(health, dict) else []
    checks += _check_repls(workspace, repls, of_features, running=isinstance(health, dict))
    checks += _check_repl_projects(sessions)
    checks += _check_test_runs(_get_rows(listed, "testRuns"))
    if not isinstance(health, dict):
        for feature in of_features:
            checks += feature.without_server(workspace, environment) if feature.without_server is not None else ()
        checks += _check_python(workspace, environment, settings_model)
    return Report(tuple(checks), tuple(_create_repl_report(session, call_tool, of_features) for session in sessions))


def _try_call(call_tool: CallTool, tool: str) -> dict[str, Any] | str:
    """Return the answer from a tool, or the reason why there is none."""
    try:
        answer = call_tool(tool, {})
    except (CodriverError, OSError, ValueError) as error:  # another program may answer
        return str(error) or type(error).__name__
    return answer if answer.get("ok", True) else str(answer.get("hint") or answer.get("reason"))


def _get_rows(answer: dict[str, Any] | str, key: str) -> list[Mapping[str, Any]]:
    return mappings_or_empty(answer.get(key)) if isinstance(answer, dict) else []


def _check_versions(of_features: Iterable[FeatureChecks]) -> Check:
    parts = [f"codriver {__version__}", f"Python {platform.python_version()}"]
    for name in ("mcp", "basilisp", *(name for feature in of_features for name in feature.packages)):
        try:
            parts.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            parts.append(f"no {name}")
    return Check("versions", "ok", f"{', '.join(parts)}, {platform.system()} {platform.machine()}")


def _check_programs() -> Iterator[Check]:
    """On macOS, check that a server started by a graphical client finds programs that are not on launchd's PATH."""
    if found := missing_program_directories(":".join(LAUNCHD_PATH_DIRECTORIES)):
        text = f"servers started by graphical clients have launchd's PATH, and also search {', '.join(found)}"
        yield Check("programs", "ok", text)


def _check_settings(workspace: Path, environment: Environment, model: type[Settings]) -> Iterator[Check]:
    try:
        loaded = load_settings(workspace, environ=environment.variables, model=model)
    except SettingsError as error:
        for location, reason in error.errors:
            yield Check("settings", "wrong", reason, f"correct it in {location}")
        for warning in error.warnings:
            yield Check("settings", "note", warning, "codriver config check")
        return
    for warning in loaded.warnings:
        yield Check("settings", "note", warning, "codriver config check")
    for setting in loaded.withheld:
        yield Check("settings", "note", withheld_message(setting), acceptance_records.accept_command(workspace))
    if loaded.policy is not None and loaded.policy.off:
        yield _policy_check(loaded.policy)
    lapsed = acceptance_records.environment_lapse_reason(workspace, environment.variables, loaded.settings.python)
    if lapsed is not None:
        yield Check(
            "acceptance", "note", acceptance_records.lapse_message(lapsed), acceptance_records.accept_command(workspace)
        )
    if not loaded.warnings and not loaded.withheld:
        files_read = sorted({origin.source for origin in loaded.origins.values() if origin.source})
        yield Check("settings", "ok", f"from {', '.join(files_read)}" if files_read else "all defaults")
    yield from _check_skills(workspace, loaded.settings)


def _policy_check(policy: MachinePolicy) -> Check:
    """Return the check that reports which features a machine policy disables."""
    *others, last = policy.off
    names = f"{', '.join(others)} and {last}" if others else last
    how = "an administrator of this machine can change this file"
    if policy.error is None:
        return Check("policy", "note", f"{policy.path} disables {names} on this machine", how)
    text = f"{policy.path} is invalid, so it disables {names} on this machine: {policy.error}"
    return Check("policy", "wrong", text, how)


def _check_skills(workspace: Path, settings: Settings) -> Iterator[Check]:
    """Report skills that agents do not get, because their source is not enabled or they cannot be read."""
    allowed = SkillSelection(frozenset(settings.skill_sources), frozenset(settings.disabled_skills))
    found = SkillLibrary(workspace, allowed).find_all()
    off: dict[str, list[str]] = {}
    for skill in found.skills:
        if not allowed.includes(skill) and skill.id not in allowed.disabled:
            off.setdefault(skill.source, []).append(skill.id)
    for source, names in off.items():
        text = f"{', '.join(names)} from {source}: found, but not available to agents until you allow this source"
        sources = json.dumps([*settings.skill_sources, source])
        how = f"review them, set skillSources = {sources} in codriver.toml, then run codriver trust"
        yield Check("skills", "note", text, how)
    skill_origins = {skill.source for skill in found.skills}
    for source in sorted(set(settings.skill_sources) - skill_origins):
        text = (
            f"skillSources names {source}, which has no skills in this workspace. The sources are "
            f"{', '.join(sorted(skill_origins))}"
        )
        yield Check("skills", "note", text, "correct skillSources, or ignore this if the skills will be added")
    for reason in found.problems:
        yield Check("skills", "note", f"left out: {reason}", "fix the skill, or remove its folder")


def _check_server(workspace: Path, health: dict[str, Any] | str) -> Iterator[Check]:
    file = port_file(workspace)
    if isinstance(health, str):
        yield _no_server_check(workspace, file, health)
        return
    host, port = str(health.get("host", "")), health.get("port")
    clients = sum(client.get("name") != CLIENT_NAME for client in _get_rows(health, "clients"))
    since = f", since {health['startedAt']}" if "startedAt" in health else ""
    address = format_address(host, port) if isinstance(port, int) else host
    yield Check("server", "ok", f"pid {health.get('pid')} listens on {address}{since}; clients: {clients or 'none'}")
    if "portNote" in health:
        yield Check("server", "note", str(health["portNote"]), "set mcpSocketServerPort to another port, or to 0")
    if health.get("version", __version__) != __version__:
        text = f"the server runs version {health['version']}, but {__version__} is installed"
        yield Check("server", "note", text, RESTART_COMMANDS)
    if host and not is_loopback(host):
        text = (
            f"the server listens on {host}, which is not a loopback address, so anyone with the token can run code here"
        )
        yield Check("server", "note", text, "set host to 127.0.0.1 unless this is intended")
    written = _read_port_text(file)
    if written != str(port):
        text = f"{file} has {written or 'no port'}, but the server listens on {port}, so clients cannot find it"
        yield Check("port file", "wrong", text, RESTART_COMMANDS)
    else:
        yield Check("port file", "ok", str(file))
    for error in _get_rows(health, "errors"):
        text = f"{error.get('message')} ({error.get('count')} times, first {error.get('firstAt')})"
        yield Check("errors", "note", text, "run `codriver log` to see what happened around that time")


def _no_server_check(workspace: Path, file: Path, reason: str) -> Check:
    """Return the check for a server that does not answer. The fix depends on the files in the workspace."""
    written = _read_port_text(file)
    if not written:
        if is_stopped_for_good(workspace):
            text = "no server is running, and clients do not start one, because it was stopped with --for-good"
            return Check("server", "note", text, "codriver serve")
        return Check("server", "note", "no server is running. The first client starts one", "codriver serve")
    if host := server_record.remote_server_host(file.parent):
        return Check(
            "server",
            "wrong",
            f"this project is in use by a server on {host}",
            "use the project on one host only, or make a checkout for each host",
        )
    record = read_record(file.parent)
    # The record may have come with a checkout, so only suggest ending a process if the lock is held.
    if record is not None and is_running(record.pid) and is_claimed(file.parent) is not False:
        text = f"pid {record.pid} is running but does not answer on port {written}: {reason}"
        return Check("server", "wrong", text, _termination_advice(record, file.parent))
    text = f"{file} has {written}, left by a server that has stopped"
    return Check("port file", "note", text, "codriver serve or the next client replaces the file")


def _termination_advice(record: ServerRecord, directory: Path) -> str:
    """Return instructions for ending a hung server, with its process id if the operating system can identify it."""
    with contextlib.suppress(OSError, CodriverError):
        process = server_record.recorded_process_id(record, directory)
        if process is not None:
            return f"{kill_command(process)}, then codriver serve"
    return "codriver stop, which explains what to do if the server does not stop; then codriver serve"


def _check_relay(launch: Launch, reach: Reach | None) -> Check:
    try:
        shipped = relay_files(shipped_relay_directory(), launch.relay)
        is_current = all(files.read(current, RELAY_RULES) == text for current, text in reversed(shipped.items()))
    except FileNotFoundError:
        cure = "codriver init or codriver serve installs the relay"
        if os.path.lexists(server_directory(launch.workspace) / "port"):
            return Check("relay", "wrong", f"{launch.relay} was removed, although a server has run here", cure)
        return Check("relay", "note", f"{launch.relay} is not installed yet", cure)
    except OSError as error:
        text = f"{error.filename or launch.relay} cannot be read: {error.strerror}"
        return Check("relay", "wrong", text, "codriver init or codriver serve installs the relay")
    if not is_current:
        text = f"{launch.relay} is not from version {__version__}"
        return Check("relay", "note", text, "codriver init or codriver serve replaces the relay")
    if reach is None:
        return Check("relay", "ok", str(launch.relay))
    if reason := reach(launch, port_file(launch.workspace)):
        text = f"{launch.relay} does not reach the server: {reason}"
        return Check("relay", "wrong", text, f"{launch.python} {launch.relay} {port_file(launch.workspace)} --verbose")
    return Check("relay", "ok", f"{launch.relay} reaches the server")


def _check_permissions(workspace: Path) -> Iterator[Check]:
    """Check the permissions of the files with which clients find and trust the server."""
    directory = server_directory(workspace)
    if not os.access(workspace, os.W_OK | os.X_OK):
        is_of_user = is_mine(workspace.stat().st_uid)
        reason = (
            "cannot be written by this user"
            if is_of_user
            else "belongs to another user and cannot be written by this one"
        )
        yield Check("permissions", "wrong", f"{workspace} {reason}", access_advice(workspace))
        return
    checks = list(_file_checks(directory))
    yield from checks
    if not checks:
        yield Check("permissions", "ok", "the files of the server are private")


def _file_checks(directory: Path) -> Iterator[Check]:
    """Report wrong permissions on the server's directory and files.

    Anyone who can write the port file can redirect clients.
    """
    try:
        with locate_server_file(directory, "port", is_last_followed=False) as entry:
            status = entry.directory_status()
    except FileNotFoundError:
        return
    except LinkRefusedError as error:
        text = f"{error.filename} is a link, so its content is ignored"
        yield Check("permissions", "wrong", text, f"rm {error.filename} && codriver serve")
        return
    except NotADirectoryError:
        text = f"{directory} cannot be created: a file is in the way"
        yield Check("permissions", "wrong", text, f"mv {directory.parent} …")
        return
    except OSError as error:
        yield Check("permissions", "wrong", f"{directory}: {error.strerror}", access_advice(directory))
        return
    yield from _mode_checks(directory, is_directory_private=is_private_directory(status))


def _mode_checks(directory: Path, *, is_directory_private: bool) -> Iterator[Check]:
    try:
        entries = [directory, *sorted(directory.iterdir())]
    except OSError as error:
        yield Check("permissions", "wrong", f"{directory}: {error.strerror}", access_advice(directory))
        return
    of_directory = directory.lstat()
    is_of_user = is_mine(of_directory.st_uid)
    if is_of_user and not is_directory_private and not _others_may_write(of_directory):
        text = f"others can access {directory}, so its content is ignored: "
        text += "the directory came with a checkout, or its permissions were changed"
        yield Check("permissions", "note", text, "codriver serve makes it private and removes left-over files")
    for entry in entries:
        status = entry.lstat()
        if not is_mine(status.st_uid):
            fix = f"rm -r {directory} && codriver serve" if is_of_user else SEPARATE_CHECKOUT_ADVICE
            yield Check("permissions", "wrong", f"{entry} belongs to another user", fix)
        elif _others_may_write(status):
            yield Check("permissions", "wrong", f"{entry} can be written by others", f"chmod go-w {entry}")
        elif entry.name == "token" and is_open(status, OTHERS_PERMISSIONS):
            yield Check("permissions", "wrong", f"{entry} can be read by others", f"chmod 600 {entry}")


def _read_port_text(file: Path) -> str:
    """Return the content of the port file, or "" if there is none."""
    try:
        return str(read_port(file.parent))
    except ValueError:
        return "no port"
    except OSError:
        return ""


def _others_may_write(status: os.stat_result) -> bool:
    """Return whether other users may write to a file.

    This user's current group is ignored, because many systems give each user a separate group.
    """
    if stat.S_ISLNK(status.st_mode):
        return False
    return is_open(status, stat.S_IWOTH) or (is_open(status, stat.S_IWGRP) and not is_current_group(status.st_gid))


def _check_repls(
    workspace: Path, repls: list[Mapping[str, Any]], of_features: Sequence[FeatureChecks], *, running: bool
) -> Iterator[Check]:
    if running and not repls:
        projects = find_projects(workspace)
        fix = f"codriver serve --repl {projects[0].repl}" if projects else kinds.PYTHON_KIND.by_hand
        yield Check("REPLs", "note", "no REPL is connected", fix)
    for repl in repls:
        yield from _check_repl(repl, of_features)
    if not running:
        yield from check_port_files(workspace)


def _check_repl(repl: Mapping[str, Any], of_features: Iterable[FeatureChecks]) -> Iterator[Check]:
    key, phase, address = repl.get("key"), repl.get("phase"), str(repl.get("address", ""))
    text = f"{key}: {repl.get('dialect')}, {phase}" + (f", at {address}" if address else "")
    if phase == "connected":
        yield Check("REPLs", "ok", text)
    elif phase in PENDING_PHASES:
        yield Check("REPLs", "note", f"{text}: {repl.get('note') or 'it is not connected yet'}")
    elif fix := next(
        filter(None, (feature.fix_for(repl) for feature in of_features if feature.fix_for is not None)), None
    ):
        yield Check("REPLs", "note", f"{text}: {repl.get('note') or 'for an unknown reason'}", fix)
    elif (check := check_found_port(repl, text)) is not None:
        yield check
    elif repl.get("kind") == "process":
        again = f"""fix that, then codriver call restart_repl '{{"replSessionKey": "{key}"}}'"""
        yield Check("REPLs", "wrong", f"{text}: {repl.get('note') or 'for an unknown reason'}", again)
    else:
        # The user started it and may stop it at any time, such as a development server.
        yield Check(
            "REPLs", "note", f"{text}: {repl.get('note') or 'it has ended'}", "start the REPL again when you need it"
        )
    host, _, port = address.rpartition(":")
    if host and port.isdecimal():
        yield from check_exposure(str(key), host, int(port))


def _check_python(workspace: Path, environment: Environment, model: type[Settings]) -> Iterator[Check]:
    """Report if a server would use an interpreter that may lack the project's packages.

    This is not checked while a server is running, because the server reports it itself.
    """
    with contextlib.suppress(SettingsError):
        chosen = load_settings(workspace, environ=environment.variables, model=model).settings.python
        found = find_safe_python(workspace, environment.variables, chosen, acceptance_records.environment_acceptance)
        if found.waits_for is not None and (found.lapsed is None or found.waits_for != workspace):
            text = f"agents' code runs in {found.path} and not in the project's own environment"
            why = f"you have not accepted {found.waits_for}" if found.lapsed is None else lapse_clause(found.lapsed)
            yield Check("REPLs", "note", f"{text}, because {why}", acceptance_records.accept_command(found.waits_for))
        elif found.waits_for is None and (note := found.caution or found.remark):
            yield Check("REPLs", "note", note, 'python3 -m venv .venv, or python = "PATH" in codriver.toml')
        if found.path != sys.executable and (failure := find_start_failure(found.path)) is not None:
            text = f"Python code cannot be evaluated, because {found.path} {failure}"
            yield Check("REPLs", "wrong", text, 'create the environment again, or set python = "PATH" in codriver.toml')


def _check_test_runs(starts: list[Mapping[str, Any]]) -> Iterator[Check]:
    """Report whether Python test runs start in warm processes, and if not, why."""
    for start in starts:
        where = " in ".join(str(start[key]) for key in ("python", "directory") if key in start)
        text = f"{where}: {start.get('start')}" if where else str(start.get("start"))
        if start.get("start") == "warm":
            text += f", {start.get('modules')} modules imported, {start.get('memoryMb')} MB"
            text += f", hash seed {start.get('hashSeed')}, {start.get('runs')} runs"
        text += f" ({start['why']})" if "why" in start else ""
        if differing := start.get("differences"):
            yield Check("test runs", "note", f"{text}; tests that differ: {', '.join(map(str, differing))}")
        else:
            yield Check("test runs", "ok", text)


def _check_repl_projects(sessions: list[Mapping[str, Any]]) -> Iterator[Check]:
    """Report REPLs that belong to another project, whose port files may be outdated."""
    for session in sessions:
        if session.get("elsewhere"):
            file, home = session.get("origin"), session.get("projectRoot")
            text = f"{session.get('key')}: {file} leads to a REPL in another project, {home}"
            yield Check("REPLs", "note", text, f"rm {file}, if its REPL has ended")


def _create_repl_report(
    session: Mapping[str, Any], call_tool: CallTool, of_features: Iterable[FeatureChecks]
) -> ReplReport:
    added = {name: row_of for feature in of_features for name, row_of in feature.rows.items()}
    versions = ", ".join(f"{name} {version}" for name, version in mapping_or_empty(session.get("versions")).items())
    title = ", ".join(part for part in (str(session.get("dialect")), versions, str(session.get("address", ""))) if part)
    rows = [
        CapabilityRow(name, SUPPORT_BY_KIND.get(str(support.get("support")), "works"), f"by {support.get('op')}")
        for name, support in mapping_or_empty(session.get("capabilities")).items()
        if isinstance(support, dict) and name not in added
    ]
    rows += [CapabilityRow(name, "missing", str(how)) for name, how in mapping_or_empty(session.get("missing")).items()]
    for name, row_of in added.items():
        support = mapping_or_empty(mapping_or_empty(session.get("capabilities")).get(name))
        row = row_of(session, SUPPORT_BY_KIND.get(str(support.get("support")), "works") if support else None, call_tool)
        rows += [row] if row is not None else []
    state = f"{session.get('phase')}, generation {session.get('generation')}"
    notes = tuple(str(note) for note in session.get("notes", ()))
    if "capabilities" not in session:
        notes = (*notes, "the REPL's capabilities are known once it is connected")
    return ReplReport(str(session.get("key")), title, state, tuple(rows), notes)
