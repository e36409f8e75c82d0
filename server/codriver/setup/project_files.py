"""Files of ours in a project: the skills and a block in AGENTS.md for its agents, and copies of `codriver_seam`.

What was written is known by its digest, so that a file which nobody has changed can be replaced and removed, and every
other is left alone: a skill's file ends in a line with its own, and the seam of Python and Clojure, with the REPL that
`start_repl` starts, has a record beside its files.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import codriver
from codriver import files
from codriver.errors import StartError
from codriver.files import Links, Rules
from codriver.files.own_folders import cache_folder, shipped_folder
from codriver.repls.kinds import JUPYTER, PYTHON
from codriver.repls.launch.projects import find_projects, projects_below
from codriver.setup.change_plan import Change, read_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from codriver.setup.change_plan import State

SKILL_FOLDERS: Final = (".agents/skills", ".claude/skills")
"""Codex, Gemini CLI, Qwen Code, Copilot CLI and opencode read the first, Claude Code the second. Source: observed."""
OF_LISP: Final = "editing-lisp-files"
"""The skill that is of no use where all projects are of Python."""
SIGNATURE: Final = re.compile(r"<!-- codriver init ([0-9a-f]{16}) -->\n\Z")
MOST_SKILL_FILES: Final = 200
"""How many files of the folders are looked at for those of a skill that codriver no longer has."""
BEGIN: Final = "<!-- codriver: by `codriver init --agents-md` -->"
END: Final = "<!-- /codriver -->"
BLOCK: Final = """\
## Live REPL: the MCP server `codriver`
- The program runs in a REPL: try code there before you write it to a file. `list_sessions` shows what is there.
- `evaluate_code` one small form, look at the result, build on it; write it to the file and `load_file`.
- Status running or queued is no failure: `get_evaluation` waits for the end. Never send the same code twice.
- `repl_output_log` has what people and other agents evaluated and printed: read it before you rely on state.
- Edit Lisp by whole forms with `edit_files`. `run_tests` before you say that it works.
"""
SEAM: Final = "codriver_seam"
PACKAGE: Final = Path(codriver.__file__).resolve().parents[1] / SEAM
"""The package, beside ours."""
CLOJURE: Final = PACKAGE / "clojure"
"""The folder for a classpath: nothing but the seam is in it."""
WORKER: Final = Path(codriver.__file__).resolve().parent / "repls" / "worker"
RECORD: Final = "copied-files.txt"
"""The record, as `sha256sum --check` reads it, too."""
OUR_RULES: Final = Rules(Links.ANY, files.MEBIBYTE)
RULES: Final = Rules(Links.NEVER, files.MEBIBYTE)
_HEADER: Final = "# Files of codriver "
_LINE: Final = re.compile(r"([0-9a-f]{64})  ((?:[\w-]+/)*[\w-]+\.(?:py|cljc))")
"""A line of the record. Its paths have no dots but the last: they stay in the folder."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The files to be written, or with `remove` to be taken out. `is_named`: whether the user named these files."""

    skills: bool
    agents_md: bool
    remove: bool = False
    force: bool = False
    is_named: bool = True


def plan_agent_files(workspace: Path, wanted: Wanted) -> tuple[Change, ...]:
    """The changes to the files for agents. What a removal finds absent is told only if it was named."""
    changes: list[Change] = []
    if wanted.skills:
        changes += _plan_skills(workspace, wanted)
    if wanted.agents_md:
        changes.append(_plan_block(workspace, remove=wanted.remove))
    return tuple(change for change in changes if wanted.is_named or change.state in ("remove", "skipped"))


def skill_texts() -> Mapping[str, str]:
    """The skills that come with Codriver as files for clients, by their path below a folder of skills."""
    shipped = shipped_folder("skills")
    return {
        # A file beside it is what a client can read without a server.
        path.relative_to(shipped).as_posix(): path.read_text("utf-8").replace(f"skill://{path.parent.name}/", "")
        for path in sorted(shipped.glob("*/*.md"))
    }


def signed(text: str) -> str:
    """A text with the line that says what was written."""
    return f"{text}<!-- codriver init {_digest(text.encode())[:16]} -->\n"


def _is_skill_of_ours(text: str) -> bool:
    """Whether a file is as codriver wrote it, whichever version; git may have changed its line ends."""
    text = text.replace("\r\n", "\n")
    found = SIGNATURE.search(text)
    return found is not None and found.group(1) == _digest(text[: found.start()].encode())[:16]


