"""What several commands share: common options, which job they are about, and how they report errors."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ParamSpec, Self, TypeVar, cast

import typer

from parallax.errors import one_line
from parallax.output import error_line
from parallax.shell import Shell

if TYPE_CHECKING:
    from parallax.config import Settings
    from parallax.findings.report import OnRecord

P = ParamSpec("P")
R = TypeVar("R")

USAGE_ERROR = 2


class Format(StrEnum):
    """The form in which a command prints its result: text for people, or JSON."""

    text = "text"
    json = "json"


OutputFormat = Annotated[Format, typer.Option("--format", help="text or json.")]


Config = Annotated[Path, typer.Option("-c", "--config", help="The settings file; parallax init writes one.")]


JobConfig = Annotated[Path | None, typer.Option("-c", "--config", help="The job's settings file.")]
JobData = Annotated[str | None, typer.Option("--data", help="The job's storage.path, instead of its settings file.")]


def say(text: str) -> None:
    """Print a text for people to standard error, e.g. how far a command is."""
    typer.echo(text, err=True)


def one_line_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Decorate a command: it prints errors that a user can mend as one line, and ends with exit code 2.

    The line goes to standard error. It is JSON if that output was asked for.
    """

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except mendable_errors() as error:
            say(error_line(one_line(error), _wanted_format(kwargs)))
            raise typer.Exit(USAGE_ERROR) from None

    return wrapped


def _wanted_format(options: Mapping[str, object]) -> str:
    """The format that a command was asked for; ``text`` where it has none."""
    given = next((value for value in options.values() if isinstance(value, Format)), Format.text)
    context = options.get("context")
    return given.value if context is None else format_of(cast("typer.Context", context), given)


def mendable_errors() -> tuple[type[Exception], ...]:
    """The types of errors that a user can mend or wait out. The text of each is one line that says what to do."""
    from parallax.alerting.server import MetricsServerError
    from parallax.config import ConfigError
    from parallax.errors import SetupError
    from parallax.findings.acknowledge import AcknowledgeError
    from parallax.findings.naming import FindingNotNamedError
    from parallax.findings.table import FindingsTableError
    from parallax.guard.command import GuardCommandError
    from parallax.job import JobError
    from parallax.lab.errors import LabError
    from parallax.repair.command import RepairCommandError
    from parallax.replica.errors import ReplicaError
    from parallax.views.event_log import EventLogError
    from parallax.views.pause import PauseError

    ours = (
        AcknowledgeError,
        ConfigError,
        FindingsTableError,
        GuardCommandError,
        EventLogError,
        JobError,
        LabError,
        MetricsServerError,
        FindingNotNamedError,
        PauseError,
        RepairCommandError,
    )
    return (*ours, ReplicaError, SetupError)


def storage_of(config: Path | None, data: str | None) -> str:
    """The storage path of the job that a command's options name.

    Args:
        config: option ``-c``, the job's settings file.
        data: option ``--data``, the storage path itself.

    Raises:
        ConfigError: neither option is given, or both are, or the one that is given cannot be used.
    """
    from parallax.config import ConfigError, storage_path
    from parallax.stores import set_environment

    if config is not None and data is not None:
        raise ConfigError("--data: -c/--config is given too; give one of them")
    if config is None and data is None:
        raise ConfigError("give either -c/--config or --data")
    if data is None:
        return _settings_of(config or Path()).storage.path
    try:
        set_environment(data, {}, os.environ)
        return storage_path(data)
    except ValueError as error:
        raise ConfigError(f"--data: {error}; give the storage.path of a job that has run") from None


def _settings_of(config: Path) -> Settings:
    from parallax.config import load
    from parallax.stores import set_environment

    settings = load(config)
    set_environment(settings.storage.path, settings.spark.conf, os.environ)
    return settings


def used_settings(config: Path) -> Settings:
    """The settings in a file. It is an error if no job has ever used the storage that they name.

    Args:
        config: the file.

    Raises:
        ConfigError: the settings cannot be used, no job has ever used their storage, or it cannot be read.
    """
    settings = _settings_of(config)
    _refuse_unused(settings.storage.path, config)
    return settings


