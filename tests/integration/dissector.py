"""What dissector.test compares: viadump (the stack's decoder) and tshark (the dissector), field by field."""
import json
import os
import re
import subprocess
import sys

build, work, count, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
lua = os.path.join(build, "kagent/tools/viadump/viaduct.lua")
# The keys in viadump's output besides a frame's fields.
ABOUT = {"time_ns", "source", "destination", "type_name", "length", "direction", "interface", "comment"}
failed = False


def report(good, what, detail=""):
    global failed
    failed = failed or not good
    print(("ok: " if good else "not ok: ") + what)
    if not good and detail:
        print("    " + str(detail)[:2000].replace("\n", "\n    "))


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "HOME": work})
    if done.returncode != 0:
        sys.exit(f"not ok: {command[0]} ends with {done.returncode}: {done.stderr}")
    return done


def frames(kind):
    capture = os.path.join(work, kind)
    run(os.path.join(build, "tests/unit/viadump/random_frames"), kind, str(count), str(seed), capture)
    said = run(os.path.join(build, "viadump"), "--json", "-r", capture).stdout
    return capture, [json.loads(line) for line in said.splitlines()]


def tshark(capture, names):
    """For each frame a dictionary of lists of texts, by name."""
    arguments = [argument for name in names for argument in ("-e", name)]
    done = run("tshark", "-n", "-X", "lua_script:" + lua, "-r", capture, "-T", "fields", "-E", "occurrence=a",
               "-E", "aggregator=,", "-E", "separator=/t", *arguments)
    report("Lua" not in done.stderr and "rror" not in done.stderr, "tshark has nothing to complain of", done.stderr)
    out = []
    for line in done.stdout.split("\n")[:-1]:
        out.append(dict(zip(names, (column.split(",") if column else [] for column in line.split("\t")))))
    return out


def normal(text):
    """One text for one value: versions of tshark write flags as 1 or True, bytes with or without colons."""
    text = {"True": "1", "False": "0"}.get(text, text)
    if re.fullmatch(r"0x[0-9a-f]+", text):
        return str(int(text, 16))
    return re.sub(r"(?<=[0-9a-f]{2}):(?=[0-9a-f]{2})", "", text)


def expected(value):
    return [normal(str(each)) for each in (value if isinstance(value, list) else [value])]


capture, own = frames("valid")
report(len(own) == count, f"viadump reads {count} frames", len(own))
report(not any("refused" in each for each in own), "the stack's decoder takes all of them",
       next((each for each in own if "refused" in each), ""))
names = sorted({name for each in own for name in each} - ABOUT)
report(len(names) > 50, "they have all fields", names)
columns = ["viaduct." + name for name in names] + ["eth.src", "eth.dst", "_ws.col.Info", "_ws.malformed", "_ws.expert.message"]
theirs = tshark(capture, columns)
report(len(theirs) == count, "tshark reads as many", len(theirs))
types, different, compared = set(), [], 0
for number, (ours, other) in enumerate(zip(own, theirs)):
    for name in names:
        compared += name in ours
        found = [normal(each) for each in other["viaduct." + name]]
        if found != (expected(ours[name]) if name in ours else []):
            different.append(f"frame {number + 1}, {ours['type_name']}: {name}: {ours.get(name)} / {found}")
    if [ours["source"], ours["destination"]] != other["eth.src"] + other["eth.dst"]:
        different.append(f"frame {number + 1}: addresses")
    if not ",".join(other["_ws.col.Info"]).startswith(ours["type_name"]):
        different.append(f"frame {number + 1}: {ours['type_name']} / {other['_ws.col.Info']}")
    types.add(ours["type"])
report(types == set(range(1, 22)), "there are frames of every type", types)
report(not different, f"both say the same of {compared} fields of {len(names)} names", "\n".join(different[:20]))
bad = [n + 1 for n, each in enumerate(theirs) if each["_ws.malformed"] or each["_ws.expert.message"]]
report(not bad, "tshark finds no frame malformed, and nothing else to remark", bad[:20])

capture, own = frames("damaged")
theirs = tshark(capture, ["viaduct.refused", "_ws.malformed"])
verdicts = [(ours.get("refused", ""), ",".join(other["viaduct.refused"])) for ours, other in zip(own, theirs)]
different = [f"frame {n + 1}: {one!r} / {other!r}: {own[n]}" for n, (one, other) in enumerate(verdicts) if one != other]
report(len(verdicts) == count and not different, "both refuse the same damaged frames for the same reasons",
       "\n".join(different[:10]))
reasons = {one for one, _ in verdicts}
report(reasons == {"", "short", "version", "type", "length", "checksum", "body"}, "every reason was there", reasons)
report(not any(each["_ws.malformed"] for each in theirs), "and the dissector itself stumbles over none")
sys.exit(1 if failed else 0)
