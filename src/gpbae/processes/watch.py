"""An eye on a long run: Ctrl-C and SIGTERM become a wish to stop after the current block, a stall is called out.

Python's own handlers wait until compiled code returns; a thread that is woken by the signal itself answers at once.
"""

import contextlib
import faulthandler
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

SIGNALS = tuple(getattr(signal, n) for n in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, n))
PATIENCE, PATIENCE_COMPILING, USUAL = 55.0, 600.0, 5.0
"""Seconds without a block before a stall is called out, also while nothing has been compiled yet, and how many times
the longest block so far must have passed: within a minute, where blocks take up to eleven seconds."""

MOMENT = 0.3
"""Seconds in which Python would have answered Ctrl-C by itself, were it not waiting for compiled code."""

process_is_ours = False
"""Whether a second Ctrl-C may end the process: on the command line, not in somebody's session."""


class Watch:
    """Use as a context; `beat` after every block, `requested` is the signal that asked to stop, or None.

    `when_asked` is called at the first signal, while the block is still computed, so that a second one, or a scheduler
    that does not wait for the block's end, costs no more than that block.
    """

    def __init__(self) -> None:
        self.requested: int | None = None
        self.when_asked: Callable[[], None] = lambda: None
        self.longest, self.last, self.num_beats = 0.0, time.monotonic(), 0
        self.warned = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "Watch":
        self._reading, self._writing = socket.socketpair()
        self._writing.setblocking(False)
        self._reading.settimeout(1.0)
        if threading.current_thread() is threading.main_thread():
            self._previous_handle = signal.set_wakeup_fd(self._writing.fileno(), warn_on_full_buffer=False)
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:  # nohup stays nohup
                    self._previous[number] = signal.signal(number, self._ask)
        self._thread = threading.Thread(target=self._listen, name="gpbae watch", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            for number, handler in self._previous.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(self._previous_handle)
        self._writing.close()
        self._thread.join()
        self._reading.close()

    def beat(self) -> None:
        now = time.monotonic()
        if self.num_beats:
            self.longest = max(self.longest, now - self.last)
        self.last, self.num_beats, self.warned = now, self.num_beats + 1, False

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.requested is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = number

    def _listen(self) -> None:
        """Until the other end is closed: one line at the first signal, the end of the process at the second."""
        count = 0
        while True:
            try:
                received = self._reading.recv(1)
            except TimeoutError:
                self._look()
                continue
            if not received:
                return
            if received[0] not in self._previous:
                continue
            count += 1
            if count == 1:
                _say(_KEEPING if self.num_beats else _COMPILING if process_is_ours else _WAITING)
                self.when_asked()
            elif process_is_ours:
                _leave(received[0])

    def _look(self) -> None:
        waited = time.monotonic() - self.last
        patience = PATIENCE if self.num_beats > 1 else PATIENCE_COMPILING
        if not self.warned and waited > max(patience, USUAL * self.longest):
            self.warned = True
            _say(f"No sweep was finished for {waited:.0f} s (the longest took {self.longest:.1f} s). Where it stands:")
            if sys.__stderr__ is not None:
                faulthandler.dump_traceback(sys.__stderr__, all_threads=True)


@contextlib.contextmanager
def answered() -> Iterator[None]:
    """Where no `Watch` is kept, Ctrl-C during compiled code is answered too: by a sentence, and a second one by the end
    of the process.  For processes that are ours."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    previous = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    listener = threading.Thread(target=_answer, args=(reading,), name="gpbae Ctrl-C", daemon=True)
    listener.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(previous)
        writing.close()
        listener.join()
        reading.close()


def _answer(reading: socket.socket) -> None:
    """Until the other end is closed.  Python may have its moment to stop by itself before anything is said."""
    count = 0
    while True:
        try:
            received = reading.recv(1)
        except TimeoutError:
            reading.settimeout(None)
            _say(_COMPUTING)
            continue
        if not received:
            return
        if received[0] == signal.SIGINT:
            count += 1
            reading.settimeout(MOMENT if count == 1 else None)
        if count > 1:
            _leave(signal.SIGINT)


_KEEPING = "Stopping after the sweeps under way, to keep them; once more leaves at once, without them."
_COMPILING = "Stopping when the start is compiled and computed, to keep it; press Ctrl-C again to stop at once."
_WAITING = "Stopping when the start is compiled and computed, to keep it."
_COMPUTING = "Stopping as soon as what is compiled or computed now is done; press Ctrl-C again to stop at once."
_CURSOR = "\x1b[?25h"
"""Bars of progress hide it, and have no time to bring it back."""


def _leave(number: int) -> None:
    if sys.__stderr__ is not None and sys.__stderr__.isatty():
        os.write(sys.__stderr__.fileno(), f"{_CURSOR}\n".encode())
    os._exit(128 + number)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
