"""Fuzz one target, guided by coverage.

Run with `python tests/fuzz/fuzz.py TARGET [SECONDS]` (120), or with `all` to run every target in turn. Needs `pip
install atheris` (Linux, up to Python 3.13). It starts with the cases in `tests/fuzz/cases/TARGET/`, and writes failures
to `tests/fuzz/found/`. After a failure is fixed, add it to the cases.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[0] = str(HERE.parent)  # not this folder, in which `fuzz` is this file

from fuzz.words import WORDS  # noqa: E402  # found by the line above


def escaped(word):
    """Return a word in the format of the fuzzer's dictionary. Source: libFuzzer documentation, "Dictionaries"."""
    return "".join(chr(b) if b < 128 and chr(b).isalnum() else f"\\x{b:02x}" for b in word.encode())


def main():
    name, seconds = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "120"
    if name == "all":
        from fuzz import targets  # noqa: PLC0415  # only named here; a run of one imports them under watch

        failed = [
            name
            for name in targets.TARGETS
            if subprocess.run([sys.executable, __file__, name, seconds], check=False).returncode
        ]
        sys.exit(f"findings in {failed}" if failed else 0)

    import atheris  # noqa: PLC0415  # not every system has it

    with atheris.instrument_imports(include=["codriver", "codriver_relay", "tomllib", "transit"]):
        from fuzz import targets  # noqa: PLC0415  # after the watch has begun

    target = targets.TARGETS[name]
    cases, found, corpus = (HERE / kind / name for kind in ("cases", "found", "corpus"))
    for folder in (cases, found, corpus):
        folder.mkdir(parents=True, exist_ok=True)
    words = found / "dictionary"
    words.write_text("\n".join(f'"{escaped(word)}"' for word in WORDS[name]))
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={targets.LONGEST}",
        "-timeout=20",
        f"-artifact_prefix={found}/",
        f"-dict={words}",
    ]
    atheris.Setup([__file__, *options, str(corpus), str(cases)], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
