"""Documents in Python: pytest files, scripts, comments and notebooks.

Source: nbformat 4.5, "The Notebook file format".
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from codriver.core.pictures import DATA, images_in, without_data
from codriver.features.export.documents.comparison import HOME, opened, python_literal
from codriver.features.export.documents.layout import Page, commented, header, test_names, write_left_out
from codriver.features.export.documents.verification import DEFAULT_NAMESPACES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.features.export.documents.layout import Layout, Origin
    from codriver.features.export.documents.verification import Checked


_SIMPLE: Final = (
    *(ast.Call, ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.JoinedStr, ast.BinOp),
    *(ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp),
)
"""Expressions that need no parentheses before an operator."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
"""Matches characters that must be escaped in a literal, because some of them end a line or the file."""
_FOR_EFFECT: Final = re.compile(
    r"print\(|(?:.*\.)?(?:append|add|update|extend|sort|insert|remove|clear|seed|reverse|discard|write|close|put)\("
)
_DYNAMIC: Final = re.compile(r"\b(?:globals|locals|vars|eval|exec)\(|^\s*global\s", re.MULTILINE)
_LAST_VALUES: Final = frozenset({"_", "__", "___"})
_INDENT: Final = "    "
OF_IPYTHON: Final = {"display": "IPython.display", "get_ipython": "IPython"}
"""Names that kernels provide without an import, and the modules to import them from."""
LONG: Final = 2000
"""Length above which a printed value is compared by its digest, because it would be unreadable in a test."""


def pytest_file(layout: Layout, checked: Sequence[Checked], origin: Origin) -> Page:
    """Return a pytest file. Steps that cannot run become comments at its end, with the reason."""
    page = Page()
    tests = [[one for one in test if not _uses_last(one)] for test in layout.tests]
    body, given = Page(), frozenset(name for one in checked for name in one.step.gives)
    for name, test in zip(test_names(tests, "_", layout.names), tests, strict=True):
        if test:
            _write_test(body, f"test_{name}", [_named(one, given) for one in test], _global_names(layout, test))
    _write_header(page, checked, origin)
    _write_above(page, layout, _imports(body.text, layout, checked))
    page.gap(2)
    body.lines, skipped = body.lines[2:], 2
    offset = len(page.lines) - skipped
    page.lines += body.lines
    page.steps |= {line + offset: one for line, one in body.steps.items()}
    above_ids = set(map(id, layout.above))
    absent = [
        one
        for one in checked
        if one.verdict == "absent" or one.is_patch or (_uses_last(one) and id(one) not in above_ids)
    ]
    if absent:
        page.gap(2)
        write_left_out(page, absent, "#")
    return page


def _write_header(page: Page, checked: Sequence[Checked], origin: Origin) -> None:
    first, *rest = header(origin, checked)
    words = "\n".join([first, "", *rest]).replace("\\", "\\\\").replace('"', "'")
    page.write(f'"""{words}\n"""')


def _write_above(page: Page, layout: Layout, required: Sequence[str]) -> None:
    """Write the part above the tests: imports, then functions, classes and constants."""
    imports = [one for one in layout.above if one.step.role == "import"]
    of_lines = {**dict.fromkeys(required), **{import_.step.text: import_ for import_ in imports}}
    page.gap(1)
    for line in sorted(of_lines, key=lambda line: ("__future__" not in line, line.startswith("from"), line)):
        page.write(line, of_lines[line])
    before = "import"
    for one in layout.above:
        if one.step.role != "import":
            page.gap(2 if "definition" in (before, one.step.role) else 1 if before == "import" else 0)
            _write_note(page, one, "")
            page.write(one.step.text, one)
            before = one.step.role


def _uses_last(one: Checked) -> bool:
    return bool(one.step.uses & _LAST_VALUES - one.step.gives) and one.verdict != "absent" and one.step.role != "import"


def _imports(body: str, layout: Layout, checked: Sequence[Checked]) -> list[str]:
    """Return the imports that the tests need in addition to those that were evaluated."""
    lines = []
    uses = {"asyncio": "asyncio.run(", "re": "re.fullmatch(", "contextlib": "contextlib.", "io": "io.StringIO",
              "hashlib": "hashlib.sha256("}  # fmt: skip
    lines += [f"import {name}" for name, use in uses.items() if use in body]
    given = frozenset(name for one in checked if not one.is_patch for name in one.step.gives)
    raising = [_named(one, given) for one in checked if one.verdict == "raises"]
    lines += [f"import {module}" for one in raising if (module := _module(one))]
    if "pytest.raises(" in body:
        lines.append("import pytest")
    lines += _borrowed(checked, given)
    del layout
    return lines


