"""Edits of six programs: a clerk (Django), a parser of commands, a bus, a garden, fixtures of pytest and a census."""

from edit_cases import edits_of, with_expected

CLERK = {
    "clerk.__init__": "",
    "clerk.fields": """\
from django.core.exceptions import ValidationError
from django.db import models
CODES = {'de': 'Germany', 'fr': 'France'}
def known(value):
    if value not in CODES:
        raise ValidationError(f'unknown: {value}')
class CodeField(models.CharField):
    description = 'a code'
    def __init__(self, *args, **words):
        words.setdefault('max_length', 2)
        words.setdefault('validators', [known])
        super().__init__(*args, **words)
    def get_prep_value(self, value):
        return super().get_prep_value(value) and value.lower()
    def from_db_value(self, value, expression, connection):
        return value and value.upper()
""",
    "clerk.managers": """\
from django.db import models
LIMIT = 100
class ItemQuerySet(models.QuerySet):
    def large(self, limit=LIMIT):
        return self.filter(size__gt=limit)
    def with_total(self):
        return self.annotate(total=models.F('size') * 2)
class OpenManager(models.Manager.from_queryset(ItemQuerySet)):
    def get_queryset(self):
        return super().get_queryset().exclude(state='shut')
""",
    "clerk.models": """\
from django.db import models
from django.db.models.signals import pre_save
from django.dispatch import Signal, receiver
from clerk.fields import CodeField
from clerk.managers import ItemQuerySet, OpenManager
moved = Signal()
SEEN = []
class State(models.TextChoices):
    OPEN = 'open', 'Open'
    SHUT = 'shut', 'Shut'
class Named(models.Model):
    name = models.CharField(max_length=20, default='none')
    class Meta:
        abstract = True
        ordering = ['name']
    def __str__(self):
        return f'{self._meta.verbose_name} {self.name}'
class Item(Named):
    size = models.IntegerField(default=1)
    state = models.CharField(max_length=4, choices=State.choices, default=State.OPEN)
    country = CodeField(blank=True)
    objects = ItemQuerySet.as_manager()
    open = OpenManager()
    per_page = 25
    class Meta(Named.Meta):
        verbose_name = 'thing'
        indexes = [models.Index(fields=['size'], name='by_size')]
    @property
    def label(self):
        return f'{self.name}/{self.get_state_display()}'
    def move(self):
        return moved.send(type(self), item=self)
class BigItem(Item):
    class Meta:
        proxy = True
        ordering = ['-size']
    def label_of_big(self):
        return self.label.upper()
@receiver(pre_save, sender=Item, dispatch_uid='seen')
def note(sender, instance, **words):
    SEEN.append(instance.name)
@receiver(moved)
def on_moved(sender, item, **words):
    return f'moved {item.name}'
""",
    "clerk.forms": """\
from django import forms
from clerk.models import Item, State
class ItemForm(forms.ModelForm):
    note = forms.CharField(required=False, max_length=5, help_text='Short.')
    class Meta:
        model = Item
        fields = ['name', 'size', 'state']
        labels = {'name': 'Title'}
        widgets = {'name': forms.TextInput(attrs={'class': 'wide'})}
    def clean_size(self):
        size = self.cleaned_data['size']
        if size < 0:
            raise forms.ValidationError('negative')
        return size
    def clean(self):
        data = super().clean()
        data['key'] = f"{data.get('name')}-{data.get('size')}"
        return data
class FilterForm(forms.Form):
    state = forms.ChoiceField(choices=State.choices)
    order = forms.ChoiceField(choices=[(name, name.title()) for name in ('name', 'size')])
""",
    "clerk.views": """\
from django.http import JsonResponse
from django.shortcuts import render
from django.urls import path, reverse
from django.views import View
from django.views.generic import TemplateView
from clerk.forms import FilterForm, ItemForm
from clerk.models import Item
def logged(view):
    def inner(request, *args, **words):
        answer = view(request, *args, **words)
        answer['X-Log'] = view.__name__
        return answer
    return inner
@logged
def index(request):
    return JsonResponse({'page': Item.per_page, 'url': reverse('item', args=[3])})
class ItemView(View):
    unit = 'kg'
    http_method_names = ['get', 'head']
    def get(self, request, number):
        return JsonResponse({'number': number, 'unit': self.unit})
class About(TemplateView):
    template_engine = None
    def render_to_response(self, context, **words):
        return JsonResponse({'title': context['title']})
    extra_context = {'title': 'about'}
urlpatterns = [
    path('', index, name='index'),
    path('item/<int:number>/', ItemView.as_view(unit='g'), name='item'),
    path('plain/<int:number>/', ItemView.as_view()),
    path('about/', About.as_view()),
]
""",
    "clerk.admin": """\
from django.contrib import admin
from clerk.models import BigItem, Item
site = admin.AdminSite(name='clerk')
@admin.register(Item, site=site)
class ItemAdmin(admin.ModelAdmin):
    list_display = ['name', 'size', 'big']
    list_per_page = 10
    @admin.display(description='Big?', boolean=True)
    def big(self, item):
        return item.size > 9
    @admin.action(description='Shut')
    def shut(self, request, queryset):
        return queryset.update(state='shut')
    actions = ['shut']
site.register(BigItem, ItemAdmin)
""",
}
CLERK_M = """\
import clerk.admin, clerk.views
from clerk import fields, forms, managers, models, views
from clerk.models import Item, State
QUERY = str(Item.objects.large().with_total().query)
FIELDS = [field.name for field in Item._meta.get_fields()]
EMPTY = forms.ItemForm()
"""
CLERK_SETUP = """\
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=['django.contrib.contenttypes', 'django.contrib.auth', 'clerk'], ROOT_URLCONF='clerk.views', SECRET_KEY='x', USE_TZ=False,
    DATABASES={'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': ':memory:'}}, ALLOWED_HOSTS=['*'],
    DEFAULT_AUTO_FIELD='django.db.models.AutoField', MIDDLEWARE=[], TEMPLATES=[{'BACKEND': 'django.template.backends.django.DjangoTemplates'}],
)
django.setup()
def get(path):
    from django.test import Client
    answer = Client(raise_request_exception=False).get(path)
    return answer.status_code, answer.content.decode()[:200], answer.headers.get('X-Log')
def form(name, **data):
    made = getattr(sys.modules['clerk.forms'], name)(data)
    return made.is_valid(), made.errors.get_json_data(), made.cleaned_data if made.is_valid() else None
def cleaned(**words):
    try:
        item = sys.modules['clerk.models'].Item(**words)
        item.clean_fields(exclude=['id'])
        return str(item), item.label
    except Exception as error:
        return str(error)
"""
CLERK_PROBES = (
    "get('/'), get('/item/4/'), get('/plain/4/'), get('/about/')", "m.QUERY, str(models.Item.open.all().query), str(models.Item.objects.large(5).query), str(models.BigItem.objects.all().query), m.FIELDS", "form('ItemForm', name='a', size='2', state='open', note='x'), form('ItemForm', name='a', size='-2', state='no', note='too long'), form('FilterForm', state='shut', order='size'), m.forms.ItemForm().as_p()", "cleaned(name='a', country='de'), cleaned(name='b', country='xx'), cleaned(name='c', state='shut'), cleaned(name='x' * 30)", "models.Item(name='q').move()[0][1], models.BigItem(name='w').label_of_big(), models.Item._meta.ordering, models.Item._meta.verbose_name, [i.name for i in models.Item._meta.indexes], models.Item.per_page, models.State.labels, fields.CodeField().get_prep_value('DE'), fields.CodeField().from_db_value('de', None, None)", "(lambda a: (a.list_display, a.list_per_page, a.big(models.Item(size=12)), a.big.short_description, sorted(a.get_actions(None) if False else a.actions)))(clerk.admin.site._registry[models.Item]), sorted(k.__name__ for k in clerk.admin.site._registry)",
)  # fmt: skip
CLERK_PROBES = tuple(
    f"(lambda models, fields, clerk: ({probe}))(sys.modules['clerk.models'], sys.modules['clerk.fields'], sys.modules['clerk'])"
    for probe in CLERK_PROBES
)
CLERK_EDITS = edits_of(
    "clerk",
    CLERK_M,
    [
        ("a code more", "'fr': 'France'", "'fr': 'France', 'xx': 'X'", CLERK_PROBES, {"edited": "clerk.fields"}),
        ("a text of an error", "f'unknown: {value}'", "f'no code: {value}'", CLERK_PROBES, {"edited": "clerk.fields"}),
        ("how a value is stored", "value.lower()", "value.title()", CLERK_PROBES, {"edited": "clerk.fields"}),
        ("a default length", "'max_length', 2", "'max_length', 3", (*CLERK_PROBES, "sys.modules['clerk.models'].Item._meta.get_field('country').max_length"), {"edited": "clerk.fields"}),
        ("a limit of a query", "LIMIT = 100", "LIMIT = 50", CLERK_PROBES, {"edited": "clerk.managers"}),
        ("a filter", "size__gt=limit", "size__gte=limit", CLERK_PROBES, {"edited": "clerk.managers"}),
        ("an annotation of a query", "models.F('size') * 2", "models.F('size') * 3", CLERK_PROBES, {"edited": "clerk.managers"}),
        ("what a manager leaves out", "exclude(state='shut')", "filter(state='open')", CLERK_PROBES, {"edited": "clerk.managers"}),
        ("a method more of a query", "    def with_total(self):", "    def small(self):\n        return self.filter(size=1)\n    def with_total(self):", (*CLERK_PROBES, "str(sys.modules['clerk.models'].Item.objects.small().query)"), {"edited": "clerk.managers"}),
        ("a choice more", "    SHUT = 'shut', 'Shut'\n", "    SHUT = 'shut', 'Shut'\n    LOST = 'lost', 'Lost'\n", CLERK_PROBES, {"edited": "clerk.models"}),
        ("a label of a choice", "'shut', 'Shut'", "'shut', 'Closed'", CLERK_PROBES, {"edited": "clerk.models"}),
        ("a default", "default='none'", "default='some'", (*CLERK_PROBES, "sys.modules['clerk.models'].Item().name"), {"edited": "clerk.models"}),
        ("a text of a base", "f'{self._meta.verbose_name} {self.name}'", "f'{self.name} ({self._meta.verbose_name})'", CLERK_PROBES, {"edited": "clerk.models"}),
        ("a name in words", "verbose_name = 'thing'", "verbose_name = 'item'", CLERK_PROBES, {"edited": "clerk.models"}),
        ("an order of a base", "ordering = ['name']", "ordering = ['-name']", CLERK_PROBES, {"edited": "clerk.models"}),
        ("a constant of a model", "per_page = 25", "per_page = 50", CLERK_PROBES, {"edited": "clerk.models"}),
        ("a property", "{self.name}/{self", "{self.name}:{self", CLERK_PROBES, {"edited": "clerk.models"}),
        ("what a receiver returns", "f'moved {item.name}'", "f'{item.name} moved'", CLERK_PROBES, {"edited": "clerk.models"}),
        ("a receiver of another signal", "@receiver(moved)", "@receiver([moved, pre_save])", CLERK_PROBES, {"edited": "clerk.models", "more": [("clerk.models", "def on_moved(sender, item, **words)", "def on_moved(sender, item=None, **words)")]}),
        ("a receiver less", "@receiver(moved)\ndef on_moved", "def on_moved", tuple(p.replace("models.Item(name='q').move()[0][1]", "models.Item(name='q').move()") for p in CLERK_PROBES), {"edited": "clerk.models"}),
        ("a field of a form", "max_length=5, help_text='Short.'", "max_length=9, help_text='Short!'", CLERK_PROBES, {"edited": "clerk.forms"}),
        ("a label of a form", "'name': 'Title'", "'name': 'Name'", CLERK_PROBES, {"edited": "clerk.forms"}),
        ("fields of a form", "['name', 'size', 'state']", "['name', 'size']", CLERK_PROBES, {"edited": "clerk.forms"}),
        ("a cleaning method", "if size < 0:", "if size < 3:", CLERK_PROBES, {"edited": "clerk.forms"}),
        ("a key of a form", "{data.get('name')}-{data", "{data.get('name')}+{data", CLERK_PROBES, {"edited": "clerk.forms"}),
        ("a widget", "{'class': 'wide'}", "{'class': 'narrow'}", CLERK_PROBES, {"edited": "clerk.forms"}),
        ("orders of a form", "('name', 'size'))])", "('name', 'size', 'state'))])", CLERK_PROBES, {"edited": "clerk.forms"}) if False else ("orders of a form", "('name', 'size')]", "('name', 'size', 'state')]", CLERK_PROBES, {"edited": "clerk.forms"}),
        ("a header of a decorator", "answer['X-Log'] = view.__name__", "answer['X-Log'] = view.__name__.upper()", CLERK_PROBES, {"edited": "clerk.views"}),
        ("a unit of a view", "unit = 'kg'", "unit = 't'", CLERK_PROBES, {"edited": "clerk.views"}),
        ("an argument of a view", "as_view(unit='g')", "as_view(unit='mg')", CLERK_PROBES, {"edited": "clerk.views"}),
        ("a path", "'item/<int:number>/'", "'items/<int:number>/'", (*CLERK_PROBES, "get('/items/5/')"), {"edited": "clerk.views"}),
        ("a path less", "    path('about/', About.as_view()),\n", "", CLERK_PROBES, {"edited": "clerk.views"}),
        ("a context", "{'title': 'about'}", "{'title': 'contact'}", CLERK_PROBES, {"edited": "clerk.views"}),
        ("methods of a view", "['get', 'head']", "['head']", CLERK_PROBES, {"edited": "clerk.views"}),
        ("columns of an admin", "['name', 'size', 'big']", "['name', 'big']", CLERK_PROBES, {"edited": "clerk.admin"}),
        ("a page of an admin", "list_per_page = 10", "list_per_page = 20", CLERK_PROBES, {"edited": "clerk.admin"}),
        ("a column of an admin", "item.size > 9", "item.size > 20", CLERK_PROBES, {"edited": "clerk.admin"}),
        ("a title of a column", "description='Big?'", "description='Large?'", CLERK_PROBES, {"edited": "clerk.admin"}),
        ("a model less in an admin", "site.register(BigItem, ItemAdmin)\n", "", CLERK_PROBES, {"edited": "clerk.admin"}),
    ],
    others=CLERK,
    needs=("django",),
    setup=CLERK_SETUP,
    use="get('/'), get('/item/4/')",
)  # fmt: skip

