"""Files for agents that `codriver init` installs: skills, and a block in AGENTS.md.

The last line of a skill's file contains a digest of its text, so that an unchanged file can be replaced or removed, and
a file that a user has changed is left alone.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codriver.files.codriver_paths import shipped_directory
from codriver.repls.kinds import PYTHON_KIND
from codriver.repls.launch.projects import find_projects, projects_below
from codriver.setup.change_plan import Change, read_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from codriver.setup.change_plan import State

SKILL_DIRECTORIES: Final = (".agents/skills", ".claude/skills")
"""Directories from which clients read skills.

Codex, Gemini CLI, Qwen Code, Copilot CLI and opencode read the first directory, and Claude Code reads the second.
Source: observed.
"""
LISP_SKILL: Final = "editing-lisp-files"
"""The skill that is left out if all projects are Python projects."""
SIGNATURE_LINE: Final = re.compile(r"<!-- codriver init ([0-9a-f]{16}) -->\n\Z")
"""Matches the last line of a skill's file. Its group is the digest."""
MAX_SKILL_FILES: Final = 200
"""Maximum number of files that are searched for skills from an earlier version."""
BLOCK_BEGIN_LINE: Final = "<!-- codriver: by `codriver init --agents-md` -->"
BLOCK_END_LINE: Final = "<!-- /codriver -->"
AGENTS_BLOCK: Final = """\
## Live REPL: the MCP server `codriver`
- Try code in the REPL with `evaluate_code` before you write it to a file. `status` lists the sessions.
- Start with one small expression, check its result, and build on it.
- Edit with `edit_files`, `load: true` and `test: ["affected"]`, so that the REPL has the new code and its tests run.
- `running` and `queued` are not failures: wait for the result with `get_evaluation`. Never send the same code twice.
- People and other agents use the same REPL: `status` with `about: "activity"` shows what they did.
"""


@dataclass(frozen=True, slots=True)
class AgentFileOptions:
    """Options that select the files for agents to install or, with `remove`, to remove.

    `is_named` means that the user requested these files explicitly.
    """

    skills: bool
    agents_md: bool
    remove: bool = False
    force: bool = False
    is_named: bool = True


def plan_agent_files(workspace: Path, options: AgentFileOptions) -> tuple[Change, ...]:
    """Return the changes to the files for agents.

    When removing, missing files are only reported if the user named them.
    """
    changes: list[Change] = []
    if options.skills:
        changes += _plan_skills(workspace, options)
    if options.agents_md:
        changes.append(_plan_block(workspace, remove=options.remove))
    return tuple(change for change in changes if options.is_named or change.state in ("remove", "skipped"))


def skill_files() -> Mapping[str, str]:
    """Return the content of each file of Codriver's skills, by its path below a directory of skills."""
    shipped = shipped_directory("skills")
    return {
        # Clients can read files next to the skill without a server.
        path.relative_to(shipped).as_posix(): path.read_text("utf-8").replace(f"skill://{path.parent.name}/", "")
        for path in sorted(shipped.glob("*/*.md"))
    }


def sign_text(text: str) -> str:
    """Return the text with a last line that contains its digest, so that later changes can be detected."""
    return f"{text}<!-- codriver init {_digest(text)} -->\n"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _is_unchanged_skill(text: str) -> bool:
    """Return whether a file is unchanged since some version of Codriver wrote it, apart from line endings."""
    text = text.replace("\r\n", "\n")
    found = SIGNATURE_LINE.search(text)
    return found is not None and found.group(1) == _digest(text[: found.start()])


def _plan_skills(workspace: Path, options: AgentFileOptions) -> Iterator[Change]:
    seen: set[str] = set()
    projects = (*find_projects(workspace), *projects_below(workspace))
    is_lisp = options.remove or not projects or any(project.repl != PYTHON_KIND.repl for project in projects)
    for name in SKILL_DIRECTORIES:
        directory = workspace / name
        # One directory may be a link to the other.
        if os.path.realpath(directory) in seen:
            continue
        seen.add(os.path.realpath(directory))
        contents = {directory / path: sign_text(text) for path, text in skill_files().items()}
        for file, text in contents.items():
            if is_lisp or file.parent.name != LISP_SKILL or os.path.lexists(file):
                yield _plan_skill(file, text, workspace, options)
        for file in sorted(directory.glob("*/*.md"))[:MAX_SKILL_FILES]:
            if file not in contents and (change := _plan_stale_removal(file, workspace)):
                yield change


