"""Notes about drift, which is any difference between loaded code and its files.

A line describes each module and object of a REPL whose code differs from its files.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.profiles import NON_LISP_DIALECTS
from codriver.editing.source_encoding import is_python
from codriver.errors import CodriverError, join_first
from codriver.repls.contract.events import LOAD_IT_SUFFIX
from codriver.tools.answers.lisp_comparison import updated_differences
from codriver.tools.answers.loaded_code_comparison import COMPARE_TIMEOUT_S, drift_or_none
from codriver.tools.answers.stale_objects import MAIN_MODULE, STALE_KINDS, describe_stale_object, limit_lines
from codriver.tools.calls.session_choice import find_serving_repl
from codriver_lisp.requirements import declared_namespace
from codriver_lisp.source_text import Document

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from codriver.core.evaluations import Evaluation
    from codriver.core.state import Repl
    from codriver.editing import FileResult
    from codriver.repls.contract.drift import Difference
    from codriver.tools.calls.call import Call, ReplUser


CODE_CATEGORIES: Final = frozenset({"evaluatedCode"})
"""Categories of log entries that contain code sent by callers."""
SYMBOL_PATTERN: Final = re.compile(r"[^\s()\[\]{}\"'`,;@^~#]+")
"""Matches a symbol in Lisp code."""
EDITED_KINDS: Final = ("edited", "missing", "gone")
"""Kinds of differences in code whose file was edited after it was loaded."""
WHOLE_FILE_KINDS: Final = ("order", "deleted", "unparsable", "unknown")
"""Kinds of differences that concern a whole file."""
DIFFERENCE_DESCRIPTIONS: Final = {
    "edited": "edited in the file since the load",
    "docstring": "docstring edited in the file since the load",
    "order": "reordered in the file since the load",
    "deleted": "deleted",
    "unparsable": "no longer parses",
    "redefined": "redefined in the REPL",
    "gone": "only in the REPL",
    "missing": "only in the file",
    "unknown": "unknown, because their load was not recorded",
}
"""Descriptions of kinds of differences, for the line about a module."""
MAX_NAMES_IN_LINE: Final = 20
"""Maximum number of names listed in a line for one kind of difference."""
MAX_SEARCHED_ENTRIES: Final = 1000
"""Maximum number of log entries that are searched for the evaluation that defined a name."""


async def outdated_test_notes(call: Call, repl: Repl) -> tuple[str, ...]:
    """Return notes if the code that tests ran in a REPL differed from the files."""
    found = await drift_or_none(call, repl, "edited")
    edited: dict[str, list[str]] = {}
    for difference in found:
        if difference.kind in (*EDITED_KINDS, *WHOLE_FILE_KINDS) and difference.kind != "deleted":
            edited.setdefault(difference.module, []).append(difference.name)
    stale = [
        f"{module} was edited since its load ({join_first(names)}){LOAD_IT_SUFFIX}" for module, names in edited.items()
    ]
    stale += [f"the file of {difference.module} was deleted" for difference in found if difference.kind == "deleted"]
    lives_on = [
        difference for difference in found if difference.kind in STALE_KINDS and difference.module != MAIN_MODULE
    ]  # tests do not use names of evaluated code
    return limit_lines([*stale, *map(describe_stale_object, lives_on)])


async def undo_notes(call: Call, put_back: Iterable[FileResult]) -> tuple[str, ...]:
    """Return notes about restored files whose edited code is still loaded in a REPL.

    There are none if the file watcher loads saved files, or if the REPL cannot compare its code with files.
    """
    found: dict[str, tuple[Difference, ...]] = {}
    notes = []
    for edited in put_back if not call.services.live.settings.watch else ():
        path, data = edited.change.path, edited.change.after
        repl = find_serving_repl(path, call.state.repls.values(), call.services.workspace)
        if data is None or repl is None or isinstance(repl, str):
            continue
        if repl.id not in found:
            found[repl.id] = await drift_or_none(call, repl, "edited")
        modules = {row.module for row in found[repl.id] if row.kind in EDITED_KINDS and not row.evaluated}
        name = None if is_python(path) else declared_namespace(Document(data.decode("utf-8-sig", "replace")))
        if name in modules or any(name is None and may_be_file_of_module(path, module) for module in modules):
            notes.append(f"{repl.key} still runs the edited code: load_file {edited.display_path}")
    return tuple(notes)


def may_be_file_of_module(path: Path, module: str) -> bool:
    """Return whether a file may be the source of the Python module with this name."""
    parts = (path.parent if path.name == "__init__.py" else path.with_suffix("")).parts
    names = module.split(".")
    return list(parts[-len(names) :]) == names


async def outdated_namespace_notes(call: Call, evaluation: Evaluation) -> list[str]:
    """Return notes if Lisp code uses namespaces whose files were edited since they were loaded.

    There are notes only for a REPL that was compared with its files before. Definitions that were evaluated since the
    edit do not count as outdated.
    """
    repl = call.state.repls.get(evaluation.repl)
    if repl is None or evaluation.kind != "evaluate":
        return []
    found: tuple[Difference, ...] = ()
    with suppress(CodriverError), anyio.move_on_after(COMPARE_TIMEOUT_S):
        found = await updated_differences(call, repl)
    changed = [difference for difference in found if difference.kind in EDITED_KINDS and not difference.evaluated]
    if not changed:
        return []
    code = " ".join(
        entry.text for entry in call.services.log.entries(evaluation=evaluation.id, category=CODE_CATEGORIES)
    )
    used = {symbol.rpartition("/")[2] or symbol for symbol in SYMBOL_PATTERN.findall(code)}
    edited: dict[str, list[str]] = {}
    for difference in changed:
        if difference.name in used:
            edited.setdefault(difference.module, []).append(difference.name)
    return [
        f"{module} was edited since its load ({join_first(names)}){LOAD_IT_SUFFIX}" for module, names in edited.items()
    ]


def drift_lines(call: ReplUser, repl: Repl, found: Iterable[Difference]) -> list[str]:
    """Describe all differences in one line for each module, with the callers who made definitions where known."""
    found = tuple(found)
    return [
        *_module_lines(call, repl, found),
        *(describe_stale_object(difference) for difference in found if difference.kind in STALE_KINDS),
    ]


def _module_lines(call: ReplUser, repl: Repl, found: Iterable[Difference]) -> list[str]:
    """Return one line for each module that describes its differences, grouped by kind."""
    modules: dict[str, dict[str, list[str]]] = {}
    for difference in found:
        if difference.kind in DIFFERENCE_DESCRIPTIONS:
            is_searched = difference.evaluated and repl.dialect in NON_LISP_DIALECTS
            by = (
                f" ({difference.by})"
                if difference.by
                else _describe_author(call, repl, difference.name)
                if is_searched
                else ""
            )
            part = f" ({difference.of})" if difference.of and not by else ""
            modules.setdefault(difference.module, {}).setdefault(difference.kind, []).append(
                difference.name + part + by
            )
    return [
        f"{module}: "
        + "; ".join(
            f"{DIFFERENCE_DESCRIPTIONS[kind]}: {join_first(kinds[kind], MAX_NAMES_IN_LINE)}"
            for kind in DIFFERENCE_DESCRIPTIONS
            if kind in kinds
        )
        for module, kinds in modules.items()
    ]


def _describe_author(call: ReplUser, repl: Repl, name: str) -> str:
    """Describe the caller and the evaluation that defined a name, if the log contains them."""
    last = re.escape(name.rpartition(".")[2])
    defines = re.compile(rf"\b(?:def|class)\s+{last}\b|\b{last}\s*=")
    for entry in reversed(call.services.log.entries(category=("evaluatedCode",), limit=MAX_SEARCHED_ENTRIES)):
        evaluation = call.state.evaluations.get(entry.evaluation or "")
        is_of_this_process = evaluation is not None and (evaluation.repl, evaluation.generation) == (
            repl.id,
            repl.generation,
        )
        if (
            is_of_this_process
            and evaluation is not None
            and evaluation.kind == "evaluate"
            and defines.search(entry.text)
        ):
            return f" ({evaluation.who}, {evaluation.id})"
    return ""
