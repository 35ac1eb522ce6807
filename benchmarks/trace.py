"""What one fit touches, and what must be trusted with records.

    python benchmarks/trace.py            # a table
    python benchmarks/trace.py --list     # and every function with its lines, by file

Two counts, of this package alone:

- functions and files that one ``dp_ols(...)`` and its ``summary()`` run, for `FORMULA` on the
  bundled wage survey. The process is warm: the same call was made before, so that what runs at
  import, and what is kept between fits, does not count. Lambdas count; comprehensions and
  generator expressions belong to the function that they stand in. A second number counts these
  too, as Python 3.11 runs them; from 3.12 on comprehensions are no longer calls.
- lines of the modules that records pass through: the rooms in `TRUSTED`, the evaluation of rows,
  and all that they import, also late. Blank lines, comments and docstrings count, imports for types
  do not; a second table counts lines of code alone.
"""

from __future__ import annotations

import argparse
import ast
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import grimp

import dpbinagg
from dpbinagg import dp_ols
from dpbinagg.datasets import load_wages

FORMULA = "np.log(wage) ~ educ + exper + I(exper**2) + C(sex)"
ROOT = Path(dpbinagg.__file__).parent
TRUSTED = ("kernel", "engines", "reading")
ROW_EVALUATION = ("dpbinagg.formula.rows",)
"""What turns a record into a row of the design: the engines are handed it."""
INNER = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


class Trace:
    """The functions of the package that run while it is `recording`.

    It is set before any thread is made, because pools of threads outlive a fit.
    """

    def __init__(self) -> None:
        self.recording = False
        self.codes: set[CodeType] = set()

    def __enter__(self) -> Trace:
        threading.setprofile(self._see)
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _see(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and self.recording:
            self.codes.add(frame.f_code)

    def functions(self) -> dict[str, list[str]]:
        """Names of the functions that ran, by file."""
        found: dict[str, list[str]] = defaultdict(list)
        for code in self.codes:
            path = Path(code.co_filename)
            if path.is_relative_to(ROOT) and code.co_name != "<module>":
                last = max(line for _, _, line in code.co_lines() if line is not None)
                name = f"{code.co_qualname}:{code.co_firstlineno}-{last}"
                found[str(path.relative_to(ROOT))].append(name)
        return found


def fit(wages: Any) -> None:
    """One fit and its table."""
    str(dp_ols(FORMULA, wages.frame, mu=1, bounds=wages.codebook, rng=1).summary())


def touched() -> dict[str, list[str]]:
    """Functions by file that one fit runs in a warm process."""
    wages = load_wages()  # the fit's input, not the fit
    with Trace() as trace:
        fit(wages)
        trace.recording = True
        fit(wages)
        trace.recording = False
    return trace.functions()


def without_inner(names: list[str]) -> list[str]:
    """The functions and lambdas among names."""
    return [name for name in names if not name.split(":")[0].endswith(INNER)]


def room(file: str) -> str:
    """The top-level part of the package that a file belongs to."""
    first = Path(file).parts[0]
    return "(top)" if first.endswith(".py") else first


def trusted() -> dict[str, int]:
    """Lines of what records pass through and of all that it imports, by file."""
    graph = grimp.build_graph("dpbinagg", cache_dir=None, exclude_type_checking_imports=True)
    todo = {name for name in graph.modules if room_of_module(name) in TRUSTED}
    todo |= set(ROW_EVALUATION) & graph.modules
    seen: set[str] = set()
    while todo:
        name = todo.pop()
        seen.add(name)
        todo |= graph.find_modules_directly_imported_by(name) - seen
    files = (file_of(name) for name in seen)
    return {str(file.relative_to(ROOT)): len(file.read_text().splitlines()) for file in files}


def lines_of_code(path: Path) -> int:
    """Lines of a file that are neither blank nor comment nor docstring."""
    text = path.read_text()
    said: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            said |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(text.splitlines(), start=1)
    return sum(bool(line.strip()) and line.strip()[0] != "#" and n not in said for n, line in lines)


def room_of_module(name: str) -> str:
    """The room of a dotted name."""
    return name.split(".")[1] if "." in name else ""


def file_of(name: str) -> Path:
    """The file of a module."""
    base = ROOT.parent.joinpath(*name.split("."))
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


def table(title: str, head: tuple[str, str], rows: Iterable[tuple[str, int, int]]) -> None:
    """Print a count and the number of files by room, and their sums."""
    kept = list(rows)
    print(f"{title}\n{'room':<12}{head[0]:>12}{head[1]:>8}")
    for name, count, files in [*kept, ("all", sum(r[1] for r in kept), sum(r[2] for r in kept))]:
        print(f"{name:<12}{count:>12,}{files:>8}")
    print(flush=True)


def by_room(counts: dict[str, int]) -> list[tuple[str, int, int]]:
    """Sum counts of files by room, the largest first."""
    total: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for file, count in counts.items():
        total[room(file)] += count
        files[room(file)] += 1
    return [(name, count, files[name]) for name, count in total.most_common()]


def main() -> None:
    """Print both counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="name the functions, by file")
    options = parser.parse_args()
    found = touched()
    table(
        f"dp_ols({FORMULA!r}) and summary()",
        ("functions", "files"),
        by_room({file: len(without_inner(names)) for file, names in found.items()}),
    )
    everything = sum(map(len, found.values()))
    print(f"comprehensions and generator expressions included: {everything:,}\n")
    lines = trusted()
    table("what must be trusted with records", ("lines", "files"), by_room(lines))
    code = {file: lines_of_code(ROOT / file) for file in lines}
    table("of these, code", ("lines", "files"), by_room(code))
    if options.list:
        for file in sorted(found):
            print(f"{file}, {len(without_inner(found[file]))} functions")
            print(*(f"    {name}" for name in sorted(found[file])), sep="\n")


if __name__ == "__main__":
    main()
