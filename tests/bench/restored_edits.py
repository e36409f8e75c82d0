"""Compare what `edit_files` takes back with what `python -m pytest` fails after each edit: see README.md."""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE)]
from accepted import accept  # noqa: E402
from live_server import environ, serving, user_settings_file  # noqa: E402
from warm_truth import CLIENT, LIMIT_S, TRIES, AffectedSuite, Mutations, Results  # noqa: E402

KINDS = ("breaking", "breaking", "breaking", "harmless", "repairing")
"""Kinds of edits. One that repairs undoes a change that was made past the server."""
HARMLESS = ("\n\n# A note.\n", "\n\n_UNUSED = 1\n", "\n\ndef _unused():\n    return 1\n")
"""What a harmless edit adds to the end of a file."""


def new_failures(before, after):
    """Return the tests that passed before an edit and fail after it."""
    # A file that cannot be collected fails under its own name.
    passed = {test for test, outcome in before.items() if outcome in ("passed", "xfailed")}
    failing = {test for test, outcome in after.items() if outcome in ("failed", "error")}
    return {test for test in failing if test in passed or ("::" not in test and test not in before)}


class RestoredEdits:
    """Edits to a library's files by a server that runs the affected tests, and takes back what breaks one."""

    def __init__(self, client, suite, options):
        self.client, self.suite, self.options = client, suite, options
        self.root = suite.root
        self.right = suite.plain(())

    def draw(self, number):
        """Draw the kind of an edit, and the contents of one file before and after it."""
        seed = f"{self.options.seed} {number}"
        chance = random.Random(seed)
        kind = chance.choice(KINDS)
        mutations = Mutations(self.root, self.options.code, None, seed, outside=False)
        if kind == "harmless":
            path = chance.choice(mutations.files)
            return kind, path, path.read_text(), path.read_text() + chance.choice(HARMLESS)
        changed = mutations.changed_line() if chance.random() < 0.8 else mutations.removed_import()
        while not changed:
            changed = mutations.changed_line()
        ((path, text),) = changed.items()
        return (kind, path, text, path.read_text()) if kind == "repairing" else (kind, path, path.read_text(), text)

    def compare(self, number):
        """Make an edit, and return whether the server's decision is right according to plain runs."""
        kind, path, old, new = self.draw(number)
        original = path.read_text()
        name = str(path.relative_to(self.root))
        try:
            path.write_text(old)
            before = self.right if old == original else self.suite.plain(())
            edit = {"filePath": name, "type": "create", "overwrite": True, "code": new}
            act = {"test": ["affected"], "onFailure": "restore", "limitMs": 1000 * int(self.suite.limit)}
            answer = self.client.call("edit_files", edits=[edit], detail=True, **act)
            if answer.get("reason") == "bad-arguments":
                raise ValueError(answer["message"])
            left = path.read_text()
            path.write_text(new)
            after = self.right if new == original else self.suite.plain(())
            broken = new_failures(before, after)
            for _ in range(TRIES - 1 if broken else 0):  # without tests that sometimes fail
                broken &= new_failures(before, self.suite.plain(()))
            fields = {"kind": kind, "file": name, "restored": left == old, "broken": len(broken), "wrong": ""}
            if left not in (old, new):
                fields["wrong"] = "the file has neither content"
            elif left == old and not broken:
                fields["wrong"] = f"taken back, but no test fails: {json.dumps(answer)[:1500]}"
            elif left == new and broken:
                chosen = self.suite.outcomes(self.suite.call(affectedBy=[name]))
                failed = sorted(broken & {test for test in chosen if chosen[test] in ("failed", "error")})
                fields["missed"] = sorted(broken)[:5]
                if failed and not answer.get("notFinished"):
                    fields["wrong"] = f"kept, but {failed[:3]} fail: {json.dumps(answer)[:1500]}"
            elif left == new and not answer["ok"] and kind != "breaking" and not answer.get("failedBefore"):
                fields["wrong"] = f"kept, but not ok: {json.dumps(answer)[:1500]}"
            return {**fields, "ok": answer["ok"], "tests": answer.get("tests"), "reason": answer.get("reason", "")}
        finally:
            path.write_text(original)


def run(options, results):
    """Make the edits that are not in the results yet."""
    key = f"{options.name} {options.seed}"
    keys = [f"{key} {number}" for number in range(options.count)]
    if all(map(results.has, keys)):
        return
    with tempfile.TemporaryDirectory(prefix="restored-") as name:
        folder = Path(name)
        root = folder / "workspace"
        shutil.copytree(options.source, root, ignore=shutil.ignore_patterns(".git", "__pycache__"))
        (root / ".venv").symlink_to(Path(options.python).parents[1])
        user_settings_file(folder).write_text(f'toolset = "full"\nwarmTests = {str(options.warm_tests).lower()}\n')
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = ""
        if options.path:  # `edit_files` has no variables
            os.environ["PYTEST_ADDOPTS"] = f"-o pythonpath={options.path}"
        accept(root, environ(folder))
        with serving(folder, "--repl", "none") as live, live.client(name=CLIENT) as client:
            client.socket.settimeout(2 * LIMIT_S)
            suite = AffectedSuite(options.python, root, options)
            suite.client = client
            for _ in range(2):
                suite.call()
            edits = RestoredEdits(client, suite, options)
            for number, key in enumerate(keys):
                if results.has(key):
                    continue
                try:
                    results.add(key, **edits.compare(number))
                except subprocess.TimeoutExpired:
                    results.add(key, endless=True)
                except Exception:  # noqa: BLE001 - it is the result
                    results.add(key, error=traceback.format_exc()[-900:])
                suite.call(paths=["affected"])


def report(results):
    """Print how many edits were taken back, and what was wrong."""
    lines = [line for line in results.lines if "kind" in line]
    for kind in dict.fromkeys(KINDS):
        found = [line for line in lines if line["kind"] == kind]
        broken = [line for line in found if line["broken"]]
        restored = sum(line["restored"] for line in found)
        print(f"{kind}: {len(found)} edits, {len(broken)} break a test, {restored} taken back")
    print("missed by the choice", sum("missed" in line for line in lines))
    print("endless", sum("endless" in line for line in results.lines))
    for line in results.lines:
        if line.get("wrong") or line.get("error"):
            print(json.dumps(line)[:900])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["library", "report"])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--results", required=True)
    parser.add_argument("--warm-tests", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--name", default="")
    parser.add_argument("--source", default="", help="the library's source tree")
    parser.add_argument("--code", default="src", help="the directory of its code in the tree")
    parser.add_argument("--path", default="", help="the directory of the tree to put on sys.path")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--limit", type=float, default=120, help="seconds of a run")
    options = parser.parse_args()
    options.arguments = ""
    for number in signal.SIGINT, signal.SIGTERM:  # the server ends, too
        signal.signal(number, signal.default_int_handler)
    results = Results(options.results)
    if options.what == "report":
        report(results)
    else:
        run(options, results)


if __name__ == "__main__":
    main()
