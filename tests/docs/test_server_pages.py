"""The page about the inside of the server: who follows it to add a tool has one."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from live_server import environ

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "server" / "README.md").read_text()
COMMAND_S = 120


def block(name):
    return re.search(rf"<!-- {name} -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)[1]


def test_a_tool_added_as_the_page_says_is_listed_and_answers(tmp_path):
    server = tmp_path / "server"
    shutil.copytree(ROOT / "server" / "codriver", server / "codriver", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("skills", "wrapper-config"):
        shutil.copytree(ROOT / name, tmp_path / name)
    tools = server / "codriver" / "tools"
    (tools / "count_words.py").write_text(block("tool-file"))
    imported, listed = block("tool-lines").splitlines(keepends=True)
    manifest = (tools / "manifest.py").read_text()
    for line, before in ((imported, "    edit_files,\n"), (listed, "    *edit_files.TOOLS,\n")):
        assert before in manifest
        manifest = manifest.replace(before, line + before)
    (tools / "manifest.py").write_text(manifest)
    (tmp_path / "workspace").mkdir()

    def codriver(*words):
        command = [sys.executable, "-m", "codriver", *words, "--workspace", str(tmp_path / "workspace")]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=COMMAND_S, check=False,
                              env={**environ(tmp_path), "PYTHONPATH": f"{server}{os.pathsep}{ROOT / 'relay'}",
                                   "CODRIVER_MCP_SOCKET_SERVER_PORT": "0", "CODRIVER_REPL": "none"})  # fmt: skip

    try:
        called = codriver("call", "--start", "count_words", '{"text": "how many words"}')
        assert json.loads(called.stdout)["count"] == 3, called.stderr
        assert "count_words" in codriver("tools").stdout
    finally:
        codriver("stop")
