"""Edits of programs in the style of tutorials: a blog, a booking service, polls, an inventory and command line tools."""

from edit_cases import edits_of, with_expected

BLOG_M = """\
from flaskr import create_app
app = create_app({'TESTING': True})
"""
BLOG = {
    "flaskr.__init__": """\
import os
from flask import Flask
def create_app(test_config=None):
    app = Flask(__name__, instance_relative_config=True)
    app.config.from_mapping(SECRET_KEY='dev', PER_PAGE=2)
    if test_config is not None:
        app.config.update(test_config)
    @app.route('/hello')
    def hello():
        return 'Hello, World!'
    from . import db
    db.init_app(app)
    from . import auth, blog, errors
    app.register_blueprint(auth.bp)
    app.register_blueprint(blog.bp)
    app.add_url_rule('/', endpoint='index')
    errors.register(app)
    return app
""",
    "flaskr.db": """\
import click
from flask import current_app, g
POSTS = [{'id': 1, 'title': 'First', 'author': 'ann'}, {'id': 2, 'title': 'Second', 'author': 'bob'}, {'id': 3, 'title': 'Third', 'author': 'ann'}]
def get_db():
    if 'db' not in g:
        g.db = list(POSTS)
    return g.db
def close_db(e=None):
    g.pop('db', None)
@click.command('init-db')
@click.option('--force', is_flag=True)
def init_db_command(force):
    click.echo('Initialized the database.' if not force else 'Forced.')
def init_app(app):
    app.teardown_appcontext(close_db)
    app.cli.add_command(init_db_command)
""",
    "flaskr.auth": """\
import functools
from flask import Blueprint, g, redirect, request, session, url_for
bp = Blueprint('auth', __name__, url_prefix='/auth')
USERS = {'ann': 'secret'}
def login_required(view):
    @functools.wraps(view)
    def wrapped_view(**kwargs):
        if g.user is None:
            return redirect(url_for('auth.login'))
        return view(**kwargs)
    return wrapped_view
@bp.before_app_request
def load_logged_in_user():
    g.user = session.get('user_id') or request.headers.get('X-User')
@bp.route('/login', methods=('GET', 'POST'))
def login():
    if request.method == 'POST':
        name = request.form['username']
        if USERS.get(name) != request.form['password']:
            return 'Incorrect password.', 403
        session.clear()
        session['user_id'] = name
        return redirect(url_for('index'))
    return 'login form'
@bp.route('/logout')
def logout():
    session.clear()
    return redirect(url_for('index'))
""",
    "flaskr.blog": """\
from flask import Blueprint, abort, current_app, g, request
from .auth import login_required
from .db import get_db
bp = Blueprint('blog', __name__)
class Forbidden(Exception):
    status = 403
def get_post(id, check_author=True):
    post = next((post for post in get_db() if post['id'] == id), None)
    if post is None:
        abort(404, f'Post id {id} does not exist.')
    if check_author and post['author'] != g.user:
        raise Forbidden(post['title'])
    return post
@bp.route('/')
def index():
    page = request.args.get('page', 0, type=int)
    size = current_app.config['PER_PAGE']
    return {'posts': [post['title'] for post in get_db()[page * size:(page + 1) * size]]}
@bp.route('/<int:id>/update', methods=('GET', 'POST'))
@login_required
def update(id):
    post = get_post(id)
    return {'post': post['title'], 'method': request.method}
@bp.route('/<int:id>/delete', methods=('POST',))
@login_required
def delete(id):
    get_post(id)
    return 'deleted'
@bp.app_template_global('shout')
def shout(text):
    return text.upper() + '!'
""",
    "flaskr.errors": """\
from flask import jsonify
from werkzeug.exceptions import HTTPException, NotFound
from .blog import Forbidden
def not_found(error):
    return jsonify(error='not found', detail=error.description), 404
def forbidden(error):
    return jsonify(error='forbidden', post=str(error)), error.status
def register(app):
    app.register_error_handler(NotFound, not_found)
    app.register_error_handler(Forbidden, forbidden)
""",
}
BLOG_SETUP = """
def call(method, path, user=None, **words):
    app = sys.modules['m'].app
    answer = app.test_client().open(path, method=method, headers={'X-User': user} if user else {}, **words)
    return answer.status_code, answer.get_data(as_text=True), answer.headers.get('Location')
def cli(*words):
    app = sys.modules['m'].app
    result = app.test_cli_runner().invoke(args=list(words))
    return result.exit_code, result.output
"""
BLOG_PROBES = (
    "call('GET', '/')", "call('GET', '/?page=1')", "call('GET', '/hello')", "call('GET', '/1/update')", "call('GET', '/1/update', 'ann')",
    "call('GET', '/2/update', 'ann')", "call('POST', '/9/update', 'ann')", "call('POST', '/1/delete', 'ann')", "call('GET', '/1/delete', 'ann')[0]",
    "call('POST', '/auth/login', data={'username': 'ann', 'password': 'secret'})", "call('POST', '/auth/login', data={'username': 'ann', 'password': 'x'})",
    "call('GET', '/auth/logout')", "cli('init-db')", "cli('init-db', '--force')", "sorted((r.rule, r.endpoint, sorted(r.methods)) for r in m.app.url_map.iter_rules())",
    "m.app.config['PER_PAGE'], m.app.config['SECRET_KEY']", "m.app.jinja_env.globals.get('shout', str)('a')", "sorted(m.app.view_functions)",
    "[f.__name__ for f in m.app.before_request_funcs[None]], [f.__name__ for f in m.app.teardown_appcontext_funcs]",
)  # fmt: skip
BLOG_EDITS = edits_of(
    "flaskr",
    BLOG_M,
    [
        ("a create view", "@bp.route('/<int:id>/update'", "@bp.route('/create', methods=('GET', 'POST'))\n@login_required\ndef create():\n    return 'create form'\n@bp.route('/<int:id>/update'", (*BLOG_PROBES, "call('GET', '/create', 'ann')"), {"edited": "flaskr.blog"}),
        ("an option is renamed", "'--force', is_flag", "'--force', '-f', is_flag", (*BLOG_PROBES, "cli('init-db', '-f')"), {"edited": "flaskr.db"}),
        ("a login page goes back", "return redirect(url_for('auth.login'))", "return redirect(url_for('auth.login', next=request.path))", BLOG_PROBES, {"edited": "flaskr.auth"}),
        ("a page size", "PER_PAGE=2", "PER_PAGE=3", BLOG_PROBES, {"edited": "flaskr.__init__"}),
        ("a prefix of a blueprint", "url_prefix='/auth'", "url_prefix='/user'", (*BLOG_PROBES, "call('GET', '/user/login')"), {"edited": "flaskr.auth"}),
        ("an error handler for everything", "    app.register_error_handler(Forbidden, forbidden)\n", "    app.register_error_handler(Forbidden, forbidden)\n    app.register_error_handler(405, lambda error: ('no such method', 405))\n", BLOG_PROBES, {"edited": "flaskr.errors"}),
        ("a status of an exception", "status = 403", "status = 401", BLOG_PROBES, {"edited": "flaskr.blog"}),
        ("a user more", "{'ann': 'secret'}", "{'ann': 'secret', 'bob': 'hidden'}", (*BLOG_PROBES, "call('POST', '/auth/login', data={'username': 'bob', 'password': 'hidden'})"), {"edited": "flaskr.auth"}),
    ],
    others=BLOG,
    needs=("flask",),
    setup=BLOG_SETUP,
)  # fmt: skip

