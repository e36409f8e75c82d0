"""Two agents and a person in one kernel: nothing is lost, and everything is attributed correctly.

`CODRIVER_TESTS_SHARED_KERNEL_S` sets the duration. The default is just long enough for them to interfere.
"""

import json
import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import anyio
import pytest
import real_kernels
from live_server import Live, until, until_connected, user_settings_file

SECONDS = float(os.environ.get("CODRIVER_TESTS_SHARED_KERNEL_S", "6"))
HUMAN = "jupyter"
KERNEL = "sales-ipynb"  # named in each call, because a person started it
SEED = 20

pytestmark = pytest.mark.slow


@dataclass
class Done:
    """The expected record of one evaluation: its code, output, and value or error."""

    code: str
    out: str = ""
    value: str = ""
    error: str = ""


@dataclass
class Actor:
    """Someone who evaluates random code, each time with a unique mark."""

    name: str
    done: list[Done] = field(default_factory=list)

    def __post_init__(self):
        self._random = random.Random(f"{SEED} {self.name}")

    def next(self):
        mark = f"{self.name}-{len(self.done)}"
        kind = self._random.choice(("value", "print", "many", "error", "sleep", "define", "late print"))
        planned = {
            "value": Done(f"'{mark}'", value=f"'{mark}'"),
            "print": Done(f"print('{mark}')", out=f"{mark}\n"),
            "many": Done(
                f"for i in range(60): print('{mark}', i, flush=i % 20 == 0)\n'{mark}'",
                out="".join(f"{mark} {i}\n" for i in range(60)),
                value=f"'{mark}'",
            ),
            "error": Done(f"print('{mark}')\nraise ValueError('{mark}')", out=f"{mark}\n", error=mark),
            "sleep": Done(f"import time; time.sleep({self._random.random() / 5:.3f}); '{mark}'", value=f"'{mark}'"),
            "define": Done(f"seen_by_{self.name} = '{mark}'\nseen_by_{self.name}", value=f"'{mark}'"),
            "late print": Done(f"import sys; sys.stdout.write('{mark}'); '{mark}'", out=mark, value=f"'{mark}'"),
        }[kind]
        self.done.append(planned)
        return planned

    def pause_s(self):
        return self._random.random() / 10


def act_as_agent(live, actor, until_s):
    """Evaluate through the server and check each answer; return the failures, and what the answers said about
    others.
    """
    mismatches, others = [], set()
    with live.client(name=actor.name) as client:
        while time.monotonic() < until_s:
            expected = actor.next()
            arguments = {"code": expected.code, "who": actor.name, "replSessionKey": KERNEL, "timeoutMs": 60_000}
            answer = client.call("evaluate_code", **arguments)
            others |= set(answer.get("otherWhosSinceLast", ()))
            value = answer.get("result") if expected.value else ""
            actual = (answer.get("stdout", ""), value, answer.get("error", {}).get("message", ""))
            shortened = len(expected.out) > 1000
            if (actual[1:] != (expected.value, expected.error)) or (actual[0] != expected.out and not shortened):
                mismatches.append((expected, answer))
            time.sleep(actor.pause_s())
    return mismatches, others


async def act_as_human(kernel, actor, is_connected, seconds):
    """Evaluate like a notebook, cell by cell. Return how often a failure of others aborted a cell.

    A kernel aborts what follows a failing cell of the same client; it is run again, as a person would.
    """
    aborted_by_others, has_failed = 0, False
    async with real_kernels.human(kernel) as client:
        is_connected.set()
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            expected = actor.next()
            while (status := await run_cell(client, expected.code)) == "aborted":
                aborted_by_others += not has_failed
            has_failed = status == "error"
            await anyio.sleep(actor.pause_s())
    return aborted_by_others


async def run_cell(client, code):
    """Return the status of the kernel's reply."""
    request_id = client.execute(code, allow_stdin=False)
    while True:
        reply = await client.get_shell_msg(timeout=60)
        if reply["parent_header"].get("msg_id") == request_id:
            return reply["content"]["status"]


