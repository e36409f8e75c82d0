"""The project functions that a failed statement called, derived from its names without calling anything."""

import sys
import types

import pytest

from codriver.testing.programs.called_functions import called_by

SHOP = """
import functools

def cached(function):
    @functools.wraps(function)
    def inner(*args):
        return function(*args)
    return inner

def discounted(net):
    return net * 0.9

def price(net):
    return discounted(net)

@cached
def rate():
    return 1

class Cart:
    def __init__(self, lines=()):
        self.lines = lines

    def total(self):
        return sum(map(price, self.lines))

    @property
    def size(self):
        return len(self.lines)

    @staticmethod
    def empty():
        return Cart()

    def __call__(self, name):
        return len(self.lines)

    def __contains__(self, item):
        return True

    def __eq__(self, other):
        return other is self

    def __len__(self):
        return 0

    def __getitem__(self, place):
        return place

is_test_running = True

class Lazy:
    def __getattr__(self, name):
        if is_test_running:
            return self
        raise SystemExit("no code of the project may run")

    def price(self):
        return 2

lazy = Lazy()
"""


@pytest.fixture
def run(tmp_path):
    """Return what the failing statement of a test's body called, as function names."""

    def run(body):
        shop = types.ModuleType("shop")
        (tmp_path / "shop.py").write_text(SHOP)
        exec(compile(SHOP, str(tmp_path / "shop.py"), "exec"), shop.__dict__)
        text = "def test():\n" + "".join(f"    {line}\n" for line in body.splitlines())
        file = tmp_path / "test_shop.py"
        file.write_text(text)
        space = {"shop": shop, **{name: value for name, value in vars(shop).items() if name[:2] != "__"}}
        exec(compile(text, str(file), "exec"), space)
        try:
            space["test"]()
        except AssertionError:
            trace = sys.exc_info()[2].tb_next
        vars(shop)["is_test_running"] = False
        found = called_by(trace.tb_frame, trace.tb_lineno, lambda one: one == str(tmp_path / "shop.py"))
        return [one["function"] for one in found]

    return run


@pytest.mark.parametrize(
    ("body", "called"),
    [
        ("assert price(10) == 10", ["price", "discounted"]),
        ("assert shop.price(10) == 10", ["price", "discounted"]),
        ("result = price(10)\nassert result == 10", ["price", "discounted"]),
        ("result = price(10)\nother = discounted(1)\nassert result == 10", ["price", "discounted"]),
        ("cart = Cart([1])\nassert cart.total() == 5", ["total", "__init__", "price"]),
        ("assert Cart.empty().size == 1", ["empty", "__init__"]),
        ("assert rate() == 2", ["rate"]),
        ("assert Cart([1]).total() == 5", ["total", "__init__", "price"]),
        ("value = Lazy().some.place.price()\nassert value == 1", ["price"]),
        ("cart = Cart()\nassert cart('a') == 1", ["__call__", "__init__"]),
        ("cart = Cart()\nassert 1 not in cart", ["__contains__", "__init__"]),
        ("cart = Cart()\nassert cart == 1", ["__eq__", "__init__"]),
        ("cart = Cart()\nassert len(cart) == 1", ["__len__", "__init__"]),
        ("cart = Cart()\nassert cart[0] == 1", ["__getitem__", "__init__"]),
        ("assert max(1, 2) == 3", []),
        ("assert 1 == 2", []),
        ("assert 1 == 2 and lazy.anything()", []),
        ("assert (\n    price(\n        10\n    )\n    == 10\n)", ["price", "discounted"]),
    ],
)
def test_the_functions_behind_a_wrong_value_are_found(run, body, called):
    assert run(body) == called


def test_a_statement_in_code_without_a_file_has_none():
    space = {}
    exec("def f():\n    assert len([]) == 1\n", space)
    try:
        space["f"]()
    except AssertionError:
        trace = sys.exc_info()[2].tb_next
    assert called_by(trace.tb_frame, trace.tb_lineno, lambda _file: True) == []
