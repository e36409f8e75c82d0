"""Files of pictures: private, there once, and gone with the entries of the log that they are of."""

import base64

import posix_only

from codriver.log.output_log import NO_LINE, Entry, OutputLog
from codriver.log.picture_files import ImageFiles

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"\0\0\0\x01" * 2).decode()
GIF = base64.b64encode(b"GIF89a\1\0\1\0").decode()


def log_with(*datas, max_entities=10):
    log = OutputLog(max_entities=max_entities)
    for data in datas:
        log.append(Entry(NO_LINE, "evaluationResults", f"<Figure> data:image/png;base64,{data}", 1))
    return log


def test_a_picture_is_a_private_file_with_its_bytes_under_one_name(tmp_path):
    files = ImageFiles(tmp_path / "state" / "pictures", log_with(PNG))
    path = files.save("image/png", PNG)
    assert files.save("image/png", PNG) == path
    (file,) = (tmp_path / "state" / "pictures").iterdir()
    assert (str(file), file.read_bytes()) == (path, base64.b64decode(PNG))
    assert posix_only.has_mode(file, 0o600)
    assert posix_only.has_mode(file.parent, 0o700)


def test_a_picture_goes_with_the_last_entry_that_has_it_and_no_sooner(tmp_path):
    log = log_with(PNG, GIF, PNG)
    files = ImageFiles(tmp_path / "pictures", log)
    files.save("image/png", PNG)
    files.save("image/gif", GIF)
    files.drop((1,))
    assert len(list((tmp_path / "pictures").iterdir())) == 2
    files.drop((2,))
    assert [file.suffix for file in (tmp_path / "pictures").iterdir()] == [".png"]
    files.drop((3,))
    assert list((tmp_path / "pictures").iterdir()) == []


def test_what_a_killed_server_left_is_removed_and_a_folder_that_cannot_be_is_no_fault(tmp_path):
    files = ImageFiles(tmp_path / "pictures", log_with())
    files.clear()
    files.save("image/png", PNG)
    ImageFiles(tmp_path / "pictures", log_with()).clear()
    assert list((tmp_path / "pictures").iterdir()) == []
    (tmp_path / "file").touch()
    assert ImageFiles(tmp_path / "file" / "pictures", log_with()).save("image/png", PNG) is None


def test_nothing_is_written_through_a_link_that_somebody_left(tmp_path):
    (tmp_path / "pictures").mkdir()
    files = ImageFiles(tmp_path / "pictures", log_with(PNG))
    path = files.save("image/png", PNG)
    files.clear()
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "pictures" / path.rpartition("/")[2]).symlink_to(tmp_path / "victim")
    files.save("image/png", PNG)
    assert (tmp_path / "victim").read_text() == "mine"
