"""What this distribution offers; imports no torch."""

from __future__ import annotations

supports = (1, 1)
