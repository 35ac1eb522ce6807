"""Run the code of Markdown files and put what it prints, and draws, below it.

    python vignettes/render.py                      all vignettes and the README
    python vignettes/render.py vignettes/01-first.md
    python vignettes/render.py --check              run, compare, write nothing

Every ``python`` block of a file runs in one namespace, and every ``sh`` block whose lines
begin with ``dpbinagg`` runs as that command, all in an empty folder. The value of the last
expression of a block is shown, as in a notebook, and open matplotlib figures are saved.
A block that begins with ``# not run`` is left alone. A reference in backticks, such as
kernel/view.py:50 cut, gets the line where the package defines that name.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
README = HERE.parent / "README.md"
FIGURES = HERE / "figures"
MARK = "<!-- output -->"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
OUTPUT = re.compile(
    rf"\n{re.escape(MARK)}\n(?:```text\n.*?^```\n)?(?:!\[[^\n]*\n)*", re.DOTALL | re.MULTILINE
)
WIDTH = 100
SKIP = "# not run"
PACKAGE = HERE.parent / "dpbinagg"
REFERENCE = re.compile(r"`([\w/]+\.py):(\d+)(\s)([\w.]+)`")


@dataclass
class Page:
    """One Markdown file while it is run."""

    path: Path
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    figures: list[Path] = field(default_factory=list)
    outputs: int = 0

    def render(self) -> str:
        """The text with fresh output below every block."""
        text = OUTPUT.sub("", self.path.read_text(encoding="utf-8"))
        text = REFERENCE.sub(_with_line, text)
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), _settings():
            return BLOCK.sub(self._run_block, text)

    def _run_block(self, match: re.Match[str]) -> str:
        language, code = match.group(1), match.group(2)
        if language == "python" and not code.startswith(SKIP):
            said = self._python(code, text_line(match))
        elif language == "sh" and all(line.startswith("dpbinagg ") for line in commands(code)):
            said = self._shell(code)
        else:
            return match.group(0)
        pictures = self._save_figures()
        if not said and not pictures:
            return match.group(0)
        self.outputs += 1
        block = f"```text\n{said}```\n" if said else ""
        return f"{match.group(0)}\n{MARK}\n{block}{pictures}"

    def _python(self, code: str, where: str) -> str:
        tree = ast.parse(code)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        with _captured() as stream:
            exec(compile(tree, f"{self.path.name}, {where}", "exec"), self.names)
            if last is not None:
                assert isinstance(last, ast.Expr)
                value = eval(compile(ast.Expression(last.value), where, "eval"), self.names)
                if value is not None and not _is_drawn(value):
                    print(value)
        return _tidy(stream.getvalue())

    def _shell(self, code: str) -> str:
        from dpbinagg.cli import main

        with _captured() as stream:
            for line in commands(code):
                if main(shlex.split(line)[1:]):
                    raise SystemExit(f"{self.path.name}: {line}\n{stream.getvalue()}")
        return _tidy(stream.getvalue())

    def _save_figures(self) -> str:
        plt = sys.modules.get("matplotlib.pyplot")
        lines = []
        for number in plt.get_fignums() if plt else ():
            figure = plt.figure(number)  # type: ignore[union-attr]
            target = FIGURES / f"{self.path.stem.lower()}-{len(self.figures) + 1}.png"
            figure.savefig(target, dpi=110, bbox_inches="tight", metadata={"Software": None})
            self.figures.append(target)
            titles = [axes.get_title(loc) for axes in figure.axes for loc in ("left", "center")]
            about = next((title for title in titles if title), "figure").replace("\n", " ")
            stored = HERE / "figures" / target.name
            lines.append(f"![{about}]({os.path.relpath(stored, self.path.parent)})\n")
        if plt:
            plt.close("all")
        return "".join(lines)


def _with_line(match: re.Match[str]) -> str:
    """A reference with the line where its name is defined."""
    file, _, blank, name = match.groups()
    return f"`{file}:{definitions(PACKAGE / file)[name]}{blank}{name}`"


@cache
def definitions(path: Path) -> dict[str, int]:
    """Lines of the functions, classes, methods and constants that a module defines."""
    found: dict[str, int] = {}

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                found[prefix + node.name] = node.lineno
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{prefix}{node.name}.")
            for target in node.targets if isinstance(node, ast.Assign) else ():
                if isinstance(target, ast.Name):
                    found[prefix + target.id] = node.lineno

    visit(ast.parse(path.read_text(encoding="utf-8")).body, "")
    return found


def text_line(match: re.Match[str]) -> str:
    """Where a block is, for error messages."""
    return f"line {match.string[: match.start()].count(chr(10)) + 1}"


def commands(code: str) -> list[str]:
    """The commands of a shell block, continued lines joined."""
    return [line for line in code.replace("\\\n", " ").splitlines() if line.strip()]


def _is_drawn(value: Any) -> bool:
    values = list(getattr(value, "flat", value if isinstance(value, list | tuple) else [value]))
    return bool(values) and type(values[0]).__module__.startswith("matplotlib")


def _tidy(text: str) -> str:
    lines = [line.rstrip() for line in text.replace("```", "'''").rstrip().splitlines()]
    return "\n".join(lines) + "\n" if lines else ""


@contextlib.contextmanager
def _captured() -> Any:
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
        yield stream


@contextlib.contextmanager
def _settings() -> Any:
    """Wide tables, no window, no warnings of other packages."""
    import pandas as pd

    os.environ["MPLBACKEND"] = "Agg"
    options = ("display.width", WIDTH, "display.max_columns", 20, "display.precision", 4)
    with pd.option_context(*options), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def pages() -> list[Path]:
    """All files that are rendered."""
    return [README, *sorted(HERE.glob("[0-9][0-9]-*.md"))]


def main(arguments: list[str]) -> int:
    """Render the files named, or all; with --check, only compare."""
    check = "--check" in arguments
    named = [Path(name).resolve() for name in arguments if not name.startswith("-")]
    stale = 0
    for path in named or pages():
        start = time.perf_counter()
        page = Page(path)
        text = page.render()
        changed = text != path.read_text(encoding="utf-8")
        stale += changed
        if changed and not check:
            path.write_text(text, encoding="utf-8")
        state = ("out of date" if check else "written") if changed else "up to date"
        print(f"{path.name}: {page.outputs} outputs, {time.perf_counter() - start:.1f} s, {state}")
    return int(check and stale > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
