"""Why a stage failed, or was stopped."""


class StageFailed(Exception):
    """A stage that failed or was stopped; its text is for the user."""

    def __init__(
        self,
        text: str,
        details: str = "",
        expected: bool = False,
        stored: bool = False,
        stopped: bool = False,
        elsewhere: bool = False,
    ) -> None:
        super().__init__(text)
        self.details = details  # such as a traceback
        self.expected = expected  # it says itself what to do: nobody needs the details
        self.stored = stored  # an artifact that it reads may be damaged
        self.stopped = stopped  # time was up: no failure
        self.elsewhere = elsewhere  # it was planned with other code or libraries than are here


def time_up() -> StageFailed:
    """Return the reason of a stage that was stopped by the time limit."""
    return StageFailed("the time limit was reached. Run the suite again to continue.", expected=True, stopped=True)
