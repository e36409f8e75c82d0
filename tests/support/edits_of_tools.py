"""Edits to programs with pydantic, attrs, msgspec, click, typer, Celery and pytest, and to the modules next to them."""

from edit_cases import edits_of, with_expected

EVENTS = """\
from __future__ import annotations
import enum
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal, Optional, Union
from pydantic import (AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, RootModel, TypeAdapter,
    ValidationError, ValidationInfo, computed_field, field_serializer, field_validator, model_serializer, model_validator)
from units import CURRENCY, clean, Level
def positive(value: int) -> int:
    if value <= 0:
        raise ValueError('not positive')
    return value
Positive = Annotated[int, AfterValidator(positive)]
Name = Annotated[str, BeforeValidator(clean), Field(min_length=1)]
class Base(BaseModel):
    model_config = ConfigDict(frozen=True, populate_by_name=True)
    version: ClassVar[int] = 1
class Address(Base):
    street: Name
    zip: str = Field(default='00000', pattern=r'^\\d{5}$')
class Money(Base):
    amount: Positive
    currency: str = CURRENCY
    @field_serializer('amount')
    def cents(self, value):
        return value * 100
class Click(Base):
    type: Literal['click'] = 'click'
    x: int = Field(alias='posX', ge=0)
class Key(Base):
    type: Literal['key'] = 'key'
    code: str
    level: Level = Level.LOW
    _seen: int = PrivateAttr(default=3)
Event = Annotated[Union[Click, Key], Field(discriminator='type')]
class Batch(BaseModel):
    events: list[Event] = Field(default_factory=list)
    address: Optional[Address] = None
    price: Money = Money(amount=5)
    @model_validator(mode='after')
    def few(self):
        if len(self.events) > 2:
            raise ValueError('too many')
        return self
    @computed_field
    @property
    def count(self) -> int:
        return len(self.events)
class Names(RootModel):
    root: list[Name]
    def first(self):
        return self.root[0]
ADAPTER = TypeAdapter(list[Event])
EMPTY = Batch()
SCHEMA = Batch.model_json_schema()
PARSED = ADAPTER.validate_python([{'type': 'key', 'code': 'a'}])
"""
UNITS = """\
import enum
CURRENCY = 'EUR'
class Level(enum.Enum):
    LOW = 1
    HIGH = 2
def clean(value):
    return value.strip()
"""
BATCH = (
    "m.Batch.model_validate({'events': [{'type': 'click', 'posX': 1}, {'type': 'key', 'code': 'a', 'level': 2}], 'address': {'street': ' s '}}).model_dump()",
    "m.Batch.model_validate({'events': [{'type': 'click', 'posX': -1}]})", "m.Batch(events=[{'type': 'key', 'code': 'a'}] * 3).count",
    "m.Address(street='  ')", "m.Address(street='a', zip='1')", "m.Money(amount=0)", "m.Money(amount=2).model_dump()", "m.SCHEMA", "m.EMPTY.model_dump()",
    "m.PARSED", "m.ADAPTER.json_schema()", "m.Names([' a ']).first()", "m.Click(x=1).model_dump(by_alias=True)", "m.Key(code='k')._seen", "m.Base.version",
    "m.Batch.model_json_schema() == m.SCHEMA", "m.Key(code='a').level",
)  # fmt: skip
PYDANTIC_EDITS = edits_of(
    "pydantic events",
    EVENTS,
    [
        ("an annotated validator", "value <= 0", "value <= 1", BATCH),
        ("a message of a validator", "'not positive'", "'negative'", ("str(m.Money.__pydantic_validator__) != ''", *BATCH)),
        ("an annotated constraint", "Field(min_length=1)]", "Field(min_length=0)]", BATCH),
        ("a validator less in an annotation", "BeforeValidator(clean), ", "", BATCH),
        ("a pattern", "{5}", "{1}", BATCH),
        ("a default of a field", "'00000'", "'12345'", BATCH),
        ("an alias", "alias='posX'", "alias='x_pos'", BATCH),
        ("a bound", "ge=0", "ge=-5", BATCH),
        ("a literal of a union", "Literal['click'] = 'click'", "Literal['tap'] = 'tap'", BATCH),
        ("a configuration of a base", "frozen=True, ", "", ("m.Money(amount=2).__setattr__('amount', 3)", *BATCH)),
        ("a configuration more of a base", "frozen=True, ", "frozen=True, extra='forbid', ", ("m.Key(code='a', other=1)", *BATCH)),
        ("a variable of a class", "version: ClassVar[int] = 1", "version: ClassVar[int] = 2", ("m.Key.version", *BATCH)),
        ("a serializer", "value * 100", "value * 1000", BATCH),
        ("a serializer less", "    @field_serializer('amount')\n    def cents(self, value):\n        return value * 100\n", "", BATCH),
        ("a validator of a model", "> 2", "> 3", BATCH),
        ("a mode of a validator", "    @model_validator(mode='after')\n    def few(self):\n        if len(self.events) > 2:\n            raise ValueError('too many')\n        return self\n", "", BATCH),
        ("a computed field", "return len(self.events)", "return len(self.events) + 1", BATCH),
        ("a computed field less", "    @computed_field\n", "", BATCH),
        ("a field more in a member", "    code: str\n", "    code: str\n    shift: bool = False\n", BATCH),
        ("a private attribute", "default=3", "default=4", BATCH),
        ("a default of another model", "Money(amount=5)", "Money(amount=6)", BATCH),
        ("a root's type", "root: list[Name]", "root: tuple[Name, ...]", BATCH),
        ("a method of a root", "self.root[0]", "self.root[-1].upper()", BATCH),
        ("a discriminator", "Union[Click, Key], Field", "Union[Key, Click], Field", BATCH),
        ("a member less of a union", "Union[Click, Key], Field(discriminator='type')", "Union[Key], Field()", BATCH),
        ("an adapter", "TypeAdapter(list[Event])", "TypeAdapter(tuple[Event, ...])", BATCH),
        ("a currency in another module", "'EUR'", "'USD'", BATCH, {"edited": "units"}),
        ("a member more of an enumeration", "    HIGH = 2\n", "    HIGH = 2\n    TOP = 3\n", (*BATCH, "m.Key(code='a', level=3)"), {"edited": "units"}),
        ("a value of an enumeration", "HIGH = 2", "HIGH = 5", (*BATCH, "m.Key(code='a', level=5)"), {"edited": "units"}),
        ("a function in another module", "value.strip()", "value.strip().upper()", BATCH, {"edited": "units"}),
    ],
    others={"units": UNITS},
    needs=("pydantic",),
)  # fmt: skip
SHAPES = """\
import attrs, msgspec
from attrs import define, field, frozen, evolve, validators, Factory
from typing import Annotated, Optional, Union
import defaults
REGISTRY = {}
def register(name):
    def decorate(cls):
        REGISTRY[name] = cls
        return cls
    return decorate
def not_empty(instance, attribute, value):
    if not value:
        raise ValueError(attribute.name)
@register('circle')
@define(slots=True)
class Circle:
    r: float = field(converter=float, validator=validators.ge(0))
    color: str = field(default=defaults.COLOR, metadata={'label': 'Colour'})
    tags: list = field(factory=list, repr=False)
    area: float = field(init=False)
    def __attrs_post_init__(self):
        self.area = self.r ** 2 * defaults.PI
    @r.validator
    def _check(self, attribute, value):
        if value > defaults.MOST:
            raise ValueError('too large')
@frozen
class Named:
    name: str = field(validator=not_empty)
    shape: Circle = field(factory=lambda: Circle(1))
    @classmethod
    def default(cls):
        return cls('x')
def upper(cls, fields):
    return [f.evolve(alias=f.name.upper()) for f in fields]
@define(field_transformer=upper)
class Loud:
    word: str = 'hi'
class Cmd(msgspec.Struct, tag=True, frozen=True):
    id: int
class Add(Cmd, tag='add'):
    amount: Annotated[int, msgspec.Meta(ge=0)] = 1
class Sub(Cmd):
    amount: int = defaults.AMOUNT
    note: Optional[str] = None
DECODER = msgspec.json.Decoder(Union[Add, Sub])
ENCODER = msgspec.json.Encoder(order='sorted')
FIRST = DECODER.decode(b'{"type":"add","id":1}')
UNIT = evolve(Circle(1), color='red')
NAMES = [a.name for a in attrs.fields(Circle)]
"""
DEFAULTS = """\
PI = 3
MOST = 100
COLOR = 'black'
AMOUNT = 4
"""
SHAPED = (
    "m.Circle(2)", "m.Circle('3').area", "m.Circle(200)", "m.Circle(-1)", "m.Named.default()", "m.Named('')", "m.UNIT", "m.NAMES", "m.Loud(WORD='a')",
    "m.DECODER.decode(b'{\"type\":\"add\",\"id\":1}')", "m.DECODER.decode(b'{\"type\":\"Sub\",\"id\":1}')", "m.DECODER.decode(b'{\"type\":\"add\",\"id\":1,\"amount\":-1}')",
    "m.ENCODER.encode(m.Sub(1))", "m.FIRST", "m.REGISTRY", "m.REGISTRY['circle'](1) == m.Circle(1) if 'circle' in m.REGISTRY else 0",
    "dict(m.attrs.fields(m.Circle).color.metadata)", "m.Sub(1).amount", "type(m.FIRST) is m.Add",
)  # fmt: skip
SHAPE_EDITS = edits_of(
    "shapes",
    SHAPES,
    [
        ("a constant of a calculation", "PI = 3\n", "PI = 4\n", SHAPED, {"edited": "defaults"}),
        ("a bound of a validator", "MOST = 100", "MOST = 300", SHAPED, {"edited": "defaults"}),
        ("a default of a field", "'black'", "'white'", SHAPED, {"edited": "defaults"}),
        ("a default of a struct", "AMOUNT = 4", "AMOUNT = 5", SHAPED, {"edited": "defaults"}),
        ("a body after the constructor", "self.r ** 2", "self.r * 2", SHAPED),
        ("a converter", "converter=float", "converter=int", SHAPED),
        ("a validator", "validators.ge(0)", "validators.ge(-5)", SHAPED),
        ("a validator by decorator", "> defaults.MOST", "> 1", SHAPED),
        ("a metadata", "'Colour'", "'Color'", SHAPED),
        ("an option of a field", ", repr=False", "", SHAPED),
        ("a key of a registry", "register('circle')", "register('disc')", SHAPED),
        ("a registration less", "@register('circle')\n", "", SHAPED),
        ("a body of a function validator", "if not value", "if value", SHAPED),
        ("a factory", "lambda: Circle(1)", "lambda: Circle(7)", SHAPED),
        ("a class method", "cls('x')", "cls('y')", SHAPED),
        ("a transformer", "f.name.upper()", "f.name.title()", SHAPED),
        ("a tag", "tag='add'", "tag='plus'", SHAPED, {"more": [("m", '{"type":"add","id":1}', '{"type":"plus","id":1}')]}),
        ("a struct's base option", "frozen=True", "frozen=False", (*SHAPED, "m.Add(1).__setattr__('id', 2)")),
        ("a constraint of a struct", "ge=0)]", "ge=-9)]", SHAPED),
        ("a field more of a struct", "    note: Opt", "    when: int = 0\n    note: Opt", SHAPED),
        ("a member less of a decoder", "Union[Add, Sub]", "Add", SHAPED),
        ("an option of an encoder", "order='sorted'", "order=None", SHAPED),
        ("an evolved value", "color='red'", "color='blue'", SHAPED),
        ("slots", "slots=True", "slots=False", (*SHAPED, "hasattr(m.Circle(1), '__dict__')")),
        ("a type of a class", "@frozen\n", "@define\n", (*SHAPED, "m.Named('a').__setattr__('name', 'b')")),
    ],
    others={"defaults": DEFAULTS},
    needs=("attrs", "msgspec"),
)  # fmt: skip
COMMANDS = """\
import functools
import click
import opts
from opts import verbose, Dotted, pass_config
class Sorted(click.Group):
    limit = 5
    def list_commands(self, ctx):
        return sorted(self.commands)[:self.limit]
    def get_command(self, ctx, name):
        return super().get_command(ctx, ALIASES.get(name, name))
ALIASES = {'rm': 'remove'}
CONTEXT = {'help_option_names': ['-h', '--help'], 'max_content_width': 100}
@click.group(cls=Sorted, context_settings=CONTEXT, invoke_without_command=True)
@click.version_option(opts.VERSION, prog_name='tool')
@click.pass_context
def cli(ctx):
    '''Manage things.'''
    ctx.obj = opts.Config()
@cli.command()
@verbose
@click.argument('names', nargs=-1, type=Dotted())
@pass_config
def remove(config, names, verbose):
    '''Remove NAMES.'''
    click.echo(f'{config.name} {names} {verbose}')
@cli.command(name='show', epilog='bye')
@click.option('--format', 'fmt', type=click.Choice(opts.FORMATS), default=opts.FORMATS[0], show_default=True)
@click.option('--level', callback=lambda ctx, param, value: value * 2, type=int, default=1, envvar='TOOL_LEVEL')
def show_all(fmt, level):
    click.echo(f'{fmt} {level}')
@cli.group()
def db():
    '''Database.'''
@db.command()
@click.confirmation_option(prompt='Sure?')
def drop():
    click.echo('dropped')
@cli.result_callback()
def done(result):
    click.echo('done')
for name in opts.EXTRA:
    cli.add_command(click.Command(name, callback=functools.partial(click.echo, name)))
"""
OPTS = """\
import click
VERSION = '1.2'
FORMATS = ['text', 'json']
EXTRA = ('ping', 'pong')
class Config:
    name = 'default'
pass_config = click.make_pass_decorator(Config, ensure=True)
def verbose(function):
    return click.option('-v', '--verbose', count=True, help='More output.')(function)
class Dotted(click.ParamType):
    name = 'dotted'
    def convert(self, value, param, ctx):
        if '.' not in value:
            self.fail(f'{value} has no dot', param, ctx)
        return tuple(value.split('.'))
"""


