"""The server of faults as a process of its own, as tests of whole stages start it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pandora_train.errors import MachineryError
from pandora_train.llm import LLMConfig, open_llm

SERVER = Path(__file__).parent / "server.py"
QUESTIONS = {f"How many rivers has country {i}?": f"reply {i}" for i in range(40)}


def test_faults_by_question_and_no_call_repeated_once_it_was_complete(tmp_path: Path) -> None:
    (tmp_path / "answers.json").write_text(json.dumps(QUESTIONS))
    (tmp_path / "faults.json").write_text(json.dumps({"How many rivers has country 0?": "empty choices"}))
    files = {name: str(tmp_path / f"{name}") for name in ("port", "log.jsonl")}
    process = subprocess.Popen([sys.executable, str(SERVER), "--answers", str(tmp_path / "answers.json"),
                                "--faults", str(tmp_path / "faults.json"), "--port-file", files["port"], "--log", files["log.jsonl"],
                                "--spread", "truncated-once,html,dropped-once,refusal,500-once,null choices", "--share", "0.5"])
    try:
        while not Path(files["port"]).exists():
            assert process.poll() is None
            time.sleep(0.02)
        url = f"http://127.0.0.1:{Path(files['port']).read_text()}/v1"
        llm = open_llm(LLMConfig(cache=False, model="m", base_url=url, retries=2, pause=0.001))

        def ask(question: str) -> str:
            try:
                reply = llm.chat([{"role": "system", "content": "Answer."}, {"role": "user", "content": question}])
            except MachineryError:
                return "unfinished"
            return reply.text or reply.finish

        with ThreadPoolExecutor(16) as pool:
            endings = dict(zip(QUESTIONS, pool.map(ask, QUESTIONS), strict=True))
    finally:
        process.terminate()
        process.wait(10)
    calls = [json.loads(line) for line in Path(files["log.jsonl"]).read_text().splitlines()]
    faults = {question: {c["fault"] for c in calls if c["question"] == question} - {""} for question in QUESTIONS}
    assert {fault for names in faults.values() for fault in names} >= {"truncated", "html", "dropped", "refusal", "500"}
    for question, text in QUESTIONS.items():
        lasting = faults[question] & {"html", "null choices", "empty choices"}
        expected = "unfinished" if lasting else "refused" if "refusal" in faults[question] else text
        assert endings[question] == expected
    assert endings["How many rivers has country 0?"] == "unfinished"
    assert max(Counter(c["key"] for c in calls if c["complete"]).values()) == 1
    assert 10 <= sum(1 for names in faults.values() if names) <= 30
