"""The command line: ``parallax run | check | pause | resume | audit | demo | findings | repair | lab`` and more.

Exit codes: 0 is done (``demo``: exactly the expected findings; ``audit``: consistent). 1 is not as expected (``audit``:
diverged; ``check``: something is wrong; ``run``: what it needs does not answer, and it may be started again). 2 is
wrong usage or environment. 3 is unknown: something that the answer needs is missing or does not answer. The command's
section says which of them it has.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from importlib.metadata import version as installed_version
from itertools import pairwise
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from parallax.commands import audit, findings, guard, init, job, lab, lead, record, repair, seen, storage
from parallax.commands.shared import USAGE_ERROR, say
from parallax.errors import SetupError, one_line, plain
from parallax.output import error_line, usable_folder, usable_streams, written

_Misused: type[Any] = typer.BadParameter.__mro__[1]
"""What the command line cannot be used for; click's UsageError, which typer does not give by name."""


class _OneLine(TyperGroup):
    """Says of a command line that cannot be used what is wrong with it in one line, JSON where that is asked for."""

    def main(self, *given: Any, **options: Any) -> Any:
        """Run the command line, or show the help where it is empty."""
        if not options.get("standalone_mode", True):
            return super().main(*given, **options)
        args = given[0] if given else options.get("args")
        words = sys.argv[1:] if args is None else list(args)
        is_json = "--format=json" in words or ("--format", "json") in pairwise(words)
        try:
            usable_streams()
            usable_folder()
            with written():
                ended = super().main(*given, **options | {"standalone_mode": False})
        except SetupError as error:
            say(error_line(one_line(error), "json" if is_json else "text"))
            sys.exit(USAGE_ERROR)
        except typer.Abort:
            sys.exit(1)
        except _Misused as error:
            if type(error).__name__ == "NoArgsIsHelpError":
                error.show()
            else:
                error.message = plain(error.message)
                say(error_line(one_line(error.format_message()), "json" if is_json else "text"))
            sys.exit(error.exit_code)
        sys.exit(ended or 0)


_HELP = """Tells Kafka operators when their replicas disagree.

\b
parallax demo                                   see it, on brokers of its own
parallax init --bootstrap-servers kafka-1:9092  begin: settings, alerts, docs
parallax check -c parallax.yaml                 is everything readable?
parallax run -c parallax.yaml                   watch: http://127.0.0.1:9464/
parallax findings -c parallax.yaml              what was found
parallax findings explain ID -c parallax.yaml   who is right, what to run
"""

app = typer.Typer(
    name="parallax",
    cls=_OneLine,
    help=_HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(installed_version("kafka-parallax"))
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True)] = False,
) -> None:
    del version


app.command()(init.init)
app.command()(job.run)
app.command()(job.check)
app.add_typer(findings.app, name="findings")
app.command("show-record")(record.show_record)
app.command()(seen.seen)
app.command()(findings.report)
app.command()(audit.audit)
app.command()(job.pause)
app.command()(job.resume)
app.add_typer(guard.app, name="guard", no_args_is_help=True)
app.command()(lead.lead)
app.command()(lead.roll)
app.add_typer(repair.app, name="repair", no_args_is_help=True)
app.add_typer(storage.app, name="storage", no_args_is_help=True)
app.command()(lab.demo)
app.add_typer(lab.app, name="lab", no_args_is_help=True)
app.command("fetch-jars")(job.fetch_jars)


def main() -> None:
    """Run the command ``parallax`` with the arguments of this process."""
    try:
        app()
    except SystemExit as ended:
        _end(ended.code if isinstance(ended.code, int) else int(ended.code is not None))
    except KeyboardInterrupt:
        _end(130)


def _end(code: int) -> NoReturn:
    """End the process as Python does, but for taking the interpreter down.

    What has read a table by delta-rs may leave a thread of Arrow behind that lets go of Python's objects: where the
    interpreter is being taken down by then, the process aborts (https://github.com/apache/arrow/issues/34314), and a
    command that has done all that it should exits with 134.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
    atexit._run_exitfuncs()  # noqa: SLF001
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # who read it may be gone
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
