"""Sends concurrent requests with a rate limit, and retries when a server is overloaded or fails."""

import asyncio
import json
import re
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from ipaddress import ip_address
from typing import Any

import httpx2

from bench_core import Rng, reads
from bench_served.plugin import ServedConfig
from bench_served.replies import CONTEXT_HELP, ServerError, brief
from bench_served.requests import Request
from bench_served.secret import Secret

RETRY_STATUSES = {408, 409, 425, 429, 500, 502, 503, 504, 529}  #: HTTP statuses after which a request is retried
MAX_DELAY = 60.0  #: maximum seconds before a retry, unless the server asks for more
MAX_RETRY_AFTER = 900.0  #: seconds; it is an error if a server asks to wait longer
MAX_RESPONSE_BYTES = 2**26  #: maximum size of a response
CONTEXT_ERROR = re.compile(
    r"context.{0,20}(length|size|window)|too (long|many tokens)|longer than .{0,20}(length|maximum)|n_ctx",
    re.IGNORECASE,
)  #: error messages of servers for texts that exceed the context
ADVICE = {
    400: "Correct the settings named in this message.",
    401: "Set the correct key in the environment variable named by `key_env`.",
    403: "Use a key with permission to use this model.",
    404: "Correct `url` (which usually ends in /v1), `model` or `api`.",
}  #: advice by HTTP status


