"""Plots in one quiet style, as SVG: accuracy, accuracy against K, backbones, ablations, error kinds, cost.

Each plot shows what the runs at hand allow and is left out otherwise. Intervals are those of the tables.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pandora_train.evaluate.error_kinds import KINDS
from pandora_train.evaluate.stats import Metric
from pandora_train.report.load import RunData, benchmark_titles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#5c6068"
PALETTE = ("#2a8ba8", "#cf6a48", "#c29a3a", "#4f9d69", "#9a6aa8", "#7b8794", "#b65c7f", "#5577b8")
STYLE = {
    "font.size": 10, "svg.fonttype": "none", "svg.hashsalt": "pandora", "figure.facecolor": "none",
    "axes.facecolor": "none", "axes.edgecolor": INK, "axes.labelcolor": INK, "axes.linewidth": 0.6,
    "axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False, "text.color": INK,
    "xtick.color": INK, "ytick.color": INK, "xtick.major.size": 0, "ytick.major.size": 0, "axes.grid": True,
    "grid.color": INK, "grid.alpha": 0.16, "grid.linewidth": 0.6, "axes.axisbelow": True,
    "legend.frameon": False, "legend.fontsize": 9, "lines.linewidth": 1.8, "savefig.facecolor": "none",
}


@dataclass(frozen=True)
class Plot:
    """One figure: ``name`` for files, ``title`` for people, ``svg`` as a file of its own."""

    name: str
    title: str
    svg: str

    def themed_svg(self) -> str:
        """For a page: ink and font are the page's, ids are this plot's own."""
        svg = self.svg[self.svg.index("<svg") :].replace(INK, "currentColor")
        svg = re.sub(r'(font: )([\d.]+px)[^;"]*', r"font-size: \2", svg)
        svg = re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)
        return re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{self.name}-", svg)


def all_plots(runs: list[RunData]) -> list[Plot]:
    """Every plot that these runs can fill."""
    makers = (accuracy, against_k, ablations, error_kinds, cost)
    plots = [p for p in (make(runs) for make in makers) if p is not None]
    if any(r.incomplete(b) for r in runs for b in r.benchmarks):
        return [replace(p, title=f"{p.title} (incomplete)") for p in plots]
    return plots


def accuracy(runs: list[RunData]) -> Plot | None:
    """The main metric with its interval, by benchmark and run; called backbones when the models differ."""
    titles = benchmark_titles(runs)
    names = list(titles)
    if not names:
        return None
    models = {_model(r) for r in runs}

    def draw(axes: Axes) -> None:
        gap = 0.7 / len(runs)
        for n, run in enumerate(runs):
            points = [(b, _primary(run, b)) for b in names]
            ys = [names.index(b) + (n - (len(runs) - 1) / 2) * gap for b, m in points if m]
            _intervals(axes, [m for _, m in points if m], ys, _colour(n), run.name, across=True)
        primary = {b: s.primary for r in runs for b, s in r.benchmarks.items()}
        partial = {b for r in runs for b in r.benchmarks if r.incomplete(b)}
        labels = [f"{titles[b]}\n{primary[b]}{' (incomplete)' if b in partial else ''}" for b in names]
        axes.set_yticks(range(len(names)), labels)
        axes.set_ylim(len(names) - 0.45, -0.55)
        axes.set_xlim(0, 100)
        axes.set_xlabel("per cent, with 95 % interval")
        axes.grid(False, axis="y")

    height = 0.9 + len(names) * max(0.5, 0.24 * len(runs)) + (0.22 * len(runs) if len(runs) > 1 else 0)
    title = "Backbones" if len(models) > 1 else "Accuracy"
    return _plot("accuracy", title, draw, height, legend=len(runs) > 1)


def against_k(runs: list[RunData]) -> Plot | None:
    """The main metric against the number of demonstrations, a line per benchmark (and model)."""
    by_line: dict[tuple[str, str], dict[int, Metric]] = {}
    whole = [(r.results.demonstrations.asked, r) for r in runs if ablated(runs, r) in ("", "− ICR")]
    for k, run in whole:
        for b in run.benchmarks:
            metric = _primary(run, b)
            if metric:
                by_line.setdefault((run.title(b), _model(run)), {})[k] = metric
    by_line = {line: points for line, points in by_line.items() if len(points) > 1}
    several = len({model for _, model in by_line}) > 1
    lines = {f"{b} · {model}" if several else b: points for (b, model), points in by_line.items()}
    if not lines:
        return None

    def draw(axes: Axes) -> None:
        every = sorted({k for points in lines.values() for k in points})
        spread = 0.012 * (every[-1] - every[0])  # whiskers stand side by side
        for n, (name, points) in enumerate(lines.items()):
            ks = sorted(points)
            metrics = [points[k] for k in ks]
            xs = [k + (n - (len(lines) - 1) / 2) * spread for k in ks]
            axes.plot(xs, [100 * m.value for m in metrics], color=_colour(n))
            _intervals(axes, metrics, xs, _colour(n), name, across=False)
        axes.set_xticks(every)
        axes.set_xlabel("demonstrations (K)")
        axes.set_ylabel("per cent")
        axes.set_ylim(bottom=0)

    return _plot("accuracy-k", "Accuracy against K", draw, 3.2, legend=True)


def ablations(runs: list[RunData]) -> Plot | None:
    """What each part is worth: the first run's main metric less that of runs with one part taken out."""
    taken = [(label, r) for r in runs[1:] if (label := ablated(runs, r))]
    if not taken:
        return None
    titles = benchmark_titles(runs)

    def draw(axes: Axes) -> None:
        names = list(titles)
        width = 0.75 / len(names)
        for n, b in enumerate(names):
            for i, (_, run) in enumerate(taken):
                full, less = _primary(runs[0], b), _primary(run, b)
                if full and less:
                    x = i + (n - (len(names) - 1) / 2) * width
                    axes.bar(x, 100 * (less.value - full.value), width * 0.88, color=_colour(n),
                             label=titles[b] if i == 0 else None)
        axes.axhline(0, color=INK, linewidth=0.8)
        axes.set_xticks(range(len(taken)), [label for label, _ in taken])
        axes.set_ylabel(f"points against {runs[0].name}")
        axes.grid(False, axis="x")

    return _plot("ablations", "Ablations", draw, 3.2, legend=True)


