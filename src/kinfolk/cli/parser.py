"""Every command with its options and examples. Nothing numerical is imported here, so that help is instant."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NoReturn

from kinfolk._version import __version__
from kinfolk.cli.outputs import output_path

DESCRIPTION = """\
You have a table with a column that says which patient, store or sensor a row belongs to, and a column to predict.
kinfolk fits one model for each of them, lets those that are alike learn from each other, and shows you who is alike."""

PARTS = ("all", "synthetic", "wiener", "birmingham", "parkinsons")

EXAMPLES = {
    "": """\
try it, on a table that comes with the package:
  kinfolk demo --table car_parks.csv
  kinfolk fit car_parks.csv --task car_park --target percent_full --report report.html
from your table to a report, and to predictions:
  kinfolk fit data.csv --task patient --target score --out model.kin --report report.html
  kinfolk predict model.kin new.csv --out predictions.csv
does sharing help on this table, and which method is best?
  kinfolk compare data.csv --task patient --target score""",
    "fit": """\
examples:
  kinfolk fit data.csv --task patient --target score --report report.html
  kinfolk fit data.parquet --task store --target sales --drop date comment --groups week
  kinfolk fit data.csv --task patient --target score --method mtrl --set ridge=0.1
  kinfolk fit duckdb:///shop.db --query "select * from sales where year > 2020" --task store --target sales

Text columns are one-hot encoded, those of many values become one number; true and false become 1 and 0, columns with
one value are left out; a notice says so.
A task column is read as integers if all its values are integers without leading zeros, otherwise as text.""",
    "predict": """\
examples:
  kinfolk predict model.kin new.csv --out predictions.csv --std
  kinfolk predict model.kin new.csv --keep day | head""",
    "report": """\
example:
  kinfolk report model.kin data.csv --target score --out report.html""",
    "graph": """\
examples:
  kinfolk graph model.kin --format csv | head
  kinfolk graph model.kin --out graph.graphml""",
    "compare": """\
examples:
  kinfolk compare data.csv --task patient --target score
  kinfolk compare data.csv --task patient --target score --methods gamtlcv independent random-slopes --groups sitting

Every method is fitted on the training rows of each outer fold, tuned by folds inside them, and judged on rows it never
saw.""",
    "reproduce": """\
example:
  kinfolk reproduce synthetic --quick --out reproduction""",
}


FAMILIES = ("gaussian", "binomial", "poisson", "gamma")  # named here too: help must come without numerical libraries


class JoinedNames(argparse.Action):
    """Names of several columns become one, as the tables have it."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        """Store the joint name."""
        setattr(namespace, self.dest, " / ".join(values))


def table_address(text: str) -> Any:
    """A file or folder, or the address of a database."""
    if not text:
        raise argparse.ArgumentTypeError("the name of the table is empty")
    from kinfolk.sources.addresses import Address, is_connection_string

    if "://" in text:
        return Address(text)
    if is_connection_string(text) and not Path(text).exists():
        raise argparse.ArgumentTypeError(
            "there is no such file, and the address of a database is written as postgres://host/name"
        )
    return Path(text)


def model_path(text: str) -> Path:
    """The file of a model, which is in no database."""
    if "://" in text:
        raise argparse.ArgumentTypeError("the model is a file written by kinfolk fit, and comes before the table")
    return Path(text)


class Parser(argparse.ArgumentParser):
    """A parser whose errors repeat no address with a password."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and what is wrong with the arguments, and end."""
        from kinfolk.sources.addresses import without_addresses

        super().error(without_addresses(message))


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = Parser(
        prog="kinfolk",
        description=DESCRIPTION,
        epilog=EXAMPLES[""],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"kinfolk {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command")
    _add_fit(_command(commands, "fit", "fit a table; write the model and a page about it"))
    _add_predict(_command(commands, "predict", "predict new rows with a model"))
    _add_report(_command(commands, "report", "write the page about a model and a table"))
    _add_graph(_command(commands, "graph", "write who is alike, as CSV, GraphML or JSON"))
    _add_compare(_command(commands, "compare", "try all methods on a table: does sharing help, and which one to use"))
    _command(commands, "methods", "list the methods that can be fitted and compared")
    _add_reproduce(_command(commands, "reproduce", "the paper's tables and figures, computed anew"))
    _add_demo(_command(commands, "demo", "fit a made-up example and explain it, or write an example table"))
    return parser


