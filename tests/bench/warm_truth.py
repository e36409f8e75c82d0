"""Compare warm test runs with plain ones: see README.md."""

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import anyio

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE)]
from truth_projects import ARGUMENTS, ORDINARY, PROJECTS  # noqa: E402
from warm_runs import differences, project  # noqa: E402

WARM_RUNS = 3
"""Warm runs of each state of a project."""
LIMIT_S = 600


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


async def compare(made, arguments, *, times=1, left_out=()):
    """Compare warm runs with a plain one of the present files."""
    plain = await made.plain(*arguments)
    found, warm_runs, reason = [], 0, ""
    for _ in range(times):
        warm = await made.run(*arguments)
        warm_runs += warm.is_warm
        reason = reason or ("" if warm.is_warm else (made.status.plain_reason or made.status.reason))
        found += [one for one in differences(plain, warm) if not any(one.startswith(test) for test in left_out)]
        if warm.report.problem is not None and warm.report.problem.kind == "preloaded":
            reason = f"not finished: {warm.report.problem.message}"
            found = []
    return {"differences": found[:5], "warm": warm_runs, "of": times, "reason": reason, "tests": len(plain.outcomes())}


async def run_projects(python, results, chosen, version):
    for name, needs, files, edits in PROJECTS:
        if chosen and chosen not in name:
            continue
        keys = [f"{version} project {name} {number}" for number in range(len(edits) + 1)]
        if all(map(results.has, keys)):
            continue
        if not has_packages(python, needs):
            results.add(keys[0], left_out=f"needs {needs}")
            continue
        arguments = ARGUMENTS.get(name, ())
        with tempfile.TemporaryDirectory(prefix="truth-") as folder:
            try:
                with anyio.fail_after(LIMIT_S):
                    async with project(python, Path(folder), files) as made:
                        await made.warm_up(*arguments)
                        for key, edit in zip(keys, [{}, *edits], strict=True):
                            made.write(edit)
                            results.add(key, **await compare(made, arguments, times=WARM_RUNS))
            except TimeoutError:
                results.add(keys[-1], hang=True)
            except Exception:  # noqa: BLE001 - it is the result
                results.add(keys[-1], error=traceback.format_exc()[-600:])


class Mutations:
    """Random mutations of a library's tree, by a seed."""

    def __init__(self, root, source, site, seed):
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
            self.site_file,
            self.variable,
        ]
        while True:
            kind = self.random.choice(kinds)
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
    site = options.site
    with tempfile.TemporaryDirectory(prefix="truth-") as folder:
        root = Path(folder) / "tree"
        shutil.copytree(options.source, root, ignore=shutil.ignore_patterns(".git", "__pycache__"))
        arguments = tuple(options.arguments.split()) if options.arguments else ()
        variables = {"PYTHONPATH": str(root / options.path)} if options.path else {}
        async with project(python, root) as made:
            made.run = with_variables(made.run, variables)
            made.plain = with_variables(made.plain, variables)
            began = time.monotonic()
            first, second = await made.plain(*arguments), await made.plain(*arguments)
            one, other = first.outcomes(), second.outcomes()
            left_out = [test for test in {**one, **other} if one.get(test) != other.get(test)]
            results.add(
                f"{version} library {options.name} base",
                tests=len(one),
                left_out=left_out[:20],
                exit=first.report.exit_status,
                seconds=round(time.monotonic() - began, 1),
            )
            await made.warm_up(*arguments)
            for number in range(options.count):
                key = f"{version} library {options.name} {options.seed} {number}"
                if results.has(key):
                    continue
                kind, texts = Mutations(root, options.code, site, f"{options.seed} {number}").draw()
                former = {path: path.read_text() if path.exists() else None for path in texts}
                try:
                    write(texts)
                    with anyio.fail_after(LIMIT_S):
                        results.add(
                            key,
                            kind=kind,
                            files=[str(path.relative_to(path.parents[1])) for path in texts],
                            **await compare(made, arguments, left_out=left_out),
                        )
                except TimeoutError:
                    results.add(key, kind=kind, hang=True)
                finally:
                    write(former)


def with_variables(run, variables):
    async def call(*arguments, **more):
        return await run(*arguments, **{**variables, **more})

    return call


def write(texts):
    for path, text in texts.items():
        if text is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(text)


def report(results):
    """Print what the results say."""
    compared = [line for line in results.lines if "differences" in line]
    print("comparisons", len(compared), "with differences", sum(bool(line["differences"]) for line in compared))
    print("warm runs", sum(line["warm"] for line in compared), "of", sum(line["of"] for line in compared))
    print("test outcomes compared", sum(line["tests"] * line["of"] for line in compared))
    print("hangs", [line["key"] for line in results.lines if line.get("hang")])
    for line in results.lines:
        if line.get("differences") or line.get("error") or (line.get("left_out") and "differences" not in line):
            print(json.dumps(line)[:600])
    ordinary = {name for name, *_ in ORDINARY}
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
    parser.add_argument("what", choices=["projects", "library", "report"])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--results", required=True)
    parser.add_argument("--only", default="", help="projects whose names contain this")
    parser.add_argument("--name", default="")
    parser.add_argument("--source", default="", help="the library's source tree")
    parser.add_argument("--code", default="src", help="the directory of its code in the tree")
    parser.add_argument("--path", default="", help="the directory of the tree to put on PYTHONPATH")
    parser.add_argument("--arguments", default="", help="of pytest")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", default="1")
    options = parser.parse_args()
    results = Results(options.results)
    if options.what == "report":
        report(results)
        return
    version = subprocess.check_output(
        [options.python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], text=True
    ).strip()
    options.site = site_packages(options.python)
    if options.what == "projects":
        anyio.run(run_projects, options.python, results, options.only, version)
    else:
        anyio.run(run_library, options.python, results, options, version)


if __name__ == "__main__":
    main()
