"""Capture calls in any version of Python; run as a script, it prints the outcome of each attempt by name, as JSON.

`python captured_calls.py`, in a directory that contains the application to capture, `CAPTURED`.
"""

import asyncio
import contextlib
import importlib
import inspect
import json
import sys
import time
import traceback

CAPTURED = '''\
import functools


class Order:
    def __init__(self, total):
        self.total, self.password = total, "hunter2hunter2"

    @property
    def boom(self):
        raise RuntimeError("a property was run")

    def __repr__(self):
        raise RuntimeError("a repr was run")

    def __eq__(self, other):
        raise RuntimeError("a comparison was run")

    __hash__ = None


class Shop:
    def add(self, order, *more, vip=False, **rest):
        """Add an order."""
        price = order.total
        if vip:
            price = price / 2
        for one in more:
            price += one
        return price

    @property
    def size(self):
        return 3


def noted(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        return function(*arguments)

    return wrapper


@noted
def fail(n):
    if n > 2:
        raise ValueError("too many", n)
    return n


def count(n):
    for i in range(n):
        yield i
    return "end"


async def fetch(n):
    return n + 1


async def feed(n):
    for i in range(n):
        yield i


def maker(k):
    def inner(x):
        y = x + k
        return y

    return inner


def depth(n):
    return 0 if n == 0 else 1 + depth(n - 1)


def pay(amount, token):
    left = amount - 1
    return left
'''
MADE = "def made(a, b=2, *c, d=4, **e): return a + b + sum(c) + d + len(e)\nasync def stream(): yield 1\n"


def line_of(text):
    """Return the number of the line of `CAPTURED` that starts with this text."""
    return 1 + next(place for place, line in enumerate(CAPTURED.splitlines()) if line.strip().startswith(text))


class Capture:
    """A capture and the lines of its events."""

    def __init__(self, of, **more):
        asked = json.dumps({"topic": "calls", "filter": {"of": of, **more}})
        self.answer = json.loads(seam.call("subscribe", asked, write=lambda text: True))
        self.id = self.answer.get("subId")

    def lines(self):
        """Return the events without their ids and times, which vary."""
        told = json.loads(seam.call("trace", json.dumps({"filter": {"source": self.id}})))["lines"]
        return [" ".join([word for word in line.split()[1:] if not word.endswith("ms")]) for line in told]

    def row(self):
        """Return the row of its subscription, if there is one."""
        rows = json.loads(seam.call("subscriptions"))["subs"]
        return next((row["capture"] for row in rows if row["id"] == self.id), None)

    def end(self):
        """End the capture."""
        return json.loads(seam.call("unsubscribe", json.dumps({"subId": self.id})))["existed"]


@contextlib.contextmanager
def capture(of, **more):
    """Start a capture that ends with the block."""
    made = Capture(of, **more)
    try:
        yield made
    finally:
        made.end()


def calls():
    own, shown = shop.Shop.add.__code__, str(inspect.signature(shop.Shop.add))
    with capture("shop:Shop.add") as one:
        gave = shop.Shop().add(shop.Order(10), 5, 6, vip=True, zap={"a": [1, 2]})
        same = str(inspect.signature(shop.Shop.add)) == shown and inspect.getdoc(shop.Shop.add) == "Add an order."
    shop.Shop().add(shop.Order(1))
    return [gave, same, one.answer["capture"], one.lines(), shop.Shop.add.__code__ is own]


def failures():
    with capture("shop:fail") as one:
        with contextlib.suppress(ValueError):
            shop.fail(5)
        try:
            shop.fail(6)
        except ValueError as error:
            places = [(place.name, place.lineno) for place in traceback.extract_tb(error.__traceback__)][1:]
    return [one.lines(), places, [["wrapper", line_of("return function(")], ["fail", line_of("raise ValueError")]]]


def lines():
    early = shop.maker(10)
    with capture(f"shop.py:{line_of('return y')}") as one, capture(f"shop.py:{line_of('price = price')}") as two:
        gave = [early(5), shop.maker(1)(2)]
        shop.Shop().add(shop.Order(10))
        shop.Shop().add(shop.Order(10), vip=True)
    early(6)
    return [gave, one.lines(), two.lines(), early.__code__ is shop.maker(3).__code__]


def conditions():
    told = {}
    for when in ("n == 3", "result == 0", "n > 3 and n < 5", "n in (1, 2)"):
        with capture("shop:depth", when=when) as one:
            shop.depth(5)
        told[when] = [line.split("args=")[1].split()[0] for line in one.lines()]
    with capture("shop:fail", when="raised == 'ValueError'") as one:
        shop.fail(1)
        with contextlib.suppress(ValueError):
            shop.fail(3)
    told["raised"] = one.lines()
    with capture(f"shop.py:{line_of('if vip')}", when="order.total > 10") as one:
        gave = [shop.Shop().add(shop.Order(total)) for total in (10, 20)]
    return [told, gave, one.lines()]


