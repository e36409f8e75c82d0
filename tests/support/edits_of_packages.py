"""Edits of packages in the style of public projects: clients, plugins, configuration, web services and tools."""

from edit_cases import edits_of, with_expected

HTTP_M = """\
import hx
from hx import Client, Headers, Timeout, codes
from hx import get as fetch
DEFAULT = Client()
SHORT = Client(timeout=Timeout(1.0, read=2.0))
"""
HTTP = {
    "hx.__init__": """\
from .__version__ import __title__, __version__
from ._api import *
from ._client import *
from ._config import *
from ._exceptions import *
from ._headers import *
from ._status_codes import *
__all__ = [
    '__title__', '__version__', 'Client', 'Headers', 'HTTPError', 'Limits', 'NotFound', 'Request', 'Response',
    'Timeout', 'codes', 'get', 'post',
]
__locals = locals()
for __name in __all__:
    if not __name.startswith('__'):
        try:
            setattr(__locals[__name], '__module__', 'hx')
        except (AttributeError, TypeError):
            pass
""",
    "hx.__version__": "__title__ = 'hx'\n__version__ = '0.27.0'\n",
    "hx._config": """\
from __future__ import annotations
import typing
__all__ = ['Limits', 'Timeout']
class UnsetType:
    pass
UNSET = UnsetType()
class Timeout:
    def __init__(self, timeout: float | None | UnsetType = UNSET, *, connect=UNSET, read=UNSET) -> None:
        self.connect = timeout if isinstance(connect, UnsetType) else connect
        self.read = timeout if isinstance(read, UnsetType) else read
    def as_dict(self) -> dict[str, float | None]:
        return {'connect': self.connect, 'read': self.read}
    def __eq__(self, other: typing.Any) -> bool:
        return isinstance(other, self.__class__) and self.as_dict() == other.as_dict()
    def __repr__(self) -> str:
        return f'{self.__class__.__name__}(connect={self.connect}, read={self.read})'
class Limits(typing.NamedTuple):
    max_connections: int | None = None
    keepalive_expiry: float | None = 5.0
DEFAULT_TIMEOUT_CONFIG = Timeout(5.0)
DEFAULT_LIMITS = Limits(max_connections=100)
DEFAULT_MAX_REDIRECTS = 20
""",
    "hx._status_codes": """\
from __future__ import annotations
from enum import IntEnum
__all__ = ['codes']
class codes(IntEnum):
    def __new__(cls, value: int, phrase: str = '') -> codes:
        obj = int.__new__(cls, value)
        obj._value_ = value
        obj.phrase = phrase
        return obj
    def __str__(self) -> str:
        return str(self.value)
    @classmethod
    def get_reason_phrase(cls, value: int) -> str:
        try:
            return codes(value).phrase
        except ValueError:
            return ''
    @classmethod
    def is_error(cls, value: int) -> bool:
        return 400 <= value <= 599
    OK = 200, 'OK'
    CREATED = 201, 'Created'
    NOT_FOUND = 404, 'Not Found'
    IM_A_TEAPOT = 418, "I'm a teapot"
for code in codes:
    setattr(codes, code._name_.lower(), int(code))
""",
    "hx._exceptions": """\
from __future__ import annotations
__all__ = ['HTTPError', 'NotFound']
class HTTPError(Exception):
    status = 500
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self._request = None
    @property
    def request(self):
        if self._request is None:
            raise RuntimeError('no request')
        return self._request
class NotFound(HTTPError):
    status = 404
HTTP_EXC_MAP = {error.status: error for error in (HTTPError, NotFound)}
""",
    "hx._headers": """\
from __future__ import annotations
import re
import typing
from collections.abc import MutableMapping
__all__ = ['Headers']
SENSITIVE_HEADERS = {'authorization'}
_TOKEN = re.compile(r'^[a-z-]+$')
def obfuscate(items: typing.Iterable) -> typing.Iterator:
    for k, v in items:
        if k.lower() in SENSITIVE_HEADERS:
            v = '[secure]'
        yield k, v
class Headers(MutableMapping):
    def __init__(self, headers=None, encoding: str = 'ascii') -> None:
        self._store = {normalize(k): str(v) for k, v in dict(headers or {}).items()}
        self.encoding = encoding
    def __getitem__(self, key: str) -> str:
        return self._store[normalize(key)]
    def __setitem__(self, key: str, value: str) -> None:
        self._store[normalize(key)] = value
    def __delitem__(self, key: str) -> None:
        del self._store[normalize(key)]
    def __iter__(self):
        return iter(self._store)
    def __len__(self):
        return len(self._store)
    def __repr__(self) -> str:
        return f'Headers({dict(obfuscate(self._store.items()))!r})'
def normalize(key: str) -> str:
    if not _TOKEN.match(key.lower()):
        raise ValueError(key)
    return key.lower()
""",
    "hx._client": """\
from __future__ import annotations
import contextlib
import functools
from . import _decoders
from .__version__ import __version__
from ._config import DEFAULT_LIMITS, DEFAULT_MAX_REDIRECTS, DEFAULT_TIMEOUT_CONFIG, Limits, Timeout
from ._decoders import SUPPORTED_DECODERS
from ._exceptions import HTTP_EXC_MAP, HTTPError
from ._headers import Headers
from ._status_codes import codes
__all__ = ['Client', 'Request', 'Response']
USER_AGENT = f'python-hx/{__version__}'
ACCEPT_ENCODING = ', '.join([key for key in SUPPORTED_DECODERS if key != 'identity'])
class Request:
    def __init__(self, method: str, url: str, headers=None) -> None:
        self.method, self.url, self.headers = method.upper(), url, Headers(headers)
    def __repr__(self) -> str:
        return f'<Request({self.method!r}, {self.url!r})>'
class Response:
    def __init__(self, status_code: int, *, headers=None, request=None) -> None:
        self.status_code, self.headers, self.request = status_code, Headers(headers), request
    @functools.cached_property
    def reason_phrase(self) -> str:
        return codes.get_reason_phrase(self.status_code)
    @property
    def is_error(self) -> bool:
        return codes.is_error(self.status_code)
    def raise_for_status(self) -> Response:
        if not self.is_error:
            return self
        raise HTTP_EXC_MAP.get(self.status_code, HTTPError)(f'{self.status_code} {self.reason_phrase}')
class Client:
    _headers = {'Accept': '*/*', 'Accept-Encoding': ACCEPT_ENCODING, 'User-Agent': USER_AGENT}
    def __init__(self, *, timeout=DEFAULT_TIMEOUT_CONFIG, limits: Limits = DEFAULT_LIMITS, max_redirects=DEFAULT_MAX_REDIRECTS):
        self.timeout, self.limits, self.max_redirects = timeout, limits, max_redirects
        self.headers = Headers(self._headers)
    def build_request(self, method: str, url: str) -> Request:
        return Request(method, url, self.headers)
    def send(self, request: Request) -> Response:
        return Response(404 if 'missing' in request.url else codes.OK, request=request)
    def request(self, method: str, url: str) -> Response:
        return self.send(self.build_request(method, url))
    get = functools.partialmethod(request, 'GET')
    post = functools.partialmethod(request, 'POST')
    @contextlib.contextmanager
    def stream(self, method: str, url: str):
        yield self.request(method, url)
""",
    "hx._decoders": """\
import zlib
try:
    import brotlicffi as brotli
except ImportError:
    brotli = None
class ContentDecoder:
    def decode(self, data: bytes) -> bytes:
        raise NotImplementedError()
class IdentityDecoder(ContentDecoder):
    def decode(self, data):
        return data
class DeflateDecoder(ContentDecoder):
    level = 6
    def decode(self, data):
        return zlib.decompress(data)
class BrotliDecoder(ContentDecoder):
    pass
SUPPORTED_DECODERS = {
    'identity': IdentityDecoder,
    'deflate': DeflateDecoder,
    'br': BrotliDecoder,
}
if brotli is None:
    SUPPORTED_DECODERS.pop('br')
""",
    "hx._api": """\
from ._client import Client
from ._config import DEFAULT_TIMEOUT_CONFIG
__all__ = ['get', 'post', 'request']
def request(method, url, *, timeout=DEFAULT_TIMEOUT_CONFIG, **options):
    return Client(timeout=timeout, **options).request(method, url)
def get(url, **options):
    return request('GET', url, **options)
def post(url, **options):
    return request('POST', url, **options)
""",
}
HTTP_PROBES = (
    "m.hx.__version__, m.hx.__title__, sorted(m.hx.__all__)", "_client.USER_AGENT, _client.ACCEPT_ENCODING", "dict(m.Client().headers)", "m.Client().timeout, m.Client().limits, m.Client().max_redirects",
    "m.Timeout(3).as_dict(), repr(m.Timeout(None, read=1)), m.Timeout(5.0) == _config.DEFAULT_TIMEOUT_CONFIG", "list(m.codes), [c.phrase for c in m.codes], m.codes.ok, m.codes.not_found, str(m.codes.OK)",
    "m.fetch('http://a').status_code, m.fetch('http://a').reason_phrase, m.fetch('http://a/missing').is_error", "raised(m.fetch('http://a/missing').raise_for_status)",
    "sorted((k, v.__name__) for k, v in _exceptions.HTTP_EXC_MAP.items())", "repr(m.Headers({'Authorization': 'x', 'A-B': 1}))", "raised(m.Headers, {'a b': 1}), raised(m.Headers, {'a_b': 1})", "sorted(_decoders.SUPPORTED_DECODERS)",
    "m.Client().get('http://a').request, m.Client().post('http://a').request", "m.Client.__module__, m.Timeout.__module__, m.hx.Request.__module__", "m.DEFAULT.headers['user-agent'], m.DEFAULT.timeout, m.SHORT.timeout, m.DEFAULT.limits",
    "_api.request.__kwdefaults__, _config.Limits()", "_decoders.DeflateDecoder.level, raised(_decoders.ContentDecoder().decode, b'')", "[vars(hx)[n] is vars(m).get(n, vars(hx)[n]) for n in ('Client', 'Headers', 'Timeout', 'codes')]",
)  # fmt: skip
RAISED = """
def raised(call, *words, **named):
    try:
        return call(*words, **named)
    except BaseException as error:
        return type(error).__name__, str(error)
"""
HTTP_EDITS = edits_of(
    "hx",
    HTTP_M,
    [
        ("a version", "'0.27.0'", "'0.28.0'", HTTP_PROBES, {"edited": "hx.__version__"}),
        ("a default timeout", "Timeout(5.0)", "Timeout(10.0)", HTTP_PROBES, {"edited": "hx._config"}),
        ("a timeout more", "connect=UNSET, read=UNSET) -> None:\n", "connect=UNSET, read=UNSET, pool=UNSET) -> None:\n        self.pool = timeout if isinstance(pool, UnsetType) else pool\n", (*HTTP_PROBES, "m.Timeout(3).pool, m.SHORT.pool"), {"edited": "hx._config", "more": (("hx._config", "return {'connect': self.connect, 'read': self.read}", "return {'connect': self.connect, 'read': self.read, 'pool': self.pool}"),)}),
        ("a limit", "max_connections=100", "max_connections=50", HTTP_PROBES, {"edited": "hx._config"}),
        ("a field of a named tuple", "    keepalive_expiry: float | None = 5.0\n", "    keepalive_expiry: float | None = 5.0\n    max_keepalive: int | None = 20\n", HTTP_PROBES, {"edited": "hx._config"}),
        ("a status code", "    NOT_FOUND = 404, 'Not Found'\n", "    ACCEPTED = 202, 'Accepted'\n    NOT_FOUND = 404, 'Not Found'\n", (*HTTP_PROBES, "m.codes.accepted"), {"edited": "hx._status_codes"}),
        ("a phrase", "\"I'm a teapot\"", '"I am a teapot"', HTTP_PROBES, {"edited": "hx._status_codes"}),
        ("a predicate of codes", "        return 400 <= value <= 599", "        return 400 <= value < 600\n    @classmethod\n    def is_success(cls, value: int) -> bool:\n        return 200 <= value <= 299", (*HTTP_PROBES, "m.codes.is_success(204)"), {"edited": "hx._status_codes"}),
        ("an exception more", "HTTP_EXC_MAP = {error.status: error for error in (HTTPError, NotFound)}", "class Teapot(HTTPError):\n    status = 418\nHTTP_EXC_MAP = {error.status: error for error in (HTTPError, NotFound, Teapot)}", (*HTTP_PROBES, "_client.HTTP_EXC_MAP is _exceptions.HTTP_EXC_MAP, hx.Teapot.__module__"), {"edited": "hx._exceptions", "more": (("hx._exceptions", "__all__ = ['HTTPError', 'NotFound']", "__all__ = ['HTTPError', 'NotFound', 'Teapot']"),)}),
        ("a base of an exception", "class HTTPError(Exception):", "class HTTPError(OSError):", (*HTTP_PROBES, "issubclass(m.hx.NotFound, OSError)"), {"edited": "hx._exceptions"}),
        ("a sensitive header", "{'authorization'}", "{'authorization', 'a-b'}", HTTP_PROBES, {"edited": "hx._headers"}),
        ("a pattern", "r'^[a-z-]+$'", "r'^[a-z_-]+$'", HTTP_PROBES, {"edited": "hx._headers"}),
        ("a decoder more", "    'br': BrotliDecoder,\n", "    'br': BrotliDecoder,\n    'zstd': ContentDecoder,\n", HTTP_PROBES, {"edited": "hx._decoders"}),
        ("no removal of a decoder", "if brotli is None:\n    SUPPORTED_DECODERS.pop('br')\n", "", HTTP_PROBES, {"edited": "hx._decoders"}),
        ("a method by partial more", "    get = functools", "    head = functools.partialmethod(request, 'HEAD')\n    get = functools", (*HTTP_PROBES, "m.Client().head('http://a').request"), {"edited": "hx._client"}),
        ("a function renamed and exported", "def post(url", "def send_post(url", (*HTTP_PROBES, "hasattr(m.hx, 'post')"), {"edited": "hx._api", "more": (("hx._api", "'get', 'post',", "'get', 'send_post',"), ("hx.__init__", "'get', 'post',", "'get', 'send_post',"))}),
        ("a class moved to another module", "class UnsetType:\n    pass\nUNSET = UnsetType()\n", "from ._types import UNSET, UnsetType\n", (*HTTP_PROBES, "type(_config.UNSET) is _config.UnsetType, _config.UnsetType.__module__"), {"edited": "hx._config", "more": (("hx._types", "", "class UnsetType:\n    pass\nUNSET = UnsetType()\n"),)}),
        ("a cached property made a property", "@functools.cached_property", "@property", HTTP_PROBES, {"edited": "hx._client"}),
        ("a property of a response more", "    @property\n    def is_error", "    @property\n    def is_success(self) -> bool:\n        return not self.is_error\n    @property\n    def is_error", (*HTTP_PROBES, "m.fetch('http://a').is_success"), {"edited": "hx._client"}),
    ],
    others=HTTP,
    setup=RAISED,
)  # fmt: skip

