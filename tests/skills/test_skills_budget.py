"""What an agent reads before it does anything: every session of every client pays for it, so it is limited."""

import itertools
import re

import pytest
from all_tools import BY_NAME, MANIFEST

from codriver.app import features
from codriver.files.codriver_paths import shipped_directory
from codriver.protocol.prompts import BASE_PROMPTS
from codriver.skills import (
    MAX_INSTRUCTIONS_CHARACTERS,
    DescribedRepl,
    Skill,
    SkillLibrary,
    SkillSelection,
    build_instructions,
)

TOOL_TOKENS = 3000
CHARS_A_TOKEN = 3.5
"""Prose has over four characters a token and JSON schemas 3.7: this counts too many, never too few."""


def descriptions(schema):
    """Return every name and description in a schema."""
    if isinstance(schema, list):
        return [text for item in schema for text in descriptions(item)]
    if not isinstance(schema, dict):
        return []
    own = [schema["description"]] if isinstance(schema.get("description"), str) else []
    names = list(schema.get("properties", {}))
    return own + names + [text for key, value in schema.items() if key != "description" for text in descriptions(value)]


def texts_of_tool(tool):
    return [tool.name, tool.title, tool.description, *descriptions(tool.schema), *descriptions(tool.output)]


def tokens(texts):
    return sum(len(text) for text in texts) / CHARS_A_TOKEN


def test_all_tool_descriptions_stay_within_their_token_limit():
    used = {tool.name: round(tokens(texts_of_tool(tool))) for tool in MANIFEST}
    assert sum(used.values()) <= TOOL_TOKENS, used


def test_no_tool_uses_more_than_its_share_of_the_limit():
    assert {tool.name for tool in MANIFEST if tokens(texts_of_tool(tool)) > TOOL_TOKENS / 6} == set()


REPLS = [
    (), (DescribedRepl("clj", "clojure"),),
    (DescribedRepl("py", "python", "starting"), DescribedRepl("lpy", "basilisp")),
    tuple(DescribedRepl(f"a-very-long-session-key-of-somebody-{n}", "clojurescript", "connecting") for n in range(20)),
]  # fmt: skip
LENGTHY = f"---\nname: skill\ndescription: {'What it is for, at length. ' * 30}\n---\n".encode()
SHIPPED = SkillLibrary(shipped_directory("skills")).skills()
SKILLS = [
    (), *((skill,) for skill in SHIPPED), SHIPPED,
    (*SHIPPED, *(Skill(f"lib.dependency/skill-{n}", "x", None, LENGTHY) for n in range(30))),
]  # fmt: skip


@pytest.mark.parametrize("evaluates", [True, False])
@pytest.mark.parametrize(("skills", "repls"), [*itertools.product(SKILLS, REPLS)])
def test_instructions_stay_within_their_limit_in_every_combination_of_skills_and_repls(skills, repls, evaluates):
    text = build_instructions(skills, repls, evaluates=evaluates)
    assert len(text) < MAX_INSTRUCTIONS_CHARACTERS
    assert len(text.encode()) < 2048


def test_a_disabled_skill_is_not_in_the_instructions():
    library = SkillLibrary(shipped_directory("skills"), SkillSelection(disabled=frozenset({"live-repl"})))
    assert "live-repl" not in build_instructions(library.skills(), [])


@pytest.mark.parametrize(
    "text", [build_instructions(SHIPPED, REPLS[2]), *(item.text for item in (*BASE_PROMPTS, *features.prompts()))]
)
def test_instructions_and_prompts_name_only_tools_that_exist(text):
    named = set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", text))
    assert named <= set(BY_NAME), named - set(BY_NAME)
