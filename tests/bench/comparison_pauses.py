"""Measure how long the comparison with a fresh import and the search for previous code hold up the REPL.

`python tests/bench/comparison_pauses.py [--python PYTHON] [--edits N] [--out FILE.jsonl] [NAME …]`: PYTHON runs the
REPL and has the libraries of `tests/seam/applications.txt`. NAME is a library, which is copied and used, or an
application from `tests/support/edits_of_layouts.py`. Edits are loaded one at a time. For each edit the program measures

- `pause_ms`: the longest time for which another thread waited because the comparison ran. A thread in the REPL wakes up
  every half millisecond, and counts the processor time that the thread of comparisons used while it waited. This does
  not depend on other processes of the machine.
- `load_ms`: the processor time of descriptions during the load, which delays its answer.
- `evaluation_ms`: the processor time of the comparison between sending an evaluation and its answer.
- `processor_ms`: the processor time of the comparison in this process and the importing processes, without two imports
  of the loaded modules by a plain Python.
- `busy_ms`: the processor time that the comparison and its processes used during an evaluation of half a second.
"""

import argparse
import ast
import contextlib
import itertools
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "server"), str(ROOT / "tests" / "support"), str(Path(__file__).parent)]

import edits_of_layouts as layouts  # noqa: E402  # after the path
from drift_edits import USES  # noqa: E402  # after the path
from edit_runs import module_of, path_of, written  # noqa: E402  # after the path
from fresh_edits import SETTLED_S, edits_of, lay, waited  # noqa: E402  # after the path
from worker_client import Repl, text  # noqa: E402  # after the path

