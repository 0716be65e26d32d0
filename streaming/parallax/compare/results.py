"""What a step makes, as text between the tasks of the comparison and its driver."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import TypeAdapter

from parallax.compare.suspect import Coverage, Suspect


@dataclass(frozen=True, slots=True)
class _Result:
    suspects: list[Suspect]
    coverage: Coverage


_RESULT = TypeAdapter(_Result)


def to_json(suspects: list[Suspect], coverage: Coverage) -> str:
    """Write the suspects and the coverage of one partition."""
    return _RESULT.dump_json(_Result(suspects, coverage)).decode()


def from_json(text: str) -> tuple[list[Suspect], Coverage]:
    """Read what `to_json` wrote."""
    result = _RESULT.validate_json(text)
    return result.suspects, result.coverage
