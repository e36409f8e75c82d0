"""The skills of a workspace as resources: list, index, read, and whether anything changed.

They lie on disk or in jars; the places are those that `codriver.skills` names.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import zipfile
import zlib
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import unquote

from codriver import files
from codriver.errors import RefusedError, refused
from codriver.files import LinkRefusedError, Links, NotRegularError, Rules, TooLargeError
from codriver.files.own_folders import shipped_folder
from codriver.files.whole_files import MISSING, stamp_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from codriver.files import Stamp


LIVE_REPL: Final = "live-repl"
EDITING: Final = "editing-lisp-files"
LIVE_APP: Final = "live-app"
"""The skill that is hidden while no application shows itself: its guide is read where the application's name is known.
"""
OWN: Final = "codriver"
"""The source of those that come with the server."""
INDEX_URI: Final = "skill://index.json"

MAX_DESCRIPTION_CHARS: Final = 1024
"""The characters of a description: those of all skills are read before any skill is."""

_ORDER: Final = (LIVE_REPL, EDITING, LIVE_APP)
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_MIME: Final = {".md": "text/markdown", ".json": "application/json", ".txt": "text/plain"}


def _leads_out(uri: str) -> RefusedError:
    """The refusal of a path that leads out of its skill."""
    return refused(
        "path-refused",
        f"{uri} leads out of the skill's folder",
        hint="give a path inside the skill, as its SKILL.md names it",
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
        """The address at which the skill's guide is read."""
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
    """All skills there are, whether offered or not, and the faults of those that could not be used."""

    skills: tuple[Skill, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """The skills that the settings allow: `sources` beside Codriver's own, and names that are switched off."""

    sources: frozenset[str] = frozenset()
    disabled: frozenset[str] = frozenset()

    def offers(self, skill: Skill) -> bool:
        """Whether agents get to see this skill."""
        return (skill.source == OWN or skill.source in self.sources) and skill.id not in self.disabled

    @property
    def looks_into_dependencies(self) -> bool:
        """Whether any dependency may offer skills: only then is it worth looking for them."""
        return bool(self.sources - {"workspace"})


@dataclass(slots=True)
class SkillLibrary:
    """The skills of one workspace, for the life of a server. `changed` and `select` look at the disk again.

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
        """All skills, on offer or not, for people who decide what to allow."""
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
            RefusedError: no such skill is on offer, or the skill has no such text file; or the path is absolute or
                leads out of the skill, also after decoding.
        """
        if uri == INDEX_URI and self.skills():
            return "application/json", self._index(hidden)
        scheme, _, rest = uri.partition("://")
        name, slash, path = rest.partition("/")
        name, path = unquote(name), unquote(path) if slash and path else FILE
        skill = next((skill for skill in self.skills() if skill.id == name), None)
        if scheme != "skill" or skill is None:
            raise self._nothing_at(uri)
        if re.search(r"[\\\x00:]", path) or {"", ".", ".."} & set(path.split("/")):
            raise _leads_out(uri)
        try:
            content = skill.folder.read(path)
            text = content.decode("utf-8") if content is not None else None
        except PermissionError as error:
            raise _leads_out(uri) from error
        except (OSError, UnicodeDecodeError):
            text = None
        if text is None:
            raise self._nothing_at(uri)
        return _MIME.get(Path(path).suffix, "text/plain"), text

    def _nothing_at(self, uri: str) -> RefusedError:
        """The refusal for an unknown skill, or an unknown file in it."""
        names = ", ".join([skill.id for skill in self.skills()]) or "none"
        hint = f"read {INDEX_URI} for all skills; they are: {names}"
        return refused("no-such-skill", f"there is nothing at {uri}", hint=hint)

    def select(self, selection: Selection) -> bool:
        """Offer the skills that `selection` allows from now on; true if that changes the skills on offer."""
        before, self.selection = self.skills(), selection
        self._look()
        return self.skills() != before

    def changed(self) -> bool:
        """Look at the disk again; true if the skills on offer, or a file of one, differ from the last look."""
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
    """The skill in a folder, or in words why the folder is no skill."""
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
    is_own = candidate.source in ("workspace", OWN)
    skill_id = candidate.name if is_own else f"{candidate.source}.{candidate.name}"
    return Skill(skill_id, description, candidate.source, candidate.folder)


FILE: Final = "SKILL.md"
MAX_FILE_BYTES: Final = 1 << 20
"""A guide for agents is a few kilobytes; a larger file is no guide."""

MAX_ENTRIES: Final = 1000
"""Skills of one place, files of one skill, jars of one project: any more are left out."""
_SKILL_FILE: Final = Rules(Links.WITHIN, MAX_FILE_BYTES)
_CLASSPATH: Final = Rules(Links.WITHIN, files.MEBIBYTE)

BROKEN: Final = (OSError, EOFError, RuntimeError, ValueError, zlib.error, zipfile.BadZipFile)
"""The errors of reading a jar: damaged, cut short, encrypted, or packed in a way that is not known."""

PACKED: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
"""The compressions that are unpacked: the library unpacks all others whole, and makes 3 GB of 1.3 KB."""

MAX_LISTED_BYTES: Final = 4 * files.MEBIBYTE
"""Bytes read of a jar to list its entries, about 40,000: a JDK's own has fewer."""

_IN_PACKAGE: Final = ("*/skills/*/SKILL.md", "*/.codriver/skills/*/SKILL.md")
_IN_JAR: Final = re.compile(r"((?:META-INF/)?skills/([^/]+)/)SKILL\.md")


class Folder(Protocol):
    """The folder in which the files of one skill lie."""

    def read(self, path: str) -> bytes | None:
        """The file at a relative path, None when there is none.

        Raises:
            PermissionError: a link leads out.
        """

    def stamp(self) -> object:
        """A value that differs when a file of the skill has changed."""


@dataclass(frozen=True, slots=True)
class DiskFolder:
    """A folder on disk. `within`: where its links have to stay, the workspace for a skill of it."""

    root: Path
    within: Path

    def read(self, path: str) -> bytes | None:
        """See `Folder.read`."""
        try:
            return files.read(self.root / path, _SKILL_FILE, root=self.within)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError, NotRegularError, TooLargeError):
            return None
        except LinkRefusedError as error:
            raise PermissionError(path) from error

    def stamp(self) -> object:
        """See `Folder.stamp`."""
        return tuple(_stamp(file) for file in sorted(islice(self.root.rglob("*"), MAX_ENTRIES)))


