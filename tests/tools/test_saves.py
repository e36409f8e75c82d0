"""The record of Codriver's own saves, which file watchers recognize by their stamps."""

import pytest

from codriver.app.hot_reload import source_file_stamps
from codriver.tools.ledgers.own_saves import SavedFiles


def test_files_saved_by_codriver_are_recorded_with_the_stamps_that_the_watcher_compares(tmp_path):
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("x = 1\n")
    saves = SavedFiles()
    saves.record_stamps([tmp_path / "a.py", tmp_path / "b.py", tmp_path / "gone.py"])
    assert saves.stamps == source_file_stamps(tmp_path)


def test_an_edit_counts_as_in_progress_until_the_outermost_one_ends_even_on_failure():
    saves = SavedFiles()

    def failing():
        with saves.edit_in_progress():
            with saves.edit_in_progress():
                assert saves.is_writing
            assert saves.is_writing
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        failing()
    assert not saves.is_writing
