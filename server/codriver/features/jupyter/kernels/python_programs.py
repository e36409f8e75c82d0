"""Load modules of Codriver's worker into a Python kernel, and call them.

The modules are loaded once. They require Python 3.8 or later, and only the standard library. They are in a private
package that remains until the kernel ends and adds no names to the user's namespace.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from contextlib import suppress
from functools import cache
from graphlib import TopologicalSorter
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, cast

from codriver import files
from codriver.core.evaluations import Failure
from codriver.features.jupyter.kernels.kernel_failures import WORKER_DIRECTORY
from codriver.repls.contract.adapter import EvaluationFailedError
from codriver.repls.launch import recipes
from codriver.repls.programs import join_python_modules
from codriver.wire.untrusted import mapping_at, text_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

EDITED_EXPRESSION: Final = "codriver_edited"
"""The name of the expression that returns the edited modules."""
WORKER_PACKAGE: Final = recipes.WORKER_PROGRAM.parent
"""The directory of the embedded worker's modules."""
SOURCE_RULES: Final = files.FileRules(files.Links.ANY, max_bytes=2**20)
ENTRY_MODULE: Final = "python.kernel_answers"
"""The module that answers queries in a kernel."""
_IMPORT_LINE: Final = re.compile(r"^from (?P<dots>\.+)(?P<module>[\w.]+) import ", re.MULTILINE)
"""Matches a relative import of names from a module."""


def parse_printed_json(query: str, answer: Mapping[str, object]) -> object:
    """Parse the JSON that an expression printed. Return None if its value was `None`.

    Raises:
        EvaluationFailedError: the expression failed, or printed something else.
    """
    if text_at(answer, "status") == "error" or not answer:
        failure = Failure(
            text_at(answer, "ename") or "unreadable", text_at(answer, "evalue") or "the kernel returned nothing"
        )
        raise EvaluationFailedError(query, failure)
    text = text_at(mapping_at(answer, "data"), "text/plain")
    if text == "None":
        return None
    try:
        return cast("object", json.loads(text))
    except (ValueError, RecursionError) as error:  # nested too deep
        failure = Failure("unreadable", f"the kernel printed {text[:200]!r} where JSON was expected")
        raise EvaluationFailedError(query, failure) from error


def edited_modules(answer: Mapping[str, object]) -> tuple[str, ...]:
    """Return the names of outdated modules from the values of `user_expressions`.

    A module is outdated if its file has been edited since it was loaded.
    """
    modules: object = ()
    with suppress(EvaluationFailedError):
        printed = parse_printed_json(EDITED_EXPRESSION, mapping_at(answer, EDITED_EXPRESSION))
        modules = answer_data(EDITED_EXPRESSION, printed)
    return tuple(module for module in modules if isinstance(module, str)) if isinstance(modules, list) else ()


def answer_data(query: str, answer: object) -> object:
    """Return the field `data` of an answer.

    Raises:
        EvaluationFailedError: the answer is a failure.
    """
    fields = answer if isinstance(answer, dict) else {}
    if failed := mapping_at(fields, "failed"):
        raise EvaluationFailedError(query, Failure(text_at(failed, "type"), text_at(failed, "message")))
    return fields.get("data")


def _imported_modules(name: str, source: str) -> Iterator[str]:
    """Yield the names of the modules that a module imports, relative to the worker's package."""
    for match in _IMPORT_LINE.finditer(source):
        parents = name.split(".")[: -len(match["dots"])]
        yield ".".join([*parents, match["module"]])


@cache
def _module_sources() -> tuple[tuple[str, str], ...]:
    """Return the names and sources of the modules to load, each preceded by the modules that it imports."""
    needs: dict[str, set[str]] = {}
    sources: dict[str, str] = {}
    features = {
        f"features.{path.stem}" for path in (WORKER_PACKAGE / "features").glob("*.py") if path.stem != "__init__"
    }
    pending = [ENTRY_MODULE, *features]
    while pending:
        name = pending.pop()
        if name in sources:
            continue
        path = WORKER_PACKAGE.joinpath(*name.split(".")).with_suffix(".py")
        sources[name] = files.read_text(path, SOURCE_RULES)
        needs[name] = set(_imported_modules(name, sources[name]))
        pending += needs[name]
    needs[ENTRY_MODULE] |= features
    return tuple((name, sources[name]) for name in TopologicalSorter(needs).static_order())


@cache
def _loader_source() -> str:
    return join_python_modules("python/bring_in.py")


@cache
def package_name() -> str:
    """Return the name of the private package that contains the modules.

    The name depends on the sources, because kernels keep running when Codriver is upgraded.
    """
    digest = blake2b(json.dumps([_loader_source(), *_module_sources()]).encode(), digest_size=4).hexdigest()
    return f"_codriver_{digest}"


@cache
def _load_expression() -> str:
    """Return the expression that loads the modules. Its value is the module `answers`.

    The expression does not depend on names that the user may have redefined.
    """
    packed = base64.b85encode(zlib.compress(json.dumps(_module_sources()).encode(), 9)).decode()
    return (
        "[space['install'](" + repr(package_name()) + ", " + repr(WORKER_DIRECTORY) + ", texts)"
        " for builtins in [__import__('builtins')] for space in [{'__name__': " + repr(package_name()) + "}]"
        " for _ in [builtins.exec(" + repr(_loader_source()) + ", space)]"
        " for texts in [__import__('json').loads(__import__('zlib').decompress("
        "__import__('base64').b85decode(" + repr(packed) + ")))]][0]"
    )


def install_expression() -> str:
    """Return the expression that loads the modules if necessary. Its value is `None`."""
    return f"None if {_answers_expression()} else {_load_expression()} and None"


def _answers_expression() -> str:
    return f"getattr(__import__('sys').modules.get({package_name()!r}), 'answers', None)"


def call_expression(function: str, /, **fields: object) -> str:
    """Return the expression that calls a function of the loaded modules.

    The function prints its result as JSON. If the modules are not loaded, the value of the expression is `None`.
    """
    keyword_arguments = ", ".join(f"{key}={_literal(value)}" for key, value in fields.items())
    # An exception would become the user's last error.
    call_arguments = ", ".join(filter(None, [repr(function), keyword_arguments]))
    return f"(lambda answers: answers and answers.call({call_arguments}))({_answers_expression()})"


def loading_code(path: str, text: str, lines: tuple[int, ...] | None, undo_id: str, how: str = "") -> str:
    """Return code that loads a file, for a kernel in which the modules have been loaded."""
    has_options = lines is not None or undo_id or how
    arguments = [
        path,
        text,
        *([list(lines) if lines is not None else None, undo_id, how] if has_options else []),
    ]
    return f"__import__('sys').modules[{package_name()!r}].answers.load({', '.join(map(_literal, arguments))})"


def frame_evaluation_code(code: str, frame: int) -> str:
    """Return code that evaluates `code` in a stack frame, for a kernel in which the modules have been loaded."""
    return f"__import__('sys').modules[{package_name()!r}].answers.frame({_literal(code)}, {frame})"


def _literal(value: object) -> str:
    """Return an ASCII-only Python literal for a value."""
    return ascii(value)
