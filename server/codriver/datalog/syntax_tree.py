"""Syntax tree of a query: clauses, bindings and find elements, checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from codriver.datalog.edn import Form, Text
    from codriver.datalog.entity_store import Schema


@dataclass(frozen=True, slots=True)
class Variable:
    """`?name`."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that stands in the query."""

    value: object


@dataclass(frozen=True, slots=True)
class Blank:
    """`_`: anything, and each one on its own."""


@dataclass(frozen=True, slots=True)
class Source:
    """A database: `$` is the log, `$app` that of applications, `$history` the history, `$memory` that of past runs.

    `$run` has the calls that were recorded.
    """

    name: str


Term = Variable | Constant | Blank
Argument = Variable | Constant | Source

# Bindings: what a value is taken apart into


@dataclass(frozen=True, slots=True)
class TupleBinding:
    """`[?a ?b]`: the parts of one value in their order."""

    parts: tuple[Binding, ...]


@dataclass(frozen=True, slots=True)
class CollectionBinding:
    """`[?a ...]`, and `[[?a ?b]]` with a tuple in it: each element of a value, one row an element."""

    element: Binding


Binding = Variable | Blank | TupleBinding | CollectionBinding

# Clauses. `form` is where it stands, for errors.


@dataclass(frozen=True, slots=True)
class Pattern:
    """`[?e :attribute ?v]`; the attribute may be a variable, and what is left out at the end is blank."""

    source: Source
    entity: Term
    attribute: Term
    value: Term
    form: Form


@dataclass(frozen=True, slots=True)
class Predicate:
    """`[(f ?a 1)]`: keeps the rows for which it is neither false nor nil."""

    function: str
    arguments: tuple[Argument, ...]
    form: Form


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """`[(f ?a 1) ?b]`: binds what it gives; nil gives no row."""

    function: str
    arguments: tuple[Argument, ...]
    binding: Binding
    form: Form


@dataclass(frozen=True, slots=True)
class Not:
    """`(not …)` and `(not-join [?a] …)`: keeps the rows that its clauses have no answer for.

    `join` names the variables shared with the clauses around it; None means all that occur on both sides.
    """

    join: frozenset[str] | None
    clauses: tuple[Clause, ...]
    form: Form


@dataclass(frozen=True, slots=True)
class Or:
    """`(or …)` and `(or-join [[?a] ?b] …)`: the rows of any branch.

    `variables` are shared with the clauses around it; those in `required` are bound there.
    """

    variables: tuple[str, ...]
    required: frozenset[str]
    branches: tuple[tuple[Clause, ...], ...]
    form: Form


@dataclass(frozen=True, slots=True)
class RuleCall:
    """`(name ?a "x")`: the rows of the rule, whose patterns look in `source`."""

    name: str
    arguments: tuple[Term, ...]
    source: Source
    form: Form


Clause = Pattern | Predicate | FunctionCall | Not | Or | RuleCall


@dataclass(frozen=True, slots=True)
class Branch:
    """One way for a rule to hold. `head` are its variables in order; those in `required` are bound by every call."""

    head: tuple[str, ...]
    required: frozenset[str]
    clauses: tuple[Clause, ...]
    form: Form


Rules = dict[str, tuple[Branch, ...]]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`(count ?a)`, `(max 3 ?a)`: one value of a group of rows. `amount` is the number before the variable."""

    function: str
    amount: int | None
    variable: Variable
    form: Form


@dataclass(frozen=True, slots=True)
class PullAttribute:
    """One attribute of a pull: its keyword, the key it gets in the answer, and what stands in when it is absent."""

    keyword: str
    key: str
    default: object = None


@dataclass(frozen=True, slots=True)
class PullPattern:
    """A pull pattern: every attribute when `wildcard`, then the ones named."""

    wildcard: bool
    attributes: tuple[PullAttribute, ...]


@dataclass(frozen=True, slots=True)
class Pull:
    """`(pull ?e [:output/line])`. A pattern that is a variable comes with the inputs."""

    source: Source
    variable: Variable
    pattern: PullPattern | Variable
    form: Form


Element = Variable | Aggregate | Pull
Shape = Literal["relation", "collection", "tuple", "scalar"]


@dataclass(frozen=True, slots=True)
class RulesInput:
    """`%` in `:in`."""


Input = Source | RulesInput | Binding


@dataclass(frozen=True, slots=True)
class Query:
    """A query that has been checked. `keys` are the names of a row's values where rows are to be maps.

    `schema`: of all the attributes that it may name; a source need not have all of them.
    """

    text: Text
    schema: Schema
    shape: Shape
    elements: tuple[Element, ...]
    with_variables: tuple[str, ...]
    keys: tuple[str, ...]
    inputs: tuple[Input, ...]
    where: tuple[Clause, ...]
    rules: Rules = field(default_factory=dict)
    """Those that it may call without any being given."""


def binding_variables(binding: Binding) -> tuple[str, ...]:
    """The variables of a binding, in their order."""
    match binding:
        case Variable(name):
            return (name,)
        case TupleBinding(parts):
            return tuple(name for part in parts for name in binding_variables(part))
        case CollectionBinding(element):
            return binding_variables(element)
    return ()


def argument_variables(arguments: tuple[Argument | Term, ...]) -> frozenset[str]:
    """The variables among arguments."""
    return frozenset(argument.name for argument in arguments if isinstance(argument, Variable))


def variables(clause: Clause) -> frozenset[str]:
    """The variables through which a clause meets the ones beside it."""
    match clause:
        case Pattern(entity=entity, attribute=attribute, value=value):
            return argument_variables((entity, attribute, value))
        case Predicate(arguments=arguments) | RuleCall(arguments=arguments):
            return argument_variables(arguments)
        case FunctionCall(arguments=arguments, binding=binding):
            return argument_variables(arguments) | frozenset(binding_variables(binding))
        case Not(join=join, clauses=clauses):
            return all_variables(clauses) if join is None else join
        case Or(variables=names):
            return frozenset(names)


def all_variables(clauses: tuple[Clause, ...]) -> frozenset[str]:
    """The variables of clauses that stand beside one another."""
    return frozenset().union(*map(variables, clauses))


def bound_variables(clauses: tuple[Clause, ...]) -> frozenset[str]:
    """The variables that clauses can bind: not those that only a filter looks at."""
    return all_variables(tuple(clause for clause in clauses if not isinstance(clause, Predicate | Not)))
