"""Edits of four programs: file formats, made classes, a ward (pydantic) and the states of a desk."""

from edit_cases import edits_of, with_expected

FORMATS = {
    "codes": """\
import configparser, csv, io, json, logging, string, threading
from datetime import date, datetime, timedelta, timezone
INI = '''
[shop]
name = corner
size = 3
[shop.extra]
open = yes
'''
config = configparser.ConfigParser()
config.read_string(INI)
SIZE = config.getint('shop', 'size')
class Semicolon(csv.Dialect):
    delimiter = ';'
    quotechar = '"'
    lineterminator = '\\n'
    quoting = csv.QUOTE_MINIMAL
def rows(items, dialect=Semicolon):
    out = io.StringIO()
    csv.writer(out, dialect=dialect).writerows(items)
    return out.getvalue()
class Encoder(json.JSONEncoder):
    precision = 2
    def default(self, thing):
        if isinstance(thing, date):
            return thing.isoformat()
        if hasattr(thing, '__json__'):
            return thing.__json__()
        return super().default(thing)
class Shout(string.Formatter):
    def convert_field(self, value, conversion):
        return str(value).upper() if conversion == 'u' else super().convert_field(value, conversion)
    def get_value(self, key, given, words):
        return words.get(key, '?') if isinstance(key, str) else given[key]
shout = Shout()
ZONE = timezone(timedelta(hours=2), 'HERE')
EPOCH = datetime(2020, 1, 1, tzinfo=ZONE)
class Prefix(logging.LoggerAdapter):
    def process(self, message, words):
        return f'[{self.extra["who"]}] {message}', words
log = Prefix(logging.getLogger('codes'), {'who': config['shop']['name']})
local = threading.local()
local.level = SIZE
TABLE = str.maketrans({'a': '4', 'e': '3'})
""",
}
FORMATS_M = """\
import itertools, json, logging, operator, re
from codes import EPOCH, Encoder, INI, SIZE, TABLE, config, local, log, rows, shout
import codes
class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y
    def __json__(self):
        return {'x': self.x, 'y': self.y}
TEXT = json.dumps({'at': EPOCH.date(), 'point': Point(1, SIZE)}, cls=Encoder, sort_keys=True)
CSV = rows([['a', 1], ['b;c', SIZE]])
HELLO = shout.format('{0!u} is {size} {more}', config['shop']['name'], size=SIZE)
LEET = 'banane'.translate(TABLE)
MESSAGE, _ = log.process('ready', {})
GROUPS = {key: list(found) for key, found in itertools.groupby(sorted(['ab', 'c', 'de'], key=len), key=len)}
PATTERN = re.compile('|'.join(map(re.escape, config['shop'])), re.I)
SECTIONS = config.sections()
OPEN = config.getboolean('shop.extra', 'open')
LATER = (EPOCH + codes.timedelta(days=SIZE)).strftime('%d.%m.%Y %Z')
ORDER = sorted([Point(2, 1), Point(1, 2)], key=operator.attrgetter('x'))[0].y
class Lines(list):
    def __init__(self, text=INI):
        super().__init__(line for line in text.splitlines() if line)
    def __contains__(self, line):
        return any(line in each for each in self)
HAS = 'size' in Lines()
COUNT = len(Lines())
"""
FORMATS_PROBES = (
    "m.TEXT, m.CSV, m.HELLO, m.LEET, m.MESSAGE, m.GROUPS, m.PATTERN.pattern, m.SECTIONS, m.OPEN, m.LATER, m.ORDER, m.HAS, m.COUNT", "codes.SIZE, codes.local.level, codes.EPOCH, codes.config['shop']['name'], codes.rows([['x', 'y']]), codes.shout.format('{a!u}', a='b'), codes.log.process('q', {})[0], m.Point(3, 4).__json__()",
)  # fmt: skip
FORMATS_EDITS = edits_of(
    "formats",
    FORMATS_M,
    [
        ("a number in a text of settings", "size = 3", "size = 4", FORMATS_PROBES, {"edited": "codes"}),
        ("a name in a text of settings", "name = corner", "name = market", FORMATS_PROBES, {"edited": "codes"}),
        ("a section more", "[shop.extra]", "[more]\na = 1\n[shop.extra]", FORMATS_PROBES, {"edited": "codes"}),
        ("a truth in a text of settings", "open = yes", "open = no", FORMATS_PROBES, {"edited": "codes"}),
        ("a delimiter of a dialect", "delimiter = ';'", "delimiter = '|'", FORMATS_PROBES, {"edited": "codes"}),
        ("how a date is encoded", "thing.isoformat()", "thing.strftime('%d.%m.')", FORMATS_PROBES, {"edited": "codes"}),
        ("how a thing is encoded", "return thing.__json__()", "return [thing.__json__()]", FORMATS_PROBES, {"edited": "codes"}),
        ("a conversion of a format", "str(value).upper()", "str(value).title()", FORMATS_PROBES, {"edited": "codes"}),
        ("a missing value of a format", "words.get(key, '?')", "words.get(key, '!')", FORMATS_PROBES, {"edited": "codes"}),
        ("a zone", "timedelta(hours=2), 'HERE'", "timedelta(hours=3), 'THERE'", FORMATS_PROBES, {"edited": "codes"}),
        ("an epoch", "datetime(2020, 1, 1,", "datetime(2021, 1, 1,", FORMATS_PROBES, {"edited": "codes"}),
        ("a prefix of a message", "f'[{self.extra[\"who\"]}] {message}'", "f'{self.extra[\"who\"]}: {message}'", FORMATS_PROBES, {"edited": "codes"}),
        ("a translation", "'e': '3'", "'e': 'E'", FORMATS_PROBES, {"edited": "codes"}),
        ("a level of a thread", "local.level = SIZE", "local.level = SIZE * 2", FORMATS_PROBES, {"edited": "codes"}),
        ("a method that an encoder calls", "'y': self.y}", "'y': -self.y}", FORMATS_PROBES),
        ("a key of an order", "attrgetter('x')", "attrgetter('y')", FORMATS_PROBES),
        ("a containment", "any(line in each", "all(line in each", FORMATS_PROBES),
        ("lines of a text", "if line)", "if '=' in line)", FORMATS_PROBES),
        ("an option of a dump", "sort_keys=True", "sort_keys=True, indent=1", FORMATS_PROBES),
    ],
    others=FORMATS,
)  # fmt: skip

