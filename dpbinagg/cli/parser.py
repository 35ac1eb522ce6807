"""The words that the command line understands, and the help that teaches them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn, get_args

from dpbinagg import __version__
from dpbinagg.inputs import CovType, EstimatorName, SyntheticKind
from dpbinagg.public.arguments import remedy

ABOUT = """\
Differentially private linear regression and synthetic data.

A regression is fitted to records that must stay secret. What comes out (coefficients,
honest standard errors, synthetic records) may be published: it tells almost nothing about
any one person. How much "almost nothing" is, is a number that you choose, mu.
"""

KINDS = get_args(SyntheticKind)

START = """\
start here:
  dpbinagg demo
      a private regression on bundled wage data, no arguments needed
  dpbinagg fit "wage ~ educ + exper" survey.csv --mu 1 --bounds codebook.csv --out release/
      the same on your own data; the folder holds what may be published
  dpbinagg fit --help
      all options, with examples

exit codes: 0 fine, 1 the request could not be met (one sentence says why), 2 usage
"""

FIT = """\
examples:
  dpbinagg fit "wage ~ educ + exper + C(region)" survey.csv --mu 1 \\
      --bounds codebook.csv --out release/
  dpbinagg fit "np.log(income) ~ age + C(sex)" survey.dta --epsilon 2 --delta 1e-6 \\
      --bound income=1000,500000 --bound "sex=male|female"
  dpbinagg fit "score ~ treatment" school.parquet --mu 0.5 --ledger school.db --json
  dpbinagg fit "score ~ treatment" school.parquet --mu 0.5 --out release/ --copies 20 \\
      --title "School survey" --steward "Ministry of Schools" --licence "CC BY 4.0"

how much privacy (--mu, or --epsilon and --delta; one of them is needed): mu = 0.5 is strict,
1 usual, 2 lenient. Somebody who knows everything about everybody else, and tosses a coin about
you, is right 50% of the time; with the release at mu = 0.5, 1 and 2 at most 60%, 69% and 84%.

bounds: a codebook is a CSV file with the columns name,type,lower,upper,levels,labels,missing
(type is numeric, integer, categorical or boolean; levels, labels and codes of missing answers are
separated by |); "dpbinagg codebook" writes one to fill in. Take bounds from the questionnaire,
the law or common sense, never from the records. Bounds that are not given are found privately,
from the same budget; levels of categories must be declared.

tables: .csv .tsv .parquet .dta (Stata) .sav (SPSS) .xlsx (Excel), a folder of Parquet or CSV
files, or a pattern such as "part-*.csv"; read in pieces, whatever their size. A record is a line
of a text file; a cell that cannot be read as what was declared is missing. Value labels name
codes: declare levels by code or by label.

A fit spends privacy each time it runs. Keep a ledger (--ledger) to add it up. Refits and
synthetic data from the folder are free: see dpbinagg refit, dpbinagg synth.
"""

REFIT = """\
examples:
  dpbinagg refit release/
  dpbinagg refit release/ "wage ~ educ" --estimator corrected
  dpbinagg refit release/ --synthetic published.csv

A smaller model uses terms of the released one. --synthetic fits the regression from a
table made with "dpbinagg synth release/ --kind binagg --bin-id" instead of from the released sums:
the numbers are the same. Nothing here looks at the records, and nothing costs privacy.
"""

SYNTH = """\
examples:
  dpbinagg synth release/ --out synthetic.csv
  dpbinagg synth release/ --out synthetic.dta --copies 20
  dpbinagg synth release/ --out published.csv --kind binagg --bin-id

kinds:
  calibrated  ordinary least squares on it, in any software, returns the released coefficients
  predictive  the same covariates, and a response inside its bounds; for machine learning
  bounded     every value inside its bounds and bin; for looking and plotting
  binagg      the law of the published method; with --bin-id, dpbinagg refit reads it

Standard errors that other software prints for one table leave out the privacy noise. With
--copies 20, the standard deviation of a coefficient over the copies is its honest standard error.
"""

STUDY = """\
a study file, for example study.toml; paths are relative to its folder:

  data = "survey.csv"
  codebook = "codebook.csv"
  variables = ["age", "region"]
  mu = 1.0
  ledger = "survey.db"
  out = "release"

  [formulas]
  wage = "np.log(wage) ~ educ + exper + C(sex)"
  hours = "hours ~ educ + C(sex)"

  [about]
  title = "Wages and hours"

