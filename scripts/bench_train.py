"""Training speed and memory: ours against trl's SFTTrainer at its best, in turn, on the same rows and model.

    python scripts/bench_train.py [--model ID] [--rows PARQUET | --spider FOLDER] [--json FILE] [--quick]
    python scripts/bench_train.py --held-out-loss      does mixing fewer databases per step hurt learning?
    python scripts/bench_train.py --device cuda --shape 7b      random weights of that size, bf16

Each measurement is a process of its own (peak memory is the process's) that trains twice on the rows,
timing the second pass; the kinds take turns, the median is shown. On one CPU thread the clock is the
process's CPU time, so that busy neighbours matter little; otherwise it is wall time. trl gets labels on
assistant turns, its fused head (labelled positions only), LoRA as ours, and what was fastest of batches of
1 or 4 and of sdpa or eager attention: on CPU row by row (no padding), in bf16 with eager attention (torch's
fused CPU kernel does not use the bf16 units); on GPU it pads batches of 8 rows sorted by length. ``trl
packed`` packs rows (bfd, padding-free).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("ours", "trl", "trl packed")
SHAPES = {  # Qwen2.5-Coder: hidden, intermediate, layers, heads, key-value heads, tied head
    "0.5b": (896, 4864, 24, 14, 2, True),
    "1.5b": (1536, 8960, 28, 12, 2, True),
    "7b": (3584, 18944, 28, 28, 4, False),
}
Row = dict[str, Any]


def main() -> None:
    """Parse, measure, print, write."""
    arguments = _parser().parse_args()
    if arguments.quick:
        arguments.databases, arguments.branches, arguments.repeats, arguments.steps = 2, 2, 1, 1
        arguments.threads, arguments.kinds = 2, ["ours", "trl"]
    if arguments.precision == "auto":
        arguments.precision = _precision(arguments)
    if arguments.worker:
        print(json.dumps(_worker(arguments)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        if not arguments.rows:
            arguments.rows = str(Path(scratch) / "rows.parquet")
            size = (arguments.databases * arguments.steps, arguments.branches)
            if arguments.held_out_loss:
                size = (arguments.groups, arguments.per_group)
            _write(spider_rows(Path(arguments.spider), *size), arguments.rows)
        figures = held_out_loss(arguments, scratch) if arguments.held_out_loss else compare(arguments)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="pypi:smollm2-135m-instruct")
    parser.add_argument("--rows", default="", help="SFT rows (Parquet); default: made from --spider")
    parser.add_argument("--spider", default=str(ROOT.parent / "shared" / "data" / "spider"))
    parser.add_argument("--databases", type=int, default=8, help="databases per optimizer step")
    parser.add_argument("--branches", type=int, default=2, help="rows per database in a step")
    parser.add_argument("--steps", type=int, default=1, help="optimizer steps of one pass")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--micro-tokens", type=int, default=2048)
    parser.add_argument("--precision", choices=["auto", "fp32", "bf16"], default="auto",
                        help="auto: as training would")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--shape", choices=list(SHAPES), help="random weights of this size")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=KINDS)
    parser.add_argument("--held-out-loss", action="store_true")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--groups", type=int, default=100, help="databases of the held-out-loss test")
    parser.add_argument("--per-group", type=int, default=8, help="its rows per database")
    parser.add_argument("--lr", type=float, default=1e-3, help="its learning rate")
    parser.add_argument("--json", help="write the figures here")
    parser.add_argument("--quick", action="store_true", help="one small measurement each")
    parser.add_argument("--worker", choices=KINDS, help=argparse.SUPPRESS)
    return parser


def _precision(arguments: argparse.Namespace) -> str:
    import torch

    from pandora_train.train import TrainConfig
    from pandora_train.train.base import precision

    chosen = precision(TrainConfig(data=""), torch.device(arguments.device))
    return "bf16" if chosen == torch.bfloat16 else "fp32"


# --- rows -------------------------------------------------------------------------------------------------


def spider_rows(folder: Path, databases: int, per_database: int) -> list[Row]:
    """SFT rows of Spider's training questions, answers by the label compiler; ``databases`` of even size."""
    from pandora_train.box import boxes_for, schema_of
    from pandora_train.compile import Unsupported, compile_label
    from pandora_train.prompt import PromptConfig, Question, lay_out, write_reply
    from pandora_train.sources import DataConfig, load

    groups: dict[str, list[Any]] = defaultdict(list)
    for example in load(DataConfig(benchmark="spider", path=str(folder), split="train")):
        groups[example.group].append(example)
    rows: list[Row] = []
    for name in sorted(groups, key=lambda g: hash_order(g)):
        made: list[Row] = []
        for example in sorted(groups[name], key=lambda e: hash_order(e.id)):
            boxes = boxes_for(example.knowledge)
            with contextlib.suppress(Unsupported):
                compiled = compile_label(example, boxes)
                question = Question(example.question)
                prompt = lay_out(PromptConfig(), schema_of(boxes), question, [], lambda _: 0)
                reply = write_reply(compiled.reasoning, compiled.code, "fenced")
                made.append({"id": example.id, "benchmark": "spider", "group": name,
                             "prompt": prompt.messages(),
                             "completion": [{"role": "assistant", "content": reply}]})
            if len(made) == per_database:
                break
        if len(made) == per_database:
            rows += made
        if len(rows) == databases * per_database:
            return rows
    raise SystemExit(f"{folder} has fewer than {databases} databases with {per_database} compiled questions")


