"""Bind the inputs of a query, which are the values that a caller passes for `:in`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from codriver_datalog.destructuring import destructure
from codriver_datalog.edn import from_json
from codriver_datalog.errors import QueryError
from codriver_datalog.syntax_tree import Query, Rules, RulesInput, Source, binding_variables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver_datalog.entity_store import Schema
    from codriver_datalog.rows import Rows
from codriver_datalog.query_parser import parse_rules

MAX_INPUT_ROWS = 100_000
"""Maximum total number of rows that the inputs of a query bind."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of a query: constant values, rows for variables that have several values, and rules."""

    constants: dict[str, object]
    names: tuple[str, ...]
    rows: Rows
    rules: Rules


def read_inputs(query: Query, values: Sequence[object], schema: Schema) -> Inputs:
    """Convert JSON values to the inputs of a query. They must be in the order of `:in`, excluding the sources.

    Raises:
        QueryError: the number of values is wrong, or a value does not fit its binding.
    """
    takers = [item for item in query.inputs if not isinstance(item, Source)]
    if len(takers) != len(values):
        raise _error(f"expected {len(takers)} inputs, one for each part of `:in` besides the sources", f"{len(values)}")
    constants: dict[str, object] = {}
    names: list[str] = []
    tables: list[Rows] = []
    rules = query.rules
    size = 1
    for number, (taker, given) in enumerate(zip(takers, values, strict=True), 1):
        if isinstance(taker, RulesInput):
            if not isinstance(given, str):
                raise _error(
                    "expected rules as an EDN string, such as `[[(name ?a) clause …]]`", f"input {number}: {given!r}"
                )
            rules = {**rules, **parse_rules(given, schema, query.rules)}
            continue
        try:
            rows = list(dict.fromkeys(destructure(taker, from_json(given))))
        except (TypeError, ValueError) as error:
            raise _error(
                f"expected a value for input {number} that its binding can destructure ({error})", repr(given)
            ) from None
        variables = binding_variables(taker)
        if len(rows) == 1:
            constants.update(zip(variables, rows[0], strict=True))
        else:
            names += variables
            tables.append(rows)
            size *= len(rows)
    if size > MAX_INPUT_ROWS:
        raise _error(f"expected inputs with at most {MAX_INPUT_ROWS} rows in total", f"{size}")
    combined: Rows = [tuple([cell for row in chosen for cell in row]) for chosen in product(*tables)]
    return Inputs(constants, tuple(names), combined, rules)


def _error(reason: str, found: str) -> QueryError:
    return QueryError(reason, found, line=1, column=1, part="inputs")
