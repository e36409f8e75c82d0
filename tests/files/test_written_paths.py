"""A file may be given as a URI, with a line number, or as a chat writes it, unless a file has exactly that name."""

import pytest

from codriver.files.written_paths import convert_written_path, may_need_conversion

FILES = ("m.py", "a b.py", "@odd.py", "@types/x.ts", "m.py:7", "sub/n.py")


@pytest.fixture
def root(tmp_path):
    for name in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        *((name, name) for name in FILES),
        ("@m.py", "m.py"),
        ("@sub/n.py:12", "sub/n.py"),
        ("@types/new.ts", "@types/new.ts"),
        ("@new.py", "new.py"),
        ("m.py:3", "m.py"),
        ("m.py:3:14", "m.py"),
        ("m.py:3-9", "m.py"),
        ("m.py:3:", "m.py"),
        ("m.py(3,7)", "m.py"),
        ("m.py#L3", "m.py"),
        ("m.py#L3-L9", "m.py"),
        ("new.py:3", "new.py"),
        ("`m.py`", "m.py"),
        ("'a b.py'", "a b.py"),
        ("<m.py>", "m.py"),
        (' "m.py" ', "m.py"),
        ("tests/test_a.py::test_b[1:2]", "tests/test_a.py::test_b[1:2]"),
        ("", ""),
        (":3", ":3"),
        ("file://elsewhere/m.py", "file://elsewhere/m.py"),
    ],
)
def test_a_path_written_in_any_common_way_is_converted(root, written, meant):
    assert convert_written_path(written, root) == meant
    assert may_need_conversion(written) or written == meant


def test_the_home_directory_is_expanded_unless_a_directory_has_its_name(root, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setenv("USERPROFILE", "/home/ann")
    assert may_need_conversion("~/m.py")
    assert convert_written_path("~/m.py:3", root) == "/home/ann/m.py"
    assert convert_written_path("~m.py", root) == "~m.py"
    (root / "~").mkdir()
    assert convert_written_path("~/m.py", root) == "~/m.py"


@pytest.mark.parametrize("behind", ["", "#L3", ":3"])
@pytest.mark.parametrize(
    "begin",
    ["file://", "file://localhost", "FILE://", "file:", "vscode://file", "vscode-insiders://file", "cursor://file"],
)
def test_a_file_uri_is_converted_to_its_path(root, begin, behind):
    for name in ("m.py", "a b.py"):
        path = (root / name).as_uri().removeprefix("file://")
        assert convert_written_path(f"{begin}{path}{behind}", root) == str(root / name)
