"""Write docs/reference/ and conf/parallax.yaml from the code that they are about: ``make reference``.

With ``--check`` nothing is written: the exit code is 1 and each page that differs is named.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer
import yaml
from annotated_types import Ge, Gt, Le
from prometheus_client.core import Metric
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from parallax.alerting.collector import ParallaxCollector
from parallax.alerting.resources import ResourceCollector
from parallax.alerting.state import MonitorState
from parallax.alerting.webhook import record
from parallax.alerting.webhook.heartbeat import Heartbeat
from parallax.alerting.webhook.metrics import WebhookCollector
from parallax.audit import ledger
from parallax.cli import app
from parallax.compare import tables as compare_tables
from parallax.config import AlertingSettings, Settings, WebhookSettings
from parallax.findings import member_rows
from parallax.findings import table as findings_table
from parallax.guard import late
from parallax.guard import table as guard_table
from parallax.kinds import KINDS
from parallax.logs import FIELDS
from parallax.remedies import CASES, REMEDIES, Act
from parallax.repair import table as repair_table
from parallax.replica.options import ALIASES, OPTIONS
from parallax.runbook import RUNBOOK
from parallax.source.schema import TICKS, VIEWS

sys.path.insert(0, str(Path(__file__).parent))
import chart_schema

TOP = Path(__file__).resolve().parent.parent
TABLES = (
    VIEWS,
    TICKS,
    compare_tables.TABLE,
    findings_table.TABLE,
    member_rows.TABLE,
    ledger.TABLE,
    guard_table.TABLE,
    late.TABLE,
    repair_table.TABLE,
    record.TABLE,
)
_GENERATED = "This page is generated from the code."
_UNITS = (
    ("_ms", "ms"),
    ("_s", "s"),
    ("_hours", "h"),
    ("_percent", "%"),
    ("bytes_per_second", "bytes/s"),
    ("bytes_per_trigger", "bytes"),
    ("_bytes", "bytes"),
    ("rows_per_trigger", "rows"),
)
_NO_BOUND = 1_000_000
"""An upper bound from here on only keeps numbers within what machines count with."""
_WIDTH = 110

KAFKA_EXAMPLES = {
    "bootstrap.servers": "127.0.0.1:9092",
    "cluster.id": "AbC...",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "parallax",
    "sasl.password": "change-me",
    "sasl.oauthbearer.token.endpoint.url": "https://login.example.org/oauth2/token",
    "sasl.oauthbearer.client.id": "parallax",
    "sasl.oauthbearer.client.secret": "change-me",
    "ssl.ca.location": "/etc/ssl/certs/kafka-ca.pem",
}
WRITTEN = {"topics.include": "[orders, customers]", "storage.path": ".parallax/data"}
"""Settings that the reference configuration sets; of all others it shows the default."""
EXAMPLES = {
    "topics.pattern": r'"ledger\\..*"',
    "topics.brokers": "[1, 2, 3]",
    "alerting.webhooks": """
  - name: on-call
    format: slack
    url: https://example.org/hook""",
    "spark.conf": """
  spark.local.dir: /var/tmp
  spark.pyspark.python: /opt/parallax/bin/python
  spark.authenticate: "true\"""",
}
"""Values that the reference configuration shows, commented out, where the default tells nothing of their form.

Each is a whole value: it can be uncommented as it is, alone and with all others.
"""


def families() -> list[Metric]:
    """All metric families, whether or not they have samples yet."""
    heartbeat = Heartbeat(AlertingSettings(), time.monotonic)
    collectors = (ParallaxCollector(MonitorState()), ResourceCollector(), WebhookCollector(dict), heartbeat)
    return [family for collector in collectors for family in collector.collect()]


def exposed_name(family: Metric) -> str:
    """The name of the family's samples."""
    return f"{family.name}_total" if family.type == "counter" else family.name


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def sections() -> Iterator[tuple[str, type[BaseModel]]]:
    """The sections of the settings, by name, in order; ``kafka`` and ``kafka_files`` are none."""
    for name, field in Settings.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield name, field.annotation


def unit(name: str) -> str:
    """The unit of a setting, by how its name ends; empty for none."""
    return next((unit for ending, unit in _UNITS if name.endswith(ending)), "")


