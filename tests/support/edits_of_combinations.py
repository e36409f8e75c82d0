"""Edits of small programs of several modules: settings, registries, events, reports, web services and tasks."""

from edit_cases import edits_of, with_expected

RATES_M = """\
import enum
import functools
from dataclasses import dataclass, field
import rates
from rates import BASE, Currency, convert
from rates import fee as default_fee
LIMITS = {c: BASE * c.value for c in Currency}
NAMES = tuple(c.name.lower() for c in Currency)
DEFAULTS = dict(fee=default_fee(100), rounded=rates.ROUND(2.345))
@dataclass(order=True)
class Money:
    amount: int = BASE
    currency: Currency = Currency.EUR
    tags: list = field(default_factory=lambda: list(rates.TAGS))
    def to(self, currency):
        return convert(self.amount, self.currency, currency)
@dataclass(frozen=True)
class Price(Money if not rates.FROZEN else object):
    label: str = f'{rates.PREFIX}-price'
def describe(money, *, prefix=rates.PREFIX, fee=default_fee):
    return f'{prefix}:{money.amount}:{fee(money.amount)}'
to_dollars = functools.partial(convert, target=Currency.USD)
@functools.singledispatch
def show(value):
    return 'any'
@show.register
def _(value: Money):
    return 'money ' + describe(value)
@show.register(int)
@show.register(float)
def _number(value):
    return f'number {rates.ROUND(value)}'
"""
RATES = {
    "rates": """\
import enum
import functools
BASE = 10
TAGS = ['new']
PREFIX = 'EU'
FROZEN = True
ROUND = functools.partial(round, ndigits=1)
class Currency(enum.Enum):
    EUR = 1
    USD = 2
    @property
    def symbol(self):
        return {'EUR': 'e', 'USD': '$'}[self.name]
    @classmethod
    def parse(cls, text):
        return cls[text.upper()]
_TABLE = {(a, b): b.value / a.value for a in Currency for b in Currency}
def convert(amount, source, target=Currency.EUR):
    return amount * _TABLE[source, target]
@functools.lru_cache(maxsize=None)
def fee(amount):
    return amount // BASE
""",
}
RATES_PROBES = (
    "m.LIMITS, m.NAMES, m.DEFAULTS", "m.Money(), m.Money(3).to(rates.Currency.USD), m.Price().label", "m.describe(m.Money(50))", "m.to_dollars(6, m.Currency.EUR)", "m.show(m.Money()), m.show(2.345), m.show('a')",
    "[(c.name, c.value, c.symbol) for c in rates.Currency], rates.Currency.parse('usd') is m.Currency.USD", "rates.convert(4, m.Currency.USD), m.default_fee(95)", "m.Money(1) < m.Money(2), m.Price.__mro__[1].__name__",
)  # fmt: skip
RATES_EDITS = edits_of(
    "rates",
    RATES_M,
    [
        ("a base in another module", "BASE = 10", "BASE = 20", RATES_PROBES),
        ("a currency more", "    USD = 2\n", "    USD = 2\n    GBP = 3\n", RATES_PROBES),
        ("a currency's value", "USD = 2", "USD = 4", RATES_PROBES),
        ("a default tag", "TAGS = ['new']", "TAGS = ['new', 'hot']", RATES_PROBES),
        ("a prefix that is a default", "PREFIX = 'EU'", "PREFIX = 'US'", RATES_PROBES),
        ("a partial's argument", "ndigits=1", "ndigits=2", RATES_PROBES),
        ("a property of an enumeration", "'EUR': 'e'", "'EUR': 'E'", RATES_PROBES),
        ("a body under a cache", "return amount // BASE", "return amount // BASE + 1", RATES_PROBES),
        ("a cache's decorator removed", "@functools.lru_cache(maxsize=None)\ndef fee", "def fee", (*RATES_PROBES, "hasattr(rates.fee, 'cache_info'), hasattr(m.default_fee, 'cache_info')")),
        ("an expression of a table", "b.value / a.value", "b.value * 10 / a.value", RATES_PROBES),
        ("a default of a function", "target=Currency.EUR", "target=Currency.USD", RATES_PROBES),
        ("a mixed-in method of an enumeration", "text.upper()", "text.strip().upper()", (*RATES_PROBES, "rates.Currency.parse(' eur ')")),
    ],
    others=RATES,
    edited="rates",
)  # fmt: skip
RATES_EDITS += edits_of(
    "money",
    RATES_M,
    [
        ("a field more", "    tags: list", "    note: str = 'n'\n    tags: list", RATES_PROBES),
        ("an order removed", "@dataclass(order=True)", "@dataclass", RATES_PROBES),
        ("a class with slots", "@dataclass(order=True)", "@dataclass(order=True, slots=True)", (*RATES_PROBES, "hasattr(m.Money(), '__dict__')")),
        ("a registered type more", "@show.register(float)\n", "@show.register(float)\n@show.register(complex)\n", (*RATES_PROBES, "sorted(t.__name__ for t in m.show.registry)")),
        ("a registered type less", "@show.register(float)\n", "", (*RATES_PROBES, "sorted(t.__name__ for t in m.show.registry)")),
        ("an import under another name", "from rates import fee as default_fee", "from rates import fee as default_fee, ROUND as rounded", (*RATES_PROBES, "m.rounded(1.23)")),
        ("a partial's keyword", "target=Currency.USD", "target=Currency.EUR", RATES_PROBES),
    ],
    others=RATES,
)  # fmt: skip

CONF_M = """\
import conf
from conf import settings, DEBUG
import conf.loader as loading
from conf.loader import Setting
from conf.fields import *
class Page:
    size = settings.page_size
    title = Text(default=conf.TITLE, max_length=20)
    count = Number()
    flags = [name for name in dir(settings) if name.startswith('use_')]
class Wide(Page):
    count = Number(default=loading.WIDE)
def render(page=None, size=settings.page_size, *, debug=DEBUG):
    page = page or Page()
    return f'{page.title}|{page.count}|{size}|{debug}'
if DEBUG:
    def trace(*args):
        return ('trace', args)
else:
    def trace(*args):
        return None
try:
    from conf.fields import Money
except ImportError:
    Money = None
"""
CONF = {
    "conf.__init__": """\
from .loader import load, Setting
TITLE = 'start'
DEBUG = False
settings = load(Setting('page_size', 10), Setting('use_cache', True), Setting('use_log', DEBUG))
def __getattr__(name):
    if name.startswith('get_'):
        return lambda: getattr(settings, name[4:])
    raise AttributeError(name)
""",
    "conf.loader": """\
import types
from typing import NamedTuple
WIDE = 80
class Setting(NamedTuple):
    name: str
    default: object = None
    def read(self, source):
        return source.get(self.name.upper(), self.default)
ENVIRON = {'PAGE_SIZE': 25}
def load(*found):
    return types.SimpleNamespace(**{s.name: s.read(ENVIRON) for s in found})
""",
    "conf.fields": """\
__all__ = ['Text', 'Number']
MAX = 100
class Field:
    kind = object
    registry = {}
    def __init_subclass__(cls, **words):
        super().__init_subclass__(**words)
        Field.registry[cls.__name__.lower()] = cls
    def __init__(self, default=None, **options):
        self.default = self.kind() if default is None else default
        self.options = options
    def __set_name__(self, owner, name):
        self.name = name
        owner.__dict__.get('fields', ())
    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        return instance.__dict__.get(self.name, self.default)
    def __set__(self, instance, value):
        instance.__dict__[self.name] = self.clean(value)
    def clean(self, value):
        return self.kind(value)
class Text(Field):
    kind = str
    def clean(self, value):
        return super().clean(value)[:self.options.get('max_length', MAX)]
class Number(Field):
    kind = int
""",
}
CONF_PROBES = (
    "m.Page.size, m.Page.flags, m.Page.title.default, m.Page.title.options", "m.render(), m.render(size=1), m.render(m.Wide())", "m.trace(1), m.Money", "sorted(m.Field.registry) if hasattr(m, 'Field') else None, sorted(conf.fields.Field.registry)",
    "conf.get_page_size(), vars(conf.settings)", "(lambda p: (setattr(p, 'title', 'x' * 200), len(p.title)))(m.Page())", "sorted(n for n in vars(m) if n[:1].isupper())", "(lambda p: (setattr(p, 'count', '7'), p.count))(m.Wide())", "m.Setting('a').read({'A': 1}), m.Setting('q')",
)  # fmt: skip
CONF_EDITS = [
    *edits_of("conf", CONF_M, [
        ("a title", "TITLE = 'start'", "TITLE = 'home'", CONF_PROBES, {"edited": "conf.__init__"}),
        ("a flag", "DEBUG = False", "DEBUG = True", CONF_PROBES, {"edited": "conf.__init__"}),
        ("a setting's name", "Setting('use_cache', True)", "Setting('use_store', True)", CONF_PROBES, {"edited": "conf.__init__"}),
        ("a setting more", "Setting('use_log', DEBUG))", "Setting('use_log', DEBUG), Setting('use_mail', 1))", CONF_PROBES, {"edited": "conf.__init__"}),
        ("the getter of a module", "name.startswith('get_')", "name.startswith(('get_', 'ask_'))", (*CONF_PROBES, "conf.ask_page_size()"), {"edited": "conf.__init__"}),
        ("an environment", "'PAGE_SIZE': 25", "'PAGE_SIZE': 50", CONF_PROBES, {"edited": "conf.loader"}),
        ("a method of a named tuple", "self.name.upper()", "self.name", CONF_PROBES, {"edited": "conf.loader"}),
        ("a field of a named tuple", "    default: object = None\n", "    default: object = None\n    help: str = ''\n", CONF_PROBES, {"edited": "conf.loader"}),
        ("a width", "WIDE = 80", "WIDE = 120", CONF_PROBES, {"edited": "conf.loader"}),
        ("a name more in __all__", "['Text', 'Number']", "['Text', 'Number', 'Field']", CONF_PROBES, {"edited": "conf.fields"}),
        ("a name less in __all__", "['Text', 'Number']", "['Text', 'Number', 'MAX']", CONF_PROBES, {"edited": "conf.fields"}),
        ("a kind of field that is tried", "class Number(Field):", "class Money(Field):\n    kind = float\nclass Number(Field):", CONF_PROBES, {"edited": "conf.fields"}),
        ("a kind's type", "kind = int", "kind = float", CONF_PROBES, {"edited": "conf.fields"}),
        ("a key of subclasses", "cls.__name__.lower()", "cls.__name__.upper()", CONF_PROBES, {"edited": "conf.fields"}),
        ("a maximum", "MAX = 100", "MAX = 150", (*CONF_PROBES, "m.Text().clean('x' * 200)"), {"edited": "conf.fields"}),
        ("a constructor", "self.options = options", "self.options = dict(sorted(options.items()), required=True)", CONF_PROBES, {"edited": "conf.fields"}),
        ("a guard turned", "if DEBUG:", "if not DEBUG:", CONF_PROBES),
        ("a field's default", "Number()", "Number(default=3)", CONF_PROBES),
        ("a comprehension's test", "startswith('use_')", "startswith('page_')", CONF_PROBES),
        ("a tried import of another name", "from conf.fields import Money", "from conf.fields import Field as Money", CONF_PROBES),
    ], others=CONF),
]  # fmt: skip

