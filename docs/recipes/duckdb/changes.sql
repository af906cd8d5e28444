-- Adds to the table `changes` which reports the next run of a full export has added, changed and removed, or fails. The
-- next run is the first one in the tables `pages` and `reports` that it does not have yet.
-- A report is removed if two runs in a row do not have it: an update may hide it from one. What is under a parent
-- without pages stays: the parent may be gone, skipped, or hidden itself. Bounded runs are left out. Refused are an
-- export whose runs select by time, as they are not full, and one whose pages are counted, as it may lack a report
-- unnoticed. The tables `compared` and `known` are what it keeps.
-- Needs the tables `runs`, `pages` and `reports`, of JSON, and the variable `source`. Replace '/id' by the path of what
-- identifies a report among those of its parent.
BEGIN;
CREATE TABLE IF NOT EXISTS compared (run VARCHAR, sequence BIGINT, request VARCHAR);
CREATE TABLE IF NOT EXISTS known (parent VARCHAR, id VARCHAR, digest UBIGINT, misses INTEGER);
CREATE TABLE IF NOT EXISTS changes (run VARCHAR, change VARCHAR, parent VARCHAR, id VARCHAR);

CREATE OR REPLACE TEMP TABLE next AS
SELECT * FROM runs
WHERE NOT bounded AND run IN (SELECT run FROM pages) AND run NOT IN (SELECT run FROM compared)
ORDER BY sequence LIMIT 1;
SELECT error(
  'Run ' || run || ' has appeared late. Drop the tables compared, known and changes, and begin with the first run'
) AS problem
FROM next WHERE sequence < (SELECT max(sequence) FROM compared);

-- Without a next run, it reads the manifest of another. A page has at most 1,000 bytes there.
SET VARIABLE manifest = (
  SELECT getvariable('source') || '/' || coalesce((SELECT manifest FROM next), (SELECT any_value(manifest) FROM runs))
);
SET VARIABLE longest = (SELECT 1048576 + 1000 * max(pages) FROM runs);
CREATE OR REPLACE TEMP TABLE described AS
SELECT run, api, concat_ws(' ', source, filter, api ->> 'requestSha256') AS request
FROM read_json(
  getvariable('manifest'), hive_partitioning = false, maximum_object_size = getvariable('longest'),
  columns = {run: 'VARCHAR', source: 'VARCHAR', filter: 'JSON', api: 'JSON'}
)
JOIN next USING (run);
SELECT error('Run ' || run || ' has the reports since a time, so the others are not removed. Use python/catch_up.py') AS problem
FROM described WHERE (api ->> 'full') IS DISTINCT FROM 'true';
SELECT error('The pages of run ' || run || ' were counted, so it may lack reports. Use python/catch_up.py') AS problem
FROM described WHERE api ->> 'pagination' = 'counted';
SELECT error(
  'The request of run ' || run || ' is not that of the run before it. What it does not select is not removed. Drop the '
  'tables compared, known and changes, and begin with this run'
) AS problem
FROM described WHERE request <> (SELECT request FROM compared ORDER BY sequence DESC LIMIT 1);

-- A digest in the place of the text, so that the reports of both runs fit into memory, or little has to leave it.
CREATE OR REPLACE TEMP TABLE merged AS
SELECT
  parent, id, max(digest) FILTER (misses IS NULL) AS now, max(digest) FILTER (misses IS NOT NULL) AS before,
  CASE
    WHEN now IS NOT NULL THEN 0
    WHEN parent IN (SELECT coalesce(parent, '') FROM pages JOIN next USING (run)) THEN max(misses) + 1
    ELSE max(misses)
  END AS misses
FROM (
  FROM known
  UNION ALL
  SELECT coalesce(parent, ''), report ->> '/id', md5_number_lower(report::VARCHAR), NULL
  FROM reports JOIN next USING (run) JOIN pages USING (run, page)
)
GROUP BY parent, id;
SELECT error('A report has no identity. Change the path in this program') AS problem FROM merged WHERE id IS NULL;

INSERT INTO changes
SELECT (SELECT run FROM next), CASE WHEN before IS NULL THEN 'added' WHEN misses = 2 THEN 'removed' ELSE 'changed' END, parent, id
FROM merged WHERE before IS NULL OR misses = 2 OR now <> before;

CREATE OR REPLACE TABLE known AS
SELECT parent, id, coalesce(now, before) AS digest, misses FROM merged WHERE misses < 2;
INSERT INTO compared SELECT run, sequence, request FROM next JOIN described USING (run);
DROP TABLE merged;
COMMIT;
SELECT run, change, count(*) AS reports FROM changes JOIN next USING (run) GROUP BY ALL ORDER BY ALL;