def _choices(field: FieldInfo) -> tuple[str, ...]:
    return get_args(field.annotation) if get_origin(field.annotation) is Literal else ()


def kind_of(name: str, field: FieldInfo) -> str:
    """What values a setting takes: its type, unit and bounds, for people."""
    if choices := _choices(field):
        *others, last = (f"`{one}`" for one in choices)
        return f"{', '.join(others)} or {last}"
    annotation = str(field.annotation)
    words = (("list", "list"), ("dict", "mapping"), ("SecretStr", "text, secret"), ("bool", "true or false"))
    kind = next((word for part, word in words if part in annotation), "")
    kind = kind or ("text" if "str" in annotation else "whole number" if "int" in annotation else "number")
    low = next((f"{'over' if isinstance(one, Gt) else 'at least'} {_bound(one)}" for one in _bounds(field)), "")
    high = next((f"at most {one.le}" for one in field.metadata if isinstance(one, Le) and one.le < _NO_BOUND), "")
    return ", ".join(filter(None, (kind, unit(name), low, high)))


def _bounds(field: FieldInfo) -> list[Any]:
    return [one for one in field.metadata if isinstance(one, Ge | Gt)]


def _bound(one: Any) -> object:
    return one.gt if isinstance(one, Gt) else one.ge


def default_of(field: FieldInfo) -> str:
    """A setting's default as YAML has it; empty for a setting that must be given."""
    if field.is_required():
        return ""
    value = field.get_default(call_default_factory=True)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, str):
        return value or '""'
    return str(yaml.safe_dump(value, default_flow_style=True)).removesuffix("...\n").strip()


def _doc(of: Any) -> str:
    return inspect.cleandoc(of.__doc__ or "").replace("``", "`")


def _rows(prefix: str, section: type[BaseModel]) -> Iterator[Sequence[str]]:
    for name, field in section.model_fields.items():
        default = default_of(field)
        shown = "required" if field.is_required() else "" if default == "null" else f"`{default}`"
        yield f"`{prefix}{name}`", kind_of(name, field), shown, field.description or ""


def settings_page() -> str:
    """docs/reference/settings.md."""
    kafka, files = (Settings.model_fields[name].description for name in ("kafka", "kafka_files"))
    aliases = ", ".join(f"`{alias}` for `{name}`" for alias, name in ALIASES.items())
    parts = [
        f"""# Settings

{_GENERATED} `parallax init` writes `parallax.yaml`, which shows every setting with its default.

Each setting can be given in two ways. The second overrides the first:

1. In the settings file (`-c`): YAML, one mapping for each section.
2. As an environment variable `PARALLAX_<SECTION>__<NAME>`, such as `PARALLAX_STORAGE__PATH=/data/parallax`.
   Write a list as `a,b` or as JSON, and a mapping as JSON: `PARALLAX_KAFKA='{{"bootstrap.servers": "a:9092"}}'`.

An unknown setting is an error. A change takes effect at the next start of the job. Secrets can be in files of their
own: see `kafka_files`, and the settings whose names end in `_file`. `parallax check` tries all settings.

## kafka

{kafka}

`kafka_files` is a section of its own. {files}

These options are known:
""",
        table(("option", "what it does"), ((f"`{name}`", text) for name, text in OPTIONS.items())),
        f"Other spellings: {aliases}.\n",
    ]
    head = ("setting", "value", "default", "what it does")
    for name, section in sections():
        parts += [f"## {name}\n\n{_doc(section)}\n", table(head, _rows(f"{name}.", section))]
    parts += [f"## Receivers\n\n{_doc(WebhookSettings)}\n", table(head, _rows("alerting.webhooks[].", WebhookSettings))]
    return "\n".join(parts)


