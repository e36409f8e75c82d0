"""Evaluated code survives the end of a server, however it ends."""

import errno
import io
import itertools
import os
import sys
import threading
import tracemalloc
from json.encoder import encode_basestring

import anyio
import posix_only
import pytest
from transit.reader import Reader
from transit.transit_types import Keyword

from codriver.log import durable_files, history_file
from codriver.log import history as module
from codriver.log.entry_sizes import entry_bytes
from codriver.log.history import History, UnreadableError, forget_history, read_history
from codriver.log.line_numbers import RESERVED_LINES, SKIPPED_LINES
from codriver.log.log_entries import UNASSIGNED_LINE, Entry
from codriver.log.output_log import OutputLog
from codriver.log.transit_format import HEADER, EntryDecoder, encode_entry, encode_file

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "eval-history.transit.json"


def code(line, text="(+ 1 2)"):
    return Entry(line, "evaluatedCode", text, 1_700_000_000_000 + line, who="ann", evaluation=f"e{line}")


def started(path, **options):
    history = History(path, **options)
    return history, history.load()


def ended(path, *entries):
    history, _ = started(path)
    for entry in entries:
        history.add(entry)
    history.close()


def stored(path):
    return tuple(EntryDecoder([path.read_bytes()]).decode_entries())


def test_line_numbers_start_at_one_without_a_history(path):
    _, loaded = started(path)
    assert (loaded.entities, loaded.next_line, loaded.report) == ((), 1, None)


def test_entries_are_restored_in_order(path):
    entries = [code(2, '(println "ü")\n'), code(5, "^weird ~text `"), code(9)]
    ended(path, *entries)
    _, loaded = started(path)
    assert (loaded.entities, loaded.next_line, loaded.report) == (tuple(entries), 10, None)


def test_the_file_is_transit_in_the_documented_format(path):
    ended(path, code(3))
    header, entity = [Reader("json").read(io.StringIO(line)) for line in path.read_text().splitlines()]
    assert dict(header) == {Keyword("format-version"): 2}
    assert dict(entity) == {
        Keyword("output/line"): 3,
        Keyword("output/category"): "evaluatedCode",
        Keyword("output/text"): "(+ 1 2)",
        Keyword("output/timestamp"): 1_700_000_000_003,
        Keyword("output/who"): "ann",
        Keyword("output/evaluation"): "e3",
    }


def test_only_evaluated_code_is_stored(path):
    ended(path, Entry(1, "evaluationOutput", "out", 0), code(2), Entry(3, "otherOutput", "more", 0))
    assert [entry.line for entry in started(path)[1].entities] == [2]


def test_the_oldest_entries_are_evicted(path):
    history, _ = started(path, max_entities=3)
    for line in range(1, 6):
        history.add(code(line))
    history.close()
    assert [entry.line for entry in started(path, max_entities=3)[1].entities] == [3, 4, 5]
    assert [entry.line for entry in started(path, max_entities=2)[1].entities] == [4, 5]


def test_a_lone_surrogate_is_stored_as_a_replacement_character(path):
    ended(path, code(1, "a\ud83d"))
    assert started(path)[1].entities[0].text == "a\ufffd"


def test_files_are_private(path):
    history, _ = started(path)
    history.add(code(1))
    history.flush()
    assert all(posix_only.has_mode(file, 0o600) for file in path.parent.iterdir())


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_line_numbers_are_never_reused(path, how):
    history, loaded = started(path)
    history.add(code(loaded.next_line))
    history.record_used_line(500)  # lines of output, which are not stored in the history
    if how == "closed":
        history.close()
    assert started(path)[1].next_line == (501 if how == "closed" else 1 + RESERVED_LINES)


def test_more_line_numbers_are_reserved_when_the_reserved_ones_are_used(path):
    history, _ = started(path)
    history.record_used_line(RESERVED_LINES)
    history.flush()
    assert started(path)[1].next_line == 2 * RESERVED_LINES + 1


def test_no_line_number_is_reused_even_if_the_log_is_faster_than_the_disk(path):
    history, _ = started(path)
    for line in range(1, 10 * RESERVED_LINES):
        history.record_used_line(line)
    assert 10 * RESERVED_LINES <= started(path)[1].next_line <= 30 * RESERVED_LINES


