"""The house is walked one way: imports go only up the list of rooms."""

import ast
import subprocess
import sys
from pathlib import Path

ROOMS = ["errors", "config", "records", "runs", "sexpr", "sources", "box", "sandbox", "metrics", "compile", "llm", "prompt", "agent",
         "memory", "ground", "leakage", "teach", "distill", "train", "serve", "baselines", "evaluate", "report", "ask", "doctor", "cli"]
PACKAGE = Path(__file__).resolve().parents[2] / "pandora_train"


def _imports(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if node.module != "pandora_train" else [f"pandora_train.{a.name}" for a in node.names]
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        found |= {n.split(".")[1] for n in names if n.startswith("pandora_train.")}
    return found


def test_imports_go_one_way() -> None:
    wrong = []
    for file in sorted(PACKAGE.rglob("*.py")):
        room = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        assert room in ROOMS, f"room {room} is not in the walk"
        wrong += [f"{file.relative_to(PACKAGE)} imports {other}" for other in _imports(file)
                  if other in ROOMS and ROOMS.index(other) > ROOMS.index(room)]
    assert not wrong


def test_help_imports_nothing_heavy() -> None:
    code = ("import sys\nsys.argv = ['pandora', '--help']\nfrom pandora_train.cli import main\n"
            "try:\n    main()\nexcept SystemExit:\n    pass\n"
            "heavy = {'torch', 'pandas', 'transformers', 'numpy'} & set(sys.modules)\nassert not heavy, heavy")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "annotate" in done.stdout
