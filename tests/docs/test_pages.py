"""The pages in docs/: each is reachable, its links work, and its examples do what they show."""

import os
import re
import shlex
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import needs
import pytest
from click import Context
from doc_examples import Reader, blocks

from codriver.app.features import manifest
from codriver.app.workspace_settings import settings_model
from codriver.commands.cli import cli
from codriver.settings.model import settings_table

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
READ = [ROOT / "README.md", *PAGES]
MAX_LINES = 150
MAX_LINES_OF_A_TUTORIAL = 180
MAX_NOT_RUN = 15
FREE = ("mermaid",)
LONG = (
    "reference/log.md",
    "reference/seam.md",
    "reference/settings.md",
    "troubleshooting.md",
)
"""Pages that are longer than a page should be: most of them is tables."""
HEAVY = ("tutorials",)
NAVIGATION = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]["nav"]


def name_of(page):
    return str(page.relative_to(ROOT))


def is_heavy(page):
    return page.parent.name in HEAVY


def paths(entry):
    """Return the pages of a part of the navigation."""
    if isinstance(entry, str):
        return [entry]
    return [path for part in (entry if isinstance(entry, list) else entry.values()) for path in paths(part)]


def runnable(pages):
    return [page for page in pages if any(block.kind == "run" for block in blocks(page.read_text("utf-8")))]


def follow(page, folder):
    reader = Reader(folder)
    try:
        reader.follow(page.read_text("utf-8"))
    finally:
        reader.close()


