"""All benchmarks in one run: tables on the screen, JSON to compare versions with, SVG plots of how cost grows.

    python tests/bench/run.py [NAME...] [--scale 0.3] [--json FILE] [--compare FILE] [--plots DIR]

NAME is the beginning of a module here, such as `relay`. Each table was measured side by side in this run; look at the
ratios, as times differ from machine to machine. `--plots` needs pygal.
"""

import argparse
import gc
import importlib
import importlib.util
import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from report import Report, compare, save  # noqa: E402 - found beside this file


def plot(report, folder):
    """Write one SVG per curve. Both axes are logarithmic, so a linear cost is a straight line of slope 1."""
    import pygal  # noqa: PLC0415 - an optional package

    folder.mkdir(parents=True, exist_ok=True)
    for curve in report.curves:
        chart = pygal.XY(title=curve.title, x_title=curve.x, y_title=curve.y, logarithmic=True, xrange=None)
        chart.add("measured", curve.points)
        (x, y), last = curve.points[0], curve.points[-1][0]
        chart.add("linear", [(x, y), (last, y * last / x)], stroke_style={"dasharray": "4, 4"})
        chart.render_to_file(str(folder / f"{curve.title.replace(' ', '-')}.svg"))


def main():
    parser = argparse.ArgumentParser(description="Run the benchmarks.")
    parser.add_argument("names", nargs="*", help="beginnings of module names; all when none is given")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the numbers of rounds")
    parser.add_argument("--json", type=Path, help="write what was measured to this file")
    parser.add_argument("--compare", type=Path, help="show the ratios beside those of this file")
    parser.add_argument("--plots", type=Path, help="write SVG plots into this folder")
    options = parser.parse_args()
    if options.plots and importlib.util.find_spec("pygal") is None:
        parser.error("--plots draws with pygal, which is not installed: pip install pygal")
    report = Report(options.scale)
    for path in sorted(HERE.glob("*_bench.py")):
        if not options.names or path.name.startswith(tuple(options.names)):
            gc.collect()
            gc.freeze()  # what one benchmark leaves behind is not looked through in the time of the next
            importlib.import_module(path.stem).measure(report)
    if options.compare:
        compare(report, json.loads(options.compare.read_text()))
    if options.json:
        save(report, options.json)
    if options.plots:
        plot(report, options.plots)
    missed = [row for row in report.rows if row.met is False]
    sys.stdout.write(f"\n{sum(row.met is True for row in report.rows)} goals met, {len(missed)} missed\n")


if __name__ == "__main__":
    main()
