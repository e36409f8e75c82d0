"""The embedded worker's modules in a Python kernel, and the expressions that load and call them.

The modules are loaded once. They need Python 3.8 or later and the standard library only. They are in a private package
that remains until the kernel ends and adds no name to the user's namespace.
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
from codriver.core.values import Failure
from codriver.features.jupyter.kernels.kernel_failures import WORKER_DIRECTORY
from codriver.repls.contract.adapter import EvaluationFailedError
from codriver.repls.launch import recipes
from codriver.repls.programs import python_text
from codriver.wire.untrusted import mapping_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

EDITED: Final = "codriver_edited"


def parse_printed(query: str, answer: Mapping[str, object]) -> object:
    """The data that an expression of ours printed as JSON; None if it is Python's `None`.

    Raises:
        EvaluationFailedError: the expression failed, or printed something else.
    """
    if text_of(answer, "status") == "error" or not answer:
        failure = Failure(
            text_of(answer, "ename") or "unreadable", text_of(answer, "evalue") or "the kernel told nothing"
        )
        raise EvaluationFailedError(query, failure)
    text = text_of(mapping_of(answer, "data"), "text/plain")
    if text == "None":
        return None
    try:
        return cast("object", json.loads(text))
    except (ValueError, RecursionError) as error:  # nested too deep
        failure = Failure("unreadable", f"the kernel printed {text[:200]!r} where JSON was expected")
        raise EvaluationFailedError(query, failure) from error


def edited_modules(answer: Mapping[str, object]) -> tuple[str, ...]:
    """The modules that a cell used and whose files were edited since, from the cell's expressions."""
    found: object = ()
    with suppress(EvaluationFailedError):
        found = answer_data(EDITED, parse_printed(EDITED, mapping_of(answer, EDITED)))
    return tuple(one for one in found if isinstance(one, str)) if isinstance(found, list) else ()


def answer_data(query: str, answer: object) -> object:
    """The data of an answer.

    Raises:
        EvaluationFailedError: the answer tells a failure.
    """
    fields = answer if isinstance(answer, dict) else {}
    if failed := mapping_of(fields, "failed"):
        raise EvaluationFailedError(query, Failure(text_of(failed, "type"), text_of(failed, "message")))
    return fields.get("data")


WORKER: Final = recipes.WORKER.parent
TEXT: Final = files.Rules(files.Links.ANY, most_bytes=2**20)
ENTRY_MODULE: Final = "python.kernel_answers"
"""The module whose answers a kernel gives."""
_IMPORT: Final = re.compile(r"^from \.(?P<near>\w+)|^from \.\.(?P<far>[\w.]+)", re.MULTILINE)
"""An import of a module of the same folder, or of another one."""


@cache
def _module_sources() -> tuple[tuple[str, str], ...]:
    """The modules to load, by their dotted names, each after the modules that it needs."""
    needs: dict[str, set[str]] = {}
    sources: dict[str, str] = {}
    features = {f"features.{path.stem}" for path in (WORKER / "features").glob("*.py") if path.stem != "__init__"}
    waiting = [ENTRY_MODULE, *features]
    while waiting:
        name = waiting.pop()
        if name in sources:
            continue
        package, _, module = name.partition(".")
        sources[name] = files.read_text(WORKER / package / f"{module}.py", TEXT)
        needs[name] = {found["far"] or f"{package}.{found['near']}" for found in _IMPORT.finditer(sources[name])}
        waiting += needs[name]
    needs[ENTRY_MODULE] |= features
    return tuple((name, sources[name]) for name in TopologicalSorter(needs).static_order())


@cache
def _bring_in() -> str:
    return python_text("python/bring_in.py")


@cache
def package() -> str:
    """The name of the private package: each text has a name of its own, as kernels outlive servers."""
    digest = blake2b(json.dumps([_bring_in(), *_module_sources()]).encode(), digest_size=4).hexdigest()
    return f"_codriver_{digest}"


@cache
def _install() -> str:
    """The expression that loads the modules and gives their answers, whatever names the user has redefined."""
    packed = base64.b85encode(zlib.compress(json.dumps(_module_sources()).encode(), 9)).decode()
    return (
        "[space['install'](" + repr(package()) + ", " + repr(WORKER_DIRECTORY) + ", texts)"
        " for builtins in [__import__('builtins')] for space in [{'__name__': " + repr(package()) + "}]"
        " for _ in [builtins.exec(" + repr(_bring_in()) + ", space)]"
        " for texts in [__import__('json').loads(__import__('zlib').decompress("
        "__import__('base64').b85decode(" + repr(packed) + ")))]][0]"
    )


def install() -> str:
    """The expression that loads missing modules; its value has no meaning."""
    return f"None if {_answers()} else {_install()} and None"


def _answers() -> str:
    return f"getattr(__import__('sys').modules.get({package()!r}), 'answers', None)"


def put(function: str, /, **fields: object) -> str:
    """The expression that asks a question; its value prints as JSON, `null` without the modules."""
    arguments = ", ".join(f"{key}={_literal(value)}" for key, value in fields.items())
    # A question that raises would become the last error of the user.
    call = ", ".join(filter(None, [repr(function), arguments]))
    return f"(lambda answers: answers and answers.call({call}))({_answers()})"


def load(path: str, text: str, lines: tuple[int, ...] | None, undo_id: str, how: str = "") -> str:
    """The code that loads a file, in a kernel with the modules."""
    has_more = lines is not None or undo_id or how
    arguments = [path, text, *([list(lines) if lines is not None else None, undo_id, how] if has_more else [])]
    return f"__import__('sys').modules[{package()!r}].answers.load({', '.join(map(_literal, arguments))})"


def frame_code(code: str, frame: int) -> str:
    """The code that evaluates code in a frame, in a kernel with the modules."""
    return f"__import__('sys').modules[{package()!r}].answers.frame({_literal(code)}, {frame})"


def _literal(value: object) -> str:
    """A value as a literal of Python in ASCII."""
    return ascii(value)
