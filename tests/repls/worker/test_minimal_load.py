"""Loading an edited file applies what changed, runs nothing else, and names what it could not update."""

import importlib
import sys
import zipfile
from unittest import mock

import pytest
from project_texts import ProjectTexts

from codriver.repls.worker.basics.definition_access import ABSENT
from codriver.repls.worker.basics.undo_records import UndoRecords
from codriver.repls.worker.python.module_loads import ModuleLoad
from codriver.repls.worker.python.python_drift import Drift


class Project:
    """Modules in a directory that are imported, edited and loaded."""

    def __init__(self, folder):
        self.folder = folder
        self.texts = ProjectTexts(folder)
        self.drift = Drift(self.texts)
        self.holds = UndoRecords([str(folder)])

    def load(self, name, text):
        (self.folder / f"{name}.py").write_text(text)
        sys.modules.pop(name, None)
        importlib.invalidate_caches()
        module = importlib.import_module(name)
        self.texts.record_names()
        self.texts.read_recent_sources()
        return module

    def edit(self, name, *changes, hold="", whole=False):
        """Edit a file and load it; return the rows of the load, and its value."""
        file = self.folder / f"{name}.py"
        text = file.read_text()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        file.write_text(text)
        retained = self.holds.record_for(hold)
        load = ModuleLoad(name, str(file), text, retained, self.drift, home=sys)
        load.prepare()
        failed = True
        try:
            steps = None if whole else load.plan_steps()
            self.ran = [step.line for step in steps or () if not step.is_conditional]
            if steps is None:
                exec(compile(text, str(file), "exec"), load.module.__dict__)
            values = [step.act() for step in steps or ()]
            self.value = [ABSENT, *[value for value in values if value is not ABSENT]][-1]
            failed = False
        finally:
            load.finish(has_failed=failed)
        return {(row["name"], row["kind"], row.get("of", "")) for row in load.renewed}

    def rows(self):
        return self.drift.find_differences(str(self.folder))


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    made = Project(tmp_path)
    made.texts.start_recording()
    yield made
    made.texts.stop_recording()
    for name in set(sys.modules) - before:
        sys.modules.pop(name, None)


SHOP = '''
import functools
from dataclasses import dataclass
from enum import Enum, IntFlag

RAN = []
REGISTRY = []
_MISSING = object()
LIMIT = 3
DOUBLE = LIMIT * 2

def register(f):
    REGISTRY.append(f)
    RAN.append(f.__name__)
    return f

@register
def rate(x, step=2, cache={}):
    """A rate."""
    return x * step

def traced(f):
    @functools.wraps(f)
    def inner(*args):
        return f(*args)
    return inner

@traced
def traced_one(): return "old"

@functools.lru_cache(maxsize=None)
def cached(x): return x + 1

def adder(n):
    def add(x): return x + n
    return add

def counting():
    while True: yield "old"

class Status(Enum):
    """A status."""
    PAID = 1
    OPEN = 2
    def label(self): return "old " + self.name

class Plugin:
    found = []
    def __init_subclass__(cls): Plugin.found.append(cls.__name__)
class First(Plugin):
    def work(self): return "old"

class Base:
    def name(self): return "base"

class Cart(Base):
    limit = 5
    def total(self): return 1
    def name(self): return "cart"
    @property
    def size(self): return 1
    @size.setter
    def size(self, value): self.was = value
    @functools.cached_property
    def slow(self): return 1
    @staticmethod
    def unit(): return 1
    @classmethod
    def made(cls): return cls, 1

@dataclass
class Line:
    price: int
    def total(self): return self.price

table = {"a": lambda x: x + 1, "b": lambda x: x + 2}
'''