BOOKING_M = """\
from booking.main import app
"""
BOOKING = {
    "booking.__init__": "",
    "booking.config": """\
from functools import lru_cache
from pydantic import BaseModel, Field, field_validator
class Settings(BaseModel):
    app_name: str = 'Booking'
    max_guests: int = Field(default=4, ge=1)
    origins: list[str] = ['http://localhost']
    @field_validator('app_name')
    @classmethod
    def not_empty(cls, value):
        return value.strip() or 'unnamed'
@lru_cache
def get_settings():
    return Settings()
""",
    "booking.models": """\
from datetime import date
from enum import Enum
from typing import Optional
from pydantic import BaseModel, Field, model_validator
class RoomKind(str, Enum):
    single = 'single'
    double = 'double'
class RoomBase(BaseModel):
    number: int
    kind: RoomKind = RoomKind.single
class Room(RoomBase):
    price: float = 50.0
    def total(self, nights):
        return self.price * nights
class BookingIn(BaseModel):
    room: int
    guest: str = Field(min_length=2, examples=['Ann'])
    guests: int = 1
    start: date
    end: date
    note: Optional[str] = None
    @model_validator(mode='after')
    def check_dates(self):
        if self.end <= self.start:
            raise ValueError('end before start')
        return self
class BookingOut(BaseModel):
    id: int
    guest: str
    total: float
""",
    "booking.dependencies": """\
from typing import Annotated
from fastapi import Depends, Header, HTTPException
from .config import Settings, get_settings
from .models import Room, RoomKind
ROOMS = {1: Room(number=1), 2: Room(number=2, kind=RoomKind.double, price=80)}
TOKENS = {'t1': 'ann'}
async def get_token_header(x_token: Annotated[str, Header()] = 't1'):
    if x_token not in TOKENS:
        raise HTTPException(status_code=400, detail='X-Token header invalid')
    return TOKENS[x_token]
class Pagination:
    def __init__(self, offset: int = 0, limit: int = 10):
        self.offset, self.limit = offset, limit
    def apply(self, items):
        return items[self.offset:self.offset + self.limit]
CurrentUser = Annotated[str, Depends(get_token_header)]
SettingsDep = Annotated[Settings, Depends(get_settings)]
""",
    "booking.routers.__init__": "",
    "booking.routers.rooms": """\
from fastapi import APIRouter, Depends, HTTPException
from ..dependencies import ROOMS, Pagination
from ..models import Room, RoomKind
router = APIRouter(prefix='/rooms', tags=['rooms'])
@router.get('/', response_model=list[Room], response_model_exclude_unset=True)
async def read_rooms(page: Pagination = Depends(), kind: RoomKind | None = None):
    return page.apply([room for room in ROOMS.values() if kind is None or room.kind == kind])
@router.get('/{number}', response_model=Room)
async def read_room(number: int):
    if number not in ROOMS:
        raise HTTPException(status_code=404, detail='Room not found')
    return ROOMS[number]
""",
    "booking.routers.bookings": """\
from fastapi import APIRouter, Depends, HTTPException, status
from ..dependencies import ROOMS, CurrentUser, SettingsDep, get_token_header
from ..models import BookingIn, BookingOut
router = APIRouter(prefix='/bookings', tags=['bookings'], dependencies=[Depends(get_token_header)])
def price(booking):
    return ROOMS[booking.room].total((booking.end - booking.start).days)
@router.post('/', status_code=status.HTTP_201_CREATED)
async def book(booking: BookingIn, user: CurrentUser, settings: SettingsDep) -> BookingOut:
    if booking.guests > settings.max_guests:
        raise HTTPException(status_code=422, detail='too many guests')
    return BookingOut(id=1, guest=f'{booking.guest} by {user}', total=price(booking))
""",
    "booking.main": """\
import time
from fastapi import FastAPI, Request
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse
from .config import get_settings
from .routers import bookings, rooms
app = FastAPI(title=get_settings().app_name, version='0.1')
app.add_middleware(CORSMiddleware, allow_origins=get_settings().origins, allow_methods=['*'])
@app.middleware('http')
async def add_header(request: Request, call_next):
    response = await call_next(request)
    response.headers['X-Service'] = 'booking'
    return response
@app.exception_handler(ValueError)
async def value_error(request, error):
    return JSONResponse({'detail': str(error)}, status_code=418)
app.include_router(rooms.router)
app.include_router(bookings.router, responses={404: {'description': 'Not found'}})
@app.get('/')
async def root():
    return {'message': 'Hello Bigger Applications!'}
@app.get('/fail')
async def fail():
    raise ValueError('failed')
""",
}
BOOKING_SETUP = """
def call(method, path, **words):
    from fastapi.testclient import TestClient
    answer = TestClient(sys.modules['booking.main'].app).request(method, path, **words)
    return answer.status_code, answer.json(), answer.headers.get('X-Service'), answer.headers.get('access-control-allow-origin')
def book(**words):
    return call('POST', '/bookings/', json={'room': 1, 'guest': 'Ann', 'start': '2024-01-01', 'end': '2024-01-04', **words})
"""
BOOKING_PROBES = (
    "call('GET', '/')", "call('GET', '/rooms/')", "call('GET', '/rooms/?limit=1')", "call('GET', '/rooms/?kind=double')", "call('GET', '/rooms/2')",
    "call('GET', '/rooms/5')", "book()", "book(guest='A')[0]", "book(end='2023-01-01')[0]", "book(guests=5)[:2]", "call('GET', '/fail')",
    "call('GET', '/', headers={'Origin': 'http://localhost'})", "call('GET', '/', headers={'Origin': 'http://example.org'})", "call('POST', '/bookings/', headers={'X-Token': 'bad'}, json={})[:2]",
    "m.app.openapi()", "sorted((r.path, sorted(getattr(r, 'methods', ()) or ())) for r in m.app.routes)", "config.get_settings().model_dump()", "list(models.RoomKind)",
)  # fmt: skip
BOOKING_EDITS = edits_of(
    "booking",
    BOOKING_M,
    [
        ("a limit of guests", "default=4, ge=1", "default=6, ge=1", BOOKING_PROBES, {"edited": "booking.config"}),
        ("a field of a response", "    guest: str\n    total: float\n", "    guest: str\n    total: float\n    currency: str = 'EUR'\n", BOOKING_PROBES, {"edited": "booking.models"}),
        ("a field is renamed", "    note: Optional[str] = None\n", "    comment: Optional[str] = None\n", BOOKING_PROBES, {"edited": "booking.models"}),
        ("a kind of room", "    double = 'double'\n", "    double = 'double'\n    suite = 'suite'\n", (*BOOKING_PROBES, "call('GET', '/rooms/?kind=suite')"), {"edited": "booking.models"}),
        ("a route for deletion", "@router.get('/{number}', response_model=Room)", "@router.delete('/{number}', status_code=204)\nasync def delete_room(number: int):\n    ROOMS.pop(number, None)\n@router.get('/{number}', response_model=Room)", BOOKING_PROBES, {"edited": "booking.routers.rooms"}),
        ("a default of a dependency class", "limit: int = 10", "limit: int = 1", BOOKING_PROBES, {"edited": "booking.dependencies"}),
        ("a token more", "{'t1': 'ann'}", "{'t1': 'ann', 't2': 'bob'}", BOOKING_PROBES, {"edited": "booking.dependencies"}),
        ("an origin more", "['http://localhost']", "['http://localhost', 'http://example.org']", BOOKING_PROBES, {"edited": "booking.config"}),
        ("no unset values left out", ", response_model_exclude_unset=True", "", BOOKING_PROBES, {"edited": "booking.routers.rooms"}),
        ("a timing middleware", "@app.exception_handler(ValueError)", "@app.middleware('http')\nasync def add_time(request: Request, call_next):\n    start = time.perf_counter()\n    response = await call_next(request)\n    response.headers['X-Timed'] = str(time.perf_counter() >= start)\n    return response\n@app.exception_handler(ValueError)", (*BOOKING_PROBES, "len(m.app.user_middleware)"), {"edited": "booking.main"}),
    ],
    others=BOOKING,
    needs=("fastapi", "fastapi.testclient"),
    setup=BOOKING_SETUP,
)  # fmt: skip

