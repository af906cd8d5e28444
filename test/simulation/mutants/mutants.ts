/**
 * Ways to break the protocol, each with the smallest change that does it. If the simulation finds all of them, a simulation
 * without violations means something. `find` must occur exactly once in its file, so no edit can silently stop applying.
 */

interface Edit {
  /** Relative to the root of the repository. */
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

export interface Mutant {
  /** What the broken protocol does. */
  readonly name: string;
  readonly edits: readonly Edit[];
  /** Where the search begins, for a mutant that few histories find. Absent: with the first seed. */
  readonly firstSeed?: number;
}

export const mutants: readonly Mutant[] = [
  {
    name: 'a log entry is written without a condition',
    edits: [
      {
        file: 'lib/aws/dynamodb/page-log.ts',
        find: "        Item: toEntryItem(service, entry, expiresAt),\n        ConditionExpression: 'attribute_not_exists(pk)',\n",
        replace: '        Item: toEntryItem(service, entry, expiresAt),\n',
      },
    ],
  },
  {
    name: 'export state is replaced without a condition',
    edits: [
      {
        file: 'lib/aws/dynamodb/page-log.ts',
        find: '{ Item: toItem(token), ...condition }',
        replace: '{ Item: toItem(token), ...(condition && {}) }',
      },
    ],
  },
  {
    name: 'a page is stored without a condition',
    edits: [{ file: 'lib/aws/s3/objects.ts', find: "        IfNoneMatch: '*',\n", replace: '' }],
  },
  {
    name: 'a page is logged before it is stored',
    edits: [
      {
        file: 'lib/aws/s3/page-store.ts',
        find: `        const { created, ...info } = await createObject(
          objectAt(key),
          body,
          {
            contentType: toHeaderValue(`,
        replace: `        const early = { ContentLength: bytes, Metadata: encodePageMetadata({ key, run, page, bytes, sha256, reports, documentRoot, cursor, nextCursor, serviceTime }) };
        if (bytes > 0) {
          void runtime.sleep(50).then(() => createObject(objectAt(key), body, { contentType: 'text/xml', metadata: early.Metadata, encryption, partBytes }, runtime)).catch(() => {});
          return { stored: true, page: readPage(key, early) };
        }
        const { created, ...info } = await createObject(
          objectAt(key),
          body,
          {
            contentType: toHeaderValue(`,
      },
    ],
  },
  {
    name: "another attempt's page is mistaken for this attempt's",
    edits: [
      {
        file: 'lib/aws/s3/objects.ts',
        find: 'return { ...existing, created: existing.Metadata?.attempt === token };',
        replace: 'return { ETag: existing.ETag, created: true, Metadata, ContentLength: body.bytes };',
      },
    ],
  },
  {
    name: 'adopting a page ignores its stored next cursor',
    edits: [
      {
        file: 'lib/core/steps/commit-page.ts',
        find: 'return { stored, nextCursor: stored.nextCursor, timing: null };',
        replace: 'return { stored, nextCursor: fetched.nextCursor, timing: null };',
      },
    ],
  },
  {
    name: 'the watermark moves when a run starts',
    edits: [
      {
        file: 'lib/core/steps/begin-run.ts',
        find: '    active: run,\n    lastScheduledTime: newestScheduledTime(input',
        replace:
          '    active: run,\n    watermark: { instant: instantOf(now), source: run.request.source, filter: run.request.filter },\n    lastScheduledTime: newestScheduledTime(input',
      },
    ],
  },
  {
    name: 'the watermark is the time of the last response, not the first',
    edits: [
      {
        file: 'lib/core/steps/finish-run.ts',
        find: 'watermarkAfter(state, definition, run, first)',
        replace: 'watermarkAfter(state, definition, run, last)',
      },
    ],
  },
  {
    name: 'the watermark ignores how long the response took',
    edits: [
      {
        file: 'lib/service/client/response-headers.ts',
        find: 'Math.max(0, Math.ceil(elapsedMs / 1_000)) * 1_000',
        replace: 'Math.min(0, elapsedMs)',
      },
    ],
  },
  {
    name: 'the watermark moves although reports before the run are missing',
    edits: [
      {
        file: 'lib/core/steps/watermark.ts',
        find: 'if (leavesGap || epochMsOf(reached)',
        replace: 'if (epochMsOf(reached)',
      },
    ],
  },
  {
    name: 'the watermark moves back',
    edits: [
      {
        file: 'lib/core/steps/watermark.ts',
        find: 'leavesGap || epochMsOf(reached) <= epochMsOf(bound)',
        replace: 'leavesGap',
      },
    ],
  },
  {
    name: 'an error ends pagination',
    edits: [
      {
        file: 'lib/core/steps/export-page.ts',
        find: '  throw error;\n}',
        replace: "  return { next: 'finish', ...loop };\n}",
      },
    ],
  },
  {
    name: 'a truncated body is accepted',
    edits: [
      {
        file: 'lib/service/client/response-body.ts',
        find: '        throw translate(error, bytes);\n',
        replace:
          '        if (bytes < 0) throw translate(error, bytes);\n        return { done: true, value: undefined } as const;\n',
      },
      {
        file: 'lib/service/client/response-body.ts',
        find: '    assertWellFormed(subject, xmlCheck?.end());\n',
        replace: '',
      },
    ],
  },
  {
    name: 'an incomplete XML document is accepted',
    edits: [
      {
        file: 'lib/service/client/response-body.ts',
        find: '    assertWellFormed(subject, xmlCheck?.end());\n',
        replace: '',
      },
    ],
  },
  {
    name: 'a run is published before its log is complete',
    edits: [
      {
        file: 'lib/core/steps/export-page.ts',
        find: 'if (entry.nextCursor === null) return',
        replace: 'if (entry.nextCursor === null || entry.page === 2) return',
      },
      {
        file: 'lib/core/storage/manifest.ts',
        find: ' || last.nextCursor !== null)',
        replace: ')',
      },
    ],
  },
  {
    name: 'latest.json is written before the manifest',
    edits: [
      {
        file: 'lib/core/steps/finish-run.ts',
        find: '    await store.putDocument(manifest, chunks);\n    if (hasUntil(run)) {',
        replace:
          '    if (!hasUntil(run)) await updateLatestPointer(deps, run, manifest);\n    await store.putDocument(manifest, chunks);\n    if (hasUntil(run)) {',
      },
    ],
  },
  {
    name: 'a run is completed before its manifest is written',
    edits: [
      {
        file: 'lib/core/steps/finish-run.ts',
        find: '    await store.putDocument(manifest, chunks);\n    if (hasUntil(run)) {',
        replace:
          '    if (run.export === undefined) {\n      await store.putDocument(manifest, chunks);\n    } else if (hasUntil(run)) {',
      },
      {
        file: 'lib/core/steps/finish-run.ts',
        find: '      await store.putDocument(runSummaryKey(run), runSummaryChunks(run, { first, last }, manifest));\n      await updateLatestPointer(deps, run, manifest);\n',
        replace: '',
      },
      {
        file: 'lib/core/steps/finish-run.ts',
        find: '  return updateState(log, definition.stateName, (state) => {\n    // An earlier',
        replace: '  const completed = await updateState(log, definition.stateName, (state) => {\n    // An earlier',
      },
      {
        file: 'lib/core/steps/finish-run.ts',
        find: 'watermark, lastCompleted }, result: lastCompleted };\n  });\n}',
        replace:
          'watermark, lastCompleted }, result: lastCompleted };\n  });\n  if (completion.isPublished) {\n    await store.putDocument(manifest, chunks);\n    await store.putDocument(runSummaryKey(run), runSummaryChunks(run, { first, last }, manifest));\n    await updateLatestPointer(deps, run, manifest);\n  }\n  return completed;\n}',
      },
    ],
  },
  {
    name: 'latest.json is replaced without a condition',
    edits: [
      {
        file: 'lib/aws/s3/latest-pointer.ts',
        find: "...(existing === undefined ? { IfNoneMatch: '*' } : { IfMatch: existing.etag }),",
        replace: '',
      },
    ],
  },
  {
    name: 'the end of a run is not recorded before its manifest is written',
    edits: [
      {
        file: 'lib/core/steps/finish-run.ts',
        find: 'return { change: { ...recorded, active: completed }, result: { ...ends, run: completed } };',
        replace: 'return { result: { ...ends, run: completed } };',
      },
    ],
  },
  {
    name: 'a step does not check that its execution owns the run',
    edits: [
      {
        file: 'lib/core/steps/export-state.ts',
        find: 'if (active?.execution === execution && (run === undefined || active.run === run)) return active;',
        replace: 'if (active !== undefined && (run === active.run || execution !== run)) return active;',
      },
    ],
  },
  {
    name: 'a stale FinishRun finishes whichever run is active',
    // It needs an invocation that outlives its run, and then a second run of the same execution.
    firstSeed: 3_001,
    edits: [
      {
        file: 'lib/core/steps/export-state.ts',
        find: 'if (active?.execution === execution && (run === undefined || active.run === run)) return active;',
        replace: 'if (active?.execution === execution && run !== "") return active;',
      },
    ],
  },
  {
    name: 'a run is taken over while its execution is running',
    edits: [
      {
        file: 'lib/core/steps/begin-run.ts',
        find: 'if (await deps.executions.isRunning(active.execution)) {',
        replace: 'if ((await deps.executions.isRunning(active.execution)) && execution === "") {',
      },
    ],
  },
  {
    name: 'any execution with a continues input takes the run over',
    edits: [
      {
        file: 'lib/core/steps/begin-run.ts',
        find: 'return input.continues === active.execution\n',
        replace: 'return input.continues !== ""\n',
      },
    ],
  },
  {
    name: 'a late BeginRun begins another run for its execution',
    edits: [
      {
        file: 'lib/core/steps/begin-run.ts',
        find: 'recentExecutions.includes(execution)',
        replace: "recentExecutions.includes('') && execution === ''",
      },
    ],
  },
  {
    name: 'an execution that has ended restarts the export',
    edits: [
      {
        file: 'lib/core/steps/begin-run.ts',
        find: '  await assertNotEnded(deps, input, execution);\n',
        replace: '',
      },
    ],
  },
  {
    name: 'a page whose cursor cannot be recovered fails the run for good',
    edits: [
      {
        file: 'lib/core/steps/commit-page.ts',
        find: 'throw lostCursorError(identity);',
        replace: "throw conflict(identity, 'its cursor was lost');",
      },
    ],
  },
  {
    name: 'latest.json is never written',
    edits: [
      {
        file: 'lib/aws/s3/page-store.ts',
        find: 'replaceLatestObject(objectAt(key), latest, hasBegun, { encryption, runtime })',
        replace: 'Promise.resolve(latest && hasBegun && replaceLatestObject && undefined)',
      },
    ],
  },
  {
    name: 'a run reuses the sequence number of the previous run',
    edits: [
      {
        file: 'lib/core/steps/begin-run.ts',
        find: '    ...identity,\n',
        replace: '    ...identity,\n    sequence: Math.max(state.sequence, 1),\n',
      },
    ],
  },
  {
    name: 'an outage fails a run that has a page at once',
    edits: [
      {
        file: 'lib/core/steps/export-page.ts',
        find: "'ServiceUnreachableError') && hasFetchedPage(run, lastLogged)) throw",
        replace: "'ServiceUnreachableError') && hasFetchedPage(run, undefined)) throw",
      },
    ],
  },
  {
    name: 'a run never continues in a new execution',
    edits: [
      {
        file: 'lib/core/steps/export-page.ts',
        find: "next.iterations >= limits.iterationsPerExecution ? 'continue' : 'page'",
        replace: "next.iterations < 0 ? 'continue' : 'page'",
      },
      {
        file: 'lib/core/steps/export-page.ts',
        find: 'if (iterations >= definition.limits.iterationsPerExecution) return',
        replace: 'if (iterations < 0) return',
      },
    ],
  },
  {
    name: 'a run restarts without a limit after rejected cursors',
    edits: [
      {
        file: 'lib/core/steps/restart-run.ts',
        find: 'if (run.cursorRestarts >= definition.limits.maxCursorRestarts) throw error;',
        replace: 'if (definition.limits.maxCursorRestarts < 0) throw error;',
      },
    ],
  },
  {
    name: 'a restarted run uses a later since',
    edits: [
      {
        file: 'lib/core/steps/restart-run.ts',
        find: '      ...identifyRun(definition, state, runtime),',
        replace:
          '      ...identifyRun(definition, state, runtime),\n      since: identifyRun(definition, state, runtime).startedAt,',
      },
    ],
  },
  {
    name: 'FailRun changes a run of another execution',
    edits: [
      {
        file: 'lib/core/steps/fail-run.ts',
        find: 'if (active?.execution !== command.execution) {',
        replace: 'if (active === undefined) {',
      },
    ],
  },
  {
    name: 'a run completed by another invocation is not announced',
    edits: [
      {
        file: 'lib/core/steps/finish-run.ts',
        find: "isExportError(error, 'RunSupersededError') ? await",
        replace: "isExportError(error, 'ContractError') ? await",
      },
    ],
  },
  {
    name: 'a run in which a cursor occurs twice is published',
    edits: [
      {
        file: 'lib/core/steps/repeated-cursors.ts',
        find: 'if (repeated.size > 0) await',
        replace: 'if (repeated.size > repeated.size + 1) await',
      },
    ],
  },
  {
    name: 'a resumed run skips a page',
    edits: [
      {
        file: 'lib/core/steps/page-pipeline.ts',
        find: '    const page = (previous?.page ?? 0) + 1;\n',
        replace: '    const page = (previous?.page ?? 0) + (isFirst && previous !== undefined ? 2 : 1);\n',
      },
    ],
  },
  {
    name: 'a prefetched page is stored before its predecessor',
    edits: [
      {
        // The simulated service has one root element.
        file: 'lib/core/steps/commit-page.ts',
        find: 'assertRootOfResponse(identity, fetched, await predecessorStored);',
        replace: "assertRootOfResponse(identity, fetched, { root: 'reports' as never, reason: '' });",
      },
      {
        file: 'lib/core/steps/page-pipeline.ts',
        find: '      assertRootOfStored(durable.stored, await mayStore);\n',
        replace: '',
      },
    ],
  },
  {
    name: 'a prefetched page is logged before its predecessor',
    edits: [
      {
        file: 'lib/core/steps/page-pipeline.ts',
        find: '      await predecessor.logged;\n',
        replace: '      void predecessor.logged;\n',
      },
    ],
  },
  {
    name: 'a prefetched page is kept although its cursor does not follow',
    edits: [
      {
        file: 'lib/core/steps/page-pipeline.ts',
        find: 'if (next === undefined || next.identity.cursor === entry.nextCursor) return;',
        replace: 'if (next === undefined || pagesPerInvocation >= 0) return;',
      },
      {
        file: 'lib/core/steps/page-pipeline.ts',
        find: 'if (!continues || (entry?.nextCursor ?? null) !== identity.cursor) throw',
        replace: 'if (!continues || entry?.page === -1) throw',
      },
    ],
  },
  {
    name: 'the page log is read with eventual consistency',
    edits: [
      {
        file: 'lib/aws/dynamodb/page-log.ts',
        find: "        ConsistentRead: true,\n        KeyConditionExpression: 'pk = :pk AND begins_with",
        replace: "        KeyConditionExpression: 'pk = :pk AND begins_with",
      },
    ],
  },
  {
    name: 'export state is read with eventual consistency',
    edits: [
      {
        file: 'lib/aws/dynamodb/page-log.ts',
        find: 'Key: toKeyItem(key), ConsistentRead: true }',
        replace: 'Key: toKeyItem(key) }',
      },
    ],
  },
  {
    name: 'only the first batch of the page log is read',
    edits: [
      {
        file: 'lib/aws/dynamodb/page-log.ts',
        find: '(batch) => batch.LastEvaluatedKey,',
        replace: '() => undefined,',
      },
    ],
  },
  {
    name: 'a run with a cursor cycle continues',
    edits: [
      {
        file: 'lib/core/steps/cycle-detection.ts',
        find: 'if (next === state.tortoise) return { state, repeats: true };',
        replace: '',
      },
    ],
  },
  {
    name: 'a failed run is not resumed by the next start',
    edits: [
      {
        file: 'lib/core/steps/fail-run.ts',
        find: '!finalErrors.has(error) && last?.repeats !== true',
        replace: "error === 'RequestRejectedError' && last?.repeats !== true",
      },
    ],
  },
  {
    name: 'a free slot is taken before those who wait for one',
    edits: [{ file: 'lib/core/slots/page-slots.ts', find: 'if (inTime < free) {', replace: 'if (free > 0) {' }],
  },
  {
    name: 'a slot is returned before its pages are requested',
    edits: [
      {
        file: 'lib/core/slots/held-slot.ts',
        find: '      const page = await requestPage(request, signal);',
        replace: '      await slot.release();\n      const page = await requestPage(request, signal);',
      },
    ],
  },
  {
    name: 'an invocation requests two pages in one slot',
    edits: [
      { file: 'lib/core/slots/held-slot.ts', find: '      await untilAborted(previous, signal);\n', replace: '' },
    ],
  },
  {
    name: 'a run is listed before its manifest is written',
    edits: [
      {
        file: 'lib/core/steps/finish-run.ts',
        find: '    await store.putDocument(manifest, chunks);\n    if (hasUntil(run)) {',
        replace:
          '    if (!hasUntil(run)) await store.putDocument(runSummaryKey(run), runSummaryChunks(run, { first, last }, manifest));\n    await store.putDocument(manifest, chunks);\n    if (hasUntil(run)) {',
      },
    ],
  },
  {
    name: 'latest.json points to a run before it is listed',
    edits: [
      {
        file: 'lib/core/steps/finish-run.ts',
        find: '      await store.putDocument(runSummaryKey(run), runSummaryChunks(run, { first, last }, manifest));\n      await updateLatestPointer(deps, run, manifest);\n',
        replace:
          '      await updateLatestPointer(deps, run, manifest);\n      await store.putDocument(runSummaryKey(run), runSummaryChunks(run, { first, last }, manifest));\n',
      },
    ],
  },
  {
    name: 'a run with a single report is not published',
    edits: [
      {
        file: 'lib/core/steps/finish-run.ts',
        find: 'definition.publishEmptyRuns || last.totals.reports !== 0',
        replace: 'definition.publishEmptyRuns || (last.totals.reports ?? 2) > 1',
      },
    ],
  },
  {
    name: 'a run with fewer reports than expected is published',
    edits: [
      {
        file: 'lib/core/steps/finish-run.ts',
        find: 'if (hasTooFewReports(definition, run, last)) throw',
        replace: 'if (hasTooFewReports(definition, run, last) && last.totals.reports === 0) throw',
      },
    ],
  },
  {
    name: 'publishEmptyRuns is ignored',
    edits: [
      {
        file: 'lib/core/steps/finish-run.ts',
        find: 'definition.publishEmptyRuns || last.totals.reports !== 0',
        replace: 'last.totals.reports !== 0',
      },
    ],
  },
  {
    name: 'a run that is not published is announced',
    edits: [
      {
        file: 'lib/core/state-machine/definition.ts',
        find: "IsNull: true, Next: 'Completed'",
        replace: "IsNull: true, Next: 'AnnounceCompleted'",
      },
    ],
  },
  {
    name: 'each attempt decides again how the run completes',
    edits: [
      {
        file: 'lib/core/steps/finish-run.ts',
        find: 'if (run.completion !== undefined) return { result: { ...ends, run: { ...run, completion: run.completion } } };',
        replace: '',
      },
    ],
  },
  {
    name: 'each attempt decides again whether the run is published',
    edits: [
      {
        file: 'lib/core/steps/finish-run.ts',
        find: 'result: { ...ends, run: { ...run, completion: run.completion } } };',
        replace:
          'result: { ...ends, run: { ...run, completion: { ...run.completion, isPublished: definition.publishEmptyRuns || last.totals.reports !== 0 } } } };',
      },
    ],
  },
  {
    name: 'run.json has the time of the first response as that of the last',
    edits: [
      {
        file: 'lib/core/storage/manifest.ts',
        find: '    serviceCompletedAt: last.serviceTime,\n    format',
        replace: '    serviceCompletedAt: first.serviceTime,\n    format',
      },
    ],
  },
  {
    name: 'an execution exports another export than its own',
    edits: [
      {
        file: 'lib/core/steps/select-export.ts',
        find: "const definition = typeof name === 'string' ? exports.get(name) : undefined;",
        replace: "const definition = typeof name === 'string' ? [...exports.values()].at(-1) : undefined;",
      },
    ],
  },
  {
    name: 'a container keeps the export of its first invocation',
    edits: [
      {
        file: 'lib/aws/lambda/service-context.ts',
        find: '  const source = sourceOf(service.baseUrl);',
        replace:
          '  let kept: ReturnType<typeof exportDefinition> | undefined;\n  const source = sourceOf(service.baseUrl);',
      },
      {
        file: 'lib/aws/lambda/service-context.ts',
        find: 'selectDefinition(definitions, input, untilOperator);',
        replace: '(kept ??= selectDefinition(definitions, input, untilOperator));',
      },
    ],
  },
  {
    name: 'the telemetry of a container keeps the export of its first invocation',
    edits: [
      {
        file: 'lib/aws/lambda/service-context.ts',
        find: '  const source = sourceOf(service.baseUrl);',
        replace: '  let kept: string | undefined;\n  const source = sourceOf(service.baseUrl);',
      },
      {
        file: 'lib/aws/lambda/service-context.ts',
        find: 'telemetry.setExport(definition.name);',
        replace: 'telemetry.setExport((kept ??= definition.name));',
      },
    ],
  },
  {
    name: 'metrics are published by the next invocation',
    edits: [
      {
        file: 'lib/aws/lambda/step-handler.ts',
        find: '    telemetry.begin({ execution: event?.execution, request: context.awsRequestId });\n',
        replace:
          '    telemetry.begin({ execution: event?.execution, request: context.awsRequestId });\n    telemetry.end();\n',
      },
      {
        file: 'lib/aws/lambda/step-handler.ts',
        find: '      telemetry.end();\n    }',
        replace: '    }',
      },
    ],
  },
  {
    name: 'a container keeps the deadline of its first invocation',
    edits: [
      {
        file: 'functions/export-page.ts',
        find: '    const run: StepHandler<Outcome> = async ({ input, execution, probe }',
        replace:
          '    let kept: ReturnType<typeof startInvocationDeadline> | undefined;\n    const run: StepHandler<Outcome> = async ({ input, execution, probe }',
      },
      {
        file: 'functions/export-page.ts',
        find: 'using deadline = startInvocationDeadline(',
        replace: 'const deadline = kept ??= startInvocationDeadline(',
      },
    ],
  },
  {
    name: 'ExportPage ignores maxConcurrentPages',
    edits: [
      {
        file: 'functions/export-page.ts',
        find: 'settings.maxConcurrentPages === undefined\n',
        replace: 'settings.maxConcurrentPages !== 0\n',
      },
    ],
  },
  {
    name: 'the slots of a service are stored under another name',
    edits: [
      {
        file: 'functions/export-page.ts',
        find: 'service: environment.SERVICE_NAME,',
        replace: 'service: environment.DEPLOYMENT_NAME,',
      },
    ],
  },
  {
    name: 'FinishRun publishes below another prefix',
    edits: [
      { file: 'functions/finish-run.ts', find: 'prefix: context.environment.KEY_PREFIX,', replace: "prefix: ''," },
    ],
  },
  {
    name: 'FinishRun does not encrypt with the key of the bucket',
    edits: [
      {
        file: 'functions/finish-run.ts',
        find: 'kmsKeyArn: context.environment.BUCKET_KMS_KEY_ARN || undefined,',
        replace: 'kmsKeyArn: undefined,',
      },
    ],
  },
  {
    name: 'a rejected API key is used until its container ends',
    edits: [
      { file: 'lib/aws/secrets.ts', find: 'expiresAt: now() + cacheMs', replace: 'expiresAt: Infinity' },
      {
        file: 'lib/aws/secrets.ts',
        find: '    refresh,\n  };',
        replace: '    refresh: async () => newest?.value ?? (await refresh()),\n  };',
      },
    ],
  },
  {
    name: 'the proxy gets no credentials',
    edits: [
      {
        file: 'lib/aws/secrets.ts',
        find: 'proxyUrl === undefined || proxyCredentialsSecret === undefined',
        replace: "proxyUrl === undefined || proxyCredentialsSecret !== ''",
      },
    ],
  },
  {
    name: 'the store is not checked before a run is published',
    edits: [
      {
        file: 'lib/core/steps/inventory.ts',
        find: 'if (chunk !== undefined) throw await',
        replace: 'if (chunk === -1) throw await',
      },
    ],
  },
  {
    name: 'the check before a run is published ignores replaced pages of the same size',
    edits: [
      {
        file: 'lib/core/steps/inventory.ts',
        find: 'JSON.stringify([key, bytes, revision])',
        replace: 'JSON.stringify([key, bytes, typeof revision])',
      },
    ],
  },
  {
    name: 'the check before a run is published compares keys only',
    edits: [
      {
        file: 'lib/core/steps/inventory.ts',
        find: 'JSON.stringify([key, bytes, revision])',
        replace: 'JSON.stringify([key, typeof bytes, typeof revision])',
      },
    ],
  },
  {
    name: 'the store is not checked before a run completes that is not published',
    edits: [
      {
        file: 'lib/core/steps/finish-run.ts',
        find: '    for await (const _ of chunks);\n',
        replace: '',
      },
    ],
  },
  {
    name: 'a page is adopted although its size differs from its metadata',
    edits: [
      { file: 'lib/aws/s3/page-store.ts', find: 'if (bytes !== metadata.bytes) {', replace: 'if (bytes === -1) {' },
    ],
  },
  {
    name: 'a page is adopted although its bytes differ from its metadata',
    edits: [
      {
        file: 'lib/aws/s3/objects.ts',
        find: 'return coversBody && checksum !== toBase64(body.sha256);',
        replace: "return coversBody && checksum === '';",
      },
    ],
  },
  {
    name: 'a conflict of two writes to S3 is not recognized',
    edits: [
      {
        file: 'lib/aws/s3/objects.ts',
        find: "['PreconditionFailed', 'ConditionalRequestConflict', 'NoSuchUpload']",
        replace: "['PreconditionFailed', 'NoSuchUpload']",
      },
    ],
  },
  {
    name: 'an upload whose completion was repeated counts as failed',
    edits: [
      {
        file: 'lib/aws/s3/objects.ts',
        find: "['PreconditionFailed', 'ConditionalRequestConflict', 'NoSuchUpload']",
        replace: "['PreconditionFailed', 'ConditionalRequestConflict']",
      },
    ],
  },
  {
    name: 'the parts of a failed upload are not removed',
    edits: [
      {
        file: 'lib/aws/s3/objects.ts',
        find: '      await removeParts({ client, ...location }, upload.uploadId);\n',
        replace: '',
      },
    ],
  },
  {
    name: 'a repeated upload sends what the one before has left of the body',
    edits: [
      {
        file: 'lib/aws/s3/objects.ts',
        find: '  for (let attempt = 1; ; attempt += 1) {\n    const upload = new Upload({',
        replace:
          '  const Body = body.read();\n  for (let attempt = 1; ; attempt += 1) {\n    const upload = new Upload({',
      },
      { file: 'lib/aws/s3/objects.ts', find: '        Body: body.read(),\n', replace: '        Body,\n' },
    ],
  },
  {
    name: 'one scheduled time makes two runs',
    edits: [
      {
        file: 'lib/core/steps/begin-run.ts',
        find: 'if (input.scheduledTime !== undefined && hasBegun(',
        replace: "if (input.scheduledTime === '' && hasBegun(",
      },
    ],
  },
  {
    name: 'a scheduled time that is repeated after a later one makes a second run',
    edits: [
      {
        file: 'lib/core/steps/begin-run.ts',
        find: 'return laterByMs > 0 && laterByMs <= maxRepeatDelayMs;',
        replace: 'return laterByMs > maxRepeatDelayMs && laterByMs < 0;',
      },
    ],
  },
  {
    name: 'a start whose since contradicts an unfinished run resumes it',
    edits: [
      {
        file: 'lib/core/steps/begin-run.ts',
        find: 'if (since !== undefined && since !== run.since) contradictions',
        replace: "if (since === '' && since !== run.since) contradictions",
      },
    ],
  },
  {
    name: 'a start whose since contradicts an unfinished run abandons it',
    edits: [
      {
        file: 'lib/core/steps/begin-run.ts',
        find: 'if (last === undefined) return start(deps, state, input, execution);',
        replace: 'if (last?.page !== -1) return start(deps, state, input, execution);',
      },
    ],
  },
  {
    name: 'restart is ignored',
    edits: [
      {
        file: 'lib/core/steps/begin-run.ts',
        find: 'if (input.restart === true && !hasBegunIt) return',
        replace: 'if (input.restart === true && state.version < 0) return',
      },
    ],
  },
  {
    name: 'the since of a start is ignored',
    edits: [
      {
        file: 'lib/core/steps/watermark.ts',
        find: 'if (input.since !== undefined) return {',
        replace:
          "if (input.since === '' || now < 0) return { since: '' as Instant, reason: '' };\n  if (now < 0) return {",
      },
    ],
  },
  {
    name: 'latest.json of another deployment with the same prefix stays',
    edits: [
      {
        file: 'lib/aws/s3/latest-pointer.ts',
        find: '(await hasBegun(existing.sequence))',
        replace: 'hasBegun !== undefined',
      },
    ],
  },
  {
    name: 'a page in the folder of a run that was never logged is ignored',
    edits: [
      {
        file: 'lib/core/steps/inventory.ts',
        find: 'if (chunk !== undefined) throw await conflictIn(chunk, deps, run);',
        replace:
          "const problem = chunk === undefined ? undefined : await conflictIn(chunk, deps, run);\n    if (problem?.message.includes('never logged') === false) throw problem;",
      },
    ],
  },
  {
    name: 'only the first response to a listing is read',
    edits: [
      {
        file: 'lib/aws/s3/objects.ts',
        find: '(response) => response.NextContinuationToken,',
        replace: '() => undefined,',
      },
    ],
  },
  {
    name: 'a page whose next cursor is known by its hash is adopted with another',
    edits: [
      {
        file: 'lib/core/steps/commit-page.ts',
        find: 'if (!isSameCursor(stored.nextCursor, fetched.nextCursor)) throw',
        replace: 'if (!isSameCursor(stored.nextCursor, fetched.nextCursor) && stored.page < 0) throw',
      },
    ],
  },
  {
    name: 'an invocation waits half of a short Retry-After',
    edits: [
      {
        file: 'lib/core/steps/page-requests.ts',
        find: 'const waitMs = Math.max(1, seconds) * 1_000;',
        replace: 'const waitMs = Math.max(1, seconds) * 500;',
      },
    ],
  },
  {
    name: 'the Wait state waits half of a Retry-After',
    edits: [
      {
        file: 'lib/core/steps/export-page.ts',
        find: 'Math.max(1, Math.ceil(retryAfterSeconds));',
        replace: 'Math.max(1, Math.ceil(retryAfterSeconds / 2));',
      },
    ],
  },
  {
    name: 'a Retry-After of a prefetched page is forgotten when the page before it fails',
    edits: [
      {
        file: 'lib/core/steps/page-pipeline.ts',
        find: 'isRetried(error, invocation) ? requests.pendingBackoff(error) : undefined;',
        replace: 'isRetried(error, invocation) && pagesPerInvocation < 0 ? requests.pendingBackoff(error) : undefined;',
      },
    ],
  },
  {
    name: 'a Retry-After as a date is measured from the local clock',
    edits: [
      {
        file: 'lib/service/client/response-status.ts',
        find: 'const from = respondedAt === null ? now : epochMsOf(respondedAt);',
        replace: 'const from = respondedAt === null ? now : Math.max(now, 0);',
      },
    ],
  },
  {
    name: 'a Retry-After as a date is ignored',
    edits: [
      {
        file: 'lib/service/client/response-status.ts',
        find: '  if (until === null) return undefined;',
        replace: '  if (until === null || until !== null) return undefined;',
      },
    ],
  },
  {
    name: 'the watermark trusts a Date that is ahead of the local clock',
    edits: [
      {
        file: 'lib/core/steps/watermark.ts',
        find: 'return epochMsOf(serviceTime) < epochMsOf(requestedAt) ? serviceTime : requestedAt;',
        replace: 'return epochMsOf(serviceTime) < epochMsOf(requestedAt) + 86_400_000 ? serviceTime : requestedAt;',
      },
    ],
  },
  {
    name: 'the watermark ignores the Date',
    edits: [
      {
        file: 'lib/core/steps/watermark.ts',
        find: '  if (serviceTime === null) return startedAt;',
        replace: '  if (serviceTime === null || serviceTime !== null) return startedAt;',
      },
    ],
  },
  {
    name: 'the overlap is ignored',
    edits: [
      {
        file: 'lib/core/steps/watermark.ts',
        find: 'epochMsOf(watermark.instant) - overlapMs));',
        replace: 'epochMsOf(watermark.instant)));',
      },
    ],
  },
  {
    name: 'the overlap is added instead of subtracted',
    edits: [
      {
        file: 'lib/core/steps/watermark.ts',
        find: 'epochMsOf(watermark.instant) - overlapMs));',
        replace: 'epochMsOf(watermark.instant) + overlapMs));',
      },
    ],
  },
  {
    name: 'the overlap is applied twice',
    edits: [
      {
        file: 'lib/core/steps/watermark.ts',
        find: 'epochMsOf(watermark.instant) - overlapMs));',
        replace: 'epochMsOf(watermark.instant) - 2 * overlapMs));',
      },
    ],
  },
  {
    name: 'the lookback window is halved',
    edits: [
      {
        file: 'lib/core/steps/watermark.ts',
        find: '(isScheduled ? scheduledMs : now) - lookbackMs)',
        replace: '(isScheduled ? scheduledMs : now) - lookbackMs / 2)',
      },
    ],
  },
  {
    name: 'a lookback window does not cover what an earlier start has missed',
    edits: [
      {
        file: 'lib/core/steps/watermark.ts',
        find: '  if (covered < windowStart) {',
        replace: '  if (covered < 0) {',
      },
    ],
  },
  {
    name: 'since.initial is ignored',
    edits: [
      {
        file: 'lib/core/steps/watermark.ts',
        find: 'return initial === undefined\n',
        replace: 'return initial === undefined || initial !== undefined\n',
      },
    ],
  },
  {
    name: 'a refused cursor starts the run over although its page is stored',
    edits: [
      {
        file: 'lib/core/steps/page-pipeline.ts',
        find: 'isRefusal(error) ? await findAfterRefusal()',
        replace: 'isRefusal(error) && signal.aborted ? await findAfterRefusal()',
      },
    ],
  },
  {
    name: 'a refused cursor ends pagination',
    edits: [
      {
        file: 'lib/core/steps/export-page.ts',
        find: "if (isExportError(error, 'CursorRejectedError')) return restartRun(deps, run, lastLogged, loop, execution, error);",
        replace: "if (isExportError(error, 'CursorRejectedError')) return { next: 'finish', ...loop };",
      },
      {
        file: 'lib/core/storage/manifest.ts',
        find: ' || last.nextCursor !== null)',
        replace: ')',
      },
    ],
  },
  {
    name: 'a Retry-After beyond maxRetryAfter is waited for',
    edits: [
      {
        file: 'lib/core/steps/export-page.ts',
        find: 'const tooLong = waitSeconds > limits.maxRetryAfterSeconds;',
        replace: 'const tooLong = waitSeconds < 0;',
      },
    ],
  },
  {
    name: 'a run that has started over starts over again for the same refusal',
    edits: [
      {
        file: 'lib/core/steps/restart-run.ts',
        find: '    if (active.run !== run.run) return { result: { replacement: active, isNew: false } };\n',
        replace: '',
      },
    ],
  },
  {
    name: 'a refused cursor counts as a refused request',
    edits: [
      {
        file: 'lib/service/client/response-status.ts',
        find: "if (sentCursor) return ['CursorRejectedError'",
        replace: "if (sentCursor) return ['RequestRejectedError'",
      },
    ],
  },
  {
    name: 'a run whose cursor is lost is resumed',
    edits: [
      {
        file: 'lib/core/steps/fail-run.ts',
        find: "new Set<ErrorName>(['CursorRejectedError', 'RepeatedCursorError'])",
        replace: "new Set<ErrorName>(['RepeatedCursorError'])",
      },
    ],
  },
  {
    name: 'the content encoding of a page is ignored',
    edits: [
      {
        file: 'lib/service/client/response-headers.ts',
        find: "if (!isIdentity(headers['content-encoding'])) {",
        replace: "if (!isIdentity(headers['content-encoding']) && !isXml) {",
      },
    ],
  },
  {
    name: 'since of the start input is ignored',
    edits: [
      {
        file: 'lib/core/steps/watermark.ts',
        find: 'if (input.since !== undefined) return',
        replace: 'if (input.since === "") return',
      },
    ],
  },
  {
    name: 'a start counts its lookback window from now',
    edits: [
      {
        file: 'lib/core/steps/watermark.ts',
        find: '(isScheduled ? scheduledMs : now)',
        replace: '(isScheduled ? now : now)',
      },
    ],
  },
  {
    name: 'a step rejects an event with a field of a later release',
    edits: [
      {
        file: 'lib/aws/lambda/step-handler.ts',
        find: "if (typeof event?.execution === 'string' && event.execution !== '') return;",
        replace:
          "const names = Object.keys(event ?? {});\n  if (typeof event?.execution === 'string' && names.every((name) => ['input', 'execution', 'startInput'].includes(name))) return;",
      },
    ],
  },
  {
    name: 'a continuation with a field of a later release is refused',
    edits: [
      {
        file: 'lib/core/steps/start-input.ts',
        find: 'const continuationSchema = z.partial(z.object(fields));',
        replace: 'const continuationSchema = z.partial(z.strictObject(fields));',
      },
    ],
  },
  {
    name: 'a log entry with a field of a later release is rejected',
    edits: [
      {
        file: 'lib/core/storage/stored-records.ts',
        find: 'const entrySchema = z.object({',
        replace: 'const entrySchema = z.strictObject({',
      },
    ],
  },
  {
    name: 'export state loses the fields of a later release',
    edits: [
      { file: 'lib/core/storage/stored-records.ts', find: 'return value as Value;', replace: 'return parsed.data;' },
    ],
  },
  {
    name: 'the definition no longer handles an outcome of the functions',
    edits: [
      {
        file: 'lib/core/state-machine/definition.ts',
        find: "        continue: 'ContinueInNewExecution',\n",
        replace: '',
      },
    ],
  },
  {
    name: 'an execution that has lost its run finishes it after a redrive',
    // Another execution must have taken the run over and be about to finish it.
    firstSeed: 6_001,
    edits: [
      {
        file: 'lib/core/steps/export-state.ts',
        find: 'if (active?.execution === execution && (run === undefined || active.run === run)) return active;',
        replace:
          'if ((active?.execution === execution || active?.startedBy === execution) && (run === undefined || active.run === run)) return active;',
      },
    ],
  },
  {
    name: 'windows overlap',
    edits: [
      {
        file: 'lib/backfill/windows.ts',
        find: 'until: instantOf(Math.min(since + windowMs, end))',
        replace: 'until: instantOf(Math.min(since + windowMs + 3_600_000, end))',
      },
    ],
  },
  {
    name: 'there is a gap between two windows',
    edits: [
      {
        file: 'lib/backfill/windows.ts',
        find: 'until: instantOf(Math.min(since + windowMs, end))',
        replace: 'until: instantOf(since + windowMs < end ? since + windowMs - 1 : end)',
      },
    ],
  },
  {
    name: 'the filter of a window has no upper bound',
    edits: [
      {
        file: 'lib/backfill/window-definition.ts',
        find: 'request: { ...request, filter },',
        replace: 'request: { ...request },',
      },
    ],
  },
  {
    name: 'a window has a watermark',
    edits: [
      {
        file: 'lib/core/steps/finish-run.ts',
        find: 'watermark: hasUntil(run) ? undefined : watermarkAfter(state, definition, run, first)',
        replace: 'watermark: watermarkAfter(state, definition, run, first)',
      },
    ],
  },
  {
    name: 'a backfill moves the watermark of its export',
    edits: [
      {
        file: 'lib/backfill/plan.ts',
        find: 'const change = { ...state, documentRoot: root };',
        replace:
          "const watermark = { source: 'https://reports.example.com', filter: {}, instant: instantOf(Date.UTC(2026, 0)) };\n    const change = { ...state, documentRoot: root, watermark };",
      },
    ],
  },
  {
    name: 'latest.json points to a window',
    edits: [
      {
        file: 'lib/core/steps/finish-run.ts',
        find: 'await store.putDocument(windowSummaryKey(run), windowSummaryChunks(run, { first, last }, manifest));\n',
        replace:
          'await store.putDocument(windowSummaryKey(run), windowSummaryChunks(run, { first, last }, manifest));\n      await store.putDocument(runSummaryKey(run), runSummaryChunks(run, { first, last }, manifest));\n      await updateLatestPointer(deps, run, manifest);\n',
      },
    ],
  },
  {
    name: 'the probe ignores reports of the empty window',
    edits: [
      {
        file: 'lib/backfill/probe-window.ts',
        find: 'if (!(await hasReportsAt(since))) return expectedRoot?.root;',
        replace: 'if (!(await hasReportsAt(since)) || since !== until) return expectedRoot?.root;',
      },
    ],
  },
  {
    name: 'a backfill begins although the service rejects the upper bound',
    edits: [
      {
        file: 'lib/backfill/probe-window.ts',
        find: "if (!isExportError(error, 'RequestRejectedError')) throw error;",
        replace: "if (isExportError(error, 'RequestRejectedError')) return;\n    throw error;",
      },
    ],
  },
  {
    name: 'a window that is done is exported again when it is started again',
    edits: [
      {
        file: 'lib/core/steps/begin-run.ts',
        find: 'if (active === undefined && lastCompleted !== undefined && restart !== true) {',
        replace: 'if (active === undefined && lastCompleted !== undefined && restart === false) {',
      },
    ],
  },
  {
    name: 'the IDs of runs of windows have no random digits',
    edits: [
      {
        file: 'lib/core/steps/export-state.ts',
        find: 'randomHex(once === undefined ? 6 : 12)',
        replace: "once === undefined ? randomHex(6) : '000000000000'",
      },
    ],
  },
  {
    name: 'an abandoned backfill keeps its unfinished runs',
    edits: [
      {
        file: 'lib/backfill/abandon.ts',
        find: 'change: { ...idle, plan } }',
        replace: 'change: { ...state, plan } }',
      },
    ],
  },
  {
    name: 'an abandoned backfill begins further windows',
    edits: [
      {
        file: 'lib/core/steps/begin-run.ts',
        find: 'if (plan.abandonedAt !== undefined) {',
        replace: "if (plan.abandonedAt === '') {",
      },
    ],
  },
  {
    name: 'an abandoned backfill leaves the windows that are not planned yet',
    edits: [
      {
        file: 'lib/backfill/abandon.ts',
        find: 'new Map([...windowsOf(backfill)].map((window) => [windowName(exportName, window), window]));',
        replace:
          'new Map([...windowsOf(backfill)].map((window) => [windowName(exportName, window), window] as const).filter(([name]) => states.has(name)));',
      },
    ],
  },
  {
    name: 'a late command that abandons a backfill abandons a later one',
    edits: [
      {
        file: 'lib/backfill/abandon.ts',
        find: 'if (current.id > id) return',
        replace: 'if (current.id > id + 1_000) return',
      },
    ],
  },
  {
    name: 'a window that may be published is abandoned',
    edits: [
      {
        file: 'lib/backfill/abandon.ts',
        find: 'run?.completion === undefined ? undefined : await findPublishingState(run);',
        replace: 'run && (await findPublishingState(run)) && undefined;',
      },
    ],
  },
  {
    name: 'a page may have another root element than the page before it',
    edits: [
      {
        file: 'lib/core/steps/page-pipeline.ts',
        find: 'return entry === undefined ? pipeline.firstRoot : rootAfter(entry);',
        replace: 'return entry === undefined || rootAfter(entry) ? pipeline.firstRoot : undefined;',
      },
      {
        file: 'lib/core/storage/manifest.ts',
        find: 'if (root && previousRoot && root !== previousRoot) {',
        replace: "if (root === '' && previousRoot) {",
      },
    ],
  },
  {
    name: 'page 1 of the next run may have another root element',
    edits: [
      {
        file: 'lib/core/document-root.ts',
        find: 'if (recorded !== undefined) return ofCompletedRuns(recorded);',
        replace: 'if (recorded !== undefined && recorded === named) return ofCompletedRuns(recorded);',
      },
    ],
  },
  {
    name: 'page 1 of a window may have another root element',
    edits: [
      {
        file: 'lib/backfill/plan.ts',
        find: 'const change = { ...state, sequence, documentRoot, plan:',
        replace: 'const change = { ...state, sequence, plan:',
      },
    ],
  },
  {
    name: 'page 1 of a run that starts over may have another root element',
    edits: [
      {
        file: 'lib/core/steps/restart-run.ts',
        find: 'documentRoot: last?.documentRoot ?? active.documentRoot,',
        replace: 'documentRoot: last === undefined ? undefined : active.documentRoot,',
      },
    ],
  },
  {
    name: 'the root element that the settings name does not count on page 1',
    edits: [
      {
        file: 'lib/core/document-root.ts',
        find: 'if (named !== undefined) return {',
        replace: 'if (named !== undefined && recorded !== undefined) return {',
      },
    ],
  },
  {
    name: 'the namespace of a root element does not count',
    edits: [
      {
        file: 'lib/service/xml/well-formedness.ts',
        find: "return namespace === '' ? name : ",
        replace: "return namespace !== ' ' ? name : ",
      },
    ],
  },
  {
    name: 'the root element of a page is compared after the page is stored',
    edits: [
      {
        file: 'lib/core/steps/commit-page.ts',
        find: 'const beforeVisible = async () => assertRootOfResponse(identity, fetched, await predecessorStored);',
        replace:
          'const beforeVisible = async () => { const expected = await predecessorStored; if (expected === null) assertRootOfResponse(identity, fetched, expected); };',
      },
    ],
  },
  {
    name: 'the root element of the check is not recorded with the export',
    edits: [
      {
        file: 'lib/backfill/plan.ts',
        find: 'return { change, result: change };',
        replace: 'return { result: change };',
      },
    ],
  },
];