def test_a_crash_skips_few_line_numbers(path):
    history, _ = started(path)
    history.record_used_line(196)
    history.flush()
    assert 196 < started(path)[1].next_line < 196 + 2500


def test_line_numbers_skip_ahead_if_the_counter_is_broken_and_this_is_reported(path):
    ended(path, code(7))
    path.with_name(f"{path.name}.lines").write_text("garb")
    _, loaded = started(path)
    assert loaded.next_line == 7 + SKIPPED_LINES + 1
    assert "no line number" in loaded.report


def test_line_numbers_continue_after_the_history_if_the_counter_is_lost(path):
    ended(path, code(7))
    path.with_name(f"{path.name}.lines").unlink()
    assert started(path)[1].next_line == 8


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '["^ "]', '["^ ","~:format-version",1]', '["^ ","~:format-version",1,"~:entities",[5]]'],
)
def test_an_unreadable_file_is_set_aside_under_a_dated_name(path, content):
    path.parent.mkdir()
    path.write_text(content)
    history, loaded = started(path)
    (aside,) = path.parent.glob("*.unreadable-*")
    assert aside.read_text() == content
    assert str(aside) in loaded.report
    history.add(code(1))
    history.close()
    assert [entry.line for entry in started(path)[1].entities] == [1]


def test_a_truncated_file_keeps_its_whole_lines_and_is_continued(path):
    entries = [code(1, "1"), code(2, "ü")]
    whole = b"".join(encode_file(entries))
    path.parent.mkdir()
    for length in (
        len(HEADER) - 1,
        len(HEADER),
        *range(len(whole) - len(encode_entry(entries[1])) - 1, len(whole) + 1),
    ):
        path.write_bytes(whole[:length])
        history, loaded = started(path)
        retained = entries[: max(0, whole[:length].count(b"\n") - 1)]
        assert (list(loaded.entities), loaded.report) == (retained, None)
        history.add(code(4))
        history.close()
        assert started(path)[1].entities == (*retained, code(4))
        assert started(path)[1].report is None


def test_a_truncated_header_is_unreadable(path):
    path.parent.mkdir()
    for length in range(HEADER.index(b"]")):
        path.write_bytes(HEADER[:length])
        assert "could not be read" in started(path)[1].report


def test_a_file_in_a_newer_format_is_not_changed_and_the_history_stays_in_memory(path):
    path.parent.mkdir()
    content = '["^ ","~:format-version",3]\n{"some":"thing"}\n'
    path.write_text(content)
    history, loaded = started(path)
    assert "format version 3" in loaded.report
    assert "only in memory" in loaded.report
    history.add(code(loaded.next_line))
    history.flush()
    history.close()
    assert len(history.snapshot()) == 1
    assert path.read_text() == content
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name, f"{path.name}.lines"]


def test_without_a_directory_the_history_stays_in_memory(tmp_path):
    (tmp_path / "state").write_text("a file in the way")
    history, loaded = started(tmp_path / "state" / "h.json")
    assert "only in memory" in loaded.report
    history.add(code(1))
    history.flush()
    history.close()
    assert len(history.snapshot()) == 1


def test_an_entry_is_appended_without_rewriting_the_file(path):
    history, _ = started(path)
    history.add(code(1))
    history.flush()
    before, inode = path.read_bytes(), path.stat().st_ino
    history.add(code(2, "ü"))
    history.flush()
    assert path.read_bytes() == before + encode_entry(code(2, "ü"))
    assert path.stat().st_ino == inode
    assert history.usage()["diskBytes"] == path.stat().st_size


def test_a_file_twice_as_long_as_necessary_is_rewritten(path, monkeypatch):
    monkeypatch.setattr(module, "COMPACTION_SLACK_BYTES", 0)
    history, _ = started(path, max_entities=10)
    lengths = []
    for line in range(1, 100):
        history.add(code(line, "x" * 1000))
        history.flush()
        lengths.append(path.stat().st_size)
    assert max(lengths) <= 2 * 10 * (1000 + 2 * module.MAX_LINE_OVERHEAD_BYTES)
    anew = sum(later < previous for previous, later in itertools.pairwise(lengths))
    assert 99 // 15 <= anew <= 99 // 8
    assert [entry.line for entry in started(path, max_entities=10)[1].entities] == list(range(90, 100))


