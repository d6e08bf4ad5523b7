"""The K nearest entries: exact, never the question's own answer, each text encoded once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pandora_train.box import Schema
from pandora_train.box.schema import SchemaBox, SchemaField
from pandora_train.encoder import SentenceEncoder
from pandora_train.errors import UserError
from pandora_train.memory import Entry, Turn, normal_question, read_entries
from pandora_train.records import content_id
from pandora_train.retrieval import Query, RetrievalConfig, Retriever, embedded, open_retriever
from pandora_train.runs import append_line


class Letters:
    """Bag-of-letters vectors: near texts are near. Counts what it encodes."""

    def __init__(self, name="letters"):
        self.name, self.texts = name, []

    def __call__(self, texts):
        self.texts += texts
        rows = np.array([[t.lower().count(c) for c in "abcdefghijklmnopqrstuvwxyz"] for t in texts], dtype=np.float32)
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PANDORA_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def entry(id, question, benchmark="spider", fields=1, program_id=""):
    schema = Schema(boxes=(SchemaBox(name="t", fields=tuple(SchemaField(name=f"f{n}") for n in range(fields))),))
    return Entry(id=id, benchmark=benchmark, group="g", question=question, boxes=schema, program_id=program_id,
                 turns=(Turn(reasoning="1. a", code="result = 1"),))


ENTRIES = [entry("a", "aaaa b"), entry("b", "bbbb a"), entry("c", "aaab", "wikitq"), entry("d", "zzzz")]


def ids(entries, query, **config):
    retriever = Retriever(entries, Letters())
    return [e.id for e in retriever.nearest([query], RetrievalConfig(**config))[0]]


def test_nearest_first_of_all_tasks_or_only_the_own():
    assert ids(ENTRIES, Query("x", "aaaaa", "spider"), k=3) == ["a", "c", "b"]
    assert ids(ENTRIES, Query("x", "aaaaa", "spider"), k=3, scope="own") == ["a", "b", "d"]


def test_never_the_question_itself_by_id_text_or_label():
    assert "a" not in ids(ENTRIES, Query("a", "anything", "spider"), k=9)
    assert "a" not in ids(ENTRIES, Query("x", "AAAA, b?", "spider"), k=9)
    paraphrase = entry("p", "aaaaaa", program_id="same")
    assert "p" not in ids([*ENTRIES, paraphrase], Query("x", "aaaaa", "spider", "same"), k=9)
    assert ids([*ENTRIES, paraphrase], Query("x", "aaaaa", "spider", "other"), k=1) == ["p"]


def test_entries_with_many_fields_are_passed_over():
    wide = entry("l", "aaaaaa", fields=100)
    assert ids([*ENTRIES, wide], Query("q", "aaaaa", "spider"), k=1) == ["l"]
    assert ids([*ENTRIES, wide], Query("q", "aaaaa", "spider"), k=1, most_fields=99) == ["a"]


def test_random_order_is_the_questions_own_and_the_same_every_time():
    draws = [ids(ENTRIES, Query(q, "aaaa", "spider"), k=4, order="random") for q in ("q1", "q1", *map(str, range(9)))]
    assert draws[0] == draws[1]
    assert len({tuple(d) for d in draws}) > 1


def reference(entries, query, config, scores):
    """The plain way: sort everything, then leave out."""
    allowed = [e.id != query.id and normal_question(e.question) != normal_question(query.question)
               and not (query.program_id and e.program_id == query.program_id)
               and (config.scope == "shared" or e.benchmark == query.benchmark)
               and not 0 < config.most_fields < len(e.boxes.places) for e in entries]
    return [entries[i].id for i in np.argsort(-scores, kind="stable") if allowed[i]][: config.k]


@given(st.lists(st.tuples(st.text("ab", min_size=1, max_size=3), st.sampled_from(["spider", "wikitq"]), st.integers(1, 3),
                          st.sampled_from(["", "p", "q"])), min_size=1, max_size=25),
       st.text("ab", min_size=1, max_size=3), st.integers(0, 12), st.sampled_from(["shared", "own"]), st.integers(0, 2))
def test_equals_a_full_stable_sort(rows, question, k, scope, most_fields):
    entries = [entry(str(n), *row) for n, row in enumerate(rows)]
    encoder, query = Letters(), Query("3", question, "spider", "p")
    config = RetrievalConfig(k=k, scope=scope, most_fields=most_fields)
    scores = (encoder([question]) @ encoder([e.question for e in entries]).T)[0]
    assert ids(entries, query, k=k, scope=scope, most_fields=most_fields) == reference(entries, query, config, scores)


def random_unit(texts):
    """384 random dimensions a text, as wide as a real encoder's: sums whose order shows in the last bit."""
    rows = np.stack([np.random.default_rng(list(t.encode())).standard_normal(384) for t in texts]).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


random_unit.name = "random"


def test_equal_questions_keep_the_memorys_order_whatever_its_size():
    for size in range(20, 60):
        entries = [entry(f"e{n}", f"other {n}" if n % 7 else "the same", fields=1) for n in range(size)]
        retriever, expected = Retriever(entries, random_unit), [f"e{n}" for n in range(0, size, 7)]
        config = RetrievalConfig(k=size)
        for number in range(5):
            nearest = retriever.nearest([Query("x", f"question {number}", "spider")], config)[0]
            assert [e.id for e in nearest if e.question == "the same"] == expected


@pytest.mark.parametrize("order", ["nearest", "random"])
def test_no_query_has_no_neighbours(order):
    assert Retriever(ENTRIES, Letters()).nearest([], RetrievalConfig(k=2, order=order)) == []