further keys: epsilon and delta instead of mu; missing, neighbours, rules, constants, overwrite, rng
(for tests: not for publication); the sections [bounds] (age = [18, 90], sex = ["f", "m"], n =
{levels = [0, 1]}), [budget], [table] (separator, decimal, encoding, sheet) and [about] (title,
steward, date). A key that is not known is refused.

examples:
  dpbinagg study study.toml --check                 what would be released and spent; no more
  dpbinagg study study.toml --approved 0b2f6c9a...  only if the file is still the one approved
  dpbinagg describe release/ --by sex               Table 1 again, free of charge
  dpbinagg refit release/ "hours ~ exper"           any model of the variables, free of charge

A steward reads that one file, and what --check prints of it, and passes on the fingerprint. The
ledger is charged once, for all models together.
"""

DESCRIBE = """\
examples:
  dpbinagg describe release/
  dpbinagg describe release/ --by sex --form latex
  dpbinagg describe release/ --crosstab sex region
  dpbinagg describe release/ --corr

Works on the folder of a study and on that of a single fit. Intervals hold sampling error and
privacy noise. Nothing here looks at the records, and nothing costs privacy.
"""

LEDGER = """\
examples:
  dpbinagg ledger survey.db --create --mu 2      a new ledger with a total of mu = 2
  dpbinagg ledger survey.db                      what was spent, and what is left
  dpbinagg fit ... --mu 1 --ledger survey.db     a fit that is charged to it

Spending composes as the root of the sum of squares: four fits with mu = 1 make mu = 2. A fit
that would exceed the total is refused before it looks at the records.

A total holds against adding or removing one record, or with --create --neighbours replace against
replacing one. A fit in the other relation is converted: replacing is removing and adding, so the
same fit has twice the mu against it.
"""

PLAN = """\
examples:
  dpbinagg plan "np.log(wage) ~ educ + exper" --n 5000 --mu 1 --bounds codebook.csv
  dpbinagg plan "score ~ treatment + pretest" --n 3000 --mu 0.5 1 2 --bounds school.csv
  dpbinagg plan "wage ~ educ + C(region)" --n 8000 --bounds codebook.csv --example survey2019.csv
  dpbinagg plan study.toml --n 5000              all models of a study file

The standard errors to expect, and which terms will not be identified, from public facts alone:
nothing is spent, no private records are needed. Beside them stand the ordinary ones, the ratio of
the two, and the smallest coefficient that would be found with a power of 80%. All variables need
bounds (--bounds, --bound); see dpbinagg fit --help for what a codebook is. The plan is much nearer
to what a release will say with --example, a table of PUBLIC records such as an earlier survey.
"""

AUDIT = """\
examples:
  dpbinagg audit "y ~ x" --mu 1 --bound x=0,1 --bound y=0,1
  dpbinagg audit "np.log(wage) ~ educ + C(sex)" --mu 1 --bounds codebook.csv --csv

No private table is needed or read: the audit makes tables that differ in one record, chosen
against the release, and tries to tell them apart by what would be released. For each mechanism it
shows the mu that is claimed, and the largest lower bound on mu that an attack has shown. With
--csv the tables are files that differ in one line, odd lines included.

An audit that finds nothing proves nothing; one that finds something (exit code 1) does.
"""

CODEBOOK = """\
examples:
  dpbinagg codebook survey.csv --out codebook.csv      then fill in types, bounds and levels
  dpbinagg codebook survey.dta                         with the value labels of the file
  dpbinagg codebook folder/                            of Parquet or CSV files

Only names, types and value labels are read, never a record: what a codebook says is public. A
type that the file does not tell is left empty, for you to fill in.
"""

DEMO = """\
examples:
  dpbinagg demo
  dpbinagg demo --data school --mu 0.5
  dpbinagg demo --out demo-release/       then open demo-release/report.html

