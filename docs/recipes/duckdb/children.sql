-- Creates the table `children` from the table `reports`: each report with its parent and the report of its parent, or
-- fails. First load the export of the parents with parents.sql, and then that of the children, into the same database.
-- Needs the tables `runs`, `pages` and `reports` of the children, and `parents`.
BEGIN;
CREATE OR REPLACE TABLE children AS
SELECT reports.sequence, run, page, pages.parent, reports.report, parents.report AS parentReport
FROM reports
JOIN pages USING (run, page)
JOIN runs USING (run)
LEFT JOIN parents ON parents.run = runs.parents.run AND parents.parent = pages.parent;

SELECT error('The table parents does not have ' || parent || ', a parent of run ' || run) AS problem
FROM children WHERE parentReport IS NULL;
COMMIT;