LIBRARIES = (
    "jinja2", "click", "werkzeug", "markdown_it", "pygments", "rich", "sqlparse", "dateutil", "celery", "starlette",
    "prompt_toolkit", "sqlalchemy", "fastapi", "flask", "attr",
)  # fmt: skip
USED = {
    "markdown_it": "from markdown_it import MarkdownIt; MarkdownIt().render('*a*')",
    "pygments": "import pygments, pygments.lexers, pygments.formatters\n"
    "pygments.highlight('a = 1', pygments.lexers.PythonLexer(), pygments.formatters.HtmlFormatter())",
    "rich": "import io; from rich.console import Console; from rich.table import Table\n"
    "Console(file=io.StringIO()).print(Table('a'), {'a': 1})",
    "sqlparse": "import sqlparse; sqlparse.format('select 1', reindent=True)",
    "dateutil": "from dateutil import parser, relativedelta, rrule; parser.parse('2020-01-01')",
    "celery": "import celery, celery.schedules; app = celery.Celery('a', broker='memory://'); app.task(len)",
    "prompt_toolkit": "import prompt_toolkit, prompt_toolkit.shortcuts, prompt_toolkit.formatted_text",
    **USES,
}  # fmt: skip
APPLICATIONS = {
    "application flask": layouts.FLASK_EDITS,
    "application fastapi": layouts.API_EDITS,
    "application sqlalchemy": layouts.DATA_EDITS,
    "application click, attrs and celery": layouts.TOOL_EDITS,
    "application django": layouts.DJANGO_EDITS,
}
WATCH = """
import gc, json, os, resource, sys, threading, time
class Watch:
    def __init__(self):
        kind = sys.modules['_codriver_worker.fresh.comparison'].Comparison
        self.comparison = next(found for found in gc.get_objects() if type(found) is kind)
        self.module = sys.modules['_codriver_worker.fresh.comparison']
        self.clock = None
        self.longest = self.total = 0.0
        self.is_on = False
    def comparing_thread(self):
        for ident, frame in sys._current_frames().items():
            while frame is not None:
                if frame.f_code.co_name == '_serve' and 'comparison' in frame.f_code.co_filename:
                    return ident
                frame = frame.f_back
    def identity(self):
        return os.getpid(), threading._active[self.comparing_thread()].native_id
    def used(self):
        ident = self.comparing_thread() if self.clock is None else None
        if ident is not None:
            self.clock = time.pthread_getcpuclockid(ident)
        return 0.0 if self.clock is None else time.clock_gettime(self.clock)
    def run(self):
        while self.is_on:
            before = self.used()
            time.sleep(0.0005)
            waited = self.used() - before
            self.total += waited
            self.longest = max(self.longest, waited)
    def start(self):
        self.longest = self.total = 0.0
        self.is_on = True
        threading.Thread(target=self.run, daemon=True).start()
    def state(self):
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        values = [self.longest, self.used(), self.comparison.paused_s, used.ru_utime + used.ru_stime]
        return json.dumps(dict(zip(('pause', 'thread', 'load', 'children'), (value * 1000 for value in values))))
    def child_ms(self):
        process = self.comparison._idle._process
        try:
            with open('/proc/%d/stat' % process._process) as file:
                fields = file.read().rpartition(') ')[2].split()
        except (AttributeError, OSError):
            return 0.0
        return (int(fields[11]) + int(fields[12])) * 10.0
    def busy(self, seconds):
        time.sleep(0.05)  # the signal that stops the process has been delivered
        before, child = self.used(), self.child_ms()
        time.sleep(seconds)
        return [(self.used() - before) * 1000, self.child_ms() - child]
watch = Watch()
"""
IMPORTS = """
import importlib, json, resource, sys
sys.path[:0] = json.loads(sys.argv[1])
exec(sys.argv[3])
for name in json.loads(sys.argv[2]):
    try:
        importlib.import_module(name)
    except Exception:
        pass
used = resource.getrusage(resource.RUSAGE_SELF)
print((used.ru_utime + used.ru_stime) * 1000)
"""
GOALS = {
    "pause_ms": (10, 100), "load_ms": (10, 100), "evaluation_ms": (10, 100), "processor_ms": (300, None),
    "busy_ms": (1, 10),
}  # fmt: skip
"""The goal of each measure in nine of ten cases, and in any case."""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[*LIBRARIES, *APPLICATIONS])
    parser.add_argument("--python", default=str(ROOT / "tests" / "seam" / ".venv" / "bin" / "python"))
    parser.add_argument("--edits", type=int, default=5)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", default="")
    given = parser.parse_args()
    rows = []
    for name in given.names:
        for row in measure(name, given):
            rows.append(row)
            write_line(
                " ".join(f"{key} {value:.1f}" if type(value) is float else str(value) for key, value in row.items())
            )
            if given.out:
                with Path(given.out).open("a") as file:
                    file.write(json.dumps(row) + "\n")
    for key, (most_often, ever) in GOALS.items():
        values = sorted(row[key] for row in rows)
        tenth = values[int(len(values) * 0.9)]
        write_line(
            f"{key}: median {values[len(values) // 2]:.1f}, nine of ten {tenth:.1f} (goal {most_often}), "
            f"most {values[-1]:.1f} (goal {ever or most_often})"
        )


