"""Skills: where they are found, what is served, and what is kept in."""

import json
import os
import re
import zipfile

import pytest
import skill_examples
from refusals import refused_as

from codriver.files.own_folders import shipped_folder
from codriver.skills import (
    EDITING,
    INDEX_URI,
    INSTRUCTIONS_CHARS,
    LIVE_REPL,
    Connected,
    Selection,
    Skill,
    SkillLibrary,
    instructions,
    read_front_matter,
    switched_off,
)
from codriver.skills.library import jar_name
from codriver.tools.manifest import BY_NAME


def guide(name="x", description="What it is for.", body="text"):
    return f"---\nname: {name}\ndescription: {description}\n---\n\n{body}\n"


def write(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def jar(file, members):
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return file


@pytest.fixture
def shipped(tmp_path):
    for name in (LIVE_REPL, EDITING):
        write(tmp_path / "shipped" / name / "SKILL.md", guide(name))
    return tmp_path / "shipped"


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "app").mkdir()
    return tmp_path / "app"


@pytest.fixture
def library(workspace, shipped):
    def library(sources=("workspace",), disabled=()):
        return SkillLibrary(workspace, Selection(frozenset(sources), frozenset(disabled)), shipped)

    return library


def names(library):
    return [skill.id for skill in library.skills()]


def test_the_shipped_skills_are_offered_in_their_order(library):
    assert names(library()) == [LIVE_REPL, EDITING]
    assert [entry.uri for entry in library().list()] == [
        INDEX_URI, "skill://live-repl/SKILL.md", "skill://editing-lisp-files/SKILL.md",
    ]  # fmt: skip


def test_a_skill_is_read_by_its_full_and_its_bare_address(library):
    for uri in ("skill://live-repl/SKILL.md", "skill://live-repl", "skill://live-repl/"):
        assert library().read(uri) == ("text/markdown", guide(LIVE_REPL))


def test_the_files_beside_a_guide_can_be_read(library, shipped):
    write(shipped / LIVE_REPL / "more" / "a b.json", "{}")
    write(shipped / LIVE_REPL / "x.clj", "(x)")
    assert library().read("skill://live-repl/more/a%20b.json") == ("application/json", "{}")
    assert library().read("skill://live-repl/x.clj") == ("text/plain", "(x)")


def test_the_index_names_every_skill_on_offer(library, workspace):
    write(workspace / ".codriver" / "skills" / "ours" / "SKILL.md", guide(description="Ours."))
    mime, text = library(disabled=[EDITING]).read(INDEX_URI)
    assert mime == "application/json"
    index = json.loads(text)
    assert index["count"] == 2
    assert index["skills"][1] == {
        "name": "ours", "description": "Ours.", "uri": "skill://ours/SKILL.md", "source": "workspace",
    }  # fmt: skip


@pytest.mark.parametrize(
    "path",
    [
        "../x", "..", "a/../../x", "%2e%2e/x", "..%2fx", "%2E%2E%2Fx", "/etc/passwd", "%2Fetc/passwd", "./SKILL.md",
        "a//b", "..%5cx", "C:%5cx", "c:/x", "a%00b", "a/.", "%2fetc%2fpasswd",
    ],
)  # fmt: skip
def test_a_path_that_is_not_plainly_inside_is_refused(library, path):
    with refused_as("path-refused"):
        library().read(f"skill://live-repl/{path}")


def test_a_path_is_decoded_once(library):
    with refused_as("no-such-skill"):
        library().read("skill://live-repl/%252e%252e/x")


def test_a_link_that_leads_out_is_refused_and_one_that_stays_in_is_followed(library, shipped, tmp_path):
    write(tmp_path / "secret.md", "secret")
    folder = shipped / LIVE_REPL
    (folder / "out.md").symlink_to(tmp_path / "secret.md")
    (folder / "outside").symlink_to(tmp_path)
    (folder / "in.md").symlink_to(folder / "SKILL.md")
    (folder / "loop").symlink_to(folder / "loop")
    for path in ("out.md", "outside/secret.md"):
        with refused_as("path-refused"):
            library().read(f"skill://live-repl/{path}")
    assert library().read("skill://live-repl/in.md")[1] == guide(LIVE_REPL)
    with refused_as("no-such-skill", "path-refused"):
        library().read("skill://live-repl/loop")


