"""Measure the size of the code, and the path of one evaluation through it.

Counts modules, lines, directories and imports between packages, and the files and calls that an evaluation passes. Run
with `python tests/bench/code_size.py`. Evaluations of `1+2` in Python are traced from the socket to the REPL and
back, by recording the calls of the server's own functions in its main thread. The shortest of ten is reported, because
pollers run during some of them. Each file counts once. A hop is a pair of files, one of which calls the other.
"""

# ruff: noqa: T201 - it tells by printing

import argparse
import ast
import contextlib
import io
import json
import os
import signal
import sys
import tempfile
import time
import tokenize
from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
PRODUCT = (*sorted((ROOT / "server").glob("codriver*")), ROOT / "relay" / "codriver_relay")
ROUNDS = 10
ASIDE = ("files/polling.py",)
"""Files whose calls are those of pollers, and all that they call."""


class Walk:
    """The calls of the server's own functions between two signals, written to a file at the second."""

    def __init__(self, file):
        self._file = file
        self._calls = []

    def begin(self, *_signal):
        self._calls = []
        sys.setprofile(self._note)

    def end(self, *_signal):
        sys.setprofile(None)
        Path(self._file).write_text(json.dumps(self._calls))

    def _note(self, frame, event, _argument):
        if event != "call":
            return
        file, caller = product_path(frame), frame.f_back
        while caller is not None and product_path(caller) is None:
            caller = caller.f_back
        if file is None or file.endswith(ASIDE):
            return
        root = caller
        while root is not None:
            if (product_path(root) or "").endswith(ASIDE):
                return
            root = root.f_back
        self._calls.append((file, frame.f_code.co_qualname, product_path(caller) if caller else None))


def product_path(frame):
    """Return the path of a frame's file below the product, or None for any other file."""
    file = frame.f_code.co_filename
    return next((file[len(str(root)) + 1 :] for root in PRODUCT if file.startswith(f"{root}{os.sep}")), None)


def serve_traced(file):
    walk = Walk(file)
    signal.signal(signal.SIGUSR1, walk.begin)
    signal.signal(signal.SIGUSR2, walk.end)
    from codriver.commands.cli import main  # noqa: PLC0415  # only where it is traced

    del sys.argv[1]
    main()


def walks():
    """Yield the calls of several evaluations."""
    sys.path.insert(0, str(TESTS / "support"))
    import live_server  # noqa: PLC0415  # the path to it is known only now

    with tempfile.TemporaryDirectory() as folder:
        reported = Path(folder) / "walk.json"

        class Traced(live_server.Live):
            def command(self, name, *options):
                return [sys.executable, __file__, str(reported), name, "--workspace", str(self.workspace), *options]

        with stopping(Traced(Path(folder), "--repl", "python")) as live, live.client() as client:
            live_server.until(lambda: "interrupt_evaluation" in client.tools(), "the REPL's tools")
            for _ in range(ROUNDS + 3):
                client.call("evaluate_code", code="1+2")
            for _ in range(ROUNDS):
                reported.unlink(missing_ok=True)
                live.process.send_signal(signal.SIGUSR1)
                time.sleep(0.1)
                client.call("evaluate_code", code="1+2")
                time.sleep(0.05)
                live.process.send_signal(signal.SIGUSR2)
                live_server.until(lambda: reported.exists() and reported.read_text().endswith("]"), "the walk")
                yield json.loads(reported.read_text())


@contextlib.contextmanager
def stopping(live):
    """Yield a running server, and stop it afterwards."""
    try:
        yield live
    finally:
        live.stop()


def code_lines(path):
    """Return the number of lines with code, without comments, blank lines and docstrings."""
    text = path.read_text("utf-8")
    aside = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in aside:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        for item in getattr(node, "body", None) or () if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            if (
                isinstance(item, ast.Expr)
                and isinstance(item.value, ast.Constant)
                and isinstance(item.value.value, str)
            ):
                lines.difference_update(range(item.lineno, (item.end_lineno or item.lineno) + 1))
    return len(lines)


def flat(folder):
    """Return the number of modules and packages directly in a directory."""
    found = [path for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    return len([item for item in found if item.stem != "__init__"])


def imported(path):
    """Yield the full names that a module imports."""
    package = path.parent.relative_to(ROOT / "server").parts
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            home = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
            yield from ([*(home if node.level else (node.module or "").split(".")), alias.name] for alias in node.names)


def arrows(folder):
    """Return the number of pairs of parts of a directory one of which imports the other."""
    place = list(folder.relative_to(ROOT / "server").parts)
    found = set()
    for path in folder.rglob("*.py"):
        own_part = path.relative_to(folder).parts[0].removesuffix(".py")
        for name in imported(path):
            part = name[len(place)] if name[: len(place)] == place and len(name) > len(place) else own_part
            if part != own_part and ((folder / part).is_dir() or (folder / f"{part}.py").is_file()):
                found.add((own_part, part))
    return len(found)


def count():
    modules = [path for root in PRODUCT for path in root.rglob("*.py")]
    server = PRODUCT[0]
    folders = sorted(((flat(item), item.relative_to(server)) for item in {path.parent for path in modules
                      if path.is_relative_to(server)}), key=lambda pair: -pair[0])  # fmt: skip
    print(
        f"modules: {len(modules)}, {len([module for module in modules if module.stem != '__init__'])} without __init__"
    )
    print(f"lines: {sum(path.read_text('utf-8').count(chr(10)) for path in modules)}, "
          f"of code {sum(map(code_lines, modules))}")  # fmt: skip
    print("largest flat folders:", ", ".join(f"{name} {rooms}" for rooms, name in folders[:8]))
    for folder in (
        server,
        server / "tools",
        server / "repls",
        server / "repls/nrepl",
        server / "features/jupyter/kernels",
    ):
        print(f"arrows in {folder.relative_to(server.parent)}: {arrows(folder)}")


def report(calls):
    files, functions = {file for file, _, _ in calls}, {(file, name) for file, name, _ in calls}
    hops = {(caller, file) for file, _, caller in calls if caller and caller != file}
    print(f"an evaluation in Python: {len(calls)} calls of {len(functions)} functions in {len(files)} files; "
          f"{len(hops)} hops")  # fmt: skip
    parts = {}
    for file in files:
        parts.setdefault(file.split("/")[0], set()).add(file)
    print("files:", ", ".join(f"{part} {len(own_files)}" for part, own_files in sorted(parts.items())))


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].endswith(".json"):
        serve_traced(sys.argv[1])
    else:
        options = argparse.ArgumentParser(description=__doc__)
        options.add_argument("--files", action="store_true", help="name the files of the walk")
        chosen = options.parse_args()
        count()
        shortest = min(walks(), key=len)
        report(shortest)
        if chosen.files:
            print(*sorted({file for file, _, _ in shortest}), sep="\n")