FACTORIES = {
    "forge": """\
import abc, functools, inspect, operator, types, weakref
REGISTRY = weakref.WeakValueDictionary()
ORDER = []
LIMITS = {'low': 1, 'high': 9}
def between(low=LIMITS['low'], high=LIMITS['high']):
    def check(value):
        if not low <= value <= high:
            raise ValueError(f'{value} is not in {low}..{high}')
        return value
    return check
class Field:
    def __init__(self, *checks, default=None):
        self.checks, self.default = checks, default
    def __set_name__(self, owner, name):
        self.name = '_' + name
    def __get__(self, thing, owner):
        return self if thing is None else getattr(thing, self.name, self.default)
    def __set__(self, thing, value):
        for check in self.checks:
            value = check(value)
        setattr(thing, self.name, value)
def make(name, **fields):
    def __init__(self, **words):
        for key, value in words.items():
            setattr(self, key, value)
    def __repr__(self):
        return f'{name}({", ".join(f"{key}={getattr(self, key)!r}" for key in fields)})'
    cls = types.new_class(name, (Thing,), {}, lambda space: space.update(fields, __init__=__init__, __repr__=__repr__))
    REGISTRY[name] = cls
    ORDER.append(name)
    return cls
class Thing:
    kind = 'thing'
    def __init_subclass__(cls, **words):
        super().__init_subclass__(**words)
        cls.index = len(ORDER)
    def describe(self):
        return f'{self.kind} {self!r}'
    def copy(self, **words):
        return type(self)(**{key: getattr(self, key) for key in self.names()}, **words)
    @classmethod
    def names(cls):
        return [key for key, value in vars(cls).items() if isinstance(value, Field)]
def memo(function):
    known = {}
    @functools.wraps(function)
    def inner(*given):
        if given not in known:
            known[given] = function(*given)
        return known[given]
    inner.known = known
    return inner
class Lazy:
    def __init__(self, load):
        self._load = load
    def __getattr__(self, name):
        value = self._load()
        self.__dict__[name] = value[name]
        return value[name]
lazy = Lazy(lambda: {key: value * 2 for key, value in LIMITS.items()})
""",
}
FACTORIES_M = """\
import forge, operator
from forge import Field, LIMITS, Lazy, Thing, between, lazy, make, memo
Nail = make('Nail', size=Field(between(), default=2), color=Field(default='grey'))
Screw = make('Screw', size=Field(between(high=20), float))
NAILS = [Nail(), Nail(size=5)]
TEXTS = [nail.describe() for nail in NAILS]
COPY = NAILS[1].copy(color='red') if False else NAILS[1].describe()
@memo
def double(n):
    return n * LIMITS['low'] * 2
DOUBLES = [double(n) for n in (1, 2)]
HIGH = lazy.high
INDEXES = {cls.__name__: cls.index for cls in (Nail, Screw)}
NAMES = list(map(operator.methodcaller('names'), [Nail, Screw]))
try:
    Nail(size=50)
except ValueError as error:
    WHY = str(error)
Pair = type('Pair', (tuple,), {'first': property(operator.itemgetter(0)), 'size': 2})
PAIR = Pair(('a', 'b')).first * Pair.size
class Tool(Thing):
    kind = 'tool'
    def __repr__(self):
        return 'Tool'
TOOL = Tool().describe()
"""
FACTORIES_PROBES = (
    "m.TEXTS, m.COPY, m.DOUBLES, m.HIGH, m.INDEXES, m.NAMES, m.WHY, m.PAIR, m.TOOL", "m.Nail().describe(), m.Screw(size=15).size, raised(lambda: m.Nail(size=12)), m.double(5), sorted(forge.REGISTRY), forge.ORDER, m.Nail.size.checks and len(m.Nail.size.checks), m.lazy.low, isinstance(m.NAILS[0], m.Nail)",
)  # fmt: skip
FACTORIES_SETUP = "def raised(act):\n    try:\n        return repr(act())\n    except Exception as error:\n        return type(error).__name__ + str(error)\n"
FACTORIES_EDITS = edits_of(
    "factories",
    FACTORIES_M,
    [
        ("a limit", "'high': 9", "'high': 11", FACTORIES_PROBES, {"edited": "forge"}),
        ("a low limit", "'low': 1", "'low': 2", FACTORIES_PROBES, {"edited": "forge"}),
        ("a text of an error", "f'{value} is not in {low}..{high}'", "f'{value} not in {low}-{high}'", FACTORIES_PROBES, {"edited": "forge"}),
        ("a text of what is made", "f'{name}({", "f'<{name}>({", FACTORIES_PROBES, {"edited": "forge"}),
        ("a kind", "kind = 'thing'", "kind = 'part'", FACTORIES_PROBES, {"edited": "forge"}),
        ("a description", "f'{self.kind} {self!r}'", "f'{self!r} ({self.kind})'", FACTORIES_PROBES, {"edited": "forge"}),
        ("an index", "cls.index = len(ORDER)", "cls.index = len(ORDER) + 1", FACTORIES_PROBES, {"edited": "forge"}),
        ("names of fields", "if isinstance(value, Field)]", "if isinstance(value, Field) and key != 'color']", FACTORIES_PROBES, {"edited": "forge"}),
        ("a lazy value", "value * 2 for", "value * 3 for", FACTORIES_PROBES, {"edited": "forge"}),
        ("how a field is set", "value = check(value)", "value = check(value) * 1", FACTORIES_PROBES, {"edited": "forge"}),
        ("a default of a field", "default=2)", "default=3)", FACTORIES_PROBES),
        ("a check more", "Field(between(high=20), float)", "Field(between(high=20), float, round)", FACTORIES_PROBES),
        ("a field more", "color=Field(default='grey'))", "color=Field(default='grey'), brand=Field(default='x'))", FACTORIES_PROBES),
        ("a memoized function", "* 2\nDOUBLES", "* 3\nDOUBLES", FACTORIES_PROBES),
        ("a number of a made class", "'size': 2}", "'size': 3}", FACTORIES_PROBES),
        ("a property of a made class", "itemgetter(0)", "itemgetter(1)", FACTORIES_PROBES),
        ("a kind of a subclass", "kind = 'tool'", "kind = 'instrument'", FACTORIES_PROBES),
        ("what is caught", "Nail(size=50)", "Nail(size=60)", FACTORIES_PROBES),
    ],
    others=FACTORIES,
    setup=FACTORIES_SETUP,
)  # fmt: skip

