"""Edits of an ordinary week: over several modules of a project, and in several loads with reverts."""

from edit_cases import edits_of, with_expected

STORE_M = """\
import logging
from store import *
from store import Order, config, pricing
from store.pricing import apply_discount as discount
from store.registry import HANDLERS, handle
from store.models import Status, Item
log = logging.getLogger('store.app')
BANNER = f'{config.NAME} v{config.VERSION}'
LIMITS = {name: config.MAX_ITEMS * factor for name, factor in config.FACTORS.items()}
DEFAULT = Item('pen', 5)
CART = [DEFAULT, Item('ink', 12)]
TOTAL = pricing.total(CART)
OPEN = {Status.NEW, Status.PAID}
LABELS = {status: status.label for status in Status}
def checkout(items=tuple(CART), *, status=Status.NEW):
    order = Order(list(items), status)
    return handle(order), round(discount(pricing.total(order.items)), 2)
class Summary:
    currency = config.CURRENCY
    columns = [name.upper() for name in Order.__annotations__]
    def __init__(self, order):
        self.order = order
    def __str__(self):
        return f'{self.currency} {pricing.total(self.order.items)} {self.order.status.label}'
SUMMARY = str(Summary(Order(CART)))
"""
STORE = {
    "store.__init__": """\
from .config import NAME, VERSION
from .models import *
from .pricing import total
from . import handlers
__all__ = ['NAME', 'Order', 'total']
""",
    "store.config": """\
NAME = 'shop'
VERSION = '1.0'
CURRENCY = 'EUR'
MAX_ITEMS = 10
FACTORS = {'guest': 1, 'member': 3}
DISCOUNT = 0.1
try:
    from store_local import DISCOUNT
except ImportError:
    pass
""",
    "store.models": """\
from __future__ import annotations
import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from . import config
if TYPE_CHECKING:
    from collections.abc import Iterable
__all__ = ['Order', 'Item']
class Status(enum.Enum):
    NEW = 'n'
    PAID = 'p'
    SENT = 's'
    @property
    def label(self):
        return f'<{self.name.lower()}>'
    @classmethod
    def parse(cls, text):
        return cls(text[0])
@dataclass(order=True)
class Item:
    name: str
    price: int = 1
    count: int = 1
    @property
    def cost(self):
        return self.price * self.count
@dataclass
class Order:
    items: list[Item] = field(default_factory=list)
    status: Status = Status.NEW
    limit: int = config.MAX_ITEMS
    def add(self, item):
        if len(self.items) >= self.limit:
            raise ValueError(f'more than {self.limit}')
        self.items.append(item)
        return self
""",
    "store.pricing": """\
import functools
from .config import DISCOUNT
from .models import Item
CACHE = {}
def total(items):
    return sum(_cost(item) for item in items)
def _cost(item):
    return item.cost
def apply_discount(amount, rate=DISCOUNT):
    return amount * (1 - rate)
@functools.lru_cache(maxsize=None)
def vat(amount):
    return amount * 0.2
@functools.singledispatch
def describe(value):
    return str(value)
@describe.register
def _(value: Item):
    return f'{value.name}@{value.price}'
half = functools.partial(apply_discount, rate=0.5)
""",
    "store.registry": """\
HANDLERS = {}
ORDER = []
def handler(status, *, priority=0):
    def register(function):
        HANDLERS[status] = function
        ORDER.append((priority, function.__name__))
        ORDER.sort()
        return function
    return register
def handle(order):
    return HANDLERS[order.status](order)
""",
    "store.handlers": """\
from .models import Status
from .registry import handler
PREFIX = 'order'
def _text(order, word):
    return f'{PREFIX} {word} ({len(order.items)})'
@handler(Status.NEW)
def on_new(order):
    return _text(order, 'new')
@handler(Status.PAID, priority=2)
def on_paid(order):
    return _text(order, 'paid')
@handler(Status.SENT, priority=1)
def on_sent(order):
    return _text(order, 'sent')
""",
}
STORE_PROBES = (
    "m.BANNER, m.LIMITS, m.TOTAL, m.SUMMARY", "m.CART, m.DEFAULT, sorted(m.CART)", "m.checkout()", "m.checkout(status=models.Status.PAID)",
    "m.LABELS", "sorted(status.name for status in m.OPEN), all(status in m.Status for status in m.OPEN)", "m.Summary.columns, m.Summary.currency",
    "str(m.Summary(m.Order([m.Item('a', 2, 3)])))", "[(k.name, f.__name__) for k, f in registry.HANDLERS.items()], registry.ORDER",
    "[registry.handle(m.Order([], status)) for status in m.Status]", "pricing.describe(m.Item('q')), pricing.describe(3)",
    "pricing.vat(10), pricing.half(10)", "list(m.Status), [status.value for status in m.Status]", "m.Order().limit, m.Order.__match_args__",
    "sorted(n for n in vars(m) if n[:1] != '_')", "sorted(n for n in vars(pricing) if n[:2] != '__')", "sorted(n for n in vars(store) if n[:2] != '__')",
    "sorted(n for n in vars(config) if n[:2] != '__')", "sorted(n for n in vars(models) if n[:2] != '__')", "sorted(n for n in vars(handlers) if n[:2] != '__')",
    "[m.Order().add(m.Item('x')).items for _ in range(2)]", "store.__all__", "str(__import__('inspect').signature(m.Item)), str(__import__('inspect').signature(m.Order))",
    "str(__import__('inspect').signature(pricing.apply_discount))", "repr(m.Item('r')), m.Item('a') < m.Item('b')",
)  # fmt: skip
OLD_COST = "    return sum(_cost(item) for item in items)\ndef _cost(item):\n    return item.cost\n"
STORE_EDITS = edits_of(
    "store",
    STORE_M,
    [
        ("a helper and its caller are renamed", "_cost(item) for", "cost_of(item) for", STORE_PROBES, {"edited": "store.pricing", "more": [("store.pricing", "def _cost", "def cost_of")]}),
        ("a public function is renamed in three modules", "def total(", "def sum_of(", STORE_PROBES,
         {"edited": "store.pricing", "more": [("store.__init__", "import total", "import sum_of"), ("store.__init__", "'total'", "'sum_of'"),
                                             ("m", "pricing.total(CART)", "pricing.sum_of(CART)"), ("m", "pricing.total(order", "pricing.sum_of(order"), ("m", "pricing.total(self", "pricing.sum_of(self")]}),
        ("a function moves to a new module", "def apply_discount(amount, rate=DISCOUNT):\n    return amount * (1 - rate)\n", "from .rules import apply_discount\n", STORE_PROBES,
         {"edited": "store.pricing", "more": [("store.rules", "", "from .config import DISCOUNT\ndef apply_discount(amount, rate=DISCOUNT):\n    return amount * (1 - rate)\n")]}),
        ("a new module is loaded before its importer", "", "SURCHARGE = 2\ndef surcharge(amount):\n    return amount + SURCHARGE\n", (*STORE_PROBES, "__import__('sys').modules['store.fees'].surcharge(1)"),
         {"edited": "store.fees", "more": [("store.pricing", "from .models import Item\n", "from .models import Item\nfrom .fees import surcharge\n"), ("store.pricing", "return sum(_cost(item) for item in items)", "return surcharge(sum(_cost(item) for item in items))")]}),
        ("a module is merged into another", "@dataclass(order=True)", STORE["store.registry"] + "@dataclass(order=True)", tuple(p for p in STORE_PROBES if "registry" not in p),
         {"edited": "store.models", "more": [("store.handlers", "from .registry import handler\n", "from .models import handler\n"), ("m", "from store.registry import", "from store.models import"), ("store.registry", "HANDLERS = {}", None)]}),
        ("a parameter with a default", "def _cost(item):\n    return item.cost", "def _cost(item, factor=1):\n    return item.cost * factor", STORE_PROBES, {"edited": "store.pricing"}),
        ("a parameter that the caller passes", "def _cost(item):\n    return item.cost", "def _cost(item, factor):\n    return item.cost * factor", STORE_PROBES, {"edited": "store.pricing", "more": [("store.pricing", "_cost(item) for", "_cost(item, 2) for")]}),
        ("a version in a text", "VERSION = '1.0'", "VERSION = '1.1'", STORE_PROBES, {"edited": "store.config"}),
        ("a name that two modules hand on", "NAME = 'shop'", "NAME = 'mart'", STORE_PROBES, {"edited": "store.config"}),
        ("a factor in a table", "'member': 3", "'member': 4, 'staff': 9", STORE_PROBES, {"edited": "store.config"}),
        ("a limit that is a default", "MAX_ITEMS = 10", "MAX_ITEMS = 20", STORE_PROBES, {"edited": "store.config"}),
        ("a limit of nothing", "MAX_ITEMS = 10", "MAX_ITEMS = 0", STORE_PROBES, {"edited": "store.config"}),
        ("a discount that is a default", "DISCOUNT = 0.1\n", "DISCOUNT = 0.2\n", STORE_PROBES, {"edited": "store.config"}),
        ("a fallback that appears", "", "DISCOUNT = 0.75\n", STORE_PROBES, {"edited": "store_local", "more": [("store.config", "VERSION = '1.0'", "VERSION = '1.0.0'")]}),
        ("a fallback that is no longer tried", "try:\n    from store_local import DISCOUNT\nexcept ImportError:\n    pass\n", "", STORE_PROBES, {"edited": "store.config"}),
        ("members in another order", "    NEW = 'n'\n    PAID = 'p'\n", "    PAID = 'p'\n    NEW = 'n'\n", STORE_PROBES, {"edited": "store.models"}),
        ("a member and its handler", "    SENT = 's'\n", "    SENT = 's'\n    LOST = 'l'\n", STORE_PROBES,
         {"edited": "store.models", "more": [("store.handlers", "@handler(Status.SENT", "@handler(Status.LOST)\ndef on_lost(order):\n    return 'lost'\n@handler(Status.SENT")]}),
        ("a member less and its handler less", "    SENT = 's'\n", "", STORE_PROBES,
         {"edited": "store.models", "more": [("store.handlers", "@handler(Status.SENT, priority=1)\ndef on_sent(order):\n    return _text(order, 'sent')\n", "")]}),
        ("a member is renamed everywhere", "    PAID = 'p'", "    SETTLED = 'p'", tuple(p.replace("PAID", "SETTLED") for p in STORE_PROBES),
         {"edited": "store.models", "more": [("store.handlers", "Status.PAID", "Status.SETTLED"), ("m", "Status.PAID", "Status.SETTLED")]}),
        ("a label of members", "f'<{self.name.lower()}>'", "f'[{self.name.lower()}]'", STORE_PROBES, {"edited": "store.models"}),
        ("a default of a field", "price: int = 1", "price: int = 7", STORE_PROBES, {"edited": "store.models"}),
        ("a field with a default", "    count: int = 1\n", "    count: int = 1\n    unit: str = 'pcs'\n", STORE_PROBES, {"edited": "store.models"}),
        ("a field less", "    count: int = 1\n", "", tuple(p for p in STORE_PROBES if "2, 3" not in p), {"edited": "store.models", "more": [("store.models", "self.price * self.count", "self.price")]}),
        ("a field in the middle", "    price: int = 1\n    count", "    price: int = 1\n    sku: str = ''\n    count", tuple(p for p in STORE_PROBES if "2, 3" not in p), {"edited": "store.models"}),
        ("a data class that is frozen", "@dataclass(order=True)", "@dataclass(order=True, frozen=True)", (*STORE_PROBES, "hash(m.DEFAULT) == hash(m.Item('pen', 5))"), {"edited": "store.models"}),
        ("no order", "@dataclass(order=True)", "@dataclass", tuple(p for p in STORE_PROBES if "sorted(m.CART)" not in p and "<" not in p), {"edited": "store.models"}),
        ("a keyword-only field", "    count: int = 1\n", "    count: int = field(default=1, kw_only=True)\n", tuple(p for p in STORE_PROBES if "2, 3" not in p), {"edited": "store.models"}),
        ("slots of a data class", "@dataclass(order=True)", "@dataclass(order=True, slots=True)", (*STORE_PROBES, "hasattr(m.DEFAULT, '__dict__')"), {"edited": "store.models"}),
        ("a comparison without a field", "    count: int = 1\n", "    count: int = field(default=1, compare=False)\n", (*STORE_PROBES, "m.Item('a', 1, 1) == m.Item('a', 1, 2)"), {"edited": "store.models"}),
        ("a representation without a field", "    count: int = 1\n", "    count: int = field(default=1, repr=False)\n", STORE_PROBES, {"edited": "store.models"}),
        ("a property becomes a field after creation", "    count: int = 1\n    @property\n    def cost(self):\n        return self.price * self.count\n", "    count: int = 1\n    cost: int = 0\n    def __post_init__(self):\n        self.cost = self.price * self.count\n", STORE_PROBES, {"edited": "store.models"}),
        ("a priority of a handler", "priority=2", "priority=-1", STORE_PROBES, {"edited": "store.handlers"}),
        ("a handler of another status", "@handler(Status.NEW)\ndef on_new(order):\n    return _text(order, 'new')\n@handler(Status.PAID, priority=2)", "@handler(Status.PAID)\ndef on_new(order):\n    return _text(order, 'new')\n@handler(Status.NEW, priority=2)", STORE_PROBES, {"edited": "store.handlers"}),
        ("a handler is renamed", "def on_sent", "def on_shipped", STORE_PROBES, {"edited": "store.handlers"}),
        ("a registry of pairs", "HANDLERS[status] = function", "HANDLERS[status] = lambda order: '!' + function(order)", tuple(p for p in STORE_PROBES if "__name__" not in p), {"edited": "store.registry"}),
        ("a registry that returns nothing new", "ORDER.sort()", "ORDER.sort(reverse=True)", STORE_PROBES, {"edited": "store.registry"}),
        ("a prefix of handlers", "PREFIX = 'order'", "PREFIX = 'o'", STORE_PROBES, {"edited": "store.handlers"}),
        ("a new public name of a star import", "__all__ = ['Order', 'Item']", "__all__ = ['Order', 'Item', 'Status']", STORE_PROBES, {"edited": "store.models"}),
        ("a public name less in a package", "['NAME', 'Order', 'total']", "['NAME', 'Order']", STORE_PROBES, {"edited": "store.__init__"}),
        ("an import for types", "    from collections.abc import Iterable\n", "    from collections.abc import Iterable, Sequence\n", STORE_PROBES, {"edited": "store.models"}),
        ("an import for types becomes a real one", "if TYPE_CHECKING:\n    from collections.abc import Iterable\n", "from collections.abc import Iterable\n", STORE_PROBES, {"edited": "store.models"}),
        ("no more cache", "@functools.lru_cache(maxsize=None)\ndef vat", "def vat", STORE_PROBES, {"edited": "store.pricing"}),
        ("a cached body", "amount * 0.2", "amount * 0.25", STORE_PROBES, {"edited": "store.pricing", "use": "pricing.vat(10)"}),
        ("a partial's keyword", "rate=0.5", "rate=0.25", STORE_PROBES, {"edited": "store.pricing"}),
        ("a dispatch on another class", "def _(value: Item)", "def _(value: int)", STORE_PROBES, {"edited": "store.pricing"}),
        ("a dispatch more", "half =", "@describe.register(list)\n@describe.register(tuple)\ndef _many(value):\n    return ','.join(map(describe, value))\nhalf =", (*STORE_PROBES, "pricing.describe([1, m.Item('z')]), pricing.describe(())"), {"edited": "store.pricing"}),
        ("a column list of a class body", "name.upper()", "name.title()", STORE_PROBES),
        ("a class attribute from another module", "CURRENCY = 'EUR'", "CURRENCY = 'USD'", STORE_PROBES, {"edited": "store.config"}),
        ("a default that another import gives", "items=tuple(CART)", "items=tuple(CART[:1])", STORE_PROBES),
        # loads in sequence
        ("a constant twice", "MAX_ITEMS = 10", "MAX_ITEMS = 20", STORE_PROBES, {"edited": "store.config", "then": [[("store.config", "MAX_ITEMS = 20", "MAX_ITEMS = 30")]]}),
        ("a constant and back", "MAX_ITEMS = 10", "MAX_ITEMS = 20", STORE_PROBES, {"edited": "store.config", "then": [[("store.config", "MAX_ITEMS = 20", "MAX_ITEMS = 10")]]}),
        ("a field and back", "    count: int = 1\n", "    count: int = 1\n    unit: str = 'pcs'\n", STORE_PROBES, {"edited": "store.models", "then": [[("store.models", "    unit: str = 'pcs'\n", "")]]}),
        ("a field and another default of it", "    count: int = 1\n", "    count: int = 1\n    unit: str = 'pcs'\n", STORE_PROBES, {"edited": "store.models", "then": [[("store.models", "'pcs'", "'kg'")]]}),
        ("a member and back", "    SENT = 's'\n", "    SENT = 's'\n    LOST = 'l'\n", tuple(p for p in STORE_PROBES if "handle(" not in p), {"edited": "store.models", "then": [[("store.models", "    LOST = 'l'\n", "")]]}),
        ("a member less and back", "    SENT = 's'\n", "", tuple(p for p in STORE_PROBES if "handle(" not in p),
         {"edited": "store.models", "more": [("store.handlers", "@handler(Status.SENT, priority=1)\n", "")],
          "then": [[("store.models", "    PAID = 'p'\n", "    PAID = 'p'\n    SENT = 's'\n"), ("store.handlers", "def on_sent", "@handler(Status.SENT, priority=1)\ndef on_sent")]]}),
        ("a rename and back", "_cost(item) for", "cost_of(item) for", STORE_PROBES, {"edited": "store.pricing", "more": [("store.pricing", "def _cost", "def cost_of")],
          "then": [[("store.pricing", "cost_of(item) for", "_cost(item) for"), ("store.pricing", "def cost_of", "def _cost")]]}),
        ("an error, then its correction", "return amount * (1 - rate)", "return amount * (1 - rates)", STORE_PROBES, {"edited": "store.pricing", "then": [[("store.pricing", "rates", "rate * 2")]]}),
        ("a default, then a body, then a constant", "rate=DISCOUNT", "rate=DISCOUNT * 2", STORE_PROBES,
         {"edited": "store.pricing", "then": [[("store.pricing", "return amount * (1 - rate)", "return amount - amount * rate")], [("store.config", "DISCOUNT = 0.1\n", "DISCOUNT = 0.3\n")]]}),
        ("a registration, then its body, then none", "half =", "@describe.register\ndef _(value: int):\n    return f'#{value}'\nhalf =", STORE_PROBES,
         {"edited": "store.pricing", "then": [[("store.pricing", "f'#{value}'", "f'{value}#'")], [("store.pricing", "@describe.register\ndef _(value: int):\n    return f'{value}#'\n", "")]]}),
        ("a function is moved and edited", "def apply_discount(amount, rate=DISCOUNT):\n    return amount * (1 - rate)\n", "from .rules import apply_discount\n", STORE_PROBES,
         {"edited": "store.pricing", "more": [("store.rules", "", "from .config import DISCOUNT\ndef apply_discount(amount, rate=DISCOUNT):\n    return amount * (1 - rate)\n")],
          "then": [[("store.rules", "(1 - rate)", "(1 - rate / 2)")], [("store.config", "DISCOUNT = 0.1\n", "DISCOUNT = 0.4\n")]]}),
        ("an import less, then its use less", "from .models import Item\n", "from .models import Item, Status\n", STORE_PROBES, {"edited": "store.pricing", "then": [[("store.pricing", ", Status", "")]]}),
        ("a handler less and back", "@handler(Status.SENT, priority=1)\ndef on_sent(order):\n    return _text(order, 'sent')\n", "", tuple(p for p in STORE_PROBES if "handle(" not in p),
         {"edited": "store.handlers", "then": [[("store.handlers", "@handler(Status.PAID, priority=2)", "@handler(Status.SENT, priority=1)\ndef on_sent(order):\n    return _text(order, 'sent')\n@handler(Status.PAID, priority=2)")]]}),
        ("a limit, then a table, then a factor", "MAX_ITEMS = 10", "MAX_ITEMS = 11", STORE_PROBES, {"edited": "store.config", "then": [[("store.config", "'guest': 1", "'guest': 2")], [("m", "config.MAX_ITEMS * factor", "config.MAX_ITEMS + factor")], [("store.config", "MAX_ITEMS = 11", "MAX_ITEMS = 12")]]}),
    ],
    others=STORE,
)  # fmt: skip

