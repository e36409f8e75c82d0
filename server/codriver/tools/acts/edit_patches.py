"""Patches as Codex's and opencode's own tools take them: the files that they leave there, and what they change in each.

Source: Codex, `apply_patch`: sections of files, and in those of changed files lines that stay, go and come.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ADD: Final = "*** Add File: "
UPDATE: Final = "*** Update File: "
MOVE: Final = "*** Move to: "
MOST_FILES: Final = 20


@dataclass(frozen=True, slots=True)
class PatchedFile:
    """A file that is there after a patch. `added`: the whole text of a new one; `replaced`: what went and what came."""

    path: str
    added: str | None = None
    replaced: tuple[tuple[str, str], ...] = ()


def patched_files(patch: str) -> tuple[PatchedFile, ...]:
    """The files that a patch makes or changes, in its order; a moved one by its new name."""
    sections: list[list[str]] = []
    for line in patch.strip().splitlines():
        if line.startswith("*** ") and not line.startswith((MOVE, "*** End of File")):
            sections.append([line])
        elif sections:
            sections[-1].append(line)
    files = [_file(head, lines) for head, *lines in sections if head.startswith((ADD, UPDATE))]
    return tuple(file for file in files if file.path)[:MOST_FILES]


def _file(head: str, lines: list[str]) -> PatchedFile:
    if head.startswith(ADD):
        text = "".join([f"{line[1:]}\n" for line in lines if line.startswith("+")])
        return PatchedFile(head.removeprefix(ADD).strip(), added=text)
    moved = next((line.removeprefix(MOVE) for line in lines if line.startswith(MOVE)), None)
    name = head.removeprefix(UPDATE) if moved is None else moved
    return PatchedFile(name.strip(), replaced=tuple(_hunks(lines)))


def _hunks(lines: list[str]) -> list[tuple[str, str]]:
    """The text that each hunk takes away and the one that it puts there, with the lines around that stay."""
    hunks: list[tuple[list[str], list[str]]] = [([], [])]
    for line in lines:
        if line.startswith("@@"):
            hunks.append(([], []))
        elif not line.startswith("*** "):
            old, new = hunks[-1]
            if not line.startswith("+"):
                old.append(line[1:])
            if not line.startswith("-"):
                new.append(line[1:])
    return [("\n".join(old), "\n".join(new)) for old, new in hunks if old != new]