def _command(commands: Any, name: str, text: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog=EXAMPLES.get(name),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    output = command.add_argument_group("output")
    output.add_argument("--quiet", action="store_true", help="no notices, no progress, no result as text")
    output.add_argument("--json", action="store_true", help="the result as JSON on stdout")
    output.add_argument("--debug", action="store_true", help="show the traceback of an error and what libraries print")
    return command


def _add_fit(command: argparse.ArgumentParser) -> None:
    _add_training_table(command)
    _add_stream(command)
    method = command.add_argument_group("the method")
    method.add_argument("--method", default="gamtlcv", help="see kinfolk methods (%(default)s)")
    method.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the method; may be repeated"
    )
    _add_folds(method, "folds that choose the parameters not given with --set; 0: do not choose (%(default)s)")
    out = command.add_argument_group("what is written")
    _add_out(out, "the model (default: the name of the table with .kin)")
    out.add_argument("--report", type=output_path, metavar="FILE", help="a page about the model, to open in a browser")
    _add_private(out, "nothing in model and report that rows could be rebuilt from; no standard deviations then")


def _add_predict(command: argparse.ArgumentParser) -> None:
    _add_model(command)
    command.add_argument("data", type=table_address, help="table with the columns of fit; others are ignored")
    _add_out(command, "predictions as CSV (default: stdout)")
    _add_safe_csv(command)
    command.add_argument("--std", action="store_true", help="add a column std: standard deviation of a new observation")
    command.add_argument(
        "--keep", nargs="*", metavar="COLUMN", help="columns of the table to write beside; without names: all of them"
    )
    text = "tasks that fit has not seen: the mean of all tasks, with a note (default) or without, or an error"
    command.add_argument("--unseen", choices=("warn", "mean", "error"), help=text)
    _add_drop_missing(command)
    _add_stream(command)
    _add_reading(command)


def _add_report(command: argparse.ArgumentParser) -> None:
    _add_model(command)
    command.add_argument("data", type=table_address, help="table with the columns of fit and the target")
    command.add_argument("--target", required=True, metavar="COLUMN", help="column with the true values")
    command.add_argument("--groups", metavar="COLUMN", help="rows of one value here belong together (sitting, day)")
    _add_out(command, "the page (%(default)s)", Path("report.html"))
    _add_private(command, "a page without observed targets and single rows")
    command.add_argument("--title", help="title of the page")
    _add_drop_missing(command)
    _add_reading(command)


def _add_graph(command: argparse.ArgumentParser) -> None:
    _add_model(command)
    command.add_argument(
        "--format", choices=("csv", "graphml", "json"), help="of the graph (default: by the ending of FILE, else csv)"
    )
    _add_out(command, "the graph (default: stdout)")
    _add_safe_csv(command)


def _add_compare(command: argparse.ArgumentParser) -> None:
    _add_training_table(command)
    comparison = command.add_argument_group("the comparison")
    comparison.add_argument("--methods", nargs="+", metavar="NAME", help="see kinfolk methods (default: all of them)")
    text = "for each method; one that takes longer is left out, with a notice (120, and 900 for gamtlcv)"
    comparison.add_argument("--time-limit", type=float, metavar="SECONDS", help=text)
    _add_folds(comparison, "outer folds, and folds inside each for tuning (%(default)s)")


def _add_reproduce(command: argparse.ArgumentParser) -> None:
    command.add_argument("which", nargs="?", default="all", choices=PARTS, help=f"{', '.join(PARTS)} (default: all)")
    _add_out(command, "folder for tables and figures (%(default)s)", Path("reproduction"), metavar="DIR")
    command.add_argument("--quick", action="store_true", help="a small version, in minutes")
    command.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at a time (%(default)s)")
    command.add_argument("--into", type=Path, metavar="FILE", help="Markdown document whose end the tables replace")


