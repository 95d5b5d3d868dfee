"""Failures and interruptions of stages."""


class StageFailed(Exception):
    """A stage failed or was stopped; the text is for users."""

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
        self.details = details  # further information, such as a traceback
        self.expected = expected  # the text states what to do, so details are not needed
        self.stored = stored  # an input artifact may be damaged
        self.stopped = stopped  # the time limit was reached, which is not a failure
        self.elsewhere = elsewhere  # the stage was planned with different code or libraries


def time_up() -> StageFailed:
    """Return the error of a stage stopped by the time limit."""
    return StageFailed("the time limit was reached. Run the suite again to continue.", expected=True, stopped=True)
