/**
 * A page store and a page log in memory, for tests of thousands of runs. They pass the suites in `test/contracts`.
 * `crash` may throw before or after any of their effects.
 */

import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { ExportError } from '../../../lib/core/errors.ts';
import { boundedStatePrefix } from '../../../lib/core/bounded-runs.ts';
import type { ExportState, JobRecord, LogEntry, ProgressRecord, StoredPage } from '../../../lib/core/model.ts';
import { type ChainRef, type PageLog, type PageStore, type StoreReader } from '../../../lib/core/ports.ts';
import type { SharedRecord } from '../../../lib/core/ports.ts';
import { createMemoryRecord } from '../../../lib/core/slots/memory-record.ts';
import type { PageObject } from '../../../lib/core/storage/compression.ts';
import { fillWithPage, type Spool, toPageMetadata } from '../../../lib/core/storage/spool.ts';
import { sequenceOfPointer } from '../../../lib/core/storage/stored-records.ts';
import { collect, sha256Of } from '../builders.ts';
import { compressAtOnce } from './compress-at-once.ts';

/** Called before and after every effect. An error that it throws simulates a crash at that point. */
export type CrashPoint = (moment: string) => void;

export interface MemoryStore extends PageStore, StoreReader {
  /** The objects by key, one character per byte. A test may change them. */
  readonly objects: Map<string, string>;
}

/** Like S3's ETag, it depends on the bytes. */
const revisionOf = (text: string): string => createHash('md5').update(text, 'latin1').digest('hex');

export function createMemoryStore(crash: CrashPoint = () => {}): MemoryStore {
  const objects = new Map<string, string>();
  const pages = new Map<string, StoredPage>();
  const compress = compressAtOnce(1);
  return {
    objects,
    async find(key) {
      return pages.get(key);
    },
    spool(identity) {
      const { key } = identity;
      let body: Buffer;
      let object: PageObject;
      const fill: Spool['fill'] = async (chunks) => {
        body = Buffer.concat(await collect(chunks as AsyncIterable<Uint8Array>));
        return { bytes: body.length, sha256: sha256Of(body) };
      };
      return {
        async fill(chunks) {
          object = await fillWithPage({ fill }, identity, chunks, compress);
        },
        async put(received) {
          const existing = pages.get(key);
          if (existing !== undefined) return { stored: false, page: existing };
          const text = body.toString('latin1');
          const stored: StoredPage = { ...toPageMetadata(identity, object, received), revision: revisionOf(text) };
          crash('before the page is stored');
          pages.set(key, stored);
          objects.set(key, text);
          crash('after the page is stored');
          return { stored: true, page: stored };
        },
        async [Symbol.asyncDispose]() {},
      };
    },
    async putDocument(key, chunks) {
      let text = '';
      for await (const chunk of chunks) text += Buffer.from(chunk).toString('latin1');
      crash('before the manifest is written');
      const existing = objects.get(key);
      if (existing !== undefined && existing !== text)
        throw new ExportError('PageConflictError', `${key} has other content`);
      objects.set(key, text);
      crash('after the manifest is written');
    },
    async putLatest(key, latest, hasBegun) {
      const currentSequence = () => sequenceOfPointer(objects.get(key) ?? '');
      crash('before latest is written');
      for (let unbegun = -1; ;) {
        const existing = currentSequence();
        if (existing <= latest.sequence || existing === unbegun) break;
        if (await hasBegun(existing)) return;
        unbegun = existing;
      }
      objects.set(key, JSON.stringify(latest));
      crash('after latest is written');
    },
    async *list(folder) {
      for (const [key, text] of objects) {
        if (!key.startsWith(`${folder}/`) || key.lastIndexOf('/') !== folder.length) continue;
        yield { key, bytes: text.length, revision: revisionOf(text) };
      }
    },
    async *listFolders(folder) {
      const names = [...objects.keys()]
        .filter((key) => key.startsWith(`${folder}/`))
        .map((key) => key.slice(folder.length + 1).split('/'));
      for (const name of new Set(names.flatMap(([first = '', ...rest]) => (rest.length > 0 ? [first] : [])))) {
        yield `${folder}/${name}`;
      }
    },
    async read(key) {
      const text = objects.get(key);
      return text === undefined ? undefined : Readable.from([Buffer.from(text, 'latin1')]);
    },
    locate: (key) => `memory:${key}`,
  };
}

export function createMemoryLog(crash: CrashPoint = () => {}): PageLog {
  const exportStates = new Map<string, ExportState>();
  const chains = new Map<string, LogEntry[]>();
  const progress = new Map<string, SharedRecord<ProgressRecord>>();
  const jobs = new Map<string, SharedRecord<JobRecord>>();
  const keyOf = ({ export: name, run, slice = 0, attempt = 0 }: ChainRef) =>
    JSON.stringify([name, run, slice, attempt]);
  const entriesOf = (chain: ChainRef) => chains.get(keyOf(chain)) ?? [];
  function crashing<Content>(records: Map<string, SharedRecord<Content>>, name: string, moment: string) {
    const record = records.get(name) ?? createMemoryRecord<Content>();
    records.set(name, record);
    const replace: SharedRecord<Content>['replace'] = async (...given) => {
      crash(`before ${moment}`);
      const written = await record.replace(...given);
      crash(`after ${moment}`);
      return written;
    };
    return { read: () => record.read(), replace };
  }
  return {
    async exportState(exportName) {
      return structuredClone(exportStates.get(exportName));
    },
    async replaceState(state) {
      crash('before the state is replaced');
      if ((exportStates.get(state.export)?.version ?? 0) !== state.version - 1) return false;
      exportStates.set(state.export, structuredClone(state));
      crash('after the state is replaced');
      return true;
    },
    async append(entry) {
      crash('before the page is logged');
      const entries = entriesOf(entry);
      const existing = entries.find(({ page }) => page === entry.page);
      if (existing !== undefined) return existing;
      chains.set(
        keyOf(entry),
        [...entries, entry].sort((a, b) => a.page - b.page),
      );
      crash('after the page is logged');
      return entry;
    },
    async last(chain) {
      return entriesOf(chain).at(-1);
    },
    async *entries(chain) {
      yield* entriesOf(chain);
    },
    async *runEntries({ export: name, run }, after = 0) {
      const isAsked = (entry: LogEntry) => entry.export === name && entry.run === run && (entry.slice ?? 0) > after;
      const orderOf = ({ slice = 0, attempt = 0 }: LogEntry) => slice - attempt / 1_000_000;
      const found = [...chains.values()].flatMap((entries) => (entries[0] && isAsked(entries[0]) ? [entries] : []));
      for (const entries of found.sort(([one], [other]) => orderOf(one as LogEntry) - orderOf(other as LogEntry))) {
        yield* entries;
      }
    },
    progress: (stateName) => crashing(progress, stateName, 'the progress is recorded'),
    job: (stateName, slice) => crashing(jobs, `${stateName} ${slice}`, 'the job is recorded'),
    mayHaveExpired: () => false,
    async *boundedStates(exportName) {
      for (const [name, state] of exportStates) {
        if (name.startsWith(boundedStatePrefix(exportName))) yield structuredClone(state);
      }
    },
  };
}
