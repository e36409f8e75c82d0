"""Load the commits of a Git repository one by one into a live process, and compare it with a fresh import each time.

`python tests/bench/real_commits.py REPOSITORY PACKAGE [--python PYTHON] [--commits N] [--skip N] [--out FILE.jsonl]`:
REPOSITORY is a clone with history, and PACKAGE the path of a package in it, such as `src/flask`. PYTHON needs the
libraries that the package imports. A commit counts if it only changes existing modules of the package, and their code.
A difference is silent if no row of the load names it or something that contains it. A row is false if nothing that it
names differs.
"""

import argparse
import ast
import collections
import contextlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PROGRAM = Path(__file__).parents[1] / "support" / "commit_runs.py"
MAX_LISTED = 12


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repository")
    parser.add_argument("package")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--commits", type=int, default=30)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--only", default="", help="the start of a commit's name")
    parser.add_argument("--out", default="")
    given = parser.parse_args()
    counts = collections.Counter()
    with contextlib.ExitStack() as stack:
        out = stack.enter_context(Path(given.out).open("a")) if given.out else None
        for outcome in outcomes(given):
            counts[outcome["verdict"]] += 1
            sys.stdout.write(described(outcome))
            sys.stdout.flush()
            if out is not None:
                out.write(json.dumps(outcome) + "\n")
    sys.stdout.write(f"{given.package}: {dict(counts)}\n")


def outcomes(given):
    """Yield the judged outcome of each commit, newest first."""
    command = [str(given.python), str(PROGRAM)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        number = 0
        for commit, changed in commits(given.repository, given.package):
            if not commit.startswith(given.only):
                continue
            number += 1
            if number <= given.skip:
                continue
            if number > given.skip + given.commits:
                break
            with tempfile.TemporaryDirectory() as place:
                case = laid_out(given.repository, given.package, commit, changed, place)
                process.stdin.write(json.dumps(case) + "\n")
                process.stdin.flush()
                outcome = json.loads(process.stdout.readline())
            yield {"commit": commit, "subject": git(given.repository, "log", "-1", "--format=%s", commit).strip(),
                   "changed": case["changed"], **judged(outcome)}  # fmt: skip
        process.stdin.close()


def commits(repository, package):
    """Yield each commit that only changes the code of existing modules in a package, with the paths of these."""
    log = git(repository, "log", "--no-merges", "--name-status", "--no-renames", "--format=%x00%H", "--", package)
    for entry in log.split("\0")[1:]:
        commit, *lines = [line for line in entry.splitlines() if line]
        changes = [line.split("\t") for line in lines]
        modules = [path for kind, path in changes if kind == "M" and path.endswith(".py")]
        others = [path for kind, path in changes if kind != "M" and path.endswith(".py")]
        changed = [path for path in modules if has_other_code(repository, commit, path)]
        if changed and not others:
            yield commit, changed


def has_other_code(repository, commit, path):
    """Return whether a commit changes the code of a module, apart from comments and layout."""
    try:
        trees = [ast.dump(ast.parse(git(repository, "show", f"{at}:{path}"))) for at in (commit + "^", commit)]
    except (SyntaxError, ValueError, subprocess.CalledProcessError):
        return False
    return trees[0] != trees[1]


def laid_out(repository, package, commit, changed, place):
    """Write both versions of a package below a directory, and return the case for `commit_runs.py`."""
    root = Path(package).parent
    for name, at in (("old", commit + "^"), ("new", commit)):
        paths = [package] if name == "old" else changed
        archive = subprocess.run(["git", "-C", repository, "archive", at, *paths], check=True, capture_output=True)
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
            tar.extractall(Path(place, name), filter="data")
    return {
        "old": str(Path(place, "old", root)),
        "new": str(Path(place, "new", root)),
        "package": Path(package).name.removesuffix(".py"),
        "changed": [str(Path(path).relative_to(root)) for path in changed],
    }


def git(repository, *arguments):
    done = subprocess.run(["git", "-C", repository, *arguments], check=True, capture_output=True, encoding="utf-8")
    return done.stdout


def judged(outcome):
    """Return the verdict on a load: `right`, `reported`, `silent`, `false` or `broken`, with the reasons."""
    live, fresh, again = outcome["live"], outcome["fresh"], outcome["again"]
    failure = live.get("failed") or fresh.get("failed") or again.get("failed")
    if failure:
        return {"verdict": "broken", "why": failure[-600:]}
    modules = set(live["names"]) & set(fresh["names"])
    if not modules:
        return {"verdict": "broken", "why": "no module of one version can be imported"}
    unstable = {
        path for path in {*fresh["leaves"], *again["leaves"]} if fresh["leaves"].get(path) != again["leaves"].get(path)
    }
    paths = [
        path
        for path in sorted({*live["leaves"], *fresh["leaves"]} - unstable)
        if live["leaves"].get(path) != fresh["leaves"].get(path) and module_of(path, modules)
    ]
    rows = live["rows"]
    silent = [path for path in paths if not live["errors"] and not any(names(row, path) for row in rows)]
    false = [row for row in rows if not any(names(row, path) for path in paths)]
    verdict = "silent" if silent else "false" if false else "reported" if paths or live["errors"] else "right"
    leaves = [(path, live["leaves"].get(path), fresh["leaves"].get(path)) for path in silent]
    return {"verdict": verdict, "silent": leaves, "false": false, "differing": len(paths), "rows": len(rows),
            "errors": live["errors"], "all_rows": rows}  # fmt: skip


def module_of(path, modules):
    """Return the module of a leaf, or ""."""
    while "." in path:
        path = path.rpartition(".")[0]
        if path in modules:
            return path
    return ""


def names(row, path):
    """Return whether a row names a leaf, something that contains it, or something within it."""
    for name in row["name"].split(", "):
        dotted = f"{row['module']}.{name}"
        if not name.replace(".", "").replace("_", "").isalnum() or name.endswith(".py"):
            dotted = row["module"]  # it names a statement or a file
        if path == dotted or path.startswith((dotted + ".", dotted + "[", dotted + "{", dotted + "<")):
            return True
        if dotted.startswith(path + "."):
            return True
    return False


def described(outcome):
    """Return some lines about a commit."""
    lines = [f"{outcome['verdict']:8} {outcome['commit'][:10]} {outcome['subject'][:70]}"]
    if outcome["verdict"] == "broken":
        lines.append("    " + outcome["why"].replace("\n", "\n    "))
    for path, live, fresh in outcome.get("silent", ())[:MAX_LISTED]:
        lines.append(f"    silent {path}: {str(live)[:90]} | {str(fresh)[:90]}")
    lines += [
        f"    false  {row['module']}: {row['name']}: {row['kind']} {row.get('of', '')[:110]}"
        for row in outcome.get("false", ())[:MAX_LISTED]
    ]
    lines += [f"    error  {error.splitlines()[-1]}" for error in outcome.get("errors", ())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