EVENTS_M = """\
import asyncio
import contextlib
from bus import Bus, on, HANDLERS, audit
from bus import bus as main_bus
import steps
LOG = []
@on('start', priority=5)
def started(event):
    LOG.append(('started', event))
    return 'm.started'
@on('stop')
async def stopped(event):
    await asyncio.sleep(0)
    return f'm.stopped {event}'
class Worker:
    @audit(level=2)
    def work(self, n):
        return n * steps.FACTOR
    @audit()
    def rest(self):
        return 'rest'
@contextlib.contextmanager
def session(name='main'):
    LOG.append('open ' + name)
    try:
        yield name.upper()
    finally:
        LOG.append('close ' + name)
def numbers(limit=steps.LIMIT):
    for n in range(limit):
        yield n * steps.FACTOR
PIPELINE = [steps.strip, steps.lower]
PIPELINE += [steps.title]
PIPELINE.append(lambda text: text + steps.END)
def process(text):
    for step in PIPELINE:
        text = step(text)
    return text
local = Bus('local')
local.add('ping', lambda e: 'pong')
STATE = {'bus': local, 'runs': 0}
def run(name, event=None):
    async def all_of():
        found = []
        for handler in main_bus.handlers(name):
            out = handler(event)
            found.append(await out if asyncio.iscoroutine(out) else out)
        return found
    return asyncio.run(all_of())
"""
EVENTS = {
    "bus": """\
import functools
from collections import defaultdict
HANDLERS = defaultdict(list)
DEFAULT_PRIORITY = 1
CALLS = []
def on(name, priority=DEFAULT_PRIORITY):
    def register(fn):
        HANDLERS[name].append((priority, fn))
        return fn
    return register
def audit(level=1):
    def decorate(fn):
        @functools.wraps(fn)
        def wrapper(*args, **words):
            CALLS.append((fn.__name__, level))
            return fn(*args, **words)
        wrapper.level = level
        return wrapper
    return decorate
class Bus:
    registry = []
    def __init__(self, name):
        self.name = name
        self.own = {}
        Bus.registry.append(self)
    def add(self, name, fn):
        self.own[name] = fn
    def handlers(self, name):
        return [fn for _, fn in sorted(HANDLERS[name], key=lambda item: -item[0])]
bus = Bus('main')
""",
    "steps": """\
FACTOR = 2
LIMIT = 3
END = '.'
def strip(text):
    return text.strip()
def lower(text):
    return text.lower()
def title(text):
    return text.title()
""",
    "plugins": """\
import bus
from bus import on
@on('start')
def loaded(event):
    return 'plugins.loaded'
@on('start', 9)
def first(event):
    return 'plugins.first'
bus.bus.add('x', first)
""",
}
EVENTS_PROBES = (
    "m.run('start', 1), m.run('stop', 2), m.run('other')", "{k: [(p, f.__name__) for p, f in v] for k, v in sorted(m.HANDLERS.items()) if v}", "(m.Worker().work(3), bus.CALLS[-1]), m.Worker.work.level, m.Worker.rest.level, m.Worker.work.__name__",
    "[(b.name, sorted(b.own)) for b in bus.Bus.registry], m.local is m.STATE['bus']", "(m.LOG.clear(), m.session().__enter__(), m.LOG[:])[1:]", "list(m.numbers()), list(m.numbers(2))", "m.process(' aBC '), len(m.PIPELINE)", "m.local.own['ping'](0), sorted(m.main_bus.own)", "m.main_bus is bus.bus, [f.__name__ for f in m.PIPELINE]",
)  # fmt: skip
EVENTS_EDITS = edits_of(
    "events",
    EVENTS_M,
    [
        ("a priority", "priority=5", "priority=10", EVENTS_PROBES),
        ("an event's name", "@on('stop')", "@on('halt')", (*EVENTS_PROBES, "m.run('halt', 3)")),
        ("a handler removed", "@on('stop')\n", "", EVENTS_PROBES),
        ("a handler more", "class Worker", "@on('start')\ndef again(event):\n    return 'again'\nclass Worker", EVENTS_PROBES),
        ("an asynchronous body", "f'm.stopped {event}'", "f'm.ended {event}'", EVENTS_PROBES),
        ("a function that becomes asynchronous", "def started(event):", "async def started(event):", EVENTS_PROBES),
        ("an argument of a decorator", "@audit(level=2)", "@audit(level=3)", EVENTS_PROBES),
        ("a decorator less on a method", "    @audit()\n", "", (*EVENTS_PROBES, "hasattr(m.Worker.rest, 'level')")),
        ("a generator's body", "yield n * steps.FACTOR", "yield n + steps.FACTOR", EVENTS_PROBES),
        ("a step more by a sum", "PIPELINE += [steps.title]", "PIPELINE += [steps.title, len, str]", EVENTS_PROBES),
        ("a lambda that is appended", "text + steps.END", "text + steps.END * 2", EVENTS_PROBES),
        ("a lambda of an object", "'pong'", "'PONG'", EVENTS_PROBES),
        ("a name of a bus", "Bus('local')", "Bus('own')", EVENTS_PROBES),
        ("a default name of a context", "session(name='main')", "session(name='side')", EVENTS_PROBES),
        ("a step's order", "[steps.strip, steps.lower]", "[steps.lower, steps.strip]", EVENTS_PROBES),
        ("a default priority", "DEFAULT_PRIORITY = 1", "DEFAULT_PRIORITY = 7", EVENTS_PROBES, {"edited": "bus"}),
        ("a wrapper's body", "(fn.__name__, level)", "(fn.__qualname__, level)", EVENTS_PROBES, {"edited": "bus"}),
        ("an attribute of a wrapper", "wrapper.level = level", "wrapper.level = level * 10", EVENTS_PROBES, {"edited": "bus"}),
        ("a default of a decorator", "def audit(level=1)", "def audit(level=4)", EVENTS_PROBES, {"edited": "bus"}),
        ("a body of a registering decorator", "HANDLERS[name].append((priority, fn))", "HANDLERS[name].append((-priority, fn))", EVENTS_PROBES, {"edited": "bus"}),
        ("a handler of a plugin", "'plugins.loaded'", "'plugins.ready'", EVENTS_PROBES, {"edited": "plugins"}),
        ("a priority of a plugin", "@on('start', 9)", "@on('start', 2)", EVENTS_PROBES, {"edited": "plugins"}),
        ("a function's other name in a plugin", "def first(event)", "def early(event)", EVENTS_PROBES, {"edited": "plugins", "more": (("plugins", "'x', first", "'x', early"),)}),
        ("a factor", "FACTOR = 2", "FACTOR = 5", EVENTS_PROBES, {"edited": "steps"}),
        ("a limit that is a default", "LIMIT = 3", "LIMIT = 4", EVENTS_PROBES, {"edited": "steps"}),
        ("a step's body", "return text.title()", "return text.upper()", EVENTS_PROBES, {"edited": "steps"}),
        ("a step that becomes a class", "def strip(text):\n    return text.strip()\n", "class strip(str):\n    def __new__(cls, text):\n        return str.__new__(cls, text.strip())\n", EVENTS_PROBES, {"edited": "steps"}),
        ("a step that becomes partial", "def lower(text):\n    return text.lower()\n", "import functools\nlower = functools.partial(str.lower)\nlower.__name__ = 'lower'\n", EVENTS_PROBES, {"edited": "steps"}),
    ],
    others=EVENTS,
)  # fmt: skip

