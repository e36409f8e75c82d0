"""The places where skills lie, and the files of one skill, on disk or in a jar."""

from __future__ import annotations

import contextlib
import io
import os
import re
import zipfile
import zlib
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from codriver import files
from codriver.files import (
    LinkRefusedError,
    Links,
    NotRegularError,
    Rules,
    TooLargeError,
)
from codriver.files.stamp import MISSING, stamp_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codriver.files import Stamp

FILE: Final = "SKILL.md"
MAX_FILE_BYTES: Final = 1 << 20
"""A guide for agents is a few kilobytes; what is larger than this is none."""

MAX_ENTRIES: Final = 1000
"""Skills of one place, files of one skill, jars of one project: what is more is left out."""
_SKILL_FILE: Final = Rules(Links.WITHIN, MAX_FILE_BYTES)
_CLASSPATH: Final = Rules(Links.WITHIN, files.MEBIBYTE)

BROKEN: Final = (OSError, EOFError, RuntimeError, ValueError, zlib.error, zipfile.BadZipFile)
"""What reading a jar can raise: damaged, cut short, encrypted, or packed in a way that is not known."""

PACKED: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
"""The ways that are unpacked: the library unpacks the others whole, and of 1.3 KB makes 3 GB."""

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
        """A value that is another one when a file of the skill has changed."""


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
    """A folder that looks like a skill: the last part of its name, its files, and where it is, for people."""

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
    """Whatever looks like a skill in the workspace's place and in Codriver's own, in the order of precedence."""
    yield from _on_disk("workspace", workspace / ".codriver" / "skills", workspace)
    yield from _on_disk("codriver", shipped, shipped)


def find_in_dependencies(workspace: Path, jars: JarIndex) -> Iterator[Candidate]:
    """Whatever looks like a skill in the packages and jars that the workspace depends on."""
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
    """The name of a file, and its stamp; zeros when it is gone."""
    try:
        return str(file), stamp_of(file.stat())
    except OSError:
        return str(file), MISSING


def _resolved(path: Path) -> Path:
    """The path without links. Unlike `Path.resolve`, it takes a link to itself for a file that is not there."""
    return Path(os.path.realpath(path))


class _BoundedFile(io.FileIO):
    """A file of which only so many bytes are read, all reads together."""

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
    """The names of a jar's entries; none when it cannot be read."""
    try:
        with _opened(jar, workspace, MAX_LISTED_BYTES) as archive:
            return archive.namelist()
    except BROKEN:
        return []


def read_entry(jar: Path, workspace: Path, name: str, most_bytes: int) -> bytes | None:
    """One entry of a jar; None when there is none, it is larger than `most_bytes`, or it cannot be read."""
    try:
        # Deflate may make an entry larger than it was, by some bytes.
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
    """A jar of the workspace, or one that lies elsewhere and is the user's, such as in `~/.m2`."""
    is_inside = _normal(jar).startswith(f"{_normal(workspace)}{os.sep}")
    rules = Rules(Links.WITHIN if is_inside else Links.OWN, 0)
    with files.locate(jar, rules.links, root=workspace if is_inside else None) as place:
        descriptor = place.open(rules)
    with _BoundedFile(descriptor, most_bytes) as file, zipfile.ZipFile(file) as archive:
        yield archive


def _normal(path: Path) -> str:
    return os.path.normpath(path)