PLUG_M = """\
from hp.cli import parser, main
from hp.manager import manager
from hp import plugins
from hp.options import Options
"""
PLUG = {
    "hp.__init__": """\
import importlib
_LAZY = {'Formatter': 'hp.base', 'Options': 'hp.options'}
def __getattr__(name):
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(name)
def __dir__():
    return sorted(_LAZY)
""",
    "hp.base": """\
import abc
class PluginMeta(abc.ABCMeta):
    registry = {}
    def __new__(mcls, name, bases, space, **words):
        cls = super().__new__(mcls, name, bases, space, **words)
        if 'name' in space:
            mcls.registry[space['name']] = cls
        return cls
class BasePlugin(metaclass=PluginMeta):
    priority = 10
    description = None
    def __init_subclass__(cls, group='none', **words):
        super().__init_subclass__(**words)
        cls.group = group
        cls.title = (cls.__doc__ or cls.__name__).strip().splitlines()[0]
class Formatter(BasePlugin):
    @abc.abstractmethod
    def format(self, text): ...
    def __call__(self, text):
        return self.format(text)
class Auth(BasePlugin, group='auth'):
    auth_type = None
    netrc_parse = False
    def get_auth(self, user, password='x'):
        raise NotImplementedError()
""",
    "hp.options": """\
class Option:
    def __init__(self, default, *, cast=None):
        self.default, self.cast = default, cast or type(default)
    def __set_name__(self, owner, name):
        self.name = name
        owner.fields = {**getattr(owner, 'fields', {}), name: self}
    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        return instance.__dict__.get(self.name, self.default)
    def __set__(self, instance, value):
        instance.__dict__[self.name] = self.cast(value)
class Options:
    indent = Option(4)
    sort_keys = Option(True, cast=bool)
    color = Option('auto')
    def __init__(self, **given):
        for name, value in given.items():
            setattr(self, name, value)
    def as_dict(self):
        return {name: getattr(self, name) for name in self.fields}
class QuietOptions(Options):
    verbose = Option(0)
""",
    "hp.plugins": """\
import json
from .base import Auth, Formatter
from .options import Options
class JSONFormatter(Formatter, group='format'):
    '''Formats JSON.

    With the indentation of the options.
    '''
    name = 'json'
    priority = 1
    def __init__(self, options=None):
        self.options = options or Options()
    def format(self, text):
        return json.dumps(json.loads(text), indent=self.options.indent, sort_keys=self.options.sort_keys)
class UpperFormatter(Formatter, group='format'):
    name = 'upper'
    def format(self, text):
        return text.upper()
class BasicAuth(Auth, group='auth'):
    '''Basic HTTP auth.'''
    name = 'basic'
    auth_type = 'basic'
    def get_auth(self, user, password='x'):
        return f'Basic {user}:{password}'
""",
    "hp.manager": """\
from itertools import groupby
from operator import attrgetter
from .base import Auth, BasePlugin, Formatter
from .plugins import BasicAuth, JSONFormatter, UpperFormatter
ENTRY_POINT_CLASSES = {'hp.auth.v1': Auth, 'hp.format.v1': Formatter}
ENTRY_POINT_NAMES = list(ENTRY_POINT_CLASSES.keys())
class PluginManager(list):
    def register(self, *plugins):
        for plugin in plugins:
            self.append(plugin)
    def filter(self, by_type=BasePlugin):
        return [plugin for plugin in self if issubclass(plugin, by_type)]
    def get_formatters(self):
        return sorted(self.filter(Formatter), key=attrgetter('priority'))
    def grouped(self):
        return {name: list(group) for name, group in groupby(self, key=attrgetter('group'))}
    def get_auth_plugin_mapping(self):
        return {plugin.auth_type: plugin for plugin in self.filter(Auth)}
manager = PluginManager()
manager.register(
    BasicAuth,
    JSONFormatter,
    UpperFormatter,
)
""",
    "hp.cli": """\
import argparse
from textwrap import dedent
from .manager import manager
from .options import Options
EPILOG = 'See https://hp.example for more.'
class AuthAction(argparse.Action):
    def __call__(self, parser, namespace, value, option_string=None):
        setattr(namespace, self.dest, tuple(value.split(':', 1)))
def positive(text):
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f'{text} is negative')
    return number
parser = argparse.ArgumentParser(prog='hp', description=dedent('Format a text.'), epilog=EPILOG)
parser.add_argument('text', nargs='?', default='{}')
output = parser.add_argument_group('output')
output.add_argument('--format', choices=[plugin.name for plugin in manager.get_formatters()], default='json', help='Formatter.')
output.add_argument('--indent', type=positive, default=Options.indent.default)
authentication = parser.add_argument_group('authentication')
authentication.add_argument('--auth', '-a', action=AuthAction, metavar='USER[:PASS]')
authentication.add_argument('--auth-type', choices=sorted(manager.get_auth_plugin_mapping()), default='basic')
def main(*words):
    given = parser.parse_args(words)
    text = given.text
    for plugin in manager.get_formatters():
        if plugin.name == given.format:
            text = (plugin(Options(indent=given.indent)) if plugin.name == 'json' else plugin())(text)
    if given.auth:
        text += ' ' + manager.get_auth_plugin_mapping()[given.auth_type]().get_auth(*given.auth)
    return text
""",
}
PLUG_PROBES = (
    "m.main('{\"b\": 1, \"a\": 2}')", "m.main('{\"b\": 1}', '--format', 'upper', '-a', 'me:pw')", "m.parser.format_help()", "[(p.__name__, p.group, p.title, p.priority) for p in m.manager]",
    "sorted((k, v.__name__) for k, v in base.PluginMeta.registry.items())", "m.manager.grouped().keys(), sorted(m.manager.get_auth_plugin_mapping())", "[p.name for p in m.manager.get_formatters()]", "raised(base.Formatter)",
    "m.Options().as_dict(), options.QuietOptions(verbose='2').as_dict()", "raised(m.Options, indent='x'), m.Options(indent='3').indent", "hp.Formatter is base.Formatter, hp.Options is options.Options, dir(hp)", "vars(m.parser.parse_args(['--auth', 'a:b']))",
    "raised(m.main, '--indent', '-1')", "manager.ENTRY_POINT_NAMES, [c.__name__ for c in manager.ENTRY_POINT_CLASSES.values()]", "issubclass(plugins.JSONFormatter, base.Formatter), [c.__name__ for c in plugins.BasicAuth.__mro__]", "cli.output.title, len(m.parser._actions)",
)  # fmt: skip
PLUG_EDITS = edits_of(
    "hp",
    PLUG_M,
    [
        ("a formatter more", "class BasicAuth", "class LowerFormatter(Formatter, group='format'):\n    name = 'lower'\n    priority = 5\n    def format(self, text):\n        return text.lower()\nclass BasicAuth", (*PLUG_PROBES, "m.main('ABC', '--format', 'lower')"), {"edited": "hp.plugins", "more": (("hp.manager", "    UpperFormatter,\n)", "    UpperFormatter,\n    LowerFormatter,\n)"), ("hp.manager", "JSONFormatter, UpperFormatter\n", "JSONFormatter, LowerFormatter, UpperFormatter\n"))}),
        ("a plugin less", "    UpperFormatter,\n)", ")", PLUG_PROBES, {"edited": "hp.manager"}),
        ("a name of a plugin", "name = 'upper'", "name = 'capital'", PLUG_PROBES, {"edited": "hp.plugins"}),
        ("a priority of a plugin", "priority = 1\n", "priority = 20\n", PLUG_PROBES, {"edited": "hp.plugins"}),
        ("a default priority", "priority = 10\n", "priority = 0\n", PLUG_PROBES, {"edited": "hp.base"}),
        ("a group by keyword", "class BasicAuth(Auth, group='auth')", "class BasicAuth(Auth, group='login')", PLUG_PROBES, {"edited": "hp.plugins"}),
        ("a docstring's first line", "Formats JSON.", "Formats JSON documents.", PLUG_PROBES, {"edited": "hp.plugins"}),
        ("a title in __init_subclass__", "cls.title = (cls.__doc__ or cls.__name__).strip().splitlines()[0]", "cls.title = (cls.__doc__ or cls.__name__).strip().splitlines()[0].rstrip('.')", PLUG_PROBES, {"edited": "hp.base"}),
        ("an abstract method more", "    def __call__(self, text):", "    @abc.abstractmethod\n    def close(self): ...\n    def __call__(self, text):", PLUG_PROBES, {"edited": "hp.base"}),
        ("a registry by lower case", "mcls.registry[space['name']] = cls", "mcls.registry[space['name'].upper()] = cls", PLUG_PROBES, {"edited": "hp.base"}),
        ("a default of an option", "indent = Option(4)", "indent = Option(2)", PLUG_PROBES, {"edited": "hp.options"}),
        ("an option more", "    color = Option('auto')\n", "    color = Option('auto')\n    width = Option(80)\n", PLUG_PROBES, {"edited": "hp.options"}),
        ("an option less", "    color = Option('auto')\n", "", PLUG_PROBES, {"edited": "hp.options"}),
        ("a cast of options", "cast or type(default)", "cast or (lambda value: type(default)(value))", PLUG_PROBES, {"edited": "hp.options"}),
        ("an epilog", "for more.", "for details.", PLUG_PROBES, {"edited": "hp.cli"}),
        ("an argument in a group", "output.add_argument('--indent'", "output.add_argument('--style', default='plain')\noutput.add_argument('--indent'", PLUG_PROBES, {"edited": "hp.cli"}),
        ("a help of an argument", "help='Formatter.'", "help='The formatter to use.'", PLUG_PROBES, {"edited": "hp.cli"}),
        ("a split of an action", "value.split(':', 1)", "value.rsplit(':', 1)", (*PLUG_PROBES, "m.main('a', '--format', 'upper', '-a', 'a:b:c')"), {"edited": "hp.cli"}),
        ("a lazy name", "'Options': 'hp.options'}", "'Options': 'hp.options', 'manager_of': 'hp.manager'}", PLUG_PROBES, {"edited": "hp.__init__"}),
        ("a key of formatters", "key=attrgetter('priority')", "key=attrgetter('name')", PLUG_PROBES, {"edited": "hp.manager"}),
    ],
    others=PLUG,
    setup=RAISED,
)  # fmt: skip

