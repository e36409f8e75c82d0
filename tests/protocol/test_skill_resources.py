"""The Skills extension: entries, digests, directories and pages, of skills on disk and over the wire."""

import base64
import hashlib

import pytest

from codriver.log.redaction import Redactor
from codriver.protocol.error_messages import INVALID_PARAMS, RequestRefusedError
from codriver.protocol.skill_resources import MAX_ENTRIES_PER_PAGE, MAX_SKILLS_PER_PAGE, SkillResources
from codriver.skills import SkillLibrary, SkillSelection

SECRET = "correct-horse-battery"
KIND = "mimeType"


class Skills:
    """The skills of a workspace, written one by one."""

    def __init__(self, folder):
        self.workspace = folder / "app"
        self.folder = self.workspace / ".codriver" / "skills"
        (folder / "none").mkdir()
        self.library = SkillLibrary(self.workspace, SkillSelection(frozenset({"workspace", "tool"})), folder / "none")
        self.served = SkillResources(self.library, Redactor({"MY_TOKEN": SECRET}))

    def write(self, path, content=b"", folder=None):
        file = self.write_unseen((folder or self.folder) / path, content)
        self.library.changed()
        return file

    def write_unseen(self, file, content=b""):
        """Write a file without letting the library notice it."""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content or guide(file.parent.name))
        return file

    def read(self, uri):
        """Return the bytes that a client gets."""
        content = self.served.read(uri)[1]
        return content if isinstance(content, bytes) else content.encode()

    def verify(self, entry):
        """Compare everything in an entry with what is read, as a client must."""
        for resource in entry["resources"]:
            content = self.read(resource["uri"])
            assert resource["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
            assert resource["size"] == len(content)
        return [resource["uri"] for resource in entry["resources"]]


@pytest.fixture
def skills(tmp_path):
    return Skills(tmp_path)


def guide(name, end="\n"):
    return f"---\nname: {name}\ndescription: What it is for.\n---\ntext\n".replace("\n", end).encode()


def test_an_entry_has_the_front_matter_and_all_files_of_a_skill(skills):
    skills.write("one/SKILL.md", b"---\nname: one\ndescription: x\nmetadata: {a: ['1', 2]}\n---\n")
    skills.write("one/references/a b.md", b"text")
    skills.write("one/references/nested/SKILL.md")
    skills.write("one/image.png", b"\x89PNG\xff")
    (entry,) = skills.served.list_skills(None, ())["skills"]
    assert entry["uri"] == "skill://one/SKILL.md"
    assert entry["frontmatter"] == {"name": "one", "description": "x", "metadata": {"a": ["1", 2]}}
    assert skills.verify(entry) == [
        "skill://one/SKILL.md", "skill://one/image.png", "skill://one/references/a%20b.md",
        "skill://one/references/nested/SKILL.md",
    ]  # fmt: skip
    assert skills.served.get_skill("skill://one/SKILL.md") == {"skill": entry}


@pytest.mark.parametrize(
    "content",
    [
        guide("one", "\r\n"),
        b"\xef\xbb\xbf" + guide("one"),
        b"\xef\xbb\xbf" + guide("one", "\r\n"),
        guide("one") + b"\0\x1b",
    ],
    ids=["CRLF", "BOM", "BOM and CRLF", "control characters"],
)
def test_digest_and_size_cover_the_bytes_of_the_file(skills, content):
    skills.write("one/SKILL.md", content)
    (resource,) = skills.served.get_skill("skill://one/SKILL.md")["skill"]["resources"]
    assert resource["size"] == len(content)
    assert resource["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert skills.read("skill://one/SKILL.md") == content


def test_digest_size_and_front_matter_are_computed_after_redaction(skills):
    skills.write("one/SKILL.md", f"---\nname: one\ndescription: use {SECRET}\n---\n{SECRET}\n".encode())
    entry = skills.served.get_skill("skill://one/SKILL.md")["skill"]
    skills.verify(entry)
    assert entry["frontmatter"]["description"] == "use <<redacted:MY_TOKEN>>"
    assert SECRET.encode() not in skills.read("skill://one/SKILL.md")
    assert skills.served.list_guides(())[0]["description"] == "use <<redacted:MY_TOKEN>>"


def test_an_entry_is_read_again_for_each_answer(skills):
    file = skills.write("one/SKILL.md")
    before = skills.served.get_skill("skill://one/SKILL.md")["skill"]
    file.write_bytes(guide("one") + b"more")
    after = skills.served.get_skill("skill://one/SKILL.md")["skill"]
    assert before["resources"] != after["resources"]
    skills.verify(after)


def test_a_dependency_skills_uri_ends_in_its_name(skills):
    skills.write("skills/saw/SKILL.md", folder=skills.workspace / ".venv/lib/python3.11/site-packages/tool")
    (entry,) = skills.served.list_skills(None, ())["skills"]
    assert entry["uri"] == "skill://lib.tool/saw/SKILL.md"
    assert skills.served.get_skill(entry["uri"])["skill"] == entry
    (child,) = skills.served.read_directory("skill://lib.tool", None)["resources"]
    assert child == {"uri": "skill://lib.tool/saw", "name": "saw", KIND: "inode/directory"}


def test_a_hidden_skill_is_not_listed_but_available_by_uri(skills):
    skills.write("one/SKILL.md")
    assert skills.served.list_skills(None, ("one",)) == {"skills": []}
    assert skills.served.get_skill("skill://one/SKILL.md")["skill"]["frontmatter"]["name"] == "one"


def pages(ask):
    """Return all pages of a list, and the number of items of each."""
    cursor = None
    while True:
        page = ask(cursor)
        (name,) = page.keys() - {"nextCursor"}
        yield [item["uri"] for item in page[name]]
        cursor = page.get("nextCursor")
        if cursor is None:
            return


def test_skill_pages_contain_each_skill_once(skills):
    for number in range(2 * MAX_SKILLS_PER_PAGE + 1):
        skills.write_unseen(skills.folder / f"skill-{number}" / "SKILL.md")
    skills.library.changed()
    found = list(pages(lambda cursor: skills.served.list_skills(cursor, ())))
    assert [len(page) for page in found] == [MAX_SKILLS_PER_PAGE, MAX_SKILLS_PER_PAGE, 1]
    assert len({uri for page in found for uri in page}) == 2 * MAX_SKILLS_PER_PAGE + 1


def test_paging_continues_even_if_the_skill_named_by_the_cursor_was_deleted(skills):
    for number in range(MAX_SKILLS_PER_PAGE + 2):
        skills.write_unseen(skills.folder / f"s{number:03}" / "SKILL.md")
    skills.library.changed()
    cursor = skills.served.list_skills(None, ())["nextCursor"]
    (skills.folder / f"s{MAX_SKILLS_PER_PAGE - 1:03}" / "SKILL.md").unlink()
    skills.library.changed()
    left = skills.served.list_skills(cursor, ())["skills"]
    assert [entry["frontmatter"]["name"] for entry in left] == [
        f"s{MAX_SKILLS_PER_PAGE:03}",
        f"s{MAX_SKILLS_PER_PAGE + 1:03}",
    ]


def test_a_directory_lists_its_direct_children_with_their_types(skills):
    skills.write("one/SKILL.md")
    skills.write("one/templates/a.md", b"a")
    skills.write("one/templates/deep/b.unknown", b"b")
    (skills.folder / "one" / "empty").mkdir()
    assert skills.served.read_directory("skill://one", None)["resources"] == [
        {"uri": "skill://one/SKILL.md", "name": "one", "description": "What it is for.", KIND: "text/markdown"},
        {"uri": "skill://one/empty", "name": "empty", KIND: "inode/directory"},
        {"uri": "skill://one/templates", "name": "templates", KIND: "inode/directory"},
    ]
    assert skills.served.read_directory("skill://one/templates", None)["resources"] == [
        {"uri": "skill://one/templates/a.md", "name": "a.md", KIND: "text/markdown"},
        {"uri": "skill://one/templates/deep", "name": "deep", KIND: "inode/directory"},
    ]
    assert skills.served.read_directory("skill://one/empty", None) == {"resources": []}


def test_a_large_directory_is_listed_in_pages(skills):
    skills.write("one/SKILL.md")
    for number in range(2 * MAX_ENTRIES_PER_PAGE):
        (skills.folder / "one" / f"{number}.md").write_bytes(b"")
    found = list(pages(lambda cursor: skills.served.read_directory("skill://one", cursor)))
    assert [len(page) for page in found] == [MAX_ENTRIES_PER_PAGE, MAX_ENTRIES_PER_PAGE, 1]
    assert len({uri for page in found for uri in page}) == 2 * MAX_ENTRIES_PER_PAGE + 1


@pytest.mark.parametrize(
    "uri",
    [
        "skill://none", "skill://one/none", "skill://one/SKILL.md", "skill://one/a/b.md", "skill://one/", "skill://",
        "skill://one/..", "skill://one/%2e%2e", "skill://lib.none", "file:///etc", "codriver://log", "",
    ],
)  # fmt: skip
def test_a_uri_that_is_not_a_directory_is_refused(skills, uri):
    skills.write("one/SKILL.md")
    skills.write("one/a/b.md")
    with pytest.raises(RequestRefusedError) as caught:
        skills.served.read_directory(uri, None)
    assert caught.value.code == INVALID_PARAMS


@pytest.mark.parametrize(
    "uri",
    [
        "skill://none/SKILL.md", "skill://one", "skill://one/", "skill://one/a.md", "skill://one/a/SKILL.md",
        "skill://one/../one/SKILL.md", "skill://index.json", "codriver://log", "",
    ],
)  # fmt: skip
def test_a_uri_that_is_not_a_skill_is_refused(skills, uri):
    skills.write("one/SKILL.md")
    skills.write("one/a.md", b"a")
    skills.write("one/a/SKILL.md")
    with pytest.raises(RequestRefusedError) as caught:
        skills.served.get_skill(uri)
    assert caught.value.code == INVALID_PARAMS


@pytest.mark.parametrize(
    "cursor", ["", "x", "one", base64.b64encode(b"resources/directory/read one").decode(), "é", "=="]
)
def test_an_invalid_cursor_is_refused(skills, cursor):
    with pytest.raises(RequestRefusedError) as caught:
        skills.served.list_skills(cursor, ())
    assert caught.value.code == INVALID_PARAMS
