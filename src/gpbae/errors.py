"""The errors a user may meet. Each message is one sentence: what was expected, what was found, what to do."""


class GpbaeError(Exception):
    """Base of every error raised on purpose, so that the command line can tell a message from a crash."""


class Interrupted(KeyboardInterrupt):
    """A run stopped by Ctrl-C or a signal after its last block was kept; not an Exception, as Ctrl-C never is."""

    def __init__(self, message: str, signal: int):
        super().__init__(message)
        self.signal = signal


class GapWarning(UserWarning):
    """A number that looks like a missing value is about to be fitted as a measurement."""


class InputError(GpbaeError, ValueError):
    """What the user handed over (an array, a table, an argument, a file) cannot be used as it is."""
