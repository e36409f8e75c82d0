"""Refuse code that cannot be read before any of it runs. Lisp is checked by its brackets, Python by its parser.

A file is also refused if its name shows that it is not source code in the session's language.
"""

from __future__ import annotations

import re
import sys
import warnings
from contextlib import suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from codriver.core.profiles import NON_LISP_DIALECTS
from codriver.core.requests import Form
from codriver.errors import CodriverError, RefusedError, refused
from codriver.python_syntax import parse_source
from codriver.repls.kinds import describe_session_for_suffix, loadable_suffixes
from codriver.tools.calls.ipython_syntax import python_equivalent
from codriver_lisp.errors import TooManyFormsError
from codriver_lisp.parinfer import balance_by_indentation
from codriver_lisp.reader import describe_imbalance, read_forms, top_level_forms

if TYPE_CHECKING:
    from pathlib import Path

    from codriver.core.state import Repl, State
    from codriver.tools.calls.call import Call
    from codriver.tools.calls.session_choice import Target
    from codriver_lisp.reader import ReadResult, Unbalanced


MAX_FORMS = 1_000_000
"""Maximum number of forms, which correspond to about 5 MB of source. Reading takes 40 bytes for each."""
MAX_TOP_LEVEL_FORMS = 100_000
"""Maximum number of top-level forms.

Their text, position and value are stored until all have run, which takes at least 150 bytes for each form.
"""
MAX_PYTHON_CHARACTERS = 2**18
"""Maximum number of characters parsed by the server.

More would block it for 0.2 s. The REPL parses all code before running it.
"""


def _unbalanced_error(unbalanced: Unbalanced, proposal: str | None) -> RefusedError:
    """Create the error for code with unbalanced brackets."""
    details: dict[str, object] = {
        "error": {"message": unbalanced.message, "line": unbalanced.line, "column": unbalanced.column}
    }
    hint = "Nothing was evaluated. Correct the code and call again."
    if proposal is not None:
        details["balancedText"] = proposal
        hint += " balancedText has the brackets that the indentation suggests. Check that this is what you intended."
    return refused("unbalanced", f"the brackets do not balance: {unbalanced.message}", hint=hint, details=details)


def _too_many_forms_error(most: int, which: str) -> RefusedError:
    """Create the error for code with too many forms."""
    return refused(
        "too-many-forms",
        f"nothing was evaluated, because this code has too many forms. The limit is {most:,} {which}",
        hint="Evaluate the code in several parts, or let it read its data from a file.",
        details={"most": most},
    )


def _invalid_python_error(error: SyntaxError, code: str) -> RefusedError:
    """Create the error for code that is not valid Python."""
    line, column = error.lineno or 1, max(error.offset or 1, 1)
    text = "".join(code.splitlines()[line - 1 : line])
    error_fields = {
        "class": type(error).__name__,
        "message": error.msg,
        "phase": "read",
        "line": line,
        "column": column,
    }
    return refused(
        "syntax-error",
        f"this is not valid Python: {error.msg} (line {line}, column {column})",
        hint=f"{python_equivalent(text) or 'correct the code and call again'}; nothing was evaluated",
        details={"error": error_fields},
    )


def _wrong_language_error(path: Path, key: str, dialect: str, suffixes: frozenset[str]) -> RefusedError:
    """Create the error for a file in a different language from the session's."""
    hint = f"this session loads files that end in {', '.join(sorted(suffixes))}"
    if not path.suffix:
        hint += ", and files without an ending whose first line is #!…"
    needed = describe_session_for_suffix(path.suffix)
    more = f"{path.suffix} needs {needed}" if needed else "data is read by code in the data's own language"
    return refused(
        "wrong-language",
        f"{path.name} is not a source file for the session {key}, whose language is {dialect}, so nothing was loaded",
        hint=f"{hint}; {more}",
    )


NON_CODE_FILE_NAMES = frozenset({
    "authors", "changelog", "codeowners", "containerfile", "copying", "dockerfile", "jenkinsfile", "justfile",
    "license", "makefile", "notice", "pipfile", "procfile", "readme",
})  # fmt: skip
"""Names of files without a suffix whose content is not code, but might parse as code, such as `web: app`."""


_MAY_CAUSE_WARNINGS = re.compile(r"\\|[0-9]\.?[A-Za-z]|finally")
"""Matches code for which Python's parser may emit warnings: escapes, numbers joined to words, jumps out of `finally`.

Searching for them is cheaper than changing and restoring the process's warning filters. Source: CPython's tokenizer,
and PEP 765.
"""


def possible_repls(state: State, key: str | None, target: Target | None = None) -> list[Repl]:
    """Return the REPLs for which code may be intended.

    This is the REPL of `target` if it is known, or else the REPLs to which the session key may refer.
    """
    if target is not None:
        return [target.repl]
    repls = [repl for repl in state.repls.values() if repl.phase != "stopped"]
    if key is None:
        return [repl for repl in repls if not repl.origin.is_discovered_only] or repls
    # For an unknown session, this can be any REPL, because the code is read before the name is refused.
    return [repl for repl in repls if key == repl.key or key.startswith(f"{repl.key}/")] or repls


