-- Creates the table `pages` from the manifests of the runs from the sequence `first` onwards, bounded ones included, or
-- fails. It reads them line by line, which takes half the memory of read_json. Of a page that is not compressed,
-- storedBytes and storedSha256 are NULL, and without parents, parent is. reportsAt says where the reports are.
-- Needs the table `runs`, and the variables `source` and `first`.
BEGIN;
SET VARIABLE manifests = (
  SELECT if(count(*) > 0, list(getvariable('source') || '/' || manifest), error('No run from first onwards'))
  FROM runs WHERE sequence >= getvariable('first')
);

CREATE OR REPLACE TABLE pages AS
WITH lines AS NOT MATERIALIZED (
  SELECT run, sequence, manifest, line
  FROM read_csv(
    getvariable('manifests'),
    columns = {line: 'VARCHAR'}, filename = 'file', hive_partitioning = false,
    auto_detect = false, header = false, delim = '\t', quote = '', escape = ''
  )
  JOIN runs ON regexp_extract(file, '[^/]+/[^/]+/[^/]+/[^/]+$') = manifest
),
headers AS (
  SELECT run, if(
    bool_or(line = '  "manifestVersion": 1,'),
    from_json(
      rtrim(substr(any_value(line) FILTER (starts_with(line, '  "reportsAt":')), 16), ','),
      '{"kind": "VARCHAR", "path": "VARCHAR", "list": "VARCHAR", "header": "BOOLEAN"}'
    ),
    error('Unknown version in ' || any_value(manifest))
  ) AS reportsAt
  FROM lines WHERE starts_with(line, '  "') GROUP BY run
)
SELECT run, sequence, reportsAt, unnest(from_json(
  rtrim(line, ','),
  '{"page": "BIGINT", "parent": "VARCHAR", "key": "VARCHAR", "bytes": "BIGINT", "sha256": "VARCHAR", "storedBytes": "BIGINT",
    "storedSha256": "VARCHAR", "reports": "BIGINT"}'
))
FROM lines JOIN headers USING (run)
WHERE starts_with(line, '    {"page":');

SELECT error(manifest || ' does not have ' || runs.pages || ' pages') AS problem
FROM runs LEFT JOIN (SELECT run, count(*) AS found FROM pages GROUP BY run) USING (run)
WHERE sequence >= getvariable('first') AND coalesce(found, 0) IS DISTINCT FROM runs.pages;
COMMIT;
