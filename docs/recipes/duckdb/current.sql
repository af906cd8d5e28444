-- How many reports of each run are still current, that is, in no later run.
-- Needs the table `runs`, reports.sqlite of python/catch_up.py in the working directory, and the extension sqlite,
-- which it installs.
INSTALL sqlite;
ATTACH 'reports.sqlite' AS stored (TYPE sqlite, READ_ONLY);

SELECT sequence, run, startedAt, runs.reports AS delivered, count(id) AS current
FROM runs LEFT JOIN stored.report USING (export, sequence)
GROUP BY ALL
ORDER BY sequence;
