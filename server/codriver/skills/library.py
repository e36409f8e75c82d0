"""The skills of a workspace as resources: list, index, read, and whether anything changed."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from codriver.errors import RefusedError
from codriver.files.paths import shipped_folder
from codriver.skills.skill_sources import (
    FILE,
    Candidate,
    JarIndex,
    find_in_dependencies,
    find_own,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from codriver.skills.skill_sources import Folder

LIVE_REPL: Final = "live-repl"
EDITING: Final = "editing-lisp-files"
LIVE_APP: Final = "live-app"
"""Hidden where no application shows itself: it is read where its name is known."""
INDEX_URI: Final = "skill://index.json"

MAX_DESCRIPTION_CHARS: Final = 1024
"""Descriptions of all skills are read before any skill is."""

_ORDER: Final = (LIVE_REPL, EDITING, LIVE_APP)
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_MIME: Final = {".md": "text/markdown", ".json": "application/json", ".txt": "text/plain"}


class NoSuchSkillError(RefusedError):
    """There is no such skill, or no such file in it."""

    reason = "no-such-skill"

    def __init__(self, uri: str, known: Iterable[str]) -> None:
        names = ", ".join(known) or "none"
        super().__init__(f"there is nothing at {uri}", hint=f"read {INDEX_URI} for all skills; they are: {names}")


class PathRefusedError(RefusedError):
    """A path leads out of its skill."""

    reason = "path-refused"

    def __init__(self, uri: str) -> None:
        super().__init__(
            f"{uri} leads out of the skill's folder", hint="give a path inside the skill, as its SKILL.md names it"
        )


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill. `id` is its name in addresses; `source` is `codriver`, `workspace`, or the dependency's name."""

    id: str
    description: str
    source: str
    folder: Folder

    @property
    def uri(self) -> str:
        """The address at which its guide is read."""
        return f"skill://{self.id}/{FILE}"


@dataclass(frozen=True, slots=True)
class Entry:
    """A resource to list."""

    uri: str
    name: str
    description: str
    mime_type: str