def cli(*given):
    return f"(lambda r: (r.exit_code, r.output))(__import__('click.testing').testing.CliRunner().invoke(m.cli, {list(given)!r}))"


RUN = (
    cli("--help"), cli("--version"), cli("rm", "a.b", "-vv"), cli("remove", "a"), cli("show"), cli("show", "--help"), cli("show", "--format", "json", "--level", "3"),
    cli("db", "drop", "--yes"), cli("db", "--help"), cli("ping"), "sorted(m.cli.commands)", cli("remove", "-h"), cli(),
)  # fmt: skip
CLICK_EDITS = edits_of(
    "click tool",
    COMMANDS,
    [
        ("a version", "'1.2'", "'1.3'", RUN, {"edited": "opts"}),
        ("a format more", "['text', 'json']", "['text', 'json', 'csv']", RUN, {"edited": "opts"}),
        ("an order of formats", "['text', 'json']", "['json', 'text']", RUN, {"edited": "opts"}),
        ("a name more", "('ping', 'pong')", "('ping', 'pong', 'pang')", RUN, {"edited": "opts"}),
        ("an attribute of a configuration", "name = 'default'", "name = 'main'", RUN, {"edited": "opts"}),
        ("a help of a shared option", "'More output.'", "'Talk.'", RUN, {"edited": "opts"}),
        ("a kind of a shared option", "count=True", "is_flag=True", RUN, {"edited": "opts"}),
        ("a conversion", "tuple(value.split('.'))", "value.split('.')[0]", RUN, {"edited": "opts"}),
        ("a name of a type", "name = 'dotted'", "name = 'path'", RUN, {"edited": "opts"}),
        ("a message of a type", "has no dot", "lacks a dot", RUN, {"edited": "opts"}),
        ("a limit of a group", "limit = 5", "limit = 2", RUN),
        ("an order of a group", "sorted(self.commands)", "sorted(self.commands, reverse=True)", RUN),
        ("an alias", "{'rm': 'remove'}", "{'del': 'remove'}", RUN),
        ("a help option", "'-h', ", "'-?', ", RUN),
        ("a docstring of a group", "Manage things.", "Handle things.", RUN),
        ("a docstring of a command", "Remove NAMES.", "Delete NAMES.", RUN),
        ("a body of a group", "opts.Config()", "opts.Config", RUN),
        ("an option less", "@verbose\n", "", RUN),
        ("an epilogue", "'bye'", "'see you'", RUN),
        ("a name of a command", "name='show'", "name='list'", (*RUN, cli("list"))),
        ("a default", "default=opts.FORMATS[0]", "default=opts.FORMATS[1]", RUN),
        ("a callback of an option", "value * 2", "value * 3", RUN),
        ("a prompt", "'Sure?'", "'Really?'", (*RUN, cli("db", "drop"))),
        ("a nested command", "'dropped'", "'gone'", RUN),
        ("a nested command more", "@cli.result_callback()", "@db.command()\ndef make():\n    click.echo('made')\n@cli.result_callback()", (*RUN, cli("db", "make"))),
        ("a callback of results", "'done'", "'finished'", RUN),
        ("a callback of results less", "@cli.result_callback()\n", "", RUN),
        ("a partial callback", "functools.partial(click.echo, name)", "functools.partial(click.echo, name * 2)", RUN),
        ("a group's class", "cls=Sorted, ", "", RUN),
        ("a program's name", "prog_name='tool'", "prog_name='t'", RUN),
    ],
    others={"opts": OPTS},
    needs=("click",),
)  # fmt: skip
TASKS = """\
from celery import Celery, Task, chain, chord, group, shared_task, signals
from celery.schedules import crontab
import limits
app = Celery('jobs', broker='memory://', backend='cache+memory://')
class Config:
    task_always_eager = True
    task_default_queue = 'main'
    timezone = 'UTC'
app.config_from_object(Config)
app.conf.task_routes = {'jobs.slow': {'queue': limits.SLOW}}
app.conf.beat_schedule = {
    'nightly': {'task': 'jobs.clean', 'schedule': crontab(hour=3), 'args': (limits.DAYS,)},
    'often': {'task': 'jobs.ping', 'schedule': 30.0},
}
LOG = []
class Logged(Task):
    abstract = True
    label = 'L'
    def on_success(self, result, task_id, args, kwargs):
        LOG.append(f'{self.label} {self.name} {result}')
@app.task(base=Logged, name='jobs.add')
def add(a, b=limits.DAYS):
    return a + b
@app.task(bind=True, name='jobs.clean', max_retries=limits.RETRIES, autoretry_for=(ValueError,))
def clean(self, days):
    return f'{self.name} {days} {self.max_retries}'
@shared_task(name='jobs.ping', rate_limit='10/m')
def ping():
    return 'pong'
PIPELINE = chain(add.s(1, 2), add.s(3))
BATCH = group(add.s(n, n) for n in range(limits.COUNT))
SIGNED = clean.si(limits.DAYS).set(queue='slow', countdown=5)
@signals.task_prerun.connect
def before(task=None, **kwargs):
    LOG.append('before ' + task.name)
def setup(sender, **kwargs):
    sender.add_periodic_task(10.0, ping.s(), name='tick')
app.on_after_configure.connect(setup)
"""
LIMITS = """\
SLOW = 'slow'
DAYS = 7
RETRIES = 3
COUNT = 2
"""
JOBS = (
    "(m.LOG.clear(), m.add(1), m.add.on_success(3, 't', (), {}), m.before(m.add), list(m.LOG))[1:]", "m.clean(2)", "m.ping()", "[len(s._live_receivers(None)) for s in (m.signals.task_prerun, m.signals.task_postrun)]", "m.ping.rate_limit", "m.clean.max_retries",
    "sorted(n for n in m.app.tasks if n.startswith('jobs'))", "m.app.conf.beat_schedule", "m.app.conf.task_routes", "m.app.conf.task_default_queue",
    "repr(m.PIPELINE)", "[(t.task, t.args) for t in m.BATCH.tasks]", "dict(m.SIGNED), m.SIGNED.options", "m.app.tasks['jobs.add'].run(1)", "m.add.label", "m.clean.autoretry_for",
)  # fmt: skip
CELERY_EDITS = edits_of(
    "celery jobs",
    TASKS,
    [
        ("days", "DAYS = 7", "DAYS = 8", JOBS, {"edited": "limits"}),
        ("a queue", "SLOW = 'slow'", "SLOW = 'low'", JOBS, {"edited": "limits"}),
        ("retries", "RETRIES = 3", "RETRIES = 5", JOBS, {"edited": "limits"}),
        ("a number of signatures", "COUNT = 2", "COUNT = 3", JOBS, {"edited": "limits"}),
        ("a body of a task", "return a + b", "return a - b", JOBS),
        ("a bound task", "{self.name} {days}", "{days} {self.name}", JOBS),
        ("a shared task", "'pong'", "'PONG'", JOBS),
        ("a limit of a rate", "'10/m'", "'20/m'", JOBS),
        ("a name of a task", "name='jobs.ping'", "name='jobs.pong'", JOBS),
        ("an error that retries", "(ValueError,)", "(ValueError, KeyError)", JOBS),
        ("a base's method", "{self.label} {self.name}", "{self.name}", JOBS),
        ("a base's attribute", "label = 'L'", "label = 'M'", JOBS),
        ("a base less", "base=Logged, ", "", JOBS),
        ("a schedule's hour", "hour=3", "hour=4", JOBS),
        ("a schedule less", "    'often': {'task': 'jobs.ping', 'schedule': 30.0},\n", "", JOBS),
        ("a configuration", "'main'", "'other'", JOBS),
        ("a configuration more", "    timezone = 'UTC'\n", "    timezone = 'UTC'\n    task_acks_late = True\n", (*JOBS, "m.app.conf.task_acks_late")),
        ("a route", "'jobs.slow'", "'jobs.late'", JOBS),
        ("a link of a chain", "add.s(3)", "add.s(4)", JOBS),
        ("an order of a chain", "chain(add.s(1, 2), add.s(3))", "chain(add.s(3, 4), add.s(5))", JOBS),
        ("an option of a signature", "countdown=5", "countdown=6", JOBS),
        ("a receiver's body", "'before '", "'start '", JOBS),
        ("a receiver of another signal", "signals.task_prerun", "signals.task_postrun", JOBS),
        ("a receiver less", "@signals.task_prerun.connect\n", "", JOBS),
        ("a task more", "@shared_task", "@app.task(name='jobs.mul')\ndef mul(a, b):\n    return a * b\n@shared_task", JOBS),
        ("a function to a bound task", "def ping():", "def ping(n=1):", JOBS),
    ],
    others={"limits": LIMITS},
    needs=("celery",),
)  # fmt: skip
PLUGIN = """\
import pytest
import helpers
CASES = [pytest.param(1, 2, id='one'), pytest.param(2, 4, id='two', marks=pytest.mark.slow)]
MARK = pytest.mark.parametrize('n, expected', CASES)
pytestmark = [pytest.mark.usefixtures('clean')]
STORE = pytest.StashKey[int]()
def pytest_addoption(parser):
    parser.addoption('--level', default=helpers.LEVEL)
def pytest_configure(config):
    config.addinivalue_line('markers', 'slow: takes long')
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    items.sort(key=helpers.order)
@pytest.fixture(scope='session', params=helpers.BACKENDS)
def backend(request):
    return helpers.open_backend(request.param)
@pytest.fixture
def clean(tmp_path):
    yield tmp_path
@pytest.fixture(name='client', autouse=True)
def make_client(backend):
    return (backend, 'client')
@MARK
def test_double(n, expected):
    assert helpers.double(n) == expected
@pytest.mark.skipif(helpers.LEVEL > 2, reason='high')
class TestAll:
    @pytest.mark.xfail(raises=ValueError)
    def test_fails(self):
        raise ValueError
RAISES = pytest.raises(ValueError, match=helpers.PATTERN)
ABOUT = pytest.approx(helpers.LEVEL, abs=0.1)
"""
HELPERS = """\
LEVEL = 1
BACKENDS = ['a', 'b']
PATTERN = 'bad .*'
def order(item):
    return item.name
def open_backend(name):
    return name.upper()
def double(n):
    return n * 2
"""
FIX = "getattr({0}, '_fixture_function_marker', None) or getattr({0}, '_pytestfixturefunction', None)"
PLUGGED = (
    f"({FIX.format('m.backend')}).params, ({FIX.format('m.backend')}).scope", f"({FIX.format('m.make_client')}).name, ({FIX.format('m.make_client')}).autouse",
    "[(k.name, k.args, k.kwargs) for k in m.test_double.pytestmark]", "[(k.name, k.args, k.kwargs) for k in m.TestAll.pytestmark]", "m.CASES", "m.pytestmark",
    "m.pytest_collection_modifyitems.pytest_impl", "m.test_double(2, 4)", "m.ABOUT", "[k.kwargs for k in m.TestAll.test_fails.pytestmark]", "m.backend._get_wrapped_function.__name__",
    "m.backend._fixture_function(type('R', (), {'param': 'x'})())", "m.make_client._fixture_function(1)", "m.RAISES.match if hasattr(m.RAISES, 'match') else m.RAISES.match_expr", "hasattr(m, 'clean')",
)  # fmt: skip
PYTEST_EDITS = edits_of(
    "pytest plugin",
    PLUGIN,
    [
        ("a level", "LEVEL = 1", "LEVEL = 3", PLUGGED, {"edited": "helpers"}),
        ("parameters of a fixture", "['a', 'b']", "['a', 'b', 'c']", PLUGGED, {"edited": "helpers"}),
        ("a pattern", "'bad .*'", "'good .*'", PLUGGED, {"edited": "helpers"}),
        ("a helper", "name.upper()", "name.lower()", PLUGGED, {"edited": "helpers"}),
        ("a double", "n * 2", "n * 3", PLUGGED, {"edited": "helpers"}),
        ("a case", "1, 2, id='one'", "1, 3, id='one'", PLUGGED),
        ("a mark of a case", ", marks=pytest.mark.slow", "", PLUGGED),
        ("names of parameters", "'n, expected'", "'n,expected'", PLUGGED),
        ("a mark of the module", "'clean')", "'backend')", PLUGGED),
        ("an option of a hook", "tryfirst=True", "trylast=True", PLUGGED),
        ("a scope", "scope='session'", "scope='module'", PLUGGED),
        ("a name of a fixture", "name='client'", "name='app'", PLUGGED),
        ("a fixture that is used of itself", ", autouse=True", "", PLUGGED),
        ("a body of a fixture", "'client')", "'app')", PLUGGED),
        ("a fixture less", "@pytest.fixture\ndef clean(tmp_path):\n    yield tmp_path\n", "", PLUGGED),
        ("a mark of a test", "@MARK\n", "@MARK\n@pytest.mark.slow\n", PLUGGED),
        ("a mark less of a test", "@MARK\n", "", PLUGGED),
        ("a condition", "helpers.LEVEL > 2", "helpers.LEVEL > 0", PLUGGED),
        ("a reason", "'high'", "'too high'", PLUGGED),
        ("an expected error", "raises=ValueError)", "raises=KeyError)", PLUGGED),
        ("a tolerance", "abs=0.1", "abs=0.2", PLUGGED),
    ],
    others={"helpers": HELPERS},
    needs=("pytest",),
)  # fmt: skip
ALL = with_expected(
    [*PYDANTIC_EDITS, *SHAPE_EDITS, *CLICK_EDITS, *CELERY_EDITS, *PYTEST_EDITS],
    reported=[
        "shapes: a default of a field",
        "celery jobs: days",
        "pytest plugin: a level",
        "pytest plugin: a pattern",
    ],
)
