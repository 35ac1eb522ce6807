"""Write the measured tables of the README and of vignette 9 from the CSV files in ``results``.

    python benchmarks/tables.py            rewrites what stands between the markers
    python benchmarks/tables.py --check    says whether they are up to date

A marker is ``<!-- table: name -->`` and ends with ``<!-- end of table -->``. A table whose CSV
is not there says so; no figure is written by hand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
from scipy import stats

RESULTS = Path(__file__).parent / "results"
ROOT = Path(__file__).parent.parent
PAGES = (
    ROOT / "README.md",
    ROOT / "vignettes" / "03-choosing.md",
    ROOT / "vignettes" / "04-replication.md",
    ROOT / "vignettes" / "09-benchmarks.md",
)
MARKED = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
NAMES = {
    "ols": "OLS (not private)",
    "refined": "dpbinagg",
    "binagg": "BinAgg, honest",
    "dpgd": "DP-GD",
    "adassp": "AdaSSP",
    "ssp": "SSP",
}
SOURCES = {
    "populations": ("populations_cells.csv", "benchmarks/populations.py --data FOLDER"),
    "checks": ("populations_checks.csv", "benchmarks/populations.py --data FOLDER"),
    "planning": ("planning.csv", "benchmarks/planning.py --data FOLDER"),
    "reach": ("reach.csv", "benchmarks/accuracy.py --only reach"),
    "table1": ("table1.csv", "benchmarks/coverage.py --only table1 --replicates 1000"),
    "table2": ("table2.csv", "benchmarks/accuracy.py --only table2 --data FOLDER"),
    "coverage": ("coverage.csv", "benchmarks/coverage.py --only grid --replicates 500"),
    "synthetic": ("synthetic.csv", "benchmarks/synthetic.py --replicates 10 --data FOLDER"),
    "seconds": ("synthetic.csv", "benchmarks/synthetic.py --replicates 10 --data FOLDER --seconds"),
    "parity": ("parity.csv", "benchmarks/parity.py --replicates 10 --data FOLDER"),
    "distances": (
        "parity_margins_summary.csv",
        "benchmarks/parity.py --distances --replicates 10 --mu 0.5 --mu 1 --mu 2 --data FOLDER",
    ),
    "peers": ("peers.csv", "benchmarks/peers.py --data FOLDER"),
    "study": ("study_models.csv", "benchmarks/study.py --only models --data FOLDER"),
    "study_table": ("study_table1.csv", "benchmarks/study.py --only table1 --data FOLDER"),
    "study_time": ("study_time.csv", "benchmarks/study.py --only time --replicates 5"),
    "study_memory": ("study_memory.csv", "benchmarks/study.py --only memory --rows 3000000"),
    "scale": ("scale_ratios.csv", "benchmarks/scale.py ratios"),
    "files": ("scale_files.csv", "benchmarks/scale.py files"),
    "before": ("scale_before.csv", "benchmarks/scale.py before PYTHON"),
}
SYNTHETIC = {
    "original": "the records themselves",
    "cart": "CART on the records",
    "predictive": "dpbinagg",
    "binagg": "BinAgg, honest",
    "mst": "MST",
    "aim": "AIM",
    "dpctgan": "DP-CTGAN",
    "patectgan": "PATE-CTGAN",
    "dpgan": "DP-GAN",
    "pategan": "PATE-GAN",
}
PEERS = {"ours": "dpbinagg", "dpgd": "DP-GD", "adassp": "AdaSSP", "ssp": "SSP"}


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, numbers to the right."""
    lines = [header, ["---", *["--:"] * (len(header) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def number(value: object, digits: int = 3) -> str:
    """A number with `digits` decimals, a dash where there is none."""
    return "-" if not isinstance(value, int | float) or pd.isna(value) else f"{value:.{digits}f}"


def populations(table: pd.DataFrame) -> str:
    """Cells of populations by mu and number of records: identified, error, coverage, tests."""
    sizes = (
        (0, 1000, "under 1,000"),
        (1000, 5000, "1,000 to 4,999"),
        (5000, 10**9, "5,000 and more"),
    )
    groups = [(1.0, low, high, name) for low, high, name in sizes]
    groups += [(mu, 0, 10**9, "all") for mu in (0.25, 0.5, 2.0)]
    rows = []
    for mu, low, high, name in groups:
        part = table[(table.mu == mu) & (table.n >= low) & (table.n < high)]
        shown = part[~part.flagged]
        rows.append(
            [
                f"{mu:g}",
                name,
                f"{len(part)} ({int(part.flagged.sum())})",
                f"{part.identified.mean():.0%}",
                number(float(shown.rmse_median.median()), 2),
                number(float(shown.coverage.mean())),
                number(float(shown.ols_coverage.mean())),
                number(float(shown.joint_size.mean()), 2),
                number(float(shown.prediction_coverage.mean())),
            ]
        )
    header = [
        "mu",
        "records",
        "settings (flagged)",
        "identified",
        "error over least squares",
        "coverage",
        "HC1's",
        "tests at the truth that reject",
        "predictions covered",
    ]
    ours, others = table[table.mu == 1.0], table[table.mu != 1.0]
    fewer = "" if others.empty else f"At other mu {int(others.replicates.min())}, at mu = 1 "
    return markdown(header, rows) + replicates(ours, fewer)


def checks(table: pd.DataFrame) -> str:
    """Our own aims, and what was found."""
    rows = [
        [str(row["check"]), str(row["found"]).replace("|", "/"), str(row["result"])]
        for row in table.to_dict("records")
    ]
    lines = [["aim", "found", ""], ["---", "---", "---"], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def planning(table: pd.DataFrame) -> str:
    """What plans foresaw beside what releases said."""
    rows = []
    for kind, name in (("whole", "covariates and response"), ("covariates", "covariates alone")):
        part = table[table.example == kind]
        told, foreseen = part.identified >= 0.5, part.planned_identified >= 0.5
        ratio = part.ratio[told & foreseen]
        low, middle, high = ratio.quantile([0.05, 0.5, 0.95])
        rows.append(
            [
                name,
                f"{ratio.between(1 / 1.3, 1.3).mean():.0%} of {len(ratio)}",
                *(number(float(value), 2) for value in (low, middle, high)),
                f"{(told == foreseen).mean():.0%} of {len(part)}",
            ]
        )
    header = ["the example has", "within 30%", "ratio, 5%", "median", "95%", "identified or not"]
    return (
        f"Planned over actual standard errors (medians of {int(table.replicates.max())} releases) "
        f"in {table.cell.nunique()} settings of the populations of vignette 9, from an example of "
        f"{int(table.rows.max()):,} people:\n\n{markdown(header, rows)}"
    )


def reach(table: pd.DataFrame) -> str:
    """Median relative error of the slopes by setting and method, and coverage."""
    wide = table.pivot_table(index="setting", columns="method", values="median", sort=False)
    methods = [name for name in NAMES if name in wide.columns]
    ours = table[table.method == "refined"].set_index("setting")
    rows = [
        [
            setting,
            *(number(wide.loc[setting, name]) for name in methods),
            number(float(ours.loc[setting, "coverage"]), 2),
            number(float(ours.loc[setting, "coverage_lowest"]), 2),
        ]
        for setting in wide.index
    ]
    names = [NAMES[name] for name in methods]
    header = ["setting", *names, "coverage of dpbinagg's 95% intervals", "of the worst slope"]
    honest = (
        '"BinAgg, honest" is the published method with noise that makes its claim true. '
        if "binagg" in methods
        else "Methods that are missing here were not run yet. "
    )
    if "coverage_replicates" in table.columns:
        honest += f"Coverage from {int(ours['coverage_replicates'].min()):,} replicates. Errors: "
    return markdown(header, rows) + replicates(table, honest)


def table1(table: pd.DataFrame) -> str:
    """Bias, spread and coverage, averaged over the five coefficients."""
    columns = ["bias", "empirical_sd", "median_se", "coverage"]
    means = table.groupby(["method", "true_mu"], sort=False)[columns].mean().reset_index()
    rows = [
        [str(row["method"]), number(row["true_mu"], 2), *(number(row[name]) for name in columns)]
        for row in means.to_dict("records")
    ]
    header = ["method", "true mu", "bias", "empirical sd", "median s.e.", "coverage"]
    return markdown(header, rows) + replicates(table)


def table2(table: pd.DataFrame) -> str:
    """Relative squared error of prediction on the paper's data sets."""
    tight = table[table.widen == 1].pivot_table(index="set", columns="method", values="median")
    loose = table[table.widen == 4].pivot_table(index="set", columns="method", values="median")
    methods = [name for name in NAMES if name in tight.columns]
    paper = table.groupby("set")["paper_binagg"].first()
    rows = [
        [
            str(key),
            *(number(tight.loc[key, name], 4) for name in methods),
            number(loose.loc[key, "refined"], 4) if "refined" in loose.columns else "-",
            number(paper[key], 3),
        ]
        for key in tight.index
    ]
    names = [NAMES[name] for name in methods]
    header = ["data", *names, "dpbinagg, bounds 4x too wide", "BinAgg as published"]
    return markdown(header, rows) + replicates(table)


def coverage(table: pd.DataFrame) -> str:
    """Coverage of 95% intervals over the grid, by number of records.

    A cell's coverage has a Monte Carlo error: "by chance" is the share of cells that would lie
    within .93 to .97 if every one of them covered .95.
    """
    known = table[table.identified >= 0.5]
    rows = []
    for n, part in known.groupby("n"):
        inside = part.coverage.between(0.93, 0.97).mean()
        # A cell in which every interval held has no spread: an interval more or less.
        error = part.coverage_error.clip(lower=1.0 / (part.replicates * part.d))
        chance = (2.0 * stats.norm.cdf(0.02 / error) - 1.0).mean()
        low, middle, high = part.coverage.quantile([0.0, 0.5, 1.0])
        values = [number(float(value)) for value in (part.coverage.mean(), low, middle, high)]
        naive = number(float(part.naive_coverage.median()))
        rows.append([f"{n:,}", str(len(part)), f"{inside:.0%}", f"{chance:.0%}", *values, naive])
    header = [
        "records",
        "cells",
        "within .93-.97",
        "by chance",
        "mean",
        "lowest",
        "median",
        "highest",
        "naive, median",
    ]
    return markdown(header, rows) + replicates(table)


def synthetic(table: pd.DataFrame) -> str:
    """Test error of models trained on synthetic tables."""
    methods = [name for name in SYNTHETIC if name in table.columns]
    rows = [
        [
            str(row["set"]),
            *(number(row[name], 2) for name in methods),
            number(row["published_binagg"], 2),
        ]
        for row in table.to_dict("records")
    ]
    names = [SYNTHETIC[name] for name in methods]
    text = markdown(["data", *names, "BinAgg as published"], rows)
    made = [
        f"{SYNTHETIC[name]} {_span(table[f'{name}_tables'])}"
        for name in methods
        if f"{name}_tables" in table.columns
    ]
    text += f"\nTables behind each number: {', '.join(made)}.\n"
    for name in ("mst", "aim"):
        if f"{name}_cells" in table.columns:
            cells = table.set_index("set")[f"{name}_cells"].dropna()
            told = ", ".join(f"{key} {cell}" for key, cell in cells.items())
            text += f"\nCells of {SYNTHETIC[name]}: {told}.\n"
    return text


def seconds(table: pd.DataFrame) -> str:
    """Processor seconds of one synthetic table."""
    methods = [
        name
        for name in SYNTHETIC
        if f"{name}_seconds" in table.columns and name not in ("original", "cart")
    ]
    rows = [
        [str(row["set"]), *(number(row[f"{name}_seconds"], 2) for name in methods)]
        for row in table.to_dict("records")
    ]
    return markdown(["data", *(SYNTHETIC[name] for name in methods)], rows)


PARITY = {
    "declared": ("the declared model", "exact"),
    "smaller": ("smaller models", "known noise"),
    "swapped": ("another variable as the outcome", "known noise"),
    "subgroup": ("subgroups", "as far as bins show"),
    "transformed": ("a transformed variable", "as far as bins show"),
    "interaction": ("interactions", "as far as bins show"),
    "logit": ("logit of a threshold", "as far as bins show"),
}


def parity(table: pd.DataFrame) -> str:
    """Which conclusions survive in synthetic tables, mu = 1, by kind of analysis."""
    known = table[table.mu == 1.0].set_index(["method", "kind"])
    rows = []
    for kind, (name, support) in PARITY.items():
        if ("copies", kind) not in known.index:
            continue
        copies, one, records = (known.loc[(m, kind)] for m in ("copies", "table", "records"))
        rows.append(
            [
                name,
                support,
                number(float(records["covered"]), 2),
                number(float(one["covered"]), 2),
                f"{copies['covered']:.2f} ({copies['covered_error']:.2f})",
                number(float(copies["kept"]), 2),
                number(float(copies["reversed"]), 3),
                number(float(copies["error"]), 1),
            ]
        )
    header = [
        "analysis",
        "support",
        "records cover",
        "table covers",
        "copies cover (error)",
        "verdict kept",
        "reversed",
        "error over that of records",
    ]
    releases = int(known.loc["copies"]["releases"].max())
    return markdown(header, rows) + (
        f"\n{releases} releases of development populations, mu = 1. 'Covers': the share of 95% "
        "intervals that hold the population's coefficient. 'Verdict': sign and significance at 5%, "
        "compared with the records'.\n"
    )


def distances(table: pd.DataFrame) -> str:
    """Distances of one synthetic table from the records, and of records drawn anew."""
    names = {"table": "one synthetic table", "bootstrap": "records drawn anew"}
    rows = [
        [
            f"{row['mu']:g}",
            names.get(str(row["method"]), str(row["method"])),
            *(
                f"{row[m]:.3f} ({row[f'{m}_error']:.3f})"
                for m in ("one_way", "two_way", "correlation")
            ),
        ]
        for row in table.to_dict("records")
    ]
    return markdown(["mu", "", "one-way counts", "two-way counts", "correlations"], rows) + (
        "\nTotal variation of counts (16 cells of a number, 8 in two-way tables) and mean absolute "
        "error of correlations, against the records; Monte Carlo errors in brackets.\n"
    )


def _span(counts: pd.Series) -> str:
    """Smallest and largest number where they differ."""
    low, high = int(counts.min()), int(counts.max())
    return f"{low}" if low == high else f"{low} to {high}"


def peers(table: pd.DataFrame) -> str:
    """Error over least squares' of methods at equal true privacy; the best in bold."""
    wide = table.pivot_table(index=["cell", "n"], columns="method", values="error", sort=False)
    ours = table[table.method == "ours"].set_index("cell")
    methods = [name for name in PEERS if name in wide.columns]
    rows = []
    for (cell, n), row in wide.iterrows():
        best = row[methods].min()
        shown = [f"**{row[m]:.2f}**" if row[m] == best else f"{row[m]:.2f}" for m in methods]
        told = ours.loc[cell]
        rows.append(
            [
                str(cell),
                f"{n:,}",
                str(int(told["slopes"])),
                *shown,
                f"{told['identified']:.0%}",
                number(float(told["coverage"]), 2),
            ]
        )
    names = [PEERS[name] for name in methods]
    header = ["setting", "records", "slopes", *names, "identified", "coverage"]
    return markdown(header, rows) + replicates(table)


def study(table: pd.DataFrame) -> str:
    """Models of a study, of as many releases, and models that were not declared."""
    rows = []
    for m, part in table.groupby("m"):
        wide = part.set_index(["setting", "kind"]).unstack("kind")
        joint, apart = wide["se_median", "joint"], wide["se_median", "separate"]
        rows.append(
            [
                str(m),
                number(float(joint.median()), 2),
                number(float(joint.max()), 2),
                number(float(apart.median()), 2),
                number(float((joint / apart).median()), 2),
                number(float(wide["coverage", "joint"].mean())),
                number(float(wide["coverage", "separate"].mean())),
                number(float(wide["ols_coverage", "joint"].mean())),
                number(float(wide["coverage", "free"].mean())),
                str(int(part.replicates.max())),
            ]
        )
    header = [
        "models",
        "study, s.e. over least squares",
        "worst population",
        "releases apart",
        "study over apart",
        "coverage, study",
        "apart",
        "HC1",
        "models not declared",
        "draws",
    ]
    return markdown(header, rows)


def study_table(table: pd.DataFrame) -> str:
    """Coverage and errors of Table 1, and errors of a table made for that purpose alone."""
    rows = []
    for name, part in table.groupby("statistic", sort=False):
        rows.append(
            [
                str(name),
                number(float(part.coverage.mean())),
                number(float(part.coverage.min())),
                *(number(float(part[c].median())) for c in ("error", "opendp", "sampling")),
            ]
        )
    header = [
        "statistic",
        "coverage of 95% intervals",
        "worst population",
        "error of the noise",
        "OpenDP's, that table alone",
        "sampling error",
    ]
    return markdown(header, rows) + replicates(table)


def study_time(table: pd.DataFrame) -> str:
    """Seconds of a study against those of one regression."""
    row = table.iloc[0]
    return (
        f"A study of {int(row['models'])} models and {int(row['variables'])} variables with "
        f"{int(row['n']):,} records takes {row['ratio']:.1f} times as long as one `dp_ols` of the "
        "largest of them.\n"
    )


def study_memory(table: pd.DataFrame) -> str:
    """Peak memory of a study of Parquet files against that of one regression."""
    row = table.iloc[0]
    return (
        f"On Parquet files with {int(row['rows']):,} rows it takes {row['study_gb']:.1f} GB at "
        f"most, one `dp_ols` {row['one_gb']:.1f} GB, and {row['study_s'] / row['one_s']:.1f} times "
        "as long.\n"
    )


def scale(table: pd.DataFrame) -> str:
    """Seconds of ordinary and private regressions of the same frame."""
    rows = [
        [
            f"{int(row['n']):,}",
            str(int(row["d"])),
            number(row["ols_s"]),
            number(row["dp_ols_s"]),
            number(row["ratio"], 2),
            number(row["ratio_bounds"], 2),
        ]
        for row in table.to_dict("records")
    ]
    times = ["`smf.ols`, s", "`dp_ols`, s"]
    return markdown(["records", "covariates", *times, "ratio", "ratio, bounds declared"], rows)


def files(table: pd.DataFrame) -> str:
    """A Parquet folder larger than memory may be."""
    row = table.iloc[0]
    return (
        f"A folder of Parquet files with {int(row['rows']):,} rows ({row['folder_gb']:.1f} GB), in "
        f"a process that may use 4 GiB: {row['dpbinagg_s']:.0f} s, {row['ratio']:.1f} times as "
        f"long as DuckDB takes for the second moments alone ({row['duckdb_s']:.1f} s).\n"
    )


def before(table: pd.DataFrame) -> str:
    """Seconds of the processor of two versions, calls in turn."""
    rows = [
        [
            f"{int(row['n']):,}",
            str(int(row["d"])),
            "declared" if row["declared"] else "found",
            number(row["before_cpu_s"]),
            number(row["now_cpu_s"]),
            number(row["ratio_cpu_s"], 2),
            number(row["ratio_least_s"], 2),
        ]
        for row in table.to_dict("records")
    ]
    times = ["0.1, s", "now, s", "ratio", "ratio of the least by the clock"]
    return markdown(["records", "covariates", "bounds", *times], rows)


def replicates(table: pd.DataFrame, remark: str = "") -> str:
    """How many replicates stand behind the table."""
    if "replicates" not in table.columns:
        return ""
    most = int(table["replicates"].max())
    return f"\n{remark}{most:,} replicates for each number.\n"


MAKERS: dict[str, Callable[[pd.DataFrame], str]] = {
    "populations": populations,
    "checks": checks,
    "planning": planning,
    "reach": reach,
    "table1": table1,
    "table2": table2,
    "coverage": coverage,
    "synthetic": synthetic,
    "seconds": seconds,
    "parity": parity,
    "distances": distances,
    "peers": peers,
    "study": study,
    "study_table": study_table,
    "study_time": study_time,
    "study_memory": study_memory,
    "scale": scale,
    "files": files,
    "before": before,
}


def made(name: str) -> str:
    """The text that belongs between the markers of `name`."""
    file, command = SOURCES[name]
    if not (RESULTS / file).is_file():
        return f"Not measured yet: run `python {command}`.\n"
    return f"{MAKERS[name](pd.read_csv(RESULTS / file))}\nReproduce: `python {command}`.\n"


def filled(text: str) -> str:
    """A page with every table made afresh."""
    return MARKED.sub(lambda match: match[1] + made(match[2]) + match[3], text)


def main() -> int:
    """Rewrite the pages, or say whether that would change them."""
    changed = 0
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        fresh = filled(text)
        changed |= fresh != text
        if "--check" not in sys.argv:
            page.write_text(fresh, encoding="utf-8")
    if "--check" in sys.argv:
        print("out of date" if changed else "up to date")
        return int(changed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
