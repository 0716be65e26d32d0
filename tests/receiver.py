"""What takes in messages over HTTP, and can be made to refuse them or to hang."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

_HANGS_S = 60.0


@dataclass(frozen=True)
class Message:
    """What was posted, and taken.

    Attributes:
        path: where to: which receiver.
        at: when it came, seconds since the epoch.
        headers: of the request.
        content: the bytes.
        body: the document in them, as https://prometheus.io/docs/alerting/latest/configuration/#webhook_config has it.
    """

    path: str
    at: float
    headers: dict[str, str]
    content: bytes
    body: dict[str, Any]


class Receiver:
    """Takes in whatever is posted to it.

    Attributes:
        messages: what it has taken.
        tries: how often something was posted.
        pings: the paths that were asked for (GET), and taken.
        status: what it answers to what comes from now on; what it does not take is not among the messages.
        headers: of its answers.
        answers: cleared, it takes a message and does not answer.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.tries = 0
        self.pings: list[str] = []
        self.status = 200
        self.headers: dict[str, str] = {}
        self.answers = threading.Event()
        self.answers.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content, status = self.rfile.read(int(self.headers["Content-Length"])), receiver.status
                receiver.tries += 1
                if status < 300:
                    body = json.loads(content)
                    receiver.messages.append(Message(self.path, time.time(), dict(self.headers), content, body))
                receiver.answers.wait(_HANGS_S)
                self.send_response(status)
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.end_headers()

            def do_GET(self) -> None:
                if receiver.status < 300:
                    receiver.pings.append(self.path)
                self.send_response(receiver.status)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 1024
            """Alertmanager posts the messages of all groups at once."""

            def handle_error(self, *_: object) -> None:
                """Whoever has posted was killed, or waits no longer."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.answers.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
