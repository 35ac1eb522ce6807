"""Every table and figure of the paper, measured again by the scripts beside this one.

    python benchmarks/paper.py --quick --data FOLDER          minutes; shows that all of it runs
    python benchmarks/paper.py --data FOLDER                  hours; what `results` holds
    python benchmarks/paper.py --only table2 --data FOLDER    one of them

| of the paper | by |
|---|---|
| Table 1: intervals | coverage.py |
| Table 2: prediction on D1 to D9 | accuracy.py |
| Table 3 and the table of run times: synthetic data | synthetic.py |
| Figure 1: error over n | accuracy.py |
| Figure 2: error over looser bounds | accuracy.py |

The peers of Table 3 need environments: AIM and MST `pip install "mbi>=2"`, the deep-learning ones
what `deep.py` says, named by ``--deep PYTHON`` or DPBINAGG_DEEP_PYTHON. What is not there is
skipped with a line that says so. AIM takes an hour for a table of D8 and was not tried on D9: in
full it runs on the other sets. A quick run goes to a folder of its own and leaves `results` alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import tables
from common import RESULTS, arguments
from synthetic import DEEP, DEEP_PEERS, METHODS

HERE = Path(__file__).parent
SMALL = ("D1", "D2")
FAST = ("original", "cart", "predictive", "binagg")
AIM_SETS = ("D1", "D2", "D3", "D4", "D5", "D6", "D7")


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a script."""

    part: str
    script: str
    options: tuple[str, ...]
    replicates: int
    data: bool = False

    def command(self, folder: str | None, out: Path, replicates: int | None = None) -> list[str]:
        """What is run."""
        said = [sys.executable, str(HERE / self.script), *self.options]
        said += ["--replicates", str(replicates or self.replicates), "--out", str(out)]
        return said + (["--data", folder] if self.data and folder else [])


def steps(quick: bool) -> list[Step]:
    """The calls behind all tables and figures, quick or in full."""
    few = (lambda full, short: short) if quick else (lambda full, short: full)
    found = [
        Step("table1", "coverage.py", ("--only", "table1"), few(2000, 20)),
        Step("figure1", "accuracy.py", ("--only", "figure1"), few(100, 2)),
        Step("figure2", "accuracy.py", ("--only", "figure2"), few(100, 2)),
        Step("table2", "accuracy.py", ("--only", "table2"), few(100, 2), data=True),
    ]
    if quick:
        chosen = [word for name in (*FAST, *DEEP_PEERS) for word in ("--only", name)]
        options = (*chosen, "--sets", *SMALL)
        return [*found, Step("table3", "synthetic.py", options, 1, data=True)]
    aim = [name for name in METHODS if name.startswith("aim ")]
    others = [word for name in METHODS if name not in aim for word in ("--only", name)]
    slow = [word for name in aim for word in ("--only", name)]
    return [
        *found,
        Step("table3", "synthetic.py", tuple(others), 10, data=True),
        Step("table3", "synthetic.py", (*slow, "--sets", *AIM_SETS), 10, data=True),
        Step("table3", "synthetic.py", (*others, "--seconds"), 10, data=True),
    ]


SHOWN = {
    "table1": (("table1.csv", tables.table1),),
    "table2": (("table2.csv", tables.table2),),
    "table3": (("synthetic.csv", tables.synthetic), ("synthetic.csv", tables.seconds)),
}
"""What each part prints; figures are files."""


def printed(parts: Sequence[str], out: Path) -> str:
    """The tables that are there, as Markdown, and where the figures are."""
    text = []
    for part in parts:
        for file, maker in SHOWN.get(part, ()):
            if (out / file).is_file():
                text.append(f"{part}\n\n{maker(pd.read_csv(out / file))}")
        if part.startswith("figure"):
            text.append(f"{part}: {out / f'{part}.png'}\n")
    return "\n".join(text)


def main(said: Sequence[str] | None = None) -> None:
    """Run the steps one after the other and print the tables."""
    parts = ("table1", "table2", "table3", "figure1", "figure2")
    parser = arguments(__doc__ or "", parts)
    parser.set_defaults(replicates=None)
    parser.add_argument("--quick", action="store_true", help="few replicates, small sets")
    parser.add_argument("--deep", help="Python of an environment with smartnoise-synth")
    options = parser.parse_args(said)
    if options.deep:
        os.environ[DEEP] = options.deep
    if options.quick and options.out == RESULTS:
        options.out = HERE / "results-quick"
    chosen = options.only or parts
    for step in steps(options.quick):
        if step.part in chosen:
            command = step.command(options.data, options.out, options.replicates)
            command += ["--processes", str(options.processes)]
            print(" ".join(command[1:]), flush=True)
            subprocess.run(command, check=True)
    print(printed(chosen, options.out))


if __name__ == "__main__":
    main()
