"""Edit libraries in use, and count the rows of comparisons with a fresh import, how many are false, and their cost.

Run it with Codriver's own interpreter, and name one that has the libraries: `python tests/bench/fresh_edits.py --python
ENV/bin/python --out FILE.jsonl [--edits N] [--seed N] NAME…`. Each library is copied into a directory of its own and
used there in the embedded REPL. One constant, default, or function body at a time is edited and loaded. Each row is
checked by a new process that imports the edited file. A row is false if both have the same value. Edits that are
already in FILE are skipped.
"""

import argparse
import ast
import contextlib
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "server"), str(ROOT / "tests" / "support"), str(Path(__file__).parent)]

from drift_edits import USES  # noqa: E402  # after the path
from worker_client import Repl, text, texts  # noqa: E402  # after the path

WAIT_MS = 120_000
SETTLED_S = 10.5
STATE = """
import gc, json, resource, sys
def state(kind=sys.modules['_codriver_worker.fresh.comparison'].Comparison):
    own = next(one for one in gc.get_objects() if type(one) is kind)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return json.dumps([own.paused_s * 1000, own.imports.idle_s * 1000, (used.ru_utime + used.ru_stime) * 1000])
"""
ORACLE = """
import importlib, json, os, resource, sys
sys.path[:0] = json.loads(sys.argv[1])
names, paths = json.loads(sys.argv[2]), json.loads(sys.argv[3])
for name in names:
    try:
        importlib.import_module(name)
    except Exception:
        pass
used = resource.getrusage(resource.RUSAGE_SELF)
sys.path.insert(0, sys.argv[4])
from worker.fresh.leaves import LeafDescriber, split_leaf_path
found = {}
for path in paths:
    module, name = split_leaf_path(path, sys.modules)
    found.update(LeafDescriber(json.loads(sys.argv[5]), 60).describe_module(module, [name]))
print(json.dumps([{path: found.get(path) for path in paths}, (used.ru_utime + used.ru_stime) * 1000]))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--out", default="fresh.jsonl")
    parser.add_argument("--edits", type=int, default=10)
    parser.add_argument("--seed", type=int, default=7)
    requested = parser.parse_args()
    out = Path(requested.out)
    done = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    with out.open("a") as file:
        for name in requested.names:
            known = {item["edit"] for item in done if item["library"] == name}
            for row in measured(name, requested, known):
                file.write(json.dumps(row) + "\n")
                file.flush()
                done.append(row)
    report([item for item in done if item["library"] in requested.names])


def measured(name, requested, known):
    """Return a row for each edit of a library that has none yet."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve()
        lay(name, requested.python, folder)
        time.sleep(SETTLED_S)  # compiled code is believed if it is so much newer than its source
        with contextlib.closing(Repl(folder, "--supervised", python=requested.python)) as repl:
            repl.connect()
            repl.evaluate(STATE)
            for statement in ast.parse(USES.get(name, f"import {name}")).body:
                failure = text(repl.evaluate(ast.unparse(statement)), "err")
                if failure:
                    print_line(f"{name}: {failure.splitlines()[-1]}")
            of_library = f"str(getattr(m, '__file__', '')).startswith({place!r})"
            code = f"{{n: m.__file__ for n, m in sys.modules.items() if {of_library}}}"
            files = ast.literal_eval(text(repl.evaluate(code, **{"nrepl.middleware.print/options": {}}), "value"))
            drawn = random.Random(f"{requested.seed} {name}")
            edits = [item for module, path in sorted(files.items()) for item in edits_of(module, Path(path))]
            drawn.shuffle(edits)
            for edit in edits[: requested.edits]:
                if str(edit[:2]) not in known:
                    yield row_of(name, repl, requested.python, list(files), edit)


def lay(name, python, folder):
    """Copy a library into a folder from the environment that has it."""
    code = f"import {name}, sys; sys.stdout.write({name}.__file__)"
    file = Path(subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout)
    if file.name == "__init__.py":
        shutil.copytree(file.parent, folder / name, ignore=shutil.ignore_patterns("__pycache__", "tests"))
    else:
        shutil.copy(file, folder)


