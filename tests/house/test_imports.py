"""The house is walked one way: imports go only up the list of rooms."""

import ast
import subprocess
import sys
from pathlib import Path

ROOMS = ["errors", "config", "records", "runs", "wandb_log", "sexpr", "sources", "box", "sandbox", "metrics", "llm", "prompt",
         "compile", "encoder", "memory", "leakage", "retrieval", "ground", "systems", "answer", "setup", "teach", "rows",
         "distill", "train", "serve", "evaluate", "report", "ask", "keys", "doctor", "cli"]
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


def _module(file: Path) -> str:
    return ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def _files_imported(file: Path, modules: set[str]) -> set[str]:
    """The package's modules that ``file`` imports, inside functions, too, but not for type checking alone."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    idle = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            for inner in ast.walk(node)}
    package = _module(file).split(".") if file.name == "__init__.py" else _module(file).split(".")[:-1]
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in idle:
            base = package[: len(package) - node.level + 1] if node.level else []
            name = ".".join([*base, node.module] if node.module else base)
            imported |= {full if (full := f"{name}.{a.name}") in modules else name for a in node.names}
        elif isinstance(node, ast.Import) and id(node) not in idle:
            imported |= {a.name for a in node.names}
    return imported & modules


def test_no_files_import_each_other_in_a_circle() -> None:
    files = {_module(f): f for f in PACKAGE.rglob("*.py")}
    imported = {name: _files_imported(file, set(files)) - {name} for name, file in files.items()}

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for following in imported[todo.pop()] - seen:
                seen.add(following)
                todo.append(following)
        return seen

    assert not [name for name in files if name in reached(name)]


def test_a_type_has_one_name_and_a_name_one_type() -> None:
    places: dict[str, set[str]] = {}
    for file in PACKAGE.rglob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            name = ""
            if isinstance(node, ast.ClassDef):
                name = node.name
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(
                    node.value, ast.Subscript | ast.BinOp | ast.Attribute):
                name = node.targets[0].id
            name = name.lstrip("_")
            if name[:1].isupper() and not name.isupper():
                places.setdefault(name, set()).add(str(file.relative_to(PACKAGE)))
    assert not {name: where for name, where in places.items() if len(where) > 1}


def test_help_imports_nothing_heavy() -> None:
    code = ("import sys\nsys.argv = ['pandora', '--help']\nfrom pandora_train.cli import main\n"
            "try:\n    main()\nexcept SystemExit:\n    pass\n"
            "heavy = {'torch', 'pandas', 'transformers', 'numpy'} & set(sys.modules)\nassert not heavy, heavy")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "annotate" in done.stdout
