"""The syntax tree of a query, and the variables that its clauses use and bind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codriver_datalog.edn import Form, Text
    from codriver_datalog.entity_store import Schema


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable such as `?name`."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal value in a query."""

    value: object


@dataclass(frozen=True, slots=True)
class Blank:
    """The blank `_`, which matches any value. Two blanks may match different values."""


@dataclass(frozen=True, slots=True)
class Source:
    """A data source such as `$`."""

    name: str


Term = Variable | Constant | Blank
Argument = Variable | Constant | Source

# Bindings: the variables for the parts of a value


@dataclass(frozen=True, slots=True)
class TupleBinding:
    """A binding such as `[?a ?b]`, which binds the items of a collection in order."""

    parts: tuple[Binding, ...]


@dataclass(frozen=True, slots=True)
class CollectionBinding:
    """A binding such as `[?a ...]`, which makes a row for each item of a collection. `[[?a ?b]]` has a nested tuple."""

    element: Binding


Binding = Variable | Blank | TupleBinding | CollectionBinding

# Clauses. `form` is the form that errors refer to.


@dataclass(frozen=True, slots=True)
class Pattern:
    """A clause such as `[?e :attribute ?v]`, which matches entities with an attribute.

    The attribute may be a variable. The attribute and value are blank if omitted.
    """

    source: Source
    entity: Term
    attribute: Term
    value: Term
    form: Form


@dataclass(frozen=True, slots=True)
class Predicate:
    """A clause such as `[(f ?a 1)]`, which drops rows for which the result is false or nil."""

    function: str
    arguments: tuple[Argument, ...]
    form: Form


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A clause such as `[(f ?a 1) ?b]`, which binds the result. Rows for which the result is nil are dropped."""

    function: str
    arguments: tuple[Argument, ...]
    binding: Binding
    form: Form


@dataclass(frozen=True, slots=True)
class Not:
    """A clause `(not …)` or `(not-join [?a] …)`, which drops rows for which the nested clauses have an answer.

    `join` contains the variables shared with other clauses, or None if all common variables are shared.
    """

    join: frozenset[str] | None
    clauses: tuple[Clause, ...]
    form: Form


@dataclass(frozen=True, slots=True)
class Or:
    """A clause `(or …)` or `(or-join [[?a] ?b] …)`, which combines the rows of all branches.

    `variables` are shared with other clauses. Those in `required` must be bound by other clauses.
    """

    variables: tuple[str, ...]
    required: frozenset[str]
    branches: tuple[tuple[Clause, ...], ...]
    form: Form


@dataclass(frozen=True, slots=True)
class RuleCall:
    """A clause such as `(name ?a "x")`, which calls a rule. Patterns in the rule read from `source`."""

    name: str
    arguments: tuple[Term, ...]
    source: Source
    form: Form


Clause = Pattern | Predicate | FunctionCall | Not | Or | RuleCall


@dataclass(frozen=True, slots=True)
class Branch:
    """One definition of a rule. A rule with several definitions returns the rows of all of them.

    `head` contains the parameters. Those in `required` must be bound by the caller.
    """

    head: tuple[str, ...]
    required: frozenset[str]
    clauses: tuple[Clause, ...]
    form: Form


Rules = dict[str, tuple[Branch, ...]]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An element of `:find` such as `(count ?a)` or `(max 3 ?a)`. `amount` is the number, or None."""

    function: str
    amount: int | None
    variable: Variable
    form: Form


@dataclass(frozen=True, slots=True)
class PullAttribute:
    """An attribute in a pull pattern, with its key in the answer and its default value."""

    keyword: str
    key: str
    default: object = None


@dataclass(frozen=True, slots=True)
class PullPattern:
    """The attributes that a `pull` selects. With `wildcard`, all attributes are selected."""

    wildcard: bool
    attributes: tuple[PullAttribute, ...]


@dataclass(frozen=True, slots=True)
class Pull:
    """An element of `:find` such as `(pull ?e [:output/line])`. If the pattern is a variable, it is an input."""

    source: Source
    variable: Variable
    pattern: PullPattern | Variable
    form: Form


Element = Variable | Aggregate | Pull
Shape = Literal["relation", "collection", "tuple", "scalar"]


@dataclass(frozen=True, slots=True)
class RulesInput:
    """The input `%` in `:in`, through which the caller passes rules."""


Input = Source | RulesInput | Binding


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed and checked query.

    `keys` contains the keys of the values in a row if rows are maps. `schema` contains all attributes that the query
    may use, including those that only some sources have.
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
    """Rules that the query may call without an input for rules."""


def binding_variables(binding: Binding) -> tuple[str, ...]:
    """Return the variables of a binding in order."""
    match binding:
        case Variable(name):
            return (name,)
        case TupleBinding(parts):
            return tuple(name for part in parts for name in binding_variables(part))
        case CollectionBinding(element):
            return binding_variables(element)
    return ()


def argument_variables(arguments: tuple[Argument | Term, ...]) -> frozenset[str]:
    """Return the names of the variables among these arguments."""
    return frozenset(argument.name for argument in arguments if isinstance(argument, Variable))


def shared_variables(clause: Clause) -> frozenset[str]:
    """Return the variables of a clause that other clauses can share."""
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
    """Return all variables that occur in these clauses."""
    return frozenset().union(*map(shared_variables, clauses))


def bound_variables(clauses: tuple[Clause, ...]) -> frozenset[str]:
    """Return the variables that these clauses can bind, excluding those that they only test."""
    return all_variables(tuple(clause for clause in clauses if not isinstance(clause, Predicate | Not)))


def rule_calls(clauses: tuple[Clause, ...], *, negated: bool = False) -> Iterator[tuple[RuleCall, bool]]:
    """Yield the rule calls in these clauses. The flag of each is true if it is inside a `not`."""
    for clause in clauses:
        match clause:
            case RuleCall():
                yield clause, negated
            case Not(clauses=inner):
                yield from rule_calls(inner, negated=True)
            case Or(branches=branches):
                for branch in branches:
                    yield from rule_calls(branch, negated=negated)


def replace_source(clause: Clause, source: Source) -> Clause:
    """Return a copy of a clause that reads from `source` instead of `$`."""
    match clause:
        case Pattern(source=Source("$"), entity=entity, attribute=attribute, value=value, form=form):
            return Pattern(source, entity, attribute, value, form)
        case RuleCall(name=name, arguments=arguments, source=Source("$"), form=form):
            return RuleCall(name, arguments, source, form)
        case Not(join=join, clauses=clauses, form=form):
            return Not(join, tuple(replace_source(inner, source) for inner in clauses), form)
        case Or(variables=names, required=required, branches=branches, form=form):
            moved = tuple(tuple(replace_source(inner, source) for inner in branch) for branch in branches)
            return Or(names, required, moved, form)
    return clause
