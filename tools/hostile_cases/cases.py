"""A case: an original, its damage and a command, all drawn from (seed, number), and what came out of it."""
import dataclasses
import random

from . import damage, process, surroundings, verdict
from .workshop import ORIGINALS, Workshop  # noqa: F401

VERDICTS = ["refused", "equal", "told", "different", "fault"]


def original_of(number):
    return ORIGINALS[number % len(ORIGINALS)]


def first_of_each_format():
    """Numbers of originals, one for each first word of a name."""
    seen = set()
    return [number for number, original in enumerate(ORIGINALS)
            if (word := original.name.split()[0]) not in seen and not seen.add(word)]


SHORT_SEED = 0  # of the cases that go through formats and kinds of damage in turn
SHORT = first_of_each_format()


@dataclasses.dataclass
class Result:
    number: int
    name: str
    damage: str
    command: str
    verdict: str
    faults: list
    outcome: process.Outcome


def different_files(files, found):
    return sorted(name for name in files.keys() | found.keys() if files.get(name) != found.get(name))


def judge_accepted(original, command, outcome, found, done, whole):
    """-> (verdict, faults) of an exit code 0. whole: (outcome, products) of the files before the damage."""
    expected, files = whole
    if done.surrounding in surroundings.OUTPUT_IS_LOST and expected.stdout:
        return "different", ["exit code 0, and its output is lost"]
    differences = different_files({name: digest for name, digest in files.items() if name != original.victim}, found)
    if not command.startswith("train") and expected.stdout != outcome.stdout:
        differences.append("standard output")
    if not differences:
        return "equal", []
    if verdict.tells(outcome, expected, original.names):
        return "told", []
    if original.is_checked and done.has_to_be_noticed:
        return "different", ["damage was accepted in a format with checksums; other than of the whole file: "
                             + ", ".join(differences)]
    return "different", []


def run(workshop, seed, number):
    source = random.Random(f"{seed}/{number}")
    original = original_of(number)
    command = source.choice(original.commands)
    folder = workshop.copy(original, f"case_{number}")
    in_turn = (SHORT.index(number) if number in SHORT else number) if seed == SHORT_SEED else None
    done = damage.inflict(original, damage.draw(original, source, in_turn), folder / original.victim, source)
    before = verdict.stamps(folder)
    outcome = workshop.start(command, folder, done)
    faults = list(verdict.faults_of(outcome, None if done.is_renamed else original))
    name = "refused"
    if outcome.code == 0:
        found = verdict.products(folder, before, original.victim)
        name, others = judge_accepted(original, command, outcome, found, done, workshop.baseline(original, command))
        faults += others
    if faults:
        workshop.keep(folder)
    workshop.remove(folder)
    return Result(number, original.name, done.words, command, "fault" if faults else name, faults, outcome)
