"""The source of each loaded module is remembered exactly, whatever compiled code exists and however it was loaded."""

import importlib
import importlib.util
import os
import sys
import time
import traceback
import zipfile

import pytest
from project_texts import ProjectTexts

from codriver.repls.worker.python.loaded_sources import LoadedSources

NO_CHANGE_TIME = "Windows tells by a path when a file was made, and not when it was changed whatever its time says"


@pytest.fixture
def texts(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    before = set(sys.modules)
    made = ProjectTexts(tmp_path)
    made.start_recording()
    yield made
    made.stop_recording()
    for name in set(sys.modules) - before:
        del sys.modules[name]


def load(name):
    sys.modules.pop(name, None)
    importlib.invalidate_caches()
    return importlib.import_module(name)


SET_BACK_S = pytest.param(10**9, marks=pytest.mark.skipif(sys.platform == "win32", reason=NO_CHANGE_TIME))


@pytest.mark.parametrize("second", [None, SET_BACK_S], ids=["of now", "set back"])
def test_compiled_code_of_an_old_source_is_never_used(texts, tmp_path, second):
    file = tmp_path / "quick_a.py"
    second = second or int(time.time())
    for number in range(10):
        file.write_bytes(f"X = {number}\n".encode())
        stamp = second * 10**9 + number * 100
        os.utime(file, ns=(stamp, stamp))
        assert number == load("quick_a").X, "the second and the size are those of before"
        texts.record_names()
        assert texts.find_load("quick_a").data == file.read_bytes()
    assert list((tmp_path / "__pycache__").iterdir())


def test_compiled_code_newer_than_its_source_is_used(texts, tmp_path):
    (tmp_path / "slow_b.py").write_bytes(b"X = 1\n")
    load("slow_b")
    (compiled,) = (tmp_path / "__pycache__").iterdir()
    later = (tmp_path / "slow_b.py").stat().st_ctime_ns + 11 * 10**9
    os.utime(compiled, ns=(later, later))
    assert load("slow_b").X == 1
    assert compiled.stat().st_mtime_ns == later


def test_compiled_code_written_just_after_an_edit_is_not_trusted(texts, tmp_path):
    file = tmp_path / "quick_g.py"
    file.write_bytes(b"X = 1\n")
    load("quick_g")
    (compiled,) = (tmp_path / "__pycache__").iterdir()
    stamp = file.stat().st_mtime_ns // 10**9 * 10**9
    file.write_bytes(b"X = 2\n")
    os.utime(file, ns=(stamp, stamp))
    os.utime(compiled)  # as if it had been read before the edit, and was written after it
    assert load("quick_g").X == 2


def test_the_traceback_of_a_failing_module_has_no_worker_frames(texts, tmp_path):
    (tmp_path / "wrong_c.py").write_bytes(b"def f(:\n")
    (tmp_path / "wrong_d.py").write_bytes(b"1 / 0\n")
    for name in ("wrong_c", "wrong_d"):
        with pytest.raises((SyntaxError, ZeroDivisionError)) as failure:
            load(name)
        files = [frame.filename for frame in traceback.extract_tb(failure.value.__traceback__)]
        assert not any("codriver/repls/worker" in file for file in files)


def test_every_way_of_loading_is_recorded(texts, tmp_path):
    package = tmp_path / "pack_e"
    package.mkdir()
    (package / "__init__.py").write_bytes(b"from . import inner\n")
    (package / "inner.py").write_bytes(b"X = 1\n")
    (tmp_path / "free_e.py").write_bytes(b"X = 2\n")
    load("pack_e")
    spec = importlib.util.spec_from_file_location("by_place_e", tmp_path / "free_e.py")
    module = sys.modules["by_place_e"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    texts.record_names()
    assert {texts.find_load(name).data for name in ("pack_e", "pack_e.inner", "by_place_e")} == {
        b"from . import inner\n", b"X = 1\n", b"X = 2\n",
    }  # fmt: skip
    (package / "inner.py").write_bytes(b"X = 3\n")
    importlib.reload(sys.modules["pack_e.inner"])
    texts.record_names()
    assert texts.find_load("pack_e.inner").data == b"X = 3\n"


def test_getting_code_from_a_loader_does_not_count_as_a_load(texts, tmp_path):
    file = tmp_path / "asked_f.py"
    file.write_bytes(b"X = 1\n")
    module = load("asked_f")
    texts.record_names()
    texts.read_recent_sources()
    file.write_bytes(b"X = 22\n")
    module.__spec__.loader.get_code("asked_f")
    texts.record_new_loads()
    assert texts.find_load("asked_f").data == b"X = 1\n"


def test_modules_from_archives_have_no_source(texts, tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("zipped_g.py", "X = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path / "all.zip"))
    load("zipped_g")
    texts.record_names()
    assert texts.find_load("zipped_g").data is None


def test_recording_modules_does_not_inspect_their_values(texts, tmp_path):
    text = """
class Lazy:
    def __getattribute__(self, name): raise SystemExit(name)
lazy = Lazy()
"""
    (tmp_path / "lazy_h.py").write_text(text)
    load("lazy_h")
    texts.record_names()
    texts.read_recent_sources()


def test_sources_are_stored_compressed(texts, tmp_path):
    text = "".join(f"def function_{number}(first, second):\n    return first * second\n" for number in range(200))
    (tmp_path / "long_i.py").write_text(text)
    load("long_i")
    texts.record_names()
    assert texts.find_load("long_i").stored_bytes < len(text) / 2


def test_a_project_module_that_replaces_an_installed_one_is_recorded(texts, tmp_path):
    installed = tmp_path / "site-packages"
    installed.mkdir()
    (installed / "twice_j.py").write_bytes(b"X = 1\n")
    sys.path.insert(0, str(installed))
    try:
        assert load("twice_j").X == 1
        texts.record_names()
        assert texts.find_load("twice_j") is None
    finally:
        sys.path.remove(str(installed))
    (tmp_path / "twice_j.py").write_bytes(b"X = 2\n")
    assert load("twice_j").X == 2
    assert texts.find_load("twice_j").data == b"X = 2\n"


def test_modules_of_the_worker_are_not_part_of_a_project():
    sources = LoadedSources()
    sources.record_names()
    worker, others = [], []
    for name in sources.loads:
        (worker if name.startswith("codriver.repls.worker.") else others).append(name)
    assert worker == []
    assert "project_texts" in others
