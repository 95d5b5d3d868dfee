"""Digests of inputs that code has read, to detect later changes: see `inputs`."""

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