@pytest.mark.slow
@pytest.mark.parametrize("page", runnable(page for page in READ if not is_heavy(page)), ids=name_of)
def test_the_examples_of_a_page_produce_the_output_it_shows(page, tmp_path):
    follow(page, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("page", runnable(page for page in READ if is_heavy(page)), ids=name_of)
def test_a_tutorial_can_be_followed_to_its_end(page, tmp_path):
    follow(page, tmp_path)


@pytest.mark.slow
def test_the_install_command_puts_three_programs_on_the_path(tmp_path):
    reader = Reader(tmp_path)
    found = {
        block.text
        for page in (ROOT / "README.md", DOCS / "get-started" / "install.md")
        for block in blocks(page.read_text("utf-8"))
        if block.kind == "install-command"
    }
    (command,) = found
    uv = needs.program("uv", install="pip install uv")
    shared = {"UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", str(Path.home() / ".cache" / "uv"))}
    environment = {**reader.environment, **shared, "PATH": f"{Path(uv).parent}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(["bash", "-ec", command], cwd=ROOT, env=environment, check=True, timeout=600)
    for name in ("codriver", "codriver-relay", "codriver-hook"):
        assert (reader.home / ".local" / "bin" / name).exists()


@pytest.mark.slow
def test_the_commands_for_all_users_put_three_programs_into_a_directory(tmp_path):
    page = (DOCS / "how-to" / "shared-machine.md").read_text("utf-8")
    (commands,) = [block.text for block in blocks(page) if block.kind == "install-for-all"]
    (tmp_path / "bin").mkdir()
    commands = commands.replace("/opt/codriver", str(tmp_path / "codriver")).replace(
        "/usr/local/bin", str(tmp_path / "bin")
    )
    reader = Reader(tmp_path / "reader")
    subprocess.run(["bash", "-ec", commands], cwd=ROOT, env=reader.environment, check=True, timeout=600)
    for name in ("codriver", "codriver-relay", "codriver-hook"):
        assert os.access(tmp_path / "bin" / name, os.X_OK)


@pytest.mark.slow
def test_the_offline_installation_needs_only_the_downloaded_wheels(tmp_path):
    page = (DOCS / "get-started" / "special-installs.md").read_text("utf-8")
    (commands,) = [block.text for block in blocks(page) if block.kind == "install-offline"]
    reader = Reader(tmp_path / "reader")
    commands = commands.replace(" wheels ", f" {tmp_path / 'wheels'} ")
    subprocess.run(["bash", "-ec", commands], cwd=ROOT, env=reader.environment, check=True, timeout=600)
    assert (reader.home / "codriver" / "bin" / "codriver-relay").exists()


@cache
def sources_of_tests():
    return "\n".join(path.read_text("utf-8") for path in Path(__file__).parents[1].rglob("test_*.py"))


@pytest.mark.parametrize("page", READ, ids=name_of)
def test_every_code_block_is_run_or_marked_as_not_run(page):
    sources = sources_of_tests()
    for block in blocks(page.read_text("utf-8")):
        if block.language in FREE or block.kind in ("run", "file", "append", "content", "not-run"):
            continue
        assert block.kind, f"line {block.line}: nothing says whether this block was run"
        assert block.kind in sources, f"line {block.line}: no test reads {block.kind}"


def test_the_number_of_code_blocks_that_are_not_run_is_limited():
    kinds = [block.kind for page in READ for block in blocks(page.read_text("utf-8"))]
    assert kinds.count("not-run") <= MAX_NOT_RUN


def test_the_navigation_contains_each_page_once():
    assert sorted(paths(NAVIGATION)) == [str(page.relative_to(DOCS)) for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_is_short_and_starts_with_its_title(page):
    lines = page.read_text("utf-8").splitlines()
    assert lines[0].startswith("# ")
    assert sum(line.startswith("# ") for line in prose(page).splitlines()) == 1
    if str(page.relative_to(DOCS)) not in LONG:
        assert len(lines) <= (MAX_LINES_OF_A_TUTORIAL if page.parent.name == "tutorials" else MAX_LINES)


def prose(page):
    return re.sub(r"^( *)```.*?^ *```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def test_pages_can_be_followed_one_after_the_other_in_the_same_directory():
    """A second `mkdir` with the same name fails, and the commands after it would run in the parent directory."""
    created = [
        name
        for page in READ
        for block in blocks(page.read_text("utf-8"))
        if block.kind == "run"
        for name in re.findall(r"^\$ mkdir ([\w-]+) && cd", block.text, re.MULTILINE)
    ]
    assert len(created) > len(PAGES) // 4
    assert {name for name in created if created.count(name) > 1} == set()
    tutorials = "".join(page.read_text("utf-8") for page in PAGES if page.parent.name in ("tutorials", "get-started"))
    assert not re.search(r"^\$ mkdir (?!-p )", tutorials, re.MULTILINE)


@pytest.mark.parametrize("page", READ, ids=name_of)
def test_commands_and_options_in_the_text_exist(page):
    needs.every_feature()
    for words in re.findall(r"`codriver ([^`]+)`", prose(page)):
        command, context = cli, Context(cli)
        for word in shlex.split(words.replace("…", "")):
            if word == "--":
                break
            if hasattr(command, "list_commands"):
                if word in command.list_commands(context):
                    command = command.get_command(context, word)
                    context = Context(command, parent=context)
                    continue
                assert word.startswith("-") or word.isupper(), f"there is no command {words!r}"
            if re.fullmatch(r"-{1,2}[a-z][\w-]*", word):
                known = {name for parameter in command.params for name in parameter.opts} | {"--help", "-h"}
                assert word in known, f"{words!r} has no option {word}"


TOOLS = {tool.name for tool in manifest().tools}
SETTINGS = set(re.findall(r"^\| `(\w+)`", settings_table(settings_model()), re.MULTILINE))
LIKE_A_TOOL = re.compile(r"(?:evaluate|run|edit|load|get|send|interrupt|symbol|connect|restart|inspect|change)_\w+")


@pytest.mark.parametrize("page", READ, ids=name_of)
def test_tools_and_settings_in_the_text_exist(page):
    needs.every_feature()
    for word in re.findall(r"`(\w+)`", prose(page)):
        if LIKE_A_TOOL.fullmatch(word) and page.parent.name != "reference":
            assert word in TOOLS, word
    for word in re.findall(r"`([a-z]+[A-Z]\w*) = ", prose(page)):
        assert word in SETTINGS | KERNEL_KEYS, word


KERNEL_KEYS = {"plainHttp"}
"""Keys of a table [[kernels]] that text names."""
POLICY = {"page", "evaluation", "edits"}


@pytest.mark.parametrize("page", READ, ids=name_of)
def test_settings_in_examples_exist_and_are_toml(page):
    for block in blocks(page.read_text("utf-8")):
        if block.kind in ("example settings", "policy"):
            names = set(tomllib.loads(block.text))
            assert names
            assert names <= (SETTINGS if block.kind == "example settings" else POLICY)
