"""Edits to modules that use pydantic, SQLAlchemy, attrs, click, Flask, FastAPI, Django and Celery as real programs
do.
"""

from edit_cases import Edit

PYDANTIC = "from pydantic import BaseModel, Field\n"
BASE = "from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column\nclass Base(DeclarativeBase):\n    pass\n"
CLICK = "import click\nfrom click.testing import CliRunner\n"
FLASK = "import flask\n"
FASTAPI = "import fastapi\n"
DJANGO = """\
import django.conf
if not django.conf.settings.configured:
    django.conf.settings.configure(ROOT_URLCONF='m', SECRET_KEY='x', INSTALLED_APPS=['django.contrib.contenttypes'],
        DATABASES={'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': ':memory:'}})
    import django
    django.setup()
"""
RULES = "sorted((r.rule, r.endpoint, sorted(r.methods)) for r in m.app.url_map.iter_rules() if r.endpoint != 'static')"
PATHS = "sorted((r.path, r.name) for r in m.app.routes if hasattr(r, 'dependant'))"
OPENAPI = "sorted(m.app.openapi()['paths'])"
TEST = "from fastapi.testclient import TestClient"

ALL = [
    # pydantic
    Edit(
        "pydantic: a validator in an annotation",
        PYDANTIC
        + "from typing import Annotated\nfrom pydantic import AfterValidator\nTOP = 5\ndef small(x):\n    return min(x, TOP)\nSmall = Annotated[int, AfterValidator(small)]\nclass M(BaseModel):\n    x: Small = 1\n",
        "min(x, TOP)",
        "min(x, TOP) + 100",
        "m.M(x=50).x",
        needs=("pydantic",),
    ),
    Edit(
        "pydantic: a validator in an annotation that is renamed",
        PYDANTIC
        + "from typing import Annotated\nfrom pydantic import AfterValidator\ndef small(x):\n    return min(x, 5)\nSmall = Annotated[int, AfterValidator(small)]\nclass M(BaseModel):\n    x: Small = 1\n",
        "def small(x):\n    return min(x, 5)\nSmall = Annotated[int, AfterValidator(small)]",
        "def tiny(x):\n    return min(x, 2)\nSmall = Annotated[int, AfterValidator(tiny)]",
        "m.M(x=50).x",
        needs=("pydantic",),
    ),
    Edit(
        "pydantic: a constraint in an alias",
        PYDANTIC
        + "from typing import Annotated\nPos = Annotated[int, Field(gt=0)]\nclass M(BaseModel):\n    x: Pos = 1\n    y: list[Pos] = []\n",
        "gt=0",
        "gt=10",
        ("m.M(x=5)", "m.M(y=[5])"),
        needs=("pydantic",),
    ),
    Edit(
        "pydantic: a constraint in an alias of another module",
        PYDANTIC + "from typing import Annotated\nPos = Annotated[int, Field(gt=0)]\n",
        "gt=0",
        "gt=10",
        "user.M(x=5)",
        {"user": "from pydantic import BaseModel\nfrom m import Pos\nclass M(BaseModel):\n    x: Pos = 1\n"},
        needs=("pydantic",),
    ),
    Edit(
        "pydantic: a model validator",
        PYDANTIC
        + "from pydantic import model_validator\nclass M(BaseModel):\n    x: int = 1\n    @model_validator(mode='after')\n    def check(self):\n        self.x += 1\n        return self\nONE = M(x=1)\n",
        "self.x += 1",
        "self.x += 10",
        ("m.M(x=1).x", "m.ONE.x"),
        needs=("pydantic",),
    ),
    Edit(
        "pydantic: the mode of a validator",
        PYDANTIC
        + "from pydantic import field_validator\nclass M(BaseModel):\n    x: int = 1\n    @field_validator('x', mode='after')\n    @classmethod\n    def check(cls, v):\n        return v if not isinstance(v, str) else 7\n",
        "mode='after'",
        "mode='before'",
        "m.M(x='5').x",
        needs=("pydantic",),
    ),
    Edit(
        "pydantic: a union's new member",
        PYDANTIC
        + "from typing import Literal, Union, Annotated\nclass A(BaseModel):\n    kind: Literal['a'] = 'a'\nclass B(BaseModel):\n    kind: Literal['b'] = 'b'\nAny_ = Annotated[Union[A, B], Field(discriminator='kind')]\nclass M(BaseModel):\n    one: Any_\n",
        "class B(BaseModel):\n    kind: Literal['b'] = 'b'\nAny_ = Annotated[Union[A, B]",
        "class B(BaseModel):\n    kind: Literal['b'] = 'b'\nclass C(BaseModel):\n    kind: Literal['c'] = 'c'\nAny_ = Annotated[Union[A, B, C]",
        "type(m.M.model_validate({'one': {'kind': 'c'}}).one).__name__",
        needs=("pydantic",),
    ),
    Edit(
        "pydantic: a member's discriminator",
        PYDANTIC
        + "from typing import Literal, Union, Annotated\nclass A(BaseModel):\n    kind: Literal['a'] = 'a'\nclass B(BaseModel):\n    kind: Literal['b'] = 'b'\nAny_ = Annotated[Union[A, B], Field(discriminator='kind')]\nclass M(BaseModel):\n    one: Any_\n",
        "Literal['b'] = 'b'",
        "Literal['bee'] = 'bee'",
        "type(m.M.model_validate({'one': {'kind': 'bee'}}).one).__name__",
        needs=("pydantic",),
    ),
    Edit(
        "pydantic: a generic model",
        PYDANTIC
        + "from typing import Generic, TypeVar\nT = TypeVar('T')\nclass Page(BaseModel, Generic[T]):\n    items: list[T] = []\n    size: int = 1\nInts = Page[int]\nclass Own(Page[str]):\n    extra: int = 0\n",
        "size: int = 1",
        "size: int = 5\n    total: int = 9",
        ("m.Ints().size", "m.Own().total", "m.Page[int]().size"),
        needs=("pydantic",),
    ),
    Edit(
        "pydantic: a created model",
        "from pydantic import create_model\nFIELDS = {'x': (int, 1)}\nM = create_model('M', **FIELDS)\n",
        "(int, 1)",
        "(int, 5)",
        "m.M().x",
        needs=("pydantic",),
    ),
    Edit(
        "pydantic: an enumeration in a model",
        PYDANTIC
        + "import enum\nclass Color(str, enum.Enum):\n    RED = 'red'\nclass M(BaseModel):\n    color: Color = Color.RED\n",
        "RED = 'red'\n",
        "RED = 'red'\n    BLUE = 'blue'\n",
        ("m.M(color='blue').color", "m.M.model_json_schema()['$defs']['Color']['enum']"),
        needs=("pydantic",),
    ),
    Edit(
        "pydantic: an alias generator",
        PYDANTIC
        + "from pydantic import ConfigDict\ndef camel(name):\n    return name.upper()\nclass M(BaseModel):\n    model_config = ConfigDict(alias_generator=camel)\n    first: int = 1\n",
        "name.upper()",
        "name.title()",
        ("m.M(First=5).first", "m.M(FIRST=6).first"),
        needs=("pydantic",),
    ),
    Edit(
        "pydantic: a factory that another function makes",
        PYDANTIC
        + "def tags():\n    return ['a']\nclass M(BaseModel):\n    tags: list[str] = Field(default_factory=tags)\nDEFAULT = M()\n",
        "['a']",
        "['b']",
        ("m.M().tags", "m.DEFAULT.tags"),
        needs=("pydantic",),
    ),
    Edit(
        "pydantic: a serializer",
        PYDANTIC
        + "from pydantic import field_serializer\nclass M(BaseModel):\n    x: int = 1\n    @field_serializer('x')\n    def out(self, v):\n        return v\n",
        "return v",
        "return str(v)",
        "m.M().model_dump()",
        needs=("pydantic",),
    ),
    Edit(
        "pydantic: a dataclass",
        "from pydantic.dataclasses import dataclass\n@dataclass\nclass P:\n    x: int = 1\n",
        "x: int = 1",
        "x: str = 'a'",
        "m.P()",
        needs=("pydantic",),
    ),
    Edit(
        "pydantic: a call that is validated",
        "from pydantic import validate_call\n@validate_call\ndef f(x: int, y: int = 1):\n    return x + y\n",
        "y: int = 1",
        "y: int = 5",
        "m.f('1')",
        needs=("pydantic",),
    ),
    Edit(
        "pydantic: the body of a call that is validated",
        "from pydantic import validate_call\n@validate_call\ndef f(x: int, y: int = 1):\n    return x + y\ng = f\n",
        "x + y",
        "x * 10 + y",
        ("m.f('1')", "m.g('1')"),
        needs=("pydantic",),
    ),
    Edit(
        "pydantic: a root model",
        "from pydantic import RootModel\nclass Ids(RootModel[list[int]]):\n    pass\nclass More(Ids):\n    pass\n",
        "list[int]",
        "list[str]",
        ("m.Ids(['a'])", "m.More(['a'])"),
        needs=("pydantic",),
    ),
    Edit(
        "pydantic: a private attribute",
        PYDANTIC
        + "from pydantic import PrivateAttr\nclass M(BaseModel):\n    x: int = 1\n    _seen: list = PrivateAttr(default_factory=list)\n",
        "default_factory=list",
        "default_factory=dict",
        "m.M()._seen",
        needs=("pydantic",),
    ),
    Edit(
        "pydantic: a forward reference",
        PYDANTIC
        + "class Tree(BaseModel):\n    kids: list['Leaf'] = []\nclass Leaf(BaseModel):\n    n: int = 1\nTree.model_rebuild()\n",
        "n: int = 1",
        "n: int = 1\n    w: int = 2",
        "m.Tree(kids=[{'n': 5}]).kids[0].w",
        needs=("pydantic",),
    ),
    # SQLAlchemy
    Edit(
        "sqlalchemy: a mixin's column",
        BASE
        + "class Stamp:\n    at: Mapped[int] = mapped_column(default=1)\nclass A(Stamp, Base):\n    __tablename__ = 'a'\n    id: Mapped[int] = mapped_column(primary_key=True)\n",
        "at: Mapped[int] = mapped_column(default=1)",
        "at: Mapped[int] = mapped_column(default=1)\n    by: Mapped[int] = mapped_column(default=2)",
        "sorted(m.A.__table__.c.keys())",
        needs=("sqlalchemy",),
        expects="reported",
    ),
    Edit(
        "sqlalchemy: a table's arguments",
        "import sqlalchemy as sa\n"
        + BASE
        + "class A(Base):\n    __tablename__ = 'a'\n    __table_args__ = (sa.Index('i', 'n'),)\n    id: Mapped[int] = mapped_column(primary_key=True)\n    n: Mapped[int]\n",
        "sa.Index('i', 'n')",
        "sa.Index('j', 'n')",
        "[one.name for one in m.A.__table__.indexes]",
        needs=("sqlalchemy",),
        expects="reported",
    ),
    Edit(
        "sqlalchemy: a plain table",
        "import sqlalchemy as sa\nmeta = sa.MetaData()\nt = sa.Table('t', meta, sa.Column('id', sa.Integer))\nq = sa.select(t)\n",
        "sa.Column('id', sa.Integer)",
        "sa.Column('id', sa.Integer), sa.Column('n', sa.Integer)",
        ("str(m.q)", "m.t.c.keys()", "m.meta.tables['t'].c.keys()"),
        needs=("sqlalchemy",),
        expects="reported",
    ),
    Edit(
        "sqlalchemy: a listener",
        "import sqlalchemy as sa\nfrom sqlalchemy import event\nengine = sa.create_engine('sqlite://')\nSEEN = []\n@event.listens_for(engine, 'connect')\ndef on(c, r):\n    SEEN.append('a')\n",
        "SEEN.append('a')",
        "SEEN.append('b')",
        "(m.engine.dispose(), m.SEEN.clear(), m.engine.connect().close(), m.SEEN)[3]",
        needs=("sqlalchemy",),
    ),
    Edit(
        "sqlalchemy: a hybrid property",
        BASE
        + "from sqlalchemy.ext.hybrid import hybrid_property\nclass A(Base):\n    __tablename__ = 'a'\n    id: Mapped[int] = mapped_column(primary_key=True)\n    @hybrid_property\n    def twice(self):\n        return self.id * 2\n",
        "self.id * 2",
        "self.id * 3",
        ("m.A(id=2).twice", "str(m.A.twice.compile().params)"),
        needs=("sqlalchemy",),
    ),
    Edit(
        "sqlalchemy: a column's default function",
        BASE
        + "def now():\n    return 1\nclass A(Base):\n    __tablename__ = 'a'\n    id: Mapped[int] = mapped_column(primary_key=True)\n    at: Mapped[int] = mapped_column(default=now)\n",
        "return 1",
        "return 2",
        "m.A.__table__.c.at.default.arg(None)",
        needs=("sqlalchemy",),
    ),
    Edit(
        "sqlalchemy: a query's constant",
        "import sqlalchemy as sa\nmeta = sa.MetaData()\nt = sa.Table('t', meta, sa.Column('id', sa.Integer))\nLIMIT = 5\nq = sa.select(t).limit(LIMIT)\n",
        "LIMIT = 5",
        "LIMIT = 6",
        "m.q.compile().params",
        needs=("sqlalchemy",),
        expects="reported",
    ),
    # attrs
    Edit(
        "attrs: a validator's method",
        "import attrs\n@attrs.define\nclass A:\n    x: int = attrs.field(default=1)\n    @x.validator\n    def check(self, attribute, value):\n        if value > 5:\n            raise ValueError(value)\n",
        "value > 5",
        "value > 50",
        "m.A(10)",
        needs=("attrs",),
    ),
    Edit(
        "attrs: a default's method",
        "import attrs\n@attrs.define\nclass A:\n    y: int = 2\n    x: int = attrs.field()\n    @x.default\n    def _x(self):\n        return self.y * 2\n",
        "self.y * 2",
        "self.y * 3",
        "m.A()",
        needs=("attrs",),
    ),
    Edit(
        "attrs: a converter that is a function",
        "import attrs\ndef clean(x):\n    return x.strip()\n@attrs.define\nclass A:\n    x: str = attrs.field(converter=clean)\n@attrs.define\nclass B(A):\n    y: int = 0\n",
        "x.strip()",
        "x.strip().upper()",
        ("m.A(' a ')", "m.B(' a ')"),
        needs=("attrs",),
    ),
    Edit(
        "attrs: a metadata",
        "import attrs\nUNIT = 'm'\n@attrs.define\nclass A:\n    x: int = attrs.field(default=1, metadata={'unit': UNIT})\n",
        "'m'",
        "'km'",
        "attrs.fields(m.A).x.metadata['unit']",
        setup="import attrs",
        needs=("attrs",),
    ),
    # click
    Edit(
        "click: a choice by a constant",
        CLICK
        + "MODES = ['a', 'b']\n@click.command()\n@click.option('--mode', type=click.Choice(MODES), default='a')\ndef cli(mode):\n    click.echo(mode)\n",
        "['a', 'b']",
        "['a', 'b', 'c']",
        "m.CliRunner().invoke(m.cli, ['--mode', 'c']).output",
        needs=("click",),
    ),
    Edit(
        "click: a command that is added",
        CLICK
        + "@click.group()\ndef cli():\n    pass\n@click.command()\n@click.option('--n', default=1)\ndef run(n):\n    click.echo(n)\ncli.add_command(run)\n",
        "default=1",
        "default=5",
        "m.CliRunner().invoke(m.cli, ['run']).output",
        needs=("click",),
    ),
    Edit(
        "click: a command's name",
        CLICK + "@click.group()\ndef cli():\n    pass\n@cli.command('run')\ndef run_it():\n    click.echo('ran')\n",
        "'run'",
        "'go'",
        "sorted(m.cli.commands)",
        needs=("click",),
    ),
    Edit(
        "click: a command of another module",
        CLICK + "@click.command()\n@click.option('--n', default=1)\ndef run(n):\n    click.echo(n)\n",
        "default=1",
        "default=5",
        "m.CliRunner().invoke(user.cli, ['run']).output",
        {"user": "import click\nfrom m import run\n@click.group()\ndef cli():\n    pass\ncli.add_command(run)\n"},
        needs=("click",),
    ),
    Edit(
        "click: a group's class",
        CLICK
        + "class Alias(click.Group):\n    def get_command(self, ctx, name):\n        return super().get_command(ctx, {'r': 'run'}.get(name, name))\n@click.group(cls=Alias)\ndef cli():\n    pass\n@cli.command()\ndef run():\n    click.echo('ran')\n",
        "{'r': 'run'}",
        "{'x': 'run'}",
        ("m.CliRunner().invoke(m.cli, ['x']).output", "m.CliRunner().invoke(m.cli, ['r']).exit_code"),
        needs=("click",),
    ),
    Edit(
        "click: a shared list of options",
        CLICK
        + "def common(f):\n    for one in [click.option('--a', default=1), click.option('--b', default=2)]:\n        f = one(f)\n    return f\n@click.command()\n@common\ndef cli(a, b):\n    click.echo((a, b))\n",
        "default=2",
        "default=9",
        "m.CliRunner().invoke(m.cli).output",
        needs=("click",),
    ),
    Edit(
        "click: a removed option",
        CLICK
        + "@click.command()\n@click.option('--a', default=1)\n@click.option('--b', default=2)\ndef cli(a, b=0):\n    click.echo((a, b))\n",
        "@click.option('--b', default=2)\n",
        "",
        "m.CliRunner().invoke(m.cli).output",
        needs=("click",),
    ),
    # Flask
    Edit(
        "flask: a blueprint's prefix",
        FLASK
        + "bp = flask.Blueprint('bp', __name__, url_prefix='/a')\n@bp.route('/x')\ndef x():\n    return 'x'\napp = flask.Flask('m')\napp.register_blueprint(bp)\n",
        "'/a'",
        "'/b'",
        RULES,
        needs=("flask",),
    ),
    Edit(
        "flask: a blueprint's route in another module",
        FLASK + "bp = flask.Blueprint('bp', __name__)\n@bp.route('/x')\ndef x():\n    return 'x'\n",
        "'/x'",
        "'/y'",
        RULES.replace("m.app", "user.app"),
        {"user": "import flask\nfrom m import bp\napp = flask.Flask('user')\napp.register_blueprint(bp)\n"},
        needs=("flask",),
    ),
    Edit(
        "flask: a blueprint's new route in another module",
        FLASK + "bp = flask.Blueprint('bp', __name__)\n@bp.route('/x')\ndef x():\n    return 'x'\n",
        "return 'x'\n",
        "return 'x'\n@bp.route('/z')\ndef z():\n    return 'z'\n",
        RULES.replace("m.app", "user.app"),
        {"user": "import flask\nfrom m import bp\napp = flask.Flask('user')\napp.register_blueprint(bp)\n"},
        needs=("flask",),
    ),
    Edit(
        "flask: a configuration by a constant",
        FLASK
        + "SIZE = 1\napp = flask.Flask('m')\napp.config.update(SIZE=SIZE, DEBUG_X=True)\napp.config['TWICE'] = SIZE * 2\n",
        "SIZE = 1\n",
        "SIZE = 5\n",
        ("m.app.config['SIZE']", "m.app.config['TWICE']"),
        needs=("flask",),
    ),
    Edit(
        "flask: a configuration from an object",
        FLASK + "class Config:\n    SIZE = 1\napp = flask.Flask('m')\napp.config.from_object(Config)\n",
        "SIZE = 1",
        "SIZE = 5",
        "m.app.config['SIZE']",
        needs=("flask",),
    ),
    Edit(
        "flask: a view's class",
        FLASK
        + "from flask.views import MethodView\nclass V(MethodView):\n    def get(self):\n        return 'g'\napp = flask.Flask('m')\napp.add_url_rule('/x', view_func=V.as_view('v'))\n",
        "return 'g'\n",
        "return 'g'\n    def post(self):\n        return 'p'\n",
        ("m.app.test_client().post('/x').text", RULES),
        needs=("flask",),
    ),
    Edit(
        "flask: the code of an error handler",
        FLASK + "app = flask.Flask('m')\n@app.errorhandler(404)\ndef missing(e):\n    return 'none', 200\n",
        "errorhandler(404)",
        "errorhandler(405)",
        "m.app.test_client().get('/nothing').status_code",
        needs=("flask",),
    ),
    Edit(
        "flask: a removed hook",
        FLASK
        + "app = flask.Flask('m')\n@app.before_request\ndef stop():\n    return 'stopped'\n@app.route('/')\ndef index():\n    return 'index'\n",
        "@app.before_request\ndef stop():\n    return 'stopped'\n",
        "",
        "m.app.test_client().get('/').text",
        needs=("flask",),
    ),
    Edit(
        "flask: a factory",
        FLASK
        + "def create():\n    app = flask.Flask('m')\n    app.config['X'] = 1\n    @app.route('/')\n    def index():\n        return 'one'\n    return app\napp = create()\n",
        "app.config['X'] = 1",
        "app.config['X'] = 2",
        "m.app.config['X']",
        needs=("flask",),
    ),
    Edit(
        "flask: a route in a factory",
        FLASK
        + "def create():\n    app = flask.Flask('m')\n    @app.route('/')\n    def index():\n        return 'one'\n    return app\napp = create()\n",
        "return 'one'\n",
        "return 'one'\n    @app.route('/two')\n    def two():\n        return 'two'\n",
        RULES,
        needs=("flask",),
    ),
    Edit(
        "flask: a filter's name",
        FLASK + "app = flask.Flask('m')\n@app.template_filter('up')\ndef up(x):\n    return x.upper()\n",
        "'up'",
        "'big'",
        "sorted(set(m.app.jinja_env.filters) & {'up', 'big'})",
        needs=("flask",),
    ),
    # FastAPI
    Edit(
        "fastapi: a router's prefix in another module",
        FASTAPI + "router = fastapi.APIRouter(prefix='/a')\n@router.get('/x')\ndef x():\n    return 'x'\n",
        "'/a'",
        "'/b'",
        OPENAPI.replace("m.app", "user.app"),
        {"user": "import fastapi\nfrom m import router\napp = fastapi.FastAPI()\napp.include_router(router)\n"},
        needs=("fastapi",),
    ),
    Edit(
        "fastapi: a router's new route in another module",
        FASTAPI + "router = fastapi.APIRouter()\n@router.get('/x')\ndef x():\n    return 'x'\n",
        "return 'x'\n",
        "return 'x'\n@router.get('/z')\ndef z():\n    return 'z'\n",
        OPENAPI.replace("m.app", "user.app"),
        {"user": "import fastapi\nfrom m import router\napp = fastapi.FastAPI()\napp.include_router(router)\n"},
        needs=("fastapi",),
    ),
    Edit(
        "fastapi: a dependency's parameter",
        FASTAPI
        + "def page(size: int = 10):\n    return size\napp = fastapi.FastAPI()\n@app.get('/x')\ndef x(n=fastapi.Depends(page)):\n    return n\n",
        "def page(size: int = 10):\n    return size",
        "def page(size: int = 20, start: int = 5):\n    return size + start",
        ("TestClient(m.app).get('/x').json()", "TestClient(m.app).get('/x?start=1').json()"),
        setup=TEST,
        needs=("fastapi", "httpx2"),
    ),
    Edit(
        "fastapi: a dependency's class",
        FASTAPI
        + "class Page:\n    def __init__(self, size: int = 10):\n        self.size = size\napp = fastapi.FastAPI()\n@app.get('/x')\ndef x(page: Page = fastapi.Depends()):\n    return page.size\n",
        "size: int = 10",
        "size: int = 30",
        "TestClient(m.app).get('/x').json()",
        setup=TEST,
        needs=("fastapi", "httpx2"),
    ),
    Edit(
        "fastapi: a response's model",
        FASTAPI
        + "from pydantic import BaseModel\nclass Out(BaseModel):\n    a: int = 1\napp = fastapi.FastAPI()\n@app.get('/x', response_model=Out)\ndef x():\n    return {'a': 1, 'b': 2}\n",
        "a: int = 1",
        "a: int = 1\n    b: int = 0",
        "TestClient(m.app).get('/x').json()",
        setup=TEST,
        needs=("fastapi", "httpx2"),
    ),
    Edit(
        "fastapi: a body's model in another module",
        "from pydantic import BaseModel\nclass Item(BaseModel):\n    a: int = 1\n",
        "a: int = 1",
        "a: int = 1\n    b: int = 7",
        "TestClient(user.app).post('/x', json={}).json()",
        {
            "user": "import fastapi\nfrom m import Item\napp = fastapi.FastAPI()\n@app.post('/x')\ndef x(item: Item):\n    return item.model_dump()\n"
        },
        setup=TEST,
        needs=("fastapi", "httpx2"),
    ),
    Edit(
        "fastapi: a query's default by a constant",
        FASTAPI
        + "SIZE = 10\napp = fastapi.FastAPI()\n@app.get('/x')\ndef x(n: int = fastapi.Query(SIZE)):\n    return n\n",
        "SIZE = 10",
        "SIZE = 20",
        "TestClient(m.app).get('/x').json()",
        setup=TEST,
        needs=("fastapi", "httpx2"),
    ),
    Edit(
        "fastapi: a middleware's argument",
        FASTAPI
        + "class Tag:\n    def __init__(self, app, tag):\n        self.app, self.tag = app, tag\n    async def __call__(self, scope, receive, send):\n        await self.app(scope, receive, send)\nTAG = 'a'\napp = fastapi.FastAPI()\napp.add_middleware(Tag, tag=TAG)\n",
        "TAG = 'a'",
        "TAG = 'b'",
        "[one.kwargs for one in m.app.user_middleware]",
        needs=("fastapi",),
    ),
    Edit(
        "fastapi: an exception's handler",
        FASTAPI
        + "class Oops(Exception):\n    pass\napp = fastapi.FastAPI()\n@app.exception_handler(Oops)\nasync def on(request, exc):\n    return fastapi.responses.JSONResponse({'code': 1}, 418)\n@app.get('/x')\ndef x():\n    raise Oops\n",
        "418",
        "419",
        "TestClient(m.app).get('/x').status_code",
        setup=TEST,
        needs=("fastapi", "httpx2"),
    ),
    Edit(
        "fastapi: a router's dependencies",
        FASTAPI
        + "def check():\n    return 1\ndef deny():\n    raise fastapi.HTTPException(403)\nDEPS = [fastapi.Depends(check)]\nrouter = fastapi.APIRouter(dependencies=DEPS)\n@router.get('/x')\ndef x():\n    return 'x'\napp = fastapi.FastAPI()\napp.include_router(router)\n",
        "Depends(check)]",
        "Depends(deny)]",
        "TestClient(m.app).get('/x').status_code",
        setup=TEST,
        needs=("fastapi", "httpx2"),
    ),
    Edit(
        "fastapi: a status by a constant",
        FASTAPI + "CODE = 201\napp = fastapi.FastAPI()\n@app.post('/x', status_code=CODE)\ndef x():\n    return 1\n",
        "CODE = 201",
        "CODE = 202",
        "TestClient(m.app).post('/x').status_code",
        setup=TEST,
        needs=("fastapi", "httpx2"),
    ),
    # Django
    Edit(
        "django: choices",
        DJANGO
        + "from django.db import models\nclass Kind(models.TextChoices):\n    A = 'a', 'An A'\nclass Thing(models.Model):\n    kind = models.CharField(max_length=5, choices=Kind.choices)\n    class Meta:\n        app_label = 'm'\n",
        "'An A'\n",
        "'An A'\n    B = 'b', 'A B'\n",
        ("m.Kind.choices", "m.Thing._meta.get_field('kind').choices"),
        needs=("django",),
    ),
    Edit(
        "django: url patterns that grow",
        DJANGO
        + "from django.urls import path\ndef a(r):\n    pass\ndef b(r):\n    pass\nurlpatterns = [path('a/', a, name='a')]\nurlpatterns += [path('b/', b, name='b')]\n",
        "path('a/', a, name='a')",
        "path('c/', a, name='c')",
        ("[one.name for one in m.urlpatterns]",),
        needs=("django",),
    ),
    Edit(
        "django: included patterns",
        DJANGO
        + "from django.urls import path, include\ndef a(r):\n    pass\napi = [path('a/', a, name='a')]\nurlpatterns = [path('api/', include((api, 'api'), namespace='api'))]\n",
        "'a/', a, name='a'",
        "'z/', a, name='z'",
        ("[one.name for one in m.urlpatterns[0].url_patterns]",),
        needs=("django",),
    ),
    Edit(
        "django: a form's field",
        DJANGO
        + "from django import forms\nclass F(forms.Form):\n    x = forms.IntegerField()\nclass G(F):\n    y = forms.CharField(required=False)\n",
        "x = forms.IntegerField()",
        "x = forms.IntegerField(min_value=5)\n    z = forms.CharField(required=False)",
        ("m.G({'x': 1}).is_valid()", "sorted(m.G.base_fields)"),
        needs=("django",),
    ),
    Edit(
        "django: a query set's method",
        DJANGO
        + "from django.db import models\nclass Q(models.QuerySet):\n    def cheap(self):\n        return 'cheap'\nclass Thing(models.Model):\n    objects = Q.as_manager()\n    class Meta:\n        app_label = 'm'\n",
        "        return 'cheap'\n",
        "        return 'cheaper'\n    def dear(self):\n        return 'dear'\n",
        ("m.Thing.objects.cheap()", "m.Thing.objects.dear()"),
        needs=("django",),
    ),
    Edit(
        "django: a receiver",
        DJANGO
        + "from django.dispatch import Signal, receiver\ndone = Signal()\n@receiver(done)\ndef on(sender, **kw):\n    return 'a'\n",
        "return 'a'",
        "return 'b'",
        "[two for one, two in m.done.send('x')]",
        needs=("django",),
    ),
    # Celery
    Edit(
        "celery: a task's name",
        "import celery\napp = celery.Celery('m')\n@app.task(name='one')\ndef job():\n    return 1\napp.finalize()\n",
        "name='one'",
        "name='two'",
        "sorted(one for one in m.app.tasks if not one.startswith('celery.'))",
        needs=("celery",),
    ),
    Edit(
        "celery: a schedule",
        "import celery\nEVERY = 5\napp = celery.Celery('m')\napp.conf.beat_schedule = {'a': {'task': 't', 'schedule': EVERY}}\napp.conf.update(task_time_limit=EVERY * 2)\n",
        "EVERY = 5",
        "EVERY = 9",
        ("m.app.conf.beat_schedule['a']['schedule']", "m.app.conf.task_time_limit"),
        needs=("celery",),
        expects="reported",
    ),
    Edit(
        "celery: a task's base",
        "import celery\nclass Base(celery.Task):\n    tag = 'a'\n    def label(self):\n        return self.tag\napp = celery.Celery('m')\n@app.task(base=Base, name='job')\ndef job():\n    return 1\n",
        "tag = 'a'",
        "tag = 'b'",
        "m.job.label()",
        needs=("celery",),
    ),
    Edit(
        "celery: a task's body",
        "import celery\napp = celery.Celery('m')\n@app.task(name='job', bind=True)\ndef job(self, x):\n    return x\njob.name\n",
        "return x",
        "return x * 2",
        "m.job.run(4)",
        needs=("celery",),
    ),
    Edit(
        "celery: a shared task",
        "import celery\n@celery.shared_task(name='shared', max_retries=1)\ndef job():\n    return 1\napp = celery.Celery('m')\napp.set_default()\n",
        "max_retries=1",
        "max_retries=5",
        "m.job.max_retries",
        needs=("celery",),
    ),
]
