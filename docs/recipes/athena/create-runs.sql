-- Creates a table of runs, bounded ones included, in Athena. It reads the copies of run.json and bounded.json that
-- aws/copy-run.ts writes to tables/runs/. `bounded` is NULL for a regular run.
-- Replace <copies> by the bucket of the copies. Needs s3:GetObject on tables/runs/*, s3:ListBucket and
-- s3:GetBucketLocation there.
CREATE EXTERNAL TABLE runs (
  runversion int,
  `export` string,
  run string,
  `sequence` bigint,
  since string,
  until string,
  bounded boolean,
  watermark string,
  startedat string,
  completedat string,
  servicestartedat string,
  servicecompletedat string,
  format string,
  container string,
  source string,
  pages bigint,
  reports bigint,
  bytes bigint,
  manifest string
)
ROW FORMAT SERDE 'org.openx.data.jsonserde.JsonSerDe'
LOCATION 's3://<copies>/tables/runs/'
