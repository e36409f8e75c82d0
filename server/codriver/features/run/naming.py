"""Choose session keys for the processes of a program started by `codriver run`.

If the main process only supervises others (a reloader, gunicorn, uvicorn with workers, Celery's pool of processes), the
name refers to the children that handle requests or tasks. Several workers are called `shop/1` and `shop/2`, and the
plain name refers to the one with the lowest number. All other processes are named after their process ids.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from codriver.repls.kinds import MAX_KEY_CHARS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from codriver.features.run.processes import RunProcess

SUPERVISOR_PROGRAMS: Final = frozenset({"gunicorn", "uvicorn", "hypercorn", "granian"})
"""Programs whose child processes handle requests while the parent waits."""
CELERY_TITLE_PREFIX: Final = "[celeryd: "
"""Prefix of the titles that Celery gives its processes if setproctitle is installed."""
IN_PROCESS_POOL_OPTION: Final = re.compile(r"(?:-P|--pool)[ =]?(?:solo|threads|gevent|eventlet)\b")
"""Matches Celery options that make it run tasks in its main process."""
UVICORN_CHILDREN_OPTION: Final = re.compile(r"--reload(?!-)|--workers[ =](?!1\b)")
"""Matches options that make uvicorn handle requests in child processes."""
HYPERCORN_IN_PROCESS_OPTION: Final = re.compile(r"(?:-w|--workers)[ =]?0\b")
"""Matches the option that makes Hypercorn handle requests in its main process."""
SERVER_PROGRAMS: Final = frozenset({
    "celery", "daphne", "fastapi", "flask", "granian", "gunicorn", "hypercorn", "uvicorn", "waitress-serve",
})  # fmt: skip
"""Programs that serve an application specified as an argument."""
ENTRY_MODULES: Final = frozenset({"app", "application", "asgi", "main", "wsgi"})
"""Module names that do not identify an application."""
APPLICATION_OPTIONS: Final = frozenset({"--app", "-A"})
"""Options whose value is the application."""
LAUNCHER_WORD: Final = re.compile(r"uv|poetry|pdm|pipenv|hatch|env|run|exec|coverage|debugpy|"
                              r"ddtrace-run|opentelemetry-instrument")  # fmt: skip
"""Matches the words in a command that may precede the name of the program itself."""
INTERPRETER_NAME: Final = re.compile(r"(python|pypy)[\d.]*|(?:ba|da|k|z|fi)?sh")
"""Matches programs that run a script, code from the option `-c`, or, for Python, a module."""
CODE_ARGUMENT: Final = re.compile(r"-|-(?![XW])[A-Za-z]*c")
"""Matches an argument of an interpreter that is followed by code, or that makes it read code from stdin."""
LAUNCHER_VALUE_OPTIONS: Final = frozenset({"-X", "-W", "--with", "--extra", "--group", "--directory", "--project", "-p",
                                     "--python", "--rcfile", "--source", "--listen"})  # fmt: skip
"""Options of launchers whose value is the next word."""
HELPER_MODULES: Final = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
"""Modules run by the helper processes of `multiprocessing`."""


def parse_program(command: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the name of the program that a command runs, without directory and suffix, and the program's arguments.

    For example, the name is `flask` for `uv run flask --app shop run`, and `shop.tasks` for `python -m shop.tasks`. For
    code, as in `python -c CODE`, it is the name of the interpreter.
    """
    rest = [word for word in command if word]
    interpreter = ""
    is_module = False
    while rest:
        word = rest[0]
        if not is_module and interpreter and CODE_ARGUMENT.fullmatch(word):
            return interpreter, tuple(rest[1:])
        if not is_module and (found := INTERPRETER_NAME.fullmatch(PurePath(word).name)):
            interpreter = found[1] or found[0]
            del rest[0]
            continue
        if not is_module and (LAUNCHER_WORD.fullmatch(PurePath(word).name) or "=" in word):
            del rest[0]
            continue
        if word == "-m":
            del rest[0]
            is_module = not (rest and LAUNCHER_WORD.fullmatch(rest[0]))
            continue
        if word.startswith("-") and not is_module:
            del rest[: 2 if word in LAUNCHER_VALUE_OPTIONS else 1]
            continue
        break
    if not rest:
        return interpreter or "python", ()
    name = PurePath(rest[0]).name
    return re.sub(r"\.(?:pyz?|sh)$", "", name), tuple(rest[1:])


def program_name(command: Sequence[str]) -> str:
    """Return a name for a program: the name of the application module that it serves, or else of its script.

    For example, `gunicorn shop.wsgi:app` and `flask --app shop run` are both named `shop`.
    """
    program, rest = parse_program(command)
    target = ""
    if program in SERVER_PROGRAMS:
        for word, following in zip_longest(rest, rest[1:], fillvalue=""):
            option, equals, value = word.partition("=")
            if option in APPLICATION_OPTIONS:
                target = value if equals else following
                break
            is_application = ":" in word and "/" not in word and word[:1].isalpha()
            if is_application or (program == "fastapi" and word.endswith(".py")):
                target = word
                break
        if program == "flask" and not target:
            target = os.environ.get("FLASK_APP", "")
    module = PurePath(target.partition(":")[0]).name.removesuffix(".py")
    parts = [part for part in module.split(".") if part]
    while len(parts) > 1 and parts[-1] in ENTRY_MODULES:
        parts.pop()
    name = re.sub(r"[^\w.-]+", "-", parts[-1] if parts else program).strip("-.")[:MAX_KEY_CHARS]
    return name or "python"


