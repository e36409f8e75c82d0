"""An agent that gets a complaint from a user of the shop, and finds the bug only through the application's seam.

Its queries are derived from the complaint and from earlier answers; it reads no file of the shop.
"""

import ast
import re
from collections import Counter

LOOK, CHANGE = "inspect_app", "change_app"


def part(line, name):
    """Return the named part of a trace line."""
    return re.search(rf" {name}=(\S+|'[^']*')", line)[1]


def dispatch_of(line):
    """Return the dispatch id of a trace line."""
    return int(re.search(r" d(\d+) ", line)[1])


def nothing_is_shipped_any_more(call):
    """The shipping thread died because of an order that it could not send."""
    lines = call(LOOK, what="issues")["lines"]
    [died] = [line for line in lines if " thread=" in line]
    place = part(died, "at")
    failed = next(line for line in lines if part(line, "at") == place)
    event = failed.split()[4]
    [began, *_] = call(LOOK, what="trace", filter={"dispatchId": dispatch_of(failed), "eventId": event})["lines"]
    number = re.search(r"given=\((\d+)", began)[1]
    order = call(LOOK, what="state", path=f"orders.{number}")["value"]
    return f"{place}: {event} fails for {order}, and ends the thread {part(died, 'thread')}"


def tea_gets_cheaper_by_and_by(call):
    """An order with a coupon changes the catalogue."""
    path = "catalogue.tea.price"
    changed = call(LOOK, what="epochs", path=path)["lines"][-1]
    event = changed.split()[1]
    [began, *_] = call(LOOK, what="trace", filter={"dispatchId": dispatch_of(changed), "eventId": event})["lines"]
    arguments = ast.literal_eval(re.search(r"given=(\(.*\))", began)[1])
    tried = call(CHANGE, what="dispatch", event=repr([event, 1000, *arguments[1:]]), sync=True)
    again = [line for line in tried["changes"] if "'price'" in line]
    call(CHANGE, what="restore", epochId=tried["undoneBy"])
    [handler] = call(LOOK, what="handlers", id=event)["lines"]
    return f"{handler.split()[2]} {event} with {arguments[-1]}: {again[0]}"


def the_sales_are_slow(call):
    """The page queries the database once for each customer."""
    route = "GET /sales"
    slow = call(LOOK, what="trace", filter={"handlerId": route}, limit=1)["lines"][0]
    lines = call(LOOK, what="trace", filter={"dispatchId": dispatch_of(slow), "opType": "sql"})["lines"]
    statement, times = Counter(line.partition(" sql=")[2] for line in lines).most_common(1)[0]
    return f"{part(' at=' + statement.rpartition(' at=')[2], 'at')}: {times} times {statement.partition(' at=')[0]}"


COMPLAINTS = (nothing_is_shipped_any_more, tea_gets_cheaper_by_and_by, the_sales_are_slow)
