"""The skills of a workspace: which are available, their files by address, and whether anything has changed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from codriver.errors import RefusedError, refused
from codriver.files.codriver_paths import shipped_directory
from codriver.skills.discovery import (
    OWN_SOURCE,
    WORKSPACE_SOURCE,
    JarIndex,
    find_in_dependencies,
    find_workspace_and_shipped,
)
from codriver.skills.folders import GUIDE_FILE, TooManyFilesError
from codriver.skills.front_matter import FrontMatterError, read_front_matter

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from codriver.skills.discovery import SkillCandidate
    from codriver.skills.folders import SkillDirectory


LIVE_REPL_SKILL: Final = "live-repl"
EDITING_SKILL: Final = "editing-lisp-files"
LIVE_APP_SKILL: Final = "live-app"
"""The skill that is hidden while no application can be inspected. Its guide can nevertheless be read by name."""
URI_PREFIX: Final = "skill://"
DEPENDENCY_PREFIX: Final = "lib."
"""Prefix of the first path segment in addresses of dependencies' skills. Skill names contain no full stop."""
UNENCODED_CHARACTERS: Final = "/!$&'()*+,;=@"
"""Characters of a path that are not percent-encoded in addresses."""

_SKILL_ORDER: Final = (LIVE_REPL_SKILL, EDITING_SKILL, LIVE_APP_SKILL)
_UNSERVED_CHARACTER: Final = re.compile(r"[\\\x00/:]")


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill. `id` is its path in addresses; `source` is `codriver`, `workspace`, or the dependency's name."""

    id: str
    source: str
    folder: SkillDirectory
    guide: bytes
    """The content of its `SKILL.md`."""

    @property
    def front_matter(self) -> Mapping[str, Any]:
        """Return the front matter of its `SKILL.md`.

        Raises:
            FrontMatterError: it is not usable. Only Codriver's own skills are not checked in advance.
        """
        return read_front_matter(self.guide)

    @property
    def description(self) -> str:
        """Return the description of the skill."""
        return str(self.front_matter["description"])

    @property
    def uri(self) -> str:
        """Return the address of the skill's guide."""
        return self.address(GUIDE_FILE)

    def address(self, path: str = "") -> str:
        """Return the address of a file or directory by its path within the skill, or of the skill's directory."""
        return f"{URI_PREFIX}{quote(f'{self.id}/{path}'.rstrip('/'), safe=UNENCODED_CHARACTERS)}"