def ablated(runs: list[RunData], run: RunData) -> str:
    """The one part of the paper (section 5.8) that ``run`` lacks beside the first run, or an empty string."""
    first = runs[0]
    if _model(run) != _model(first):
        return ""
    here, whole = run.settings, first.settings
    lacking = {
        "− EG": here.agent.rounds == 0 != whole.agent.rounds,
        "− SD": here.retrieval.scope == "own" and whole.retrieval.scope == "shared",
        "− SR": here.retrieval.order == "random" and whole.retrieval.order == "nearest",
        "− ICR": run.results.demonstrations.asked == 0 < first.results.demonstrations.asked,
    }
    parts = [part for part, lacks in lacking.items() if lacks]
    return parts[0] if len(parts) == 1 else ""


def error_kinds(runs: list[RunData]) -> Plot | None:
    """Shares of the error kinds: by benchmark for one run, by run for several."""
    bars: dict[str, Counter[str]] = {}
    for run in runs:
        benchmark = {t.id: run.title(t.benchmark) for t in run.samples}
        for id, d in run.diagnoses.items():
            bars.setdefault(benchmark[id] if len(runs) == 1 else run.name, Counter())[d.kind] += 1
    if not bars:
        return None

    def draw(axes: Axes) -> None:
        starts = [0.0] * len(bars)
        for n, (kind, text) in enumerate(KINDS.items()):
            shares = [100 * c[kind] / c.total() for c in bars.values()]
            if any(shares):
                colour = INK if kind == "unknown" else _colour(n)
                axes.barh(range(len(bars)), shares, 0.62, left=starts, color=colour, label=text,
                          alpha=0.35 if kind == "unknown" else 1)
                starts = [a + b for a, b in zip(starts, shares, strict=True)]
        axes.set_yticks(range(len(bars)), [f"{name}\nn = {c.total():,}" for name, c in bars.items()])
        axes.invert_yaxis()
        axes.set_xlim(0, 100)
        axes.set_xlabel("per cent of the wrong answers")
        axes.grid(False, axis="y")

    return _plot("error-kinds", "Error kinds", draw, 1.5 + 0.5 * len(bars), legend=True)


