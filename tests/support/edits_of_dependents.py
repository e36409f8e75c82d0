"""Edits of what other statements depend on: through packages, hooks, factories, loops and registries."""

from edit_cases import Edit

PUBLIC = """\
from pack._parts import Client, Marker, fetch, LIMIT
for _name in ('Client', 'Marker', 'fetch'):
    setattr(globals()[_name], '__module__', 'pack')
"""
PARTS = """\
LIMIT = 3
def fetch(number=LIMIT):
    return number
class Marker(Exception):
    limit = LIMIT
class Client:
    headers = {'limit': LIMIT}
    def __init__(self):
        self.own = dict(self.headers)
"""
PACK = {
    "pack.__init__": PUBLIC,
    "pack._parts": PARTS,
    "use": "import pack\nCLIENT = pack.Client()\nFETCHED = pack.fetch()\n",
}
PACK_PROBES = (
    "use.CLIENT.own, use.FETCHED, use.pack.Client.__module__, use.pack.Marker.__module__, use.pack.fetch.__module__",
    "use.pack.Marker.limit, use.pack.Client().own, type(use.CLIENT) is use.pack.Client",
)
PARSER = """\
import argparse
parser = argparse.ArgumentParser(prog='p')
output = parser.add_argument_group('output')
output.add_argument('--last', help='the last')
def main(*words):
    return sorted(vars(parser.parse_args(words)).items())
"""
SUBPARSER = """\
import argparse
LIMIT = 5
parser = argparse.ArgumentParser(prog='p')
group = parser.add_mutually_exclusive_group()
group.add_argument('--limit', default=LIMIT)
commands = parser.add_subparsers(dest='command')
running = commands.add_parser('run')
running.add_argument('--fast', action='store_true')
def main(*words):
    return sorted(vars(parser.parse_args(words)).items())
"""
PARSER_PROBES = ("m.parser.format_help()", "m.main('--last', '1')")
FACTORY = """\
from parts import cache, SIZE
class App:
    def __init__(self):
        self.size = SIZE
        self.log = []
def create():
    app = App()
    cache.bind(app)
    return app
app = create()
"""
BOUND = (
    "SIZE = 1\nclass Cache:\n    size = 0\n    def bind(self, app):\n        self.size = app.size\ncache = Cache()\n"
)
COUNTED = "SIZE = 1\nclass Cache:\n    size = 0\n    def bind(self, app):\n        self.size = self.size + app.size\ncache = Cache()\n"
CODES = """\
import enum
class Code(enum.IntEnum):
    OK = 1
    BAD = 2
for code in Code:
    setattr(Code, code.name.lower(), int(code))
"""
HOOKS = """\
class Meta(type):
    known = {}
    def __new__(mcls, name, bases, space):
        cls = super().__new__(mcls, name, bases, space)
        if 'key' in space:
            mcls.known[space['key']] = cls
        return cls
class Base(metaclass=Meta):
    rank = 5
    def __init_subclass__(cls):
        cls.title = (cls.__doc__ or 'none').upper()
        cls.length = len(cls.title)
class One(Base):
    '''first'''
    key = 'one'
    rank = 1
class Two(Base):
    key = 'two'
"""
HOOK_PROBES = (
    "m.One.title, m.Two.title, getattr(m.One, 'length', None), getattr(m.Two, 'length', None)",
    "sorted((key, kind.__name__, kind is getattr(m, kind.__name__)) for key, kind in m.Meta.known.items())",
    "m.One.rank, m.Two.rank, [kind.__name__ for kind in m.Base.__subclasses__()]",
)
ITERATING = HOOKS.replace(
    "        if 'key' in space:\n", "        mcls.seen = sorted(space)\n        if 'key' in space:\n"
)
READ_BY_HELPER = """\
KNOWN = []
def add(kind):
    KNOWN.append((kind.rank, kind.__name__))
class Base:
    rank = 5
    def __init_subclass__(cls):
        add(cls)
class One(Base):
    rank = 1
    size = 1
"""
RANKED = "from operator import attrgetter\nfrom n import One, Two\nORDER = [kind.__name__ for kind in sorted([One, Two], key=attrgetter('rank'))]\n"
OPTIONS = """\
class Option:
    def __init__(self, default):
        self.default = default
    def __set_name__(self, owner, name):
        owner.fields = {**getattr(owner, 'fields', {}), name: self.default}
class Options:
    indent = Option(4)
    color = Option('auto')
class Quiet(Options):
    level = Option(0)
"""
BUS = """\
from typing import get_type_hints
class Event:
    name = 'e'
class Bus:
    def __init__(self):
        self.handlers = {}
    def on(self, kind=None):
        def decorate(function):
            found = kind or next(iter(get_type_hints(function).values()))
            self.handlers.setdefault(found.__name__, []).append(function)
            return function
        return decorate
bus = Bus()
"""
HANDLERS = """\
from bus import Event, bus
@bus.on()
def log(event: Event):
    print(event)
    return open(event.name)
@bus.on(Event)
def count(event):
    return 1
"""
COMMANDS = "COMMANDS = {}\ndef cmd_a():\n    return 1\ndef helper():\n    return 0\nCOMMANDS |= {name: value for name, value in list(globals().items()) if name.startswith('cmd_')}\n"
COMMAND_PROBE = "sorted(m.COMMANDS)"
LEVELS = "CONF = {}\nCONF.update(limit=3, soft=2)\n"
COPIED = "from n import FILTERS\ndef create():\n    made = {}\n    made.update(FILTERS)\n    LOG.made = sorted(made)\n    return made\nclass LOG:\n    made = None\nENV = create()\n"
FILTERS = "FILTERS = {}\ndef filter_(function):\n    FILTERS[function.__name__] = function\n    return function\n@filter_\ndef a():\n    return 1\n"
SIGNALS = """\
import collections
RANK = 1
HANDLERS = collections.defaultdict(list)
def on(name, rank=RANK):
    def keep(function):
        HANDLERS[name].append((rank, function))
        return function
    return keep
"""
CONNECTED = "import n\nfrom n import HANDLERS, on\n@on('a')\ndef first():\n    return 1\n"
SIGNATURE = "import inspect\nfrom n import Paging\nDEFAULTS = str(inspect.signature(Paging))\n"
PAGING = "SIZE = 5\nclass Paging:\n    def __init__(self, size=SIZE):\n        self.size = size\n"
TASKS = """\
from .names import NAMES
class Broker:
    queue = 'low'
    def __init__(self):
        self.tasks = {}
    def add(self, name, function, queue):
        self.tasks[NAMES.get(name, name)] = function, queue or self.queue
broker = Broker()
def task(function=None, *, queue=None):
    def keep(function):
        broker.add(function.__name__, function, queue)
        return function
    return keep if function is None else keep(function)
class Task:
    def __init_subclass__(cls, queue=None):
        cls.queue = queue
        broker.add(cls.__name__, cls, queue)
"""
TASK_PACKAGE = {
    "tasks.__init__": "from .core import Task, broker, task\n",
    "tasks.core": TASKS,
    "tasks.names": "NAMES = {'mail': 'send'}\n",
}
TASK_USERS = "import tasks\nfrom tasks import Task, broker, task\n@task(queue='high')\ndef mail():\n    return 1\n@task\nasync def clean():\n    return 2\nclass Report(Task, queue='slow'):\n    pass\n"
TASK_PROBES = (
    "sorted((name, function.__name__, queue) for name, (function, queue) in m.broker.tasks.items())",
    "m.broker is tasks.core.broker, m.Report.queue",
)
MADE = "import n\nSIZE = 2\nMade = type('Made', (n.Base,), {'size': SIZE})\n"
MADE_BASE = "class Base:\n    kinds = []\n    def __init_subclass__(cls):\n        Base.kinds.append(cls.__name__)\n"
FIELDS = """\
class Field:
    kind = str
    def __init__(self, *options, default=None):
        self.options = [option.strip() for option in options]
        self.default = self.kind() if default is None else default
    def __set_name__(self, owner, name):
        self.name = name
class Number(Field):
    kind = int
"""
FORM = "from n import Field, Number\nimport words\nclass Form:\n    count = Number(words.FIRST, default=words.COUNT)\n    text = Field()\n"
FORM_MODULES = {"n": FIELDS, "words": "FIRST = ' one '\nCOUNT = 3\n"}
FORM_PROBES = ("m.Form.count.options, m.Form.count.default, m.Form.count.name, m.Form.text.default",)
LISTED = "LIMIT = 3\ndef load(*parts):\n    return [part.size for part in parts]\nclass Part:\n    def __init__(self, size):\n        self.size = size\nLOADED = load(Part(LIMIT), Part(1))\n"
WRAPPED = "import functools\ndef audit(level=1):\n    def decorate(function):\n        @functools.wraps(function)\n        def wrapper(*args):\n            return level, function(*args)\n        wrapper.level = level\n        return wrapper\n    return decorate\n"
AUDITED = "from n import audit\nclass Worker:\n    @audit()\n    def rest(self):\n        return 'rest'\n"
SIGNED = "import inspect\nROUTES = {}\ndef route(path):\n    def keep(function):\n        ROUTES[path] = str(inspect.signature(function))\n        return function\n    return keep\n@route('/a')\ndef a(size=1):\n    return size\n"
HOOK_TABLE = """\
TABLE = {}
def on(*names, order=0):
    def add(function):
        for name in names:
            TABLE.setdefault(name, []).append((order, function))
            TABLE[name].sort(key=lambda pair: pair[0])
        function.names = names
        return function
    return add
def fire(name):
    return [function() for _, function in TABLE.get(name, [])]
"""
PLAIN_TABLE = HOOK_TABLE.replace("        function.names = names\n", "")
HOOKED = "from n import on\n@on('start')\ndef a():\n    return 'a'\n@on('start', order=1)\ndef b():\n    return 'b'\n"
GRADES = """\
import enum, functools
RATES = {'a': 1}
class Grade(enum.Enum):
    J = 'j', RATES['a']
    S = 's', 5
    def __init__(self, label, rate):
        self.label, self.rate = label, rate
@functools.lru_cache(None)
def yearly(grade):
    return grade.rate * 12
def pay(grade):
    return grade.rate
TABLE = {grade.name: pay(grade) for grade in Grade}
ONE = pay(Grade.J)
"""
GRADED = """\
import functools
from grades import Grade, pay
@functools.lru_cache(None)
def monthly(grade):
    return grade.rate * 3
class Person:
    grade = Grade.J
    def pay(self):
        return pay(self.grade)
PAID = Person().pay()
"""
SINGLETON = """\
class Registry:
    _instance = None
    def __new__(cls):
        if cls._instance is None:
            cls._instance = super().__new__(cls)
            cls._instance.items = {}
        return cls._instance
    def add(self, name, value):
        self.items[name] = value
Registry().add('a', 1)
Registry().add('b', 2)
registry = Registry()
"""
PLUGINS = """\
PLUGINS = {}
class Plugin:
    def __init_subclass__(cls, **words):
        super().__init_subclass__(**words)
        PLUGINS[cls.__name__] = cls
    def run(self):
        return 'plain'
class Upper(Plugin):
    def run(self):
        return 'UPPER'
class Both(Upper):
    pass
ORDER = sorted(PLUGINS)
"""
PLUGIN_USE = "from plugins import ORDER, PLUGINS\nTEXT = [PLUGINS[name]().run() for name in ORDER]\n"
COUNTED_ITEMS = """\
import functools
RATE, WORDS = 2, ('a', 'b')
class Check:
    def __init__(self, accepts):
        self.accepts = accepts
    def __set_name__(self, owner, name):
        self.name = '_' + name
        owner.__dict__['checked'].append(name)
    def __get__(self, item, owner=None):
        return self if item is None else getattr(item, self.name)
    def __set__(self, item, value):
        if not self.accepts(value):
            raise ValueError(value)
        setattr(item, self.name, value)
class Item:
    checked = []
    name = Check(str.isalpha)
    count = 0
    def __init__(self, name):
        self.name = name
        self.numbers = dict.fromkeys(WORDS, 0)
        type(self).count += 1
    @functools.cached_property
    def price(self):
        return len(self.name) * RATE
ITEMS = [Item('lamp'), Item('desk')]
TABLE = {item.name: len(item.name) for item in [Item('mat')]}
def cost(item):
    return item.price
TOTAL = sum(map(cost, ITEMS))
"""
COUNTED_PROBES = (
    "m.TOTAL, m.TABLE, [item.price for item in m.ITEMS]",
    "m.Item.count, m.Item.checked, m.ITEMS[0].numbers",
)
STATES = """\
import enum
class State(enum.Enum):
    NEW = 'new'
    SENT = 'sent'
FINAL = frozenset({State.SENT})
"""
SHADES = """\
import enum, functools, types
from collections import ChainMap, Counter, UserList
from decimal import Decimal
class Shade(enum.Enum):
    RED = 'red'
    @classmethod
    def _missing_(cls, value):
        return cls.RED
FOUND = Shade('green')
class Meta(type):
    def __call__(cls, number):
        return cls.factor * number
class Base(metaclass=Meta):
    factor = 1
class Double(Base):
    factor = 2
MADE = {kind.__name__: kind(3) for kind in Base.__subclasses__()}
class Cutter:
    share = 3
    def __init__(self, other=None):
        self.other = other
    def cut(self, size):
        return size - self.share
    twice = functools.partialmethod(cut, 10)
    @functools.singledispatchmethod
    def join(self, thing):
        return 'thing'
    @join.register
    def _(self, thing: int):
        return 'number'
class Stage(Cutter):
    def cut(self, size):
        return size * 2
CUTTERS = [Cutter(), Cutter(Stage())]
CUTS = [cutter.twice() for cutter in CUTTERS], [cutter.other.cut(1) for cutter in CUTTERS[1:]]
def chain(*stages):
    return functools.reduce(lambda done, stage: lambda size: stage.cut(done(size)), stages, lambda size: size)
CHAINED = chain(Cutter(), Stage())(9)
class Box(list):
    def __repr__(self):
        return 'box'
JOINED = Box(CUTTERS)[0].join(1), [cutter.join(2) for cutter in types.MappingProxyType({'a': CUTTERS[0]}).values()]
DEFAULTS = {'size': 1}
SETTINGS = ChainMap({}, DEFAULTS)
SIZES = dict(SETTINGS)
class Vector(UserList):
    def __getattr__(self, name):
        return self['xy'.index(name)]
Y = Vector([1, 2]).y
class Meter:
    def __init__(self, function):
        self.function = function
    def __call__(self, value):
        return self.function(value)
@Meter
def group(age):
    return 'old' if age > 30 else 'young'
GROUPS = dict(Counter(map(group, (20, 40))))
PLACES = Decimal('0.01')
PRICE = Decimal(1).quantize(PLACES)
BEST = functools.partial(CUTTERS[0].cut, 5)
HELP = {}
def command(function):
    HELP[function.__name__] = function.__doc__
    return function
@command
def go():
    'Go on.'
class Named:
    def __init_subclass__(cls):
        cls.title = cls.__name__
class Field:
    def __set_name__(self, owner, name):
        owner.fields = (*getattr(owner, 'fields', ()), name)
class Form(Named):
    first = Field()
"""
SHADES_PROBES = (
    "m.FOUND, m.MADE, str(m.CUTS), m.CHAINED, m.JOINED, m.SIZES, m.Y, m.GROUPS, str(m.PRICE), m.BEST(), m.HELP, m.Form.fields, m.Form.title",
)

