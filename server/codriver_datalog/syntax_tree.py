"""The syntax tree of a query, and the parser of its `:where` clauses and rules.

Each clause becomes a node. The parser also checks which variables the clauses need and bind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from codriver_datalog.edn import Form, Text, constant_value
from codriver_datalog.functions import ENTITY_FUNCTIONS, FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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


CLAUSE_SYNTAX = (
    "a clause: `[?e :attribute ?v]`, `[(f ?x)]`, `[(f ?x) ?y]`, `(not …)`, `(not-join [?x] …)`, `(or …)`, "
    "`(or-join [?x] …)` or `(rule ?x)`"
)
BINDING_SYNTAX = "a binding: `?x`, `_`, `[?x ?y]`, `[?x ...]` or `[[?x ?y]]`"


class Parser:
    """Parses the clauses in a string. `rule_calls` collects the rule calls that it finds."""

    def __init__(self, text: Text, schema: Schema) -> None:
        self.text = text
        self.rule_calls: list[RuleCall] = []
        self._schema = schema

    def parse_clauses(self, forms: Iterable[Form]) -> tuple[Clause, ...]:
        """Parse forms as clauses."""
        return tuple(clause for form in forms for clause in self._parse_clause(form))

    def is_variable(self, form: Form) -> bool:
        """Return whether a form is a variable such as `?name`."""
        return form.tag == "symbol" and form.value.startswith("?") and len(form.value) > 1

    def is_source(self, form: Form) -> bool:
        """Return whether a form is a source such as `$name`."""
        return form.tag == "symbol" and form.value.startswith("$")

    def parse_variable(self, form: Form) -> Variable:
        """Parse a variable.

        Raises:
            QueryError: the form is not a variable.
        """
        if not self.is_variable(form):
            raise self.text.error("expected a variable such as `?x`", form)
        return Variable(form.value)

    def parse_source(self, form: Form) -> Source:
        """Parse a source.

        Raises:
            QueryError: the form is not the name of a source.
        """
        if form.value not in self._schema.source_names:
            raise self.text.error(f"expected {self._schema.sources_text}", form)
        return Source(form.value)

    def parse_binding(self, form: Form) -> Binding:
        """Parse a binding.

        Raises:
            QueryError: the form is not a binding.
        """
        if form.is_symbol("_"):
            return Blank()
        if self.is_variable(form):
            return Variable(form.value)
        if form.tag != "vector" or not form.items:
            raise self.text.error(f"expected {BINDING_SYNTAX}", form)
        items = form.items
        if len(items) == 2 and items[1].is_symbol("..."):
            return CollectionBinding(self.parse_binding(items[0]))
        if len(items) == 1 and items[0].tag == "vector":
            return CollectionBinding(self.parse_binding(items[0]))
        return TupleBinding(tuple(self.parse_binding(item) for item in items))

    def parse_rule_variables(self, forms: tuple[Form, ...], whole: Form) -> tuple[tuple[str, ...], frozenset[str]]:
        """Parse the parameters of a rule or `or-join`, and return all of them and the required ones.

        The required parameters may be in a vector before the others, as in `[?required] ?other`.
        """
        required: tuple[str, ...] = ()
        if forms and forms[0].tag in ("vector", "list"):
            required = tuple(self.parse_variable(item).name for item in forms[0].items)
            forms = forms[1:]
        names = (*required, *(self.parse_variable(form).name for form in forms))
        if not names or len(set(names)) < len(names):
            raise self.text.error("expected distinct variables", whole)
        return names, frozenset(required)

    def _parse_clause(self, form: Form) -> tuple[Clause, ...]:
        if form.tag == "vector" and form.items:
            if form.items[0].tag == "list":
                return (self._parse_call(form),)
            return (self._parse_pattern(form, Source("$")),)
        if form.tag != "list" or not form.items:
            raise self.text.error(f"expected {CLAUSE_SYNTAX}", form)
        items = form.items
        source = Source("$")
        if self.is_source(items[0]):
            source, items = self.parse_source(items[0]), items[1:]
        if not items or items[0].tag != "symbol":
            raise self.text.error(f"expected {CLAUSE_SYNTAX}", form)
        name, *rest = items
        clauses: tuple[Clause, ...]
        match name.value:
            case "and":
                clauses = self.parse_clauses(rest)
            case "not" | "not-join":
                clauses = (self._parse_not(name.value, rest, form),)
            case "or" | "or-join":
                clauses = (self._parse_or(name.value, rest, form),)
            case _:
                clauses = (self._parse_rule_call(name, rest, form),)
        return clauses if source.name == "$" else tuple(replace_source(clause, source) for clause in clauses)

    def _parse_pattern(self, form: Form, source: Source) -> Pattern:
        items = form.items
        if self.is_source(items[0]):
            source, items = self.parse_source(items[0]), items[1:]
        if not 1 <= len(items) <= 3:
            raise self.text.error("expected a pattern `[?e :attribute ?v]`", form)
        entity, attribute, value = (*map(self._parse_term, items), Blank(), Blank())[:3]
        if isinstance(attribute, Constant) and attribute.value not in self._schema.usable_keywords:
            raise self._unknown_attribute_error(items[1])
        if isinstance(entity, Constant) and type(entity.value) is not int:
            raise self.text.error("expected an entity: a variable, `_` or an entity's id", items[0])
        return Pattern(source, entity, attribute, value, form)

    def _unknown_attribute_error(self, form: Form) -> Exception:
        keywords = self._schema.select_usable_keywords(self.text.text)
        return self.text.error(f"expected an attribute ({' '.join(keywords)})", form)

    def _parse_term(self, form: Form) -> Term:
        if form.is_symbol("_"):
            return Blank()
        if self.is_variable(form):
            return Variable(form.value)
        if form.tag in ("symbol", "regex"):
            raise self.text.error("expected a variable, `_` or a value", form)
        return Constant(constant_value(self.text, form))

    def _parse_call(self, form: Form) -> Predicate | FunctionCall:
        call = form.items[0]
        if not call.items or call.items[0].tag != "symbol" or len(form.items) > 2:
            raise self.text.error("expected `[(f ?x …)]` or `[(f ?x …) binding]`", form)
        name = call.items[0]
        arguments = tuple(self._parse_argument(item) for item in call.items[1:])
        if name.value in ENTITY_FUNCTIONS:
            self._check_entity_call(call, name.value, arguments)
        else:
            function = FUNCTIONS.get(name.value)
            if function is None:
                raise self.text.error(
                    "expected one of the functions " + " ".join(sorted({*FUNCTIONS, *ENTITY_FUNCTIONS})), name
                )
            if not function.accepts(len(arguments)) or any(isinstance(argument, Source) for argument in arguments):
                raise self.text.error(f"expected `{name.value}` with {function.arity_text()}", call)
        if len(form.items) == 1:
            return Predicate(name.value, arguments, form)
        return FunctionCall(name.value, arguments, self.parse_binding(form.items[1]), form)

    def _check_entity_call(self, call: Form, name: str, arguments: tuple[Argument, ...]) -> None:
        """Check the arguments of a call to a function that reads entities.

        Raises:
            QueryError: the function does not accept these arguments.
        """
        usage = ENTITY_FUNCTIONS[name]
        count = len(arguments)
        if count < 3 or (name == "missing?" and count != 3) or (name == "get-else" and count != 4):
            raise self.text.error(f"expected {usage}", call)
        if not isinstance(arguments[0], Source) or any(isinstance(argument, Source) for argument in arguments[1:]):
            raise self.text.error(f"expected {usage}", call)
        for form, argument in list(zip(call.items[3:], arguments[2:], strict=True))[
            : None if name == "get-some" else 1
        ]:
            if isinstance(argument, Constant) and argument.value not in self._schema.usable_keywords:
                raise self._unknown_attribute_error(form)

    def _parse_argument(self, form: Form) -> Argument:
        if self.is_source(form):
            return self.parse_source(form)
        if self.is_variable(form):
            return Variable(form.value)
        if form.tag == "symbol":
            raise self.text.error("expected a variable or a value as an argument", form)
        return Constant(constant_value(self.text, form))

    def _parse_not(self, name: str, rest: list[Form], form: Form) -> Not:
        join: frozenset[str] | None = None
        if name == "not-join":
            if not rest or rest[0].tag != "vector" or not rest[0].items:
                raise self.text.error("expected `(not-join [?x …] clause …)`", form)
            join = frozenset(self.parse_variable(item).name for item in rest[0].items)
            rest = rest[1:]
        clauses = self.parse_clauses(rest)
        if not clauses:
            raise self.text.error(f"expected `({name} … clause …)`", form)
        if join is not None and not join <= all_variables(clauses):
            raise self.text.error("the variables of `not-join` must occur in its clauses", form)
        return Not(join, clauses, form)

    def _parse_or(self, name: str, rest: list[Form], form: Form) -> Or:
        head: tuple[str, ...] | None = None
        required: frozenset[str] = frozenset()
        if name == "or-join":
            if not rest or rest[0].tag != "vector" or not rest[0].items:
                raise self.text.error("expected `(or-join [?x …] clause …)`", form)
            head, required = self.parse_rule_variables(rest[0].items, rest[0])
            rest = rest[1:]
        branches = tuple(self._parse_clause(item) for item in rest)
        if not branches:
            raise self.text.error(f"expected `({name} … clause …)`", form)
        if head is None:
            names = [all_variables(branch) for branch in branches]
            if len(set(names)) > 1:
                raise self.text.error(
                    "every branch of `or` must have the same variables (otherwise use `or-join`)", form
                )
            head = tuple(sorted(names[0]))
        for branch, item in zip(branches, rest, strict=True):
            if not frozenset(head) <= all_variables(branch):
                raise self.text.error(f"every branch must use every variable of `or-join` ({' '.join(head)})", item)
        return Or(head, required, branches, form)

    def _parse_rule_call(self, name: Form, rest: list[Form], form: Form) -> RuleCall:
        if not rest or name.value in FUNCTIONS:
            raise self.text.error(f"expected {CLAUSE_SYNTAX}", form)
        call = RuleCall(name.value, tuple(self._parse_term(item) for item in rest), Source("$"), form)
        self.rule_calls.append(call)
        return call


def check_rule_calls(text: Text, calls: Iterable[RuleCall], rules: Rules) -> None:
    """Check that each call refers to a rule and has the right number of arguments.

    Raises:
        QueryError: a call refers to an unknown rule or has the wrong number of arguments.
    """
    for call in calls:
        if call.name not in rules:
            raise text.error(f"expected one of the rules {' '.join(sorted(rules)) or '(there are none)'}", call.form)
        count = len(rules[call.name][0].head)
        if count != len(call.arguments):
            raise text.error(f"expected {count} arguments for the rule `{call.name}`", call.form)


def check_stratified(text: Text, rules: Rules) -> None:
    """Check that no rule depends on its own negation.

    Raises:
        QueryError: a rule depends on its own negation.
    """
    calls = {
        name: [call for branch in branches for call in rule_calls(branch.clauses, negated=False)]
        for name, branches in rules.items()
    }
    reached = {name: {call.name for call, _ in found} for name, found in calls.items()}
    is_growing = True
    while is_growing:
        is_growing = False
        for names in reached.values():
            size = len(names)
            names.update(*(reached[name] for name in tuple(names)))
            is_growing |= len(names) > size
    for name, found in calls.items():
        for call, negated in found:
            if negated and (call.name == name or name in reached[call.name]):
                raise text.error(f"a rule inside `not` must not depend on `{name}`", call.form)


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
