"""Edits of small programs, each with one library: a cinema, a clinic, a library of books, a depot and others."""

from edit_cases import edits_of, with_expected

CINEMA = """\
import bisect, collections, functools, itertools, operator, re, string
from dataclasses import dataclass, field
SEATS = 4
ROWS = 'AB'
PRICES = {'child': 5, 'adult': 9}
class Hall:
    count = 0
    limits = []
    def __init__(self, name, rows=ROWS):
        self.name, self.rows = name, rows
        type(self).count += 1
        self.number = Hall.count
    @functools.cached_property
    def seats(self):
        return tuple(f'{row}{seat}' for row in self.rows for seat in range(1, SEATS + 1))
    @functools.cached_property
    def taken(self):
        return []
    def free(self):
        return len(self.seats) - len(self.taken)
HALLS = [Hall('big'), Hall('small', 'A')]
BY_NAME = {hall.name: hall for hall in HALLS}
CAPACITY = sum(hall.free() for hall in HALLS)
SEAT = re.compile(rf'^[{ROWS}][1-{SEATS}]$')
GRID = list(itertools.product(ROWS, range(1, SEATS + 1)))
@dataclass(order=True)
class Ticket:
    price: int
    seat: str = field(default=ROWS[0] + '1', compare=False)
    tags: list = field(default_factory=list, compare=False)
SOLD = []
for kind in ('adult', 'child', 'adult'):
    bisect.insort(SOLD, Ticket(PRICES[kind]))
INCOME = sum(map(operator.attrgetter('price'), SOLD))
KINDS = collections.Counter('adult' if ticket.price > 5 else 'child' for ticket in SOLD)
LINE = string.Template('$name has $free seats').substitute(name=HALLS[0].name, free=HALLS[0].free())
class Offers(collections.UserDict):
    def __missing__(self, key):
        return PRICES[key]
offers = Offers(child=3)
def price(kind, *, day='mon', cut=offers['child']):
    return offers[kind] - (cut if day == 'tue' else 0)
CHEAPEST = min(PRICES, key=price)
def counter(start=SEATS):
    left = start
    def take(n=1):
        nonlocal left
        left -= n
        return left
    return take
take = counter()
REPORT = f'{CAPACITY} seats, {INCOME} earned'
"""
CINEMA_USE = "[hall.seats for hall in m.HALLS]; m.HALLS[0].taken.append('A1'); m.take()"
CINEMA_PROBES = (
    "m.CAPACITY, m.LINE, m.REPORT, m.INCOME, m.KINDS", "[(hall.name, hall.number, hall.seats, hall.rows) for hall in m.HALLS], m.Hall.count", "m.SEAT.pattern, m.GRID, m.SOLD, m.Ticket(1)", "m.price('adult'), m.price('adult', day='tue'), m.price('child'), m.CHEAPEST, m.offers", "m.counter()(2), m.take.__closure__ is not None, m.BY_NAME['big'] is m.HALLS[0]",
)  # fmt: skip
CINEMA_EDITS = edits_of(
    "cinema",
    CINEMA,
    [
        ("a number that a cached property reads", "SEATS = 4", "SEATS = 6", CINEMA_PROBES),
        ("a row more", "ROWS = 'AB'", "ROWS = 'ABC'", CINEMA_PROBES),
        ("a price", "'adult': 9", "'adult': 12", CINEMA_PROBES),
        ("how a seat is named", "f'{row}{seat}'", "f'{row}-{seat}'", CINEMA_PROBES),
        ("a hall more", "Hall('small', 'A')]", "Hall('small', 'A'), Hall('tiny', 'B')]", CINEMA_PROBES),
        ("a step of a counter", "count += 1", "count += 2", CINEMA_PROBES),
        (
            "an attribute less",
            "        self.number = Hall.count\n",
            "",
            (*CINEMA_PROBES, "hasattr(m.HALLS[0], 'number')"),
        ),
        ("what is free", "len(self.seats) - len(self.taken)", "len(self.seats)", CINEMA_PROBES),
        ("an order of tickets", "price: int\n", "price: int\n    day: str = 'mon'\n", CINEMA_PROBES),
        ("a key of a counter", "ticket.price > 5", "ticket.price > 9", CINEMA_PROBES),
        ("a missing key", "return PRICES[key]", "return PRICES[key] + 1", CINEMA_PROBES),
        ("an offer", "Offers(child=3)", "Offers(child=2, adult=8)", CINEMA_PROBES),
        ("a template", "$name has $free seats", "$name: $free", CINEMA_PROBES),
        ("a start of a closure", "counter(start=SEATS)", "counter(start=9)", (*CINEMA_PROBES, "m.take(0)")),
        ("a sale more", "'child', 'adult')", "'child', 'adult', 'child')", CINEMA_PROBES),
    ],
    use=CINEMA_USE,
)

