"""A part of ``parallax check``: whether the addresses that findings are reported to can be reached.

These are the receivers of messages, the heartbeat's address, and the address under which people reach the status page.
No message is sent: it only connects to each host and looks at its certificate.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from typing import NamedTuple

from pydantic import SecretStr
from urllib3.util import parse_url

from parallax.addresses import is_address
from parallax.alerting.webhook.sender import PAGERDUTY, secret_of
from parallax.check_line import Line, Result
from parallax.config import AlertingSettings, WebhookSettings
from parallax.errors import one_line

_TIMEOUT_S = 5.0


def receivers(alerting: AlertingSettings, *, job_runs: bool | None = None) -> Iterator[Line]:
    """Yield a line for each receiver, one for the heartbeat, and one for the status page's address.

    This takes a few seconds for each address that does not answer.

    Args:
        alerting: the job's settings for alerts.
        job_runs: whether the job runs now, and so serves its page; None if that is not known.
    """
    if not alerting.webhooks:
        text = "alerting.webhooks is empty: who hears of findings is up to Prometheus and its alert rules."
        yield Line("webhooks", Result.NOTE, text)
    for one in alerting.webhooks:
        yield _receiver(one)
    if alerting.heartbeat_url is None and alerting.heartbeat_url_file is None:
        text = "alerting.heartbeat_url is not set: that the job is dead is up to Prometheus (ParallaxAbsent) to say."
        yield Line("heartbeat", Result.NOTE, text)
    else:
        host, problem = _reached(alerting.heartbeat_url, alerting.heartbeat_url_file, "", _TIMEOUT_S)
        every = f"the job asks for it every {alerting.heartbeat_interval_s:g} s while it works"
        yield _line("heartbeat", "alerting.heartbeat_url", host, problem, every)
    if not alerting.external_url:
        text = "alerting.external_url is not set: messages link to no page."
        yield Line("external_url", Result.NOTE, text)
        return
    said = f"messages link to {alerting.external_url}"
    if job_runs is False:
        yield Line("external_url", Result.FINE, f"{said}; the page is there once the job runs.")
        return
    host, problem = _reached(SecretStr(alerting.external_url), None, "", _TIMEOUT_S)
    if problem is None:
        yield Line("external_url", Result.FINE, f"{said}, and {host} answers.")
    else:
        why = f"{host} does not answer here ({problem.why}): look whether it does where messages are read"
        yield Line("external_url", Result.NOTE, f"{said}; {why}.")


def _receiver(settings: WebhookSettings) -> Line:
    about, name = f"webhook {settings.name}", f"alerting.webhooks, {settings.name}"
    default = PAGERDUTY if settings.format == "pagerduty" else ""
    host, problem = _reached(settings.url, settings.url_file, default, settings.timeout_ms / 1000, settings.ca_file)
    return _line(about, name, host, problem, f"it is sent {settings.format} messages, none by this check")


class _Problem(NamedTuple):
    why: str
    is_passing: bool = False


def _line(about: str, option: str, host: str, problem: _Problem | None, what: str) -> Line:
    if problem is None:
        return Line(about, Result.FINE, f"{host} answers; {what}.")
    # A host that is down may be back: as of a broker, that is not to be known now.
    result = Result.UNKNOWN if problem.is_passing else Result.WRONG
    hint = "correct the address, or let this machine reach it"
    return Line(about, result, f"{option}: {host} cannot be used ({problem.why}); {hint}.")


def _reached(
    url: SecretStr | None, file: str | None, default: str, timeout_s: float, ca_file: str | None = None
) -> tuple[str, _Problem | None]:
    """Host and port of an address, whose path may be a secret, and why they cannot be connected to, if so."""
    try:
        address = secret_of(url, file) or default
    except (OSError, ValueError) as error:
        return "its address", _Problem(f"the file cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8'}")
    if not is_address(address):
        return "its address", _Problem("the file holds no http:// or https:// address")
    parsed = parse_url(address)
    is_tls = parsed.scheme == "https"
    host, port = (parsed.host or "").strip("[]"), parsed.port or (443 if is_tls else 80)
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            if is_tls:
                with ssl.create_default_context(cafile=ca_file).wrap_socket(connection, server_hostname=host):
                    pass
    except ssl.SSLError as error:
        return f"{host}:{port}", _Problem(f"TLS: {getattr(error, 'verify_message', None) or error.reason or error}")
    except (OSError, UnicodeError) as error:
        return f"{host}:{port}", _Problem(one_line(getattr(error, "strerror", None) or error), is_passing=True)
    return f"{host}:{port}", None


__all__ = ["receivers"]
