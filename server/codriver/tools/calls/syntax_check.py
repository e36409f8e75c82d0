"""Unreadable code is refused before any of it is accepted: Lisp is checked by its brackets, Python by its parser.

A file is refused too if its name says that it is no source of the session's language.
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from contextlib import suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from codriver.core.values import NOT_LISP, Form
from codriver.errors import CodriverError, RefusedError, refused
from codriver.repls.dialects.seam_providers import is_laid_in
from codriver.repls.kinds import session_for, suffixes_of
from codriver.tools.calls.ipython_syntax import pythons_way
from codriver_lisp.errors import TooManyFormsError
from codriver_lisp.parinfer import balance
from codriver_lisp.reader import describe_imbalance, read, top_level_forms

if TYPE_CHECKING:
    from pathlib import Path

    from codriver.core.state import Repl, State
    from codriver.tools.calls.call import Call
    from codriver.tools.calls.session_choice import Target
    from codriver_lisp.reader import Reading, Unbalanced


MAX_FORMS = 1_000_000
"""Some 5 MB of source. Reading holds 40 bytes for each form."""
MAX_TOP_LEVEL_FORMS = 100_000
"""The text, the place and the value of each form are kept until all have run: 150 bytes and more."""
MAX_PYTHON_CHARACTERS = 2**18
"""Parsing more holds up everybody for a fifth of a second or longer; the REPL itself parses all before it runs any."""


def _unbalanced(unbalanced: Unbalanced, proposal: str | None) -> RefusedError:
    """Return the code's brackets do not balance, so it was not evaluated."""
    details: dict[str, object] = {
        "error": {"message": unbalanced.message, "line": unbalanced.line, "column": unbalanced.column}
    }
    hint = "correct the code and call again; nothing was evaluated"
    if proposal is not None:
        details["balancedText"] = proposal
        hint += "; balancedText is what its indentation suggests: use it only if it says what you mean"
    return refused("unbalanced", f"the brackets do not balance: {unbalanced.message}", hint=hint, details=details)


def _too_many_forms(most: int, which: str) -> RefusedError:
    """Return the refusal that the code has more forms than are read for an evaluation."""
    return refused(
        "too-many-forms",
        f"this code has too many forms: {most:,} {which} are the most, and nothing was evaluated",
        hint="evaluate it in several parts, or let the code read its data from a file",
        details={"most": most},
    )


def _no_python(error: SyntaxError, code: str) -> RefusedError:
    """Return the refusal that the code is not Python, so it was not evaluated."""
    line, column = error.lineno or 1, max(error.offset or 1, 1)
    text = "".join(code.splitlines()[line - 1 : line])
    told = {"class": type(error).__name__, "message": error.msg, "phase": "read", "line": line, "column": column}
    return refused(
        "syntax-error",
        f"this is no Python: {error.msg} (line {line}, column {column})",
        hint=f"{pythons_way(text) or 'correct the code and call again'}; nothing was evaluated",
        details={"error": told},
    )


def _wrong_language(path: Path, key: str, dialect: str, suffixes: frozenset[str]) -> RefusedError:
    """Return the refusal that the file is in no language of the session."""
    hint = f"it loads files that end in {', '.join(sorted(suffixes))}"
    if not path.suffix:
        hint += ", and one without an ending whose first line is #!…"
    needed = session_for(path.suffix)
    more = f"{path.suffix} needs {needed}" if needed else "data is read by code of its own language"
    return refused(
        "wrong-language",
        f"{path.name} is no source file of the session {key}, which speaks {dialect}: nothing was loaded",
        hint=f"{hint}; {more}",
    )


NO_CODE = frozenset({
    "authors", "changelog", "codeowners", "containerfile", "copying", "dockerfile", "jenkinsfile", "justfile",
    "license", "makefile", "notice", "pipfile", "procfile", "readme",
})  # fmt: skip
"""Files without a suffix that have a format of their own, which may happen to read as code: `web: app`, `A = 1`."""


_MAY_BE_DOUBTFUL = re.compile(r"\\|[0-9]\.?[A-Za-z]|finally")
"""Python's parser warns of escapes, of numbers that run into words, and of jumps out of `finally`. A search for these
costs less than changing and restoring the filters of warnings, which are the whole process's. Source: CPython's
tokenizer, and PEP 765."""


def meant(state: State, key: str | None, target: Target | None = None) -> list[Repl]:
    """Return the REPLs that code for the session of this key may be meant for: that of `target` if it is known."""
    if target is not None:
        return [target.repl]
    repls = [repl for repl in state.repls.values() if repl.phase != "stopped"]
    if key is None:
        return [repl for repl in repls if not repl.origin.is_discovered_only] or repls
    # For an unknown session any of them may be meant: the code is read before the name is refused.
    return [repl for repl in repls if key == repl.key or key.startswith(f"{repl.key}/")] or repls


