"""The tables of REPLs and kernels with their capabilities, determined from running ones.

Run `python tests/repls/capability_table.py` to print them, or with `--write` to update docs/reference/capabilities.md.
All servers must be installed to write them.
"""

import re
import sys
from functools import partial
from importlib import import_module
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import real_kernels
import real_repls

from codriver.app import features
from codriver.repls.contract.capabilities import CAPABILITIES
from codriver.repls.nrepl.nrepl_adapter import connect

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "capabilities.md"
TITLES = {
    "python": "embedded Python",
    "lisp": "embedded Lisp",
    "jvm": "nREPL (JVM)",
    "leiningen": "Leiningen",
    "tools.nrepl": "tools.nrepl 0.2",
    "basilisp": "Basilisp",
    "hy": "hy-nrepl",
    "nbb": "nbb",
    "ipykernel": "ipykernel",
    "xpython": "xeus-python",
    "ir": "IRkernel",
    "deno": "Deno",
    "bash": "bash_kernel",
}
KERNELS = tuple(TITLES)[-5:]
HOOKS = features.adapter_hooks()
ROWS = tuple(
    item for item in (*CAPABILITIES, *(added.name for added in HOOKS.capabilities)) if item not in ("restart", "seam")
)
"""`restart` depends on who started the REPL, `seam` on what runs in it, not on what it is."""
MARKED = re.compile("(<!-- capabilities -->\n).*?(<!-- /capabilities -->)", re.DOTALL)
MARKED_OF_KERNELS = re.compile("(<!-- kernels -->\n).*?(<!-- /kernels -->)", re.DOTALL)


def mark(support):
    """Return `yes` for an op of the server, `adapted` for an addition by Codriver, or a dash if it is not available."""
    if support is None:
        return "-"
    return "adapted" if support.adapted else "yes"


async def marks(name):
    """Return how the running server or kernel `name` provides each capability."""
    if name in KERNELS:
        adapter = import_module("codriver.features.jupyter.kernels.jupyter_adapter")  # where the feature is
        place, connect_jupyter = real_kernels.kernel(name).address.partition("://")[2], adapter.connect_jupyter
        connected = connect_jupyter(place, listener=lambda _evaluation, _event: None, workspace=None, is_remote=False)
    else:
        connected = connect(real_repls.repl(name).endpoint, listener=lambda _evaluation, _event: None, hooks=HOOKS)
    async with connected as adapter:
        return {capability: mark(adapter.profile.capabilities.get(capability)) for capability in ROWS}


def table(found):
    """Return a Markdown table with the marks of several servers."""
    lines = ["| capability | " + " | ".join(TITLES[name] for name in found) + " |"]
    lines.append("| --- |" + " --- |" * len(found))
    lines += [f"| `{row}` | " + " | ".join(found[name][row] for name in found) + " |" for row in ROWS]
    return "\n".join(lines)


def read(text, marked=MARKED):
    """Return the marks in a table of the page, by server and capability."""
    lines = marked.search(text)[0].splitlines()[1:-1]
    cells = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]
    names = {title: name for name, title in TITLES.items()}
    columns = [names[title] for title in cells[0][1:]]
    return {name: {row[0]: row[at] for row in cells[2:]} for at, name in enumerate(columns, 1)}


def filled(text, match):
    """Return the marked section with a table in it."""
    return f"{match[1]}{text}\n{match[2]}"


def main():
    for names, source, marked in ((KERNELS, real_kernels, MARKED_OF_KERNELS), (real_repls.NAMES, real_repls, MARKED)):
        missing = {name: how for name in names if (how := source.missing(name))}
        text = table({name: anyio.run(marks, name) for name in names if name not in missing})
        if "--write" not in sys.argv:
            sys.stdout.write(text + "\n")
        elif missing:
            sys.exit(f"not written, as these are not installed: {missing}")
        else:
            PAGE.write_text(marked.sub(partial(filled, text), PAGE.read_text()))


if __name__ == "__main__":
    main()
