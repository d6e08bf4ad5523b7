"""The OpenAI-compatible backend against a real HTTP server that says what the test needs."""

from collections.abc import Callable
from typing import Any

import pytest

from pandora_train.errors import MachineryError, PromptTooLong, UserError
from pandora_train.llm import LLMConfig, Message, open_llm

ASK: list[Message] = [{"role": "user", "content": "How many singers?"}]


def completion(text: str | None = "two", finish: str = "stop", cached: int | None = 100) -> dict[str, Any]:
    details = None if cached is None else {"cached_tokens": cached}
    return {"id": "1", "object": "chat.completion", "created": 0, "model": "m",
            "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}}],
            "usage": {"prompt_tokens": 400, "completion_tokens": 20, "total_tokens": 420,
                      "prompt_tokens_details": details}}


def error(message: str, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "x", "code": code}}


def test_reply_usage_and_price(serve: Callable[..., Any]) -> None:
    server = serve(lambda request: (200, completion()))
    llm = open_llm(LLMConfig(model="m", base_url=server.base_url, price_in=1.0, price_cached=0.5, price_out=4.0,
                             extra_body={"seed": 7}))
    reply = llm.chat(ASK)
    assert (reply.text, reply.finish) == ("two", "stop")
    usage = reply.usage
    assert (usage.calls, usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) == (1, 400, 100, 20)
    assert usage.usd == pytest.approx((300 * 1.0 + 100 * 0.5 + 20 * 4.0) / 1e6)
    assert usage.seconds > 0
    sent = server.requests[0]
    assert (sent["temperature"], sent["max_tokens"], sent["seed"]) == (0.0, 512, 7)


def test_a_cut_reply_says_so_and_an_empty_one_is_text(serve: Callable[..., Any]) -> None:
    server = serve(lambda request: (200, completion(None, "length", cached=None)))
    reply = open_llm(LLMConfig(model="m", base_url=server.base_url)).chat(ASK)
    assert (reply.text, reply.finish, reply.usage.cached_tokens) == ("", "length", 0)


def test_null_temperature_is_left_out(serve: Callable[..., Any]) -> None:
    server = serve(lambda request: (200, completion()))
    open_llm(LLMConfig(model="m", base_url=server.base_url, temperature=None)).chat(ASK)
    assert "temperature" not in server.requests[0]


def test_rate_limits_and_server_errors_are_retried(serve: Callable[..., Any]) -> None:
    answers = iter([(429, error("slow down")), (503, error("busy")), (200, completion())])
    server = serve(lambda request: next(answers))
    assert open_llm(LLMConfig(model="m", base_url=server.base_url)).chat(ASK).text == "two"
    assert len(server.requests) == 3


@pytest.mark.parametrize(("status", "body", "kind", "says"), [
    (401, error("bad key"), UserError, "OPENAI_API_KEY"),
    (404, error("no such model"), UserError, "does not know the model 'm'"),
    (400, error("This model's maximum context length is 8192 tokens"), PromptTooLong, "does not fit"),
    (400, error("temperature must be 1"), UserError, "refused the request"),
    (500, error("boom"), MachineryError, "after 1 tries"),
    (429, error("pay first", "insufficient_quota"), UserError, "quota"),
])
def test_failures_are_attributed(serve: Callable[..., Any], status: int, body: dict[str, Any],
                                 kind: type[Exception], says: str) -> None:
    server = serve(lambda request: (status, body))
    with pytest.raises(kind, match=says) as caught:
        open_llm(LLMConfig(model="m", base_url=server.base_url, retries=0)).chat(ASK)
    assert type(caught.value) is kind


def test_a_server_that_is_away_is_a_machinery_failure(serve: Callable[..., Any]) -> None:
    server = serve(lambda request: (200, completion()))
    llm = open_llm(LLMConfig(model="m", base_url=server.base_url, retries=0))
    server.close()
    with pytest.raises(MachineryError, match="cannot be reached"):
        llm.chat(ASK)


def test_a_remote_api_needs_its_key_and_shows_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    config = LLMConfig(model="gpt-4o-mini", api_key_env="MY_KEY")
    with pytest.raises(UserError, match="MY_KEY"):
        open_llm(config)
    monkeypatch.setenv("MY_KEY", "sk-secret")
    assert "sk-secret" not in config.model_dump_json() + repr(open_llm(config).__dict__)


def test_tokens_are_exact_with_a_tokenizer_else_an_upper_estimate(serve: Callable[..., Any], tiny_model: Any) -> None:
    server = serve(lambda request: (200, completion()))
    exact = open_llm(LLMConfig(model="m", base_url=server.base_url, tokenizer=str(tiny_model)))
    rendered = "<|im_start|>user\nHow many singers?<|im_end|>\n<|im_start|>assistant\n"
    # one token a byte, one for each of the three marks
    assert exact.count_tokens(ASK) == len(rendered.replace("<|im_start|>", "#").replace("<|im_end|>", "#"))
    assert open_llm(LLMConfig(model="m", base_url=server.base_url)).count_tokens(ASK) >= len("How many singers?") / 3
