"""Holds the documents to the repository: links lead somewhere, and code that is quoted from a file stands in it.

A block is quoted with the line `<!-- from path/to/file -->` before it.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
QUOTE = re.compile(r"<!-- from (\S+) -->\n```\w*\n(.*?)```", re.S)


def anchors(text):
    """The names that headings get."""
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def link_faults(path, text):
    prose = re.sub(r"```.*?```", "", text, flags=re.S)
    for target in LINK.findall(prose):
        if "://" in target or target.startswith("mailto:"):
            continue
        name, _, anchor = target.partition("#")
        file = path.parent / name if name else path
        if not file.exists():
            yield f"link to {target}: no such file"
        elif anchor and anchor not in anchors(file.read_text()):
            yield f"link to {target}: no such heading"


def quote_faults(text):
    for source, block in QUOTE.findall(text):
        file = ROOT / source
        if not file.exists() or block.strip() not in file.read_text():
            yield f"code that does not stand in {source}: {block.strip().splitlines()[0]}"


def main():
    pages = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
    faults = [f"{page.relative_to(ROOT)}: {fault}" for page in pages
              for text in [page.read_text()] for fault in (*link_faults(page, text), *quote_faults(text))]
    print("\n".join(faults + [f"docs: {len(pages)} pages, {len(faults)} faults"]))
    return 1 if faults or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
