"""Edits of small programs that mix idioms: views of tables, classes made by calls, plugins, text, and services."""

from edit_cases import edits_of, with_expected

VIEWS_M = """\
import collections
import functools
import itertools
import operator
import re
import string
import types
import typing
from collections import ChainMap, OrderedDict, deque, namedtuple
import tables
from tables import ROWS, WORDS, make_row, order
from tables import Level as L
LIMITS = types.MappingProxyType({name: number * 2 for name, number in tables.NUMBERS.items()})
SETTINGS = ChainMap({'color': 'red'}, tables.DEFAULTS)
RECENT = deque((row.name for row in ROWS), maxlen=tables.KEEP)
INDEX = OrderedDict((row.name, row) for row in sorted(ROWS, key=order))
COUNTS = collections.Counter(len(word) for word in WORDS)
GROUPS = {key: list(group) for key, group in itertools.groupby(sorted(WORDS, key=len), key=len)}
TOTAL = functools.reduce(operator.add, tables.NUMBERS.values(), 0)
PATTERN = re.compile('|'.join(map(re.escape, WORDS)))
TEXT = string.Template('$name is $size')
Pair = namedtuple('Pair', 'left right', defaults=[tables.KEEP])
Key = typing.NewType('Key', int)
Special = type('Special', (tables.Base,), {'size': tables.KEEP, 'hello': lambda self: f'hello {self.size}'})
Names = L.__base__('Names', {name.upper(): number for name, number in tables.NUMBERS.items()})
first, *rest = WORDS
(low, high), step = (min(tables.NUMBERS.values()), max(tables.NUMBERS.values())), 1
if (size := len(WORDS)) > 2:
    BIG = True
for _word in WORDS:
    globals()[f'say_{_word}'] = lambda word=_word: word.upper()
match tables.MODE:
    case 'fast':
        def run(n): return n * 10
    case _:
        def run(n): return n + 1
ACTIONS = {level: functools.partial(tables.act, level=level) for level in L}
def lookup(name, default=make_row('none', 0)):
    return INDEX.get(name, default)
def find(text, flags=PATTERN.flags):
    return PATTERN.findall(text), flags
by_size = operator.attrgetter('size')
class View:
    columns = tuple(tables.Row._fields)
    getters = [operator.itemgetter(i) for i, _ in enumerate(columns)]
    def __class_getitem__(cls, item):
        return f'{cls.__name__}[{item}]'
    @functools.cached_property
    def width(self):
        return len(self.columns) * tables.KEEP
    def rows(self):
        return [tuple(get(row) for get in self.getters) for row in ROWS]
"""
VIEWS = {
    "tables": """\
import enum
from typing import NamedTuple
NUMBERS = {'one': 1, 'two': 2}
DEFAULTS = {'color': 'blue', 'shape': 'round'}
WORDS = ['red', 'green', 'blue']
KEEP = 2
MODE = 'slow'
class Level(enum.Enum):
    LOW = 'low'
    HIGH = 'high'
class Row(NamedTuple):
    name: str
    size: int = 1
class Base:
    kinds = []
    def __init_subclass__(cls):
        Base.kinds.append(cls.__name__)
    def describe(self):
        return f'{type(self).__name__} {self.size}'
def make_row(name, size):
    return Row(name, size)
def order(row):
    return row.size
ROWS = [make_row(word, len(word)) for word in WORDS]
def act(n, level=None):
    return f'{level.value} {n}'
""",
}
VIEWS_PROBES = (
    "dict(m.LIMITS), dict(m.SETTINGS), list(m.RECENT), m.RECENT.maxlen", "list(m.INDEX.items()), m.COUNTS, m.GROUPS, m.TOTAL", "m.PATTERN.pattern, m.find('red and blue and teal'), m.Pair(1), m.Special().hello(), m.Special().describe(), m.Special.size", "[(n.name, n.value) for n in m.Names], m.first, m.rest, m.low, m.high, m.size, getattr(m, 'BIG', None)", "sorted(n for n in vars(m) if n.startswith('say_')), m.say_red(), m.run(3)", "[(k.name, f(1)) for k, f in m.ACTIONS.items()], [k.name for k in m.L]", "m.lookup('red'), m.lookup('x'), m.View[int], m.View().width, m.View().rows(), m.View.columns", "m.by_size(m.ROWS[0]), tables.Base.kinds, m.TEXT.substitute(name='n', size=1), m.WORDS is tables.WORDS",
)  # fmt: skip
VIEWS_EDITS = edits_of(
    "views",
    VIEWS_M,
    [
        ("a number more", "'two': 2", "'two': 2, 'three': 3", VIEWS_PROBES, {"edited": "tables"}),
        ("a default color", "'shape': 'round'", "'shape': 'square'", VIEWS_PROBES, {"edited": "tables"}),
        ("a word less", "['red', 'green', 'blue']", "['red', 'blue']", VIEWS_PROBES, {"edited": "tables"}),
        ("a number to keep", "KEEP = 2", "KEEP = 3", VIEWS_PROBES, {"edited": "tables"}),
        ("a mode", "MODE = 'slow'", "MODE = 'fast'", VIEWS_PROBES, {"edited": "tables"}),
        ("a level more", "    HIGH = 'high'\n", "    HIGH = 'high'\n    TOP = 'top'\n", VIEWS_PROBES, {"edited": "tables"}),
        ("a field of rows", "    size: int = 1\n", "    size: int = 1\n    tag: str = ''\n", VIEWS_PROBES, {"edited": "tables"}),
        ("an order", "return row.size", "return -row.size", VIEWS_PROBES, {"edited": "tables"}),
        ("a maker of rows", "return Row(name, size)", "return Row(name, size + 1)", VIEWS_PROBES, {"edited": "tables"}),
        ("a hook's body", "append(cls.__name__)", "append(cls.__name__.lower())", VIEWS_PROBES, {"edited": "tables"}),
        ("an action", "f'{level.value} {n}'", "f'{n} {level.value}'", VIEWS_PROBES, {"edited": "tables"}),
        ("a default of a pair", "defaults=[tables.KEEP]", "defaults=[tables.KEEP + 1]", VIEWS_PROBES),
        ("a lambda of a made class", "f'hello {self.size}'", "f'hi {self.size}'", VIEWS_PROBES),
        ("a lambda in a loop", "word.upper()", "word.title()", VIEWS_PROBES),
        ("a template", "'$name is $size'", "'$name has $size'", VIEWS_PROBES),
        ("an unpacked assignment", "first, *rest = WORDS", "*rest, first = WORDS", VIEWS_PROBES),
        ("a case of a match", "return n * 10", "return n * 100", VIEWS_PROBES),
        ("another case of a match", "return n + 1", "return n + 2", VIEWS_PROBES),
    ],
    others=VIEWS,
)  # fmt: skip

