"""Validates Kafka's client options, in Kafka's own spelling, and turns them into `Options` for connections.

Both common spellings are understood. One is the Java client's (``sasl.jaas.config``, ``ssl.truststore.location`` with
PEM files), the other librdkafka's (``sasl.username``, ``ssl.ca.location``). An unknown option is an error and never
ignored: a misspelt security option would otherwise silently weaken the connection.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parallax.addresses import NO_ADDRESS, brokers, is_address, names_a_user
from parallax.config import variable_of
from parallax.errors import option_name
from parallax.replica.errors import BadOption
from parallax.replica.msk import MECHANISM, MskTokenProvider
from parallax.replica.oauth import TokenProvider
from parallax.tls import Renewed

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER", MECHANISM)

ALIASES: Mapping[str, str] = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.cafile": "ssl.ca.location",
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.certfile": "ssl.certificate.location",
    "ssl.keystore.location": "ssl.certificate.location",
    "ssl.keyfile": "ssl.key.location",
    "ssl.crlfile": "ssl.crl.location",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}
"""Other spellings of options: the Java clients', and earlier ones of librdkafka."""
CLUSTER_ID = "cluster.id"
"""An option of Parallax's own among Kafka's: it goes wherever they go, into the processes of Spark too."""

OPTIONS: Mapping[str, str] = {
    "bootstrap.servers": "Brokers to start from: host:port[,host:port], or a list. "
    "SASL_SSL://host:port sets the protocol too.",
    "client.id": "Name of Parallax in the brokers' logs and quotas. Default: parallax.",
    CLUSTER_ID: "Parallax refuses any other cluster. "
    "Default: the cluster that answered when the storage was first used.",
    "security.protocol": "PLAINTEXT (default), SSL, SASL_PLAINTEXT or SASL_SSL.",
    "sasl.mechanism": "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, GSSAPI (default), OAUTHBEARER or AWS_MSK_IAM. "
    "AWS_MSK_IAM needs the extra msk, and AWS's own credentials in its environment, profile or role.",
    "sasl.username": "For PLAIN and SCRAM.",
    "sasl.password": "For PLAIN and SCRAM.",
    "sasl.jaas.config": "The Java clients' form of user and password, or of client id and secret.",
    "sasl.kerberos.service.name": "For GSSAPI. Default: kafka.",
    "sasl.oauthbearer.method": "oidc is the only value: client credentials.",
    "sasl.oauthbearer.token.endpoint.url": "Where Parallax gets its tokens.",
    "sasl.oauthbearer.client.id": "Client that asks for tokens.",
    "sasl.oauthbearer.client.secret": "Its secret.",
    "sasl.oauthbearer.scope": "Scope of the tokens, if the endpoint wants one.",
    "sasl.oauthbearer.extensions": "SASL extensions: name=value[,name=value].",
    "https.ca.location": "PEM file of certificates that the token endpoint's is checked against.",
    "ssl.ca.location": "PEM file of certificates that the brokers' are checked against. Default: the system's.",
    "ssl.certificate.location": "PEM file of Parallax's own certificate.",
    "ssl.key.location": "PEM file of its key. Default: the file of the certificate.",
    "ssl.key.password": "Password of the key.",
    "ssl.crl.location": "PEM file of revoked certificates.",
    "ssl.truststore.type": "PEM is the only value.",
    "ssl.keystore.type": "PEM is the only value.",
    "ssl.endpoint.identification.algorithm": "https (default) checks the broker's host name. "
    "Empty or none: it is not checked.",
    "enable.ssl.certificate.verification": "false: brokers' certificates are not checked at all. Default: true.",
    "socket.receive.buffer.bytes": "Receive buffer of each connection. Default: the system decides.",
}
"""What each option does, by its name. Any other name is refused, except the spellings in `ALIASES`."""

_TLS_FILES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.crl.location")

_MOST = (1 << 31) - 1
"""What sockets take."""

Address = tuple[str, int]


