#!/usr/bin/env python3
"""What the source tree promises (doc/architecture.md), held against the sources.

  rules.py SRCDIR            each rule with "ok" or "not ok" and what breaks it
  rules.py SRCDIR --classes  the largest classes
  rules.py SRCDIR --circles  the include circles, unit by unit
  rules.py SRCDIR --openings the sentences of comments and documents that should begin with a noun
"""
import fnmatch
import os
import re
import sys

# A room and what its files may include, besides their own room. "xdp" means that folder alone,
# "xdp/*" also those below it; a file may be named.
XDP = ["xdp", "xdp/xsk", "xdp/local", "xdp/grant", "xdp/train", "xdp/bpf"]
STACK = ["kagent/contract", "xdp", "xdp/train/train_address.h"]
HOSTED = ["kagent/stack", "kagent/contract"]
# The rooms of the agent from the bottom to the top: each includes those before it.
AGENT = ["kagent/agent/" + room for room in ("process", "control", "config", "programs", "nic", "grants", "sessions",
                                             "reports", "service")]
VIPL = ["vipl", "vipl/api", "vipl/session", "vipl/granted", "vipl/process"]
# The rooms of SOVIA from the bottom to the top: each includes those before it.
SOVIA = ["sovia/sovia.h", "sovia/process", "sovia/lane", "sovia/socket", "sovia/message", "sovia/datagram",
         "sovia/poll", "sovia/background", "sovia/program", "sovia/api"]
# What holds locks is below everything.
ABOVE_VIPL = ["vipl/vipl.h", "vipl/vipl_ext.h", "xdp/mutex.h", "xdp/thread_annotations.h"]
ROOMS = {
    "xdp": XDP, "xdp/xsk": XDP, "xdp/local": ["xdp", "xdp/xsk"], "xdp/grant": XDP, "xdp/train": XDP,
    "xdp/bpf": XDP,
    "kagent/contract": XDP,
    "kagent/stack": STACK,
    **{room: AGENT[:i] + HOSTED + XDP for i, room in enumerate(AGENT)},
    "kagent/agent": AGENT + HOSTED + XDP,
    "kagent/tools/viactl": ["kagent/agent/control", "kagent/agent/config", "kagent/contract"] + XDP,
    "kagent/tools/viadump": ["kagent/tools/viactl", "kagent/contract"] + XDP,
    **{room: VIPL + ["kagent/stack", "kagent/contract"] + XDP for room in VIPL},
    "sovia": [], **{room: SOVIA[:i] + ABOVE_VIPL for i, room in enumerate(SOVIA) if i > 0},
    "sovia/preload": SOVIA + ABOVE_VIPL,
    "sovia/launcher": ["sovia/process", "sovia/preload"],
    "vipl/fabric": ABOVE_VIPL, "vipl/lanevi": ABOVE_VIPL,
}
FLOORS = ("kagent", "sovia", "vipl", "xdp")
# Where prose may name files, and the names in it that are not files of this tree.
NAMING = FLOORS + ("doc", "examples", "man", "tests")
FOREIGN = {"NAME.h", "types.h", "logwtmp.c", "program.c", "sockios.h", "capability.h", "stdio.h", "stdlib.h",
           "string.h", "tcp_states.h"}
STACK_HEADER_LINES = 150
CLASS_MEMBERS = 60
CLASS_DEPTH = 2
FUNCTION_LINES = 60

# A sentence begins with a noun or a verb, not with one of these words where a noun is meant. Questions are right.
OPENINGS = ("Who", "Whoever", "What", "Nobody", "Somebody")


def sources(root):
    """Every source file below the floors, by its path from the root."""
    out = {}
    for floor in FLOORS:
        for folder, folders, names in os.walk(os.path.join(root, floor)):
            folders.sort()
            for name in sorted(names):
                if re.search(r"\.(h|cc|c)$", name) and ".skel." not in name:
                    path = os.path.relpath(os.path.join(folder, name), root)
                    with open(os.path.join(root, path), encoding="utf-8") as file:
                        out[path] = file.read()
    return out


def files_below(root):
    """Every file of the tree, by its path from the root."""
    out = {name for name in os.listdir(root) if os.path.isfile(os.path.join(root, name))}
    for top in NAMING:
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders[:] = [each for each in folders if each != "__pycache__"]
            out |= {os.path.relpath(os.path.join(folder, name), root) for name in names}
    return out