class Clock:
    """The time source; replaced in tests."""

    def now(self) -> float:
        """Return monotonic time in seconds."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        await asyncio.sleep(seconds)


@dataclass
class RateLimiter:
    """Starts requests at equal intervals."""

    per_minute: float | None  # None: no limit
    next_start: float = 0.0  # earliest time of the next request

    def wait(self, now: float) -> float:
        """Return the seconds until the next request may start, and reserve its time."""
        start = max(now, self.next_start)
        self.next_start = start + 60 / self.per_minute if self.per_minute else now
        return start - now


@lru_cache(maxsize=64)
def rate_limiter(url: str, per_minute: float | None) -> RateLimiter:
    """Return the rate limiter of an address, shared by all models and stages of a process."""
    return RateLimiter(per_minute)


class TemporaryError(Exception):
    """A failure that may disappear on retry."""

    def __init__(self, text: str, wait: float = 0.0) -> None:
        super().__init__(text)
        self.wait = wait  # seconds requested by the server


@dataclass
class Client:
    """Sends the requests of one model."""

    config: ServedConfig
    secret: Secret
    rng: Rng
    clock: Clock = field(default_factory=Clock)
    warn: Callable[[str], None] = lambda text: None
    warned_of_retry: bool = False
    errors: list[Exception] = field(default_factory=list)
    idle: set[asyncio.Task[Any]] = field(default_factory=set)  # tasks that wait before sending

    def send(self, requests: Sequence[Request], receive: Callable[[Request, dict[str, Any]], None]) -> None:
        """Send requests, and call `receive` with each response as it arrives.

        Raises the first error, usually ServerError, after requests in flight have ended, so that no response is
        lost. An interrupt ends all requests immediately.
        """
        with reads():  # responses are cached under the keys of their requests
            run(self._send(requests, receive))
        if self.errors:
            raise self.errors[0]

    async def _send(self, requests: Sequence[Request], receive: Callable[[Request, dict[str, Any]], None]) -> None:
        waiting = iter(requests)

        async def work() -> None:
            for request in waiting:
                try:
                    receive(request, await self._fetch(http, request))
                except Exception as error:
                    self._give_up(error, request)
                if self.errors:
                    return

        limits = httpx2.Limits(max_connections=self.config.parallel)
        proxies = not is_local(self.config.url)  # from environment variables
        async with httpx2.AsyncClient(timeout=None, limits=limits, follow_redirects=False, trust_env=proxies) as http:
            workers = [work() for _ in range(min(self.config.parallel, len(requests)))]
            await asyncio.gather(*workers, return_exceptions=True)  # idle tasks are cancelled after an error

    def _give_up(self, error: Exception, request: Request) -> None:
        """Record an error, without the secret, and cancel the tasks that have not sent their request yet."""
        if isinstance(error, ServerError):
            error = ServerError(self.secret.hide(f"{request.about}: {error}."))
        self.errors.append(error)
        for task in self.idle:
            task.cancel()

    async def _sleep(self, seconds: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.idle.add(task)
        try:
            await self.clock.sleep(seconds)
        finally:
            self.idle.discard(task)

    async def _fetch(self, http: httpx2.AsyncClient, request: Request) -> dict[str, Any]:
        """Return the response to a request, retrying unless another request has failed."""
        limiter, attempts = rate_limiter(self.config.url, self.config.rate), self.config.retries + 1
        for attempt in range(attempts):
            await self._sleep(limiter.wait(self.clock.now()))
            try:
                async with asyncio.timeout(self.config.timeout):
                    return await self._post(http, request)
            except TimeoutError:
                last = TemporaryError(f"no complete response within {self.config.timeout:g} s (`timeout`)")
            except httpx2.HTTPError as error:
                last = TemporaryError(
                    f"the connection failed ({type(error).__name__}: {brief(error) or 'no details'})"
                )
            except TemporaryError as error:
                last = error
            if attempt + 1 == attempts or self.errors:
                break
            delay = self._delay(request, attempt, last)
            if not self.warned_of_retry:
                self.warned_of_retry = True
                more = f"up to {self.config.retries} times, first in {delay:.1f} s"
                self.warn(self.secret.hide(f"{self.config.url}: {last}. Retrying {more}."))
            await self._sleep(delay)
        where = f"{self.config.url}{request.path} failed after {attempt + 1} attempts, most recently: "
        raise ServerError(f"{where}{last}. Responses so far are cached: run the suite again when the server works")

    def _delay(self, request: Request, attempt: int, error: TemporaryError) -> float:
        """Return the seconds to wait before a retry: doubled each time, then reduced at random by up to one half."""
        if error.wait > MAX_RETRY_AFTER:
            raise ServerError(f"the server asks to wait for {error.wait:,.0f} s: {error}. Run the suite again later")
        jitter = self.rng.fork("pause").fork(request.key).fork(attempt).key % 2**20 / 2**20
        return max(error.wait, min(MAX_DELAY, 2.0**attempt) * (1 + jitter) / 2)

    async def _post(self, http: httpx2.AsyncClient, request: Request) -> dict[str, Any]:
        headers = {"Content-Type": "application/json", "Accept": "application/json", **self.secret.headers}
        body = json.dumps(dict(request.body)).encode()
        async with http.stream("POST", self.config.url + request.path, content=body, headers=headers) as response:
            content = bytearray()
            async for part in response.aiter_bytes():
                content += part
                if len(content) > MAX_RESPONSE_BYTES:
                    raise ServerError(f"the response has more than {MAX_RESPONSE_BYTES:,} bytes")
        return parse_response(response.status_code, response.headers, bytes(content))


def parse_response(status: int, headers: Mapping[str, str], content: bytes) -> dict[str, Any]:
    """Return the JSON object in a response; raise TemporaryError or ServerError if it contains no object."""
    text = content.decode("utf-8", "replace")
    if status >= 400 and status != 429 and CONTEXT_ERROR.search(_message(text)):
        raise ServerError(f"the text exceeds the context length (status {status}: {_message(text)}). {CONTEXT_HELP}")
    if status in RETRY_STATUSES:
        raise TemporaryError(f"status {status}: {_message(text)}", retry_after(headers.get("retry-after", "")))
    if 300 <= status < 400:
        place = brief(headers.get("location", "nowhere"))
        raise ServerError(f"the server redirects to {place}, which is not followed. Correct `url`")
    if status != 200:
        advice = ADVICE.get(status, "See the server's log.").rstrip(".")
        raise ServerError(f"status {status}: {_message(text)}. {advice}")
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        kind = headers.get("content-type", "no content type")
        raise TemporaryError(f"the response is not complete JSON ({brief(kind)}): {_message(text)}") from None
    if not isinstance(answer, dict):
        raise ServerError(f"the response is not a JSON object, but {brief(text)}")
    return answer


def _message(text: str) -> str:
    """Return the message in an error response."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return brief(text) or "no message"
    for name in ("error", "message", "detail"):
        message = message.get(name, message) if isinstance(message, dict) else message
    return brief(message)


def retry_after(header: str) -> float:
    """Return the seconds to wait according to a Retry-After header (a number or a date); 0 for other values."""
    try:
        if header.strip()[:1].isdigit():
            return max(0.0, float(header))
        moment = parsedate_to_datetime(header)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(0.0, (moment - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return 0.0


def is_unprotected(config: ServedConfig) -> bool:
    """Return whether a key would be sent unencrypted to another machine."""
    return config.key_env is not None and config.url.startswith("http:") and not is_local(config.url)


def is_local(url: str) -> bool:
    """Return whether an address is on this machine."""
    host = httpx2.URL(url).host
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine, even if an event loop is already running, as in notebooks."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work)
        return
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()