@dataclass(frozen=True, slots=True)
class Found:
    """All skills there are, whether offered or not, and what is wrong with those that could not be used."""

    skills: tuple[Skill, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """The skills that the settings allow: `sources` beside Codriver's own, and names that are switched off."""

    sources: frozenset[str] = frozenset()
    disabled: frozenset[str] = frozenset()

    def offers(self, skill: Skill) -> bool:
        """Whether agents get to see this skill."""
        return (skill.source == "codriver" or skill.source in self.sources) and skill.id not in self.disabled

    @property
    def looks_into_dependencies(self) -> bool:
        """Whether any dependency may offer skills: only then is it worth looking for them."""
        return bool(self.sources - {"workspace"})


@dataclass(slots=True)
class SkillLibrary:
    """The skills of one workspace, for the life of a server. `changed` and `select` look again on the disk.

    Dependencies, which may be hundreds of jars, are looked into only when the selection allows one.
    """

    workspace: Path
    selection: Selection = field(default_factory=Selection)
    shipped: Path = field(default_factory=lambda: shipped_folder("skills"))
    _jars: JarIndex = field(init=False)
    _found: Found = field(init=False)
    _stamp: object = field(init=False)

    def __post_init__(self) -> None:
        self._jars = JarIndex(self.workspace)
        self._look()

    def find_all(self) -> Found:
        """Everything there is, on offer or not, for people who decide what to allow."""
        return self._find(dependencies=True)

    def skills(self) -> tuple[Skill, ...]:
        """The skills on offer. Of those that share a name, the first: one that is off hides none."""
        offered: dict[str, Skill] = {}
        for skill in self._found.skills:
            if self.selection.offers(skill):
                offered.setdefault(skill.id, skill)
        return tuple(offered.values())

    def list(self, hidden: Collection[str] = ()) -> tuple[Entry, ...]:
        """The resources to list: the index, and the guide of each skill on offer whose id is not `hidden`."""
        index = Entry(INDEX_URI, "Skills", "All skills on offer, with their addresses.", "application/json")
        shown = [skill for skill in self.skills() if skill.id not in hidden]
        guides = (Entry(skill.uri, skill.id, skill.description, "text/markdown") for skill in shown)
        return (index, *guides) if shown else ()

    def read(self, uri: str, hidden: Collection[str] = ()) -> tuple[str, str]:
        """The MIME type and the text of a resource: `skill://NAME`, `skill://NAME/FILE` or `skill://index.json`.

        The index leaves out the skills whose ids are `hidden`.

        Raises:
            NoSuchSkillError: there is none on offer, or no such text file in it.
            PathRefusedError: the path is absolute or leads out of the skill, also after decoding.
        """
        if uri == INDEX_URI and self.skills():
            return "application/json", self._index(hidden)
        scheme, _, rest = uri.partition("://")
        name, slash, path = rest.partition("/")
        name, path = unquote(name), unquote(path) if slash and path else FILE
        skill = next((skill for skill in self.skills() if skill.id == name), None)
        if scheme != "skill" or skill is None:
            raise NoSuchSkillError(uri, (skill.id for skill in self.skills()))
        if re.search(r"[\\\x00:]", path) or {"", ".", ".."} & set(path.split("/")):
            raise PathRefusedError(uri)
        try:
            content = skill.folder.read(path)
            text = content.decode("utf-8") if content is not None else None
        except PermissionError as error:
            raise PathRefusedError(uri) from error
        except (OSError, UnicodeDecodeError):
            text = None
        if text is None:
            raise NoSuchSkillError(uri, (skill.id for skill in self.skills()))
        return _MIME.get(Path(path).suffix, "text/plain"), text

    def select(self, selection: Selection) -> bool:
        """Offer what `selection` allows from now on; whether that changes what is on offer."""
        before, self.selection = self.skills(), selection
        self._look()
        return self.skills() != before

    def changed(self) -> bool:
        """Look again, on the disk; whether what is on offer, or a file of it, is another than at the last look."""
        before, stamp = self.skills(), self._stamp
        self._look()
        return self.skills() != before or self._stamp != stamp

    def _look(self) -> None:
        self._found = self._find(dependencies=self.selection.looks_into_dependencies)
        self._stamp = tuple(skill.folder.stamp() for skill in self.skills())

    def _find(self, *, dependencies: bool) -> Found:
        candidates = [*find_own(self.workspace, self.shipped)]
        if dependencies:
            candidates += find_in_dependencies(self.workspace, self._jars)
        return _read_skills(candidates)

    def _index(self, hidden: Collection[str]) -> str:
        rows = [
            {"name": skill.id, "description": skill.description, "uri": skill.uri, "source": skill.source}
            for skill in self.skills()
            if skill.id not in hidden
        ]
        return json.dumps({"skills": rows, "count": len(rows)}, ensure_ascii=False, indent=2)


def _read_skills(candidates: Iterable[Candidate]) -> Found:
    """Every skill, those of Codriver first, then by name, then in the order of the places."""
    skills: list[Skill] = []
    problems: list[str] = []
    for candidate in candidates:
        read = _read_skill(candidate)
        if isinstance(read, Skill):
            skills.append(read)
        else:
            problems.append(f"{candidate.place}: {read}")

    def rank(skill: Skill) -> tuple[int, str]:
        return _ORDER.index(skill.id) if skill.id in _ORDER else len(_ORDER), skill.id

    return Found(tuple(sorted(skills, key=rank)), tuple(problems))


def switched_off(*, live_repl: bool, editing: bool, names: Iterable[str]) -> frozenset[str]:
    """The skills that settings switch off: the two of Codriver by their own switches, any by name."""
    switches = {LIVE_REPL: live_repl, EDITING: editing}
    return frozenset(names) | {name for name, is_on in switches.items() if not is_on}


def read_front_matter(text: str) -> dict[str, str]:
    """The keys and values between the two `---` lines that a text begins with; empty when there are none.

    Values are plain or quoted text; indented lines go on with the value before them, and `>` or `|` begins one.
    """
    found = re.match(r"\ufeff?---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", text, re.DOTALL)
    values: dict[str, str] = {}
    key = ""
    for line in found.group(1).splitlines() if found else ():
        if line[:1] in (" ", "\t") and key:
            values[key] = f"{values[key]} {line.strip()}".strip()
        elif pair := re.match(r"([A-Za-z][\w-]*):[ \t]*(.*?)[ \t]*\Z", line):
            key, value = pair.groups()
            quoted = re.fullmatch(r"(['\"])(.*)\1", value)
            values[key] = quoted.group(2) if quoted else re.sub(r"\A[>|][+-]?\Z", "", value)
    return values


def _read_skill(candidate: Candidate) -> Skill | str:
    """The skill in a folder, or in words why it is none."""
    if not _NAME.fullmatch(candidate.name):
        return "the folder's name may have small letters, digits, - and _ only"
    try:
        content = candidate.folder.read(FILE)
        description = read_front_matter((content or b"").decode("utf-8")).get("description", "")
    except (OSError, UnicodeDecodeError) as error:
        return f"{FILE} cannot be read: {error}"
    if not description:
        return f"{FILE} has no front matter with a description"
    if len(description) > MAX_DESCRIPTION_CHARS:
        return f"the description in {FILE} is longer than {MAX_DESCRIPTION_CHARS} characters"
    is_own = candidate.source in ("workspace", "codriver")
    skill_id = candidate.name if is_own else f"{candidate.source}.{candidate.name}"
    return Skill(skill_id, description, candidate.source, candidate.folder)