def used_storage(config: Path | None, data: str | None) -> str:
    """The storage path that a command's options name. It is an error if no job has ever used it.

    Commands that read or change what a job has recorded use this.

    Args:
        config: option ``-c``, the job's settings file.
        data: option ``--data``, the storage path itself.

    Raises:
        ConfigError: no job has ever used that storage, or it cannot be read. Or neither option is given, or both are,
            or the one that is given cannot be used.
    """
    storage = storage_of(config, data)
    _refuse_unused(storage, config)
    return storage


def _refuse_unused(storage: str, config: Path | None) -> None:
    from parallax.config import ConfigError
    from parallax.views.used import is_used

    if not is_used(storage):
        raise ConfigError(
            f"storage.path: {storage}: no job has ever used this storage, so there is nothing to say of it (the path "
            f"is from {_origin(config)}); give -c or --data of a job that has run"
        )


def _origin(config: Path | None) -> str:
    """Where a command has a storage path from: an option, a variable of the environment, or a file."""
    from parallax.config import load, variable_of

    if config is None:
        return "the option --data"
    if (variable := variable_of(("storage", "path"))) is not None:
        return f"the environment variable {variable}"
    if "path" in load(config).storage.model_fields_set:
        return str(config)
    return f"no setting: it is the default, in the working directory; {config} sets none"


def is_written(context: typer.Context, parameter: str) -> bool:
    """Whether a user gave an option or argument on the command line. False if it has its default.

    Args:
        context: the command's context.
        parameter: the name of the option or argument in the command's function.
    """
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


def format_of(context: typer.Context, output: Format) -> str:
    """The output format of a command under ``findings``: ``text`` or ``json``.

    The option may come before the command as well, as in ``parallax findings --format json list``.

    Args:
        context: the command's context.
        output: the command's own option, or its default.
    """
    before = context.parent.params.get("output") if context.parent is not None else None
    return str((output if is_written(context, "output") else before or output).value)


@dataclass(frozen=True)
class Target:
    """The job that a command is about, as its options name it.

    Attributes:
        config: the job's settings file, as it was given; None if the storage path was given instead.
        data: the job's storage path, as it was given; None if the settings file was given instead.
    """

    config: Path | None
    data: str | None

    @classmethod
    def of(cls, context: typer.Context, config: Path | None, data: str | None) -> Self:
        """The job that a command under ``findings`` is about.

        The options ``config`` and ``data`` may come before the command as well; those of the command take precedence.
        """
        before = context.parent.params if context.parent is not None else {}
        return cls(config or before.get("config"), before.get("data") if data is None else data)

    @cached_property
    def storage(self) -> str:
        """The job's storage path.

        Raises:
            ConfigError: no job has ever used that storage, or the options do not name one (`used_storage`).
        """
        return used_storage(self.config, self.data)

    @cached_property
    def settings(self) -> Settings | None:
        """The job's settings; None if only its storage path was given."""
        from parallax.config import load

        return None if self.config is None else load(self.config)

    @property
    def shell(self) -> Shell:
        """How printed commands name the cluster and the job."""
        return Shell.of(self.settings.kafka if self.settings else None, self.config, self.data)

    @property
    def runbook(self) -> str:
        """The address of the runbook. It is the job's setting, or the default if only the storage path was given."""
        from parallax.runbook import RUNBOOK

        return RUNBOOK if self.settings is None else self.settings.alerting.runbook_url

    @property
    def on_record(self) -> OnRecord:
        """A function that returns what tables other than the findings table say about a finding.

        These are the tables of absences and repairs.
        """
        from parallax.config import GuardSettings, ReadSettings
        from parallax.repair.account import beside

        settings = self.settings
        read, guard = (ReadSettings(), GuardSettings()) if settings is None else (settings.read, settings.guard)
        return beside(self.storage, read, guard)


__all__ = [
    "Config",
    "Format",
    "JobConfig",
    "JobData",
    "OutputFormat",
    "Target",
    "format_of",
    "is_written",
    "mendable_errors",
    "one_line_errors",
    "say",
    "storage_of",
    "used_settings",
    "used_storage",
]