SHAPES_M = """\
from abc import ABC, abstractmethod
from typing import Protocol, TypedDict, runtime_checkable, NamedTuple
from functools import cached_property, total_ordering
from meta import Model, Registry, options
import units
@runtime_checkable
class Named(Protocol):
    name: str
    def rename(self, name): ...
class Options(TypedDict, total=False):
    width: int
    height: int
class Point(NamedTuple):
    x: int
    y: int = units.ORIGIN
class Shape(ABC):
    sides = 0
    name = 'shape'
    @abstractmethod
    def area(self): ...
    def rename(self, name):
        self.name = name
    @cached_property
    def scaled(self):
        return self.area() * units.SCALE
    @property
    def label(self):
        return f'{self.name} of {self.sides}'
    @staticmethod
    def parse(text):
        return text.split('x')
    @classmethod
    def make(cls, text):
        return cls(*map(int, cls.parse(text)))
@total_ordering
class Square(Shape):
    sides = 4
    __slots__ = ('a',)
    def __init__(self, a=1):
        self.a = a
    def area(self):
        return self.a ** 2
    def __eq__(self, other):
        return self.a == other.a
    def __lt__(self, other):
        return self.a < other.a
    __hash__ = object.__hash__
class Stored(Model, table='stored'):
    key: int
    text: str
    unit: units.Unit = units.Unit.CM
class Special(Stored):
    extra: float
@options(plural='things')
class Thing(Model):
    label: str
KINDS = {cls.__name__: cls for cls in (Square, Stored, Thing)}
FAVOURITE = Square(3)
"""
SHAPES = {
    "meta": """\
Registry = {}
PREFIX = 'app_'
class ModelMeta(type):
    def __new__(mcls, name, bases, space, table=None, **words):
        cls = super().__new__(mcls, name, bases, space, **words)
        cls.table = PREFIX + (table or name.lower())
        cls.fields = {**getattr(cls, 'fields', {}), **space.get('__annotations__', {})}
        if bases:
            Registry[cls.table] = cls
        return cls
    def __len__(cls):
        return len(cls.fields)
class Model(metaclass=ModelMeta):
    def __init__(self, **values):
        unknown = set(values) - set(self.fields)
        if unknown:
            raise TypeError(unknown)
        self.__dict__.update(values)
    def __repr__(self):
        return f'<{type(self).__name__} {self.__dict__}>'
def options(**words):
    def apply(cls):
        for key, value in words.items():
            setattr(cls, key, value)
        return cls
    return apply
""",
    "units": """\
import enum
ORIGIN = 0
SCALE = 10
class Unit(str, enum.Enum):
    CM = 'cm'
    MM = 'mm'
class Flag(enum.IntFlag):
    A = enum.auto()
    B = enum.auto()
    ALL = A | B
""",
    "views": """\
from m import FAVOURITE, KINDS, Shape, Square, Stored
import m as shapes
import units
class Rectangle(Shape):
    sides = 4
    def __init__(self, a=1, b=2):
        self.a, self.b = a, b
    def area(self):
        return self.a * self.b
class Archived(Stored, table='archive'):
    year: int
AREAS = {name: kind.__name__ for name, kind in KINDS.items()}
BEST = max([FAVOURITE, Square(2)])
def table(width=len(Stored), flags=units.Flag.ALL):
    return width, flags, [k for k in shapes.Registry]
""",
}
SHAPES_PROBES = (
    "m.Point(1), m.Point._fields, m.Options.__annotations__.keys(), m.Options.__total__", "raised(m.Shape), m.Square(2).scaled, str(m.Square(2).label).split(' of <')[0], str(m.FAVOURITE.label).split(' of <')[0], m.FAVOURITE.scaled", "m.Square.make('3').a, raised(lambda: views.Rectangle.make('2x3').scaled)", "m.Square(1) <= m.Square(2), m.FAVOURITE > m.Square(1), views.BEST.a",
    "sorted(m.Registry), [(n, c.fields) for n, c in sorted(m.Registry.items())]", "len(m.Stored), raised(lambda: m.Stored(key=1)), raised(lambda: m.Special(extra=1, q=2)), m.Stored.unit", "m.Thing.plural, m.Thing.table, sorted(m.KINDS), views.AREAS", "views.table(), views.Archived.fields, views.Archived.table", "isinstance(m.Square(), m.Named), isinstance(views.Rectangle(), m.Named), isinstance(3, m.Named)", "[(f.name, f.value) for f in units.Flag], [u.value for u in units.Unit]", "all(cls is getattr(m, name) for name, cls in m.KINDS.items()), views.Stored is m.Stored, views.Rectangle.__mro__[1] is m.Shape", "raised(views.Rectangle), raised(m.Square)", "type(m.FAVOURITE) is m.Square",
)  # fmt: skip
SHAPES_SETUP = """\
def raised(act):
    try:
        return repr(act()).split(' at 0x')[0]
    except Exception as error:
        return type(error).__name__, str(error)
"""
SHAPES_EDITS = edits_of(
    "shapes",
    SHAPES_M,
    [
        ("an abstract method more", "    def rename", "    @abstractmethod\n    def draw(self): ...\n    def rename", SHAPES_PROBES),
        ("an abstract method less", "    @abstractmethod\n    def area(self): ...", "    def area(self):\n        return 0", SHAPES_PROBES),
        ("a cached property's body", "self.area() * units.SCALE", "self.area() + units.SCALE", SHAPES_PROBES),
        ("a property that becomes a method", "    @property\n    def label", "    def label", (*SHAPES_PROBES, "m.Square().label()")),
        ("a static method that becomes a class method", "    @staticmethod\n    def parse(text):", "    @classmethod\n    def parse(cls, text):", SHAPES_PROBES),
        ("a field of a named tuple", "    y: int = units.ORIGIN\n", "    y: int = units.ORIGIN\n    z: int = 5\n", SHAPES_PROBES),
        ("a key of a typed dictionary", "    height: int\n", "    height: int\n    depth: int\n", SHAPES_PROBES),
        ("a total typed dictionary", "total=False", "total=True", SHAPES_PROBES),
        ("a method of a protocol", "    def rename(self, name): ...\n", "    def rename(self, name): ...\n    def drop(self): ...\n", SHAPES_PROBES),
        ("a slot more", "__slots__ = ('a',)", "__slots__ = ('a', 'b')", (*SHAPES_PROBES, "'b' in vars(m.Square)")),
        ("a comparison", "return self.a < other.a", "return self.a > other.a", SHAPES_PROBES),
        ("a number of sides", "    sides = 4\n    __slots__", "    sides = 44\n    __slots__", SHAPES_PROBES),
        ("a column more", "    text: str\n", "    text: str\n    size: int\n", SHAPES_PROBES),
        ("a table's name", "table='stored'", "table='kept'", SHAPES_PROBES),
        ("a base that changes", "class Special(Stored)", "class Special(Thing2)", SHAPES_PROBES, {"more": (("m", "class Special", "class Thing2(Model):\n    y: int\nclass Special"),)}),
        ("a decorator's keyword", "plural='things'", "plural='thingies', hidden=True", (*SHAPES_PROBES, "m.Thing.hidden")),
        ("a class that leaves a table", "(Square, Stored, Thing)", "(Square, Thing)", SHAPES_PROBES),
        ("a class renamed", "class Special(Stored)", "class Extra(Stored)", SHAPES_PROBES),
        ("an object of a class", "Square(3)", "Square(1)", SHAPES_PROBES),
        ("a prefix of a metaclass", "PREFIX = 'app_'", "PREFIX = 'site_'", SHAPES_PROBES, {"edited": "meta"}),
        ("a body of a metaclass", "(table or name.lower())", "(table or name.upper())", SHAPES_PROBES, {"edited": "meta"}),
        ("a method of a metaclass", "return len(cls.fields)", "return len(cls.fields) + 100", SHAPES_PROBES, {"edited": "meta"}),
        ("a body of a class decorator", "setattr(cls, key, value)", "setattr(cls, key, value.upper())", SHAPES_PROBES, {"edited": "meta"}),
        ("a message of a model", "raise TypeError(unknown)", "raise TypeError(sorted(unknown), 'unknown')", SHAPES_PROBES, {"edited": "meta"}),
        ("an origin", "ORIGIN = 0", "ORIGIN = 9", SHAPES_PROBES, {"edited": "units"}),
        ("a scale", "SCALE = 10", "SCALE = 100", SHAPES_PROBES, {"edited": "units"}),
        ("a unit's value", "CM = 'cm'", "CM = 'centimetre'", SHAPES_PROBES, {"edited": "units"}),
        ("a flag more in front", "    A = enum.auto()\n", "    Z = enum.auto()\n    A = enum.auto()\n", SHAPES_PROBES, {"edited": "units"}),
    ],
    others=SHAPES,
    setup=SHAPES_SETUP,
)  # fmt: skip

