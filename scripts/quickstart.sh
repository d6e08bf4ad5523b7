#!/usr/bin/env bash
# The main job, from questions to a distilled, served, evaluated model, on the project's sample data.
#   scripts/quickstart.sh          Qwen2.5-Coder-0.5B, about half an hour on 2 cores after the downloads
#   scripts/quickstart.sh --tiny   the same line with SmolLM2-135M, under ten minutes
# An interrupted run continues where it stopped; a finished one starts anew in a fresh folder with PANDORA_RUNS.
set -euo pipefail
cd "$(dirname "$0")/.."
size=small
case "${1:-}" in
  "") ;;
  --tiny) size=tiny ;;
  *) echo "unknown option $1; see the head of scripts/quickstart.sh" >&2; exit 2 ;;
esac

scripts/setup.sh
. .venv/bin/activate
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
export PANDORA_HOME="${PANDORA_HOME:-$PWD/checkpoints}"
runs="${PANDORA_RUNS:-$PANDORA_HOME/runs}/quickstart-$size"
configs=configs/quickstart
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
model() { sed -n 's/^model: //p' "$configs/$size-train.yaml"; }

say "1/6 Questions: what the sample data holds"
pandora data data/sample

say "2/6 Annotate: gold labels compiled to pandas, kept when the executed answer is gold"
pandora annotate $configs/annotate.yaml --run-dir "$runs/annotate" --resume

say "3/6 Distill: memory to chat rows, checked against the evaluation questions"
pandora distill $configs/distill.yaml memory="[$runs/annotate]" model="$(model)" --run-dir "$runs/distill" --resume

say "4/6 Train: LoRA on $(model)"
pandora train $configs/$size-train.yaml data="$runs/distill" --run-dir "$runs/train" --resume \
  | tee "$runs/adapter.txt"
adapter="$(tail -n 1 "$runs/adapter.txt")"

say "5/6 Serve base and adapter by vLLM, evaluate both"
evaluate="pandora evaluate $configs/$size-evaluate.yaml --resume llm.base_url={base_url}"
pandora serve $configs/serve.yaml model="$(model)" adapters.distilled="$adapter" \
  --then "$evaluate retrieval.memory=$runs/annotate retrieval.k=3 llm.model=base --run-dir $runs/evaluate-icl" \
  --then "$evaluate llm.model=distilled --run-dir $runs/evaluate-distilled"

say "6/6 Compare: demonstrations only (ICL) against distilled"
pandora compare "$runs/evaluate-icl" "$runs/evaluate-distilled" --out "$runs/report.html"
