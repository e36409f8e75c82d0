"""The names that code defines and uses, and the imports between files, found without running code.

A name belongs to a *space*: a namespace of Lisp, or a module of Python. Code that cannot be parsed defines and uses
nothing. Imports between the files of a project are matched by name, directly or not. Only changed files are read again.
Files with the same name in several directories are not distinguished, because running too many tests does no harm.
"""

from __future__ import annotations

import ast
import re
import symtable
import threading
import warnings
from collections import deque
from dataclasses import dataclass
from difflib import unified_diff
from functools import partial
from itertools import takewhile
from operator import eq
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from codriver import files
from codriver.errors import cut
from codriver.files import Links, Rules
from codriver_lisp.binding_forms import find_occurrences, namespace_of
from codriver_lisp.definitions import ONCE, read_definitions
from codriver_lisp.errors import TooManyFormsError
from codriver_lisp.reader import read
from codriver_lisp.source_text import Document
from codriver_lisp.symbol_rename import DefinitionRenaming, find_references

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path


Language = Literal["lisp", "hy", "python"]
T = TypeVar("T")

WORDS: Final = {
    "lisp": re.compile(r"[^\s()\[\]{}\"';,@^`~#\\/]+"),
    "hy": re.compile(r"[^\s()\[\]{}\"';,@^`~#\\/.]+"),
    "python": re.compile(r"[^\W\d]\w*"),
}
TOKEN_PATTERN: Final = re.compile(r"\"(?:[^\"\\]|\\.)*\"|[\w.+*/!?<>=:&%$-]+|\S")
HEADERS: Final = re.compile(r"\((?:ns|require|use|import)\s|\bimport\s")
MAX_DELTA_CHARACTERS: Final = 40
DIFF_CHARACTERS: Final = 600
UNREADABLE: Final = (SyntaxError, ValueError, RecursionError, MemoryError, TooManyFormsError)


@dataclass(frozen=True, slots=True)
class Making:
    """One name that code defines.

    `text` is the top-level form or statement. Definitions with equal `form` are equivalent.

    With `retains_value`, an existing name retains its value, as with `defonce`.
    """

    space: str
    name: str
    text: str
    form: object
    retains_value: bool = False
    is_dotted: bool = False
    """Whether an attribute is set, on the object that the space's name refers to."""


def words(code: str, language: Language) -> set[str]:
    """Return all words in the code that could be names, each without its prefix before a slash or a dot."""
    return set(WORDS[language].findall(code))


def makings(code: str, language: Language, space: str) -> tuple[Making, ...]:
    """Return the names that the code defines when it runs in the namespace or module `space`, in order."""
    makes = _python_makings if language == "python" else _lisp_makings
    return _read_or_default(lambda: tuple(makes(code, space)), ())


def header(code: str, language: Language) -> str:
    """Return the statements that import names of other namespaces or modules: `ns`, `require`, `import`."""
    if HEADERS.search(code) is None:
        return ""
    heads = _python_import_statements if language == "python" else _lisp_import_forms
    return _read_or_default(lambda: "\n".join(heads(code)), "")


def uses(code: str, language: Language, space: str, name: tuple[str, str], *, known: str = "") -> bool:
    """Return whether the code, run in `space`, uses a name of another space. `known` is the header before the code.

    A local name, or a word in quoted data or a string, does not count.
    """
    check = partial(_python_uses, code, space, name, known)
    if language != "python":
        check = partial(_lisp_uses, code, space, name, known, is_hy=language == "hy")
    return _read_or_default(check, False)  # noqa: FBT003  # the default, also for unreadable code


def delta(before: str, after: str) -> str:
    """Return the difference between two forms as a short text such as `43 → 100`, or an empty string if it is long."""
    old, new = TOKEN_PATTERN.findall(before), TOKEN_PATTERN.findall(after)
    first = len(list(takewhile(bool, map(eq, old, new))))
    last = len(list(takewhile(bool, map(eq, reversed(old[first:]), reversed(new[first:])))))
    gone, added = (" ".join(tokens[first : len(tokens) - last]) for tokens in (old, new))
    is_short = gone and added and max(len(gone), len(added)) <= MAX_DELTA_CHARACTERS
    return f"{gone} → {added}" if is_short else ""


