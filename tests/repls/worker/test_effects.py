"""What running a statement would read, fill and do, predicted without running it."""

import ast
import types

import pytest

from codriver.repls.worker.python.effects.analysis import Analysis
from codriver.repls.worker.python.module_text import Text
from codriver.repls.worker.python.statements import SourceText

FILE = "/shop.py"
SOURCE = b"""\
import contextvars, enum, functools, os
RATE = 2
PRICES = {"tea": 3}
HANDLERS = []
def price(name):
    return PRICES[name] * RATE
def register(function):
    HANDLERS.append(function)
    return function
def save(name):
    os.remove(name)
def fib(number):
    return fib(number - 1) + fib(number - 2)
class Cart:
    limit = 3
    def __init__(self, *names):
        self.names = list(names)
    def total(self):
        return sum(map(price, self.names))
class Size(enum.Enum):
    SMALL = 1
    def label(self):
        return self.name
class Discount:
    def cut(self, share):
        return share * RATE
    half = functools.partialmethod(cut, 0.5)
class Gift(Discount):
    def cut(self, share):
        return PRICES
OFFERS = [Discount(), Gift()]
def chain(*offers):
    return functools.reduce(lambda done, offer: lambda share: offer.cut(done(share)), offers, lambda share: share)
ALL = chain(*OFFERS)
class Counter:
    def __init__(self, offer):
        self.offer = offer
COUNTERS = [Counter(Gift())]
LEVEL = contextvars.ContextVar("level", default=1)
"""


@pytest.fixture(scope="module")
def shop():
    """Return a module and an analysis in which the module's functions are those of the workspace."""
    module = types.ModuleType("shop")
    exec(compile(SOURCE, FILE, "exec"), module.__dict__)
    text = Text("shop", module, FILE, SourceText(SOURCE, FILE))

    def source_of(function):
        if isinstance(function, str):
            return text if function == FILE else None
        return text.function(function.__code__) if function.__code__.co_filename == FILE else None

    return module, Analysis(source_of)


def effects_of(shop, statement):
    module, analysis = shop
    return analysis.statement_effects(ast.parse(statement).body[0], module.__dict__)


@pytest.mark.parametrize(
    ("statement", "reads"),
    [
        ("A = RATE + 1", {"RATE"}),
        ("A = price('tea')", {"price", "price()", "PRICES", "RATE"}),
        ("A = [price(name) for name in PRICES]", {"price", "price()", "PRICES", "RATE"}),
        ("A = Cart('tea').total()", {"Cart", "Cart.__init__()", "Cart.total()", "price()", "PRICES", "RATE"}),
        ("A = Cart.limit", {"Cart.limit"}),
        ("A = fib(9)", {"fib", "fib()"}),
        ("A = Size(1)", {"Size.="}),
        ("A = OFFERS[0].half()", {"Discount.half", "Discount.cut()", "RATE"}),
        ("A = {kind.__name__: kind().cut(1) for kind in Discount.__subclasses__()}", {"Gift.cut()", "PRICES"}),
        ("A = ALL(2)", {"Discount.cut()", "Gift.cut()", "RATE", "PRICES"}),
        ("A = [counter.offer.cut(1) for counter in COUNTERS]", {"Gift.cut()", "PRICES"}),
        ("A = LEVEL.get()", {"LEVEL"}),
    ],
)
def test_names_read_by_called_functions_count_as_read_by_the_statement(shop, statement, reads):
    found = effects_of(shop, statement)
    assert reads <= {name for module, name in found.reads if module == "shop"}
    assert (found.effect, found.fills) == (None, set())


@pytest.mark.parametrize(
    ("statement", "filled"),
    [
        ("PRICES['milk'] = 1", "PRICES"),
        ("PRICES.update(milk=1)", "PRICES"),
        ("HANDLERS += [1]", "HANDLERS"),
        ("register(price)", "HANDLERS"),
        ("@register\ndef handle(): pass", "HANDLERS"),
        ("Cart.limit = 4", "Cart"),
        ("setattr(Cart, 'limit', 4)", "Cart"),
        ("[HANDLERS.append(name) for name in PRICES]", "HANDLERS"),
    ],
)
def test_objects_that_a_statement_adds_items_to_are_found(shop, statement, filled):
    found = effects_of(shop, statement)
    assert (found.effect, found.fills) == (None, {id(vars(shop[0])[filled])})


@pytest.mark.parametrize("statement", ["save('x')", "print(RATE)", "open('x')", "unknown()", "os.remove('x')"])
def test_a_call_that_may_affect_something_else_counts_as_a_side_effect(shop, statement):
    assert effects_of(shop, statement).effect is not None


def test_a_finished_analysis_keeps_no_references_to_objects(shop):
    _, analysis = shop
    assert effects_of(shop, "A = PRICES").objects
    assert analysis._interpreter.runs.found.objects == {}  # everything it refers to appears to be used
