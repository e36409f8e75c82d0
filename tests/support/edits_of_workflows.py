"""Edits to programs that process orders: queues, rules and reports in plain Python, and with web and data libraries."""

from edit_cases import edits_of, with_expected

RULES = """\
import bisect, heapq, operator
from collections import ChainMap, Counter, OrderedDict, defaultdict, deque
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial, reduce, total_ordering, wraps
from types import MappingProxyType, SimpleNamespace
import limits
RULES = []
BY_KIND = defaultdict(list)
def rule(kind='any', *, rank=limits.RANK):
    def decorate(function):
        @wraps(function)
        def wrapper(order):
            return limits.prefix + function(order)
        wrapper.rank = rank
        bisect.insort(RULES, (rank, function.__name__))
        BY_KIND[kind].append(wrapper)
        return wrapper
    return decorate
@rule()
def total(order):
    return str(sum(order.values()))
@rule('food', rank=2)
def names(order):
    return ','.join(sorted(order))
@rule('food', rank=1)
def _(order):
    return 'first'
@rule('tool')
def _(order):
    return 'second'
@total_ordering
class Priority:
    def __init__(self, level, label='p'):
        self.level, self.label = level, label
    def __eq__(self, other):
        return self.level == other.level
    def __hash__(self):
        return hash(self.level)
    def __lt__(self, other):
        return self.level < other.level
    def __repr__(self):
        return f'{self.label}{self.level}'
HEAP = []
for level in (3, 1, 2):
    heapq.heappush(HEAP, Priority(level))
URGENT = min(HEAP)
DEFAULTS = {'carrier': 'post', 'days': limits.DAYS}
OPTIONS = ChainMap({'days': 9}, DEFAULTS)
FROZEN = MappingProxyType(DEFAULTS)
SPACE = SimpleNamespace(days=limits.DAYS, carrier=DEFAULTS['carrier'])
COUNTS = Counter('banana')
COUNTS.update(a=limits.DAYS)
HISTORY = deque([1, 2, 3], maxlen=2)
CODES = OrderedDict(zip('abc', range(limits.DAYS)))
scale = partial(operator.mul, limits.DAYS)
SCALED = reduce(operator.add, map(scale, (1, 2)))
get_days = operator.itemgetter('days')
class Cart:
    discount = 0
    def __init__(self, **items):
        self.items = items
    @cached_property
    def price(self):
        return sum(self.items.values()) - self.discount
    class Line:
        width = 10
        def show(self, text):
            return text.rjust(self.width, '.')
        class Cell:
            fill = '#'
    def __class_getitem__(cls, key):
        return f'{cls.__name__}<{key}>'
ALIAS = Cart['int']
CART = Cart(pen=3, ink=4)
LINE = Cart.Line()
@contextmanager
def closing(name, log=[]):
    log.append(name)
    yield SimpleNamespace(name=name)
with ExitStack() as stack:
    OPENED = [stack.enter_context(closing(name)).name for name in ('a', 'b')]
def route(message):
    match message:
        case {'kind': 'order', 'lines': [first, *rest]}:
            return f'order {first} and {len(rest)}'
        case {'kind': str(kind)} if kind in limits.KINDS:
            return f'known {kind}'
        case [int(x), int(y)] | (x, y):
            return x, y
        case _:
            return None
ROUTED = [route({'kind': 'order', 'lines': [1, 2]}), route({'kind': 'bill'}), route([1, 2])]
match limits.DAYS:
    case 4:
        SPEED = 'slow'
    case 2 | 3 as days if days > 2:
        SPEED = 'quick'
    case _:
        SPEED = 'unknown'
try:
    import orjson_that_is_missing as json_module
except ImportError:
    json_module = None
    ENCODE = repr
else:
    ENCODE = json_module.dumps
if limits.DAYS > 2 and not json_module:
    def describe(order, *, unit=limits.UNIT):
        "Describe an order."
        return ENCODE(order) + unit
else:
    def describe(order):
        return 'short'
"""
LIMITS = """\
RANK = 5
DAYS = 3
UNIT = 'pcs'
prefix = '>'
KINDS = ('bill',)
"""
RULED = (
    "m.RULES", "{k: [(f.__name__, f.rank, f({'a': 1, 'b': 2})) for f in v] for k, v in m.BY_KIND.items()}", "m.URGENT, sorted(m.HEAP)",
    "dict(m.OPTIONS), dict(m.FROZEN), vars(m.SPACE)", "m.COUNTS", "list(m.HISTORY)", "dict(m.CODES)", "m.scale(2), m.SCALED", "m.get_days(m.OPTIONS)",
    "m.ALIAS", "m.CART.price, m.CART.discount", "m.LINE.show('x'), m.Cart.Line.Cell.fill", "m.OPENED", "m.ROUTED, m.route({'kind': 'gift'})", "m.SPEED",
    "m.describe({}), m.describe.__doc__", "m.total({'a': 1})", "m._({})", "m.ENCODE is repr",
)  # fmt: skip
RULE_EDITS = edits_of(
    "rules",
    RULES,
    [
        ("a default of a decorator's factory", "rank=limits.RANK", "rank=limits.RANK + 1", RULED),
        ("a constant of a decorator's factory", "RANK = 5", "RANK = 6", RULED, {"edited": "limits"}),
        ("a prefix in a wrapper", "prefix = '>'", "prefix = '='", RULED, {"edited": "limits"}),
        ("a wrapper's attribute", "wrapper.rank = rank", "wrapper.rank = -rank", RULED),
        ("the first of two underscores", "return 'first'", "return 'FIRST'", RULED),
        ("the second of two underscores", "return 'second'", "return 'SECOND'", RULED),
        ("a rank of an underscore", "@rule('food', rank=1)", "@rule('food', rank=7)", RULED),
        ("an underscore more", "@total_ordering\n", "@rule('late')\ndef _(order):\n    return 'third'\n@total_ordering\n", RULED),
        ("a comparison", "self.level < other.level", "self.level > other.level", RULED),
        ("a default label", "label='p'", "label='q'", RULED),
        ("an entry of defaults", "'carrier': 'post'", "'carrier': 'rail'", RULED),
        ("days", "DAYS = 3", "DAYS = 2", RULED, {"edited": "limits"}),
        ("days that reach another case", "DAYS = 3", "DAYS = 4", RULED, {"edited": "limits"}),
        ("a layer", "ChainMap({'days': 9}, DEFAULTS)", "ChainMap(DEFAULTS, {'days': 9})", RULED),
        ("a length of a history", "maxlen=2", "maxlen=3", RULED),
        ("a partial's function", "partial(operator.mul", "partial(operator.add", RULED),
        ("a key of a getter", "itemgetter('days')", "itemgetter('carrier')", RULED),
        ("a class attribute that a cached value reads", "discount = 0", "discount = 1", RULED),
        ("a width of a nested class", "width = 10", "width = 4", RULED),
        ("a class within a nested class", "fill = '#'", "fill = '*'", RULED),
        ("a nested class is renamed", "class Cell:", "class Box:", (*RULED, "m.Cart.Line.Box.fill")),
        ("how a class is subscripted", "<{key}>", "[{key}]", RULED),
        ("a keyword of an instance", "ink=4", "ink=5", RULED),
        ("what a manager yields", "SimpleNamespace(name=name)", "SimpleNamespace(name=name * 2)", RULED),
        ("a name that is opened", "('a', 'b')]", "('a', 'c')]", RULED),
        ("a text of a case", "return f'order {first} and {len(rest)}'", "return f'order {first} + {len(rest)}'", RULED),
        ("kinds of a guard", "KINDS = ('bill',)", "KINDS = ('bill', 'gift')", RULED, {"edited": "limits"}),
        ("a pattern more", "        case [int(x)", "        case {'kind': 'bill'}:\n            return 'a bill'\n        case [int(x)", RULED),
        ("a capture in a guard", "days > 2:", "days > 5:", RULED),
        ("a unit in a guarded function", "UNIT = 'pcs'", "UNIT = 'kg'", RULED, {"edited": "limits"}),
        ("a docstring in a branch", "Describe an order.", "Describe it.", RULED),
        ("a guard", "limits.DAYS > 2 and", "limits.DAYS > 3 and", RULED),
        ("an encoder of a handler", "    ENCODE = repr\n", "    ENCODE = str\n", RULED),
    ],
    others={"limits": LIMITS},
)  # fmt: skip
MODELS = """\
import enum
from abc import ABC, abstractmethod
from dataclasses import InitVar, dataclass, field, fields, replace, asdict
from typing import ClassVar, Generic, NamedTuple, Protocol, TypedDict, TypeVar, runtime_checkable
T = TypeVar('T')
class Stage(enum.IntEnum):
    NEW = 1
    PAID = 2
    SENT = 3
    @property
    def following(self):
        return Stage(min(self + 1, max(Stage)))
    @classmethod
    def _missing_(cls, value):
        return cls.NEW
class Access(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()
    BOTH = READ | WRITE
class Unit(str, enum.Enum):
    KG = 'kg'
    L = 'l'
    def __str__(self):
        return self.value.upper()
FLOW = {stage: stage.following for stage in Stage}
LABELS = {Unit.KG: 'kilo', Unit.L: 'litre'}
class Repository(ABC, Generic[T]):
    registry: ClassVar[dict] = {}
    table = 'none'
    def __init_subclass__(cls, *, table=None, **options):
        super().__init_subclass__(**options)
        cls.table = table or cls.__name__.lower()
        Repository.registry[cls.table] = cls
    @abstractmethod
    def load(self, key): ...
    def describe(self):
        return f'{type(self).__name__}:{self.table}'
@dataclass(order=True)
class Item:
    name: str
    count: int = 1
    tags: list = field(default_factory=lambda: ['new'], compare=False)
    unit: Unit = Unit.KG
    bonus: InitVar[int] = 0
    LIMIT: ClassVar[int] = 9
    def __post_init__(self, bonus):
        self.count = min(self.count + bonus, self.LIMIT)
    @property
    def label(self):
        return f'{self.count} {self.unit} {self.name}'
@dataclass(frozen=True)
class Pair:
    left: int = 1
    right: int = field(default=2, repr=False)
    def swapped(self):
        return replace(self, left=self.right, right=self.left)
class Point(NamedTuple):
    x: int
    y: int = 0
    def norm(self):
        return abs(self.x) + abs(self.y)
class Row(TypedDict, total=False):
    name: str
    size: int
@runtime_checkable
class Loads(Protocol):
    def load(self, key): ...
class Items(Repository[Item], table='items'):
    def load(self, key):
        return Item(key)
class Pairs(Repository[Pair]):
    def load(self, key):
        return Pair(key)
PEN = Item('pen', 3, bonus=2)
MANY = sorted([Item('b'), Item('a', 2)])
PAIR = Pair().swapped()
ORIGIN = Point(1)
KEYS = tuple(field.name for field in fields(Item))
PLAIN = asdict(PEN)
"""
REPORTS = """\
import m
from m import Item, Stage, Point, Repository
class Special(Item):
    def label_of(self):
        return '*' + self.label
class Archive(m.Items, table='archive'):
    def describe(self):
        return 'old ' + super().describe()
START = Stage.NEW
def advance(stage=Stage.PAID, at=Point(2, 3)):
    return stage.following, at.norm()
NORMS = [point.norm() for point in (Point(1, 1), m.ORIGIN)]
ALL = sorted(Repository.registry)
"""
KINDS = (
    "[(s.name, int(s), s.following.name) for s in m.Stage], m.Stage(77)", "{k.name: v.name for k, v in m.FLOW.items()}", "[(a.name, a.value) for a in m.Access], m.Access.BOTH",
    "[str(u) for u in m.Unit], sorted(m.LABELS.values())", "{k: v.__name__ for k, v in m.Repository.registry.items()}", "m.Items().describe(), m.Pairs().describe()",
    "m.PEN, m.PEN.label, m.MANY", "m.PAIR, m.PAIR.right, m.Pair()", "m.ORIGIN, m.ORIGIN.norm(), m.Point._fields", "sorted(m.Row.__optional_keys__), sorted(m.Row.__required_keys__)",
    "isinstance(m.Items(), m.Loads)", "m.KEYS, m.PLAIN", "n.Special('x', 2, bonus=1).label_of()", "n.Archive().describe()", "n.START, n.advance()", "n.NORMS", "n.ALL",
    "m.Item('a') < m.Item('b')", "m.Items().load('k')", "n.START is m.Stage.NEW",
)  # fmt: skip
KIND_EDITS = edits_of(
    "stages",
    MODELS,
    [
        ("a value of a member", "SENT = 3", "SENT = 5", KINDS),
        ("a member more in the middle", "    PAID = 2\n", "    PAID = 2\n    PACKED = 4\n", KINDS),
        ("a property of members", "self + 1", "self + 2", KINDS),
        ("a missing member", "return cls.NEW", "return cls.SENT", KINDS),
        ("a flag more", "    BOTH = READ | WRITE\n", "    RUN = enum.auto()\n    BOTH = READ | WRITE\n", KINDS),
        ("a text of members", "self.value.upper()", "self.value.title()", KINDS),
        ("a member less", "    L = 'l'\n", "", KINDS, {"more": [("m", ", Unit.L: 'litre'", "")]}),
        ("a keyword of a base's hook", "table='items'", "table='stock'", KINDS),
        ("how a hook names", "cls.__name__.lower()", "cls.__name__.upper()", KINDS),
        ("a method of the base", "{type(self).__name__}:{self.table}", "{type(self).__name__}/{self.table}", KINDS),
        ("a default of a field", "count: int = 1", "count: int = 4", KINDS),
        ("a factory of a field", "['new']", "['old']", KINDS),
        ("a limit of a class", "LIMIT: ClassVar[int] = 9", "LIMIT: ClassVar[int] = 4", KINDS),
        ("a default of an argument that is no field", "bonus: InitVar[int] = 0", "bonus: InitVar[int] = 1", KINDS),
        ("a representation of a field", "default=2, repr=False", "default=2", KINDS),
        ("a method of a frozen class", "left=self.right", "left=self.right + 1", KINDS),
        ("a default of a named tuple", "y: int = 0", "y: int = 5", KINDS),
        ("a method of a named tuple", "abs(self.x) +", "2 * abs(self.x) +", KINDS),
        ("a total of a typed dictionary", "total=False", "total=True", KINDS),
        ("a method of a protocol", "class Loads(Protocol):\n    def load(self, key): ...", "class Loads(Protocol):\n    def load_all(self): ...", KINDS),
        ("an abstract method more", "    def describe(self):", "    @abstractmethod\n    def store(self): ...\n    def describe(self):", KINDS),
        ("another base", "class Pairs(Repository[Pair]):", "class Pairs(Items):", KINDS),
        ("a method that is inherited elsewhere", "return Item(key)", "return Item(key, 2)", (*KINDS, "n.Archive().load('z')")),
        ("a default of an object elsewhere", "at=Point(2, 3)", "at=Point(2, 4)", KINDS, {"edited": "n"}),
    ],
    others={"n": REPORTS},
)  # fmt: skip
PICKS = """\
from functools import lru_cache
class Server:
    known = {}
    def __init__(self, name):
        self.name = name
    @classmethod
    def of(cls, name):
        return cls.known[name]
SMALL, LARGE = Server('small'), Server('large')
Server.known['a'], Server.known['b'] = SMALL, LARGE
TABLES = {'a': [1], 'b': [2]}
@lru_cache
def cached(mode):
    return {'mode': mode}
FIRST, SECOND = cached('a'), cached('b')
MODE = 'a'
ACTIVE = TABLES[MODE]
CURRENT = SMALL if MODE == 'a' else LARGE
FOUND = Server.of(MODE)
OPTIONS = cached(MODE)
FALLBACK = TABLES['a'] if MODE == 'a' else [9]
MADE = [MODE]
class Settings:
    table = TABLES[MODE]
    server = CURRENT
"""
PICKED = (
    "m.TABLES, m.ACTIVE, m.ACTIVE is m.TABLES[m.MODE]", "m.SMALL.name, m.LARGE.name, m.CURRENT.name", "m.CURRENT is m.Server.known[m.MODE]",
    "m.FOUND is m.CURRENT", "m.OPTIONS is m.cached(m.MODE), m.FIRST, m.SECOND", "m.FALLBACK", "m.MADE is made, made == [m.MODE]",
    "m.Settings.table is m.ACTIVE, m.Settings.server is m.CURRENT",
)  # fmt: skip
PICK_EDITS = edits_of(
    "selections",
    PICKS,
    [
        ("a mode", "MODE = 'a'", "MODE = 'b'", PICKED),
        ("a condition", "SMALL if MODE == 'a'", "SMALL if MODE == 'b'", PICKED[:3]),
        ("a fallback", "else [9]", "else [8]", PICKED),
        ("what a class method returns", "return cls.known[name]", "return cls.known['b']", PICKED[:3]),
        ("a name of an object", "Server('small')", "Server('tiny')", PICKED),
    ],
    hold="made = m.MADE",
)  # fmt: skip
GENERIC = """\
from abc import ABC
from typing import ClassVar, Generic, TypeVar
T = TypeVar('T')
class Store(ABC, Generic[T]):
    stores: ClassVar[dict] = {}
    def __init_subclass__(cls, *, table=None, **options):
        super().__init_subclass__(**options)
        cls.table = table or cls.__name__.lower()
        Store.stores[cls.table] = cls
class Items(Store[int], table='items'): pass
class Pairs(Store[str]): pass
"""
STORED = ("{table: kind.__name__ for table, kind in m.Store.stores.items()}", "m.Items.table, len(m.Store.stores)")
STORE_EDITS = edits_of(
    "generic stores",
    GENERIC,
    [
        ("a keyword", "table='items'", "table='stock'", STORED),
        ("how a hook names", "lower()", "upper()", STORED),
        ("a class is renamed", "class Pairs", "class Tuples", STORED),
        (
            "a class more",
            "class Pairs",
            "class Lines(Store[bytes]): pass\nclass Pairs",
            ("sorted(m.Store.stores)", "m.Lines.table"),
        ),
    ],
)
ALL = with_expected(
    [*RULE_EDITS, *KIND_EDITS, *PICK_EDITS, *STORE_EDITS],
    reported=["rules: what a manager yields", "selections: a name of an object"],
)