SITE_M = """\
from flask import Flask
from site_config import Config, FEATURES
import site_api as api
from site_api import bp, limit
from site_filters import register
def create_app(config=Config):
    app = Flask('site')
    app.config.from_object(config)
    app.register_blueprint(bp, url_prefix='/v1')
    app.register_error_handler(KeyError, api.missing)
    register(app)
    return app
app = create_app()
@app.before_request
def count():
    STATE['requests'] = STATE.get('requests', 0) + 1
STATE = {}
@app.route('/')
@limit(2)
def index():
    return app.jinja_env.from_string('{{ "ab"|shout }} {{ site }}').render(site=app.config['SITE'])
@app.get('/features')
def features():
    return ','.join(FEATURES)
@app.cli.command('greet')
def greet():
    print('hello')
@app.context_processor
def inject():
    return {'version': Config.VERSION}
if 'beta' in FEATURES:
    @app.get('/beta')
    def beta():
        return 'beta'
"""
SITE = {
    "site_config": """\
FEATURES = ('search', 'export')
class Base:
    SITE = 'base'
    VERSION = 1
    PAGE = 10
class Config(Base):
    SITE = 'main'
    TESTING = True
""",
    "site_api": """\
import functools
from flask import Blueprint, request, jsonify, current_app
import site_config
bp = Blueprint('api', __name__)
def limit(n):
    def decorate(view):
        @functools.wraps(view)
        def wrapped(*args, **words):
            if int(request.args.get('n', 0)) > n:
                return 'too many', 429
            return view(*args, **words)
        return wrapped
    return decorate
def missing(error):
    return f'missing {error}', 404
class Boom(Exception):
    code = 418
@bp.errorhandler(Boom)
def on_boom(error):
    return f'boom {error}', error.code
@bp.before_request
def check():
    if request.headers.get('X-Bad'):
        return 'bad', 400
@bp.after_request
def stamp(response):
    response.headers['X-Page'] = str(site_config.Config.PAGE)
    return response
@bp.route('/items/<int:key>', methods=['GET', 'POST'])
@limit(5)
def item(key):
    if key > 100:
        raise Boom(key)
    return jsonify(key=key, page=current_app.config['PAGE'])
@bp.route('/lost')
def lost():
    return {}['x']
""",
    "site_filters": """\
FILTERS = {}
def template_filter(fn=None, *, name=None):
    def keep(fn):
        FILTERS[name or fn.__name__] = fn
        return fn
    return keep(fn) if fn else keep
@template_filter
def shout(text):
    return text.upper() + '!'
@template_filter(name='quiet')
def whisper(text):
    return text.lower()
def register(app):
    app.jinja_env.filters.update(FILTERS)
    app.jinja_env.globals['year'] = 2020
""",
}
SITE_SETUP = """\
def get(path, method='get', **words):
    found = getattr(sys.modules['m'].app.test_client(), method)(path, **words)
    return found.status_code, found.text, found.headers.get('X-Page')
"""
SITE_PROBES = (
    "get('/'), get('/?n=3'), get('/?n=9')", "get('/features'), get('/beta')", "get('/v1/items/3'), get('/v1/items/300'), get('/v1/items/3', 'post'), get('/v1/items/1?n=6')", "get('/v1/lost'), get('/v1/items/3', headers={'X-Bad': '1'})", "(m.STATE.clear(), get('/'), m.STATE)", "sorted(map(str, m.app.url_map.iter_rules()))",
    "m.app.test_cli_runner().invoke(args=['greet']).output, sorted(m.app.cli.commands)", "m.app.jinja_env.from_string('{{ \"Ab\"|quiet }} {{ \"Ab\"|shout }} {{ year }}').render()", "m.app.config['SITE'], m.app.config['PAGE'], m.inject(), m.create_app().config['SITE']", "sorted(m.app.jinja_env.filters)[-8:]",
)  # fmt: skip
SITE_EDITS = edits_of(
    "site",
    SITE_M,
    [
        ("a limit of a view", "@limit(2)", "@limit(3)", SITE_PROBES),
        ("a rule", "@app.get('/features')", "@app.get('/flags')", (*SITE_PROBES, "get('/flags')")),
        ("a body before requests", "+ 1", "+ 2", SITE_PROBES),
        ("a guard of a route", "'beta' in", "'beta' not in", SITE_PROBES),
        ("a command's body", "print('hello')", "print('bye')", SITE_PROBES),
        ("a command's name", "command('greet')", "command('salute')", SITE_PROBES),
        ("a prefix in a factory", "'/v1'", "'/v2'", (*SITE_PROBES, "get('/v2/items/3')")),
        ("a route more", "@app.cli", "@app.get('/more')\ndef more():\n    return 'more'\n@app.cli", (*SITE_PROBES, "get('/more')")),
        ("a route removed", "@app.get('/features')\ndef features():\n    return ','.join(FEATURES)\n", "", SITE_PROBES),
        ("a hook removed", "@app.before_request\n", "", SITE_PROBES),
        ("a value of a configuration", "SITE = 'main'", "SITE = 'other'", SITE_PROBES, {"edited": "site_config"}),
        ("a value of a base configuration", "PAGE = 10", "PAGE = 50", SITE_PROBES, {"edited": "site_config"}),
        ("a feature more", "('search', 'export')", "('search', 'export', 'beta')", SITE_PROBES, {"edited": "site_config"}),
        ("a handler's body", "f'boom {error}'", "f'BOOM {error}'", SITE_PROBES, {"edited": "site_api"}),
        ("a code of an error", "code = 418", "code = 409", SITE_PROBES, {"edited": "site_api"}),
        ("a handler of another error", "return f'missing {error}', 404", "return f'gone {error}', 410", SITE_PROBES, {"edited": "site_api"}),
        ("methods of a route", "methods=['GET', 'POST']", "methods=['GET']", SITE_PROBES, {"edited": "site_api"}),
        ("a converter of a route", "<int:key>", "<float:key>", (*SITE_PROBES, "get('/v1/items/3.5')"), {"edited": "site_api"}),
        ("a decorator's test", "> n:", ">= n:", (*SITE_PROBES, "get('/?n=2')"), {"edited": "site_api"}),
        ("a hook after requests", "['X-Page']", "['X-Site']", SITE_PROBES, {"edited": "site_api"}),
        ("a route of a blueprint more", "@bp.route('/lost')", "@bp.route('/found')\n@bp.route('/lost')", (*SITE_PROBES, "get('/v1/found')"), {"edited": "site_api"}),
        ("a filter's body", "+ '!'", "+ '!!'", SITE_PROBES, {"edited": "site_filters"}),
        ("a filter's name", "name='quiet'", "name='whisper'", SITE_PROBES, {"edited": "site_filters"}),
        ("a global of templates", "= 2020", "= 2021", SITE_PROBES, {"edited": "site_filters"}),
    ],
    others=SITE,
    needs=("flask",),
    setup=SITE_SETUP,
)  # fmt: skip

