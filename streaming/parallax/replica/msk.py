"""Tokens for Amazon MSK's IAM authentication, signed by AWS's own library; this needs the extra ``msk``.

A token is a signed URL. AWS's libraries find the credentials for the signature by themselves: in the environment, in a
profile, or by the role of the instance or the container. Only for a role they send a request.
"""

from __future__ import annotations

import importlib
import os
import re
import time
from collections.abc import Sequence
from typing import Any

from parallax.errors import one_line
from parallax.replica.errors import BadOption, Unauthorized
from parallax.replica.oauth import ReusedToken

MECHANISM = "AWS_MSK_IAM"
"""The mechanism's name in MSK's documents; on the wire it is OAUTHBEARER."""

_SIGNER = "aws_msk_iam_sasl_signer.MSKAuthTokenProvider"
_OF_AWS = re.compile(r".*\.kafka(?:-serverless)?\.([a-z]{2}(?:-[a-z]+)+-\d+)\.amazonaws\.com(?:\.cn)?", re.IGNORECASE)
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")


class MskTokenProvider(ReusedToken):
    """Gives tokens for Amazon MSK, and signs a new one before the last one expires.

    Args:
        hosts: host names of brokers; they may name the AWS region.

    Raises:
        BadOption: the extra is not installed, or nothing names the region.
    """

    def __init__(self, hosts: Sequence[str]) -> None:
        super().__init__()
        try:
            self._signer: Any = importlib.import_module(_SIGNER)
        except ImportError:
            problem = f"{MECHANISM} needs the extra msk; install the wheel with it: pip install 'FILE.whl[msk]'"
            raise BadOption(f"sasl.mechanism: {problem}", option="sasl.mechanism") from None
        self._region = _region(hosts)

    def extensions(self) -> dict[str, str]:
        """No SASL extensions, since MSK needs none with a token."""
        return {}

    def _fresh(self) -> tuple[str, float]:
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.session import Session

        try:
            if Session().get_credentials() is None:  # of which the signer makes an error of its own code
                problem = "finds no AWS credentials; give them by the environment, a profile or a role"
                raise Unauthorized(f"sasl.mechanism: {MECHANISM} {problem}")
            token, ends_at_ms = self._signer.generate_auth_token(self._region)
        except (BotoCoreError, ClientError, ValueError) as error:
            problem = f"{type(error).__name__}: {one_line(error)}"
            raise ConnectionError(f"the AWS credentials for {MECHANISM} cannot be had ({problem})") from error
        return str(token), ends_at_ms / 1000 - time.time()


def _region(hosts: Sequence[str]) -> str:
    found = [match[1].lower() for match in map(_OF_AWS.fullmatch, hosts) if match is not None]
    found += [region for name in _REGIONS if (region := os.environ.get(name))]
    if not found:
        problem = f"no name of MSK's tells the AWS region; set the environment variable {_REGIONS[0]}"
        raise BadOption(f"bootstrap.servers: {problem}", option="bootstrap.servers")
    return found[0]