@dataclass(frozen=True)
class Options:
    """Validated options for connecting to a cluster: addresses, TLS, SASL. `parse` makes them.

    Attributes:
        bootstrap: addresses to start from, in the order given.
        cluster_id: ``cluster.id``, the id of the one cluster that may answer; None for the cluster that answers first.
        client_id: ``client.id``, which brokers log and apply quotas to.
        tls: the context for TLS; None for plain text.
        sasl: keyword arguments for the SASL mechanism, with its name under ``mechanism``; None without SASL.
        receive_buffer_bytes: ``SO_RCVBUF``; None leaves it to the system, which tunes it itself.
    """

    bootstrap: tuple[Address, ...]
    cluster_id: str | None = None
    client_id: str = "parallax"
    tls: Renewed | None = None
    sasl: Mapping[str, Any] | None = field(default=None, repr=False)
    receive_buffer_bytes: int | None = None

    @property
    def protocol(self) -> str:
        """The value of ``security.protocol`` that fits these options, such as ``SASL_SSL``."""
        carrier = "PLAINTEXT" if self.tls is None else "SSL"
        return carrier if self.sasl is None else f"SASL_{carrier}"


def parse(kafka: Mapping[str, str]) -> Options:
    """Validate options in Kafka's spelling, and return them as `Options`.

    Args:
        kafka: option name to value, such as ``{"bootstrap.servers": "host:9092"}``.

    Raises:
        BadOption: an option is unknown, ill-typed or incomplete; it names the first such option.
    """
    given = _canonical(kafka)
    bootstrap = _bootstrap(given.get("bootstrap.servers", ""))
    protocol = _protocol(given)
    _check_effect(given, protocol)
    return Options(
        bootstrap=bootstrap,
        cluster_id=given.get(CLUSTER_ID) or None,
        client_id=given.get("client.id", "parallax"),
        tls=_renewed(given) if protocol.endswith("SSL") else None,
        sasl=_sasl(given, protocol) if protocol.startswith("SASL") else None,
        receive_buffer_bytes=_positive(given, "socket.receive.buffer.bytes"),
    )


def protocol_of(kafka: Mapping[str, str]) -> str:
    """The security protocol that fits some options, such as ``SASL_SSL``.

    A login, such as user and password, may still be missing.

    Args:
        kafka: option name to value.

    Raises:
        BadOption: an option is unknown, or the addresses name no protocol, or several.
    """
    return _protocol(_canonical(kafka))


def files_of(kafka: Mapping[str, str]) -> dict[str, str]:
    """The paths of the files that options name, by option; every machine that connects to a broker needs these files.

    Args:
        kafka: option name to value.

    Raises:
        BadOption: an option is unknown.
    """
    given = _canonical(kafka)
    return {option: given[option] for option in (*_TLS_FILES, "https.ca.location") if given.get(option)}


