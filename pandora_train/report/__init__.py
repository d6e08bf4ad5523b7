"""Tables, plots, the one-file HTML report, the terminal view; W&B and the Hub live in their own modules."""

from __future__ import annotations

from pandora_train.report.html import write_report
from pandora_train.report.last_words import compared, evaluated, scored
from pandora_train.report.markdown import markdown_tables
from pandora_train.report.official import write_predictions
from pandora_train.report.show import show

__all__ = ["compared", "evaluated", "markdown_tables", "scored", "show", "write_predictions", "write_report"]