QUEUE_M = """\
import asyncio
import contextvars
import dataclasses
import threading
import weakref
from queues import Broker, Job, broker, job, retry
from queues.policies import Backoff, POLICY
import queues.middleware as mw
import queues
current = contextvars.ContextVar('current', default=queues.NAME)
lock = threading.RLock()
@job(queue='mail', policy=Backoff(limit=2))
def send(to):
    return f'sent {to}'
@job
async def clean(days=POLICY.limit):
    return f'cleaned {days}'
class Report(Job, queue='reports'):
    retries = POLICY.limit
    def perform(self, name):
        return f'report {name} {self.retries}'
@retry(times=3)
def flaky(state={'n': 0}):
    state['n'] += 1
    if state['n'] % 2:
        raise ValueError(state['n'])
    return 'ok'
broker.use(mw.Timer(), mw.logging)
handlers = weakref.WeakValueDictionary(send=send, clean=clean)
def work(name, *args):
    found = broker.dispatch(name, *args)
    return asyncio.run(found) if asyncio.iscoroutine(found) else found
"""
QUEUE = {
    "queues.__init__": """\
from .core import Broker, Job, job, broker
from .policies import retry
from . import policies
NAME = 'main'
__all__ = ['Broker', 'Job', 'job', 'broker', 'retry', 'NAME']
""",
    "queues.core": """\
import functools
from .policies import Backoff, POLICY, NAMES
class Broker:
    default_queue = 'default'
    def __init__(self):
        self.jobs = {}
        self.middleware = []
    def add(self, name, fn, queue, policy):
        self.jobs[name] = (fn, queue or self.default_queue, policy)
    def use(self, *middleware):
        self.middleware.extend(middleware)
        return self
    def dispatch(self, name, *args):
        fn, queue, policy = self.jobs[name]
        for item in self.middleware:
            fn = item(fn, queue)
        return fn(*args)
broker = Broker()
def job(fn=None, *, queue=None, policy=POLICY):
    def register(fn):
        broker.add(NAMES.get(fn.__name__, fn.__name__), fn, queue, policy)
        return fn
    return register if fn is None else register(fn)
class Job:
    queue = None
    def __init_subclass__(cls, queue=None, **words):
        super().__init_subclass__(**words)
        cls.queue = queue
        broker.add(cls.__name__.lower(), cls().perform, queue, POLICY)
    def perform(self, *args):
        raise NotImplementedError
""",
    "queues.policies": """\
import functools
from dataclasses import dataclass
LIMIT = 5
NAMES = {'clean': 'tidy'}
@dataclass(frozen=True)
class Backoff:
    limit: int = LIMIT
    factor: float = 2.0
    def delays(self):
        return [self.factor ** n for n in range(self.limit)]
POLICY = Backoff()
def retry(times=1, errors=(ValueError,)):
    def decorate(fn):
        @functools.wraps(fn)
        def wrapper(*args, **words):
            for n in range(times):
                try:
                    return fn(*args, **words)
                except errors as error:
                    last = error
            return f'gave up {last}'
        return wrapper
    return decorate
""",
    "queues.middleware": """\
import functools
class Timer:
    unit = 'ms'
    def __call__(self, fn, queue):
        @functools.wraps(fn)
        def timed(*args):
            LOG.append(f'timed {queue} {self.unit}')
            return fn(*args)
        return timed
def logging(fn, queue):
    LOG.append(f'log {queue}')
    return fn
LOG = []
""",
}
QUEUE_PROBES = (
    "m.work('send', 'a'), m.work('tidy'), m.work('report', 'r')", "(m.mw.LOG.clear(), m.work('send', 'a'), m.mw.LOG)[1:]", "sorted((k, f.__name__, q, p) for k, (f, q, p) in m.broker.jobs.items())", "m.flaky(), m.flaky(), m.flaky.__name__", "m.Report.queue, m.Report().perform('x'), m.Report.retries, m.current.get()", "m.POLICY, m.POLICY.delays(), m.broker is queues.core.broker, len(m.broker.middleware)", "m.clean.__defaults__, sorted(m.handlers), m.handlers['send'] is m.send, m.handlers['clean'] is m.clean, m.broker.jobs['send'][0] is m.send", "asyncio_run(m.clean()), m.broker.default_queue, m.broker.jobs['report'][0].__self__.retries",
)  # fmt: skip
QUEUE_EDITS = edits_of(
    "queues",
    QUEUE_M,
    [
        ("a limit of a policy", "LIMIT = 5", "LIMIT = 3", QUEUE_PROBES, {"edited": "queues.policies"}),
        ("a job's other name", "'clean': 'tidy'", "'clean': 'sweep'", (*QUEUE_PROBES, "m.work('sweep')"), {"edited": "queues.policies"}),
        ("a method of a policy", "self.factor ** n", "self.factor * n", QUEUE_PROBES, {"edited": "queues.policies"}),
        ("a wrapper's body", "f'gave up {last}'", "f'gave up: {last}'", QUEUE_PROBES, {"edited": "queues.policies"}),
        ("a default of a decorator", "errors=(ValueError,)", "errors=(ValueError, KeyError)", QUEUE_PROBES, {"edited": "queues.policies"}),
        ("a default queue", "default_queue = 'default'", "default_queue = 'low'", QUEUE_PROBES, {"edited": "queues.core"}),
        ("a key of jobs", "cls.__name__.lower()", "cls.__name__", (*QUEUE_PROBES, "m.work('Report', 'r')"), {"edited": "queues.core"}),
        ("a method of the broker", "fn = item(fn, queue)", "fn = item(fn, queue.upper())", QUEUE_PROBES, {"edited": "queues.core"}),
        ("what is stored", "(fn, queue or self.default_queue, policy)", "(fn, queue or 'none', policy)", QUEUE_PROBES, {"edited": "queues.core"}),
        ("a unit", "unit = 'ms'", "unit = 's'", QUEUE_PROBES, {"edited": "queues.middleware"}),
        ("a log", "f'log {queue}'", "f'logged {queue}'", QUEUE_PROBES, {"edited": "queues.middleware"}),
        ("a name of the package", "NAME = 'main'", "NAME = 'side'", QUEUE_PROBES, {"edited": "queues.__init__"}),
        ("a policy of a job", "Backoff(limit=2)", "Backoff(limit=4)", QUEUE_PROBES),
        ("a job's queue", "queue='mail'", "queue='post'", QUEUE_PROBES),
        ("a job's default", "days=POLICY.limit", "days=POLICY.limit * 2", QUEUE_PROBES),
        ("a class's queue", "queue='reports'", "queue='slow'", QUEUE_PROBES),
        ("a class's body", "f'report {name} {self.retries}'", "f'REPORT {name} {self.retries}'", QUEUE_PROBES),
        ("times of retries", "times=3", "times=1", QUEUE_PROBES),
        ("middleware less", "broker.use(mw.Timer(), mw.logging)", "broker.use(mw.logging)", QUEUE_PROBES),
        ("a job renamed", "async def clean(", "async def wipe(", (*QUEUE_PROBES[:1], "sorted(m.broker.jobs)"), {"more": (("m", "clean=clean", "clean=wipe"),)}),
    ],
    others=QUEUE,
    setup="import asyncio\nasyncio_run = asyncio.run\n",
)  # fmt: skip