def test_a_linked_skill_folder_that_leads_out_is_no_skill(library, workspace, tmp_path):
    write(tmp_path / "elsewhere" / "SKILL.md", guide())
    (workspace / ".codriver" / "skills").mkdir(parents=True)
    (workspace / ".codriver" / "skills" / "linked").symlink_to(tmp_path / "elsewhere")
    assert "linked" not in names(library())


@pytest.mark.parametrize(
    "uri",
    [
        "skill://none", "skill://", "skill://LIVE-REPL", "skill:live-repl", "file://live-repl", "skill://live-repl/none.md",
        "skill://live-repl/more", "", "skill://live-repl?x", "skill://live%2Frepl",
    ],
)  # fmt: skip
def test_what_is_not_there_is_told_with_what_is(library, shipped, uri):
    (shipped / LIVE_REPL / "more").mkdir()
    with refused_as("no-such-skill") as caught:
        library().read(uri)
    assert "live-repl, editing-lisp-files" in caught.value.hint


def test_what_is_no_text_or_too_long_is_not_read(library, shipped):
    (shipped / LIVE_REPL / "a.bin").write_bytes(b"\xff\xfe")
    (shipped / LIVE_REPL / "b.md").write_bytes(b"x" * ((1 << 20) + 1))
    for name in ("a.bin", "b.md"):
        with refused_as("no-such-skill"):
            library().read(f"skill://live-repl/{name}")


def test_a_disabled_skill_is_absent_everywhere(library):
    subject = library(disabled=[LIVE_REPL])
    assert names(subject) == [EDITING]
    assert all(LIVE_REPL not in entry.uri for entry in subject.list())
    assert LIVE_REPL not in subject.read(INDEX_URI)[1]
    assert LIVE_REPL not in instructions(subject.skills(), [])
    with refused_as("no-such-skill") as caught:
        subject.read("skill://live-repl")
    assert "live-repl," not in caught.value.hint


def test_without_any_skill_there_is_no_index(library):
    subject = library(disabled=[LIVE_REPL, EDITING])
    assert subject.list() == ()
    with refused_as("no-such-skill"):
        subject.read(INDEX_URI)


def test_the_switches_of_the_settings_name_the_skills():
    assert switched_off(live_repl=True, editing=True, names=["x"]) == {"x"}
    assert switched_off(live_repl=False, editing=False, names=[]) == {LIVE_REPL, EDITING}


def test_a_workspace_skill_hides_a_shipped_one_of_its_name(library, workspace):
    write(workspace / ".codriver" / "skills" / LIVE_REPL / "SKILL.md", guide(body="ours"))
    assert "ours" in library().read("skill://live-repl")[1]
    assert names(library()) == [LIVE_REPL, EDITING]


def test_the_skills_of_a_workspace_are_off_until_they_are_allowed(workspace, shipped):
    write(workspace / ".codriver" / "skills" / "ours" / "SKILL.md", guide())
    subject = SkillLibrary(workspace, shipped=shipped)
    assert names(subject) == [LIVE_REPL, EDITING]
    assert "ours" in [skill.id for skill in subject.find_all().skills]
    assert "ours" not in subject.read(INDEX_URI)[1]
    with refused_as("no-such-skill"):
        subject.read("skill://ours/SKILL.md")
    assert subject.select(Selection(frozenset({"workspace"})))
    assert names(subject) == [LIVE_REPL, EDITING, "ours"]


def test_a_workspace_cannot_replace_a_skill_before_it_is_allowed(workspace, shipped):
    write(workspace / ".codriver" / "skills" / LIVE_REPL / "SKILL.md", guide(body="theirs"))
    assert "theirs" not in SkillLibrary(workspace, shipped=shipped).read("skill://live-repl")[1]