def _borrowed(checked: Sequence[Checked], given: frozenset[str]) -> list[str]:
    """Return imports for names that code used while it ran in another module."""
    lines = list[str]()
    displayed = {
        name for one in checked if one.verdict != "absent" for name in one.step.uses & OF_IPYTHON.keys() - given
    }
    lines += [f"from {OF_IPYTHON[name]} import {name}" for name in sorted(displayed)]
    for namespace in dict.fromkeys(one.of.namespace for one in checked):
        if namespace not in DEFAULT_NAMESPACES:
            of = [
                one for one in checked if one.of.namespace == namespace and one.verdict != "absent" and not one.of.file
            ]
            used = frozenset(name for one in of for name in one.step.uses) - given - frozenset(dir(builtins))
            lines += [f"from {namespace} import {', '.join(sorted(used))}"] * bool(used)
    return lines


def _named(one: Checked, given: frozenset[str]) -> Checked:
    """Return the step without the session's module prefix in its value. The file has a different module name."""
    if one.raised is not None and one.raised.name in given:
        return replace(one, raised=replace(one.raised, type=one.raised.name))
    value = one.value or ""
    if one.verdict not in {"same", "varies"} or python_literal(value) is not None:
        return one
    pattern = one.pattern.replace(HOME, r"(?:[\w.<>]+\.)?") or re.escape(value)
    for name in given:
        pattern = re.sub(rf"(?:\w+\\\.)+(?={re.escape(name)}\b)", lambda _found: r"(?:[\w.<>]+\.)?", pattern)
    is_changed = pattern not in (one.pattern, re.escape(value))
    return replace(one, verdict="varies", pattern=pattern) if is_changed else one


def _module(one: Checked) -> str:
    """Return the module to import for the error's class; empty if no import is needed."""
    module = one.raised.type.rpartition(".")[0] if one.raised else ""
    return "" if module in DEFAULT_NAMESPACES | {one.of.namespace} else module


def _global_names(layout: Layout, test: Sequence[Checked]) -> list[str]:
    """Return the names that a test must declare `global`, because other code reads them from the module."""
    given = {name for one in test for name in one.step.gives}
    steps = [one.step for one in (*layout.above, *test)]
    if any(_DYNAMIC.search(step.text) for step in steps):
        return sorted(given)
    read = {name for one in layout.above for name in one.step.uses | one.step.gives} | set(dir(builtins))
    return sorted(given & read)


def _write_test(page: Page, name: str, test: Sequence[Checked], global_names: Sequence[str]) -> None:
    page.gap(2)
    page.write(f"def {name}():")
    indent = _INDENT
    awaits = any(one.step.awaits for one in test)
    if awaits:
        page.write(f"{indent}async def steps():")
        indent += _INDENT
    if global_names:
        page.write(f"{indent}global {', '.join(global_names)}")
    last_description = ""
    for one in test:
        if one.of.description and one.of.description != last_description:
            last_description = one.of.description
            page.write(commented(last_description, f"{indent}#"))
        _write_note(page, one, indent)
        _write_step(page, one, indent)
    if awaits:
        page.write(f"\n{_INDENT}asyncio.run(steps())")


def _write_note(page: Page, one: Checked, indent: str) -> None:
    if one.note:
        page.write(commented(one.note, f"{indent}#"))


def _write_step(page: Page, one: Checked, indent: str) -> None:
    """Write one step of a test with its assertion."""
    if one.out:
        page.write(f"{indent}with contextlib.redirect_stdout(io.StringIO()) as printed:", one)
        page.write(_indented(_asserted(one), indent + _INDENT), one)
        page.write(f"{indent}assert printed.getvalue() == {one.out!r}", one)
    else:
        page.write(_indented(_asserted(one), indent), one)


def _asserted(one: Checked) -> str:
    """Return the code of a step with its assertion.

    Images are only mentioned in a comment, because other versions of a library draw them differently.
    """
    images = images_in(without_data("\n".join((*one.images, one.drawn))))
    comments = [f"# shows a picture, which is left out: {image.description}" for image in images]
    return "\n".join([one.step.text if one.drawn else _asserted_value(one), *comments])


