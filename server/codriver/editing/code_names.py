"""Find the names that code defines and uses, without running it.

A name belongs to a *space*: a Lisp namespace or a Python module. Code that cannot be parsed defines and uses nothing.
"""

from __future__ import annotations

import ast
import re
import symtable
import warnings
from dataclasses import dataclass
from difflib import unified_diff
from functools import partial
from itertools import takewhile
from operator import eq
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from codriver.errors import truncate
from codriver.python_syntax import parse_source
from codriver_lisp.definitions import ONCE_HEADS, read_definitions
from codriver_lisp.errors import TooManyFormsError
from codriver_lisp.reader import read_forms
from codriver_lisp.references import find_references, find_references_within
from codriver_lisp.requirements import declared_namespace
from codriver_lisp.source_text import Document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


Language = Literal["lisp", "hy", "python"]
T = TypeVar("T")

WORD_PATTERNS: Final = {
    "lisp": re.compile(r"[^\s()\[\]{}\"';,@^`~#\\/]+"),
    "hy": re.compile(r"[^\s()\[\]{}\"';,@^`~#\\/.]+"),
    "python": re.compile(r"[^\W\d]\w*"),
}
"""Patterns that match words that may be names, by language."""
TOKEN_PATTERN: Final = re.compile(r"\"(?:[^\"\\]|\\.)*\"|[\w.+*/!?<>=:&%$-]+|\S")
"""Matches the strings, words and single characters of code that are compared to describe a change."""
IMPORT_PATTERN: Final = re.compile(r"\((?:ns|require|use|import)\s|\bimport\s")
"""Matches the start of code that imports names in Lisp or Python."""
MAX_DELTA_CHARACTERS: Final = 40
"""Maximum length of the removed code, and of the added code, for a description of a change to contain both."""
MAX_DIFF_CHARACTERS: Final = 600
"""Maximum length of a diff that describes a change."""
PARSE_ERRORS: Final = (SyntaxError, ValueError, RecursionError, MemoryError, TooManyFormsError)
"""Exceptions raised by parsing code that is invalid or too large."""


@dataclass(frozen=True, slots=True)
class NameDefinition:
    """A name that code defines."""

    space: str
    name: str
    text: str
    """The source of the top-level form or statement."""
    form: object
    """The form to compare. Definitions with an equal form are equivalent."""
    retains_value: bool = False
    """Whether evaluating the code again does not change the value, as with `defonce`."""
    is_dotted: bool = False
    """Whether the code sets an attribute. If so, `space` is the dotted name of the object."""


def possible_names(code: str, language: Language) -> set[str]:
    """Return all words in the code that may be names, without any prefix before a slash or dot."""
    return set(WORD_PATTERNS[language].findall(code))


def find_definitions(code: str, language: Language, space: str) -> tuple[NameDefinition, ...]:
    """Return the names that code defines when it runs in the namespace or module `space`, in order."""
    makes = _python_definitions if language == "python" else _lisp_definitions
    return _read_or_default(lambda: tuple(makes(code, space)), ())


def import_statements(code: str, language: Language) -> str:
    """Return the statements that import names, such as `ns`, `require` and `import`."""
    if IMPORT_PATTERN.search(code) is None:
        return ""
    heads = _python_import_statements if language == "python" else _lisp_import_forms
    return _read_or_default(lambda: "\n".join(heads(code)), "")


def uses_name(code: str, language: Language, space: str, name: tuple[str, str], *, known: str = "") -> bool:
    """Return whether code in the namespace or module `space` uses a name from another one.

    `name` is a pair of the other namespace or module and the name. `known` is the header of the file that the code
    belongs to. Local variables, strings and quoted data do not count.
    """
    check = partial(_python_uses, code, space, name, known)
    if language != "python":
        check = partial(_lisp_uses, code, space, name, known, is_hy=language == "hy")
    return _read_or_default(check, False)  # noqa: FBT003  # the default, also for unreadable code


def short_difference(before: str, after: str) -> str:
    """Return the difference between two forms as a short text such as `43 → 100`, or "" if it would be long."""
    old, new = TOKEN_PATTERN.findall(before), TOKEN_PATTERN.findall(after)
    first = len(list(takewhile(bool, map(eq, old, new))))
    last = len(list(takewhile(bool, map(eq, reversed(old[first:]), reversed(new[first:])))))
    gone, added = (" ".join(tokens[first : len(tokens) - last]) for tokens in (old, new))
    is_short = gone and added and max(len(gone), len(added)) <= MAX_DELTA_CHARACTERS
    return f"{gone} → {added}" if is_short else ""


