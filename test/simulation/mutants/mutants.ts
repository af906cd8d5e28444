/**
 * Ways to break the protocol, each with the smallest change that does it. If the simulation finds all of them, a simulation
 * without violations means something. Two name the same invariant only if they break different code.
 */

import type { Invariant } from '../invariants/invariant-names.ts';
import type { Edit } from './apply-edit.ts';

export interface Mutant extends Edit {
  /** What the broken protocol does. */
  readonly name: string;
  /** What the simulation must report. Other invariants may be violated in other histories. */
  readonly violates: Invariant;
  /** Applied, too: what else would prevent the violation. */
  readonly also?: readonly Edit[];
  /** Where the search begins, for a mutant that few histories find. Absent: with seed 1. */
  readonly firstSeed?: number;
}

export const mutants: readonly Mutant[] = [
  // How a page is stored and logged
  {
    name: 'a page is stored without a condition',
    violates: 'a visible object never changes',
    at: 'lib/aws/s3/objects.ts#createObject',
    replace: "IfNoneMatch: '*',",
    with: '',
  },
  {
    name: "another attempt's page is mistaken for this attempt's",
    violates: 'the page log agrees with the stored pages',
    at: 'lib/aws/s3/objects.ts#createObject',
    replace: 'return { ...existing, created: existing.Metadata?.attempt === token };',
    with: 'return { ETag: existing.ETag, created: true, Metadata, ContentLength: body.bytes };',
  },
  {
    name: 'a page is logged before it is stored',
    violates: 'a page is stored before it is logged',
    at: 'lib/aws/s3/page-store.ts#put',
    replace: 'const { created, ...info } = await createObject(',
    with: `const early = { ContentLength: body.bytes, Metadata: metadata };
      const late = { contentType, metadata, encryption, partBytes };
      void runtime.sleep(50).then(() => createObject(objectAt(key), body, late, runtime)).catch(() => {});
      if (body.bytes > 0) return { stored: true, page: await readPage(key, early, received.nextCursor) };
      const { created, ...info } = await createObject(`,
  },
  {
    name: 'a log entry is written without a condition',
    violates: 'a log entry never changes',
    at: 'lib/aws/dynamodb/page-log.ts#append',
    replace: "ConditionExpression: 'attribute_not_exists(pk)',",
    with: '',
  },
  {
    name: 'a prefetched page is stored before its predecessor',
    violates: 'pages are stored in order',
    at: 'lib/core/steps/commit-page.ts#storePage',
    replace: 'await predecessorStored',
    with: 'undefined',
    also: [
      {
        at: 'lib/core/steps/page-pipeline.ts#toStored',
        replace: 'assertRootOfStored(durable, await mayStore);',
        with: '',
      },
    ],
  },
  {
    name: 'a prefetched page is logged before its predecessor',
    violates: 'the page log has no gaps',
    at: 'lib/core/steps/page-pipeline.ts#toLogged',
    replace: 'await predecessor.logged;',
    with: '',
  },
  {
    name: 'a prefetched page is kept although its cursor does not follow',
    violates: 'cursors form a chain',
    at: 'lib/core/steps/page-pipeline.ts#cancelUnlessContinued',
    replace: 'next.identity.cursor === entry.nextCursor',
    with: 'true',
    also: [
      {
        at: 'lib/core/steps/page-pipeline.ts#startTask',
        replace: '(entry?.nextCursor ?? null) !== identity.cursor',
        with: 'false',
      },
    ],
  },
  {
    name: 'a truncated body is accepted',
    violates: 'a page is stored byte for byte',
    at: 'lib/service/client/response-body.ts#readChecked',
    replace: 'throw translate(error, transferredBytes);',
    with: 'return { done: true, value: undefined } as const;',
    also: [
      {
        at: 'lib/service/client/response-body.ts#readChecked',
        replace: 'assertNoProblem(check?.end());',
        with: '',
      },
    ],
  },
  {
    name: 'a wrong checksum of a compressed body is accepted',
    violates: 'a page is stored byte for byte',
    at: 'lib/service/client/content-encoding.ts#gzip',
    replace: "if (trailer.readUInt32LE(0) !== crc) throw new Error('its checksum is wrong');",
    with: '',
  },
  {
    name: 'a document that contains no reports is a page',
    violates: 'a page is stored byte for byte',
    at: 'lib/service/formats/formats.ts#judgePage',
    replace: 'page.reports !== undefined && check.reports === null',
    with: 'false',
  },
  {
    name: 'a repeated upload sends what the one before has left of the body',
    violates: 'no object has missing or reordered parts',
    at: 'lib/aws/s3/objects.ts#createObject',
    replace: 'for (let attempt = 1; ; attempt += 1) {',
    with: 'const Body = body.read();\nfor (let attempt = 1; ; attempt += 1) {',
    also: [{ at: 'lib/aws/s3/objects.ts#createObject', replace: 'Body: body.read(),', with: 'Body,' }],
  },
  {
    name: 'the parts of a failed upload are not removed',
    violates: 'an upload is left unfinished only if it could not be aborted',
    at: 'lib/aws/s3/objects.ts#createObject',
    replace: 'await removeParts({ client, ...location }, upload.uploadId);',
    with: '',
  },
  {
    name: 'a conflict of two writes to S3 is not recognized',
    violates: 'no attempt fails because two writes conflict',
    at: 'lib/aws/s3/objects.ts#isConflict',
    replace: "'ConditionalRequestConflict',",
    with: '',
  },

  // Stored pages that a later attempt adopts
  {
    name: 'adopting a page ignores its stored next cursor',
    violates: 'no PageConflictError occurs',
    at: 'lib/core/steps/commit-page.ts#storePage',
    replace: 'return { ...page, timing: null };',
    with: 'return { ...page, nextCursor: fetched.received().nextCursor, timing: null };',
  },
  {
    name: 'a refused cursor starts the run over although its page is stored',
    violates: 'a run does not start over while its next page is stored',
    at: 'lib/core/steps/page-pipeline.ts#fetchAndStore',
    replace: 'isRefusal(error) ? await findAfterRefusal() : undefined',
    with: 'undefined',
  },

  // Compressed pages
  {
    name: 'a page is compressed as the settings say, not as its run began',
    violates: 'all pages of a run have the same form',
    at: 'lib/core/steps/export-page.ts#exportPage',
    replace: 'const run = ownedRun(state, execution, definition.name);',
    with: 'const run = { ...ownedRun(state, execution, definition.name), compression: definition.compression };',
    firstSeed: 241,
  },
  {
    name: 'an attempt logs its own form of a page that another has stored',
    violates: 'the page log agrees with the stored pages',
    at: 'lib/aws/s3/page-store.ts#put',
    replace: 'page: await readPage(key, info, created ? received.nextCursor : undefined)',
    with: 'page: { ...(await readPage(key, info, created ? received.nextCursor : undefined)), storedBytes: body.bytes, storedSha256: body.sha256 }',
  },
  {
    name: 'the size of an object is compared with that of the page before it was compressed',
    violates: 'no PageConflictError occurs',
    at: 'lib/core/steps/inventory.ts#storedEntries',
    replace: '{ ...entry, bytes: objectDigest(entry).bytes }',
    with: 'entry',
  },

  // Cursors that repeat, and errors of the service
  {
    name: 'a run with a cursor cycle continues',
    violates: 'no page is logged after a cursor cycle closes',
    at: 'lib/core/steps/commit-page.ts#hasNextPage',
    replace: '&& !repeats',
    with: '',
  },
  {
    name: 'an error ends pagination',
    violates: 'no PageConflictError occurs',
    at: 'lib/core/steps/export-page.ts#exportPage',
    replace: 'throw error;',
    with: "return { next: 'finish', ...loop };",
  },
  {
    name: 'an outage fails a run that has a page at once',
    violates: 'an unreachable service fails no run that has a page',
    at: 'lib/core/steps/export-page.ts#exportPage',
    replace: 'hasFetchedPage(run, lastLogged)',
    with: 'false',
  },
  {
    name: 'a run whose cursor is lost is resumed',
    violates: 'every export completes',
    at: 'lib/core/steps/fail-run.ts#finalErrors',
    replace: "'CursorRejectedError',",
    with: '',
  },

  // Retry-After
  {
    name: 'an invocation waits half of a short Retry-After',
    violates: 'no request is sent before its Retry-After has passed',
    at: 'lib/core/steps/page-requests.ts#waitOrThrow',
    replace: 'await runtime.sleep(waitMs, signal);',
    with: 'await runtime.sleep(waitMs / 2, signal);',
    also: [
      {
        at: 'lib/core/steps/page-requests.ts#requestNoted',
        replace: 'Math.max(backoff.until, monotonicNow() + seconds * 1_000)',
        with: 'Math.max(backoff.until, monotonicNow() + seconds * 500)',
      },
    ],
  },
  {
    name: 'the Wait state waits half of a Retry-After',
    violates: 'no request is sent before its Retry-After has passed',
    at: 'lib/core/steps/loop-outcome.ts#wait',
    replace: 'Math.ceil(retryAfterSeconds)',
    with: 'Math.ceil(retryAfterSeconds / 2)',
  },
  {
    name: 'a Retry-After of a prefetched page is forgotten when the page before it fails',
    violates: 'no request is sent before its Retry-After has passed',
    at: 'lib/core/steps/page-pipeline.ts#exportPages',
    replace: 'isRetried(error, invocation) ? requests.pendingBackoff(error) : undefined',
    with: 'undefined',
    firstSeed: 300,
  },
  {
    name: 'a Retry-After beyond maxRetryAfter is waited for',
    violates: 'no wait for the service is longer than maxRetryAfter',
    at: 'lib/core/steps/loop-outcome.ts#wait',
    replace: 'waitSeconds > limits.maxRetryAfterSeconds',
    with: 'false',
  },

  // Slots
  {
    name: 'a slot is returned before its pages are requested',
    violates: 'no more pages are requested at once than maxConcurrentPages',
    at: 'lib/core/slots/held-slot.ts#withinSlot',
    replace: 'const page = await requestPage(request, signal);',
    with: 'await slot.release();\nconst page = await requestPage(request, signal);',
  },
  {
    name: 'a slot is taken although none is free',
    violates: 'no more slots are held than maxConcurrentPages',
    at: 'lib/core/slots/page-slots.ts#createPageSlots',
    replace: 'state.holders.length < limit',
    with: 'state.holders.length <= limit',
  },
  {
    name: 'the lease of a slot does not end',
    violates: 'a slot of a killed function becomes free',
    at: 'lib/core/slots/page-slots.ts#createPageSlots',
    replace: '/ 1_000) + clockMarginSeconds',
    with: '/ 1_000) + 86_400',
  },
  {
    name: 'the slots of a service are stored under another name',
    violates: 'every item has an expected key',
    at: 'functions/export-page.ts#exportPageHandler',
    replace: 'service: environment.SERVICE_NAME,',
    with: 'service: environment.DEPLOYMENT_NAME,',
  },

  // The export state, and the runs that executions begin
  {
    name: 'export state is replaced without a condition',
    violates: 'export state replaces the version that was read',
    at: 'lib/aws/dynamodb/conditional-writes.ts#replace',
    replace: '{ Item: toItem(token), ...condition }',
    with: '{ Item: toItem(token) }',
  },
  {
    name: 'export state loses the fields of a later release',
    violates: 'export state keeps the fields of a later release',
    at: 'lib/core/storage/stored-records.ts#parseRecord',
    replace: 'return value as Value;',
    with: 'return parsed.data;',
  },
  {
    name: 'a log entry with a field of a later release is rejected',
    violates: 'no PageConflictError occurs',
    at: 'lib/core/model.ts#entrySchema',
    replace: 'z.object({ ...compressedForm,',
    with: 'z.strictObject({ ...compressedForm,',
  },
  {
    name: 'a step does not check that its execution owns the run',
    violates: 'an export has one active run',
    at: 'lib/core/steps/export-state.ts#ownedRun',
    replace: 'active?.execution === execution && (run === undefined || active.run === run)',
    with: 'active !== undefined',
  },
  {
    name: 'a run is taken over while its execution is running',
    violates: 'an export has one active run',
    at: 'lib/core/steps/begin-run.ts#decide',
    replace: 'await deps.executions.isRunning(active.execution)',
    with: 'false',
  },
  {
    name: 'any execution with a continues input takes the run over',
    violates: 'an export has one active run',
    at: 'lib/core/steps/begin-run.ts#decide',
    replace: 'input.continues === active.execution',
    with: 'true',
  },
  {
    name: 'FailRun changes a run of another execution',
    violates: 'an export has one active run',
    at: 'lib/core/steps/fail-run.ts#failRun',
    replace: 'active?.execution !== command.execution',
    with: 'active === undefined',
  },
  {
    name: 'a late BeginRun begins another run for its execution',
    violates: 'an execution begins one run at most',
    at: 'lib/core/steps/begin-run.ts#hasHadRun',
    replace: 'recentExecutions.includes(execution)',
    with: 'recentExecutions.length < 0',
  },
  {
    name: 'an execution that has ended restarts the export',
    violates: 'an execution that has ended begins no run with restart or since',
    at: 'lib/core/steps/begin-run.ts#start',
    replace: 'await assertNotEnded(deps, input, execution);',
    with: '',
  },
  {
    name: 'a run reuses the sequence number of the previous run',
    violates: 'sequence numbers of runs increase',
    at: 'lib/core/steps/begin-run.ts#start',
    replace: '...identity,',
    with: '...identity,\nsequence: Math.max(state.sequence, 1),',
  },
  {
    name: 'one scheduled time makes two runs',
    violates: 'one scheduled time begins one run',
    at: 'lib/core/steps/begin-run.ts#decide',
    replace: 'hasBegun(input.scheduledTime, state.lastScheduledTime)',
    with: 'false',
  },
  {
    name: 'a start whose since contradicts an unfinished run resumes it',
    violates: 'a start that contradicts an unfinished run is refused',
    at: 'lib/core/steps/export-state.ts#contradictionOf',
    replace: 'since === undefined || since === run.since',
    with: 'true',
  },
  {
    name: 'restart is ignored',
    violates: 'a start with restart begins a new run',
    at: 'lib/core/steps/begin-run.ts#decide',
    replace: 'input.restart === true && !hasBegunIt',
    with: 'false',
  },
  {
    name: 'a continuation with a field of a later release is refused',
    violates: 'a start is skipped or refused only for a documented reason',
    at: 'lib/core/steps/start-input.ts#continuationSchema',
    replace: 'z.object(fields)',
    with: 'z.strictObject(fields)',
  },
  {
    name: 'the since of a start is ignored',
    violates: 'a run begins where its start says',
    at: 'lib/core/steps/watermark.ts#chooseSince',
    replace: "if (input.since !== undefined) return { since: input.since, reason: 'given by the start input' };",
    with: '',
  },
  {
    name: 'an execution exports another export than its own',
    violates: 'an execution changes only its own export',
    at: 'lib/core/steps/start-input.ts#selectExport',
    replace: 'findDefinition(exports, name)',
    with: '[...exports.values()].at(-1)',
  },

  // The watermark
  {
    name: 'the watermark moves when a run starts',
    violates: 'the watermark moves only when a run completes',
    at: 'lib/core/steps/begin-run.ts#start',
    replace: 'active: run,',
    with: 'active: run,\nwatermark: { instant: identity.startedAt, source: request.source, filter: request.filter },',
  },
  {
    name: 'the watermark is the time of the last response, not the first',
    violates: 'the watermark never passes a report that is not exported',
    at: 'lib/core/steps/finish-run.ts#setCompletion',
    replace: 'const firstPages = slices.map(({ first }) => first);',
    with: 'const firstPages = slices.map(({ last }) => last);',
  },
  {
    name: 'the watermark moves although reports before the run are missing',
    violates: 'the watermark never passes a report that is not exported',
    at: 'lib/core/steps/watermark.ts#watermarkAfter',
    replace: 'leavesGap || epochMsOf(reached) <= epochMsOf(bound)',
    with: 'epochMsOf(reached) <= epochMsOf(bound)',
  },
  {
    name: 'the watermark trusts a Date that is ahead of the local clock',
    violates: 'the watermark never passes a report that is not exported',
    at: 'lib/core/steps/watermark.ts#requestedAt',
    replace: 'serviceTime !== null && epochMsOf(serviceTime) < epochMsOf(byOurClock) ? serviceTime : byOurClock',
    with: 'serviceTime ?? byOurClock',
  },
  {
    name: 'the watermark moves back',
    violates: 'the watermark never moves back',
    at: 'lib/core/steps/watermark.ts#watermarkAfter',
    replace: 'leavesGap || epochMsOf(reached) <= epochMsOf(bound)',
    with: 'leavesGap',
  },

  // How a run is published
  {
    name: 'a run is published before its log is complete',
    violates: 'only a complete run is published',
    at: 'lib/core/steps/export-page.ts#nextOutcome',
    replace: 'entry.nextCursor === null',
    with: 'entry.nextCursor === null || entry.page === 2',
    also: [{ at: 'lib/core/storage/manifest.ts#manifestChunks', replace: '&& last?.nextCursor === null', with: '' }],
  },
  {
    name: 'a page in the folder of a run that was never logged is ignored',
    violates: 'no page in the folder of a run is missing from its manifest',
    at: 'lib/core/steps/inventory.ts#storedEntries',
    replace: 'if (chunk !== undefined) throw await conflictIn(chunk, deps, run);',
    with: `const problem = chunk === undefined ? undefined : await conflictIn(chunk, deps, run);
      if (problem?.message.includes('never logged') === false) throw problem;`,
  },
  {
    name: 'the check before a run is published compares keys only',
    violates: 'a manifest lists stored pages only',
    at: 'lib/core/steps/inventory.ts#add',
    replace: '[key, bytes, revision]',
    with: '[key]',
  },
  {
    name: 'the store is not checked before a run completes that is not published',
    violates: 'a run completes only while its pages are stored',
    at: 'lib/core/steps/finish-run.ts#publish',
    replace: 'else for await (const _ of chunks);',
    with: '',
    firstSeed: 546,
  },
  {
    name: 'a run with a single report is not published',
    violates: 'a completed run without a manifest has no reports',
    at: 'lib/core/steps/finish-run.ts#setCompletion',
    replace: 'totals.reports !== 0',
    with: '(totals.reports ?? 2) > 1',
  },
  {
    name: 'a run with fewer reports than expected is published',
    violates: 'a run with fewer reports than expected does not complete',
    at: 'lib/core/steps/finish-run.ts#setCompletion',
    replace:
      'if (hasTooFewReports(definition, run, { isComplete: true, totals })) throw tooFewReportsError(definition, run, totals);',
    with: '',
  },
  {
    name: 'each attempt decides again how the run completes',
    violates: 'no PageConflictError occurs',
    at: 'lib/core/steps/finish-run.ts#setCompletion',
    replace: 'run.completion !== undefined',
    with: 'false',
  },
  {
    name: 'latest.json is written before the manifest',
    violates: 'latest.json points to a published run',
    at: 'lib/core/steps/finish-run.ts#publish',
    replace: 'if (completion.isPublished) await store.putDocument(manifest, chunks);',
    with: `if (completion.isPublished && !run.bounded) await updateLatestPointer(deps, run, manifest);
      if (completion.isPublished) await store.putDocument(manifest, chunks);`,
  },
  {
    name: 'a run is listed before its manifest is written',
    violates: 'only a published run is listed',
    at: 'lib/core/steps/finish-run.ts#publish',
    replace: 'if (completion.isPublished) await store.putDocument(manifest, chunks);',
    with: `if (completion.isPublished && !run.bounded) {
        await store.putDocument(runSummaryKey(run), runSummaryChunks(run, content, manifest));
      }
      if (completion.isPublished) await store.putDocument(manifest, chunks);`,
  },
  {
    name: 'latest.json points to a run before it is listed',
    violates: 'latest.json points to a listed run',
    at: 'lib/core/steps/finish-run.ts#publish',
    replace: `await store.putDocument(runSummaryKey(run), runSummaryChunks(run, content, manifest));
      await updateLatestPointer(deps, run, manifest);`,
    with: `await updateLatestPointer(deps, run, manifest);
      await store.putDocument(runSummaryKey(run), runSummaryChunks(run, content, manifest));`,
  },
  {
    name: 'a run is completed without its manifest',
    violates: 'a completed run has a manifest',
    at: 'lib/core/steps/finish-run.ts#publish',
    replace: 'if (completion.isPublished) await store.putDocument(manifest, chunks);',
    with: 'if (run.bounded) await store.putDocument(manifest, chunks);',
    also: [
      {
        at: 'lib/core/steps/finish-run.ts#publish',
        replace: '} else if (completion.isPublished) {',
        with: '} else if (completion.isPublished && run.bounded) {',
      },
    ],
  },
  {
    name: 'latest.json is never written',
    violates: 'latest.json points to the newest completed run',
    at: 'lib/aws/s3/page-store.ts#putLatest',
    replace: 'replaceLatestObject(objectAt(key), latest, hasBegun, { encryption, runtime })',
    with: 'Promise.resolve()',
  },
  {
    name: 'latest.json is replaced without a condition',
    violates: 'latest.json never moves back',
    at: 'lib/aws/s3/latest-pointer.ts#replaceLatestObject',
    replace: "...(existing === undefined ? { IfNoneMatch: '*' } : { IfMatch: existing.etag }),",
    with: '',
    firstSeed: 4_088,
  },
  {
    name: 'run.json has the time of the first response as that of the last',
    violates: 'run.json agrees with its manifest',
    at: 'lib/core/storage/manifest.ts#commonSummary',
    replace: '...serviceTimes(content),',
    with: '...serviceTimes(content), serviceCompletedAt: serviceTimes(content).serviceStartedAt,',
  },
  {
    name: 'a run completed by another invocation is not announced',
    violates: 'a published run is announced',
    at: 'lib/core/steps/finish-run.ts#publishOnce',
    replace: "isExportError(error, 'RunSupersededError')",
    with: 'false',
  },
  {
    name: 'a run that is not published is announced',
    violates: 'only a published run is announced',
    at: 'lib/core/state-machine/definition.ts#stateMachine',
    replace: "IsNull: true, Next: 'Completed'",
    with: "IsNull: true, Next: 'AnnounceCompleted'",
  },
  {
    name: 'ExportPage stores pages below another prefix',
    violates: 'every object has an expected key',
    at: 'functions/export-page.ts#exportPageHandler',
    replace: 'prefix: environment.KEY_PREFIX,',
    with: "prefix: '',",
  },
  {
    name: 'FinishRun does not encrypt with the key of the bucket',
    violates: 'objects are stored as the settings say',
    at: 'functions/finish-run.ts#finishRunHandler',
    replace: 'context.environment.BUCKET_KMS_KEY_ARN || undefined',
    with: 'undefined',
  },

  // The document root
  {
    name: 'the root element of a page is compared after the page is stored',
    violates: 'every page has the root element of the service',
    at: 'lib/core/steps/commit-page.ts#storePage',
    replace: 'assertRootOfResponse(identity, received, await predecessorStored)',
    with: 'void (await predecessorStored)',
  },
  {
    name: 'page 1 of the next run may have another root element',
    violates: 'every page has the root element of the service',
    at: 'lib/core/document-root.ts#rootOfFirstPage',
    replace: 'if (recorded !== undefined) return ofCompletedRuns(recorded);',
    with: '',
  },
  {
    name: 'the end of a run is not recorded before its manifest is written',
    violates: 'the root element of completed runs is recorded',
    at: 'lib/core/steps/finish-run.ts#setCompletion',
    replace: 'change: { ...recorded, active: completed },',
    with: '',
  },

  // Executions and functions
  {
    name: 'a run never continues in a new execution',
    violates: 'an execution continues in a new one after iterationsPerExecution',
    at: 'lib/core/steps/export-page.ts#nextOutcome',
    replace: 'next.iterations >= iterationsPerExecution',
    with: 'false',
    also: [
      {
        at: 'lib/core/steps/export-page.ts#exportPage',
        replace: 'iterations >= definition.limits.iterationsPerExecution',
        with: 'false',
      },
    ],
  },
  {
    name: 'a container keeps the deadline of its first invocation',
    violates: 'every export completes',
    at: 'functions/export-page.ts#exportPageHandler',
    replace: 'return async ({ input',
    with: 'let kept: ReturnType<typeof startInvocationDeadline> | undefined;\nreturn async ({ input',
    also: [
      {
        at: 'functions/export-page.ts#exportPageHandler',
        replace: 'using deadline = startInvocationDeadline(',
        with: 'const deadline = kept ??= startInvocationDeadline(',
      },
    ],
  },
  {
    name: 'the telemetry of a container keeps the export of its first invocation',
    violates: 'an invocation publishes its own telemetry',
    at: 'lib/aws/lambda/service-context.ts#dependenciesFor',
    replace: 'telemetry.setExport(definition.name);',
    with: 'telemetry.setExport([...definitions.keys()][0]);',
  },
  {
    name: 'a page counts the attempt that exports it as failed',
    violates: 'a log entry counts no delay that did not happen',
    at: 'lib/core/steps/loop-outcome.ts#pendingDelays',
    replace: '{ failedAttempts }',
    with: '{ failedAttempts: failedAttempts + 1 }',
  },
  {
    name: 'the proxy gets no credentials',
    violates: 'requests follow the service contract',
    at: 'lib/aws/secrets.ts#createSecretNetwork',
    replace: 'proxyUrl === undefined || proxyCredentialsSecret === undefined',
    with: 'true',
  },

  {
    name: 'a deployment in mid-run changes what a run requests',
    violates: 'every page of a published run is requested as the run is',
    at: 'lib/core/steps/export-page.ts#exportPage',
    replace: 'if (contradiction !== undefined) throw contradiction;',
    with: '',
    firstSeed: 101,
  },
  {
    name: 'headers are no part of what a run requests',
    violates: 'every page of a published run is requested as the run is',
    at: 'lib/settings/settings.ts#apiOfRequest',
    replace: 'Object.entries(headers)',
    with: 'Object.entries({})',
  },

  // Slices
  {
    name: 'the last slice of a run without an upper bound ends when the run began',
    violates: 'a manifest lists exactly the page log of its run',
    at: 'lib/core/slices.ts#sliceOf',
    replace: 'until: number === count ? until : cutBefore(number + 1)',
    with: 'until: number === count ? (until ?? run.startedAt) : cutBefore(number + 1)',
  },
  {
    name: 'a slice ends a second before the next one begins',
    violates: 'a manifest lists exactly the page log of its run',
    at: 'lib/core/slices.ts#sliceOf',
    replace: 'until: number === count ? until : cutBefore(number + 1)',
    with: 'until: number === count ? until : instantOf(Date.parse(cutBefore(number + 1)) - (number === 1 ? 0 : 1_000))',
  },
  {
    name: 'another attempt cuts a run as the settings now say',
    violates: 'the slices of a run never change',
    at: 'lib/core/steps/begin-run.ts#decide',
    replace: 'active.slices && slicesOfStart(active.slices, progress, limits, input.parallel ?? slicing.parallel)',
    with: 'active.slices && chooseSlices(active, { parallel: 2, lengthMs: deps.definition.slicing.lengthMs ?? 5_400_000 }, 1_000)',
  },
  {
    name: 'the watermark is that of the last slice',
    violates: 'the watermark passes nothing that was not requested',
    at: 'lib/core/steps/finish-run.ts#setCompletion',
    replace: 'const firstPages = slices.map(({ first }) => first);',
    with: 'const firstPages = slices.map(({ first }) => first).slice(-1);',
  },
  {
    name: 'the lag is not subtracted from the watermark',
    violates: 'the watermark passes nothing that was not requested',
    at: 'lib/core/steps/watermark.ts#completedUpTo',
    replace: '.map((ms) => ms - run.lagMs)',
    with: '',
  },
  {
    name: 'the watermark is after the upper bound of the run',
    violates: 'the watermark passes nothing that was not requested',
    at: 'lib/core/steps/watermark.ts#completedUpTo',
    replace: '...(run.until === undefined ? [] : [epochMsOf(run.until)])',
    with: '',
  },
  {
    name: 'a run with a lag ends when it begins',
    violates: 'a run begins where its start says',
    at: 'lib/core/steps/watermark.ts#chooseBounds',
    replace: '(now - lagMs)',
    with: 'now',
  },
  {
    name: 'the attempts of a slice share their log',
    violates: 'pages are stored in order',
    at: 'lib/aws/dynamodb/items.ts#entriesPrefix',
    replace: 'attempt}#page#',
    with: '1}#page#',
  },
  {
    name: 'the attempts of a slice share their keys',
    violates: 'page metadata names the run and the page',
    at: 'lib/core/storage/keys.ts#pageKey',
    replace: 'attempt === 1 ?',
    with: 'attempt > 0 ?',
  },
  {
    name: 'a rejected cursor starts every slice over',
    violates: 'a slice starts over only on its own',
    at: 'lib/core/steps/export-slices.ts#restartSlice',
    replace: 'attempts: { ...attempts, [number]: attempt + 1 }',
    with: 'attempts: Object.fromEntries(Array.from({ length: active.slices.count }, (_, index) => [index + 1, attempt + 1]))',
  },
  {
    name: 'a slice starts over as often as its cursors are rejected',
    violates: 'a slice starts over only on its own',
    at: 'lib/core/steps/export-slices.ts#restartSlice',
    replace: 'count <= definition.limits.maxCursorRestarts',
    with: 'true',
  },
  {
    name: 'a slice whose cursors repeat continues in the next invocation',
    violates: 'no PageConflictError occurs',
    at: 'lib/core/steps/export-slices.ts#walk',
    replace: 'if (last !== undefined) assertContinues(definition, last);',
    with: '',
  },
  {
    name: 'a slice that was set aside counts as exported',
    violates: 'no PageConflictError occurs',
    at: 'lib/core/steps/export-slices.ts#exportSlices',
    replace: 'if (progress.isComplete) return',
    with: 'if (progress.isComplete || failures.length > 0) return',
  },
  {
    name: 'FinishRun publishes a run with an open slice',
    violates: 'only a complete run is published',
    at: 'lib/core/steps/export-slices.ts#exportSlices',
    replace: 'if (progress.isComplete) return',
    with: 'if (progress.begun === run.slices.count) return',
    also: [
      {
        at: 'lib/core/steps/finish-run.ts#readContent',
        replace: '(run.slices !== undefined && !isDone(last))',
        with: 'false',
      },
      {
        at: 'lib/core/steps/finish-run.ts#readContent',
        replace: '(isComplete || run.slices === undefined)',
        with: '(isComplete || complete.length > 0)',
      },
      { at: 'lib/core/storage/manifest.ts#manifestChunks', replace: '&& last?.nextCursor === null', with: '' },
    ],
  },
  {
    name: 'a slice does not know the Retry-After of another',
    violates: 'no request is sent before its Retry-After has passed',
    at: 'lib/core/steps/export-slices.ts#walk',
    replace: 'execution, backoff, ...from',
    with: 'execution, ...from',
  },
  {
    name: 'a Retry-After that arrives while a slice reads its credentials is ignored',
    violates: 'no request is sent before its Retry-After has passed',
    at: 'lib/core/steps/page-requests.ts#createPageRequests',
    replace: '{ ...request, assertMaySend }',
    with: 'request',
  },
  {
    name: 'the upper bound is not proven',
    violates: 'a run begins only if the service honors its upper bound',
    at: 'lib/core/steps/export-slices.ts#walkSlices',
    replace: 'before.totals.pages === 0',
    with: 'false',
  },
  {
    name: 'each walk of a slice proves the upper bound',
    violates: 'an invocation proves the upper bound once, for runs that depend on it',
    at: 'lib/core/steps/export-slices.ts#walk',
    replace: 'const { slice = sliceOf(current, number), last } = walked.get(number) ?? {};',
    with: 'const { slice = sliceOf(current, number), last } = walked.get(number) ?? {};\nawait proveUpperBound(deps, run, root, invocation, backoff);',
  },
  {
    name: 'a document that is no page proves the upper bound',
    violates: 'a run begins only if the service honors its upper bound',
    at: 'lib/core/steps/upper-bound.ts#proveUpperBound',
    replace: 'const root = assertRootOfProbe(label, page, expected);',
    with: 'const root = expected;',
  },
  {
    name: 'a run with one slice looks for slices',
    violates: 'a run with one slice makes no request for slices',
    at: 'lib/core/run-progress.ts#readProgress',
    replace: 'run.slices === undefined ? 1 :',
    with: 'run.slices === undefined ? Math.max(1, await log.lastSlice(run)) :',
  },
  {
    name: 'a bounded run moves a watermark',
    violates: 'a bounded run changes nothing of its export',
    at: 'lib/core/steps/finish-run.ts#setCompletion',
    replace: 'run.bounded ? undefined : watermarkAfter',
    with: 'watermarkAfter',
  },
  {
    name: 'latest.json points to a bounded run',
    violates: 'a bounded run changes nothing of its export',
    at: 'lib/core/steps/finish-run.ts#publish',
    replace: 'if (completion.isPublished && run.bounded && until !== undefined) {',
    with: 'if (completion.isPublished && run.bounded && until === undefined) {',
  },
];
