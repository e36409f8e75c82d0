"""A real server killed at random moments: during batches of edits, and with ten active clients."""

import contextlib
import json
import os
import random
import threading
from collections import Counter

import posix_only
import pytest
from alike import rounds
from live_server import Live, serving

KILLS = int(os.environ.get("CODRIVER_TEST_KILLS", rounds(9, 4)))
"""How often a server is killed; some hundred are for a long look."""
NAMES = ("a.clj", "deep/c.clj", "notes.md", *(f"{number}.clj" for number in range(37)))
PADDING = "; padding\n" * 2_000
IN_ONE_BATCH = 60
TRIES = 10
"""A machine that is busy may let a batch end before the kill comes."""
CLIENTS = 10


def killed_in(live, seconds, within=None):
    """Kill the server after a delay, whatever it is doing, or from then on as soon as the file `within` changes."""

    def kill():
        before = within and within.stat().st_ino
        while within and live.process.poll() is None and within.stat().st_ino == before:
            pass
        live.process.kill()

    timer = threading.Timer(seconds, kill)
    timer.start()
    return timer


# Batches


def numbers_in(workspace):
    """Return the number in each file of the batches, and whether each is complete."""
    texts = [(workspace / name).read_text() for name in NAMES]
    assert {len(text) - len(text.partition("\n")[0]) for text in texts} == {len(PADDING) + 1}
    return [int(text.partition("\n")[0].removeprefix("number ")) for text in texts]


def edit_until_killed(live, number, *when):
    """Apply batches of all files, one after the other, until it is `killed_in`; return the last acknowledged number.

    The delay starts only after the first batch, so that one is complete on any machine.
    """
    timer = killed_in(live, *when) if number else None
    with contextlib.suppress(OSError, ValueError), live.client() as client:
        while True:
            edits = [
                {"filePath": name, "oldText": f"number {number}\n", "newText": f"number {number + 1}\n"}
                for name in NAMES
            ]
            assert client.call("edit_files", edits=edits)["ok"]
            number += 1
            timer = timer or killed_in(live, *when)
    timer.join()
    return number


def test_killing_the_server_at_any_moment_leaves_no_batch_half_applied(tmp_path):
    dice, number, edits = random.Random(31), 0, 0
    (tmp_path / "workspace" / "deep").mkdir(parents=True)
    for name in NAMES:
        (tmp_path / "workspace" / name).write_text(f"number 0\n{PADDING}")
    for kill in range(KILLS):
        live = Live(tmp_path, "--repl", "none")
        within = live.workspace / NAMES[0] if kill % 2 else None
        before = number
        with live.client() as client:  # what was cut off is taken back before the first edit at the latest
            client.call("list_sessions")
        answered = edit_until_killed(live, number, dice.uniform(0.05, 0.6), within)
        live.stop(posix_only.KILL)
        with serving(tmp_path, "--repl", "none") as again, again.client() as client:
            client.call("list_sessions")
            numbers = numbers_in(again.workspace)
        assert len(set(numbers)) == 1, numbers
        number = numbers[0]
        # The one that was under way is whole or not at all; one that was answered is never taken back.
        assert number in (answered, answered + 1)
        edits += number - before
    assert list((tmp_path / "workspace").rglob("*.tmp")) == []
    assert edits


def kill_within_a_batch(live, file):
    """Kill the server as soon as one file has changed, before those after it."""
    before = file.stat().st_ino

    def watch():
        while live.process.poll() is None and file.stat().st_ino == before:
            pass
        live.process.kill()

    watching = threading.Thread(target=watch)
    watching.start()
    return watching


