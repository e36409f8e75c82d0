"""Edits to programs with handlers, threads and coroutines, and to Celery tasks and attrs classes."""

from edit_cases import edits_of, with_expected

LIVE = """\
import asyncio, contextlib, functools, itertools, json, logging, logging.config, pathlib, string, threading, time, types, weakref
from collections import UserDict, UserList, abc, namedtuple
from concurrent.futures import ThreadPoolExecutor
from enum import Enum, StrEnum, IntFlag, auto, nonmember, member
from operator import attrgetter, itemgetter, methodcaller
from string import Formatter, Template
import feeds
from feeds import Feed, Source, limit, settings
HERE = pathlib.Path(__file__).parent
LOGGING = {'version': 1, 'disable_existing_loggers': False, 'formatters': {'short': {'format': feeds.FORMAT}},
    'handlers': {'memory': {'class': 'feeds.Memory', 'formatter': 'short', 'level': feeds.LEVEL}},
    'loggers': {'live': {'handlers': ['memory'], 'level': 'DEBUG', 'propagate': False}}}
logging.config.dictConfig(LOGGING)
log = logging.getLogger('live')
adapter = logging.LoggerAdapter(log, {'who': settings.who})
class Bag(UserDict):
    default = '?'
    def __missing__(self, key): return self.default
    def __setitem__(self, key, value): super().__setitem__(key.lower(), value)
bag = Bag(A=1, b=settings.size)
class Stack(UserList):
    def push(self, *items): self.extend(items); return self
    def __getitem__(self, index): return super().__getitem__(-1 - index) if isinstance(index, int) else super().__getitem__(index)
stack = Stack([1]).push(2, settings.size)
class Shout(Formatter):
    suffix = '!'
    def convert_field(self, value, conversion):
        return str(value).upper() + self.suffix if conversion == 'u' else super().convert_field(value, conversion)
LOUD = Shout().format('{0!u} {1}', 'hey', settings.size)
class Money(Template):
    delimiter = '%'
    idpattern = '[a-z]+'
PRICE = Money('%sum of %name').substitute(sum=settings.size, name='x')
class Level(StrEnum):
    LOW = auto()
    HIGH = 'high!'
    @nonmember
    class Meta:
        weight = 2
    @property
    def weight(self): return len(self) * self.Meta.weight
class Access(IntFlag):
    READ = 1
    WRITE = 2
    BOTH = READ | WRITE
GRANTED = Access.READ | Access(settings.mask)
Point = namedtuple('Point', settings.axes, defaults=[0])
ORIGIN = Point(1)
class Node:
    __slots__ = ('name', 'parent', '__weakref__')
    count = itertools.count(settings.first)
    def __init__(self, name, parent=None):
        self.name, self.parent = name, parent and weakref.ref(parent)
    @property
    def path(self):
        parent = self.parent and self.parent()
        return (parent.path + settings.sep if parent else '') + self.name
    def __lt__(self, other): return self.path < other.path
ROOT = Node('root')
LEAF = Node('leaf', ROOT)
TREE = sorted([LEAF, ROOT], key=attrgetter('path'))
CALLS = [methodcaller('upper')('a'), itemgetter(1, 0)('xy')]
@functools.cache
def feed(name): return Feed(name, limit=limit(name))
NEWS = feed('news')
@contextlib.contextmanager
def quiet(*errors):
    try:
        yield
    except errors or (ValueError,):
        feeds.SEEN.append('quiet')
with quiet():
    int(settings.number)
async def pump(queue, out):
    while (item := await queue.get()) is not None:
        out.append(await handle(item))
async def handle(item): return f'{item}{settings.mark}'
async def drive(items):
    queue, out = asyncio.Queue(maxsize=settings.size), []
    async with asyncio.TaskGroup() as group:
        group.create_task(pump(queue, out))
        for item in [*items, None]:
            await queue.put(item)
    return out
class Ticker(threading.Thread):
    step = 1
    def __init__(self):
        super().__init__(daemon=True, name=settings.thread)
        self.go, self.seen = threading.Event(), threading.Semaphore(0)
        self.ticks = 0
    def run(self):
        while self.go.wait(5):
            self.go.clear()
            self.tick()
            self.seen.release()
    def tick(self): self.ticks += self.step
    def once(self):
        self.go.set()
        self.seen.acquire(timeout=5)
        return self.ticks
pool = ThreadPoolExecutor(settings.workers, thread_name_prefix=settings.thread, initializer=feeds.begin)
DONE = list(pool.map(limit, ['a', 'news']))
TYPES = types.SimpleNamespace(**{k.lower(): type(v).__name__ for k, v in vars(settings).items() if not k.startswith('_')})
def visit(node, /, depth: 'int' = 0, *rest, key=lambda n: n.path, **words) -> 'list[str]':
    return [key(node), depth, rest, words]
VISITED = visit(LEAF, 1, 2, extra=settings.mark)
"""
LIVE_FEEDS = """\
import logging
FORMAT, LEVEL = '%(levelname)s %(message)s', 'INFO'
SEEN = []
class settings:
    who, size, mask, axes, first, sep, number, mark, thread, workers = 'me', 3, 2, 'x y', 5, '/', 'no', '*', 'tick', 2
class Memory(logging.Handler):
    lines = []
    def emit(self, record):
        self.lines.append(self.format(record))
class Source:
    kinds = {}
    def __init_subclass__(cls): Source.kinds[cls.__name__] = cls
    def read(self): return []
class Feed(Source):
    def __init__(self, name, limit=1): self.name, self.limit = name, limit
    def read(self): return [self.name] * self.limit
def limit(name): return {'news': 2}.get(name, 1)
def begin(): SEEN.append('begin')
"""
LIVED = (
    "[feeds.Memory.lines.clear(), m.log.info('a'), m.log.debug('b'), m.adapter.warning('c'), list(feeds.Memory.lines)][-1], m.adapter.extra", "dict(m.bag), m.bag['z'], list(m.stack), m.stack[0]", "m.LOUD, m.PRICE, m.Shout().format('{0!u}', 'x')",
    "[(l.name, l.value, l.weight) for l in m.Level], m.Level('low') is m.Level.LOW", "m.GRANTED, [a.name for a in m.Access], m.Access.BOTH.value", "m.Point._fields, m.ORIGIN, m.Point._field_defaults", "m.LEAF.path, [n.name for n in m.TREE], m.Node('a') < m.Node('b'), m.Node.__slots__",
    "m.CALLS, m.NEWS.read(), m.feed('news').read(), m.feed('news') is m.NEWS", "__import__('asyncio').run(m.drive([1, 2]))", "m.pool._max_workers, m.DONE, m.pool._thread_name_prefix", "vars(m.TYPES)", "m.VISITED, m.visit(m.ROOT, 5), str(__import__('inspect').signature(m.visit))[:30]",
    "feeds.SEEN.count('quiet')", "(lambda t: (t.start(), t.once(), t.once(), t.name, t.step))(m.Ticker())", "sorted(feeds.Source.kinds)",
)  # fmt: skip
LIVE_EDITS = edits_of(
    "live",
    LIVE,
    [
        ("a format of a configuration", "'%(levelname)s %(message)s'", "'%(message)s:%(levelname)s'", LIVED, {"edited": "feeds"}),
        ("a level of a configuration", "'INFO'", "'WARNING'", LIVED, {"edited": "feeds"}),
        ("how a handler keeps", "self.lines.append(self.format(record))", "self.lines.append(self.format(record).upper())", LIVED, {"edited": "feeds"}),
        ("a logger's own level", "'level': 'DEBUG'", "'level': 'ERROR'", LIVED),
        ("a logger's handlers less", "'handlers': ['memory'], ", "'handlers': [], ", LIVED),
        ("who logs", "'me', 3", "'you', 3", LIVED, {"edited": "feeds"}),
        ("a size", "'me', 3", "'me', 4", LIVED, {"edited": "feeds"}),
        ("a mask", "3, 2, 'x y'", "3, 1, 'x y'", LIVED, {"edited": "feeds"}),
        ("names of a tuple", "'x y'", "'x z'", LIVED, {"edited": "feeds"}),
        ("a separator", "'/', 'no'", "'.', 'no'", LIVED, {"edited": "feeds"}),
        ("a number that can be read", "'no', '*'", "'7', '*'", LIVED, {"edited": "feeds"}),
        ("a mark of a coroutine", "'*', 'tick'", "'+', 'tick'", LIVED, {"edited": "feeds"}),
        ("a name of threads", "'tick', 2", "'tock', 2", LIVED, {"edited": "feeds"}),
        ("a number of workers", "'tick', 2", "'tick', 3", LIVED, {"edited": "feeds"}),
        ("a limit of a cached feed", "'news': 2", "'news': 3", LIVED, {"edited": "feeds"}),
        ("how a feed reads", "[self.name] * self.limit", "[self.name.upper()] * self.limit", LIVED, {"edited": "feeds"}),
        ("a default of a feed", "limit=1):", "limit=9):", LIVED, {"edited": "feeds"}),
        ("a base of a feed", "class Feed(Source)", "class Feed", LIVED, {"edited": "feeds"}),
        ("a setting that is renamed", "who, size", "whom, size", LIVED, {"edited": "feeds", "more": [("m", "settings.who", "settings.whom")]}),
        ("a default of a mapping", "default = '?'", "default = '!'", LIVED),
        ("how a mapping is filled", "key.lower(), value", "key.upper(), value", LIVED),
        ("how a list is read", "-1 - index", "index", LIVED),
        ("a method of a list", "self.extend(items); return self", "self.extend(items[::-1]); return self", LIVED),
        ("a suffix of a formatter", "suffix = '!'", "suffix = '?'", LIVED),
        ("a conversion of a formatter", "str(value).upper()", "str(value).title()", LIVED),
        ("a delimiter of a template", "delimiter = '%'", "delimiter = '$'", LIVED, {"more": [("m", "'%sum of %name'", "'$sum of $name'")]}),
        ("a pattern of a template", "'[a-z]+'", "'[a-z]{1,4}'", LIVED),
        ("a weight of a nested class", "weight = 2", "weight = 3", LIVED),
        ("a member that is automatic", "LOW = auto()", "LOWEST = auto()", (*LIVED[:3], *LIVED[4:], "[l.value for l in m.Level]")),
        ("a flag of both", "BOTH = READ | WRITE", "BOTH = WRITE", LIVED),
        ("a granted flag", "Access.READ | Access", "Access.WRITE | Access", LIVED),
        ("a default of a tuple", "defaults=[0]", "defaults=[7]", LIVED),
        ("a slot more", "('name', 'parent',", "('name', 'parent', 'note',", LIVED),
        ("a path of nodes", "parent.path + settings.sep", "settings.sep + parent.path", LIVED),
        ("a key of a tree", "attrgetter('path')", "attrgetter('name')", LIVED),
        ("a called method", "methodcaller('upper')", "methodcaller('title')", LIVED),
        ("no cache", "@functools.cache\n", "", LIVED),
        ("a caught error", "errors or (ValueError,)", "errors or (TypeError, ValueError)", LIVED),
        ("what is seen", "append('quiet')", "append('silent')", LIVED),
        ("a coroutine's body", "f'{item}{settings.mark}'", "f'{settings.mark}{item}'", LIVED),
        ("a loop of a coroutine", "out.append(await handle(item))", "out.insert(0, await handle(item))", LIVED),
        ("a step of a thread", "step = 1", "step = 2", LIVED),
        ("a method of a thread", "self.ticks += self.step", "self.ticks += self.step * 10", LIVED),
        ("a keyword of a visit", "key=lambda n: n.path", "key=lambda n: n.name", LIVED),
        ("a parameter that may be named", "def visit(node, /, depth", "def visit(node, depth", LIVED),
        ("what is visited", "visit(LEAF, 1, 2, extra=", "visit(ROOT, 1, 2, more=", LIVED),
        ("types of settings", "type(v).__name__", "type(v).__qualname__.upper()", LIVED),
    ],
    others={"feeds": LIVE_FEEDS},
)  # fmt: skip

