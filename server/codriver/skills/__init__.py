"""Skills: short guides for agents, found in several places and served as `skill://` resources.

A skill is a folder with a `SKILL.md` that begins with front matter (`name`, the same as the folder's, and
`description`). Places; of two skills with one name the one of the first place wins:

* the workspace: `.codriver/skills/<name>/`, source `workspace`
* Codriver itself, source `codriver`
* Python packages in `.venv` or `venv` of the workspace: `<package>/skills/<name>/`,
  `<package>/.codriver/skills/<name>/`
* jars on the classpath that the Clojure CLI keeps in `.cpcache/`, and in `lib/`: `META-INF/skills/<name>/`,
  `skills/<name>/`

A dependency's source is the package's name or the jar's without version, and its skills are `lib.<source>/<name>`.
Codriver's own are offered; all others are instructions from strangers to an agent, also those of a workspace that was
only cloned, and so they are offered when the setting `skillSources` names their source. A skill that is not offered is
absent everywhere: from lists, from reading and from the instructions.
"""

from codriver.skills.discovery import OWN
from codriver.skills.folders import FILE, MAX_FILES, TooManyFilesError
from codriver.skills.front_matter import FrontMatterError, read_front_matter
from codriver.skills.instructions import INSTRUCTIONS_CHARS, Connected, instructions
from codriver.skills.library import (
    EDITING,
    LIVE_APP,
    LIVE_REPL,
    OF_DEPENDENCY,
    SCHEME,
    Found,
    Selection,
    Skill,
    SkillLibrary,
    rank,
    switched_off,
)

__all__ = [
    "EDITING",
    "FILE",
    "INSTRUCTIONS_CHARS",
    "LIVE_APP",
    "LIVE_REPL",
    "MAX_FILES",
    "OF_DEPENDENCY",
    "OWN",
    "SCHEME",
    "Connected",
    "Found",
    "FrontMatterError",
    "Selection",
    "Skill",
    "SkillLibrary",
    "TooManyFilesError",
    "instructions",
    "rank",
    "read_front_matter",
    "switched_off",
]