def _comment(text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")


def _setting(section: str, name: str, field: FieldInfo) -> Iterator[str]:
    values, measured = ", ".join(_choices(field)), unit(name)
    ends = (f" Values: {values}." if values else "") + (f" Unit: {measured}." if measured else "")
    yield from _comment(f"{field.description}{ends}")
    place = f"{section}.{name}"
    if place in WRITTEN:
        yield f"  {name}: {WRITTEN[place]}"
        return
    first, *more = EXAMPLES.get(place, default_of(field)).splitlines() or [""]
    yield f"  # {name}: {first}".rstrip()
    yield from (f"  # {line}" for line in more)


def settings_file() -> str:
    """conf/parallax.yaml."""
    lines = [
        "# Parallax: reference configuration. Every setting is here. What is commented out shows its default, or an",
        "# example where there is none. Each can be uncommented as it is.",
        "# An environment variable overrides a setting: PARALLAX_<SECTION>__<NAME>, e.g. PARALLAX_STORAGE__PATH=/data.",
        "# An unknown setting is an error.",
        "",
        *_comment(f"{Settings.model_fields['kafka'].description} docs/operate/security.md lists the rights.", ""),
        "kafka:",
    ]
    for option, example in KAFKA_EXAMPLES.items():
        lines += [*_comment(OPTIONS[option]), f"  {'' if option == 'bootstrap.servers' else '# '}{option}: {example}"]
    lines += ["", *_comment(str(Settings.model_fields["kafka_files"].description), ""), "kafka_files: {}"]
    for name, section in sections():
        lines += ["", *_comment(_doc(section).replace("`", ""), ""), f"{name}:"]
        for setting, field in section.model_fields.items():
            lines += _setting(name, setting, field)
    return "\n".join(lines) + "\n"


def metrics_page() -> str:
    """docs/reference/metrics.md."""
    rows = []
    for family in sorted(families(), key=lambda f: f.name):
        labels = ", ".join(f"`{label}`" for label in getattr(family, "_labelnames", ()))
        rows.append((f"`{exposed_name(family)}`", family.type, labels, family.documentation))
    return f"""# Metrics

{_GENERATED} These are the metrics at `/metrics`. With `alerting.cluster`, each sample also has the label `cluster`.
No key and no producer id is ever a label, but for the producer of a hanging transaction. The findings table has them.

{table(("metric", "type", "labels", "what it says"), rows)}"""


def commands_page() -> str:
    """docs/reference/commands.md."""
    exits = _doc(sys.modules["parallax.cli"]).split("\n\n", 1)[1].replace("\n", " ")
    head = f"""# Commands

{_GENERATED} `--help` says the same. With `--format json`, output is JSON.

{exits}
"""
    parts = [head]
    parts += _command("parallax", typer.main.get_command(app))
    return "\n".join(parts)


_AS_IT_IS = re.compile(r"\x08\n(.+?)(?=\n\n|\Z)", re.DOTALL)
"""A paragraph that click does not wrap."""


def _command(path: str, command: Any) -> Iterator[str]:
    commands = getattr(command, "commands", {})
    shown = [one for one in command.params if not getattr(one, "hidden", False) and not _is_common(one)]
    if path != "parallax" and (shown or not commands):
        said = inspect.cleandoc(command.help or "").replace("``", "`")
        # What --help prints line by line stays so.
        said = _AS_IT_IS.sub(r"```text\n\1\n```", said)
        yield f"## {path}\n\n{said}\n"
        if shown:
            yield table(("argument or option", "default", "what it does"), map(_parameter, shown))
    for name, one in commands.items():
        yield from _command(f"{path} {name}", one)


def _is_common(one: Any) -> bool:
    return one.name in ("help", "install_completion", "show_completion")


def _parameter(one: Any) -> tuple[str, str, str]:
    is_argument = one.param_type_name == "argument"
    name = str(one.metavar or one.name.upper()) if is_argument else ", ".join((*one.opts, *one.secondary_opts))
    is_told = one.default not in (None, False, (), []) and isinstance(one.default, str | int | float)
    default = f"`{one.default}`" if is_told else "required" if one.required else ""
    return f"`{name}`", default, getattr(one, "help", None) or ""


def tables_page() -> str:
    """docs/reference/tables.md."""
    head = f"""# Tables

{_GENERATED} These Delta tables are below `storage.path`, each in a folder of its name. Any reader of
Delta can read them; only Parallax writes them. Times of the type `timestamp` are in UTC.
"""
    parts = [head]
    for one in TABLES:
        rows = ((f"`{c.name}`", f"`{c.type}`".replace(", tz=UTC", ""), c.meaning) for c in one.columns)
        parts += [f"## {one.name}\n\n{one.holds}\n", table(("column", "type", "meaning"), rows)]
    return "\n".join(parts)


def kinds_page() -> str:
    """docs/reference/kinds.md."""
    rows = []
    for kind, row in KINDS.items():
        what = f"{row.headline}{row.not_led}".format(broker="2", partition="orders-0")
        mend = f"[{row.runbook.replace('-', ' ')}](../runbook.md#{row.runbook})"
        rows.append((f"`{kind}`", str(row.rule), str(row.severity), f"{what}.", f"Consumers {row.consumers}.", mend))
    head = (
        "kind",
        "invariant",
        "severity",
        "what happened, for example",
        "what it means",
        "repair",
    )
    return f"""# Kinds of findings

{_GENERATED} `critical` pages, `warning` opens a ticket. The invariants are in [theory](../contribute/theory.md).
`parallax findings explain ID` says what to do about one finding, with the commands.

{table(head, rows)}"""


_BEGIN = "<!-- From here to the end mark: generated from `parallax.remedies`. -->"
_END = "<!-- End mark. -->"


def runbook_page() -> str:
    """docs/runbook.md: of it only the sections on repairs are generated, between two marks."""
    before, _, rest = (TOP / RUNBOOK).read_text(encoding="utf-8").partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{_repairs()}{_END}{after}"


def _repairs() -> str:
    """The sections of the runbook on repairs: what each consists of, and which ones end what."""
    lines = ["### The repairs"]
    for one in REMEDIES:
        acts = ". ".join(f"If too few are left, {a.line()}" if a is Act.STAND_IN else a.begin() for a in one.acts)
        same = next(other for other in REMEDIES if other.acts == one.acts)
        steps = acts if same is one else "The same steps"
        text = f"**{one.name[:1].upper()}{one.name[1:]}**, by {one.by}: {steps}. {one.note}".strip()
        lines.append(_wrapped(text, "- ", "  "))
    for case in CASES:
        named = ", ".join(f"`{kind}`" for kind, row in KINDS.items() if row.case is case)
        first, *rest = f"{f'{named}: ' if named else ''}{case.begin}. {case.note}".split("\n\n")
        lines += ["", f"### {case.title}", _wrapped(first)]
        lines += [text for one in rest for text in ("", _wrapped(one))]
    return "\n".join(lines) + "\n"


def _wrapped(text: str, first: str = "", other: str = "") -> str:
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=other,
        break_long_words=False,
        break_on_hyphens=False,
    )