STORE_M = """\
import contextlib
from typing import Annotated
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query
from fastapi.responses import PlainTextResponse
from store_schemas import Item, ItemOut, Order, Pet
import store_deps as deps
from store_deps import Paging, current_user
EVENTS = []
@contextlib.asynccontextmanager
async def lifespan(app):
    EVENTS.append('start')
    yield {'pool': 'p'}
    EVENTS.append('stop')
router = APIRouter(prefix='/items', tags=['items'], dependencies=[Depends(deps.check)])
@router.get('/{key}', response_model=ItemOut)
def read(key: int, user: str = Depends(current_user)):
    if key > deps.MAX:
        raise HTTPException(404, detail='no such item')
    return {'name': f'item {key}', 'price': key, 'owner': user, 'secret': 's'}
@router.post('/', status_code=201)
async def create(item: Item) -> ItemOut:
    return ItemOut(name=item.name.upper(), price=item.price, owner='me')
@router.get('/')
def listed(paging: Annotated[Paging, Depends()], q: Annotated[str | None, Query(max_length=3)] = None):
    return {'skip': paging.skip, 'size': paging.size, 'q': q}
app = FastAPI(title='store', lifespan=lifespan)
app.include_router(router)
@app.post('/orders')
def order(order: Order):
    return {'total': order.total, 'count': len(order.items)}
@app.post('/pets')
def pet(pet: Pet):
    return {'kind': pet.kind, 'type': type(pet).__name__}
@app.exception_handler(deps.Denied)
async def denied(request, error):
    return PlainTextResponse(f'denied {error}', status_code=403)
@app.middleware('http')
async def timing(request, call_next):
    response = await call_next(request)
    response.headers['X-Time'] = str(deps.TIME)
    return response
"""
STORE = {
    "store_schemas": """\
from enum import Enum
from typing import Annotated, Literal, Union
from pydantic import BaseModel, ConfigDict, Field, computed_field, field_validator, model_validator
MAX_NAME = 10
class Size(str, Enum):
    S = 's'
    L = 'l'
class Base(BaseModel):
    model_config = ConfigDict(extra='forbid', str_strip_whitespace=True)
class Item(Base):
    name: str = Field(max_length=MAX_NAME)
    price: float = 1.0
    size: Size = Size.S
    @field_validator('name')
    @classmethod
    def not_empty(cls, value):
        if not value:
            raise ValueError('empty')
        return value
class ItemOut(BaseModel):
    name: str
    price: float
    owner: str = 'nobody'
class Order(Base):
    items: list[Item]
    discount: float = 0
    @computed_field
    @property
    def total(self) -> float:
        return sum(i.price for i in self.items) - self.discount
    @model_validator(mode='after')
    def check(self):
        if self.discount > 50:
            raise ValueError('too much')
        return self
class Cat(BaseModel):
    kind: Literal['cat'] = 'cat'
    lives: int = 9
class Dog(BaseModel):
    kind: Literal['dog'] = 'dog'
    loud: bool = True
class _Box(BaseModel):
    content: Annotated[Union[Cat, Dog], Field(discriminator='kind')]
Pet = Annotated[Union[Cat, Dog], Field(discriminator='kind')]
""",
    "store_deps": """\
from dataclasses import dataclass
from fastapi import Header, Query
MAX = 100
SIZE = 20
TIME = 1
class Denied(Exception):
    pass
def current_user(x_user: str = Header(default='guest')):
    return x_user.lower()
def check(x_token: str = Header(default='ok')):
    if x_token == 'bad':
        raise Denied('token')
class Paging:
    def __init__(self, skip: int = 0, size: int = Query(default=SIZE, le=MAX)):
        self.skip, self.size = skip, size
""",
}
STORE_SETUP = """\
def call(method, path, json=None, **headers):
    import asyncio, httpx2 as httpx
    async def send():
        transport = httpx.ASGITransport(app=sys.modules['m'].app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url='http://x') as client:
            found = await client.request(method, path, json=json, headers={k.replace('_', '-'): v for k, v in headers.items()})
            return found.status_code, found.text[:300], found.headers.get('x-time')
    return asyncio.run(send())
def start():
    import asyncio
    async def all_of():
        async with sys.modules['m'].app.router.lifespan_context(sys.modules['m'].app) as state:
            return state
    return asyncio.run(all_of())
"""
STORE_PROBES = (
    "call('GET', '/items/3'), call('GET', '/items/101'), call('GET', '/items/3', x_user='Ann')", "call('POST', '/items/', {'name': ' ab '}), call('POST', '/items/', {'name': 'abcdefghijklm'}), call('POST', '/items/', {'name': 'a', 'x': 1}), call('POST', '/items/', {'name': '', 'size': 'm'})",
    "call('GET', '/items/?q=abc'), call('GET', '/items/?q=abcd'), call('GET', '/items/?size=150'), call('GET', '/items/?r=a')", "call('POST', '/orders', {'items': [{'name': 'a', 'price': 5}], 'discount': 2}), call('POST', '/orders', {'items': [], 'discount': 60})",
    "call('POST', '/pets', {'kind': 'cat'}), call('POST', '/pets', {'kind': 'dog', 'loud': 3}), call('POST', '/pets', {'kind': 'cow'})", "call('GET', '/items/3', x_token='bad')", "m.app.openapi()['info'], sorted(m.app.openapi()['paths']), sorted(m.app.openapi()['components']['schemas'])", "m.app.openapi()['components']['schemas'], [r.path for r in m.app.routes]", "(m.EVENTS.clear(), start(), m.EVENTS)[1:]", "store_schemas.Order(items=[{'name': 'q'}]).model_dump(), m.Item(name='x').model_dump_json()",
)  # fmt: skip
STORE_EDITS = edits_of(
    "store",
    STORE_M,
    [
        ("a title", "title='store'", "title='shop'", STORE_PROBES),
        ("a prefix of a router", "prefix='/items'", "prefix='/things'", (*STORE_PROBES, "call('GET', '/things/3')")),
        ("a response model", "response_model=ItemOut", "response_model=ItemOut, response_model_exclude={'owner'}", STORE_PROBES),
        ("a body of a route", "f'item {key}'", "f'thing {key}'", STORE_PROBES),
        ("a status", "status_code=201", "status_code=202", STORE_PROBES),
        ("a query's length", "max_length=3", "max_length=4", STORE_PROBES),
        ("a parameter more", "q: Annotated", "r: int = 1, q: Annotated", STORE_PROBES),
        ("a start of the application", "{'pool': 'p'}", "{'pool': 'q'}", STORE_PROBES),
        ("a body of middleware", "str(deps.TIME)", "str(deps.TIME + 1)", STORE_PROBES),
        ("a handler of errors", "status_code=403", "status_code=401", STORE_PROBES),
        ("a route more", "@app.exception_handler", "@app.get('/more')\ndef more():\n    return 1\n@app.exception_handler", (*STORE_PROBES, "call('GET', '/more')")),
        ("a dependency removed", ", dependencies=[Depends(deps.check)]", "", STORE_PROBES),
        ("a field more", "    price: float = 1.0\n", "    price: float = 1.0\n    note: str = ''\n", (*STORE_PROBES, "call('POST', '/items/', {'name': 'a', 'note': 'b'})"), {"edited": "store_schemas"}),
        ("a length of a name", "MAX_NAME = 10", "MAX_NAME = 20", STORE_PROBES, {"edited": "store_schemas"}),
        ("an extra setting", "extra='forbid'", "extra='ignore'", STORE_PROBES, {"edited": "store_schemas"}),
        ("a validator", "'empty'", "'nothing'", STORE_PROBES, {"edited": "store_schemas"}),
        ("a validator more", "    @field_validator('name')", "    @field_validator('price')\n    @classmethod\n    def double(cls, value):\n        return value * 2\n    @field_validator('name')", STORE_PROBES, {"edited": "store_schemas"}),
        ("a computed field", "- self.discount", "- self.discount * 2", STORE_PROBES, {"edited": "store_schemas"}),
        ("a model's validator", "> 50", "> 70", STORE_PROBES, {"edited": "store_schemas"}),
        ("a default of a member of a union", "lives: int = 9", "lives: int = 7", STORE_PROBES, {"edited": "store_schemas"}),
        ("a member of a union more", "class _Box", "class Cow(BaseModel):\n    kind: Literal['cow'] = 'cow'\nclass _Box", STORE_PROBES, {"edited": "store_schemas", "more": (("store_schemas", "Pet = Annotated[Union[Cat, Dog]", "Pet = Annotated[Union[Cat, Dog, Cow]"),)}),
        ("a member of an enumeration", "    L = 'l'\n", "    L = 'l'\n    M = 'm'\n", (*STORE_PROBES, "call('POST', '/items/', {'name': 'a', 'size': 'm'})"), {"edited": "store_schemas"}),
        ("a field of a response", "    owner: str = 'nobody'\n", "", STORE_PROBES, {"edited": "store_schemas"}),
        ("a maximum", "MAX = 100", "MAX = 200", STORE_PROBES, {"edited": "store_deps"}),
        ("a dependency's default", "default='guest'", "default='anyone'", STORE_PROBES, {"edited": "store_deps"}),
        ("a dependency's body", "x_user.lower()", "x_user.upper()", STORE_PROBES, {"edited": "store_deps"}),
        ("a dependency's parameter", "skip: int = 0", "skip: int = 5", STORE_PROBES, {"edited": "store_deps"}),
        ("a constant that a body reads", "TIME = 1", "TIME = 9", STORE_PROBES, {"edited": "store_deps"}),
    ],
    others=STORE,
    needs=("fastapi", "httpx2"),
    setup=STORE_SETUP,
)  # fmt: skip

