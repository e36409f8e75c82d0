"""Print the table of REPLs and capabilities for the README, from servers that run now.

Run as ``python tests/repls/capability_table.py``. A server that is not installed has no column.
"""

import sys
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).parent.parent))

import real_repls
from codriver.repls.base import CAPABILITIES
from codriver.repls.nrepl import connect

TITLES = {
    "python": "embedded Python",
    "lisp": "embedded Lisp",
    "jvm": "nREPL (JVM)",
    "basilisp": "Basilisp",
    "hy": "hy-nrepl",
    "nbb": "nbb",
    "squint": "squint",
}


def mark(support):
    """`yes` for an op of the server, `adapted` for what Codriver adds, a dash for what cannot be had."""
    if support is None:
        return "-"
    return "adapted" if support.adapted else "yes"


async def profiles(names):
    found = {}
    for name in names:
        async with connect(real_repls.repl(name).endpoint, listener=lambda _evaluation, _event: None) as adapter:
            found[name] = adapter.profile
    return found


def table(found):
    """The markdown lines of the table. `restart` depends on who started the REPL and has no row."""
    names = list(found)
    lines = ["| capability | " + " | ".join(TITLES[name] for name in names) + " |"]
    lines.append("| --- |" + " --- |" * len(names))
    for capability in CAPABILITIES:
        if capability != "restart":
            cells = (mark(found[name].support.get(capability)) for name in names)
            lines.append(f"| `{capability}` | " + " | ".join(cells) + " |")
    return lines


def main():
    names = [name for name in real_repls.NAMES if real_repls.missing(name) is None]
    sys.stdout.write("\n".join(table(anyio.run(profiles, names))) + "\n")


if __name__ == "__main__":
    main()