def test_a_changed_body_takes_effect_everywhere_without_running_anything(project):
    shop = project.load("shop_a", SHOP)
    cart, line = shop.Cart(), shop.Line(3)
    calls = [shop.rate, shop.traced_one, cart.total, shop.Cart.unit, shop.Cart.made, shop.First().work, line.total]
    classes = shop.Cart, shop.Line, shop.Status, shop.First
    add = shop.adder(10)
    rows = project.edit(
        "shop_a",
        ("return x * step", "return x * step * 10"),
        ('"old"', '"new"'),
        ("def total(self): return 1", "def total(self): return 9"),
        ("def unit(): return 1", "def unit(): return 9"),
        ("return cls, 1", "return cls, 9"),
        ("return self.price", "return -self.price"),
        ("return x + n", "return x - n"),
        ("\ndef adder", "\n\n# more\ndef adder"),
    )
    assert [calls[0](1), *(call() for call in calls[1:4]), calls[4]()[1], calls[5](), calls[6]()] == [
        20, "new", 9, 9, 9, "new", -3,
    ]  # fmt: skip
    assert add(1) == -9
    assert project.ran == []
    assert shop.RAN == ["rate"]
    assert [shop.rate] == shop.REGISTRY
    assert shop.Plugin.found == ["First"]
    assert classes == (shop.Cart, shop.Line, shop.Status, shop.First)
    assert project.rows() == []
    assert {name for name, kind, _ in rows if kind == "stays"} <= {"counting"}


def test_line_numbers_of_unchanged_functions_match_the_file(project):
    shop = project.load("shop_b", SHOP)
    before = shop.adder.__code__.co_firstlineno, shop.table["b"].__code__.co_firstlineno
    project.edit("shop_b", ("RAN = []", "# one\n# two\nRAN = []"))
    assert (shop.adder.__code__.co_firstlineno, shop.table["b"].__code__.co_firstlineno) == (
        before[0] + 2,
        before[1] + 2,
    )
    assert (shop.table["a"](1), shop.table["b"](1)) == (2, 3)
    assert project.ran == []


def test_enum_members_and_sentinels_keep_their_identity(project):
    shop = project.load("shop_c", SHOP)
    paid, missing, kind = shop.Status.PAID, shop._MISSING, shop.Status
    project.edit("shop_c", ("PAID = 1", "PAID = 1  # a comment"))
    project.edit("shop_c", ("OPEN = 2", "OPEN = 2\n    GONE = 3"))
    assert shop.Status is kind
    assert paid is shop.Status.PAID is shop.Status(1) is shop.Status["PAID"]
    assert [item.name for item in shop.Status] == ["PAID", "OPEN", "GONE"]
    assert isinstance(shop.Status.GONE, shop.Status)
    assert (shop.Status(3).label(), shop.Status.GONE.value) == ("old GONE", 3)
    assert shop._MISSING is missing
    is_open = shop.Status.OPEN
    assert project.edit("shop_c", ("OPEN = 2", "OPEN = 7")) == set()
    assert (is_open.value, shop.Status(7)) == (7, shop.Status.OPEN)
    assert is_open is shop.Status.OPEN
    project.edit("shop_c", ("    GONE = 3\n", ""))
    assert [item.name for item in shop.Status] == ["PAID", "OPEN"]
    assert not hasattr(shop.Status, "GONE")
    assert project.rows() == []


def test_caches_around_changed_functions_are_cleared_and_reported(project):
    shop = project.load("shop_d", SHOP)
    retained = shop.cached
    assert [retained(1), retained(2)] == [2, 3]
    rows = project.edit("shop_d", ("return x + 1\n\ndef adder", "return x + 10\n\ndef adder"))
    assert ("cached", "emptied", "2") in rows
    assert retained(1) == 11


WRAPPED_IN_CACHES = """
import functools

def loud(f):
    @functools.wraps(f)
    def inner(*given):
        return f(*given)
    return inner

def plain(f):
    def inner(*given):
        return f(*given)
    return inner

@functools.lru_cache
@loud
@plain
def twice(x):
    return x * 2

@functools.lru_cache
def other(x):
    return x
"""