PARSER = {
    "words": """\
import argparse, logging, shlex
LEVELS = {'quiet': logging.ERROR, 'loud': logging.DEBUG}
DEFAULT = 'quiet'
class Once(argparse.Action):
    def __call__(self, parser, space, values, option=None):
        setattr(space, self.dest, values.upper() if isinstance(values, str) else values)
def number(text, least=1):
    value = int(text)
    if value < least:
        raise argparse.ArgumentTypeError(f'{value} is less than {least}')
    return value
def common(parser):
    parser.add_argument('--level', choices=sorted(LEVELS), default=DEFAULT)
    parser.add_argument('--name', action=Once, default='none')
    return parser
""",
    "orders": """\
import argparse
from words import LEVELS, common, number
HANDLERS = {}
def order(name, *arguments, **words):
    def decorate(function):
        HANDLERS[name] = function
        found = SUB.add_parser(name, help=function.__doc__)
        for option, settings in arguments:
            found.add_argument(option, **settings)
        found.set_defaults(run=function, **words)
        return function
    return decorate
PARSER = common(argparse.ArgumentParser(prog='orders', description='Give orders.'))
SUB = PARSER.add_subparsers(dest='order')
@order('buy', ('count', {'type': number}), ('--cheap', {'action': 'store_true'}), unit='pieces')
def buy(given):
    "Buy things."
    return f'bought {given.count} {given.unit}' + (' cheaply' if given.cheap else '')
@order('sell', ('what', {'nargs': '+'}))
def sell(given):
    "Sell things."
    return 'sold ' + ', '.join(given.what)
GROUP = PARSER.add_mutually_exclusive_group()
GROUP.add_argument('--dry', action='store_const', const=1, default=0)
GROUP.add_argument('--wet', dest='dry', action='store_const', const=2)
""",
}
PARSER_M = """\
import contextlib, io, orders, words
from orders import HANDLERS, PARSER
def main(*given):
    out = io.StringIO()
    try:
        with contextlib.redirect_stderr(out), contextlib.redirect_stdout(out):
            found = PARSER.parse_args(given)
            return found.run(found) if found.order else 'nothing', found.level, found.name, found.dry, words.LEVELS[found.level]
    except SystemExit as error:
        return error.code, out.getvalue()
USAGE = PARSER.format_usage()
FIRST = main('buy', '3')
"""
PARSER_PROBES = (
    "m.main(), m.main('buy', '2', '--cheap'), m.main('buy', '0'), m.main('--name', 'x', 'sell', 'a', 'b'), m.main('--level', 'loud', '--wet', 'sell', 'q')", "m.main('--help'), m.main('buy', '--help'), m.USAGE, m.FIRST", "sorted(m.HANDLERS), m.HANDLERS['sell'] is orders.sell",
)  # fmt: skip
PARSER_EDITS = edits_of(
    "parser",
    PARSER_M,
    [
        ("a level more", "{'quiet': logging.ERROR,", "{'quiet': logging.ERROR, 'mid': logging.INFO,", PARSER_PROBES, {"edited": "words"}),
        ("a default level", "DEFAULT = 'quiet'", "DEFAULT = 'loud'", PARSER_PROBES, {"edited": "words"}),
        ("an action", "values.upper()", "values.title()", PARSER_PROBES, {"edited": "words"}),
        ("a least number", "least=1)", "least=2)", PARSER_PROBES, {"edited": "words"}),
        ("an option more", "    return parser\n", "    parser.add_argument('--more')\n    return parser\n", PARSER_PROBES, {"edited": "words"}),
        ("a default of an option", "default='none'", "default='nobody'", PARSER_PROBES, {"edited": "words"}),
        ("a unit", "unit='pieces'", "unit='boxes'", PARSER_PROBES, {"edited": "orders"}),
        ("what an order returns", "'sold ' + ", "'sold: ' + ", PARSER_PROBES, {"edited": "orders"}),
        ("an argument's settings", "{'nargs': '+'}", "{'nargs': 1}", PARSER_PROBES, {"edited": "orders"}),
        ("a help text", '"Buy things."', '"Buy many things."', PARSER_PROBES, {"edited": "orders"}),
        ("a description", "description='Give orders.'", "description='Give many orders.'", PARSER_PROBES, {"edited": "orders"}),
        ("an order's name", "@order('sell'", "@order('offer'", (*PARSER_PROBES[:1], "sorted(m.HANDLERS), m.main('offer', 'w')"), {"edited": "orders"}),
        ("an order less", "@order('sell', ('what', {'nargs': '+'}))\ndef sell(given):\n    \"Sell things.\"\n    return 'sold ' + ', '.join(given.what)\n", "", (*PARSER_PROBES[:2], "sorted(m.HANDLERS)"), {"edited": "orders"}),
        ("a constant of an option", "const=2)", "const=3)", PARSER_PROBES, {"edited": "orders"}),
        ("a first call", "main('buy', '3')", "main('buy', '4')", PARSER_PROBES),
    ],
    others=PARSER,
)  # fmt: skip