def speaks_lisp(repls: list[Repl]) -> bool:
    """Return whether code is Lisp, as far as the REPLs that it may be meant for tell."""
    for repl in repls:
        if repl.dialect in NOT_LISP:
            return False
    return bool(repls)


def check_language(path: Path, text: str, repl: Repl) -> None:
    """Refuse a file whose name says that it is in another language. A file without a suffix may be in any.

    A name that begins with a dot is a settings file's (`.env`), unless the first line names the program that runs it.

    Raises:
        RefusedError: the file is in another language.
    """
    suffixes = suffixes_of(repl.dialect)
    if path.suffix:
        is_source = path.suffix in suffixes or is_laid_in(repl.dialect, path)
    else:
        is_source = text.startswith("#!") or not (path.name.startswith(".") or path.name.lower() in NO_CODE)
    if suffixes and not is_source:
        raise _wrong_language(path, repl.key, repl.dialect, suffixes)


def check_brackets(code: str) -> Reading:
    """Return the reading of Lisp code; code that cannot be read to its end is refused.

    Raises:
        RefusedError: the error tells the place and the indentation's suggestion, or that so many forms are not read.
    """
    try:
        reading = read(code, most_forms=MAX_FORMS)
    except TooManyFormsError as error:
        raise _too_many_forms(MAX_FORMS, "in all") from error
    if len(reading.forms) > MAX_TOP_LEVEL_FORMS:
        raise _too_many_forms(MAX_TOP_LEVEL_FORMS, "at the top level")
    if reading.imbalance is None:
        return reading
    balanced = balance(code)
    raise _unbalanced(describe_imbalance(code, reading.imbalance), None if balanced.error else balanced.text)


def check_python(repls: list[Repl], code: str) -> None:
    """Refuse code that is no Python for any of the REPLs that it may be meant for.

    A REPL with a newer Python than ours, or with an unknown one, parses for itself.

    Raises:
        RefusedError: the error tells the place.
    """
    if len(code) > MAX_PYTHON_CHARACTERS or not repls or not all(map(_parses_as_we_do, repls)):
        return
    try:
        if not _MAY_BE_DOUBTFUL.search(code):
            ast.parse(code)
            return
        # The REPL warns of code that is only doubtful.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(code)
    except SyntaxError as error:
        raise _no_python(error, code) from error
    except (ValueError, RecursionError, MemoryError):
        # A null character, or code nested too deep: the limits of our parser are not those of the REPL's.
        return


async def check_by_repl(call: Call, repl: Repl, code: str) -> None:
    """Refuse code that a REPL with its own reader cannot read. A REPL that does not answer says so when the code runs.

    Raises:
        RefusedError: the error tells the reason, and the place if known.
    """
    if repl.phase != "connected" or repl.profile is None or not repl.profile.reads_itself:
        return
    fault = None
    with suppress(CodriverError):
        fault = await call.services.repls.adapter(repl.id).fault_of(code)
    if fault is not None:
        where = f" (line {fault.line}, column {fault.column or 1})" if fault.line else ""
        error: dict[str, object] = {"class": fault.type, "message": fault.message, "phase": "read"}
        error |= {"line": fault.line, "column": fault.column or 1} if fault.line else {}
        raise refused(
            "syntax-error",
            f"the REPL cannot read this code: {fault.message}{where}",
            hint="correct the code and call again; nothing was evaluated",
            details={"error": error},
        )


def _parses_as_we_do(repl: Repl) -> bool:
    """Return whether the REPL's parser, too, refuses code that ours refuses."""
    profile = repl.profile
    if profile is None or profile.dialect != "python" or profile.reads_itself:
        return False
    return _is_not_newer(profile.versions.get("python", ""))


@lru_cache(maxsize=16)
def _is_not_newer(version: str) -> bool:
    """Return whether a version of Python is ours or an older one."""
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    if not (major.isdecimal() and minor.isdecimal()):
        return False
    return (int(major), int(minor)) <= sys.version_info[:2]


AT_ONCE_CHARACTERS = 2**15
"""The characters of Lisp code above which reading its brackets takes so long that others would notice."""


async def readable_forms(call: Call, readers: list[Repl], code: str, *, lisp: bool) -> tuple[Form, ...]:
    """Return the forms of Lisp, to be evaluated one by one; none of Python, which goes whole.

    Raises:
        RefusedError: the code cannot be read.
    """
    if not lisp:
        check_python(readers, code)
        return ()
    texts = call.services.work.editing
    # Short code does not overtake the long code before it.
    if len(code) <= AT_ONCE_CHARACTERS and not texts.is_busy(call.client):
        return _lisp_forms(code)
    return await texts.run(call.client, partial(_lisp_forms, code))


def _lisp_forms(code: str) -> tuple[Form, ...]:
    spans = top_level_forms(code, check_brackets(code))
    return tuple([Form(code[span.start : span.end], span.line, span.column) for span in spans])