POLLS_SETUP = """
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=['django.contrib.admin', 'django.contrib.contenttypes', 'django.contrib.auth', 'django.contrib.messages', 'django.contrib.sessions', 'polls'],
    ROOT_URLCONF='polls.site_urls', SECRET_KEY='x', USE_TZ=False, DATABASES={'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': ':memory:'}},
    ALLOWED_HOSTS=['*'], DEFAULT_AUTO_FIELD='django.db.models.AutoField', MIDDLEWARE=[],
    TEMPLATES=[{'BACKEND': 'django.template.backends.django.DjangoTemplates', 'OPTIONS': {'libraries': {'polls_extras': 'polls.extras'}}}],
)
django.setup()
def get(path, **data):
    from django.test import Client
    answer = Client(raise_request_exception=False).get(path, data)
    return answer.status_code, answer.content.decode(), answer.headers.get('Location')
def command(*words, **options):
    import io
    from django.core.management import call_command
    out = io.StringIO()
    call_command(*words, stdout=out, **options)
    return out.getvalue()
def render(text, **words):
    from django.template import Context, Template
    return Template(text).render(Context(words))
"""
POLLS_M = """\
import polls.site_urls
from polls.models import Choice, Question
from polls.forms import VoteForm
from polls.admin import QuestionAdmin
"""
POLLS = {
    "polls.__init__": "",
    "polls.apps": """\
from django.apps import AppConfig
class PollsConfig(AppConfig):
    name = 'polls'
    verbose_name = 'Polls'
    def ready(self):
        from . import receivers
""",
    "polls.models": """\
import datetime
from django.db import models
from django.utils import timezone
class PublishedManager(models.Manager):
    def get_queryset(self):
        return super().get_queryset().filter(is_published=True)
class Question(models.Model):
    class Status(models.TextChoices):
        OPEN = 'o', 'Open'
        CLOSED = 'c', 'Closed'
    question_text = models.CharField(max_length=200)
    pub_date = models.DateTimeField('date published', null=True)
    is_published = models.BooleanField(default=False)
    status = models.CharField(max_length=1, choices=Status.choices, default=Status.OPEN)
    objects = models.Manager()
    published = PublishedManager()
    class Meta:
        ordering = ['-pub_date']
    def __str__(self):
        return self.question_text
    def was_published_recently(self, days=1):
        return self.pub_date >= datetime.datetime(2024, 1, 10) - datetime.timedelta(days=days)
class Choice(models.Model):
    question = models.ForeignKey(Question, on_delete=models.CASCADE, related_name='choices')
    choice_text = models.CharField(max_length=200)
    votes = models.IntegerField(default=0)
    def __str__(self):
        return self.choice_text
""",
    "polls.admin": """\
from django.contrib import admin
from .models import Choice, Question
class ChoiceInline(admin.TabularInline):
    model = Choice
    extra = 3
@admin.register(Question)
class QuestionAdmin(admin.ModelAdmin):
    fieldsets = [(None, {'fields': ['question_text']}), ('Date', {'fields': ['pub_date']})]
    inlines = [ChoiceInline]
    list_display = ['question_text', 'pub_date']
    search_fields = ['question_text']
    @admin.action(description='Publish')
    def publish(self, request, queryset):
        queryset.update(is_published=True)
    actions = [publish]
admin.site.site_header = 'Polls administration'
""",
    "polls.forms": """\
from django import forms
from .models import Question
class VoteForm(forms.Form):
    choice = forms.IntegerField(min_value=1)
    comment = forms.CharField(required=False, max_length=10)
    def clean(self):
        data = super().clean()
        if data.get('choice') == 13 and not data.get('comment'):
            raise forms.ValidationError('unlucky')
        return data
class QuestionForm(forms.ModelForm):
    class Meta:
        model = Question
        fields = ['question_text', 'status']
        widgets = {'question_text': forms.Textarea(attrs={'rows': 3})}
""",
    "polls.receivers": """\
from django.db.models.signals import post_init, pre_init
from django.dispatch import Signal, receiver
from .models import Choice, Question
voted = Signal()
LOG = []
@receiver(voted)
def count(sender, **kwargs):
    return 'count'
@receiver(voted, sender=Question)
def audit(sender, **kwargs):
    return 'audit'
""",
    "polls.views": """\
from django.http import Http404, HttpResponse, JsonResponse
from django.urls import reverse
from django.views import generic
from .forms import VoteForm
from .models import Question
def index(request):
    return HttpResponse('polls index')
class HelpView(generic.TemplateView):
    template_name = 'help.html'
    extra = {'lang': 'en'}
    def get(self, request, *args, **kwargs):
        return JsonResponse({'template': self.template_name, **self.extra})
class OldView(generic.RedirectView):
    pattern_name = 'polls:index'
    permanent = False
def vote(request, question_id):
    form = VoteForm(request.GET)
    return HttpResponse(f'{question_id}: {form.is_valid()}')
""",
    "polls.urls": """\
from django.urls import path
from . import views
app_name = 'polls'
urlpatterns = [
    path('', views.index, name='index'),
    path('help/', views.HelpView.as_view(), name='help'),
    path('old/', views.OldView.as_view(), name='old'),
    path('<int:question_id>/vote/', views.vote, name='vote'),
]
""",
    "polls.site_urls": """\
from django.contrib import admin
from django.http import HttpResponse
from django.urls import include, path
def not_found(request, exception):
    return HttpResponse('nothing here', status=404)
handler404 = not_found
urlpatterns = [path('polls/', include('polls.urls')), path('admin/', admin.site.urls)]
""",
    "polls.extras": """\
from django import template
register = template.Library()
@register.filter
def shout(value):
    return value.upper()
@register.simple_tag
def times(count, text='-'):
    return text * count
""",
    "polls.management.__init__": "",
    "polls.management.commands.__init__": "",
    "polls.management.commands.closepoll": """\
from django.core.management.base import BaseCommand, CommandError
class Command(BaseCommand):
    help = 'Closes the specified poll'
    def add_arguments(self, parser):
        parser.add_argument('poll_ids', nargs='+', type=int)
        parser.add_argument('--delete', action='store_true')
    def handle(self, *args, **options):
        for number in options['poll_ids']:
            self.stdout.write(f'closed {number}' + (' and deleted' if options['delete'] else ''))
""",
}
POLLS_PROBES = (
    "get('/polls/')", "get('/polls/help/')", "get('/polls/old/')", "get('/polls/3/vote/', choice=1)", "get('/polls/3/vote/', choice=13)", "get('/polls/3/vote/', choice=1, comment='x' * 20)",
    "get('/nothing/')", "str(m.Question.objects.all().query)", "str(m.Question.published.all().query)", "str(m.Question(question_text='q')), m.Question(status='c').get_status_display()",
    "m.Question(pub_date=__import__('datetime').datetime(2024, 1, 9)).was_published_recently()", "[f.name for f in m.Question._meta.get_fields()]", "[f.name for f in m.Choice._meta.get_fields()], m.Choice().votes",
    "__import__('django.contrib.admin').contrib.admin.site._registry[m.Question].list_display", "type(__import__('django.contrib.admin').contrib.admin.site._registry[m.Question]) is m.QuestionAdmin",
    "[i.extra for i in m.QuestionAdmin.inlines], m.QuestionAdmin.fieldsets, m.QuestionAdmin.publish.short_description", "__import__('django.contrib.admin').contrib.admin.site.site_header",
    "sorted(t.__name__ for t in __import__('django.contrib.admin').contrib.admin.site._registry)", "m.VoteForm({'choice': 0}).errors", "m.VoteForm().as_p()", "forms.QuestionForm().as_p()",
    "[r for _, r in receivers.voted.send(m.Question)], [r for _, r in receivers.voted.send(m.Choice)]", "command('closepoll', '1', '2'), command('closepoll', '1', delete=True)",
    "render('{% load polls_extras %}{{ a|shout }}{% times 3 %}', a='x')", "__import__('django.urls').urls.reverse('polls:vote', args=[4])", "m.Question.Status.choices",
    "__import__('django.apps').apps.apps.get_app_config('polls').verbose_name",
)  # fmt: skip
POLLS_EDITS = edits_of(
    "polls",
    POLLS_M,
    [
        ("a column of the admin", "list_display = ['question_text', 'pub_date']", "list_display = ['question_text', 'pub_date', 'status']\n    list_filter = ['pub_date']", POLLS_PROBES, {"edited": "polls.admin"}),
        ("a choice is registered", "admin.site.site_header", "admin.site.register(Choice)\nadmin.site.site_header", POLLS_PROBES, {"edited": "polls.admin"}),
        ("a header of the admin", "'Polls administration'", "'Surveys'", POLLS_PROBES, {"edited": "polls.admin"}),
        ("a detail view", "    path('old/',", "    path('<int:question_id>/', views.detail, name='detail'),\n    path('old/',", (*POLLS_PROBES, "get('/polls/5/')"), {"edited": "polls.urls", "more": [("polls.views", "def vote(", "def detail(request, question_id):\n    return HttpResponse(f'question {question_id}')\ndef vote(")]}),
        ("a permanent redirect", "permanent = False", "permanent = True", POLLS_PROBES, {"edited": "polls.views"}),
        ("a method of a model", "self.question_text\n", "self.question_text or 'untitled'\n", (*POLLS_PROBES, "str(m.Question())"), {"edited": "polls.models"}),
        ("a status more", "        CLOSED = 'c', 'Closed'\n", "        CLOSED = 'c', 'Closed'\n        HIDDEN = 'h', 'Hidden'\n", POLLS_PROBES, {"edited": "polls.models"}),
        ("a default of votes", "models.IntegerField(default=0)", "models.IntegerField(default=1)", POLLS_PROBES, {"edited": "polls.models"}),
        ("a required comment", "forms.CharField(required=False, max_length=10)", "forms.CharField(max_length=10, label='Remark')", POLLS_PROBES, {"edited": "polls.forms"}),
        ("rows of a widget", "'rows': 3", "'rows': 5", POLLS_PROBES, {"edited": "polls.forms"}),
        ("receivers change places", "@receiver(voted)\ndef count(sender, **kwargs):\n    return 'count'\n@receiver(voted, sender=Question)\ndef audit(sender, **kwargs):\n    return 'audit'\n",
         "@receiver(voted, sender=Question)\ndef audit(sender, **kwargs):\n    return 'audit'\n@receiver(voted)\ndef count(sender, **kwargs):\n    return 'count'\n", POLLS_PROBES, {"edited": "polls.receivers"}),
        ("a receiver more in front", "@receiver(voted)\ndef count", "@receiver(voted)\ndef mail(sender, **kwargs):\n    return 'mail'\n@receiver(voted)\ndef count", POLLS_PROBES, {"edited": "polls.receivers"}),
        ("an argument of a command", "        parser.add_argument('--delete', action='store_true')\n", "        parser.add_argument('--delete', action='store_true')\n        parser.add_argument('--loud', action='store_true')\n", (*POLLS_PROBES, "command('closepoll', '1', loud=True)"), {"edited": "polls.management.commands.closepoll"}),
        ("a filter more", "@register.simple_tag", "@register.filter(name='small')\ndef lower(value):\n    return value.lower()\n@register.simple_tag", (*POLLS_PROBES, "render('{% load polls_extras %}{{ a|small }}', a='X')"), {"edited": "polls.extras"}),
        ("a handler of errors", "'nothing here'", "'not found'", POLLS_PROBES, {"edited": "polls.site_urls"}),
    ],
    others=POLLS,
    needs=("django", "django.test", "django.forms", "django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes"),
    setup=POLLS_SETUP,
)  # fmt: skip

