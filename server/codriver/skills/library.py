"""The skills of a workspace: which of them are available to agents, and their files."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from codriver.errors import RefusedError, refused
from codriver.files.codriver_paths import shipped_directory
from codriver.skills.folders import GUIDE_FILE, TooManyFilesError
from codriver.skills.front_matter import FrontMatterError, read_front_matter
from codriver.skills.skill_discovery import (
    OWN_SOURCE,
    WORKSPACE_SOURCE,
    JarIndex,
    find_in_dependencies,
    find_workspace_and_shipped,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from codriver.skills.folders import SkillDirectory
    from codriver.skills.skill_discovery import SkillCandidate


LIVE_REPL_SKILL: Final = "live-repl"
EDITING_SKILL: Final = "editing-lisp-files"
LIVE_APP_SKILL: Final = "live-app"
"""The skill that is hidden while no application can be inspected. It can still be read by its name."""
URI_PREFIX: Final = "skill://"
DEPENDENCY_PREFIX: Final = "lib."
"""Prefix of the first path segment in addresses of dependencies' skills. Skill names contain no full stop."""
UNENCODED_CHARACTERS: Final = "/!$&'()*+,;=@"
"""Characters of a path that are not percent-encoded in addresses."""

_SKILL_ORDER: Final = (LIVE_REPL_SKILL, EDITING_SKILL, LIVE_APP_SKILL)
_UNSERVED_CHARACTER: Final = re.compile(r"[\\\x00/:]")


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill. `id` is its path in URIs. `source` is `codriver`, `workspace`, or the name of a dependency."""

    id: str
    source: str
    folder: SkillDirectory
    guide: bytes
    """The content of the skill's `SKILL.md`."""

    @property
    def front_matter(self) -> Mapping[str, Any]:
        """Return the front matter of the skill's `SKILL.md`.

        Raises:
            FrontMatterError: the front matter is invalid. This can only happen with Codriver's own skills, because all
                others have already been checked.
        """
        return read_front_matter(self.guide)

    @property
    def description(self) -> str:
        """Return the description of the skill."""
        return str(self.front_matter["description"])

    @property
    def uri(self) -> str:
        """Return the URI of the skill's `SKILL.md`."""
        return self.address(GUIDE_FILE)

    def address(self, path: str = "") -> str:
        """Return the URI of a file or directory by its path within the skill. The default is the skill's directory."""
        return f"{URI_PREFIX}{quote(f'{self.id}/{path}'.rstrip('/'), safe=UNENCODED_CHARACTERS)}"


