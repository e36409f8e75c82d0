"""Query inputs: values for the variables, collections, rules and patterns that `:in` names."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from codriver.datalog import operators
from codriver.datalog.errors import QueryError
from codriver.datalog.query import parse_rules
from codriver.datalog.syntax_tree import Query, Rules, RulesInput, Source, binding_variables
from codriver.datalog.value_types import from_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.datalog.entity_store import Schema
    from codriver.datalog.operators import Rows

MAX_ROWS = 100_000  # that inputs are taken apart into, all together


@dataclass(frozen=True, slots=True)
class Inputs:
    """Inputs by their variables: those with one value, and rows of those with several. And the rules."""

    constants: dict[str, object]
    names: tuple[str, ...]
    rows: Rows
    rules: Rules


def read_inputs(query: Query, values: Sequence[object], schema: Schema) -> Inputs:
    """What the values, JSON and in the order of `:in` without its sources, mean.

    Raises:
        QueryError: there are too few, too many, or one is not what its binding takes apart.
    """
    takers = [item for item in query.inputs if not isinstance(item, Source)]
    if len(takers) != len(values):
        raise _error(f"{len(takers)} inputs, one for each that `:in` names besides sources", f"{len(values)}")
    constants: dict[str, object] = {}
    names: list[str] = []
    tables: list[Rows] = []
    rules: Rules = {}
    size = 1
    for number, (taker, given) in enumerate(zip(takers, values, strict=True), 1):
        if isinstance(taker, RulesInput):
            if not isinstance(given, str):
                raise _error("rules as an EDN string, such as `[[(name ?a) clause …]]`", f"input {number}: {given!r}")
            rules = parse_rules(given, schema)
            continue
        try:
            rows = list(dict.fromkeys(operators.expand(taker, from_json(given))))
        except (TypeError, ValueError) as error:
            raise _error(f"an input {number} that its binding can take apart ({error})", repr(given)) from None
        own = binding_variables(taker)
        if len(rows) == 1:
            constants.update(zip(own, rows[0], strict=True))
        else:
            names += own
            tables.append(rows)
            size *= len(rows)
    if size > MAX_ROWS:
        raise _error(f"inputs of at most {MAX_ROWS} rows, all combined", f"{size}")
    combined: Rows = [tuple([cell for row in chosen for cell in row]) for chosen in product(*tables)]
    return Inputs(constants, tuple(names), combined, rules)


def _error(expected: str, found: str) -> QueryError:
    return QueryError(expected, found, line=1, column=1, part="inputs")
