"""The definitions that modules and namespaces have by `import` or `require`, for conflicts: what nobody here sent.

Their files are read when somebody first defines something there: as they were before the first edit that is known, else
as they are.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.files import Links, Rules
from codriver.tools.ledgers.conflict_ledger import Said

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from codriver.tools.calls.base import Call
    from codriver.tools.ledgers.conflict_ledger import Edit, Life

RULES: Final = Rules(Links.NEVER, 2**18)
ROOTS: Final = ("", "src", "test", "tests")
ENDINGS: Final = (".clj", ".cljc", ".cljs", ".lpy")
OWN: Final = frozenset({"__main__", "user", "Hy"})
MOST_BASES: Final = 200
FILED: Final = "a file"


async def learn_bases(call: Call, life: Life) -> None:
    """Know what the spaces had in which something was sent, as far as that can be known by now."""
    for said in life.said:
        if said.number > life.based:
            life.based = said.number
            if said.language != "hy" and len(life.bases) < MOST_BASES:
                life.bases |= {one.space: said for one in said.makings() if one.space not in {*life.bases, *OWN}}
    wanted = {space: said for space, said in life.bases.items() if said is not None}
    if wanted:
        work = partial(_read, call.services.workspace, wanted, dict(call.services.ledger.conflicts.edits))
        for space, base in (await call.services.work.files.run(call.client, work)).items():
            if life.bases.get(space) is not None:
                life.bases[space] = None
                if base is not None:
                    life.begin_with(base)


def _read(
    workspace: Path, wanted: Mapping[str, Said], edits: Mapping[Path, tuple[Edit, ...]]
) -> dict[str, Said | None]:
    """By space the text of its file, as code that was there before all that was sent; None without a file. Blocks.

    What was first sent may be the whole file: without an edit of it, what that replaced is not known, and may be later.
    """
    found: dict[str, Said | None] = {}
    for space, said in wanted.items():
        path = next((path for path in _places(workspace, space, said.language) if path.is_file()), None)
        befores = [edit.before for edit in edits.get(path, ()) if edit.before is not None] if path is not None else []
        if path is None or befores or not said.is_file:
            found[space] = _base(workspace, space, said, path, befores)
    return found


def _base(workspace: Path, space: str, said: Said, path: Path | None, befores: list[str]) -> Said | None:
    if path is None:
        return None
    try:
        code = befores[0] if befores else files.read_text(path, RULES, root=workspace)
    except (OSError, ValueError):
        return None
    return Said("", 0, FILED, None, 0, code, said.language, space, is_file=True, place=path.name)


def _places(workspace: Path, space: str, language: str) -> Iterator[Path]:
    """The files in which a module or namespace may be."""
    parts = space.split(".") if language == "python" else space.replace("-", "_").split(".")
    for root in ROOTS:
        place = workspace.joinpath(root, *parts)
        if language == "python":
            yield place.with_name(f"{place.name}.py")
            yield place / "__init__.py"
        else:
            yield from (place.with_name(place.name + ending) for ending in ENDINGS)