WARD = {
    "base": """\
from typing import Annotated, Any, ClassVar
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer
MOST = 10
def even(value):
    if value % 2:
        raise ValueError('odd')
    return value
Even = Annotated[int, AfterValidator(even)]
Words = Annotated[list[str], BeforeValidator(lambda value: value.split() if isinstance(value, str) else value)]
Hidden = Annotated[str, PlainSerializer(lambda value: '*' * len(value))]
def to_camel(name):
    first, *more = name.split('_')
    return first + ''.join(map(str.title, more))
class Base(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, str_strip_whitespace=True)
    registry: ClassVar[dict[str, type]] = {}
    version: ClassVar[int] = 1
    @classmethod
    def __pydantic_init_subclass__(cls, **words):
        super().__pydantic_init_subclass__(**words)
        Base.registry[cls.__name__] = cls
    def summary(self):
        return f'{type(self).__name__} v{self.version}'
""",
    "beds": """\
from typing import Literal, Union
from pydantic import Discriminator, Tag, ValidationError, computed_field, create_model, field_serializer, model_validator
from typing import Annotated
from base import Base, Even, Field, Hidden, MOST, Words
class Bed(Base):
    kind: Literal['bed'] = 'bed'
    bed_number: Even = 2
    tags: Words = Field(default_factory=list, max_length=3)
    @computed_field
    def label(self) -> str:
        return f'bed {self.bed_number}'
class Chair(Base):
    kind: Literal['chair'] = 'chair'
    legs: int = Field(4, le=MOST)
    secret: Hidden = 'abc'
    @model_validator(mode='before')
    @classmethod
    def fix(cls, data):
        return {'legs': data} if isinstance(data, int) else data
Furniture = Annotated[Union[Bed, Chair], Field(discriminator='kind')]
class Ward(Base):
    ward_name: str
    items: list[Furniture] = []
    @field_serializer('ward_name')
    def name(self, value):
        return value.upper()
Extra = create_model('Extra', __base__=Base, weight=(int, MOST), note=(str, 'none'))
""",
}
WARD_M = """\
from pydantic import TypeAdapter, ValidationError
import base, beds
from beds import Bed, Chair, Extra, Furniture, Ward
WARD = Ward.model_validate({'wardName': ' north ', 'items': [{'kind': 'bed', 'bedNumber': 4, 'tags': 'a b'}, {'kind': 'chair'}]})
DUMP = WARD.model_dump(by_alias=True)
ANY = TypeAdapter(Furniture)
ONE = ANY.validate_python({'kind': 'chair', 'legs': 3})
try:
    Bed(bed_number=3)
except ValidationError as error:
    WHY = error.errors()[0]['msg']
SUMMARIES = [item.summary() for item in WARD.items]
FIELDS = {name: field.alias for name, field in Ward.model_fields.items()}
DEFAULT = Extra()
COPY = WARD.model_copy(update={'ward_name': 'south'})
"""
WARD_PROBES = (
    "m.DUMP, m.WHY, m.SUMMARIES, m.FIELDS, m.DEFAULT.model_dump(), m.ONE.model_dump(), m.COPY.model_dump()['ward_name']", "tried(m.Bed, bed_number=6), tried(m.Bed, bed_number=5), tried(m.Chair, legs=12), tried(m.Bed, tags='q w e r'), m.Chair.model_validate(2).legs, sorted(base.Base.registry), m.Ward(wardName='x').model_dump_json(by_alias=True), tried(m.ANY.validate_python, {'kind': 'sofa'}), m.Extra().summary()",
)  # fmt: skip
WARD_SETUP = "def tried(act, *given, **words):\n    try:\n        found = act(*given, **words)\n        return found.model_dump() if hasattr(found, 'model_dump') else found\n    except Exception as error:\n        return [each['msg'] for each in error.errors()] if hasattr(error, 'errors') else repr(error)\n"
WARD_EDITS = edits_of(
    "ward",
    WARD_M,
    [
        ("a limit", "MOST = 10", "MOST = 14", WARD_PROBES, {"edited": "base"}),
        ("a validator", "raise ValueError('odd')", "raise ValueError('not even')", WARD_PROBES, {"edited": "base"}),
        ("what a validator accepts", "if value % 2:", "if value % 2 or value > 20:", WARD_PROBES, {"edited": "base"}),
        ("a conversion before", "value.split() if", "value.split(' ') + ['x'] if", WARD_PROBES, {"edited": "base"}),
        ("a serializer", "'*' * len(value)", "'#' * len(value)", WARD_PROBES, {"edited": "base"}),
        ("how aliases are made", "''.join(map(str.title, more))", "''.join(map(str.title, more)) + ('_' if name == 'tags' else '')", tuple(probe.replace("tags='q w e r'", "tags_='q w e r'") for probe in WARD_PROBES), {"edited": "base"}),
        ("a configuration", "str_strip_whitespace=True", "str_strip_whitespace=False", WARD_PROBES, {"edited": "base"}),
        ("a class variable", "version: ClassVar[int] = 1", "version: ClassVar[int] = 2", WARD_PROBES, {"edited": "base"}),
        ("a summary", "{type(self).__name__} v", "{type(self).__name__.lower()} v", WARD_PROBES, {"edited": "base"}),
        ("a key of a registry", "Base.registry[cls.__name__]", "Base.registry[cls.__name__.lower()]", WARD_PROBES, {"edited": "base"}),
        ("a default of a field", "bed_number: Even = 2", "bed_number: Even = 8", WARD_PROBES, {"edited": "beds"}),
        ("a longest list", "max_length=3", "max_length=5", WARD_PROBES, {"edited": "beds"}),
        ("a computed field", "f'bed {self.bed_number}'", "f'no. {self.bed_number}'", WARD_PROBES, {"edited": "beds"}),
        ("a default number", "Field(4, le=MOST)", "Field(5, le=MOST)", WARD_PROBES, {"edited": "beds"}),
        ("a fix of data", "{'legs': data}", "{'legs': data * 2}", WARD_PROBES, {"edited": "beds"}),
        ("a kind more", "Union[Bed, Chair]", "Union[Bed, Chair, Sofa]", WARD_PROBES, {"edited": "beds", "more": [("beds", "Furniture =", "class Sofa(Base):\n    kind: Literal['sofa'] = 'sofa'\nFurniture =")]}),
        ("a serializer of a field", "value.upper()", "value.title()", WARD_PROBES, {"edited": "beds"}),
        ("a field of a made model", "note=(str, 'none')", "note=(str, 'some')", WARD_PROBES, {"edited": "beds"}),
        ("a field more", "    ward_name: str\n", "    ward_name: str\n    floor_level: int = 1\n", WARD_PROBES, {"edited": "beds"}),
        ("an input", "'bedNumber': 4", "'bedNumber': 6", WARD_PROBES),
        ("an update of a copy", "'south'", "'west'", WARD_PROBES),
    ],
    others=WARD,
    needs=("pydantic",),
    setup=WARD_SETUP,
)  # fmt: skip

