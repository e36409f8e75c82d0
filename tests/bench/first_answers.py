"""Check that every kind of new project answers through every real client, with a plain entry and without `init`.

`python tests/bench/first_answers.py [KIND ...] [--client NAME]` prints a table of kinds by clients. `3` is the answer
to `1+2`, or to `(+ 1 2)` in a Lisp project. `one sentence` means that the refusal or the instructions say who can allow
the REPL. `by session 2` means that the client's first session gave its model no tool, because some clients do not wait
for servers before they start a task.
"""

import argparse
import concurrent.futures
import json
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / "support")]

from linked_tree import git  # noqa: E402
from live_server import RELAY  # noqa: E402  # of the folder just added
from real_clients import AGENTS, ClientHome, program  # noqa: E402
from scripted_model import serving_model  # noqa: E402

from codriver.setup.change_plan import apply_change, plan_entries  # noqa: E402
from codriver.setup.clients import known_clients  # noqa: E402
from codriver.setup.environment import Environment  # noqa: E402
from codriver.setup.relay_launch import Launch  # noqa: E402

CLIENTS = ("claude-code", "codex", "gemini", "opencode", "copilot")
SESSIONS = 3
PYPROJECT, APP = {"pyproject.toml": '[project]\nname = "shop"\n'}, {"app.py": "answer = 42\n"}
VENV = {".venv/bin/python": None}
NOTEBOOK = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
CLJ = {"src/a.clj": "(ns a)"}
KINDS = {
    "deps.edn": {"deps.edn": "{}", **CLJ},
    "Leiningen": {"project.clj": "(defproject a)", **CLJ},
    "nbb": {"package.json": '{"dependencies": {"nbb": "1"}}', "node_modules/.bin/nbb": None, "a.cljs": "(ns a)"},
    "Hy": {"a.hy": "(+ 1 2)"},
    "venv": {**PYPROJECT, **APP, **VENV},
    "uv": {**PYPROJECT, **APP, **VENV, "uv.lock": "version = 1\n", ".python-version": "2.7\n"},
    "poetry": {"pyproject.toml": '[tool.poetry]\nname = "shop"\n', **APP, "poetry.lock": ""},
    "conda": {"environment.yml": "name: shop\n", **APP, "env/bin/python": None, "env/conda-meta/history": ""},
    "Django": {**VENV, "manage.py": "", "shop/settings.py": "", **APP},
    "Flask": {"requirements.txt": "flask\n", **APP, "venv/bin/python": None},
    "Flask, start_repl": {"requirements.txt": "flask\n", **APP, "venv/bin/python": None},
    "notebooks": {"look.ipynb": NOTEBOOK},
    "mono repo": {**PYPROJECT, **VENV, "shop/deps.edn": "{}", "shop/src/a.clj": "(ns a)", **APP},
    "worktree": {**PYPROJECT, **APP},
}
LISPS = ("deps.edn", "Leiningen", "nbb", "Hy")
SENTENCE = "this project's REPL ("
APPLICATION = "import codriver_seam, time; codriver_seam.start_repl(); time.sleep(600)"


def make(folder: Path, files: dict[str, str | None]) -> None:
    """Write the files of a project. A file whose text is None becomes a program that leaves a mark when it runs."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\ntouch {folder.parent}/ran\n" if text is None else text)
        path.chmod(0o700)


def as_worktree(place: ClientHome) -> None:
    """Make the workspace a linked working tree of a checkout that has an environment."""
    main = place.workspace.parent / "main"
    place.workspace.rename(main)
    git("init", str(main))
    git("-C", str(main), "add", "-A")
    git("-C", str(main), "commit", "-m", "first")
    git("-C", str(main), "worktree", "add", str(place.workspace))
    make(main, VENV)


def first_answer(kind: str, client: str) -> str:
    """Summarize what the model of a client received."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        place = ClientHome(Path(folder))
        place.environment["CODRIVER_MCP_SOCKET_SERVER_PORT"] = "0"
        make(place.workspace, KINDS[kind])
        if kind == "worktree":
            as_worktree(place)
        place.trust()
        launch = Launch(Path(sys.executable), Path(RELAY), place.workspace)
        (change,) = plan_entries([known_clients()[client]], launch, Environment(place.home, "linux", place.environment))
        apply_change(change)
        running = [sys.executable, "-c", APPLICATION] if kind.endswith("start_repl") else ["sleep", "0"]
        app = subprocess.Popen(running, cwd=place.workspace, env=place.environment)
        try:
            return session_after_session(place, client, "(+ 1 2)" if kind in LISPS else "1+2")
        finally:
            app.kill()
            app.wait()
            place.run(sys.executable, "-m", "codriver", "stop")


def session_after_session(place: ClientHome, client: str, code: str) -> str:
    displayed = ""
    with serving_model({"code": code}) as model:
        (command, *words), variables = AGENTS[client](place, model.url)
        for number in range(SESSIONS):
            try:
                displayed = place.run(program(command), *words, **variables)
            except subprocess.TimeoutExpired:
                displayed = "timed out"
            if model.results:
                return judged(place, json.dumps(model.results[0])) + (f" by session {number + 1}" if number else "")
        if any(SENTENCE in requested for requested in model.heard):
            return "one sentence in the instructions"
    return f"no call: {displayed[-80:]}"


def judged(place: ClientHome, message: str) -> str:
    message = message.replace("\\", "").replace('": ', '":')
    if (place.workspace.parent / "ran").exists():
        return "RAN SOMETHING OF THE CHECKOUT"
    if '"result":"3"' in message:
        return "3"
    return "one sentence" if SENTENCE in message else message[:160]


def print_line(*words: str) -> None:
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Ask, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--client", action="append", choices=CLIENTS)
    options = parser.parse_args()
    clients = options.client or CLIENTS
    cells = [(kind, client) for kind in options.kinds for client in clients]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = {cell: pool.submit(first_answer, *cell) for cell in cells}
        print_line("| project |", " | ".join(clients), "|\n|", " | ".join(["---"] * (len(clients) + 1)), "|")
        for kind in options.kinds:
            print_line("|", kind, "|", " | ".join(found[kind, client].result() for client in clients), "|")
    good = sum(cell.result().startswith(("3", "one sentence")) for cell in found.values())
    print_line(f"{good} of {len(cells)}")


if __name__ == "__main__":
    main()