BUS = {
    "bus": """\
import asyncio, collections, functools, inspect, weakref
class Bus:
    retries = 1
    def __init__(self, name='bus'):
        self.name, self.handlers, self.log = name, collections.defaultdict(list), []
    def on(self, topic=None, *, order=0):
        def decorate(function):
            name = topic or function.__name__.removeprefix('on_')
            self.handlers[name].append((order, function))
            self.handlers[name].sort(key=lambda pair: pair[0])
            return function
        return decorate
    async def send(self, topic, **data):
        found = []
        for _, handler in self.handlers[topic]:
            answer = handler(**data)
            found.append(await answer if inspect.isawaitable(answer) else answer)
        return found
    def __contains__(self, topic):
        return topic in self.handlers
bus = Bus()
class Listener:
    topics = ('started',)
    def __init_subclass__(cls, **words):
        super().__init_subclass__(**words)
        cls.instance = cls()
        for topic in cls.topics:
            bus.on(topic, order=5)(cls.instance.handle)
    def handle(self, **data):
        return f'{type(self).__name__}: {sorted(data)}'
""",
    "handlers": """\
import asyncio
from bus import Bus, Listener, bus
RATE = 2
def scaled(factor=RATE):
    def decorate(function):
        def inner(**data):
            return function(**{key: value * factor for key, value in data.items()})
        inner.__name__ = function.__name__
        return inner
    return decorate
@bus.on()
def on_started(who):
    return f'started {who}'
@bus.on('stopped', order=2)
@scaled()
def on_stopped(code):
    return f'stopped {code}'
@bus.on('stopped', order=1)
async def first(code):
    await asyncio.sleep(0)
    return f'first {code}'
class Audit(Listener):
    topics = ('started', 'stopped')
class Quiet(Listener):
    topics = ()
EXTRA = [bus.on(name)(lambda name=name: name) for name in ('a', 'b')]
local = Bus('local')
local.on('x')(on_started)
""",
}
BUS_M = """\
import asyncio, bus as bus_module, handlers
from bus import bus
from handlers import local
def send(topic, **data):
    return asyncio.run(bus.send(topic, **data))
TOPICS = {topic: len(found) for topic, found in bus.handlers.items()}
HAS = [topic in bus for topic in ('started', 'none')]
"""
BUS_PROBES = (
    "m.send('started', who='me'), m.send('stopped', code=3), m.send('a'), m.send('b'), m.TOPICS, m.HAS", "m.local.name, {t: len(f) for t, f in m.local.handlers.items()}, __import__('asyncio').run(m.local.send('x', who='w')), m.bus.retries", "[type(f[1].__self__).__name__ for f in m.bus.handlers['stopped'] if hasattr(f[1], '__self__')], handlers.Audit.topics, len(handlers.EXTRA)",
)  # fmt: skip
BUS_EDITS = edits_of(
    "bus",
    BUS_M,
    [
        ("a constant of a class", "retries = 1", "retries = 2", BUS_PROBES, {"edited": "bus"}),
        ("a name by default", "name='bus'", "name='main'", (*BUS_PROBES, "m.bus.name"), {"edited": "bus"}),
        ("a key of a registry", "function.__name__.removeprefix('on_')", "function.__name__", (*BUS_PROBES, "m.send('on_started', who='x')"), {"edited": "bus"}),
        ("an order of a registry", "key=lambda pair: pair[0])", "key=lambda pair: -pair[0])", BUS_PROBES, {"edited": "bus"}),
        ("what is sent", "found.append(await answer if", "found.insert(0, await answer if", BUS_PROBES, {"edited": "bus"}),
        ("what a listener returns", "{sorted(data)}'", "{len(data)}'", BUS_PROBES, {"edited": "bus"}),
        ("an order of a listener", "order=5)", "order=-5)", BUS_PROBES, {"edited": "bus"}),
        ("topics by default", "topics = ('started',)", "topics = ('begun',)", BUS_PROBES, {"edited": "bus"}),
        ("a rate", "RATE = 2", "RATE = 4", BUS_PROBES, {"edited": "handlers"}),
        ("a handler's text", "f'started {who}'", "f'{who} started'", BUS_PROBES, {"edited": "handlers"}),
        ("a factor of a decorator", "@scaled()", "@scaled(5)", BUS_PROBES, {"edited": "handlers"}),
        ("an order of a handler", "@bus.on('stopped', order=1)", "@bus.on('stopped', order=9)", BUS_PROBES, {"edited": "handlers"}),
        ("a topic of a handler", "@bus.on('stopped', order=1)", "@bus.on('started', order=1)", (*BUS_PROBES[1:], "m.TOPICS, len(m.bus.handlers['started'])"), {"edited": "handlers"}),
        ("a handler less", "@bus.on('stopped', order=1)\nasync def first", "async def first", BUS_PROBES, {"edited": "handlers"}),
        ("topics of a listener", "topics = ('started', 'stopped')", "topics = ('stopped',)", BUS_PROBES, {"edited": "handlers"}),
        ("a listener less", "class Audit(Listener):\n    topics = ('started', 'stopped')\n", "", (*BUS_PROBES[:2], "[type(f[1].__self__).__name__ for f in m.bus.handlers['stopped'] if hasattr(f[1], '__self__')]"), {"edited": "handlers"}),
        ("a listener more", "class Quiet(Listener):\n    topics = ()\n", "class Quiet(Listener):\n    topics = ('a',)\n", BUS_PROBES, {"edited": "handlers"}),
        ("topics of a loop", "('a', 'b')]", "('a', 'b', 'c')]", BUS_PROBES, {"edited": "handlers"}),
        ("another local bus", "Bus('local')", "Bus('near')", BUS_PROBES, {"edited": "handlers"}),
        ("a topic of a local bus", "local.on('x')", "local.on('x', order=3)", BUS_PROBES, {"edited": "handlers"}),
        ("an async handler", "await asyncio.sleep(0)\n    return f'first {code}'", "return f'1st {code}'", BUS_PROBES, {"edited": "handlers"}),
    ],
    others=BUS,
)  # fmt: skip