def prose(path, text):
    """What of a file is written for readers: all of a document, the comments of a source."""
    if re.search(r"\.(cc|h|c)$", path):
        return "\n".join(re.findall(r"//[^\n]*|/\*.*?\*/", text, re.S))
    if re.search(r"\.(mk|py|sh|test|ac|am)$", path):
        return "\n".join(re.findall(r"^\s*(?:#|dnl).*", text, re.M))
    return text if re.search(r"\.(md|[1-8])$", path) else ""


def missing_names(root):
    """The files that prose names and that do not exist."""
    known = files_below(root)
    ends = {path[at:] for path in known for at in [0] + [m.end() for m in re.finditer("/", path)]}
    named = re.compile(r"(?<![\w/.<-])((?:[\w.+-]+/)*[\w+-]+\.(?:bpf\.c|cc|h|c|mk|py|test|md|sh))(?![\w/])")
    for path in sorted(known):
        if not re.search(r"\.(cc|h|c|mk|py|sh|test|ac|am|md|[1-8])$", path):
            continue
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            text = file.read()
        for name in sorted(set(named.findall(prose(path, text)))):
            beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
            if not (name in ends or beside in known or os.path.basename(name) in FOREIGN):
                yield f"{path} names {name}"


def openings_of(prose_text):
    """The sentences of a paragraph that begin with one of OPENINGS and are no questions."""
    for match in re.finditer(r"(?:^|[.:;!?])\s+((?:%s)\b[^.?!]*)([.?!]?)" % "|".join(OPENINGS), " " + prose_text):
        if match.group(2) != "?":
            yield re.sub(r"\s+", " ", match.group(1))


def openings(text):
    """Those of a source's comments."""
    for block in re.findall(r"(?:(?:^|[ \t])//[^\n]*\n)+", text, re.M):
        yield from openings_of(re.sub(r"\s*//+", " ", block))


def documents(root):
    """README.md, the documents and the manual pages, by their paths from the root."""
    for path in sorted(files_below(root)):
        if path == "README.md" or re.match(r"doc/.*\.md$|man/.*\.[1-8]$", path):
            with open(os.path.join(root, path), encoding="utf-8") as file:
                yield path, file.read()


def document_openings(path, text):
    """Those of a document: of its paragraphs and lists, not of headings, tables and examples."""
    if path.endswith(".md"):
        text = re.sub(r"^(?:    \S|#|\|).*$", "\n", text, flags=re.M)
        text = re.sub(r"^\s*(?:[-*]|\d+\.) ", "\n\n", text, flags=re.M).replace("**", "")
    else:
        text = re.sub(r"^\.(?:\\\"|SH|SS|TH|P|PP|TP|IP|LP|It|Pp|Sh).*$", "\n", text, flags=re.M)
        text = re.sub(r"^\.[BIR]+ ?", "", text, flags=re.M)
    for paragraph in re.split(r"\n\s*\n", text):
        yield from openings_of(paragraph)


def words_of(root):
    """Every word of the sources, of the floors, tests and examples."""
    out = set()
    for path in files_below(root):
        if re.search(r"\.(h|cc|c|in|py|sh|test|mk|fields)$", path) or "." not in os.path.basename(path):
            with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
                out |= set(re.findall(r"\w+", file.read()))
    return out


def missing_symbols(root):
    """The globs that match no file, and the symbols that no source has, in README and documents."""
    known = files_below(root)
    words = words_of(root)
    for path in sorted(known):
        if not re.match(r"(README\.md|doc/.*\.md)$", path):
            continue
        with open(os.path.join(root, path), encoding="utf-8") as file:
            quoted = re.findall(r"`([^`\n]+)`", file.read())
        for name in sorted(set(quoted)):
            if re.fullmatch(r"[\w/.]*\w[\w/.]*\*[\w.]*", name):
                if not any(fnmatch.fnmatch(each, name) or fnmatch.fnmatch(each, "*/" + name) for each in known):
                    yield f"{path} names {name}, which matches no file"
            elif re.fullmatch(r"\w+(::~?\w+)+(\(\))?|k[A-Z]\w+|[a-zA-Z]\w*\(\)", name):
                for word in re.findall(r"\w+", name):
                    if word not in words:
                        yield f"{path} names {name}, which no source has"


def includes(path, text, known):
    """The project's own files that this one includes."""
    for name in re.findall(r'^\s*#\s*include\s*["<]([^">]+)[">]', text, re.M):
        beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
        if name in known:
            yield name
        elif beside in known:
            yield beside
        elif "vipl/" + name in known:
            yield "vipl/" + name


def unit(path):
    return re.sub(r"(\.bpf)?\.(cc|h|c)$", "", path)


