"""Stores the reports of every published run, bounded ones included, in SQLite, each as of the newest run that has it.

A run is stored completely or not at all, in one transaction with its ID. Its pages are verified. They may be XML, JSON,
NDJSON or CSV. The runs that are not stored yet may have appeared in any order.
Usage: python catch_up.py SOURCE EXPORT DATABASE, where SOURCE is s3://BUCKET/PREFIX or a directory.
Needs Python 3.10, defusedxml for XML and, for a bucket, boto3.
Ends with status 1 and a message at a run that it cannot read or verify.
"""

import argparse
import codecs
import csv
import gzip
import hashlib
import json
import re
import sqlite3
import sys
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from xml.etree.ElementTree import ParseError, tostring


TABLES = """
CREATE TABLE IF NOT EXISTS run (export TEXT, run TEXT, sequence INTEGER, PRIMARY KEY (export, run));
CREATE TABLE IF NOT EXISTS report (
  export TEXT, parent TEXT, id TEXT, run TEXT, sequence INTEGER, report TEXT, PRIMARY KEY (export, parent, id)
);
"""


def identity(report):
    """What identifies a report, among those of its parent. Replace `id` by the attribute, field or column in your reports.

    An element of XML is `report.findtext("{namespace}id")`. Numbers in JSON are text here. Without names of columns, a row of CSV is a list.
    """
    return report.get("id") if hasattr(report, "get") else None


class Directory:
    def __init__(self, source):
        self.root = Path(source)

    def names(self, folder, prefix):
        """What is in a folder and begins with a prefix."""
        return sorted(each.name for each in (self.root / folder).iterdir() if each.name.startswith(prefix))

    def open(self, key):
        return (self.root / key).open("rb")


class Bucket:
    def __init__(self, source):
        import boto3

        self.bucket, _, prefix = source.removeprefix("s3://").partition("/")
        self.prefix = prefix and prefix.rstrip("/") + "/"
        self.s3 = boto3.client("s3")

    def names(self, folder, prefix):
        start = f"{self.prefix}{folder}/"
        lists = self.s3.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=start + prefix, Delimiter="/"
        )
        for each in lists:
            yield from (found["Prefix"][len(start) : -1] for found in each.get("CommonPrefixes", []))
            yield from (found["Key"][len(start) :] for found in each.get("Contents", []))

    def open(self, key):
        """The complete object, on the disk if it is large: a connection is not kept open while it is processed."""
        file = tempfile.SpooledTemporaryFile(max_size=1 << 20)
        self.s3.download_fileobj(self.bucket, self.prefix + key, file)
        file.seek(0)
        return file


def open_source(source):
    return Bucket(source) if source.startswith("s3://") else Directory(source)


def list_names(source, folder, prefix=""):
    try:
        return list(source.names(folder, prefix))
    except Exception as error:
        sys.exit(f"{folder} cannot be listed: {error}. Nothing was stored. Check both names.")


def open_file(source, key):
    try:
        return source.open(key)
    except Exception as error:
        sys.exit(f"{key} cannot be read: {error}. Nothing of this run was stored.")


def parse(text, key):
    try:
        return json.loads(text)
    except ValueError as error:
        sys.exit(f"{key} is damaged: {error}. Nothing of this run was stored. Restore it, and start again.")


def read_run(source, key):
    with open_file(source, key) as file:
        run = parse(file.read(), key)
    if not isinstance(run, dict) or run.get("runVersion") != 1:
        sys.exit(f"{key} has an unknown runVersion. Nothing was stored. Update this program.")
    return run


