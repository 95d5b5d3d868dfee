"""Listings of the code behind artifacts: the definitions that a digest covers, to show which definitions changed."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from secrets import token_hex

from pydantic import TypeAdapter

from bench_core.storage.artifact import DIGEST
from bench_core.storage.store import Store

FOLDER = "code"  #: name of the folder in a store

_LISTING = TypeAdapter(dict[str, str])


def write_listing(store: Store, digest: str, listing: Callable[[], Mapping[str, str]]) -> None:
    """Store the definitions behind a digest (name -> digest of the text), unless already stored.

    Nothing depends on a listing, so an unwritable store is not an error.
    """
    path = store.root / FOLDER / f"{digest}.json"
    if path.exists():
        return
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{token_hex(4)}")
        new.write_text(json.dumps(listing()), encoding="utf-8")
        new.rename(path)


def remove_listing(store: Store, digest: str) -> None:
    """Remove the definitions behind a digest, if possible."""
    with suppress(OSError):
        (store.root / FOLDER / f"{digest}.json").unlink()


def read_listing(store: Store, digest: str) -> dict[str, str]:
    """Return the definitions behind a digest; empty if they are not stored."""
    with suppress(OSError, ValueError):
        if DIGEST.fullmatch(digest):
            return _LISTING.validate_json((store.root / FOLDER / f"{digest}.json").read_bytes())
    return {}
