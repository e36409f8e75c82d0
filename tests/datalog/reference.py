"""A slow, obvious solver for checked queries, with which the fast one must agree.

A row is a dict from variable to value. Clauses run in the order written, except that they wait for missing variables.
Nothing is indexed or estimated.
"""

from codriver_datalog.edn import from_python
from codriver_datalog.functions import FUNCTIONS, is_true
from codriver_datalog.syntax_tree import (
    Blank,
    CollectionBinding,
    Constant,
    FunctionCall,
    Not,
    Or,
    Pattern,
    Predicate,
    RuleCall,
    TupleBinding,
    Variable,
    argument_variables,
    shared_variables,
)


class UnboundError(Exception):
    """Raised when a clause needs a variable that no other clause binds."""


class Reference:
    """Solves clauses over sources (`{"$": [{":output/line": 1, …}, …]}`) with rules as their names' branches."""

    def __init__(self, sources, rules):
        self.sources = sources
        self.relations = {}
        for source in sources:
            moved = {"$": sources[source]}
            self.relations[source] = (
                {name: set() for name in rules} if source == "$" else Reference(moved, rules).relations["$"]
            )
        changed = True
        while changed:
            changed = False
            for name, branches in rules.items():
                for branch in branches:
                    found = {tuple(row[v] for v in branch.head) for row in self.solve(branch.clauses, [{}])}
                    changed |= not found <= self.relations["$"][name]
                    self.relations["$"][name] |= found

    def answer(self, clauses, rows):
        """Return the rows, or raise UnboundError, which depends only on the query."""
        if self.binds(clauses, set(rows[0])) is None:
            raise UnboundError
        return self.solve(clauses, rows)

    def solve(self, clauses, rows):
        waiting = [c for c in clauses if not isinstance(c, Not)] + [c for c in clauses if isinstance(c, Not)]
        while waiting and rows:
            clause = next(c for c in waiting if self.is_ready(c, set(rows[0])))
            waiting.remove(clause)
            rows = distinct([new for row in rows for new in self.step(clause, row)])
        return rows

    def is_ready(self, clause, bound):
        match clause:
            case Predicate(arguments=arguments) | FunctionCall(arguments=arguments):
                return argument_variables(arguments) <= bound
            case Or(variables=names, required=required, branches=branches):
                after = [self.binds(branch, bound & set(names)) for branch in branches]
                return required <= bound and all(item is not None and item >= set(names) for item in after)
            case Not(clauses=clauses):
                inner = bound & shared_variables(clause)
                return bool(inner) and self.binds(clauses, inner) is not None
        return True

    def binds(self, clauses, bound):
        """Return the variables that are bound after the clauses, or None if the clauses cannot run."""
        waiting = list(clauses)
        while waiting:
            ready = [clause for clause in waiting if self.is_ready(clause, bound)]
            if not ready:
                return None
            waiting = [clause for clause in waiting if clause not in ready]
            bound = bound.union(
                *(shared_variables(clause) for clause in ready if not isinstance(clause, Not | Predicate))
            )
        return bound

    def step(self, clause, row):  # noqa: C901, PLR0912  # one case a kind of clause
        match clause:
            case Pattern(source=source, entity=entity, attribute=attribute, value=value):
                for found in self.sources[source.name]:
                    for keyword, retained in found.items():
                        terms = ((entity, found[":output/line"]), (attribute, keyword), (value, retained))
                        yield from unify(row, terms)
            case Predicate():
                if is_true(self.call(clause, row)):
                    yield row
            case FunctionCall(binding=binding):
                value = from_python(self.call(clause, row))
                if value is not None:
                    yield from destructure(row, binding, value)
            case Not(clauses=clauses):
                if not self.solve(clauses, [only(row, shared_variables(clause))]):
                    yield row
            case Or(variables=names, branches=branches):
                for branch in branches:
                    for found in self.solve(branch, [only(row, names)]):
                        yield {**row, **only(found, names)}
            case RuleCall(name=name, arguments=arguments, source=source):
                for values in self.relations[source.name][name]:
                    yield from unify(row, zip(arguments, values, strict=True))

    def call(self, clause, row):
        if clause.function in ("missing?", "get-else"):
            source, *rest = clause.arguments
            entity, keyword, *default = (value_of(argument, row) for argument in rest)
            found = [e for e in self.sources[source.name] if e[":output/line"] == entity and keyword in e]
            if clause.function == "missing?":
                return not found
            return found[0][keyword] if found else default[0]
        return FUNCTIONS[clause.function].call(*(value_of(argument, row) for argument in clause.arguments))


def value_of(argument, row):
    return argument.value if isinstance(argument, Constant) else row[argument.name]


def only(row, names):
    return {name: value for name, value in row.items() if name in names}


def distinct(rows):
    return [
        dict(items) for items in dict.fromkeys(tuple(sorted(row.items(), key=lambda item: item[0])) for row in rows)
    ]


def unify(row, terms):
    """Return the row with the variables among the terms bound to their values, or None if they do not match."""
    row = dict(row)
    for term, value in terms:
        if isinstance(term, Constant):
            if term.value != value:
                return
        elif isinstance(term, Variable) and row.setdefault(term.name, value) != value:
            return
    yield row


def destructure(row, binding, value):
    match binding:
        case Blank():
            yield row
        case Variable():
            yield from unify(row, [(binding, value)])
        case CollectionBinding(element):
            for item in value:
                yield from destructure(row, element, item)
        case TupleBinding(parts):
            rows = [row]
            for part, item in zip(parts, value, strict=False):
                rows = [new for old in rows for new in destructure(old, part, item)]
            yield from rows
