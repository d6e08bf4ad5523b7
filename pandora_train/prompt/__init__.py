"""Prompts and replies: what the model is shown, and what its text means."""

from pandora_train.prompt.build import Demonstration, Prompt, PromptConfig, build, neutralise, template_hash
from pandora_train.prompt.feedback import feedback
from pandora_train.prompt.reply import Format, ParsedReply, parse_reply, write_reply

__all__ = ["Demonstration", "Format", "ParsedReply", "Prompt", "PromptConfig", "build", "feedback",
           "neutralise", "parse_reply", "template_hash", "write_reply"]
