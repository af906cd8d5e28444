"""Writes which reports each published run of a full export has added, changed and removed.

FOLDER/changes-RUN.csv has a row `change,parent,id` for each. A report is removed if two runs in a row do not have it:
an update may hide it from one. What is under a parent without pages stays: the parent may be gone, skipped, or hidden
itself. Bounded runs are left out. An export is refused whose runs select by time, which are not full, and one whose
pages are counted, which may lack a report unnoticed.
Usage: python changes.py SOURCE EXPORT FOLDER [--first RUN], where SOURCE is s3://BUCKET/PREFIX or a directory.
Needs catch_up.py, and what it needs. Replace identity() there. FOLDER/known-RUN.txt has what it knows of the last run.
"""

import argparse
import csv
import heapq
import json
import os
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from pathlib import Path

# Nothing is added to this folder.
sys.dont_write_bytecode = True

from catch_up import new_runs, open_file, open_source, pages_of, reports_on

# So many are sorted in memory at a time by each process: about 40 MB.
REPORTS = 200_000
# After the lines of a file.
END = ("\U0010ffff", "", "")
# The end of the line of a report that the last run does not have.
MISSED = "-\n"


def request_of(source, run):
    """What selects the reports of a run. Ends the program if its reports are not all there are."""
    lines = []
    with open_file(source, run["manifest"]) as manifest:
        for line in manifest:
            if line.startswith(b'  "reportsAt": '):
                break
            lines.append(line)
    head = json.loads(b"".join(lines).rstrip(b",\n") + b"}")
    api = head.get("api", {})
    if api.get("full") is not True:
        sys.exit(f"Run {run['run']} has the reports since a time, so the others are not removed. Use catch_up.py.")
    if api["pagination"] == "counted":
        sys.exit(f"The pages of run {run['run']} were counted, so it may lack reports. Use catch_up.py.")
    return head["source"], head["filter"], api["requestSha256"]


def escaped(text):
    """The text without tabs, line breaks and what else cannot be printed."""
    return text if text.isprintable() else "".join(c if c.isprintable() else f"\\{ord(c):x};" for c in text)


def sort_pages(source, run, pages, part):
    """Writes a line for each report on these pages, sorted: its parent, its ID, and a digest of its text."""
    lines = []
    for page, at in pages:
        parent = escaped(page.get("parent", ""))
        for id, text in reports_on(open_source(source), run, page, at):
            lines.append(f"{parent}\t{escaped(str(id))}\t{blake2b(text.encode(), digest_size=8).hexdigest()}\n")
    lines.sort()
    with open(part, "w", encoding="utf-8") as out:
        out.writelines(lines)


def batches(pages):
    """The pages in lists with about as many reports as can be sorted in memory."""
    batch, reports = [], 0
    for page, at in pages:
        batch.append((page, at))
        reports += page["reports"] or REPORTS
        if reports >= REPORTS:
            yield batch
            batch, reports = [], 0
    yield batch


@contextmanager
def sorted_lines(source, run, pages, folder):
    """The lines of all reports of a run, sorted."""
    with tempfile.TemporaryDirectory(dir=folder) as parts, ProcessPoolExecutor() as pool, ExitStack() as opened:
        names = [(f"{parts}/{number}", batch) for number, batch in enumerate(batches(pages))]
        for done in [pool.submit(sort_pages, source, run, batch, name) for name, batch in names]:
            done.result()
        yield heapq.merge(*(opened.enter_context(open(name, encoding="utf-8")) for name, _ in names))


def part(file):
    return file.with_suffix(".part")


def entries(lines):
    """The key and the digest of each line, and the line. Of equal keys, the last."""
    entry = END
    for line in lines:
        key, _, digest = line.rpartition("\t")
        if key != entry[0] and entry is not END:
            yield entry
        entry = key, digest, line
    if entry is not END:
        yield entry
    while True:
        yield END


def merge(known, found, walked, keep):
    """What has changed. Keeps the lines that are known after a run. `walked` are the parents that it has pages of."""
    before, now = entries(known), entries(found)
    a, b = next(before), next(now)
    while a is not END or b is not END:
        if a[0] == b[0]:
            if a[1].rstrip(MISSED) != b[1].rstrip(MISSED):
                yield "changed", a[0]
            keep(b[2])
            a, b = next(before), next(now)
        elif a[0] > b[0]:
            yield "added", b[0]
            keep(b[2])
            b = next(now)
        else:
            if a[0].partition("\t")[0] not in walked:
                keep(a[2])
            elif a[1].endswith(MISSED):
                yield "removed", a[0]
            else:
                keep(a[2][:-1] + MISSED)
            a = next(before)


def compare(source, last, run, folder):
    """Writes the changes of a run since the last one; None: it is the first."""
    requests = [request_of(open_source(source), each) for each in (last, run) if each is not None]
    if requests[0] != requests[-1]:
        sys.exit(
            f"The request of run {run['run']} is not that of the run before it. What it does not select is not removed. "
            f"Start again with --first {run['run']} and another folder."
        )
    pages = list(pages_of(open_source(source), run))
    if len(pages) != run["pages"]:
        sys.exit(f"{run['manifest']} has {len(pages)} pages instead of {run['pages']}.")
    walked = {escaped(page.get("parent", "")) for page, _ in pages}
    counts = {"added": 0, "changed": 0, "removed": 0}
    changes, known = folder / f"changes-{run['run']}.csv", folder / f"known-{run['run']}.txt"
    with ExitStack() as opened:
        before = [] if last is None else opened.enter_context((folder / f"known-{last['run']}.txt").open(encoding="utf-8"))
        found = opened.enter_context(sorted_lines(source, run, pages, folder))
        out, state = (opened.enter_context(part(file).open("w", encoding="utf-8", newline="")) for file in (changes, known))
        rows = csv.writer(out)
        rows.writerow(("change", "parent", "id"))
        for change, key in merge(before, found, walked, state.write):
            counts[change] += 1
            rows.writerow((change, *key.split("\t")))
    # A run has been compared once its changes are there.
    os.replace(part(known), known)
    os.replace(part(changes), changes)
    if last is not None:
        (folder / f"known-{last['run']}.txt").unlink()
    print(f"run {run['run']}: " + ", ".join(f"{count} {change}" for change, count in counts.items()))


def main(source, export, folder, first):
    folder.mkdir(parents=True, exist_ok=True)
    runs = [run for run in new_runs(open_source(source), export, ()) if not run.get("bounded")]
    start = next((index for index, run in enumerate(runs) if first in (None, run["run"])), None)
    if start is None:
        sys.exit(f"The export {export} has no published run {first or ''}. Check the names.")
    runs = runs[start:]
    is_compared = [(folder / f"changes-{run['run']}.csv").exists() for run in runs]
    for at, run in enumerate(runs):
        if is_compared[at]:
            continue
        if any(is_compared[at:]):
            sys.exit(f"Run {run['run']} has appeared late. Delete the files of the runs after it from {folder}.")
        compare(source, runs[at - 1] if at > 0 else None, run, folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("source", "export", "folder"):
        parser.add_argument(name, metavar=name.upper())
    parser.add_argument("--first", metavar="RUN", help="the run to begin with")
    args = parser.parse_args()
    main(args.source, args.export, Path(args.folder), args.first)