def _asserted_value(one: Checked) -> str:
    code = one.step.text
    if one.verdict == "raises" and one.raised is not None:
        name = one.raised.type if _module(one) else one.raised.name or "Exception"
        match = f", match={_regex(opened(one.raised.message))}" if one.raised.message else ""
        return f"with pytest.raises({name}{match}):\n" + _indented(code, _INDENT)
    if one.value is None or one.verdict not in {"same", "varies"}:
        return code
    *comments, expression = _split_comments(code)
    before = "".join(f"{comment}\n" for comment in comments)
    if one.verdict == "varies":
        return f"{before}assert re.fullmatch({_regex(one.pattern)}, repr({_argument(expression)}))"
    if one.value == "None" and _FOR_EFFECT.match(expression):
        return code
    literal = python_literal(one.value)
    if len(one.value) > LONG and not isinstance(literal and literal[0], set | frozenset):
        digest = hashlib.sha256(one.value.encode()).hexdigest()
        return f'{before}assert hashlib.sha256(repr({_argument(expression)}).encode()).hexdigest() == "{digest}"'
    if literal is None:
        return f"{before}assert repr({_argument(expression)}) == {one.value!r}"
    operator = "is" if literal[0] is None or isinstance(literal[0], bool) else "=="
    return f"{before}assert {_operand(expression)} {operator} {one.value}"


def _split_comments(code: str) -> list[str]:
    """Return the comments above a step, one by one, followed by its code."""
    lines = code.split("\n")
    count = next((place for place, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return [*lines[:count], "\n".join(lines[count:])]


def _operand(expression: str) -> str:
    """Return the expression in a form that can precede an operator."""
    node = ast.parse(f"async def steps():\n ({expression}\n)").body[0]
    value = (
        node.body[0].value if isinstance(node, ast.AsyncFunctionDef) and isinstance(node.body[0], ast.Expr) else None
    )
    is_simple = isinstance(value, _SIMPLE) and not expression.lstrip().startswith("(")
    return expression if is_simple else f"({expression})"


def _argument(expression: str) -> str:
    """Return the expression in a form that can be the only argument of a call."""
    try:
        call = ast.parse(f"f({expression}\n)", mode="eval").body
    except SyntaxError:  # such as `yield`, which needs its own parentheses
        return f"({expression})"
    is_one = isinstance(call, ast.Call) and len(call.args) == 1 and not call.keywords
    return expression if is_one else f"({expression})"


def _regex(pattern: str) -> str:
    """Return a pattern as a string literal, with as few escapes as possible."""
    pattern = pattern.replace(r"\b", "")
    plain = re.sub(r"\\([ \-#&~<>=:;,'\"/@!%`])", r"\1", pattern)
    is_raw = not _CONTROL.search(plain) and not plain.endswith("\\")
    if is_raw and '"' not in plain:
        return f'r"{plain}"'
    return f"r'{plain}'" if is_raw and "'" not in plain else repr(pattern)


def _indented(code: str, indent: str) -> str:
    """Return the code indented, except for lines that continue a string."""
    moved = "\n".join(_INDENT + line for line in code.split("\n"))
    inside: set[int] = set()
    for node in ast.walk(ast.parse(f"async def steps():\n{moved}\n")):
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)):
            inside |= set(range(node.lineno, node.end_lineno or node.lineno))
    lines = enumerate(code.split("\n"), 1)
    return "\n".join(line if number in inside or not line else indent + line for number, line in lines)


def script(checked: Sequence[Checked], origin: Origin) -> Page:
    """Return a script that runs the same steps in order; values and errors become comments."""
    page = Page()
    _write_header(page, checked, origin)
    page.gap(1)
    given = frozenset(name for one in checked for name in one.step.gives)
    for line in _borrowed(checked, given):
        page.write(line)
    if not any(one.step.awaits for one in checked if one.verdict not in {"absent", "raises"}):
        for one in checked:
            page.write(_scripted(one), one)
        return page
    above = [one for one in checked if one.step.role == "import" and "import *" in one.step.text]
    for one in above:  # `import *` is only allowed at module level
        page.write(_scripted(one), one)
    page.write("import asyncio\n\n\nasync def main():")
    names = sorted({name for one in checked if one.verdict not in {"absent", "raises"} for name in one.step.gives})
    if names:
        page.write(f"{_INDENT}global {', '.join(names)}")
    for one in checked:
        if one not in above:
            page.write(_indented(_scripted(one), _INDENT), one)
    page.write("\n\nasyncio.run(main())")
    return page


