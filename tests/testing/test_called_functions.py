"""The project functions that a failed statement called, derived from its names without calling anything."""

import contextlib
import sys
import types

import pytest

from codriver.testing.programs.called_functions import called_function_locations
from codriver.testing.programs.functions_recorder import FunctionsRecorder

SHOP = """
import contextlib
import functools
import reprlib

def cached(function):
    @functools.wraps(function)
    def inner(*args):
        return function(*args)
    return inner

known = {}

def stored(function):
    @functools.wraps(function)
    def inner(*args):
        if args in known:
            return known[args]
        return known.setdefault(args, function(*args))
    return inner

def discounted(net):
    return net * 0.9

def price(net):
    return discounted(net)

def prices(*nets):
    for net in nets:
        yield price(net)

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

    @reprlib.recursive_repr()
    def __repr__(self):
        return self.described()

    def described(self):
        return "cart"

    def checked(self):
        for line in self.lines:
            self.check(line)
        return self

    def check(self, line):
        if line is None:
            raise ValueError(line)

@functools.lru_cache
def cheapest(*nets):
    return min(nets)

@stored
def fee(net):
    return net

@contextlib.contextmanager
def opened():
    yield 1

free = functools.partial(price, 0)

@functools.singledispatch
def weight(item):
    return 0

@weight.register
def _(item: str):
    return len(item)

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


@contextlib.contextmanager
def raises(kind, function=None):
    """Expect an exception, as test runners do."""
    if function is not None:
        function()
        raise AssertionError
    try:
        yield
    except kind:
        return
    raise AssertionError


def expect(kind, function, *args):
    """Expect that a function raises an exception, as test runners do."""
    with raises(kind):
        function(*args)


class Shop:
    """A module with functions, and a test file that fails in a function `test`."""

    def __init__(self, folder):
        self.folder = folder
        self.file = str(folder / "shop.py")
        self.module = types.ModuleType("shop")
        (folder / "shop.py").write_text(SHOP)
        exec(compile(SHOP, self.file, "exec"), self.module.__dict__)

    def called(self, body, *, is_recorded=False):
        """Return the functions that the failing statement of a test's body called, by name."""
        text = "def test():\n" + "".join(f"    {line}\n" for line in body.splitlines())
        file = self.folder / "test_shop.py"
        file.write_text(text)
        space = {"shop": self.module, "raises": raises, "expect": expect}
        space |= {name: value for name, value in vars(self.module).items() if name[:2] != "__"}
        exec(compile(text, str(file), "exec"), space)
        recorder = FunctionsRecorder([str(self.folder)])
        if is_recorded:
            recorder.start()
            recorder.set_context("test", "test")
        try:
            space["test"]()
        except AssertionError:
            trace = sys.exc_info()[2].tb_next
        executed = recorder.record_failure() if is_recorded else None
        recorder.finish()
        vars(self.module)["is_test_running"] = False
        frames = [(trace.tb_frame, trace.tb_lineno)]
        return [
            location["function"]
            for location in called_function_locations(frames, lambda item: item == self.file, executed)
        ]


@pytest.fixture
def shop(tmp_path):
    return Shop(tmp_path)


@pytest.mark.parametrize(
    ("body", "called"),
    [
        ("assert price(10) == 10", ["price", "discounted"]),
        ("assert shop.price(10) == 10", ["price", "discounted"]),
        ("result = price(10)\nassert result == 10", ["price", "discounted"]),
        ("for result in prices(10):\n    assert result == 10", ["prices", "price"]),
        ("some = prices(10)\nfor _, result in zip('a', some):\n    assert result == 10", ["prices", "price"]),
        ("net = price(1)\nresult = [net]\nassert result == 2", ["price", "discounted"]),
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
        ("cart = Cart([1])\ncart.check(1)\nassert cart.lines == 2", ["check", "__init__"]),
        (
            "cart = Cart()\nfor one in [cart]:\n    one.check(1)\ngot = [one[0] for one in [cart]]\nassert got == 1",
            ["check", "__init__", "__getitem__"],
        ),
        ("cart = Cart()\nother = Cart()\nother.check(1)\nassert cart.lines == 2", ["__init__"]),
        ("assert max(1, 2) == 3", []),
        ("assert 1 == 2", []),
        ("assert 1 == 2 and lazy.anything()", []),
        ("assert (\n    price(\n        10\n    )\n    == 10\n)", ["price", "discounted"]),
    ],
)
def test_the_functions_behind_a_wrong_value_are_found(shop, body, called):
    assert shop.called(body) == called


