"""Ordinary projects and edits, each with what its environment needs. An edit maps names to texts; None removes a file."""

INI = "[pytest]\naddopts = -p no:cacheprovider -p no:randomly\n"
LOGIC = "def price(n):\n    return n * 2\n"
USES = "from logic import price\n"


def edits_of(name, before, *changes):
    """Return edits of one file, each of which replaces text in the result of the previous one."""
    found, text = [], before
    for old, new in changes:
        assert old in text, (name, old)
        text = text.replace(old, new, 1)
        found.append({name: text})
    return found


def small(name, module, test, *changes, needs=()):
    """Create a project that consists of a module, its tests, and edits to the module."""
    return name, needs, {"m.py": module, "test_m.py": test, "pytest.ini": INI}, edits_of("m.py", module, *changes)


SMALL = [
    small(
        "default of a constant",
        "LIMIT = 3\ndef f(x=LIMIT): return x\ndef build(): return [1]\nTABLE = build()\n",
        "import m\ndef test_d(): assert m.f() == 3\ndef test_t(): assert m.TABLE == [1]\n",
        ("LIMIT = 3", "LIMIT = 4"),
        ("return [1]", "return [2]"),
    ),
    small(
        "import moved under TYPE_CHECKING",
        "from typing import TYPE_CHECKING\nfrom decimal import Decimal\ndef f(): return Decimal(1)\n",
        "import m\ndef test_f(): assert m.f() == 1\n",
        ("from decimal import Decimal", "if TYPE_CHECKING:\n    from decimal import Decimal"),
    ),
    small(
        "attribute set by a statement",
        "class C: pass\nC.extra = lambda self: 1\n",
        "import m\ndef test_e(): assert m.C().extra() == 1\n",
        ("C.extra = lambda self: 1\n", ""),
    ),
    small(
        "enum.auto",
        "import enum\nclass E(enum.Enum):\n    RED = enum.auto()\n    BLUE = enum.auto()\n",
        "import m\ndef test_b(): assert m.E.BLUE.value == 2\ndef test_c(): assert m.E(2) is m.E.BLUE\n",
        ("    BLUE", "    GREEN = enum.auto()\n    BLUE"),
    ),
    small(
        "abstract method",
        "import abc\nclass B(abc.ABC):\n    def f(self): return 1\nclass X(B): pass\n",
        "import m\ndef test_x(): assert m.X()\n",
        ("    def f", "    @abc.abstractmethod\n    def f"),
    ),
    small(
        "definition under a condition",
        "FAST = True\nif FAST:\n    def f(): return 'fast'\nelse:\n    def f(): return 'slow'\n",
        "import m\ndef test_f(): assert m.f() == 'fast'\n",
        ("FAST = True", "FAST = False"),
    ),
    small(
        "metaclass",
        "class T(type):\n    def __new__(m, n, b, ns):\n        ns['tag'] = 1\n        return super().__new__(m, n, b, ns)\n"
        "class C(metaclass=T): pass\n",
        "import m\ndef test_t(): assert m.C.tag == 1\n",
        ("= 1\n", "= 2\n"),
    ),
    small(
        "local of a decorator",
        "def deco(f):\n    k = 10\n    def w(): return f() * k\n    return w\n@deco\ndef f(): return 2\n",
        "import m\ndef test_f(): assert m.f() == 20\n",
        ("k = 10", "k = 30"),
    ),
    small(
        "lru_cache around a caller",
        "import functools\ndef low(x): return x\n@functools.lru_cache\ndef f(x): return low(x)\n",
        "import m\ndef test_f(): assert m.f(1) == 1\n",
        ("def low(x): return x", "def low(x): return x * 10"),
    ),
    small(
        "augmented assignment",
        "X = [1]\nX += [2]\n",
        "import m\ndef test_x(): assert m.X == [1, 2]\n",
        ("[2]", "[3]"),
    ),
    small(
        "singledispatch",
        "import functools\n@functools.singledispatch\ndef show(x): return 'any'\n@show.register\ndef _(x: int): return 'int'\n",
        "import m\ndef test_s(): assert (m.show(1), m.show('a')) == ('int', 'any')\n",
        ("return 'int'\n", "return 'int'\n@show.register\ndef _(x: str): return 'str'\n"),
    ),
    (
        "skipped and expected failures",
        (),
        {
            "test_k.py": "import pytest\n@pytest.mark.skip(reason='x')\ndef test_a(): assert 0\n"
            "@pytest.mark.skipif(True, reason='y')\ndef test_b(): assert 0\ndef test_c(): pytest.skip('z')\n"
            "@pytest.mark.xfail\ndef test_d(): assert 0\n",
            "pytest.ini": INI,
        },
        [],
    ),
    (
        "a test that changes the directory",
        (),
        {
            "test_a.py": "import os\ndef test_first(): assert 0\ndef test_chdir(): os.chdir('/tmp')\ndef test_second(): assert 0\n",
            "pytest.ini": INI,
        },
        [],
    ),
    (
        "a value in another module, and a star import",
        (),
        {
            "om.py": "LIMIT = 3\ndef a(): return 1\n",
            "ou.py": "import om\nfrom om import *\nDOUBLE = om.LIMIT * 2\n",
            "test_o.py": "import ou\ndef test_o(): assert ou.DOUBLE == 6\ndef test_b(): assert not hasattr(ou, 'b')\n",
            "pytest.ini": INI,
        },
        [{"om.py": "LIMIT = 4\ndef a(): return 1\n"}, {"om.py": "LIMIT = 3\ndef b(): return 1\n"}],
    ),
    (
        "registries that later statements fill",
        ("flask", "click", "fastapi"),
        {
            "feeds.py": "import argparse, logging, click\nfrom flask import Flask\nfrom fastapi import FastAPI\n"
            "parser = argparse.ArgumentParser(prog='a')\nparser.add_argument('--x')\nflask = Flask('a')\n"
            "@flask.route('/')\ndef i(): return 'i'\nfast = FastAPI(title='a')\n@fast.get('/')\ndef j(): return 'j'\n"
            "@click.group()\ndef cli(): pass\n@cli.command()\ndef go(): pass\nlog = logging.getLogger('one')\nlog.setLevel(10)\n",
            "test_f.py": "import feeds\ndef test_a(): assert feeds.parser.parse_args(['--x', '1']).x == '1'\n"
            "def test_b(): assert feeds.flask.test_client().get('/').status_code == 200\n"
            "def test_c(): assert '/' in [r.path for r in feeds.fast.routes]\n"
            "def test_d(): assert sorted(feeds.cli.commands) == ['go']\ndef test_e(): assert feeds.log.level == 10\n",
            "pytest.ini": INI,
        },
        [
            {
                "test_f.py": "import feeds\ndef test_a(): assert feeds.parser.prog == 'b'\ndef test_e(): assert feeds.log.level == 11\n"
            }
        ],
    ),
    (
        "a message about a module that hides one of the standard library",
        (),
        {
            "wave.py": "A = 1\n",
            "test_w.py": "def test_a():\n    from wave import Wave_read\ndef test_b():\n    import wave; wave.Wave_read\n",
            "pytest.ini": INI,
        },
        [{"wave.py": None}],
    ),
    (
        "modules of one name in sibling directories",
        (),
        {
            "a/util.py": "N = 1\n",
            "a/test_a.py": "import util\ndef test_a(): assert util.N == 1\n",
            "b/util.py": "N = 2\n",
            "b/test_b.py": "import util\ndef test_b(): assert util.N == 2\n",
            "pytest.ini": INI,
        },
        [],
    ),
    (
        "state that one test leaves",
        (),
        {
            "test_s.py": "import os, sys, decimal, gc, signal, locale\n"
            "def test_leaves():\n    os.environ['LEFT'] = '1'; decimal.getcontext().prec = 3; sys.argv.append('x')\n"
            "def test_sees():\n    assert 'LEFT' not in os.environ and decimal.getcontext().prec == 28\n"
            "def test_signals(): assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
            "def test_gc(): assert gc.isenabled()\n",
            "pytest.ini": INI,
        },
        [],
    ),
]

