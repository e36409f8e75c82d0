"""Models and routes of frameworks, edited and loaded while they live. Run by the interpreter that has the framework.

`python framework_loads.py NAME` prints what was seen, as JSON, for the test to judge.
"""

import importlib
import json
import sys
import tempfile
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "server"))

from codriver.repls.worker.basics.held_definitions import Holds
from codriver.repls.worker.python.loaded_texts import LoadedTexts
from codriver.repls.worker.python.module_loads import ModuleLoad
from codriver.repls.worker.python.python_drift import Drift

FLASK = """
from flask import Flask
app = Flask("live")
@app.route("/")
def index(): return "helo"
"""
FASTAPI = """
from fastapi import FastAPI
app = FastAPI()
@app.get("/")
def index(a: int = 1): return {"said": "helo", "a": a}
"""
SQLALCHEMY = """
from sqlalchemy import Integer, String, create_engine
from sqlalchemy.orm import Session, declarative_base, relationship
from sqlalchemy import Column, ForeignKey
Base = declarative_base()
class User(Base):
    __tablename__ = "user"
    id = Column(Integer, primary_key=True)
    name = Column(String)
    orders = relationship("Order", back_populates="user")
    def label(self): return "helo " + self.name
class Order(Base):
    __tablename__ = "order"
    id = Column(Integer, primary_key=True)
    user_id = Column(ForeignKey("user.id"))
    user = relationship("User", back_populates="orders")
"""
DJANGO = """
from django.db import models
class User(models.Model):
    name = models.CharField(max_length=9)
    class Meta:
        app_label = "live"
    def label(self): return "helo " + self.name
"""


class Live:
    """A module that is edited and loaded."""

    def __init__(self, folder, text):
        self.file = Path(folder).resolve() / "live.py"
        self.texts = LoadedTexts()
        self.texts.begin()
        self.drift = Drift(self.texts)
        self.file.write_text(text)
        sys.path.insert(0, str(self.file.parent))
        self.module = importlib.import_module("live")
        self.texts.note()
        self.texts.settle()

    def edit(self, old, new):
        text = self.file.read_text()
        assert old in text, old
        self.file.write_text(text.replace(old, new))
        held = Holds([]).of("")
        load = ModuleLoad("live", str(self.file), self.file.read_text(), held, self.drift, home=sys, keeps=False)
        load.begin()
        failed = True
        try:
            for step in load.steps():
                step.act()
            failed = False
        finally:
            load.end(has_failed=failed)

    def rows(self):
        return self.drift.rows(str(self.file.parent))


def flask(folder):
    live = Live(folder, FLASK)
    client = live.module.app.test_client()
    seen = [client.get("/").text]
    live.edit('"helo"', '"hello"')
    return [*seen, client.get("/").text, len(list(live.module.app.url_map.iter_rules())), live.rows()]


def fastapi(folder):
    client_of = importlib.import_module("fastapi.testclient").TestClient

    live = Live(folder, FASTAPI)
    client = client_of(live.module.app)
    seen = [client.get("/").json()]
    live.edit('"helo"', '"hello"')
    routes = [route.path for route in live.module.app.routes if route.path == "/"]
    return [*seen, client.get("/?a=2").json(), len(routes), live.rows()]


def sqlalchemy(folder):
    live = Live(folder, SQLALCHEMY)
    engine_of = importlib.import_module("sqlalchemy").create_engine
    session_of = importlib.import_module("sqlalchemy.orm").Session

    engine = engine_of("sqlite://")
    live.module.Base.metadata.create_all(engine)
    session, kind = session_of(engine), live.module.User
    user = kind(name="ann", orders=[live.module.Order()])
    session.add(user)
    session.commit()
    seen = [user.label(), live.rows()]
    live.edit('"helo "', '"hello "')
    live.edit("    def label", "    def shout(self): return self.label().upper()\n    def label")
    same = live.module.User is kind
    return [*seen, user.label(), user.shout(), same, session.query(kind).first() is user, live.rows()]


def django(folder):
    settings = importlib.import_module("django.conf").settings

    settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}})
    library = importlib.import_module("django")

    library.setup()
    warnings.simplefilter("error")
    live = Live(folder, DJANGO)
    kind, user = live.module.User, live.module.User(name="ann")
    seen = [user.label(), live.rows()]
    live.edit('"helo "', '"hello "')
    live.edit("    def label", "    def shout(self): return self.label().upper()\n    def label")
    return [*seen, user.label(), user.shout(), live.module.User is kind, live.rows()]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        sys.stdout.write(json.dumps(globals()[sys.argv[1]](place)))
