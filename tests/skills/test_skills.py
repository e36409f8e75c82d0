"""Skills: where they are found, what is served, and what is refused."""

import os
import re
import zipfile

import needs
import pytest
import skill_examples
from all_tools import BY_NAME
from refusals import refused_as

from codriver.files.codriver_paths import shipped_directory
from codriver.skills import (
    EDITING_SKILL,
    LIVE_REPL_SKILL,
    MAX_INSTRUCTIONS_CHARACTERS,
    DescribedRepl,
    Skill,
    SkillLibrary,
    SkillSelection,
    build_instructions,
    disabled_skills,
    read_front_matter,
)
from codriver.skills.skill_discovery import jar_name


def guide(name, description="What it is for.", body="text"):
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
    for name in (LIVE_REPL_SKILL, EDITING_SKILL):
        write(tmp_path / "shipped" / name / "SKILL.md", guide(name))
    return tmp_path / "shipped"


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "app").mkdir()
    return tmp_path / "app"


@pytest.fixture
def library(workspace, shipped):
    def library(sources=("workspace",), disabled=()):
        return SkillLibrary(workspace, SkillSelection(frozenset(sources), frozenset(disabled)), shipped)

    return library


def names(library):
    return [skill.id for skill in library.skills()]


def test_the_shipped_skills_are_listed_in_order(library):
    assert names(library()) == [LIVE_REPL_SKILL, EDITING_SKILL]
    assert [skill.uri for skill in library().visible_skills()] == [
        "skill://live-repl/SKILL.md", "skill://editing-lisp-files/SKILL.md",
    ]  # fmt: skip
    assert [skill.id for skill in library().visible_skills([LIVE_REPL_SKILL])] == [EDITING_SKILL]


def test_a_skill_is_read_by_the_uri_of_its_guide(library):
    assert library().read("skill://live-repl/SKILL.md") == ("SKILL.md", guide(LIVE_REPL_SKILL).encode())


def test_the_files_next_to_a_guide_can_be_read(library, shipped):
    write(shipped / LIVE_REPL_SKILL / "more" / "a b.json", "{}")
    write(shipped / LIVE_REPL_SKILL / "x.clj", "(x)")
    assert library().read("skill://live-repl/more/a%20b.json") == ("more/a b.json", b"{}")
    assert library().read("skill://live-repl/x.clj") == ("x.clj", b"(x)")


@pytest.mark.parametrize("path", ["a b/ä%20+?#.md", "SKILL.md", "x"])
def test_the_uri_built_for_a_file_identifies_the_same_file(library, shipped, path):
    write(shipped / LIVE_REPL_SKILL / path, "content")
    subject = library()
    (skill,) = [skill for skill in subject.skills() if skill.id == LIVE_REPL_SKILL]
    assert subject.find(skill.address(path)) == (skill, path)
    assert subject.read(skill.address(path)) == (path, b"content")


def test_a_skill_lists_all_its_files_and_directories(library, shipped):
    folder = shipped / LIVE_REPL_SKILL
    write(folder / "references" / "deep" / "a.md", "abc")
    (folder / "empty").mkdir()
    (folder / "linked.md").symlink_to(folder / "SKILL.md")
    (folder / "out.md").symlink_to(shipped.parent)
    write(folder / "a\\b", "no address leads here")
    (skill,) = [skill for skill in library().skills() if skill.id == LIVE_REPL_SKILL]
    tree = skill.folder.tree()
    assert list(tree.files) == ["SKILL.md", "linked.md", "references/deep/a.md"]
    assert tree.files["references/deep/a.md"] == 3
    assert tree.folders == {"empty", "references", "references/deep"}


def test_a_skill_over_the_size_limits_is_left_out(library, workspace):
    skills = workspace / ".codriver" / "skills"
    for name, files, size in (("many", 512, 1), ("large", 1, 16 << 20), ("just", 511, 1)):
        write(skills / name / "SKILL.md", guide(name))
        for number in range(files):
            with (skills / name / f"{number}.txt").open("wb") as file:
                file.truncate(size)
    subject = library()
    assert names(subject) == [LIVE_REPL_SKILL, EDITING_SKILL, "just"]
    assert [problem.partition(":")[0].rpartition("/")[2] for problem in subject.find_all().problems] == [
        "large",
        "many",
    ]


