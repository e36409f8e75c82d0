"""Parse and check queries.

The grammar is that of DataScript, as a vector (`[:find … :in … :where …]`) or as a map, with these differences:

- The sources are `$`, `$app`, `$history`, `$memory` and `$run`, because there are no other databases.
- A pattern has at most an entity, an attribute and a value. Entities never change, so there are no transactions.
- An attribute that no entity can have is an error instead of an empty answer, because it is usually a typo.
- A rule must not depend on its own negation, which has no agreed meaning.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from codriver_datalog.aggregates import AGGREGATE_FUNCTIONS
from codriver_datalog.clause_parser import ClauseParser, check_rule_calls, check_stratified
from codriver_datalog.edn import Form, Text, read_form
from codriver_datalog.syntax_tree import (
    Aggregate,
    Branch,
    Element,
    Input,
    Pull,
    PullAttribute,
    PullPattern,
    Query,
    RuleCall,
    Rules,
    RulesInput,
    Shape,
    Source,
    Variable,
    binding_variables,
    bound_variables,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from codriver_datalog.entity_store import Schema

SECTION_KEYWORDS = (":find", ":keys", ":strs", ":syms", ":with", ":in", ":where")
RETURN_MAP_SECTIONS = (":keys", ":strs", ":syms")
"""Sections that turn the rows in an answer into maps."""
FIND_SYNTAX = (
    "`:find` with elements (`?x`, `(count ?x)`, `(pull ?e [*])`): several for rows, `[?x ...]` for a list, `[?x ?y]` "
    "for one row, `?x .` for one value"
)
PULL_SYNTAX = 'a pull pattern such as `[*]` or `[:output/line [:output/who :as "by" :default "nobody"]]`'
MAX_RULES = 200
"""Maximum number of rules in a query."""
RULE_NAME_PATTERN = re.compile(r"[^\s:\"]+")
"""Matches the name of a rule."""


def parse_query(source_text: str, schema: Schema, rules: Rules | None = None) -> Query:
    """Parse and check a query. It may call `rules` in addition to those in its inputs.

    Raises:
        QueryError: the text is not a valid query.
    """
    text = Text(source_text)
    form = read_form(text)
    sections = _split_sections(text, form)
    if ":find" not in sections:
        raise text.error(f"expected {FIND_SYNTAX}", form)
    shape, elements = _parse_find(text, sections[":find"], form, schema)
    parser = ClauseParser(text, schema)
    inputs = _parse_inputs(parser, sections[":in"]) if ":in" in sections else (Source("$"),)
    names = [name for item in inputs if not isinstance(item, Source | RulesInput) for name in binding_variables(item)]
    _check_unique(text, names, form, "`:in` may name each variable only once")
    query = Query(
        text=text,
        schema=schema,
        shape=shape,
        elements=elements,
        with_variables=tuple(parser.parse_variable(item).name for item in sections.get(":with", ())),
        keys=_parse_keys(text, sections, shape, len(elements), form),
        inputs=inputs,
        where=parser.parse_clauses(sections.get(":where", ())),
        rules=rules or {},
    )
    _check_variables(query, form, parser.rule_calls, {*names, *bound_variables(query.where)})
    return query


def parse_rules(source_text: str, schema: Schema, others: Rules | None = None) -> Rules:
    """Parse a list of rules, `[[(name ?a ?b) clause …] …]`. They may call each other and the rules in `others`.

    Raises:
        QueryError: the text is not a list of rules, or a rule depends on its own negation.
    """
    text = Text(source_text, "rules")
    form = read_form(text)
    if form.tag not in ("vector", "list") or len(form.items) > MAX_RULES:
        raise text.error(f"expected rules such as `[[(name ?a ?b) clause …] …]`, at most {MAX_RULES}", form)
    parser = ClauseParser(text, schema)
    rules: Rules = {}
    for item in form.items:
        name, branch = _parse_rule(parser, item)
        known = rules.get(name, ())
        if known and len(known[0].head) != len(branch.head):
            raise text.error(f"expected {len(known[0].head)} variables, as in the first rule named `{name}`", item)
        rules[name] = (*known, branch)
    check_rule_calls(text, parser.rule_calls, {**(others or {}), **rules})
    check_stratified(text, {**(others or {}), **rules})
    return rules


def parse_pull(text: Text, form: Form, schema: Schema) -> PullPattern:
    """Parse a pull pattern, such as `[*]`.

    Raises:
        QueryError: the form is not a pull pattern.
    """
    if form.tag != "vector" or not form.items:
        raise text.error(f"expected {PULL_SYNTAX}", form)
    wildcard = False
    attributes: list[PullAttribute] = []
    for item in form.items:
        if item.is_symbol("*") or item.value in ("*", ":*"):
            wildcard = True
        elif item.value != ":db/id":  # the id is always included
            attributes.append(_parse_pull_attribute(text, item, schema))
    return PullPattern(wildcard, tuple(attributes))


def _split_sections(text: Text, form: Form) -> Mapping[str, tuple[Form, ...]]:
    """Return the forms that follow each section keyword, such as `:find`."""
    sections: dict[str, tuple[Form, ...]] = {}
    if form.tag == "map":
        for key, value in zip(form.items[::2], form.items[1::2], strict=True):
            if key.value not in SECTION_KEYWORDS or value.tag not in ("vector", "list"):
                raise text.error(f"expected a vector that starts with a section ({' '.join(SECTION_KEYWORDS)})", key)
            sections[key.value] = value.items
        return sections
    if form.tag != "vector" or not form.items or form.items[0].tag != "keyword":
        raise text.error("expected a query such as `[:find ?e :where [?e :output/line 1]]`", form)
    starts = [position for position, item in enumerate(form.items) if item.tag == "keyword"]
    for start, end in pairwise([*starts, len(form.items)]):
        name = form.items[start]
        if name.value not in SECTION_KEYWORDS:
            raise text.error(f"expected a section ({' '.join(SECTION_KEYWORDS)})", name)
        if name.value in sections:
            raise text.error(f"a query may contain `{name.value}` only once", name)
        sections[name.value] = form.items[start + 1 : end]
    return sections


def _parse_find(text: Text, forms: tuple[Form, ...], query: Form, schema: Schema) -> tuple[Shape, tuple[Element, ...]]:
    """Parse the forms after `:find`, and return the shape of the answer and its elements."""
    if len(forms) == 2 and forms[1].is_symbol("."):
        return "scalar", (_parse_element(text, forms[0], schema),)
    if len(forms) == 1 and forms[0].tag == "vector":
        items = forms[0].items
        if len(items) == 2 and items[1].is_symbol("..."):
            return "collection", (_parse_element(text, items[0], schema),)
        if items:
            return "tuple", tuple(_parse_element(text, item, schema) for item in items)
    if not forms:
        raise text.error(f"expected {FIND_SYNTAX}", query)
    return "relation", tuple(_parse_element(text, item, schema) for item in forms)


def _parse_element(text: Text, form: Form, schema: Schema) -> Element:
    if form.tag == "symbol" and form.value.startswith("?"):
        return Variable(form.value)
    if form.tag == "list" and form.items and form.items[0].tag == "symbol":
        name = form.items[0].value
        if name == "pull":
            return _parse_pull_element(text, form, schema)
        if name in AGGREGATE_FUNCTIONS:
            return _parse_aggregate(text, form)
        raise text.error(f"expected `pull` or an aggregate ({' '.join(AGGREGATE_FUNCTIONS)})", form.items[0])
    raise text.error(f"expected {FIND_SYNTAX}", form)


def _parse_aggregate(text: Text, form: Form) -> Aggregate:
    name, *rest = form.items
    amount: int | None = None
    if (
        len(rest) == 2
        and AGGREGATE_FUNCTIONS[name.value].accepts_amount
        and type(rest[0].value) is int
        and rest[0].value >= 0
    ):
        amount = rest.pop(0).value
    if len(rest) != 1 or rest[0].tag != "symbol" or not rest[0].value.startswith("?"):
        reason = f"expected `({name.value} ?x)`" + (
            f" or `({name.value} 3 ?x)`" if AGGREGATE_FUNCTIONS[name.value].accepts_amount else ""
        )
        raise text.error(reason, form)
    return Aggregate(name.value, amount, Variable(rest[0].value), form)


def _parse_pull_element(text: Text, form: Form, schema: Schema) -> Pull:
    parser = ClauseParser(text, schema)
    rest = list(form.items[1:])
    source = parser.parse_source(rest.pop(0)) if rest and parser.is_source(rest[0]) else Source("$")
    if len(rest) != 2:
        raise text.error("expected `(pull ?e pattern)`", form)
    pattern = Variable(rest[1].value) if parser.is_variable(rest[1]) else parse_pull(text, rest[1], schema)
    return Pull(source, parser.parse_variable(rest[0]), pattern, form)


def _parse_pull_attribute(text: Text, form: Form, schema: Schema) -> PullAttribute:
    attribute, options = form, dict[str, object]()
    if form.tag in ("vector", "list") and len(form.items) % 2:
        attribute = form.items[0]
        for option, value in zip(form.items[1::2], form.items[2::2], strict=True):
            if option.value not in (":as", ":default") or value.tag in ("list", "vector", "map", "set"):
                raise text.error("expected `:as` with a name or `:default` with a value", option)
            options[option.value] = value.value
    # Inputs are JSON, where keywords are strings.
    if attribute.tag not in ("keyword", "string") or attribute.value not in schema.usable_keywords:
        raise text.error(
            f"expected {PULL_SYNTAX}, with attributes from {' '.join(schema.select_usable_keywords(text.text))}", form
        )
    key = str(options.get(":as", attribute.value.rpartition("/")[2])).removeprefix(":")
    return PullAttribute(attribute.value, key, options.get(":default"))


def _parse_keys(
    text: Text, sections: Mapping[str, tuple[Form, ...]], shape: Shape, count: int, query: Form
) -> tuple[str, ...]:
    """Parse the names after `:keys`, `:strs` or `:syms`. Returns an empty tuple if there is no such section."""
    given = [name for name in RETURN_MAP_SECTIONS if name in sections]
    if not given:
        return ()
    names = sections[given[0]]
    if len(given) > 1 or shape not in ("relation", "tuple") or len(names) != count:
        raise text.error(
            f"expected one of `:keys`, `:strs`, `:syms`, with a name for each of the {count} elements in a row", query
        )
    for name in names:
        if name.tag not in ("symbol", "string", "keyword"):
            raise text.error("expected a name", name)
    return tuple(str(name.value).removeprefix(":") for name in names)


def _parse_inputs(parser: ClauseParser, forms: tuple[Form, ...]) -> tuple[Input, ...]:
    inputs: list[Input] = []
    for form in forms:
        if parser.is_source(form):
            inputs.append(parser.parse_source(form))
        elif form.is_symbol("%"):
            inputs.append(RulesInput())
        else:
            inputs.append(parser.parse_binding(form))
    return tuple(inputs)


def _parse_rule(parser: ClauseParser, form: Form) -> tuple[str, Branch]:
    """Parse a rule definition, and return its name and its branch."""
    reason = "expected a rule: `[(name ?a [?b]) clause …]`"
    if form.tag != "vector" or len(form.items) < 2 or form.items[0].tag != "list" or not form.items[0].items:
        raise parser.text.error(reason, form)
    name, *arguments = form.items[0].items
    if name.tag != "symbol" or not RULE_NAME_PATTERN.fullmatch(name.value) or not arguments or parser.is_variable(name):
        raise parser.text.error(reason, form.items[0])
    head, required = parser.parse_rule_variables(tuple(arguments), form.items[0])
    return name.value, Branch(head, required, parser.parse_clauses(form.items[1:]), form)


def _check_variables(query: Query, form: Form, calls: Collection[RuleCall], bound: Collection[str]) -> None:
    """Check that all variables of a query are bound, and that there are rules if the query calls any."""
    text = query.text
    for element in query.elements:
        name = element.name if isinstance(element, Variable) else element.variable.name
        if name not in bound:
            raise text.error(f"the variable `{name}` in `:find` must occur in `:where` or `:in`", form)
        if isinstance(element, Pull) and isinstance(element.pattern, Variable) and element.pattern.name not in bound:
            raise text.error(f"the variable `{element.pattern.name}` in the pull must occur in `:in`", element.form)
    found = [element.name for element in query.elements if isinstance(element, Variable)]
    for name in query.with_variables:
        if name not in bound or name in found:
            raise text.error(f"the variable `{name}` in `:with` must occur in `:where`, but not in `:find`", form)
    unknown = [call for call in calls if call.name not in query.rules]
    if unknown and not any(isinstance(item, RulesInput) for item in query.inputs):
        raise text.error(
            "expected `%` in `:in` and the rules as an input, because the query calls a rule", unknown[0].form
        )


def _check_unique(text: Text, names: list[str], form: Form, reason: str) -> None:
    """Check that no name occurs more than once.

    Raises:
        QueryError: a name occurs more than once.
    """
    if len(set(names)) < len(names):
        raise text.error(reason, form)
