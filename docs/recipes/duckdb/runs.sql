-- Creates the table `runs`, which has the run.json of every published run, or its bounded.json. An abandoned run has
-- none. Replaces the table, or fails.
-- Needs the variables `source`, s3://BUCKET/PREFIX without the last slash or a directory, and `export`. In S3, it lists
-- all keys of the export, 1,000 per request. date=2026-11-* instead of date=* lists the runs of a month.
BEGIN;
SET VARIABLE files = (
  SELECT if(count(*) > 0, list(file), error('No published run of ' || getvariable('export')))
  FROM glob(getvariable('source') || '/' || getvariable('export') || '/date=*/run=*/*.json')
  WHERE regexp_matches(file, '/(run|bounded)\.json$')
);

CREATE OR REPLACE TABLE runs AS
SELECT * EXCLUDE (file) REPLACE (coalesce(bounded, false) AS bounded)
FROM read_json(
  getvariable('files'),
  hive_partitioning = false, filename = 'file',
  columns = {
    runVersion: 'INTEGER', export: 'VARCHAR', run: 'VARCHAR', sequence: 'BIGINT', bounded: 'BOOLEAN',
    since: 'TIMESTAMPTZ', until: 'TIMESTAMPTZ', watermark: 'TIMESTAMPTZ',
    startedAt: 'TIMESTAMPTZ', completedAt: 'TIMESTAMPTZ',
    parents: 'STRUCT(export VARCHAR, run VARCHAR)',
    pages: 'BIGINT', reports: 'BIGINT', bytes: 'BIGINT', manifest: 'VARCHAR'
  }
)
WHERE CASE WHEN runVersion = 1 THEN true ELSE error('Unknown runVersion in ' || file) END;

SELECT error(file || ' is empty: restore it') AS problem
FROM (SELECT unnest(getvariable('files')) AS file)
-- The last four parts of a path are its key. DuckDB 2 normalizes the parts before them.
WHERE regexp_extract(file, '[^/]+/[^/]+/[^/]+/[^/]+$')
  NOT IN (SELECT regexp_replace(manifest, '[^/]*$', if(bounded, 'bounded.json', 'run.json')) FROM runs);
COMMIT;
