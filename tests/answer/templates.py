"""Chat templates of other families, rebuilt small, with tokenizers that know their marks."""

from __future__ import annotations

from functools import cache
from typing import Any

CHATML = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
LLAMA3 = ("{% for m in messages %}{% if loop.first %}{{ bos_token }}{% endif %}{{ '<|start_header_id|>' + m['role'] + "
          "'<|end_header_id|>\n\n' + m['content'] | trim + '<|eot_id|>' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}")
MISTRAL = ("{{ bos_token }}{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
           "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
           "{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + ' [/INST]' }}"
           "{% elif m['role'] == 'assistant' %}{{ ' ' + m['content'] + eos_token }}"
           "{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}")
DEEPSEEK = ("{{ bos_token }}{% for m in messages %}{% if m['role'] == 'system' %}{{ m['content'] + '\n\n' }}"
            "{% elif m['role'] == 'user' %}{{ '<｜User｜>' + m['content'] }}"
            "{% else %}{{ '<｜Assistant｜>' + m['content'] + eos_token }}{% endif %}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<｜Assistant｜>' }}{% endif %}")
QWEN3 = ("{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m['role'] == 'user' %}"
         "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
         "{% for m in messages %}{% if m['role'] == 'assistant' %}{% set said = m['content'] %}{% set thought = '' %}"
         "{% if '</think>' in said %}{% set thought = said.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}"
         "{% set said = said.split('</think>')[-1].lstrip('\n') %}{% endif %}"
         "{% if loop.index0 > ns.last and (loop.last or thought) %}"
         "{{ '<|im_start|>assistant\n<think>\n' + thought.strip('\n') + '\n</think>\n\n' + said.lstrip('\n') }}"
         "{% else %}{{ '<|im_start|>assistant\n' + said }}{% endif %}{{ '<|im_end|>\n' }}"
         "{% else %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endif %}{% endfor %}"
         "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
         "{% if enable_thinking is defined and enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}{% endif %}{% endif %}")
FAMILIES: dict[str, tuple[str, tuple[str, ...], str, bool]] = {
    # template, special tokens (the first begins a text), end of turn, system role
    "chatml": (CHATML, ("<|endoftext|>", "<|im_start|>", "<|im_end|>"), "<|im_end|>", True),
    "llama3": (LLAMA3, ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"), "<|eot_id|>", True),
    "mistral": (MISTRAL, ("<s>", "</s>"), "</s>", False),
    "deepseek": (DEEPSEEK, ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"),
                 "<｜end▁of▁sentence｜>", True),
    "qwen3": (QWEN3, ("<|endoftext|>", "<|im_start|>", "<|im_end|>"), "<|im_end|>", True),
}


@cache
def tokenizer_of(family: str) -> Any:
    """A byte-level tokenizer that merges line breaks, fences and words, with the family's marks and template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    template, special, end, _ = FAMILIES[family]
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    text = ["1. Count.\n```python\nresult = [[len(t)]]\n```\n\n\n", "assistant\n\n\n```python\n", "user\nt = pd.DataFrame({'a': [...]})"]
    inner.train_from_iterator(text * 3, trainers.BpeTrainer(
        vocab_size=420, special_tokens=list(special), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    made = PreTrainedTokenizerFast(tokenizer_object=inner, bos_token=special[0], eos_token=end, pad_token=special[0],
                                   additional_special_tokens=list(special[1:]))
    made.chat_template = template
    return made