DESK_M = """\
from __future__ import annotations
from typing import Annotated, Generic, Literal, TypeVar
import attrs
import click
from flask import Blueprint, Flask, abort, g, jsonify, request
from pydantic import BaseModel, BeforeValidator, Field, RootModel, TypeAdapter, field_serializer
from sqlalchemy import ForeignKey, String, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, column_property, mapped_column, relationship
from desk_types import Money, Status, money, STATUSES
import desk_types as kinds
import desk_auth as auth
from desk_auth import needs
T = TypeVar('T')
class Base(DeclarativeBase):
    pass
class Stamped:
    by: Mapped[str] = mapped_column(String(kinds.NAME_LENGTH), default=auth.SYSTEM)
class Ticket(Stamped, Base):
    __tablename__ = 'tickets'
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str] = mapped_column(String(kinds.TITLE))
    status: Mapped[str] = mapped_column(default=STATUSES[0])
    notes: Mapped[list[Note]] = relationship(order_by='Note.id', lazy='selectin')
    shout = column_property(title + '!')
    def as_out(self):
        return TicketOut(title=self.title, status=self.status, cost='3')
class Note(Base):
    __tablename__ = 'notes'
    id: Mapped[int] = mapped_column(primary_key=True)
    ticket_id: Mapped[int] = mapped_column(ForeignKey('tickets.id'))
    text: Mapped[str]
class TicketOut(BaseModel):
    title: str
    status: Status = 'open'
    cost: Annotated[Money, BeforeValidator(money)] = 0
    @field_serializer('cost')
    def show(self, value):
        return f'{value} {kinds.UNIT}'
class Page(BaseModel, Generic[T]):
    items: list[T]
    size: int = Field(default=kinds.PAGE, le=100)
Tickets = TypeAdapter(list[TicketOut])
@attrs.define(kw_only=True)
class Filter:
    status: str | None = attrs.field(default=None, validator=attrs.validators.optional(attrs.validators.in_(STATUSES)))
    limit: int = attrs.field(default=kinds.PAGE, converter=int)
engine = create_engine('sqlite://')
Base.metadata.create_all(engine)
api = Blueprint('desk', __name__, url_prefix='/desk')
@api.get('/tickets')
@needs('read', realm=auth.REALM)
def tickets():
    found = Filter(status=request.args.get('status'))
    return jsonify(limit=found.limit, status=found.status, user=g.user)
@api.post('/tickets')
@needs('write')
def create():
    with Session(engine) as session:
        ticket = Ticket(title=request.json['title'])
        session.add(ticket)
        session.flush()
        out = ticket.as_out().model_dump()
        session.rollback()
    return jsonify(out)
@api.app_errorhandler(403)
def forbidden(error):
    return jsonify(error=str(error.description)), 403
app = Flask(__name__)
auth.install(app)
app.register_blueprint(api)
@click.command()
@click.option('--status', type=click.Choice(STATUSES), default=STATUSES[-1], show_default=True)
def listing(status):
    click.echo(status)
app.cli.add_command(listing, 'list')
"""
DESK = {
    "desk_types": """\
from decimal import Decimal
from typing import Literal
NAME_LENGTH = 10
TITLE = 30
PAGE = 20
UNIT = 'EUR'
Money = Decimal
STATUSES = ('open', 'closed')
Status = Literal['open', 'closed']
def money(value):
    return Decimal(str(value)).quantize(Decimal('0.1'))
""",
    "desk_auth": """\
import functools
from flask import abort, g, request
REALM = 'desk'
SYSTEM = 'system'
RIGHTS = {'ann': {'read', 'write'}, 'bob': {'read'}}
def needs(right, realm=None):
    def decorate(view):
        @functools.wraps(view)
        def checked(**words):
            if right not in RIGHTS.get(g.user, ()):
                abort(403, f'{realm or REALM}: no right to {right}')
            return view(**words)
        return checked
    return decorate
def load_user():
    g.user = request.headers.get('X-User', 'nobody')
def install(app):
    app.before_request(load_user)
    app.config['REALM'] = REALM
""",
}
DESK_SETUP = """\
def call(path, method='get', user='ann', **words):
    found = getattr(sys.modules['m'].app.test_client(), method)(path, headers={'X-User': user}, **words)
    return found.status_code, found.text
def raised(act):
    try:
        return repr(act())
    except Exception as error:
        return type(error).__name__, str(error)[:150]
"""
DESK_PROBES = (
    "call('/desk/tickets'), call('/desk/tickets?status=open'), call('/desk/tickets', user='bob'), call('/desk/tickets', user='x')", "call('/desk/tickets', 'post', json={'title': 't'}), call('/desk/tickets', 'post', user='bob', json={'title': 't'})", "[(c.name, str(c.type), str(c.default)) for c in m.Ticket.__table__.c], str(m.select(m.Ticket).compile(compile_kwargs={'literal_binds': True})), str(m.Ticket.notes.property.order_by)", "raised(lambda: m.TicketOut(title='a', status='x')), m.TicketOut(title='a', cost=1.26).model_dump(), m.Tickets.dump_python([m.TicketOut(title='a')])", "raised(lambda: m.Page[int](items=[1])), raised(lambda: m.Page[m.TicketOut](items=[{'title': 'q', 'cost': 2}], size=200))", "raised(lambda: m.Filter(status='q')), m.Filter(limit='3')", "m.app.test_cli_runner().invoke(args=['list']).output, m.app.test_cli_runner().invoke(args=['list', '--help']).output", "sorted(map(str, m.app.url_map.iter_rules())), m.app.config['REALM'], m.TicketOut.model_json_schema()", "m.Ticket(title='a', notes=[m.Note(text='b')]).notes[0].text, [p.key for p in m.Ticket.__mapper__.attrs]",
)  # fmt: skip
DESK_EDITS = edits_of(
    "desk",
    DESK_M,
    [
        ("a page", "PAGE = 20", "PAGE = 50", DESK_PROBES, {"edited": "desk_types"}),
        ("a unit", "UNIT = 'EUR'", "UNIT = 'USD'", DESK_PROBES, {"edited": "desk_types"}),
        ("a status more", "STATUSES = ('open', 'closed')", "STATUSES = ('open', 'closed', 'late')", DESK_PROBES, {"edited": "desk_types", "more": (("desk_types", "Literal['open', 'closed']", "Literal['open', 'closed', 'late']"),)}),
        ("a rounding", "'0.1'", "'0.01'", DESK_PROBES, {"edited": "desk_types"}),
        ("a length of a title", "TITLE = 30", "TITLE = 40", DESK_PROBES, {"edited": "desk_types"}),
        ("a type of money", "Money = Decimal", "Money = float", DESK_PROBES, {"edited": "desk_types"}),
        ("a realm", "REALM = 'desk'", "REALM = 'shop'", DESK_PROBES, {"edited": "desk_auth"}),
        ("rights", "'bob': {'read'}", "'bob': {'write'}", DESK_PROBES, {"edited": "desk_auth"}),
        ("a refusal", "no right to {right}", "{right} is refused", DESK_PROBES, {"edited": "desk_auth"}),
        ("a loaded user", "'nobody'", "'guest'", (*DESK_PROBES, "m.app.test_client().get('/desk/tickets').text"), {"edited": "desk_auth"}),
        ("a system's name", "SYSTEM = 'system'", "SYSTEM = 'robot'", DESK_PROBES, {"edited": "desk_auth"}),
        ("an installation", "app.config['REALM'] = REALM", "app.config['REALM'] = REALM.upper()", DESK_PROBES, {"edited": "desk_auth"}),
        ("a column property", "title + '!'", "title + '?'", DESK_PROBES),
        ("a field more", "    cost: Annotated", "    note: str = ''\n    cost: Annotated", DESK_PROBES),
        ("a serializer", "f'{value} {kinds.UNIT}'", "f'{kinds.UNIT} {value}'", DESK_PROBES),
        ("a field's bound", "le=100", "le=300", DESK_PROBES),
        ("a converter", "converter=int", "converter=float", DESK_PROBES),
        ("a right of a view", "@needs('write')", "@needs('read')", DESK_PROBES),
        ("a prefix", "url_prefix='/desk'", "url_prefix='/help'", (*DESK_PROBES, "call('/help/tickets')")),
        ("a name of a command", "add_command(listing, 'list')", "add_command(listing, 'show')", (*DESK_PROBES, "m.app.test_cli_runner().invoke(args=['show']).output")),
        ("an option of a command", "default=STATUSES[-1]", "default=STATUSES[0]", DESK_PROBES),
        ("an order of notes", "order_by='Note.id'", "order_by='Note.text'", DESK_PROBES),
        ("a method of a model", "cost='3'", "cost='4'", DESK_PROBES),
        ("a handler of errors", "error=str(error.description)", "reason=str(error.description)", DESK_PROBES),
    ],
    others=DESK,
    needs=("flask", "sqlalchemy", "pydantic", "attrs"),
    setup=DESK_SETUP,
)  # fmt: skip
ALL = with_expected(
    [*VIEWS_EDITS, *QUEUE_EDITS, *DESK_EDITS],
    reported=[
        "views: a number more",
        "views: a word less",
        "views: a number to keep",
        "views: a hook's body",
        "queues: a limit of a policy",
        "queues: a key of jobs",
        "queues: a name of the package",
        "queues: a policy of a job",
        "queues: a job's queue",
        "queues: middleware less",
        "queues: a job renamed",
        "desk: a length of a title",
        "desk: a system's name",
        "desk: a column property",
        "desk: an order of notes",
    ],
    false=["desk: a status more"],
)
