"""Find the modules that import others by scanning their sources for import statements, without parsing."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

MAX_IMPORTERS = 80
"""Maximum number of modules that are returned. Those nearest to the edited modules come first."""
_IMPORT_STATEMENT_PATTERN = re.compile(
    rb"^[^\S\n]*(?:from[^\S\n]+(?P<module>[.\w]+)[^\S\n]+import\b(?P<names>[^\n(;#]*(?:\([^)]*\))?)"
    rb"|import[^\S\n]+(?P<modules>[^\n;#]+))",
    re.MULTILINE,
)
_NAME_PATTERN = re.compile(rb"\w+")
_DOTTED_NAME_PATTERN = re.compile(rb"[\w.]+")


def imported_names(source: bytes, module: str, *, is_package: bool) -> Iterator[str]:
    """Yield the dotted names of modules, and of names in modules, that a source may import."""
    package = module if is_package else module.rpartition(".")[0]
    for match in _IMPORT_STATEMENT_PATTERN.finditer(source):
        if match["modules"] is not None:
            for part in match["modules"].split(b","):
                found = _DOTTED_NAME_PATTERN.match(part.strip())
                if found is not None:
                    yield from _iter_parents(_decode(found[0]))
            continue
        base = _resolve(_decode(match["module"]), package)
        if base is not None:
            yield from _iter_parents(base)
            yield from (f"{base}.{_decode(name)}" for name in _NAME_PATTERN.findall(match["names"]))


def find_importers(
    edited: Collection[str], modules: Mapping[str, str], read: Callable[[str], bytes], most: int = MAX_IMPORTERS
) -> list[str]:
    """Return the edited modules and the modules that import them directly or indirectly, nearest first.

    `modules` maps the names of candidates to their files. `read` returns the source in a file.
    """
    direct: dict[str, list[str]] = {}
    for name, file in modules.items():
        names = set(imported_names(read(file), name, is_package=file.endswith("__init__.py")))
        for item in names:
            if item in modules and item != name:
                direct.setdefault(item, []).append(name)
    found = list(dict.fromkeys(edited))
    for name in found:  # this list grows
        found += (item for item in direct.get(name, ()) if item not in found and len(found) < most)
    return found


def _iter_parents(dotted: str) -> Iterator[str]:
    while dotted:
        yield dotted
        dotted = dotted.rpartition(".")[0]


def _resolve(name: str, package: str) -> str | None:
    """Return the absolute name of a relative import in a package, or None if it is above the top level."""
    level = len(name) - len(name.lstrip("."))
    if not level:
        return name
    parts = package.split(".") if package else []
    if level - 1 > len(parts):
        return None
    base = parts[: len(parts) - level + 1]
    return ".".join([*base, name[level:]] if name[level:] else base) or None


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")
