"""Servers for tests: on this machine, at a free port, with a log of what they were asked."""

from __future__ import annotations

import json
import threading
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server:
    """Answers by a function of (handler, path, body), or of the text that was sent."""

    def __init__(self, answer):
        self.answer, self.asked, self.headers = answer, [], []
        self.lock, self.at_once, self.most, self.over = threading.Lock(), 0, 0, threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with server.lock:
                    server.asked.append((self.path, body))
                    server.headers.append(dict(self.headers))
                    server.at_once += 1
                    server.most = max(server.most, server.at_once)
                try:
                    server.answer(self, self.path, body)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True
                finally:
                    with server.lock:
                        server.at_once -= 1

            def do_GET(self):
                server.answer(self, self.path, {})

            def log_message(self, *words):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"

    @property
    def prompts(self):
        """How often each prompt was asked."""
        return Counter(prompt_of(body) for _, body in self.asked)


def prompt_of(body):
    return body["prompt"] if "prompt" in body else body["messages"][-1]["content"]


@contextmanager
def serving(answer):
    server = Server(answer)
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.http.shutdown()
        server.http.server_close()


def send(handler, status=200, content=b"", kind="application/json", headers=()):
    content = content if isinstance(content, bytes) else json.dumps(content).encode()
    handler.send_response(status)
    for name, value in (("Content-Type", kind), ("Content-Length", str(len(content))), *headers):
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(content)


def completion(body, text=None, **changes):
    """What a truthful server answers: the prompt in capitals."""
    text = prompt_of(body).upper() if text is None else text
    content = {"text": text} if "prompt" in body else {"message": {"role": "assistant", "content": text}}
    choice = {"index": 0, "finish_reason": "stop", **content}
    return {"model": body["model"], "choices": [choice], "usage": {"completion_tokens": 2}, **changes}


def truthful(handler, path, body):
    send(handler, content=completion(body))