def test_entries_written_during_a_compaction_are_kept_once(path, monkeypatch):
    monkeypatch.setattr(module, "COMPACTION_SLACK_BYTES", 0)
    history, _ = started(path, max_entities=10)
    lines, sync = itertools.count(1), os.fsync
    lengths = []

    def add():
        history.add(code(next(lines), "x" * 1000))
        history._write()

    def sync_slowly(descriptor):
        add()  # as the thread that writes does while this one waits for the disk
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", sync_slowly)
    for _ in range(40):
        add()
        history.flush()
        lengths.append(path.stat().st_size)
        retained = [entry.line for entry in stored(path)]
        newest = [record[0] for record in history.snapshot().records]
        assert retained[-10:] == newest[-10:]
        assert len(set(retained)) == len(retained)
    assert sum(later < previous for previous, later in itertools.pairwise(lengths)) >= 3
    assert history.usage()["diskBytes"] == path.stat().st_size


async def test_an_entry_is_reported_as_recorded_only_after_it_is_written(path):
    history, _ = started(path)
    path.mkdir()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(history.run)
        await anyio.wait_all_tasks_blocked()
        history.add(code(1))
        assert not await history.await_recorded(["e1"])
        path.rmdir()
        with anyio.fail_after(60):
            while not history.is_recorded(["e1"]):
                await anyio.sleep(0.01)
        assert stored(path) == (code(1),)
        history.add(code(2))
        assert await history.await_recorded(["e2"])
        assert stored(path) == (code(1), code(2))
        tasks.cancel_scope.cancel()


def test_a_history_in_memory_reports_no_new_entry_as_recorded(path):
    path.parent.mkdir()
    path.write_bytes(HEADER.replace(b"2", b"9"))
    history, _ = started(path)
    history.add(code(1))
    assert not history.is_recorded(["e1"])
    assert history.is_recorded(["e2"])


def test_an_entry_evicted_before_it_was_written_was_never_recorded(path):
    history, _ = started(path, max_entities=2)
    history.flush()
    path.mkdir()
    for line in (1, 2, 3):
        history.add(code(line))
    path.rmdir()
    history.flush()
    assert [history.is_recorded([name]) for name in ("e1", "e2", "e3")] == [False, True, True]


def test_only_a_much_too_long_file_is_rewritten_at_the_start(path):
    path.parent.mkdir()
    path.write_bytes(b"".join(encode_file([code(line, "x" * 10_000) for line in range(1, 101)])))
    inode = path.stat().st_ino
    started(path)
    assert path.stat().st_ino == inode
    started(path, max_entities=10)
    assert [entry.line for entry in stored(path)] == list(range(91, 101))


def test_a_broken_line_affects_no_other_line_and_the_file_is_set_aside(path):
    path.parent.mkdir()
    path.write_bytes(HEADER + encode_entry(code(1)) + b"garbage\n" + encode_entry(code(3)))
    _, loaded = started(path)
    assert loaded.entities == (code(1), code(3))
    assert "1 line of" in loaded.report
    (aside,) = path.parent.glob("*.unreadable-*")
    assert b"garbage" in aside.read_bytes()
    assert stored(path) == (code(1), code(3))


def test_the_later_of_two_entries_with_the_same_line_number_is_used(path):
    path.parent.mkdir()
    path.write_bytes(b"".join(encode_file([code(1), code(2), code(2, "later")])))
    assert started(path)[1].entities == (code(1), code(2, "later"))


def test_an_entry_appended_after_a_partial_line_is_read_back(path):
    history, _ = started(path)
    history.add(code(1))
    history.flush()
    with path.open("ab") as torn:
        torn.write(b'["^ ","~:output/li')
    history.add(code(2))
    history.flush()
    assert started(path)[1].entities == (code(1), code(2))


