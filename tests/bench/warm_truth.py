"""Compare warm test runs with plain ones: see README.md."""

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import anyio

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE)]
from accepted import accept  # noqa: E402
from live_server import environ, serving, user_settings_file  # noqa: E402
from truth_projects import ARGUMENTS, HEAVY, ORDINARY, PROJECTS  # noqa: E402
from warm_runs import comparable, environment, project, remove_bytecode, run_pytest  # noqa: E402

WARM_RUNS = 3
"""Warm runs of each state of an ordinary project."""
ORDINARY_NAMES = {name for name, *_ in ORDINARY}
TRIES = 3
"""Repeated runs of both sides after a difference."""
EXTRA_RUNS = 2
"""Further runs after a mutation if the first one is plain, such as because a file of a package changed."""
LIMIT_S = 600
CLIENT = "codriver-truth"
"""Name of the client of a server, as one of Codriver's commands, whose answers are not shortened."""
MUTATED_S = 90
"""Time limit for the comparison after a mutation, which may never end on either side."""


class Results:
    """The lines of a results file, by what they are about."""

    def __init__(self, path):
        self.path = Path(path)
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        self.lines = [json.loads(line) for line in lines]

    def has(self, key):
        return any(line["key"] == key for line in self.lines)

    def add(self, key, **fields):
        line = {"key": key, **fields}
        self.lines.append(line)
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line)[:400], flush=True)


def has_packages(python, names):
    code = "import importlib.util as u, sys; sys.exit(any(u.find_spec(n) is None for n in sys.argv[1:]))"
    return subprocess.run([python, "-c", code, *names], check=False, capture_output=True).returncode == 0


async def compare(made, arguments, *, times=1, extra=0, variables=None, before=None):
    """Compare warm runs with `python -m pytest` over the present files: exit status and everything that is printed.

    There are up to `extra` more runs until one of them is warm. `before` is called before each run. The plain process
    gets the hash seed of the warm run. A difference is one if no plain run of several prints what a warm one does;
    where plain runs differ from each other, the outcomes count alone.
    """
    variables = variables or {}
    arguments = ("-v", *arguments)
    found, runs, warm_runs, tests, unstable, crashes, reason = [], 0, 0, 0, [], [], ""
    prepare = before or (lambda: None)
    for number in range(times + extra):
        if number >= times and (warm_runs or made.is_off):
            break
        prepare()
        warm = await made.run(*arguments, **variables)
        runs += 1
        warm_runs += warm.is_warm
        reason = reason or ("" if warm.is_warm else (made.status.reason))
        tests = len(warm.outcomes())
        if warm.report.error is not None and warm.report.error.kind == "preloaded":
            reason = f"not finished: {warm.report.error.message}"
            continue
        seed = warm.report.finished.hash_seed
        seeded = {"PYTHONHASHSEED": str(seed)} if seed is not None else {}
        plain_runs = [await shell(made, prepare, arguments, variables | seeded)]
        warm_texts = [(warm.report.exit_status, comparable(warm.output))]
        # What chance or load decides is seen on both sides after a few runs; a difference stays.
        for _ in range(TRIES):
            if any(text in plain_runs for text in warm_texts):
                break
            plain_runs.append(await shell(made, prepare, arguments, variables))
            prepare()
            again = await made.run(*arguments, **variables)
            if again.is_warm == warm.is_warm:  # Codriver compares, too, and repeats a suspicious run plainly
                warm_texts.append((again.report.exit_status, comparable(again.output)))
        if len(plain_runs) > 1:
            plain, ours = plain_runs[0], warm_texts[0]
            text = f"exit {plain[0]} {ours[0]}: {first_difference(plain[1], ours[1])}"
            is_same = any(text in plain_runs for text in warm_texts)
            if not is_same and any(plain_run != plain for plain_run in plain_runs):
                is_same = not stable_differences(plain_runs, warm_texts)
            is_crash = all(
                status == plain[0] and lines[:1] == ["Traceback (most recent call last):"]
                for status, lines in (*plain_runs, *warm_texts)
            )
            (unstable if is_same else crashes if is_crash else found).append(text)
    fields = {"unstable": unstable[:3]} if unstable else {}
    fields |= {"crashes": crashes[:3]} if crashes else {}  # of pytest itself, with frames of Codriver's programs
    return {"differences": found[:5], "warm": warm_runs, "of": runs, "reason": reason, "tests": tests, **fields}


def stable_differences(plain_runs, warm_runs):
    """Return the outcomes and exit statuses that all runs of one side share and no run of the other side has."""
    sides = [[{str(status), *outcome_lines(lines)} for status, lines in runs] for runs in (plain_runs, warm_runs)]
    item, other = (set.intersection(*side) for side in sides)
    return (item - set.union(*sides[1])) | (other - set.union(*sides[0]))


