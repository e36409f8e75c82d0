"""Remove and edit each top-level form of loaded Clojure files, and list those that `what_changed` does not report.

    python tests/bench/clojure_drift_edits.py SOURCES [--edits N]

SOURCES is the source directory of a library without dependencies, such as `src/main/clojure` of a checkout. Its files
are loaded into a JVM. Every form is removed, and edited N times at a random token. The file is restored after each
change. Files that were only loaded or restored must show no difference.
"""

import argparse
import random
import re
import shutil
import sys
import tempfile
from pathlib import Path

from live_server import serving, until
from real_repls import repl

from codriver_lisp.reader import top_level_forms

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|;[^\n]*|[^\s()\[\]{}"\';`~^@#,\\]+')
"""Matches a string, a comment, or a symbol, keyword or number."""
WITHOUT_EFFECT = ("(comment", "(declare", "(set!", "#?(:cljs")
"""The beginnings of forms whose changes make no difference in a JVM that has loaded them."""
SEED = 7


def edited(form, drawn):
    """Return the form with one of its tokens changed; None where it has no token to change."""
    spots = [match for match in TOKEN.finditer(form) if not match[0].startswith(";")][1:]  # not what kind of form it is
    spots = [item for item in spots if item[0].startswith('"') or re.fullmatch(r"[\w.*!?<>=+-]+", item[0])]
    if not spots:
        return None
    spot = drawn.choice(spots)
    token = f'"edited{spot[0][1:]}' if spot[0].startswith('"') else f"{spot[0]}1"
    return form[: spot.start()] + token + form[spot.end() :]


def variants(text, edits, drawn):
    """Yield the kind of each variant of a file, the form that it changes, and the text."""
    for span in top_level_forms(text):
        form = text[span.start : span.end]
        before, after = text[: span.start], text[span.end :]
        yield "removed", form, before + after
        for _ in range(edits):
            if changed := edited(form, drawn):
                yield "edited", changed, before + changed + after


def compare(client, file, edits, drawn):
    """Return the number of variants of a loaded file, and lines about those that were reported wrongly."""

    def differences():
        return client.call("what_changed").get("differences", [])

    text, wrong, count = file.read_text(), [], 0
    if found := differences():
        wrong.append(f"{file.name}: reported after its load: {found}")
    known = set(found)
    for kind, form, variant in variants(text, edits, drawn):
        count += 1
        file.write_text(variant)
        if set(differences()) == known and not form.startswith(WITHOUT_EFFECT):
            wrong.append(f"{file.name}: {kind}, not reported: {' '.join(form.split())[-230:]}")
    file.write_text(text)
    if set(left := differences()) != known:
        wrong.append(f"{file.name}: reported after it was put back: {left}")
    return count, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path)
    parser.add_argument("--edits", type=int, default=1)
    given = parser.parse_args()
    options = ("--nrepl", f"x={repl('jvm').endpoint}", "--repl", "none")
    drawn = random.Random(SEED)  # the same edits in each run
    total, wrong = 0, []
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder), *options) as live, live.client() as client:
        until(lambda: "what_changed" in client.tools(), "the REPL's tools")
        sources = live.workspace / "src"
        shutil.copytree(given.sources, sources)
        for file in sorted([*sources.rglob("*.clj"), *sources.rglob("*.cljc")]):
            loaded = client.call("load_file", filePath=str(file))
            if not loaded["ok"]:
                sys.stdout.write(f"{file.name}: does not load: {loaded}\n")
                continue
            count, lines = compare(client, file, given.edits, drawn)
            total, wrong = total + count, wrong + lines
    sys.stdout.write("\n".join([*wrong, f"{total} variants, {len(wrong)} reported wrongly"]) + "\n")


if __name__ == "__main__":
    main()