DESK = {
    "core": """\
import contextlib, enum, functools, time, warnings
class Level(enum.IntFlag):
    LOW = 1
    MID = 2
    TOP = 4
    @property
    def text(self):
        return '|'.join(member.name for member in Level if member in self)
class Step(enum.Enum):
    START = ('start', 1)
    END = ('end', 2)
    def __init__(self, text, weight):
        self.text, self.weight = text, weight
    @functools.cached_property
    def following(self):
        members = list(type(self))
        return members[(members.index(self) + 1) % len(members)]
class Machine:
    transitions = {}
    def __init__(self, state=Step.START):
        self.state, self.history = state, []
    @classmethod
    def on(cls, *states):
        def decorate(function):
            for state in states:
                cls.transitions.setdefault(state, []).append(function.__name__)
            return function
        return decorate
    def fire(self):
        for name in self.transitions.get(self.state, ()):
            self.history.append(getattr(self, name)())
        self.state = self.state.following
        return self
@contextlib.contextmanager
def scoped(**words):
    STACK.append(words)
    try:
        yield STACK
    finally:
        STACK.pop()
STACK = [{'rate': 2}]
def current(name, default=None):
    return next((words[name] for words in reversed(STACK) if name in words), default)
def deprecated(reason):
    def decorate(function):
        @functools.wraps(function)
        def inner(*given, **words):
            warnings.warn(f'{function.__name__}: {reason}', DeprecationWarning, stacklevel=2)
            return function(*given, **words)
        inner.__deprecated__ = reason
        return inner
    return decorate
def retry(times=2, errors=(ValueError,)):
    def decorate(function):
        @functools.wraps(function)
        def inner(*given):
            for attempt in range(times):
                try:
                    return function(*given, attempt=attempt)
                except errors:
                    continue
            return 'gave up'
        return inner
    return decorate
""",
    "work": """\
import core
from core import Level, Machine, Step, current, deprecated, retry, scoped
class Desk(Machine):
    transitions = {}
class Clerk(Desk):
    name = 'clerk'
    @Desk.on(Step.START)
    def greet(self):
        return f'{self.name} greets at {current("rate")}'
    @Desk.on(Step.START, Step.END)
    def note(self):
        return f'note {self.state.text}'
@deprecated('use new')
def old(n):
    return n + current('rate')
@retry(times=3)
def flaky(need, attempt=0):
    if attempt < need:
        raise ValueError
    return f'done after {attempt}'
with scoped(rate=5, mode='fast') as stack:
    RATE, MODE = current('rate'), current('mode', 'slow')
RIGHTS = Level.LOW | Level.TOP
WEIGHTS = {step: step.weight for step in Step}
""",
}
DESK_M = """\
import warnings
import core, work
from core import Level, Step, current
from work import Clerk, MODE, RATE, RIGHTS, flaky, old
CLERK = Clerk().fire()
HISTORY = list(CLERK.history)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter('always')
    OLD = old(1)
WARNED = [str(each.message) for each in caught]
FLAKY = [flaky(n) for n in range(4)]
TEXT = RIGHTS.text
TOTAL = sum(work.WEIGHTS.values())
STATE = CLERK.state
DEFAULTS = {**core.STACK[0], 'mode': MODE}
PARTS = f'{RATE:>4}{TEXT!r}{Step.END.following.text}'
"""
DESK_PROBES = (
    "m.HISTORY, m.OLD, m.WARNED, m.FLAKY, m.TEXT, m.TOTAL, m.STATE, m.DEFAULTS, m.PARTS", "work.RATE, work.MODE, work.RIGHTS, work.WEIGHTS, core.STACK, core.Level(7).text, [s.following for s in core.Step], work.Clerk().fire().fire().history, work.Desk.transitions, core.Machine.transitions, work.old.__deprecated__, m.flaky(2)",
)  # fmt: skip
DESK_EDITS = edits_of(
    "desk",
    DESK_M,
    [
        ("a flag more", "    TOP = 4\n", "    TOP = 4\n    MAX = 8\n", DESK_PROBES, {"edited": "core"}),
        ("a text of a flag", "'|'.join", "'+'.join", DESK_PROBES, {"edited": "core"}),
        ("a weight of a member", "('end', 2)", "('end', 5)", DESK_PROBES, {"edited": "core"}),
        ("a text of a member", "('start', 1)", "('begin', 1)", DESK_PROBES, {"edited": "core"}),
        ("a member more", "    END = ('end', 2)\n", "    MIDDLE = ('middle', 3)\n    END = ('end', 2)\n", DESK_PROBES, {"edited": "core"}),
        ("what follows a member", "members.index(self) + 1", "members.index(self) + 2", DESK_PROBES, {"edited": "core"}),
        ("a first state", "state=Step.START", "state=Step.END", DESK_PROBES, {"edited": "core"}),
        ("what a transition keeps", "append(function.__name__)", "insert(0, function.__name__)", DESK_PROBES, {"edited": "core"}),
        ("a rate", "{'rate': 2}", "{'rate': 3}", DESK_PROBES, {"edited": "core"}),
        ("where a value is found", "reversed(STACK)", "STACK", DESK_PROBES, {"edited": "core"}),
        ("a text of a warning", "f'{function.__name__}: {reason}'", "f'{function.__name__} is old: {reason}'", DESK_PROBES, {"edited": "core"}),
        ("times of a retry", "times=2", "times=4", DESK_PROBES, {"edited": "core"}),
        ("what a retry returns", "'gave up'", "'never'", DESK_PROBES, {"edited": "core"}),
        ("a name of a clerk", "name = 'clerk'", "name = 'boss'", DESK_PROBES, {"edited": "work"}),
        ("a state of a transition", "@Desk.on(Step.START, Step.END)", "@Desk.on(Step.END)", DESK_PROBES, {"edited": "work"}),
        ("a transition less", "    @Desk.on(Step.START)\n", "", DESK_PROBES, {"edited": "work"}),
        ("a note", "f'note {self.state.text}'", "f'noted {self.state.text}'", DESK_PROBES, {"edited": "work"}),
        ("a reason", "@deprecated('use new')", "@deprecated('use other')", DESK_PROBES, {"edited": "work"}),
        ("times of a function", "@retry(times=3)", "@retry(times=2)", DESK_PROBES, {"edited": "work"}),
        ("a value of a scope", "rate=5, mode='fast'", "rate=6, mode='slow'", DESK_PROBES, {"edited": "work"}),
        ("a scope less", "rate=5, mode='fast'", "mode='fast'", DESK_PROBES, {"edited": "work"}),
        ("rights", "Level.LOW | Level.TOP", "Level.LOW | Level.MID", DESK_PROBES, {"edited": "work"}),
        ("an argument of an old function", "old(1)", "old(2)", DESK_PROBES),
        ("a range of retries", "range(4)", "range(2)", DESK_PROBES),
    ],
    others=DESK,
)  # fmt: skip

