"""What leaves the sandbox as text."""

import pytest

from pandora_train.sandbox.verdict import clean


@pytest.mark.parametrize(("text", "left"), [
    ("plain\ttext\n", "plain\ttext\n"),
    ("Ã\x81lvarez, Ã\x93lafur", "Ã\x81lvarez, Ã\x93lafur"),  # Latin-1 readings of UTF-8, as in real databases
    ("a\x00\x1b[31m\x07b\x9b31m\x9d0;t\x9c", "a[31mb31m0;t"),
    ("half \ud800 pair", "half  pair"),
])
def test_real_text_stays_and_terminal_controls_go(text, left):
    assert clean(text) == left
