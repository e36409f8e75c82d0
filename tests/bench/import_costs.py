"""Measure the cost of recording loaded code: during the import of real libraries, at its end, and after the answer.

`python tests/bench/import_costs.py INTERPRETER [--rounds N] [--library NAME]`: INTERPRETER has the libraries. Each one
is copied into a directory, because installed packages are not recorded, and imported in new processes with and without
recording, in turns. The output has the ratio of processor times, the share of copying names at the end of the import,
and the size of the texts.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SERVER = Path(__file__).parents[2] / "server"
IMPORTS = {
    "django": "import django.contrib.admin.sites, django.db.models, django.forms, django.test.client",
    "sympy": "import sympy",
    "networkx": "import networkx",
}
PROGRAM = """
import json, sys, time
sys.path[:0] = [{server!r}, {folder!r}]
from codriver.repls.worker.python.loaded_sources import LoadedSources
texts = LoadedSources()
if {is_on}:
    texts.begin()
clock = time.process_time
began = clock()
{code}
imported = clock()
texts.note()
noted = clock()
texts.read_recent_sources()
settled = clock()
size, kept = 0, 0
for load in texts.loads.values():
    size, kept = size + len(load.data or b""), kept + load.stored_bytes
times = {{"import": imported - began, "copy": noted - imported, "texts": settled - noted}}
print(json.dumps({{**times, "size": size, "kept": kept}}))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("interpreter")
    parser.add_argument("--library", choices=IMPORTS, action="append")
    parser.add_argument("--rounds", type=int, default=12)
    requested = parser.parse_args()
    for name in requested.library or IMPORTS:
        with tempfile.TemporaryDirectory() as folder:
            ask = f"import {name}; print({name}.__path__[0])"
            home = subprocess.check_output([requested.interpreter, "-c", ask], text=True).strip()
            shutil.copytree(home, Path(folder) / name)
            measured = {True: [], False: []}
            for number in range(requested.rounds + 1):
                for is_on in (False, True):
                    found = run(requested.interpreter, folder, IMPORTS[name], is_on=is_on)
                    measured[is_on] += [found] if number else []  # the first compiles what it imports
                if not number:
                    settle(Path(folder))
        sys.stdout.write(f"{summary(name, measured)}\n")
        sys.stdout.flush()


def run(interpreter, folder, code, *, is_on):
    program = PROGRAM.format(server=str(SERVER), folder=folder, code=code, is_on=is_on)
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return json.loads(subprocess.check_output([interpreter, "-c", program], text=True, env=environ))


def settle(folder):
    """Make compiled code look as if its sources had not been edited recently. Otherwise it would be compiled again."""
    later = time.time() + 3600
    for file in folder.rglob("*.pyc"):
        os.utime(file, (later, later))


def summary(name, measured):
    without = statistics.median(item["import"] for item in measured[False])
    remembered = measured[True]
    taken = {what: statistics.median(item[what] for item in remembered) for what in ("import", "copy", "texts")}
    size, kept = remembered[-1]["size"], remembered[-1]["kept"]
    return (
        f"{name:10} import {without:.2f} s, with it {taken['import'] / without:.3f} of that;"
        f" copy of names {taken['copy'] / without:.1%};"
        f" texts {taken['texts'] * 1000 / (size / 2**20):.0f} ms a MB, {kept / size:.2f} bytes a byte"
    )


if __name__ == "__main__":
    main()
