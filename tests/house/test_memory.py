import numpy as np
import pytest

from pandora_train.errors import UserError
from pandora_train.memory import Entry, Memory, RetrievalConfig, Turn, open_memory
from pandora_train.runs import append_line


def encode(texts):
    """Bag-of-letters vectors: near texts are near."""
    encode.calls += 1
    rows = np.array([[t.lower().count(c) for c in "abcdefghijklmnopqrstuvwxyz"] for t in texts], dtype=np.float32)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


encode.name = "letters"
encode.calls = 0


def entry(id, question, benchmark="spider"):
    return Entry(id=id, benchmark=benchmark, group="g", question=question, boxes="t = ...",
                 turns=(Turn(reasoning="1. a", code="result = 1"),))


ENTRIES = [entry("a", "aaaa b"), entry("b", "bbbb a"), entry("c", "aaab", "wikitq"), entry("d", "zzzz")]


def test_nearest_first_of_all_tasks_or_only_the_own():
    memory = Memory(ENTRIES, encode)
    assert [e.id for e in memory.nearest("x", "aaaaa", "spider", RetrievalConfig(k=3))] == ["a", "c", "b"]
    own = memory.nearest("x", "aaaaa", "spider", RetrievalConfig(k=3, scope="own"))
    assert [e.id for e in own] == ["a", "b", "d"]


def test_never_the_question_itself_by_id_or_text():
    memory = Memory(ENTRIES, encode)
    assert "a" not in [e.id for e in memory.nearest("a", "anything", "spider", RetrievalConfig(k=9))]
    assert "a" not in [e.id for e in memory.nearest("x", "AAAA, b?", "spider", RetrievalConfig(k=9))]


def test_entries_with_long_schemas_are_passed_over():
    long = entry("l", "aaaaaa").model_copy(update={"boxes": "x" * 100})
    memory = Memory([*ENTRIES, long], encode)
    assert memory.nearest("q", "aaaaa", "spider", RetrievalConfig(k=1))[0].id == "l"
    assert memory.nearest("q", "aaaaa", "spider", RetrievalConfig(k=1, longest=99))[0].id == "a"


def test_random_order_is_the_same_every_time():
    memory = Memory(ENTRIES, encode)
    config = RetrievalConfig(k=4, order="random")
    draws = [[e.id for e in memory.nearest("q1", "aaaa", "spider", config)] for _ in range(2)]
    assert draws[0] == draws[1]


def test_embeddings_are_computed_once(tmp_path):
    before = encode.calls
    Memory(ENTRIES, encode, tmp_path)
    Memory(ENTRIES, encode, tmp_path)
    assert encode.calls == before + 1


def test_a_later_entry_of_the_same_example_wins(tmp_path):
    for e in (entry("a", "old"), entry("a", "new")):
        append_line(tmp_path / "memory.jsonl", e.model_dump_json())
    from pandora_train.memory import read_entries

    assert [e.question for e in read_entries(tmp_path)] == ["new"]


def test_missing_memory_says_how_to_make_one(tmp_path):
    with pytest.raises(UserError, match="pandora annotate"):
        open_memory(RetrievalConfig(memory=str(tmp_path), k=3))


@pytest.mark.model
def test_embedded_encoder_knows_what_is_alike():
    from pandora_train.memory import SentenceEncoder

    v = SentenceEncoder()(["How many singers are there?", "Count the singers.", "Where is the Nile?"])
    assert v.shape == (3, 384)
    assert v[0] @ v[1] > 0.7 > v[0] @ v[2]


def test_an_encoder_that_cannot_be_had_is_a_user_error(monkeypatch):
    import sentence_transformers

    from pandora_train.memory import SentenceEncoder

    def unreachable(path, device):
        raise OSError("no hub")

    monkeypatch.setattr(sentence_transformers, "SentenceTransformer", unreachable)
    with pytest.raises(UserError, match="no encoder"):
        SentenceEncoder("no/such")(["a"])