def test_a_partial_write_is_rolled_back(path, monkeypatch):
    history, _ = started(path)
    history.add(code(1))
    history.flush()
    whole = path.read_bytes()

    def torn(descriptor, content):
        os.write(descriptor, content[:7])
        raise OSError(errno.ENOSPC, "No space left on device")

    history.add(code(2))
    with monkeypatch.context() as patch:
        patch.setattr(history_file, "_write", torn)
        with pytest.raises(OSError, match="No space"):
            history.flush()
    assert path.read_bytes() == whole
    history.flush()
    assert stored(path) == (code(1), code(2))


def test_entries_that_cannot_be_written_are_written_later(path):
    history, _ = started(path)
    path.mkdir()
    history.add(code(1))
    with pytest.raises(OSError, match="folder"):
        history.flush()
    path.rmdir()
    history.flush()
    assert stored(path) == (code(1),)


def test_closing_twice_is_harmless_and_nothing_is_written_afterwards(path):
    history, _ = started(path)
    history.add(code(1))
    history.close()
    history.add(code(2))
    history.flush()
    history.close()
    assert [entry.line for entry in started(path)[1].entities] == [1]


def test_two_workspaces_share_no_file(tmp_path):
    for name in "ab":
        ended(tmp_path / name / "h.json", code(1, name))
    assert [started(tmp_path / name / "h.json")[1].entities[0].text for name in "ab"] == ["a", "b"]


async def test_the_writing_loop_saves_added_entries(path):
    history, _ = started(path)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(history.run)
        history.add(code(1))
        with anyio.fail_after(60):
            while not path.exists():
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert stored(path) == (code(1),)


async def test_the_idle_writing_loop_is_woken_by_an_entry_from_another_thread(path, monkeypatch):
    monkeypatch.setattr(module, "SYNC_INTERVAL_S", 0.001)
    history, _ = started(path)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(history.run)
        for line in (1, 2):
            await anyio.wait_all_tasks_blocked()
            await anyio.to_thread.run_sync(history.add, code(line))
            with anyio.fail_after(60):
                while not path.exists() or len(stored(path)) < line:
                    await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert stored(path) == (code(1), code(2))


async def test_the_writing_loop_survives_a_disk_failure_and_reports_its_start_and_end_once(path, caplog, monkeypatch):
    monkeypatch.setattr(module, "SYNC_INTERVAL_S", 0.01)
    received = []
    history, _ = started(path)
    path.mkdir()
    history.add(code(1))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(history.run, received.append)
        with anyio.fail_after(60):
            while not received:
                await anyio.sleep(0.01)
            await anyio.sleep(0.1)  # for a few more attempts
            path.rmdir()
            while len(received) < 2:
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    words, over = received
    assert words.startswith(f"the history cannot be written to {path} (")
    assert "lost if the server ends" in words
    assert over is None
    assert stored(path) == (code(1),)
    assert caplog.text.count("cannot be written") == 1


def test_a_file_that_cannot_be_rewritten_is_appended_to_without_duplicates(path, monkeypatch):
    monkeypatch.setattr(module, "COMPACTION_SLACK_BYTES", 0)
    history, _ = started(path, max_entities=2)
    history.add(code(1))
    history.flush()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(durable_files, "replace", full)
    for line in range(2, 22):
        history.add(code(line, "x" * 2000))
        history.flush()
    assert [entry.line for entry in stored(path)] == list(range(1, 22))
    monkeypatch.undo()
    assert [entry.line for entry in started(path)[1].entities] == list(range(1, 22))


def test_a_query_sees_earlier_runs_as_history(path):
    ended(path, code(1, "(def a 1)"), code(4, "(def b 2)"))
    history, loaded = started(path)
    log = OutputLog(next_line=loaded.next_line, listener=lambda report: history.add(report.added[0]))
    log.append(Entry(UNASSIGNED_LINE, "evaluatedCode", "(def c 3)", 0))
    query = "[:find [?t ...] :in $ $history :where [$history ?e :output/text ?t]]"
    assert log.query(query, history=history).result == ["(def a 1)", "(def b 2)", "(def c 3)"]
    assert log.query("[:find [?l ...] :where [_ :output/line ?l]]", history=history).result == [5]


def test_a_leftover_of_a_crash_is_removed(path):
    ended(path, code(1))
    leftover = path.with_name(f".{path.name}.0123456789ab.tmp")
    leftover.write_text("half")
    started(path)
    assert not leftover.exists()