def test_only_the_cache_around_a_wrapper_of_the_changed_function_is_cleared(project):
    module = project.load("wrapped_in_caches", WRAPPED_IN_CACHES)
    retained = module.twice
    assert [retained(4), module.other(1)] == [8, 1]
    rows = project.edit("wrapped_in_caches", ("return x * 2", "return x * 3"))
    assert ("twice", "emptied", "1") in rows
    assert [retained(4), module.other.cache_info().currsize] == [12, 1]


def test_running_generators_are_reported_and_cached_numbers_are_cleared(project):
    shop = project.load("shop_e", SHOP)
    running, cart = shop.counting(), shop.Cart()
    assert (next(running), cart.slow) == ("old", 1)
    rows = project.edit(
        "shop_e", ('yield "old"', 'yield "new"'), ("def slow(self): return 1", "def slow(self): return 2")
    )
    assert ("counting", "stays", "a generator is still running the previous code") in rows
    assert ("Cart.slow", "emptied", "1") in rows
    assert (next(running), cart.slow, shop.Cart().slow) == ("old", 2, 2)


CACHED_IN_INSTANCES = """\
import functools, uuid

RATE = 2

class Order:
    @functools.cached_property
    def lines(self):
        return [RATE]
    @functools.cached_property
    def token(self):
        return uuid.uuid4().hex + str(RATE)
    @functools.cached_property
    def total(self):
        return RATE * 10
"""


def test_cached_properties_are_cleared_only_if_their_values_are_not_state(project):
    module = project.load("cached_in_instances", CACHED_IN_INSTANCES)
    order = module.Order()
    lines, token = order.lines, order.token
    assert order.total == 20
    rows = project.edit("cached_in_instances", ("RATE = 2", "RATE = 3"))
    assert sorted(row for row in rows if row[0].startswith("Order.")) == [
        ("Order.lines", "stays", "line 6: 1 instances keep the value that they have cached"),
        ("Order.token", "stays", "line 9: 1 instances keep the value that they have cached"),
        ("Order.total", "emptied", "1"),
    ]
    assert order.lines is lines
    assert (order.token, order.total) == (token, 30)


def test_only_changed_defaults_and_annotations_are_applied(project):
    shop = project.load("shop_f", SHOP)
    cache = shop.rate.__defaults__[1]
    project.edit("shop_f", ("def rate(x, step=2, cache={})", "def rate(x: int, step=LIMIT, cache={}, *, more=1)"))
    assert shop.rate.__defaults__ == (3, {})
    assert shop.rate.__defaults__[1] is cache
    assert (shop.rate.__kwdefaults__, shop.rate.__annotations__) == ({"more": 1}, {"x": int})
    assert (shop.rate(2), len(shop.REGISTRY)) == (6, 1)


@pytest.mark.parametrize("new", ["LIMIT = 4", "LIMIT: int = 4"])
def test_changing_a_constant_recomputes_the_values_that_depend_on_it(project, new):
    shop = project.load("shop_g", SHOP)
    user = project.load("user_g", "from shop_g import LIMIT as most, rate\n")
    rows = project.edit("shop_g", ("LIMIT = 3", new))
    assert len(project.ran) == 1
    assert (shop.LIMIT, shop.DOUBLE, user.most) == (4, 8, 4)
    assert {kind for _, kind, _ in rows} == {"renewed"}
    assert ("most", "renewed", "") in rows
    assert project.rows() == []


def test_attributes_and_methods_are_added_to_the_existing_class(project):
    shop = project.load("shop_h", SHOP)
    kind, cart = shop.Cart, shop.Cart()
    project.edit(
        "shop_h",
        ("limit = 5", "limit = 6\n    more: int = 7\n    def half(self): return self.limit / 2"),
        ('def name(self): return "cart"', 'def name(self): return "cart of " + super().name()'),
    )
    assert shop.Cart is kind
    assert (cart.limit, cart.more, cart.half(), cart.name()) == (6, 7, 3, "cart of base")
    assert kind.__annotations__ == {"more": int}
    project.edit("shop_h", ("    def half(self): return self.limit / 2\n", ""), ("    more: int = 7\n", ""))
    assert not hasattr(cart, "half")
    assert not hasattr(cart, "more")
    assert project.rows() == []


