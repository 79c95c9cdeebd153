"""Variables that outlive a call: each stands in the table "Globals" of docs/concepts.md with its reason, and that table has no others.

Found are variables at namespace scope, function-local static ones and thread_local ones of fovea/ and apps/, laid out as
clang-format does it. Constants are not counted, nor handles of libtorch's operators, which are const.
"""
import pathlib
import re

PAGE = "docs/concepts.md"
FOLDERS = ("fovea", "apps")
CODE = {".h", ".cc", ".cu", ".cuh"}
RAW_OPENS = re.compile(r'R"\w*\((?!.*\)\w*")')
NO_VARIABLE = re.compile(r"(using|typedef|struct \w+;|class|enum|namespace|template|extern|static_assert|return|friend|concept|TORCH_|FOVEA_)\b")
VARIABLE = re.compile(r"^\s*(?:(?:static|inline|thread_local|struct)\s+)*[\w:<>,.*& ()]*?[\w>*&)]\s+(\w+)(?:\[\w*\])?\s*(?:;|=[^=]|\{)")
CONSTANT = re.compile(r"\bconst(expr|init)?\b(?!\s*\w*\s*[*&])")
ITEM = re.compile(r"`([\w/.]+): ([\w, ]+)`")  # of a row: a file and its variables


def name_of_global(code):
    """Of the variable that this line of code defines; None: none that counts."""
    is_thread_local = "thread_local" in code
    if not (is_thread_local or re.match(r"\s*static\b|[A-Za-z]", code)) or NO_VARIABLE.match(code):
        return None
    found = VARIABLE.match(code)
    if not found:
        return None
    before = re.sub(r"<.*>", "<>", code[:found.start(1)])  # of template arguments none is a parameter list
    if "(" in before or re.match(r"(struct|class|union) \w+$", code[:found.end(1)]):
        return None
    if found[1] == "const" or re.match("k[A-Z]", found[1]):
        return None
    is_constant = CONSTANT.search(before) and not re.search(r"\*\s*const\b", before)
    return None if is_constant and not is_thread_local else found[1]


def globals_of(path):
    """(line number, name)"""
    in_raw_string = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if in_raw_string:
            in_raw_string = ')"' not in line
            continue
        in_raw_string = bool(RAW_OPENS.search(line))
        if name := name_of_global(line.split("//")[0].rstrip()):
            yield number, name


def table_of(page):
    """{(file, name)} of the rows below "## Globals"."""
    section = page.read_text().partition("\n## Globals\n")[2].partition("\n## ")[0]
    return {(file, name) for file, names in ITEM.findall(section) for name in names.split(", ")}


def faults_of(root):
    """In words, with file and line."""
    known = table_of(root / PAGE)
    if not known:
        yield f"{PAGE}: no table below \"## Globals\""
    seen = set()
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in CODE:
                continue
            file = str(path.relative_to(root)).removeprefix("fovea/")
            for number, name in globals_of(path):
                seen.add((file, name))
                if (file, name) not in known:
                    yield (f"{path.relative_to(root)}:{number}: `{name}` outlives a call and is not among the globals of {PAGE}; "
                           "hand it on as an argument, or add a row with its reason")
    for file, name in sorted(known - seen):
        yield f"{PAGE}: the table of globals has `{name}` of {file}, which is not there"