def _plan_skill(file: Path, text: str, workspace: Path, options: AgentFileOptions) -> Change:
    """Return the change to one file of a skill."""
    try:
        before = read_file(file, workspace)
    except (OSError, UnicodeDecodeError) as error:
        return _refused_change(
            "skills", file, f"the file cannot be read: {getattr(error, 'strerror', None) or error}", workspace
        )
    if before is None:
        return Change(
            "skills", file, "absent" if options.remove else "add", None, _new_content(options, text), root=workspace
        )
    if before.replace("\r\n", "\n") == text and not options.remove:
        return Change("skills", file, "same", before, before, root=workspace)
    if options.force or _is_unchanged_skill(before):
        state: State = "remove" if options.remove else "replace"
        return Change("skills", file, state, before, _new_content(options, text), root=workspace)
    reason = "the file has been changed since Codriver wrote it"
    fix = "--remove --skills --force removes it" if options.remove else "--skills --force replaces it"
    state = "refused" if options.is_named else "skipped"
    return Change("skills", file, state, before, before, reason, f"codriver init {fix}", root=workspace)


def _new_content(options: AgentFileOptions, text: str) -> str | None:
    """Return the new content of a file, or None if it is to be removed."""
    return None if options.remove else text


def _plan_stale_removal(file: Path, workspace: Path) -> Change | None:
    """Return the change that removes a file written by an older version, or None if the user has changed the file."""
    try:
        before = read_file(file, workspace)
    except (OSError, UnicodeDecodeError):
        return None  # it is not one of Codriver's
    if before is None or not _is_unchanged_skill(before):
        return None
    return Change("skills", file, "remove", before, None, root=workspace)


def _refused_change(title: str, file: Path, reason: str, workspace: Path) -> Change:
    fix = "fix the file and run the command again"
    return Change(title, file, "refused", None, None, reason, fix, root=workspace)


def _plan_block(workspace: Path, *, remove: bool) -> Change:
    """Return the change to the block in AGENTS.md. Text outside of the block is preserved."""
    file = workspace / "AGENTS.md"
    title = file.name
    try:
        before = read_file(file, workspace)
        span = _find_block(before or "")
    except (OSError, UnicodeDecodeError) as error:
        return _refused_change(
            title, file, f"the file cannot be read: {getattr(error, 'strerror', None) or error}", workspace
        )
    except ValueError as error:
        return _refused_change(title, file, str(error), workspace)
    if remove:
        after = None if span is None else _remove_block(before or "", *span)
        return Change(title, file, "absent" if span is None else "remove", before, after or None, root=workspace)
    after = _insert_block(before or "", span)
    if after == before:
        return Change(title, file, "same", before, before, root=workspace)
    return Change(title, file, "add" if span is None else "replace", before, after, root=workspace)


def _find_block(text: str) -> tuple[int, int] | None:
    """Return the start and end of the block including its markers, or None if there is none.

    Raises:
        ValueError: the markers do not form a pair.
    """
    begins, ends = text.count(BLOCK_BEGIN_LINE), text.count(BLOCK_END_LINE)
    if not begins and not ends:
        return None
    begin, end = text.find(BLOCK_BEGIN_LINE), text.find(BLOCK_END_LINE)
    if (begins, ends) != (1, 1) or end < begin:
        raise ValueError(f"the markers {BLOCK_BEGIN_LINE} and {BLOCK_END_LINE} do not form a pair")
    return begin, end + len(BLOCK_END_LINE)


def _detect_line_ending(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _insert_block(text: str, span: tuple[int, int] | None) -> str:
    line_end = _detect_line_ending(text)
    block = f"{BLOCK_BEGIN_LINE}\n{AGENTS_BLOCK}{BLOCK_END_LINE}".replace("\n", line_end)
    if span is not None:
        return text[: span[0]] + block + text[span[1] :]
    if not text.removeprefix("\ufeff"):
        return text + block + line_end
    # If the file did not end with a line ending, add none after the block, so that a removal restores the file.
    return f"{text}{line_end}{block}{line_end if text.endswith(line_end) else ''}"


def _remove_block(text: str, begin: int, end: int) -> str:
    """Return the text as it was before the block was added."""
    line_end = _detect_line_ending(text)
    before, behind = text[:begin], text[end:]
    return before.removesuffix(line_end) + behind.removeprefix(line_end)
