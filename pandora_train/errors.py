"""Errors: what the user can fix (one line, exit code 2), what the machinery did (retried, never scored)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class UserError(Exception):
    """Something the user can fix. The message is one line: what is wrong, and how to mend it.

    The command line prints it without a traceback and exits with code 2.
    """


class PromptTooLong(UserError):
    """A conversation does not fit the model's context; the agent records it and goes on."""


class ReadingError(UserError):
    """One question's data cannot be read or made into BOXes; the others go on."""


class GoldError(UserError):
    """One question's label gives no answer to compare with (its SQL fails, say); the others go on."""


class MachineryError(Exception):
    """Our own machinery failed (no sandbox child, a broken pipe, a dead server).

    Retried where it happens; if it persists the sample stays unfinished and is taken up again by the
    next run. It is never scored as a wrong answer.
    """


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Whatever fails inside is a :class:`ReadingError` about ``what``, unless the machinery failed."""
    try:
        yield
    except (MachineryError, ReadingError):
        raise
    except UserError as e:
        raise ReadingError(str(e)) from None
    except Exception as e:  # readers and builders stumble over strange sources in many ways
        raise ReadingError(f"{what} cannot be read ({type(e).__name__}: {first_line(e)})") from e


def first_line(error: BaseException) -> str:
    """What another library's error says, in one line."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``" (did you mean 'x'?)"`` for the nearest known name, or an empty string."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" (did you mean '{near[0]}'?)" if near else ""


def pick(kind: str, name: str, known: Iterable[str]) -> None:
    """Raise :class:`UserError` naming the valid choices unless ``name`` is one of ``known``."""
    names = list(known)
    if name not in names:
        raise UserError(f"unknown {kind} '{name}'{did_you_mean(name, names)}; known: {', '.join(names)}")