@dataclass(frozen=True, slots=True)
class JarFolder:
    """A folder in a jar."""

    jar: Path
    prefix: str
    workspace: Path

    def read(self, path: str) -> bytes | None:
        """See `Folder.read`."""
        return read_entry(self.jar, self.workspace, self.prefix + path, MAX_FILE_BYTES)

    def stamp(self) -> object:
        """See `Folder.stamp`."""
        return _stamp(self.jar)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A folder that looks like a skill: the last part of its name, its files, and its place, for people."""

    source: str
    name: str
    folder: Folder
    place: Path


class JarIndex:
    """The index of the skills in each jar, for the life of a library. A changed jar alone is opened again."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._known: dict[Path, tuple[object, tuple[tuple[str, str], ...]]] = {}

    def skills(self, jar: Path) -> tuple[tuple[str, str], ...]:
        """The folder and the name of each skill in a jar."""
        stamp = _stamp(jar)
        known = self._known.get(jar)
        if known is None or known[0] != stamp:
            known = self._known[jar] = (stamp, _in_jar(jar, self._workspace))
        return known[1]


def find_own(workspace: Path, shipped: Path) -> Iterator[Candidate]:
    """The folders that look like a skill in the workspace's place and in Codriver's own, in the order of precedence."""
    yield from _on_disk("workspace", workspace / ".codriver" / "skills", workspace)
    yield from _on_disk(OWN, shipped, shipped)


def find_in_dependencies(workspace: Path, jars: JarIndex) -> Iterator[Candidate]:
    """The folders that look like a skill in the packages and jars that the workspace depends on."""
    for packages in _site_packages(workspace):
        for pattern in _IN_PACKAGE:
            for file in sorted(islice(packages.glob(pattern), MAX_ENTRIES)):
                if _resolved(file).is_relative_to(_resolved(packages)):
                    source = file.relative_to(packages).parts[0]
                    yield Candidate(source, file.parent.name, DiskFolder(file.parent, packages), file.parent)
    for jar in _jars(workspace):
        for prefix, name in jars.skills(jar):
            yield Candidate(jar_name(jar), name, JarFolder(jar, prefix, workspace), jar / prefix)


def jar_name(jar: Path) -> str:
    """The name of a jar's artifact: its file name without version."""
    return re.sub(r"-\d.*\Z", "", jar.stem).lower()


