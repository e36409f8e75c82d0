"""Recorded runs in the format that a REPL sends, written by hand."""

import json

SHOP = (("shop", "total", ["cart"]), ("shop", "price", ["item", "amount"]), ("shop", "stored", ["name"]))


def run_text(*calls, functions=SHOP, **more):
    """Return the text of a run. A call is the number of its caller (from 1, or 0 for none), function, arguments and
    end.

    An end that starts with `!` is an error. A function is its module, name and parameters, its mark and when it
    changed.
    """
    names = [name for _, name, *_ in functions]
    counts = {name: sum(call[1] == name for call in calls) for name in names}
    rows = []
    for place, (caller, name, arguments, ended) in enumerate(calls):
        error = ended[1:] if ended.startswith("!") else None
        result = None if error else ended
        rows.append([names.index(name), caller - 1, 0, place * 10, 5, list(arguments), result, error, 0])
    listed = [
        [module, name, "/shop.py", 3, parameters, counts[name], False, *marks]
        for module, name, parameters, *marks in functions
    ]
    return json.dumps({"functions": listed, "calls": rows, "threads": ["MainThread"], "notes": [], **more})


TWO_PRICES = run_text(
    (0, "total", ["list of 2"], "46.0"),
    (1, "price", ["{'price': 2}", "3"], "6"),
    (2, "stored", ["'tax'"], "None"),
    (1, "price", ["{'price': 2}", "25"], "40.0"),
    (0, "stored", ["'rate'"], "!KeyError('rate')"),
)
