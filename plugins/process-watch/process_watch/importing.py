"""Imports of this process: which packages are loaded at the moment, and what is called after each import."""

from collections.abc import Callable


class Imports:
    """The imports of this process, noted from `install` on."""

    def __init__(self) -> None:
        self.after: list[Callable[[], None]] = []  #: called after each import that loaded something
        self.loading: dict[int, list[str]] = {}  #: modules that are being imported, by the identifier of a thread

    def current(self) -> set[str]:
        """Return the packages that any thread imports at the moment."""
        return {name.partition(".")[0] for names in [*self.loading.values()] for name in [*names]}


imports = Imports()
