-- How many reports of each run, bounded or not, are still current: in no run with a higher sequence.
-- Needs the table `runs`, reports.sqlite of python/catch_up.py in the working directory, and the extension sqlite,
-- which it installs.
INSTALL sqlite;
ATTACH 'reports.sqlite' AS stored (TYPE sqlite, READ_ONLY);

SELECT runs.sequence, run, startedAt, runs.reports AS delivered, count(id) AS current
FROM runs LEFT JOIN stored.report USING (export, run)
GROUP BY ALL
ORDER BY runs.sequence;
