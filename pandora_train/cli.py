"""``pandora``: one function per command, no logic. Heavy imports wait inside the functions."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from pandora_train.errors import MachineryError, UserError

if TYPE_CHECKING:
    from pandora_train.config import C
    from pandora_train.runs import Run

app = typer.Typer(
    name="pandora", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    help="Questions over tables, databases and knowledge graphs, distilled into a small local model.",
)

ASK = Path(__file__).resolve().parent.parent / "configs" / "ask.yaml"
INTERRUPTED = 130  # what typer makes of Ctrl-C
ConfigFile = Annotated[Path, typer.Argument(metavar="CONFIG.yaml", help="The stage's config file.")]
Overrides = Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE ...", help="Change config keys.")]
RunDir = Annotated[Path | None, typer.Option("--run-dir", help="Run folder (default: by config name).")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the run folder where it stopped.")]
PrintConfig = Annotated[bool, typer.Option("--print-config", help="Print the resolved config and stop.")]


def main() -> NoReturn:
    """Entry point: user errors and machinery failures are one line, exit codes 2 and 3; Ctrl-C is 130."""
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"  # one line, like errors
    try:
        app(standalone_mode=True)
    except UserError as e:
        print(f"error: {e}", file=sys.stderr)
        sys.exit(2)
    except MachineryError as e:
        print(f"failed: {e} (nothing finished is lost; run again with --resume)", file=sys.stderr)
        sys.exit(3)
    except SystemExit as e:
        if e.code == INTERRUPTED:
            print("interrupted; what is finished is kept (stages continue with --resume)", file=sys.stderr)
            sys.stdout.flush()
            os._exit(INTERRUPTED)  # model calls in flight may take minutes; nobody waits for them
        raise
    sys.exit(0)


def _open(kind: type[C], file: Path, overrides: list[str] | None, print_config: bool) -> C:
    from pandora_train.config import dump, load

    config = load(kind, file, overrides)
    if print_config:
        print(dump(config), end="")
        raise typer.Exit
    return config


def _run(stage: str, file: Path, config: Any, run_dir: Path | None, resume: bool) -> Run:
    from pandora_train.runs import Run

    return Run(stage, file.stem, config, run_dir, resume)


@app.command()
def data(root: Annotated[Path, typer.Argument(help="Folder with benchmark folders.")] = Path("data/sample"),
         manifest: Annotated[Path | None, typer.Option(help="Write or verify a checksum manifest.")] = None,
         ) -> None:
    """List the data found under a folder, with counts, and where each original is to be had."""
    from pandora_train.sources.discover import show_data

    show_data(root, manifest)


@app.command()
def annotate(config: ConfigFile, overrides: Overrides = None, run_dir: RunDir = None, resume: Resume = False,
             print_config: PrintConfig = False) -> None:
    """Fill the memory from training questions (label compiler, or a model as teacher)."""
    from pandora_train.teach.annotate import AnnotateConfig, annotate

    settings = _open(AnnotateConfig, config, overrides, print_config)
    print(annotate(settings, _run("annotate", config, settings, run_dir, resume)))


@app.command()
def distill(config: ConfigFile, overrides: Overrides = None, run_dir: RunDir = None, resume: Resume = False,
            print_config: PrintConfig = False) -> None:
    """Turn memory into a supervised data set of chat rows."""
    from pandora_train.distill import DistillConfig, distill

    settings = _open(DistillConfig, config, overrides, print_config)
    print(distill(settings, _run("distill", config, settings, run_dir, resume)))


@app.command()
def train(config: ConfigFile, overrides: Overrides = None, run_dir: RunDir = None, resume: Resume = False,
          print_config: PrintConfig = False) -> None:
    """LoRA-tune a code model on the rows."""
    from pandora_train.train import TrainConfig, train

    settings = _open(TrainConfig, config, overrides, print_config)
    adapter = train(settings, run_dir, resume)
    if os.environ.get("RANK", "0") == "0":  # of several processes, one speaks
        print(adapter)


@app.command()
def export(rows: Annotated[Path, typer.Argument(help="A distill run folder, or Parquet rows.")],
           out: Annotated[Path, typer.Argument(help="Folder to write: LLaMA-Factory's --dataset_dir.")],
           name: Annotated[str, typer.Option(help="Its --dataset.")] = "pandora") -> None:
    """Write SFT rows in LLaMA-Factory's format (trl's SFTTrainer loads the Parquet as it is)."""
    from pandora_train.train import export_llama_factory

    print(export_llama_factory(rows, out, name))


@app.command()
def merge(config: ConfigFile, overrides: Overrides = None, print_config: PrintConfig = False) -> None:
    """Merge an adapter into its base model."""
    from pandora_train.train import MergeConfig, merge

    print(merge(_open(MergeConfig, config, overrides, print_config)))


@app.command()
def serve(config: ConfigFile, overrides: Overrides = None, print_config: PrintConfig = False,
          then: Annotated[list[str] | None, typer.Option(
              "--then", help="Run this command while the server is up, then stop; may be repeated.")] = None,
          ) -> None:
    """Serve a model and its adapters by vLLM, and prove that each adapter is live."""
    from pandora_train.serve import ServeConfig, serve

    raise typer.Exit(serve(_open(ServeConfig, config, overrides, print_config), then or []))


@app.command()
def check(url: Annotated[str, typer.Argument(help="Its base_url, such as http://127.0.0.1:8000/v1.")],
          model: Annotated[str, typer.Option(help="Name on the server (default: its only model).")] = "",
          adapter: Annotated[str, typer.Option(help="Adapter folder that it should be.")] = "",
          tokenizer: Annotated[str, typer.Option(help="Model id that was trained.")] = "",
          key_env: Annotated[str, typer.Option(help="Environment variable that holds its key.")] = "",
          ) -> None:
    """Prove that a server somebody else started answers as the model that was trained."""
    from pandora_train.serve import check

    raise typer.Exit(check(url, model, adapter, tokenizer, key_env))


@app.command()
def evaluate(config: ConfigFile, overrides: Overrides = None, run_dir: RunDir = None, resume: Resume = False,
             print_config: PrintConfig = False) -> None:
    """Answer benchmark questions with the agent and score them."""
    from pandora_train.evaluate.run import EvaluateConfig, evaluate
    from pandora_train.report import evaluated

    settings = _open(EvaluateConfig, config, overrides, print_config)
    run = _run("evaluate", config, settings, run_dir, resume)
    results = evaluate(settings, run)
    print(evaluated(run.path))
    if not results.complete:
        raise MachineryError(f"{results.questions.unfinished} questions are unfinished, first: "
                             f"{next(iter(results.unfinished.values()), 'not begun')}")


@app.command()
def score(predictions: Annotated[Path, typer.Argument(help="Anybody's prediction file.")],
          benchmark: Annotated[str, typer.Option(help="spider, wikitq, grailqa, webqsp, pathquestion")],
          path: Annotated[Path, typer.Option(help="Benchmark folder in its official layout.")],
          split: Annotated[str, typer.Option(help="Question set.")] = "dev",
          store: Annotated[str, typer.Option(help="Graph store, for answers compared as names.")] = "",
          out: Annotated[Path | None, typer.Option(help="Write all verdicts here (JSON).")] = None,
          ) -> None:
    """Score a prediction file in the benchmark's official format, or JSONL."""
    from pandora_train.report import scored

    print(scored(predictions, benchmark, path, split, store, out))