def _on_disk(source: str, place: Path, within: Path) -> Iterator[Candidate]:
    """The skills in a folder of skills. Links that lead out of `within` are passed over."""
    try:
        entries = sorted(islice(place.iterdir(), MAX_ENTRIES))
    except OSError:
        return
    for entry in entries:
        root = _resolved(entry)
        if (root / FILE).is_file() and root.is_relative_to(_resolved(within)):
            yield Candidate(source, entry.name, DiskFolder(entry, within), entry)


def _site_packages(workspace: Path) -> Iterator[Path]:
    for venv in (".venv", "venv"):
        yield from sorted((workspace / venv).glob("lib/python*/site-packages"))
        yield from sorted((workspace / venv).glob("Lib/site-packages"))


def _jars(workspace: Path) -> tuple[Path, ...]:
    """The jars that the newest classpath of the Clojure CLI names, and those in `lib/`."""
    jars = sorted(islice((workspace / "lib").glob("*.jar"), MAX_ENTRIES))
    classpaths = list(islice((workspace / ".cpcache").glob("*.cp"), MAX_ENTRIES))
    classpaths.sort(key=lambda file: (_stamp(file), file), reverse=True)
    for file in classpaths[:1]:
        try:
            names = files.read_text(file, _CLASSPATH, root=workspace).strip().split(":")
        except (OSError, UnicodeDecodeError):
            continue
        jars += [workspace / name for name in names if name.endswith(".jar")]
    return tuple(jars[:MAX_ENTRIES])


def _in_jar(jar: Path, workspace: Path) -> tuple[tuple[str, str], ...]:
    """The folder and the name of each skill in a jar."""
    found = (_IN_JAR.fullmatch(name) for name in entry_names(jar, workspace))
    return tuple(islice(((match.group(1), match.group(2)) for match in found if match), MAX_ENTRIES))


def _stamp(file: Path) -> tuple[str, Stamp]:
    """The name of a file, and its stamp; zeros for a missing file."""
    try:
        return str(file), stamp_of(file.stat())
    except OSError:
        return str(file), MISSING


def _resolved(path: Path) -> Path:
    """The path without links. Unlike `Path.resolve`, it takes a link to itself for a file that is not there."""
    return Path(os.path.realpath(path))


class _BoundedFile(io.FileIO):
    """A file with a bound on the bytes of all reads together."""

    def __init__(self, descriptor: int, most_bytes: int) -> None:
        super().__init__(descriptor, "rb")
        self._left = most_bytes

    def read(self, size: int | None = -1, /) -> bytes:
        """See the base class. Raises OSError beyond the bound."""
        wanted = self._left + 1 if size is None or size < 0 else min(size, self._left + 1)
        data = super().read(wanted) or b""
        self._left -= len(data)
        if self._left < 0:
            raise OSError("more has to be read of this jar than is read of any")
        return data


def entry_names(jar: Path, workspace: Path) -> list[str]:
    """The names of a jar's entries; none for a jar that cannot be read."""
    try:
        with _opened(jar, workspace, MAX_LISTED_BYTES) as archive:
            return archive.namelist()
    except BROKEN:
        return []


def read_entry(jar: Path, workspace: Path, name: str, most_bytes: int) -> bytes | None:
    """One entry of a jar; None for a missing one, one larger than `most_bytes`, or one that cannot be read."""
    try:
        # Deflate may make an entry larger by some bytes.
        with _opened(jar, workspace, MAX_LISTED_BYTES + 2 * most_bytes) as archive:
            entry = archive.getinfo(name)
            if entry.compress_type not in PACKED or entry.file_size > most_bytes or entry.is_dir():
                return None
            with archive.open(entry) as file:
                data = file.read(most_bytes + 1)
            return data if len(data) <= most_bytes else None
    except (KeyError, *BROKEN):
        return None


@contextlib.contextmanager
def _opened(jar: Path, workspace: Path, most_bytes: int) -> Iterator[zipfile.ZipFile]:
    """A jar of the workspace, or a jar elsewhere that is the user's, such as in `~/.m2`, opened."""
    is_inside = _normal(jar).startswith(f"{_normal(workspace)}{os.sep}")
    rules = Rules(Links.WITHIN if is_inside else Links.OWN, 0)
    with files.locate(jar, rules.links, root=workspace if is_inside else None) as place:
        descriptor = place.open(rules)
    with _BoundedFile(descriptor, most_bytes) as file, zipfile.ZipFile(file) as archive:
        yield archive


def _normal(path: Path) -> str:
    return os.path.normpath(path)