HIDES = [
    (
        f"a new file hides {name}",
        (),
        {
            "logic.py": LOGIC,
            "test_l.py": f"import {name}, logic\ndef test_p(): assert logic.price(1) == 2\n"
            f"def test_n(): assert not hasattr({name}, 'HIDDEN')\n",
            "pytest.ini": INI,
        },
        [{f"{name}.py": "HIDDEN = 1\n"}, {f"{name}.py": None}],
    )
    for name in ("queue", "gettext", "colorsys", "json", "click", "six", "numpy", "yaml")
]

ORDINARY = [
    (
        "pandas and scikit-learn",
        ("pandas", "sklearn", "pyarrow"),
        {
            "logic.py": "import pandas as pd\ndef total(f): return f['a'].sum()\n",
            "test_l.py": "import logic, pandas as pd, pyarrow as pa\nfrom sklearn.ensemble import RandomForestClassifier\n"
            "def test_t(): assert logic.total(pd.DataFrame({'a': [1, 2]})) == 3\n"
            "def test_fit():\n    m = RandomForestClassifier(n_estimators=20, n_jobs=2, random_state=0)\n"
            "    assert m.fit([[0], [1], [2], [3]] * 20, [0, 0, 1, 1] * 20).predict([[3]])[0] == 1\n"
            "def test_arrow(): assert pa.array([1, 2]).to_pandas().sum() == 3\n",
            "pytest.ini": INI,
        },
        [
            {"logic.py": "import pandas as pd\ndef total(f): return f['a'].sum() + 1\n"},
            {"logic.py": "def total(f): return pd.Series(f['a']).sum()\n"},
        ],
    ),
    (
        "numpy and scipy in parallel",
        ("scipy", "joblib"),
        {
            "test_n.py": "import numpy as np, scipy.linalg, scipy.optimize, joblib\n"
            "def test_mul():\n    a = np.ones((400, 400)); assert (a @ a)[0, 0] == 400\n"
            "def test_solve(): assert abs(scipy.linalg.solve(np.eye(300) * 2, np.ones(300))[0] - .5) < 1e-9\n"
            "def test_jobs(): assert joblib.Parallel(n_jobs=2)(joblib.delayed(abs)(-i) for i in range(4)) == [0, 1, 2, 3]\n"
            "def test_threads(): assert joblib.Parallel(n_jobs=2, backend='threading')(joblib.delayed(abs)(-i) for i in range(4)) == [0, 1, 2, 3]\n",
            "pytest.ini": INI,
        },
        [],
    ),
    (
        "polars",
        ("polars",),
        {
            "test_p.py": "import polars as pl\ndef test_p(): assert pl.DataFrame({'a': [1, 2]}).select(pl.col('a').sum()).item() == 3\n",
            "pytest.ini": INI,
        },
        [],
    ),
    (
        "FastAPI, anyio and pydantic-settings",
        ("fastapi", "httpx", "pydantic_settings", "anyio"),
        {
            "app.py": "from fastapi import FastAPI\nfrom pydantic_settings import BaseSettings\n"
            "class Settings(BaseSettings):\n    name: str = 'shop'\nSETTINGS = Settings()\napp = FastAPI()\n"
            "@app.get('/')\ndef root(): return {'name': SETTINGS.name}\n",
            "conftest.py": "import os\nos.environ['NAME'] = 'tested'\n",
            "test_a.py": "import pytest\nfrom fastapi.testclient import TestClient\nfrom app import app\n"
            "def test_root(): assert TestClient(app).get('/').json() == {'name': 'tested'}\n"
            "@pytest.mark.anyio\nasync def test_async():\n    import anyio\n    await anyio.sleep(0)\n"
            "@pytest.fixture\ndef anyio_backend(): return 'asyncio'\n",
            "pytest.ini": INI,
        },
        [{"conftest.py": "import os\nos.environ['NAME'] = 'other'\n"}],
    ),
    (
        "SQLAlchemy, pytest-asyncio, warnings are errors",
        ("sqlalchemy", "pytest_asyncio"),
        {
            "pytest.ini": INI
            + "filterwarnings = error\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n",
            "models.py": "from sqlalchemy import Integer, create_engine, select\nfrom sqlalchemy.orm import DeclarativeBase, Session, mapped_column\n"
            "class Base(DeclarativeBase): pass\nclass Item(Base):\n    __tablename__ = 'item'\n    id = mapped_column(Integer, primary_key=True)\n",
            "test_m.py": "from models import *\ndef test_db():\n    engine = create_engine('sqlite://')\n    Base.metadata.create_all(engine)\n"
            "    with Session(engine) as s:\n        s.add(Item()); s.commit(); assert len(s.execute(select(Item)).all()) == 1\n    engine.dispose()\n"
            "async def test_a():\n    import asyncio\n    await asyncio.sleep(0)\n"
            "def test_w():\n    import warnings, pytest\n    with pytest.raises(UserWarning): warnings.warn('x')\n",
        },
        [],
    ),
    (
        "Flask, dotenv, TZ and freezegun",
        ("flask", "dotenv", "freezegun", "responses"),
        {
            ".env": "KEY=from-file\n",
            "conftest.py": "import os, time\nfrom dotenv import load_dotenv\nload_dotenv()\nos.environ['TZ'] = 'Asia/Tokyo'\ntime.tzset()\n",
            "test_f.py": "import os, time, datetime, flask, freezegun, responses, requests\n"
            "def test_env(): assert os.environ['KEY'] == 'from-file'\ndef test_tz(): assert time.tzname[0] == 'JST'\n"
            "@freezegun.freeze_time('2020-01-01')\ndef test_frozen(): assert datetime.date.today().year == 2020\n"
            "def test_now(): assert datetime.date.today().year > 2020\n"
            "@responses.activate\ndef test_r():\n    responses.get('http://x/', body='b'); assert requests.get('http://x/').text == 'b'\n",
            "pytest.ini": INI,
        },
        [{".env": "KEY=changed\n"}],
    ),
    (
        "freezegun in conftest before imports",
        ("freezegun", "pandas"),
        {
            "conftest.py": "import freezegun\nfreezer = freezegun.freeze_time('2021-05-05')\nfreezer.start()\ndef pytest_unconfigure(): freezer.stop()\n",
            "test_f.py": "import datetime, pandas as pd\ndef test_a(): assert datetime.date.today().year == 2021\ndef test_b(): assert pd.Timestamp.now().year == 2021\n",
            "pytest.ini": INI,
        },
        [],
    ),
    (
        "plugins: cov, hypothesis, faker, mock, timeout, randomly",
        ("pytest_cov", "hypothesis", "faker", "pytest_mock", "pytest_timeout"),
        {
            "logic.py": LOGIC,
            "test_p.py": USES + "import pytest\nfrom hypothesis import given, strategies as st, settings\n"
            "@settings(database=None, derandomize=True)\n@given(st.integers())\ndef test_h(n): assert price(n) == n * 2\n"
            "def test_f(faker): assert faker.name()\ndef test_m(mocker):\n    mocker.patch('logic.price', return_value=7); import logic; assert logic.price(1) == 7\n"
            "@pytest.mark.timeout(20)\ndef test_t(): pass\n",
            "pytest.ini": INI.replace("-p no:randomly", "-p no:randomly --cov=logic --cov-report=term"),
        },
        [{"logic.py": "def price(n):\n    return n * 2 if n != 7 else 0\n"}],
    ),
    (
        "celery, boto3 and moto",
        ("celery", "boto3", "moto"),
        {
            "conftest.py": "import os\nos.environ.update(AWS_ACCESS_KEY_ID='t', AWS_SECRET_ACCESS_KEY='t', AWS_DEFAULT_REGION='eu-west-1')\n",
            "test_c.py": "import boto3, moto, celery\napp = celery.Celery('x')\napp.conf.task_always_eager = True\n"
            "@app.task\ndef add(a, b): return a + b\ndef test_task(): assert add.delay(1, 2).get() == 3\n"
            "@moto.mock_aws\ndef test_s3():\n    s3 = boto3.client('s3'); s3.create_bucket(Bucket='b', CreateBucketConfiguration={'LocationConstraint': 'eu-west-1'})\n"
            "    assert [b['Name'] for b in s3.list_buckets()['Buckets']] == ['b']\n",
            "pytest.ini": INI,
        },
        [],
    ),
    (
        "Django and REST framework",
        ("django", "pytest_django", "rest_framework"),
        {
            "pytest.ini": INI + "DJANGO_SETTINGS_MODULE = site_settings\n",
            "site_settings.py": "SECRET_KEY = 'x'\nDATABASES = {'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': ':memory:'}}\n"
            "INSTALLED_APPS = ['django.contrib.contenttypes', 'django.contrib.auth', 'shop']\nUSE_TZ = True\nTIME_ZONE = 'Europe/Berlin'\nROOT_URLCONF = 'shop.urls'\n",
            "shop/__init__.py": "",
            "shop/urls.py": "from django.http import HttpResponse\nfrom django.urls import path\nurlpatterns = [path('', lambda r: HttpResponse('hi'))]\n",
            "shop/models.py": "from django.db import models\nclass Order(models.Model):\n    n = models.IntegerField(default=1)\n",
            "test_d.py": "import pytest\nfrom shop.models import Order\nfrom rest_framework import serializers\n"
            "class S(serializers.ModelSerializer):\n    class Meta:\n        model = Order\n        fields = ['n']\n"
            "@pytest.mark.django_db\ndef test_o():\n    Order.objects.create(); assert Order.objects.count() == 1\n"
            "def test_s(): assert S(Order(n=3)).data == {'n': 3}\ndef test_c(client): assert client.get('/').content == b'hi'\n"
            "def test_set(settings): assert settings.TIME_ZONE == 'Europe/Berlin'\n",
        },
        [
            {
                "shop/models.py": "from django.db import models\nclass Order(models.Model):\n    m = models.IntegerField(default=1)\n"
            }
        ],
    ),
    (
        "spawn, forkserver, pools, signals and threads",
        (),
        {
            "work.py": "def double(n): return n * 2\n",
            "test_w.py": "import multiprocessing, os, signal, subprocess, sys, threading, time\nfrom concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor\nimport pytest, work\n"
            "@pytest.mark.parametrize('how', ['spawn', 'forkserver', 'fork'])\ndef test_pool(how):\n    with multiprocessing.get_context(how).Pool(2) as p: assert p.map(work.double, [1, 2]) == [2, 4]\n"
            "def test_executor():\n    with ThreadPoolExecutor(2) as e: assert list(e.map(work.double, [1, 2])) == [2, 4]\n"
            "def test_signal():\n    seen = []\n    old = signal.signal(signal.SIGUSR1, lambda *a: seen.append(1)); os.kill(os.getpid(), signal.SIGUSR1); signal.signal(signal.SIGUSR1, old); assert seen\n"
            "def test_sub(): assert subprocess.check_output([sys.executable, '-c', 'print(1)']) == b'1\\n'\n"
            "def test_thread():\n    t = threading.Thread(target=time.sleep, args=(0,)); t.start(); t.join(); assert threading.active_count() == 1\n"
            "def test_daemon(): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
            "def test_main(): assert sys.modules['__main__'].__spec__.name == 'pytest.__main__'\ndef test_argv(): assert '-m' not in sys.argv[1:]\n",
            "pytest.ini": INI,
        },
        [],
    ),
    (
        "matplotlib and networkx",
        ("matplotlib", "networkx"),
        {
            "conftest.py": "import matplotlib\nmatplotlib.use('Agg')\n",
            "test_p.py": "import io, matplotlib.pyplot as plt, networkx as nx\ndef test_p():\n    fig, ax = plt.subplots(); ax.plot([1, 2]); fig.savefig(io.BytesIO()); plt.close(fig)\n"
            "def test_n(): assert nx.path_graph(3).number_of_edges() == 2\n",
            "pytest.ini": INI,
        },
        [
            {
                "matplotlibrc": "lines.linewidth: 7\n",
                "test_p.py": "import matplotlib\ndef test_w(): assert matplotlib.rcParams['lines.linewidth'] == 1.5\n",
            },
            {"matplotlibrc": None},
        ],
    ),
    (
        "gevent in conftest",
        ("gevent",),
        {
            "conftest.py": "from gevent import monkey\nmonkey.patch_all()\n",
            "test_g.py": "import gevent, socket, time, threading\ndef test_g():\n    j = [gevent.spawn(time.sleep, 0) for _ in range(3)]; gevent.joinall(j); assert all(x.ready() for x in j)\n"
            "def test_s(): assert socket.socket.__module__.startswith('gevent')\n",
            "pytest.ini": INI,
        },
        [],
    ),
    (
        "xdist",
        ("xdist",),
        {
            "logic.py": LOGIC,
            "test_x.py": USES
            + "import pytest\n@pytest.mark.parametrize('n', range(6))\ndef test_x(n): assert price(n) == n * 2\n",
            "pytest.ini": INI + "",
        },
        [{"logic.py": "def price(n):\n    return n * 2 if n != 3 else 0\n"}],
    ),
    (
        "locale, encodings, recursion limit and paths in conftest",
        (),
        {
            "conftest.py": "import locale, sys, os, decimal, warnings, logging, random, mimetypes\nlocale.setlocale(locale.LC_ALL, 'C.UTF-8')\nsys.setrecursionlimit(3000)\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), 'lib'))\n"
            "decimal.getcontext().prec = 9\nwarnings.simplefilter('ignore', DeprecationWarning)\nlogging.basicConfig(level=10)\nrandom.seed(3)\n",
            "lib/extra.py": "N = 1\n",
            "test_l.py": "import decimal, extra, locale, logging, random, sys\ndef test_a(): assert extra.N == 1 and sys.getrecursionlimit() == 3000\n"
            "def test_b(): assert decimal.getcontext().prec == 9\ndef test_c(): assert logging.root.level == 10\ndef test_d(): assert random.random() == 0.23796462709189137\n",
            "pytest.ini": INI,
        },
        [{"lib/extra.py": "N = 2\n"}],
    ),
    (
        "OMP_NUM_THREADS in conftest",
        ("numpy",),
        {
            "conftest.py": "import os\nos.environ['OMP_NUM_THREADS'] = '1'\nos.environ['OPENBLAS_NUM_THREADS'] = '1'\n",
            "test_o.py": "import os, numpy as np\ndef test_o(): assert os.environ['OMP_NUM_THREADS'] == '1' and np.ones(3).sum() == 3\n"
            "def test_t(): assert len(os.listdir('/proc/self/task')) == 1\n",
            "pytest.ini": INI,
        },
        [{"conftest.py": "import os\nos.environ['OMP_NUM_THREADS'] = '2'\nos.environ['OPENBLAS_NUM_THREADS'] = '2'\n"}],
    ),
    (
        "rich, attrs, jinja2, yaml and click",
        ("rich", "attr", "jinja2", "yaml", "click"),
        {
            "test_r.py": "import attr, click, jinja2, rich.console, yaml\nfrom click.testing import CliRunner\n@click.command()\ndef go(): click.echo('x')\n"
            "def test_c(): assert CliRunner().invoke(go).output == 'x\\n'\ndef test_j(): assert jinja2.Template('{{ a }}').render(a=1) == '1'\n"
            "def test_y(): assert yaml.safe_load('a: 1') == {'a': 1}\n@attr.s\nclass A:\n    x = attr.ib()\ndef test_a(): assert A(1) == A(1)\n",
            "pytest.ini": INI,
        },
        [{"test_r.py": "import click\ndef test_t(): assert click.testing\n"}],
    ),
    (
        "grpc and protobuf",
        ("grpc", "google.protobuf"),
        {
            "test_g.py": "import grpc\nfrom concurrent import futures\nfrom google.protobuf import struct_pb2\ndef test_g():\n    s = grpc.server(futures.ThreadPoolExecutor(1)); port = s.add_insecure_port('127.0.0.1:0'); s.start()\n"
            "    with grpc.insecure_channel(f'127.0.0.1:{port}') as c: grpc.channel_ready_future(c).result(20)\n    s.stop(0).wait()\n"
            "def test_p(): assert struct_pb2.Value(number_value=1).number_value == 1\n",
            "pytest.ini": INI,
        },
        [],
    ),
    (
        "tornado, httpx, trio and networkx",
        ("tornado", "httpx"),
        {
            "test_t.py": "import asyncio, httpx, tornado.web, tornado.testing\nclass H(tornado.web.RequestHandler):\n    def get(self): self.write('hi')\n"
            "class TestH(tornado.testing.AsyncHTTPTestCase):\n    def get_app(self): return tornado.web.Application([('/', H)])\n    def test_h(self): assert self.fetch('/').body == b'hi'\n"
            "def test_x():\n    t = httpx.MockTransport(lambda r: httpx.Response(200, text='y')); assert httpx.Client(transport=t).get('http://x').text == 'y'\n",
            "pytest.ini": INI,
        },
        [],
    ),
    (
        "a random order and a set's order",
        ("pytest_randomly",),
        {
            "test_r.py": "def test_a(): pass\ndef test_b(): pass\ndef test_c(): pass\n",
            "pytest.ini": "[pytest]\naddopts = -p no:cacheprovider -p randomly -p 'randomly' -p no:xdist\n",
        },
        [],
    ),
    (
        "unittest, doctest and subtests",
        (),
        {
            "logic.py": '"""Docs.\n\n>>> 1 + 1\n2\n"""\n' + LOGIC,
            "test_u.py": "import unittest, logic\nclass T(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls): cls.x = 1\n    def test_a(self):\n        for i in range(3):\n            with self.subTest(i=i): self.assertNotEqual(i, 1)\n    @unittest.expectedFailure\n    def test_b(self): self.fail()\n    def test_c(self): self.assertEqual(logic.price(self.x), 2)\n",
            "pytest.ini": INI.replace("-p no:randomly", "-p no:randomly --doctest-modules"),
        },
        [{"logic.py": '"""Docs.\n\n>>> 1 + 1\n3\n"""\n' + LOGIC}],
    ),
]
HEAVY = [
    (
        "numpy, with threads",
        ("numpy",),
        {
            "test_n.py": "from concurrent.futures import ThreadPoolExecutor\nimport numpy as np\n"
            "def test_multiply():\n    a = np.ones((600, 600)); assert (a @ a)[0, 0] == 600\n"
            "def test_threads():\n    with ThreadPoolExecutor(4) as e: assert sum(e.map(np.sum, np.ones((8, 10)))) == 80\n"
            "def test_random(): assert np.random.default_rng().random() != np.random.default_rng().random()\n",
            "pytest.ini": INI,
        },
        [],
    ),
    (
        "scikit-learn, a parallel fit",
        ("sklearn",),
        {
            "test_s.py": "import numpy as np\nfrom sklearn.cluster import KMeans\nfrom sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier\n"
            "from sklearn.model_selection import cross_val_score\nX, Y = np.arange(400).reshape(-1, 1) % 40, (np.arange(400) % 40 > 20)\n"
            "def test_openmp(): assert HistGradientBoostingClassifier(max_iter=5).fit(X, Y).score(X, Y) > 0.9\n"
            "def test_threads(): assert RandomForestClassifier(10, n_jobs=2, random_state=0).fit(X, Y).score(X, Y) > 0.9\n"
            "def test_processes(): assert cross_val_score(RandomForestClassifier(5, random_state=0), X, Y, n_jobs=2, cv=2).min() > 0.9\n"
            "def test_clusters(): assert len(KMeans(2, n_init=1, random_state=0).fit(X).cluster_centers_) == 2\n",
            "pytest.ini": INI,
        },
        [],
    ),
    (
        "pyarrow",
        ("pyarrow",),
        {
            "test_p.py": "import pyarrow as pa, pyarrow.compute as pc, pyarrow.parquet as pq\n"
            "def test_sum(): assert pc.sum(pa.array(range(100_000))).as_py() == 4999950000\n"
            "def test_parquet(tmp_path):\n    pq.write_table(pa.table({'a': list(range(1000))}), tmp_path / 't')\n"
            "    assert pq.read_table(tmp_path / 't', use_threads=True).num_rows == 1000\n",
            "pytest.ini": INI,
        },
        [],
    ),
    (
        "torch, with a DataLoader",
        ("torch",),
        {
            "test_t.py": "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n"
            "def test_multiply(): assert (torch.ones(500, 500) @ torch.ones(500, 500))[0, 0] == 500\n"
            "def test_backward():\n    x = torch.ones(3, requires_grad=True); (x * x).sum().backward(); assert x.grad.tolist() == [2, 2, 2]\n"
            "def test_workers(): assert len(list(DataLoader(TensorDataset(torch.arange(8)), batch_size=2, num_workers=2))) == 4\n"
            "def test_random(): assert torch.manual_seed(1).initial_seed() == 1\n",
            "pytest.ini": INI,
        },
        [],
    ),
    (
        "OpenCV",
        ("cv2",),
        {
            "test_o.py": "import cv2, numpy as np\n"
            "def test_blur(): assert cv2.GaussianBlur(np.ones((900, 900), np.uint8), (5, 5), 0).sum() == 810_000\n"
            "def test_threads():\n    cv2.setNumThreads(2); assert cv2.resize(np.ones((900, 900, 3), np.uint8), (90, 90)).shape == (90, 90, 3)\n",
            "pytest.ini": INI,
        },
        [],
    ),
    *(
        project
        for project in ORDINARY
        if project[0] in ("numpy and scipy in parallel", "polars", "grpc and protobuf", "pandas and scikit-learn")
    ),
]
"""Projects whose packages start threads or cannot be copied easily. Their runs have to be right, and none may hang."""
ARGUMENTS = {"xdist": ("-n", "2")}
PROJECTS = [*SMALL, *HIDES, *ORDINARY]