@pytest.mark.parametrize("order", ["nearest", "random"])
def test_a_benchmark_without_entries_has_none_of_its_own(order):
    assert ids(ENTRIES, Query("x", "a", "grailqa"), k=2, scope="own", order=order) == []


def test_many_queries_at_once_are_as_one_by_one():
    retriever = Retriever(ENTRIES, Letters())
    queries = [Query("x", text, "spider") for text in ("aaaaa", "bbb", "zz", "aaaa b")]
    config = RetrievalConfig(k=2)
    assert retriever.nearest(queries, config) == [retriever.nearest([q], config)[0] for q in queries]


def test_another_choice_of_entries_encodes_only_what_is_new():
    Retriever(ENTRIES, Letters())
    again = Letters()
    Retriever(ENTRIES[1:], again)
    assert again.texts == []
    more = Letters()
    Retriever([*ENTRIES, entry("e", "new"), entry("f", "new")], more)
    assert more.texts == ["new"]
    other = Letters("other encoder")
    Retriever(ENTRIES, other)
    assert len(other.texts) == 4


@given(st.lists(st.text("abc", max_size=4), min_size=1, max_size=8), st.lists(st.text("abc", max_size=4), min_size=1, max_size=8))
def test_what_is_kept_is_what_the_encoder_says(first, second):
    encoder = Letters()
    embedded(first, encoder)
    assert np.array_equal(embedded(second, encoder), Letters()(second))


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 no zip", b"\0" * 100])
def test_a_damaged_cache_is_made_anew(home, damage):
    embedded(["a"], Letters())
    (file,) = (home / "embeddings").glob("*.npz")
    file.write_bytes(damage)
    assert embedded(["a"], Letters()).shape == (1, 26)
    again = Letters()
    embedded(["a"], again)
    assert again.texts == []


@pytest.mark.parametrize(("keys", "vectors"), [
    (np.array([b"k" * 24]), np.zeros(1, np.float32)),
    (np.array([1.0]), np.zeros((1, 26), np.float32)),
    (np.array([content_id("a", size=24).encode()]), np.full((1, 26), np.nan, np.float32)),
    (np.array([b"k" * 24]), np.ones((1, 3), np.float32)),
])
def test_a_cache_of_another_shape_is_made_anew(home, keys, vectors):
    embedded(["a"], Letters())
    (file,) = (home / "embeddings").glob("*.npz")
    np.savez(file, keys=keys, vectors=vectors)
    assert np.array_equal(embedded(["a"], Letters()), Letters()(["a"]))


def test_what_another_process_stored_meanwhile_stays():
    class Interrupted(Letters):
        def __call__(self, texts):
            embedded(["b"], Letters())  # the other process, while this one encodes
            return super().__call__(texts)

    embedded(["a"], Interrupted())
    again = Letters()
    embedded(["a", "b"], again)
    assert again.texts == []


def test_an_encoder_exchanged_in_its_folder_is_another(tmp_path):
    folder = tmp_path / "encoder"
    folder.mkdir()
    (folder / "weights").write_text("one")
    embedded(["a"], Letters(str(folder)))
    (folder / "weights").write_text("other")
    again = Letters(str(folder))
    embedded(["a"], again)
    assert again.texts == ["a"]


def test_a_cache_that_cannot_be_written_is_a_warning(home):
    home.mkdir()
    (home / "embeddings").write_text("in the way")
    with pytest.warns(UserWarning, match="embeddings are not kept"):
        assert embedded(["a"], Letters()).shape == (1, 26)


def test_a_later_entry_of_the_same_example_wins_and_memories_are_read_as_one(tmp_path):
    for e in (entry("a", "old"), entry("a", "new")):
        append_line(tmp_path / "memory.jsonl", e.model_dump_json())
    append_line(tmp_path / "second.jsonl", entry("a", "third").model_dump_json())
    assert [e.question for e in read_entries(str(tmp_path))] == ["new"]
    assert [e.question for e in read_entries([str(tmp_path), str(tmp_path / "second.jsonl")])] == ["new", "third"]


def test_missing_and_old_memories_say_what_to_do(tmp_path):
    with pytest.raises(UserError, match="pandora annotate"):
        open_retriever(RetrievalConfig(memory=str(tmp_path), k=3), Letters())
    (tmp_path / "memory.jsonl").write_text('{"version": 1, "id": "a", "boxes": "t = ..."}\n')
    with pytest.raises(UserError, match="version 1 of the layout, this is 2"):
        open_retriever(RetrievalConfig(memory=str(tmp_path), k=3), Letters())


@pytest.mark.model
def test_embedded_encoder_knows_what_is_alike():
    v = SentenceEncoder()(["How many singers are there?", "Count the singers.", "Where is the Nile?"])
    assert v.shape == (3, 384)
    assert v[0] @ v[1] > 0.7 > v[0] @ v[2]


@pytest.mark.parametrize("files", [
    None, {}, {"config.json": "{}"}, {"config.json": '{"model_type": "bert"}', "model.safetensors": "version https://git-lfs"}])
def test_an_encoder_that_cannot_be_had_is_a_user_error(tmp_path, monkeypatch, files):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    if files is not None:
        (tmp_path / "encoder").mkdir()
    for name, text in (files or {}).items():
        (tmp_path / "encoder" / name).write_text(text)
    with pytest.raises(UserError, match="no encoder"):
        SentenceEncoder(str(tmp_path / "encoder"))(["a"])