@dataclass(frozen=True, slots=True)
class FoundSkills:
    """All skills that were found, available or not, and the errors of those that are not usable."""

    skills: tuple[Skill, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SkillSelection:
    """The skills that the settings allow: those of Codriver and of `sources`, except the `disabled` names."""

    sources: frozenset[str] = frozenset()
    disabled: frozenset[str] = frozenset()

    def allows(self, source: str) -> bool:
        """Return whether skills from this source may be available."""
        return source == OWN_SOURCE or source in self.sources

    def includes(self, skill: Skill) -> bool:
        """Return whether agents can see this skill."""
        return self.allows(skill.source) and skill.id not in self.disabled

    @property
    def searches_dependencies(self) -> bool:
        """Return whether dependencies may provide skills. Otherwise they are not searched."""
        return bool(self.sources - {WORKSPACE_SOURCE})


@dataclass(slots=True)
class SkillLibrary:
    """The skills of one workspace. Lives as long as the server. `changed` and `select` read the disk again.

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
        self._look()

    def find_all(self) -> FoundSkills:
        """Return all skills, available or not, so that people can decide which to allow."""
        candidates = [
            *find_workspace_and_shipped(self.workspace, self.shipped),
            *find_in_dependencies(self.workspace, self._jars),
        ]
        return _read_skills(candidates, checks_own=True)

    def skills(self) -> tuple[Skill, ...]:
        """Return the available skills.

        Of several with the same name, the first is used; disabled ones hide no other.
        """
        offered: dict[str, Skill] = {}
        for skill in self._found.skills:
            if self.selection.includes(skill):
                offered.setdefault(skill.id, skill)
        return tuple(offered.values())

    def visible_skills(self, hidden: Collection[str] = ()) -> tuple[Skill, ...]:
        """Return the available skills whose ids are not `hidden`."""
        return tuple(skill for skill in self.skills() if skill.id not in hidden)

    def find(self, uri: str) -> tuple[Skill, str]:
        """Return the skill that an address refers to, and the path within it, which may not exist.

        The path is empty for the skill's directory.

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
                    raise _leads_out(uri)
                return skill, "/".join(path)
        raise self.not_found_error(uri)

    def read(self, uri: str) -> tuple[str, bytes]:
        """Return the path and the content of a skill's file.

        Raises:
            RefusedError: the file does not exist or must not be read.
        """
        skill, path = self.find(uri)
        try:
            content = skill.folder.read(path)
        except PermissionError as error:
            raise _leads_out(uri) from error
        except OSError:
            content = None
        if content is None:
            raise self.not_found_error(uri)
        return path, content

    def not_found_error(self, uri: str) -> RefusedError:
        """Return the refusal for an unknown skill, or an unknown file in it."""
        names = ", ".join([skill.id for skill in self.skills()]) or "none"
        hint = f"skills/list and resources/list have the addresses of all skills; they are: {names}"
        return refused("no-such-skill", f"there is nothing at {uri}", hint=hint)

    def select(self, selection: SkillSelection) -> bool:
        """Change the selection. Return whether this changes the available skills."""
        before, self.selection = self.skills(), selection
        self._look()
        return self.skills() != before

    def changed(self) -> bool:
        """Read the disk again. Return whether the available skills or one of their files have changed."""
        before, stamp = self.skills(), self._stamp
        self._look()
        return self.skills() != before or self._stamp != stamp

    def _look(self) -> None:
        candidates = [*find_workspace_and_shipped(self.workspace, self.shipped)]
        if self.selection.searches_dependencies:
            candidates += find_in_dependencies(self.workspace, self._jars)
        self._found = _read_skills([candidate for candidate in candidates if self.selection.allows(candidate.source)])
        self._stamp = tuple(skill.folder.stamp() for skill in self.skills())


def disabled_skills(*, live_repl: bool, editing: bool, names: Iterable[str]) -> frozenset[str]:
    """Return the skills that the settings disable: two of Codriver's by their own settings, and any by name."""
    switches = {LIVE_REPL_SKILL: live_repl, EDITING_SKILL: editing}
    return frozenset(names) | {name for name, is_on in switches.items() if not is_on}


def sort_key(skill_id: str) -> tuple[int, str]:
    """Return the sort key of a skill: Codriver's skills first, then by name."""
    return _SKILL_ORDER.index(skill_id) if skill_id in _SKILL_ORDER else len(_SKILL_ORDER), skill_id


def _read_skills(candidates: Sequence[SkillCandidate], *, checks_own: bool = False) -> FoundSkills:
    """Return every skill in order. Skills with the same name are in the order of their locations."""
    skills: list[Skill] = []
    problems: list[str] = []
    for candidate in candidates:
        try:
            skills.append(_read_skill(candidate, checks=checks_own or candidate.source != OWN_SOURCE))
        except (OSError, FrontMatterError, TooManyFilesError) as error:
            problem = error.strerror or error if isinstance(error, OSError) else error
            subject = "" if isinstance(error, TooManyFilesError) else f"{GUIDE_FILE} "
            verb = "cannot be read: " if isinstance(error, OSError) else ""
            problems.append(f"{candidate.path}: {subject}{verb}{problem}")
    return FoundSkills(tuple(sorted(skills, key=lambda skill: sort_key(skill.id))), tuple(problems))


def _read_skill(candidate: SkillCandidate, *, checks: bool) -> Skill:
    """Return the skill in a directory.

    Raises:
        OSError, FrontMatterError, TooManyFilesError: the directory is not a skill that every client can use.
    """
    guide = candidate.folder.read(GUIDE_FILE)
    if guide is None:
        raise FileNotFoundError(f"it is missing, or longer than a skill may be: {GUIDE_FILE}")
    if checks:
        name = read_front_matter(guide)["name"]
        if name != candidate.name:
            raise FrontMatterError(f"names the skill {name}, while its folder is {candidate.name}: make them equal")
        candidate.folder.tree()
    is_own = candidate.source in (WORKSPACE_SOURCE, OWN_SOURCE)
    skill_id = candidate.name if is_own else f"{DEPENDENCY_PREFIX}{candidate.source}/{candidate.name}"
    return Skill(skill_id, candidate.source, candidate.folder, guide)


def _leads_out(uri: str) -> RefusedError:
    """Return the refusal of a path that is malformed or leads out of its skill."""
    return refused(
        "path-refused",
        f"{uri} is not the path of a file inside the skill's folder",
        hint="pass a path inside the skill without empty parts, `.` and `..`, as its SKILL.md names it",
    )