def rows_of_log(client):
    """Return every entity that belongs to an evaluation, ten lines at a time, because answers are limited."""
    query = "[:find ?line ?id ?who ?category ?text :in $ ?from ?to :where [?e :output/line ?line] [(<= ?from ?line)] \
             [(< ?line ?to)] [?e :output/evaluation ?id] [?e :output/who ?who] [?e :output/category ?category] \
             [?e :output/text ?text]]"
    last = client.call("server_health")["log"]["lastLine"]
    for start in range(1, last + 1, 10):
        answer = client.call("repl_output_log", query=query, inputs=[start, start + 10], limit=10_000)
        assert not answer.get("cut"), answer["cut"]
        yield from answer["result"]


def evaluations_in_log(client):
    """Return by evaluation its caller, code, output and value, all from the log."""
    evaluations = {}
    for _, name, who, category, text in rows_of_log(client):
        evaluation = evaluations.setdefault(name, {"who": who})
        assert evaluation["who"] == who, f"{name} is of {evaluation['who']} and of {who}"
        evaluation[category] = evaluation.get(category, "") + text
    return evaluations


def is_in_log(expected, recorded):
    return (
        recorded.get("evaluatedCode") == expected.code
        and recorded.get("evaluationOutput", "") == expected.out
        and recorded.get("evaluationResults", "") == expected.value
        and expected.error in recorded.get("evaluationErrorOutput", "")
    )


class LiveWithNotebook(Live):
    """A server in whose workspace a person has a notebook open, according to Jupyter's file."""

    def __init__(self, directory, kernel):
        runtime = directory / "runtime"
        runtime.mkdir(mode=0o700)
        self.notebook = directory / "workspace" / "sales.ipynb"
        connection = {**json.loads(kernel.file.read_text()), "jupyter_session": str(self.notebook)}
        file = runtime / "kernel-5f0c.json"
        file.touch(mode=0o600)
        file.write_text(json.dumps(connection))
        self.runtime = runtime
        super().__init__(directory, "--repl", "none")

    def start(self, *arguments):
        self.environ["JUPYTER_RUNTIME_DIR"] = str(self.runtime)
        return super().start(*arguments)


def test_output_is_attributed_if_two_agents_and_a_person_share_a_kernel(tmp_path):
    user_settings_file(tmp_path).write_text("logMaxEntities = 1000000\nlogMaxBytes = 268435456\n")
    with real_kernels.fresh("ipykernel") as kernel:
        live = LiveWithNotebook(tmp_path, kernel)
        try:
            with live.client() as client:
                until_connected(client)
                actors = {name: Actor(name) for name in ("ann", "bob", HUMAN)}
                is_connected = threading.Event()
                with ThreadPoolExecutor(3) as pool:
                    human = pool.submit(anyio.run, act_as_human, kernel, actors[HUMAN], is_connected, SECONDS)
                    is_connected.wait(60)
                    until_s = time.monotonic() + SECONDS
                    agents = [pool.submit(act_as_agent, live, actors[name], until_s) for name in ("ann", "bob")]
                    answers = [agent.result() for agent in agents]
                    aborted = human.result()
                assert [wrong for wrong, _ in answers] == [[], []]
                assert all(HUMAN in others for _, others in answers)
                until(lambda: not client.call("list_sessions")["sessions"][0].get("running"), "the end of all")
                evaluations = evaluations_in_log(client)
                by_notebook = "[:find (count ?e) . :where [?e :output/notebook ?path]]"
                cells_by_human = client.call("repl_output_log", query=by_notebook)["result"]
        finally:
            live.stop()
    for name, actor in actors.items():
        recorded = {
            evaluation["evaluatedCode"]: evaluation for evaluation in evaluations.values() if evaluation["who"] == name
        }
        missing = [
            (expected, recorded.get(expected.code))
            for expected in actor.done
            if not is_in_log(expected, recorded.get(expected.code, {}))
        ]
        assert missing == [], f"of {name}: {len(missing)} of {len(actor.done)} are not in the log as they were"
        assert len(recorded) == len(actor.done)
    assert aborted == 0, "a failure of an agent aborted what the human had sent"
    assert cells_by_human == len(actors[HUMAN].done)
