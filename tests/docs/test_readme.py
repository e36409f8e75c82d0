"""The pages: their generated tables are those of the code. `python tests/docs/test_readme.py` writes them anew."""

import re
from pathlib import Path

import pytest

from codriver.settings.model import settings_table
from codriver.tools.manifest import MANIFEST

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
MOST_LINES = 200
PAGES = [
    README,
    *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "wrapper-config/README.md")),
    *(ROOT / "server").glob("*.md"),
    *(ROOT / "server" / "codriver").glob("*/README.md"),
    *(ROOT / "tests").glob("[bt]*/README.md"),
    *(ROOT / "skills").glob("*/*.md"),
]


def tools_table():
    rows = ["| tool | does |", "| --- | --- |"]
    rows += [f"| `{tool.name}` | {tool.description} |" for tool in MANIFEST]
    return "\n".join(rows)


TABLES = {README: ("tools", tools_table), ROOT / "server" / "SETTINGS.md": ("settings", settings_table)}


def with_table(text, name, table):
    pattern = f"(<!-- {name} -->\n).*?(<!-- /{name} -->)"
    return re.sub(pattern, lambda match: f"{match[1]}{table}\n{match[2]}", text, flags=re.DOTALL)


def generated(page):
    name, table = TABLES[page]
    return with_table(page.read_text(), name, table())


@pytest.mark.parametrize("page", TABLES, ids=lambda page: page.name)
def test_the_tables_are_those_of_the_code(page):
    assert generated(page) == page.read_text(), "run `python tests/docs/test_readme.py`"


def test_the_readme_is_read_at_a_sitting():
    assert len(README.read_text().splitlines()) <= MOST_LINES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_file_leads_somewhere(page):
    prose = re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose):
        assert "://" in target or (page.parent / target).exists(), target


def test_the_two_commands_are_marked():
    text = README.read_text()
    for name in ("main-command", "test-command"):
        block = re.search(f"<!-- {name} -->\n```sh\n(.+)\n```\n<!-- /{name} -->", text)
        assert block
        assert "\n" not in block[1]


if __name__ == "__main__":
    for written in TABLES:
        written.write_text(generated(written))
