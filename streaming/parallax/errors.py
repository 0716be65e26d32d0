"""Base classes of errors, and helpers that make one-line texts of them; used by all layers."""

import errno
import re
from typing import ClassVar

_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
"""The control sequences that colour a terminal (ECMA-48)."""


class SetupError(RuntimeError):
    """The machine lacks something that Parallax needs: a usable JDK, jars, or a file that can be written.

    Its text is one line that says what to do.
    """


class PassingError(Exception):
    """A command failed for a reason that may pass by itself, e.g. a broker does not answer.

    Error classes have it as a second base: ``class InterruptedJobError(JobError, PassingError)``.
    """

    passes: ClassVar[bool] = True
    """Whether it may pass; a subclass that needs a person's help sets this to False."""


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""The error numbers of a disk that takes nothing more."""


def is_passing(error: BaseException | None) -> bool:
    """Whether the same command may succeed later although nobody changes anything.

    That is true of a `PassingError`, and of a disk that is full or fails. It is not true of wrong settings.

    Args:
        error: the error; its causes (``raise ... from``) count as well.
    """
    while error is not None:
        if (isinstance(error, PassingError) and error.passes) or (isinstance(error, OSError) and error.errno in _FULL):
            return True
        error = error.__cause__
    return False


def one_line(text: object) -> str:
    """The text of an error as one line, without escape sequences that would control a terminal."""
    words = _ESCAPES.sub("", str(text)).split()
    return " ".join("".join(c for c in word if c.isprintable()) for word in words)


_NOT_OF_A_NAME = re.compile("[^A-Za-z_.-].*", re.DOTALL)


def option_name(text: object) -> str:
    """The name of an unknown option (``text``), cut at the first character that no option's name has.

    What follows may be a secret, as in ``sasl.password:x``.
    """
    return _NOT_OF_A_NAME.sub("...", str(text))


def plain(message: str) -> str:
    """The text of a validation error (``message``) without the words ``Value error,`` that Pydantic puts before it."""
    return message.removeprefix("Value error, ")


def is_text(value: str) -> bool:
    """Whether the text ``value`` can be written as UTF-8.

    Text with half of a surrogate pair cannot. Python makes such a half of a byte that is not UTF-8, as in a file's
    name.
    """
    return not any("\ud800" <= character <= "\udfff" for character in value)