@pytest.mark.parametrize(
    ("body", "called"),
    [
        ("cart = Cart()\nassert repr(cart) == 'x'", ["__repr__", "__init__"]),
        ("assert cheapest(1, 2) == 2", ["cheapest"]),
        ("assert fee(1) == 2", ["fee"]),
        ("assert free() == 2", ["price", "discounted"]),
        ("with opened() as one:\n    assert one == 2", []),
        ("with opened() as one:\n    assert price(one) == 2", ["price", "discounted"]),
    ],
)
def test_decorated_functions_are_found(shop, body, called):
    assert shop.called(body) == called


NOT_RAISED = [
    ("with raises(ValueError):\n    price(1)", ["price", "discounted"]),
    ("with raises(ValueError):\n    cart = Cart()\n    price(1)\n    cart.total()", ["total", "price"]),
    ("cart = Cart([1])\nwith raises(ValueError):\n    cart.checked()", ["checked", "check"]),
    ("with raises(ValueError), opened() as net:\n    price(net)", ["price", "discounted"]),
    ("with raises(ValueError):\n    if True:\n        price(1)", ["price", "discounted"]),
    ("expect(ValueError, price, 1)", ["price", "discounted"]),
    ("expect(ValueError, lambda: price(1))", ["price", "discounted"]),
    ("cart = Cart([1])\nexpect(ValueError, cart.checked)", ["checked", "check"]),
]


@pytest.mark.parametrize(("body", "called"), NOT_RAISED)
def test_the_function_that_did_not_raise_an_expected_exception_is_found(shop, body, called):
    found = shop.called(body)
    assert found[0] == called[0]
    if called[1] == "discounted":
        assert called[1] in found


needs_recording = pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.12 records executed functions")


@needs_recording
@pytest.mark.parametrize(
    ("body", "called"),
    [
        *[item for item in NOT_RAISED if "opened" not in item[0]],
        ("cart = Cart([1])\nassert cart.total() == 5", ["total", "price"]),
        ("result = price(10)\nother = discounted(1)\nassert result == 10", ["price", "discounted"]),
        ("some = prices(1, 2)\nfor result in some:\n    assert result == 2", ["prices", "price"]),
        ("assert Cart.empty().size == 1", ["size", "empty"]),
        ("cart = Cart()\nassert repr(cart) == 'x'", ["__repr__", "described"]),
        ("assert (fee(1), fee(1)) == (2, 2)", ["inner", "fee"]),
        ("known[(3,)] = 1\nassert fee(3) == 2", ["inner"]),
        ("assert cheapest(1, 2) == 2", ["cheapest"]),
        ("assert weight('abc') == 2", ["_"]),
        ("assert list(map(lambda one: Cart([one]).checked(), [1])) == 2", ["checked", "check"]),
        ("assert [*map(shop.price, [1])] == [2]", ["price", "discounted"]),
        ("assert getattr(shop, 'pri' + 'ce')(1) == 2", ["price", "discounted"]),
        ("assert 1 == 2", []),
        ("repr(Cart())\nassert 1 == 2", ["described", "__init__"]),
        ("for net in range(50):\n    price(net)\nassert price(50) == 2", ["price", "discounted"]),
    ],
)
def test_recorded_functions_are_listed_with_the_last_to_return_first(shop, body, called):
    assert shop.called(body, is_recorded=True)[:2] == called[:2]


@needs_recording
def test_a_function_that_did_not_run_is_not_listed(shop):
    assert "price" not in shop.called("cart = Cart([])\nassert cart.total() == 5", is_recorded=True)
    assert "price" in shop.called("cart = Cart([])\nassert cart.total() == 5")


def test_functions_called_by_a_test_are_found_when_a_test_helper_asserts(shop, tmp_path):
    text = "def check(value, other):\n    assert value == other\n\ndef test():\n    check(shop.price(1), 2)\n"
    file = tmp_path / "test_helper.py"
    file.write_text(text)
    space = {"shop": shop.module}
    exec(compile(text, str(file), "exec"), space)
    try:
        space["test"]()
    except AssertionError:
        trace = sys.exc_info()[2].tb_next
    frames = [(trace.tb_next.tb_frame, trace.tb_next.tb_lineno), (trace.tb_frame, trace.tb_lineno)]
    found = called_function_locations(frames, lambda item: item == shop.file)
    assert [item["function"] for item in found] == ["price", "discounted"]


def test_no_functions_are_found_for_code_without_a_source_file():
    space = {}
    exec("def f():\n    assert len([]) == 1\n", space)
    try:
        space["f"]()
    except AssertionError:
        trace = sys.exc_info()[2].tb_next
    assert called_function_locations([(trace.tb_frame, trace.tb_lineno)], lambda _file: True) == []