TASKS_APP = """\
from celery import Celery, Task, chain, chord, group, shared_task, signature
from celery.schedules import crontab, schedule
from celery.signals import task_prerun, task_success, before_task_publish
import attrs, attr
from attrs import Factory, define, evolve, field, frozen, setters, validators
import conf
from conf import Audited, positive, to_cents
app = Celery('jobs', broker='memory://', backend='cache+memory://', task_cls=Audited)
app.conf.update(task_always_eager=True, task_eager_propagates=True, task_store_eager_result=False, task_default_queue=conf.QUEUE)
app.conf.beat_schedule = {f'every-{n}': {'task': 'jobs.add', 'schedule': schedule(n), 'args': (n, conf.STEP)} for n in conf.EVERY}
app.conf.task_routes = [conf.route, {'jobs.slow.*': {'queue': 'slow'}}]
app.conf.task_annotations = {'jobs.add': {'rate_limit': conf.RATE}}
@app.task(name='jobs.add', bind=True, max_retries=conf.RETRIES, autoretry_for=(conf.Busy,), retry_backoff=False)
def add(self, x, y=conf.STEP):
    return x + y + self.bonus
@app.task(base=Audited, ignore_result=False, name='jobs.slow.sum', serializer='json')
def total(numbers): return sum(numbers)
@shared_task(name='jobs.shared', queue='s')
def shared(x): return x * conf.STEP
@task_prerun.connect
def before(sender=None, task_id=None, **kw): conf.SEEN.append(('before', sender.name))
@task_success.connect(sender=add)
def after(sender=None, result=None, **kw): conf.SEEN.append(('after', result))
FLOW = chain(add.s(1, 2), add.s(conf.STEP))
FAN = chord([add.s(i, i) for i in range(conf.STEP)], total.s())
SIG = add.signature((1,), countdown=conf.RETRIES, queue='q', immutable=True)
@define(slots=True, kw_only=True, order=True)
class Line:
    name: str = field(converter=str.strip, validator=[validators.instance_of(str), validators.max_len(conf.LENGTH)])
    cents: int = field(converter=to_cents, validator=positive, on_setattr=setters.frozen)
    tags: list = Factory(list)
    note: str = field(default='n', eq=False, repr=lambda value: value.upper(), metadata={'unit': conf.UNIT})
    serial: int = field(init=False)
    @serial.default
    def _serial(self): return self.cents + 1
    @note.validator
    def _check(self, attribute, value):
        if len(value) > conf.LENGTH: raise ValueError('long')
    def __attrs_post_init__(self): self.tags.append(self.name)
LINE = Line(name=' pen ', cents=1.5)
COPY = evolve(LINE, name='ink')
@frozen
class Cart:
    lines: tuple[Line, ...] = field(converter=tuple, default=())
    owner: str = conf.OWNER
    @property
    def total(self): return sum(line.cents for line in self.lines)
CART = Cart([LINE, COPY])
@attr.s(auto_attribs=True, these=None, cmp=False)
class Old:
    x: int = attr.ib(default=conf.STEP, converter=attr.converters.optional(int))
    y: list = attr.Factory(lambda self: [self.x], takes_self=True)
Made = attrs.make_class('Made', {'a': attrs.field(default=conf.STEP), 'b': attrs.field(factory=dict)}, frozen=True)
"""
TASKS_CONF = """\
from celery import Task
QUEUE, STEP, EVERY, RATE, RETRIES, LENGTH, UNIT, OWNER = 'main', 3, (5, 10), '5/m', 4, 6, 'eur', 'ann'
SEEN = []
class Busy(Exception): pass
def route(name, args, kwargs, options, task=None, **kw):
    return {'queue': 'sums'} if name.endswith('sum') else None
class Audited(Task):
    bonus = 0
    abstract = True
    def before_start(self, task_id, args, kwargs): SEEN.append(('start', self.name))
    def __call__(self, *args, **kw): return super().__call__(*args, **kw)
def positive(instance, attribute, value):
    if value < 0: raise ValueError('negative')
def to_cents(value): return round(value * 100)
"""
TASKED = (
    "conf.SEEN.clear(), m.add.delay(1).get(), m.add.apply((1, 1)).get(), m.total.delay([1, 2]).get(), m.shared.delay(2).get(), list(conf.SEEN)", "m.FLOW.apply().get(), [str(t) for t in m.FLOW.tasks], m.SIG.options, m.SIG.immutable, len(m.FAN.tasks)",
    "{k: (v['task'], v['schedule'].run_every.seconds, v['args']) for k, v in m.app.conf.beat_schedule.items()}, m.app.conf.task_default_queue, m.app.conf.task_annotations", "m.add.max_retries, m.add.name, m.add.bonus, m.total.serializer, m.add.rate_limit, m.app.conf.task_routes[0]('x.sum', (), {}, {})", "sorted(t for t in m.app.tasks if 'jobs' in t)",
    "m.LINE, m.COPY, m.LINE.serial, m.LINE.tags, m.LINE < m.COPY, m.LINE == m.Line(name='pen', cents=1.5, note='z', tags=[])", "m.CART, m.CART.total, m.Cart().owner, [a.name for a in m.attrs.fields(m.Line)], m.attrs.fields(m.Line).note.metadata['unit']",
    "m.Line(name='a' * 9, cents=1)", "m.Line(name='a', cents=-1)", "m.Line(name='a', cents=1, note='z' * 9)", "m.Old(), m.Old('4'), m.Old(None).y, m.Made(), m.Made(5)", "[setattr(m.Line(name='a', cents=1), 'cents', 2)]", "str(__import__('inspect').signature(m.Line)), m.Line.__slots__",
)  # fmt: skip
TASK_EDITS = edits_of(
    "tasks",
    TASKS_APP,
    [
        ("a queue by default", "'main', 3", "'other', 3", TASKED, {"edited": "conf"}),
        ("a step", "'main', 3", "'main', 4", TASKED, {"edited": "conf"}),
        ("schedules", "(5, 10)", "(5, 20)", TASKED, {"edited": "conf"}),
        ("retries", "'5/m', 4", "'5/m', 5", TASKED, {"edited": "conf"}),
        ("a length", "4, 6, 'eur'", "4, 4, 'eur'", TASKED, {"edited": "conf"}),
        ("a unit in metadata", "'eur', 'ann'", "'usd', 'ann'", TASKED, {"edited": "conf"}),
        ("an owner", "'eur', 'ann'", "'eur', 'bob'", TASKED, {"edited": "conf"}),
        ("a route by a function", "endswith('sum')", "startswith('x')", (*TASKED, "m.app.conf.task_routes[0]('y.sum', (), {}, {})"), {"edited": "conf"}),
        ("a bonus of a base", "bonus = 0", "bonus = 10", TASKED, {"edited": "conf"}),
        ("a method of a base", "SEEN.append(('start', self.name))", "SEEN.append(('begin', self.name))", TASKED, {"edited": "conf"}),
        ("a call of a base", "return super().__call__(*args, **kw)", "return super().__call__(*args, **kw) * 2", TASKED, {"edited": "conf"}),
        ("a validator's message", "if value < 0: raise", "if value < 200: raise", TASKED[7:], {"edited": "conf", "more": [("m", "cents=1.5)", "cents=2.5)")]}),
        ("a converter", "round(value * 100)", "round(value * 1000)", TASKED, {"edited": "conf"}),
        ("a body of a bound task", "x + y + self.bonus", "x * y + self.bonus", TASKED),
        ("a default of a task", "y=conf.STEP", "y=7", TASKED),
        ("a name of a task", "'jobs.slow.sum'", "'jobs.slow.total'", TASKED),
        ("a serializer", "serializer='json'", "serializer='pickle'", TASKED),
        ("a shared task's body", "return x * conf.STEP", "return x + conf.STEP", TASKED),
        ("a receiver's body", "('before', sender.name)", "('prior', sender.name)", TASKED),
        ("a receiver of another task", "task_success.connect(sender=add)", "task_success.connect(sender=total)", TASKED),
        ("a receiver less", "@task_prerun.connect\n", "", TASKED),
        ("a link of a flow", "chain(add.s(1, 2), add.s(conf.STEP))", "chain(add.s(1, 2), add.s(conf.STEP), add.s(1))", TASKED),
        ("a fan", "add.s(i, i) for i in range(conf.STEP)", "add.s(i, 0) for i in range(conf.STEP + 1)", TASKED),
        ("an option of a signature", "queue='q'", "queue='r'", TASKED),
        ("a converter of a field", "converter=str.strip", "converter=str.upper", TASKED),
        ("a frozen field", ", on_setattr=setters.frozen", "", TASKED),
        ("a representation of a field", "value.upper()", "value.title()", TASKED),
        ("a compared field", "eq=False, ", "", TASKED),
        ("a default by a method", "return self.cents + 1", "return self.cents + 2", TASKED),
        ("a validator by a method", "raise ValueError('long')", "raise TypeError('long')", TASKED),
        ("a hook after creation", "self.tags.append(self.name)", "self.tags.insert(0, self.name.upper())", TASKED),
        ("a slot less", "slots=True, ", "slots=False, ", TASKED[:12]),
        ("only keywords no more", "kw_only=True, ", "", TASKED),
        ("not ordered", ", order=True", "", TASKED),
        ("another owner", "owner: str = conf.OWNER", "owner: str = 'eve'", TASKED),
        ("a frozen class's property", "sum(line.cents for", "sum(line.cents * 2 for", TASKED),
        ("a factory of itself", "lambda self: [self.x]", "lambda self: [self.x, self.x]", TASKED),
        ("an old default", "default=conf.STEP, converter", "default=8, converter", TASKED),
        ("a field of a made class", "'b': attrs.field(factory=dict)", "'c': attrs.field(factory=list)", TASKED),
    ],
    others={"conf": TASKS_CONF},
    needs=("celery", "attrs"),
)  # fmt: skip

ALL = with_expected(
    [*LIVE_EDITS, *TASK_EDITS],
    false=[
        "live: a pattern of a template",
        "live: a slot more",
        "live: a caught error",
        "live: a parameter that may be named",
        "tasks: a converter of a field",
        "tasks: a frozen field",
        "tasks: a representation of a field",
        "tasks: a compared field",
        "tasks: a slot less",
        "tasks: only keywords no more",
        "tasks: not ordered",
    ],
    reported=[
        "live: who logs",
        "live: a size",
        "live: a separator",
        "live: a mark of a coroutine",
        "live: a name of threads",
        "live: a number of workers",
        "live: a limit of a cached feed",
        "live: a setting that is renamed",
        "live: a path of nodes",
        "live: what is seen",
        "live: a keyword of a visit",
        "tasks: a queue by default",
        "tasks: a step",
        "tasks: schedules",
        "tasks: a receiver of another task",
        "tasks: a receiver less",
    ],
)