def cost(runs: list[RunData]) -> Plot | None:
    """The main metric against the tokens a question takes; one mark per run and benchmark."""
    points = []
    for run in runs:
        for name, b in run.benchmarks.items():
            usage, metric = b.cost.usage, _primary(run, name)
            tokens = (usage.prompt_tokens + usage.completion_tokens) / max(b.questions.answered, 1)
            if tokens and metric:
                points.append((run.name, name, tokens, 100 * metric.value))
    if not points:
        return None
    titles = benchmark_titles(runs)
    names = list(titles)

    def draw(axes: Axes) -> None:
        marks = "os^DvPX*"
        order = [r.name for r in runs]
        for name, b, tokens, value in points:
            mark = marks[names.index(b) % len(marks)]
            axes.plot(tokens, value, mark, color=_colour(order.index(name)), markersize=7, alpha=0.85)
        _cost_legend(axes, runs, list(titles.values()), marks)
        axes.set_xlabel("tokens per question (prompt and replies)")
        axes.set_ylabel("main metric, per cent")
        axes.set_xlim(left=0)
        axes.set_ylim(0, 100)

    return _plot("cost", "Accuracy against cost", draw, 3.3, legend=False)


def _cost_legend(axes: Axes, runs: list[RunData], names: list[str], marks: str) -> None:
    from matplotlib.lines import Line2D

    shapes = [Line2D([], [], marker=marks[n % len(marks)], linestyle="", color=INK, label=b)
              for n, b in enumerate(names)]
    colours = [Line2D([], [], marker="o", linestyle="", color=_colour(n), label=r.name)
               for n, r in enumerate(runs)] if len(runs) > 1 else []
    axes.legend(handles=shapes + colours, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _primary(run: RunData, benchmark: str) -> Metric | None:
    figures = run.benchmarks.get(benchmark)
    return figures.metrics.get(figures.primary) if figures else None


def _model(run: RunData) -> str:
    """What tells models apart: the name, the adapter folder, hashes of the weights that answered."""
    return " + ".join(run.facts[key] for key in ("model", "adapter", "answered by") if key in run.facts)


def _colour(n: int) -> str:
    return PALETTE[n % len(PALETTE)]


def _intervals(axes: Axes, metrics: list[Metric], places: Sequence[float], colour: str, label: str,
               across: bool) -> None:
    """Marks with whiskers; ``across`` draws values along x and places along y."""
    shown = [100 * m.value for m in metrics]
    low = [0 if m.low is None else 100 * (m.value - m.low) for m in metrics]
    high = [0 if m.high is None else 100 * (m.high - m.value) for m in metrics]
    x, y = (shown, places) if across else (places, shown)
    axes.errorbar(x, y, xerr=[low, high] if across else None, yerr=None if across else [low, high], fmt="o",
                  color=colour, markersize=5.5, elinewidth=1.6, label=label)


def _plot(name: str, title: str, draw: Callable[[Axes], None], height: float, legend: bool) -> Plot:
    with _figure(height) as figure:
        axes = figure.subplots()
        draw(axes)
        if legend:
            figure.legend(loc="outside lower center", ncols=3)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return Plot(name, title, buffer.getvalue())


@contextmanager
def _figure(height: float) -> Iterator[Figure]:
    """A figure in our style without pyplot's global state, so that threads may draw."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.2, height), layout="constrained")
        FigureCanvasSVG(figure)
        yield figure
