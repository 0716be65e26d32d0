"""A process that tells receivers of what the findings table holds, as a job does: to be killed.

``python -m tests.e2e.webhook_process STORAGE URL``
"""

from __future__ import annotations

import sys
import time

from parallax.alerting.webhook.outbox import Pace
from parallax.alerting.webhook.sender import Webhooks
from parallax.config import AlertingSettings
from parallax.findings.finding import current
from parallax.findings.table import read_events

PACE = Pace(repeat_s=3600, wait_s=0.2, interval_s=0.2, retry_s=0.1, retry_most_s=0.5)


def main() -> None:
    storage, url = sys.argv[1:]
    hook = {"name": "hook", "url": url, "timeout_ms": 500}
    webhooks = Webhooks(AlertingSettings.model_validate({"webhooks": [hook]}), storage, PACE)
    webhooks.start()
    print("started", flush=True)
    while True:
        webhooks.observe([finding for finding in current(read_events(storage)).values() if finding.stands])
        time.sleep(0.1)


if __name__ == "__main__":
    main()