GARDEN = {
    "garden.__init__": "from garden.plants import Plant, PLANTS, grow\nfrom garden import beds\n__all__ = ['Plant', 'PLANTS', 'grow', 'beds']\nVERSION = (1, 2)\n__version__ = '.'.join(map(str, VERSION))\n",
    "garden.units": "from typing import NewType, TypeAlias\nMetre = NewType('Metre', float)\nSCALE = 100\nUNITS: 'dict[str, int]' = dict(m=SCALE, cm=1)\ndef convert(value, unit='m', *, units=UNITS):\n    return value * units[unit]\n",
    "garden.plants": """\
from __future__ import annotations
import functools, itertools, types
from dataclasses import asdict, astuple, dataclass, field, fields
from garden.units import SCALE, convert
NUMBERS = itertools.count(1)
@functools.total_ordering
@dataclass(slots=True, eq=False)
class Plant:
    name: str
    height: float = 0.1
    tags: tuple = ()
    number: int = field(default_factory=lambda: next(NUMBERS), repr=False)
    def __post_init__(self):
        self.height = convert(self.height)
    def __eq__(self, other):
        return self.height == other.height
    def __lt__(self, other):
        return self.height < other.height
    @functools.singledispatchmethod
    def cut(self, how):
        return self.height - how
    @cut.register
    def _(self, how: str):
        return f'{self.name} cut {how}'
    @classmethod
    def parse(cls, text, sep=':'):
        name, _, height = text.partition(sep)
        return cls(name, float(height or 1))
    @staticmethod
    def rule(height):
        return 'tall' if height > SCALE else 'small'
PLANTS = types.MappingProxyType({plant.name: plant for plant in map(Plant.parse, ('rose:2', 'moss:0.1', 'oak'))})
TALLEST = max(PLANTS.values())
def grow(name, by=0.5, _plants=PLANTS):
    plant = _plants[name]
    return plant.height + convert(by)
RULES = {name: Plant.rule(plant.height) for name, plant in PLANTS.items()}
""",
    "garden.beds": """\
import contextlib, string
from garden.plants import PLANTS, TALLEST, Plant
from garden import units
class Bed(list):
    limit = 2
    def append(self, plant):
        if len(self) >= self.limit:
            raise IndexError('full')
        super().append(plant)
    def __repr__(self):
        return f'<{", ".join(plant.name for plant in self)}>'
    @property
    def height(self):
        return sum(plant.height for plant in self)
@contextlib.contextmanager
def planted(*names):
    bed = Bed()
    for name in names:
        bed.append(PLANTS[name])
    yield bed
with planted('rose', 'moss') as FRONT:
    FRONT_HEIGHT = FRONT.height
try:
    with planted('rose', 'moss', 'oak') as BACK:
        pass
except IndexError as error:
    BACK, WHY = None, str(error)
else:
    WHY = ''
LABEL = string.Template('$first is in front').substitute(first=FRONT[0].name)
match TALLEST:
    case Plant(name='rose', height=height):
        BEST = f'rose of {height}'
    case Plant(name=name):
        BEST = name
if FRONT_HEIGHT > units.SCALE * 2:
    SIZE = 'large'
elif FRONT_HEIGHT > 1:
    SIZE = 'medium'
else:
    SIZE = 'small'
""",
}
GARDEN_M = """\
import garden
from garden import *
from garden.beds import BEST, FRONT, SIZE, WHY
SUMMARY = f'{garden.__version__}: {len(PLANTS)} plants, {SIZE}, {BEST}'
HEIGHTS = sorted((plant.height, name) for name, plant in PLANTS.items())
GROWN = {name: grow(name) for name in PLANTS}
CUTS = [plant.cut(1) for plant in PLANTS.values()] + [beds.FRONT[0].cut('back')]
def tall(limit=beds.TALLEST.height):
    return [plant.name for plant in PLANTS.values() if plant.height >= limit]
"""
GARDEN_PROBES = (
    "m.SUMMARY, m.HEIGHTS, m.GROWN, m.CUTS, m.tall(), m.WHY, m.garden.__version__", "(lambda b: (repr(b.FRONT), b.FRONT_HEIGHT, b.BACK, b.LABEL, b.BEST, b.SIZE, b.WHY))(sys.modules['garden.beds'])", "(lambda p: (sorted(p.PLANTS), p.TALLEST.name, p.RULES, repr(p.Plant('new', 3)), p.Plant.parse('a-2', sep='-').height if True else 0, p.grow('oak'), p.Plant('q') == p.Plant('r'), isinstance(p.TALLEST, p.Plant)))(sys.modules['garden.plants'])", "(lambda u: (u.UNITS, u.convert(2), u.convert(3, 'cm')))(sys.modules['garden.units']), sorted(n for n in dir(m) if n[0] != '_')",
)  # fmt: skip
GARDEN_EDITS = edits_of(
    "garden",
    GARDEN_M,
    [
        ("a scale", "SCALE = 100", "SCALE = 10", GARDEN_PROBES, {"edited": "garden.units"}),
        ("a unit more", "cm=1)", "cm=1, km=SCALE * 1000)", GARDEN_PROBES, {"edited": "garden.units"}),
        ("a unit by default", "unit='m'", "unit='cm'", GARDEN_PROBES, {"edited": "garden.units"}),
        ("a conversion", "value * units[unit]", "round(value * units[unit]) + 1", GARDEN_PROBES, {"edited": "garden.units"}),
        ("a version", "VERSION = (1, 2)", "VERSION = (1, 3)", GARDEN_PROBES, {"edited": "garden.__init__"}),
        ("what is exported", "'grow', 'beds']", "'grow', 'beds', 'VERSION']", GARDEN_PROBES, {"edited": "garden.__init__"}),
        ("a default height", "height: float = 0.1", "height: float = 0.3", (*GARDEN_PROBES, "sys.modules['garden.plants'].Plant('z').height"), {"edited": "garden.plants"}),
        ("an order of plants", "self.height < other.height", "self.name < other.name", GARDEN_PROBES, {"edited": "garden.plants"}),
        ("a cut", "self.height - how", "self.height - how * 2", GARDEN_PROBES, {"edited": "garden.plants"}),
        ("a cut by a word", "f'{self.name} cut {how}'", "f'{self.name} was cut {how}'", GARDEN_PROBES, {"edited": "garden.plants"}),
        ("a default of a parser", "float(height or 1)", "float(height or 3)", GARDEN_PROBES, {"edited": "garden.plants"}),
        ("a plant more", "'oak'))", "'oak', 'ivy:4'))", GARDEN_PROBES, {"edited": "garden.plants"}),
        ("a rule", "'tall' if", "'high' if", GARDEN_PROBES, {"edited": "garden.plants"}),
        ("a growth", "by=0.5", "by=0.7", GARDEN_PROBES, {"edited": "garden.plants"}),
        ("what is tallest", "max(PLANTS.values())", "min(PLANTS.values())", GARDEN_PROBES, {"edited": "garden.plants"}),
        ("a field more", "    tags: tuple = ()\n", "    tags: tuple = ()\n    color: str = 'green'\n", GARDEN_PROBES, {"edited": "garden.plants"}),
        ("a limit of a bed", "limit = 2", "limit = 3", GARDEN_PROBES, {"edited": "garden.beds"}),
        ("a text of a bed", "', '.join" if False else '", ".join', '"; ".join', GARDEN_PROBES, {"edited": "garden.beds"}),
        ("a height of a bed", "sum(plant.height for", "max(plant.height for", GARDEN_PROBES, {"edited": "garden.beds"}),
        ("plants in front", "planted('rose', 'moss') as FRONT", "planted('oak', 'moss') as FRONT", GARDEN_PROBES, {"edited": "garden.beds"}),
        ("a template", "$first is in front", "$first first", GARDEN_PROBES, {"edited": "garden.beds"}),
        ("a case", "f'rose of {height}'", "f'{height} of rose'", GARDEN_PROBES, {"edited": "garden.beds"}),
        ("a bound of a size", "units.SCALE * 2", "units.SCALE * 3", GARDEN_PROBES, {"edited": "garden.beds"}),
        ("an error", "IndexError('full')", "IndexError('no room')", GARDEN_PROBES, {"edited": "garden.beds"}),
        ("a summary", "{len(PLANTS)} plants", "{len(PLANTS)} sorts", GARDEN_PROBES),
        ("a default from a module", "limit=beds.TALLEST.height", "limit=beds.FRONT_HEIGHT / 4", GARDEN_PROBES),
    ],
    others=GARDEN,
)  # fmt: skip

