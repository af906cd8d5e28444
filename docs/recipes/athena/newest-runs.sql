-- The newest ten runs of the export nightly, from the table that create-runs.sql creates. Replace the name of the
-- export.
SELECT run, "sequence", from_iso8601_timestamp(completedat) AS completed_at, pages, reports, bytes
FROM runs
WHERE "export" = 'nightly'
ORDER BY "sequence" DESC
LIMIT 10
