"""The errors a user may meet. Each message is one sentence: what was expected, what was found, what to do."""


class GpbaeError(Exception):
    """Base of every error raised on purpose, so that the command line can tell a message from a crash."""


class InputError(GpbaeError, ValueError):
    """What the user handed over (an array, a table, an argument, a file) cannot be used as it is."""
