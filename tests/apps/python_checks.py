"""What the tests of the Python package share."""

RTOL, ATOL = 1e-5, 1e-6  # Tolerance::for_dtype(float32), relative to the largest value
SMALL = {"img_size": 32, "patch_size": 8, "depth": 2, "num_classes": 7}


def check(is_so, *what):
    if not is_so:
        raise SystemExit(f"python_test: {' '.join(map(str, what))}")


def expect(kind, words, function):
    """`function` raises `kind`, and says these words."""
    try:
        function()
    except kind as error:
        text = f"{error} {error.__cause__ or ''}"
        for word in words:
            check(word in text, f"expected '{word}' in", text)
        return
    check(False, "expected", kind.__name__, "with", words)


def is_close(found, expected, factor=1):
    return (found - expected).abs().max() <= factor * (ATOL + RTOL * expected.abs().max())
