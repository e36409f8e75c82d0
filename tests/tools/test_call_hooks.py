"""The hooks through which features take part in calls."""

from dataclasses import fields

from codriver.tools.calls.call import CallHooks
from codriver.tools.calls.hooks import merge_hooks


def test_every_kind_of_hook_is_merged_in_the_order_of_the_features():
    first, second = ({field.name: hook_of(field, name) for field in fields(CallHooks)} for name in ("first", "second"))
    merged = merge_hooks((CallHooks(**first), CallHooks(**second)))
    for field in fields(CallHooks):
        together = (
            first[field.name] | second[field.name] if is_mapping(field) else first[field.name] + second[field.name]
        )
        assert getattr(merged, field.name) == together, field.name


def is_mapping(field):
    return field.type.startswith("Mapping")


def hook_of(field, name):
    """Return a value for a field that only one feature has."""
    return {name: name} if is_mapping(field) else (name,)
