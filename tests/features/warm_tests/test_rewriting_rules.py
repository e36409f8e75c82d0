"""The modules whose assertions pytest rewrites are those that its import hook rewrites."""

import random
from pathlib import Path
from types import SimpleNamespace

import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook
from _pytest.assertion.rewrite import assertstate_key as state_key

from codriver.features.warm_tests.child.rewriting_rules import RewritingRules

PATTERNS = [["test_*.py", "*_test.py"], ["*.py"], ["check*"], ["tests/**.py"], ["shop/test_[ab].py", "x.py"], []]
PARTS = ["shop", "test_a", "a_test", "conftest", "check_it", "x", "tests", "plugin", "testing", "plug"]
MARKED = ["plugin", "shop.plug", "x"]


def hook_with(config, patterns, arguments, marked):
    hook = AssertionRewritingHook(config)
    hook.fnpats = patterns
    hook._must_rewrite.update(marked)
    if arguments is not None:
        paths = frozenset(map(Path, arguments))
        hook.session = SimpleNamespace(_initialpaths=paths, isinitpath=lambda path: Path(path) in paths)
    return hook


@pytest.mark.parametrize("patterns", PATTERNS, ids=" ".join)
@pytest.mark.parametrize("arguments", [None, [], ["/w/shop/x.py", "/w/testing.py"]], ids=["no session", "none", "two"])
def test_random_modules_are_rewritten_as_pytest_does(pytestconfig, patterns, arguments):
    draw = random.Random(f"{patterns} {arguments}")
    for _ in range(20):
        marked = draw.sample(MARKED, draw.randrange(len(MARKED)))
        rules = RewritingRules(hook_with(pytestconfig, patterns, arguments, marked))
        state = pytestconfig.stash[state_key]
        for _ in range(30):
            parts = draw.choices(PARTS, k=draw.randrange(1, 4))
            name, origin = ".".join(parts), f"/w/{'/'.join(parts)}.py"
            hook = hook_with(pytestconfig, patterns, arguments, marked)
            expected = not hook._early_rewrite_bailout(name, state) and hook._should_rewrite(name, origin, state)
            assert rules.would_rewrite(name, origin) == expected, (name, marked)