def test_dependencies_are_found_and_off_until_their_source_is_allowed(library, workspace):
    site = workspace / ".venv" / "lib" / "python3.11" / "site-packages"
    write(site / "toolbox" / "skills" / "saw" / "SKILL.md", guide(description="How to saw."))
    write(site / "toolbox" / ".codriver" / "skills" / "plane" / "SKILL.md", guide())
    jar(
        workspace / "lib" / "hammer-1.2.3.jar",
        {"META-INF/skills/nail/SKILL.md": guide(), "skills/pull/SKILL.md": guide()},
    )
    subject = library()
    assert names(subject) == [LIVE_REPL, EDITING]
    found = {
        skill.id: skill.source for skill in subject.find_all().skills if skill.source not in ("codriver", "workspace")
    }
    assert found == {
        "toolbox.saw": "toolbox",
        "toolbox.plane": "toolbox",
        "hammer.nail": "hammer",
        "hammer.pull": "hammer",
    }
    with refused_as("no-such-skill"):
        subject.read("skill://toolbox.saw")
    assert names(library(sources=["toolbox"])) == [LIVE_REPL, EDITING, "toolbox.plane", "toolbox.saw"]
    assert library(sources=["hammer"]).read("skill://hammer.nail/SKILL.md") == ("text/markdown", guide())


def test_a_dependency_cannot_take_the_place_of_a_skill_of_ours(library, workspace):
    site = workspace / "venv" / "lib" / "python3.11" / "site-packages"
    write(site / "evil" / "skills" / LIVE_REPL / "SKILL.md", guide(body="evil"))
    subject = library(sources=["evil"])
    assert "evil" not in subject.read("skill://live-repl")[1]
    assert "evil" in subject.read("skill://evil.live-repl")[1]


def test_a_jar_that_is_replaced_is_looked_into_again(library, workspace):
    file = jar(workspace / "lib" / "tool-1.jar", {"skills/a/SKILL.md": guide()})
    subject = library(sources=["tool"])
    assert names(subject) == [LIVE_REPL, EDITING, "tool.a"]
    assert not subject.changed()
    file.unlink()
    jar(file, {"skills/another/SKILL.md": guide()})
    assert subject.changed()
    assert names(subject) == [LIVE_REPL, EDITING, "tool.another"]


def test_a_dependency_that_is_allowed_later_is_found_then(library, workspace):
    jar(workspace / "lib" / "tool-1.jar", {"skills/a/SKILL.md": guide()})
    subject = library(sources=[])
    assert subject.select(Selection(frozenset({"tool"})))
    assert names(subject)[-1] == "tool.a"


def test_the_jars_of_the_newest_classpath_are_searched(library, workspace, tmp_path):
    old = jar(tmp_path / "m2" / "old-1.0.jar", {"skills/a/SKILL.md": guide()})
    new = jar(tmp_path / "m2" / "new-2.0-alpha.jar", {"skills/b/SKILL.md": guide(), "skills/b/more.md": "more"})
    for name, path, age in (("1.cp", old, 10), ("2.cp", f"src:{new}:/none.jar", 0)):
        file = write(workspace / ".cpcache" / name, str(path))
        os.utime(file, (file.stat().st_mtime - age,) * 2)
    subject = library(sources=["old", "new"])
    assert names(subject) == [LIVE_REPL, EDITING, "new.b"]
    assert subject.read("skill://new.b/more.md") == ("text/markdown", "more")
    with refused_as("no-such-skill"):
        subject.read("skill://new.b/none.md")
    with refused_as("path-refused"):
        subject.read("skill://new.b/../a/SKILL.md")