@pytest.mark.parametrize(
    "path",
    [
        "../x", "..", "a/../../x", "%2e%2e/x", "..%2fx", "%2E%2E%2Fx", "/etc/passwd", "%2Fetc/passwd", "./SKILL.md",
        "a//b", "..%5cx", "C:%5cx", "c:/x", "a%00b", "a/.", "%2fetc%2fpasswd",
    ],
)  # fmt: skip
def test_a_path_that_may_lead_out_of_the_skill_is_refused(library, path):
    with refused_as("path-refused"):
        library().read(f"skill://live-repl/{path}")


def test_a_percent_encoded_path_is_decoded_only_once(library):
    with refused_as("no-such-skill"):
        library().read("skill://live-repl/%252e%252e/x")


def test_a_link_out_of_a_skill_is_refused_and_one_within_it_is_followed(library, shipped, tmp_path):
    write(tmp_path / "secret.md", "secret")
    folder = shipped / LIVE_REPL_SKILL
    (folder / "out.md").symlink_to(tmp_path / "secret.md")
    (folder / "outside").symlink_to(tmp_path)
    (folder / "in.md").symlink_to(folder / "SKILL.md")
    (folder / "loop").symlink_to(folder / "loop")
    for path in ("out.md", "outside/secret.md"):
        with refused_as("path-refused"):
            library().read(f"skill://live-repl/{path}")
    assert library().read("skill://live-repl/in.md")[1] == guide(LIVE_REPL_SKILL).encode()
    with refused_as("no-such-skill", "path-refused"):
        library().read("skill://live-repl/loop")


def test_a_skill_directory_linked_to_the_outside_is_ignored(library, workspace, tmp_path):
    write(tmp_path / "elsewhere" / "SKILL.md", guide("linked"))
    (workspace / ".codriver" / "skills").mkdir(parents=True)
    (workspace / ".codriver" / "skills" / "linked").symlink_to(tmp_path / "elsewhere")
    assert "linked" not in names(library())


@pytest.mark.parametrize(
    "uri",
    [
        "skill://none", "skill://", "skill://LIVE-REPL", "skill:live-repl", "file://live-repl", "skill://live-repl/none.md",
        "skill://live-repl/more", "", "skill://live-repl?x", "skill://live%2Frepl", "skill://live-repl",
    ],
)  # fmt: skip
def test_an_unknown_skill_is_refused_with_the_known_names(library, shipped, uri):
    (shipped / LIVE_REPL_SKILL / "more").mkdir()
    with refused_as("no-such-skill") as caught:
        library().read(uri)
    assert "live-repl, editing-lisp-files" in caught.value.hint


def test_a_binary_file_is_read_and_an_oversized_one_is_refused(library, shipped):
    (shipped / LIVE_REPL_SKILL / "a.bin").write_bytes(b"\xff\xfe")
    with (shipped / LIVE_REPL_SKILL / "b.md").open("wb") as file:
        file.truncate((16 << 20) + 1)
    assert library().read("skill://live-repl/a.bin") == ("a.bin", b"\xff\xfe")
    with refused_as("no-such-skill"):
        library().read("skill://live-repl/b.md")


def test_a_disabled_skill_is_absent_everywhere(library):
    subject = library(disabled=[LIVE_REPL_SKILL])
    assert names(subject) == [EDITING_SKILL]
    assert LIVE_REPL_SKILL not in build_instructions(subject.skills(), [])
    with refused_as("no-such-skill") as caught:
        subject.read("skill://live-repl/SKILL.md")
    assert "live-repl," not in caught.value.hint


def test_the_skill_settings_disable_the_matching_skills():
    assert disabled_skills(live_repl=True, editing=True, names=["x"]) == {"x"}
    assert disabled_skills(live_repl=False, editing=False, names=[]) == {LIVE_REPL_SKILL, EDITING_SKILL}


def test_an_allowed_workspace_skill_overrides_a_shipped_skill(library, workspace):
    write(workspace / ".codriver" / "skills" / LIVE_REPL_SKILL / "SKILL.md", guide(LIVE_REPL_SKILL, body="ours"))
    assert b"ours" in library().read("skill://live-repl/SKILL.md")[1]
    assert names(library()) == [LIVE_REPL_SKILL, EDITING_SKILL]


def test_workspace_skills_are_disabled_until_allowed(workspace, shipped):
    write(workspace / ".codriver" / "skills" / "ours" / "SKILL.md", guide("ours"))
    subject = SkillLibrary(workspace, shipped=shipped)
    assert names(subject) == [LIVE_REPL_SKILL, EDITING_SKILL]
    assert "ours" in [skill.id for skill in subject.find_all().skills]
    with refused_as("no-such-skill"):
        subject.read("skill://ours/SKILL.md")
    assert subject.select(SkillSelection(frozenset({"workspace"})))
    assert names(subject) == [LIVE_REPL_SKILL, EDITING_SKILL, "ours"]