def calls(files):
    """(unit, unit) of each call to a method that is defined in another unit than the header that declares it: such a
    unit is not included by its callers. Methods are found by name, those whose name another class has are left out."""
    code = {path: re.sub(r"//[^\n]*|/\*.*?\*/|\"(\\\\.|[^\"\\\\\n])*\"", "", text, flags=re.S)
            for path, text in files.items()}
    declared, defined, parts = {}, {}, {}
    for path, text in code.items():
        for name in re.findall(r"(?<![\w.>:])(\w+)\(", text) if path.endswith(".h") else []:
            declared.setdefault(name, set()).add(unit(path))
        for owner, name in re.findall(r"^[^\s/#}{][^\n;{]*?\b(\w+)(?:<\w+>)?::(\w+)\(", text, re.M):
            if path.endswith(".cc"):
                defined.setdefault(name, set()).add(unit(path))
                parts.setdefault(unit(path), set()).add(owner)
    for path, text in code.items():
        for name in set(re.findall(r"(?:\.|->)(\w+)\(", text)):
            at = defined.get(name, set())
            if len(at) != 1 or len(declared.get(name, set())) != 1 or declared[name] == at:
                continue
            to = next(iter(at))
            if to != unit(path) and not parts.get(unit(path), set()) & parts[to]:
                yield unit(path), to


def circles(files):
    """Sets of units (a header and its source are one) that include or call each other, each with its arrows."""
    graph = {unit(path): set() for path in files}
    for path, text in files.items():
        graph[unit(path)] |= {unit(name) for name in includes(path, text, files)} - {unit(path)}
    for caller, called in calls(files):
        graph[caller].add(called)
    number, lowest, stack, out = {}, {}, [], []

    def visit(node):
        number[node] = lowest[node] = len(number)
        stack.append(node)
        for after in sorted(graph[node]):
            if after not in number:
                visit(after)
            if after in stack:
                lowest[node] = min(lowest[node], lowest[after])
        if lowest[node] == number[node]:
            one = set(stack[stack.index(node):])
            del stack[stack.index(node):]
            if len(one) > 1:
                out.append({each: sorted(graph[each] & one) for each in sorted(one)})

    sys.setrecursionlimit(10000)
    for node in sorted(graph):
        if node not in number:
            visit(node)
    return out


# Alignment and annotations (xdp/thread_annotations.h) stand before the name.
CLASS_NAME = r"\b(?:class|struct)\s+(?:(?:alignas|VIADUCT_\w+)\([^)]*\)\s*|VIADUCT_\w+\s+)*(\w+)"


def classes(text):
    """(name, members) of each class: functions and data together, without nested types and aliases."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"^\s*#.*?(?<!\\)$", "", text, flags=re.M | re.S)
    text = re.sub(r'"(\\.|[^"\\])*"', '""', text)
    at = 0
    head = re.compile(CLASS_NAME + r"[^;{}()=]*\{")
    for match in head.finditer(text):
        depth, members, statement, at = 1, 0, "", match.end()
        while depth > 0 and at < len(text):
            c = text[at]
            if c == "{":
                if depth == 1:
                    opened = statement
                depth += 1
            elif c == "}":
                depth -= 1
                if depth == 1:
                    # The body of a function ends its declaration; that of a type or a value does not.
                    if "(" in opened:
                        members += 1
                        statement = ""
                    elif re.match(r"\s*(public|private|protected)?\s*:?\s*(class|struct|union|enum)\b", opened):
                        statement = "using"
            elif c == ";" and depth == 1:
                text_of = re.sub(r"\b(public|private|protected)\s*:", "", statement).strip()
                if text_of and not re.match(
                        r"(using|typedef|friend|static_assert|enum|struct \w+$|class \w+$|"
                        r"static constexpr)\b", text_of):
                    members += 1
                statement = ""
                at += 1
                continue
            if depth == 1 and c not in "{}":
                statement += c
            at += 1
        yield match.group(1), members


def bases(text):
    """(name, base classes) of each class that has some."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    head = re.compile(CLASS_NAME + r"(?:\s+final)?\s*:([^;{}()=]*)\{")
    for match in head.finditer(text):
        names = [re.sub(r"<.*|\b(public|private|protected|virtual)\b|\s|.*::", "", each)
                 for each in match.group(2).split(",")]
        yield match.group(1), [each for each in names if each]


def functions(text):
    """(name, first line, lines) of each function in a source, from its opening to its closing brace. Bodies of
    namespaces and types are entered, those of functions are not: a lambda counts as a part of its function."""
    code = re.sub(r"//[^\n]*|/\*.*?\*/|R\"(\w*)\((?:.|\n)*?\)\1\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'",
                  lambda match: re.sub(r"[^\n]", " ", match.group()), text, flags=re.S)
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda match: re.sub(r"[^\n]", " ", match.group()), code, flags=re.M)
    at = since = 0
    while at < len(code):
        if code[at] in ";}":
            since = at + 1
        elif code[at] == "{":
            head = code[since:at]
            if not re.search(r"\b(namespace|class|struct|union|enum|extern)\b[^()]*$", head):
                first, depth = at, 1
                while depth > 0 and at + 1 < len(code):
                    at += 1
                    depth += {"{": 1, "}": -1}.get(code[at], 0)
                named = re.search(r"([\w:~<>]+)\s*\(", head)
                # An initializer's braces: the statement, or the list of a constructor, goes on behind them.
                if named and not re.match(r"\s*[;,{]", code[at + 1:at + 80]):
                    yield named.group(1), code.count("\n", 0, first) + 1, code.count("\n", first, at) + 1
            since = at + 1
        at += 1


