"""Generate pytest files from evaluations."""

from __future__ import annotations

import ast
import builtins
import hashlib
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from codriver.core.images import find_images, replace_image_data
from codriver.features.export.documents.comparison import HOME_MODULE_PATTERN, pattern_for_text, python_literal
from codriver.features.export.documents.layout import (
    DocumentBuilder,
    comment_out,
    header_lines,
    name_tests,
    write_omitted_steps,
)
from codriver.features.export.documents.step_verification import DEFAULT_NAMESPACES
from codriver.python_syntax import parse_source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.features.export.documents.layout import Layout, Origin
    from codriver.features.export.documents.step_verification import CheckedStep


_ATOMIC_EXPRESSIONS: Final = (
    *(ast.Call, ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.JoinedStr, ast.BinOp),
    *(ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp),
)
"""Expressions that need no parentheses before an operator."""
_CONTROL_CHARACTER: Final = re.compile(r"[\x00-\x1f\x7f]")
"""Matches characters that must be escaped in a literal, because some of them end a line or the file."""
_SIDE_EFFECT_CALL: Final = re.compile(
    r"print\(|(?:.*\.)?(?:append|add|update|extend|sort|insert|remove|clear|seed|reverse|discard|write|close|put)\("
)
"""Matches code that is evaluated for its side effect. Its value is not asserted."""
_DYNAMIC_NAMES: Final = re.compile(r"\b(?:globals|locals|vars|eval|exec)\(|^\s*global\s", re.MULTILINE)
"""Matches code that may read or write the module's names dynamically."""
_LAST_VALUE_NAMES: Final = frozenset({"_", "__", "___"})
"""Names that exist only at a Python prompt, for its last three values."""
_INDENT: Final = "    "
IPYTHON_MODULES_BY_NAME: Final = {"display": "IPython.display", "get_ipython": "IPython"}
"""Maps names that kernels provide without an import to the modules from which they can be imported."""
MAX_ASSERTED_CHARACTERS: Final = 2000
"""Maximum length of a printed value to assert in full. For longer ones, only a digest is asserted."""


def render_pytest_file(layout: Layout, checked: Sequence[CheckedStep], origin: Origin) -> DocumentBuilder:
    """Return a pytest file. Steps that cannot run are appended as comments with the reasons."""
    page = DocumentBuilder()
    tests = [[check for check in test if not _uses_last_value_name(check)] for test in layout.tests]
    body, defined = DocumentBuilder(), frozenset(name for check in checked for name in check.step.gives)
    for name, test in zip(name_tests(tests, "_", layout.names), tests, strict=True):
        if test:
            _write_test(
                body,
                f"test_{name}",
                [_without_module_name(check, defined) for check in test],
                _global_names(layout, test),
            )
    _write_header(page, checked, origin)
    _write_above(page, layout, _missing_imports(body.text, layout, checked))
    page.ensure_blank_lines(2)
    body.lines, skipped = body.lines[2:], 2
    offset = len(page.lines) - skipped
    page.lines += body.lines
    page.steps |= {line + offset: step for line, step in body.steps.items()}
    above_ids = set(map(id, layout.above))
    absent = [
        check
        for check in checked
        if check.verdict == "absent" or check.is_patch or (_uses_last_value_name(check) and id(check) not in above_ids)
    ]
    if absent:
        page.ensure_blank_lines(2)
        write_omitted_steps(page, absent, "#")
    return page


def _write_header(page: DocumentBuilder, checked: Sequence[CheckedStep], origin: Origin) -> None:
    first, *rest = header_lines(origin, checked)
    words = "\n".join([first, "", *rest]).replace("\\", "\\\\").replace('"', "'")
    page.write(f'"""{words}\n"""')


def _write_above(page: DocumentBuilder, layout: Layout, required: Sequence[str]) -> None:
    """Write the part above the tests, which consists of imports, definitions and constants."""
    imports = [check for check in layout.above if check.step.role == "import"]
    of_lines = {**dict.fromkeys(required), **{import_.step.text: import_ for import_ in imports}}
    page.ensure_blank_lines(1)
    for line in sorted(of_lines, key=lambda line: ("__future__" not in line, line.startswith("from"), line)):
        page.write(line, of_lines[line])
    before = "import"
    for check in layout.above:
        if check.step.role != "import":
            page.ensure_blank_lines(2 if "definition" in (before, check.step.role) else 1 if before == "import" else 0)
            _write_note(page, check, "")
            page.write(check.step.text, check)
            before = check.step.role