SHOP_M = """\
from backend.main import app
from backend.core.config import settings
from backend.models import Item, User
from backend import crud
"""
SHOP = {
    "backend.__init__": "",
    "backend.core.__init__": "",
    "backend.core.config": """\
from __future__ import annotations
from functools import lru_cache
from typing import Annotated, Any, Literal
from pydantic import AnyUrl, BaseModel, BeforeValidator, computed_field, model_validator
def parse_cors(v: Any) -> list[str] | str:
    if isinstance(v, str) and not v.startswith('['):
        return [i.strip() for i in v.split(',') if i.strip()]
    return v
class Settings(BaseModel):
    API_V1_STR: str = '/api/v1'
    PROJECT_NAME: str = 'Shop'
    ENVIRONMENT: Literal['local', 'production'] = 'local'
    ACCESS_TOKEN_EXPIRE_MINUTES: int = 60 * 24 * 8
    BACKEND_CORS_ORIGINS: Annotated[list[str] | str, BeforeValidator(parse_cors)] = []
    PAGE_SIZE: int = 100
    @computed_field
    @property
    def all_cors_origins(self) -> list[str]:
        return [str(origin).rstrip('/') for origin in self.BACKEND_CORS_ORIGINS]
    @model_validator(mode='after')
    def _check(self) -> Settings:
        if self.PAGE_SIZE > 1000:
            raise ValueError('too large')
        return self
@lru_cache
def get_settings() -> Settings:
    return Settings(BACKEND_CORS_ORIGINS='http://a/, http://b')
settings = get_settings()
""",
    "backend.core.db": """\
from sqlalchemy import MetaData, create_engine
from sqlalchemy.orm import DeclarativeBase, sessionmaker
from sqlalchemy.pool import StaticPool
NAMING = {'ix': 'ix_%(column_0_label)s', 'uq': 'uq_%(table_name)s_%(column_0_name)s', 'pk': 'pk_%(table_name)s'}
class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMING)
engine = create_engine('sqlite://', poolclass=StaticPool, connect_args={'check_same_thread': False})
SessionLocal = sessionmaker(engine, expire_on_commit=False)
""",
    "backend.models": """\
from __future__ import annotations
import enum
from typing import Annotated, Optional
from sqlalchemy import ForeignKey, String, UniqueConstraint, event, func, select
from sqlalchemy.orm import Mapped, column_property, mapped_column, relationship, validates
from .core.db import Base
intpk = Annotated[int, mapped_column(primary_key=True)]
str50 = Annotated[str, mapped_column(String(50))]
class Role(str, enum.Enum):
    ADMIN = 'admin'
    USER = 'user'
class TimestampMixin:
    created_by: Mapped[Optional[str]] = mapped_column(default='system')
class User(TimestampMixin, Base):
    __tablename__ = 'users'
    id: Mapped[intpk]
    email: Mapped[str50] = mapped_column(index=True)
    role: Mapped[Role] = mapped_column(default=Role.USER)
    items: Mapped[list[Item]] = relationship(back_populates='owner', cascade='all, delete-orphan', order_by='Item.id')
    @validates('email')
    def _normalize(self, key, value):
        return value.strip().lower()
    def __repr__(self) -> str:
        return f'<User {self.email}>'
class Item(TimestampMixin, Base):
    __tablename__ = 'items'
    __table_args__ = (UniqueConstraint('title'),)
    id: Mapped[intpk]
    title: Mapped[str50]
    price: Mapped[int] = mapped_column(default=1)
    owner_id: Mapped[Optional[int]] = mapped_column(ForeignKey('users.id'))
    owner: Mapped[Optional[User]] = relationship(back_populates='items')
    @property
    def label(self) -> str:
        return f'{self.title} at {self.price}'
LOG = []
@event.listens_for(Item, 'before_insert')
def log_insert(mapper, connection, target):
    LOG.append(target.title)
CHEAP = select(Item).where(Item.price < 10).order_by(Item.title)
""",
    "backend.schemas": """\
from __future__ import annotations
from typing import Generic, Optional, TypeVar
from pydantic import BaseModel, ConfigDict, EmailStr, Field, field_validator
from .models import Role
T = TypeVar('T')
TITLE_LENGTH = 50
class ItemBase(BaseModel):
    title: str = Field(min_length=1, max_length=TITLE_LENGTH)
    price: int = Field(default=1, ge=0)
class ItemCreate(ItemBase):
    @field_validator('title')
    @classmethod
    def strip(cls, value: str) -> str:
        return value.strip()
class ItemPublic(ItemBase):
    model_config = ConfigDict(from_attributes=True)
    id: int
    label: str
class UserPublic(BaseModel):
    model_config = ConfigDict(from_attributes=True)
    id: int
    email: str
    role: Role = Role.USER
    items: list[ItemPublic] = []
class Page(BaseModel, Generic[T]):
    data: list[T]
    count: int
class Message(BaseModel):
    detail: str
ItemsPublic = Page[ItemPublic]
""",
    "backend.crud": """\
from __future__ import annotations
from typing import Generic, TypeVar
from sqlalchemy import func, select
from .core.config import settings
from .models import Item, User
M = TypeVar('M')
class Repository(Generic[M]):
    model: type[M]
    order: str = 'id'
    def __init__(self, session) -> None:
        self.session = session
    def __init_subclass__(cls, **words) -> None:
        super().__init_subclass__(**words)
        REPOSITORIES[cls.model.__name__] = cls
    def list(self, limit: int = settings.PAGE_SIZE):
        return self.session.scalars(select(self.model).order_by(getattr(self.model, self.order)).limit(limit)).all()
    def add(self, **values):
        found = self.model(**values)
        self.session.add(found)
        self.session.commit()
        return found
    def count(self) -> int:
        return self.session.scalar(select(func.count()).select_from(self.model))
REPOSITORIES = {}
class ItemRepository(Repository[Item]):
    model = Item
    order = 'title'
class UserRepository(Repository[User]):
    model = User
""",
    "backend.deps": """\
from collections.abc import Generator
from typing import Annotated
from fastapi import Depends, Header, HTTPException, Query, status
from .core.db import SessionLocal
from .crud import ItemRepository
def get_db() -> Generator:
    with SessionLocal() as session:
        yield session
SessionDep = Annotated[object, Depends(get_db)]
def get_items(session: SessionDep) -> ItemRepository:
    return ItemRepository(session)
ItemsDep = Annotated[ItemRepository, Depends(get_items)]
class Paging:
    def __init__(self, skip: int = 0, limit: int = Query(default=20, le=100)):
        self.skip, self.limit = skip, limit
PagingDep = Annotated[Paging, Depends()]
def get_token(x_token: Annotated[str, Header()] = 'none') -> str:
    if x_token != 'secret':
        raise HTTPException(status_code=status.HTTP_403_FORBIDDEN, detail='Forbidden')
    return x_token
""",
    "backend.routes": """\
from fastapi import APIRouter, Depends, HTTPException
from .deps import ItemsDep, PagingDep, get_token
from .schemas import ItemCreate, ItemPublic, ItemsPublic, Message
router = APIRouter(prefix='/items', tags=['items'])
@router.get('/', response_model=ItemsPublic)
def read_items(items: ItemsDep, paging: PagingDep):
    return ItemsPublic(data=[ItemPublic.model_validate(i) for i in items.list(paging.limit)], count=items.count())
@router.post('/', response_model=ItemPublic, status_code=201, responses={409: {'model': Message}})
def create_item(*, items: ItemsDep, item_in: ItemCreate):
    if item_in.title == 'taken':
        raise HTTPException(409, 'taken')
    return items.add(**item_in.model_dump())
@router.delete('/{item_id}', dependencies=[Depends(get_token)])
def delete_item(item_id: int) -> Message:
    return Message(detail=f'deleted {item_id}')
utils = APIRouter(prefix='/utils', tags=['utils'])
@utils.get('/health-check/')
async def health_check() -> bool:
    return True
""",
    "backend.main": """\
from contextlib import asynccontextmanager
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.middleware.cors import CORSMiddleware
from .core.config import settings
from .core.db import Base, engine
from .routes import router, utils
def custom_id(route: APIRoute) -> str:
    return f'{route.tags[0]}-{route.name}'
@asynccontextmanager
async def lifespan(app):
    yield {'started': True}
Base.metadata.create_all(engine)
app = FastAPI(
    title=settings.PROJECT_NAME,
    openapi_url=f'{settings.API_V1_STR}/openapi.json',
    generate_unique_id_function=custom_id,
    lifespan=lifespan,
)
if settings.all_cors_origins:
    app.add_middleware(CORSMiddleware, allow_origins=settings.all_cors_origins, allow_methods=['*'])
app.include_router(router, prefix=settings.API_V1_STR)
app.include_router(utils, prefix=settings.API_V1_STR)
@app.exception_handler(ValueError)
async def value_error(request: Request, error: ValueError):
    return JSONResponse({'error': str(error)}, status_code=422)
""",
}
SHOP_SETUP = (
    RAISED
    + """
def call(app, method, path, **words):
    from starlette.testclient import TestClient
    found = TestClient(app, raise_server_exceptions=False).request(method, path, **words)
    try:
        return found.status_code, found.json()
    except ValueError:
        return found.status_code, found.text
def ddl(model):
    from sqlalchemy.schema import CreateTable
    return str(CreateTable(model.__table__)).split()
"""
)
SHOP_PROBES = (
    "call(m.app, 'GET', '/api/v1/items/')", "call(m.app, 'POST', '/api/v1/items/', json={'title': 'taken'})", "call(m.app, 'POST', '/api/v1/items/', json={'title': '', 'price': -1})", "call(m.app, 'DELETE', '/api/v1/items/3')",
    "call(m.app, 'DELETE', '/api/v1/items/3', headers={'x-token': 'secret'})", "call(m.app, 'GET', '/api/v1/utils/health-check/')", "m.app.openapi()", "m.settings.model_dump()",
    "ddl(m.Item)", "ddl(m.User)", "str(models.CHEAP).split()", "m.Item(title='a', price=2).label, repr(m.User(email=' A@B '))", "sorted(crud.REPOSITORIES), [r.model.__name__ for r in crud.REPOSITORIES.values()]",
    "schemas.ItemPublic.model_json_schema()", "schemas.ItemsPublic.model_json_schema()", "raised(schemas.ItemCreate, title=' x ')", "crud.Repository.list.__defaults__, crud.ItemRepository.order", "raised(config.Settings, PAGE_SIZE=2000)[0], config.get_settings() is m.settings",
    "[type(u).__name__ for u in m.app.user_middleware], m.app.title", "list(models.Role), [c.name for c in m.User.__table__.columns]", "(lambda s: ([s.add(m.Item(title='q')), s.flush(), models.LOG[-1:], s.rollback()][2]))(db.SessionLocal())", "call(m.app, 'GET', '/api/v1/openapi.json')[0]",
)  # fmt: skip
SHOP_EDITS = edits_of(
    "backend",
    SHOP_M,
    [
        ("a name of the project", "'Shop'", "'Web shop'", SHOP_PROBES, {"edited": "backend.core.config"}),
        ("a prefix of the API", "'/api/v1'", "'/api/v2'", (*SHOP_PROBES, "call(m.app, 'GET', '/api/v2/utils/health-check/')"), {"edited": "backend.core.config"}),
        ("a page size", "PAGE_SIZE: int = 100", "PAGE_SIZE: int = 50", SHOP_PROBES, {"edited": "backend.core.config"}),
        ("a setting more", "    PAGE_SIZE", "    SENTRY_DSN: str | None = None\n    PAGE_SIZE", SHOP_PROBES, {"edited": "backend.core.config"}),
        ("origins", "'http://a/, http://b'", "'http://a/, http://c'", SHOP_PROBES, {"edited": "backend.core.config"}),
        ("a literal of the environment", "Literal['local', 'production']", "Literal['local', 'staging', 'production']", (*SHOP_PROBES, "config.Settings(ENVIRONMENT='staging').ENVIRONMENT"), {"edited": "backend.core.config"}),
        ("a length of a column by annotation", "String(50)", "String(80)", SHOP_PROBES, {"edited": "backend.models"}),
        ("a column of a mixin", "default='system')\n", "default='system')\n    updated_by: Mapped[Optional[str]]\n", SHOP_PROBES, {"edited": "backend.models"}),
        ("a role more", "    USER = 'user'\n", "    USER = 'user'\n    GUEST = 'guest'\n", SHOP_PROBES, {"edited": "backend.models"}),
        ("a label of an item", "{self.title} at {self.price}", "{self.title} for {self.price}", (*SHOP_PROBES, "schemas.ItemPublic.model_validate(m.Item(id=1, title='a', price=2))"), {"edited": "backend.models"}),
        ("a validator of a column", "value.strip().lower()", "value.strip().casefold().replace('+x', '')", (*SHOP_PROBES, "m.User(email='A+X@b').email"), {"edited": "backend.models"}),
        ("a statement", "Item.price < 10", "Item.price < 20", SHOP_PROBES, {"edited": "backend.models"}),
        ("a listener's body", "LOG.append(target.title)", "LOG.append(target.label)", SHOP_PROBES, {"edited": "backend.models"}),
        ("a length of a field", "TITLE_LENGTH = 50", "TITLE_LENGTH = 80", SHOP_PROBES, {"edited": "backend.schemas"}),
        ("a field of a base schema", "    price: int = Field(default=1, ge=0)\n", "    price: int = Field(default=1, ge=0)\n    description: Optional[str] = None\n", SHOP_PROBES, {"edited": "backend.schemas"}),
        ("a field of a generic schema", "    count: int\nclass Message", "    count: int\n    total: int = 0\nclass Message", SHOP_PROBES, {"edited": "backend.schemas"}),
        ("a validator of a schema", "return value.strip()", "return value.strip().title()", SHOP_PROBES, {"edited": "backend.schemas"}),
        ("an order of a repository", "order = 'title'", "order = 'price'", SHOP_PROBES, {"edited": "backend.crud"}),
        ("a key of repositories", "cls.model.__name__]", "cls.model.__name__.lower()]", SHOP_PROBES, {"edited": "backend.crud"}),
        ("a limit of a query", "default=20, le=100", "default=25, le=200", SHOP_PROBES, {"edited": "backend.deps"}),
        ("a message of a dependency", "detail='Forbidden'", "detail='Wrong token'", SHOP_PROBES, {"edited": "backend.deps"}),
        ("a dependency of a route", "dependencies=[Depends(get_token)]", "dependencies=[]", SHOP_PROBES, {"edited": "backend.routes"}),
        ("a route more", "utils = APIRouter", "@router.get('/{item_id}')\ndef read_item(item_id: int) -> Message:\n    return Message(detail=f'item {item_id}')\nutils = APIRouter", (*SHOP_PROBES, "call(m.app, 'GET', '/api/v1/items/5')"), {"edited": "backend.routes"}),
        ("a status of a route", "status_code=201", "status_code=200", SHOP_PROBES, {"edited": "backend.routes"}),
        ("a tag of a router", "tags=['utils']", "tags=['tools']", SHOP_PROBES, {"edited": "backend.routes"}),
        ("an id of routes", "{route.tags[0]}-{route.name}", "{route.tags[0]}_{route.name}", SHOP_PROBES, {"edited": "backend.main"}),
        ("a handler more", "@app.exception_handler(ValueError)", "@app.exception_handler(KeyError)\nasync def key_error(request: Request, error: KeyError):\n    return JSONResponse({'error': 'key'}, status_code=404)\n@app.exception_handler(ValueError)", (*SHOP_PROBES, "sorted(k.__name__ for k in m.app.exception_handlers if isinstance(k, type))"), {"edited": "backend.main"}),
        ("a router moved under a condition", "app.include_router(utils, prefix=settings.API_V1_STR)\n", "if settings.ENVIRONMENT == 'production':\n    app.include_router(utils, prefix=settings.API_V1_STR)\n", SHOP_PROBES, {"edited": "backend.main"}),
    ],
    others=SHOP,
    needs=("fastapi", "pydantic", "sqlalchemy", "httpx2"),
    setup=SHOP_SETUP,
)  # fmt: skip

