"""`codriver watch` formats entries from data: without Codriver's sentences only these are missing."""

from recorded_work import record_work, without_sentences

from codriver.commands.log import format_entry
from codriver.log.log_entries import ENTRY_SCHEMA


def lines_of(entries):
    return [format_entry(ENTRY_SCHEMA.document(entry)) for entry in entries]


def test_watched_lines_are_built_from_fields_and_not_from_message_text(tmp_path):
    _, entries = record_work(tmp_path)
    bare = without_sentences(entries)
    replaced = [entry.text != other.text for entry, other in zip(entries, bare, strict=True)]
    assert any(replaced)
    for is_replaced, whole, without in zip(replaced, lines_of(entries), lines_of(bare), strict=True):
        (head, text), (other_head, other_text) = whole, without
        assert head == other_head
        assert (text.fg, text.text[:2]) == (other_text.fg, other_text.text[:2])
        assert is_replaced or text == other_text


def test_similar_session_keys_can_be_told_apart():
    entry = {"category": "output", "timestamp": 0, "line": 1, "text": "", "who": "ann"}
    keys = ("sales-ipynb", "sales-ipynb-2")
    heads = [str(format_entry({**entry, "repl-session-key": key})[0]).split()[-1] for key in keys]
    assert heads == list(keys)
