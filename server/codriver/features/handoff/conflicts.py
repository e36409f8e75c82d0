"""Conflicts: a caller redefined a name that another uses or is about to redefine; told once, with the difference.

Advice, and never a lock: nothing waits, and nothing is refused. Conflicts are computed from the code that was sent or
written, by name and by the space that the name belongs to. Nobody sends the definitions that an `import` or `require`
loads: their files are read when somebody first defines a name there, in the state before the first known edit, else in
the present one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.core import caller_names
from codriver.core.values import MAIN_SESSION
from codriver.editing import code_names
from codriver.features.handoff.conflict_ledger import (
    MOST_CHARACTERS,
    Conflict,
    Conflicts,
    Life,
    Said,
    ago,
    found,
)
from codriver.files import Links, Rules
from codriver.repls.kinds import dialects_by_suffix
from codriver.tools.calls.session_choice import server_of
from codriver.tools.ledgers.file_edits import is_by_editor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from codriver.core.state import Repl, Session, State
    from codriver.core.values import Evaluation, Request
    from codriver.editing.code_names import Language
    from codriver.tools.calls.call import Call
    from codriver.tools.ledgers.file_edits import Edit, EditedFile


MOST_NOTES: Final = 3
AT_ONCE_CHARACTERS: Final = 2**13
"""The characters of code that is read without a thread of its own."""
RECENT_MS: Final = 3_600_000


def language_of(dialect: str) -> Language:
    """The language that a REPL's code is read as: Lisp for an unknown one."""
    return "python" if dialect == "python" else "hy" if dialect == "hy" else "lisp"


def note_sent(call: Call, repl: Repl, session: Session, request: Request) -> None:
    """Store code that was sent to a REPL, so that other callers can be notified of it."""
    language = language_of(repl.dialect)
    is_apart = language != "lisp" and session.lane is None and session.name != MAIN_SESSION
    evaluation = call.services.core.state.evaluations.get(request.id)
    if is_apart or request.kind == "run-tests" or evaluation is None:
        return
    code = "\n".join(form.text for form in request.forms) if request.kind == "load-forms" else request.code
    if len(code) > MOST_CHARACTERS:
        return
    space = request.namespace or session.namespace or "user"
    life = call.services.part(Conflicts).life(repl)
    if language == "python":
        space = life.module(request.namespace or "__main__")
        if request.kind == "load-file" and request.file:
            space = _module(request.file, str(call.services.workspace))
            life.modules.add(space)
    elif language == "hy":
        space = "Hy"
    at, is_file = evaluation.started_at or call.services.now(), request.kind == "load-file"
    said = Said(request.id, evaluation.number, evaluation.who, call.client, at, code, language, space, is_file)
    life.add(said)


async def notes_of_conflicts(call: Call, evaluation: Evaluation) -> list[str]:
    """The notes of the first answer about an evaluation: others' redefinitions of names that it uses or redefines."""
    life = call.services.part(Conflicts).lives.get(evaluation.repl)
    if life is None or len(life.callers) < 2 or life.generation != evaluation.generation:
        return []
    said = next((one for one in reversed(life.said) if one.evaluation == evaluation.id), None)
    if said is None or said.is_compared:
        return []
    said.is_compared = True
    await learn_bases(call, life)
    return await _notes(call, life, said)


async def _notes(call: Call, life: Life, said: Said) -> list[str]:
    news = sum(len(one.code) for one in takewhile(lambda one: one.number > life.glanced, reversed(life.said)))
    find = partial(found, call.state, life, said)
    if len(said.code) + news <= AT_ONCE_CHARACTERS:
        met = find()
    else:
        met = await call.services.work.editing.run(call.client, find)
    return _told(call, said.who, met)


def _told(call: Call, who: str, met: Sequence[Conflict]) -> list[str]:
    """The conflicts among these that are news to a caller, in words."""
    told = [one for one in met if call.services.part(Conflicts).told.take((call.client, who), one.key)]
    notes = [one.told(call.services.now()) for one in told[:MOST_NOTES]]
    more = len(told) - len(notes)
    return [*notes, f"and {more} more definitions of others: see repl_output_log"] if more else notes


async def notes_of_edit(call: Call, edited: EditedFile) -> list[str]:
    """Return the notes of an edit: others' changes of the file since, and of names that the new definitions use."""
    if edited.edit.after is None:
        note = _others_edit(call, edited)
        return [note] if note else []
    return await _of_edit(call, edited)


async def _of_edit(call: Call, edited: EditedFile) -> list[str]:
    services, state = call.services, call.state
    path, shown, edit, earlier = edited.path, edited.shown, edited.edit, edited.earlier
    is_shared = any(not is_by_editor(state, one, edit.who, edit.client) for one in earlier)
    repl = server_of(path, state.repls.values(), services.workspace)
    life = services.part(Conflicts).lives.get(repl.id) if repl is not None and not isinstance(repl, str) else None
    beside = life is not None and not all(
        caller_names.is_by_caller(state, edit.client, edit.who, caller) for caller in life.callers
    )
    language = _language_of_file(path)
    if language is None or not (is_shared or beside):
        return []
    space = _module(str(path), str(services.workspace)) if language == "python" else "user"
    edits = EditsOf(language, space, shown, (*earlier, edit) if is_shared else (edit,))
    find = partial(_found_in_edit, state, edits, life if beside else None)
    met = await services.work.editing.run(call.client, find)
    told = _told(call, edit.who, met)
    note = _others_edit(call, edited)
    return told or ([note] if note else [])


