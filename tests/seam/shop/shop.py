"""A shop: orders come in by HTTP, and a thread of its own places, ships and cancels them.

    flask --app shop run --debug

It has three bugs, which its tests let an agent find without reading this file.
"""

from __future__ import annotations

import itertools
import queue
import threading

from flask import Flask, jsonify, request
from sqlalchemy import ForeignKey, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

import codriver_seam as seam

app = Flask(__name__)
state = {
    "catalogue": {"tea": {"price": 400}, "mug": {"price": 900}},
    "stock": {"tea": 100, "mug": 20},
    "orders": {},
    "payment": {"provider": "paywell", "key": "live-key-of-the-shop"},
}
events = queue.Queue()
numbers = itertools.count(1)


# The database


class Base(DeclarativeBase):
    """The tables."""


class Customer(Base):
    """Somebody who buys."""

    __tablename__ = "customers"
    name: Mapped[str] = mapped_column(primary_key=True)
    zip: Mapped[str | None]


class Sale(Base):
    """An order, as the accountants see it."""

    __tablename__ = "sales"
    number: Mapped[int] = mapped_column(primary_key=True)
    cents: Mapped[int]
    name: Mapped[str] = mapped_column(ForeignKey(Customer.name))
    customer: Mapped[Customer] = relationship()


engine = create_engine("sqlite:///shop.db")
Base.metadata.drop_all(engine)
Base.metadata.create_all(engine)
with Session(engine) as first, first.begin():
    names = ("ada", "bob", "cy", "dan", "eve", "flo", "gus")
    first.add_all(Customer(name=name, zip=None if name == "gus" else f"104{place}") for place, name in enumerate(names))


# What happens to an order


@seam.handler("event", "order/place")
def place(number, customer, product, count, coupon=None):
    """Take an order."""
    article = state["catalogue"][product]
    if coupon == "TEN":
        article["price"] = article["price"] * 90 // 100
    cents = article["price"] * count
    state["stock"][product] -= count
    state["orders"][number] = {
        "customer": customer,
        "product": product,
        "count": count,
        "cents": cents,
        "status": "new",
    }
    with Session(engine) as session, session.begin():
        session.add(Sale(number=number, cents=cents, name=customer))
    events.put(seam.bind(handle, ["order/ship", number]))


@seam.handler("event", "order/ship")
def ship(number):
    """Send what was ordered."""
    order = state["orders"][number]
    with Session(engine) as session:
        area = session.get(Customer, order["customer"]).zip[:2]
    order.update(status="shipped", area=area)


@seam.handler("event", "order/cancel")
def cancel(number):
    """Take an order back, and put its articles on the shelf again."""
    order = state["orders"][number]
    state["stock"][order["product"]] += order["count"]
    order["status"] = "cancelled"


HANDLERS = {"order/place": place, "order/ship": ship, "order/cancel": cancel}


def handle(event):
    """Handle an event as one epoch."""
    name, *arguments = event
    with seam.epoch("shop", name, given=arguments):
        HANDLERS[name](*arguments)


def work():
    """Handle what is queued, one after the other."""
    while True:
        events.get()()


# HTTP


@app.post("/orders")
def order():
    """Take an order, which is placed a little later."""
    requested, number = request.get_json(), next(numbers)
    words = [
        "order/place",
        number,
        requested["customer"],
        requested["product"],
        requested["count"],
        requested.get("coupon"),
    ]
    events.put(seam.bind(handle, words))
    return jsonify(number=number), 202


@app.get("/orders/<int:number>")
def status(number):
    """Return the status of an order."""
    return jsonify(status=state["orders"][number]["status"])


@app.get("/sales")
def sales():
    """Return the sales with their customers."""
    with Session(engine) as session:
        rows = session.scalars(select(Sale))
        return jsonify([[row.number, row.cents, row.customer.name, row.customer.zip] for row in rows])


# What agents see, while it is developed


def put(value):
    """Make a value the state."""
    state.clear()
    state.update(value)


if seam.install(app.debug or None):
    seam.frame(
        "shop", lambda: state, put,
        dispatch=handle, enqueue=lambda event: events.put(seam.bind(handle, event)),
        validate=lambda value: None if {"stock", "orders"} <= set(value) else "stock and orders are missing",
        sensitive=[("payment", "key")], snapshot="deepcopy",
    )  # fmt: skip
    seam.watch_logging()
    seam.watch_threads()
    seam.watch_flask(app)
    seam.watch_sqlalchemy(engine)
    seam.start_repl()

threading.Thread(target=work, name="orders", daemon=True).start()
