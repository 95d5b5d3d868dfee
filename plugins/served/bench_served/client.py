"""Sends requests: several at once, not faster than allowed, and again where a server is overloaded or fails."""

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

from bench_core import Noise, reads
from bench_served.plugin import ServedConfig
from bench_served.replies import SHORTER, ServerError, brief
from bench_served.requests import Request
from bench_served.secret import Secret

AGAIN = {408, 409, 425, 429, 500, 502, 503, 504, 529}  #: statuses after which a request is sent again
LONGEST_PAUSE = 60.0  #: seconds before another try, unless the server asks for more
LONGEST_WAIT = 900.0  #: seconds that a server may ask to wait
LARGEST = 2**26  #: bytes of an answer
TOO_LONG = re.compile(
    r"context.{0,20}(length|size|window)|too (long|many tokens)|longer than .{0,20}(length|maximum)|n_ctx",
    re.IGNORECASE,
)  #: how servers say that a text exceeds their context
ADVICE = {
    400: "Correct the settings that it names.",
    401: "Set the right key in the environment variable that `key_env` names.",
    403: "Set a key with the right to use this model.",
    404: "Correct `url` (mostly it ends in /v1), `model` or `api`.",
}  #: by status, what to do


class Clock:
    """The time, and how one waits."""

    def now(self) -> float:
        """Return seconds from some moment on."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


@dataclass
class Pace:
    """Lets requests begin at equal distances."""

    per_minute: float | None  # None: at once
    free: float = 0.0  # when the next one may begin

    def wait(self, now: float) -> float:
        """Return the seconds after which the next request may begin."""
        begin = max(now, self.free)
        self.free = begin + 60 / self.per_minute if self.per_minute else now
        return begin - now


@lru_cache(maxsize=64)
def pace_of(url: str, per_minute: float | None) -> Pace:
    """Return the pace of requests to an address, which all models and stages of a process share."""
    return Pace(per_minute)


class TemporaryError(Exception):
    """What may be better at the next try."""

    def __init__(self, text: str, wait: float = 0.0) -> None:
        super().__init__(text)
        self.wait = wait  # seconds that the server asks for


@dataclass
class Client:
    """Sends requests of one model."""

    config: ServedConfig
    secret: Secret
    noise: Noise  # of pauses
    clock: Clock = field(default_factory=Clock)
    warn: Callable[[str], None] = lambda text: None
    has_warned: bool = False  # of the first request that is sent again
    errors: list[Exception] = field(default_factory=list)
    idle: set[asyncio.Task[Any]] = field(default_factory=set)  # what waits before it sends a request

    def send(self, requests: Sequence[Request], receive: Callable[[Request, dict[str, Any]], None]) -> None:
        """Send requests, and call `receive` with each answer as soon as it is there.

        Raises the first error, ServerError mostly, after the requests that were under way have ended, so that no
        answer is lost. Being interrupted ends all at once.
        """
        with reads():  # answers are stored by the keys of their requests
            run(self._send(requests, receive))
        if self.errors:
            raise self.errors[0]

    async def _send(self, requests: Sequence[Request], receive: Callable[[Request, dict[str, Any]], None]) -> None:
        waiting = iter(requests)

        async def work() -> None:
            for request in waiting:
                try:
                    receive(request, await self._answer(http, request))
                except Exception as error:
                    self._give_up(error, request)
                if self.errors:
                    return

        limits = httpx2.Limits(max_connections=self.config.parallel)
        proxies = not is_here(self.config.url)  # of the environment
        async with httpx2.AsyncClient(timeout=None, limits=limits, follow_redirects=False, trust_env=proxies) as http:
            works = [work() for _ in range(min(self.config.parallel, len(requests)))]
            await asyncio.gather(*works, return_exceptions=True)  # those that were idle at an error are cancelled

    def _give_up(self, error: Exception, request: Request) -> None:
        """Send no further request after an error, which is named without the secret."""
        if isinstance(error, ServerError):
            error = ServerError(self.secret.hide(f"{request.about}: {error}."))
        self.errors.append(error)
        for one in self.idle:
            one.cancel()

    async def _sleep(self, seconds: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.idle.add(task)
        try:
            await self.clock.sleep(seconds)
        finally:
            self.idle.discard(task)

    async def _answer(self, http: httpx2.AsyncClient, request: Request) -> dict[str, Any]:
        """Return the answer to a request, after several tries unless another request has failed meanwhile."""
        pace, tries = pace_of(self.config.url, self.config.rate), self.config.retries + 1
        for number in range(tries):
            await self._sleep(pace.wait(self.clock.now()))
            try:
                async with asyncio.timeout(self.config.timeout):
                    return await self._try(http, request)
            except TimeoutError:
                last = TemporaryError(f"no whole answer within {self.config.timeout:g} s (`timeout`)")
            except httpx2.HTTPError as error:
                last = TemporaryError(
                    f"the connection failed ({type(error).__name__}: {brief(error) or 'no reason'})"
                )
            except TemporaryError as error:
                last = error
            if number + 1 == tries or self.errors:
                break
            pause = self._pause(request, number, last)
            if not self.has_warned:
                self.has_warned = True
                more = f"up to {self.config.retries} times, first in {pause:.1f} s"
                self.warn(self.secret.hide(f"{self.config.url}: {last}. It is tried again, {more}."))
            await self._sleep(pause)
        where = f"{self.config.url}{request.path} was asked {number + 1} times, the last time: "
        raise ServerError(f"{where}{last}. Answers so far are kept: run the suite again when it works")

    def _pause(self, request: Request, number: int, error: TemporaryError) -> float:
        """Return the seconds before the next try: twice as many each time, a half of them by chance."""
        if error.wait > LONGEST_WAIT:
            raise ServerError(f"it asks to wait for {error.wait:,.0f} s: {error}. Run the suite again then")
        chance = self.noise.fork("pause").fork(request.key).fork(number).key % 2**20 / 2**20
        return max(error.wait, min(LONGEST_PAUSE, 2.0**number) * (1 + chance) / 2)

    async def _try(self, http: httpx2.AsyncClient, request: Request) -> dict[str, Any]:
        headers = {"Content-Type": "application/json", "Accept": "application/json", **self.secret.headers}
        body = json.dumps(dict(request.body)).encode()
        async with http.stream("POST", self.config.url + request.path, content=body, headers=headers) as response:
            content = bytearray()
            async for part in response.aiter_bytes():
                content += part
                if len(content) > LARGEST:
                    raise ServerError(f"its answer has more than {LARGEST:,} bytes")
        return read(response.status_code, response.headers, bytes(content))


def read(status: int, headers: Mapping[str, str], content: bytes) -> dict[str, Any]:
    """Return the JSON object in an answer; raise TemporaryError or ServerError if it is none."""
    text = content.decode("utf-8", "replace")
    if status >= 400 and status != 429 and TOO_LONG.search(_said(text)):
        raise ServerError(f"the text is longer than its context (status {status}: {_said(text)}). {SHORTER}")
    if status in AGAIN:
        raise TemporaryError(f"status {status}: {_said(text)}", asked_wait(headers.get("retry-after", "")))
    if 300 <= status < 400:
        place = brief(headers.get("location", "nowhere"))
        raise ServerError(f"it redirects to {place}, which is not followed. Set `url` to where the server is")
    if status != 200:
        advice = ADVICE.get(status, "Look into the log of the server.").rstrip(".")
        raise ServerError(f"status {status}: {_said(text)}. {advice}")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        kind = headers.get("content-type", "no type")
        raise TemporaryError(f"its answer is no whole JSON ({brief(kind)}): {_said(text)}") from None
    if not isinstance(found, dict):
        raise ServerError(f"its answer is no JSON object, but {brief(text)}")
    return found


def _said(text: str) -> str:
    """Return the message in what a server says of an error."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return brief(text) or "nothing"
    for name in ("error", "message", "detail"):
        found = found.get(name, found) if isinstance(found, dict) else found
    return brief(found)


def asked_wait(header: str) -> float:
    """Return the seconds that a header Retry-After asks to wait: it has a number or a date; 0 for anything else."""
    try:
        if header.strip()[:1].isdigit():
            return max(0.0, float(header))
        moment = parsedate_to_datetime(header)
        return max(
            0.0, ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds()
        )
    except (ValueError, TypeError, OverflowError):
        return 0.0


def is_unprotected(config: ServedConfig) -> bool:
    """Return whether a key would travel in the clear to another machine."""
    return config.key_env is not None and config.url.startswith("http:") and not is_here(config.url)


def is_here(url: str) -> bool:
    """Return whether an address is that of this machine."""
    host = httpx2.URL(url).host
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine, also beside a loop that runs already, as those of notebooks do."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work)
        return
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()