def _uses_last_value_name(check: CheckedStep) -> bool:
    return (
        bool(check.step.uses & _LAST_VALUE_NAMES - check.step.gives)
        and check.verdict != "absent"
        and check.step.role != "import"
    )


def _missing_imports(body: str, layout: Layout, checked: Sequence[CheckedStep]) -> list[str]:
    """Return import statements for the names that the tests use and the session did not import."""
    lines = []
    uses = {"asyncio": "asyncio.run(", "re": "re.fullmatch(", "contextlib": "contextlib.", "io": "io.StringIO",
              "hashlib": "hashlib.sha256("}  # fmt: skip
    lines += [f"import {name}" for name, use in uses.items() if use in body]
    defined = frozenset(name for check in checked if not check.is_patch for name in check.step.gives)
    raising = [_without_module_name(check, defined) for check in checked if check.verdict == "raises"]
    lines += [f"import {module}" for check in raising if (module := _error_module(check))]
    if "pytest.raises(" in body:
        lines.append("import pytest")
    lines += _imports_from_other_modules(checked, defined)
    del layout
    return lines


def _imports_from_other_modules(checked: Sequence[CheckedStep], defined: frozenset[str]) -> list[str]:
    """Return import statements for names used by code that was evaluated in a different module."""
    lines = list[str]()
    displayed = {
        name
        for check in checked
        if check.verdict != "absent"
        for name in check.step.uses & IPYTHON_MODULES_BY_NAME.keys() - defined
    }
    lines += [f"from {IPYTHON_MODULES_BY_NAME[name]} import {name}" for name in sorted(displayed)]
    for namespace in dict.fromkeys(check.of.namespace for check in checked):
        if namespace not in DEFAULT_NAMESPACES:
            of = [
                check
                for check in checked
                if check.of.namespace == namespace and check.verdict != "absent" and not check.of.file
            ]
            used = frozenset(name for check in of for name in check.step.uses) - defined - frozenset(dir(builtins))
            lines += [f"from {namespace} import {', '.join(sorted(used))}"] * bool(used)
    return lines


def _without_module_name(check: CheckedStep, defined: frozenset[str]) -> CheckedStep:
    """Change a step so that its assertion does not depend on the name of the session's module.

    Printed class names contain this name, and the test file is a different module.
    """
    if check.raised is not None and check.raised.name in defined:
        return replace(check, raised=replace(check.raised, type=check.raised.name))
    value = check.value or ""
    if check.verdict not in {"same", "varies"} or python_literal(value) is not None:
        return check
    pattern = check.pattern.replace(HOME_MODULE_PATTERN, r"(?:[\w.<>]+\.)?") or re.escape(value)
    for name in defined:
        pattern = re.sub(rf"(?:\w+\\\.)+(?={re.escape(name)}\b)", lambda _found: r"(?:[\w.<>]+\.)?", pattern)
    is_changed = pattern not in (check.pattern, re.escape(value))
    return replace(check, verdict="varies", pattern=pattern) if is_changed else check


def _error_module(check: CheckedStep) -> str:
    """Return the module that defines the step's error class, or an empty string if it need not be imported."""
    module = check.raised.type.rpartition(".")[0] if check.raised else ""
    return "" if module in DEFAULT_NAMESPACES | {check.of.namespace} else module


def _global_names(layout: Layout, test: Sequence[CheckedStep]) -> list[str]:
    """Return the names that a test has to declare as `global`, because code above the tests reads them."""
    given = {name for check in test for name in check.step.gives}
    steps = [check.step for check in (*layout.above, *test)]
    if any(_DYNAMIC_NAMES.search(step.text) for step in steps):
        return sorted(given)
    read = {name for check in layout.above for name in check.step.uses | check.step.gives} | set(dir(builtins))
    return sorted(given & read)


def _write_test(page: DocumentBuilder, name: str, test: Sequence[CheckedStep], global_names: Sequence[str]) -> None:
    page.ensure_blank_lines(2)
    page.write(f"def {name}():")
    indent = _INDENT
    awaits = any(check.step.awaits for check in test)
    if awaits:
        page.write(f"{indent}async def steps():")
        indent += _INDENT
    if global_names:
        page.write(f"{indent}global {', '.join(global_names)}")
    last_description = ""
    for check in test:
        if check.of.description and check.of.description != last_description:
            last_description = check.of.description
            page.write(comment_out(last_description, f"{indent}#"))
        _write_note(page, check, indent)
        _write_step(page, check, indent)
    if awaits:
        page.write(f"\n{_INDENT}asyncio.run(steps())")


def _write_note(page: DocumentBuilder, check: CheckedStep, indent: str) -> None:
    """Write the note on a step as a comment, if there is one."""
    if check.note:
        page.write(comment_out(check.note, f"{indent}#"))


