"""The templates of Alertmanager for Slack: the same texts as for others, escaped as Slack reads them."""

from __future__ import annotations

import re

_MARK = "{{/* For Slack: the same, escaped. It is generated from the templates above. */}}\n"
_DEFINED = re.compile(r'(?ms)^{{ define "parallax\.(summary|title|text)" -}}\n.*?^{{- end }}\n')
_PRINTED = re.compile(r"(\w+: )?{{ (?!if |else|end |range |with |define |template |printf |\$\w+ :?= )(.+?) }}")
"""An action that prints a text, with the word before it."""
_COMMAND = "Run: "
"""The word before a command. It is copied from the message, so its asterisks stay."""
_ESCAPES = """
{{ define "parallax.slack.copied" -}}
{{ . | reReplaceAll "&" "&amp;" | reReplaceAll "<" "&lt;" | reReplaceAll ">" "&gt;" }}
{{- end }}
{{/* Slack has no escape for the asterisk: what looks like one makes nothing bold. */}}
{{ define "parallax.slack.plain" }}{{ template "parallax.slack.copied" (. | reReplaceAll "[*]" "\u2217") }}{{ end }}
"""


def with_slack(text: str) -> str:
    """The templates with a second form of each that is for Slack.

    Args:
        text: the file of templates; what follows the mark in it is written again.
    """
    own = text.partition(_MARK)[0]
    again = "\n".join(found[0].replace('"parallax.', '"parallax.slack.') for found in _DEFINED.finditer(own))
    return own + _MARK + _ESCAPES + "\n" + _PRINTED.sub(_escaped, again)


def _escaped(found: re.Match[str]) -> str:
    word, printed = found[1] or "", found[2]
    how = "copied" if word == _COMMAND else "plain"
    return f'{word}{{{{ template "parallax.slack.{how}" ({printed}) }}}}'
