"""Edits of two files in servers that are stopped and killed after some and during others, to see whether any is lost.

Run as a script by the Python of the system to check: `windows_edits.py FOLDER ROUNDS`. Each round is an edit after
which the server is killed, in every other round at some moment of a second edit. Then the next server starts, is
stopped, and the one after it is started. It prints what was done and found, as JSON.
"""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

from windows_client import WAIT_S, Client

from codriver.files.codriver_paths import workspace_state_directory

NAMES = ("a", "b")
MAX_S = 0.3
"""A server is killed within this time after the beginning of an edit."""


class Edited:
    """A workspace with two files that always change together."""

    def __init__(self, folder):
        self.folder = folder
        self.state = folder / ".calva" / "mcp-server"
        self.files = [folder / f"{name}.py" for name in NAMES]
        self.number = 0
        self.done = {"edits": 0, "starts": 0, "kills": 0, "stops": 0, "edits cut off": 0}
        self.differences = []
        for file, name in zip(self.files, NAMES, strict=True):
            file.write_text(self.text(name))

    def text(self, name, number=None):
        return f"def {name}():\n    return {self.number if number is None else number}\n"

    def serve(self):
        command = [sys.executable, "-X", "utf8", "-m", "codriver", "serve", "--port", "0", "--repl", "none"]
        server = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output = server.stdout.readline()
        assert b"listens on" in output, output
        self.done["starts"] += 1
        return server

    def next_edits(self):
        self.number += 1
        return [
            {"type": "replace_def", "filePath": f"{name}.py", "name": name, "code": self.text(name)} for name in NAMES
        ]

    def edit(self, client):
        answer = client.call("edit_files", edits=self.next_edits())
        assert answer["ok"], answer
        self.done["edits"] += 1

    def end(self, server, *, is_killed):
        if is_killed:
            server.kill()
        else:
            command = [sys.executable, "-X", "utf8", "-m", "codriver", "stop"]
            stopped = subprocess.run(command, cwd=self.folder, capture_output=True, timeout=WAIT_S, check=False)
            assert stopped.returncode == 0, stopped.stdout + stopped.stderr
        server.communicate(timeout=WAIT_S)
        self.done["kills" if is_killed else "stops"] += 1

    def compare(self, *numbers):
        """Record where the two files are not both as one of these edits left them."""
        now = [file.read_text() for file in self.files]
        expected = [[self.text(name, number) for name in NAMES] for number in numbers]
        if now in expected:
            self.number = numbers[expected.index(now)]
        else:
            self.differences.append([numbers, now])

    def run(self, rounds, dice):
        server = self.serve()
        for turn in range(rounds):
            with Client(self.state) as client:
                self.edit(client)
                before = self.number
                if turn % 2:
                    client.begin("tools/call", {"name": "edit_files", "arguments": {"edits": self.next_edits()}})
                    time.sleep(dice.random() * MAX_S)
                self.end(server, is_killed=True)
            server = self.serve()
            self.compare(before, self.number)
            self.done["edits cut off"] += turn % 2 and self.number == before
            self.end(server, is_killed=False)
            server = self.serve()
            self.compare(self.number)
        self.end(server, is_killed=False)


def main():
    folder, rounds = Path(sys.argv[1]), int(sys.argv[2])
    edited = Edited(folder)
    edited.run(rounds, random.Random(35))
    records = workspace_state_directory(folder) / "edits"
    left = [file.name for file in records.iterdir()] if records.exists() else []
    strange = sorted({file.name for file in folder.iterdir()} - {".calva", *(file.name for file in edited.files)})
    found = {"differences": edited.differences, "records left": left, "strange files": strange}
    sys.stdout.write(json.dumps({**edited.done, **found}) + "\n")


if __name__ == "__main__":
    main()