TESTER = {
    "plugin": """\
import pytest
MARK = 'slow'
DEFAULTS = {'url': 'http://x', 'retries': 2}
def pytest_addoption(parser):
    parser.addoption('--url', default=DEFAULTS['url'])
def pytest_configure(config):
    config.addinivalue_line('markers', f'{MARK}: takes long')
@pytest.fixture(scope='module', params=[1, 2], ids='n{}'.format)
def number(request):
    return request.param * DEFAULTS['retries']
@pytest.fixture
def base():
    return {'level': 1}
@pytest.fixture
def client(base, number):
    yield {**base, 'number': number}
CASES = [pytest.param(a, a * 2, id=f'case-{a}') for a in (1, 2)]
skip = pytest.mark.skipif(DEFAULTS['retries'] > 5, reason='many')
class Checks:
    level = 1
    def test_level(self, base):
        assert base['level'] == self.level
""",
}
TESTER_M = """\
import pytest, plugin
from plugin import CASES, Checks, base, client, number, skip
pytestmark = [pytest.mark.usefixtures('base')]
@pytest.mark.parametrize(('a', 'b'), CASES)
def test_double(a, b):
    assert a * 2 == b
@skip
def test_client(client):
    assert client['number'] in (2, 4)
class TestMore(Checks):
    level = 1
"""
TESTER_SETUP = """\
def suite():
    import os, re, subprocess
    import contextlib, io, pytest
    class Names:
        def __init__(self): self.found = []
        def pytest_runtest_logreport(self, report):
            if report.when == 'call' or report.outcome != 'passed':
                self.found.append((report.nodeid.partition('::')[2], report.outcome))
    names = Names()
    sys.modules['m'].__dict__.setdefault('__file__', 'm.py')
    with contextlib.redirect_stdout(io.StringIO()):
        config = None
        from _pytest.config import get_config
    m = sys.modules['m']
    marks = [(mark.name, mark.args, mark.kwargs) for mark in m.pytestmark]
    def of(function):
        return [(mark.name, repr(mark.args), mark.kwargs) for mark in getattr(function, 'pytestmark', [])]
    p = sys.modules['plugin']
    def raw(fixture):
        return getattr(fixture, '_fixture_function', None) or getattr(fixture, '__wrapped__', None) or fixture
    return marks, of(m.test_double), of(m.test_client), [(c.values, c.id) for c in m.CASES], m.TestMore.level, m.Checks.level, raw(m.base)(), re.sub('0x[0-9a-f]+', '', repr(getattr(m.number, '_fixture_function_marker', None)))
"""
TESTER_PROBES = ("suite()", "plugin.DEFAULTS, plugin.MARK, plugin.skip.args, m.skip.kwargs")
TESTER_EDITS = edits_of(
    "tester",
    TESTER_M,
    [
        ("a mark", "MARK = 'slow'", "MARK = 'long'", TESTER_PROBES, {"edited": "plugin"}),
        ("a default", "'retries': 2", "'retries': 9", TESTER_PROBES, {"edited": "plugin"}),
        ("a fixture's body", "{'level': 1}", "{'level': 2}", TESTER_PROBES, {"edited": "plugin"}),
        ("a fixture's parameters", "params=[1, 2]", "params=[1, 2, 3]", TESTER_PROBES, {"edited": "plugin"}),
        ("a fixture's scope", "scope='module'", "scope='session'", TESTER_PROBES, {"edited": "plugin"}),
        ("a case more", "in (1, 2)]", "in (1, 2, 3)]", TESTER_PROBES, {"edited": "plugin"}),
        ("a case's name", "f'case-{a}'", "f'a{a}'", TESTER_PROBES, {"edited": "plugin"}),
        ("a bound of a skip", "> 5,", "> 1,", TESTER_PROBES, {"edited": "plugin"}),
        ("a reason", "reason='many'", "reason='too many'", TESTER_PROBES, {"edited": "plugin"}),
        ("a level of a base", "    level = 1\n    def test", "    level = 3\n    def test", TESTER_PROBES, {"edited": "plugin"}),
        ("a level of a class", "class TestMore(Checks):\n    level = 1", "class TestMore(Checks):\n    level = 2", TESTER_PROBES),
        ("marks of a module", "usefixtures('base')", "usefixtures('client')", TESTER_PROBES),
        ("no skip", "@skip\n", "", TESTER_PROBES),
        ("names of parameters", "('a', 'b'), CASES)\ndef test_double(a, b):\n    assert a * 2 == b", "('x', 'y'), CASES)\ndef test_double(x, y):\n    assert x * 2 == y", TESTER_PROBES),
    ],
    others=TESTER,
    needs=("pytest",),
    setup=TESTER_SETUP,
)  # fmt: skip