def whole_classes(files):
    """(name, path, members with the inherited ones, depth) of each class that inherits. Bases are found by name: the
    file's own, else the only one of that name."""
    members, parents, places = {}, {}, {}
    for path, text in files.items():
        for name, n in classes(text):
            members[path, name] = n
            places.setdefault(name, []).append(path)
        for name, names in bases(text):
            parents[path, name] = names

    def whole(path, name):
        n, depth = members.get((path, name), 0), 1
        for base in parents.get((path, name), []):
            at = path if (path, base) in members else (places.get(base) or [None])[0]
            if at is None or (at, base) == (path, name):
                continue
            more, below = whole(at, base)
            n, depth = n + more, max(depth, below + 1)
        return n, depth

    for path, name in parents:
        yield (name, path) + whole(path, name)


def main():
    root = sys.argv[1]
    files = sources(root)
    if "--circles" in sys.argv:
        for one in circles(files):
            print(len(one), "units:")
            for each, to in one.items():
                print("   ", each, "->", ", ".join(to))
        return 0
    sizes = sorted(((n, path, name) for path, text in files.items()
                    for name, n in classes(text)), reverse=True)
    if "--openings" in sys.argv:
        for path, text in files.items():
            for each in openings(text):
                print(f"{path}: {each[:90]}")
        for path, text in documents(root):
            for each in document_openings(path, text):
                print(f"{path}: {each[:90]}")
        return 0
    if "--classes" in sys.argv:
        for n, path, name in sizes[:20]:
            print(f"{n:4} {name} ({path})")
        return 0
    failed = False

    def rule(what, broken):
        nonlocal failed
        failed = failed or bool(broken)
        print(("not ok: " if broken else "ok: ") + what)
        for each in broken:
            print("    " + each)

    rule("every source has a room", [p for p in files if os.path.dirname(p) not in ROOMS])
    rule("rooms include what lies below them", [
        f"{path} includes {name}" for path, text in files.items()
        for name in includes(path, text, files)
        if os.path.dirname(name) != os.path.dirname(path)
        and os.path.dirname(name) not in ROOMS.get(os.path.dirname(path), [])
        and name not in ROOMS.get(os.path.dirname(path), [])])
    rule("no units include or call each other in a circle",
         [", ".join(one) for one in circles(files)])
    rule(f"headers of the stack have at most {STACK_HEADER_LINES} lines", [
        f"{path}: {text.count(chr(10))}" for path, text in files.items()
        if path.startswith("kagent/stack/") and path.endswith(".h")
        and text.count("\n") > STACK_HEADER_LINES])
    rule(f"classes have at most {CLASS_MEMBERS} members",
         [f"{name} ({path}): {n}" for n, path, name in sizes
          if n > CLASS_MEMBERS])
    rule(f"classes have at most {CLASS_MEMBERS} members with the inherited ones, and depth {CLASS_DEPTH}", [
        f"{name} ({path}): {n} members, depth {depth}" for name, path, n, depth in whole_classes(files)
        if n > CLASS_MEMBERS or depth > CLASS_DEPTH])
    rule(f"functions have at most {FUNCTION_LINES} lines", [
        f"{path} {name} (line {line}): {n} lines" for path, text in files.items() if path.endswith(".cc")
        for name, line, n in functions(text) if n > FUNCTION_LINES])
    rule("sentences of comments begin with a noun", [
        f"{path}: {each[:90]}" for path, text in files.items() for each in openings(text)])
    rule("sentences of documents begin with a noun", [
        f"{path}: {each[:90]}" for path, text in documents(root) for each in document_openings(path, text)])
    rule("comments and documents name files that exist", list(missing_names(root)))
    rule("documents name symbols that exist, and globs that match", list(missing_symbols(root)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
