"""What a suite may say of the orders in which an insertion model places words."""

from __future__ import annotations

from typing import Literal, TypeAlias

Known: TypeAlias = Literal["l2r", "r2l", "odd", "blt", "blt-strict", "syn", "cf", "rf", "rnd", "given"]  # beforehand
OrderName: TypeAlias = Literal[Known, "searched"]
Positions: TypeAlias = Literal["relative", "sinusoidal", "none"]