FORUM_SETUP = """\
import django
from django.conf import settings
if not settings.configured:
    settings.configure(
        ROOT_URLCONF='forum_urls', SECRET_KEY='s', ALLOWED_HOSTS=['*'], USE_TZ=True, DEFAULT_AUTO_FIELD='django.db.models.AutoField',
        INSTALLED_APPS=['django.contrib.contenttypes', 'django.contrib.auth', 'django.contrib.messages', 'django.contrib.admin'],
        DATABASES={'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': ':memory:'}},
        MIDDLEWARE=['forum_middleware.Stamp'],
    )
    django.setup()
def get(path, **words):
    from django.test import Client
    found = Client(raise_request_exception=False).get(path, **words)
    return found.status_code, found.content.decode()[:200], found.headers.get('X-Forum')
def fields(form):
    return [(n, type(f).__name__, f.required, f.label) for n, f in form.fields.items()]
def errors(act):
    try:
        return repr(act())
    except Exception as error:
        return type(error).__name__, str(error)
"""
FORUM_M = """\
from django.contrib import admin
from django.core.management.base import BaseCommand
from forum_models import Post, Thread, Timed
from forum_forms import PostForm, SearchForm
import forum_urls
import forum_signals
from forum_middleware import Stamp
@admin.register(Post)
class PostAdmin(admin.ModelAdmin):
    list_display = ['title', 'short']
    list_filter = ('kind',)
    actions = ['publish']
    @admin.display(description='Short')
    def short(self, post):
        return post.title[:5]
    @admin.action(description='Publish them')
    def publish(self, request, queryset):
        return 'published'
class Command(BaseCommand):
    help = 'Counts'
    def add_arguments(self, parser):
        parser.add_argument('--limit', type=int, default=3)
    def handle(self, *args, **options):
        self.stdout.write(str(options['limit']))
"""
FORUM = {
    "forum_models": """\
from django.core.exceptions import ValidationError
from django.core.validators import MinLengthValidator
from django.db import models
LENGTH = 30
KINDS = [('q', 'Question'), ('n', 'News')]
def clean_word(value):
    if 'bad' in value:
        raise ValidationError('bad word')
class Timed(models.Model):
    created = models.DateTimeField(auto_now_add=True)
    class Meta:
        abstract = True
        ordering = ['-created']
class PostQuery(models.QuerySet):
    def questions(self):
        return self.filter(kind='q')
class Thread(Timed):
    name = models.CharField(max_length=LENGTH, unique=True)
    class Meta(Timed.Meta):
        app_label = 'forum'
    def __str__(self):
        return self.name
class Post(Timed):
    title = models.CharField(max_length=LENGTH, validators=[clean_word, MinLengthValidator(2)])
    kind = models.CharField(max_length=1, choices=KINDS, default='q')
    thread = models.ForeignKey(Thread, models.CASCADE, null=True, related_name='posts')
    objects = PostQuery.as_manager()
    class Meta:
        app_label = 'forum'
        verbose_name = 'message'
    def get_absolute_url(self):
        return f'/posts/{self.pk}/'
    @property
    def is_question(self):
        return self.kind == 'q'
""",
    "forum_forms": """\
from django import forms
from forum_models import Post, LENGTH
class PostForm(forms.ModelForm):
    agree = forms.BooleanField(required=False)
    class Meta:
        model = Post
        fields = ['title', 'kind']
        labels = {'title': 'Headline'}
    def clean_title(self):
        return self.cleaned_data['title'].strip()
class SearchForm(forms.Form):
    q = forms.CharField(max_length=LENGTH, label='Query')
    def clean(self):
        if self.cleaned_data.get('q') == 'x':
            raise forms.ValidationError('not x')
""",
    "forum_views": """\
from django.http import HttpResponse, JsonResponse
from django.views import View
from django.views.decorators.http import require_GET
import forum_forms
from forum_models import KINDS
PAGE = 5
@require_GET
def index(request):
    return HttpResponse(f'page of {PAGE}')
def search(request):
    form = forum_forms.SearchForm(request.GET)
    return JsonResponse({'ok': form.is_valid(), 'errors': form.errors})
class Kinds(View):
    kinds = dict(KINDS)
    size = PAGE
    def get(self, request):
        return JsonResponse({**self.kinds, 'size': self.size})
""",
    "forum_urls": """\
from django.http import HttpResponseNotFound
from django.urls import include, path, re_path
from forum_views import Kinds, index, search
import forum_views as views
def handler404(request, exception=None):
    return HttpResponseNotFound('nothing')
api = [path('search/', search, name='search'), path('kinds/', Kinds.as_view(size=7))]
urlpatterns = [path('', index, name='index'), path('api/', include((api, 'api')))]
if hasattr(views, 'extra'):
    urlpatterns += [path('extra/', views.extra)]
""",
    "forum_signals": """\
from django.db.models.signals import post_init
from django.dispatch import Signal, receiver
from forum_models import Post
SEEN = []
published = Signal()
@receiver(post_init, sender=Post)
def on_init(sender, instance, **words):
    SEEN.append(f'init {instance.title}')
@receiver(published)
def on_published(sender, **words):
    return 'published'
published.connect(lambda sender, **words: 'lambda', weak=False)
""",
    "forum_middleware": """\
STAMP = 'v1'
class Stamp:
    def __init__(self, get_response):
        self.get_response = get_response
        self.stamp = STAMP
    def __call__(self, request):
        response = self.get_response(request)
        response['X-Forum'] = self.stamp
        return response
""",
}
FORUM_PROBES = (
    "get('/'), get('/nowhere/')", "get('/api/search/?q=a'), get('/api/search/?q=x'), get('/api/search/?q=' + 'a' * 40)", "get('/api/kinds/'), get('/extra/')", "[(f.name, getattr(f, 'max_length', None)) for f in m.Post._meta.get_fields()], [f.name for f in m.Thread._meta.get_fields()]",
    "m.Post._meta.verbose_name, m.Post._meta.ordering, m.Thread._meta.ordering, m.Post._meta.get_field('kind').choices", "errors(m.Post(title='bad').clean_fields), errors(m.Post(title='a').clean_fields)", "fields(m.PostForm()), fields(m.SearchForm()), m.PostForm({'title': ' hello ', 'kind': 'q'}).is_valid()", "(lambda f: (f.is_valid(), f.cleaned_data, f.errors))(m.PostForm({'title': ' hello ', 'kind': 'n'}))", "(m.forum_signals.SEEN.clear(), m.Post(title='t'), m.forum_signals.SEEN)[2]", "[r for _, r in m.forum_signals.published.send(None)]", "(lambda a: (a.list_display, a.list_filter, a.short(m.Post(title='abcdefgh')), a.publish(None, None), a.short.short_description))(m.admin.site._registry[m.Post])", "str(m.Post.objects.questions().query), m.Post(pk=3).get_absolute_url(), m.Post().is_question", "(lambda c, out: (c.stdout.__class__, __import__('django.core.management').core.management.call_command(c, stdout=out), out.getvalue())[2])(m.Command(), __import__('io').StringIO())",
)  # fmt: skip
FORUM_EDITS = edits_of(
    "forum",
    FORUM_M,
    [
        ("a column of a list", "['title', 'short']", "['title', 'short', 'kind']", FORUM_PROBES),
        ("a method of an admin", "[:5]", "[:3]", FORUM_PROBES),
        ("a description", "description='Short'", "description='Brief'", FORUM_PROBES),
        ("a default of a command", "default=3", "default=4", FORUM_PROBES),
        ("a length in a constant", "LENGTH = 30", "LENGTH = 35", FORUM_PROBES, {"edited": "forum_models"}),
        ("a kind more", "('n', 'News')]", "('n', 'News'), ('x', 'Other')]", FORUM_PROBES, {"edited": "forum_models"}),
        ("a validator's body", "'bad' in", "'hello' in", FORUM_PROBES, {"edited": "forum_models"}),
        ("a validator less", "[clean_word, MinLengthValidator(2)]", "[clean_word]", FORUM_PROBES, {"edited": "forum_models"}),
        ("an ordering of a base", "ordering = ['-created']", "ordering = ['created']", FORUM_PROBES, {"edited": "forum_models"}),
        ("a field more", "    kind = models", "    body = models.TextField(default='')\n    kind = models", FORUM_PROBES, {"edited": "forum_models"}),
        ("a method of a query", "filter(kind='q')", "exclude(kind='n')", FORUM_PROBES, {"edited": "forum_models"}),
        ("a name of a model", "verbose_name = 'message'", "verbose_name = 'post'", FORUM_PROBES, {"edited": "forum_models"}),
        ("a property of a model", "self.kind == 'q'", "self.kind != 'q'", FORUM_PROBES, {"edited": "forum_models"}),
        ("a label", "'Headline'", "'Heading'", FORUM_PROBES, {"edited": "forum_forms"}),
        ("a field of a form more", "    agree = forms", "    mail = forms.EmailField(required=False)\n    agree = forms", FORUM_PROBES, {"edited": "forum_forms"}),
        ("fields of a model form", "['title', 'kind']", "['title']", FORUM_PROBES, {"edited": "forum_forms"}),
        ("a clean method", "'not x'", "'never x'", FORUM_PROBES, {"edited": "forum_forms"}),
        ("a page in views", "PAGE = 5", "PAGE = 8", FORUM_PROBES, {"edited": "forum_views"}),
        ("a decorator of a view", "@require_GET\n", "", FORUM_PROBES, {"edited": "forum_views"}),
        ("a view that is asked for", "class Kinds", "def extra(request):\n    return HttpResponse('extra')\nclass Kinds", FORUM_PROBES, {"edited": "forum_views"}),
        ("an argument of a view", "size=7", "size=9", FORUM_PROBES, {"edited": "forum_urls"}),
        ("a handler of errors", "'nothing'", "'nothing here'", FORUM_PROBES, {"edited": "forum_urls"}),
        ("a path of an included list", "'kinds/'", "'kind/'", (*FORUM_PROBES, "get('/api/kind/')"), {"edited": "forum_urls"}),
        ("a receiver's body", "f'init {instance.title}'", "f'new {instance.title}'", FORUM_PROBES, {"edited": "forum_signals"}),
        ("a lambda that is connected", "'lambda'", "'LAMBDA'", FORUM_PROBES, {"edited": "forum_signals"}),
        ("a receiver removed", "@receiver(published)\n", "", FORUM_PROBES, {"edited": "forum_signals"}),
        ("a stamp", "STAMP = 'v1'", "STAMP = 'v2'", FORUM_PROBES, {"edited": "forum_middleware"}),
        ("a call of middleware", "= self.stamp", "= self.stamp.upper()", FORUM_PROBES, {"edited": "forum_middleware"}),
    ],
    others=FORUM,
    needs=("django",),
    setup=FORUM_SETUP,
)  # fmt: skip