def test_a_changed_method_decorator_reruns_only_the_code_that_depends_on_it(project):
    shop = project.load("shop_i", SHOP)
    kind, cart = shop.Cart, shop.Cart()
    project.edit(
        "shop_i",
        ("    @property\n    def size(self): return 1", "    @property\n    @traced\n    def size(self): return 5"),
    )
    cart.size = 3
    assert (shop.Cart, cart.size, cart.was) == (kind, 5, 3)
    project.edit("shop_i", ("    @staticmethod\n    def unit()", "    @classmethod\n    def unit(cls)"))
    assert cart.unit() == 1


def test_an_added_decorator_applies_to_importers_of_the_name(project):
    shop = project.load("shop_j", SHOP)
    user = project.load("user_j", "from shop_j import adder\n")
    project.edit("shop_j", ("def adder", "@functools.lru_cache\ndef adder"))
    assert user.adder is shop.adder
    assert shop.adder(1) is shop.adder(1)


def test_removed_names_are_deleted_and_importers_are_reported(project):
    shop = project.load("shop_k", SHOP)
    project.load("user_k", "from shop_k import rate\n")
    rows = project.edit(
        "shop_k", ("def rate", "def the_rate"), ("from enum import Enum, IntFlag", "from enum import Enum")
    )
    assert {("rate", "removed", ""), ("IntFlag", "removed", "")} <= rows
    assert not hasattr(shop, "rate")
    assert [(row["name"], row["kind"], row["of"]) for row in project.rows()] == [("rate", "unbound", "shop_k.rate")]
    project.edit("shop_k", ("def the_rate", "def rate"))
    assert project.rows() == []


def test_a_new_field_recreates_the_class_and_updates_its_instances(project):
    shop = project.load("shop_l", SHOP)
    line = shop.Line(3)
    rows = project.edit("shop_l", ("price: int", "price: int\n    count: int = 2"))
    assert isinstance(line, shop.Line)
    assert (line.count, shop.Line(1, 5).count) == (2, 5)
    assert ("Line", "renewed", "1") in rows


def test_functions_whose_code_object_was_copied_are_defined_again(project):
    text = """
def copied(f):
    return type(f)(f.__code__.replace(co_name="other"), f.__globals__)
@copied
def secret(): return 1
"""
    low = project.load("low_m", text)
    project.edit("low_m", ("return 1", "return 2"))
    assert low.secret() == 2


def test_rebound_names_are_restored_to_their_definition_in_the_file(project):
    shop = project.load("shop_n", SHOP)
    exec(compile("def rate(x): return 'mine'\nLIMIT = 9", "<eval 1>", "exec"), shop.__dict__)
    assert {row["name"] for row in project.rows()} == {"rate", "LIMIT"}
    project.edit("shop_n", ("return x * step", "return x"))
    assert (shop.rate(1), shop.LIMIT) == (1, 9), "values are the module's state"
    assert {row["name"] for row in project.rows()} == {"LIMIT"}
    project.edit("shop_n", ("LIMIT = 3", "LIMIT = 4"))
    assert shop.LIMIT == 4
    assert project.rows() == []