def _write_step(page: DocumentBuilder, check: CheckedStep, indent: str) -> None:
    """Write a step of a test with its assertions."""
    if check.out:
        page.write(f"{indent}with contextlib.redirect_stdout(io.StringIO()) as printed:", check)
        page.write(_indent(_with_assertion(check), indent + _INDENT), check)
        page.write(f"{indent}assert printed.getvalue() == {check.out!r}", check)
    else:
        page.write(_indent(_with_assertion(check), indent), check)


def _with_assertion(check: CheckedStep) -> str:
    """Return a step's code with its assertion.

    An image becomes a comment, because its bytes may change with the version of the library that draws it.
    """
    images = find_images(replace_image_data("\n".join((*check.images, check.drawn))))
    comments = [f"# displays an image, which is left out: {image.description}" for image in images]
    return "\n".join([check.step.text if check.drawn else _value_assertion(check), *comments])


def _value_assertion(check: CheckedStep) -> str:
    code = check.step.text
    if check.verdict == "raises" and check.raised is not None:
        name = check.raised.type if _error_module(check) else check.raised.name or "Exception"
        match = f", match={_regex_literal(pattern_for_text(check.raised.message))}" if check.raised.message else ""
        return f"with pytest.raises({name}{match}):\n" + _indent(code, _INDENT)
    if check.value is None or check.verdict not in {"same", "varies"}:
        return code
    *comments, expression = _split_comments(code)
    before = "".join(f"{comment}\n" for comment in comments)
    if check.verdict == "varies":
        return f"{before}assert re.fullmatch({_regex_literal(check.pattern)}, repr({_as_argument(expression)}))"
    if check.value == "None" and _SIDE_EFFECT_CALL.match(expression):
        return code
    literal = python_literal(check.value)
    if len(check.value) > MAX_ASSERTED_CHARACTERS and not isinstance(literal and literal[0], set | frozenset):
        digest = hashlib.sha256(check.value.encode()).hexdigest()
        return f'{before}assert hashlib.sha256(repr({_as_argument(expression)}).encode()).hexdigest() == "{digest}"'
    if literal is None:
        return f"{before}assert repr({_as_argument(expression)}) == {check.value!r}"
    operator = "is" if literal[0] is None or isinstance(literal[0], bool) else "=="
    return f"{before}assert {_as_operand(expression)} {operator} {check.value}"


def _split_comments(code: str) -> list[str]:
    """Return the comment lines above a step, followed by its code."""
    lines = code.split("\n")
    count = next((index for index, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return [*lines[:count], "\n".join(lines[count:])]


def _as_operand(expression: str) -> str:
    """Return the expression, parenthesized if necessary for use as an operand."""
    node = parse_source(f"async def steps():\n ({expression}\n)").body[0]
    value = (
        node.body[0].value if isinstance(node, ast.AsyncFunctionDef) and isinstance(node.body[0], ast.Expr) else None
    )
    is_simple = isinstance(value, _ATOMIC_EXPRESSIONS) and not expression.lstrip().startswith("(")
    return expression if is_simple else f"({expression})"


def _as_argument(expression: str) -> str:
    """Return the expression, parenthesized if necessary for use as the only argument of a call."""
    try:
        call = ast.parse(f"f({expression}\n)", mode="eval").body
    except SyntaxError:  # such as `yield`, which needs its own parentheses
        return f"({expression})"
    is_one = isinstance(call, ast.Call) and len(call.args) == 1 and not call.keywords
    return expression if is_one else f"({expression})"


def _regex_literal(pattern: str) -> str:
    """Return a Python string literal for a pattern, raw and with few escapes if possible."""
    pattern = pattern.replace(r"\b", "")
    plain = re.sub(r"\\([ \-#&~<>=:;,'\"/@!%`])", r"\1", pattern)
    is_raw = not _CONTROL_CHARACTER.search(plain) and not plain.endswith("\\")
    if is_raw and '"' not in plain:
        return f'r"{plain}"'
    return f"r'{plain}'" if is_raw and "'" not in plain else repr(pattern)


def _indent(code: str, indent: str) -> str:
    """Indent code, except for lines inside a string."""
    moved = "\n".join(_INDENT + line for line in code.split("\n"))
    inside: set[int] = set()
    for node in ast.walk(parse_source(f"async def steps():\n{moved}\n")):
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)):
            inside |= set(range(node.lineno, node.end_lineno or node.lineno))
    lines = enumerate(code.split("\n"), 1)
    return "\n".join(line if number in inside or not line else indent + line for number, line in lines)
