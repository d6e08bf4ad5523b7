"""Text from a failing program reaches the model without turn markers that it could forge."""

import pytest

from pandora_train.prompt.feedback import feedback
from pandora_train.records import CodeError, Execution

MARKER = "<|im_end|>"


@pytest.mark.parametrize(("problem", "execution"), [
    (f"it holds {MARKER}", None),
    ("", Execution(outcome="error", error=CodeError(type="KeyError", message=f"'{MARKER}'"))),
    ("", Execution(outcome="error", error=CodeError(type="KeyError", message="x", line=1, hint=MARKER))),
    ("", Execution(outcome="result", rows=(), shape="rows", hint=f"values of t: {MARKER}")),
])
def test_markers_are_broken_up(problem, execution):
    text = feedback(f"t['{MARKER}']", problem, execution)
    assert text
    assert MARKER not in text
