"""Stores the reports of every published run since the last one in SQLite, each as of the newest run that has it.

A run is stored completely or not at all, in one transaction with its sequence. Its pages are verified. They may be XML, JSON,
NDJSON or CSV.
Usage: python catch_up.py SOURCE EXPORT DATABASE, where SOURCE is s3://BUCKET/PREFIX or a directory.
Needs Python 3.10, defusedxml and, for a bucket, boto3.
Ends with status 1 and a message at a run that it cannot read or verify.
"""

import argparse
import csv
import gzip
import hashlib
import json
import sqlite3
import sys
import tempfile
import zlib
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from xml.etree.ElementTree import ParseError, tostring

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import iterparse


TABLES = """
CREATE TABLE IF NOT EXISTS run (export TEXT, sequence INTEGER, run TEXT, day TEXT, PRIMARY KEY (export, sequence));
CREATE TABLE IF NOT EXISTS report (export TEXT, id TEXT, sequence INTEGER, report TEXT, PRIMARY KEY (export, id));
"""


# Of JSON: where the list of reports is, from the outside in. Replace it by yours; () if the document is the list.
REPORTS = ("reports",)


def identity(report):
    """What identifies a report. Replace `id` by the attribute, field or column in your reports."""
    return report.get("id")


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


def published_runs(source, export, last_day):
    """The runs from a day onwards, oldest first. Their folders are listed, but not their pages."""
    runs = []
    names = list_names(source, export)
    if not names:
        sys.exit(f"The source has nothing of the export {export}. Check both names.")
    for day in names:
        if day.startswith("date=") and day >= f"date={day_before(last_day)}":
            for run in list_names(source, f"{export}/{day}", "run="):
                folder = f"{export}/{day}/{run}"
                # Without this object, the run is in progress, or was abandoned.
                if "run.json" in list_names(source, folder, "run.json"):
                    runs.append(read_run(source, f"{folder}/run.json"))
    return sorted(runs, key=lambda run: run["sequence"])


def day_before(day):
    """Around midnight, the clocks of two runs may differ."""
    return day and str(date.fromisoformat(day) - timedelta(days=1))


def pages_of(source, run):
    """The pages in the manifest, which is read line by line."""
    with open_file(source, run["manifest"]) as manifest:
        for line in manifest:
            text = line.rstrip(b",\n")
            if line.startswith(b'    {"page":') and text.endswith(b"}"):
                yield parse(text, run["manifest"])
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


def xml_reports(file):
    """The children of the root element, one at a time."""
    events = iterparse(file, events=("start", "end"))
    _, root = next(events)
    depth = 0
    for event, element in events:
        depth += 1 if event == "start" else -1
        if event == "end" and depth == 0:
            element.tail = None
            yield element, tostring(element, encoding="unicode")
            root.clear()


def json_reports(file):
    """The items of the list. The page is in memory."""
    reports = json.load(file)
    for name in REPORTS:
        reports = reports[name]
    return ((report, json.dumps(report, ensure_ascii=False)) for report in reports)


def ndjson_reports(file):
    return ((json.loads(line), line.decode().strip()) for line in file)


def csv_reports(file):
    """The rows after the first, which has the names of the columns. They become JSON."""
    csv.field_size_limit(sys.maxsize)
    rows = csv.DictReader((line.decode("utf-8-sig") for line in file), strict=True)
    return ((row, json.dumps(row, ensure_ascii=False)) for row in rows)


READERS = {"xml": xml_reports, "json": json_reports, "ndjson": ndjson_reports, "csv": csv_reports}


def reports_in(file, page, name):
    """The reports of a page, each with its text."""
    format = page["key"].removesuffix(".gz").rpartition(".")[2]
    if format not in READERS:
        sys.exit(f"{name} has the unknown format {format}. Nothing of this run was stored.")
    # The service sent no document, as there are no reports.
    if page["bytes"] == 0:
        return
    try:
        yield from READERS[format](file)
    except (KeyError, TypeError, IndexError) as error:
        sys.exit(f"{name} has no list at {REPORTS}: {error}. Change REPORTS in this program. Nothing of this run was stored.")
    except (ParseError, DefusedXmlException, ValueError, csv.Error) as error:
        sys.exit(f"{name} cannot be parsed: {error}. Nothing of this run was stored.")


def store(db, source, export, run):
    """Stores each report by its identity, as of the newest run. Returns the number of reports in the pages."""
    pages = reports = 0
    for page in pages_of(source, run):
        pages += 1
        name = f"Page {page['page']} of run {run['run']}"
        number = 0
        with open_page(source, page) as file:
            verify(file, page, name)
            for number, (report, text) in enumerate(reports_in(file, page, name), start=1):
                id = identity(report)
                if not id:
                    sys.exit(
                        f"Report {number} on page {page['page']} of run {run['run']} has no identity: {text[:200]}\n"
                        "Change identity() in this program. Nothing of this run was stored."
                    )
                db.execute(
                    "INSERT INTO report VALUES (?, ?, ?, ?) ON CONFLICT (export, id) DO UPDATE SET"
                    " sequence = excluded.sequence, report = excluded.report WHERE excluded.sequence >= sequence",
                    (export, id, run["sequence"], text),
                )
        if page["reports"] not in (None, number):
            sys.exit(f"{name} has {number} reports instead of {page['reports']}. Nothing of this run was stored.")
        reports += number
    if pages != run["pages"]:
        sys.exit(f"{run['manifest']} has {pages} pages instead of {run['pages']}. Nothing of this run was stored.")
    return reports


def last_run(db, export):
    query = "SELECT sequence, day FROM run WHERE export = ? ORDER BY sequence DESC LIMIT 1"
    return db.execute(query, (export,)).fetchone() or (-1, "")


def catch_up(source, export, database):
    db = sqlite3.connect(database, isolation_level=None)
    db.executescript(TABLES)
    for run in published_runs(source, export, last_run(db, export)[1]):
        # A run and its sequence are stored in one transaction, and by one process.
        with db:
            db.execute("BEGIN IMMEDIATE")
            if run["sequence"] <= last_run(db, export)[0]:
                continue
            reports = store(db, source, export, run)
            row = (export, run["sequence"], run["run"], run["startedAt"][:10])
            db.execute("INSERT INTO run VALUES (?, ?, ?, ?)", row)
        print(f"run {run['run']}: {reports} reports")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("source", "export", "database"):
        parser.add_argument(name, metavar=name.upper())
    args = parser.parse_args()
    source = Bucket(args.source) if args.source.startswith("s3://") else Directory(args.source)
    try:
        catch_up(source, args.export, args.database)
    except sqlite3.Error as error:
        sys.exit(f"{args.database}: {error}. If it is locked by another execution, start again after that one.")
