"""A package whose `__init__` is deferred stays the same package and runs its `__init__` when needed: once, or again
if it failed.
"""

import subprocess
import sys
import textwrap
from importlib import import_module

import pytest

from codriver.protocol.sdk import defer_init

INIT = """
    import made_up.runs
    made_up.runs.times.append(1)
    from made_up.inner import deep
    answer = 42
"""


def output_of(code):
    """Return what a separate Python prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.fixture
def counted_package(tmp_path, monkeypatch):
    """Create a package that counts how often its `__init__` runs."""
    files = {
        "__init__.py": INIT,
        "runs.py": "times = []",
        "inner/__init__.py": "from made_up.inner.deep import value",
        "inner/deep.py": "value = 'deep'",
    }
    for name, text in files.items():
        path = tmp_path / "made_up" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "made_up"
    for name in [name for name in sys.modules if name.partition(".")[0] == "made_up"]:
        del sys.modules[name]


@pytest.mark.usefixtures("counted_package")
def test_a_submodule_is_imported_without_running_the_packages_init():
    defer_init("made_up", "made_up.inner")
    assert import_module("made_up.inner.deep").value == "deep"
    assert import_module("made_up.runs").times == []
    assert "value" not in vars(sys.modules["made_up.inner"])


@pytest.mark.usefixtures("counted_package")
def test_the_first_attribute_access_runs_the_init_once():
    defer_init("made_up", "made_up.inner")
    package = import_module("made_up")
    assert (package.answer, package.inner.value, package.deep.value, package.runs.times) == (42, "deep", "deep", [1])
    with pytest.raises(AttributeError, match="module 'made_up' has no attribute 'nothing'"):
        _ = package.nothing
    assert package.runs.times == [1]


def test_a_failing_init_raises_each_time_and_may_succeed_later(counted_package):
    whole = (counted_package / "__init__.py").read_text()
    (counted_package / "__init__.py").write_text("raise RuntimeError('not yet')")
    defer_init("made_up")
    package = import_module("made_up")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="not yet"):
            _ = package.answer
    (counted_package / "__init__.py").write_text(whole + "# so that it differs in size")
    assert package.answer == 42


@pytest.mark.usefixtures("counted_package")
def test_a_package_already_imported_or_missing_is_not_deferred():
    package = import_module("made_up")
    defer_init("made_up", "made_up_and_missing")
    assert sys.modules["made_up"] is package
    assert package.runs.times == [1]
    assert "made_up_and_missing" not in sys.modules


WHOLE = {"mcp", "mcp_types"}
UNUSED = {"httpx2", "cryptography", "mcp.client", "mcp.server.mcpserver"}


def test_the_server_starts_without_the_sdk():
    assert output_of(f"import sys, codriver.app.serve; print({WHOLE} & set(sys.modules))") == "set()\n"


def test_the_server_loads_no_client_or_http_part_of_the_sdk():
    loaded = "import sys; from codriver.protocol.sdk.sdk_server import SdkServer"
    assert (
        output_of(f"{loaded}; print({UNUSED} & set(sys.modules), 'mcp.server.lowlevel' in sys.modules)")
        == "set() True\n"
    )


def test_the_whole_sdk_can_still_be_imported_in_the_same_process():
    code = (
        "import codriver.protocol.sdk, mcp, mcp.server; "
        "print(mcp.ClientSession.__name__, mcp.server.MCPServer.__name__)"
    )
    assert output_of(code) == "ClientSession MCPServer\n"