CLINIC = {
    "rota": """\
import enum, weakref
class Day(enum.IntEnum):
    MON = 1
    TUE = 2
    @property
    def short(self):
        return self.name[:2].lower()
class Slot:
    __slots__ = ('day', 'hour')
    opened = 8
    def __init__(self, day, hour=None):
        self.day, self.hour = day, hour or self.opened
    def __repr__(self):
        return f'{self.day.short}@{self.hour}'
    def __eq__(self, other):
        return (self.day, self.hour) == (other.day, other.hour)
    def __hash__(self):
        return hash((self.day, self.hour))
WEEK = [Slot(day) for day in Day]
""",
    "staff": """\
import contextlib, logging
from rota import Day, Slot, WEEK
log = logging.getLogger('clinic')
PLUGINS = {}
class Plugin:
    title = 'plugin'
    needs = ()
    def __init_subclass__(cls, **words):
        super().__init_subclass__(**words)
        PLUGINS[cls.__name__.lower()] = cls
    def run(self, text):
        return f'{self.title}: {text}'
class Upper(Plugin):
    title = 'upper'
    def run(self, text):
        return super().run(text.upper())
class Both(Upper):
    needs = ('upper',)
ORDER = sorted(PLUGINS, key=lambda name: (len(PLUGINS[name].needs), name))
@contextlib.contextmanager
def shift(day, *, log=log):
    yield [slot for slot in WEEK if slot.day == day]
def doctors(**names):
    return {Day[day.upper()]: name for day, name in names.items()}
DOCTORS = doctors(mon='Ada', tue='Bob')
""",
}
CLINIC_M = """\
from rota import Day, Slot, WEEK
from staff import DOCTORS, ORDER, PLUGINS, shift
import staff
PLAN = {slot: DOCTORS[slot.day] for slot in WEEK}
with shift(Day.MON) as OPEN:
    FIRST = OPEN[0]
try:
    SPARE = DOCTORS[Day.WED]
except (AttributeError, KeyError):
    SPARE = 'none'
TEXT = ' '.join(PLUGINS[name]().run('x') for name in ORDER)
def who(slot, default=SPARE):
    return PLAN.get(slot, default)
"""
CLINIC_PROBES = (
    "list(rota.Day), [day.short for day in rota.Day], rota.WEEK, m.FIRST, m.OPEN", "m.PLAN, m.SPARE, m.who(rota.Slot(rota.Day.MON)), m.who(rota.Slot(rota.Day.MON, 3))", "m.TEXT, staff.ORDER, sorted(staff.PLUGINS), staff.PLUGINS['both'].__mro__[1].__name__", "staff.DOCTORS, staff.Both().run('y'), [name for name in ('hour', 'room') if hasattr(rota.Slot, name)]",
)  # fmt: skip
CLINIC_EDITS = edits_of(
    "clinic",
    CLINIC_M,
    [
        (
            "a day more",
            "    TUE = 2\n",
            "    TUE = 2\n    WED = 3\n",
            CLINIC_PROBES,
            {"edited": "rota", "more": [("staff", "tue='Bob'", "tue='Bob', wed='Cy'")]},
        ),
        ("a short name", "[:2].lower()", "[:3]", CLINIC_PROBES, {"edited": "rota"}),
        ("an opening hour", "opened = 8", "opened = 7", CLINIC_PROBES, {"edited": "rota"}),
        (
            "a slot more",
            "__slots__ = ('day', 'hour')",
            "__slots__ = ('day', 'hour', 'room')",
            CLINIC_PROBES,
            {"edited": "rota"},
        ),
        (
            "a hash by day",
            "return hash((self.day, self.hour))",
            "return hash(self.day)",
            CLINIC_PROBES,
            {"edited": "rota"},
        ),
        ("slots of one day", "for day in Day]", "for day in Day if day < 2]", CLINIC_PROBES, {"edited": "rota"}),
        (
            "a plugin more",
            "class Both(Upper):",
            "class Lower(Plugin):\n    def run(self, text):\n        return text.lower()\nclass Both(Upper):",
            CLINIC_PROBES,
            {"edited": "staff"},
        ),
        ("a plugin less", "class Both(Upper):\n    needs = ('upper',)\n", "", CLINIC_PROBES[:3], {"edited": "staff"}),
        ("what a plugin needs", "needs = ('upper',)", "needs = ()", CLINIC_PROBES, {"edited": "staff"}),
        ("a base of a plugin", "class Both(Upper)", "class Both(Plugin)", CLINIC_PROBES, {"edited": "staff"}),
        (
            "a key of the registry",
            "cls.__name__.lower()",
            "cls.__name__.lower()[:4]",
            CLINIC_PROBES,
            {"edited": "staff"},
        ),
        ("a doctor", "tue='Bob'", "tue='Cy'", CLINIC_PROBES, {"edited": "staff"}),
        ("a name with a title", "day.upper()]: name", "day.upper()]: 'Dr ' + name", CLINIC_PROBES, {"edited": "staff"}),
        ("what a manager yields", "slot.day == day]", "slot.day >= day]", CLINIC_PROBES, {"edited": "staff"}),
        ("a fallback", "SPARE = 'none'", "SPARE = 'nobody'", CLINIC_PROBES),
    ],
    others=CLINIC,
)