def _scripted(one: Checked) -> str:
    code, note = one.step.text, f"{commented(one.note, '#')}\n" if one.note else ""
    if one.verdict in {"absent", "raises"} or _uses_last(one):
        raised = "\n" + commented(f"raises {one.raised}", "#") if one.verdict == "raises" else ""
        return note + commented(code, "#") + raised
    if one.value is None or one.value == "None":
        return note + code
    return f"{note}{code}\n" + commented(f"=> {one.value}", "#")


def comment(checked: Sequence[Checked], origin: Origin) -> Page:
    """Return a comment that shows the session like a Python prompt, for pasting next to the code it exercises."""
    page = Page()
    for line in header(origin, checked):
        page.write(f"# {line}")
    page.write("#")
    for one in checked:
        if one.is_typo:
            continue
        if one.note:
            page.write(commented(f"({one.note})", "#"))
        first, *more = one.step.text.splitlines() or [""]
        page.write("\n".join([f"# >>> {first}", *(f"# ... {line}" for line in more)]))
        result = str(one.raised) if one.verdict == "raises" else one.value if one.value != "None" else None
        for text in (one.out, result):
            if text:
                page.write(commented(text, "#"))
    return page


_KERNEL: Final = {"display_name": "Python 3", "language": "python", "name": "python3"}


def notebook(checked: Sequence[Checked], origin: Origin) -> str:
    """Return a notebook with a cell for each evaluation, the outputs of the fresh REPL, descriptions and notes."""
    cells = [_markdown("\n\n".join(header(origin, checked)), "header")]
    count = 0
    by_evaluation: dict[str, list[Checked]] = {}
    for one in checked:
        by_evaluation.setdefault(one.of.id, []).append(one)
    for name, steps in by_evaluation.items():
        notes = [f"- {step.note}" for step in steps if step.note]
        if words := "\n\n".join(part for part in (steps[0].of.description, "\n".join(notes)) if part):
            cells.append(_markdown(words, f"{name}-words"))
        present = [step for step in steps if step.verdict != "absent"]
        if present:
            count += 1
            cells.append(_code(present, count, name))
    metadata = {"kernelspec": _KERNEL, "language_info": {"name": "python"}}
    book = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, ensure_ascii=False, indent=1) + "\n"


def _markdown(text: str, name: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": _id(name), "metadata": {}, "source": _lines(text)}


def _code(steps: Sequence[Checked], count: int, name: str) -> dict[str, Any]:
    cell = next((step.cell for step in steps if step.cell is not None), None)
    outputs = _outputs(steps, count) if cell is None else [_numbered(one, count) for one in cell]
    # Keep a kernel's cell unchanged: a semicolon at its end suppresses its value.
    source = "\n".join(step.step.text for step in steps) if cell is None else steps[0].of.code
    return {
        "cell_type": "code", "id": _id(name), "metadata": {}, "execution_count": count, "source": _lines(source),
        "outputs": outputs,
    }  # fmt: skip


def _numbered(output: Mapping[str, object], count: int) -> dict[str, Any]:
    """Return a kernel's output as the output of the cell with this execution count."""
    return {name: count if name == "execution_count" else one for name, one in output.items()}


def _outputs(steps: Sequence[Checked], count: int) -> list[dict[str, Any]]:
    outputs: list[dict[str, Any]] = []
    for step in steps:
        if step.out:
            outputs.append({"output_type": "stream", "name": "stdout", "text": _lines(step.out)})
        outputs += [_display(bundle) for text in step.images for bundle in _bundles(text)]
        if step.raised is not None:
            error = {"ename": step.raised.name, "evalue": step.raised.message, "traceback": [str(step.raised)]}
            outputs.append({"output_type": "error", **error})
    last = steps[-1]
    if last.value is not None and last.value != "None":
        *displayed, data = _bundles(last.drawn or last.value)
        outputs += map(_display, displayed)
        outputs.append({"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": data})
    return outputs


def _display(bundle: dict[str, Any]) -> dict[str, Any]:
    return {"output_type": "display_data", "metadata": {}, "data": bundle}


def _bundles(text: str) -> list[dict[str, Any]]:
    """Return a value as bundles by media type, one for each image; the last one also has the text."""
    *before, last = [{found[1]: found[2]} for found in DATA.finditer(text)] or [{}]
    return [*before, {**last, "text/plain": _lines(without_data(text, lambda _one: "").strip() if last else text)}]


def _id(name: str) -> str:
    """Return a cell id that stays the same from one export to the next."""
    return hashlib.sha256(name.encode()).hexdigest()[:12]


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
