"""A program that starts a server, uses each kind of tool of the base once, stops it, and prints the outcomes as JSON.

`python one_of_each.py FOLDER` runs the server in this process, with the REPL in memory; it uses whichever `codriver`
comes first on the import path.
"""

import json
import sys
from pathlib import Path

import click
from tools_in_memory import serving

from codriver.app import features
from codriver.commands.cli import cli

SHOP = "def total(prices):\n    return sum(prices)\n"
TEST = "from shop import total\n\ndef test_total():\n    assert total([1, 2]) == 4\n"


def use(folder):
    workspace = folder / "workspace"
    workspace.mkdir()
    (workspace / "shop.py").write_text(SHOP)
    (workspace / "test_shop.py").write_text(TEST)
    (workspace / "core.clj").write_text("(def total 42)\n")
    with serving(folder) as live, live.client(name="opencode") as client:
        tools = client.tools()
        edit = {"filePath": "shop.py", "oldText": "sum(prices)", "newText": "sum(prices) + 1"}
        return {
            "features": [feature.name for feature in features.features()],
            "tools": tools,
            "commands": cli.list_commands(click.Context(cli)),
            "value": client.call("evaluate_code", code="(+ 40 2)")["result"],
            "loaded": client.call("load_file", filePath="core.clj")["ok"],
            "failed": client.call("run_tests", paths=["test_shop.py"], timeoutMs=60_000)["failed"],
            "edited": client.call("edit_files", edits=[edit], test=["test_shop.py"], limitMs=60_000)["tests"],
            "log": client.call("repl_output_log", query="[:find (count ?e) . :where [?e :output/line]]")["ok"],
        }


if __name__ == "__main__":
    print(json.dumps(use(Path(sys.argv[1]))))