STOCK_M = """\
from stock.models import Base, Category, Product
from stock.store import Session, engine, low_stock, total
"""
STOCK = {
    "stock.__init__": "",
    "stock.models": """\
from datetime import datetime
from typing import List, Optional
from sqlalchemy import CheckConstraint, ForeignKey, Index, String, UniqueConstraint, event, func
from sqlalchemy.ext.hybrid import hybrid_method, hybrid_property
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedAsDataclass, declared_attr, mapped_column, relationship
class Base(DeclarativeBase):
    type_annotation_map = {str: String(50)}
class TimestampMixin:
    created: Mapped[Optional[datetime]] = mapped_column(default=None)
    @declared_attr.directive
    def __tablename__(cls):
        return cls.__name__.lower()
class Category(TimestampMixin, Base):
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    products: Mapped[List['Product']] = relationship(back_populates='category', order_by='Product.name')
    def __repr__(self):
        return f'Category({self.name!r})'
class Product(TimestampMixin, Base):
    __table_args__ = (Index('ix_name', 'name'),)
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    price: Mapped[float] = mapped_column(default=1.0)
    amount: Mapped[int] = mapped_column(default=0)
    category_id: Mapped[Optional[int]] = mapped_column(ForeignKey('category.id'))
    category: Mapped[Optional[Category]] = relationship(back_populates='products')
    @hybrid_property
    def value(self):
        return self.price * self.amount
    @hybrid_method
    def is_below(self, limit):
        return self.amount < limit
    def __repr__(self):
        return f'Product({self.name!r})'
CHANGES = []
@event.listens_for(Product.amount, 'set')
def on_amount(target, value, old, initiator):
    CHANGES.append(value)
@event.listens_for(Base, 'init', propagate=True)
def on_init(target, args, kwargs):
    kwargs.setdefault('created', datetime(2024, 1, 1))
""",
    "stock.store": """\
from sqlalchemy import create_engine, event, func, select
from sqlalchemy.orm import Session as OrmSession, sessionmaker
from sqlalchemy.pool import StaticPool
from .models import Base, Category, Product
engine = create_engine('sqlite://', poolclass=StaticPool)
Session = sessionmaker(engine, expire_on_commit=False)
STATEMENTS = []
@event.listens_for(engine, 'before_cursor_execute')
def count(connection, cursor, statement, parameters, context, many):
    STATEMENTS.append(statement[:6])
def low_stock(limit=3):
    return select(Product).where(Product.is_below(limit)).order_by(Product.name)
def total():
    return select(func.sum(Product.value))
def fill():
    Base.metadata.create_all(engine)
    with Session() as session:
        tools = Category(name='tools')
        session.add_all([Product(name='saw', amount=2, price=10, category=tools), Product(name='axe', amount=5, price=20, category=tools)])
        session.commit()
""",
}
STOCK_PROBES = (
    "Session().scalar(total()) if (Session := m.Session) and (total := m.total) else None", "[p.name for p in m.Session().scalars(m.low_stock())]", "str(m.low_stock())", "str(m.total())",
    "repr(m.Product(name='x')), m.Product(name='x').created, repr(m.Category(name='c'))", "m.Product(name='x', price=2, amount=3).value, m.Product(amount=1).is_below(2)", "str(m.Product.value), str(m.Product.is_below(1))",
    "[(c.name, str(c.type), c.nullable) for c in m.Product.__table__.columns]", "sorted(i.name for i in m.Product.__table__.indexes), m.Category.__tablename__", "[p.name for p in m.Session().scalars(store.select(m.Category)).first().products]",
    "(setattr(m.Product(name='y'), 'amount', 7), models.CHANGES[-1:])[1]", "store.STATEMENTS[-1:]", "sorted(m.Base.metadata.tables)", "m.Product.__mapper__.relationships.keys(), m.Category.__mapper__.relationships['products'].order_by",
)  # fmt: skip
STOCK_EDITS = edits_of(
    "stock",
    STOCK_M,
    [
        ("a hybrid's body", "return self.price * self.amount", "return self.price * self.amount * 2", STOCK_PROBES, {"edited": "stock.models"}),
        ("an expression of a hybrid", "    @hybrid_method\n", "    @value.inplace.expression\n    @classmethod\n    def _value_expression(cls):\n        return func.round(cls.price * cls.amount)\n    @hybrid_method\n", STOCK_PROBES, {"edited": "stock.models"}),
        ("an event's body", "CHANGES.append(value)", "CHANGES.append((old, value))", ("(setattr(m.Product(name='y'), 'amount', 7), str(models.CHANGES[-1])[-2:])[1]", *STOCK_PROBES[:4]), {"edited": "stock.models"}),
        ("an event less", "@event.listens_for(Base, 'init', propagate=True)\n", "", STOCK_PROBES, {"edited": "stock.models"}),
        ("a length of strings", "{str: String(50)}", "{str: String(80)}", STOCK_PROBES, {"edited": "stock.models"}),
        ("an order of products", "order_by='Product.name'", "order_by='Product.price'", STOCK_PROBES, {"edited": "stock.models"}),
        ("a default of a query", "limit=3", "limit=9", STOCK_PROBES, {"edited": "stock.store"}),
        ("a representation", "f'Product({self.name!r})'", "f'<Product {self.name}>'", STOCK_PROBES, {"edited": "stock.models"}),
    ],
    others=STOCK,
    needs=("sqlalchemy",),
    hold="store.fill()",
)  # fmt: skip