ALL = [
    Edit("a default of a decorator that fills an imported defaultdict", CONNECTED, "RANK = 1", "RANK = 2", "[(rank, f.__name__) for rank, f in m.HANDLERS['a']], m.HANDLERS is n.HANDLERS", {"n": SIGNALS}, edited="n"),
    Edit("a factory of an imported defaultdict", CONNECTED, "defaultdict(list)", "defaultdict(list, b=[])", "sorted(m.HANDLERS), m.HANDLERS is n.HANDLERS", {"n": SIGNALS}, edited="n"),
    Edit("a constant in the default of a constructor whose signature is read", SIGNATURE, "SIZE = 5", "SIZE = 6", "m.DEFAULTS, m.Paging().size", {"n": PAGING}, edited="n"),
    Edit("an attribute of an object that functions of a package fill", TASK_USERS, "queue = 'low'", "queue = 'none'", TASK_PROBES, TASK_PACKAGE, edited="tasks.core"),
    Edit("a name that an object of a third module stores", TASK_USERS, "'send'", "'post'", TASK_PROBES, TASK_PACKAGE, edited="tasks.names"),
    Edit("a value of a class that a call of type creates", MADE, "SIZE = 2", "SIZE = 3", "m.Made.size, n.Base.kinds", {"n": MADE_BASE}, expects="reported"),
    Edit("a hook of a class that a call of type creates", MADE, "cls.__name__", "cls.__name__.lower()", "n.Base.kinds", {"n": MADE_BASE}, edited="n", expects="reported"),
    Edit("a default of a descriptor whose class stores a type", FORM, "COUNT = 3", "COUNT = 4", FORM_PROBES, FORM_MODULES, edited="words"),
    Edit("a value among the arguments of a descriptor", FORM, "' one '", "' two '", FORM_PROBES, FORM_MODULES, edited="words"),
    Edit("a type that a class stores", FORM, "kind = int", "kind = float", FORM_PROBES, FORM_MODULES, edited="n"),
    Edit("a value among the arguments of a function", LISTED, "LIMIT = 3", "LIMIT = 4", "m.LOADED"),
    Edit("a default of a decorator of a method", AUDITED, "level=1", "level=2", "m.Worker().rest(), m.Worker.rest.level", {"n": WRAPPED}, edited="n"),
    Edit("a signature that a decorator stores", SIGNED, "def a(size=1)", "def a(size=2, color='red')", "m.ROUTES, m.a()"),
    Edit("a value in a package that assigns its name to its classes", "", "LIMIT = 3", "LIMIT = 4", PACK_PROBES, PACK, edited="pack._parts"),
    Edit("a method in such a package", "", "    def __init__", "    def size(self):\n        return 1\n    def __init__", PACK_PROBES, PACK, edited="pack._parts"),
    Edit("a function in such a package", "", "return number", "return number * 2", PACK_PROBES, PACK, edited="pack._parts"),
    Edit("a base of a class without methods in such a package", "", "Marker(Exception)", "Marker(ValueError)", PACK_PROBES, PACK, edited="pack._parts"),
    Edit("an argument before others in a group", PARSER, "output.add_argument('--last'", "output.add_argument('--first')\noutput.add_argument('--last'", PARSER_PROBES),
    Edit("a help in a group", PARSER, "'the last'", "'the very last'", PARSER_PROBES),
    Edit("a constant of an argument in a group, before a subparser", SUBPARSER, "LIMIT = 5", "LIMIT = 6", "m.main('run'), m.main('run', '--fast')"),
    Edit("a name of a group", PARSER, "'output'", "'results'", PARSER_PROBES),
    Edit("a value of a factory that sets an attribute elsewhere", FACTORY, "SIZE = 1", "SIZE = 2", "m.app.size, parts.cache.size", {"parts": BOUND}, edited="parts"),
    Edit("a value of a factory that adds to an attribute elsewhere", FACTORY, "SIZE = 1", "SIZE = 2", "m.app.size, parts.cache.size", {"parts": COUNTED}, edited="parts"),
    Edit("a member more that a loop copies to its class", CODES, "    BAD = 2\n", "    BAD = 2\n    WORSE = 3\n", "m.Code.ok, getattr(m.Code, 'worse', None)"),
    Edit("a member less that a loop has copied to its class", CODES, "    BAD = 2\n", "", "m.Code.ok, getattr(m.Code, 'bad', None)", expects="reported"),
    Edit("a docstring that a hook reads", HOOKS, "first", "the first", HOOK_PROBES),
    Edit("a hook's title", HOOKS, ".upper()", ".title()", HOOK_PROBES),
    Edit("an attribute that a hook sets no more", HOOKS, "        cls.length = len(cls.title)\n", "", HOOK_PROBES),
    Edit("an attribute that no hook reads", HOOKS, "rank = 1", "rank = 2", HOOK_PROBES),
    Edit("an inherited attribute that no hook reads", HOOKS, "rank = 5", "rank = 6", HOOK_PROBES),
    Edit("an attribute that a metaclass reads", HOOKS, "'two'", "'second'", HOOK_PROBES, expects="reported"),
    Edit("an attribute of a class whose metaclass reads all names", ITERATING, "    rank = 1\n", "    order = 1\n", "m.Meta.seen, m.One.__dict__.get('order')", expects="reported"),
    Edit("an attribute that a function called by a hook reads", READ_BY_HELPER, "rank = 1", "rank = 2", "m.KNOWN, m.One.rank", expects="reported"),
    Edit("an attribute that no function called by a hook reads", READ_BY_HELPER, "size = 1", "size = 2", "m.KNOWN, m.One.size"),
    Edit("an attribute by which a getter sorts", RANKED, "rank = 1", "rank = 9", "m.ORDER", {"n": HOOKS}, edited="n"),
    Edit("a default of a descriptor that a subclass inherits", OPTIONS, "Option(4)", "Option(2)", ("m.Options.fields, m.Quiet.fields",)),
    Edit("a descriptor more that a subclass inherits", OPTIONS, "    color", "    width = Option(80)\n    color", ("m.Options.fields, m.Quiet.fields",)),
    Edit("a descriptor less that a subclass inherits", OPTIONS, "    color = Option('auto')\n", "", ("m.Options.fields, m.Quiet.fields",)),
    Edit("a handler of an event by its annotation", HANDLERS, "def log(event: Event)", "def write(event: Event)", "sorted((name, [f.__name__ for f in found]) for name, found in bus.bus.handlers.items())", {"bus": BUS}),
    Edit("a class that the handlers of a bus name", HANDLERS, "class Event:", "class Event(Exception):", "sorted((name, len(found)) for name, found in bus.bus.handlers.items()), m.bus is bus.bus", {"bus": BUS}, edited="bus"),
    Edit("a command more among the names of its module", COMMANDS, "def helper", "def cmd_b():\n    return 2\ndef helper", COMMAND_PROBE, expects="reported"),
    Edit("a command less among the names of its module", COMMANDS, "def cmd_a():\n    return 1\n", "", COMMAND_PROBE, expects="reported"),
    Edit("a function more that is no command", COMMANDS, "def helper", "def other():\n    return 2\ndef helper", COMMAND_PROBE),
    Edit("values that are updated by name", LEVELS, "limit=3", "limit=4", "m.CONF"),
    Edit("a name less that is updated", LEVELS, "limit=3, ", "", "m.CONF"),
    Edit("a registered function that a factory copies", COPIED, "@filter_\ndef a", "@filter_\ndef b():\n    return 2\n@filter_\ndef a", "sorted(m.ENV), m.LOG.made", {"n": FILTERS}, edited="n"),
    Edit("an order of a hook whose results are kept", HOOKED + "import n\nSTARTED = n.fire('start')\n", "order=1", "order=-1", "m.STARTED, n.fire('start')", {"n": PLAIN_TABLE}),
    Edit("how hooks are sorted whose results are kept elsewhere", "import hooked, n\nSTARTED = n.fire('start')\n", "pair[0])", "-pair[0])", "m.STARTED, n.fire('start')", {"n": PLAIN_TABLE, "hooked": HOOKED}, edited="n"),
    Edit("a decorator less that has set an attribute", HOOKED, "@on('start')\n", "", "n.fire('start')", {"n": HOOK_TABLE}, expects="reported"),
    Edit("an attribute of a member that a function reads", GRADES, "'a': 1", "'a': 2", "m.yearly(m.Grade.J), m.TABLE, m.ONE", use="m.yearly(m.Grade.J)"),
    Edit("an attribute of a member that a method elsewhere reads", GRADED, "J = 'j', RATES['a']", "J = 'j', 7", "m.monthly(m.Grade.J), m.PAID", {"grades": GRADES}, edited="grades", use="m.monthly(m.Grade.J)"),
    Edit("a constructor of members", GRADES, "label, rate\n", "label, rate * 2\n", "m.yearly(m.Grade.J), m.TABLE, m.ONE", use="m.yearly(m.Grade.J)"),
    Edit("an entry less in a singleton that a name is bound to later", SINGLETON, "Registry().add('a', 1)\n", "", "m.registry.items", expects="reported"),
    Edit("a class more that a hook registers", PLUGIN_USE, "class Both", "class Lower(Plugin):\n    pass\nclass Both", "plugins.ORDER, m.TEXT", {"plugins": PLUGINS}, edited="plugins"),
    Edit("a base of a registered class", PLUGIN_USE, "Both(Upper)", "Both(Plugin)", "plugins.ORDER, m.TEXT", {"plugins": PLUGINS}, edited="plugins"),
    Edit("a number that a cached property of an instance reads", COUNTED_ITEMS, "RATE, WORDS = 2", "RATE, WORDS = 3", COUNTED_PROBES),
    Edit("a cached property of an instance", COUNTED_ITEMS, "len(self.name) * RATE", "len(self.name) + RATE", COUNTED_PROBES),
    Edit("a default of a descriptor that its class lists", COUNTED_ITEMS, "Check(str.isalpha)", "Check(str.islower)", COUNTED_PROBES),
    Edit("a method that no counted instance needs", COUNTED_ITEMS, "    count = 0\n", "    count = 0\n    def __repr__(self):\n        return self.name\n", (*COUNTED_PROBES, "m.ITEMS")),
    Edit("a step of a counter of instances", COUNTED_ITEMS, "count += 1", "count += 2", COUNTED_PROBES, expects="reported"),
    Edit("how a counted instance is checked", COUNTED_ITEMS, "        setattr(item, self.name, value)", "        setattr(item, self.name, value + '')", COUNTED_PROBES),
    Edit("a value of a member in a set", STATES, "'sent'", "'shipped'", "[state.value for state in m.FINAL], m.FINAL == {m.State('shipped')}"),
    Edit("a star import that becomes a list of names", "from pack import *\n", "from pack.names import *", "from pack.names import limit", "m.limit", {"pack.__init__": "from pack.names import *\n__all__ = ['limit']\n", "pack.names": "limit = 3\nother = 4\n"}, edited="pack.__init__"),
    *(Edit(name, SHADES, old, new, SHADES_PROBES) for name, old, new in (
        ("a member more, by whose value a name is looked up", "RED = 'red'\n", "RED = 'red'\n    GREEN = 'green'\n"),
        ("a call of a metaclass, in a loop over subclasses", "cls.factor * number", "cls.factor + number"),
        ("an attribute of one of the subclasses in a loop", "factor = 2", "factor = 5"),
        ("a subclass more in a loop", "MADE = {", "class Triple(Base):\n    factor = 3\nMADE = {"),
        ("a method that a partial method calls", "return size - self.share", "return size - self.share - 1"),
        ("an attribute that a partial method reads", "share = 3", "share = 4"),
        ("a method of an attribute of an element", "return size * 2", "return size * 3"),
        ("a registered method of an element", "'number'", "'a number'"),
        ("a value in a dictionary that a chain of dictionaries contains", "{'size': 1}", "{'size': 2, 'color': 'red'}"),
        ("a method for missing attributes", "return self['xy'.index(name)]", "return self['xy'.index(name)] * 10"),
        ("a function in a callable object that is passed to another", "age > 30", "age > 10"),
        ("the call of an object that is passed to another", "return self.function(value)", "return self.function(value).upper()"),
        ("a number of digits", "'0.01'", "'0.001'"),
        ("a docstring that a decorator reads", "'Go on.'", "'Go on now.'"),
        ("a descriptor more in a class with a hook", "first = Field()\n", "first = Field()\n    last = Field()\n"),
    )),
]  # fmt: skip
