"""What errors of every layer share: the one that says what the machine lacks, and texts."""

import re

_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
"""What colours a terminal (ECMA-48, control sequences)."""


class SetupError(RuntimeError):
    """No usable JDK, jars that cannot be had, or a file that cannot be written; one line that says what to do."""


def one_line(text: object) -> str:
    """The text of an error as one line, without what would steer a terminal."""
    words = _ESCAPES.sub("", str(text)).split()
    return " ".join("".join(c for c in word if c.isprintable()) for word in words)


_NOT_OF_A_NAME = re.compile("[^A-Za-z_.-].*", re.DOTALL)


def option_name(text: object) -> str:
    """The name of an option that is not known, up to what no name holds: ``sasl.password:x`` has a secret behind it."""
    return _NOT_OF_A_NAME.sub("...", str(text))


def plain(message: str) -> str:
    """What pydantic says of a value, without its word for the kind of error. Typer reads its options by it, too."""
    return message.removeprefix("Value error, ")


def is_text(value: str) -> bool:
    """Whether it can be written as UTF-8: half a surrogate pair, as of bytes that were no UTF-8, cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in value)