LEDGER_M = """\
from sqlalchemy import create_engine, event, select, func
from sqlalchemy.orm import Session
from ledger_models import Account, Base, Entry, Savings
import ledger_models as models
import ledger_base
engine = create_engine('sqlite://')
Base.metadata.create_all(engine)
@event.listens_for(Account, 'before_insert')
def on_insert(mapper, connection, account):
    account.name = account.name.upper()
def balances(session, minimum=models.MINIMUM):
    statement = select(Account.name, func.sum(Entry.amount)).join(Entry).group_by(Account.name)
    return [tuple(row) for row in session.execute(statement.having(func.sum(Entry.amount) > minimum))]
COLUMNS = [c.name for c in Account.__table__.columns]
RICH = select(Account).where(Account.is_rich)
"""
LEDGER = {
    "ledger_base": """\
from sqlalchemy import String
from sqlalchemy.orm import DeclarativeBase, Mapped, declared_attr, mapped_column
from typing import Annotated
LENGTH = 40
key = Annotated[int, mapped_column(primary_key=True)]
class Base(DeclarativeBase):
    type_annotation_map = {str: String(LENGTH)}
    def __repr__(self):
        return f'{type(self).__name__}({self.id})'
class Named:
    @declared_attr.directive
    def __tablename__(cls):
        return cls.__name__.lower()
    id: Mapped[key]
    name: Mapped[str]
""",
    "ledger_models": """\
from sqlalchemy import CheckConstraint, ForeignKey, Index, event
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import Mapped, mapped_column, relationship, validates
from ledger_base import Base, Named
MINIMUM = 0
RICH = 100
class Account(Named, Base):
    kind: Mapped[str] = mapped_column(default='plain')
    limit: Mapped[int] = mapped_column(default=RICH)
    entries: Mapped[list['Entry']] = relationship(back_populates='account', cascade='all')
    __mapper_args__ = {'polymorphic_on': 'kind', 'polymorphic_identity': 'plain'}
    @hybrid_property
    def is_rich(self):
        return self.limit > RICH
    @validates('limit')
    def check_limit(self, key, value):
        if value < 0:
            raise ValueError('negative')
        return value
class Savings(Account):
    __mapper_args__ = {'polymorphic_identity': 'savings'}
    __tablename__ = None
    def interest(self):
        return self.limit * 0.01
class Entry(Named, Base):
    amount: Mapped[int]
    account_id: Mapped[int] = mapped_column(ForeignKey('account.id'))
    account: Mapped[Account] = relationship(back_populates='entries')
    __table_args__ = (CheckConstraint('amount <> 0', name='not_zero'),)
@event.listens_for(Account.limit, 'set', retval=True)
def doubled(target, value, old, initiator):
    return value * 2
""",
}
LEDGER_SETUP = """\
def errors(act):
    try:
        return repr(act())
    except Exception as error:
        return type(error).__name__, str(error)[:60]
def work():
    m = sys.modules['m']
    with m.Session(m.engine) as session:
        a = m.Account(name='ann', limit=7)
        a.entries.append(m.Entry(name='e', amount=5))
        session.add_all([a, m.Savings(name='sam', limit=1000)])
        session.flush()
        found = m.balances(session), [(x.name, x.limit, x.kind) for x in session.scalars(m.select(m.Account).order_by(m.Account.id))], [r.name for r in session.scalars(m.RICH)]
        session.rollback()
    return found
"""
LEDGER_PROBES = (
    "errors(work)", "m.COLUMNS, sorted(m.Base.metadata.tables)", "[(c.name, str(c.type), str(c.default)) for c in m.Account.__table__.c], [(c.name, str(c.type)) for c in m.Entry.__table__.c]", "errors(lambda: m.Account(limit=-1)), m.Account(limit=60).is_rich, m.Savings(limit=50).interest()", "str(m.RICH), str(m.select(m.Account).where(m.Account.is_rich).compile(compile_kwargs={'literal_binds': True}))[-40:]", "m.Account.__mapper__.relationships.keys(), str(m.Account.__mapper__.relationships.entries.cascade)", "sorted(str(c.name) for c in m.Entry.__table__.constraints), errors(lambda: m.Account(id=1)), m.Account.__tablename__",
)  # fmt: skip
LEDGER_EDITS = edits_of(
    "ledger",
    LEDGER_M,
    [
        ("a listener's body", "account.name.upper()", "account.name.title()", LEDGER_PROBES),
        ("a comparison of a query", "> minimum", ">= minimum + 1", LEDGER_PROBES),
        ("a kept statement", "where(Account.is_rich)", "where(~Account.is_rich)", LEDGER_PROBES),
        ("a minimum", "MINIMUM = 0", "MINIMUM = 9", LEDGER_PROBES, {"edited": "ledger_models"}),
        ("a limit in a constant", "RICH = 100", "RICH = 10", LEDGER_PROBES, {"edited": "ledger_models"}),
        ("a hybrid property's body", "self.limit > RICH", "self.limit >= RICH", LEDGER_PROBES, {"edited": "ledger_models"}),
        ("a validator's body", "'negative'", "'below zero'", LEDGER_PROBES, {"edited": "ledger_models"}),
        ("a method of a subclass", "0.01", "0.02", LEDGER_PROBES, {"edited": "ledger_models"}),
        ("a column more", "    limit: Mapped", "    note: Mapped[str] = mapped_column(default='')\n    limit: Mapped", LEDGER_PROBES, {"edited": "ledger_models"}),
        ("a cascade", "cascade='all'", "cascade='all, delete-orphan'", LEDGER_PROBES, {"edited": "ledger_models"}),
        ("a listener of an attribute", "value * 2", "value * 3", LEDGER_PROBES, {"edited": "ledger_models"}),
        ("a constraint's name", "not_zero", "no_zero", LEDGER_PROBES, {"edited": "ledger_models"}),
        ("a length of a type", "LENGTH = 40", "LENGTH = 50", LEDGER_PROBES, {"edited": "ledger_base"}),
        ("a text of a base", "({self.id})", "[{self.id}]", LEDGER_PROBES, {"edited": "ledger_base"}),
    ],
    others=LEDGER,
    needs=("sqlalchemy",),
    setup=LEDGER_SETUP,
)  # fmt: skip

