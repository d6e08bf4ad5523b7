"""The same program gives the same answer: twice, in any order, with and without pyarrow on the host."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = [
    "result = t.sample(3).values.tolist()",
    "result = [[np.random.rand(), np.random.default_rng().random()]]",
    "import random\nresult = [[random.random(), random.choice(list('abc'))]]",
    "result = list({'a', 'b', 'c', 'straße', 'd'})",
    "result = [[hash('a')]]",
    "result = t.s.str.upper().tolist()",
    "result = t[t.s.str.contains('STRASSE', case=False)].s.tolist()",
    "result = t.groupby('s', dropna=False).n.sum().reset_index()",
    "result = [[str(t.s.dtype), str(t.d.dtype), str(t.columns.dtype), str(pd.Series(['a']).dtype)]]",
    "import time, datetime\nresult = [[time.tzname[0], str(datetime.datetime.fromtimestamp(0))]]",
    "result = pd.to_datetime(t.d).dt.tz_localize('America/New_York').astype(str).tolist()",
    "import locale\nresult = [[locale.getlocale()[1], 'x'.encode().decode(), f'{1234.5:n}']]",
    "result = t.sort_values('s').s.tolist()",
    "import sys\nresult = [['pyarrow' in sys.modules and sys.modules['pyarrow'] is not None]]",
    "result = t.value_counts().reset_index().values.tolist()",
    "result = t.n.mean()", "result = t.describe().to_string()",
]
SCRIPT = """
import json, os, sys
if sys.argv[1] == 'without': sys.modules['pyarrow'] = None
import pandas as pd
from pandora_train.box.box import Box, BoxSet
from pandora_train.sandbox import Sandbox, SandboxConfig
t = pd.DataFrame({'s': ['straße', 'Ä', None, 'b', 'a'], 'n': pd.array([1, 2, None, 4, 5], dtype='Int64'),
                  'd': ['2020-01-31', '2020-07-01', None, '2021-01-01', '2021-03-03']})
storage = getattr(t.s.dtype, 'storage', '')
programs = json.load(sys.stdin)
with Sandbox(SandboxConfig(workers=2, wall=60)) as sandbox:
    boxes = BoxSet((Box('t', t),))
    found = [sandbox.run(boxes, p).model_dump(mode='json', exclude={'seconds'}) for p in programs]
print(json.dumps([storage, found]))
"""


def answers(pyarrow: str, programs: list[str], **environment: str) -> tuple[str, list[object]]:
    done = subprocess.run([sys.executable, "-c", SCRIPT, pyarrow], input=json.dumps(programs), text=True, cwd=ROOT,
                          capture_output=True, timeout=300, env={"PATH": "/usr/bin", **environment})
    assert done.returncode == 0, done.stderr[-3000:]
    storage, found = json.loads(done.stdout)
    return storage, found


def test_answers_do_not_depend_on_the_host_or_the_order() -> None:
    storage, first = answers("with", PROGRAMS, PYTHONHASHSEED="1", TZ="Asia/Seoul", LC_ALL="C")
    other_storage, second = answers("without", PROGRAMS[::-1], PYTHONHASHSEED="2", TZ="America/New_York")
    assert other_storage == "python"
    assert first == second[::-1]
    assert all(e["outcome"] == "result" for e in first if isinstance(e, dict)), first
    if storage != "pyarrow":
        pytest.skip("pyarrow isn't installed: the comparison was of two hosts without it")
