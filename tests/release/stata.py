"""As much of Stata as the do-files use, for machines without it."""

import csv
import re

import numpy as np

from dpbinagg.release.dialects import STATA_WORDS

FUNCTIONS = {
    "ln": np.log,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "abs": np.abs,
    "min": np.minimum,
    "max": np.maximum,
    "cond": np.where,
}
WORD = r"[A-Za-z_][A-Za-z0-9_]{0,31}"


def evaluate(expression, columns):
    """An expression of columns; `^` binds as `**` does, comparisons give 0 and 1."""
    parts = re.split(r'("[^"]*")', expression)
    parts[::2] = [part.replace("^", "**").replace("!", "~") for part in parts[::2]]
    names = {**FUNCTIONS, **columns}
    return np.asarray(eval("".join(parts), {"__builtins__": {}}, names), dtype=float)


class DoFile:
    """Runs a do-file: `columns` and `coefficients` are what it leaves behind."""

    def __init__(self, folder, script="replicate.do"):
        self.folder, self.columns, self.coefficients, self.checks = folder, {}, {}, 0
        for line in (folder / script).read_text(encoding="utf-8").splitlines():
            self.run(line)

    def run(self, line):
        word = line.split()[0] if line.split() else "*"
        if word in ("*", "version", "display", "label"):
            if word == "label":
                assert re.fullmatch(rf'label variable ({WORD}) "[^"`$]*"', line), line
            return
        getattr(self, f"do_{word}")(line)

    def do_import(self, line):
        found = re.fullmatch(
            r'import delimited using "([^"]+)", varnames\(nonames\) (.*)asdouble '
            r'encoding\("utf-8"\) bindquotes\(strict\) clear',
            line,
        )
        with open(self.folder / found[1], encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        kinds = dict(re.findall(r"(\w+)\(([\d ]+)\)", found[2]))
        texts = {int(place) for place in kinds.get("stringcols", "").split()}
        numbers = {int(place) for place in kinds.get("numericcols", "").split()}
        assert texts | numbers == set(range(1, len(rows[0]) + 1))
        assert not texts & numbers
        for place, cells in enumerate(zip(*rows, strict=True), start=1):
            kept = cells if place in texts else [np.nan, *map(float, cells[1:])]
            self.columns[f"v{place}"] = np.array(kept)

    def do_quietly(self, line):
        assert line == "quietly drop in 1"
        self.columns = {name: cells[1:] for name, cells in self.columns.items()}

    def do_rename(self, line):
        old, new = re.fullmatch(r"rename \((.*)\) \((.*)\)", line).groups()
        for name in new.split():
            assert re.fullmatch(WORD, name), name
            assert name not in STATA_WORDS
        assert old.split() == list(self.columns)
        assert len(set(new.split())) == len(self.columns)
        self.columns = dict(zip(new.split(), self.columns.values(), strict=True))

    def do_generate(self, line):
        name, expression = re.fullmatch(rf"generate double ({WORD}) = (.*)", line).groups()
        assert name not in self.columns
        self.columns[name] = evaluate(expression, self.columns)

    def do_regress(self, line):
        names = line.split(",")[0].split()[1:]
        y, x = self.columns[names[0]], [self.columns[name] for name in names[1:]]
        if "noconstant" not in line:
            x, names = [*x, np.ones(len(y))], [*names, "_cons"]
        found = np.linalg.lstsq(np.column_stack(x), y, rcond=None)[0]
        self.coefficients = dict(zip(names[1:], found, strict=True))

    def do_assert(self, line):
        self.checks += 1
        text = re.sub(r"_b\[(\w+)\]", lambda m: repr(float(self.coefficients[m[1]])), line[7:])
        assert evaluate(text, {}), line
