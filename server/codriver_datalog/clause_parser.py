"""Parse the `:where` clauses and the rules of a query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver_datalog.edn import Form, Text, constant_value
from codriver_datalog.functions import ENTITY_FUNCTIONS, FUNCTIONS
from codriver_datalog.syntax_tree import (
    Argument,
    Binding,
    Blank,
    Clause,
    CollectionBinding,
    Constant,
    FunctionCall,
    Not,
    Or,
    Pattern,
    Predicate,
    RuleCall,
    Rules,
    Source,
    Term,
    TupleBinding,
    Variable,
    all_variables,
    replace_source,
    rule_calls,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codriver_datalog.entity_store import Schema


CLAUSE_SYNTAX = (
    "a clause: `[?e :attribute ?v]`, `[(f ?x)]`, `[(f ?x) ?y]`, `(not …)`, `(not-join [?x] …)`, `(or …)`, "
    "`(or-join [?x] …)` or `(rule ?x)`"
)
BINDING_SYNTAX = "a binding: `?x`, `_`, `[?x ?y]`, `[?x ...]` or `[[?x ?y]]`"


class ClauseParser:
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