def _canonical(kafka: Mapping[str, str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for name, value in kafka.items():
        known = ALIASES.get(name, name)
        if known not in OPTIONS:
            shown = option_name(name)
            if not shown or shown.startswith("..."):  # It may be a secret that has slipped into a name's place.
                raise _bad("kafka", "one of its names is none of an option (not shown here); remove it or correct it")
            variable = variable_of(("kafka", name))
            of = "" if variable is None else f" (environment variable {option_name(variable)})"
            raise _bad(shown, f"unknown option{of}; remove it or correct its name")
        if known in given and given[known] != str(value):
            raise _bad(name, f"given twice with different values (also as {known}); keep one")
        given[known] = str(value)
    return given


def _protocol(given: Mapping[str, str]) -> str:
    """The protocol as set, or as the addresses have it: nobody who writes ``SSL://`` may end up with plain text."""
    set_, addresses = given.get("security.protocol", "").upper(), given.get("bootstrap.servers", "")
    if set_ and set_ not in _PROTOCOLS:
        raise _bad("security.protocol", f"{set_!r} is not one of {', '.join(_PROTOCOLS)}")
    schemes = dict.fromkeys(scheme.upper() for scheme in re.findall(r"(?:^|,)\s*([A-Za-z_]+)://", addresses))
    named = [scheme for scheme in schemes if scheme in _PROTOCOLS]
    if len({*named, set_} - {""}) > 1:
        said = " and ".join(f"{scheme}://" for scheme in named)
        against = f", and security.protocol is {set_}" if set_ else ""
        raise _bad("bootstrap.servers", f"says {said}{against}; write one protocol")
    if set_ or named:
        return set_ or named[0]
    for scheme in schemes:  # the name of a listener, such as EXTERNAL
        raise _bad("bootstrap.servers", f"{scheme}:// names no protocol; set security.protocol, or leave it out")
    return "PLAINTEXT"


def _check_effect(given: Mapping[str, str], protocol: str) -> None:
    """Refuse an option that the protocol leaves without effect: who gave it relies on it."""
    for option, value in given.items():
        is_tls = option.startswith("ssl.") or option == "enable.ssl.certificate.verification"
        is_sasl = option.startswith("sasl.") or option == "https.ca.location"
        if not value or not ((is_tls and "SSL" not in protocol.split("_")) or (is_sasl and "SASL" not in protocol)):
            continue
        is_said = "security.protocol" in given or "://" in given.get("bootstrap.servers", "")
        said = f"is {protocol}" if is_said else "is not (PLAINTEXT by default)"
        fitting = " or ".join(one for one in _PROTOCOLS if ("SSL" if is_tls else "SASL") in one.split("_"))
        raise _bad(option, f"is set and security.protocol {said}: it has no effect; write {fitting}, or leave it out")


def _bad(option: str, problem: str) -> BadOption:
    return BadOption(f"{option}: {problem}", option=option)


def _bootstrap(text: str) -> tuple[Address, ...]:
    try:
        return brokers(text)
    except ValueError as error:
        raise _bad("bootstrap.servers", str(error)) from None


def _positive(given: Mapping[str, str], option: str) -> int | None:
    text = given.get(option)
    if text is None:
        return None
    if not re.fullmatch("[0-9]{1,10}", text) or not 0 < int(text) <= _MOST:
        raise _bad(option, f"{text!r} is not a positive whole number of at most {_MOST}")
    return int(text)


def _file(given: Mapping[str, str], option: str) -> str | None:
    path = given.get(option)
    try:
        is_there = not path or Path(path).is_file()
    except OSError:  # no file system has such a name
        is_there = False
    if not is_there:
        shown = "the text of a PEM file; give the path of one" if "-----BEGIN" in str(path) else path
        raise _bad(option, f"no such file: {shown}")
    return path or None


def _renewed(given: Mapping[str, str]) -> Renewed:
    files = [path for option in _TLS_FILES if (path := given.get(option))]
    return Renewed(files, lambda: _tls(given), (BadOption, OSError))


def _tls(given: Mapping[str, str]) -> ssl.SSLContext:
    for option in ("ssl.truststore.type", "ssl.keystore.type"):
        if given.get(option, "PEM").upper() != "PEM":
            raise _bad(option, "only PEM is supported; convert with keytool and openssl")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_certificates(context, given)
    if given.get("ssl.endpoint.identification.algorithm", "https").lower() in ("", "none"):
        context.check_hostname = False
    if given.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _load_certificates(context: ssl.SSLContext, given: Mapping[str, str]) -> None:
    option = "ssl.ca.location"
    try:
        ca = _file(given, option)
        context.load_verify_locations(ca) if ca else context.load_default_certs()
        option = "ssl.certificate.location"
        certificate = _file(given, option)
        if certificate:
            _load_key(context, certificate, given)
        option = "ssl.crl.location"
        crl = _file(given, option)
        if crl:
            context.load_verify_locations(crl)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    except ssl.SSLError as error:
        raise _bad(option, f"{given[option]} cannot be used as PEM ({error.reason or error})") from error


def _load_key(context: ssl.SSLContext, certificate: str, given: Mapping[str, str]) -> None:
    """Load a certificate and its key.

    OpenSSL would ask for a password that is missing on the terminal.
    """
    key = _file(given, "ssl.key.location") or certificate
    password = given.get("ssl.key.password")

    def unknown() -> str:
        raise _bad("ssl.key.password", f"missing; the key in {key} is encrypted")

    try:
        context.load_cert_chain(certificate, key, unknown if password is None else password)
    except ssl.SSLError as error:
        if password is not None and "ENCRYPTED" in Path(key).read_text(encoding="ascii", errors="replace"):
            raise _bad("ssl.key.password", f"does not open the key in {key}; correct it") from error
        raise


def _sasl(given: Mapping[str, str], protocol: str) -> Mapping[str, Any]:
    mechanism = given.get("sasl.mechanism", "GSSAPI").upper()
    if mechanism not in _MECHANISMS:
        raise _bad("sasl.mechanism", f"{mechanism!r} is not one of {', '.join(_MECHANISMS)}")
    sasl: dict[str, Any] = {"mechanism": mechanism, "sasl_mechanism": mechanism, "security_protocol": protocol}
    if mechanism == "GSSAPI":
        sasl["sasl_kerberos_service_name"] = given.get("sasl.kerberos.service.name", "kafka")
        return sasl
    if mechanism == "OAUTHBEARER":
        return {**sasl, "sasl_oauth_token_provider": _token_provider(given)}
    if mechanism == MECHANISM:
        return _sasl_of_msk(given, protocol)
    jaas = dict(re.findall(r'(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"', given.get("sasl.jaas.config", "")))
    for name in ("username", "password"):
        value = given.get(f"sasl.{name}", jaas.get(name))
        if value is None:
            raise _bad(
                f"sasl.{name}", f"missing; {mechanism} needs sasl.username and sasl.password (or sasl.jaas.config)"
            )
        sasl[f"sasl_plain_{name}"] = value
    return sasl


def _sasl_of_msk(given: Mapping[str, str], protocol: str) -> Mapping[str, Any]:
    """MSK takes its tokens by OAUTHBEARER, from any client that does not speak MSK's own mechanism."""
    for option in given:
        if option.startswith("sasl.") and option != "sasl.mechanism":
            raise _bad(option, f"does not go with {MECHANISM}; leave it out, AWS's own environment and profiles count")
    if protocol != "SASL_SSL":
        raise _bad("security.protocol", f"{MECHANISM} needs SASL_SSL")
    hosts = [host for host, _ in _bootstrap(given.get("bootstrap.servers", ""))]
    wire = {"mechanism": "OAUTHBEARER", "sasl_mechanism": "OAUTHBEARER", "security_protocol": protocol}
    return {**wire, "sasl_oauth_token_provider": MskTokenProvider(hosts)}


def _token_provider(given: Mapping[str, str]) -> TokenProvider:
    if given.get("sasl.oauthbearer.method", "oidc").lower() != "oidc":
        raise _bad("sasl.oauthbearer.method", "only oidc (client credentials) is supported; leave it out")
    jaas = dict(
        re.findall(r'(clientId|clientSecret|scope)\s*=\s*"((?:[^"\\]|\\.)*)"', given.get("sasl.jaas.config", ""))
    )

    def wanted(option: str, in_jaas: str | None = None) -> str:
        value = given.get(option) or jaas.get(in_jaas or "")
        if not value:
            raise _bad(option, "missing; OAUTHBEARER needs a token endpoint, a client id and its secret")
        return value

    url = wanted("sasl.oauthbearer.token.endpoint.url")
    if not is_address(url):
        raise _bad("sasl.oauthbearer.token.endpoint.url", NO_ADDRESS)
    if names_a_user(url):
        problem = (
            "holds a name or password before an @; write who asks under sasl.oauthbearer.client.id and .client.secret"
        )
        raise _bad("sasl.oauthbearer.token.endpoint.url", problem)
    return TokenProvider(
        url,
        wanted("sasl.oauthbearer.client.id", "clientId"),
        wanted("sasl.oauthbearer.client.secret", "clientSecret"),
        given.get("sasl.oauthbearer.scope") or jaas.get("scope", ""),
        authority=_file(given, "https.ca.location"),
        extensions=_extensions(given.get("sasl.oauthbearer.extensions", "")),
    )


def _extensions(text: str) -> dict[str, str]:
    parts = [part.partition("=") for part in filter(None, (p.strip() for p in text.split(",")))]
    for name, equals, value in parts:
        if not (name.isascii() and name.isalpha() and equals and value.isprintable()) or name == "auth":
            raise _bad("sasl.oauthbearer.extensions", "is not name=value[,name=value]; correct it")
    return {name: value for name, _, value in parts}