The bundled people are invented, so the demo may show what a real release never shows: the
ordinary regression and the true coefficients beside the private ones.
"""


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = _Parser(prog="dpbinagg", description=ABOUT, epilog=START)
    parser.add_argument("--version", action="version", version=f"dpbinagg {__version__}")
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=_Parser)
    _fit(commands)
    _study(commands)
    _describe(commands)
    _refit(commands)
    _synth(commands)
    _ledger(commands)
    _plan(commands)
    _codebook(commands)
    _audit(commands)
    _demo(commands)
    return parser


class _Parser(argparse.ArgumentParser):
    """A parser whose help keeps its line breaks and whose options are written out."""

    def __init__(self, **options: Any) -> None:
        kind = argparse.RawDescriptionHelpFormatter
        super().__init__(formatter_class=kind, allow_abbrev=False, **options)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Options and what they are; an option that does not exist ends in what does."""
        options, strangers = self.parse_known_args(args, namespace)
        if strangers:
            asked: _Parser = getattr(options, "asked", self)
            asked.refuse(strangers[0])
        return options

    def refuse(self, stranger: str) -> NoReturn:
        """End with the remedy for a word that no option takes."""
        known = {action.dest: action.option_strings for action in self._actions}
        if not stranger.startswith("-"):
            self.error(f"{stranger!r} is one word too many; put quotes around a formula")
        name = stranger.lstrip("-").partition("=")[0].replace("-", "_")
        # The list of all options is what the help is for.
        text = remedy(name, list(known)).partition(" Otherwise,")[0].partition("the arguments")[0]
        for dest, written in known.items():
            text = text.replace(repr(dest), (written or [dest])[-1])
        self.error(f"there is no option {stranger.partition('=')[0]}; {text}".rstrip("; "))

    def error(self, message: str) -> NoReturn:
        """What is wrong in a line, and where help is; the usage would fill the screen."""
        self.exit(2, f"{self.prog}: error: {message}\nhelp: {self.prog} --help\n")


def _command(commands: Any, name: str, about: str, examples: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=about, description=f"{about[0].upper()}{about[1:]}.", epilog=examples
    )
    parser.set_defaults(run=_later(name), asked=parser)
    return parser


def _later(name: str) -> Callable[[argparse.Namespace], None]:
    """The command, imported when it runs."""

    def run(options: argparse.Namespace) -> None:
        import_module(f"dpbinagg.cli.{name}").run(options)

    return run


