"""The rules that hold for whatever comes out of a damaged file."""
import hashlib
import re
import unicodedata

from .process import MEMORY, PATIENCE

CODES = {0, 2, 3, 4, 5, 6, 7, 75, 130}
# Texts of libraries, which say neither what was found nor what to do.
FOREIGN = re.compile(r"fault of this program|terminate called|what\(\):|c10::|at::|std::|Exception raised|INTERNAL ASSERT"
                     r"|json\.exception\.(?!parse_error|out_of_range\.406)|basic_string|bad_alloc|MKL|Assertion|yaml-cpp"
                     r"|bad conversion|\bsto(?:i|l|ll|ul|d)\b|vector::|map::at"
                     r"|bad optional|bad_variant|iostream|filesystem error|\bATen\b|aten/|\.cpp:\d|\.cc:\d")
CONFIG_KEY = re.compile(r"\b(?:run|device|model|init|task|data|optim|schedule|trainer|parallel|launch|checkpoint|log|phases)"
                        r"(?:\[\d+\])?\.[a-z_]+|\.(?:yaml|gin|json|sh):\d+")
# What has times in it, or goes on from what the run wrote before.
VOLATILE = re.compile(r"train(\.rank\d+)?\.log|machine\.json|.*\.html|evaluation\.json|metrics\.jsonl|events\.out.*"
                      r"|\.lock|stopped")
LONGEST = 64 << 20  # bytes of a file that is compared


def is_control(character):
    """C0, C1, and what turns the direction of a line, as fovea/core/printable.h has it."""
    is_steering = unicodedata.category(character) == "Cc" or "\u2028" <= character <= "\u202e" or "\u2066" <= character <= "\u2069"
    return is_steering and character not in "\n\r\t"


def raw_controls(outcome):
    """What a terminal would obey, or could not show."""
    for stream, data in (("stdout", outcome.stdout), ("stderr", outcome.stderr)):
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            yield f"{stream} is not UTF-8: {data[max(0, error.start - 30):error.end + 10]!r}"
            continue
        found = next((i for i, character in enumerate(text) if is_control(character)), None)
        if found is not None:
            yield f"{stream} has a raw control character: {text[max(0, found - 30):found + 10]!r}"


def names_the_file(text, original):
    """A message about a recipe may name a key, or a line."""
    is_recipe = original.victim.endswith((".yaml", ".gin", ".sh")) or original.name.startswith("import")
    return any(name in text for name in original.names) or (is_recipe and CONFIG_KEY.search(text))


def faults_of(outcome, original):
    """What no damage may lead to. original: what a refusal has to name, if anything."""
    if outcome.is_hung:
        yield f"ran for more than {PATIENCE} s"
    elif outcome.peak_bytes > MEMORY:
        yield f"took {outcome.peak_bytes / 2**30:.1f} GiB"
    elif outcome.code < 0 or outcome.code > 130:
        yield f"ended by signal {-outcome.code if outcome.code < 0 else outcome.code - 128}"
    elif outcome.code not in CODES:
        yield f"exit code {outcome.code}"
    yield from raw_controls(outcome)
    text = outcome.text.decode(errors="replace")
    if found := FOREIGN.search(text):
        yield f"a library's own text: {text[max(0, found.start() - 60):found.end() + 60]!r}"
    is_refusal = outcome.code in CODES - {0, 75, 130} and not outcome.is_hung
    if is_refusal and original and original.victim and not names_the_file(text, original):
        yield "the message does not name the file"


def stamps(folder):
    """path -> what changes when a file is written."""
    found = {}
    for path in folder.rglob("*"):
        state = path.lstat()
        found[path.relative_to(folder).as_posix()] = state.st_mtime_ns, state.st_size, state.st_ino
    return found


def products(folder, before, victim=None):
    """path -> digest of the files that a command wrote."""
    digests = {}
    for name, stamp in stamps(folder).items():
        path = folder / name
        if stamp == before.get(name) or name == victim or VOLATILE.fullmatch(path.name) or path.name.startswith(".") or \
                not path.is_file() or path.is_symlink():
            continue
        with open(path, "rb") as file:
            digests[name] = hashlib.sha256(file.read(LONGEST)).hexdigest()
    return digests


def tells(outcome, baseline, names):
    """A line that a run on the whole file does not print names the damaged one."""
    known = set(baseline.text.splitlines())
    new = b"\n".join(line for line in outcome.text.splitlines() if line not in known).decode(errors="replace")
    return any(name in new for name in names) or "damaged" in new
