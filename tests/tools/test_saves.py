"""The saves of ours: known to whoever watches files by the same stamps."""

import pytest

from codriver.app.hot_reload import stamps
from codriver.tools.ledgers.own_saves import Saves


def test_a_watcher_knows_our_saves_by_the_stamps_that_it_takes_itself(tmp_path):
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("x = 1\n")
    saves = Saves()
    saves.note([tmp_path / "a.py", tmp_path / "b.py", tmp_path / "gone.py"])
    assert saves.stamps == stamps(tmp_path)


def test_something_is_written_until_the_last_edit_is_over_also_by_a_failure():
    saves = Saves()

    def failing():
        with saves.writing():
            with saves.writing():
                assert saves.is_writing
            assert saves.is_writing
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        failing()
    assert not saves.is_writing
