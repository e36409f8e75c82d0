"""Generated tables on the pages match the code. `python tests/docs/test_readme.py` writes them again."""

import re
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from click import Context

from codriver.app.features import manifest
from codriver.app.workspace_settings import settings_model
from codriver.commands.cli import cli
from codriver.settings.model import settings_table as table_of
from codriver.tools.calls.gate import BASE_REASONS

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
MAX_LINES = 140
PAGES = [
    README,
    *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "wrapper-config/README.md")),
    *(ROOT / "server").glob("*.md"),
    *(ROOT / "docs").glob("**/*.md"),
    *(ROOT / "server" / "codriver").glob("*/README.md"),
    *(ROOT / "tests").glob("[bt]*/README.md"),
    *(ROOT / "skills").glob("*/*.md"),
]


def tools_table():
    rows = ["| tool | does |", "| --- | --- |"]
    rows += [f"| `{tool.name}` | {tool.description} |" for tool in manifest().tools]
    return "\n".join(rows)


def settings_table():
    return table_of(settings_model())


EXPLAINED = tomllib.loads((Path(__file__).parent / "reasons.toml").read_text("utf-8"))
"""What each reason of a refusal means and what to do, by the section of the page."""


def reasons_section(name):
    """Return the section with a searchable heading for each reason."""
    sections = "\n\n".join(f"### {reason}\n\n{means}\n{fix}" for reason, (means, fix) in EXPLAINED[name].items())
    return f"\n{sections}\n"


REFERENCE = ROOT / "docs" / "reference"
TABLES: dict[Path, dict[str, Callable[[], str]]] = {
    REFERENCE / "tools.md": {"tools": tools_table},
    REFERENCE / "settings.md": {"settings": settings_table},
    ROOT / "docs" / "troubleshooting.md": {name: partial(reasons_section, name) for name in EXPLAINED},
}


def with_table(text, name, table):
    pattern = f"(<!-- {name} -->\n).*?(<!-- /{name} -->)"
    return re.sub(pattern, lambda match: f"{match[1]}{table}\n{match[2]}", text, flags=re.DOTALL)


def generated(page):
    text = page.read_text("utf-8")
    for name, table in TABLES[page].items():
        text = with_table(text, name, table())
    return text


@pytest.mark.parametrize("page", TABLES, ids=lambda page: page.name)
def test_generated_tables_match_the_code(page):
    from needs import every_feature  # noqa: PLC0415  # as a program this file finds no helpers of tests

    every_feature()
    assert generated(page) == page.read_text(), "run `python tests/docs/test_readme.py`"


def test_every_refusal_reason_is_explained():
    from needs import every_feature  # noqa: PLC0415  # as above

    every_feature()
    from codriver.features.applications import seam_answers  # noqa: PLC0415  # a copy may lack the feature

    assert {
        reason for section in EXPLAINED.values() for reason in section
    } == BASE_REASONS | seam_answers.REFUSAL_REASONS


def test_the_readme_is_short():
    assert len(README.read_text().splitlines()) <= MAX_LINES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_file_works(page):
    prose = re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose):
        assert "://" in target or (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_heading_works(page):
    prose = re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target, anchor in re.findall(r"\]\(((?:[\w./-]+\.md)?)#([^)]+)\)", prose):
        headings = re.findall(r"^#+ (.*)$", ((page.parent / target) if target else page).read_text(), re.MULTILINE)
        assert anchor in {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}, anchor


def test_every_number_in_the_comparison_was_measured():
    output = re.search("<!-- comparison -->\n.*\n.*\n((?:.*\n){4})<!-- /comparison -->", README.read_text())[1]
    measured = (ROOT / "tests" / "bench" / "README.md").read_text()
    for figure in re.findall(r"\d[\d.,]*(?<=\d)", re.sub(r"^\|[^|]*", "", output, flags=re.MULTILINE)):
        assert re.search(rf"(?<![\d.,]){re.escape(figure)}(?!\d)", measured), figure


def test_the_commands_page_names_every_command():
    page = (REFERENCE / "commands.md").read_text()
    for name in cli.list_commands(Context(cli)):
        assert re.search(rf"`(codriver )?{name}\b", page), name


def test_the_readme_marks_the_main_command_and_the_test_command():
    text = README.read_text()
    for name in ("main-command", "test-command"):
        block = re.search(f"<!-- {name} -->\n```sh\n(.+)\n```\n<!-- /{name} -->", text)
        assert block
        assert "\n" not in block[1]


if __name__ == "__main__":
    for written in TABLES:
        written.write_text(generated(written), "utf-8")