def new_runs(source, export, known):
    """The published runs that are not known, lowest sequence first. Their folders are listed, but not their pages."""
    names = list_names(source, export)
    if not names:
        sys.exit(f"The source has nothing of the export {export}. Check both names.")

    def new_runs_of(day):
        for folder in list_names(source, f"{export}/{day}", "run="):
            if folder.removeprefix("run=") not in known:
                for name in ("run.json", "bounded.json"):
                    # Without these objects, the run is in progress, or was abandoned.
                    if name in list_names(source, f"{export}/{day}/{folder}", name):
                        yield read_run(source, f"{export}/{day}/{folder}/{name}")

    days = [name for name in names if name.startswith("date=")]
    # A run that appears late, or whose clock was wrong, may have any day. So all are listed, several at a time.
    with ThreadPoolExecutor(16) as pool:
        found = pool.map(lambda day: list(new_runs_of(day)), days)
        return sorted((run for runs in found for run in runs), key=lambda run: run["sequence"])


def pages_of(source, run):
    """The pages in the manifest, which is read line by line, each with where the reports are."""
    reports_at = {"kind": "unknown"}
    with open_file(source, run["manifest"]) as manifest:
        for line in manifest:
            text = line.rstrip(b",\n")
            if line.startswith(b'    {"page":') and text.endswith(b"}"):
                yield parse(text, run["manifest"]), reports_at
            elif line.startswith(b'  "reportsAt": '):
                reports_at = parse(text.removeprefix(b'  "reportsAt": '), run["manifest"])
            elif line.startswith(b'  "manifestVersion":') and line != b'  "manifestVersion": 1,\n':
                sys.exit(f"{run['manifest']} has an unknown version: {line.decode().strip()}")


@contextmanager
def open_page(source, page):
    """The page, decompressed."""
    if page.get("compression") not in (None, "gzip"):
        sys.exit(f"{page['key']} has an unknown compression. Nothing of this run was stored. Update this program.")
    with open_file(source, page["key"]) as file:
        yield gzip.open(file) if page.get("compression") else file


def verify(file, page, name):
    sha256 = hashlib.sha256()
    try:
        # Stops after the bytes of the page, whatever the file decompresses to.
        while file.tell() <= page["bytes"] and (chunk := file.read(1 << 20)):
            sha256.update(chunk)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        sys.exit(f"{name} cannot be decompressed: {error}. Nothing of this run was stored.")
    if file.tell() != page["bytes"] or sha256.hexdigest() != page["sha256"]:
        sys.exit(f"{name} does not match its manifest. Nothing of this run was stored.")
    file.seek(0)


def xml_reports(file, at):
    """The elements at the path, one at a time."""
    from defusedxml.ElementTree import iterparse

    names = at["path"].split("/")[1:]
    opened = []
    for event, element in iterparse(file, events=("start", "end")):
        if event == "start":
            opened.append(element)
            continue
        tags = [each.tag.rpartition("}")[2] for each in opened[: len(names) + 1]]
        if len(tags) == len(names) and all(name in ("*", tag) for name, tag in zip(names, tags)):
            element.tail = None
            yield element, tostring(element, encoding="unicode")
        opened.pop()
        # Whatever has ended above the reports is not needed any more.
        if 0 < len(opened) < len(names):
            opened[-1].clear()


# Numbers stay as they are written, as in 0.10.
JSON = json.JSONDecoder(parse_float=str, parse_int=str)
BETWEEN = re.compile(r"[ \t\n\r,:]*")


def json_parts(text):
    """The members of a JSON object or the items of a list: the name or number, the value, and the value's text."""
    at = BETWEEN.match(text).end()
    is_object = text[at] == "{"
    if not is_object and text[at] != "[":
        raise KeyError(text[at : at + 20])
    at = BETWEEN.match(text, at + 1).end()
    number = 0
    while text[at] not in "]}":
        name = str(number)
        if is_object:
            name, at = JSON.raw_decode(text, at)
            at = BETWEEN.match(text, at).end()
        value, end = JSON.raw_decode(text, at)
        yield name, value, text[at:end]
        at = BETWEEN.match(text, end).end()
        number += 1


def json_reports(file, at):
    """The items of the list. The page is in memory."""
    text = file.read().decode("utf-8-sig")
    for name in at["list"].split("/")[1:]:
        texts = {key: value_text for key, _, value_text in json_parts(text)}
        text = texts[name.replace("~1", "/").replace("~0", "~")]
    return ((report, report_text) for _, report, report_text in json_parts(text))


