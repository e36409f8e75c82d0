"""Files of images: private, stored once, and removed with the log entries they belong to."""

import base64

import posix_only

from codriver.log.image_files import ImageFiles
from codriver.log.log_entries import UNASSIGNED_LINE, Entry
from codriver.log.output_log import OutputLog

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"\0\0\0\x01" * 2).decode()
GIF = base64.b64encode(b"GIF89a\1\0\1\0").decode()


def log_with(*datas, max_entities=10):
    log = OutputLog(max_entities=max_entities)
    for data in datas:
        log.append(Entry(UNASSIGNED_LINE, "evaluationResults", f"<Figure> data:image/png;base64,{data}", 1))
    return log


def test_an_image_is_stored_once_in_a_private_file(tmp_path):
    files = ImageFiles(tmp_path / "state" / "pictures", log_with(PNG))
    path = files.save("image/png", PNG)
    assert files.save("image/png", PNG) == path
    (file,) = (tmp_path / "state" / "pictures").iterdir()
    assert (str(file), file.read_bytes()) == (path, base64.b64decode(PNG))
    assert posix_only.has_mode(file, 0o600)
    assert posix_only.has_mode(file.parent, 0o700)


def test_an_image_is_removed_with_its_last_entry(tmp_path):
    log = log_with(PNG, GIF, PNG)
    files = ImageFiles(tmp_path / "pictures", log)
    files.save("image/png", PNG)
    files.save("image/gif", GIF)
    files.delete_evicted((1,))
    assert len(list((tmp_path / "pictures").iterdir())) == 2
    files.delete_evicted((2,))
    assert [file.suffix for file in (tmp_path / "pictures").iterdir()] == [".png"]
    files.delete_evicted((3,))
    assert list((tmp_path / "pictures").iterdir()) == []


def test_files_of_a_killed_server_are_removed_and_an_unusable_directory_is_harmless(tmp_path):
    files = ImageFiles(tmp_path / "pictures", log_with())
    files.clear()
    files.save("image/png", PNG)
    ImageFiles(tmp_path / "pictures", log_with()).clear()
    assert list((tmp_path / "pictures").iterdir()) == []
    (tmp_path / "file").touch()
    assert ImageFiles(tmp_path / "file" / "pictures", log_with()).save("image/png", PNG) is None


def test_a_link_in_place_of_an_image_is_not_written_through(tmp_path):
    (tmp_path / "pictures").mkdir()
    files = ImageFiles(tmp_path / "pictures", log_with(PNG))
    path = files.save("image/png", PNG)
    files.clear()
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "pictures" / path.rpartition("/")[2]).symlink_to(tmp_path / "victim")
    files.save("image/png", PNG)
    assert (tmp_path / "victim").read_text() == "mine"