CORE_M = """\
from bus.app import container, handle, machine
from bus.events import OrderPlaced, OrderShipped, bus
from bus import logs
from bus.context import current_user, request_id
ORDER = machine.Order(7)
"""
CORE = {
    "bus.__init__": "from .events import bus as default_bus\n",
    "bus.context": """\
from __future__ import annotations
import contextlib
from contextvars import ContextVar
request_id: ContextVar[str] = ContextVar('request_id', default='-')
current_user: ContextVar[str | None] = ContextVar('current_user', default=None)
@contextlib.contextmanager
def use_request(name):
    token = request_id.set(name)
    try:
        yield name
    finally:
        request_id.reset(token)
class LocalProxy:
    def __init__(self, var):
        self._var = var
    def __getattr__(self, name):
        return getattr(self._var.get(), name)
user = LocalProxy(current_user)
""",
    "bus.events": """\
from __future__ import annotations
import dataclasses
import inspect
from collections import defaultdict
from typing import Callable, ClassVar, Protocol, get_type_hints, runtime_checkable
from .context import request_id
@dataclasses.dataclass(frozen=True, kw_only=True)
class Event:
    version: ClassVar[int] = 1
    source: str = 'shop'
    def payload(self) -> dict:
        return {**dataclasses.asdict(self), 'type': type(self).__name__, 'request': request_id.get()}
@dataclasses.dataclass(frozen=True, kw_only=True)
class OrderPlaced(Event):
    order: int
    amount: int = 1
@dataclasses.dataclass(frozen=True, kw_only=True)
class OrderShipped(Event):
    order: int
@runtime_checkable
class Handler(Protocol):
    def __call__(self, event: Event) -> object: ...
class EventBus:
    def __init__(self) -> None:
        self._handlers: dict[type, list[Callable]] = defaultdict(list)
        self._middleware: list[Callable] = []
    def on(self, *kinds):
        def decorate(function):
            for kind in kinds or (next(iter(get_type_hints(function).values())),):
                self._handlers[kind].append(function)
            return function
        return decorate
    def use(self, middleware):
        self._middleware.append(middleware)
        return middleware
    def emit(self, event):
        for middleware in self._middleware:
            event = middleware(event)
        return [handler(event) for kind in type(event).__mro__ for handler in self._handlers.get(kind, ())]
bus = EventBus()
""",
    "bus.handlers": """\
import functools
from .events import Event, OrderPlaced, OrderShipped, bus
AUDIT = []
def audited(function=None, *, prefix='audit'):
    if function is None:
        return functools.partial(audited, prefix=prefix)
    @functools.wraps(function)
    def wrapper(event):
        AUDIT.append(f'{prefix}:{function.__name__}')
        return function(event)
    return wrapper
@bus.use
def check(event):
    return event
@bus.on()
@audited
def send_mail(event: OrderPlaced):
    return f'mail for {event.order}'
@bus.on(OrderPlaced, OrderShipped)
@audited(prefix='stock')
def update_stock(event):
    return f'stock {event.order} {type(event).__name__}'
@bus.on(Event)
def log_all(event):
    return sorted(event.payload())
""",
    "bus.machine": """\
import enum
from functools import wraps
class State(enum.Enum):
    NEW = enum.auto()
    PAID = enum.auto()
    SENT = enum.auto()
    @property
    def is_final(self):
        return self in FINAL
class Flag(enum.IntFlag):
    NONE = 0
    GIFT = enum.auto()
    EXPRESS = enum.auto()
    ALL = GIFT | EXPRESS
FINAL = frozenset({State.SENT})
TRANSITIONS = {}
class InvalidTransition(Exception):
    pass
def transition(source, target):
    sources = (source,) if isinstance(source, State) else tuple(source)
    def decorate(method):
        for one in sources:
            TRANSITIONS[one, method.__name__] = target
        @wraps(method)
        def wrapper(self, *words):
            if self.state not in sources:
                raise InvalidTransition(f'{method.__name__} from {self.state.name}')
            result = method(self, *words)
            self.state = target
            return result
        wrapper.target = target
        return wrapper
    return decorate
class Order:
    initial = State.NEW
    def __init__(self, number, flags=Flag.NONE):
        self.number, self.state, self.flags = number, self.initial, flags
    @transition(State.NEW, State.PAID)
    def pay(self):
        return f'paid {self.number}'
    @transition([State.PAID], State.SENT)
    def send(self):
        return f'sent {self.number}'
""",
    "bus.container": """\
import inspect
from typing import get_type_hints
class Container:
    def __init__(self, parent=None):
        self._factories, self._singletons, self.parent = {}, {}, parent
    def register(self, kind, factory=None, *, singleton=False):
        self._factories[kind] = (factory or kind, singleton)
        return self
    def provider(self, function):
        self.register(get_type_hints(function)['return'], function)
        return function
    def resolve(self, kind):
        if kind in self._singletons:
            return self._singletons[kind]
        factory, singleton = self._factories[kind]
        hints = {name: hint for name, hint in get_type_hints(factory.__init__ if isinstance(factory, type) else factory).items() if name != 'return'}
        made = factory(**{name: self.resolve(hint) for name, hint in hints.items() if hint in self._factories})
        if singleton:
            self._singletons[kind] = made
        return made
""",
    "bus.services": """\
from dataclasses import dataclass
from .machine import Order
class Clock:
    zone = 'UTC'
    def now(self):
        return f'12:00 {self.zone}'
class Mailer:
    def __init__(self, clock: Clock, sender='shop@example'):
        self.clock, self.sender = clock, sender
    def send(self, text):
        return f'{self.sender} {self.clock.now()} {text}'
@dataclass
class Config:
    retries: int = 3
    currency: str = 'EUR'
""",
    "bus.logs": """\
import json
import logging
import logging.config
from .context import request_id
RECORDS = []
class JsonFormatter(logging.Formatter):
    keys = ('levelname', 'message', 'request')
    def format(self, record):
        record.message = record.getMessage()
        return json.dumps({key: getattr(record, key) for key in self.keys})
class RequestFilter(logging.Filter):
    def filter(self, record):
        record.request = request_id.get()
        return True
class MemoryHandler(logging.Handler):
    def emit(self, record):
        RECORDS.append(self.format(record))
CONFIG = {
    'version': 1,
    'disable_existing_loggers': False,
    'formatters': {'json': {'()': JsonFormatter}},
    'filters': {'request': {'()': RequestFilter}},
    'handlers': {'memory': {'()': MemoryHandler, 'formatter': 'json', 'filters': ['request']}},
    'loggers': {'bus': {'handlers': ['memory'], 'level': 'INFO', 'propagate': False}},
}
logging.config.dictConfig(CONFIG)
log = logging.getLogger('bus')
logging.addLevelName(25, 'NOTICE')
def notice(self, message, *words):
    if self.isEnabledFor(25):
        self._log(25, message, words)
logging.Logger.notice = notice
""",
    "bus.app": """\
from . import handlers, machine
from .container import Container
from .events import bus
from .logs import log
from .services import Clock, Config, Mailer
_cache = {}
def cached(key):
    def decorate(function):
        def wrapper(*words):
            if (key, words) not in _cache:
                _cache[key, words] = function(*words)
            return _cache[key, words]
        return wrapper
    return decorate
container = Container()
container.register(Clock, singleton=True).register(Mailer)
@container.provider
def make_config() -> Config:
    return Config(retries=5)
_default = None
def get_default():
    global _default
    if _default is None:
        _default = container.resolve(Mailer)
    return _default
@cached('price')
def price(number):
    return number * 10
COMMANDS = {name.removeprefix('cmd_'): value for name, value in list(globals().items()) if name.startswith('cmd_')}
def handle(event):
    log.info('handle %s', type(event).__name__)
    return bus.emit(event)
def cmd_status():
    return 'ok'
COMMANDS |= {name.removeprefix('cmd_'): value for name, value in list(globals().items()) if name.startswith('cmd_')}
""",
}
CORE_PROBES = (
    "m.handle(m.OrderPlaced(order=1))", "m.handle(m.OrderShipped(order=2))", "(m.handle(m.OrderPlaced(order=3)), handlers.AUDIT[-2:])[1]", "m.OrderPlaced(order=1).payload(), m.OrderPlaced(order=1)", "(m.logs.log.info('x'), logs.RECORDS[-1:])[1]",
    "(m.logs.log.notice('y'), logs.RECORDS[-1:])[1]", "(m.logs.log.debug('z'), logs.RECORDS[-1:])[1]", "app.container.resolve(services.Mailer).send('t'), app.container.resolve(services.Config)", "list(m.machine.State), list(m.machine.Flag.__members__.items())",
    "sorted((k[0].name, k[1], v.name) for k, v in machine.TRANSITIONS.items())", "(lambda o: (o.pay(), o.state, raised(o.pay), o.send(), o.state, o.state.is_final))(m.machine.Order(1))", "m.ORDER.state is m.machine.State.NEW, m.machine.Order.pay.target", "app.COMMANDS.keys(), app.COMMANDS['status']()",
    "m.request_id.get(), m.current_user.get()", "(lambda c: (c.__enter__(), m.OrderShipped(order=1).payload()['request'], c.__exit__(None, None, None))[:2])(context.use_request('r1'))", "bus.default_bus is m.bus, len(m.bus._middleware)",
    "sorted((k.__name__, [f.__name__ for f in v]) for k, v in m.bus._handlers.items())", "[h.formatter.keys for h in logs.log.handlers], logs.log.level, len(logs.log.handlers)", "isinstance(m.handle, events.Handler), m.machine.Flag(3), m.machine.Flag.ALL",
)  # fmt: skip
CORE_EDITS = edits_of(
    "bus",
    CORE_M,
    [
        ("a default of a context variable", "'request_id', default='-'", "'request_id', default='none'", CORE_PROBES, {"edited": "bus.context"}),
        ("a field of a base event", "    source: str = 'shop'\n", "    source: str = 'shop'\n    user: str = 'nobody'\n", CORE_PROBES, {"edited": "bus.events"}),
        ("a key of the payload", "'type': type(self).__name__", "'kind': type(self).__name__", CORE_PROBES, {"edited": "bus.events"}),
        ("an event more with its handler", "@bus.on(Event)", "@bus.on(OrderShipped)\ndef thank(event):\n    return 'thanks'\n@bus.on(Event)", CORE_PROBES, {"edited": "bus.handlers"}),
        ("a handler of fewer events", "@bus.on(OrderPlaced, OrderShipped)", "@bus.on(OrderShipped)", CORE_PROBES, {"edited": "bus.handlers"}),
        ("a handler renamed", "def send_mail(", "def send_email(", CORE_PROBES, {"edited": "bus.handlers"}),
        ("a decorator's argument", "prefix='stock'", "prefix='store'", CORE_PROBES, {"edited": "bus.handlers"}),
        ("a decorator less", "@bus.on()\n@audited\n", "@bus.on()\n", CORE_PROBES, {"edited": "bus.handlers"}),
        ("a middleware that changes", "def check(event):\n    return event", "def check(event):\n    import dataclasses\n    return dataclasses.replace(event, source='check')", CORE_PROBES, {"edited": "bus.handlers"}),
        ("an order of handlers", "    def emit(self, event):\n", "    def emit(self, event):\n        event = dataclass_check(event)\n", CORE_PROBES, {"edited": "bus.events", "more": (("bus.events", "class EventBus:", "def dataclass_check(event):\n    assert dataclasses.is_dataclass(event)\n    return event\nclass EventBus:"),)}),
        ("a state more in the middle", "    PAID = enum.auto()\n", "    RESERVED = enum.auto()\n    PAID = enum.auto()\n", CORE_PROBES, {"edited": "bus.machine"}),
        ("a flag more", "    ALL = GIFT | EXPRESS\n", "    FRAGILE = enum.auto()\n    ALL = GIFT | EXPRESS | FRAGILE\n", CORE_PROBES, {"edited": "bus.machine"}),
        ("a transition from more states", "@transition([State.PAID], State.SENT)", "@transition([State.NEW, State.PAID], State.SENT)", (*CORE_PROBES, "m.machine.Order(2).send()"), {"edited": "bus.machine"}),
        ("a transition more", "    @transition([State.PAID]", "    @transition(State.PAID, State.NEW)\n    def refund(self):\n        return 'refunded'\n    @transition([State.PAID]", (*CORE_PROBES, "(lambda o: (o.pay(), o.refund(), o.state))(m.machine.Order(2))"), {"edited": "bus.machine"}),
        ("a final state", "frozenset({State.SENT})", "frozenset({State.SENT, State.PAID})", CORE_PROBES, {"edited": "bus.machine"}),
        ("a zone of the clock", "zone = 'UTC'", "zone = 'CET'", CORE_PROBES, {"edited": "bus.services"}),
        ("a sender", "sender='shop@example'", "sender='mail@example'", (*CORE_PROBES, "app.get_default().send('d')"), {"edited": "bus.services"}),
        ("a dependency more", "def __init__(self, clock: Clock, sender='shop@example'):\n        self.clock, self.sender = clock, sender", "def __init__(self, clock: Clock, config: 'Config', sender='shop@example'):\n        self.clock, self.config, self.sender = clock, config, sender", CORE_PROBES, {"edited": "bus.services"}),
        ("a provider's body", "Config(retries=5)", "Config(retries=5, currency='USD')", CORE_PROBES, {"edited": "bus.app"}),
        ("a singleton no more", "Clock, singleton=True", "Clock", CORE_PROBES, {"edited": "bus.app"}),
        ("a cached function", "return number * 10", "return number * 12", (*CORE_PROBES, "app.price(3)"), {"edited": "bus.app"}),
        ("a command more", "def cmd_status", "def cmd_stop():\n    return 'stopped'\ndef cmd_status", CORE_PROBES, {"edited": "bus.app"}),
        ("keys of a formatter", "('levelname', 'message', 'request')", "('levelname', 'name', 'message', 'request')", CORE_PROBES, {"edited": "bus.logs"}),
        ("a level of a logger", "'level': 'INFO'", "'level': 'DEBUG'", CORE_PROBES, {"edited": "bus.logs"}),
        ("a level's name", "25, 'NOTICE'", "25, 'NOTE'", CORE_PROBES, {"edited": "bus.logs"}),
        ("a patched method", "self._log(25, message, words)", "self._log(25, f'* {message}', words)", CORE_PROBES, {"edited": "bus.logs"}),
    ],
    others=CORE,
    setup=RAISED,
)  # fmt: skip

