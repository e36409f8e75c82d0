"""Create the steps that load an edited module, in the order of its source."""

from __future__ import annotations

from ...basics.definition_access import ABSENT
from ..follow_failures import Reporting
from ..statements import CLASS, assigned_names, line_range

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from .class_body_steps import ClassBodySteps
    from .edited_module import EditedModule
    from .enum_updates import MemberUpdates
    from .load_plan import LoadPlan
    from .statement_steps import StatementSteps


class LoadStep:
    """An action that a load performs at the position of a statement. `act` returns the new value, or ABSENT.

    If `is_conditional` is set, the action only has an effect if something that the statement depends on has changed.
    """

    def __init__(self, node: Any, act: Callable[[], object], *, is_conditional: bool = False) -> None:
        self.node, self.line, self.act = node, line_range(node)[0], act
        self.is_conditional = is_conditional
        self.order = (line_range(node)[1] if is_conditional else self.line), is_conditional


class LoadStepBuilder:
    """Turns a load plan into the steps that carry it out."""

    def __init__(
        self,
        edited: EditedModule,
        plan: LoadPlan,
        statements: StatementSteps,
        class_bodies: ClassBodySteps,
        members: MemberUpdates,
    ) -> None:
        self.edited, self.plan = edited, plan
        self.statements, self.class_bodies, self.members = statements, class_bodies, members

    def in_source_order(self) -> list[LoadStep]:
        """Return the steps in the order of the source."""
        body = self.edited.new.tree.body
        steps = [LoadStep(body[top], self.statements.make_runner(body[top])) for top in self.plan.tops]
        spans = [line_range(body[top]) for top in self.plan.tops]
        if self.edited.followers is not None:
            steps += self._conditional_steps(self.edited.followers)

        def add(node: Any, act: Callable[[], object]) -> None:
            if not any(first <= line_range(node)[0] <= last for first, last in spans):
                steps.append(LoadStep(node, act))

        for statement in self.plan.defined.values():
            add(statement.node, self.class_bodies.make_definition(statement))
        for owner, statement in self.plan.attributes.values():
            add(statement.node, self.class_bodies.make_assignment(owner, statement))
        for owner, names in self.plan.members.items():
            node = next(
                statement.node
                for statement in self.edited.statements
                if statement.kind == CLASS and statement.name + "." == owner
            )
            add(node, self.members.make_update(owner, names, node))
        # Steps that follow from other changes come after the change of the statement itself.
        steps.sort(key=lambda step: step.order)
        if self.edited.followers is not None and self.edited.followers.shared_registries.is_planned and body:
            steps.insert(0, LoadStep(body[0], self.edited.followers.shared_registries.reset))
        return [self._guard(step) for step in steps]

    def _conditional_steps(self, followers: Any) -> Iterator[LoadStep]:
        """Yield steps for statements that may depend on something that has changed."""
        text, body = followers.text, self.edited.new.tree.body
        forced = {top for owner, top in followers.rebuilds.forced if owner == followers.name}
        for top in sorted({*followers.affected_statements(), *forced} - self.plan.tops):
            if id(body[top]) not in self.plan.defined:
                yield LoadStep(body[top], _make_follow_step(followers, text, top), is_conditional=True)

    def _guard(self, step: LoadStep) -> LoadStep:
        """Wrap a step to report errors in the worker. A conditional step also reports errors in the project."""
        act = step.act

        def guarded_act() -> object:
            with Reporting(report, only_internal=not step.is_conditional):
                return act()
            return ABSENT

        def report(why: str) -> None:
            name = (
                getattr(step.node, "name", "")
                or ", ".join(assigned_names(step.node))
                or self.edited.new.summary(step.node)
            )
            self.plan.stays.append((name, f"line {step.line}: {why}"))

        step.act = guarded_act
        return step


def _make_follow_step(followers: Any, text: Any, top: int) -> Callable[[], object]:
    def follow() -> object:
        followers.follow(text, top)
        return ABSENT

    return follow
