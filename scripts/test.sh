#!/usr/bin/env bash
# From nothing to passing tests: sets up .venv, then lint, types, tests, and the quickstart's tiny line.
#   scripts/test.sh            everything (what CI runs)
#   scripts/test.sh --fast     lint, types and tests that need no weights
set -euo pipefail
cd "$(dirname "$0")/.."
fast=false
case "${1:-}" in
  "") ;;
  --fast) fast=true ;;
  *) echo "unknown option $1; see the head of scripts/test.sh" >&2; exit 2 ;;
esac

if $fast; then scripts/setup.sh --dev --no-serve; else scripts/setup.sh --dev; fi
. .venv/bin/activate
export TOKENIZERS_PARALLELISM=false
PANDORA_HOME="${PANDORA_HOME:-$PWD/checkpoints}"
export PANDORA_HOME

echo "== ruff and mypy"
ruff check .
mypy
echo "== pytest"
if $fast; then
  python -m pytest -m "not slow and not model and not browser"
else
  if ! command -v chromium > /dev/null && [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
    echo "   installing chromium for the tests of the report"
    { apt-get update && apt-get install -y --no-install-recommends chromium chromium-driver; } > /dev/null 2>&1 \
      || echo "   chromium could not be installed: the browser tests will skip"
  fi
  echo "== the main job with the 135M model"
  runs="$(mktemp -d)"
  PANDORA_RUNS="$runs" scripts/quickstart.sh --tiny
  rm -rf "$runs"
  python -m pytest
fi
