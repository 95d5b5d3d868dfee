"""What the library is told of the program that uses it: which code is its own, and what it watches besides."""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any


class Refused(Exception):
    """A block read an input that cannot be read again."""


def _refused(what: str, modules: str) -> Refused:
    return Refused(
        f"it read {what} (in {modules}), which cannot be read again. Read a file instead, or, if other inputs "
        "determine the answer, wrap the call in `with process_watch.reads():`."
    )


@dataclass(frozen=True)
class Host:
    """A program that performs blocks of users' code in its process."""

    packages: tuple[str, ...] = ()  #: its own top-level packages; what they read is no input
    #: Returns the top-level modules of users' code in site-packages, such as plugins.
    plugins: Callable[[], Collection[str]] = frozenset
    #: Returns the top-level packages of users' code whose public values and contents are compared, too.
    watched: Callable[[], Collection[str]] = frozenset
    #: Returns settings of its own that users' code may change: name -> functions that read and write it.
    settings: Callable[[], Mapping[str, tuple[Callable[[], Any], Callable[[Any], Any]]]] = dict
    #: Returns the error for an input that cannot be read again, by its description and the modules that read it.
    refused: Callable[[str, str], Refused] = _refused
    #: Returns the context in which code is compared, such as one without garbage collection.
    comparing: Callable[[], AbstractContextManager[Any]] = nullcontext
