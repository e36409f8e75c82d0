"""Skills: short guides for agents, found in several places and served as `skill://` resources.

A skill is a folder with a `SKILL.md` that begins with front matter (`name`, `description`). Places; of two skills with
one name the one of the first place wins:

* the workspace: `.codriver/skills/<name>/`, source `workspace`
* Codriver itself, source `codriver`
* Python packages in `.venv` or `venv` of the workspace: `<package>/skills/<name>/`,
  `<package>/.codriver/skills/<name>/`
* jars on the classpath that the Clojure CLI keeps in `.cpcache/`, and in `lib/`: `META-INF/skills/<name>/`,
  `skills/<name>/`

A dependency's source is the package's name or the jar's without version, and its skills are called `<source>.<name>`.
Codriver's own are offered; all others are words of strangers to an agent, also those of a workspace that was only
cloned, and so they are offered when the setting `skillSources` names their source. A skill that is not offered is
absent everywhere: from the list, from the index, from reading and from the instructions.
"""

from codriver.skills.instructions import INSTRUCTIONS_CHARS, Connected, instructions
from codriver.skills.library import (
    EDITING,
    INDEX_URI,
    LIVE_APP,
    LIVE_REPL,
    Entry,
    Found,
    Selection,
    Skill,
    SkillLibrary,
    read_front_matter,
    switched_off,
)

__all__ = [
    "EDITING",
    "INDEX_URI",
    "INSTRUCTIONS_CHARS",
    "LIVE_APP",
    "LIVE_REPL",
    "Connected",
    "Entry",
    "Found",
    "Selection",
    "Skill",
    "SkillLibrary",
    "instructions",
    "read_front_matter",
    "switched_off",
]
