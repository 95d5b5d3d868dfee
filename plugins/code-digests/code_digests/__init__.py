"""Digests of the code behind a function or class: they change with what may change its results, and with little else.

`canonical_form` turns syntax trees into text, `source_module` finds what a module binds, `sources` finds modules,
`definitions` follows names from definition to definition, `digests` computes the digest of everything behind the
roots of a computation; what they compute `once` is kept. Code is read, never imported. Not here: which roots a
computation has, and how its digests are used.
"""

from code_digests.definitions import ALL, DATA, PACKAGE, SOURCES, Codebase, Definition
from code_digests.digests import CodeDigests, Covered, distributions
from code_digests.source_module import IMPORT, SourceModule

__all__ = [
    "ALL",
    "DATA",
    "IMPORT",
    "PACKAGE",
    "SOURCES",
    "CodeDigests",
    "Codebase",
    "Covered",
    "Definition",
    "SourceModule",
    "distributions",
]