PLUGINS_M = """\
import asyncio, contextlib, logging, re
from typing import Protocol, runtime_checkable
from plugins import base, events, text
from plugins.base import Plugin, load_all
from plugins.events import bus, on
from plugins.fields import Integer, Text, Model
import plugins.impl
LOG = logging.getLogger('plugins')
LOG.setLevel(logging.INFO if base.VERBOSE else logging.WARNING)
LOADED = load_all()
PATTERNS = {kind: re.compile(pattern) for kind, pattern in text.PATTERNS.items()}
TITLE = text.title('main page')
@runtime_checkable
class Sized(Protocol):
    def size(self) -> int: ...
class Box(Model):
    width = Integer(default=3)
    name = Text(max=base.MAX_TEXT)
    def size(self):
        return self.width * 2
class BigBox(Box):
    depth = Integer(default=base.DEPTH)
    def size(self):
        return super().size() * self.depth
BOX, BIG = Box(), BigBox(width=5)
IS_SIZED = isinstance(BOX, Sized)
FIELDS = BigBox.fields()
@on('start')
def started(name):
    return f'{name} started'
@on('stop', once=True)
def stopped(name):
    return f'{name} stopped'
def kind_of(value):
    match value:
        case Box(width=width) if width > base.DEPTH:
            return 'wide'
        case {'kind': kind, **rest}:
            return kind, rest
        case [first, *_]:
            return first
        case str() | bytes():
            return 'text'
        case _:
            return None
KINDS = [kind_of(value) for value in (BOX, BIG, {'kind': 'k', 'x': 1}, [1, 2], 'a', 3)]
async def pages(count=text.PAGES):
    for number in range(count):
        yield text.title(f'page {number}')
async def collect():
    return [page async for page in pages()]
@contextlib.contextmanager
def quiet(level=logging.ERROR):
    before = LOG.level
    LOG.setLevel(level)
    try:
        yield LOG.level
    finally:
        LOG.setLevel(before)
def helper_of(name):
    return text.HELPERS[name]('x')
SHOUT = text.HELPERS['shout']('hey')
"""
PLUGINS = {
    "plugins.__init__": """\
import importlib
_LAZY = {'extra': 'plugins.text', 'heavy': 'plugins.base'}
def __getattr__(name):
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name.upper())
    raise AttributeError(name)
def __dir__():
    return sorted([*globals(), *_LAZY])
""",
    "plugins.base": """\
VERBOSE = False
MAX_TEXT = 20
DEPTH = 4
HEAVY = 'h'
class Plugin:
    registry = {}
    order = 0
    def __init_subclass__(cls, name=None, **words):
        super().__init_subclass__(**words)
        cls.name = name or cls.__name__.lower()
        Plugin.registry[cls.name] = cls
    def run(self):
        return f'{self.name}:{self.order}'
def load_all():
    return [kind() for kind in sorted(Plugin.registry.values(), key=lambda kind: kind.order)]
""",
    "plugins.impl": """\
from .base import Plugin
from .events import on
class Mail(Plugin, name='mail'):
    order = 2
class Feed(Plugin):
    order = 1
    def run(self):
        return super().run().upper()
@on('start', priority=5)
def feed_started(name):
    return f'feed of {name}'
""",
    "plugins.events": """\
from collections import defaultdict
class Bus:
    def __init__(self):
        self.handlers = defaultdict(list)
        self.once = set()
    def add(self, name, function, priority=0, once=False):
        self.handlers[name].append((-priority, len(self.handlers[name]), function))
        self.handlers[name].sort(key=lambda row: row[:2])
        if once:
            self.once.add(function.__name__)
    def emit(self, name, *args):
        return [function(*args) for _, _, function in self.handlers[name]]
bus = Bus()
def on(name, **words):
    def register(function):
        bus.add(name, function, **words)
        return function
    return register
""",
    "plugins.text": """\
from functools import partial, wraps
PAGES = 2
EXTRA = 'e'
PATTERNS = {'int': r'\\\\d+', 'word': r'\\\\w+'}
HELPERS = {}
def helper(function=None, *, name=None):
    if function is None:
        return partial(helper, name=name)
    @wraps(function)
    def call(*args):
        call.count += 1
        return function(*args)
    call.count = 0
    HELPERS[name or function.__name__] = call
    return call
@helper
def shout(value):
    return value.upper() + '!'
@helper(name='quote')
def quoted(value):
    return f'"{value}"'
def title(value, *, sep=' '):
    return sep.join(word.capitalize() for word in value.split())
""",
    "plugins.fields": """\
class Field:
    kind = object
    def __init__(self, default=None, **options):
        self.default, self.options = default, options
    def __set_name__(self, owner, name):
        self.name = name
    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        return instance.__dict__.get(self.name, self.default)
    def __set__(self, instance, value):
        instance.__dict__[self.name] = self.check(value)
    def check(self, value):
        return value
class Integer(Field):
    kind = int
    def check(self, value):
        return int(value)
class Text(Field):
    kind = str
    def check(self, value):
        if len(value) > self.options.get('max', 10):
            raise ValueError(self.name)
        return value
class ModelMeta(type):
    def __new__(meta, name, bases, space, **words):
        made = super().__new__(meta, name, bases, space, **words)
        made.own = [key for key, value in space.items() if isinstance(value, Field)]
        return made
class Model(metaclass=ModelMeta):
    def __init__(self, **values):
        for name, value in values.items():
            setattr(self, name, value)
    @classmethod
    def fields(cls):
        return [(name, getattr(cls, name).kind.__name__) for base in reversed(cls.__mro__) for name in getattr(base, 'own', ())]
""",
}
PLUGIN_PROBES = (
    "[(name, plugin.run()) for name, plugin in zip(base.Plugin.registry, base.load_all())]", "[type(plugin).__name__ for plugin in m.LOADED], [plugin.run() for plugin in m.LOADED]",
    "sorted(base.Plugin.registry), [base.Plugin.registry[k].__name__ for k in base.Plugin.registry]", "m.bus.emit('start', 'x'), m.bus.emit('stop', 'y'), sorted(m.bus.once)",
    "m.LOG.level, {k: p.pattern for k, p in m.PATTERNS.items()}, m.TITLE", "m.BOX.width, m.BOX.name, m.BOX.size(), m.BIG.size(), m.BIG.depth", "m.IS_SIZED, m.FIELDS, m.BigBox.fields(), m.Box.own",
    "isinstance(m.Box(), m.Sized), isinstance(3, m.Sized)", "m.KINDS, m.kind_of(m.BIG), m.kind_of('x'), m.kind_of({'kind': 1})", "__import__('asyncio').run(m.collect())",
    "m.quiet().__enter__(), m.LOG.setLevel(30)", "m.SHOUT, sorted(text.HELPERS), m.helper_of('shout')", "text.HELPERS.get('quote', str)('q'), text.shout('z')",
    "plugins.extra, plugins.heavy, 'extra' in dir(plugins)", "m.Box(width='7').width, m.Box(name='n' * 9).name", "m.Box.name.options, m.Box.width.default, m.Box.width.name",
    "type(m.BOX) is m.Box, type(m.BIG) is m.BigBox, isinstance(m.BIG, m.Box)", "sorted(n for n in vars(impl) if n[:2] != '__')", "sorted(n for n in vars(text) if n[:2] != '__')",
    "[h[2].__name__ for h in m.bus.handlers['start']]", "hasattr(plugins, 'more')",
)  # fmt: skip
PLUGIN_EDITS = edits_of(
    "plugins",
    PLUGINS_M,
    [
        ("an order of a class that a hook has registered", "order = 2", "order = 0", PLUGIN_PROBES, {"edited": "plugins.impl"}),
        ("a name of a hook's keyword", "name='mail'", "name='post'", PLUGIN_PROBES, {"edited": "plugins.impl"}),
        ("a plugin more", "class Feed(Plugin):", "class News(Plugin):\n    order = 3\nclass Feed(Plugin):", PLUGIN_PROBES, {"edited": "plugins.impl"}),
        ("a plugin more at the end", "@on('start', priority=5)", "class News(Plugin):\n    order = 3\n@on('start', priority=5)", PLUGIN_PROBES, {"edited": "plugins.impl"}),
        ("a plugin less", "class Mail(Plugin, name='mail'):\n    order = 2\n", "", PLUGIN_PROBES, {"edited": "plugins.impl"}),
        ("a base of a plugin", "class Feed(Plugin):", "class Feed(Mail):", PLUGIN_PROBES, {"edited": "plugins.impl"}),
        ("a method that overrides less", "    def run(self):\n        return super().run().upper()\n", "", PLUGIN_PROBES, {"edited": "plugins.impl"}),
        ("a body of a hook", "name or cls.__name__.lower()", "name or cls.__name__.upper()", PLUGIN_PROBES, {"edited": "plugins.base"}),
        ("a default in a base", "    order = 0\n", "    order = 9\n", PLUGIN_PROBES, {"edited": "plugins.base"}),
        ("a key of a sorted registry", "key=lambda kind: kind.order", "key=lambda kind: -kind.order", PLUGIN_PROBES, {"edited": "plugins.base"}),
        ("a level by a guard", "VERBOSE = False", "VERBOSE = True", PLUGIN_PROBES, {"edited": "plugins.base"}),
        ("a depth in a case and a field", "DEPTH = 4", "DEPTH = 2", PLUGIN_PROBES, {"edited": "plugins.base"}),
        ("a maximum of a field", "MAX_TEXT = 20", "MAX_TEXT = 30", PLUGIN_PROBES, {"edited": "plugins.base"}),
        ("a priority of a listener", "priority=5", "priority=-5", PLUGIN_PROBES, {"edited": "plugins.impl"}),
        ("a listener of another event", "@on('start', priority=5)", "@on('stop', priority=5)", PLUGIN_PROBES, {"edited": "plugins.impl"}),
        ("a listener less", "@on('stop', once=True)\n", "", PLUGIN_PROBES),
        ("a listener is no longer once", "@on('stop', once=True)", "@on('stop')", PLUGIN_PROBES),
        ("a listener more", "@on('stop', once=True)", "@on('start', priority=9)\ndef first(name):\n    return 'first'\n@on('stop', once=True)", PLUGIN_PROBES),
        ("a listener is renamed", "def started(name)", "def has_started(name)", PLUGIN_PROBES),
        ("a listener's body", "f'{name} started'", "f'{name} has started'", PLUGIN_PROBES),
        ("a bus's order", "(-priority, len", "(priority, len", PLUGIN_PROBES, {"edited": "plugins.events"}),
        ("what a bus emits", "[function(*args) for _, _, function in self.handlers[name]]", "[function(*args) for _, _, function in reversed(self.handlers[name])]", PLUGIN_PROBES, {"edited": "plugins.events"}),
        ("an attribute of a bus", "        self.once = set()\n", "        self.once = set()\n        self.count = 0\n", (*PLUGIN_PROBES, "m.bus.count"), {"edited": "plugins.events"}),
        ("a default of a descriptor", "Integer(default=3)", "Integer(default=6)", PLUGIN_PROBES),
        ("a descriptor of another class", "name = Text(max=base.MAX_TEXT)", "name = Integer(default=0)", PLUGIN_PROBES[:-7] + PLUGIN_PROBES[-5:]),
        ("a descriptor more", "    name = Text(max=base.MAX_TEXT)\n", "    name = Text(max=base.MAX_TEXT)\n    height = Integer(default=1)\n", (*PLUGIN_PROBES, "m.BOX.height")),
        ("a descriptor less", "    depth = Integer(default=base.DEPTH)\n", "", tuple(p for p in PLUGIN_PROBES if "depth" not in p), {"more": [("m", "super().size() * self.depth", "super().size()")]}),
        ("a descriptor's class attribute", "    kind = str\n", "    kind = bytes\n", PLUGIN_PROBES, {"edited": "plugins.fields"}),
        ("a descriptor's check", "return int(value)", "return int(value) + 1", PLUGIN_PROBES, {"edited": "plugins.fields"}),
        ("a descriptor's constructor", "self.default, self.options = default, options", "self.default, self.options = default, {**options, 'set': 1}", PLUGIN_PROBES, {"edited": "plugins.fields"}),
        ("a metaclass's body", "for key, value in space.items() if isinstance(value, Field)]", "for key, value in sorted(space.items()) if isinstance(value, Field)]", PLUGIN_PROBES, {"edited": "plugins.fields"}),
        ("a class method of a base", "getattr(cls, name).kind.__name__)", "getattr(cls, name).kind.__name__[:3])", PLUGIN_PROBES, {"edited": "plugins.fields"}),
        ("a protocol's method", "def size(self) -> int: ...", "def area(self) -> int: ...", PLUGIN_PROBES),
        ("a pattern of a table", "'word': r'", "'name': r'x", PLUGIN_PROBES, {"edited": "plugins.text"}),
        ("a wrapper of helpers", "return function(*args)", "return function(*args) * 2", PLUGIN_PROBES, {"edited": "plugins.text"}),
        ("a name of a helper", "@helper(name='quote')", "@helper(name='q')", PLUGIN_PROBES, {"edited": "plugins.text"}),
        ("a helper less", "@helper(name='quote')\n", "", PLUGIN_PROBES, {"edited": "plugins.text"}),
        ("a helper's text", "value.upper() + '!'", "value.upper() + '?'", PLUGIN_PROBES, {"edited": "plugins.text"}),
        ("a default of pages", "PAGES = 2", "PAGES = 3", PLUGIN_PROBES, {"edited": "plugins.text"}),
        ("a title's separator", "sep=' '", "sep='_'", PLUGIN_PROBES, {"edited": "plugins.text"}),
        ("a lazy name", "EXTRA = 'e'", "EXTRA = 'f'", PLUGIN_PROBES, {"edited": "plugins.text"}),
        ("a lazy name more", "'heavy': 'plugins.base'", "'heavy': 'plugins.base', 'more': 'plugins.more'", PLUGIN_PROBES, {"edited": "plugins.__init__", "more": [("plugins.more", "", "MORE = 1\n")]}),
        ("a case", "return 'text'", "return 'string'", PLUGIN_PROBES),
        ("an order of cases", "        case [first, *_]:\n            return first\n        case str() | bytes():", "        case str() | bytes() | [_, *_]:", PLUGIN_PROBES),
        ("a level of a context", "level=logging.ERROR", "level=logging.CRITICAL", PLUGIN_PROBES),
        # loads in sequence
        ("a listener more, then less", "@on('stop', once=True)", "@on('start', priority=9)\ndef first(name):\n    return 'first'\n@on('stop', once=True)", PLUGIN_PROBES, {"then": [[("m", "@on('start', priority=9)\ndef first(name):\n    return 'first'\n", "")]]}),
        ("a listener's event, then back", "@on('start', priority=5)", "@on('stop', priority=5)", PLUGIN_PROBES, {"edited": "plugins.impl", "then": [[("plugins.impl", "@on('stop', priority=5)", "@on('start', priority=5)")]]}),
        ("a plugin more, then its order, then less", "@on('start', priority=5)", "class News(Plugin):\n    order = 3\n@on('start', priority=5)", PLUGIN_PROBES, {"edited": "plugins.impl", "then": [[("plugins.impl", "order = 3", "order = -3")], [("plugins.impl", "class News(Plugin):\n    order = -3\n", "")]]}),
        ("a descriptor more, then its default", "    name = Text(max=base.MAX_TEXT)\n", "    name = Text(max=base.MAX_TEXT)\n    height = Integer(default=1)\n", (*PLUGIN_PROBES, "m.BOX.height"), {"then": [[("m", "height = Integer(default=1)", "height = Integer(default=2)")]]}),
        ("a helper less and back", "@helper(name='quote')\n", "", PLUGIN_PROBES, {"edited": "plugins.text", "then": [[("plugins.text", "def quoted", "@helper(name='quote')\ndef quoted")]]}),
        ("a wrapper, then a helper", "call.count += 1\n", "call.count += 2\n", PLUGIN_PROBES, {"edited": "plugins.text", "then": [[("plugins.text", "'!'", "'!!'")]]}),
        ("a function becomes a class and back", "def kind_of(value):\n", "def kind_of(value, strict=False):\n", PLUGIN_PROBES, {"then": [[("m", "strict=False", "strict=True")], [("m", ", strict=True", "")]]}),
    ],
    others=PLUGINS,
)  # fmt: skip
ALL = with_expected(
    [*STORE_EDITS, *PLUGIN_EDITS],
    invisible=["store: a module is merged into another"],
    reported=["store: a fallback that appears"],
)