def hash_order(text: str) -> str:
    """A fixed shuffle."""
    from pandora_train.records import content_id

    return content_id("bench_train", text)


def _write(rows: list[Row], file: str) -> None:
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    pq.write_table(pa.Table.from_pylist(rows), file)


# --- speed ------------------------------------------------------------------------------------------------


def compare(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the kinds in turn, ``repeats`` times, and print medians."""
    runs: dict[str, list[dict[str, float]]] = {kind: [] for kind in arguments.kinds}
    for repeat in range(arguments.repeats):
        for kind in arguments.kinds:
            runs[kind].append(_spawn(arguments, kind))
            print(f"  {repeat + 1}/{arguments.repeats} {kind}: {runs[kind][-1]['rows_per_s']:.3f} rows/s",
                  file=sys.stderr)
    medians = {kind: {key: statistics.median(r[key] for r in done) for key in done[0]}
               for kind, done in runs.items()}
    best = max((m["rows_per_s"] for kind, m in medians.items() if kind != "ours"), default=float("nan"))
    clock = "CPU time" if arguments.device == "cpu" and arguments.threads == 1 else "wall time"
    print(f"{arguments.shape or arguments.model}, {arguments.precision}, {arguments.threads} thread(s), "
          f"{arguments.databases} databases x {arguments.branches} rows a step; {clock}; median of "
          f"{arguments.repeats}")
    print("| kind | rows/s | labels/s | tokens run/row | share of matmul peak | peak GB | wall s |")
    print("|---|---|---|---|---|---|---|")
    for kind, m in medians.items():
        print(f"| {kind} | {m['rows_per_s']:.3f} | {m['labels_per_s']:.1f} | {m['tokens_per_row']:.0f} "
              f"| {m['peak_share']:.0%} | {m['memory_gb']:.2f} | {m['wall']:.1f} |")
    ratio = medians["ours"]["rows_per_s"] / best if "ours" in medians else float("nan")
    print(f"ours / best of trl: {ratio:.2f}")
    return {"settings": {k: v for k, v in vars(arguments).items() if k not in ("worker", "json", "rows")},
            "runs": runs, "medians": medians, "ratio": ratio}


def _spawn(arguments: argparse.Namespace, kind: str) -> dict[str, float]:
    command = [sys.executable, __file__, "--worker", kind]
    for name in ("model", "rows", "databases", "branches", "steps", "threads", "micro_tokens", "precision",
                 "device", "shape"):
        if (value := getattr(arguments, name)) is not None:
            command += [f"--{name.replace('_', '-')}", str(value)]
    environment = os.environ | {"OMP_NUM_THREADS": str(arguments.threads), "TOKENIZERS_PARALLELISM": "false",
                                "OMP_WAIT_POLICY": "passive", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"{kind} failed:\n{done.stderr[-3000:]}")
    result: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def _worker(arguments: argparse.Namespace) -> dict[str, float]:
    import torch

    torch.set_num_threads(arguments.threads)
    if arguments.worker == "ours":
        return _ours(arguments)
    return _trl(arguments, packing=arguments.worker == "trl packed")


def _clock(arguments: argparse.Namespace) -> Callable[[], float]:
    """Seconds: CPU time of a single thread, else wall time (synchronised on GPU)."""
    if arguments.device == "cpu":
        return time.process_time if arguments.threads == 1 else time.perf_counter
    import torch

    def synchronised() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    return synchronised


def _base(arguments: argparse.Namespace) -> tuple[str, str]:
    """(model folder, tokenizer folder); a ``--shape`` is written once with random weights."""
    from pandora_train.config import home
    from pandora_train.llm.weights import resolve

    tokenizer = str(resolve(arguments.model))
    if not arguments.shape:
        return tokenizer, tokenizer
    import torch
    from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

    folder = home() / "models" / f"random-{arguments.shape}"
    if not (folder / "config.json").exists():
        hidden, inner, layers, heads, kv_heads, tied = SHAPES[arguments.shape]
        config = Qwen2Config(vocab_size=151936, hidden_size=hidden, intermediate_size=inner,
                             num_hidden_layers=layers, num_attention_heads=heads, tie_word_embeddings=tied,
                             num_key_value_heads=kv_heads, max_position_embeddings=32768)
        with torch.device(arguments.device):
            Qwen2ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tokenizer).save_pretrained(folder)
    return str(folder), str(folder)


def _ours(arguments: argparse.Namespace) -> dict[str, float]:
    from accelerate import Accelerator

    from pandora_train.rows import read_rows
    from pandora_train.train import TrainConfig
    from pandora_train.train.base import load_adapted, load_tokenizer
    from pandora_train.train.checkpoint import Position
    from pandora_train.train.encode import encode_rows
    from pandora_train.train.loop import Loop
    from pandora_train.train.plan import micro_batches
    from pandora_train.train.track import Tracker
    from pandora_train.train.tree import build_tree

    folder, tokenizer_folder = _base(arguments)
    config = TrainConfig(data=arguments.rows, model=folder, device=arguments.device,
                         precision=arguments.precision, branches=arguments.branches,
                         batch_size=arguments.branches * arguments.databases,
                         micro_tokens=arguments.micro_tokens, max_tokens=4096, threads=arguments.threads,
                         epochs=2)
    accelerator = Accelerator(cpu=arguments.device == "cpu")
    tokenizer = load_tokenizer(tokenizer_folder)
    samples, _ = encode_rows(read_rows(config.data), tokenizer, config.max_tokens)
    model = load_adapted(folder, config, accelerator.device)
    with tempfile.TemporaryDirectory() as run:
        loop = Loop(config, model, tokenizer, accelerator, Path(run), samples, [])
        quiet = Tracker(Path(run), 1, 0, config, "off", "bench", False)
        at = Position()
        for _ in loop.plan.steps[:loop.plan.per_epoch]:
            at = loop.step(at, quiet)
        clock, wall = _clock(arguments), time.perf_counter()
        start, timed = clock(), loop.plan.steps[loop.plan.per_epoch:]
        for _ in timed:
            at = loop.step(at, quiet)
        seconds, wall = clock() - start, time.perf_counter() - wall
    rows = [samples[i] for step in timed for i in step]
    trees = [build_tree(b) for step in timed
             for b in micro_batches([samples[i] for i in step], config.micro_tokens, True)]
    pairs = sum((n.stop - n.start) * (sum(t.nodes[j].stop - t.nodes[j].start for j in n.above)
                                      + (n.stop - n.start) / 2) for t in trees for n in t.nodes)
    return _figures(arguments, model.get_base_model(), seconds, wall, len(rows), sum(r.targets for r in rows),
                    sum(t.input_ids.shape[1] for t in trees), pairs)


def _trl(arguments: argparse.Namespace, packing: bool) -> dict[str, float]:
    from datasets import load_dataset
    from peft import LoraConfig
    from transformers import AutoTokenizer, TrainerCallback
    from trl import SFTConfig, SFTTrainer

    from pandora_train.train.config import LINEAR

    folder, tokenizer_folder = _base(arguments)
    data = load_dataset("parquet", data_files=arguments.rows, split="train")
    batch = arguments.branches * arguments.databases
    bf16 = arguments.precision == "bf16"
    rows_each = 1 if packing or arguments.device == "cpu" else min(8, batch)
    attention = "eager" if bf16 and arguments.device == "cpu" and not packing else "sdpa"
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    with tempfile.TemporaryDirectory() as out:
        options = SFTConfig(
            output_dir=out, report_to=[], save_strategy="no", logging_steps=1, num_train_epochs=2,
            learning_rate=2e-4, bf16=bf16, use_cpu=arguments.device == "cpu",
            gradient_checkpointing=False, dataloader_pin_memory=False, packing=packing,
            max_length=arguments.micro_tokens if packing else 4096,
            per_device_train_batch_size=rows_each,
            gradient_accumulation_steps=1 if packing else batch // rows_each,
            train_sampling_strategy="random" if rows_each == 1 else "group_by_length",
            model_init_kwargs={"dtype": "bfloat16" if bf16 else "float32", "attn_implementation": attention})
        clock, now = _clock(arguments), Counter[str]()
        times: list[tuple[float, float, Counter[str]]] = []

        class Timer(TrainerCallback):  # type: ignore[misc]
            def on_step_begin(self, *_: Any, **__: Any) -> None:
                times.append((clock(), time.perf_counter(), Counter(now)))

            on_train_end = on_step_begin

        trainer = SFTTrainer(model=folder, args=options, train_dataset=data, callbacks=[Timer()],
                             processing_class=tokenizer,
                             peft_config=LoraConfig(r=8, lora_alpha=16, target_modules=LINEAR))
        forward = trainer.compute_loss

        def counting(model: Any, inputs: Any, *a: Any, **k: Any) -> Any:
            shape = inputs["input_ids"].shape
            starts = (inputs["position_ids"] == 0).sum() if packing else shape[0]
            now.update(tokens=shape.numel(), pairs=shape[0] * shape[1] ** 2 // 2, rows=int(starts),
                       labels=int((inputs["labels"] != -100).sum()))
            return forward(model, inputs, *a, **k)

        trainer.compute_loss = counting
        trainer.train()
    (start, wall, before), (end, wall_end, after) = times[len(times) // 2], times[-1]  # the second epoch
    done = after - before
    return _figures(arguments, trainer.model.get_base_model(), end - start, wall_end - wall, done["rows"],
                    done["labels"], done["tokens"], done["pairs"])


def _figures(arguments: argparse.Namespace, base: Any, seconds: float, wall: float, rows: float,
             labels: float, tokens: float, pairs: float) -> dict[str, float]:
    """Rates, memory, and the share of the measured matmul peak that the executed products amount to.

    A frozen linear layer costs 2 FLOP a weight and token forward and 2 backward; the head the same at labels;
    attention 4 FLOP a pair, head and channel forward and 10 backward (recomputing the scores).
    """
    config = base.config
    linear = sum(m.weight.numel() for n, m in base.named_modules()
                 if hasattr(m, "base_layer") and hasattr(m, "weight"))
    head = base.get_output_embeddings().weight.numel()
    width = config.num_attention_heads * (config.hidden_size // config.num_attention_heads)
    flop = 4 * linear * tokens + 4 * head * labels + 14 * pairs * width * config.num_hidden_layers
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if arguments.device == "cuda":
        import torch

        memory = torch.cuda.max_memory_allocated()
    return {"rows_per_s": rows / seconds, "labels_per_s": labels / seconds, "tokens_per_row": tokens / rows,
            "seconds": seconds, "wall": wall, "peak_share": flop / seconds / _peak(arguments, config),
            "memory_gb": memory / 2**30}


def _peak(arguments: argparse.Namespace, config: Any) -> float:
    """FLOP/s of a large product with the model's shape, best of several, by the same clock."""
    import torch

    dtype = torch.bfloat16 if arguments.precision == "bf16" else torch.float32
    a = torch.randn(2048, config.hidden_size, dtype=dtype, device=arguments.device)
    b = torch.randn(config.intermediate_size, config.hidden_size, dtype=dtype, device=arguments.device)
    clock, best = _clock(arguments), float("inf")
    with torch.no_grad():
        for _ in range(12):
            start = clock()
            for _ in range(4):
                torch.nn.functional.linear(a, b)
            best = min(best, (clock() - start) / 4)
    return 2 * a.shape[0] * a.shape[1] * b.shape[0] / best


# --- does sharing hurt learning? --------------------------------------------------------------------------


def held_out_loss(arguments: argparse.Namespace, scratch: str) -> dict[str, Any]:
    """Held-out loss after the same rows: bundles of ``branches`` against ordinary shuffling."""
    from pandora_train.train import TrainConfig, train

    found: dict[str, list[float]] = {"bundled": [], "shuffled": []}
    for seed in range(arguments.seeds):
        for name, branches in (("bundled", arguments.branches), ("shuffled", 1)):
            config = TrainConfig(name=f"{name}-{seed}", data=arguments.rows, model=arguments.model, seed=seed,
                                 branches=branches, batch_size=arguments.branches * arguments.databases,
                                 micro_tokens=arguments.micro_tokens, precision=arguments.precision,
                                 device=arguments.device, held_out=0.2, threads=arguments.threads,
                                 lr=arguments.lr)
            adapter = train(config, Path(scratch) / config.name)
            results = json.loads((adapter.parent / "results.json").read_text(encoding="utf-8"))
            found[name].append(results["best_held_out_loss"])
            print(f"seed {seed}, {name}: {found[name][-1]:.5f} ({results['rows']} rows)", flush=True)
    means = {name: statistics.mean(losses) for name, losses in found.items()}
    print(f"mean held-out loss: bundled {means['bundled']:.5f}, shuffled {means['shuffled']:.5f}, "
          f"ratio {means['bundled'] / means['shuffled']:.4f}")
    return {"held_out_loss": found, "means": means, "ratio": means["bundled"] / means["shuffled"]}


if __name__ == "__main__":
    main()
