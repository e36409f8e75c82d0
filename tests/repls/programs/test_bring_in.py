"""Codriver's modules in a kernel: loaded once, whichever thread needs them first."""

import sys
import threading
import types
from typing import Any

import pytest

from codriver.repls.programs.python.bring_in import install

PACKAGE = "_codriver_of_test"
TEXTS = [
    ("near.one", "import gate_of_test\ngate_of_test.entered.release()\ngate_of_test.opened.wait(60)\nvalue = 1"),
    ("near.door", "from .one import value\nclass KernelAnswers:\n    value = value"),
]


@pytest.fixture(autouse=True)
def gate(monkeypatch):
    made: Any = types.ModuleType("gate_of_test")
    made.entered, made.opened = threading.Semaphore(0), threading.Event()
    monkeypatch.setitem(sys.modules, "gate_of_test", made)
    yield made
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def test_threads_that_install_the_same_modules_concurrently_share_the_module_objects(gate):
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(install(PACKAGE, "/x/", TEXTS))) for _ in range(2)]
    threads[0].start()
    assert gate.entered.acquire(timeout=60)
    threads[1].start()
    gate.entered.acquire(timeout=0.2)  # time to start a second time
    gate.opened.set()
    for thread in threads:
        thread.join(60)
    assert [item.value for item in found] == [1, 1]
    assert found[0] is found[1]
    assert f"{PACKAGE}.installing" not in sys.modules


def test_a_module_that_fails_to_load_is_not_left_in_sys_modules(gate):
    with pytest.raises(ZeroDivisionError):
        install(PACKAGE, "/x/", [("near.one", "1 / 0")])
    assert not [name for name in sys.modules if name.startswith(PACKAGE)]