def edits_of(module, path):
    """Yield the possible edits of a file: module, label, path and new source."""
    try:
        source = path.read_text()
        tree = ast.parse(source)
    except (UnicodeDecodeError, SyntaxError):
        return
    lines = source.splitlines(keepends=True)
    for statement in tree.body:
        functions = [statement] if isinstance(statement, ast.FunctionDef) else getattr(statement, "body", [])
        found = []
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
            found.append(("constant", statement.value))
        for function in functions if isinstance(statement, ast.FunctionDef | ast.ClassDef) else ():
            if isinstance(function, ast.FunctionDef):
                found += [
                    ("default", default) for default in function.args.defaults if isinstance(default, ast.Constant)
                ][:1]
                inner = [each for each in ast.walk(ast.Module(function.body[1:], [])) if isinstance(each, ast.Constant)]
                found += [("body", each) for each in inner[:1]]
            elif isinstance(function, ast.Assign) and isinstance(function.value, ast.Constant):
                found.append(("attribute", function.value))
        for kind, node in found:
            new = changed(node)
            if new is not None and node.lineno == node.end_lineno:
                line = lines[node.lineno - 1].encode()
                text_of_line = line[: node.col_offset] + new.encode() + line[node.end_col_offset :]
                after = [*lines[: node.lineno - 1], text_of_line.decode(), *lines[node.lineno :]]
                with contextlib.suppress(SyntaxError):
                    ast.parse("".join(after))
                    yield module, f"{kind} {node.lineno}: {new[:40]}", path, "".join(after)


def changed(node):
    """Return a different constant of the same type as Python code, or None if there is none."""
    value = node.value
    if value is True or value is False:
        return repr(not value)
    if type(value) is int:
        return repr(value + 1)
    return repr(value + "x") if type(value) is str and "\n" not in value and value else None


def row_of(name, repl, python, modules, edit):
    module, label, path, source = edit
    before = path.read_text()
    path.write_text(source)
    try:
        retained, idle, used = state(repl)
        loaded = repl.ask("load-file", file=source, **{"file-path": str(path)})
        finding = waited(repl)
        held_after, idle_after, used_after = state(repl)
        rows = finding.get("rows", [])
        paths = [row["name"] for row in rows if row["kind"] == "leaf"]
        oracle, import_ms = oracle_values(python, repl.folder, [module, *modules], paths, module)
        false = [row["name"] for row in rows if row["kind"] == "leaf" and oracle[row["name"]] == row.get("live")]
    finally:
        path.write_text(before)
        repl.ask("load-file", file=before, **{"file-path": str(path)})
        restored = waited(repl)
    row = {
        "library": name, "edit": str((module, label)), "failed": text(loaded, "err")[-80:], "rows": rows,
        "more": finding.get("more", 0), "false": false, "restored": restored.get("rows", []),
        "held_ms": held_after - retained, "idle_ms": idle_after - idle, "cpu_ms": used_after - used,
        "import_ms": import_ms,
    }  # fmt: skip
    print_line(f"{name} {module} {label}: {paths[:3]} false {false} held {row['held_ms']:.1f} cpu {row['cpu_ms']:.0f}")
    return row


def waited(repl):
    """Return the finding about the last load, even if no answer waits for it."""
    while True:
        (found,) = texts(repl.ask("codriver/fresh", wait=WAIT_MS, patient=1), "finding")
        return json.loads(found) or {}


def state(repl):
    return json.loads(ast.literal_eval(text(repl.evaluate("state()"), "value")))


def oracle_values(python, folder, modules, paths, edited):
    """Return the values at these paths in a new process, and the processor time of its imports."""
    given = [json.dumps(item) for item in ([str(folder)], modules, paths)]
    arguments = [python, "-B", "-c", ORACLE, *given, str(ROOT / "server/codriver/repls"), json.dumps([edited])]
    ran = subprocess.run(arguments, capture_output=True, text=True, check=True, cwd=folder)
    return json.loads(ran.stdout.splitlines()[-1])


def report(rows):
    retained = sorted(row["held_ms"] for row in rows)
    beyond = sorted(row["cpu_ms"] - 2 * row["import_ms"] for row in rows)
    reported = [row for row in rows if row["rows"]]
    print_line(f"{len(rows)} edits of {len({row['library'] for row in rows})} libraries; {len(reported)} reported, "
        f"{sum(len(row['false']) for row in rows)} false rows of {sum(len(row['rows']) for row in rows)}; "
        f"after putting back: {sum(len(row['restored']) for row in rows)} rows")  # fmt: skip
    costs = {
        "held": retained,
        "looked at in idle time": sorted(row["idle_ms"] for row in rows),
        "processor beyond two imports": beyond,
    }
    for label, values in costs.items():
        tenth = values[int(len(values) * 0.9)] if values else 0
        print_line(
            f"{label}: median {statistics.median(values):.1f} ms, nine of ten {tenth:.1f}, most {values[-1]:.1f}"
        )


def print_line(words):
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
