"""What the user can fix is one line and exit code 2."""

import subprocess
import sys

import pytest


def pandora(*arguments, root):
    return subprocess.run([sys.executable, "-m", "pandora_train.cli", *arguments], capture_output=True, text=True, cwd=root)


@pytest.mark.parametrize("arguments", [
    ["evaluate", "no-such.yaml"],
    ["annotate", "configs/quickstart/annotate.yaml", "techer=compile", "dta=1"],
    ["annotate", "configs/quickstart/annotate.yaml", "data=[{benchmark: spidr, path: x}]"],
    ["annotate", "configs/quickstart/annotate.yaml", "data=[{benchmark: spider, path: no-such-folder, split: train}]"],
    ["distill", "configs/quickstart/distill.yaml", "memory=[/nowhere]"],
    ["score", "no-such-file", "--benchmark", "spider", "--path", "data/sample/spider"],
    ["show", "no-such-run"],
    ["export", "no-such-rows", "out"],
    ["ask", "How many?", "no-such.csv"],
])
def test_user_errors_are_one_line_without_traceback(arguments, pytestconfig, tmp_path):
    run = ["--run-dir", str(tmp_path / "r")] if arguments[0] in ("annotate", "distill", "evaluate") else []
    done = pandora(*arguments, *run, root=pytestconfig.rootpath)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith("error: ")


def test_all_wrong_keys_at_once(pytestconfig):
    done = pandora("annotate", "configs/quickstart/annotate.yaml", "techer=compile", "wrkers=1", root=pytestconfig.rootpath)
    assert "techer (did you mean 'teacher'?)" in done.stderr
    assert "wrkers (did you mean 'workers'?)" in done.stderr


def test_print_config_resolves_and_stops(pytestconfig, tmp_path):
    done = pandora("annotate", "configs/quickstart/annotate.yaml", "workers=7", "--print-config", "--run-dir",
                   str(tmp_path / "r"), root=pytestconfig.rootpath)
    assert done.returncode == 0
    assert "workers: 7" in done.stdout
    assert "wall: 10.0" in done.stdout
    assert not (tmp_path / "r").exists()


def test_ctrl_c_says_how_to_go_on(monkeypatch, capsys):
    from pandora_train import cli, doctor

    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor, "doctor", interrupt)
    def leave(code):  # the real one would end pytest too
        raise SystemExit(code)

    monkeypatch.setattr(cli.os, "_exit", leave)
    monkeypatch.setattr(sys, "argv", ["pandora", "doctor"])
    with pytest.raises(SystemExit) as e:
        cli.main()
    assert e.value.code == 130
    assert "--resume" in capsys.readouterr().err
