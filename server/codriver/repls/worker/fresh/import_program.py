"""Import modules as a new process would, with two versions of their source, and compare the results.

The program imports the modules with the current source of the edited ones. When the first edited module is about to
run, it forks, and the copy continues with the previous source. This way, everything before that is imported only once
and is the same in both. If a fork is not possible at that point, a second process, forked at the start, imports
everything with the previous source. The result is the values that differ.

Nothing is written: compiled code stays in memory, and effects are refused. If the system allows it, the process also
has no network access and sees the file system through an overlay.
"""

from __future__ import annotations

import gc
import importlib
import importlib.machinery
import importlib.util
import json
import os
import sys

from .importers import find_importers
from .leaf_rules import compare_imports
from .leaves import LeafDescriber
from .refused_effects import EffectRefusedError, RefusedEffects

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from typing import Any, Dict

    Answer = Dict[str, Any]

SOURCE_ENCODING = "utf-8"
MAX_REASON_CHARACTERS = 200
"""Maximum number of characters reported from the reason for a failure."""
MAX_COMPILATION_NS = 10 * 10**9
"""The assumed maximum duration of a compilation, in nanoseconds.

Compiled code that was written this long after the source file cannot come from a previous version.
"""
_LOADER_CLASS: Any = importlib.machinery.SourceFileLoader


def main() -> None:
    """Read a specification from standard input, import the modules, and write the result to standard output.

    Both are JSON.
    """
    spec = json.loads(sys.stdin.buffer.read())
    output = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    comparison = Import(spec, output)
    try:
        answer = comparison.run()
    except _OtherProcessError:
        os._exit(0)
    except BaseException as error:
        if comparison.is_copy:  # the first process, which returns the result, may have ended
            os._exit(1)
        answer = {"failed": _describe_error(error)}
    _write(output, answer)
    os._exit(0)  # do not run the modules' exit handlers or wait for their threads


class _OtherProcessError(BaseException):
    """Raised to end a forked process that has finished its work."""


class Import:
    """An import of modules according to a specification.

    `output` is the file descriptor for the result. Forked copies of the process close it.
    """

    def __init__(self, spec: Answer, output: int) -> None:
        self._spec, self._output = spec, output
        self._edited: list[str] = spec["edited"]
        self._modules: dict[str, str] = spec["modules"]
        self._sources: dict[str, bytes] = {file: text.encode("latin-1") for file, text in spec["texts"].items()}
        self._previous = {file: text.encode("latin-1") for file, text in spec["former"].items()}
        self._edited_files = {self._modules[name] for name in self._edited}
        self._effects = RefusedEffects()
        self._failed: dict[str, str] = {}
        self._is_shielded = False
        self._reading = -1
        """The read end of the pipe for the result of importing the previous source, or the write end in the copy."""
        self.is_copy = False
        """Whether this process imports the previous source."""

    def run(self) -> Answer:
        """Import the modules with both versions of their source, and return the values that differ."""
        spec = self._spec
        os.chdir(spec["cwd"])
        _die_with_parent()
        self._shield()
        if spec["needsShield"] and not self._is_shielded:
            return {"failed": "this system does not allow separate namespaces"}
        # Do this before any file of the project can be imported, because its modules may have the name of any other
        # module.
        names = find_importers(self._edited, self._modules, self._source)
        needs_previous = not spec["roots"] and spec["forks"]
        standby = _Standby() if needs_previous else None
        if standby is not None and standby.is_copy:
            self._become_copy()
        self._prepare()
        order = [module for module in self._modules if module in set(names)]
        for name in order:
            self._import(name)
        if self.is_copy:
            leaves = self._describe_modules(names)
            _write(standby.writing if standby is not None and standby.is_copy else self._reading, self._answer(leaves))
            raise _OtherProcessError
        answer = self._answer({})
        if answer.get("failed") or answer.get("refused"):
            return answer
        if not needs_previous:
            return {**answer, "leaves": self._describe_modules(names, spec["roots"] or None)}
        present = self._describe_modules(names)
        previous = self._previous_result(standby)
        if previous is None or previous.get("failed") or previous.get("refused"):
            return previous or {"failed": "the import of the previous source ended early"}
        return {**answer, **compare_imports(previous["leaves"], present, self._edited, spec["watched"])}

    def _answer(self, leaves: dict[str, str]) -> Answer:
        """Return an answer with the `leaves`, or with the reason why the edited modules cannot be compared."""
        if self._effects.refused:
            return {"refused": self._effects.refused[0][:MAX_REASON_CHARACTERS]}
        failed = [f"{name}: {self._failed[name]}" for name in self._edited if name in self._failed]
        return {"failed": failed[0][:MAX_REASON_CHARACTERS]} if failed else {"leaves": leaves}

    def _shield(self) -> None:
        """Isolate this process from the network and mount an overlay over the directories, if possible."""
        if sys.platform == "linux":
            from . import isolation

            try:
                isolation.enter_namespace()
                isolation.isolate_network()
                isolation.mount_overlays(isolation.outermost_directories(self._spec["folders"]))
                os.chdir(self._spec["cwd"])
                self._is_shielded = True
            except OSError:
                pass

    def _source(self, file: str) -> bytes:
        try:
            if file not in self._sources:
                with open(file, "rb") as opened:
                    return opened.read()
        except OSError:
            return b""
        return self._sources[file]

    def _prepare(self) -> None:
        """Configure this process like the REPL, and start refusing effects."""
        spec = self._spec
        sys.argv[:] = spec["argv"]
        sys.path[:] = spec["path"]
        if spec["hashSeed"] is None:
            os.environ.pop("PYTHONHASHSEED", None)
        else:
            os.environ["PYTHONHASHSEED"] = spec["hashSeed"]
        sys.dont_write_bytecode = True
        importlib.invalidate_caches()
        original_get_code = _LOADER_CLASS.get_code
        project_files = set(self._modules.values())
        needs_previous = not spec["roots"] and spec["forks"]

        def get_code(loader: Any, name: str) -> types.CodeType | None:
            file = loader.get_filename(name)
            if needs_previous and file in self._edited_files and not self.is_copy and self._reading < 0:
                self._fork()
            if file in self._sources or (file in project_files and not _is_settled(file)):
                return compile(self._source(file), file, "exec", dont_inherit=True)
            found: types.CodeType | None = original_get_code(loader, name)
            return found

        _LOADER_CLASS.get_code = get_code
        _LOADER_CLASS.set_data = lambda *_, **__: None
        self._effects.install()
        if spec["django"]:
            try:
                importlib.import_module("django").setup()
            except BaseException as error:
                self._failed.update(dict.fromkeys(self._edited, _describe_error(error)))

    def _import(self, name: str) -> None:
        try:
            importlib.import_module(name)
        except _OtherProcessError:
            raise
        except BaseException as error:
            self._failed[name] = _describe_error(error)

    def _fork(self) -> None:
        """Fork if that is possible at this point. The child process imports the previous source."""
        if sys.platform == "linux" and not _has_threads():
            reading, writing = os.pipe()
            self._effects.allows_fork = True
            process = os.fork()
            self._effects.allows_fork = False
            if process:
                os.close(writing)
                self._reading = reading
                return
            os.close(reading)
            self._reading = writing
            self._become_copy()
            _die_with_parent()

    def _become_copy(self) -> None:
        """Turn this process into the copy that imports the previous source and does not write the result."""
        self.is_copy = True
        os.close(self._output)
        self._sources.update(self._previous)

    def _previous_result(self, standby: _Standby | None) -> Answer | None:
        """Return the result of importing the previous source, or None if it was not imported."""
        if self._reading >= 0:
            reading = self._reading
        elif standby is not None:
            reading = standby.begin()
        else:
            return None
        data = b""
        while more := os.read(reading, 2**16):
            data += more
        try:
            answer: Answer = json.loads(data)
        except ValueError:
            return None
        return answer

    def _describe_modules(self, names: list[str], roots: dict[str, list[str]] | None = None) -> dict[str, str]:
        """Describe the values in the imported modules, by path. With `roots`, include only these names."""
        gc.disable()
        shapes = LeafDescriber(self._edited, self._spec["shapeSeconds"])
        leaves: dict[str, str] = {}
        for name in names:
            if name not in self._failed and (roots is None or name in roots):
                leaves.update(shapes.describe_module(name, None if roots is None else roots[name]))
        return leaves


