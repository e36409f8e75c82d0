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
from codriver.features.handoff.conflict_ledger import MOST_CHARACTERS, Conflict, Edit, Life, Said, ago, found, is_own
from codriver.files import Links, Rules
from codriver.repls.contract.adapter_values import LOAD_IT
from codriver.repls.kinds import dialects_by_suffix
from codriver.tools.answers.drift_notes import is_of
from codriver.tools.calls.session_choice import server_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from codriver.core.state import State
    from codriver.core.values import Evaluation, Request
    from codriver.editing import FileResult
    from codriver.editing.code_names import Language
    from codriver.tools.calls.base import Call
    from codriver.tools.calls.session_choice import Target


MOST_NOTES: Final = 3
AT_ONCE_CHARACTERS: Final = 2**13
"""The characters of code that is read without a thread of its own."""
EDIT_BYTES: Final = 2**18
"""The bytes kept of a file's text, to tell the differences."""
RECENT_MS: Final = 3_600_000


def language_of(dialect: str) -> Language:
    """The language that a REPL's code is read as: Lisp for an unknown one."""
    return "python" if dialect == "python" else "hy" if dialect == "hy" else "lisp"


def note_sent(call: Call, target: Target, who: str, request: Request) -> None:
    """Keep the code sent to a REPL, to tell the others of it."""
    repl, session = target.repl, target.session
    language = language_of(repl.dialect)
    is_apart = language != "lisp" and session.lane is None and session.name != MAIN_SESSION
    evaluation = call.services.core.state.evaluations.get(request.id)
    if is_apart or request.kind == "run-tests" or evaluation is None:
        return
    code = "\n".join(form.text for form in request.forms) if request.kind == "load-forms" else request.code
    if len(code) > MOST_CHARACTERS:
        return
    space = request.namespace or session.namespace or "user"
    life = call.services.ledger.conflicts.life(repl)
    if language == "python":
        space = life.module(request.namespace or "__main__")
        if request.kind == "load-file" and request.file:
            space = _module(request.file, str(call.services.workspace))
            life.modules.add(space)
    elif language == "hy":
        space = "Hy"
    at, is_file = evaluation.started_at or call.services.now(), request.kind == "load-file"
    said = Said(request.id, evaluation.number, who, call.client, at, code, language, space, is_file)
    life.add(said)


async def notes_of_conflicts(call: Call, evaluation: Evaluation) -> list[str]:
    """The notes of the first answer about an evaluation: others' redefinitions of names that it uses or redefines."""
    life = call.services.ledger.conflicts.lives.get(evaluation.repl)
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
        met = await call.services.work.texts.run(call.client, find)
    return _told(call, said.who, met)


def _told(call: Call, who: str, met: Sequence[Conflict]) -> list[str]:
    """The conflicts among these that are news to a caller, in words."""
    told = [one for one in met if call.services.told.conflicts.take((call.client, who), one.key)]
    notes = [one.told(call.services.now()) for one in told[:MOST_NOTES]]
    more = len(told) - len(notes)
    return [*notes, f"and {more} more definitions of others: see repl_output_log"] if more else notes


async def notes_of_edits(call: Call, who: str, results: Iterable[FileResult]) -> list[str]:
    """The notes of an edit of files: others' changes to them since, and to names that the changed definitions use."""
    notes: list[str] = []
    for result in results:
        change = result.change
        texts = [_text(change.before.data), _text(change.after)]
        edit = Edit(who, call.client, call.services.now(), *texts)
        notes += await _of_edit(call, change.path, result.shown, edit)
    return notes


def note_of_write(call: Call, who: str, path: Path, shown: str) -> str:
    """The note of a write by other means than ours: the file's last other editor; blank for none or one told before."""
    edit = Edit(who, call.client, call.services.now())
    return _others_edit(call, shown, edit, call.services.ledger.conflicts.edited(path, edit))


async def other_editor(call: Call, who: str, path: Path) -> str:
    """The caller who edited a file last, if another one than `who`; blank if none is known.

    A file written after the last known edit was last changed by a program of somebody else.
    """
    edits = call.services.ledger.conflicts.edits.get(path, ())
    own = Edit(who, call.client, call.services.now())
    if not edits or is_own(call.state, own, edits[-1]):
        return ""
    is_last = await call.services.work.files.run(call.client, partial(_is_written_by, path, edits[-1].at_ms))
    return edits[-1].who if is_last else ""


def _is_written_by(path: Path, at_ms: int) -> bool:
    """True if a file was last written, or put in its place, at a time or before it. Blocks."""
    try:
        status = path.stat()
    except OSError:
        return False
    return max(status.st_mtime_ns, status.st_ctime_ns) // 1_000_000 <= at_ms


async def with_editor(call: Call, who: str, note: str) -> str:
    """A note on a module that was edited since its load, with the last other editor of its file, if known."""
    module = note.partition(" ")[0]
    for path in tuple(call.services.ledger.conflicts.edits):
        if is_of(path, module) and (by := await other_editor(call, who, path)):
            return f"{note.removesuffix(LOAD_IT)[:-1]}, by {by}){LOAD_IT}"
    return note


def _text(data: bytes | None) -> str | None:
    """The text of a file in its kept form; blank for a missing file, None for one too long."""
    return None if data is not None and len(data) > EDIT_BYTES else (data or b"").decode("utf-8-sig", "replace")


async def _of_edit(call: Call, path: Path, shown: str, edit: Edit) -> list[str]:
    services, state = call.services, call.state
    earlier = services.ledger.conflicts.edited(path, edit)
    is_shared = any(not is_own(state, edit, one) for one in earlier)
    repl = server_of(path, state.repls.values(), services.workspace)
    life = services.ledger.conflicts.lives.get(repl.id) if repl is not None and not isinstance(repl, str) else None
    beside = life is not None and not all(
        caller_names.is_by_caller(state, edit.client, edit.who, caller) for caller in life.callers
    )
    language = _language_of_file(path)
    if language is None or not (is_shared or beside):
        return []
    space = _module(str(path), str(services.workspace)) if language == "python" else "user"
    edits = EditsOf(language, space, shown, (*earlier, edit) if is_shared else (edit,))
    find = partial(_found_in_edit, state, edits, life if beside else None)
    met = await services.work.texts.run(call.client, find)
    told = _told(call, edit.who, met)
    note = _others_edit(call, shown, edit, earlier)
    return told or ([note] if note else [])


def _others_edit(call: Call, shown: str, edit: Edit, earlier: Sequence[Edit]) -> str:
    """The note that somebody else edited a file last, once and for an hour."""
    last = earlier[-1] if earlier else None
    if last is None or is_own(call.state, edit, last) or edit.at_ms - last.at_ms > RECENT_MS:
        return ""
    is_news = call.services.told.conflicts.take((call.client, edit.who), (shown, last.at_ms))
    return f"{last.who} edited {shown} {ago(edit.at_ms - last.at_ms)} ago" if is_news else ""


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
        work = partial(_read, call.services.workspace, wanted, dict(call.services.ledger.conflicts.edits))
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