CREW_M = """\
import argparse
import logging
import logging.config
import attrs
import click
from crew_tasks import app as celery_app, add, report
import crew_log as log
from crew_log import get_logger, PROCESSORS
from crew_options import common, LEVELS
import crew_options
@attrs.define
class Member:
    name: str = attrs.field(converter=str.strip, validator=attrs.validators.instance_of(str))
    level: int = attrs.field(default=crew_options.LEVEL)
    tags: list = attrs.Factory(list)
    @level.validator
    def check(self, attribute, value):
        if value > 9:
            raise ValueError('too high')
@attrs.frozen
class Leader(Member):
    team: str = 'a'
logger = get_logger('crew', level=LEVELS[0])
@click.group(context_settings={'auto_envvar_prefix': 'CREW'})
@click.option('--verbose', is_flag=True)
@click.pass_context
def cli(context, verbose):
    context.obj = {'verbose': verbose}
@cli.command()
@common
@click.argument('name')
def hire(name, level, color):
    click.echo(f'hired {name} {level} {color}')
@cli.command('fire', help='Fire somebody')
@click.option('--reason', type=click.Choice(['late', 'lazy']), default='late', show_default=True)
@click.pass_obj
def fire(obj, reason):
    click.echo(f"fired {reason} {obj['verbose']}")
def parser():
    return PARSER
PARSER = argparse.ArgumentParser('crew', description='Crew of people')
PARSER.add_argument('--level', type=int, default=crew_options.LEVEL)
sub = PARSER.add_subparsers(dest='what')
listing = sub.add_parser('list')
listing.add_argument('--sort', choices=LEVELS)
listing.set_defaults(run=lambda args: ('list', args.sort))
removing = sub.add_parser('remove')
removing.set_defaults(run=lambda args: ('remove', args.level))
"""
CREW = {
    "crew_options": """\
import click
LEVEL = 1
LEVELS = ['info', 'debug']
COLORS = {'red': 1, 'blue': 2}
def common(fn):
    fn = click.option('--level', default=LEVEL, help='The level', show_default=True)(fn)
    return click.option('--color', type=click.Choice(sorted(COLORS)), default='red')(fn)
""",
    "crew_tasks": """\
from celery import Celery
from celery.schedules import crontab
from celery.signals import task_prerun
import crew_options
app = Celery('crew', broker='memory://', backend='cache+memory://')
app.conf.update(task_always_eager=True, timezone='UTC', task_routes={'crew_tasks.report': {'queue': 'reports'}})
CALLS = []
@app.task(name='add')
def add(a, b=crew_options.LEVEL):
    return a + b
@app.task(bind=True, max_retries=3, ignore_result=False)
def report(self, day):
    return f'{self.name} {day}'
app.conf.beat_schedule = {
    'nightly': {'task': 'crew_tasks.report', 'schedule': crontab(hour=3, minute=0), 'args': ('today',)},
}
@task_prerun.connect
def before(sender=None, **words):
    CALLS.append(sender.name)
""",
    "crew_log": """\
import functools
import logging
import logging.config
CONFIG = {
    'version': 1, 'disable_existing_loggers': False,
    'filters': {'short': {'()': 'crew_log.Short', 'size': 5}},
    'formatters': {'plain': {'format': '%(levelname)s %(message)s'}},
    'handlers': {'kept': {'class': 'crew_log.Kept', 'formatter': 'plain', 'filters': ['short']}},
    'loggers': {'crew.kept': {'level': 'INFO', 'handlers': ['kept'], 'propagate': False}},
}
class Short(logging.Filter):
    def __init__(self, size=10):
        self.size = size
    def filter(self, record):
        return len(record.getMessage()) <= self.size
class Kept(logging.Handler):
    lines = []
    def emit(self, record):
        self.lines.append(self.format(record))
def add_level(event, level):
    return {**event, 'level': level}
def upper(event, level):
    return {**event, 'event': event['event'].upper()}
def render(event, level):
    return ' '.join(f'{k}={v}' for k, v in event.items())
PROCESSORS = [add_level, upper, render]
class BoundLogger:
    def __init__(self, name, processors, **context):
        self.name, self.processors, self.context = name, processors, context
    def bind(self, **more):
        return type(self)(self.name, self.processors, **self.context, **more)
    def log(self, level, event):
        out = {'event': event, **self.context}
        for processor in self.processors:
            out = processor(out, level)
        return out
    info = functools.partialmethod(log, 'info')
def get_logger(name, **context):
    return BoundLogger(name, PROCESSORS, **context)
logging.config.dictConfig(CONFIG)
""",
    "crew_helpers": """\
import pytest
from m import Member, logger
import crew_options as options
CASES = [(name, options.COLORS[name]) for name in sorted(options.COLORS)]
colors = pytest.mark.parametrize(('name', 'number'), CASES)
bound = logger.bind(user='u')
@pytest.fixture(params=options.LEVELS, ids=str.upper)
def level(request):
    return request.param
def make(name='bob', **words):
    return Member(name, **words)
@colors
def check_color(name, number):
    assert options.COLORS[name] == number
""",
}
CREW_SETUP = """\
def errors(act):
    try:
        return repr(act())
    except (Exception, SystemExit) as error:
        return type(error).__name__, str(error)[:60]
def invoke(*words):
    from click.testing import CliRunner
    found = CliRunner().invoke(sys.modules['m'].cli, words)
    return found.exit_code, found.output
def logged(text):
    import logging
    kept = sys.modules['crew_log'].Kept
    kept.lines.clear()
    logging.getLogger('crew.kept').info(text)
    return list(kept.lines)
def parsed(*words):
    args = sys.modules['m'].PARSER.parse_args(words)
    return args.level, args.run(args) if hasattr(args, 'run') else None
"""
CREW_PROBES = (
    "invoke('--help'), invoke('hire', 'ann'), invoke('hire', '--help')", "invoke('fire'), invoke('--verbose', 'fire', '--reason', 'lazy'), invoke('fire', '--help'), invoke('dismiss')", "errors(lambda: m.Member(' a ')), errors(lambda: m.Member('a', 10)), errors(lambda: m.Leader('x')), [a.name for a in m.attrs.fields(m.Leader)]", "m.logger.info('hi'), m.logger.bind(a=1).log('x', 'y'), crew_helpers.bound.info('b')", "logged('abc'), logged('abcdefg')", "parsed(), parsed('list', '--sort', 'info'), errors(lambda: parsed('list', '--sort', 'x')), parsed('remove')", "m.add(1), m.add.delay(1, 2).get(), m.report.delay(3).get(), crew_tasks.CALLS[-2:]", "sorted(n for n in m.celery_app.tasks if not n.startswith('celery.')), str(m.celery_app.conf.beat_schedule), m.celery_app.conf.task_routes, m.report.max_retries", "crew_helpers.CASES, crew_helpers.check_color.pytestmark, errors(crew_helpers.make), m.PARSER.format_help()", "len(m.PROCESSORS), m.PROCESSORS is crew_log.PROCESSORS, m.logger.processors is m.PROCESSORS, m.parser() is m.PARSER",
)  # fmt: skip
CREW_EDITS = edits_of(
    "crew",
    CREW_M,
    [
        ("a help text of a command", "help='Fire somebody'", "help='Dismiss somebody'", CREW_PROBES),
        ("a command's name", "command('fire'", "command('dismiss'", CREW_PROBES),
        ("a choice more", "['late', 'lazy']", "['late', 'lazy', 'rude']", CREW_PROBES),
        ("an option of a group", "@click.option('--verbose', is_flag=True)", "@click.option('--verbose', '-v', is_flag=True)", (*CREW_PROBES, "invoke('-v', 'fire')")),
        ("a setting of a group", "'auto_envvar_prefix': 'CREW'", "'help_option_names': ['-h', '--help']", (*CREW_PROBES, "invoke('-h')")),
        ("a converter", "converter=str.strip", "converter=str.title", CREW_PROBES),
        ("a validator's body", "> 9", "> 10", CREW_PROBES),
        ("a default of an attribute", "team: str = 'a'", "team: str = 'b'", CREW_PROBES),
        ("an attribute more", "    tags: list", "    age: int = 0\n    tags: list", CREW_PROBES),
        ("a lambda of a parser", "('remove', args.level)", "('removed', args.level)", CREW_PROBES),
        ("a parser's argument", "type=int, default", "type=float, default", CREW_PROBES),
        ("a description of a parser", "Crew of people", "Crew of a ship", CREW_PROBES),
        ("a parser more", "removing = sub", "adding = sub.add_parser('add')\nadding.set_defaults(run=lambda args: 'add')\nremoving = sub", (*CREW_PROBES, "parsed('add')")),
        ("a level of a logger", "level=LEVELS[0]", "level=LEVELS[1]", CREW_PROBES),
        ("a level", "LEVEL = 1", "LEVEL = 2", CREW_PROBES, {"edited": "crew_options"}),
        ("levels", "['info', 'debug']", "['debug', 'info']", CREW_PROBES, {"edited": "crew_options"}),
        ("a color more", "'blue': 2", "'blue': 2, 'green': 3", CREW_PROBES, {"edited": "crew_options"}),
        ("a shared option", "help='The level'", "help='A level'", CREW_PROBES, {"edited": "crew_options"}),
        ("a task's body", "return a + b", "return a * 10 + b", CREW_PROBES, {"edited": "crew_tasks"}),
        ("a task's name", "name='add'", "name='sum'", CREW_PROBES, {"edited": "crew_tasks"}),
        ("retries of a task", "max_retries=3", "max_retries=5", CREW_PROBES, {"edited": "crew_tasks"}),
        ("an hour of a schedule", "hour=3", "hour=4", CREW_PROBES, {"edited": "crew_tasks"}),
        ("a route of tasks", "'queue': 'reports'", "'queue': 'slow'", CREW_PROBES, {"edited": "crew_tasks"}),
        ("a task more", "app.conf.beat_schedule", "@app.task\ndef extra():\n    return 1\napp.conf.beat_schedule", CREW_PROBES, {"edited": "crew_tasks"}),
        ("a signal's body", "CALLS.append(sender.name)", "CALLS.append('before ' + sender.name)", CREW_PROBES, {"edited": "crew_tasks"}),
        ("a size of a filter", "'size': 5", "'size': 10", CREW_PROBES, {"edited": "crew_log"}),
        ("a format", "'%(levelname)s %(message)s'", "'%(message)s'", CREW_PROBES, {"edited": "crew_log"}),
        ("a processor's body", ".upper()", ".title()", CREW_PROBES, {"edited": "crew_log"}),
        ("a processor less", "[add_level, upper, render]", "[add_level, render]", CREW_PROBES, {"edited": "crew_log"}),
        ("a body of a filter", "<= self.size", "< self.size - 1", CREW_PROBES, {"edited": "crew_log"}),
        ("a partial method", "functools.partialmethod(log, 'info')", "functools.partialmethod(log, 'INFO')", CREW_PROBES, {"edited": "crew_log"}),
    ],
    others=CREW,
    needs=("click", "attrs", "celery", "pytest"),
    setup=CREW_SETUP,
)  # fmt: skip
ALL = with_expected([
        *RATES_EDITS, *CONF_EDITS, *EVENTS_EDITS, *SHAPES_EDITS, *SITE_EDITS, *STORE_EDITS, *FORUM_EDITS, *LEDGER_EDITS,
        *CREW_EDITS,
    ], false=["events: a lambda of an object", "events: a priority of a plugin"], reported=["events: a function that becomes asynchronous", "events: a name of a bus", "events: a function's other name in a plugin", "shapes: a column more", "shapes: a table's name", "shapes: a base that changes", "shapes: a class renamed", "shapes: a prefix of a metaclass", "shapes: a body of a metaclass", "shapes: a body of a class decorator", "shapes: a unit's value", "forum: a lambda that is connected", "ledger: a limit in a constant", "ledger: a hybrid property's body", "ledger: a column more", "ledger: a cascade", "ledger: a constraint's name", "ledger: a length of a type"])  # fmt: skip
