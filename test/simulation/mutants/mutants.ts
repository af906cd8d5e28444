/**
 * Ways to break the protocol, each with the smallest change that does it. If the simulation finds all of them, a
 * simulation without violations means something. Two name the same invariant only if they break different code.
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
    name: 'a page is logged before it is stored',
    violates: 'a page is stored before it is logged',
    at: 'lib/aws/s3/page-store.ts#put',
    replace: 'const { created, ...info } = await create(',
    with: `const early = { ContentLength: body.bytes, Metadata: metadata };
      void create(key, body, { contentType, metadata }).catch(() => {});
      if (body.bytes > 0) return { stored: true, page: await readPage(folder, key, early, received.nextCursor) };
      const { created, ...info } = await create(`,
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
    at: 'lib/core/steps/page-pipeline.ts#request',
    replace: 'inFlight.push(requested);',
    with: `const early = response.then(({ received }) => spool.put(received));
      early.catch(() => {});
      const dispose = async () => await spool[Symbol.asyncDispose]();
      Object.assign(requested, { spool: { put: () => early, [Symbol.asyncDispose]: dispose } });
      inFlight.push(requested);`,
  },
  {
    name: 'a prefetched page is logged before its predecessor',
    violates: 'the page log has no gaps',
    at: 'lib/core/steps/page-pipeline.ts#commit',
    replace: 'const entry = await logPage(deps, { ...unlogged, ...delays });',
    with: `const entry = { ...unlogged, ...delays, loggedAt: chain.run.startedAt };
      logPage(deps, entry).catch(() => {});`,
  },
  {
    name: 'a prefetched page is kept although its cursor does not follow',
    violates: 'cursors form a chain',
    at: 'lib/core/steps/page-pipeline.ts#walk',
    replace: 'if (requests.nextCursor() !== entry.nextCursor) await requests.cancel();',
    with: '',
    also: [
      {
        at: 'lib/core/steps/page-pipeline.ts#commit',
        replace: 'toLogEntry(chain.run, identity, durable, previous)',
        with: 'toLogEntry(chain.run, { cursor: durable.cursor }, durable, previous)',
      },
    ],
  },
  {
    name: 'a truncated body is accepted',
    violates: 'a page is stored byte for byte',
    at: 'lib/service/client/response/response-body.ts#next',
    replace: 'throw exchange.explain(error, transferredBytes);',
    with: 'return { done: true, value: undefined };',
    also: [
      {
        at: 'lib/service/formats/xml.ts#createXmlFormatCheck',
        replace: 'document.end() ?? {',
        with: '(document.end(), undefined) ?? {',
      },
    ],
  },
  {
    name: 'a document that contains no reports is a page',
    violates: 'a page is stored byte for byte',
    at: 'lib/service/client/response/receive-page.ts#provePage',
    replace: 'path === undefined || facts.reports !== null',
    with: 'true',
  },

  // Stored pages that a later attempt adopts
  {
    name: 'adopting a page ignores its stored next cursor',
    violates: 'no PageConflictError occurs',
    at: 'lib/core/steps/commit-page.ts#storePage',
    replace: 'return { ...page, timing: null };',
    with: 'return { ...page, nextCursor: received.nextCursor, timing: null };',
  },
  {
    name: 'a refused cursor starts the run over although its page is stored',
    violates: 'a run does not start over while its next page is stored',
    at: 'lib/core/steps/page-pipeline.ts#storeResponse',
    replace: 'if (!isRefusal(error) || signal.aborted) throw error;',
    with: 'throw error;',
  },

  // Cursors that repeat, and errors of the service
  {
    name: 'a run with a cursor cycle continues',
    violates: 'no page is logged after a cursor cycle closes',
    at: 'lib/core/steps/commit-page.ts#hasNextPage',
    replace: '&& !repeats',
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
        at: 'lib/core/steps/page-requests.ts#withBackoff',
        replace: 'Math.max(1, seconds) * 1_000',
        with: 'Math.max(1, seconds) * 500',
      },
    ],
  },

  // Slots
  {
    name: 'a slot is returned before its pages are requested',
    violates: 'no more pages are requested at once than maxConcurrentPages',
    at: 'lib/core/slots/held-slot.ts#withinSlot',
    replace: 'return await fetch(request, options);',
    with: 'await slot.release();\nreturn await fetch(request, options);',
  },
  {
    name: 'a slot is taken although none is free',
    violates: 'no more slots are held than maxConcurrentPages',
    at: 'lib/core/slots/page-slots.ts#take',
    replace: 'others.length >= limit',
    with: 'others.length > limit',
  },
  {
    name: 'the lease of a slot does not end',
    violates: 'a slot of a killed function becomes free',
    at: 'lib/core/slots/page-slots.ts#take',
    replace: '/ 1_000) + clockMarginSeconds',
    with: '/ 1_000) + 86_400',
  },

  // The export state, and the runs that executions begin
  {
    name: 'export state is replaced without a condition',
    violates: 'export state replaces the version that was read',
    at: 'lib/aws/dynamodb/conditional-writes.ts#replace',
    replace: 'writeToken: { S: token } }, condition)',
    with: 'writeToken: { S: token } }, {})',
  },
  {
    name: 'export state loses the fields of a later release',
    violates: 'export state keeps the fields of a later release',
    at: 'lib/core/storage/stored-records.ts#parseValue',
    replace: 'return value as Value;',
    with: 'return parsed.data;',
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
    at: 'lib/core/steps/begin-run.ts#readUnfinished',
    replace: "(await executions.status(active.execution)) === 'running'",
    with: 'false',
  },
  {
    name: 'FailRun changes a run of another execution',
    violates: 'an export has one active run',
    at: 'lib/core/steps/fail-run.ts#failRun',
    replace: 'active?.execution === execution',
    with: 'active !== undefined',
  },
  {
    name: 'an execution that has ended restarts the export',
    violates: 'an execution that has ended begins no run with restart or since',
    at: 'lib/core/start/decide.ts#begin',
    replace: 'assertNotEnded(situation);',
    with: '',
  },
  {
    name: 'one scheduled time makes two runs',
    violates: 'one scheduled time begins one run',
    at: 'lib/core/start/decide.ts#decideWithoutRun',
    replace: 'hasBegun(scheduledTime, state.lastScheduledTime)',
    with: 'false',
  },
  {
    name: 'restart is ignored',
    violates: 'a start with restart begins a new run',
    at: 'lib/core/start/decide.ts#relationTo',
    replace: "input.restart === true ? 'restarts' : 'finds'",
    with: "'finds'",
  },

  // The watermark
  {
    name: 'the watermark moves when a run starts',
    violates: 'the watermark moves only when a run completes',
    at: 'lib/core/start/decide.ts#begin',
    replace: 'active: run,',
    with: 'active: run,\nwatermark: { instant: run.startedAt, source: run.request.source, filter: run.request.filter },',
  },
  {
    name: 'the watermark is the time of the last response, not the first',
    violates: 'the watermark never passes a report that is not exported',
    at: 'lib/core/steps/finish-run.ts#setCompletion',
    replace: 'const firstPages = slices.map(({ first }) => first);',
    with: 'const firstPages = slices.map(({ last }) => last);',
  },
  {
    name: 'the watermark moves back',
    violates: 'the watermark never moves back',
    at: 'lib/core/start/watermark.ts#watermarkAfter',
    replace: 'later(current.instant, reached)',
    with: 'reached',
  },

  // How a run is published
  {
    name: 'a run is published before its log is complete',
    violates: 'only a complete run is published',
    at: 'lib/core/steps/export-page.ts#outcomeAfter',
    replace: 'progress.isComplete',
    with: 'progress.isComplete || (iteration.run.slices === undefined && progress.totals.pages === 2)',
    also: [{ at: 'lib/core/storage/manifest.ts#assertEnd', replace: '!endsChain(end) ||', with: '' }],
  },
  {
    name: 'a page in the folder of a run that was never logged is ignored',
    violates: 'no page in the folder of a run is missing from its manifest',
    at: 'lib/core/steps/inventory.ts#storedEntries',
    replace: 'if (chunk !== undefined) throw await conflictIn(chunk, deps, counted);',
    with: `const problem = chunk === undefined ? undefined : await conflictIn(chunk, deps, counted);
      if (problem?.message.includes('never logged') === false) throw problem;`,
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
    name: 'latest.json is written before the manifest',
    violates: 'latest.json points to a published run',
    at: 'lib/core/steps/finish-run.ts#publish',
    replace: 'if (completion.isPublished) await store.putDocument(manifest, chunks);',
    with: `if (completion.isPublished && !run.bounded) {
        const latest = { ...refOf(run), sequence: run.sequence, completedAt: completion.at, manifest };
        await store.putLatest(latestKey(run.export), latest, async () => true);
      }
      if (completion.isPublished) await store.putDocument(manifest, chunks);`,
  },
  {
    name: 'a run is listed before its manifest is written',
    violates: 'only a published run is listed',
    at: 'lib/core/steps/finish-run.ts#publish',
    replace: 'if (completion.isPublished) await store.putDocument(manifest, chunks);',
    with: `if (completion.isPublished && !run.bounded) {
        await store.putDocument(summaryKey(run), summaryChunks(run, content, manifest));
      }
      if (completion.isPublished) await store.putDocument(manifest, chunks);`,
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
        replace: 'if (completion.isPublished) {',
        with: 'if (completion.isPublished && run.bounded) {',
      },
    ],
  },

  // The document root
  {
    name: 'the root element of a page is compared after the page is stored',
    violates: 'every page has the root element of the service',
    at: 'lib/core/steps/page-pipeline.ts#storeResponse',
    replace: 'roots.assertResponse(label, received, previous);',
    with: '',
  },

  // Executions and functions
  {
    name: 'a run never continues in a new execution',
    violates: 'an execution continues in a new one after iterationsPerExecution',
    at: 'lib/core/steps/export-page.ts#outcomeAfter',
    replace: 'next.iterations >= iterationsPerExecution',
    with: 'false',
    also: [
      {
        at: 'lib/core/steps/export-page.ts#exportPage',
        replace: 'loop.iterations >= definition.limits.iterationsPerExecution',
        with: 'false',
      },
    ],
  },
  {
    name: 'a page counts the attempt that exports it as failed',
    violates: 'a log entry counts no delay that did not happen',
    at: 'lib/core/steps/loop-outcome.ts#pendingDelays',
    replace: '{ failedAttempts }',
    with: '{ failedAttempts: failedAttempts + 1 }',
  },

  {
    name: 'a deployment in mid-run changes what a run requests',
    violates: 'every page of a published run is requested as the run is',
    at: 'lib/core/steps/export-page.ts#exportPage',
    replace: 'if (contradiction !== undefined) throw contradiction;',
    with: '',
    firstSeed: 101,
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
    name: 'another attempt cuts a run as the settings now say',
    violates: 'the slices of a run never change',
    at: 'lib/core/start/decide.ts#resumeSlices',
    replace: '...slices,',
    with: '...chooseSlices(taken, { parallel: 2, lengthMs: definition.slicing.lengthMs ?? 5_400_000 }, definition.dates),',
  },
  {
    name: 'the watermark is that of the last slice',
    violates: 'the watermark passes nothing that was not requested',
    at: 'lib/core/steps/finish-run.ts#setCompletion',
    replace: 'const firstPages = slices.map(({ first }) => first);',
    with: 'const firstPages = slices.map(({ first }) => first).slice(-1);',
  },
  {
    name: 'the lookback window of a first run that was abandoned is forgotten',
    violates: 'a run begins where its start says',
    at: 'lib/core/start/decide.ts#begin',
    replace: 'firstStartOf(definition, state, input, now)',
    with: 'undefined',
  },
  {
    name: 'a run without a page keeps its upper bound',
    violates: 'a run begins where its start says',
    at: 'lib/core/start/decide.ts#boundsOfEmptyRun',
    replace: 'until: chooseUntil(definition, now)',
    with: 'until: emptyRun.until',
  },
  {
    name: 'a run with a lag ends when it begins',
    violates: 'a run begins where its start says',
    at: 'lib/core/start/watermark.ts#chooseUntil',
    replace: 'startOfUnit(now - lagMs,',
    with: 'startOfUnit(now,',
  },
  {
    name: 'a rejected cursor starts every slice over',
    violates: 'a slice starts over only on its own',
    at: 'lib/core/steps/walk-slices.ts#nextAttempt',
    replace: 'attempts: { ...attempts, [number]: attempt + 1 }',
    with: 'attempts: Object.fromEntries(Array.from({ length: active.slices.count }, (_, index) => [index + 1, attempt + 1]))',
  },
  {
    name: 'a slice starts over as often as its cursors are rejected',
    violates: 'a slice starts over only on its own',
    at: 'lib/core/steps/walk-slices.ts#nextAttempt',
    replace: 'count > definition.limits.maxCursorRestarts',
    with: 'false',
  },
  {
    name: 'a slice that was set aside counts as exported',
    violates: 'no PageConflictError occurs',
    at: 'lib/core/steps/export-page.ts#continueAfter',
    replace: 'if (progress.isComplete) return outcomeAfter(definition, iteration, progress);',
    with: `if (progress.isComplete || (run.slices && failures.length > 0))
        return { next: 'finish', ...loopAfter(definition, iteration, progress) };`,
  },
  {
    name: 'FinishRun publishes a run with an open slice',
    violates: 'only a complete run is published',
    at: 'lib/core/steps/export-page.ts#continueAfter',
    replace: 'if (progress.isComplete) return outcomeAfter(definition, iteration, progress);',
    with: `if (progress.begun === run.slices?.count)
        return { next: 'finish', ...loopAfter(definition, iteration, progress) };`,
    also: [
      {
        at: 'lib/core/steps/finish-run.ts#readContent',
        replace: '(run.slices !== undefined && !endsChain(last))',
        with: 'false',
      },
      {
        at: 'lib/core/steps/finish-run.ts#readContent',
        replace: '(isComplete || run.slices === undefined)',
        with: '(isComplete || complete.length > 0)',
      },
      { at: 'lib/core/storage/manifest.ts#assertEnd', replace: '!endsChain(end) ||', with: '' },
    ],
  },
  {
    name: 'the upper bound is not proven',
    violates: 'a run begins only if the service honors its upper bound',
    at: 'lib/core/steps/walk-slices.ts#walkSlices',
    replace: '!needsProof ||',
    with: 'true ||',
  },
  {
    name: 'a document that is no page proves the upper bound',
    violates: 'a run begins only if the service honors its upper bound',
    at: 'lib/core/steps/upper-bound.ts#proveBounds',
    replace: 'roots.assertProbe(label, received);',
    with: '',
  },
  {
    name: 'a bounded run moves a watermark',
    violates: 'a bounded run changes nothing of its export',
    at: 'lib/core/steps/finish-run.ts#setCompletion',
    replace: 'run.bounded ? undefined : watermarkAfter',
    with: 'watermarkAfter',
  },
];
