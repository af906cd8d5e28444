/** Everything that must hold in every history. The checks are in this folder, unless a group names another place. */
export type Invariant =
  // Objects in S3: stored-objects.ts
  | 'every object has an expected key'
  | 'a visible object never changes'
  | 'pages are stored in order'
  | 'all pages of a run have the same form'
  | 'a page is stored byte for byte'
  | 'every page has the root element of the service'
  | 'page metadata holds the next cursor of its response'
  | 'page metadata names the run and the page'
  | 'only a complete run is published'
  | 'a manifest lists exactly the page log of its run'
  | 'a manifest lists stored pages only'
  | 'a run is published only if few of its parents are gone'
  | 'no report appears twice in a run'
  | 'a run requests what its manifest states'
  | 'every page of a published run is requested as the run is'
  | 'no report is missing from a run'
  | 'counted pages are those of two passes with the same reports'
  | 'only a published run is listed'
  | 'run.json agrees with its manifest'
  | 'latest.json points to a published run'
  | 'latest.json points to a listed run'
  | 'latest.json agrees with its manifest'
  | 'latest.json never moves back'
  | 'no object has missing or reordered parts'
  | 'no page in the folder of a run is missing from its manifest'
  // object-settings.ts
  | 'objects are stored as the settings say'
  // Items in DynamoDB: write-checks.ts
  | 'every item has an expected key'
  // The page log in DynamoDB: page-log.ts
  | 'a log entry never changes'
  | 'the page log has no gaps'
  | 'a run ends only where the service has ended it'
  | 'a parent is skipped only if an operator says so'
  | 'cursors form a chain'
  | 'no page is logged after a cursor cycle closes'
  | 'a page is stored before it is logged'
  | 'the page log agrees with the stored pages'
  | 'the page log holds the cursor that the service returned'
  | 'no damaged page is adopted'
  | 'a log entry counts no delay that did not happen'
  // The export state in DynamoDB: export-state.ts
  | 'export state replaces the version that was read'
  | 'sequence numbers of runs increase'
  | 'an export has one active run'
  | 'an execution begins one run at most'
  | 'an execution that has ended begins no run with restart or since'
  | 'a run does not start over while its next page is stored'
  | 'a completed run has a manifest'
  | 'a completed run without a manifest has no reports'
  | 'a run with fewer reports than expected does not complete'
  | 'a completed run is listed with its watermark'
  | 'latest.json points to the newest completed run'
  | 'the watermark never moves back'
  | 'the watermark moves only when a run completes'
  | 'the watermark never passes a report that is not exported'
  | 'the watermark passes nothing that was not requested'
  | 'export state keeps the fields of a later release'
  | 'the root element of completed runs is recorded' // document-roots.ts
  | 'a run completes only while its pages are stored'
  // What becomes of each start: starts.ts
  | 'one scheduled time begins one run'
  | 'a start that contradicts an unfinished run is refused'
  | 'a start with restart begins a new run'
  | 'a start is skipped or refused only for a documented reason'
  // Which bounds a run has, and what is exported: oracle.ts
  | 'a run begins where its start says'
  | 'a run ends where its start says'
  | 'a run without a page is replaced'
  | 'the watermark is where the exported dates end'
  | 'a start exports nothing only if nothing is due'
  | 'what settings and operators ask for is exported'
  // Parents that are reports of another export: parents.ts
  | 'a plan has the parents in the newest run of their export'
  | 'the plan of a run never changes'
  | 'a chain begins where its parent is covered'
  // Report jobs: report-jobs.ts
  | 'a report job is created only after it is recorded'
  | 'a report job is polled only once its ID is recorded'
  | 'a report job is ordered again only if it is needed'
  | 'a status of a report job that is not described ends the execution'
  | 'the pages of a chain are the result of one report job'
  | 'waits for report jobs are no consecutive waits' // executions.ts
  | 'the URL of a result is in no log, state or error'
  // Slices: slices.ts
  | 'the slices of a run never change'
  | 'a slice starts over only on its own'
  | 'the recorded progress is what the log has'
  | 'a run begins only if the service honors its upper bound'
  | 'an invocation proves its bounds once, for runs that depend on them'
  | 'a run with one slice makes no request for slices' // histories/history.ts
  // Bounded runs: export-state.ts, stored-objects.ts, write-checks.ts
  | 'a bounded run changes nothing of its export'
  | 'bounded runs overlap only if their start says so' // write-checks.ts
  // Every write to S3 and DynamoDB: write-checks.ts
  | 'an execution changes only its own export'
  // Executions: executions.ts
  | 'an execution continues in a new one after iterationsPerExecution'
  | 'no wait for the service is longer than maxRetryAfter'
  | 'state payloads stay small'
  | 'no PageConflictError occurs'
  | 'an execution history stays within its limit'
  | 'every error has a specific name' // also world/lambda.ts
  | 'an unreachable service fails no run that has a page'
  // Function invocations: world/lambda.ts, telemetry.ts
  | 'a function ends before its timeout'
  | 'an invocation publishes its own telemetry'
  | 'no attempt fails because two writes conflict' // world/lambda.ts
  // Requests to the report service: world/report-service.ts
  | 'requests follow the service contract'
  | 'no request is sent before its Retry-After has passed' // retry-after.ts
  // Slots: world/traffic.ts, slots.ts
  | 'no more pages are requested at once than maxConcurrentPages'
  | 'no more requests are sent in a period than rate allows'
  | 'no more slots are held than maxConcurrentPages'
  | 'a slot of a killed function becomes free'
  // The end of a history, after the faults: completion.ts
  | 'every export completes'
  | 'a published run is announced'
  | 'only a published run is announced'
  | 'no report is lost'
  | 'an upload is left unfinished only if it could not be aborted';
