"""Prompts and replies: what the model is shown, and what its text means."""

from pandora_train.prompt.build import (
    Demonstration,
    Prompt,
    PromptConfig,
    Question,
    build,
    demonstration_text,
    neutralise,
    question_text,
    render,
    template_hash,
)
from pandora_train.prompt.feedback import feedback
from pandora_train.prompt.reply import Format, ParsedReply, parse_reply, write_reply

__all__ = [
    "Demonstration",
    "Format",
    "ParsedReply",
    "Prompt",
    "PromptConfig",
    "Question",
    "build",
    "demonstration_text",
    "feedback",
    "neutralise",
    "parse_reply",
    "question_text",
    "render",
    "template_hash",
    "write_reply",
]