REPO_M = """\
from repo.cli import cli
"""
REPO = {
    "repo.__init__": "",
    "repo.core": """\
import click
class Repo:
    def __init__(self, home):
        self.home, self.config, self.verbose = home, {}, False
    def __repr__(self):
        return f'<Repo {self.home!r}>'
pass_repo = click.make_pass_decorator(Repo)
class AliasedGroup(click.Group):
    aliases = {'ci': 'commit'}
    def get_command(self, context, name):
        return super().get_command(context, self.aliases.get(name, name))
def validate_count(context, parameter, value):
    if value < 0:
        raise click.BadParameter('must be positive')
    return value
""",
    "repo.cli": """\
import click
from .core import AliasedGroup, Repo, pass_repo, validate_count
VERSION = '1.0'
CONTEXT = dict(help_option_names=['-h', '--help'], auto_envvar_prefix='REPO')
@click.group(cls=AliasedGroup, context_settings=CONTEXT)
@click.option('--repo-home', default='.repo', metavar='PATH', help='Changes the repository location.')
@click.option('--verbose', '-v', is_flag=True)
@click.version_option(VERSION)
@click.pass_context
def cli(ctx, repo_home, verbose):
    '''Repo is a command line tool.'''
    ctx.obj = Repo(repo_home)
    ctx.obj.verbose = verbose
@cli.command()
@click.argument('src')
@click.option('--rev', '-r', default='HEAD')
@pass_repo
def clone(repo, src, rev):
    '''Clones a repository.'''
    click.echo(f'Cloning {src} at {rev} into {repo.home}')
@cli.command()
@click.option('--message', '-m', multiple=True)
@click.option('--count', default=1, callback=validate_count)
@pass_repo
def commit(repo, message, count):
    click.echo('; '.join(message) * count or 'no message')
@cli.result_callback()
def done(result, **kwargs):
    click.echo('done')
""",
}
REPO_SETUP = """
def run(*words):
    from click.testing import CliRunner
    result = CliRunner().invoke(sys.modules['m'].cli, list(words))
    return result.exit_code, result.output
"""
REPO_PROBES = (
    "run('--help')", "run('-h')", "run('clone', 'x')", "run('clone', 'x', '-r', '1')", "run('clone', '--help')", "run('commit', '-m', 'a', '-m', 'b')", "run('ci')",
    "run('commit', '--count', '-1')", "run('commit', '--help')", "run('--version')", "run('--repo-home', 'h', 'clone', 'y')", "sorted(m.cli.commands)",
)  # fmt: skip
REPO_EDITS = edits_of(
    "repo",
    REPO_M,
    [
        ("an alias more", "{'ci': 'commit'}", "{'ci': 'commit', 'cl': 'clone'}", (*REPO_PROBES, "run('cl', 'x')"), {"edited": "repo.core"}),
        ("a help of an option of the group", "help='Changes the repository location.'", "help='Where the repository is.', show_default=True", REPO_PROBES, {"edited": "repo.cli"}),
        ("a version", "VERSION = '1.0'", "VERSION = '1.1'", REPO_PROBES, {"edited": "repo.cli"}),
        ("a default of an option", "default='HEAD'", "default='main'", REPO_PROBES, {"edited": "repo.cli"}),
        ("a command more at the end", "    click.echo('; '.join(message) * count or 'no message')\n", "    click.echo('; '.join(message) * count or 'no message')\n@cli.command(short_help='Deletes.')\n@click.confirmation_option()\n@pass_repo\ndef delete(repo):\n    click.echo(f'Destroying {repo.home}')\n", (*REPO_PROBES, "run('delete', '--yes')"), {"edited": "repo.cli"}),
        ("a callback's bound", "if value < 0", "if value < 1", (*REPO_PROBES, "run('commit', '--count', '0')"), {"edited": "repo.core"}),
    ],
    others=REPO,
    needs=("click", "click.testing"),
    setup=REPO_SETUP,
)  # fmt: skip

