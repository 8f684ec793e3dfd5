"""Terms known by their logarithms: their sum, their mean, and each relative to the mean."""

from __future__ import annotations

import numpy as np

__all__ = ["log_mean", "log_sum", "relative_terms"]


def log_sum(x: np.ndarray) -> float:
    """Return the log of the sum of exp(x); x has a finite maximum.

    Not SciPy's ``logsumexp``: that one has changed its formula between versions, and with it the
    last digit, so that one file of chains would be weighed differently by two installations.
    """
    top = x.max()
    return float(top + np.log(np.exp(x - top).sum()))


def log_mean(x: np.ndarray) -> float:
    """Return the log of the mean of exp(x)."""
    return float(log_sum(x) - np.log(x.size))


def relative_terms(log_terms: np.ndarray, use: np.ndarray | None = None) -> np.ndarray:
    """Divide terms by their mean.

    Parameters
    ----------
    log_terms : ndarray
        Logs of the terms.
    use : ndarray of bool, optional
        Terms that count; the others are not looked at and become 0. Default: all.

    Returns
    -------
    ndarray
        Shape of `log_terms`; the mean over the terms that count is 1.
    """
    if use is None:
        return np.exp(log_terms - log_mean(log_terms))
    return np.exp(log_terms - log_mean(log_terms[use]), where=use, out=np.zeros(log_terms.shape))