def _others_edit(call: Call, edited: EditedFile) -> str:
    """Return the note that somebody else edited a file last: once, and within the hour."""
    edit, last = edited.edit, edited.earlier[-1] if edited.earlier else None
    if last is None or is_by_editor(call.state, last, edit.who, edit.client) or edit.at_ms - last.at_ms > RECENT_MS:
        return ""
    is_news = call.services.part(Conflicts).told.take((call.client, edit.who), (edited.shown, last.at_ms))
    return f"{last.who} edited {edited.shown} {ago(edit.at_ms - last.at_ms)} ago" if is_news else ""


@dataclass(frozen=True, slots=True)
class EditsOf:
    """The edits of one file, the newest last, and the language and space of its text."""

    language: Language
    space: str
    shown: str
    edits: tuple[Edit, ...]


def _found_in_edit(state: State, of: EditsOf, life: Life | None) -> list[Conflict]:
    """The conflicts of the newest edit of a file with those before it, and with code sent to a REPL. Blocks."""
    base = of.edits[0].before or ""
    there = Life(0)
    there.add(Said("", 1, "", None, 0, base, of.language, of.space, is_file=True))
    for number, edit in enumerate(of.edits, 2):
        said = _changed(of, edit, number)
        there.add(said)
    # An edit does not replace a text that was taken back since, or overwritten by other means.
    now = _letters(of.edits[-1].before or "")
    met = [one for one in found(state, there, said) if _letters(one.made) in now]
    if life is not None:
        met = [*found(state, life, replace(said, number=state.evaluated + 1)), *met]
    # A definition that was written and evaluated is told once.
    return list({(one.who, one.name, _letters(one.made)): one for one in reversed(met)}.values())[::-1]


def _letters(text: str) -> str:
    """A text without blanks, as code may be indented otherwise than in its file."""
    return "".join(text.split())


def _changed(of: EditsOf, edit: Edit, number: int) -> Said:
    """The changes of an edit as sent code: its definitions that differ from the former ones, or are gone."""
    before = code_names.makings(edit.before or "", of.language, of.space)
    after = code_names.makings(edit.after or "", of.language, of.space)
    old, names = {(one.space, one.name, one.form) for one in before}, {(one.space, one.name) for one in after}
    new = [one for one in after if (one.space, one.name, one.form) not in old]
    gone = [replace(one, text="", form=None) for one in before if (one.space, one.name) not in names]
    code = "\n".join(dict.fromkeys([*(one.text for one in new), *(f"(def {one.name})" for one in gone)]))
    space = after[0].space if after else of.space
    head = code_names.header(edit.after or "", of.language)
    return Said(
        "", number, edit.who, edit.client, edit.at_ms, code, of.language, space,
        head=head, place=f"in {of.shown}", found=(*new, *gone),
    )  # fmt: skip


def _language_of_file(path: Path) -> Language | None:
    dialects = dialects_by_suffix().get(path.suffix, ())
    return language_of(dialects[0]) if dialects else None


def _module(file: str, workspace: str) -> str:
    return file.removeprefix(workspace).removesuffix(".py").strip("/\\").replace("/", ".").replace("\\", ".")


RULES: Final = Rules(Links.NEVER, 2**18)
ROOTS: Final = ("", "src", "test", "tests")
ENDINGS: Final = (".clj", ".cljc", ".cljs", ".lpy")
OWN: Final = frozenset({"__main__", "user", "Hy"})
MOST_BASES: Final = 200
FILED: Final = "a file"


async def learn_bases(call: Call, life: Life) -> None:
    """Learn the former content of the spaces in which code was sent, as far as it can be known by now."""
    for said in life.said:
        if said.number > life.based:
            life.based = said.number
            if said.language != "hy" and len(life.bases) < MOST_BASES:
                life.bases |= {one.space: said for one in said.makings() if one.space not in {*life.bases, *OWN}}
    wanted = {space: said for space, said in life.bases.items() if said is not None}
    if wanted:
        work = partial(_read, call.services.workspace, wanted, dict(call.services.ledger.file_edits.by_file))
        for space, base in (await call.services.work.files.run(call.client, work)).items():
            if life.bases.get(space) is not None:
                life.bases[space] = None
                if base is not None:
                    life.begin_with(base)


def _read(
    workspace: Path, wanted: Mapping[str, Said], edits: Mapping[Path, tuple[Edit, ...]]
) -> dict[str, Said | None]:
    """By space the text of its file, as code from before all sent code; None without a file. Blocks.

    The first code sent may be the whole file: without an edit of it, the replaced code is not known, and may be known
    later.
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
