"""Description of the program that uses the library: its own code, and other code and settings to watch."""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any


class Refused(Exception):
    """A block read an input that cannot be read again."""


def _refusal(what: str, modules: str) -> Refused:
    return Refused(
        f"it read {what} (in {modules}), which cannot be read again. Read a file instead, or, if other inputs "
        "determine the answer, wrap the call in `with process_watch.reads():`."
    )


@dataclass(frozen=True)
class Host:
    """A program that runs blocks of user code in its process."""

    packages: tuple[str, ...] = ()  #: its own top-level packages; their reads are not inputs
    #: Returns the top-level modules of user code in site-packages, such as plugins.
    plugins: Callable[[], Collection[str]] = frozenset
    #: Returns the top-level packages of user code whose public values and contents are also compared.
    watched: Callable[[], Collection[str]] = frozenset
    #: Returns further settings that user code may change: name -> functions that read and write it.
    settings: Callable[[], Mapping[str, tuple[Callable[[], Any], Callable[[Any], Any]]]] = dict
    #: Returns the error for an input that cannot be read again, given its description and the modules that read it.
    refused: Callable[[str, str], Refused] = _refusal
    #: Returns the context manager for comparisons, e.g. without garbage collection.
    comparing: Callable[[], AbstractContextManager[Any]] = nullcontext
