"""Damage to text, and to text within binary files: numbers, types, names, nesting, keys."""
import re

NUMBERS = [b"0", b"-1", b"1", b"2147483647", b"2147483648", b"4294967295", b"4294967296", b"1000000000",
           b"9223372036854775807", b"9223372036854775808", b"18446744073709551615", b"1e308", b"-1e308", b"1e-320", b"1e999",
           b".inf", b"-.inf", b".nan", b"NaN", b"Infinity", b"0x7fffffff", b"1_000", b"1e9", b"0.5", b"100000"]
VALUES = [b"null", b"true", b'""', b'"text"', b"[]", b"{}", b"[1, 2, 3]", b'{"a": 1}', b"[[[]]]", b"~", b"3", b"-7.5",
          b'[null]', b'[{"name": 1}]', b"!!binary aGVsbG8=", b"&a [*a]", b"*nothing"]
NAMES = [b"\x1b[31mred\x1b[0m", b"\x1b]0;title\x07", b"\xc2\x9b31m", b"\xff\xfe\x80", b"../../../../etc/passwd", b"/etc/passwd",
         b"a\0b", b"a\nb", b"a\r\x1b[2Kb", b"x" * 300, b"y" * 100000, b"", b" ", b"<script>alert(1)</script>", b"%s%n%x{}{0}",
         b"\xe2\x80\xae\xe2\x80\x8b", b"\xed\xa0\x80", b"con", b"a/../b", b"'\"`;$(id)", b"__proto__", b"\xf0\x9f\x98\x80"]
ESCAPED = [rb"\u001b[31m", rb"\u0000", rb"\ud800", rb"\u009b31m", rb"..\/..\/x", rb"\u202e", rb"\x1b[31m", rb"\e[31m", rb"\N"]
NUMBER = re.compile(rb"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.])")
VALUE = re.compile(rb'(?:(?<=: )|(?<=:)|(?<=, )|(?<=\[)|(?<== ))("(?:[^"\\]|\\.)*"|[\w.+-]+|\[[^\[\]]*\]|\{[^{}]*\})')
WORD = re.compile(rb"[A-Za-z_][\w./-]{2,}")
LINE = re.compile(rb"[^\n]*\n")


def replaced(data, span, new):
    return data[:span[0]] + new + data[span[1]:]


def chosen(pattern, data, source):
    """The place of one match, or None."""
    matches = [match.span() for match in pattern.finditer(data)]
    return source.choice(matches) if matches else None


def number(data, source):
    span = chosen(NUMBER, data, source)
    return span and replaced(data, span, source.choice(NUMBERS))


def kind(data, source):
    span = chosen(VALUE, data, source)
    return span and replaced(data, span, source.choice(VALUES))


def name(data, source):
    span = chosen(WORD, data, source)
    if not span:
        return None
    new = source.choice(ESCAPED) if source.random() < 0.3 else source.choice(NAMES)
    return replaced(data, span, new)


def nesting(data, source):
    span = chosen(VALUE, data, source) or (len(data), len(data))
    depth = source.choice([40, 600, 3000, 100000])
    opening, closing = source.choice([(b"[", b"]"), (b'{"a":', b"}"), (b"- ", b""), (b"{a: ", b"}"), (b"(", b")")])
    return replaced(data, span, opening * depth + b"1" + closing * source.choice([depth, 0]))


def doubled(data, source):
    """A line, or a key and its value, twice."""
    span = chosen(LINE, data, source)
    if not span or data.count(b"\n") < 3:
        span = chosen(re.compile(rb'"[^"]*"\s*:\s*(?:"[^"]*"|[\w.+-]+)\s*,'), data, source) or span
    return span and replaced(data, span, data[span[0]:span[1]] * source.choice([2, 2, 2, 1000]))


def line_lost(data, source):
    span = chosen(LINE, data, source)
    return span and replaced(data, span, b"")


def marks(data, source):
    """What editors of other systems leave, and what ends a text early."""
    at = source.randrange(len(data) + 1)
    choice = source.randrange(5)
    if choice == 0:
        return b"\xef\xbb\xbf" + data
    if choice == 1:
        return data.replace(b"\n", b"\r\n")
    if choice == 2:
        return data.decode("latin-1").encode("utf-16")
    return data[:at] + (b"\0" if choice == 3 else b"\t\x1b[2J\x9b") + data[at:]


MUTATIONS = {"number": number, "type": kind, "name": name, "nesting": nesting, "doubled": doubled, "line lost": line_lost,
             "marks": marks}
