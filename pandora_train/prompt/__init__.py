"""Prompts and replies: what the model is shown, and what its text means."""

from pandora_train.prompt.feedback import feedback
from pandora_train.prompt.layout import (
    Demonstration,
    Prompt,
    PromptConfig,
    Question,
    TokenCount,
    lay_out,
)
from pandora_train.prompt.reply import Format, ParsedReply, parse_reply, write_reply
from pandora_train.prompt.text import neutralise, template_hash

__all__ = [
    "Demonstration",
    "Format",
    "ParsedReply",
    "Prompt",
    "PromptConfig",
    "Question",
    "TokenCount",
    "feedback",
    "lay_out",
    "neutralise",
    "parse_reply",
    "template_hash",
    "write_reply",
]