PROJ_M = """\
from proj.celery import app
from proj.tasks import add, mul, report
"""
PROJ = {
    "proj.__init__": "",
    "proj.celeryconfig": """\
broker_url = 'memory://'
result_backend = 'cache+memory://'
task_always_eager = True
task_serializer = 'json'
timezone = 'Europe/Oslo'
task_routes = {'proj.tasks.mul': {'queue': 'math'}}
task_annotations = {'proj.tasks.add': {'rate_limit': '10/m'}}
""",
    "proj.celery": """\
from celery import Celery
from celery.schedules import crontab
from celery.signals import task_prerun
app = Celery('proj')
app.config_from_object('proj.celeryconfig')
app.conf.beat_schedule = {
    'every-morning': {'task': 'proj.tasks.add', 'schedule': crontab(hour=7, minute=30), 'args': (16, 16)},
}
RUNS = []
@task_prerun.connect
def log_run(task=None, **kwargs):
    RUNS.append(task.name)
""",
    "proj.tasks": """\
from celery import Task, chain, group
from .celery import app
class BaseTask(Task):
    abstract = True
    retries_allowed = 2
    def on_failure(self, exc, task_id, args, kwargs, einfo):
        FAILED.append(str(exc))
FAILED = []
@app.task
def add(x, y):
    return x + y
@app.task(bind=True, base=BaseTask, autoretry_for=(), max_retries=5)
def mul(self, x, y=2):
    return x * y * self.retries_allowed
@app.task(name='proj.report', ignore_result=True)
def report(rows=3):
    return 'rows: %d' % rows
def workflow():
    return chain(add.s(1, 2), mul.s(3))
""",
}
PROJ_PROBES = (
    "m.add.delay(1, 2).get(), m.mul.delay(3).get(), m.report()", "tasks.workflow()().get(), celery.RUNS[-1:]", "m.add.rate_limit, m.mul.rate_limit, m.mul.max_retries", "m.app.conf.timezone, m.app.conf.task_routes",
    "m.app.conf.beat_schedule", "sorted(n for n in m.app.tasks if n.startswith('proj'))", "m.mul.retries_allowed, m.report.ignore_result", "m.app.amqp.router.route({}, 'proj.tasks.mul')['queue'].name",
    "str(tasks.workflow())", "[f.__name__ for f in [r() if hasattr(r, '__call__') and not hasattr(r, '__name__') else r for _, r in celery.task_prerun.receivers]]",
)  # fmt: skip
PROJ_EDITS = edits_of(
    "proj",
    PROJ_M,
    [
        ("a rate limit", "'rate_limit': '10/m'", "'rate_limit': '20/m'", PROJ_PROBES, {"edited": "proj.celeryconfig"}),
        ("a time zone", "'Europe/Oslo'", "'Europe/Paris'", PROJ_PROBES, {"edited": "proj.celeryconfig"}),
        ("a time of a schedule", "hour=7", "hour=8", PROJ_PROBES, {"edited": "proj.celery"}),
        ("an attribute of a base task", "retries_allowed = 2", "retries_allowed = 3", PROJ_PROBES, {"edited": "proj.tasks"}),
        ("a default of a task", "y=2", "y=4", PROJ_PROBES, {"edited": "proj.tasks"}),
        ("a task more with a name", "@app.task(name='proj.report'", "@app.task(name='proj.clean')\ndef clean():\n    return 'clean'\n@app.task(name='proj.report'", PROJ_PROBES, {"edited": "proj.tasks"}),
        ("a route of a task", "{'queue': 'math'}", "{'queue': 'numbers'}", PROJ_PROBES, {"edited": "proj.celeryconfig"}),
    ],
    others=PROJ,
    needs=("celery", "kombu"),
)  # fmt: skip