@pytest.mark.parametrize("foreign", [b"{}", HEADER.replace(b"2", b"9"), b""])
def test_a_file_that_is_replaced_before_it_is_read_is_set_aside(path, foreign):
    ended(path, code(1))
    history = History(path)
    history.start()
    path.write_bytes(foreign)
    history.add(code(2))
    assert "could not be read" in history.read()
    (aside,) = path.parent.glob("*.unreadable-*")
    assert aside.read_bytes() == foreign
    history.close()
    assert started(path)[1].entities == (code(2),)


def test_a_file_that_is_removed_before_it_is_read_is_created_again(path):
    ended(path, code(1))
    history = History(path)
    history.start()
    path.unlink()
    history.add(code(2))
    history.read()
    history.close()
    assert started(path)[1].entities == (code(2),)


def test_a_damaged_file_that_cannot_be_rewritten_is_written_with_the_next_entry(path, monkeypatch, caplog):
    path.parent.mkdir()
    path.write_bytes(HEADER + encode_entry(code(1)) + b"garbage\n" + encode_entry(code(3)))

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        history, loaded = started(path)
    assert loaded.entities == (code(1), code(3))
    assert "could not be rewritten" in caplog.text
    history.add(code(4))
    history.flush()
    assert stored(path) == (code(1), code(3), code(4))


def test_the_records_of_the_oldest_unwritten_evaluations_are_forgotten(path):
    path.parent.mkdir()
    path.write_bytes(HEADER.replace(b"2", b"9"))
    history, _ = started(path, max_entities=3)
    for line in range(1, 6):
        history.add(code(line))
    assert [history.is_recorded([f"e{line}"]) for line in range(1, 6)] == [True, True, False, False, False]


async def test_waiting_for_an_entry_that_can_never_be_written_returns_at_once(path):
    path.parent.mkdir()
    path.write_bytes(HEADER.replace(b"2", b"9"))
    history, _ = started(path)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(history.run)
        await anyio.wait_all_tasks_blocked()
        history.add(code(1))
        assert not await history.await_recorded(["e1"])
        tasks.cancel_scope.cancel()


async def test_the_first_answer_waits_until_log_lines_can_be_written_quickly(path):
    history = History(path)
    history.start()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(history.run)
        await anyio.wait_all_tasks_blocked()
        history.add(code(1))
        tasks.start_soon(anyio.to_thread.run_sync, history.read)
        with anyio.fail_after(60):
            while not await history.await_recorded(["e1"]):
                pass
        tasks.cancel_scope.cancel()
    assert stored(path) == (code(1),)


async def test_line_numbers_are_reserved_while_a_fast_log_is_written(path):
    history, _ = started(path)
    used = 3 * RESERVED_LINES

    def log():
        for line in range(1, used):
            history.record_used_line(line)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(history.run)
        await anyio.wait_all_tasks_blocked()
        await anyio.to_thread.run_sync(log)
        with anyio.fail_after(60):
            while history._line_numbers.is_low:
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert started(path)[1].next_line >= used


def test_code_that_belongs_to_no_evaluation_is_also_written(path):
    entry = Entry(1, "evaluatedCode", "(f)", 1_700_000_000_000)
    ended(path, entry)
    assert started(path)[1].entities == (entry,)


def test_a_forgotten_history_is_empty(path):
    ended(path, code(1))
    forget_history(path)
    forget_history(path)
    assert read_history(path) == ()
    assert started(path)[1].entities == ()


# Limits of size and memory


def stored_bytes(path):
    return sum(file.stat().st_size for file in path.parent.iterdir())


def test_the_history_is_limited_in_memory_and_on_disk(path):
    history, _ = started(path, max_bytes=256 * 1024)
    for line in range(1, 101):
        history.add(code(line, f"{line} " + "x" * 30_000))
        if line % 7 == 0:
            history.flush()
            assert stored_bytes(path) < 2 * 256 * 1024 + 2 * module.COMPACTION_SLACK_BYTES + 7 * 31_000
    usage = history.usage()
    assert usage["entities"] == len(history.snapshot()) == 8
    assert usage["bytes"] <= usage["maxBytes"] == 256 * 1024
    history.close()
    assert history.usage()["diskBytes"] == path.stat().st_size
    assert [entry.line for entry in started(path, max_bytes=256 * 1024)[1].entities] == list(range(93, 101))