def test_undoing_a_load_restores_everything(project):
    shop = project.load("shop_o", SHOP)
    before = SHOP
    paid, rate, code = shop.Status.PAID, shop.rate, shop.rate.__code__
    project.edit(
        "shop_o",
        ("return x * step", "return x"),
        ("step=2", "step=5"),
        ("PAID = 1", "PAID = 8\n    GONE = 3"),
        ("limit = 5", "limit = 6\n    def half(self): return 1"),
        ("LIMIT = 3", "LIMIT = 4"),
        hold="act",
    )
    assert (shop.Status.PAID.value, shop.Cart.limit, shop.LIMIT, shop.rate.__defaults__[0]) == (8, 6, 4, 5)
    (project.folder / "shop_o.py").write_text(before)
    assert project.holds.close_record("act", puts_back=True) == []
    assert (shop.Status.PAID, shop.rate, shop.rate.__code__) == (paid, rate, code)
    assert (shop.Cart.limit, shop.LIMIT, shop.rate.__defaults__[0], hasattr(shop.Cart, "half")) == (5, 3, 2, False)
    assert list(shop.Status) == [paid, shop.Status.OPEN]
    assert project.rows() == []


def test_a_full_reload_reports_the_objects_whose_identity_it_breaks(project):
    shop = project.load("shop_p", SHOP)
    paid = shop.Status.PAID
    rows = project.edit("shop_p", whole=True)
    assert paid != shop.Status.PAID
    assert {name for name, kind, _ in rows if kind == "stays"} == {"Status", "_MISSING"}


def test_only_a_changed_statement_runs_and_returns_its_value(project):
    shop = project.load("shop_q", SHOP)
    project.edit("shop_q", ('table = {"a"', 'RAN.append("more")\ntable = {"c": len, "a"'))
    assert (shop.RAN, sorted(shop.table)) == (["rate", "more"], ["a", "b", "c"])
    (project.folder / "shop_q.py").write_text((project.folder / "shop_q.py").read_text() + "LIMIT + 1\n")
    project.edit("shop_q")
    assert project.value == 4


@pytest.mark.parametrize(("change", "calls"), [
    (("def rate", "@functools.lru_cache\ndef rate"), 1),
    (("LIMIT = 3", "LIMIT = 4"), 0),
])  # fmt: skip
def test_imported_names_are_updated_along_every_import(project, change, calls):
    low = project.load("low_r", "import functools\nLIMIT = 3\ndef rate(x):\n    return x * LIMIT\n")
    middle = project.load("middle_r", "from low_r import rate, LIMIT as most\n")
    high = project.load("high_r", "from middle_r import rate as price, most\nkept = [price]\n")
    star = project.load("star_r", "from low_r import *\n")
    own = project.load("own_r", "from low_r import rate, LIMIT\nrate = LIMIT = 'mine'\n")
    project.edit("low_r", change)
    assert {low.rate, middle.rate, high.price, star.rate} == {low.rate}
    assert {low.LIMIT, middle.most, high.most, star.LIMIT} == {low.LIMIT}
    assert (own.rate, own.LIMIT) == ("mine", "mine")
    assert low.rate(2) == low.LIMIT * 2
    low.rate(2)
    assert not calls or low.rate.cache_info().hits == 1


def test_an_argparse_argument_that_conflicts_with_its_previous_version_is_reported(project):
    text = (
        "import argparse\ndef make():\n    print('made')\n    return argparse.ArgumentParser()\n"
        "parser = make()\nparser.add_argument('--all', action='store_const', const=0)\nLIMIT = 1\n"
    )
    module = project.load("arguments_c", text)
    rows = project.edit("arguments_c", ("const=0", "const=9"), ("LIMIT = 1", "LIMIT = 2"))
    reasons = [reason for _, kind, reason in rows if kind == "stays"]
    start = "line 6: the statement was not applied, because its previous version is still in effect"
    assert any(reason.startswith(start) for reason in reasons)
    assert module.parser.parse_args(["--all"]).all == 0
    assert module.LIMIT == 2


def test_a_name_imported_through_the_dict_of_a_module_is_updated(project):
    low = project.load("low_v", "import functools\ndef rate(x):\n    return x\n")
    high = project.load("high_v", "import low_v, sys\nprice = vars(sys.modules['low_v'])['rate']\n")
    project.edit("low_v", ("def rate", "@functools.lru_cache\ndef rate"))
    assert high.price is low.rate
    assert project.rows() == []


