/**
 * Exports the two pages of `startLargePageService` with the real step, client and page store, and prints how much
 * memory that took. Arguments: the service's address; the format of its pages; the target, `s3` or a directory; and a
 * directory for temporary files. Pages of XML are those of the Report Export Service, those of JSON of an API that is
 * described.
 */

import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import type { PutObjectCommandInput, UploadPartCommandInput } from '@aws-sdk/client-s3';
import { createS3Client } from '../../../lib/aws/s3/client.ts';
import { createS3PageStore } from '../../../lib/aws/s3/page-store.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';
import type { LoopState, PageEntry } from '../../../lib/core/model.ts';
import type { PageStore, StepDependencies } from '../../../lib/core/ports.ts';
import { beginRun } from '../../../lib/core/steps/begin-run.ts';
import { exportPage } from '../../../lib/core/steps/export-page.ts';
import { fixedApiKey } from '../../../lib/service/client/api-key.ts';
import { serviceClient } from '../../../lib/service/client/client.ts';
import { apiSchema, describeApi } from '../../../lib/service/api/description.ts';
import { formatOf } from '../../../lib/service/api/page.ts';
import { reportExportService } from '../../../lib/service/api/report-export-service.ts';
import { apiOfRequest } from '../../../lib/settings/settings.ts';
import { anExportDefinition, anExportRequest } from '../../support/builders.ts';
import { largePageBytes } from '../large-page.ts';
import { residentBytes, watchMemory } from '../resident-memory.ts';
import { createSqlitePageLog, directoryStore } from '../../support/export/directory-store.ts';

interface SentPart {
  readonly bytes: number;
  readonly sha256: string;
}

export interface LargePageResult {
  /** Resident memory after the tiny page. */
  readonly idleBytes: number;
  /** The highest resident memory during the export of the large page. */
  readonly peakBytes: number;
  readonly maxRssBytes: number;
  readonly seconds: number;
  /** What the step returned. */
  readonly next?: string;
  readonly error?: { readonly name: string; readonly message: string };
  /** The last entry of the page log. */
  readonly logged: PageEntry | undefined;
  /** The commands that S3 received, in order, and the parts of the large page. */
  readonly sent: readonly string[];
  readonly parts: readonly SentPart[];
  /** What remains in the spool directory, including open files without a name. */
  readonly spooled: readonly string[];
}

const [, , serviceUrl = '', format, target = '', temporary = ''] = process.argv;

const api =
  format === 'xml'
    ? undefined
    : apiSchema.parse({
        request: { path: '/pages' },
        auth: { kind: 'none' },
        next: { from: 'body', at: '/next', to: { query: 'cursor' } },
        page: { format: 'json', reports: '/data/*' },
      });
const spool = join(temporary, 'spool');
mkdirSync(spool);
Object.assign(process.env, {
  TMPDIR: spool,
  AWS_REGION: 'us-east-1',
  AWS_ACCESS_KEY_ID: 'anyone',
  AWS_SECRET_ACCESS_KEY: 'anything',
});

const sent: string[] = [];
const parts: SentPart[] = [];

const hourMs = 3_600_000;
const described = api === undefined ? reportExportService({}) : describeApi(api);
const client = serviceClient(
  {
    baseUrl: serviceUrl,
    auth: described.auth,
    compression: true,
    connectTimeout: 30_000,
    headersTimeout: 60_000,
    bodyTimeout: 60_000,
    totalTimeout: hourMs,
    maxPageBytes: largePageBytes,
    api: described,
  },
  { apiKey: fixedApiKey('large-page-key'), clock: systemRuntime },
);
const log = createSqlitePageLog(join(temporary, 'state.sqlite'));
const deps: StepDependencies = {
  definition: anExportDefinition({
    name: 'reports',
    request: anExportRequest({
      source: serviceUrl,
      api: apiOfRequest(described),
      ...(api && { format: formatOf(api) }),
    }),
  }),
  service: client,
  store: target === 's3' ? s3Store() : directoryStore(target),
  log,
  executions: { status: async () => 'unknown' as const },
  runtime: systemRuntime,
  emit: () => {},
};
const execution = 'execution';

const started = await beginRun(deps, { input: {}, execution });
const afterTinyPage = await exportPage(deps, { loop: started as unknown as LoopState, execution });
await sleep(1_000);

const idleBytes = residentBytes();
const memory = watchMemory();
const startedAt = performance.now();
const outcome = await exportPage(deps, { loop: afterTinyPage, execution }).then(
  ({ next }) => ({ next }),
  ({ name, message }: Error) => ({ error: { name, message } }),
);
const peakBytes = memory.peak();
memory.stop();

const result: LargePageResult = {
  idleBytes,
  peakBytes,
  maxRssBytes: process.resourceUsage().maxRSS * 1_024,
  seconds: (performance.now() - startedAt) / 1_000,
  ...outcome,
  logged: (await log.last({ export: afterTinyPage.export, run: afterTinyPage.run as PageEntry['run'] })) as PageEntry,
  sent,
  parts,
  spooled: [...readdirSync(spool), ...openIn(spool)],
};
process.stdout.write(`${JSON.stringify(result)}\n`);
log.close();
await client[Symbol.asyncDispose]();

/** S3 that keeps of each object and part its size and its hash only. */
function s3Store(): PageStore {
  const commands: Readonly<Record<string, (input: PutObjectCommandInput & UploadPartCommandInput) => object>> = {
    HeadObjectCommand() {
      throw Object.assign(new Error('There is no such object'), {
        name: 'NotFound',
        $metadata: { httpStatusCode: 404 },
      });
    },
    PutObjectCommand: () => ({ ETag: '"tiny"' }),
    CreateMultipartUploadCommand: () => ({ UploadId: 'upload' }),
    UploadPartCommand({ PartNumber = 0, Body }) {
      const part = Body as Uint8Array;
      parts[PartNumber - 1] = { bytes: part.byteLength, sha256: createHash('sha256').update(part).digest('hex') };
      return { ETag: `"${PartNumber}"` };
    },
    CompleteMultipartUploadCommand: () => ({ ETag: '"large"' }),
  };
  const send = async (command: { readonly input: never }) => {
    sent.push(command.constructor.name.replace('Command', ''));
    await setImmediate();
    return commands[command.constructor.name]?.(command.input);
  };
  const s3 = Object.assign(createS3Client(process.env), { send });
  return createS3PageStore({ client: s3 as never, bucket: 'pages', prefix: '', runtime: systemRuntime });
}

/** The files in `directory` that this process has open, on systems with /proc. */
function openIn(directory: string): string[] {
  const descriptors = '/proc/self/fd';
  const target = (descriptor: string) => {
    try {
      return readlinkSync(join(descriptors, descriptor));
    } catch {
      // The descriptor that readdirSync itself used.
      return '';
    }
  };
  try {
    return readdirSync(descriptors)
      .map(target)
      .filter((path) => path.startsWith(directory));
  } catch {
    return [];
  }
}
