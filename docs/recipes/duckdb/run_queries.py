"""Runs the queries in this folder where the command line of DuckDB is not at hand. Prints rows as JSON.

Usage: python run_queries.py DATABASE SOURCE EXPORT FIRST FILE.sql...
SOURCE is s3://BUCKET/PREFIX without the last slash, or a directory. FIRST is the sequence of the first run to read.
Needs the packages duckdb and pytz. Ends with status 1 and a message at the first query that fails.
"""

import argparse
import json
import sys
from pathlib import Path

import duckdb


def run(db, file):
    for statement in db.extract_statements(file.read_text()):
        result = db.execute(statement)
        if statement.type == duckdb.StatementType.SELECT:
            names = [column[0] for column in result.description]
            for row in result.fetchall():
                print(json.dumps(dict(zip(names, row)), default=str))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("database", "source", "export"):
        parser.add_argument(name, metavar=name.upper())
    parser.add_argument("first", metavar="FIRST", type=int)
    parser.add_argument("files", metavar="FILE.sql", nargs="+", type=Path)
    args = parser.parse_args()
    try:
        db = duckdb.connect(args.database)
        for name in ("source", "export", "first"):
            db.execute(f"SET VARIABLE {name} = ?", [getattr(args, name)])
        for file in args.files:
            run(db, file)
    except (duckdb.Error, OSError) as error:
        sys.exit(str(error))