def test_a_workspace_skill_cannot_replace_a_shipped_one_before_it_is_allowed(workspace, shipped):
    write(workspace / ".codriver" / "skills" / LIVE_REPL_SKILL / "SKILL.md", guide(LIVE_REPL_SKILL, body="theirs"))
    assert b"theirs" not in SkillLibrary(workspace, shipped=shipped).read("skill://live-repl/SKILL.md")[1]


def test_dependency_skills_are_disabled_until_their_source_is_allowed(library, workspace):
    site = workspace / ".venv" / "lib" / "python3.11" / "site-packages"
    write(site / "toolbox" / "skills" / "saw" / "SKILL.md", guide("saw"))
    write(site / "toolbox" / ".codriver" / "skills" / "plane" / "SKILL.md", guide("plane"))
    jar(
        workspace / "lib" / "hammer-1.2.3.jar",
        {"META-INF/skills/nail/SKILL.md": guide("nail"), "skills/pull/SKILL.md": guide("pull")},
    )
    subject = library()
    assert names(subject) == [LIVE_REPL_SKILL, EDITING_SKILL]
    found = {
        skill.id: skill.source for skill in subject.find_all().skills if skill.source not in ("codriver", "workspace")
    }
    assert found == {
        "lib.toolbox/saw": "toolbox",
        "lib.toolbox/plane": "toolbox",
        "lib.hammer/nail": "hammer",
        "lib.hammer/pull": "hammer",
    }
    with refused_as("no-such-skill"):
        subject.read("skill://lib.toolbox/saw/SKILL.md")
    assert names(library(sources=["toolbox"])) == [
        LIVE_REPL_SKILL,
        EDITING_SKILL,
        "lib.toolbox/plane",
        "lib.toolbox/saw",
    ]
    assert library(sources=["hammer"]).read("skill://lib.hammer/nail/SKILL.md") == ("SKILL.md", guide("nail").encode())


def test_a_dependency_cannot_override_a_shipped_skill(library, workspace):
    site = workspace / "venv" / "lib" / "python3.11" / "site-packages"
    write(site / "evil" / "skills" / LIVE_REPL_SKILL / "SKILL.md", guide(LIVE_REPL_SKILL, body="evil"))
    write(workspace / ".codriver" / "skills" / "evil" / LIVE_REPL_SKILL / "SKILL.md", "a page")
    write(workspace / ".codriver" / "skills" / "evil" / "SKILL.md", guide("evil"))
    subject = library(sources=["evil", "workspace"])
    assert b"evil" not in subject.read("skill://live-repl/SKILL.md")[1]
    assert subject.read("skill://evil/live-repl/SKILL.md")[1] == b"a page"
    assert b"evil" in subject.read("skill://lib.evil/live-repl/SKILL.md")[1]


def test_a_replaced_jar_is_scanned_again(library, workspace):
    file = jar(workspace / "lib" / "tool-1.jar", {"skills/a/SKILL.md": guide("a")})
    subject = library(sources=["tool"])
    assert names(subject) == [LIVE_REPL_SKILL, EDITING_SKILL, "lib.tool/a"]
    assert not subject.changed()
    file.unlink()
    jar(file, {"skills/another/SKILL.md": guide("another")})
    assert subject.changed()
    assert names(subject) == [LIVE_REPL_SKILL, EDITING_SKILL, "lib.tool/another"]


def test_the_skills_of_a_dependency_are_found_once_it_is_allowed(library, workspace):
    jar(workspace / "lib" / "tool-1.jar", {"skills/a/SKILL.md": guide("a")})
    subject = library(sources=[])
    assert subject.select(SkillSelection(frozenset({"tool"})))
    assert names(subject)[-1] == "lib.tool/a"


def test_the_jars_of_the_newest_classpath_are_searched(library, workspace, tmp_path):
    old = jar(tmp_path / "m2" / "old-1.0.jar", {"skills/a/SKILL.md": guide("a")})
    new = jar(tmp_path / "m2" / "new-2.0-alpha.jar", {"skills/b/SKILL.md": guide("b"), "skills/b/deep/more.md": "more"})
    for name, path, age in (("1.cp", old, 10), ("2.cp", f"src:{new}:/none.jar", 0)):
        file = write(workspace / ".cpcache" / name, str(path))
        os.utime(file, (file.stat().st_mtime - age,) * 2)
    subject = library(sources=["old", "new"])
    assert names(subject) == [LIVE_REPL_SKILL, EDITING_SKILL, "lib.new/b"]
    assert subject.read("skill://lib.new/b/deep/more.md") == ("deep/more.md", b"more")
    (skill,) = [skill for skill in subject.skills() if skill.id == "lib.new/b"]
    assert (list(skill.folder.tree().files), skill.folder.tree().folders) == (["SKILL.md", "deep/more.md"], {"deep"})
    with refused_as("no-such-skill"):
        subject.read("skill://lib.new/b/none.md")
    with refused_as("path-refused"):
        subject.read("skill://lib.new/b/../a/SKILL.md")


