"""Print the sizes of the parts of the product in lines of code: the base, each feature, and what is next to them.

`python tests/bench/sizes.py` counts the lines of Python that have code, without docstrings, comments and blank lines. A
feature consists of its package and the modules with its name in the worker. `--json` prints the numbers as JSON.
"""

import io
import json
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[2]
SERVER = ROOT / "server"
CODRIVER = SERVER / "codriver"
FEATURES = CODRIVER / "features"
WORKER = CODRIVER / "repls" / "worker"
SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
           tokenize.ENDMARKER}  # fmt: skip
BEFORE_STATEMENT = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}


def code_lines(path):
    """Return the number of lines of a module that have code."""
    lines, before = set(), tokenize.ENCODING
    tokens = tokenize.tokenize(io.BytesIO(path.read_bytes()).readline)
    for token in tokens:
        is_docstring = token.type == tokenize.STRING and before in BEFORE_STATEMENT
        if token.type not in SKIPPED and not is_docstring:
            lines.update(range(token.start[0], token.end[0] + 1))
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            before = token.type
    return len(lines)


def lines_in(*folders, without=()):
    """Return the number of lines of code in these directories and files, without those in others."""
    paths = {path for folder in folders for path in ([folder] if folder.is_file() else folder.rglob("*.py"))}
    return sum(code_lines(path) for path in paths if not any(path.is_relative_to(item) for item in without))


def sizes():
    """Return the lines of code of each part."""
    features = sorted(path.parent for path in FEATURES.glob("*/__init__.py"))
    found = {
        "base": lines_in(CODRIVER, without=(FEATURES, WORKER, CODRIVER / "setup")),
        "set-up of clients": lines_in(CODRIVER / "setup"),
        "worker": lines_in(WORKER, without=(WORKER / "features",)),
    }
    for feature in features:
        found[f"feature {feature.name}"] = lines_in(feature)
        if (half := WORKER / "features" / f"{feature.name}.py").exists():
            found[f"worker half of {feature.name}"] = lines_in(half)
    found["features, with their worker halves"] = lines_in(FEATURES, WORKER / "features")
    found["codriver_datalog"] = lines_in(SERVER / "codriver_datalog")
    found["codriver_lisp"] = lines_in(SERVER / "codriver_lisp")
    found["codriver_seam"] = lines_in(SERVER / "codriver_seam")
    found["relay"] = lines_in(ROOT / "relay")
    return found


if __name__ == "__main__":
    if "--json" in sys.argv[1:]:
        print(json.dumps(sizes(), indent=1))
    else:
        for name, count in sizes().items():
            print(f"{count:>7,} {name}")