def test_an_old_object_still_referenced_by_another_module_is_reported(project):
    low = project.load("low_s", "import functools\ndef rate(x):\n    return x\n")
    project.load("high_s", "import low_s\nprice = eval('low_s.' + 'ra' + 'te')\n")
    project.edit("low_s", ("def rate", "@functools.lru_cache\ndef rate"))
    assert low.rate(1) == 1
    assert [(row["module"], row["name"], row["kind"]) for row in project.rows()] == [("high_s", "price", "old")]


NESTED = "class A:\n    class Meta:\n        order = 1\n        def f(self): return 1\nclass __compat__:\n    x = 1\n"


def test_stale_nested_classes_are_reported_without_false_alarms_for_dunder_classes(project):
    module = project.load("nested_t", NESTED)
    assert project.rows() == []
    exec(compile("A.Meta.order = 5\nA.Meta.f = lambda self: 2", "<eval 1>", "exec"), module.__dict__)
    assert {(row["name"], row["kind"]) for row in project.rows()} == {
        ("A.Meta.order", "redefined"),
        ("A.Meta.f", "redefined"),
    }


def test_an_alias_of_another_class_causes_no_false_alarm(project):
    module = project.load("alias_u", "class A: w = 'A'\nclass B: w = 'B'\nBASE = A\n")
    project.edit("alias_u", ("BASE = A", "BASE = B"))
    assert module.BASE is module.B
    assert project.rows() == []


def test_a_finished_mock_patch_causes_no_false_alarm(project):
    module = project.load("patched_v", "def f(): return 1\n")
    patch = mock.patch("patched_v.f", return_value=99)
    patch.start()
    project.edit("patched_v", ("return 1", "return 5"))
    patch.stop()
    assert module.f() == 5
    assert project.rows() == []


def test_a_module_from_an_archive_is_not_reported_as_deleted(project):
    archive = project.folder / "low.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("zipped_w.py", "X = 1\n")
    sys.path.insert(0, str(archive))
    try:
        importlib.import_module("zipped_w")
    finally:
        sys.path.remove(str(archive))
    project.texts.record_names()
    project.texts.read_recent_sources()
    assert [row for row in project.rows() if row["kind"] == "deleted"] == []


@pytest.mark.skipif(sys.version_info < (3, 10), reason="match came with Python 3.10")
def test_redefining_a_name_bound_by_a_match_statement_is_reported(project):
    module = project.load("matching_x", "match 3:\n    case _:\n        R = 1\n")
    module.R = 7
    assert [(row["name"], row["kind"]) for row in project.rows()] == [("R", "redefined")]


def test_attributes_of_a_proxy_are_not_accessed(project):
    """A proxy of a web framework raises an error outside of a request."""
    project.load(
        "proxies",
        "class Proxy:\n"
        "    @property\n    def __dict__(self): raise RuntimeError('no request')\n"
        "    @property\n    def __class__(self): raise RuntimeError('no request')\n"
        "    def __call__(self): raise RuntimeError('no request')\n"
        "class App:\n"
        "    def __init__(self): self.rules, self.request = {}, Proxy()\n"
        "    def post(self, rule):\n        def decorate(f):\n            self.rules[rule] = f\n            return f\n"
        "        return decorate\n",
    )
    module = project.load(
        "shopping",
        "from proxies import App\napp = App()\nrequest = app.request\nstate = {'stock': {}, 'orders': []}\n"
        "@app.post('/')\ndef order():\n    wish = request.get_json()\n"
        "    state['orders'].append(wish)\n    return state\n",
    )
    project.edit("shopping", ("    state['orders']", "    total = 1\n    state['orders']"))
    assert module.order.__code__ is module.app.rules["/"].__code__
    assert "total" in module.order.__code__.co_varnames
