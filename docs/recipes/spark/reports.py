"""Writes the reports of every published run, bounded ones included, to a Parquet folder of their own, then records the run.

`current` returns each report as of the newest recorded run that has it. Pages and numbers of reports are verified. They may be
XML, JSON, NDJSON or CSV. The runs that are not recorded yet may have appeared in any order.
Usage: spark-submit reports.py SOURCE EXPORT TABLE. SOURCE and TABLE are s3a://BUCKET/PREFIX or a directory.
Needs Spark 4 and, for a bucket, hadoop-aws. Start one at a time.
Ends with status 1 and a message at a run that it cannot read or verify.
"""

import argparse
import sys

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as f

# Replace these: the columns of a report, of CSV all, and the column that identifies it. And the element of a report in XML,
# if the manifest names none: "/*/*".
COLUMNS = "_id STRING, _VALUE STRING"
IDENTITY = "_id"
ROW_TAG = "r"

PAGES_AT_ONCE = 5_000
RUN = "runVersion INT, run STRING, sequence LONG, pages LONG, manifest STRING"
REPORTS_AT = "kind STRING, path STRING, list STRING, header BOOLEAN"
PAGE = "page LONG, key STRING, bytes LONG, sha256 STRING, storedBytes LONG, storedSha256 STRING, reports LONG"
# Of the file. A compressed page has others than the page itself. Spark decompresses by the name, which ends with .gz.
MATCHES = "length <=> coalesce(storedBytes, bytes) AND digest <=> coalesce(storedSha256, sha256)"

spark = SparkSession.builder.getOrCreate()


def key_of(path):
    """The last four parts of a path: the key in the manifest."""
    return f.regexp_extract(path, "[^/]+/[^/]+/[^/]+/[^/]+$", 0)


def manifest_of(source, run):
    """The pages in the manifest, which is read line by line, and where their reports are."""
    lines = spark.read.text(f"{source}/{run.manifest}")
    if lines.where("value = '  \"manifestVersion\": 1,'").isEmpty():
        sys.exit(f"{run.manifest} has an unknown version.")
    place = lines.select(f.regexp_extract("value", '^  "reportsAt": (.*),$', 1).alias("text")).where("text != ''")
    texts = lines.where(f.col("value").startswith('    {"page":')).select(f.rtrim("value", f.lit(",")).alias("text"))
    pages = texts.select(f.from_json("text", PAGE).alias("page")).select("page.*").persist()
    return pages, place.select(f.from_json("text", REPORTS_AT).alias("at")).first().at


def reports_in(paths, at):
    """The reports of pages, each with the key of its page."""
    key = key_of("_metadata.file_path").alias("key")
    reader = spark.read.options(mode="FAILFAST")
    if at.kind == "xml":
        element = at.path.rpartition("/")[2]
        row_tag = ROW_TAG if element == "*" else element
        return reader.options(rowTag=row_tag).schema(COLUMNS).format("xml").load(paths).select("*", key)
    if at.kind == "csv":
        # Fails if the first row of a page has other columns.
        options = {"header": at.header, "enforceSchema": False, "multiLine": True, "escape": '"'}
        return reader.options(**options).schema(COLUMNS).csv(paths).select("*", key)
    if at.kind == "ndjson" or (at.kind == "json" and not at.list):
        return reader.options(multiLine=at.kind == "json").schema(COLUMNS).json(paths).select("*", key)
    if at.kind == "json":
        names = [f"`{name.replace('~1', '/').replace('~0', '~')}`" for name in at.list.split("/")[1:]]
        column = f"ARRAY<STRUCT<{COLUMNS}>>"
        for name in reversed(names[1:]):
            column = f"STRUCT<{name}: {column}>"
        documents = reader.options(multiLine=True).schema(f"{names[0]} {column}").json(paths)
        return documents.select(f.explode(".".join(names)).alias("report"), key).select("report.*", "key")
    sys.exit(f"The manifest does not say where the reports of {paths[0]} are.")


def fail_if_any(rows, message):
    first = rows.first()
    if first:
        sys.exit(f"{message.format(**first.asDict())} The run is not recorded, so its reports do not count.")


def store(source, run, reports):
    """Verifies the pages of a run and writes their reports, in place of what an interrupted execution has written."""
    pages, at = manifest_of(source, run)
    if pages.count() != run.pages:
        sys.exit(f"{run.manifest} does not have {run.pages} pages.")
    for start in range(0, run.pages, PAGES_AT_ONCE):
        some = pages.where(f.col("page").between(start + 1, start + PAGES_AT_ONCE))
        paths = [f"{source}/{page.key}" for page in some.select("key").collect()]
        files = spark.read.format("binaryFile").load(paths)
        found = files.select(key_of("path").alias("key"), "length", f.sha2("content", 256).alias("digest"))
        differing = some.join(found, "key", "left").where(f"NOT ({MATCHES})")
        fail_if_any(differing, f"Page {{page}} of run {run.run} does not match its manifest.")

        reports_in(paths, at).write.mode("append" if start else "overwrite").parquet(reports)

    stored = spark.read.parquet(reports)
    missing = stored.where(f.col(IDENTITY).isNull()).join(pages, "key").orderBy("page")
    fail_if_any(missing, f"A report on page {{page}} of run {run.run} has no identity: change IDENTITY and COLUMNS.")
    counts = stored.groupBy("key").agg(f.count("*").alias("found"))
    others = pages.join(counts, "key", "left").where("coalesce(found, 0) != reports").orderBy("page")
    fail_if_any(others, f"Page {{page}} of run {run.run} does not have {{reports}} reports: change ROW_TAG.")
    pages.unpersist()


def catch_up(source, export, table):
    spark.createDataFrame([], RUN).write.mode("ignore").parquet(f"{table}/runs")
    recorded = spark.read.schema(RUN).parquet(f"{table}/runs").select("run")
    try:
        published = spark.read.schema(RUN).json(f"{source}/{export}/date=*/run=*/{{run,bounded}}.json")
    except (AnalysisException, Py4JJavaError) as error:
        reason = getattr(error, "java_exception", error)
        sys.exit(f"The runs of the export {export} cannot be read from {source}. Check both names. {reason}")
    unknown = published.where("NOT coalesce(runVersion = 1, false)").select("_metadata.file_path").first()
    if unknown:
        sys.exit(f"{unknown.file_path} has an unknown runVersion.")
    new = published.join(recorded, "run", "left_anti").orderBy("sequence")
    for run in new.collect():
        store(source, run, f"{table}/reports/run={run.run}")
        # Only now do its reports count.
        spark.createDataFrame([run.asDict()], RUN).write.mode("append").parquet(f"{table}/runs")
        print(f"run {run.run}: {run.pages} pages")


def current(table):
    """Each report as of the newest run that has it."""
    runs = spark.read.schema(RUN).parquet(f"{table}/runs").select("sequence", "run")
    reports = spark.read.option("basePath", f"{table}/reports").parquet(f"{table}/reports").join(runs, "run")
    newest_first = Window.partitionBy(IDENTITY).orderBy(f.desc("sequence"))
    return reports.withColumn("place", f.row_number().over(newest_first)).where("place = 1").drop("place", "key")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("source", "export", "table"):
        parser.add_argument(name, metavar=name.upper())
    args = parser.parse_args()
    catch_up(args.source, args.export, args.table)
