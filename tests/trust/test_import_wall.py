"""Imports go one way, and the wall between curator and analyst stands.

Import statements are read, not executed: also those inside functions, which
are allowed in the three places listed below and nowhere else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpbinagg

ROOT = Path(dpbinagg.__file__).parent

LAYERS = (
    ("errors", "inputs"),
    ("accounting", "gdp", "public", "formula"),
    ("release",),
    ("curator", "analyst"),
    ("report",),
    ("protocol", "api"),
    ("audit", "baselines", "datasets", "cli", "__main__", "__init__"),
)
"""From the bottom up. A module may import from its own layer and from those below."""

LATE = {("release", "report")}
"""`Release.ols` and `.synthesize` import what they call when they are called."""

MODULES = sorted(path for path in ROOT.rglob("*.py"))


def part_of(module: str) -> str:
    """The top-level part of the package that a dotted name belongs to."""
    return module.split(".")[1] if "." in module else "__init__"


def module_name(path: Path) -> str:
    relative = path.relative_to(ROOT.parent).with_suffix("")
    parts = relative.parts[:-1] if relative.name == "__init__" else relative.parts
    return ".".join(parts)


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Modules of the package that a file imports, and whether at run time of a function."""
    tree = ast.parse(path.read_text())
    late = {
        id(inner)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(function)
    }
    typing_only = {
        id(inner)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for inner in ast.walk(block)
    }
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in {path.name}"
            base = node.module or ""
            whole = base == "dpbinagg"
            names = [f"{base}.{alias.name}" if whole else base for alias in node.names]
            names = [name for name in names if name != "dpbinagg.__version__"]
        if id(node) not in typing_only:
            yield from (
                (name, id(node) in late) for name in names if name.split(".")[0] == "dpbinagg"
            )


def layer(part: str) -> int:
    found = [i for i, parts in enumerate(LAYERS) if part in parts]
    assert found, f"{part!r} is not in LAYERS: decide where it belongs"
    return found[0]


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_imports_go_one_way(path: Path) -> None:
    own = part_of(module_name(path))
    if own == "__init__":
        return
    for name, late in imports(path):
        other = part_of(name)
        if other == "__init__" or other == own or (late and (own, other) in LATE):
            continue
        assert layer(other) <= layer(own), f"{module_name(path)} imports {name}, which is above it"


@pytest.mark.parametrize("side", ["curator", "analyst"])
def test_curator_and_analyst_never_import_each_other(side: str) -> None:
    """Directly, or by way of anything that they import."""
    other = {"curator": "analyst", "analyst": "curator"}[side]
    graph = {
        module_name(path): {name for name, late in imports(path) if not late} for path in MODULES
    }
    reached: set[str] = set()
    todo = [name for name in graph if part_of(name) == side]
    while todo:
        name = todo.pop()
        for imported in graph.get(name, set()):
            if imported not in reached and imported != "dpbinagg":
                reached.add(imported)
                todo.append(imported)
    assert not [name for name in reached if part_of(name) == other]
    for path in MODULES:
        if part_of(module_name(path)) == side:
            assert not [name for name, _ in imports(path) if part_of(name) == other]


@pytest.mark.parametrize("part", ["audit", "baselines"])
def test_nothing_imports_what_stands_beside_the_core(part: str) -> None:
    """Not even when it is called; `dpbinagg.audit` itself is imported when it is asked for."""
    for path in MODULES:
        if part_of(module_name(path)) not in (part, "__init__"):
            assert not [name for name, _ in imports(path) if part_of(name) == part]


def test_only_the_curator_reads_tables() -> None:
    """The parts below the pipeline that see a private table are the curator's."""
    opened = [
        module_name(path)
        for path in MODULES
        if any(name.startswith("dpbinagg.curator") for name, _ in imports(path))
    ]
    assert {part_of(name) for name in opened} <= {
        "curator",
        "protocol",
        "api",
        "audit",
        "baselines",
        "cli",
    }
