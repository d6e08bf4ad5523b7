"""Hints."""
from __future__ import annotations
from typing import Any
import pandas as pd


def for_error(error: BaseException, message: str, line: int | None, code: str, names: dict[str, Any],
              frames: dict[str, pd.DataFrame]) -> str:
    return ""


def for_empty(code: str, names: dict[str, Any], frames: dict[str, pd.DataFrame]) -> str:
    return ""