CENSUS = {
    "shapes": """\
import abc, copy, numbers, operator, weakref
from collections import ChainMap, Counter, OrderedDict, UserList, deque, namedtuple
from fractions import Fraction
Row = namedtuple('Row', 'name age', defaults=(30,))
class Slotted:
    __slots__ = ('_value', '__weakref__')
    unit = 'cm'
    def __init__(self, value=1):
        self._value = value
    value = property(operator.attrgetter('_value'))
    def __iadd__(self, other):
        self._value += other
        return self
    def __bool__(self):
        return self._value > 0
    def __index__(self):
        return int(self._value)
class Vector(UserList):
    def __matmul__(self, other):
        return sum(map(operator.mul, self, other))
    def __getattr__(self, name):
        if name in 'xyz':
            return self['xyz'.index(name)]
        raise AttributeError(name)
class Meter:
    def __init__(self, function):
        self.function, self.calls = function, 0
    def __call__(self, *given):
        self.calls += 1
        return self.function(*given)
    def __get__(self, thing, owner=None):
        return self if thing is None else lambda *given: self(thing, *given)
""",
    "people": """\
import bisect, statistics
from shapes import ChainMap, Counter, Fraction, Meter, Row, Slotted, Vector, deque
ROWS = [Row('ann', 40), Row('bob'), Row('cid', age=20)]
LAST = deque(ROWS, maxlen=2)
AGES = [row.age for row in ROWS]
MEAN = statistics.mean(AGES)
SHARE = Fraction(sum(age > 25 for age in AGES), len(AGES))
DEFAULTS = {'unit': Slotted.unit, 'size': 1}
SETTINGS = ChainMap({'size': 3}, DEFAULTS)
TOTAL = Slotted()
TOTAL += len(ROWS)
WEIGHTS = Vector([1, 2, 3])
SCORE = WEIGHTS @ Vector(AGES)
@Meter
def group(age):
    return 'old' if age >= 30 else 'young'
GROUPS = Counter(map(group, AGES))
class Person:
    kinds = {'a': 'adult'}
    def __init__(self, row, **more):
        self.__dict__.update(row._asdict(), **more)
    @Meter
    def older(self, years=1):
        return self.age + years
    def __hash__(self):
        return hash(self.name)
    def __eq__(self, other):
        return self.name == other.name
    def __format__(self, spec):
        return self.name.ljust(int(spec or 0), '.')
PEOPLE = {Person(row) for row in ROWS}
NEXT = sorted(person.older() for person in PEOPLE)
TABLE = '\\n'.join(f'{person:5}|' for person in sorted(PEOPLE, key=lambda person: person.name))
FIRST, *REST = ROWS
by_age = dict(zip(AGES, (row.name for row in ROWS)))
position = bisect.bisect(sorted(AGES), 25)
assert len(PEOPLE) == len(ROWS), 'names occur twice'
del row_count if False else FIRST
""",
}
CENSUS["people"] = CENSUS["people"].replace("del row_count if False else FIRST\n", "")
CENSUS_M = """\
import people, shapes
from people import *
REPORT = (MEAN, SHARE, dict(SETTINGS), int(TOTAL), SCORE, dict(GROUPS), NEXT, TABLE)
OLDEST = max(ROWS, key=lambda row: row.age)
X = WEIGHTS.x
CALLS = group.calls
class Chief(Person):
    kinds = Person.kinds | {'c': 'chief'}
    def older(self, years=2):
        return super().older(years) * 10
CHIEF = Chief(OLDEST, rank=1)
IS_ANY = bool(TOTAL) and any(person == CHIEF for person in PEOPLE)
"""
CENSUS_PROBES = (
    "m.REPORT, m.OLDEST, m.X, m.IS_ANY, m.CHIEF.older(), m.Chief.kinds, vars(m.CHIEF)", "people.MEAN, people.SHARE, list(people.LAST), people.by_age, people.position, people.FIRST, people.REST, dict(people.SETTINGS), people.DEFAULTS, people.TOTAL.value, people.TABLE", "shapes.Row('q'), shapes.Slotted(2).value, shapes.Vector([4, 5]) @ [1, 2], shapes.Vector([7]).x, people.group(31), format(people.Person(shapes.Row('z')), '3'), sorted(p.older() for p in people.PEOPLE), people.Person.kinds, shapes.Slotted.unit",
)  # fmt: skip
CENSUS_EDITS = edits_of(
    "census",
    CENSUS_M,
    [
        ("a default of a row", "defaults=(30,)", "defaults=(33,)", CENSUS_PROBES, {"edited": "shapes"}),
        ("a field of a row", "'name age', defaults=(30,)", "'name age city', defaults=(30, 'x')", CENSUS_PROBES, {"edited": "shapes"}),
        ("a unit", "unit = 'cm'", "unit = 'mm'", CENSUS_PROBES, {"edited": "shapes"}),
        ("a first value", "value=1)", "value=5)", CENSUS_PROBES, {"edited": "shapes"}),
        ("an addition", "self._value += other", "self._value += other * 2", CENSUS_PROBES, {"edited": "shapes"}),
        ("a truth", "self._value > 0", "self._value > 100", CENSUS_PROBES, {"edited": "shapes"}),
        ("an index", "int(self._value)", "int(self._value) + 1", CENSUS_PROBES, {"edited": "shapes"}),
        ("a product", "sum(map(operator.mul, self, other))", "max(map(operator.mul, self, other))", CENSUS_PROBES, {"edited": "shapes"}),
        ("a missing attribute", "self['xyz'.index(name)]", "-self['xyz'.index(name)]", CENSUS_PROBES, {"edited": "shapes"}),
        ("what a meter counts", "self.calls += 1", "self.calls += 2", (*CENSUS_PROBES[:1], "people.group(40)"), {"edited": "shapes"}),
        ("an age", "age=20", "age=21", CENSUS_PROBES, {"edited": "people"}),
        ("a person more", "Row('bob'),", "Row('bob'), Row('dan', 50),", CENSUS_PROBES, {"edited": "people"}),
        ("a length", "maxlen=2", "maxlen=1", CENSUS_PROBES, {"edited": "people"}),
        ("a bound of a share", "age > 25", "age > 35", CENSUS_PROBES, {"edited": "people"}),
        ("a mean", "statistics.mean(AGES)", "statistics.median(AGES)", CENSUS_PROBES, {"edited": "people"}),
        ("a setting", "ChainMap({'size': 3}", "ChainMap({'size': 4}", CENSUS_PROBES, {"edited": "people"}),
        ("a setting by default", "'size': 1}", "'size': 1, 'depth': 2}", CENSUS_PROBES, {"edited": "people"}),
        ("what is added", "TOTAL += len(ROWS)", "TOTAL += len(ROWS) * 2", CENSUS_PROBES, {"edited": "people"}),
        ("weights", "Vector([1, 2, 3])", "Vector([1, 2, 4])", CENSUS_PROBES, {"edited": "people"}),
        ("a group", "'old' if age >= 30", "'old' if age >= 35", CENSUS_PROBES, {"edited": "people"}),
        ("a kind", "{'a': 'adult'}", "{'a': 'adult', 'm': 'minor'}", CENSUS_PROBES, {"edited": "people"}),
        ("an older person", "self.age + years", "self.age + years * 2", CENSUS_PROBES, {"edited": "people"}),
        ("a hash", "hash(self.name)", "hash((self.name, 1))", CENSUS_PROBES, {"edited": "people"}),
        ("a format", "int(spec or 0), '.'", "int(spec or 0), '-'", CENSUS_PROBES, {"edited": "people"}),
        ("a rank", "rank=1", "rank=2", CENSUS_PROBES),
        ("a method of a subclass", "* 10", "* 100", CENSUS_PROBES),
        ("an oldest", "key=lambda row: row.age", "key=lambda row: -row.age", CENSUS_PROBES),
    ],
    others=CENSUS,
)  # fmt: skip

