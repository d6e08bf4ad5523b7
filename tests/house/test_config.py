import pytest

from pandora_train.config import Config, dump, load
from pandora_train.errors import UserError


class Lora(Config):
    rank: int = 8
    """Rank of the update."""


class Stage(Config):
    lr: float = 1e-4
    """Learning rate."""
    lora: Lora = Lora()
    """Adapter."""
    parts: list[Lora] = []
    """Several."""


def test_exponents_without_a_dot_are_numbers(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("lr: 2e-5\n")
    assert load(Stage, file).lr == 2e-5
    assert load(Stage, file, ["lr=3e-4", "lora.rank=16"]) == Stage(lr=3e-4, lora=Lora(rank=16))


def test_all_wrong_keys_are_told_at_once_with_the_nearest_name():
    with pytest.raises(UserError) as e:
        load(Stage, None, ["lrr=1", "lora.rnk=2", "zzz=3", "parts=[{rnak: 1}]"])
    message = str(e.value)
    assert "lrr (did you mean 'lr'?)" in message
    assert "lora.rnk (did you mean 'rank'?)" in message
    assert "parts.rnak (did you mean 'rank'?)" in message
    assert "zzz" in message


def test_wrong_value_names_its_key():
    with pytest.raises(UserError, match=r"lora\.rank"):
        load(Stage, None, ["lora.rank=many"])


@pytest.mark.parametrize("item", ["lr", "=3", "lr=[1", "lr=2024-13-45"])
def test_broken_override_is_a_user_error(item):
    with pytest.raises(UserError):
        load(Stage, None, [item])


def test_missing_file_suggests_the_nearest(tmp_path):
    (tmp_path / "tiny.yaml").write_text("lr: 1\n")
    with pytest.raises(UserError, match=r"tiny\.yaml"):
        load(Stage, tmp_path / "tinny.yaml")


def test_a_config_file_that_is_not_utf8_is_a_user_error(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_bytes("name: caf\u00e9\n".encode("latin-1"))
    with pytest.raises(UserError, match="UTF-8"):
        load(Stage, file)


def test_dump_loads_back(tmp_path):
    config = Stage(lr=5e-6, parts=[Lora(rank=2)])
    file = tmp_path / "c.yaml"
    file.write_text(dump(config))
    assert load(Stage, file) == config


def test_every_stage_field_is_described():
    from pandora_train.distill import DistillConfig
    from pandora_train.evaluate.run import EvaluateConfig
    from pandora_train.serve import ServeConfig
    from pandora_train.teach.annotate import AnnotateConfig
    from pandora_train.train.config import TrainConfig

    for kind in (AnnotateConfig, DistillConfig, TrainConfig, ServeConfig, EvaluateConfig):
        bare = [n for n, f in kind.model_fields.items() if not f.description]
        assert not bare, f"{kind.__name__}: {bare}"
