"""``pandora push`` against a local stand-in for the Hub's API."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from pandora_train.errors import MachineryError, UserError
from pandora_train.report.push import PushConfig, card, push, without_paths, write_folder


class Hub(ThreadingHTTPServer):
    """Keeps repositories in memory; speaks the parts of the API that an upload needs."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repos: dict[str, dict[str, Any]] = {}
        self.blobs: dict[str, bytes] = {}
        self.commits: list[str] = []
        self.tokens: set[str] = set()
        self.refuse = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *_: Any) -> None: ...

    def answer(self, data: Any, code: int = 200) -> None:
        body = json.dumps(data).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def do_PUT(self) -> None:
        data = self.body()
        assert hashlib.sha256(data).hexdigest() == self.path.rsplit("/", 1)[1]
        self.server.blobs[self.path.rsplit("/", 1)[1]] = data
        self.answer({})

    def do_GET(self) -> None:
        self.answer({"error": "not found"}, 404)

    def do_POST(self) -> None:
        data = self.body()
        path = self.path.split("?")[0]
        self.server.tokens.add(self.headers.get("Authorization", ""))
        if self.server.refuse:
            self.answer({"error": "no"}, self.server.refuse)
        elif path == "/api/repos/create":
            self.create(json.loads(data))
        elif path == "/api/validate-yaml":
            self.answer({"errors": [], "warnings": []})
        elif "/preupload/" in path:
            self.answer({"files": [{"path": f["path"], "shouldIgnore": False, "uploadMode": mode(f["path"])}
                                   for f in json.loads(data)["files"]]})
        elif path.endswith("/info/lfs/objects/batch"):
            self.batch(json.loads(data))
        elif "/commit/" in path:
            self.commit(path, data)
        else:
            self.answer({"error": path}, 404)

    def create(self, asked: dict[str, Any]) -> None:
        name = f"{asked.get('organization') or 'user'}/{asked['name']}"
        self.server.repos.setdefault(name, {"type": asked.get("type", "model"), "files": {}, **asked})
        self.answer({"url": f"{self.server.url}/datasets/{name}", "id": name, "name": name})

    def batch(self, asked: dict[str, Any]) -> None:
        self.answer({"transfer": "basic", "objects": [
            {"oid": o["oid"], "size": o["size"], "authenticated": True,
             "actions": {"upload": {"href": f"{self.server.url}/blob/{o['oid']}", "header": {}}}}
            for o in asked["objects"]]})

    def commit(self, path: str, data: bytes) -> None:
        repo = "/".join(path.split("/")[3:5])
        for line in data.decode().splitlines():
            item = json.loads(line)
            value = item["value"]
            if item["key"] == "file":
                self.server.repos[repo]["files"][value["path"]] = base64.b64decode(value["content"])
            elif item["key"] == "lfsFile":
                self.server.repos[repo]["files"][value["path"]] = self.server.blobs[value["oid"]]
            elif item["key"] == "header":
                self.server.commits.append(value["summary"])
        self.answer({"commitUrl": f"{self.server.url}/{repo}/commit/abc", "commitOid": "abc", "hookOutput": ""})