WIKI_M = """\
from wiki.factory import create_app
from wiki.extensions import cache, signals
import wiki.cli
app = create_app()
"""
WIKI = {
    "wiki.__init__": "",
    "wiki.settings": """\
class Config:
    SITE = 'Wiki'
    ITEMS_PER_PAGE = 10
    TESTING = False
    @classmethod
    def init_app(cls, app):
        app.extensions['wiki'] = {'config': cls.__name__}
class Testing(Config):
    TESTING = True
configs = {'default': Config, 'testing': Testing}
""",
    "wiki.extensions": """\
import functools
class Cache:
    def __init__(self, app=None):
        self.store, self.prefix = {}, 'none'
        if app is not None:
            self.init_app(app)
    def init_app(self, app):
        self.prefix = app.config['SITE']
        app.extensions['cache'] = self
    def memoize(self, timeout=60):
        def decorate(function):
            @functools.wraps(function)
            def wrapper(*words):
                key = (function.__name__, words)
                if key not in self.store:
                    self.store[key] = function(*words)
                return self.store[key]
            wrapper.timeout = timeout
            return wrapper
        return decorate
class Signals(dict):
    def connect(self, name):
        return lambda function: self.setdefault(name, []).append(function) or function
cache = Cache()
signals = Signals()
""",
    "wiki.filters": """\
from markupsafe import Markup, escape
FILTERS = {}
def template_filter(function):
    FILTERS[function.__name__] = function
    return function
@template_filter
def shout(text):
    return text.upper() + '!'
@template_filter
def nl2br(text):
    return Markup('<br>').join(escape(text).split('\\n'))
def is_even(number):
    return number % 2 == 0
TESTS = {'even': is_even}
""",
    "wiki.pages": """\
from flask import Blueprint, abort, current_app, jsonify, render_template_string, request, url_for
from flask.views import MethodView
from .extensions import cache, signals
bp = Blueprint('pages', __name__, url_prefix='/pages')
PAGES = {'home': 'Hello', 'about': 'About us'}
TEMPLATE = '<h1>{{ title|shout }}</h1>{% if count is even %}even{% endif %} {{ site }}'
@bp.before_request
def check():
    if request.args.get('deny'):
        abort(403)
@bp.route('/')
def index():
    return jsonify(pages=sorted(PAGES)[:current_app.config['ITEMS_PER_PAGE']])
@bp.route('/<name>')
def show(name):
    if name not in PAGES:
        abort(404, f'no page {name}')
    return render_template_string(TEMPLATE, title=PAGES[name], count=len(PAGES))
class PageAPI(MethodView):
    init_every_request = False
    fields = ('name', 'text')
    def get(self, name):
        return dict(zip(self.fields, (name, PAGES.get(name))))
bp.add_url_rule('/api/<name>', view_func=PageAPI.as_view('api'))
@cache.memoize(timeout=30)
def count(word):
    return sum(word in text for text in PAGES.values())
@signals.connect('saved')
def on_saved(name):
    return f'saved {name}'
""",
    "wiki.errors": """\
from werkzeug.exceptions import HTTPException
def handle(error: HTTPException):
    return {'error': error.name, 'detail': error.description}, error.code
HANDLERS = {HTTPException: handle}
""",
    "wiki.cli": """\
import click
from flask.cli import AppGroup
group = AppGroup('wiki', help='Manages pages.')
@group.command('list')
@click.option('--limit', default=5, show_default=True)
def list_pages(limit):
    from .pages import PAGES
    click.echo(' '.join(sorted(PAGES)[:limit]))
""",
    "wiki.factory": """\
from flask import Flask
from . import cli, errors, filters
from .extensions import cache
from .pages import bp
from .settings import configs
def create_app(name='default', **overrides):
    app = Flask('wiki')
    config = configs[name]
    app.config.from_object(config)
    app.config.update(overrides)
    config.init_app(app)
    cache.init_app(app)
    register(app)
    return app
def register(app):
    app.register_blueprint(bp)
    app.cli.add_command(cli.group)
    app.jinja_env.filters.update(filters.FILTERS)
    app.jinja_env.tests.update(filters.TESTS)
    for kind, handler in errors.HANDLERS.items():
        app.register_error_handler(kind, handler)
    @app.context_processor
    def site():
        return {'site': app.config['SITE']}
""",
}
WIKI_SETUP = (
    RAISED
    + """
def get(app, path):
    found = app.test_client().get(path)
    return found.status_code, found.text
def command(app, *words):
    return app.test_cli_runner().invoke(args=words).output
"""
)
WIKI_PROBES = (
    "get(m.app, '/pages/')", "get(m.app, '/pages/home')", "get(m.app, '/pages/none')", "get(m.app, '/pages/api/home')", "get(m.app, '/pages/?deny=1')", "command(m.app, 'wiki', 'list')", "command(m.app, 'wiki', '--help')",
    "command(m.app, 'wiki', 'list', '--help')", "pages.count('A'), pages.count.timeout", "[f('x') for f in m.signals['saved']]", "m.cache.prefix, m.app.extensions['wiki']", "sorted((str(r), r.endpoint) for r in m.app.url_map.iter_rules())",
    "sorted(set(m.app.jinja_env.filters) & set(filters.FILTERS)), filters.nl2br('a\\nb')", "m.app.config['ITEMS_PER_PAGE'], m.create_app('testing').config['TESTING']", "get(m.create_app(PAGE=1), '/pages/home')",
)  # fmt: skip
WIKI_EDITS = edits_of(
    "wiki",
    WIKI_M,
    [
        ("a name of the site", "SITE = 'Wiki'", "SITE = 'Handbook'", WIKI_PROBES, {"edited": "wiki.settings"}),
        ("a setting of testing", "    TESTING = True\n", "    TESTING = True\n    SITE = 'Test'\n", (*WIKI_PROBES, "get(m.create_app('testing'), '/pages/home')"), {"edited": "wiki.settings"}),
        ("a filter", "text.upper() + '!'", "text.upper() + '!!'", WIKI_PROBES, {"edited": "wiki.filters"}),
        ("a filter more", "def is_even", "@template_filter\ndef quiet(text):\n    return text.lower()\ndef is_even", WIKI_PROBES, {"edited": "wiki.filters"}),
        ("a template", "<h1>{{ title|shout }}</h1>", "<h2>{{ title|shout }}</h2>", WIKI_PROBES, {"edited": "wiki.pages"}),
        ("a page more", "'about': 'About us'}", "'about': 'About us', 'contact': 'Call us'}", WIKI_PROBES, {"edited": "wiki.pages"}),
        ("a route's path", "@bp.route('/<name>')", "@bp.route('/<name>/')", (*WIKI_PROBES, "get(m.app, '/pages/home/')"), {"edited": "wiki.pages"}),
        ("a prefix of a blueprint", "url_prefix='/pages'", "url_prefix='/p'", (*WIKI_PROBES, "get(m.app, '/p/home')"), {"edited": "wiki.pages"}),
        ("fields of a method view", "fields = ('name', 'text')", "fields = ('title', 'text')", WIKI_PROBES, {"edited": "wiki.pages"}),
        ("a timeout of a cache", "timeout=30", "timeout=45", WIKI_PROBES, {"edited": "wiki.pages"}),
        ("a handler's body", "{'error': error.name,", "{'error': error.name.lower(),", WIKI_PROBES, {"edited": "wiki.errors"}),
        ("a handler of another error", "HANDLERS = {HTTPException: handle}", "HANDLERS = {HTTPException: handle, ZeroDivisionError: lambda error: ('zero', 500)}", (*WIKI_PROBES, "[len(h) for h in m.app.error_handler_spec[None].values()]"), {"edited": "wiki.errors"}),
        ("a default of an option", "default=5", "default=1", WIKI_PROBES, {"edited": "wiki.cli"}),
        ("a name more for the templates", "return {'site': app.config['SITE']}", "return {'site': app.config['SITE'] + '.'}", WIKI_PROBES, {"edited": "wiki.factory"}),
    ],
    others=WIKI,
    needs=("flask",),
    setup=WIKI_SETUP,
)  # fmt: skip

