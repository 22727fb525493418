"""What lsparse raises."""


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
