"""Changed functions of Python files, and whether more changed."""

import pytest

from codriver.editing.python_edits import changed_functions

TEXT = """
import json
RATE = 2

def price(item, amount=1):
    return item * amount

class Cart:
    size = 3

    @property
    def total(self):
        def inner():
            return 1
        return inner()
    async def sent(self): ...

if RATE:
    def rated(x): return x
"""


def changed(old, new):
    assert old in TEXT
    found = changed_functions(TEXT.encode(), TEXT.replace(old, new).encode())
    return found.names, found.is_more


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("item * amount", "item + amount", ("price",)),
        ("return 1", "return 2", ("Cart.total",)),
        ("sent(self): ...", "sent(self): return 1", ("Cart.sent",)),
        ("rated(x): return x", "rated(x): return -x", ("rated",)),
        ("import json\n", "import json  # said\n", ()),
    ],
)
def test_a_changed_body_names_only_its_function(old, new, names):
    assert changed(old, new) == (names, False)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("RATE = 2", "RATE = 3"), ("amount=1", "amount=2"), ("(item, amount", "(thing, amount"),
        ("size = 3", "size = 4"), ("@property\n", "@staticmethod\n"),
        ("class Cart", "class Cart(dict)"), ("if RATE", "if not RATE"),
        ("def rated(x)", "def rated2(x)"),
        ("import json\n", "import json\ndef added(): pass\n"), ("import json", "import ("),
    ],
)  # fmt: skip
def test_any_other_change_is_more_than_functions(old, new):
    assert changed(old, new)[1]