def line_diff(before: str, after: str) -> str:
    """Return the lines that differ as a unified diff without a header. A long diff is truncated."""
    lines = [*unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)][2:]
    text = "\n".join(line for line in lines if not line.startswith("@@"))
    return truncate(text, MAX_DIFF_CHARACTERS)


def _read_or_default(read: Callable[[], T], otherwise: T) -> T:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read()
    except PARSE_ERRORS:
        return otherwise


def _lisp_definitions(code: str, space: str) -> Iterator[NameDefinition]:
    found = read_definitions(code, space)
    forms = [form for form in read_forms(code).forms if form.kind != "discard"]
    begin = 0
    for form, end in zip(forms, found.ends, strict=True):
        for definition in found.found[begin:end]:
            # A namespace that is computed when the code runs, so its definitions are unknown.
            for name in (
                ()
                if definition.is_removal or not definition.namespace
                else dict.fromkeys((definition.name, *definition.makes))
            ):
                yield NameDefinition(
                    definition.namespace,
                    name,
                    code[form.start : form.end],
                    definition.digest,
                    definition.head in ONCE_HEADS,
                )
        begin = end


def _lisp_import_forms(code: str) -> Iterator[str]:
    for form in read_forms(code).forms:
        text = code[form.start : form.end]
        if IMPORT_PATTERN.match(text):
            yield text


def _lisp_uses(code: str, space: str, name: tuple[str, str], known: str, *, is_hy: bool) -> bool:
    home, word = name
    document = Document(code, is_hy=is_hy)
    is_in_home = home == space or any(f"({head}{home}" in code for head in ("ns ", "in-ns '", "in-ns (quote "))
    if is_in_home and find_references_within(document, home, word):
        return True
    whole = Document(f"{known}\n{code}", is_hy=is_hy)
    if declared_namespace(whole) == home:
        return False
    return any(start > len(known) for start in find_references(whole, home, word))


def _statements(code: str) -> list[ast.stmt]:
    return parse_source(code).body


def _python_definitions(code: str, space: str) -> Iterator[NameDefinition]:
    lines = code.splitlines()
    for node in _statements(code):
        first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
        for name in _defined_names(node):
            text = "\n".join(lines[first - 1 : node.end_lineno])
            yield NameDefinition(space, name, text, ast.dump(node))
        for owner, name in _attributes_set(node):
            text = "\n".join(lines[first - 1 : node.end_lineno])
            yield NameDefinition(owner, name, text, ast.dump(node), is_dotted=True)


def _attributes_set(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yield the attributes that an assignment sets, as pairs of the owner's dotted name and the attribute."""
    for target in node.targets if isinstance(node, ast.Assign) else ():
        if isinstance(target, ast.Attribute) and (owner := _dotted_name(target.value)):
            yield owner, target.attr


def _defined_names(node: ast.stmt) -> list[str]:
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
    tree = parse_source(code)
    if home == space and _is_global(symtable.symtable(code, "<code>", "exec"), word):
        return any(isinstance(node, ast.Name) and node.id == word for node in ast.walk(tree))
    imported = dict(_import_bindings([*_statements(known), *ast.walk(tree)]))
    target = f".{home}.{word}"
    for node in ast.walk(tree):
        dotted = _dotted_name(node)
        root, _, rest = dotted.partition(".")
        whole = f"{imported[root]}.{rest}".strip(".") if root in imported else ""
        if whole and target.endswith(f".{whole}"):
            return True
    return False


def _is_global(table: symtable.SymbolTable, word: str) -> bool:
    """Return whether a word refers to a module global in any scope."""
    if word in table.get_identifiers():
        symbol = table.lookup(word)
        if symbol.is_referenced() and (table.get_type() == "module" or symbol.is_global()):
            return True
    return any(_is_global(inner, word) for inner in table.get_children())


def _import_bindings(nodes: list[ast.AST] | list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Yield the names that imports bind, each with the dotted name of what is imported."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.partition(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (root, root)


def _dotted_name(node: ast.AST) -> str:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        owner = _dotted_name(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


LISP_SUFFIXES: Final = frozenset({".clj", ".cljc", ".cljs", ".lpy", ".bb"})
CONFTEST_STEM: Final = "conftest"
