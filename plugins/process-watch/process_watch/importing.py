"""Imports of this process: packages that are being imported, and callbacks after each import."""

from collections.abc import Callable


class Imports:
    """The imports of this process, recorded from `install` on."""

    def __init__(self) -> None:
        self.after: list[Callable[[], None]] = []  #: called after each import
        self.loading: dict[int, list[str]] = {}  #: thread identifier -> modules being imported

    def current(self) -> set[str]:
        """Return the packages that any thread is importing."""
        return {name.partition(".")[0] for names in [*self.loading.values()] for name in [*names]}


imports = Imports()