def measure(name, given):
    """Yield a row for each edit of a library or application."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve()
        if name in APPLICATIONS:
            edit = APPLICATIONS[name][0]
            texts = {"m": edit.text, **edit.others}
            written(str(folder), texts)
            setup = edit.setup
            use = "".join(f"import {module_of(module)}\n" for module in texts)
            modules = {module_of(module): str(path_of(str(folder), module)) for module in texts}
        else:
            lay(name, given.python, folder)
            time.sleep(SETTLED_S)  # compiled code is believed if it is so much newer than its source
            setup, use, modules = "", USED.get(name, f"import {name}"), None
        with contextlib.closing(Repl(folder, "--supervised", python=given.python)) as repl:
            repl.connect()
            run(repl, setup)
            run(repl, use)
            run(repl, WATCH)
            if modules is None:
                is_copied = f"str(getattr(m, '__file__', '')).startswith({place!r})"
                code = f"{{n: m.__file__ for n, m in list(sys.modules.items()) if {is_copied}}}"
                modules = value(repl, code)
            edits = list(edits_of_program(name, modules, folder))
            random.Random(f"{given.seed} {name}").shuffle(edits)
            imports_ms = plain_import_ms(given.python, folder, setup, list(modules))
            warm_up(repl, modules)
            for label, path, source in itertools.islice(edits, given.edits):
                yield {"name": name, "edit": label, **measure_edit(repl, path, source, imports_ms)}


def edits_of_program(name, modules, folder):
    """Yield a label, a path and the new source of each edit."""
    if name not in APPLICATIONS:
        for module, path in sorted(modules.items()):
            for _, label, _, source in edits_of(module, Path(path)):
                yield f"{module} {label}", Path(path), source
        return
    for edit in APPLICATIONS[name]:
        if not edit.more and not edit.then:
            path = path_of(str(folder), edit.edited)
            yield edit.name, path, path.read_text().replace(edit.old, edit.new, 1)


def measure_edit(repl, path, source, imports_ms):
    """Load an edit three times: without an evaluation, with short ones during the comparison, and with a long one."""
    before = path.read_text()
    try:
        run(repl, "watch.start()")
        first = value(repl, "watch.state()")
        load(repl, path, source)
        finding = waited(repl)
        run(repl, "watch.is_on = False")
        after = value(repl, "watch.state()")
        load(repl, path, before)
        waited(repl)
        evaluation_ms = interrupted_ms(repl, path, source)
        load(repl, path, before)
        waited(repl)
        load(repl, path, source)
        thread, child = value(repl, "watch.busy(0.5)")
        waited(repl)
    finally:
        load(repl, path, before)
        waited(repl)
    used = after["thread"] - first["thread"] + after["children"] - first["children"]
    return {
        "pause_ms": after["pause"],
        "load_ms": after["load"] - first["load"],
        "evaluation_ms": evaluation_ms,
        "processor_ms": max(0.0, used - 2 * imports_ms),
        "imports_ms": imports_ms,
        "busy_ms": thread + child,
        "rows": len(finding.get("rows", [])),
    }


def interrupted_ms(repl, path, source):
    """Evaluate at several times while the comparison of a load runs, and return the longest wait of an evaluation.

    The wait is the processor time that the thread of comparisons used between sending an evaluation and its answer.
    """
    process, thread = value(repl, "watch.identity()")
    file = Path(f"/proc/{process}/task/{thread}/schedstat")
    load(repl, path, source)
    longest = 0
    for pause_s in (0.0, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16):
        time.sleep(pause_s)
        before = int(file.read_text().split()[0])
        value(repl, "1")
        longest = max(longest, int(file.read_text().split()[0]) - before)
    waited(repl)
    return longest / 1e6


def warm_up(repl, modules):
    """Load one file with a comment more, so that the thread of comparisons runs."""
    path = Path(next(iter(modules.values())))
    source = path.read_text()
    load(repl, path, source + "\n# a comment\n")
    waited(repl)
    load(repl, path, source)
    waited(repl)


def load(repl, path, source):
    path.write_text(source)
    repl.ask("load-file", file=source, **{"file-path": str(path)})


def run(repl, code):
    failure = text(repl.evaluate(code), "err")
    if failure:
        write_line(failure.splitlines()[-1])


def value(repl, code):
    found = ast.literal_eval(text(repl.evaluate(code, **{"nrepl.middleware.print/options": {}}), "value"))
    return json.loads(found) if isinstance(found, str) else found


def plain_import_ms(python, folder, setup, modules):
    """Return the processor time of a new Python that imports the modules."""
    arguments = [python, "-B", "-c", IMPORTS, json.dumps([str(folder)]), json.dumps(modules), setup]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, cwd=folder)
    return float(done.stdout.splitlines()[-1])


def write_line(words):
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
