-- Creates the table `pages` from the manifests of the runs from the sequence `first` onwards, or fails. It reads them
-- line by line, which takes half the memory of read_json. Of a page that is not compressed, storedBytes and storedSha256
-- are NULL.
-- Needs the table `runs`, and the variables `source` and `first`.
BEGIN;
SET VARIABLE manifests = (
  SELECT if(count(*) > 0, list(getvariable('source') || '/' || manifest), error('No run from first onwards'))
  FROM runs WHERE sequence >= getvariable('first')
);

CREATE OR REPLACE TABLE pages AS
SELECT run, sequence, unnest(from_json(
  rtrim(line, ','),
  '{"page": "BIGINT", "key": "VARCHAR", "bytes": "BIGINT", "sha256": "VARCHAR", "storedBytes": "BIGINT",
    "storedSha256": "VARCHAR", "reports": "BIGINT"}'
))
FROM read_csv(
  getvariable('manifests'),
  columns = {line: 'VARCHAR'}, filename = 'file', hive_partitioning = false,
  auto_detect = false, header = false, delim = '\t', quote = '', escape = ''
)
JOIN runs ON regexp_extract(file, '[^/]+/[^/]+/[^/]+/[^/]+$') = manifest
WHERE CASE
  WHEN line LIKE '    {"page":%' THEN true
  WHEN line LIKE '  "manifestVersion":%' AND line <> '  "manifestVersion": 1,'
    THEN error('Unknown version in ' || manifest)
  ELSE false
END;

SELECT error(manifest || ' does not have ' || runs.pages || ' pages') AS problem
FROM runs LEFT JOIN (SELECT sequence, count(*) AS found FROM pages GROUP BY sequence) USING (sequence)
WHERE sequence >= getvariable('first') AND found IS DISTINCT FROM runs.pages;
COMMIT;
