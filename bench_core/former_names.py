"""Former names, accepted for one release with a warning."""

from warnings import warn

from bench_core.errors import Fault


def warn_of_former(old: str, new: str) -> None:
    """Warn the caller's caller of a former name; visible by default, as users are rarely the authors of a plugin."""
    text: Fault = f"`{old}` is now called `{new}`; the next release removes the old name."
    warn(text, FutureWarning, stacklevel=3)
