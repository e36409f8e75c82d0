"""The README: its generated tables are those of the code. `python tests/docs/test_readme.py` writes them anew."""

import re
from pathlib import Path

from codriver.settings.layers import settings_table
from codriver.tools.manifest import MANIFEST

README = Path(__file__).parents[2] / "README.md"


def tools_table():
    rows = ["| tool | does |", "| --- | --- |"]
    rows += [f"| `{tool.name}` | {tool.description} |" for tool in MANIFEST]
    return "\n".join(rows)


TABLES = {"tools": tools_table, "settings": settings_table}


def with_table(text, name, table):
    pattern = f"(<!-- {name} -->\n).*?(<!-- /{name} -->)"
    return re.sub(pattern, lambda match: f"{match[1]}{table}\n{match[2]}", text, flags=re.DOTALL)


def generated(text):
    for name, table in TABLES.items():
        text = with_table(text, name, table())
    return text


def test_the_tables_are_those_of_the_code():
    text = README.read_text()
    assert generated(text) == text, "run `python tests/docs/test_readme.py`"


def test_the_two_commands_are_marked():
    text = README.read_text()
    for name in ("main-command", "test-command"):
        block = re.search(f"<!-- {name} -->\n```sh\n(.+)\n```\n<!-- /{name} -->", text)
        assert block
        assert "\n" not in block[1]


if __name__ == "__main__":
    README.write_text(generated(README.read_text()))
