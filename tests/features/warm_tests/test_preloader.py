"""The recorder of imports, in interpreters that start with other modules than this one."""

import subprocess
from pathlib import Path

from needs import interpreter

import codriver

SERVER = str(Path(codriver.__file__).parents[1])
RECORDS_WITHOUT_IO = """
import _posixsubprocess, atexit, builtins, codecs, locale, random, signal, sys, threading, warnings
sys.path.insert(0, sys.argv[1])
from codriver.features.warm_tests.child.preload import Preloader
from codriver.features.warm_tests.child.recording_wrappers import RecordingFileFunction
sys.modules.pop("io")
preloader = Preloader(set(sys.modules), (sys.prefix,), frozenset(), {}, {})
with preloader.record_imports({}):
    print(type(builtins.open) is RecordingFileFunction, type(sys.modules["_io"].open) is RecordingFileFunction)
print(type(builtins.open) is RecordingFileFunction)
"""


def test_opened_files_are_recorded_even_if_io_is_not_imported():
    command = [interpreter("python3.14"), "-c", RECORDS_WITHOUT_IO, SERVER]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.split(), done.stderr) == (["True", "True", "False"], "")