KIOSK = {
    "prices": "TAX = 2\nBASE = {'tea': 3}\ndef gross(name):\n    return BASE[name] + TAX\n",
    "pages": """\
from flask import Blueprint, current_app, jsonify, render_template_string
from flask.views import MethodView
import prices
bp = Blueprint('pages', __name__)
PAGE = '{{ name }} costs {{ name|gross }}'
@bp.app_template_filter('gross')
def gross(name):
    return prices.gross(name)
class Item(MethodView):
    init_every_request = False
    def __init__(self, unit='cup'):
        self.unit = unit
    def get(self, name):
        return jsonify(name=name, unit=self.unit, price=prices.gross(name))
bp.add_url_rule('/item/<name>', view_func=Item.as_view('item', unit='pot'))
@bp.get('/page/<name>')
def page(name):
    return render_template_string(PAGE, name=name)
@bp.errorhandler(KeyError)
def missing(error):
    return {'missing': error.args[0]}, 404
""",
}
KIOSK_M = """\
from flask import Flask, g
import pages, prices
def make(**words):
    app = Flask('kiosk')
    app.config.update(MENU=sorted(prices.BASE), **words)
    app.register_blueprint(pages.bp)
    return app
app = make(LEVEL=1)
@app.before_request
def count():
    g.level = app.config['LEVEL']
@app.get('/')
def index():
    return {'menu': app.config['MENU'], 'level': g.level}
"""
KIOSK_SETUP = "def call(path):\n    answer = sys.modules['m'].app.test_client().get(path)\n    return answer.status_code, answer.text\n"
KIOSK_PROBES = (
    "call('/'), call('/item/tea'), call('/page/tea'), call('/item/milk'), call('/page/milk')",
    "sorted(map(str, m.app.url_map.iter_rules())), sorted(m.app.view_functions)",
)
KIOSK_EDITS = edits_of(
    "kiosk",
    KIOSK_M,
    [
        ("a tax", "TAX = 2", "TAX = 4", KIOSK_PROBES, {"edited": "prices"}),
        ("a price more", "'tea': 3", "'tea': 3, 'milk': 1", KIOSK_PROBES, {"edited": "prices"}),
        ("a template", "costs", "is", KIOSK_PROBES, {"edited": "pages"}),
        (
            "a filter's name",
            "'gross')",
            "'total')",
            KIOSK_PROBES,
            {"edited": "pages", "more": [("pages", "name|gross", "name|total")]},
        ),
        ("an argument of a view", "unit='pot'", "unit='can'", KIOSK_PROBES, {"edited": "pages"}),
        ("a path of a view", "/item/<name>", "/items/<name>", KIOSK_PROBES, {"edited": "pages"}),
        ("a status of an error", ", 404", ", 410", KIOSK_PROBES, {"edited": "pages"}),
        (
            "a route more",
            "@bp.errorhandler",
            "@bp.get('/up')\ndef up():\n    return 'up'\n@bp.errorhandler",
            KIOSK_PROBES,
            {"edited": "pages"},
        ),
        ("a setting", "LEVEL=1", "LEVEL=3", KIOSK_PROBES),
        ("a name of the application", "Flask('kiosk')", "Flask('stand')", (*KIOSK_PROBES, "m.app.name")),
    ],
    others=KIOSK,
    needs=("flask",),
    setup=KIOSK_SETUP,
    use="call('/'), call('/item/tea')",
)

