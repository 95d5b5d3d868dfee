"""Digests of the code behind a function or class, which change if the code may give different results.

`canonical_form` turns syntax trees into text, `source_module` finds the names that a module binds, `sources` finds
modules, `definitions` follows names from definition to definition, and `digests` computes the digest of all code
behind the roots of a computation; `once` caches results. Code is read but never imported. The caller decides which
roots a computation has, and how its digests are used.
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