def mode(path: str) -> str:
    return "lfs" if path.endswith((".parquet", ".safetensors")) else "regular"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("HF_TOKEN", "hf_test_token")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)  # files go the LFS way, not by Xet
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A distill run folder."""
    folder = tmp_path / "distill"
    folder.mkdir()
    pd.DataFrame({"id": ["a"], "messages": [["hello"]]}).to_parquet(folder / "train.parquet")
    (folder / "README.md").write_text("---\nconfigs:\n- config_name: default\n---\n# Rows\n\nOne row.\n")
    (folder / "environment.json").write_text('{"diff": "secret"}')
    return folder


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    """A train run folder with its best adapter."""
    best = tmp_path / "train" / "best"
    best.mkdir(parents=True)
    (best / "adapter_model.safetensors").write_bytes(b"weights" * 1000)
    local = str(tmp_path / "models" / "base")
    (best / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": local, "r": 8}))
    (best / "README.md").write_text(f"---\nbase_model: {local}\ntags: [lora]\n---\n# Adapter\n\ndata: {best}\n")
    (best / "optimizer.pt").write_bytes(b"large")
    return best.parent


def test_data_set_arrives_byte_for_byte(hub: Hub, rows: Path, tmp_path: Path) -> None:
    config = PushConfig(kind="dataset", source=str(rows), repo="user/rows", endpoint=hub.url,
                        license="cc-by-sa-4.0", out=str(tmp_path / "out"))
    assert push(config) == f"{hub.url}/datasets/user/rows"
    files = hub.repos["user/rows"]["files"]
    assert sorted(files) == ["README.md", "train.parquet"]
    assert files["train.parquet"] == (rows / "train.parquet").read_bytes()
    header = yaml.safe_load(files["README.md"].decode().split("---")[1])
    assert header["license"] == "cc-by-sa-4.0"
    assert header["configs"] == [{"config_name": "default"}]
    assert hub.repos["user/rows"]["visibility"] == "private"
    assert hub.tokens == {"Bearer hf_test_token"}
    push(config)
    assert len(hub.commits) == 2


def test_adapter_names_its_base_on_the_hub(hub: Hub, adapter: Path, write_run: Any, tmp_path: Path) -> None:
    config = PushConfig(kind="model", source=str(adapter), repo="user/lora", endpoint=hub.url,
                        base_model="Qwen/Qwen2.5-Coder-0.5B-Instruct", runs=[str(write_run("base", 6, 1))],
                        out=str(tmp_path / "out"))
    push(config)
    files = hub.repos["user/lora"]["files"]
    assert sorted(files) == ["README.md", "adapter_config.json", "adapter_model.safetensors"]
    settings = json.loads(files["adapter_config.json"])
    assert settings == {"base_model_name_or_path": "Qwen/Qwen2.5-Coder-0.5B-Instruct", "r": 8}
    text = files["README.md"].decode()
    assert "base_model: Qwen/Qwen2.5-Coder-0.5B-Instruct" in text
    assert "| spider | ex | 6 (6 clusters) |" in text
    assert str(tmp_path) not in text


def test_dry_run_writes_the_folder_only(hub: Hub, rows: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    config = PushConfig(kind="dataset", source=str(rows), repo="user/rows", endpoint=hub.url, out=str(out))
    assert push(config, dry_run=True) == str(out)
    assert push(config, dry_run=True) == str(out)
    assert sorted(p.name for p in out.iterdir()) == ["README.md", "train.parquet"]
    assert hub.repos == {}


def test_a_local_base_model_is_refused(adapter: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="set base_model="):
        write_folder(PushConfig(kind="model", source=str(adapter), repo="a/b", out=str(tmp_path / "out")))


def test_mistakes_are_told(rows: Path, tmp_path: Path) -> None:
    def config(**change: Any) -> PushConfig:
        right = {"kind": "dataset", "source": str(rows), "repo": "a/b", "out": str(tmp_path / "o")}
        return PushConfig(**right | change)

    with pytest.raises(UserError, match="user/name"):
        write_folder(config(repo="rows"))
    with pytest.raises(UserError, match=r"no \*\.safetensors"):
        write_folder(config(kind="model"))
    with pytest.raises(UserError, match="another folder"):
        write_folder(config(out=str(rows)))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(UserError, match="holds other files"):
        write_folder(config(out=str(tmp_path / "mine")))
    assert (tmp_path / "mine" / "thesis.tex").exists()


def test_a_refused_token_is_the_users_matter(hub: Hub, rows: Path, tmp_path: Path) -> None:
    hub.refuse = 401
    config = PushConfig(kind="dataset", source=str(rows), repo="user/rows", endpoint=hub.url,
                        out=str(tmp_path / "o"))
    with pytest.raises(UserError, match="HF_TOKEN"):
        push(config)


def test_a_hub_out_of_reach_is_machinery(rows: Path, tmp_path: Path) -> None:
    config = PushConfig(kind="dataset", source=str(rows), repo="user/rows", endpoint="http://127.0.0.1:9",
                        out=str(tmp_path / "o"))
    with pytest.raises(MachineryError, match="out of reach"):
        push(config)


def test_paths_of_this_machine_leave_the_card(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").touch()
    text = f"data: {tmp_path}/rows.parquet, see https://example.org/a/b and /no/such/place"
    assert without_paths(text) == "data: rows.parquet, see https://example.org/a/b and /no/such/place"


def test_a_source_without_a_card_gets_a_plain_one(rows: Path) -> None:
    (rows / "README.md").unlink()
    text = card(PushConfig(kind="dataset", source=str(rows), repo="user/rows"), rows, "")
    assert text.startswith("---\ntags:\n- pandora_train\n---\n# rows\n")