ALL = with_expected(
    [*FORMATS_EDITS, *FACTORIES_EDITS, *WARD_EDITS, *DESK_EDITS],
    false=[
        "factories: names of fields",
        "factories: how a field is set",
        "ward: what a validator accepts",
        "ward: a default of a field",
        "ward: a longest list",
        "ward: a kind more",
        "desk: where a value is found",
    ],
    reported=[
        "formats: a number in a text of settings",
        "formats: a name in a text of settings",
        "formats: a section more",
        "formats: a truth in a text of settings",
        "formats: a delimiter of a dialect",
        "factories: a limit",
        "factories: a low limit",
        "factories: a text of an error",
        "factories: a text of what is made",
        "factories: a kind",
        "factories: a description",
        "factories: an index",
        "factories: a default of a field",
        "factories: a check more",
        "factories: a field more",
        "factories: a memoized function",
        "ward: a limit",
        "ward: a validator",
        "ward: a conversion before",
        "ward: a serializer",
        "ward: how aliases are made",
        "ward: a configuration",
        "ward: a class variable",
        "ward: a key of a registry",
        "ward: a default number",
        "desk: a weight of a member",
        "desk: a text of a member",
        "desk: a member more",
        "desk: what follows a member",
        "desk: what a transition keeps",
        "desk: a rate",
        "desk: a text of a warning",
        "desk: a state of a transition",
        "desk: a transition less",
        "desk: a reason",
    ],
)