def _plan_skills(workspace: Path, wanted: Wanted) -> Iterator[Change]:
    seen: set[str] = set()
    projects = (*find_projects(workspace), *projects_below(workspace))
    is_lisp = wanted.remove or not projects or any(project.repl not in (PYTHON.repl, JUPYTER) for project in projects)
    for name in SKILL_FOLDERS:
        folder = workspace / name
        # One may be a link to the other.
        if os.path.realpath(folder) in seen:
            continue
        seen.add(os.path.realpath(folder))
        texts = {folder / path: signed(text) for path, text in skill_texts().items()}
        for file, text in texts.items():
            if is_lisp or file.parent.name != OF_LISP or os.path.lexists(file):
                yield _plan_skill(file, text, workspace, wanted)
        for file in sorted(folder.glob("*/*.md"))[:MOST_SKILL_FILES]:
            if file not in texts and (change := _plan_left_over(file, workspace)):
                yield change


def _plan_skill(file: Path, text: str, workspace: Path, wanted: Wanted) -> Change:
    """The change of one file of a skill."""
    try:
        before = read_file(file, workspace)
    except (OSError, UnicodeDecodeError) as error:
        return _refused("skills", file, f"it cannot be read: {getattr(error, 'strerror', None) or error}", workspace)
    if before is None:
        return Change("skills", file, "absent" if wanted.remove else "add", None, _unless(wanted, text), root=workspace)
    if before.replace("\r\n", "\n") == text and not wanted.remove:
        return Change("skills", file, "same", before, before, root=workspace)
    if wanted.force or _is_skill_of_ours(before):
        state: State = "remove" if wanted.remove else "replace"
        return Change("skills", file, state, before, _unless(wanted, text), root=workspace)
    problem = "it is not as codriver wrote it"
    fix = "--remove --skills --force removes it" if wanted.remove else "--skills --force replaces it"
    state = "refused" if wanted.is_named else "skipped"
    return Change("skills", file, state, before, before, problem, f"codriver init {fix}", root=workspace)


def _unless(wanted: Wanted, text: str) -> str | None:
    """The text that a file is to have."""
    return None if wanted.remove else text


def _plan_left_over(file: Path, workspace: Path) -> Change | None:
    """The removal of a file that an older codriver wrote, if nobody has changed it."""
    try:
        before = read_file(file, workspace)
    except (OSError, UnicodeDecodeError):
        return None  # it is none of ours
    if before is None or not _is_skill_of_ours(before):
        return None
    return Change("skills", file, "remove", before, None, root=workspace)


def _refused(title: str, file: Path, problem: str, workspace: Path) -> Change:
    fix = "mend the file and run the command again"
    return Change(title, file, "refused", None, None, problem, fix, root=workspace)


def _plan_block(workspace: Path, *, remove: bool) -> Change:
    """The change of AGENTS.md: only what stands between the marks, and the line ends around it, is codriver's."""
    file = workspace / "AGENTS.md"
    title = file.name
    try:
        before = read_file(file, workspace)
        span = _span(before or "")
    except (OSError, UnicodeDecodeError) as error:
        return _refused(title, file, f"it cannot be read: {getattr(error, 'strerror', None) or error}", workspace)
    except ValueError as error:
        return _refused(title, file, str(error), workspace)
    if remove:
        after = None if span is None else _without(before or "", *span)
        return Change(title, file, "absent" if span is None else "remove", before, after or None, root=workspace)
    after = _with_block(before or "", span)
    if after == before:
        return Change(title, file, "same", before, before, root=workspace)
    return Change(title, file, "add" if span is None else "replace", before, after, root=workspace)


def _span(text: str) -> tuple[int, int] | None:
    """The place of the block, marks included; None where there is none.

    Raises:
        ValueError: there are marks that make no block.
    """
    begins, ends = text.count(BEGIN), text.count(END)
    if not begins and not ends:
        return None
    begin, end = text.find(BEGIN), text.find(END)
    if (begins, ends) != (1, 1) or end < begin:
        raise ValueError(f"its marks {BEGIN} and {END} are no pair")
    return begin, end + len(END)


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _with_block(text: str, span: tuple[int, int] | None) -> str:
    line_end = _line_end(text)
    block = f"{BEGIN}\n{BLOCK}{END}".replace("\n", line_end)
    if span is not None:
        return text[: span[0]] + block + text[span[1] :]
    if not text.removeprefix("\ufeff"):
        return text + block + line_end
    # Without a line end at the end of the file there is none behind the block either: a removal sees the difference.
    return f"{text}{line_end}{block}{line_end if text.endswith(line_end) else ''}"


def _without(text: str, begin: int, end: int) -> str:
    """The text as it was before the block was added."""
    line_end = _line_end(text)
    before, behind = text[:begin], text[end:]
    return before.removesuffix(line_end) + behind.removeprefix(line_end)