DEPOT = """\
from typing import Annotated
import attrs
from pydantic import BaseModel, Field, RootModel, TypeAdapter, computed_field, field_serializer
MOST = 5
class Part(BaseModel):
    name: str
    number: Annotated[int, Field(ge=0, le=MOST)] = 1
    @computed_field
    @property
    def code(self) -> str:
        return f'{self.name}-{self.number}'
    @field_serializer('name')
    def upper(self, value):
        return value.upper()
class Parts(RootModel[list[Part]]):
    def __len__(self):
        return len(self.root)
NUMBERS = TypeAdapter(list[Annotated[int, Field(le=MOST)]])
STOCK = Parts([{'name': 'nut'}, {'name': 'bolt', 'number': 2}])
DUMP = STOCK.model_dump()
SCHEMA = Part.model_json_schema(mode='serialization')['properties']
@attrs.define
class Box:
    size: int = attrs.field(default=MOST, validator=attrs.validators.le(MOST * 2), converter=int)
    label: str = attrs.field(init=False)
    @label.default
    def _label(self):
        return f'box of {self.size}'
BOXES = [Box(), Box('3')]
BIG = attrs.evolve(BOXES[0], size=MOST * 2)
Crate = attrs.make_class('Crate', {'weight': attrs.field(default=MOST)}, bases=(Box,))
"""
DEPOT_SETUP = "def made(act, *given, **words):\n    try:\n        return repr(act(*given, **words))\n    except Exception as error:\n        return type(error).__name__\n"
DEPOT_PROBES = (
    "m.DUMP, m.STOCK, len(m.STOCK), m.SCHEMA", "made(m.Part, name='a', number=5), made(m.Part, name='a', number=7), m.Part(name='b').model_dump()", "made(m.NUMBERS.validate_python, [5, 6]), made(m.NUMBERS.validate_python, [8])", "made(m.Box), made(m.Box, 11), made(m.Box, 'x'), m.BOXES, m.BIG, made(m.Crate), isinstance(m.STOCK.root[0], m.Part)",
)  # fmt: skip
DEPOT_EDITS = edits_of(
    "depot",
    DEPOT,
    [
        ("a limit of many", "MOST = 5", "MOST = 7", DEPOT_PROBES),
        ("a computed field", "f'{self.name}-{self.number}'", "f'{self.number}x{self.name}'", DEPOT_PROBES),
        ("a serializer", "value.upper()", "value.title()", DEPOT_PROBES),
        ("a field more", "    name: str\n", "    name: str\n    kind: str = 'part'\n", DEPOT_PROBES),
        ("a default", "le=MOST)] = 1", "le=MOST)] = 2", DEPOT_PROBES),
        ("a length", "len(self.root)", "sum(part.number for part in self.root)", DEPOT_PROBES),
        ("a part of the stock", "'number': 2", "'number': 3", DEPOT_PROBES),
        ("a type of an adapter", "TypeAdapter(list[", "TypeAdapter(tuple[", DEPOT_PROBES),
        ("a default by a method", "f'box of {self.size}'", "f'{self.size} in a box'", DEPOT_PROBES),
        ("a converter", "converter=int", "converter=float", DEPOT_PROBES),
        ("a frozen class", "@attrs.define", "@attrs.frozen", (*DEPOT_PROBES, "made(setattr, m.BOXES[0], 'size', 1)")),
        ("a copy", "size=MOST * 2)\nCrate", "size=MOST + 1)\nCrate", DEPOT_PROBES),
    ],
    needs=("pydantic", "attrs"),
    setup=DEPOT_SETUP,
)