def test_a_jar_that_is_none_or_damaged_does_no_harm(library, workspace):
    write(workspace / "lib" / "broken-1.jar", "no zip")
    damaged = jar(workspace / "lib" / "damaged-1.jar", {"skills/a/SKILL.md": guide()})
    content = damaged.read_bytes()
    damaged.write_bytes(content.replace(b"What it is for", b"What it was for"[:14]))
    cut = jar(workspace / "lib" / "cut-1.jar", {"skills/a/SKILL.md": guide()})
    cut.write_bytes(cut.read_bytes()[:-30])
    assert names(library(sources=["workspace", "damaged", "cut"])) == [LIVE_REPL, EDITING]


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("cider-nrepl-0.55.7.jar", "cider-nrepl"),
        ("Big.jar", "big"),
        ("a-1.0-SNAPSHOT.jar", "a"),
        ("log4j2-api.jar", "log4j2-api"),
    ],
)
def test_a_jar_is_named_without_its_version(tmp_path, file, name):
    assert jar_name(tmp_path / file) == name


def test_a_skill_that_cannot_be_used_is_told_and_not_offered(library, workspace):
    skills = workspace / ".codriver" / "skills"
    write(skills / "nothing" / "SKILL.md", "no front matter")
    write(skills / "Bad Name" / "SKILL.md", guide())
    (skills / "bytes").mkdir()
    (skills / "bytes" / "SKILL.md").write_bytes(b"\xff")
    (skills / "empty").mkdir()
    write(skills / "long" / "SKILL.md", guide(description="x" * 1025))
    subject = library()
    assert names(subject) == [LIVE_REPL, EDITING]
    problems = " ".join(subject.find_all().problems)
    for words in ("no front matter", "small letters", "cannot be read", "longer than 1024"):
        assert words in problems
    assert len(subject.find_all().problems) == 4


def test_changes_are_noticed_once(library, workspace, shipped):
    subject = library()
    assert not subject.changed()
    file = write(workspace / ".codriver" / "skills" / "new" / "SKILL.md", guide())
    assert subject.changed()
    assert not subject.changed()
    write(file, guide(body="longer than before"))
    assert subject.changed()
    write(file.parent / "more.md", "")
    assert subject.changed()
    (file.parent / "more.md").unlink()
    assert subject.changed()
    file.unlink()
    assert subject.changed()
    assert not subject.changed()


def test_a_change_of_what_is_not_offered_is_no_change(library, workspace):
    subject = library(sources=[])
    write(workspace / ".codriver" / "skills" / "new" / "SKILL.md", guide())
    assert not subject.changed()


def test_another_selection_changes_what_is_on_offer(library):
    subject = library()
    assert subject.select(Selection(disabled=frozenset({EDITING})))
    assert not subject.select(Selection(disabled=frozenset({EDITING, "none"})))
    assert names(subject) == [LIVE_REPL]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("---\nname: a\ndescription: b: c\n---\n", {"name": "a", "description": "b: c"}),
        ("---\r\nname: a\r\n---\r\n", {"name": "a"}),
        ("\ufeff---\nname: 'a b'\nx: \"y\"\n---", {"name": "a b", "x": "y"}),
        ("---\ndescription: >-\n  one\n  two\nname: n\n---\n", {"description": "one two", "name": "n"}),
        ("---\ndescription: one\n  two\n---\n", {"description": "one two"}),
        ("---\n# note\nname: a\n---\n", {"name": "a"}),
        ("---\nname: a\n", {}),
        ("text\n---\nname: a\n---\n", {}),
        ("", {}),
    ],
)
def test_front_matter_is_read(text, values):
    assert read_front_matter(text) == values


def many(count):
    return [Skill(f"skill-{n}", "Does many things. " * 40, "x", None) for n in range(count)]


@pytest.mark.parametrize("repls", [0, 1, 2, 50])
@pytest.mark.parametrize("skills", [0, 1, 2, 8, 100])
@pytest.mark.parametrize("evaluates", [True, False])
@pytest.mark.parametrize("away", [0, 1, 2, 50])
def test_instructions_are_never_too_long(repls, skills, evaluates, away):
    connected = [Connected(f"key-{n}" * 20, "clojure") for n in range(repls)]
    connected += [Connected(f"away-{n}" * 20, "unknown", "stopped", "because " * 50) for n in range(away)]
    text = instructions(many(skills), connected, evaluates=evaluates)
    assert len(text) <= INSTRUCTIONS_CHARS
    assert ("skill://skill-0/SKILL.md" in text) == (skills > 0)
    assert (INDEX_URI in text) == (text.count("/SKILL.md") < skills)


