"""A progress bar that stays away when there is nothing to wait for."""

from __future__ import annotations

import time
from types import TracebackType

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

__all__ = ["ScanProgress"]

# Seconds before the bar is drawn anew: the rate of rich itself, as smooth as eyes need.
SECONDS_BETWEEN = 0.1


class ScanProgress:
    """Show the scans of the current round, once a second has passed.

    Parameters
    ----------
    visible : bool
        False to show nothing at all.
    patience : float
        Seconds before the bar appears.
    """

    def __init__(self, visible: bool, patience: float = 1.0):
        self.visible = visible
        self._appear = time.perf_counter() + patience
        self._bar: Progress | None = None
        self._text, self._total, self._done, self._drawn = "", 1, 0, 0.0

    def __enter__(self) -> ScanProgress:
        """Start, without showing anything yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the bar if it was shown."""
        if self._bar is not None:
            self._bar.stop()

    def start_round(self, text: str, scans: int) -> None:
        """Begin a round of so many scans."""
        self._text, self._total, self._done = text, scans, 0

    def advance(self) -> None:
        """Count one scan."""
        self._done += 1
        if not self.visible:
            return
        now = time.perf_counter()
        if now < self._appear or now < self._drawn + SECONDS_BETWEEN:
            return
        self._drawn = now
        if self._bar is None:
            self._bar = Progress(
                TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), transient=True
            )
            self._task = self._bar.add_task(self._text)
            self._bar.start()
        self._bar.update(
            self._task, description=self._text, total=self._total, completed=self._done
        )