ERRANDS = """\
import click
from celery import Celery, chain
LEVELS = ['low', 'high']
DEFAULT = LEVELS[0]
queue = Celery('errands', broker='memory://', backend='cache+memory://')
queue.conf.task_always_eager = True
queue.conf.task_routes = {'errands.*': {'queue': DEFAULT}}
queue.conf.beat_schedule = {level: {'task': 'errands.run', 'schedule': 10 * (number + 1)} for number, level in enumerate(LEVELS)}
@queue.task(name='errands.run', bind=True, max_retries=len(LEVELS))
def run(self, level=DEFAULT):
    return f'{self.name} {level}'
@queue.task(name='errands.say')
def say(text, mark='!'):
    return text + mark
BOTH = chain(run.s(), say.s(mark='?'))
class Level(click.ParamType):
    name = 'level'
    def convert(self, value, param, ctx):
        if value not in LEVELS:
            self.fail(f'no level {value}')
        return value.upper()
@click.group(invoke_without_command=True)
@click.option('--level', type=Level(), default=DEFAULT, show_default=True)
@click.pass_context
def cli(context, level):
    context.obj = level
    if context.invoked_subcommand is None:
        click.echo(f'at {level}')
def command(name, text):
    @cli.command(name, help=f'Print {text}.')
    @click.pass_obj
    def act(level):
        click.echo(f'{text} {level}')
    return act
COMMANDS = [command(name, name.title()) for name in ('go', 'stop')]
"""
ERRANDS_SETUP = "def shell(*words):\n    from click.testing import CliRunner\n    found = CliRunner().invoke(sys.modules['m'].cli, words)\n    return found.exit_code, found.output\n"
ERRANDS_PROBES = (
    "shell(), shell('--help'), shell('--level', 'high', 'go'), shell('--level', 'mid'), shell('stop')", "m.run.delay().get(), m.BOTH.apply().get(), m.run.max_retries, m.say.s('a').apply().get()", "m.queue.conf.task_routes, m.queue.conf.beat_schedule, sorted(name for name in m.queue.tasks if name.startswith('errands'))",
)  # fmt: skip
ERRANDS_EDITS = edits_of(
    "errands",
    ERRANDS,
    [
        ("a level more", "['low', 'high']", "['low', 'mid', 'high']", ERRANDS_PROBES),
        ("a default level", "LEVELS[0]", "LEVELS[1]", ERRANDS_PROBES),
        ("what a task returns", "f'{self.name} {level}'", "f'{level} by {self.name}'", ERRANDS_PROBES),
        ("a default of a task", "mark='!'", "mark='.'", ERRANDS_PROBES),
        ("an argument in a chain", "mark='?'", "mark=';'", ERRANDS_PROBES),
        ("a name of a task", "'errands.say'", "'errands.tell'", ERRANDS_PROBES),
        ("a conversion", "value.upper()", "value.title()", ERRANDS_PROBES),
        ("a command more", "('go', 'stop')", "('go', 'stop', 'wait')", ERRANDS_PROBES),
        ("what a command prints", "f'{text} {level}'", "f'{level}: {text}'", ERRANDS_PROBES),
        ("a help text", "f'Print {text}.'", "f'Say {text}.'", ERRANDS_PROBES),
    ],
    needs=("celery", "click"),
    setup=ERRANDS_SETUP,
    use="m.run.delay().get()",
)