def logs_page() -> str:
    """docs/reference/logs.md."""
    rows = ((f"`{name}`", f"{text[:1].upper()}{text[1:]}.") for name, text in sorted(FIELDS.items()))
    return f"""# Log fields

{_GENERATED} The job logs to standard error: one JSON object a line. Each has `event` (what happened), `level` and
`timestamp` (UTC). `exception` is a traceback. All other fields are these; what is not known is left out.

{table(("field", "what it says"), rows)}"""


PAGES: Mapping[str, Any] = {
    "conf/parallax.yaml": settings_file,
    "docs/reference/settings.md": settings_page,
    "docs/reference/commands.md": commands_page,
    "docs/reference/metrics.md": metrics_page,
    "docs/reference/kinds.md": kinds_page,
    "docs/reference/tables.md": tables_page,
    "docs/reference/logs.md": logs_page,
    RUNBOOK: runbook_page,
    str(chart_schema.FILE): lambda: chart_schema.with_settings((TOP / chart_schema.FILE).read_text(encoding="utf-8")),
}
"""By path, what makes the text."""


def text_of(path: str) -> str:
    """The text of a page, as it should be."""
    return re.sub(r"\n{3,}", "\n\n", str(PAGES[path]()))


def differing(top: Path = TOP) -> list[str]:
    """The paths of those that are not as they should be."""
    return [path for path in PAGES if not (top / path).is_file() or (top / path).read_text() != text_of(path)]


def main() -> int:
    """Write the pages, or with ``--check`` name those that differ."""
    stale = differing()
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path} is not what the code says; run: make reference")
        return int(bool(stale))
    for path in stale:
        (TOP / path).write_text(text_of(path), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