@pytest.mark.parametrize("text", ["x" * 10**6, "ü\n" * 10**6, "😀" * 10**5, "\x00" * 10**6])
def test_a_long_text_is_stored_as_its_head_tail_and_size(path, text):
    history, _ = started(path)
    history.add(code(1, f"(begin {text} end)"))
    history.close()
    (kept,) = started(path)[1].entities
    head, omitted, tail = kept.text.split("...")
    assert head.startswith(f"(begin {text[:1000]}")
    assert tail.endswith(f"{text[-1000:]} end)")
    words = omitted.replace(",", "").split()
    assert int(words[2]) == len(text) + len("(begin  end)")
    assert len(head) + len(tail) + int(words[0]) - 2 == int(words[2])
    assert len(kept.text.encode()) <= 64 * 1024
    assert started(path)[1].entities == (kept,), "it is not cut again"


def test_a_text_of_64_kib_is_stored_completely(path):
    entry = code(1, "y" * 64 * 1024)
    ended(path, entry)
    assert started(path)[1].entities == (entry,)


def test_memory_use_stays_limited_while_the_disk_fails(path):
    history, _ = started(path, max_bytes=256 * 1024)
    path.mkdir()
    for line in range(1, 101):
        history.add(code(line, "z" * 30_000))
    path.rmdir()
    history.flush()
    assert [entry.line for entry in stored(path)] == list(range(93, 101))
    assert path.stat().st_size < 300_000


def peak_of(work):
    tracemalloc.start()
    try:
        result = work()
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_reading_a_large_file_at_the_start_uses_memory_only_for_retained_entries(path):
    path.parent.mkdir()
    with path.open("wb") as file:
        file.writelines(encode_file(code(line, f"{line} " + "x" * 2**20) for line in range(1, 61)))
    path.parent.chmod(0o700)
    (_, loaded), peak = peak_of(lambda: started(path, max_bytes=2**20))
    assert [entry.line for entry in loaded.entities] == list(range(45, 61))
    assert loaded.report is None
    assert peak < 30 * 2**20
    assert stored_bytes(path) < 2 * 2**20