def diff(before: str, after: str) -> str:
    """Return the differing lines of two texts as a unified diff without header. A long diff is truncated."""
    lines = [*unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)][2:]
    text = "\n".join(line for line in lines if not line.startswith("@@"))
    return cut(text, DIFF_CHARACTERS)


def _read_or_default(read_it: Callable[[], T], otherwise: T) -> T:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read_it()
    except UNREADABLE:
        return otherwise


def _lisp_makings(code: str, space: str) -> Iterator[Making]:
    found = read_definitions(code, space)
    forms = [form for form in read(code).forms if form.kind != "discard"]
    begin = 0
    for form, end in zip(forms, found.ends, strict=True):
        for definition in found.found[begin:end]:
            # A namespace that is computed when the code runs, so its definitions are unknown.
            for name in (
                ()
                if definition.is_removal or not definition.namespace
                else dict.fromkeys((definition.name, *definition.makes))
            ):
                yield Making(
                    definition.namespace, name, code[form.start : form.end], definition.digest, definition.head in ONCE
                )
        begin = end


def _lisp_import_forms(code: str) -> Iterator[str]:
    for form in read(code).forms:
        text = code[form.start : form.end]
        if HEADERS.match(text):
            yield text


def _lisp_uses(code: str, space: str, name: tuple[str, str], known: str, *, is_hy: bool) -> bool:
    home, word = name
    document = Document(code, is_hy=is_hy)
    if home == space or any(f"({head}{home}" in code for head in ("ns ", "in-ns '", "in-ns (quote ")):
        found = find_occurrences(document, document.reading.forms, (word, ""), [word, f"{home}/{word}"])
        if any(
            occurrence.role in ("reference", "global") and (occurrence.scope.old is None or "/" in occurrence.word)
            for occurrence in found
        ):
            return True
    whole = Document(f"{known}\n{code}", is_hy=is_hy)
    if namespace_of(whole) == home:
        return False
    references = find_references(whole, DefinitionRenaming(home, word, word), checks=False)
    return any(start > len(known) for start, _, _ in references.positions)


def _statements(code: str) -> list[ast.stmt]:
    return ast.parse(code).body


def _python_makings(code: str, space: str) -> Iterator[Making]:
    lines = code.splitlines()
    for node in _statements(code):
        first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
        for name in _defined(node):
            text = "\n".join(lines[first - 1 : node.end_lineno])
            yield Making(space, name, text, ast.dump(node))
        for owner, name in _attributes_set(node):
            text = "\n".join(lines[first - 1 : node.end_lineno])
            yield Making(owner, name, text, ast.dump(node), is_dotted=True)


def _attributes_set(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yield the attributes that an assignment sets, each with the dotted name of its owner."""
    for target in node.targets if isinstance(node, ast.Assign) else ():
        if isinstance(target, ast.Attribute) and (owner := _dotted(target.value)):
            yield owner, target.attr


def _defined(node: ast.stmt) -> list[str]:
    """Return the names that a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    names = [part for target in targets for part in ast.walk(target)]
    return [name.id for name in names if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)]


def _python_import_statements(code: str) -> Iterator[str]:
    for node in _statements(code):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield ast.unparse(node)


def _python_uses(code: str, space: str, name: tuple[str, str], known: str) -> bool:
    home, word = name
    tree = ast.parse(code)
    if home == space and _is_global(symtable.symtable(code, "<code>", "exec"), word):
        return any(isinstance(node, ast.Name) and node.id == word for node in ast.walk(tree))
    imported = dict(_imported([*_statements(known), *ast.walk(tree)]))
    target = f".{home}.{word}"
    for node in ast.walk(tree):
        dotted = _dotted(node)
        root, _, rest = dotted.partition(".")
        whole = f"{imported[root]}.{rest}".strip(".") if root in imported else ""
        if whole and target.endswith(f".{whole}"):
            return True
    return False


def _is_global(table: symtable.SymbolTable, word: str) -> bool:
    """Return whether the word refers to a global of the module anywhere."""
    if word in table.get_identifiers():
        symbol = table.lookup(word)
        if symbol.is_referenced() and (table.get_type() == "module" or symbol.is_global()):
            return True
    return any(_is_global(inner, word) for inner in table.get_children())