def test_instructions_say_what_is_connected_and_how_to_work():
    library = SkillLibrary(shipped_folder("skills"))
    text = instructions(library.skills(), [Connected("clj", "clojure"), Connected("py", "python", "busy")])
    for words in (
        "clj (clojure, connected)", "py (python, busy)", "Pass replSessionKey", "evaluate_code", "status",
        "who", "skill://live-repl/SKILL.md", "skill://editing-lisp-files/SKILL.md", "hint",
    ):  # fmt: skip
        assert words in text
    assert len(text) < INSTRUCTIONS_CHARS
    assert "no REPL is connected yet" in instructions([], [])
    assert "put it there, or start one" in instructions([], [], to_have_one="put it there")
    assert "put it there" not in instructions([], [Connected("py", "python")], to_have_one="put it there")


def test_instructions_call_no_repl_live_that_is_stopped_and_say_why_it_is():
    gone = Connected("repl", "unknown", "stopped", "there is no such command")
    text = instructions([], [gone], offered={"repl_output_log", "edit_files", "list_sessions"})
    assert "no REPL is connected yet" in text
    assert "repl is stopped: there is no such command" in text
    assert "live REPLs" not in text
    assert "evaluate_code" not in text
    beside = instructions([], [gone, Connected("py", "python")])
    assert "agents: py (python, connected). repl is stopped" in beside
    assert "Pass replSessionKey" not in beside


def test_instructions_cut_no_clause_of_a_reason_in_the_middle():
    asked = f"nobody has accepted this checkout: ask your human to run: codriver trust (in /{'folder/' * 12})"
    text = instructions([], [Connected("clj", "clojure", "stopped", f"{asked}; this REPL runs files of the project")])
    assert f"clj is stopped: {asked}." in text
    assert "…" not in text


def test_instructions_name_no_tool_that_is_not_on_offer():
    text = instructions([], [Connected("nbb", "nbb")], offered={"evaluate_code", "load_file", "edit_files"})
    assert "repl_output_log" not in text
    assert "evaluate_code" in text


def test_instructions_without_evaluation_do_not_ask_for_it():
    assert "evaluate_code" not in instructions([], [], evaluates=False)


@pytest.mark.parametrize("name", [LIVE_REPL, EDITING])
def test_a_shipped_skill_is_short_and_says_what_it_is_for(name):
    text = (shipped_folder("skills") / name / "SKILL.md").read_text(encoding="utf-8")
    values = read_front_matter(text)
    assert values["name"] == name
    assert 60 < len(values["description"]) < 300
    assert len(text) < 8000
    assert set(re.findall(r"`([a-z]+_[a-z_]+)`", text)) <= set(BY_NAME)


@pytest.mark.parametrize("name", skill_examples.skill_names())
def test_every_example_of_a_skill_is_a_tool_call_or_a_file_for_one(name):
    found = skill_examples.examples(name)
    calls = [example for example in found if isinstance(example, skill_examples.ToolCall)]
    assert len(calls) >= 5
    assert {call.tool for call in calls} <= set(BY_NAME)
    assert any(isinstance(example, skill_examples.File) for example in found)


def test_every_tool_is_taught_by_a_skill():
    text = "".join(
        (shipped_folder("skills") / name / "SKILL.md").read_text(encoding="utf-8") for name in (LIVE_REPL, EDITING)
    )
    assert {tool for tool in BY_NAME if f"`{tool}`" not in text and f'"{tool}"' not in text} == set()


def test_a_placeholder_is_filled_from_the_last_answer_that_has_it():
    call = skill_examples.ToolCall(1, "get_evaluation", {"evaluationId": "<evaluationId>", "inputs": ["<x>", 1]})
    answers = [{"evaluationId": "1", "x": 5}, {"evaluationId": "2"}, {"ok": True}]
    assert call.filled(answers) == {"evaluationId": "2", "inputs": [5, 1]}
