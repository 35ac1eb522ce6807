"""The documentation site, from the README, the vignettes and the docstrings.

    python -m sphinx -W -q -c vignettes/site . build/site

Then open build/site/index.html. ``-W`` makes a link that leads nowhere an error. Sphinx and what
it needs are in the extra ``docs``.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from dpbinagg import __version__
from dpbinagg.cli.parser import make_parser

project = "dpbinagg"
author = "The dpbinagg authors"
release = version = __version__
root_doc = "README"
include_patterns = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "vignettes/*.md",
    "vignettes/site/*.md",
]
extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc"]
myst_heading_anchors = 3
autodoc_typehints = "none"
default_role = "py:obj"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
html_theme = "furo"
html_title = f"dpbinagg {version}"
html_copy_source = False

CONTENTS = """
```{toctree}
:hidden:
:caption: Vignettes
:glob:

vignettes/*
```

```{toctree}
:hidden:
:caption: Reference

vignettes/site/reference
vignettes/site/commands
```

```{toctree}
:hidden:
:caption: Project

CHANGELOG
ARCHITECTURE
CONTRIBUTING
```
"""
"""What the bar at the side lists; the README itself is read in other places, too."""


def add_contents(app: Any, name: str, source: list[str]) -> None:
    """Put the list of pages below the README, and what each command says on the page of them."""
    if name == root_doc:
        source[0] += CONTENTS
    if name == "vignettes/site/commands":
        os.environ["COLUMNS"], os.environ["NO_COLOR"] = "88", "1"
        commands = next(a.choices for a in make_parser()._actions if isinstance(a.choices, dict))
        for command, parser in commands.items():
            source[0] += f"\n## {command}\n\n```text\n{parser.format_help()}```\n"


def make_index(app: Any, failed: Exception | None) -> None:
    """The page that a folder opens with."""
    first = Path(app.outdir) / f"{root_doc}.html"
    if failed is None and first.exists():
        shutil.copyfile(first, first.with_name("index.html"))


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", add_contents)
    app.connect("build-finished", make_index)
