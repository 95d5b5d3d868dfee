"""Digests of what code has read, by name, to know later whether it has changed: see `inputs`."""

from input_digests.inputs import (
    IN_PROVENANCE,
    Dependencies,
    changed,
    check,
    current_digest,
    described,
    folder_digest,
    named,
    renamed,
    undeclared,
    united,
)

__all__ = [
    "IN_PROVENANCE",
    "Dependencies",
    "changed",
    "check",
    "current_digest",
    "described",
    "folder_digest",
    "named",
    "renamed",
    "undeclared",
    "united",
]