def test_a_damaged_jar_is_harmless(library, workspace):
    write(workspace / "lib" / "broken-1.jar", "no zip")
    damaged = jar(workspace / "lib" / "damaged-1.jar", {"skills/a/SKILL.md": guide("a")})
    content = damaged.read_bytes()
    damaged.write_bytes(content.replace(b"What it is for", b"What it was for"[:14]))
    cut = jar(workspace / "lib" / "cut-1.jar", {"skills/a/SKILL.md": guide("a")})
    cut.write_bytes(cut.read_bytes()[:-30])
    assert names(library(sources=["workspace", "damaged", "cut"])) == [LIVE_REPL_SKILL, EDITING_SKILL]


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


def test_an_unusable_skill_is_reported_and_not_offered(library, workspace):
    skills = workspace / ".codriver" / "skills"
    write(skills / "nothing" / "SKILL.md", "no front matter")
    write(skills / "Bad Name" / "SKILL.md", guide("Bad Name"))
    write(skills / "other-name" / "SKILL.md", guide("another-name"))
    (skills / "bytes").mkdir()
    (skills / "bytes" / "SKILL.md").write_bytes(b"\xff")
    (skills / "empty").mkdir()
    write(skills / "long" / "SKILL.md", guide("long", description="x" * 1025))
    subject = library()
    assert names(subject) == [LIVE_REPL_SKILL, EDITING_SKILL]
    problems = " ".join(subject.find_all().problems)
    for words in ("does not start", "lower-case letters", "other-name: SKILL.md names the skill another-name", "1,024"):
        assert words in problems
    assert len(subject.find_all().problems) == 5


def test_each_change_of_a_skill_is_detected_once(library, workspace, shipped):
    subject = library()
    assert not subject.changed()
    file = write(workspace / ".codriver" / "skills" / "new" / "SKILL.md", guide("new"))
    assert subject.changed()
    assert not subject.changed()
    write(file, guide("new", body="longer than before"))
    assert subject.changed()
    write(file.parent / "more.md", "")
    assert subject.changed()
    (file.parent / "more.md").unlink()
    assert subject.changed()
    file.unlink()
    assert subject.changed()
    assert not subject.changed()


def test_changes_to_skills_that_are_not_offered_are_ignored(library, workspace):
    subject = library(sources=[])
    write(workspace / ".codriver" / "skills" / "new" / "SKILL.md", guide("new"))
    assert not subject.changed()


def test_a_different_selection_changes_the_offered_skills(library):
    subject = library()
    assert subject.select(SkillSelection(disabled=frozenset({EDITING_SKILL})))
    assert not subject.select(SkillSelection(disabled=frozenset({EDITING_SKILL, "none"})))
    assert names(subject) == [LIVE_REPL_SKILL]


def many(count):
    text = guide("skill", "Does many things. " * 40).encode()
    return [Skill(f"skill-{n}", "x", None, text) for n in range(count)]


@pytest.mark.parametrize("repls", [0, 1, 2, 50])
@pytest.mark.parametrize("skills", [0, 1, 2, 8, 100])
@pytest.mark.parametrize("evaluates", [True, False])
@pytest.mark.parametrize("away", [0, 1, 2, 50])
def test_instructions_stay_within_their_limit(repls, skills, evaluates, away):
    connected = [DescribedRepl(f"key-{n}" * 20, "clojure") for n in range(repls)]
    connected += [DescribedRepl(f"away-{n}" * 20, "unknown", "stopped", "because " * 50) for n in range(away)]
    text = build_instructions(many(skills), connected, evaluates=evaluates)
    assert len(text) <= MAX_INSTRUCTIONS_CHARACTERS
    assert ("skill://skill-0/SKILL.md" in text) == (skills > 0)
    assert ("more in resources/list" in text) == (text.count("/SKILL.md") < skills)


