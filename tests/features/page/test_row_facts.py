"""The rows of the page are built from data: without Codriver's sentences they report the same facts."""

from types import SimpleNamespace

from recorded_work import record_work, without_sentences

from codriver.core.state import State
from codriver.features.page.page_rows import RowReader
from codriver.log.output_log import OutputLog

SENTENCES = {"text", "error"}
"""The fields of a row that may display a sentence of Codriver."""


def rows_of(entries):
    log = OutputLog()
    for entry in entries:
        log.append(entry)
    return RowReader(SimpleNamespace(log=log, core=SimpleNamespace(state=State()))).older_rows()


def test_rows_do_not_depend_on_the_wording_of_log_messages(tmp_path):
    _, entries = record_work(tmp_path)
    whole, without = rows_of(entries), rows_of(without_sentences(entries))
    assert {row["kind"] for row in whole if "kind" in row} >= {"tests", "load", "edit"}
    assert any(row.get("failures") for row in whole)
    assert any(row.get("goal") == "find the price" for row in whole)
    for row, bare in zip(whole, without, strict=True):
        displayed = {name for name in SENTENCES & bare.keys() if bare[name] == "…"}
        assert {**row, **dict.fromkeys(displayed, "…")} == bare
        assert not displayed or row.get("kind") in {"message", "edit"}