def _privacy(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("privacy")
    group.add_argument("--mu", type=float, help="total privacy, mu-GDP")
    group.add_argument("--epsilon", type=float, help="instead of --mu, with --delta")
    group.add_argument("--delta", type=float, help="instead of --mu, with --epsilon")


def _finer(group: Any) -> None:
    """How the noise is laid out; of `fit`, and of `audit`, which attacks the same release."""
    group.add_argument(
        "--neighbours",
        choices=("add-remove", "replace"),
        default="add-remove",
        help="what one person changes: a record more or less (default), or another one",
    )
    group.add_argument(
        "--budget",
        metavar="SPLIT",
        help="how mu is divided: 'paper', or as in moments=2,scores=3,ranges=0",
    )
    group.add_argument(
        "--calibration",
        choices=("joint", "paper"),
        default="joint",
        help="'paper' adds the published, too small noise; the true mu is shown",
    )
    group.add_argument(
        "--partition",
        choices=("privtree", "grid"),
        default="privtree",
        help="how the bins are cut: where the records are (default), or evenly",
    )


def _bounds(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is public")
    group.add_argument("--bounds", metavar="CODEBOOK", help="a codebook: bounds and levels")
    group.add_argument(
        "--bound",
        action="append",
        default=[],
        metavar="NAME=LOW,HIGH",
        help="bounds of one variable; or NAME=a|b|c, its levels; may be repeated",
    )


def _estimation(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--estimator",
        choices=get_args(EstimatorName),
        help="the best that was released by default",
    )
    parser.add_argument(
        "--cov-type",
        choices=get_args(CovType),
        help="covariance of the estimate; sandwich by default, which is HC1 where it is refined",
    )


def _output(parser: argparse.ArgumentParser, compare: bool = True) -> None:
    if compare:
        parser.add_argument(
            "--compare", action="store_true", help="show all estimators side by side as well"
        )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def _folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", metavar="FOLDER", help="release, synthetic data and report go here"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace a release that the folder holds"
    )
    parser.add_argument(
        "--format",
        action="append",
        default=[],
        choices=("parquet", "dta"),
        help="write the synthetic data in this format too",
    )
    parser.add_argument(
        "--copies", type=int, default=1, help="so many further synthetic tables; 20 are enough"
    )


def _about(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what the README of the folder says (else: not stated)")
    group.add_argument("--title", help="of the data or the study")
    group.add_argument("--unit-of-observation", metavar="TEXT", help="what one record is")
    group.add_argument("--description", metavar="TEXT", help="what the data are about")
    group.add_argument("--provenance", metavar="TEXT", help="where they are from, who may apply")
    group.add_argument("--steward", help="who is responsible for the data")
    group.add_argument("--contact", help="whom to ask")
    group.add_argument("--licence", help="of the files in the folder")
    group.add_argument("--date", help="of the publication")


def _table(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how the table is written")
    group.add_argument("--separator", help="of a text file; by default that of its header line")
    group.add_argument("--decimal", choices=(".", ","), help="decimal mark of a text file")
    group.add_argument("--encoding", help="of a text file, such as latin-1; UTF-8 by default")
    group.add_argument("--sheet", help="sheet of an Excel file; the first by default")


def _fit(commands: Any) -> None:
    parser = _command(commands, "fit", "fit a private regression and save what is public", FIT)
    parser.add_argument("formula", help='as in R and statsmodels: "wage ~ educ + C(region)"')
    parser.add_argument("data", help="the private table, see below")
    _privacy(parser)
    group = parser.add_argument_group("privacy, finer")
    group.add_argument("--ledger", metavar="FILE", help="charge this ledger; see dpbinagg ledger")
    _finer(group)
    group.add_argument(
        "--rng", type=int, metavar="SEED", help="reproducible, for tests only: not for publication"
    )
    _bounds(parser)
    parser.add_argument(
        "--missing",
        choices=("drop", "raise"),
        default="drop",
        help="incomplete records: leave out (default), or stop",
    )
    _table(parser)
    group = parser.add_argument_group("results")
    _folder(group)  # type: ignore[arg-type]
    group.add_argument("--progress", action="store_true", help="show the steps of the release")
    _estimation(group)  # type: ignore[arg-type]
    _output(group)  # type: ignore[arg-type]
    _about(parser)


def _study(commands: Any) -> None:
    parser = _command(commands, "study", "Table 1 and several models, from one file", STUDY)
    parser.add_argument("file", help="the study file, see below")
    parser.add_argument("--check", action="store_true", help="show what it would do, and stop")
    parser.add_argument(
        "--approved", metavar="FINGERPRINT", help="stop if the file has another fingerprint"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a release that is there")
    parser.add_argument("--progress", action="store_true", help="show the steps of the release")
    _output(parser, compare=False)


def _describe(commands: Any) -> None:
    parser = _command(commands, "describe", "Table 1 from a saved release", DESCRIBE)
    parser.add_argument("release", help="the folder that study or fit wrote")
    parser.add_argument("--by", metavar="NAME", help="by the levels of this variable")
    parser.add_argument(
        "--crosstab", nargs=2, metavar=("ONE", "OTHER"), help="a two-way table instead"
    )
    parser.add_argument("--corr", action="store_true", help="correlations instead")
    parser.add_argument(
        "--alpha", type=float, default=0.05, help="intervals cover with probability 1 - alpha"
    )
    parser.add_argument(
        "--form", choices=("text", "markdown", "latex", "html", "csv"), default="text"
    )
    _output(parser, compare=False)


def _refit(commands: Any) -> None:
    parser = _command(commands, "refit", "fit the same or a smaller model, free of charge", REFIT)
    parser.add_argument("release", help="the folder that fit wrote")
    parser.add_argument("formula", nargs="?", help="a smaller model; the released one by default")
    parser.add_argument("--synthetic", metavar="TABLE", help="fit from this synthetic table")
    _estimation(parser)
    _output(parser)


def _synth(commands: Any) -> None:
    parser = _command(commands, "synth", "make synthetic records, free of charge", SYNTH)
    parser.add_argument("release", help="the folder that fit wrote")
    parser.add_argument("--out", required=True, metavar="TABLE", help=".csv, .parquet or .dta")
    parser.add_argument("--kind", choices=KINDS, default="calibrated", help="see below")
    parser.add_argument("--size", type=int, help="number of records; the noisy total by default")
    parser.add_argument("--copies", type=int, default=1, help="number of tables, stacked")
    parser.add_argument("--bin-id", action="store_true", help="add the number of each bin")
    parser.add_argument("--labels", action="store_true", help="labels in place of codes")
    parser.add_argument("--missing", action="store_true", help="add rows that lack values")
    parser.add_argument("--rng", type=int, metavar="SEED", help="the same records every time")
    _output(parser, compare=False)


def _ledger(commands: Any) -> None:
    parser = _command(commands, "ledger", "what was spent on a data set, and what is left", LEDGER)
    parser.add_argument("ledger", help="the ledger file")
    parser.add_argument("--create", action="store_true", help="make a new ledger")
    parser.add_argument("--mu", type=float, help="total of the new ledger")
    parser.add_argument("--name", help="name of the data set; the file's name by default")
    parser.add_argument(
        "--neighbours",
        choices=("add-remove", "replace"),
        help="what the total of a new ledger holds against; add-remove by default",
    )
    _output(parser, compare=False)


def _plan(commands: Any) -> None:
    parser = _command(commands, "plan", "the standard errors to expect, before spending", PLAN)
    parser.add_argument(
        "formula", help='as for fit: "wage ~ educ + C(region)"; or a study file, study.toml'
    )
    parser.add_argument("--n", type=int, required=True, help="about how many records there are")
    parser.add_argument(
        "--mu", type=float, nargs="+", default=[1.0], help="one or more; 1 by default"
    )
    parser.add_argument(
        "--sd",
        type=float,
        help="a guess of the standard deviation of the error, on the scale of the left side; "
        "that of the example, or an eighth of its range, by default",
    )
    parser.add_argument(
        "--example",
        metavar="TABLE",
        help="PUBLIC records: covariates, and errors where it has the left side, are like its own",
    )
    parser.add_argument("--rng", type=int, default=0, metavar="SEED", help="of the simulation")
    _bounds(parser)
    _output(parser, compare=False)


def _codebook(commands: Any) -> None:
    parser = _command(commands, "codebook", "a codebook to fill in, from the schema", CODEBOOK)
    parser.add_argument("data", help="the table; only its schema is read")
    _table(parser)
    parser.add_argument("--out", metavar="CSV", help="where to write; printed by default")
    _output(parser, compare=False)


def _audit(commands: Any) -> None:
    parser = _command(commands, "audit", "attack a release, to see that its claim holds", AUDIT)
    parser.add_argument("formula", help='as for fit: "wage ~ educ + C(region)"')
    _privacy(parser)
    _finer(parser.add_argument_group("privacy, finer"))
    _bounds(parser)
    group = parser.add_argument_group("the attack")
    group.add_argument("--csv", action="store_true", help="through files that differ in one line")
    group.add_argument(
        "--trials", type=int, default=20_000, help="releases a side of each mechanism; 20,000"
    )
    group.add_argument("--trees", type=int, default=200, help="partitions a side; 200")
    group.add_argument("--runs", type=int, default=0, help="complete runs a side; none by default")
    group.add_argument("--confidence", type=float, default=0.95, help="of each bound; 0.95")
    group.add_argument(
        "--rng", type=int, metavar="SEED", help="seeded noise; the secure source by default"
    )
    group.add_argument("--seed", type=int, default=0, help="chooses the tables")
    group.add_argument("--all", action="store_true", help="show every test, not the worst ones")
    _output(parser, compare=False)


def _demo(commands: Any) -> None:
    parser = _command(commands, "demo", "a private regression on bundled data", DEMO)
    parser.add_argument("--data", choices=("wages", "school"), default="wages")
    parser.add_argument("--mu", type=float, default=1.0, help="total privacy; 1 by default")
    parser.add_argument("--rng", type=int, metavar="SEED", help="the same noise every time")
    _folder(parser)
    _output(parser)
    _about(parser)