def test_the_next_server_rolls_back_a_batch_interrupted_by_a_kill(tmp_path):
    files = [tmp_path / "workspace" / f"{number:02}.md" for number in range(IN_ONE_BATCH)]
    files[0].parent.mkdir()
    texts = ["number 0\n", "number 1\n"]
    for _ in range(TRIES):
        for file in files:
            file.write_text(texts[0])
        live = Live(tmp_path, "--repl", "none")
        with live.client() as client:
            edits = [{"filePath": file.name, "oldText": texts[0], "newText": texts[1]} for file in files]
            watching = kill_within_a_batch(live, files[0])
            with contextlib.suppress(OSError, ValueError):
                client.call("edit_files", edits=edits)
            watching.join()
        live.stop(posix_only.KILL)
        if {file.read_text() for file in files} == set(texts):
            break
    else:
        pytest.fail("no kill came in the middle of a batch")
    with serving(tmp_path, "--repl", "none") as again, again.client() as client:
        client.call("list_sessions")
        assert {file.read_text() for file in files} == {texts[0]}
    assert list(files[0].parent.rglob("*.tmp")) == []


# Clients

HISTORY = """[:find (count ?e) (count-distinct ?code) (count-distinct ?line) :in $ $history
              :where [$history ?e :output/text ?code] [(clojure.string/includes? ?code "counted")]
                     [$history ?e :output/line ?line]]"""


class Working(threading.Thread):
    """A client behind a relay that evaluates without a pause: each code adds a line of its own to a file."""

    def __init__(self, live, name, counted, is_over):
        super().__init__()
        self.client = live.relay(name=name)
        self.name, self.counted, self.is_over = name, counted, is_over
        self.outcomes, self.identities = {}, set()

    def run(self):
        number = 0
        while not self.is_over.is_set():
            mark = f"{self.name}-{number}"
            code = f"with open({str(self.counted)!r}, 'a') as file: file.write('{mark}\\n')"
            identity = self.client.begin_call("evaluate_code", code=code, timeoutMs=60_000)
            self.identities.add(identity)
            self.outcomes[mark] = outcome(self.client.answer(identity))
            number += 1

    def answered_again(self):
        """Return repeated answers to calls that were already answered."""
        return [
            notification
            for notification in self.client.notifications
            if "method" not in notification and notification.get("id") in self.identities
        ]


def outcome(message):
    """Return how a call ended: `done`, `lost` (at most one may have run), or the reason of a refusal."""
    if "error" in message:
        return "lost" if "may have run" in message["error"]["message"] else message["error"]["message"]
    fields = json.loads(message["result"]["content"][0]["text"])
    if fields["ok"]:
        return fields["status"]
    return "lost" if "may have run" in json.dumps(fields) else fields.get("reason") or json.dumps(fields)


@pytest.mark.parametrize("seed", [1])
def test_killing_the_server_under_ten_clients_neither_duplicates_nor_loses_a_call(tmp_path, seed):
    dice, counted, is_over = random.Random(seed), tmp_path / "counted", threading.Event()
    counted.touch()
    live = Live(tmp_path, "--repl", "python")
    working = [Working(live, f"client{number}", counted, is_over) for number in range(CLIENTS)]
    try:
        for element in working:
            element.start()
        for _ in range(KILLS):
            killed_in(live, dice.uniform(0.2, 1.5)).join()
            live.stop(posix_only.KILL)
            live = Live(tmp_path, "--repl", "python")
        with live.client() as client:
            assert client.call("evaluate_code", code="1", timeoutMs=60_000)["status"] == "done"
    finally:
        is_over.set()
        for single in working:
            single.join(120)
    assert not any(item.is_alive() for item in working), "a call was never answered"
    with live.client() as client:
        [[entries, codes, lines]] = client.call("repl_output_log", query=HISTORY)["result"]
    live.stop()
    for item in working:
        assert item.answered_again() == []
        item.client.close()
    outcomes = {mark: how for item in working for mark, how in item.outcomes.items()}
    ran = Counter(counted.read_text().split())
    how_often = Counter(outcomes.values())
    assert set(ran.values()) == {1}, "something ran twice"
    assert [mark for mark, how in outcomes.items() if how == "done" and not ran[mark]] == []
    assert [mark for mark, how in outcomes.items() if how not in ("done", "lost") and ran[mark]] == [], how_often
    # The history is whole: of what runs that were killed had written no line came twice, and no code.
    assert entries == codes == lines > 0
    assert not list(tmp_path.rglob("*.unreadable-*"))
