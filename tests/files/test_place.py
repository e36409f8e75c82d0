"""The one safe way to open and replace files, tried against every hostile kind of file."""

import os
import stat
import threading
from pathlib import Path

import posix_only
import pytest

from codriver.files import (
    FileRules,
    LinkRefusedError,
    Links,
    NotOwnedError,
    NotRegularError,
    TooLargeError,
    locate,
    open_for_writing,
    read,
    replace,
)

WITHIN = FileRules(Links.WITHIN, 1000)
NEVER = FileRules(Links.NEVER, 1000)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "file").write_text("inside")
    (tmp_path / "secret").write_text("outside")
    return folder


def test_a_regular_file_is_read_whole(root):
    assert read(Path("file"), WITHIN, root=root) == b"inside"
    assert read(root / "file", NEVER, root=root) == b"inside"


def test_a_missing_file_raises_file_not_found(root):
    with pytest.raises(FileNotFoundError):
        read(Path("nothing"), WITHIN, root=root)
    with pytest.raises(FileNotFoundError):
        read(Path("no/folder/file"), WITHIN, root=root)


def test_a_file_of_exactly_the_limit_is_read_and_a_larger_one_is_refused(root):
    (root / "file").write_bytes(b"x" * 1000)
    assert len(read(Path("file"), WITHIN, root=root)) == 1000
    (root / "file").write_bytes(b"x" * 1001)
    with pytest.raises(TooLargeError, match="1,001 bytes, but at most 1,000 bytes are read"):
        read(Path("file"), WITHIN, root=root)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux has files without a size in /proc")
def test_a_file_without_a_size_is_read_up_to_the_limit():
    with pytest.raises(TooLargeError, match="more, but at most 10 bytes"):
        read(Path("/proc/self/status"), FileRules(Links.ANY, 10))


def _fifo(path):
    posix_only.make_pipe(path)


def _socket(path):
    posix_only.make_socket(path)


@pytest.mark.parametrize(("make", "shape"), [(_fifo, "a pipe"), (os.mkdir, "a folder"), (_socket, "a socket")])
def test_a_non_regular_file_is_refused_at_once(root, make, shape, monkeypatch):
    monkeypatch.chdir(root)
    make("thing")
    with pytest.raises(NotRegularError, match=f"the path is {shape}"):
        read(Path("thing"), WITHIN, root=root)
    with pytest.raises(OSError, match=shape):
        replace(Path("thing"), b"new", links=Links.WITHIN, root=root)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/ptmx", "/dev/tty"])
def test_a_link_to_a_device_is_refused_without_opening_it(root, device):
    (root / "thing").symlink_to(device)
    with pytest.raises(LinkRefusedError, match="the path leads outside of"):
        read(Path("thing"), WITHIN, root=root)
    with pytest.raises(NotRegularError, match="a device"):
        read(root / "thing", FileRules(Links.ANY, 10))


@pytest.mark.parametrize("target", ["../secret", "{outside}/secret", "sub/../../secret", "../workspace/../secret"])
def test_a_link_that_leads_out_of_the_root_is_refused(root, target):
    (root / "sub").mkdir()
    (root / "link").symlink_to(target.format(outside=root.parent))
    for rules in (WITHIN, NEVER):
        with pytest.raises(LinkRefusedError):
            read(Path("link"), rules, root=root)
    assert read(root / "link", FileRules(Links.ANY, 1000)) == b"outside"


@pytest.mark.parametrize("target", ["file", "sub/../file", "{root}/file", "other"])
def test_a_link_within_the_root_is_followed_only_if_allowed(root, target):
    (root / "sub").mkdir()
    (root / "other").symlink_to("file")
    (root / "link").symlink_to(target.format(root=root))
    assert read(Path("link"), WITHIN, root=root) == b"inside"
    with pytest.raises(LinkRefusedError, match="links are not followed"):
        read(Path("link"), NEVER, root=root)


def test_a_symlinked_directory_counts_as_a_link(root):
    (root / "real").mkdir()
    (root / "real" / "file").write_text("deep")
    (root / "folder").symlink_to("real")
    assert read(Path("folder/file"), WITHIN, root=root) == b"deep"
    with pytest.raises(LinkRefusedError):
        read(Path("folder/file"), NEVER, root=root)


def test_a_symlink_loop_is_reported_clearly(root):
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    with pytest.raises(LinkRefusedError, match="link to itself"):
        read(Path("a"), WITHIN, root=root)


def test_parent_directory_steps_do_not_leave_the_root(root):
    with pytest.raises(LinkRefusedError, match="the path leads outside of"):
        read(Path("../secret"), WITHIN, root=root)
    with pytest.raises(LinkRefusedError, match="the path leads outside of"):
        read(root.parent / "secret", WITHIN, root=root)


def test_the_root_itself_may_be_a_symlink(root):
    (root.parent / "alias").symlink_to(root)
    assert read(Path("file"), NEVER, root=root.parent / "alias") == b"inside"
    assert read(root / "file", NEVER, root=root.parent / "alias") == b"inside"


def test_a_path_without_a_root_is_resolved_from_the_filesystem_root(root, monkeypatch):
    assert read(root / "file", FileRules(Links.ANY, 100)) == b"inside"
    monkeypatch.chdir(root)
    assert read(Path("file"), FileRules(Links.ANY, 100)) == b"inside"
    assert read(Path("../workspace/file"), FileRules(Links.ANY, 100)) == b"inside"