ALL = with_expected(
    [*CLERK_EDITS, *PARSER_EDITS, *BUS_EDITS, *GARDEN_EDITS, *TESTER_EDITS, *CENSUS_EDITS],
    false=[
        "clerk: what a manager leaves out",
        "clerk: a choice more",
        "clerk: a name in words",
        "clerk: a field of a form",
        "clerk: a label of a form",
        "clerk: fields of a form",
        "clerk: a widget",
        "bus: topics by default",
        "garden: a field more",
        "census: a field of a row",
        "census: what a meter counts",
    ],
    reported=[
        "clerk: a default length",
        "clerk: a limit of a query",
        "clerk: a filter",
        "clerk: an annotation of a query",
        "clerk: a method more of a query",
        "clerk: a label of a choice",
        "clerk: a default",
        "clerk: an order of a base",
        "clerk: a model less in an admin",
        "parser: a level more",
        "parser: a default level",
        "parser: an option more",
        "parser: a default of an option",
        "parser: a unit",
        "parser: an argument's settings",
        "parser: a help text",
        "parser: a description",
        "parser: an order's name",
        "parser: an order less",
        "bus: an order of a listener",
        "bus: a rate",
        "bus: a factor of a decorator",
        "bus: an order of a handler",
        "bus: a topic of a handler",
        "bus: a handler less",
        "bus: topics of a listener",
        "bus: a listener less",
        "bus: a listener more",
        "bus: topics of a loop",
        "census: a default of a row",
        "census: an age",
        "census: a person more",
        "census: an older person",
    ],
)