def _add_demo(command: argparse.ArgumentParser) -> None:
    _add_out(command, "folder for picture and report (%(default)s)", Path("kinfolk-demo"), metavar="DIR")
    text = "only write the example table, 28 car parks, to try kinfolk fit on"
    command.add_argument("--table", type=output_path, metavar="FILE", help=text)
    command.add_argument("--seed", type=int, default=0, help="seed of the example data (%(default)s)")


def _add_training_table(command: argparse.ArgumentParser) -> None:
    text = (
        "table: .csv, .parquet, .arrow, .ndjson, .xlsx, a folder, or a database (duckdb:///, sqlite:///, postgres://)"
    )
    command.add_argument("data", type=table_address, help=text)
    text = "column that names the task of a row; several make a task per combination"
    command.add_argument("--task", required=True, nargs="+", action=JoinedNames, metavar="COLUMN", help=text)
    command.add_argument("--target", required=True, metavar="COLUMN", help="column to predict")
    text = "of the target: binomial (0 and 1, or shares), poisson (counts), gamma (amounts); auto: what it looks like"
    command.add_argument("--family", default="gaussian", choices=("auto", *FAMILIES), help=text)
    columns = command.add_argument_group("the columns")
    text = "what means of counts are proportional to (population, hours); no input"
    columns.add_argument("--exposure", metavar="COLUMN", help=text)
    columns.add_argument("--offset", metavar="COLUMN", help="added to the linear predictor; no input")
    several: Any = {"nargs": "+", "action": "extend", "default": [], "metavar": "COLUMN"}
    columns.add_argument("--drop", **several, help="to be left out")
    columns.add_argument(
        "--groups", metavar="COLUMN", help="rows of one value here (sitting, day) stay in one fold; not used to predict"
    )
    columns.add_argument("--time", metavar="COLUMN", help="folds in the order of this column: they train on the past")
    columns.add_argument("--categorical", **several, help="categories, even if they are numbers")
    text = "most categories of a text column with a column each; of more, one number is learned (%(default)s)"
    columns.add_argument("--max-categories", type=int, default=50, metavar="N", help=text)
    gaps = columns.add_mutually_exclusive_group()
    text = "fill in missing inputs by means and mark them in a second column (default); --no-impute: an error"
    gaps.add_argument("--impute", action=argparse.BooleanOptionalAction, help=text)
    _add_drop_missing(gaps)
    _add_reading(command)


def _add_out(group: Any, text: str, default: Path | None = None, metavar: str = "FILE") -> None:
    group.add_argument("--out", type=output_path, default=default, metavar=metavar, help=text)
    group.add_argument("--force", action="store_true", help="replace an existing file, whatever it is")


def _add_model(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", type=model_path, help="a model written by kinfolk fit")


def _add_drop_missing(group: Any) -> None:
    group.add_argument("--drop-missing", action="store_true", help="leave out rows with missing values")


def _add_private(group: Any, text: str) -> None:
    group.add_argument("--private", action="store_true", help=f"{text} (docs/privacy.md)")


def _add_safe_csv(command: argparse.ArgumentParser) -> None:
    text = "an apostrophe before texts that a spreadsheet program would take for a formula"
    command.add_argument("--safe-csv", action="store_true", help=text)


def _add_stream(command: argparse.ArgumentParser) -> None:
    text = "read the table in blocks, as is done by itself if memory could not hold it"
    command.add_argument("--stream", action="store_true", help=text)


def _add_folds(group: Any, text: str) -> None:
    group.add_argument("--cv", type=int, default=5, metavar="K", help=text)
    group.add_argument("--seed", type=int, default=0, help="draws the folds (%(default)s)")
    group.add_argument("--jobs", type=int, default=1, metavar="N", help="processes at a time (%(default)s)")


def _add_reading(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--query", metavar="SQL", help="what to ask a database: one SELECT that only reads (default: its only table)"
    )
    command.add_argument("--allow-files", action="store_true", help="let a query of DuckDB read files (read_csv)")
    reading = command.add_argument_group("reading CSV")
    reading.add_argument("--delimiter", metavar="CHAR", help="separator of values (default: found in the first lines)")
    reading.add_argument("--encoding", default="utf-8", help="of the file (%(default)s)")
    reading.add_argument("--decimal", choices=(".", ","), help="decimal mark (default: found in the first lines)")
