"""The agent with a scripted model and the real sandbox, through the one place that answers an example."""

import pytest

from pandora_train.answer import Answerer
from pandora_train.errors import MachineryError, PromptTooLong
from pandora_train.llm.protocol import Reply
from pandora_train.llm.scripted import ScriptedLLM
from pandora_train.prompt import PromptConfig
from pandora_train.records import Example, Gold, TableKnowledge
from pandora_train.sandbox import Sandbox, SandboxConfig
from pandora_train.systems.pandora import AgentConfig, Pandora


def fenced(code):
    return f"1. Look it up.\n```python\n{code}\n```"


ANN = fenced("result = singer[singer['name'] == 'Ann'][['age']].values.tolist()")


@pytest.fixture(scope="module")
def runner():
    with Sandbox(SandboxConfig(wall=5)) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    file = tmp_path_factory.mktemp("data") / "singer.csv"
    file.write_text("name,age\nJoe,52\nAnn,30\n")
    return Example(id="x", benchmark="files", split="dev", question="How old is Ann?", group="g",
                   knowledge=TableKnowledge(path=str(file), name="singer"), gold=Gold(answers=("30",)))


@pytest.fixture
def solve(runner, example):
    def solve(replies, rounds=3, prompt=None, **options):
        llm, config = ScriptedLLM(replies), AgentConfig(rounds=rounds, prompt=prompt or PromptConfig())
        answerer = Answerer(Pandora(llm, runner, config), runner, config.prompt, lambda e: e)
        return answerer(example, **options).trajectory, llm

    return solve


def test_a_right_reply_is_one_step(solve):
    trajectory, llm = solve([ANN])
    assert (trajectory.status, trajectory.rows) == ("ok", (("30",),))
    assert len(trajectory.steps) == len(llm.prompts) == trajectory.usage.calls == 1


def test_an_error_goes_back_with_its_line_and_the_correction_counts(solve):
    trajectory, llm = solve([fenced("x = 1\nresult = singer['aeg'].max()"), ANN])
    assert trajectory.status == "ok"
    told = llm.prompts[1][-1]["content"]
    assert "KeyError" in told
    assert "Line 2: result = singer['aeg'].max()" in told
    assert trajectory.steps[0].feedback == told
    assert trajectory.steps[1].feedback == ""
    assert [m["role"] for m in llm.prompts[1]] == ["system", "user", "assistant", "user"]


def test_at_most_l_corrections(solve):
    trajectory, llm = solve([fenced(f"result = nope_{n}") for n in range(9)], rounds=2)
    assert len(llm.prompts) == 3
    assert trajectory.status == "error"
    assert trajectory.rows is None


def test_without_execution_guide_one_call(solve):
    _, llm = solve([fenced("result = []")], rounds=0)
    assert len(llm.prompts) == 1


def test_an_empty_answer_is_fed_back_and_stands_when_repeated(solve):
    none = fenced("result = singer[singer['name'] == 'Bob'].values.tolist()")
    trajectory, llm = solve([none, none, ANN])
    assert len(llm.prompts) == 2
    assert "empty" in llm.prompts[1][-1]["content"]
    assert (trajectory.status, trajectory.rows) == ("empty", ())


def test_a_cut_reply_and_a_reply_without_code_are_steps(solve):
    cut = Reply(text="1. Long\n```python\nresult = [", finish="length")
    trajectory, llm = solve([cut, "I do not know.", ANN])
    assert [bool(s.problem) for s in trajectory.steps] == [True, True, False]
    assert "token limit" in llm.prompts[1][-1]["content"]
    assert trajectory.status == "ok"


def test_a_time_out_is_an_outcome(solve):
    trajectory, _ = solve([fenced("while True: pass")], rounds=0)
    assert trajectory.status == "timeout"


def test_a_prompt_too_long_is_recorded_not_raised(solve):
    def refuse(messages, sample):
        raise PromptTooLong("9000 tokens do not fit 8192")

    trajectory, _ = solve(refuse)
    assert (trajectory.status, trajectory.steps) == ("prompt", ())


def test_a_conversation_grown_too_long_keeps_its_steps(solve):
    def once(messages, sample):
        if len(messages) > 2:
            raise PromptTooLong("too long")
        return fenced("result = nope")

    trajectory, _ = solve(once)
    assert (trajectory.status, len(trajectory.steps)) == ("error", 1)


def test_machinery_is_not_the_models_fault(solve):
    def broken(messages, sample):
        raise MachineryError("server gone")

    with pytest.raises(MachineryError):
        solve(broken)


def test_a_teacher_sees_the_label_and_is_told_when_the_answer_is_wrong(solve):
    trajectory, llm = solve([fenced("result = [[31]]"), ANN], hint=("SQL", "SELECT age FROM singer"), teach=True)
    assert "SELECT age FROM singer" in llm.prompts[0][1]["content"]
    assert "not the expected answer" in llm.prompts[1][-1]["content"]
    assert trajectory.rows == (("30",),)
    assert [s.verdict for s in trajectory.steps] == [True, False]


def test_a_refusal_ends_the_question_as_an_answered_failure(solve):
    refused = Reply(text="", finish="refused", refusal="policy")
    trajectory, llm = solve([fenced("result = nope"), refused, ANN])
    assert (trajectory.ending, trajectory.status, trajectory.scores) == ("answered", "refused", {"da": 0.0})
    assert trajectory.steps[-1].refusal == "policy"
    assert len(llm.prompts) == 2


def test_a_reply_cut_while_thinking_has_no_code_and_is_fed_back(solve):
    thinking = Reply(text="<think>maybe\n```python\nresult = [[31]]\n```", finish="length")
    trajectory, llm = solve([thinking, "<think>no</think>" + ANN])
    assert "token limit" in llm.prompts[1][-1]["content"]
    assert trajectory.scores == {"da": 1.0}


def test_values_reach_the_prompt_when_they_are_asked_for(solve):
    _, llm = solve([ANN], prompt=PromptConfig(values="matched"))
    assert "'name': ['Ann', ...]" in llm.prompts[0][1]["content"]
