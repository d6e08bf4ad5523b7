"""The scripted model."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pandora_train.errors import UserError
from pandora_train.llm import LLMConfig, Message, Reply, ScriptedLLM, open_llm


def ask(text: str) -> list[Message]:
    return [{"role": "system", "content": "s"}, {"role": "user", "content": text}]


def test_replies_come_in_order_and_end_with_a_message() -> None:
    llm = ScriptedLLM(["a", Reply(text="b", finish="length")])
    assert [llm.chat(ask("1")).text, llm.chat(ask("2")).finish] == ["a", "length"]
    with pytest.raises(UserError, match="no reply is left"):
        llm.chat(ask("3"))
    assert [p[-1]["content"] for p in llm.prompts] == ["1", "2", "3"]


def test_lines_find_their_question_whatever_the_order(tmp_path: Path) -> None:
    script = tmp_path / "replies.jsonl"
    script.write_text("".join(f'{{"text": "answer {i}", "contains": "question {i}."}}\n' for i in range(20)))
    llm = open_llm(LLMConfig(kind="scripted", script=str(script)))
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda i: llm.chat(ask(f"question {i}.")).text, reversed(range(20))))
    assert texts == [f"answer {i}" for i in reversed(range(20))]


def test_a_function_sees_messages_and_sample() -> None:
    llm = ScriptedLLM(lambda messages, sample: f"{messages[-1]['content']}{sample}")
    reply = llm.chat(ask("q"), sample=3)
    assert reply.text == "q3"
    assert reply.usage.calls == 1
    assert reply.usage.prompt_tokens == llm.count_tokens(ask("q")) > 0


@pytest.mark.parametrize(("content", "says"), [(None, "no script"), ('{"text": 1}\n', "line 1"),
                                               ('{"text": "a"}\n{"txt": "b"}\n', "line 2")])
def test_a_bad_script_is_named(tmp_path: Path, content: str | None, says: str) -> None:
    script = tmp_path / "replies.jsonl"
    if content is not None:
        script.write_text(content)
    with pytest.raises(UserError, match=says):
        open_llm(LLMConfig(kind="scripted", script=str(script)))


@pytest.mark.parametrize(("config", "says"), [
    (LLMConfig(kind="scripted"), "llm.script"), (LLMConfig(), "llm.model is empty"),
    (LLMConfig(model="m", adapter="x", base_url="http://h/v1"), "llm.adapter")])
def test_open_says_what_is_missing(config: LLMConfig, says: str) -> None:
    with pytest.raises(UserError, match=says):
        open_llm(config)


def test_a_refusal_can_be_scripted(tmp_path: Path) -> None:
    refusal = Reply(text="", finish="refused", refusal="No.")
    file = tmp_path / "script.jsonl"
    file.write_text('{"text": "", "finish": "refused", "refusal": "No."}\n')
    for llm in (ScriptedLLM([refusal]), ScriptedLLM.from_file(file)):
        said = llm.chat([{"role": "user", "content": "q"}])
        assert (said.finish, said.refusal) == ("refused", "No.")