SHELF = """\
from sqlalchemy import ForeignKey, create_engine, event, func, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship
LONG = 300
class Base(DeclarativeBase):
    def __repr__(self):
        return f'<{type(self).__name__} {self.id}>'
class Author(Base):
    __tablename__ = 'author'
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    books: Mapped[list['Book']] = relationship(back_populates='author', order_by='Book.pages')
class Book(Base):
    __tablename__ = 'book'
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    pages: Mapped[int] = mapped_column(default=LONG)
    author_id: Mapped[int] = mapped_column(ForeignKey('author.id'))
    author: Mapped[Author] = relationship(back_populates='books')
    @property
    def is_long(self):
        return self.pages >= LONG
THICK = select(Book).where(Book.pages >= LONG).order_by(Book.pages)
NUMBER = select(func.count(Book.id))
SEEN = []
@event.listens_for(Book, 'before_insert')
def clean(mapper, connection, book):
    book.title = book.title.strip()
    SEEN.append(book.title)
engine = create_engine('sqlite://')
Base.metadata.create_all(engine)
def ask(act):
    with Session(engine) as session:
        author = Author(name='Eve', books=[Book(title=' One ', pages=100), Book(title='Two', pages=400), Book(title='Six')])
        session.add(author)
        session.flush()
        SEEN.clear()
        session.add(Book(title=' New ', author=author))
        session.flush()
        session.expire_all()
        return act(session, author)
"""
SHELF_PROBES = (
    "m.ask(lambda session, author: [(book.title, book.pages, book.is_long) for book in author.books]), m.SEEN", "m.ask(lambda session, author: [book.pages for book in session.scalars(m.THICK)]), m.ask(lambda session, author: session.scalar(m.NUMBER))", "str(m.THICK), m.THICK.compile().params, str(m.NUMBER), [(column.name, str(column.type), column.nullable) for column in m.Book.__table__.c], repr(m.Book(id=1))",
)  # fmt: skip
SHELF_EDITS = edits_of(
    "shelf",
    SHELF,
    [
        ("a constant of a column and a query", "LONG = 300", "LONG = 200", SHELF_PROBES),
        ("a text of all", "<{type(self).__name__} {self.id}>", "{type(self).__name__}({self.id})", SHELF_PROBES),
        ("a property", "self.pages >= LONG\n", "self.pages > LONG\n", SHELF_PROBES),
        ("an order of a query", "order_by(Book.pages)", "order_by(Book.pages.desc())", SHELF_PROBES),
        ("a condition of a query", "Book.pages >= LONG", "Book.pages < LONG", SHELF_PROBES),
        ("what is counted", "func.count(Book.id)", "func.sum(Book.pages)", SHELF_PROBES),
        ("what a listener cleans", "book.title.strip()", "book.title.strip().upper()", SHELF_PROBES),
        ("an order of a relationship", "order_by='Book.pages'", "order_by='Book.title'", SHELF_PROBES),
    ],
    needs=("sqlalchemy",),
)

ALL = with_expected(
    [*CINEMA_EDITS, *CLINIC_EDITS, *KIOSK_EDITS, *DEPOT_EDITS, *ERRANDS_EDITS, *SHELF_EDITS],
    reported=[
        "cinema: a number that a cached property reads",
        "cinema: a row more",
        "cinema: a hall more",
        "cinema: a step of a counter",
        "cinema: an attribute less",
        "cinema: a start of a closure",
        "clinic: a plugin less",
        "clinic: a key of the registry",
        "depot: a frozen class",
        "shelf: a constant of a column and a query",
        "shelf: an order of a relationship",
    ],
    false=[
        "cinema: how a seat is named",
        "cinema: what is free",
        "clinic: a day more",
    ],
    invisible=[
        "cinema: a template",
        "clinic: a hash by day",
    ],
)
