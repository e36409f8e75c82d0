"""After a module is loaded again, references to its old objects are updated to the new ones."""

import sys
import types

import pytest

from codriver.repls.worker.python.renewal import PreviousClosures, update_remaining_objects

LOW = """
import functools
def rate(x, step=2): return x * step
def traced(f):
    @functools.wraps(f)
    def inner(*args): return f(*args)
    return inner
@traced
def decorated(): return "old"
def counting():
    total = 0
    def count():
        nonlocal total
        total += 1
        return total
    return count
counter = counting()
class Base:
    def name(self): return "old base"
class Shape(Base):
    def area(self): return 1
    def name(self): return "shape of " + super().name()
class Slotted:
    __slots__ = ("a",)
"""


@pytest.fixture
def modules(request):
    made = {}

    def module(name, text, **given):
        full = f"{name}_{abs(hash(request.node.name))}"
        new = made.setdefault(name, types.ModuleType(full))
        sys.modules[full] = new
        new.__dict__.update(given)
        before = dict(new.__dict__)
        exec(compile(text, f"{name}.py", "exec"), new.__dict__)
        rows = {(row["module"], row["name"], row.get("of")) for row in update_remaining_objects(new, before)}
        return new, {(element.partition("_")[0], two, three) for element, two, three in rows}

    yield module
    for item in made.values():
        sys.modules.pop(item.__name__, None)


def test_references_in_names_callbacks_methods_and_instances_are_updated(modules):
    low, rows = modules("low", LOW)
    assert rows == set()
    high, _ = modules("high", "made = Shape()\nheld = [rate, decorated, made.area]", **low.__dict__)
    old_class = low.Shape
    changed = LOW.replace("step=2", "step=5").replace('"old"', '"new"').replace("return 1\n", "return 9\n")
    low, rows = modules("low", changed + "    def more(self): return 'more'\n")
    low, rows = modules("low", changed.replace("return 9\n", "return 9\n    def more(self): return 'more'\n"))
    assert {("high", "rate", None), ("high", "Shape", None), ("low", "Shape", "1")} <= rows
    assert (high.rate(1), high.decorated(), high.made.area(), high.made.more()) == (5, "new", 9, "more")
    assert [high.held[0](1), high.held[1](), high.held[2]()] == [5, "new", 9]
    assert high.Shape is low.Shape is not old_class
    assert isinstance(high.made, low.Shape)


def test_subclasses_in_other_modules_get_the_new_base(modules):
    low, _ = modules("low", LOW)
    text = "class Round(Shape):\n    def name(self): return 'round ' + super().name()\nmade = Round()"
    high, _ = modules("high", text, **low.__dict__)
    low, _ = modules("low", LOW.replace("old base", "new base"))
    assert high.made.name() == "round shape of new base"
    assert isinstance(high.made, low.Shape)


def test_updating_a_closure_preserves_its_state(modules):
    low, _ = modules("low", LOW)
    retained = low.counter
    assert [retained(), retained()] == [1, 2]
    modules("low", LOW.replace("total += 1", "total += 10"))
    assert retained() == 12


def test_objects_that_cannot_be_updated_stay_unchanged(modules):
    low, _ = modules("low", LOW)
    high, _ = modules("high", "made = Slotted()\nmade.a = 1", **low.__dict__)
    _, rows = modules("low", LOW.replace('("a",)', '("a", "b")'))
    assert ("low", "Slotted", "1") not in rows
    assert high.made.a == 1


def test_updating_objects_runs_no_user_code(modules):
    meta, _ = modules(
        "meta",
        """
class Loud(type):
    def __setattr__(cls, name, value): raise SystemExit
    def __subclasses__(cls): raise SystemExit
""",
    )
    loud = """
class Made(metaclass=Loud):
    def __setattr__(self, name, value): raise SystemExit
    def __getattribute__(self, name): raise SystemExit
"""
    low, _ = modules("low", loud, Loud=meta.Loud)
    high, _ = modules("high", "made = Made()\nclass Sub(Made): pass", **low.__dict__)
    low, rows = modules("low", loud)
    assert {("high", "Made", None), ("low", "Made", "1")} <= rows
    assert type(high.made) is low.Made
    assert high.Sub.__mro__[1] is low.Made


MAKERS = """
def adder(n):
    def add(x): return x + n
    return add
class Maker:
    def make(self, n):
        return lambda x: x * n
    @staticmethod
    def still(): return lambda: "same"
def changed():
    a = 1
    return lambda: a
def gone():
    def one(): return 1
    return one
"""


def test_old_closures_behave_like_new_ones(modules):
    low, _ = modules("low", MAKERS)
    add, times, same = low.adder(10), low.Maker().make(3), low.Maker.still()
    _, rows = modules("low", MAKERS.replace("x + n", "x - n").replace("x * n", "-x * n"))
    assert (add(1), times(2), same()) == (-9, -6, "same")
    assert {("low", "adder", "1 closure"), ("low", "Maker.make", "1 closure")} <= rows
    assert not any("still" in name for _, name, _ in rows)


def test_closures_that_cannot_be_updated_are_reported_while_they_exist(request):
    previous, name = PreviousClosures(), f"low_{request.node.name}"
    low = sys.modules[name] = types.ModuleType(name)
    try:
        exec(MAKERS, low.__dict__)
        retained = [low.changed(), low.gone(), low.gone()]
        before = dict(low.__dict__)
        text = MAKERS.replace("a = 1\n    return lambda: a", "a, b = 1, 2\n    return lambda: a + b")
        exec(text.replace("def one(): return 1\n    return one", "return 1"), low.__dict__)
        update_remaining_objects(low, before, closures=previous)

        def outdated():
            return {(item, count) for _, item, count in previous.count_outdated({name: (low, "low.py")})}

        assert outdated() == {("changed", 1), ("gone", 2)}
        assert retained[0]() == 1
        del retained[1:]
        assert outdated() == {("changed", 1)}
        exec(MAKERS, low.__dict__)
        assert outdated() == set(), "it is again what the function makes"
    finally:
        del sys.modules[name]
