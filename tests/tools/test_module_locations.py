"""Modules in a repository with several projects: the error for a failed import reports where the module is."""

import re

import pytest

from codriver.tools.answers.missing_module_notes import find_import_directories

pytestmark = pytest.mark.served()


def add(workspace, *names):
    for name in names:
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("open('ran', 'w').close()\n" if name.startswith("evil") else "PRICE = 42\n")


@pytest.mark.parametrize(
    ("files", "module", "folders"),
    [
        (["services/api/src/api/__init__.py"], "api", ["services/api/src"]),
        (["services/api/src/api/models.py"], "api", ["services/api/src"]),
        (["services/api/src/acme/api/__init__.py"], "acme.api", ["services/api/src"]),
        (["services/api/src/acme/api.py"], "acme.api", ["services/api/src"]),
        (["lib/prices.py"], "prices", ["lib"]),
        (["a/x/__init__.py", "b/x/y.py", "b/c/x.py"], "x", ["a", "b/c", "b"]),
        (["prices.py", "src/prices.py"], "prices", []),
        (["api/src/api/__init__.py", "api/src/api/prices.py"], "prices", []),
        (["node_modules/prices.py", ".venv/prices.py", "lib/prices.txt", "lib/prices/a.txt"], "prices", []),
    ],
)
def test_the_directory_of_a_module_is_found_by_file_names(tmp_path, files, module, folders):
    add(tmp_path, *files)
    assert find_import_directories(tmp_path, module) == [str(tmp_path / folder) for folder in folders]


def test_links_are_not_followed_when_looking_for_a_module(tmp_path):
    add(tmp_path / "outside", "prices.py")
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "lib").symlink_to(tmp_path / "outside", target_is_directory=True)
    assert find_import_directories(tmp_path / "workspace", "prices") == []


def test_the_suggested_line_makes_the_import_work(live, client):
    add(live.workspace, "services/it's ünï/src/api/__init__.py", "services/it's ünï/src/api/models.py")
    failed = client.call("evaluate_code", code="from api.models import PRICE", detail=False)
    assert failed["error"]["class"] == "ModuleNotFoundError"
    (note,) = failed["notes"]
    line = re.search(r"import sys; .*\)", note)[0]
    assert client.call("evaluate_code", code=f"{line}\nfrom api.models import PRICE\nPRICE")["result"] == "42"


def test_no_workspace_code_runs_when_looking_for_a_module(live, client):
    add(live.workspace, "evil/lost/__init__.py", "evil/sitecustomize.py", "evil/conftest.py")
    (note,) = client.call("evaluate_code", code="import lost", detail=False)["notes"]
    assert "sys.path.append" in note
    assert not (live.workspace / "ran").exists()
    assert not [*(live.workspace / "evil").rglob("__pycache__")]


@pytest.mark.parametrize("code", ["import no_such_module_anywhere", "raise ImportError('No module named lost')"])
def test_other_failures_include_no_note_about_imports(live, client, code):
    add(live.workspace, "sub/lost.py")
    assert "notes" not in client.call("evaluate_code", code=code, detail=False)