MISC_M = """\
import argparse
import logging
import logging.config
from tools import plugin, records, settings
LOGGING = {
    'version': 1, 'disable_existing_loggers': False,
    'formatters': {'plain': {'format': '%(levelname)s %(message)s'}},
    'handlers': {'memory': {'class': 'tools.records.ListHandler', 'formatter': 'plain'}},
    'loggers': {'tools': {'handlers': ['memory'], 'level': 'INFO', 'propagate': False}},
}
logging.config.dictConfig(LOGGING)
log = logging.getLogger('tools')
def build_parser():
    parser = argparse.ArgumentParser(prog='tools', description='Count things.')
    parser.add_argument('--limit', type=int, default=settings.conf.limit)
    commands = parser.add_subparsers(dest='command')
    run = commands.add_parser('run', help='run it')
    run.add_argument('names', nargs='*')
    run.set_defaults(act=run_command)
    return parser
def run_command(given):
    return [records.Item(name).label() for name in given.names[:given.limit]]
PARSER = build_parser()
def main(*words):
    given = PARSER.parse_args(words)
    return given.act(given)
"""
MISC = {
    "tools.__init__": "",
    "tools.records": """\
import logging
from dataclasses import dataclass, field
import attrs
LINES = []
class ListHandler(logging.Handler):
    def emit(self, record):
        LINES.append(self.format(record))
@dataclass(order=True)
class Item:
    name: str
    amount: int = 1
    tags: list[str] = field(default_factory=list, compare=False)
    def __post_init__(self):
        self.name = self.name.strip()
    def label(self):
        return f'{self.name} x{self.amount}'
@attrs.define
class Box:
    width: int = attrs.field(default=1, validator=attrs.validators.gt(0))
    items: list = attrs.field(factory=list)
    @property
    def size(self):
        return self.width * len(self.items)
""",
    "tools.settings": """\
from typing import Annotated, Literal
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, computed_field, field_serializer, field_validator
def lower(value):
    return value.lower()
class Database(BaseModel):
    host: str = 'localhost'
    port: int = Field(5432, ge=1, le=65535)
    @computed_field
    @property
    def url(self) -> str:
        return f'postgres://{self.host}:{self.port}'
class Conf(BaseModel):
    model_config = ConfigDict(frozen=True)
    level: Literal['debug', 'info'] = 'info'
    limit: int = 2
    name: Annotated[str, AfterValidator(lower)] = 'Tools'
    database: Database = Database()
    @field_validator('limit', mode='before')
    @classmethod
    def to_number(cls, value):
        return 10 if value == 'many' else value
    @field_serializer('name')
    def show(self, value):
        return f'<{value}>'
conf = Conf(name='TOOLS')
""",
    "tools.plugin": """\
import pluggy
spec = pluggy.HookspecMarker('tools')
impl = pluggy.HookimplMarker('tools')
class Specs:
    @spec
    def add(self, number):
        'Add to a number.'
    @spec(firstresult=True)
    def pick(self, names):
        'Pick a name.'
class Basic:
    @impl
    def add(self, number):
        return number + 1
    @impl(trylast=True)
    def pick(self, names):
        return names[0]
class Extra:
    @impl(tryfirst=True)
    def add(self, number):
        return number * 10
manager = pluggy.PluginManager('tools')
manager.add_hookspecs(Specs)
manager.register(Basic(), 'basic')
manager.register(Extra(), 'extra')
""",
}
MISC_PROBES = (
    "m.main('run', 'a', ' b', 'c')", "m.main('--limit', '1', 'run', 'a', 'b')", "m.PARSER.format_help()", "(m.log.info('hello'), records.LINES[-1:])[1]", "(m.log.debug('deep'), records.LINES[-1:])[1]",
    "records.Item(' a'), records.Item('a') < records.Item('b', 2), records.Item('a').label()", "records.Box(2, [1]).size, repr(records.Box())", "[raised(records.Box, -1), raised(records.Box, 0)]", "settings.conf.model_dump()",
    "settings.Conf(limit='many', name='ABC').model_dump(), settings.Conf.model_json_schema()", "raised(settings.Conf, level='error'), raised(settings.Database, port=0), raised(settings.Conf, limit='x')", "plugin.manager.hook.add(number=2), plugin.manager.hook.pick(names=['a', 'b'])",
    "[name for name, _ in plugin.manager.list_name_plugin()]", "len(m.log.handlers), m.log.level, m.log.handlers[0].formatter._fmt",
)  # fmt: skip
MISC_SETUP = """
def raised(call, *words, **named):
    try:
        call(*words, **named)
    except Exception as error:
        return type(error).__name__
"""
MISC_EDITS = edits_of(
    "tools",
    MISC_M,
    [
        ("a format of a log", "'%(levelname)s %(message)s'", "'[%(levelname)s] %(message)s'", MISC_PROBES),
        ("a level of a log", "'level': 'INFO'", "'level': 'DEBUG'", MISC_PROBES),
        ("an argument of a parser", "    commands = parser", "    parser.add_argument('--quiet', action='store_true')\n    commands = parser", MISC_PROBES),
        ("a command of a parser", "    return parser\n", "    show = commands.add_parser('show')\n    show.set_defaults(act=lambda given: 'shown')\n    return parser\n", (*MISC_PROBES, "m.main('show')")),
        ("a limit of the settings", "limit: int = 2", "limit: int = 3", MISC_PROBES, {"edited": "tools.settings"}),
        ("a validator more", "    @field_serializer('name')", "    @field_validator('limit')\n    @classmethod\n    def not_large(cls, value):\n        if value > 5:\n            raise ValueError('large')\n        return value\n    @field_serializer('name')", MISC_PROBES, {"edited": "tools.settings"}),
        ("a bound of a field", "ge=1, le=65535", "ge=1024, le=65535", (*MISC_PROBES, "raised(settings.Database, port=80)"), {"edited": "tools.settings"}),
        ("a literal more", "Literal['debug', 'info']", "Literal['debug', 'info', 'error']", MISC_PROBES, {"edited": "tools.settings"}),
        ("a validator function", "return value.lower()", "return value.lower().strip('s')", MISC_PROBES, {"edited": "tools.settings"}),
        ("a field of a record", "    amount: int = 1\n", "    amount: int = 1\n    unit: str = 'pc'\n", MISC_PROBES, {"edited": "tools.records"}),
        ("a validator of a box", "attrs.validators.gt(0)", "attrs.validators.ge(0)", MISC_PROBES, {"edited": "tools.records"}),
        ("a plugin's order", "@impl(tryfirst=True)", "@impl(trylast=True)", MISC_PROBES, {"edited": "tools.plugin"}),
        ("a plugin more", "manager.register(Extra(), 'extra')", "class Last:\n    @impl\n    def add(self, number):\n        return -number\nmanager.register(Extra(), 'extra')\nmanager.register(Last(), 'last')", MISC_PROBES, {"edited": "tools.plugin"}),
        ("a plugin's body", "return number + 1", "return number + 2", MISC_PROBES, {"edited": "tools.plugin"}),
    ],
    others=MISC,
    needs=("pydantic", "attrs", "pluggy"),
    setup=MISC_SETUP,
)  # fmt: skip
ALL = with_expected(
    [*BLOG_EDITS, *BOOKING_EDITS, *POLLS_EDITS, *STOCK_EDITS, *REPO_EDITS, *PROJ_EDITS, *MISC_EDITS],
    reported=[
        "polls: a detail view",
        "polls: a status more",
        "stock: an expression of a hybrid",
        "stock: an event less",
        "stock: a length of strings",
        "stock: an order of products",
    ],
)