async def shell(made, prepare, arguments, variables):
    """Run pytest as a shell does."""
    prepare()
    remove_bytecode(made.directory)
    status, text = await run_pytest(made.python, made.directory, *arguments, **variables)
    return status, comparable(text)


def outcome_lines(lines):
    """Return the lines about outcomes, without their progress."""
    matches = (
        re.match(r"(?:\[gw\d+\] )?(?:\[ *\d+%\] )?(.*::.*?) ([A-Z]{4,})\b|([A-Z]{4,}) (.*::\S+)", line)
        for line in lines
    )
    return {f"{m[1] or m[4]} {m[2] or m[3]}" for m in matches if m}


def first_difference(item, other):
    """Return the first lines that differ."""
    pairs = zip([*item, *[""] * len(other)], [*other, *[""] * len(item)], strict=False)
    return next((f"{a[:150]!r} {b[:150]!r}" for a, b in pairs if a != b), "")


async def run_projects(python, results, options, version):
    is_heavy = options.what == "heavy"
    for name, needs, files, edits in HEAVY if is_heavy else PROJECTS:
        if options.only and options.only not in name:
            continue
        if options.sample and name not in ORDINARY_NAMES:
            continue
        times = options.runs if is_heavy else WARM_RUNS if name in ORDINARY_NAMES else 1
        kind = "heavy" if is_heavy else "project"
        keys = [f"{version} {kind} {name} {number}" for number in range(len(edits) + 1)]
        if all(map(results.has, keys)):
            continue
        if not has_packages(python, needs):
            print(f"{name}: left out, needs {needs}", flush=True)  # another environment may have them
            continue
        arguments = ARGUMENTS.get(name, ())
        with tempfile.TemporaryDirectory(prefix="truth-") as folder:
            try:
                with anyio.fail_after(LIMIT_S * max(1, times // WARM_RUNS)):
                    async with project(python, Path(folder), files) as made:
                        await made.warm_up(*arguments)
                        for key, edit in zip(keys, [{}, *edits], strict=True):
                            made.write(edit)
                            results.add(key, **await compare(made, arguments, times=times))
            except TimeoutError:
                results.add(keys[-1], hang=True)
            except Exception:  # noqa: BLE001 - it is the result
                results.add(keys[-1], error=traceback.format_exc()[-600:])


class Mutations:
    """Random mutations of a library's tree, by a seed."""

    def __init__(self, root, source, site, seed, kind="", *, outside=True):
        self.kind = kind
        """The only kind of mutation, if there is to be one."""
        self.outside = outside
        """Whether installed files are changed, too."""
        self.random = random.Random(seed)
        self.root, self.site = root, site
        self.files = sorted(path for path in (root / source).rglob("*.py") if "test" not in str(path.relative_to(root)))

    def draw(self):
        """Draw a kind and what to write: texts by path; None for no file."""
        kinds = [
            self.changed_line,
            self.changed_line,
            self.removed_import,
            self.hiding_file,
            *([self.site_file] if self.outside else []),
            self.variable,
        ]
        while True:
            kind = getattr(self, self.kind) if self.kind else self.random.choice(kinds)
            if found := kind():
                return kind.__name__, found

    def changed_line(self):
        path = self.random.choice(self.files)
        lines = path.read_text().splitlines(keepends=True)
        changes = [
            (" == ", " != "),
            (" < ", " >= "),
            (" + ", " - "),
            (" and ", " or "),
            ("True", "False"),
            ("not ", ""),
            (" 1", " 2"),
            ("return ", "return None and "),
        ]
        places = [
            (n, c)
            for n, line in enumerate(lines)
            for c in changes
            if c[0] in line and '"""' not in line and not line.lstrip().startswith("#")
        ]
        if not places:
            return None
        number, (old, new) = self.random.choice(places)
        lines[number] = lines[number].replace(old, new, 1)
        return {path: "".join(lines)}

    def removed_import(self):
        path = self.random.choice(self.files)
        lines = path.read_text().splitlines(keepends=True)
        places = [
            n
            for n, line in enumerate(lines)
            if re.match(r"(import|from) [\w. ,]+( import [\w ,]+)?$", line.rstrip()) and "__future__" not in line
        ]
        if not places:
            return None
        del lines[self.random.choice(places)]
        return {path: "".join(lines)}

    def hiding_file(self):
        name = self.random.choice(
            [
                "queue",
                "colorsys",
                "gettext",
                "shlex",
                "calendar",
                "csv",
                "secrets",
                "statistics",
                "fractions",
                "numbers",
                "pprint",
                "difflib",
                "html",
                "uuid",
            ]
        )
        path = self.root / f"{name}.py"
        return None if path.exists() else {path: "HIDDEN = 1\n"}

    def site_file(self):
        candidates = [path for path in self.site.glob("*/*.py") if path.parent.name in SITE_PACKAGES]
        path = self.random.choice(candidates)
        return {path: path.read_text() + self.random.choice(["\nCHANGED = 1\n", "\nprint('changed')\n"])}

    def variable(self):
        path = self.root / "conftest.py"
        name, value = self.random.choice(
            [
                ("TZ", "Asia/Tokyo"),
                ("NO_COLOR", "1"),
                ("OMP_NUM_THREADS", "1"),
                ("LANG", "C"),
                ("PYTHONUTF8", "0"),
                ("FORCE_COLOR", "1"),
                ("COLUMNS", "40"),
                ("HOME", "/tmp"),
            ]
        )
        text = path.read_text() if path.exists() else ""
        return {path: f"import os\nos.environ[{name!r}] = {value!r}\n{text}"}


SITE_PACKAGES = (
    "_pytest",
    "pluggy",
    "iniconfig",
    "packaging",
    "markupsafe",
    "attr",
    "idna",
    "certifi",
    "click",
    "jinja2",
)


def site_packages(python):
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(subprocess.check_output([python, "-c", code], text=True).strip())


async def run_library(python, results, options, version):
    keys = [f"{version} library {options.name} {options.seed} {number}" for number in range(options.count)]
    if all(map(results.has, keys)):
        return
    with tempfile.TemporaryDirectory(prefix="truth-") as folder:
        root = Path(folder) / "tree"
        shutil.copytree(options.source, root, ignore=shutil.ignore_patterns(".git", "__pycache__"))
        variables = {"PYTHONPATH": str(root / options.path)} if options.path else {}
        tests = await collected_tests(python, root, options.arguments.split(), variables)
        results.add(f"{version} library {options.name} base", tests=len(tests))
        async with project(python, root) as made:
            await made.warm_up(*options.arguments.split(), **variables)  # learns what all of the tests import
            for number, key in enumerate(keys):
                if not results.has(key):
                    await run_mutation(made, results, options, key, number, tests, variables)


async def collected_tests(python, root, arguments, variables):
    """Return the ids of all tests of a library."""
    _, text = await run_pytest(python, root, *arguments, "--collect-only", "-q", **variables)
    return [line for line in text.partition("\n\n")[0].splitlines() if "::" in line]


async def run_mutation(made, results, options, key, number, tests, variables):
    """Compare runs after one mutation, and undo it."""
    root, drawn = made.directory, random.Random(f"{options.seed} {number}")
    files = sorted({test.partition("::")[0] for test in tests})
    kind, texts = Mutations(root, options.code, options.site, f"{options.seed} {number}", options.kind).draw()
    how = HOW[number % len(HOW)]
    arguments = {
        "whole": tuple(options.arguments.split()),
        "path": (drawn.choice(files),),
        "ids": tuple(sorted(drawn.sample(tests, min(15, len(tests))))),
        "last failed": ("--lf", drawn.choice(files)),
    }[how]
    previous = {path: path.read_text() if path.exists() else None for path in texts}
    try:
        write(texts)
        with anyio.fail_after(options.limit):
            before = None
            if how == "last failed":
                await run_pytest(made.python, root, arguments[1], **variables)
                before = restoring(root / ".pytest_cache")
            found = await compare(made, arguments, extra=EXTRA_RUNS, variables=variables, before=before)
            names = [str(path.relative_to(path.parents[1])) for path in texts]
            results.add(key, kind=kind, how=how, files=names, **found)
    except TimeoutError:  # of a comparison, which consists of several runs
        with anyio.move_on_after(options.limit) as plain:
            await run_pytest(made.python, root, *arguments, **variables)
        with anyio.move_on_after(0 if plain.cancelled_caught else options.limit) as warm:
            await made.run(*arguments, **variables)
        hangs = {"endless" if plain.cancelled_caught else "hang" if warm.cancelled_caught else "slow": True}
        results.add(key, kind=kind, how=how, **hangs)
    finally:
        write(previous)


def run_affected(python, results, options, version):
    """Compare the verdict of `affected` after each change with `python -m pytest`, by test, through a server.

    A test that the server runs has to end as in a plain run. Tests that fail in the whole plain suite, passed before
    and were not chosen are listed as `missed`.
    """
    with tempfile.TemporaryDirectory(prefix="truth-") as name:
        folder = Path(name)
        root = folder / "workspace"
        shutil.copytree(options.source, root, ignore=shutil.ignore_patterns(".git", "__pycache__"))
        (root / ".venv").symlink_to(Path(python).parents[1])
        user_settings_file(folder).write_text('toolset = "full"\nwarmTests = true\n')
        accept(root, environ(folder))
        suite = AffectedSuite(python, root, options)
        with serving(folder, "--repl", "none") as live, live.client(name=CLIENT) as client:
            client.socket.settimeout(2 * LIMIT_S)
            suite.client = client
            for _ in range(2):
                whole = suite.call(args=suite.arguments)
            before = suite.plain(())
            differences = differing(before, suite.outcomes(whole))
            key = f"{version} affected {options.name} base"
            results.add(key, tests=len(before), exit=whole["exitStatus"], own=sorted(differences)[:5])
            for number in range(options.count):
                key = f"{version} affected {options.name} {options.seed} {number}"
                kind, texts = Mutations(
                    root, options.code, options.site, f"{options.seed} {number}", options.kind, outside=False
                ).draw()
                if results.has(key):
                    continue
                previous = {path: path.read_text() if path.exists() else None for path in texts}
                names = [str(path.relative_to(root)) for path in texts]
                try:
                    write(texts)
                    results.add(key, kind=kind, how="affected", files=names, **suite.compare(names, before))
                except subprocess.TimeoutExpired:
                    results.add(key, kind=kind, how="affected", files=names, endless=True)
                except Exception:  # noqa: BLE001 - it is the result
                    results.add(key, kind=kind, how="affected", files=names, error=traceback.format_exc()[-600:])
                finally:
                    write(previous)
                    suite.call(paths=["affected"], args=suite.arguments)


class AffectedSuite:
    """The tests of a library, run by a server and plainly."""

    def __init__(self, python, root, options):
        self.python, self.root, self.limit = python, root, options.limit
        self.client = None
        self.arguments = options.arguments.split()
        self.variables = {"PYTHONPATH": str(root / options.path)} if options.path else {}

    def call(self, **arguments):
        """Run tests through the server, and return the answer with every result."""
        given = {"report": True, "timeoutMs": 600_000, "limitMs": 1000 * int(self.limit), "env": self.variables}
        return self.client.call("run_tests", **given, **arguments)

    def outcomes(self, answer):
        """Return the outcome of each test in an answer."""
        return {row["test"]: row["outcome"] for row in answer.get("results", ())}

    def plain(self, tests):
        """Return the outcome of each test in a plain run. Later reports of a test, of its teardown, win."""
        remove_bytecode(self.root)
        command = [self.python, "-m", "pytest", *self.arguments, "-v", "-p", "truth_outcomes", *tests]
        with tempfile.TemporaryDirectory(prefix="truth-") as folder:
            (Path(folder) / "truth_outcomes.py").write_text(OUTCOMES_PLUGIN)
            written = Path(folder) / "outcomes"
            paths = [folder, *filter(None, [self.variables.get("PYTHONPATH")])]
            changed = {**self.variables, "PYTHONPATH": os.pathsep.join(paths), "TRUTH_OUTCOMES": str(written)}
            subprocess.run(
                command,
                cwd=self.root,
                env=environment(**changed),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self.limit,
                check=False,
                start_new_session=True,
            )
            text = written.read_text() if written.exists() else ""
        return {json.loads(line)[0]: json.loads(line)[1] for line in text.splitlines()}

    def compare(self, names, before):
        """Compare the affected tests of changed files with plain runs."""
        answer = self.call(paths=["affected"], args=self.arguments)
        not_finished = ""
        if answer.get("unfinished") and "was not finished" in str(answer.get("message")):
            not_finished = answer["message"]  # a warm run that needs a plain process; the next one is plain
            answer = self.call(affectedBy=names, args=self.arguments)
        found = self.outcomes(answer)
        whole = self.plain(())
        different = differing(whole, found)
        tries = 0
        while different and tries < TRIES:  # by the order of tests, or by chance
            different &= differing(self.plain(list(found)), found)
            if different:
                different &= differing(whole, self.outcomes(self.call(affectedBy=names, args=self.arguments)))
            tries += 1
        missed = [
            test
            for test, outcome in whole.items()
            if outcome in ("failed", "error") and before.get(test) == "passed" and test not in found
        ]
        lists = [f"{test}: plain {whole.get(test)}, affected {found[test]}" for test in sorted(different)]
        return {
            "differences": lists[:5],
            "missed": missed[:5],
            "warm": int("hashSeed" in answer),
            "of": 1,
            "reason": not_finished or str(answer.get("message", ""))[:200],
            "ok": answer["ok"],
            "unfinished": answer.get("unfinished", 0),
            "tests": len(found),
            "whole": len(whole),
            "failed": sum(outcome in ("failed", "error") for outcome in found.values()),
            "chosen": answer.get("chosen", ""),
        }


OUTCOMES_PLUGIN = """
import json, os
found = {}
def pytest_runtest_logreport(report):
    expected = hasattr(report, "wasxfail")
    outcome = report.outcome
    if outcome == "failed" and report.when != "call":
        outcome = "error"
    elif outcome == "skipped" and expected:
        outcome = "xfailed"
    elif outcome == "passed" and expected and report.when == "call":
        outcome = "xpassed"
    ranks = ["error", "failed", "xpassed", "xfailed", "skipped", "passed"]
    found[report.nodeid] = min(found.get(report.nodeid, "passed"), outcome, key=ranks.index)
def pytest_collectreport(report):
    if report.failed:
        found[report.nodeid] = "error"
def pytest_unconfigure():
    with open(os.environ["TRUTH_OUTCOMES"], "w") as file:
        for pair in found.items():
            print(json.dumps(pair), file=file)
"""
"""A plugin that writes the outcome of each test, named as in an answer."""


def differing(plain, found):
    """Return the tests of `found` that ended differently in a plain run."""
    return {test for test, outcome in found.items() if plain.get(test) != outcome}


HOW = ("path", "ids", "last failed", "path", "ids", "last failed", "path", "whole")
"""How the tests after each mutation are selected."""


def restoring(folder):
    """Return a function that restores a folder to its present state."""
    saved = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def restore():
        shutil.rmtree(folder, ignore_errors=True)
        for path, content in saved.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    return restore


def write(texts):
    """Replace files with new ones, because the installed ones may be hard links to those of other environments."""
    for path, text in texts.items():
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text)


def report(results):
    """Print what the results say."""
    compared = [line for line in results.lines if "differences" in line]
    print("comparisons", len(compared), "with differences", sum(bool(line["differences"]) for line in compared))
    print("warm runs", sum(line["warm"] for line in compared), "of", sum(line["of"] for line in compared))
    print("test outcomes compared", sum(line["tests"] * line["of"] for line in compared))
    print("hangs", [line["key"] for line in results.lines if line.get("hang")])
    print("endless on both sides", [line["key"] for line in results.lines if line.get("endless")])
    print("too slow to be compared", [line["key"] for line in results.lines if line.get("slow")])
    for line in results.lines:
        if (
            line.get("differences")
            or line.get("missed")
            or line.get("error")
            or (line.get("left_out") and "differences" not in line)
        ):
            print(json.dumps(line)[:600])
    ordinary = ORDINARY_NAMES
    ran_warm = {
        line["key"].split(" project ")[1].rpartition(" ")[0]
        for line in compared
        if " project " in line["key"] and line["warm"]
    }
    print(
        "ordinary projects that ran warm",
        len(ordinary & ran_warm),
        "of",
        len(ordinary),
        "plain:",
        sorted(ordinary - ran_warm),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["projects", "heavy", "library", "affected", "report"])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--results", required=True)
    parser.add_argument("--only", default="", help="projects whose names contain this")
    parser.add_argument("--sample", action="store_true", help="only the ordinary projects")
    parser.add_argument("--runs", type=int, default=20, help="runs of each heavy project")
    parser.add_argument("--name", default="")
    parser.add_argument("--source", default="", help="the library's source tree")
    parser.add_argument("--code", default="src", help="the directory of its code in the tree")
    parser.add_argument("--path", default="", help="the directory of the tree to put on PYTHONPATH")
    parser.add_argument("--arguments", default="", help="of pytest")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--limit", type=float, default=MUTATED_S, help="seconds of a comparison after a mutation")
    parser.add_argument("--kind", default="", help="the only kind of mutation, such as hiding_file")
    options = parser.parse_args()
    for number in signal.SIGINT, signal.SIGTERM:  # what was changed is restored
        signal.signal(number, signal.default_int_handler)
    results = Results(options.results)
    if options.what == "report":
        report(results)
        return
    version = subprocess.check_output(
        [options.python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], text=True
    ).strip()
    options.site = site_packages(options.python)
    if options.what in ("projects", "heavy"):
        anyio.run(run_projects, options.python, results, options, version)
    elif options.what == "affected":
        run_affected(options.python, results, options, version)
    else:
        anyio.run(run_library, options.python, results, options, version)


if __name__ == "__main__":
    main()
