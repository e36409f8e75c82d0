"""The entries and hooks that `init` writes for all clients: their files, and whether their commands work there.

Run as a script by the Python of the system to check: `windows_clients.py FOLDER HOME`. It prints as JSON the file of
each client's entry, and what each command line of entries and hooks answers: entries run as clients start them,
hooks through the shell.
"""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from codriver.commands.cli import cli
from codriver.setup.client_entries import command_line
from codriver.setup.client_hooks import known_hooks
from codriver.setup.clients import known_clients
from codriver.setup.environment import Environment

ABOUT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
HANDSHAKE = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": ABOUT}) + "\n"
START_HOOK = re.compile(r'"((?:[^"\\]|\\.)*codriver_hook(?:[^"\\]|\\.)* (?:[\w-]+ )?started)"')
"""Matches the command of a hook for the start of a session in the text of a file."""
WAIT_S = 120


def entries(folder, environment):
    """Return the file of each client's entry in each scope, and its command."""
    for client in known_clients().values():
        for scope in client.scopes:
            file = client.file(scope, folder, environment)
            if not file.is_file():
                continue
            node = tomllib.loads(file.read_text("utf-8")) if client.is_toml else json.loads(file.read_text("utf-8"))
            for key in client.entry_path():
                node = node.get(key, {})
            for name, entry in node.items():
                if name.startswith("codriver"):
                    yield client.id, scope, file, command_line(entry)


def hooks(folder):
    """Return the command lines of hooks for the start of a session."""
    for files in known_hooks().values():
        for item in files:
            file = folder / item.path
            if file.suffix == ".json" and file.is_file():
                yield from (json.loads(f'"{line}"') for line in START_HOOK.findall(file.read_text("utf-8")))


def output_of(command, given, *, shell=False):
    done = subprocess.run(
        command, input=given, capture_output=True, encoding="utf-8", shell=shell, timeout=WAIT_S, check=False
    )
    return [done.returncode, done.stdout, done.stderr]


def main():
    folder, home = Path(sys.argv[1]), Path(sys.argv[2])
    roaming, local = home / "AppData" / "Roaming", home / "AppData" / "Local"
    os.environ |= {"USERPROFILE": str(home), "APPDATA": str(roaming), "LOCALAPPDATA": str(local)}
    os.environ["CODRIVER_HOOK_DEADLINE_S"] = str(WAIT_S)
    with contextlib.redirect_stdout(io.StringIO()):
        for options in (("--scope", "user"), ("--scope", "workspace", "--hooks")):
            command = ["init", "-w", str(folder), "--client", "all", "--force", *options]
            with contextlib.suppress(SystemExit):  # not every client has an entry in either scope
                cli.main(command, prog_name="codriver", standalone_mode=False)
    found, lines = {}, {}
    for client, scope, file, words in entries(folder, Environment(home, "windows", dict(os.environ))):
        found.setdefault(client, {})[scope] = str(file)
        lines[tuple(word.replace("${workspaceFolder}", str(folder)) for word in words)] = None  # as its client does
    answers = [[subprocess.list2cmdline(words), *output_of(words, HANDSHAKE)] for words in lines]
    event = json.dumps({"hook_event_name": "SessionStart", "source": "startup", "cwd": str(folder)})
    reported = [[line, *output_of(line, event, shell=True)] for line in dict.fromkeys(hooks(folder))]
    sys.stdout.write(json.dumps({"files": found, "entries": answers, "hooks": reported}) + "\n")


if __name__ == "__main__":
    main()
