-- The newest ten runs of the export nightly, bounded ones included, from the table that create-runs.sql creates.
-- Replace the name of the export.
SELECT run, "sequence", bounded, from_iso8601_timestamp(completedat) AS completed_at, pages, reports, bytes
FROM runs
WHERE "export" = 'nightly'
ORDER BY "sequence" DESC
LIMIT 10
