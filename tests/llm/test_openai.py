"""The OpenAI-compatible backend against real HTTP servers that say, or fail, as the test needs."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pandora_train.errors import MachineryError, PromptTooLong, UserError
from pandora_train.llm import LLMConfig, Message, Reply, open_llm

ASK: list[Message] = [{"role": "user", "content": "How many singers?"}]
BROKEN = ["truncated", "cut json", "wrong shape", "html", "empty choices", "null choices", "dropped", "500", "429", "slow"]


def completion(text: Any = "two", finish: Any = "stop", cached: int | None = 100) -> dict[str, Any]:
    details = None if cached is None else {"cached_tokens": cached}
    return {"id": "1", "object": "chat.completion", "created": 0, "model": "m",
            "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}}],
            "usage": {"prompt_tokens": 400, "completion_tokens": 20, "total_tokens": 420,
                      "prompt_tokens_details": details}}


def error(message: str, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "x", "code": code, "param": param}}


def ask(url: str, question: str = "How many singers?", **fields: Any) -> Reply:
    config = LLMConfig(cache=False, model="m", base_url=url, **{"retries": 1, "pause": 0.001} | fields)
    return open_llm(config).chat([{"role": "user", "content": question}])


def test_reply_usage_and_price(serve: Callable[..., Any]) -> None:
    server = serve(lambda request: (200, completion()))
    reply = ask(server.base_url, price_in=1.0, price_cached=0.5, price_out=4.0, extra_body={"seed": 7})
    assert (reply.text, reply.finish) == ("two", "stop")
    usage = reply.usage
    assert (usage.calls, usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) == (1, 400, 100, 20)
    assert usage.usd == pytest.approx((300 * 1.0 + 100 * 0.5 + 20 * 4.0) / 1e6)
    assert usage.seconds > 0
    sent = server.requests[0]
    assert (sent["temperature"], sent["max_tokens"], sent["seed"]) == (0.0, 512, 7)
    assert server.paths == ["/v1/chat/completions"]


def test_null_temperature_is_left_out(serve: Callable[..., Any]) -> None:
    server = serve(lambda request: (200, completion()))
    ask(server.base_url, temperature=None)
    assert "temperature" not in server.requests[0]


@pytest.mark.parametrize("fault", [*BROKEN, "strange 400"])
def test_without_a_whole_answer_the_question_stays_unfinished(fault_server: Callable[..., Any], fault: str) -> None:
    server = fault_server({"How many singers?": "two"}, faults={"How many singers?": fault})
    with pytest.raises(MachineryError, match="refused this request" if fault == "strange 400" else "after 2 tries"):
        ask(server.base_url, **({"timeout": 0.5} if fault == "slow" else {}))
    if fault != "slow":  # whose requests are still being answered
        assert [c["complete"] for c in server.calls] == [False] * (1 if fault == "strange 400" else 2)


@pytest.mark.parametrize("fault", [f for f in BROKEN if f != "slow"])
def test_a_broken_answer_is_tried_again(fault_server: Callable[..., Any], fault: str) -> None:
    question = f"How many singers? [fault:{fault}-once]"
    server = fault_server({question: "two"})
    assert ask(server.base_url, question).text == "two"
    assert [c["complete"] for c in server.calls] == [False, True]
    assert len({c["key"] for c in server.calls}) == 1


@pytest.mark.parametrize(("fault", "ending"), [
    ("null content", ("", "length", "")), ("refusal", ("", "refused", "I can't help with that.")),
    ("content_filter", ("", "refused", "content_filter")),
    ("400 content_filter", ("", "refused", "The prompt triggered a filter."))])
def test_cut_replies_and_refusals_are_replies(fault_server: Callable[..., Any], fault: str,
                                              ending: tuple[str, str, str]) -> None:
    server = fault_server({"How many singers?": "two"}, faults={"How many singers?": fault})
    reply = ask(server.base_url)
    assert (reply.text, reply.finish, reply.refusal) == ending
    assert reply.usage.calls == 1
    assert len(server.calls) == 1


@pytest.mark.parametrize("choice", [
    {"message": {"content": None, "reasoning_content": "Hm", "refusal": None}, "finish_reason": "length"},
    {"message": {"role": "assistant"}, "finish_reason": "length"}])
def test_thinking_up_to_the_limit_is_a_cut_reply(serve: Callable[..., Any], choice: dict[str, Any]) -> None:
    server = serve(lambda request: (200, {"choices": [choice]}))
    reply = ask(server.base_url)
    assert (reply.text, reply.finish) == ("", "length")


@pytest.mark.parametrize(("status", "body", "kind", "says"), [
    (401, error("bad key"), UserError, "api_key_env"),
    (402, error("top up"), UserError, "quota"),
    (403, error("not yours"), UserError, "api_key_env"),
    (404, error("no such model"), UserError, "does not know the model 'm'"),
    (400, error("x", "model_not_found", "model"), UserError, "does not know the model 'm'"),
    (400, error("This model's maximum context length is 8192 tokens"), PromptTooLong, "does not fit"),
    (413, b"<html>too large</html>", PromptTooLong, "does not fit"),
    (400, error("temperature must be 1"), UserError, r"temperature \(set llm.temperature=null\)"),
    (400, error("Unsupported value", "unsupported_value", "temperature"), UserError, "llm.temperature=null"),
    (422, {"detail": [{"loc": ["body", "top_p"], "msg": "extra fields not permitted: top_p"}]}, UserError, "extra_body"),
    (400, error("something odd"), MachineryError, "refused this request"),
    (307, b"", UserError, "redirects"),
    (500, error("boom"), MachineryError, "after 1 tries"),
    (429, error("pay first", "insufficient_quota"), UserError, "quota"),
])
def test_failures_are_attributed(serve: Callable[..., Any], status: int, body: Any, kind: type[Exception],
                                 says: str) -> None:
    server = serve(lambda request: (status, body))
    with pytest.raises(kind, match=says) as caught:
        ask(server.base_url, retries=0, extra_body={"top_p": 0.9})
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("question", ["Which temperature was highest?", "Which rivers are longer than 100 km?"])
def test_an_error_that_quotes_the_question_is_not_read_as_the_servers_words(serve: Callable[..., Any], question: str) -> None:
    server = serve(lambda request: (400, error(f"cannot handle: {question}")))
    with pytest.raises(MachineryError, match="refused this request"):
        ask(server.base_url, question)


def test_a_filter_that_answers_as_a_bad_key_does(serve: Callable[..., Any]) -> None:
    server = serve(lambda request: (403, error("openai/x requires moderation: your input was flagged", "403")))
    assert ask(server.base_url).finish == "refused"


def test_a_server_that_is_away_is_a_machinery_failure(serve: Callable[..., Any]) -> None:
    server = serve(lambda request: (200, completion()))
    server.close()
    with pytest.raises(MachineryError, match="cannot be reached"):
        ask(server.base_url, retries=0)


def test_a_wait_of_hours_is_not_waited_for(serve: Callable[..., Any]) -> None:
    server = serve(lambda request: (429, error("tomorrow")))
    server.retry_after_ms = "7200000"
    with pytest.raises(MachineryError, match="wait 7200 s"):
        ask(server.base_url)


def test_a_server_that_wants_max_completion_tokens_is_asked_so_from_then_on(serve: Callable[..., Any]) -> None:
    both = threading.Barrier(2, timeout=60)

    def answer(request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if "max_tokens" not in request:
            return 200, completion()
        both.wait()  # two calls are refused at the same time
        return 400, error("Unsupported parameter: 'max_tokens'", "unsupported_parameter", "max_tokens")

    server = serve(answer)
    llm = open_llm(LLMConfig(cache=False, model="m", base_url=server.base_url, retries=0))
    with ThreadPoolExecutor(2) as pool:
        assert [r.text for r in pool.map(llm.chat, [ASK, ASK])] == ["two", "two"]
    assert llm.chat(ASK).text == "two"
    limits = [{"max_tokens", "max_completion_tokens"} & set(request) for request in server.requests]
    assert limits[:2] == [{"max_tokens"}] * 2
    assert limits[2:] == [{"max_completion_tokens"}] * 3


TEXT = st.text(st.characters(codec=None), max_size=5)
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | TEXT,
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=6)
CONTENT = st.none() | st.text(max_size=9) | st.just("\ud800") | JSON
NEARLY = st.fixed_dictionaries({}, optional={
    "choices": JSON | st.lists(st.fixed_dictionaries({}, optional={
        "message": JSON | st.fixed_dictionaries({}, optional={"content": CONTENT, "refusal": CONTENT}),
        "finish_reason": st.sampled_from(["stop", "length", "content_filter", "abort", None]) | JSON}), max_size=2),
    "usage": JSON | st.fixed_dictionaries({}, optional={
        "prompt_tokens": JSON, "completion_tokens": JSON, "prompt_tokens_details": JSON | st.just({"cached_tokens": 1})}),
    "error": JSON | st.fixed_dictionaries({}, optional={"message": JSON, "code": JSON, "type": JSON, "param": JSON})})
BODY = st.binary(max_size=20) | (JSON | NEARLY).map(lambda body: json.dumps(body).encode())


@settings(max_examples=500)
@given(status=st.sampled_from([200, 200, 200, 201, 204, 302, 400, 401, 404, 418, 422, 429, 503, 529]), body=BODY)
def test_whatever_a_server_answers_ends_in_a_reply_or_an_error_of_ours(always: Any, status: int, body: bytes) -> None:
    always.answer = status, b"" if status == 204 else body
    try:
        reply = ask(always.server.base_url, retries=0)
    except (UserError, MachineryError):
        return
    assert status == 200 or reply.finish == "refused"
    assert Reply.model_validate_json(reply.model_dump_json()) == reply


def test_tokens_are_exact_with_a_tokenizer_else_an_upper_estimate(serve: Callable[..., Any], tiny_model: Any) -> None:
    server = serve(lambda request: (200, completion()))
    exact = open_llm(LLMConfig(cache=False, model="m", base_url=server.base_url, tokenizer=str(tiny_model)))
    rendered = "<|im_start|>user\nHow many singers?<|im_end|>\n<|im_start|>assistant\n"
    # one token a byte, one for each of the three marks
    assert exact.count_tokens(ASK) == len(rendered.replace("<|im_start|>", "#").replace("<|im_end|>", "#"))
    assert open_llm(LLMConfig(cache=False, model="m", base_url=server.base_url)).count_tokens(ASK) >= len("How many singers?") / 3
