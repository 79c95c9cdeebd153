"""Philox 4x32-10 and the drop masks of fovea/kernels/elementwise/drop.h (Note [Drop masks]), in NumPy."""
import numpy as np

_MASK32 = np.uint64(0xFFFFFFFF)


def philox4x32(counter, key):
    """counter: four arrays of words, key: two words -> four arrays of words, all uint64 < 2^32."""
    c0, c1, c2, c3 = np.broadcast_arrays(*(np.asarray(c, dtype=np.uint64) for c in counter))
    k0, k1 = key
    for _ in range(10):
        product0 = np.uint64(0xD2511F53) * c0
        product1 = np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (
            (product1 >> np.uint64(32)) ^ c1 ^ np.uint64(k0),
            product1 & _MASK32,
            (product0 >> np.uint64(32)) ^ c3 ^ np.uint64(k1),
            product0 & _MASK32,
        )
        k0 = (k0 + 0x9E3779B9) & 0xFFFFFFFF
        k1 = (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3


def philox_key(seed, name):
    """The key of a named stream: FNV-1a of the name, mixed with the seed by SplitMix64's finaliser."""
    word = 0xFFFFFFFFFFFFFFFF
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) & word
    value ^= (seed * 0x9E3779B97F4A7C15) & word
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & word
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & word
    value ^= value >> 31
    return value & 0xFFFFFFFF, value >> 32


def drop_words(key, step, rows, elements):
    """rows: [B] -> [B, elements] words, as uint64."""
    rows = np.asarray(rows, dtype=np.uint64)[:, None]
    blocks = np.arange((elements + 3) // 4, dtype=np.uint64)[None]
    words = philox4x32((blocks, rows & _MASK32, rows >> np.uint64(32), np.uint64(step & 0xFFFFFFFF)), key)
    return np.stack(words, axis=-1).reshape(rows.shape[0], -1)[:, :elements]


def drop_mask(key, step, rows, elements, rate):
    """[B, elements] float32: 0 where dropped, 1 / (1 - rate) where kept."""
    kept = drop_words(key, step, rows, elements) >= np.uint64(round(rate * 2**32))
    return np.where(kept, np.float32(1.0 / (1.0 - rate)), np.float32(0.0))


def patch_keep_indices(key, step, rows, num_tokens, num_keep):
    """[B, num_keep]: the tokens with the smallest words, in order of their words."""
    words = drop_words(key, step, rows, num_tokens)
    return np.argsort(words, axis=1, kind="stable")[:, :num_keep]


if __name__ == "__main__":
    # The published known-answer vectors of the Random123 distribution.
    def words(counter, key):
        return [int(w) for w in philox4x32(counter, key)]

    assert words((0, 0, 0, 0), (0, 0)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    ones = 0xFFFFFFFF
    assert words((ones,) * 4, (ones,) * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    print("philox: known answers hold")