def speaks_lisp(repls: list[Repl]) -> bool:
    """Return whether code is Lisp, judging by the REPLs for which it may be intended."""
    for repl in repls:
        if repl.dialect in NON_LISP_DIALECTS:
            return False
    return bool(repls)


def check_language(call: Call, path: Path, text: str, repl: Repl) -> None:
    """Check that the name of a file does not indicate a language other than the REPL's.

    A file without a suffix may be in any language. A file whose name starts with a dot, such as `.env`, is assumed to
    be a settings file unless its first line names an interpreter.

    Raises:
        RefusedError: the file is in a different language.
    """
    suffixes = loadable_suffixes(repl.dialect)
    if path.suffix:
        features = call.services.hooks.loadable
        is_source = path.suffix in suffixes or any(is_loadable(repl.dialect, path) for is_loadable in features)
    else:
        is_source = text.startswith("#!") or not (path.name.startswith(".") or path.name.lower() in NON_CODE_FILE_NAMES)
    if suffixes and not is_source:
        raise _wrong_language_error(path, repl.key, repl.dialect, suffixes)


def check_brackets(code: str) -> ReadResult:
    """Return the forms of Lisp code, after checking that its brackets are balanced.

    Raises:
        RefusedError: the code has a syntax error or too many forms.
    """
    try:
        reading = read_forms(code, most_forms=MAX_FORMS)
    except TooManyFormsError as error:
        raise _too_many_forms_error(MAX_FORMS, "in all") from error
    if len(reading.forms) > MAX_TOP_LEVEL_FORMS:
        raise _too_many_forms_error(MAX_TOP_LEVEL_FORMS, "at the top level")
    if reading.imbalance is None:
        return reading
    balanced = balance_by_indentation(code)
    raise _unbalanced_error(describe_imbalance(code, reading.imbalance), None if balanced.error else balanced.text)


def check_python(repls: list[Repl], code: str) -> None:
    """Check that code is valid Python for at least one of the REPLs for which it may be intended.

    A REPL with a newer or unknown Python version parses the code itself.

    Raises:
        RefusedError: the code has a syntax error.
    """
    if len(code) > MAX_PYTHON_CHARACTERS or not repls or not all(map(_rejects_the_same_code, repls)):
        return
    try:
        if not _MAY_CAUSE_WARNINGS.search(code):
            parse_source(code)
            return
        # The REPL issues warnings itself.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parse_source(code)
    except SyntaxError as error:
        raise _invalid_python_error(error, code) from error
    except (ValueError, RecursionError, MemoryError):
        # A null character, or code nested too deeply: the REPL's parser may have other limits.
        return


async def check_with_repl(call: Call, repl: Repl, code: str) -> None:
    """Let a REPL with its own reader check the syntax of code.

    If the REPL does not answer, the check passes, and any error appears when the code runs.

    Raises:
        RefusedError: the code cannot be read.
    """
    if repl.phase != "connected" or repl.profile is None or not repl.profile.reads_itself:
        return
    syntax_error = None
    with suppress(CodriverError):
        syntax_error = await call.services.repls.adapter(repl.id).check_syntax(code)
    if syntax_error is not None:
        where = f" (line {syntax_error.line}, column {syntax_error.column or 1})" if syntax_error.line else ""
        error: dict[str, object] = {"class": syntax_error.type, "message": syntax_error.message, "phase": "read"}
        error |= {"line": syntax_error.line, "column": syntax_error.column or 1} if syntax_error.line else {}
        raise refused(
            "syntax-error",
            f"the REPL cannot read this code: {syntax_error.message}{where}",
            hint="Nothing was evaluated. Correct the code and call again.",
            details={"error": error},
        )


def _rejects_the_same_code(repl: Repl) -> bool:
    """Return whether a REPL rejects all code that the server's Python parser rejects."""
    profile = repl.profile
    if profile is None or profile.dialect != "python" or profile.reads_itself:
        return False
    return _is_not_newer(profile.versions.get("python", ""))


@lru_cache(maxsize=16)
def _is_not_newer(version: str) -> bool:
    """Return whether a Python version is not newer than the server's."""
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    if not (major.isdecimal() and minor.isdecimal()):
        return False
    return (int(major), int(minor)) <= sys.version_info[:2]


MAX_INLINE_CHARACTERS = 2**15
"""Maximum length of Lisp code whose brackets are checked immediately. Longer code is checked in a thread."""


async def readable_forms(call: Call, readers: list[Repl], code: str, *, lisp: bool) -> tuple[Form, ...]:
    """Return the top-level forms of Lisp code, to be evaluated one by one. For Python the result is empty.

    Raises:
        RefusedError: the code cannot be read.
    """
    if not lisp:
        check_python(readers, code)
        return ()
    pool = call.services.work.editing
    # Short code does not overtake the long code before it.
    if len(code) <= MAX_INLINE_CHARACTERS and not pool.is_busy(call.client):
        return _read_lisp_forms(code)
    return await pool.run(call.client, partial(_read_lisp_forms, code))


def _read_lisp_forms(code: str) -> tuple[Form, ...]:
    """Return the top-level forms of Lisp code.

    Raises:
        RefusedError: see `check_brackets`.
    """
    spans = top_level_forms(code, check_brackets(code))
    return tuple([Form(code[span.start : span.end], span.line, span.column) for span in spans])
