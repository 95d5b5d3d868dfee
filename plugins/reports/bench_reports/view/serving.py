"""Serve the page and its linked files to browsers on this machine.

All addresses start with a secret token, which keeps out other users of the machine and pages of other sites. If
others can see command lines, start the browser yourself (`--no-open`). Only linked files are sent: requests are
looked up in the list of these files, never in the file system.
"""

import secrets
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from urllib.parse import quote, unquote_to_bytes, urlsplit

from bench_core.errors import BenchError, SuiteError
from bench_reports.view.catalog import Catalog

HOST = "127.0.0.1"
TYPES = {
    ".html": "text/html", ".csv": "text/csv", ".svg": "image/svg+xml", ".json": "application/json",
    ".pdf": "application/pdf", ".png": "image/png",
}  # fmt: skip
PLAIN_TEXT = "text/plain"
HEADERS = {
    "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin", "X-Frame-Options": "DENY",
}  # fmt: skip
ACTIVE = (".html", ".svg")  # may contain scripts
#: Content security policy of untrusted reports: their scripts cannot read the page or load anything.
POLICY = (
    "sandbox allow-scripts allow-downloads allow-popups; default-src 'none'; img-src data: 'self'; "
    "style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)


class Server(ThreadingHTTPServer):
    """Serves the page of a catalog, and its linked files, on a local port."""

    daemon_threads = True

    def __init__(self, catalog: Catalog, port: int = 0) -> None:
        self.catalog, self.lock, self.secret = catalog, Lock(), secrets.token_urlsafe(12)
        try:
            super().__init__((HOST, port), Handler)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            raise SuiteError(f"port {port} cannot be used: {why}. Choose another --port, or omit it.") from None

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://{HOST}:{self.server_address[1]}/{self.secret}/"


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of a browser."""

    server: Server
    server_version, sys_version = "bench", ""
    timeout = 60  # seconds of inactivity

    def do_GET(self) -> None:
        """Send the page, or a file that it links to."""
        path = urlsplit(self.path).path
        before = f"/{self.server.secret}/"
        if path == before:
            self._send_page()
        elif path.startswith(before):
            self._send_file(quote(unquote_to_bytes(path.removeprefix(before))))
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    do_HEAD = do_GET

    def _send_page(self) -> None:
        try:
            with self.server.lock:
                text = self.server.catalog.page()
        except BenchError as error:
            self._send(f"{error}\n".encode("utf-8", "backslashreplace"), PLAIN_TEXT, HTTPStatus.NOT_FOUND)
            return
        self._send(text.encode(), "text/html")

    def _send_file(self, address: str) -> None:
        catalog = self.server.catalog
        content = _content(catalog.files[address], catalog.root) if address in catalog.files else None
        if content is None:
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            suffix = Path(address).suffix
            self._send(content, TYPES.get(suffix, PLAIN_TEXT), policy=POLICY if suffix in ACTIVE else "")

    def _send(self, content: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK, policy: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8" if kind.startswith("text/") else kind)
        self.send_header("Content-Length", str(len(content)))
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if policy:
            self.send_header("Content-Security-Policy", policy)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def _content(path: Path, root: Path) -> bytes | None:
    """Return the content of a file below a folder; None if it no longer exists or is not a regular file."""
    try:
        if path.is_symlink() or not path.is_file() or not path.resolve().is_relative_to(root.resolve()):
            return None
        return path.read_bytes()
    except OSError:
        return None