JOBS_M = """\
from jobs.app import app
from jobs.tasks import import_rows, notify, summarize
from jobs.cli import cli
"""
JOBS = {
    "jobs.__init__": "from .app import app as celery_app\n__all__ = ('celery_app',)\n",
    "jobs.app": """\
import os
from celery import Celery
from kombu import Exchange, Queue
class Defaults:
    broker_url = os.environ.get('BROKER_URL', 'memory://')
    result_backend = 'cache+memory://'
    task_always_eager = True
    task_default_queue = 'default'
    task_queues = (Queue('default', Exchange('default'), routing_key='default'), Queue('mail', routing_key='mail.#'))
app = Celery('jobs', include=['jobs.tasks'])
app.config_from_object(Defaults)
app.conf.update(task_time_limit=300, task_soft_time_limit=240)
""",
    "jobs.records": """\
from __future__ import annotations
from typing import Annotated
import attrs
import msgspec
from attrs import converters, validators
class Row(msgspec.Struct, kw_only=True, omit_defaults=True):
    id: Annotated[int, msgspec.Meta(ge=1)]
    name: str = 'unnamed'
    tags: list[str] = []
class Tagged(msgspec.Struct, tag_field='kind', frozen=True):
    pass
class Circle(Tagged, tag='circle'):
    radius: float
class Square(Tagged, tag='square'):
    side: float
decoder = msgspec.json.Decoder(Circle | Square)
@attrs.define(order=True)
class Report:
    title: str = attrs.field(converter=str.strip, validator=validators.min_len(1))
    rows: list[Row] = attrs.field(factory=list, repr=len, order=False)
    limit: int | None = attrs.field(default=None, converter=converters.optional(int))
    @rows.validator
    def _check(self, attribute, value):
        if len(value) > 3:
            raise ValueError('too many')
    @property
    def total(self):
        return sum(row.id for row in self.rows)
    def render(self):
        return f'{self.title}: {self.total}'
@attrs.frozen
class Totals(Report):
    unit: str = 'EUR'
    def render(self):
        return super().render() + ' ' + self.unit
""",
    "jobs.tasks": """\
from celery import Task, shared_task
from celery.utils.log import get_task_logger
from .app import app
from .records import Report, Row, Totals
logger = get_task_logger(__name__)
RETRIES = 3
class LoggedTask(Task):
    abstract = True
    prefix = 'job'
    seen = []
    def __call__(self, *args, **kwargs):
        self.seen.append(f'{self.prefix} {self.name}')
        return super().__call__(*args, **kwargs)
@app.task(base=LoggedTask, bind=True, max_retries=RETRIES, acks_late=True)
def import_rows(self, rows, title='rows'):
    return Report(title, [Row(**row) for row in rows]).render()
@shared_task(name='jobs.notify', queue='mail')
def notify(address):
    return f'sent to {address}'
@shared_task(base=LoggedTask)
def summarize(numbers, unit='EUR'):
    return Totals('sum', [Row(id=n) for n in numbers], unit=unit).render()
PIPELINE = import_rows.s([{'id': 1}]) | notify.s()
""",
    "jobs.cli": """\
import functools
import click
from .tasks import import_rows, notify
class Prefixed(click.Group):
    def get_command(self, ctx, name):
        found = super().get_command(ctx, name)
        if found is not None:
            return found
        matches = [one for one in self.list_commands(ctx) if one.startswith(name)]
        return super().get_command(ctx, matches[0]) if len(matches) == 1 else None
def common_options(function):
    @click.option('--verbose', '-v', count=True)
    @click.option('--format', 'style', type=click.Choice(['text', 'json']), default='text')
    @functools.wraps(function)
    def wrapper(*words, verbose, style, **named):
        return function(*words, style=style * (verbose or 1), **named)
    return wrapper
@click.group(cls=Prefixed, context_settings={'help_option_names': ['-h', '--help']})
@click.version_option('1.4', prog_name='jobs')
def cli():
    '''Run jobs.'''
@cli.command()
@click.argument('ids', nargs=-1, type=click.IntRange(min=1))
@common_options
def run(ids, style):
    '''Import rows.'''
    click.echo(f'{style} ' + import_rows.delay([{'id': i} for i in ids]).get())
@cli.command()
@click.argument('address')
def mail(address):
    click.echo(notify.delay(address).get())
""",
}
JOBS_SETUP = (
    RAISED
    + """
from click.testing import CliRunner
def run(cli, *words):
    found = CliRunner().invoke(cli, words)
    return found.exit_code, found.output
"""
)
JOBS_PROBES = (
    "run(m.cli, 'run', '1', '2')", "run(m.cli, 'run', '-v', '--format', 'json', '1')", "run(m.cli, 'run', '0')", "run(m.cli, 'ma', 'a@b')", "run(m.cli, '-h')", "run(m.cli, 'run', '--help')", "run(m.cli, '--version')",
    "m.summarize.delay([1, 2]).get()", "m.import_rows.max_retries, m.import_rows.acks_late, m.notify.name", "(m.summarize.delay([1]).get(), m.import_rows.seen[-1:])[1]", "sorted(n for n in m.app.tasks if n.startswith('jobs'))",
    "m.app.conf.task_time_limit, m.app.conf.task_soft_time_limit, m.app.conf.task_default_queue", "[(q.name, q.routing_key) for q in m.app.conf.task_queues], getattr(m.notify, 'queue', None)", "tasks.PIPELINE.delay().get()", "raised(records.Report, '  ')",
    "raised(records.Report, 't', [1, 2, 3, 4])", "repr(records.Totals(' t ', [1], '3')), records.Report('a') < records.Report('b')", "raised(records.decoder.decode, b'{\"kind\": \"circle\", \"radius\": 2}')", "raised(records.decoder.decode, b'{\"kind\": \"box\"}')",
    "__import__('msgspec').json.encode(records.Row(id=1)), records.Row.__struct_fields__", "raised(__import__('msgspec').json.decode, b'{\"id\": 0}', type=records.Row)", "[a.name for a in __import__('attrs').fields(records.Totals)]",
)  # fmt: skip
JOBS_EDITS = edits_of(
    "jobs",
    JOBS_M,
    [
        ("a number of retries", "RETRIES = 3", "RETRIES = 5", JOBS_PROBES, {"edited": "jobs.tasks"}),
        ("an option of a task", "acks_late=True", "acks_late=False", JOBS_PROBES, {"edited": "jobs.tasks"}),
        ("a name of a shared task", "'jobs.notify'", "'jobs.send'", JOBS_PROBES, {"edited": "jobs.tasks"}),
        ("a base of a task", "@app.task(base=LoggedTask, bind=True", "@app.task(bind=True", JOBS_PROBES, {"edited": "jobs.tasks"}),
        ("a prefix of a base task", "prefix = 'job'", "prefix = 'task'", JOBS_PROBES, {"edited": "jobs.tasks"}),
        ("a task's queue", "queue='mail'", "queue='default'", JOBS_PROBES, {"edited": "jobs.tasks"}),
        ("a default of a task", "def summarize(numbers, unit='EUR')", "def summarize(numbers, unit='USD')", JOBS_PROBES, {"edited": "jobs.tasks"}),
        ("a step of a pipeline", "import_rows.s([{'id': 1}])", "import_rows.s([{'id': 2}])", JOBS_PROBES, {"edited": "jobs.tasks"}),
        ("a time limit", "task_time_limit=300", "task_time_limit=600", JOBS_PROBES, {"edited": "jobs.app"}),
        ("a queue", "routing_key='mail.#'", "routing_key='mail.out'", JOBS_PROBES, {"edited": "jobs.app"}),
        ("a field of a struct", "    tags: list[str] = []\n", "    tags: list[str] = []\n    score: int = 0\n", JOBS_PROBES, {"edited": "jobs.records"}),
        ("a bound of a struct", "msgspec.Meta(ge=1)", "msgspec.Meta(ge=0)", JOBS_PROBES, {"edited": "jobs.records"}),
        ("a struct more in a union", "decoder = msgspec.json.Decoder(Circle | Square)", "class Box(Tagged, tag='box'):\n    width: float = 1.0\ndecoder = msgspec.json.Decoder(Circle | Square | Box)", JOBS_PROBES, {"edited": "jobs.records"}),
        ("a bound in a validator", "len(value) > 3", "len(value) > 4", JOBS_PROBES, {"edited": "jobs.records"}),
        ("a field of an attrs base", "    limit: int | None", "    author: str = 'me'\n    limit: int | None", JOBS_PROBES, {"edited": "jobs.records"}),
        ("a text of a report", "f'{self.title}: {self.total}'", "f'{self.title} = {self.total}'", JOBS_PROBES, {"edited": "jobs.records"}),
        ("a choice", "['text', 'json']", "['text', 'json', 'yaml']", JOBS_PROBES, {"edited": "jobs.cli"}),
        ("a version of the command", "'1.4'", "'1.5'", JOBS_PROBES, {"edited": "jobs.cli"}),
        ("an option of all commands", "    @functools.wraps(function)\n", "    @click.option('--quiet', is_flag=True, expose_value=False)\n    @functools.wraps(function)\n", JOBS_PROBES, {"edited": "jobs.cli"}),
        ("a lookup of commands", "one.startswith(name)]", "one.endswith(name)]", (*JOBS_PROBES, "run(m.cli, 'il', 'a')"), {"edited": "jobs.cli"}),
        ("a bound of an argument", "IntRange(min=1)", "IntRange(min=0, max=9)", JOBS_PROBES, {"edited": "jobs.cli"}),
    ],
    others=JOBS,
    needs=("celery", "kombu", "attrs", "msgspec", "click", "click.testing"),
    setup=JOBS_SETUP,
)  # fmt: skip
LIBRARY_M = """\
import library.urls
from library.models import Book, Loan
from library.forms import LoanForm
from library.serializers import BookSerializer
"""
LIBRARY = {
    "library.__init__": "",
    "library.apps": """\
from django.apps import AppConfig
class LibraryConfig(AppConfig):
    name = 'library'
    verbose_name = 'Library'
    def ready(self):
        from . import checks, receivers
""",
    "library.checks": """\
from django.core.checks import Warning, register
FOUND = []
@register('library')
def check_size(app_configs, **kwargs):
    FOUND.append(1)
    return [Warning('library is small', id='library.W001')]
""",
    "library.constants": "MAX_LOANS = 3\nTITLE_LENGTH = 100\n",
    "library.models": """\
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import F, Q
from django.urls import reverse
from .constants import MAX_LOANS, TITLE_LENGTH
def no_digits(value):
    if any(sign.isdigit() for sign in value):
        raise ValidationError('no digits')
class TimeStamped(models.Model):
    note = models.CharField(max_length=10, blank=True)
    class Meta:
        abstract = True
class BookQuerySet(models.QuerySet):
    def available(self):
        return self.filter(copies__gt=0)
    def cheap(self, limit=10):
        return self.filter(Q(price__lt=limit) | Q(price=None))
class BookManager(models.Manager.from_queryset(BookQuerySet)):
    def get_queryset(self):
        return super().get_queryset().exclude(state=Book.State.LOST)
class Book(TimeStamped):
    class State(models.TextChoices):
        NEW = 'n', 'New'
        LOST = 'l', 'Lost'
    title = models.CharField(max_length=TITLE_LENGTH, validators=[no_digits])
    state = models.CharField(max_length=1, choices=State.choices, default=State.NEW)
    price = models.IntegerField(null=True)
    copies = models.PositiveIntegerField(default=1)
    objects = BookManager()
    everything = BookQuerySet.as_manager()
    class Meta:
        ordering = ['title']
        verbose_name_plural = 'books'
    def __str__(self):
        return self.title
    @property
    def is_lost(self):
        return self.state == self.State.LOST
class Loan(TimeStamped):
    book = models.ForeignKey(Book, on_delete=models.CASCADE, related_name='loans')
    reader = models.CharField(max_length=20, default='nobody')
    def clean(self):
        if len(self.reader) > MAX_LOANS * 2:
            raise ValidationError({'reader': 'too long'})
""",
    "library.forms": """\
from django import forms
from .models import Loan
class LoanForm(forms.Form):
    reader = forms.CharField(max_length=8, help_text='Who takes it.')
    days = forms.IntegerField(min_value=1, initial=14)
    def clean_reader(self):
        return self.cleaned_data['reader'].title()
""",
    "library.serializers": """\
class Field:
    counter = 0
    def __init__(self, source=None):
        self.source = source
        self.order = Field.counter
        Field.counter += 1
    def get(self, instance, name):
        return getattr(instance, self.source or name)
class SerializerMeta(type):
    def __new__(mcls, name, bases, attrs):
        own = sorted(((k, v) for k, v in attrs.items() if isinstance(v, Field)), key=lambda pair: pair[1].order)
        for key, _ in own:
            del attrs[key]
        cls = super().__new__(mcls, name, bases, attrs)
        cls.declared = {**{k: v for base in reversed(cls.__mro__[1:]) for k, v in vars(base).get('declared', {}).items()}, **dict(own)}
        return cls
class Serializer(metaclass=SerializerMeta):
    id = Field('pk')
    def __init__(self, instance):
        self.instance = instance
    @property
    def data(self):
        return {name: field.get(self.instance, name) for name, field in self.declared.items()}
class BookSerializer(Serializer):
    title = Field()
    status = Field('state')
    class Meta:
        read_only = ('id',)
""",
    "library.receivers": """\
from django.db.models.signals import post_init
from django.dispatch import receiver
from .models import Book, Loan
SEEN = []
@receiver(post_init, sender=Book, dispatch_uid='book-init')
def on_init(sender, instance, **kwargs):
    SEEN.append(f'init {instance.title}')
""",
    "library.views": """\
from django.http import HttpResponse, JsonResponse
from django.template import engines
from django.views.decorators.http import require_http_methods
from django.views.generic import FormView, TemplateView
from .forms import LoanForm
from .models import Book
from .serializers import BookSerializer
def staff_only(view):
    def inner(request, *words, **named):
        if request.GET.get('user') != 'staff':
            return HttpResponse('no', status=403)
        return view(request, *words, **named)
    return inner
@require_http_methods(['GET'])
def index(request):
    return JsonResponse({'books': [BookSerializer(Book(pk=1, title='Emma')).data]})
@staff_only
def admin(request):
    return HttpResponse(engines['django'].from_string("{% load library_tags %}{{ 'a b'|initials }} {% site %}").render({}))
class LoanView(FormView):
    form_class = LoanForm
    success_url = '/done/'
    initial = {'days': 7}
    def render_to_response(self, context):
        return HttpResponse(str(context['form'].as_p()))
""",
    "library.templatetags.__init__": "",
    "library.templatetags.library_tags": """\
from django import template
register = template.Library()
@register.filter
def initials(value):
    return ''.join(word[0] for word in value.split())
@register.simple_tag(name='site')
def site_name():
    return 'library'
""",
    "library.urls": """\
from django.urls import path, re_path
from . import views
app_name = 'library'
urlpatterns = [
    path('', views.index, name='index'),
    path('staff/', views.admin, name='staff'),
    path('loan/', views.LoanView.as_view(), name='loan'),
]
""",
}
LIBRARY_SETUP = (
    RAISED
    + """
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=['django.contrib.contenttypes', 'library'], ROOT_URLCONF='library.urls', SECRET_KEY='x', USE_TZ=False, ALLOWED_HOSTS=['*'],
    DATABASES={'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': ':memory:'}}, DEFAULT_AUTO_FIELD='django.db.models.AutoField',
    TEMPLATES=[{'BACKEND': 'django.template.backends.django.DjangoTemplates'}],
)
django.setup()
def get(path, **data):
    from django.test import Client
    found = Client(raise_request_exception=False).get(path, data)
    return found.status_code, found.content.decode()
def post(path, **data):
    from django.test import Client
    found = Client(raise_request_exception=False).post(path, data)
    return found.status_code, found.headers.get('location')
"""
)
LIBRARY_PROBES = (
    "get('/')", "get('/staff/'), get('/staff/', user='staff')", "get('/loan/')", "post('/loan/', reader='a', days=0), post('/loan/', reader='a', days=1)", "str(m.Book.objects.available().query), str(m.Book.everything.cheap().query)",
    "[f.name for f in m.Book._meta.get_fields()], m.Book._meta.get_field('title').max_length", "raised(m.Book(title='a1', price=1).full_clean)[0], raised(m.Book(title='a', price=1).clean_fields)", "raised(m.Loan(reader='abcdefg').clean)", "m.Book.State.choices, m.Book(state='l').is_lost, m.Book(state='l').get_state_display()",
    "m.LoanForm({'reader': 'ann', 'days': 2}).is_valid(), m.LoanForm().as_p()", "(lambda f: (f.is_valid(), f.cleaned_data))(m.LoanForm({'reader': 'ann', 'days': 2}))", "(m.Book(title='x'), receivers.SEEN[-1:])[1]", "list(m.BookSerializer.declared), m.BookSerializer(m.Book(pk=2, title='b')).data",
    "[w.msg for w in __import__('django.core.checks').core.checks.run_checks(tags=['library'])]", "m.Book._meta.verbose_name_plural, str(m.Book(title='s')), m.Book._meta.ordering", "[str(p.pattern) for p in urls.urlpatterns]", "[f.name for f in m.Loan._meta.get_fields()], m.Loan().reader",
)  # fmt: skip
LIBRARY_EDITS = edits_of(
    "library",
    LIBRARY_M,
    [
        ("a length in constants", "TITLE_LENGTH = 100", "TITLE_LENGTH = 120", LIBRARY_PROBES, {"edited": "library.constants"}),
        ("a number of loans", "MAX_LOANS = 3", "MAX_LOANS = 4", LIBRARY_PROBES, {"edited": "library.constants"}),
        ("a method of a query set", "copies__gt=0", "copies__gte=1", LIBRARY_PROBES, {"edited": "library.models"}),
        ("a method of a query set more", "    def cheap", "    def lost(self):\n        return self.filter(state='l')\n    def cheap", (*LIBRARY_PROBES, "str(m.Book.objects.lost().query), str(m.Book.everything.lost().query)"), {"edited": "library.models"}),
        ("a validator's body", "sign.isdigit()", "sign == '1'", (*LIBRARY_PROBES, "raised(m.Book(title='a2', price=1).clean_fields)"), {"edited": "library.models"}),
        ("a choice more", "        LOST = 'l', 'Lost'\n", "        LOST = 'l', 'Lost'\n        OLD = 'o', 'Old'\n", LIBRARY_PROBES, {"edited": "library.models"}),
        ("a field of an abstract base", "max_length=10, blank=True)\n", "max_length=10, blank=True)\n    author = models.CharField(max_length=5, default='me')\n", LIBRARY_PROBES, {"edited": "library.models"}),
        ("an ordering", "ordering = ['title']", "ordering = ['-title']", LIBRARY_PROBES, {"edited": "library.models"}),
        ("a clean method", "'too long'", "'much too long'", LIBRARY_PROBES, {"edited": "library.models"}),
        ("a field of a form", "    days = forms", "    email = forms.EmailField(required=False)\n    days = forms", LIBRARY_PROBES, {"edited": "library.forms"}),
        ("a clean method of a form", ".title()", ".upper()", LIBRARY_PROBES, {"edited": "library.forms"}),
        ("a field of a serializer", "    title = Field()\n", "    title = Field()\n    price = Field()\n", LIBRARY_PROBES, {"edited": "library.serializers"}),
        ("a field of a base serializer", "    id = Field('pk')\n", "    key = Field('pk')\n", LIBRARY_PROBES, {"edited": "library.serializers"}),
        ("a source of a field", "Field('state')", "Field('copies')", LIBRARY_PROBES, {"edited": "library.serializers"}),
        ("a receiver's body", "f'init {instance.title}'", "f'made {instance.title}'", LIBRARY_PROBES, {"edited": "library.receivers"}),
        ("a receiver more", "SEEN = []\n", "SEEN = []\n@receiver(post_init, sender=Loan)\ndef on_loan(sender, instance, **kwargs):\n    SEEN.append('loan')\n", (*LIBRARY_PROBES, "(m.Loan(), receivers.SEEN[-1:])[1]"), {"edited": "library.receivers"}),
        ("a decorator of a view", "@require_http_methods(['GET'])", "@require_http_methods(['POST'])", LIBRARY_PROBES, {"edited": "library.views"}),
        ("a decorator's body", "status=403", "status=401", LIBRARY_PROBES, {"edited": "library.views"}),
        ("an initial value of a view", "initial = {'days': 7}", "initial = {'days': 9}", LIBRARY_PROBES, {"edited": "library.views"}),
        ("a filter of templates", "word[0] for word", "word[0].upper() for word", LIBRARY_PROBES, {"edited": "library.templatetags.library_tags"}),
        ("a check's message", "'library is small'", "'library is tiny'", LIBRARY_PROBES, {"edited": "library.checks"}),
        ("a path", "path('loan/'", "path('loans/'", (*LIBRARY_PROBES, "get('/loans/')"), {"edited": "library.urls"}),
    ],
    others=LIBRARY,
    needs=("django",),
    setup=LIBRARY_SETUP,
)  # fmt: skip
ALL = with_expected(
    [*HTTP_EDITS, *PLUG_EDITS, *SHOP_EDITS, *CORE_EDITS, *WIKI_EDITS, *JOBS_EDITS, *LIBRARY_EDITS],
    false=[
        "hx: a function renamed and exported",
        "bus: a transition from more states",
        "bus: a level's name",
        "library: a field of a serializer",
        "library: a source of a field",
    ],
    invisible=["bus: a sender", "bus: a cached function"],
    reported=[
        "hp: a name of a plugin",
        "hp: a registry by lower case",
        "backend: a length of a column by annotation",
        "backend: a column of a mixin",
        "backend: a key of repositories",
        "bus: a command more",
        "library: a field of a base serializer",
    ],
)
