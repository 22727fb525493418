"""What lsparse raises and warns with."""

from sklearn.exceptions import ConvergenceWarning


class LsparseError(ValueError):
    """What the library refuses, with the parameter to mend and how.

    A ``ValueError``, so that code written for scikit-learn catches it.

    Examples
    --------
    >>> import lsparse
    >>> try:
    ...     lsparse.load("missing.safetensors")
    ... except lsparse.LsparseError as error:
    ...     print(error)
    missing.safetensors does not exist; check the spelling of the path
    """

    __module__ = "lsparse"


class InterruptedWarning(ConvergenceWarning):  # type: ignore[misc]
    """Ctrl-C ended a fit early; the estimator holds the model so far.

    To have it raised instead (in a loop over many fits, say), make it an error. The estimator holds the model so far
    all the same.

    Examples
    --------
    >>> import warnings, lsparse
    >>> warnings.simplefilter("error", lsparse.InterruptedWarning)
    >>> warnings.simplefilter("default", lsparse.InterruptedWarning)
    """

    __module__ = "lsparse"