def _imported(nodes: list[ast.AST] | list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Yield the names that imports bind, each with the dotted name that it refers to."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.partition(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (root, root)


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        owner = _dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


RULES: Final = Rules(Links.ANY, 2**20)
PYTHON: Final = ".py"
LISP: Final = frozenset({".clj", ".cljc", ".cljs", ".lpy", ".bb"})
MAX_BYTES: Final = 2**20
CONFTEST: Final = "conftest"
_IMPORT: Final = re.compile(
    rb"^[ \t]*(?:from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n#;]*)|import[ \t]+([^\n#;]*))", re.MULTILINE
)
_NS: Final = re.compile(r"\(ns\s+(?:\^\S+\s+)*([^\s()\[\]{}\"]+)(.*?)(?=^\(|\Z)", re.DOTALL | re.MULTILINE)
_WORD: Final = re.compile(r"[^\s()\[\]{}\"',;]+")


class ImportGraph:
    """The imports of files that were queried, for the lifetime of a server. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Path, tuple[files.Stamp, str, frozenset[str]]] = {}
        """Stamp, namespace in Lisp, and imported names, by file."""

    def importers(self, changed: Iterable[Path], among: Iterable[Path], root: Path) -> dict[Path, int]:
        """Return the files among `among` that import the changed ones directly or indirectly.

        The values are the numbers of imports in between. Blocks on the disk.
        """
        with self._lock:
            names: dict[str, set[Path]] = {}
            imports: dict[Path, frozenset[str]] = {}
            for file in {*among, *changed}:
                known = self._read(file)
                if known is not None:
                    imports[file] = known[2]
                    for name in names_of(file, root, known[1]):
                        names.setdefault(name, set()).add(file)
        return _reached(changed, imports, names)

    def _read(self, file: Path) -> tuple[files.Stamp, str, frozenset[str]] | None:
        try:
            status = file.stat()
            stamp = files.stamp_of(status)
            known = self._known.get(file)
            if known is not None and known[0] == stamp:
                return known
            text = files.read(file, RULES) if status.st_size <= MAX_BYTES else b""
        except OSError:
            return None
        space, found = ("", frozenset(python_imports(text, file))) if file.suffix == PYTHON else lisp_imports(text)
        self._known[file] = stamp, space, found
        return self._known[file]


def _reached(
    changed: Iterable[Path], imports: Mapping[Path, frozenset[str]], names: Mapping[str, set[Path]]
) -> dict[Path, int]:
    by: dict[Path, list[Path]] = {}
    for file, found in imports.items():
        for target in {using for name in found for using in names.get(name, ()) if using != file}:
            by.setdefault(target, []).append(file)
    reached = dict.fromkeys(changed, 0)
    waiting = deque(reached)
    while waiting:
        current = waiting.popleft()
        for file in by.get(current, ()):
            if file not in reached:
                reached[file] = reached[current] + 1
                waiting.append(file)
    return reached


def names_of(file: Path, root: Path, space: str = "") -> Iterator[str]:
    """Yield the names by which a file may be imported: its namespace, or its path from any directory of the project."""
    if file.suffix != PYTHON:
        yield space
        return
    parts = file.with_suffix("").relative_to(root).parts if file.is_relative_to(root) else (file.stem,)
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    for start in range(len(parts)):
        yield ".".join(parts[start:])


def python_imports(text: bytes, file: Path) -> Iterator[str]:
    """Yield the modules that Python text may import anywhere. Relative imports are resolved by the directories."""
    for found in _IMPORT.finditer(text):
        source, names, modules = (part.decode("utf-8", "replace") if part else "" for part in found.groups())
        for module in filter(None, (part.split()[0] if part.split() else "" for part in modules.split(","))):
            yield from _dotted_prefixes(module)
        if source:
            level = len(source) - len(source.lstrip("."))
            directories = file.parent.parts[: len(file.parent.parts) - level + 1]
            base = ".".join(filter(None, [directories[-1] if level and directories else "", source.lstrip(".")]))
            yield from _dotted_prefixes(base)
            for name in re.findall(r"[\w*]+", re.sub(r"\bas\s+\w+|#[^\n]*", "", names)):
                yield f"{base}.{name}"


def _dotted_prefixes(name: str) -> Iterator[str]:
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        yield ".".join(parts[:end])


def lisp_imports(text: bytes) -> tuple[str, frozenset[str]]:
    """Return the namespace of Lisp text, and the names in its `ns` form, which include required namespaces."""
    found = _NS.search(text.decode("utf-8", "replace"))
    if found is None:
        return "", frozenset()
    return found[1], frozenset(_WORD.findall(found[2])) - {found[1]}
