"""Programs for Python kernels: the worker's own modules, brought into a kernel once, and the questions to them.

They answer as the embedded worker does, in any Python from 3.8 on and with the standard library alone. They live in a
private package that the kernel keeps until it ends; a name in the user's namespace there is none.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from functools import cache
from graphlib import TopologicalSorter
from hashlib import blake2b
from pathlib import Path
from typing import Final

from codriver import files
from codriver.repls.jupyter.running.failures import OUR_FOLDER
from codriver.repls.programs import python_text

WORKER: Final = Path(__file__).parents[2] / "worker"
TEXT: Final = files.Rules(files.Links.ANY, most_bytes=2**20)
DOOR: Final = "python.kernel_answers"
"""The module whose answers a kernel gives."""
_IMPORT: Final = re.compile(r"^from \.(?P<near>\w+)|^from \.\.(?P<far>[\w.]+)", re.MULTILINE)
"""An import of a module of the same folder, or of another one."""


@cache
def _texts() -> tuple[tuple[str, str], ...]:
    """The modules that are brought in, by their dotted names, each after those that it needs."""
    needs: dict[str, set[str]] = {}
    texts: dict[str, str] = {}
    waiting = [DOOR]
    while waiting:
        name = waiting.pop()
        if name in texts:
            continue
        folder, _, module = name.partition(".")
        texts[name] = files.read_text(WORKER / folder / f"{module}.py", TEXT)
        needs[name] = {found["far"] or f"{folder}.{found['near']}" for found in _IMPORT.finditer(texts[name])}
        waiting += needs[name]
    return tuple((name, texts[name]) for name in TopologicalSorter(needs).static_order())


@cache
def _bring_in() -> str:
    return python_text("python/bring_in.py")


@cache
def package() -> str:
    """The name of the private package: another one where its text is another, as kernels outlive servers."""
    digest = blake2b(json.dumps([_bring_in(), *_texts()]).encode(), digest_size=4).hexdigest()
    return f"_codriver_{digest}"


@cache
def _install() -> str:
    """The expression that brings the modules in and gives their answers, whatever names the user has redefined."""
    packed = base64.b85encode(zlib.compress(json.dumps(_texts()).encode(), 9)).decode()
    return (
        "[space['install'](" + repr(package()) + ", " + repr(OUR_FOLDER) + ", texts)"
        " for builtins in [__import__('builtins')] for space in [{'__name__': " + repr(package()) + "}]"
        " for _ in [builtins.exec(" + repr(_bring_in()) + ", space)]"
        " for texts in [__import__('json').loads(__import__('zlib').decompress("
        "__import__('base64').b85decode(" + repr(packed) + ")))]][0]"
    )


def install() -> str:
    """The expression that brings the modules in, where they are not there yet; its value says nothing."""
    return f"None if {_here()} else {_install()} and None"


def _here() -> str:
    return f"getattr(__import__('sys').modules.get({package()!r}), 'answers', None)"


def question(asked: str, /, **fields: object) -> str:
    """The expression that asks a question; its value prints as JSON, `null` where the modules are not there."""
    said = ", ".join(f"{key}={_literal(value)}" for key, value in fields.items())
    # A question that raises would become the last error of the user.
    return f"(lambda answers: answers and answers.ask({', '.join(filter(None, [repr(asked), said]))}))({_here()})"


def load(path: str, text: str, lines: tuple[int, ...] | None, hold: str, how: str = "") -> str:
    """The code that loads a file, where the modules are there."""
    has_more = lines is not None or hold or how
    said = [path, text, *([list(lines) if lines is not None else None, hold, how] if has_more else [])]
    return f"__import__('sys').modules[{package()!r}].answers.load({', '.join(map(_literal, said))})"


def in_frame(code: str, frame: int, *, of_test: bool) -> str:
    """The code that evaluates code in a frame, where the modules are there."""
    test = ", test=True" if of_test else ""
    return f"__import__('sys').modules[{package()!r}].answers.frame({_literal(code)}, {frame}{test})"


def _literal(value: object) -> str:
    """A value as a literal of Python in ASCII."""
    return ascii(value)