FORMER = b'["^ ","~:format-version",1,"~:entities",'
HOSTILE = {
    "one value without end": lambda: FORMER + b'[["^ ","~:output/text","' + b"x" * 20 * 2**20,
    "brackets": lambda: FORMER + b"[],[]," * 2**20,
    "depth": lambda: FORMER + b"[" * 2**22,
    "spaces": lambda: b" " * 2**25,
    "no text": lambda: b"\xff" * 2**22,
    "a number": lambda: b'["^ ","~:format-version",' + b"9" * 2**22 + b"]",
    "keys": lambda: b'["^ ",' + b",".join(b'"%d",1' % number for number in range(10**6)) + b"]",
    "a line without end": lambda: HEADER + b'["^ ","~:output/text","' + b"x" * 40 * 2**20 + b'"]\n',
    "brackets in a line": lambda: HEADER + b"[],[]," * 2**20 + b"\n",
    "depth of a line": lambda: HEADER + b"[" * 2**22 + b"\n",
    "lines without end": lambda: HEADER + b"\n" * 2**22,
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_uses_little_memory_and_is_set_aside(path, make):
    path.parent.mkdir()
    content = make()
    path.write_bytes(content)
    (_, loaded), peak = peak_of(lambda: started(path))
    assert "could not be read" in loaded.report
    assert peak < 100 * 2**20
    assert [file.read_bytes() == content for file in path.parent.glob("*.unreadable-*")] == [True]


def test_a_much_too_large_file_is_set_aside_without_being_read(path):
    path.parent.mkdir()
    with path.open("wb") as sparse:
        sparse.truncate(100 * 2**30)
    _, loaded = started(path)
    assert "107,374,182,400 bytes" in loaded.report


@pytest.mark.parametrize("what", ["file", "lines"])
@pytest.mark.parametrize("shape", ["link", "pipe", "folder", "dangling link"])
def test_only_regular_files_are_read_and_written(path, tmp_path, what, shape):
    ended(path, code(1))
    victim = tmp_path / "victim"
    if shape == "link":
        victim.write_bytes(path.read_bytes())
    place = path if what == "file" else path.with_name(f"{path.name}.{what}")
    place.unlink(missing_ok=True)
    if shape == "pipe":
        posix_only.make_pipe(place)
    elif shape == "folder":
        place.mkdir()
    else:
        posix_only.make_link(place, victim)
    before = victim.read_bytes() if victim.exists() else None
    history, loaded = started(path)
    assert str(place) in loaded.report
    history.add(code(loaded.next_line))
    history.flush()
    history.add(code(loaded.next_line + 1))
    history.close()
    assert [entry.line for entry in stored(path)][-2:] == [loaded.next_line, loaded.next_line + 1]
    assert (victim.read_bytes() if victim.exists() else None) == before


def test_rewriting_the_file_does_not_follow_a_link(path, tmp_path):
    history, _ = started(path)
    victim = tmp_path / "bashrc"
    victim.write_text("mine")
    path.with_name(f"{path.name}.tmp").symlink_to(victim)
    history.add(code(1))
    history.close()
    assert victim.read_text() == "mine"
    assert [entry.line for entry in stored(path)] == [1]


def test_the_file_can_be_read_without_a_server(path):
    assert read_history(path) == ()
    ended(path, code(1), code(2))
    assert read_history(path) == (code(1), code(2))
    path.write_text("{")
    with pytest.raises(UnreadableError):
        read_history(path)


@pytest.mark.parametrize("text", ["1+2", 'say "hi"\n', "\x01" * 9, "größe", "日本語", "😀" * 3, ""])
@pytest.mark.parametrize("name", ["ann", "zoë", "李", None])
def test_the_size_of_an_entry_is_the_larger_of_its_sizes_in_memory_and_on_disk(text, name):
    entry = Entry(1, "evaluatedCode", text, 2, who=name, evaluation="e1")
    in_memory = sys.getsizeof(text) - sys.getsizeof("")
    on_disk = len(encode_basestring(text).encode()) - 2
    names = [sys.getsizeof(item) - sys.getsizeof("") for item in ("evaluatedCode", "e1", *([name] if name else []))]
    assert entry_bytes(entry) == max(in_memory, on_disk) + sum(names)


# A start reads the two ends of the file; the entries are read in a thread


def test_readers_wait_until_old_entries_are_loaded_but_the_start_does_not(path):
    ended(path, code(1), code(2))
    history = History(path)
    line, report = history.start()
    assert (line, report) == (3, None)
    history.add(code(3))
    history.flush()
    found = []
    waiting = threading.Thread(target=lambda: found.append([record[0] for record in history.snapshot().records]))
    waiting.start()
    assert found == []
    assert history.read() is None
    waiting.join(60)
    assert found == [[1, 2, 3]]
    assert stored(path) == (code(1), code(2), code(3))


def test_a_broken_line_found_later_affects_no_entry_added_since(path):
    path.parent.mkdir()
    path.write_bytes(HEADER + encode_entry(code(1)) + b"garbage\n" + encode_entry(code(3)))
    history = History(path)
    assert history.start() == (4, None)
    history.add(code(4))
    history.flush()
    assert "1 line of" in history.read()
    history.add(code(5))
    history.flush()
    assert stored(path) == (code(1), code(3), code(4), code(5))


def test_a_partial_line_is_truncated_at_the_start(path):
    ended(path, code(1))
    whole = path.read_bytes()
    with path.open("ab") as torn:
        torn.write(b'["^ ","~:output/li')
    history = History(path)
    assert history.start() == (2, None)
    assert path.read_bytes() == whole


def test_an_entry_whose_line_number_may_be_reused_is_set_aside(path):
    path.parent.mkdir()
    path.write_bytes(HEADER + encode_entry(code(1)) + encode_entry(code(7)).replace(b'"^ ",', b'"^ ", '))
    history, loaded = started(path)
    assert loaded.entities == (code(1),)
    assert "1 line of" in loaded.report
    history.add(code(loaded.next_line))
    assert [record[0] for record in history.snapshot().records] == [1, 2]