def test_a_file_that_grants_permission_must_not_be_writable_by_others(root):
    (root / "file").chmod(0o666)
    with pytest.raises(NotOwnedError, match="other users may write"):
        read(Path("file"), FileRules(Links.NEVER, 100, is_granting=True), root=root)


def test_a_secret_file_must_be_private(root):
    (root / "file").chmod(0o644)
    with pytest.raises(NotOwnedError, match="0600"):
        read(Path("file"), FileRules(Links.NEVER, 100, is_secret=True), root=root)
    (root / "file").chmod(0o600)
    assert read(Path("file"), FileRules(Links.NEVER, 100, is_secret=True), root=root) == b"inside"


@pytest.mark.skipif(not posix_only.is_root(), reason="only root can give files away: run this as root")
def test_files_and_links_of_another_user_are_not_trusted(root):
    posix_only.give_away(root / "file")
    with pytest.raises(NotOwnedError, match="another user"):
        read(root / "file", FileRules(Links.OF_USER, 100))
    with pytest.raises(NotOwnedError):
        read(root / "file", FileRules(Links.ANY, 100, is_granting=True))
    (root / "mine").write_text("mine")
    (root / "link").symlink_to("mine")
    posix_only.give_away(root / "link")
    with pytest.raises(LinkRefusedError, match="another user"):
        read(root / "link", FileRules(Links.OF_USER, 100))


def test_a_replaced_file_is_complete_and_private(root):
    replace(Path("new"), b"text", links=Links.NEVER, root=root)
    assert (root / "new").read_bytes() == b"text"
    assert stat.S_IMODE((root / "new").stat().st_mode) == 0o600
    assert names(root) == ["file", "new"]


def test_replacing_through_the_users_own_link_keeps_the_link(root):
    (root / "dotfiles").mkdir()
    (root / "dotfiles" / "config").write_text("old")
    (root / "config").symlink_to("dotfiles/config")
    replace(root / "config", b"new", links=Links.OF_USER, mode=None)
    assert (root / "config").is_symlink()
    assert (root / "dotfiles" / "config").read_text() == "new"


def test_no_write_goes_through_a_link_where_links_are_not_followed(root):
    (root / "log").symlink_to(root.parent / "secret")
    for write in (
        lambda: replace(Path("log"), b"new", links=Links.NEVER, root=root),
        lambda: open_for_writing(Path("log"), links=Links.NEVER, root=root),
    ):
        with pytest.raises(LinkRefusedError):
            write()
    assert (root.parent / "secret").read_text() == "outside"


def test_a_file_opened_for_appending_is_private_and_keeps_its_content(root):
    for expected in (b"a", b"aa"):
        descriptor = open_for_writing(Path("log"), links=Links.NEVER, root=root)
        os.write(descriptor, b"a")
        os.close(descriptor)
        assert (root / "log").read_bytes() == expected
    assert stat.S_IMODE((root / "log").stat().st_mode) == 0o600


def test_a_pipe_in_place_of_a_log_is_refused_without_waiting(root):
    posix_only.make_pipe(root / "log")
    with pytest.raises(NotRegularError):
        open_for_writing(Path("log"), links=Links.NEVER, root=root)


def test_a_new_file_never_replaces_an_existing_one(root):
    with locate(Path("file"), Links.WITHIN, root=root) as place:
        temporary = place.stage(b"new")
        with pytest.raises(FileExistsError):
            place.publish_new(temporary)
        place.discard(temporary)
    assert (root / "file").read_text() == "inside"
    assert names(root) == ["file"]


def test_missing_directories_are_created_on_request(root):
    with locate(Path("a/b/new"), Links.WITHIN, root=root, make_mode=0o700) as place:
        place.publish_new(staged := place.stage(b"new"))
        place.discard(staged)
    assert (root / "a/b/new").read_text() == "new"
    assert stat.S_IMODE((root / "a").stat().st_mode) == 0o700


def test_a_located_directory_stays_the_same_when_its_path_becomes_a_link(root):
    (root / "sub").mkdir()
    with locate(Path("sub/new"), Links.WITHIN, root=root) as place:
        (root / "sub").rename(root / "moved")
        (root / "sub").symlink_to(root.parent)
        place.publish(place.stage(b"new"))
    assert (root / "moved/new").read_text() == "new"
    assert not (root.parent / "new").exists()


def test_swapping_a_directory_for_a_link_never_writes_outside(root):
    """A thread swaps a directory and a link to the outside as fast as it can; each replacement stays inside or
    fails.
    """
    outside = root.parent / "outside"
    outside.mkdir()
    (root / "sub").mkdir()
    is_done = threading.Event()

    def exchange():
        while not is_done.is_set():
            (root / "sub").rename(root / "kept")
            (root / "sub").symlink_to(outside)
            (root / "sub").unlink()
            (root / "kept").rename(root / "sub")

    attacker = threading.Thread(target=exchange)
    attacker.start()
    try:
        for _ in range(500):
            try:
                replace(Path("sub/file"), b"new", links=Links.WITHIN, root=root)
            except OSError:
                continue
    finally:
        is_done.set()
        attacker.join()
    assert names(outside) == []