def test_instructions_name_the_connected_repls_and_how_to_work():
    library = SkillLibrary(shipped_directory("skills"))
    text = build_instructions(
        library.skills(), [DescribedRepl("clj", "clojure"), DescribedRepl("py", "python", "busy")]
    )
    for words in (
        "clj (clojure, connected)", "py (python, busy)", "Pass replSessionKey", "evaluate_code", "status",
        "who", "skill://live-repl/SKILL.md", "skill://editing-lisp-files/SKILL.md", "hint",
    ):  # fmt: skip
        assert words in text
    assert len(text) < MAX_INSTRUCTIONS_CHARACTERS
    assert "no REPL is connected yet" in build_instructions([], [])
    assert "put it there, or start one" in build_instructions([], [], to_have_one="put it there")
    assert "put it there" not in build_instructions([], [DescribedRepl("py", "python")], to_have_one="put it there")


def test_instructions_say_why_a_repl_is_stopped():
    gone = DescribedRepl("repl", "unknown", "stopped", "there is no such command")
    text = build_instructions([], [gone], offered={"repl_output_log", "edit_files", "list_sessions"})
    assert "no REPL is connected yet" in text
    assert "repl is stopped: there is no such command" in text
    assert "live REPLs" not in text
    assert "evaluate_code" not in text
    beside = build_instructions([], [gone, DescribedRepl("py", "python")])
    assert "agents: py (python, connected). repl is stopped" in beside
    assert "Pass replSessionKey" not in beside


def test_instructions_say_which_application_a_repl_belongs_to():
    app = DescribedRepl("shop", "python", kind="running application shop.py")
    assert "shop (running application shop.py, python, connected)" in build_instructions([], [app])


@pytest.mark.parametrize("command", ["`cd app; run all`", '"cd app; run all"'])
def test_a_semicolon_inside_a_command_does_not_end_a_clause(command):
    why = f"{'it is not set up here, ' * 4}so run {command} first; then again"
    text = build_instructions([], [DescribedRepl("clj", "clojure", "stopped", why)])
    assert f"run {command} first" in text


def test_instructions_never_cut_a_reason_in_the_middle_of_a_clause():
    requested = f"nobody has accepted this checkout: ask your human to run: codriver trust (in /{'folder/' * 12})"
    text = build_instructions(
        [], [DescribedRepl("clj", "clojure", "stopped", f"{requested}; this REPL runs project files")]
    )
    assert f"clj is stopped: {requested}." in text
    assert "…" not in text


def test_instructions_name_only_offered_tools():
    text = build_instructions([], [DescribedRepl("nbb", "nbb")], offered={"evaluate_code", "load_file", "edit_files"})
    assert "repl_output_log" not in text
    assert "evaluate_code" in text


def test_instructions_without_evaluation_do_not_mention_it():
    assert "evaluate_code" not in build_instructions([], [], evaluates=False)


@pytest.mark.parametrize("name", [LIVE_REPL_SKILL, EDITING_SKILL])
def test_a_shipped_skill_is_short_and_has_a_description(name):
    needs.every_feature()
    text = (shipped_directory("skills") / name / "SKILL.md").read_text(encoding="utf-8")
    values = read_front_matter(text.encode())
    assert values["name"] == name
    assert 60 < len(values["description"]) < 300
    assert len(text) < 8000
    assert set(re.findall(r"`([a-z]+_[a-z_]+)`", text)) <= set(BY_NAME)


@pytest.mark.parametrize("name", skill_examples.skill_names())
def test_every_example_of_a_skill_is_parsed_and_calls_an_existing_tool(name):
    found = skill_examples.examples(name)
    calls = [example for example in found if isinstance(example, skill_examples.ToolCall)]
    assert len(calls) >= 5
    assert {call.tool for call in calls} <= set(BY_NAME)
    assert any(isinstance(example, skill_examples.File) for example in found)


def test_every_tool_is_explained_by_a_skill():
    text = "".join(
        (shipped_directory("skills") / name / "SKILL.md").read_text(encoding="utf-8")
        for name in (LIVE_REPL_SKILL, EDITING_SKILL)
    )
    assert {tool for tool in BY_NAME if f"`{tool}`" not in text and f'"{tool}"' not in text} == set()


def test_a_placeholder_is_filled_from_the_latest_answer_that_contains_its_value():
    call = skill_examples.ToolCall(1, "get_evaluation", {"evaluationId": "<evaluationId>", "inputs": ["<x>", 1]})
    answers = [{"evaluationId": "1", "x": 5}, {"evaluationId": "2"}, {"ok": True}]
    assert call.filled(answers) == {"evaluationId": "2", "inputs": [5, 1]}