@dataclass(frozen=True, slots=True)
class FoundSkills:
    """All skills that were found, available or not, and the errors of those that cannot be used."""

    skills: tuple[Skill, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SkillSelection:
    """The skills that the settings allow: those from Codriver and `sources`, except those in `disabled`."""

    sources: frozenset[str] = frozenset()
    disabled: frozenset[str] = frozenset()

    def allows(self, source: str) -> bool:
        """Return whether skills from this source may be available."""
        return source == OWN_SOURCE or source in self.sources

    def includes(self, skill: Skill) -> bool:
        """Return whether a skill is available to agents."""
        return self.allows(skill.source) and skill.id not in self.disabled

    @property
    def searches_dependencies(self) -> bool:
        """Return whether skills from any dependency may be available."""
        return bool(self.sources - {WORKSPACE_SOURCE})


@dataclass(slots=True)
class SkillLibrary:
    """The skills of a workspace, for the lifetime of a server. `changed` and `select` read the disk again.

    Dependencies, which may be hundreds of jars, are only searched if the selection allows one of them.
    """

    workspace: Path
    selection: SkillSelection = field(default_factory=SkillSelection)
    shipped: Path = field(default_factory=lambda: shipped_directory("skills"))
    _jars: JarIndex = field(init=False)
    _found: FoundSkills = field(init=False)
    _stamp: object = field(init=False)

    def __post_init__(self) -> None:
        self._jars = JarIndex(self.workspace)
        self._read()

    def find_all(self) -> FoundSkills:
        """Return all skills, even those that the settings do not allow."""
        candidates = [
            *find_workspace_and_shipped(self.workspace, self.shipped),
            *find_in_dependencies(self.workspace, self._jars),
        ]
        return _read_skills(candidates, checks_own=True)

    def skills(self) -> tuple[Skill, ...]:
        """Return the available skills.

        If the settings include several skills with the same name, only the first is available.
        """
        offered: dict[str, Skill] = {}
        for skill in self._found.skills:
            if self.selection.includes(skill):
                offered.setdefault(skill.id, skill)
        return tuple(offered.values())

    def visible_skills(self, hidden: Collection[str] = ()) -> tuple[Skill, ...]:
        """Return the available skills, except those whose ids are `hidden`."""
        return tuple(skill for skill in self.skills() if skill.id not in hidden)

    def find(self, uri: str) -> tuple[Skill, str]:
        """Return the skill that a URI refers to, and the path within the skill, or "" for the skill itself.

        The path need not exist.

        Raises:
            RefusedError: no such skill is available, or the path is absolute or leads out of the skill, even after
                decoding.
        """
        names = [unquote(name) for name in uri.removeprefix(URI_PREFIX).split("/")]
        if not uri.startswith(URI_PREFIX):
            raise self.not_found_error(uri)
        by_id = {skill.id: skill for skill in self.skills()}
        for end in range(len(names), 0, -1):
            skill = by_id.get("/".join(names[:end]))
            if skill is not None and not any("/" in name for name in names[:end]):
                path = names[end:]
                if {"", ".", ".."} & {*path} or any(map(_UNSERVED_CHARACTER.search, path)):
                    raise _bad_path_error(uri)
                return skill, "/".join(path)
        raise self.not_found_error(uri)

    def read(self, uri: str) -> tuple[str, bytes]:
        """Return the path of a file within its skill, and its content.

        Raises:
            RefusedError: the file does not exist or must not be read.
        """
        skill, path = self.find(uri)
        try:
            content = skill.folder.read(path)
        except PermissionError as error:
            raise _bad_path_error(uri) from error
        except OSError:
            content = None
        if content is None:
            raise self.not_found_error(uri)
        return path, content

    def not_found_error(self, uri: str) -> RefusedError:
        """Return the error for a URI that does not belong to any skill or to any file in a skill."""
        names = ", ".join([skill.id for skill in self.skills()]) or "none"
        hint = f"skills/list and resources/list list the URIs of all skills: {names}"
        return refused("no-such-skill", f"there is no skill or file at {uri}", hint=hint)

    def select(self, selection: SkillSelection) -> bool:
        """Change which skills are available. Return whether that makes a difference."""
        before, self.selection = self.skills(), selection
        self._read()
        return self.skills() != before

    def changed(self) -> bool:
        """Read the disk again, and return whether the available skills or any of their files have changed."""
        before, stamp = self.skills(), self._stamp
        self._read()
        return self.skills() != before or self._stamp != stamp

    def _read(self) -> None:
        candidates = [*find_workspace_and_shipped(self.workspace, self.shipped)]
        if self.selection.searches_dependencies:
            candidates += find_in_dependencies(self.workspace, self._jars)
        self._found = _read_skills([candidate for candidate in candidates if self.selection.allows(candidate.source)])
        self._stamp = tuple(skill.folder.stamp() for skill in self.skills())


def disabled_skills(*, live_repl: bool, editing: bool, names: Iterable[str]) -> frozenset[str]:
    """Return the names of the skills that the settings disable.

    `live_repl` and `editing` are the settings for two of Codriver's skills. `names` contains further skills to disable.
    """
    switches = {LIVE_REPL_SKILL: live_repl, EDITING_SKILL: editing}
    return frozenset(names) | {name for name, is_on in switches.items() if not is_on}


def sort_key(skill_id: str) -> tuple[int, str]:
    """Return a sort key that puts Codriver's skills first and sorts the others by name."""
    return _SKILL_ORDER.index(skill_id) if skill_id in _SKILL_ORDER else len(_SKILL_ORDER), skill_id


def _read_skills(candidates: Sequence[SkillCandidate], *, checks_own: bool = False) -> FoundSkills:
    """Return all skills in order. Skills with the same name are in the order of their locations."""
    skills: list[Skill] = []
    problems: list[str] = []
    for candidate in candidates:
        try:
            skills.append(_read_skill(candidate, checks=checks_own or candidate.source != OWN_SOURCE))
        except (OSError, FrontMatterError, TooManyFilesError) as error:
            problem = error.strerror or error if isinstance(error, OSError) else error
            what = f"{GUIDE_FILE} cannot be read: " if isinstance(error, OSError) else ""
            problems.append(f"{candidate.path}: {what}{problem}")
    return FoundSkills(tuple(sorted(skills, key=lambda skill: sort_key(skill.id))), tuple(problems))


def _read_skill(candidate: SkillCandidate, *, checks: bool) -> Skill:
    """Return the skill in a directory.

    Raises:
        OSError, FrontMatterError, TooManyFilesError: the directory does not contain a skill that all clients can use.
    """
    guide = candidate.folder.read(GUIDE_FILE)
    if guide is None:
        raise FileNotFoundError("the file is missing or exceeds the maximum size")
    if checks:
        name = read_front_matter(guide)["name"]
        if name != candidate.name:
            raise FrontMatterError(
                f"{GUIDE_FILE} names the skill {name}, but its folder is {candidate.name}. Make the two names match"
            )
        candidate.folder.tree()
    is_own = candidate.source in (WORKSPACE_SOURCE, OWN_SOURCE)
    skill_id = candidate.name if is_own else f"{DEPENDENCY_PREFIX}{candidate.source}/{candidate.name}"
    return Skill(skill_id, candidate.source, candidate.folder, guide)


def _bad_path_error(uri: str) -> RefusedError:
    """Return the error for a URI whose path is malformed or leads out of its skill."""
    return refused(
        "path-refused",
        f"{uri} is not the path of a file inside the skill's folder",
        hint="pass a path inside the skill as its SKILL.md names it, without empty parts, `.` or `..`",
    )
