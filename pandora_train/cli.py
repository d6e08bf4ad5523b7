"""``pandora``: one function per command, no logic."""


def main() -> None:
    raise SystemExit("laid next")