def lines_of(file):
    for number, line in enumerate(file):
        yield (line if number else line.removeprefix(codecs.BOM_UTF8)).decode()


def ndjson_reports(file, at):
    return ((JSON.decode(line), line.strip()) for line in lines_of(file) if line.strip())


def csv_reports(file, at):
    """The rows become JSON: an object if the first one has the names of the columns, or else a list."""
    csv.field_size_limit(sys.maxsize)
    rows = (csv.DictReader if at["header"] else csv.reader)(lines_of(file), strict=True)
    return ((row, json.dumps(row, ensure_ascii=False)) for row in rows if row)


READERS = {"xml": xml_reports, "json": json_reports, "ndjson": ndjson_reports, "csv": csv_reports}


def reports_in(file, page, at, name):
    """The reports of a page, each with its text."""
    if at["kind"] not in READERS:
        sys.exit(f"The manifest does not say where the reports of {name} are. Nothing of this run was stored.")
    # Such a document need not have a place for reports.
    if page["reports"] == 0:
        return
    try:
        yield from READERS[at["kind"]](file, at)
    except (KeyError, IndexError) as error:
        sys.exit(f"{name} has no reports at {at}: {error}. Nothing of this run was stored.")
    except (ParseError, ValueError, csv.Error) as error:
        sys.exit(f"{name} cannot be parsed: {error}. Nothing of this run was stored.")


def reports_on(source, run, page, at):
    """The reports on a page, which is verified: the identity and the text of each."""
    name = f"Page {page['page']} of run {run['run']}"
    number = 0
    with open_page(source, page) as file:
        verify(file, page, name)
        for number, (report, text) in enumerate(reports_in(file, page, at, name), start=1):
            id = identity(report)
            if not id:
                sys.exit(
                    f"Report {number} on page {page['page']} of run {run['run']} has no identity: {text[:200]}\n"
                    "Change identity() in this program. Nothing of this run was stored."
                )
            yield id, text
    if page["reports"] not in (None, number):
        sys.exit(f"{name} has {number} reports instead of {page['reports']}. Nothing of this run was stored.")


def store(db, source, export, run):
    """Stores each report by its identity, as of the newest run. Returns the number of reports in the pages."""
    pages = reports = 0
    for page, at in pages_of(source, run):
        pages += 1
        for id, text in reports_on(source, run, page, at):
            reports += 1
            db.execute(
                "INSERT INTO report VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (export, parent, id) DO UPDATE SET"
                " run = excluded.run, sequence = excluded.sequence, report = excluded.report"
                " WHERE excluded.sequence >= sequence",
                # A report may have several parents, each with a form of its own.
                (export, page.get("parent", ""), id, run["run"], run["sequence"], text),
            )
    if pages != run["pages"]:
        sys.exit(f"{run['manifest']} has {pages} pages instead of {run['pages']}. Nothing of this run was stored.")
    return reports


def known_runs(db, export):
    return {run for (run,) in db.execute("SELECT run FROM run WHERE export = ?", (export,))}


def catch_up(source, export, database):
    db = sqlite3.connect(database, isolation_level=None)
    db.executescript(TABLES)
    for run in new_runs(source, export, known_runs(db, export)):
        # A run and its ID are stored in one transaction, and by one process.
        with db:
            db.execute("BEGIN IMMEDIATE")
            if run["run"] in known_runs(db, export):
                continue
            reports = store(db, source, export, run)
            db.execute("INSERT INTO run VALUES (?, ?, ?)", (export, run["run"], run["sequence"]))
        print(f"run {run['run']}: {reports} reports")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("source", "export", "database"):
        parser.add_argument(name, metavar=name.upper())
    args = parser.parse_args()
    try:
        catch_up(open_source(args.source), args.export, args.database)
    except sqlite3.Error as error:
        sys.exit(f"{args.database}: {error}. If it is locked by another execution, start again after that one.")
