"""The hooks as the doctor sees them: each one installed is run with a recorded input, and its time and answer told.

Only what we would install is run: of a file in the workspace that says anything else nothing is.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from typing import TYPE_CHECKING, Any, Final

from codriver.errors import CodriverError
from codriver.setup.clients import entry_name, known_clients, shipped_text
from codriver.setup.doctor_report import Check
from codriver.setup.hooks import FOLDER, PROGRAM, known_hooks, plan_hooks
from codriver_relay.hook import CLIENTS
from codriver_relay.starter import server_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from codriver.setup.change_plan import Change
    from codriver.setup.clients import Client, Environment, Launch
    from codriver.setup.hooks import HookFile

    Ask = Callable[[str, dict[str, Any]], dict[str, Any]]

RUN_S: Final = 40.0
SHOWN_CHARACTERS: Final = 60
PLACEHOLDER: Final = re.compile(r"\$\{([a-z_.A-Z]+)\}")


def check_hooks(launch: Launch, environment: Environment, ask: Ask) -> Iterator[Check]:
    """Checks of the hooks that are installed in the workspace; none of clients without any."""
    recorded = json.loads(shipped_text(f"{FOLDER}/recorded.json"))
    for client_id, files in known_hooks().items():
        client = known_clients()[client_id]
        changes = plan_hooks([client], launch, environment, force=True)
        if any(change.state in ("same", "replace") for change in changes):
            yield _check(client, files, changes, _Runner(launch, environment, ask, recorded[client_id]))


def _check(client: Client, files: Sequence[HookFile], changes: Sequence[Change], runner: _Runner) -> Check:
    places = ", ".join(str(change.file) for change in changes)
    if any(change.state != "same" for change in changes):
        text = f"{client.title}: {places}: other hooks of codriver than this one installs, so they were not tried"
        return Check("hooks", "note", text, f"codriver init --hooks --client {client.id}")
    told = [runner.run(client, files[0], event) for event in CLIENTS[client.id]]
    text = f"{client.title}: {places}: {', '.join(words for words, _ in told)}"
    if all(is_good for _, is_good in told):
        return Check("hooks", "ok", text)
    return Check("hooks", "wrong", text, f"codriver init --hooks --client {client.id}, or --remove --hooks")


class _Runner:
    """Runs the hooks of one client, each with the input that was recorded for its event."""

    def __init__(
        self, launch: Launch, environment: Environment, ask: Ask, recorded: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._launch = launch
        self._environment = environment
        self._ask = ask
        self._recorded = recorded

    def run(self, client: Client, file: HookFile, event: str) -> tuple[str, bool]:
        """The event with the time and the answer, and whether it is one."""
        started = time.monotonic()
        call = _calls(client, file, self._launch).get(event)
        answer = self._by_program(client, file, event) if call is None else self._by_tool(call, event)
        took_ms = round((time.monotonic() - started) * 1000)
        shown = answer if len(answer) <= SHOWN_CHARACTERS else f"{answer[: SHOWN_CHARACTERS - 1]}…"
        return f"{event} {took_ms} ms {shown}", answer.startswith(("{", "no server"))

    def _by_program(self, client: Client, file: HookFile, event: str) -> str:
        words = list(file.words(self._launch, self._environment))
        words[0] = self._environment.which(words[0]) or words[0]
        try:
            done = subprocess.run(  # noqa: S603  # our own program, by the command line that we install
                [*words, client.id, event],
                input=json.dumps(self._recorded[event]).encode(),
                cwd=self._launch.workspace,
                # Found by its name, it is a program of Python as any, and would take modules from there.
                env=server_environment(str(self._launch.workspace), self._environment.variables),
                capture_output=True,
                timeout=RUN_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"failed: {error}"
        said = done.stdout.decode("utf-8", "replace").strip()
        return said if done.returncode == 0 else f"ended with status {done.returncode}"

    def _by_tool(self, call: Mapping[str, Any], event: str) -> str:
        given = {key: self._filled(value, event) for key, value in call.items()}
        try:
            answer = self._ask("note_edit", given)
        except (CodriverError, OSError, ValueError) as error:
            return "no server" if isinstance(error, CodriverError) else f"failed: {error}"
        return json.dumps(answer, ensure_ascii=False)

    def _filled(self, value: Any, event: str) -> Any:
        """A value with what the recorded input has in the place of the client's placeholders."""

        def found(placeholder: re.Match[str]) -> str:
            node: Any = self._recorded[event]
            for key in placeholder[1].split("."):
                node = node.get(key) if isinstance(node, dict) else None
            return placeholder[0] if node is None else str(node)

        return PLACEHOLDER.sub(found, value) if isinstance(value, str) else value


def _calls(client: Client, file: HookFile, launch: Launch) -> Mapping[str, Mapping[str, Any]]:
    """The arguments with which hooks of a file call the tool, by event; nothing of those that run the program."""
    if not file.template.endswith(".json"):
        return {}
    server = entry_name(client.scopes[0], launch.workspace)
    hooks = json.loads(file.text((PROGRAM,), server, is_windows=False))["hooks"]
    named = {own: event for event, own in CLIENTS[client.id].items()}
    return {
        named[own]: hook["input"]
        for own, groups in hooks.items()
        for group in groups
        for hook in group.get("hooks", ())
        if "tool" in hook
    }
