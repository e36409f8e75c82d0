"""Recorded evaluations that end their REPL: each is named, and the others are still verified."""

import sys

import pytest

from codriver.features.export.documents.layout import Origin
from codriver.features.export.documents.recordings import RecordedEvaluation, Recording
from codriver.features.export.fresh_runs import FreshRuns, ReplDiedError

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="a signal that ends a process at once"),
]

DEADLY = ["import ctypes; ctypes.string_at(0)", "import os\nos.abort()", "import os; os._exit(3)"]
LOST = "evaluation e-3 was lost: it was killed"


def recording(deadly, ending):
    codes = ["x = 3", "x + 1", deadly, "1 + 2", "'x' in dir()"]
    values = [(), ("4",), (), ("3",), ("False",)]
    evaluations = [
        RecordedEvaluation(f"e-{number}", code, values=value, ending=ending if code == deadly else "")
        for number, (code, value) in enumerate(zip(codes, values, strict=True), 1)
    ]
    return Recording("python", "python", tuple(evaluations))


def runs(folder):
    return FreshRuns(folder, "python", 60, is_quiet=True, python=sys.executable)


@pytest.mark.parametrize("deadly", DEADLY)
async def test_an_evaluation_that_ended_its_repl_is_reported_and_the_rest_is_still_verified(tmp_path, deadly):
    checked = await runs(tmp_path).verify(recording(deadly, LOST))
    notes = {item.of.id: item.note for item in checked if item.note}
    assert list(notes) == ["e-3"]
    assert "ended the REPL in both runs" in notes["e-3"]
    assert [item.of.id for item in checked if item.verdict == "same"] == ["e-2", "e-4", "e-5"]


async def test_an_evaluation_that_ends_only_the_fresh_repl_is_an_error(tmp_path):
    with pytest.raises(ReplDiedError) as raised:
        await runs(tmp_path).verify(recording(DEADLY[0], ""))
    assert "evaluation e-3" in str(raised.value)
    assert DEADLY[0] in str(raised.value)


async def test_a_document_names_what_it_omits(tmp_path):
    checked = await runs(tmp_path).verify(recording(DEADLY[0], LOST))
    origin = Origin("py", "python", "2026-01-01", "exported")
    document = await runs(tmp_path).write_document(checked[:-1], "python", "test", origin)
    assert "ended the REPL in both runs" in document.text
    assert "1 + 2" in document.text
