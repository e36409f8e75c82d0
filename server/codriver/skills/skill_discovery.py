"""Find skills in the workspace, in Codriver, and in the packages and jars that the workspace depends on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.files import FileRules, Links
from codriver.skills.folders import GUIDE_FILE, DiskDirectory, JarDirectory, file_stamp, resolve_links
from codriver.skills.jars import entry_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from codriver.skills.folders import SkillDirectory


OWN_SOURCE: Final = "codriver"
"""Name of the source for the skills that the server includes."""
WORKSPACE_SOURCE: Final = "workspace"
MAX_ENTRIES_PER_LOCATION: Final = 1000
"""Maximum number of skills in one location, and of jars in one project. Any others are ignored."""
WRITE_TIME_INDEX: Final = 3
"""Index, in a file's stamp, of the time when its content was last changed."""
_CLASSPATH_RULES: Final = FileRules(Links.WITHIN, files.MEBIBYTE)
_PACKAGE_SKILL_GLOBS: Final = ("*/skills/*/SKILL.md", "*/.codriver/skills/*/SKILL.md")
_JAR_SKILL_PATTERN: Final = re.compile(r"((?:META-INF/)?skills/([^/]+)/)SKILL\.md")


@dataclass(frozen=True, slots=True)
class SkillCandidate:
    """A directory that may contain a skill: its name, its files, and a path to display."""

    source: str
    name: str
    folder: SkillDirectory
    path: Path


class JarIndex:
    """A cache of the skills that each jar contains. Only jars that have changed are opened again."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._known: dict[Path, tuple[object, tuple[tuple[str, str], ...]]] = {}

    def skills(self, jar: Path) -> tuple[tuple[str, str], ...]:
        """Return the directory and name of each skill in a jar."""
        stamp = file_stamp(jar)
        known = self._known.get(jar)
        if known is None or known[0] != stamp:
            known = self._known[jar] = (stamp, _find_in_jar(jar, self._workspace))
        return known[1]


def find_workspace_and_shipped(workspace: Path, shipped: Path) -> Iterator[SkillCandidate]:
    """Yield the candidates in the workspace and in Codriver, in order of precedence."""
    yield from _find_on_disk(WORKSPACE_SOURCE, workspace / ".codriver" / "skills", workspace)
    yield from _find_on_disk(OWN_SOURCE, shipped, shipped)


def find_in_dependencies(workspace: Path, jars: JarIndex) -> Iterator[SkillCandidate]:
    """Yield the candidates in the packages and jars that the workspace depends on."""
    for packages in _find_site_packages(workspace):
        for pattern in _PACKAGE_SKILL_GLOBS:
            for file in sorted(islice(packages.glob(pattern), MAX_ENTRIES_PER_LOCATION)):
                if resolve_links(file).is_relative_to(resolve_links(packages)):
                    source = file.relative_to(packages).parts[0]
                    yield SkillCandidate(source, file.parent.name, DiskDirectory(file.parent, packages), file.parent)
    for jar in _find_jars(workspace):
        for prefix, name in jars.skills(jar):
            yield SkillCandidate(jar_name(jar), name, JarDirectory(jar, prefix, workspace), jar / prefix)


def jar_name(jar: Path) -> str:
    """Return the name of a jar without its version and extension."""
    return re.sub(r"-\d.*\Z", "", jar.stem).lower()


def _find_on_disk(source: str, place: Path, within: Path) -> Iterator[SkillCandidate]:
    """Yield the candidates in a directory of skills. Those whose links lead out of `within` are skipped."""
    try:
        entries = sorted(islice(place.iterdir(), MAX_ENTRIES_PER_LOCATION))
    except OSError:
        return
    for entry in entries:
        root = resolve_links(entry)
        if (root / GUIDE_FILE).is_file() and root.is_relative_to(resolve_links(within)):
            yield SkillCandidate(source, entry.name, DiskDirectory(entry, within), entry)


def _find_site_packages(workspace: Path) -> Iterator[Path]:
    for venv in (".venv", "venv"):
        yield from sorted((workspace / venv).glob("lib/python*/site-packages"))
        yield from sorted((workspace / venv).glob("Lib/site-packages"))


def _find_jars(workspace: Path) -> tuple[Path, ...]:
    """Return the jars on the newest classpath of the Clojure CLI, and those in `lib/`."""
    jars = sorted(islice((workspace / "lib").glob("*.jar"), MAX_ENTRIES_PER_LOCATION))
    classpaths = list(islice((workspace / ".cpcache").glob("*.cp"), MAX_ENTRIES_PER_LOCATION))
    classpaths.sort(key=lambda file: file_stamp(file)[1][WRITE_TIME_INDEX], reverse=True)
    for file in classpaths[:1]:
        try:
            names = files.read_text(file, _CLASSPATH_RULES, root=workspace).strip().split(":")
        except (OSError, UnicodeDecodeError):
            continue
        jars += [workspace / name for name in names if name.endswith(".jar")]
    return tuple(jars[:MAX_ENTRIES_PER_LOCATION])


def _find_in_jar(jar: Path, workspace: Path) -> tuple[tuple[str, str], ...]:
    """Return the directory and name of each skill in a jar."""
    found = (_JAR_SKILL_PATTERN.fullmatch(name) for name in entry_sizes(jar, workspace))
    return tuple(islice(((match.group(1), match.group(2)) for match in found if match), MAX_ENTRIES_PER_LOCATION))
