"""The reference page on the seam: its application runs exactly as printed."""

import re
from pathlib import Path
from types import ModuleType

from seam_shop import query

from codriver_seam import recording
from codriver_seam.event_filters import FILTER_NAMES

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "seam.md").read_text()


def test_the_example_application_in_the_documentation_works():
    [code] = re.findall(r"<!-- seam-app -->\n```python\n(.*?)```\n<!-- /seam-app -->", PAGE, re.DOTALL)
    recording.reset()
    module = ModuleType("page")
    exec(compile(code, "page.py", "exec"), vars(module))
    answer = query("dispatch", event="['order/add', 2]", sync=True)
    assert answer["changes"] == [{"op": "changed", "path": "['count']", "before": "0", "after": "2"}]
    assert query("reset", value="{}")["reason"] == "schema-mismatch"
    assert query("state", path="user.token")["value"] == "<redacted>"
    assert query("handlers")["handlers"][0]["id"] == "order/add"


def test_the_documentation_page_names_every_filter():
    [named] = re.findall(r"`filter` of `trace` takes `([^`]+)`", PAGE)
    assert sorted(named.split()) == sorted(FILTER_NAMES)
