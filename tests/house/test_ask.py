"""What `pandora ask` prints: text of models and data, never read as markup."""

import json

from pandora_train.ask import AskConfig, ask
from pandora_train.llm import LLMConfig


def test_brackets_in_reasoning_code_and_cells_are_shown_as_they_are(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("name,code\nAnn,[/red] [bold]\n")
    reply = "1. Take t[cond] [/INST].\n```python\nresult = t[['code']].values.tolist()\n```"
    script = tmp_path / "script.jsonl"
    script.write_text(json.dumps({"text": reply}) + "\n")
    config = AskConfig(llm=LLMConfig(kind="scripted", script=str(script)))
    ask(config, "Which code?", str(tmp_path / "t.csv"))
    shown = capsys.readouterr().out
    assert "t[cond] [/INST]" in shown
    assert "[/red] [bold]" in shown