@dataclass(frozen=True, slots=True)
class Copied:
    """A copy that was made, or renewed. The names are below `package`."""

    package: Path
    written: tuple[str, ...]
    removed: tuple[str, ...]
    same: tuple[str, ...]


def python_path() -> Path:
    """A folder for PYTHONPATH that holds the package alone: a copy among the user's caches, made or renewed now.

    The folder where Codriver is installed has its dependencies, too, which would take the place of the application's.
    """
    folder = cache_folder() / f"seam-{codriver.__version__}"
    folder.mkdir(mode=files.PRIVATE_FOLDER, parents=True, exist_ok=True)
    copy_seam(folder, is_folder_ours=True)
    return folder


def copy_seam(folder: Path, *, is_folder_ours: bool = False) -> Copied:
    """Copy the package into `folder`, or renew the copy there. `is_folder_ours`: whatever is there is replaced.

    Raises:
        StartError: a file is not as it was copied, or was never copied. Nothing is changed then.
            Or it is where the package comes from.
        OSError: a file cannot be read or written.
    """
    folder = folder.resolve()
    if folder == PACKAGE.parent:
        raise StartError(f"nothing was copied: {folder} has codriver_seam itself; name a folder of your project")
    wanted = {name: files.read(path, OUR_RULES) for name, path in _sources().items()}
    found = _found(folder, (RECORD,))
    recorded = _recorded(found.get(RECORD, b""))
    found |= _found(folder, wanted.keys() | recorded.keys())
    same = {name for name, data in found.items() if name in wanted and _digest(data) == _digest(wanted[name])}
    strangers = [name for name in found.keys() - same if not _is_copy_of_ours(name, found[name], recorded)]
    if strangers and not is_folder_ours:
        first, *others = sorted(strangers)
        more = f" and {len(others)} more" if others else ""
        raise StartError(
            f"nothing was copied: {folder / SEAM / first}{more} would be replaced, and codriver did not write it like "
            "that; move it away, or name another folder"
        )
    gone = tuple(sorted(found.keys() - wanted.keys() - {RECORD}))
    new = tuple(name for name in wanted if name not in same)
    for name in new:
        _write(folder, name, wanted[name])
    for name in gone:
        with files.locate(Path(SEAM, name), Links.NEVER, root=folder) as place:
            place.remove()
    record = _record(wanted)
    if record != found.get(RECORD):
        _write(folder, RECORD, record)
    return Copied(folder / SEAM, new, gone, tuple(sorted(same)))


def _sources() -> Mapping[str, Path]:
    """The files that come with us, by their names in a copy: the REPL lies where `codriver_seam.repl` looks for it."""
    return {
        **{path.name: path for path in sorted(PACKAGE.glob("*.py"))},
        **{path.relative_to(PACKAGE).as_posix(): path for path in sorted(CLOJURE.glob("*/*.cljc"))},
        **{f"worker/{path.relative_to(WORKER).as_posix()}": path for path in sorted(WORKER.rglob("*.py"))},
    }


def _found(folder: Path, names: Iterable[str]) -> dict[str, bytes]:
    """The files that are there."""
    found: dict[str, bytes] = {}
    for name in names:
        try:
            found[name] = files.read(Path(SEAM, name), RULES, root=folder)
        except FileNotFoundError:
            continue
    return found


def _is_copy_of_ours(name: str, data: bytes, recorded: Mapping[str, str]) -> bool:
    """True of a file that is as an earlier copy left it."""
    return data.startswith(_HEADER.encode()) if name == RECORD else recorded.get(name) == _digest(data)


def _digest(data: bytes) -> str:
    """The digest of a file, whose line ends git may have changed."""
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()


def _recorded(record: bytes) -> Mapping[str, str]:
    """The digests that a record has, by name."""
    lines = map(_LINE.fullmatch, record.decode("utf-8", "replace").splitlines())
    return {line[2]: line[1] for line in lines if line}


def _record(wanted: Mapping[str, bytes]) -> bytes:
    header = (
        f"{_HEADER}{codriver.__version__} (MIT License, Copyright (c) 2026 The Codriver authors), written by\n"
        "# `codriver seam copy`, which replaces those that nobody has changed.\n"
    )
    return (header + "".join(f"{_digest(data)}  {name}\n" for name, data in wanted.items())).encode()


def _write(folder: Path, name: str, data: bytes) -> None:
    files.replace(Path(SEAM, name), data, links=Links.NEVER, root=folder, mode=None, make_mode=0o777)
