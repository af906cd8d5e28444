/**
 * Ways to break the protocol, each by as little as it takes: a simulation that finds them all is one whose silence means
 * something. An edit names a text that must stand in its file exactly once, so none can quietly stop applying.
 */

interface Edit {
  /** Below the project's root. */
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

export interface Mutant {
  /** What was broken. */
  readonly name: string;
  readonly edits: readonly Edit[];
}

export const mutants: readonly Mutant[] = [
  {
    name: 'a log entry is written without its condition',
    edits: [
      {
        file: 'lib/aws/dynamodb/page-log.ts',
        find: "        Item: toEntryItem(entry, expiresAt),\n        ConditionExpression: 'attribute_not_exists(pk)',\n",
        replace: '        Item: toEntryItem(entry, expiresAt),\n',
      },
    ],
  },
  {
    name: 'a head is replaced without its condition',
    edits: [
      {
        file: 'lib/aws/dynamodb/page-log.ts',
        find: '{ Item: item, ...condition }',
        replace: '{ Item: item, ...(condition && {}) }',
      },
    ],
  },
  {
    name: 'a page is stored without its condition',
    edits: [{ file: 'lib/aws/s3/objects.ts', find: "          IfNoneMatch: '*',\n", replace: '' }],
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
        replace: `        const early = { ContentLength: bytes, Metadata: encodePageMetadata({ key, run, page, bytes, sha256, reports, cursor, nextCursor, serviceTime }) };
        if (bytes > 0) {
          void runtime.sleep(50).then(() => createObject(objectAt(key), body, { contentType: 'text/xml', metadata: early.Metadata }, runtime)).catch(() => {});
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
    name: "what stands in a page's way is taken for our own",
    edits: [
      {
        file: 'lib/aws/s3/objects.ts',
        find: 'return { ...existing, created: existing.Metadata?.attempt === token };',
        replace: 'return { ETag: existing.ETag, created: true, Metadata, ContentLength: body.bytes };',
      },
    ],
  },
  {
    name: 'the cursor of a page that is adopted is not adopted',
    edits: [
      {
        file: 'lib/core/steps/commit-page.ts',
        find: 'return { stored, nextCursor: stored.nextCursor, timing: null };',
        replace: 'return { stored, nextCursor: fetched.nextCursor, timing: null };',
      },
    ],
  },
  {
    name: 'the watermark moves as a run starts',
    edits: [
      {
        file: 'lib/core/steps/begin-run.ts',
        find: '    active: run,\n    lastScheduledTime: input.scheduledTime',
        replace:
          '    active: run,\n    watermark: { instant: instantOf(now), source: run.request.source, filter: run.request.filter },\n    lastScheduledTime: input.scheduledTime',
      },
    ],
  },
  {
    name: 'the watermark is measured by the last answer, not the first',
    edits: [
      {
        file: 'lib/core/steps/finish-run.ts',
        find: 'watermarkAfter(state, definition, run, first)',
        replace: 'watermarkAfter(state, definition, run, last)',
      },
    ],
  },
  {
    name: "the watermark is the answer's Date, however long it took",
    edits: [
      {
        file: 'lib/report-service/client/response-headers.ts',
        find: 'Math.max(0, Math.ceil(elapsedMs / 1_000)) * 1_000',
        replace: 'Math.min(0, elapsedMs)',
      },
    ],
  },
  {
    name: 'the watermark moves over what lies before a run',
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
    name: 'an error is taken for the end',
    edits: [
      {
        file: 'lib/core/steps/export-page.ts',
        find: '  throw error;\n}',
        replace: "  return { next: 'finish', ...loop };\n}",
      },
    ],
  },
  {
    name: 'a body that breaks off is taken for whole',
    edits: [
      {
        file: 'lib/report-service/client/response-body.ts',
        find: '        throw translate(error, bytes);\n',
        replace:
          '        if (bytes < 0) throw translate(error, bytes);\n        return { done: true, value: undefined } as const;\n',
      },
      {
        file: 'lib/report-service/client/response-body.ts',
        find: '    refuse(subject, xmlCheck?.end());\n',
        replace: '',
      },
    ],
  },
  {
    name: 'half a document is taken for one',
    edits: [
      {
        file: 'lib/report-service/client/response-body.ts',
        find: '    refuse(subject, xmlCheck?.end());\n',
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
        find: '  await store.putManifest(manifest, manifestChunks(run, { first, last }, storedEntries(deps, run)));\n',
        replace: '',
      },
      {
        file: 'lib/core/steps/finish-run.ts',
        find: '  return updateState(log, name,',
        replace:
          '  await store.putManifest(manifest, manifestChunks(run, { first, last }, storedEntries(deps, run)));\n  return updateState(log, name,',
      },
    ],
  },
  {
    name: 'a run is completed before its manifest is written',
    edits: [
      {
        file: 'lib/core/steps/finish-run.ts',
        find: '  await store.putManifest(manifest, manifestChunks(run, { first, last }, storedEntries(deps, run)));\n',
        replace: '',
      },
      {
        file: 'lib/core/steps/finish-run.ts',
        find: '  return updateState(log, name,',
        replace: '  const result = await updateState(log, name,',
      },
      {
        file: 'lib/core/steps/finish-run.ts',
        find: 'lastCompleted: { execution, result } }, result };\n  });\n}',
        replace:
          'lastCompleted: { execution, result } }, result };\n  });\n  await store.putManifest(manifest, manifestChunks(run, { first, last }, storedEntries(deps, run)));\n  return result;\n}',
      },
    ],
  },
  {
    name: 'latest.json is replaced whatever stands there',
    edits: [
      {
        file: 'lib/aws/s3/latest-pointer.ts',
        find: "...(existing === undefined ? { IfNoneMatch: '*' } : { IfMatch: existing.etag }),",
        replace: '',
      },
    ],
  },
  {
    name: 'when a run ended is not settled before its manifest is written',
    edits: [
      {
        file: 'lib/core/steps/finish-run.ts',
        find: '    return { change: { ...state, active: completed }, result: completed };',
        replace: '    return { result: completed };',
      },
    ],
  },
  {
    name: 'nobody asks who owns the run',
    edits: [
      {
        file: 'lib/core/steps/export-state.ts',
        find: 'if (active?.execution === execution && (run === undefined || active.run === run)) return active;',
        replace: 'if (active !== undefined && (run === active.run || execution !== run)) return active;',
      },
    ],
  },
  {
    name: 'an invocation that lived on finishes whatever run is there',
    edits: [
      {
        file: 'lib/core/steps/export-state.ts',
        find: 'if (active?.execution === execution && (run === undefined || active.run === run)) return active;',
        replace: 'if (active?.execution === execution && run !== "") return active;',
      },
    ],
  },
  {
    name: 'a run is taken over without asking whether its execution lives',
    edits: [
      {
        file: 'lib/core/steps/begin-run.ts',
        find: 'if (await deps.executions.isRunning(active.execution)) {',
        replace: 'if ((await deps.executions.isRunning(active.execution)) && execution === "") {',
      },
    ],
  },
  {
    name: 'whoever says that it continues takes the run over',
    edits: [
      {
        file: 'lib/core/steps/begin-run.ts',
        find: 'return input.continues === active.execution\n',
        replace: 'return input.continues !== ""\n',
      },
    ],
  },
  {
    name: 'a restart is done again',
    edits: [
      {
        file: 'lib/core/steps/begin-run.ts',
        find: 'if (input.restart === true && active.startedBy !== execution) return',
        replace: 'if (input.restart === true) return',
      },
    ],
  },
  {
    name: 'a page whose cursor was lost stops its run',
    edits: [
      {
        file: 'lib/core/steps/commit-page.ts',
        find: 'throw lostCursor(identity);',
        replace: "throw conflict(identity, 'its cursor was lost');",
      },
    ],
  },
  {
    name: 'latest.json is never written',
    edits: [
      {
        file: 'lib/aws/s3/page-store.ts',
        find: 'replaceLatestObject(objectAt(key), latest, hasBegun, runtime)',
        replace: 'Promise.resolve(latest && hasBegun && replaceLatestObject && undefined)',
      },
    ],
  },
  {
    name: 'a run bears the sequence of the one before',
    edits: [
      {
        file: 'lib/core/steps/begin-run.ts',
        find: 'sequence: nextSequence(state, now),',
        replace: 'sequence: Math.max(state.sequence, nextSequence({ ...state, sequence: 0 }, 0)),',
      },
    ],
  },
  {
    name: 'an execution never continues in another',
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
    name: 'a walk starts afresh without bound',
    edits: [
      {
        file: 'lib/core/steps/restart-run.ts',
        find: 'if (run.cursorRestarts >= definition.limits.maxCursorRestarts) throw error;',
        replace: 'if (definition.limits.maxCursorRestarts < 0) throw error;',
      },
    ],
  },
  {
    name: 'a walk that starts afresh starts later',
    edits: [
      {
        file: 'lib/core/steps/restart-run.ts',
        find: '      startedAt: instantOf(now),',
        replace: '      startedAt: instantOf(now),\n      since: instantOf(now),',
      },
    ],
  },
  {
    name: 'FailRun acts on a run that is not its own',
    edits: [
      {
        file: 'lib/core/steps/fail-run.ts',
        find: 'if (active?.execution !== command.execution) {',
        replace: 'if (active === undefined) {',
      },
    ],
  },
  {
    name: 'a run that another invocation has completed is not announced',
    edits: [
      {
        file: 'lib/core/steps/finish-run.ts',
        find: "isExportError(error, 'RunSupersededError') ? await",
        replace: "isExportError(error, 'ContractError') ? await",
      },
    ],
  },
  {
    name: 'a run that is resumed skips a page',
    edits: [
      {
        file: 'lib/core/steps/page-pipeline.ts',
        find: '    const page = (previous?.page ?? 0) + 1;\n',
        replace: '    const page = (previous?.page ?? 0) + (isFirst && previous !== undefined ? 2 : 1);\n',
      },
    ],
  },
  {
    name: 'a page that is asked for ahead is stored before its loop',
    edits: [
      {
        file: 'lib/aws/s3/page-store.ts',
        find: '        await fetched.predecessorStored;\n',
        replace: '        void fetched.predecessorStored;\n',
      },
      {
        file: 'lib/core/steps/page-pipeline.ts',
        find: '      await mayStore;\n',
        replace: '',
      },
    ],
  },
  {
    name: 'a page that is asked for ahead is logged before its loop',
    edits: [
      {
        file: 'lib/core/steps/page-pipeline.ts',
        find: '      await predecessor.logged;\n',
        replace: '      void predecessor.logged;\n',
      },
    ],
  },
  {
    name: 'a page that was asked for ahead is kept where its cursor does not follow',
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
    name: 'the log is read without asking for the newest',
    edits: [
      {
        file: 'lib/aws/dynamodb/page-log.ts',
        find: "        ConsistentRead: true,\n        KeyConditionExpression: 'pk = :pk AND begins_with",
        replace: "        KeyConditionExpression: 'pk = :pk AND begins_with",
      },
    ],
  },
  {
    name: 'the head is read without asking for the newest',
    edits: [
      {
        file: 'lib/aws/dynamodb/page-log.ts',
        find: 'Key: toKeyItem(key), ConsistentRead: true }',
        replace: 'Key: toKeyItem(key) }',
      },
    ],
  },
  {
    name: 'only the first batch of the log is read',
    edits: [
      {
        file: 'lib/aws/dynamodb/page-log.ts',
        find: 'startKey = batch.LastEvaluatedKey;',
        replace: 'startKey = undefined;',
      },
    ],
  },
  {
    name: 'a walk in circles goes on',
    edits: [
      {
        file: 'lib/core/steps/cycle-detection.ts',
        find: 'if (next === state.tortoise) return { state, repeats: true };',
        replace: '',
      },
    ],
  },
  {
    name: 'a failed run is forgotten, and the next starts behind it',
    edits: [
      {
        file: 'lib/core/steps/fail-run.ts',
        find: "failure.Error !== 'CursorRejectedError' && last?.repeats !== true",
        replace: "failure.Error === 'RequestRejectedError' && last?.repeats !== true",
      },
    ],
  },
];