class _Standby:
    """A process that was forked at the start and imports the previous source from scratch if needed."""

    def __init__(self) -> None:
        waiting, self._go = os.pipe()
        self._reading, self.writing = os.pipe()
        self.is_copy = os.fork() == 0  # type: ignore[attr-defined,unused-ignore]  # not created on systems without fork
        if not self.is_copy:
            os.close(waiting)
            os.close(self.writing)
            return
        os.close(self._go)
        os.close(self._reading)
        _die_with_parent()
        if not os.read(waiting, 1):
            raise _OtherProcessError

    def begin(self) -> int:
        """Start the import in the waiting process. Return the read end of the pipe for its result."""
        os.write(self._go, b"1")
        return self._reading


def _die_with_parent() -> None:
    if sys.platform == "linux":
        import signal

        from . import isolation

        isolation.set_process_option(isolation.PR_SET_PDEATHSIG, signal.SIGKILL)


def _is_settled(file: str) -> bool:
    """Return whether compiled code is certainly up to date because it was written long enough after its source.

    Timestamps alone cannot distinguish two versions of a source that were written within the same second.
    """
    try:
        compiled, source = os.stat(importlib.util.cache_from_source(file)), os.stat(file)
    except (OSError, NotImplementedError):
        return False
    return compiled.st_mtime_ns > max(source.st_mtime_ns, source.st_ctime_ns) + MAX_COMPILATION_NS


def _has_threads() -> bool:
    return len(os.listdir("/proc/self/task")) > 1


def _write(number: int, answer: Answer) -> None:
    """Write a complete result to a file descriptor as JSON."""
    data = json.dumps(answer).encode()
    while data:
        data = data[os.write(number, data) :]


def _describe_error(error: BaseException) -> str:
    """Describe an error. Messages of user-defined errors are omitted, because getting them would run code."""
    kind = type(error)
    is_known = kind.__module__ == "builtins" or kind is EffectRefusedError
    return f"{kind.__name__}: {error}" if is_known else kind.__name__
