"""Names of Codriver that are written in strings and in documents exist.

Type checkers see the names in code. They do not see those in code that a test sends to another process, in a string
that a test patches by name, or in an example of the documentation, so a rename leaves them behind.
"""

import ast
import builtins
import re
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "codriver": ROOT / "server",
    "codriver_datalog": ROOT / "server",
    "codriver_lisp": ROOT / "server",
    "codriver_relay": ROOT / "relay",
    "codriver_seam": ROOT / "server",
}
SUFFIXES = {".clj", ".hy", ".lpy", ".md", ".py", ".sh", ".toml", ".yml"}

PACKAGE = "|".join(sorted(PACKAGES, key=len, reverse=True))
FROM_IMPORT = re.compile(rf"\bfrom ((?:{PACKAGE})(?:\.\w+)*) import (\(?)\s*(\w+(?: as \w+)?(?:,\s*\w+(?: as \w+)?)*)")
MODULE_IMPORT = re.compile(rf"\bimport ((?:{PACKAGE})(?:\.\w+)*)(?: as (\w+))?")
QUOTED_PATH = re.compile(rf"[\"'`]((?:{PACKAGE})(?:\.\w+)+)(?=[\"'`(:])")
PATCHED_NAME = re.compile(r"\b(?:setattr|getattr|delattr|object)\(\s*([\w.]+),\s*\"(\w+)\"")
INVENTED = {"codriver.features.labels", "codriver.net.of_a_test", "codriver.repls.shout", "codriver_relay.part"}
"""Modules that exist only in an example, as the name of a logger, or while a test runs."""


def sources() -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each file of the repository that may name something of Codriver."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    for name in listed:
        path = ROOT / name
        if path.suffix in SUFFIXES and path.is_file() and path != Path(__file__):
            yield name, path.read_text(encoding="utf-8", errors="replace")


@cache
def module_file(module: str) -> Path | None:
    base = PACKAGES[module.partition(".")[0]].joinpath(*module.split("."))
    return next((file for file in (base.with_suffix(".py"), base / "__init__.py") if file.is_file()), None)


def bound_names(body: list[ast.stmt]) -> Iterator[str]:
    """Yield the names that statements bind, including those in branches."""
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Import() | ast.ImportFrom():
                yield from ((alias.asname or alias.name).split(".")[0] for alias in statement.names)
            case ast.Expr():
                pass
            case _:
                yield from (node.id for node in ast.walk(statement) if isinstance(node, ast.Name))
                yield from bound_names([node for node in ast.walk(statement) if isinstance(node, INNER)])


INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)


@cache
def members(module: str) -> Mapping[str, ast.ClassDef | None] | None:
    """Return the names in a module, with the syntax of the classes, or None if the module decides about its names."""
    file = module_file(module)
    assert file is not None
    tree = ast.parse(file.read_text(encoding="utf-8"))
    names: dict[str, ast.ClassDef | None] = dict.fromkeys(bound_names(tree.body))
    names.update({node.name: node for node in tree.body if isinstance(node, ast.ClassDef)})
    return None if "__getattr__" in names else names


def exists(module: str, name: str) -> bool:
    names = members(module)
    return names is None or name in names or name.startswith("__") or module_file(f"{module}.{name}") is not None


def path_exists(path: str) -> bool:
    """Return whether a dotted path leads to a module, to a name in one, or to an attribute of a class in one."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        module = ".".join(parts[:end])
        if module_file(module) is None:
            continue
        rest = parts[end:]
        if not rest:
            return True
        if not exists(module, rest[0]):
            return False
        found = (members(module) or {}).get(rest[0])
        return found is None or len(rest) == 1 or bool(found.bases) or rest[1] in set(bound_names(found.body))
    return False


def is_attribute_of_a_class(module: str, name: str) -> bool:
    """Return whether a class of a module has the name, for a variable that is called like the module of its class."""
    return any(name in set(bound_names(found.body)) for found in (members(module) or {}).values() if found is not None)


def imported_names(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the module, the name and the local name of each import of something in a package."""
    for match in FROM_IMPORT.finditer(text):
        names = match[3] if match[2] else match[3].split("\n")[0]
        for part in re.split(r",\s*", names):
            name, _, local = part.partition(" as ")
            yield match[1], name, local or name


def test_every_imported_name_exists_even_in_strings_and_documents() -> None:
    missing = {
        f"{file}: from {module} import {name}"
        for file, text in sources()
        for module, name, _ in imported_names(text)
        if not INVENTED & {module, f"{module}.{name}"} and (module_file(module) is None or not exists(module, name))
    }
    assert not missing


def test_every_quoted_path_of_a_module_or_name_exists() -> None:
    missing = {
        f"{file}: {path}"
        for file, text in sources()
        for path in QUOTED_PATH.findall(text)
        if module_file(".".join(path.split(".")[:2])) is not None and path not in INVENTED and not path_exists(path)
    }
    assert not missing


def test_every_name_that_a_test_patches_exists() -> None:
    missing = set()
    for file, text in sources():
        if not file.startswith("tests/"):
            continue
        modules = {local: f"{module}.{name}" for module, name, local in imported_names(text)}
        modules.update({local or path: path for path, local in MODULE_IMPORT.findall(text)})
        for owner, name in PATCHED_NAME.findall(text):
            path = modules.get(owner)
            if path is None or module_file(path) is None:
                continue
            if not exists(path, name) and not is_attribute_of_a_class(path, name):
                missing.add(f"{file}: {owner}.{name}")
    assert not missing


def test_every_error_in_a_raises_section_exists() -> None:
    texts = {file: text for file, text in sources() if file.startswith(("server/", "relay/")) and file.endswith(".py")}
    product = "\n".join(texts.values())
    known = {*dir(builtins), *re.findall(r"^\s*class (\w+)", product, re.MULTILINE)}
    known.update(re.findall(r"\.([A-Z]\w+)", product))
    known.update(re.findall(r"^from [\w.]+ import .*\b([A-Z]\w+)", product, re.MULTILINE))
    missing = {
        f"{file}: {name}"
        for file, text in texts.items()
        for section in re.findall(r"^ *Raises:\n((?:(?: {8,}| {4,}\w).*\n)+)", text, re.MULTILINE)
        for names in re.findall(r"^ +((?:\w+Error(?:, )?)+):", section, re.MULTILINE)
        for name in names.split(", ")
        if name not in known
    }
    assert not missing
