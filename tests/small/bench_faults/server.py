"""A server of a model called `tiny`, which works until it is told what to do instead."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Server:
    """Answers every prompt in capitals; `trouble` is a status, or `html`, `silent`, `other-model`, `cut`."""

    def __init__(self) -> None:
        self.trouble: int | str | None = None
        self.needs_key: str | None = None
        self.over = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.answer(self, None)

            def do_POST(self) -> None:
                server.answer(self, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.port = self.http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"

    def answer(self, handler: BaseHTTPRequestHandler, body: dict[str, Any] | None) -> None:
        """Send what a server in this trouble sends."""
        if self.trouble == "silent":
            self.over.wait(30)
            return
        if self.needs_key and handler.headers.get("Authorization") != f"Bearer {self.needs_key}":
            send(handler, 401, {"error": {"message": "Incorrect API key provided"}})
        elif isinstance(self.trouble, int):
            send(handler, self.trouble, {"error": {"message": "no"}})
        elif self.trouble == "html":
            send(handler, 200, b"<html>Welcome to nginx!</html>", "text/html")
        elif self.trouble == "cut":
            send(handler, 200, b'{"data": [{"id": "ti')
        elif not handler.path.startswith("/v1/"):
            send(handler, 404, {"error": {"message": "Not Found"}})
        elif body is None:
            send(handler, 200, {"object": "list", "data": [{"id": self.model, "object": "model"}]})
        elif body["model"] != self.model:
            send(handler, 404, {"error": {"message": f"The model `{body['model']}` does not exist."}})
        else:
            text = {"index": 0, "finish_reason": "stop", "text": body["prompt"].upper()}
            send(handler, 200, {"model": body["model"], "choices": [text], "usage": {"completion_tokens": 2}})

    @property
    def model(self) -> str:
        """What the server calls its model."""
        return "another" if self.trouble == "other-model" else "tiny"


def send(handler: BaseHTTPRequestHandler, status: int, content: Any, kind: str = "application/json") -> None:
    """Send a status and JSON, or bytes."""
    content = content if isinstance(content, bytes) else json.dumps(content).encode()
    handler.send_response(status)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


@contextmanager
def serving() -> Iterator[Server]:
    """Serve at a free port of this machine."""
    server = Server()
    threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield server
    finally:
        server.over.set()
        server.http.shutdown()
        server.http.server_close()