@dataclass(frozen=True, slots=True)
class NamedProcess:
    """A process of a program started by `codriver run`, with its session key and its role."""

    process: RunProcess
    slot: str
    """The slot that a replacement process inherits: the number among the processes that handle requests, or the pid."""
    key: str
    aliases: tuple[str, ...]
    role: str
    """The role of the process: `serves` if it runs the program's code, `supervises`, `helps`, or an empty string if it
    has no REPL.
    """


def name_processes(
    name: str, members: Sequence[RunProcess], slots: Mapping[str, int], supervisors: Collection[int] = ()
) -> list[NamedProcess]:
    """Assign session keys and roles to the processes of a run.

    `members` must be sorted by start time. `slots` maps previously assigned slots to process ids. A process keeps its
    slot, and a new process gets the lowest free one. `supervisors` are processes known to have had children that handle
    requests. They get no slot, even while they have no such children.
    """
    serving = _serving_processes(members, supervisors)
    pids = [process.pid for process in serving]
    assigned = {slot: pid for slot, pid in slots.items() if pid in pids}
    free = [pid for pid in pids if pid not in assigned.values()]
    number = 0
    while free:
        number += 1
        if str(number) not in assigned:
            assigned[str(number)] = free.pop(0)
    slot_of = {pid: slot for slot, pid in assigned.items()}
    are_several = len(serving) > 1 or any(slot != "1" for slot in slot_of.values())
    first = min(assigned, key=int, default="")
    found = []
    for member in members:
        slot = slot_of.get(member.pid)
        if slot is not None:
            key = f"{name}/{slot}" if are_several else name
            also = (name if are_several else f"{name}/1",) if slot == first else ()
            found.append(NamedProcess(member, slot, key, (*also, str(member.pid), f"{name}:{member.pid}"), "serves"))
        else:
            role = "" if not member.is_ready else "helps" if _is_helper(member) else _idle_role(member, serving)
            found.append(NamedProcess(member, f"pid {member.pid}", f"{name}:{member.pid}", (str(member.pid),), role))
    return found


def close_gaps(slots: Mapping[str, int], in_use: Collection[str]) -> dict[str, int]:
    """Move processes with high slot numbers to lower slots that are free. Slots `in_use` are not changed.

    This is needed for gunicorn, which starts new workers before it ends the old workers.
    """
    free = [str(number) for number in range(1, len(slots) + 1) if str(number) not in slots]
    moving = sorted((slot for slot in slots if int(slot) > len(slots) and slot not in in_use), key=int)
    moved = dict(zip(moving, free, strict=False))
    return {moved.get(slot, slot): pid for slot, pid in slots.items()}


def _idle_role(process: RunProcess, serving: Sequence[RunProcess]) -> str:
    """Return the role of a process that handles no requests: `supervises` or `helps`."""
    return "supervises" if any(other.parent == process.pid for other in serving) else "helps"


def _serving_processes(members: Sequence[RunProcess], supervisors: Collection[int]) -> list[RunProcess]:
    """Return the processes that run the program's code and are ready."""
    ready = {member.pid: member for member in members if member.is_ready and not _is_helper(member)}
    reloaded = [
        process for process in ready.values() if process.is_reloaded and not _has_reloaded_parent(process, ready)
    ]
    if reloaded:
        return reloaded
    mains = [
        process
        for process in ready.values()
        if process.parent not in ready and process.pid not in supervisors and not _only_supervises(process)
    ]
    workers = [
        process for process in ready.values() if process.parent in ready and _is_worker(process, ready[process.parent])
    ]
    return workers or mains


def _only_supervises(process: RunProcess) -> bool:
    """Return whether the command line shows that child processes handle the requests.

    The children may not have been started yet.
    """
    program, arguments = parse_program(process.words)
    program = re.split(r"[:.]", program)[0]
    if program == "uvicorn":
        return UVICORN_CHILDREN_OPTION.search(" ".join(arguments)) is not None
    if program == "hypercorn":
        return HYPERCORN_IN_PROCESS_OPTION.search(" ".join(arguments)) is None
    return program in SUPERVISOR_PROGRAMS


def _is_worker(process: RunProcess, parent: RunProcess) -> bool:
    """Return whether a process handles the requests or tasks of its parent."""
    program, arguments = parse_program(parent.words)
    if program == "celery":
        # Tasks may start other processes. Unlike those in the pool, these have a command line of their own.
        return process.words == parent.words and IN_PROCESS_POOL_OPTION.search(" ".join(arguments)) is None
    if parent.words[0].startswith(CELERY_TITLE_PREFIX):
        return process.words[0].startswith(CELERY_TITLE_PREFIX) and "PoolWorker" in process.words[0]
    return re.split(r"[:.]", program)[0] in SUPERVISOR_PROGRAMS


def _has_reloaded_parent(process: RunProcess, ready: Mapping[int, RunProcess]) -> bool:
    """Return whether the parent of a process was marked by a reloader as the one that handles requests."""
    parent = ready.get(process.parent)
    return parent is not None and parent.is_reloaded


def _is_helper(process: RunProcess) -> bool:
    words = " ".join(process.words)
    return any(helper in words for helper in HELPER_MODULES)