@app.command()
def compare(a: Annotated[Path, typer.Argument(help="Run folder A.")],
            b: Annotated[Path, typer.Argument(help="Run folder B.")],
            out: Annotated[Path | None, typer.Option(
                help="HTML report to write.", show_default="into B's folder")] = None,
            subsets: Annotated[bool, typer.Option("--subsets", help="By level, too.")] = False,
            everything: Annotated[bool, typer.Option(
                "--all", help="All metrics, subsets, costs and flips, too.")] = False) -> None:
    """Compare two evaluation runs on the same questions: differences with intervals, and what they say."""
    from pandora_train.report import compared

    print(compared(a, b, out, subsets, everything))


@app.command()
def report(runs: Annotated[list[Path], typer.Argument(help="Run folders.")],
           out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("report.html")) -> None:
    """Write one self-contained HTML report of one or several runs, and print the tables."""
    from pandora_train.report import markdown_tables, write_report

    print(markdown_tables(runs))
    print(write_report(runs, out))


@app.command()
def show(run: Annotated[Path, typer.Argument(help="Run folder.")],
         sample: Annotated[str, typer.Argument(metavar="ID", help="Example id.")] = "") -> None:
    """Follow one question from file to score; without an id, list the run's questions."""
    from pandora_train.report import show as follow

    follow(run, sample)


@app.command()
def predictions(run: Annotated[Path, typer.Argument(help="Evaluation run folder.")],
                out: Annotated[Path, typer.Option(help="Folder to write.")]) -> None:
    """Write a run's answers in each benchmark's official format, one file a benchmark."""
    from pandora_train.report import write_predictions

    print("\n".join(write_predictions(run, out)))


@app.command()
def keys(stage: Annotated[str, typer.Argument(metavar="STAGE", help="A command with a config.")]) -> None:
    """List the config keys of a stage, with default and meaning."""
    from pandora_train.keys import print_keys

    print_keys(stage)


@app.command()
def track(run: Annotated[Path, typer.Argument(help="Evaluation run folder.")],
          overrides: Overrides = None) -> None:
    """Log a run to Weights & Biases (mode=offline works without a network); again continues the same run."""
    from pandora_train.config import load
    from pandora_train.report.log_run import TrackingConfig, log_run

    print(log_run(run, load(TrackingConfig, None, overrides)))


@app.command()
def ask(question: str,
        path: Annotated[str, typer.Argument(help="A CSV, TSV, SQLite or RDF file, or a SPARQL URL.")],
        config: Annotated[Path, typer.Option(help="Agent config.", show_default="configs/ask.yaml")] = ASK,
        topic: Annotated[list[str] | None, typer.Option(help="Topic entity of a graph question.")] = None,
        set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE")] = None) -> None:
    """Ask your own data one question."""
    from pandora_train.ask import AskConfig, ask
    from pandora_train.config import load

    ask(load(AskConfig, config, set_), question, path, tuple(topic or []))


@app.command()
def push(config: ConfigFile, overrides: Overrides = None, print_config: PrintConfig = False,
         dry_run: Annotated[bool, typer.Option("--dry-run", help="Write the folder only.")] = False) -> None:
    """Write data set or model cards and upload to the Hub."""
    from pandora_train.report.push import PushConfig, push

    print(push(_open(PushConfig, config, overrides, print_config), dry_run=dry_run))


@app.command()
def doctor() -> None:
    """Say what works on this machine, and how to mend what does not."""
    from pandora_train.doctor import doctor

    raise typer.Exit(doctor())


if __name__ == "__main__":
    main()