def faults():
    with capture("shop:pay", when="amount.boom.x > 1 or token == 3") as one:
        gave = shop.pay(10, "t")
        row = one.row()
    with capture(f"shop.py:{line_of('price = order')}", when="order == 3") as two:
        again = shop.Shop().add(shop.Order(10))
        second = two.row()
    seam.predicate("broken", lambda event: 1 // 0)
    with capture("shop:pay", pred="broken") as three:
        shop.pay(10, "t")
        third = three.row()
    return [gave, again, row, second, third, one.lines() + two.lines() + three.lines()]


def kinds():
    made = [Capture(of) for of in ("shop:count", "shop:fetch", "shop:feed", "shop:Shop.size")]
    gave = [list(shop.count(2)), asyncio.run(shop.fetch(4)), asyncio.run(collect()), shop.Shop().size]
    return [gave, [one.lines() for one in made if one.end()]]


async def collect():
    return [one async for one in shop.feed(2)]


def hits():
    own = shop.pay.__code__
    one = Capture("shop:pay", hits=2)
    for amount in range(5):
        shop.pay(amount, "t")
    began = time.monotonic()
    while one.row() is not None and time.monotonic() < began + 20:
        time.sleep(0.001)
    return [one.lines(), shop.pay.__code__ is own, one.end()]


def together():
    own = shop.pay.__code__
    one, two = Capture("shop:pay"), Capture(f"shop.py:{line_of('return left')}")
    shop.pay(1, "t")
    one.end()
    shop.pay(2, "t")
    three = Capture("shop:pay")
    two.end()
    shop.pay(3, "t")
    three.end()
    shop.pay(4, "t")
    return [[each.lines() for each in (one, two, three)], shop.pay.__code__ is own]


def secrets():
    with capture("shop:pay") as one, capture(f"shop.py:{line_of('return left')}") as two:
        shop.pay(shop.Order(5).total, "tok-of-ada-12345")
        shop.depth(0)
    with capture("shop:maker") as three:
        shop.maker({"note": "it is tok-of-ada-12345", "api_key": "k", "long": "x" * 190 + "tok-of-ada-12345"})
    with capture("shop:Shop.add") as four:
        shop.Shop().add(shop.Order(1))
    return one.lines() + two.lines() + three.lines() + four.lines()


def without_source():
    space = {"__name__": "made_here"}
    exec(MADE, space)
    module = type(sys)("made_here")
    vars(module).update(space)
    sys.modules["made_here"] = module
    own, shown = module.made.__code__, str(inspect.signature(module.made))
    one = Capture("made_here:made")
    gave = [module.made(1), module.made(1, 3, 4, d=5, f=6)]
    same = str(inspect.signature(module.made)) == shown
    one.end()
    return [gave, same, one.lines(), module.made.__code__ is own, Capture("made_here:stream").answer]


def running():
    steps = []

    def loop(most):
        for number in range(most):
            steps.append(number)
            if number == 1:
                made.append(Capture(f"captured_calls.py:{loop.__code__.co_firstlineno + 2}"))

    made = []
    loop(4)
    made[0].end()
    return [made[0].answer["ok"] and made[0].answer["capture"].get("missed"), made[0].lines()]


def named():
    seen = []
    seam.predicate("large", lambda event: seen.append(sorted(event)) or event["locals"]["amount"] > 5)
    with capture("shop:pay", pred="large") as one:
        shop.pay(1, "t")
        shop.pay(9, "t")
    return [one.lines(), seen]


def alone():
    with capture("shop:pay"), capture(f"shop.py:{line_of('return y')}"):
        hooks = [sys.gettrace(), sys.getprofile()]
        others = [one.__code__ is code for one, code in own_codes.items()]
    return [hooks, all(others)]


if __name__ == "__main__":
    import codriver_seam as seam

    shop = importlib.import_module("shop")
    seam.install(True)
    seam.frame("app", get=lambda: {"token": "tok-of-ada-12345"}, sensitive=[("token",)])
    own_codes = {one: one.__code__ for one in (shop.depth, shop.fetch, shop.count, shop.Shop.add, json.loads)}
    attempts = [calls, failures, lines, conditions, faults, kinds, hits, together, secrets, without_source, running,
                named, alone]  # fmt: skip
    sys.stdout.write(json.dumps({attempt.__name__: attempt() for attempt in attempts}))
