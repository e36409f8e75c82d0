"""What every benchmark shares: rows that are measured side by side, displayed as a table and stored as JSON.

A benchmark is a module `*_bench.py` with a function `measure(report)`. `run.py` runs them all.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import real_repls

real_repls.java = ["java"]  # as its users start it

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True)
class Row:
    """One thing measured. `ratio` is to the row `base`; `goal` bounds `judged`, the ratio or else the value."""

    table: str
    name: str
    value: float
    unit: str
    ratio: float | None = None
    base: str | None = None
    goal: str | None = None
    met: bool | None = None
    samples: int = 1


@dataclass
class Curve:
    """How a cost grows: y over x, the points in rising order of x."""

    title: str
    x: str
    y: str
    points: list[tuple[float, float]] = field(default_factory=list)


@dataclass
class Report:
    """Collects rows and curves, and displays each complete table. `scale` multiplies the numbers of rounds."""

    scale: float = 1.0
    rows: list[Row] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)

    def rounds(self, number: int) -> int:
        """Return the scaled number of rounds, at least three."""
        return max(3, round(number * self.scale))

    def table(
        self,
        title: str,
        unit: str,
        samples: Mapping[str, Sequence[float]],
        *,
        base: str,
        at_most: Mapping[str, float] | None = None,
        at_least: Mapping[str, float] | None = None,
    ) -> None:
        """Add a table of medians with their ratios to the row `base`.

        Goals limit the ratios of the rows that they name.
        """
        middle = statistics.median(samples[base])
        added = []
        for name, values in samples.items():
            median = statistics.median(values)
            ratio = median / middle
            goal, met = None, None
            if name in (at_most or {}):
                goal, met = f"<= {at_most[name]:g}x", ratio <= at_most[name]
            if name in (at_least or {}):
                goal, met = f">= {at_least[name]:g}x", ratio >= at_least[name]
            added.append(Row(title, name, median, unit, ratio, base, goal, met, len(values)))
        self._add(title, added)

    def fact(
        self,
        title: str,
        name: str,
        value: float,
        unit: str,
        *,
        at_most: float | None = None,
        at_least: float | None = None,
    ) -> None:
        """Add a single number."""
        goal, met = None, None
        if at_most is not None:
            goal, met = f"<= {at_most:g} {unit}", value <= at_most
        elif at_least is not None:
            goal, met = f">= {at_least:g} {unit}", value >= at_least
        self._add(title, [Row(title, name, value, unit, goal=goal, met=met)])

    def grid(
        self, title: str, cells: Mapping[str, Mapping[str, float]], at_most: Mapping[str, float] | None = None
    ) -> None:
        """Add a table of integers by row and column. Goals limit the first column of the rows that they name."""
        columns = list(next(iter(cells.values()), {}))
        widths = [max(12, len(column)) for column in columns]
        heads = "".join(f"  {column:>{width}}" for column, width in zip(columns, widths, strict=True))
        _write(f"\n{title}\n  {'':40}{heads}")
        for name, values in cells.items():
            goal = (at_most or {}).get(name)
            met = None if goal is None else values[columns[0]] <= goal
            for column, value in values.items():
                bounded = {"goal": f"<= {goal:g}", "met": met} if goal and column == columns[0] else {}
                self.rows.append(Row(title, f"{name}: {column}", value, "B", **bounded))
            numbers = "".join(f"  {values[column]:>{width},}" for column, width in zip(columns, widths, strict=True))
            verdict = "" if goal is None else f"  <= {goal:,}: {'met' if met else 'MISSED'}"
            _write(f"  {name:40}{numbers}{verdict}")

    def skip(self, title: str, why: str) -> None:
        """Report that something was not measured."""
        _write(f"\n{title}: not measured: {why}")

    def _add(self, title: str, rows: list[Row]) -> None:
        if not self.rows or self.rows[-1].table != title:
            _write(f"\n{title}")
        self.rows += rows
        for row in rows:
            ratio = "" if row.ratio is None else f"{row.ratio:8.2f}x"
            verdict = "" if row.goal is None else f"  {row.goal}: {'met' if row.met else 'MISSED'}"
            _write(f"  {row.name:44} {row.value:12.3f} {row.unit:6} {ratio:9}{verdict}")

    def to_json(self) -> dict[str, object]:
        """Return all measurements and the system on which they were made."""
        machine = {"python": platform.python_version(), "system": platform.platform(), "cpus": os.cpu_count()}
        return {
            "machine": machine,
            "at": int(time.time()),
            "rows": [asdict(row) for row in self.rows],
            "curves": [asdict(curve) for curve in self.curves],
        }


def compare(report: Report, before: Mapping[str, object]) -> None:
    """Show how the ratios of this run compare to those of an earlier one: ratios survive a change of machine."""
    known = {(row["table"], row["name"]): row for row in before["rows"]}
    _write("\ncompared with the earlier run (ratio now / ratio then; plain numbers where there is no ratio)")
    for row in report.rows:
        old = known.get((row.table, row.name))
        if old is None or row.name == row.base:
            continue
        now, then = (row.ratio, old["ratio"]) if row.ratio is not None else (row.value, old["value"])
        if now is not None and then:
            _write(f"  {row.table[:40]:40} {row.name[:44]:44} {now / then:8.2f}")


def timed_ms(work: Callable[[], object]) -> float:
    """Return how long the work takes."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def in_turns(ways: Mapping[str, Callable[[], object]], rounds: int, *, batch: int = 1, warm_up: int = 1) -> dict:
    """Return the milliseconds of each way, measured in turns so that a busy machine slows all of them alike."""
    samples = {name: [] for name in ways}
    for number in range(rounds + warm_up):
        for name, way in ways.items():
            found = [timed_ms(way) for _ in range(batch)]
            if number >= warm_up:
                samples[name] += found
    return samples


def main(measure: Callable[[Report], None]) -> None:
    """Run one benchmark by itself."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the numbers of rounds")
    measure(Report(parser.parse_args().scale))


def save(report: Report, path: Path) -> None:
    """Write the report as JSON."""
    path.write_text(json.dumps(report.to_json(), indent=1) + "\n")


def median_ms(times: int, work: Callable[[], object]) -> float:
    """Return the median of several runs in milliseconds."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken)


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
