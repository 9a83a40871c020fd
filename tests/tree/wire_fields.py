#!/usr/bin/env python3
"""Whether the description of frames (kagent/contract/wire.fields), of which Wireshark's dissector is made, says
what viaduct-wire(7) and wire.h say.

  wire_fields.py SRCDIR    each comparison with "ok" or "not ok" and the first difference
"""
import os
import re
import sys

BODIES = ["connect body", "packed message", "path body", "name body", "claim body"]  # in the page's order


def description(path):
    """Section -> rows of columns."""
    out, rows = {}, None
    with open(path, encoding="utf-8") as file:
        for line in file:
            line = line.rstrip("\n")
            if re.match(r"\s*(#|$)", line):
                continue
            section = re.fullmatch(r"\[(.+)\]", line)
            if section:
                rows = out.setdefault(section.group(1), [])
            else:
                rows.append([column.strip() for column in line.split("|")])
    return out


def tables(page):
    """The page's lists, each a list of rows of columns; of rows with one column, nothing."""
    out = []
    for block in re.findall(r"^\.Bl -column.*?\n(.*?)^\.El", page, re.M | re.S):
        rows = [re.split(r" ?\bTa ?", line[4:]) for line in block.splitlines() if line.startswith(".It ")]
        out.append([[column.replace("\\ ", "").strip() for column in row] for row in rows])
    return out


def table_with(page, *head):
    return [rows[1:] for rows in tables(page) if [column[3:] for column in rows[0]] == list(head)]


def picture(text):
    """The fields of a picture of the header: (offset, bytes, what stands in its place)."""
    out, offset, lines = [], None, []
    for line in re.findall(r"^[ /.]*([+|].*)$", text, re.M):
        if not line.startswith("+"):
            lines.append(line)
            continue
        if lines and (at := re.match(r"\|(.*)\|\s+(\d+)$", lines[0])):
            offset = int(at.group(2))
            for cell in [re.match(r"\|(.*)\|", line).group(1) for line in lines][-1].split("|"):
                bytes_ = (len(cell) + 1) // 16 * len(lines)
                out.append((offset, bytes_, cell.strip()))
                offset += bytes_
        lines = []
    return out


def snake(name):
    """kConnectMoved -> CONNECT_MOVED"""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name[1:]).upper()


def body_rows(rows):
    """A section as the page has it: what it says nothing of is left out."""
    return [(row[0], row[1] if row[1].isdigit() else "", row[5]) for row in rows if row[5]]


def main(root):
    def read(name):
        with open(os.path.join(root, name), encoding="utf-8") as file:
            return file.read()

    d = description(os.path.join(root, "kagent/contract/wire.fields"))
    page = read("man/viaduct-wire.7").replace("\\(aq", "'")
    header = read("kagent/contract/wire.h")
    failed = False

    def same(what, ours, theirs):
        nonlocal failed
        ours, theirs = [tuple(row) for row in ours], [tuple(row) for row in theirs]
        good = ours == theirs and bool(ours)
        failed = failed or not good
        print(("ok: " if good else "not ok: ") + what)
        if not good:
            for one, other in zip(ours + [None], theirs + [None]):
                if one != other:
                    print(f"    wire.fields: {one}\n    there:       {other}")
                    return

    same("the page has the version", d["version"], re.findall(r"^This page is version (\d+)", page, re.M))
    same("wire.h has the version", d["version"], re.findall(r"kVersion = (\d+);", header))
    same("the page has the types", d["types"], *table_with(page, "type", "name", "payload", "meaning"))
    enum = re.search(r"enum class Type .*?\{(.*?)\n\};", header, re.S).group(1)
    same("wire.h has the types", [(row[0], row[1]) for row in d["types"]],
         [(number, snake(name)) for name, number in re.findall(r"\b(k\w+) = (\d+),", enum)])
    flags = table_with(page, "flag", "meaning")[0]
    same("the page has the flags and operations",
         [(row[0], row[3]) for row in d["flags"]] + [(row[0], row[2]) for row in d["operations"]], flags)
    constants = dict(re.findall(r"(k(?:Flag\w+|Op\w+)) = (0x[0-9a-f]+);", header))
    named = {row[2]: row[0] for row in d["flags"]} | {row[1]: row[0] for row in d["operations"]}
    same("wire.h has the flags and operations", sorted(named.items()), sorted(constants.items()))
    fields = [(int(row[0]), int(row[1]), row[4]) for row in d["header"]]
    same("the page's picture has the header", fields, picture(page[page.index(".Sh FRAME"):]))
    same("the picture in wire.h has the header", [row[:2] for row in fields],
         [row[:2] for row in picture(header[:header.index("#ifndef")])])
    bodies = table_with(page, "offset", "bytes", "field")
    same("the page has a table of each body", [(len(BODIES),)], [(len(bodies),)])
    for body, rows in zip(BODIES, bodies):
        same(f"the page has the {body}", body_rows(d[body]), rows)
    end = page[page.index(".Sh THE END OF A CONNECTION"):]
    same("the page has the reasons of DISCONNECT", d["values refusal"][1:], tables(end)[0])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
