/**
 * Simulated vendors of report jobs, as their documentation describes them, with their oddities. Each has reports with a
 * date; the result of a job has those of its period that existed when it was created.
 */

import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { listen } from './loopback.ts';

export interface Row {
  readonly id: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

interface VendorJob {
  readonly id: string;
  readonly rows: readonly Row[];
  polls: number;
  isStarted: boolean;
}

export interface Asked {
  readonly method: string;
  readonly url: URL;
  readonly headers: IncomingMessage['headers'];
  readonly json: Readonly<Record<string, unknown>>;
  readonly form: URLSearchParams;
}

export interface Reply {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string | undefined>>;
  readonly body?: object | string | Buffer;
}

type Ending = 'done' | 'failed' | 'unnamed';

interface VendorWorld {
  readonly rows: Row[];
  readonly jobs: Map<string, VendorJob>;
  /** What a job becomes once it is over. */
  endOf: (job: VendorJob) => Ending;
  /** How often a job is not over when it is asked for. */
  waits: number;
  /** The address of the host of the files. */
  readonly filesUrl: () => string;
  readonly apiUrl: () => string;
  /** Creates a job, of reports from `from` until before `to`. */
  readonly create: (from: number, to: number) => VendorJob;
  /** The state of a job that is asked for; undefined: there is none. */
  readonly poll: (id: string) => { readonly job: VendorJob; readonly state: 'waiting' | Ending } | undefined;
}

export interface JobVendor {
  /** The file with its description in docs/apis. */
  readonly file: string;
  readonly reply: (asked: Asked, world: VendorWorld) => Reply;
  /** The file at a path, by a host of its own. */
  readonly replyWithFile?: (asked: Asked, world: VendorWorld) => Reply;
  /** How many jobs a run has. */
  readonly jobs?: number;
  /** What messages call a state that no condition names. */
  readonly unnamed: string;
}

const ms = (text: unknown): number => Date.parse(String(text));
const day = 86_400_000;
/** Dates of the vendors with days, without their zone: the rows are far from midnight. */
const dayMs = (text: unknown, days = 0): number => ms(`${String(text)}T00:00:00Z`) + days * day;
const csv = (rows: readonly Row[], delimiter = ','): string =>
  [['id', 'at'], ...rows.map(({ id, at }) => [id, new Date(at).toISOString()])]
    .map((fields) => `${fields.join(delimiter)}\n`)
    .join('');
const lines = (rows: readonly Row[]): string => rows.map((row) => `${JSON.stringify(row)}\n`).join('');
const idIn = (url: URL, pattern: RegExp): string => decodeURIComponent(pattern.exec(url.pathname)?.[1] ?? '');
const notFound: Reply = { status: 404, body: { message: 'not found' } };
/** The signature of a URL, which is enough to read the file. */
export const signature = 'X-Amz-Signature=5ecret5ignature';
const fileUrl = ({ filesUrl }: VendorWorld, id: string): string =>
  `${filesUrl()}/files/${encodeURIComponent(id)}?${signature}`;
const rowsOfFile = ({ url }: Asked, { jobs }: VendorWorld): readonly Row[] | undefined =>
  url.search.includes(signature) ? jobs.get(idIn(url, /^\/files\/([^/]+)/))?.rows : undefined;

/** A file with the rows, or 403, as S3 answers for a URL that is not signed. */
const fileWith =
  (bodyOf: (rows: readonly Row[]) => string | Buffer): NonNullable<JobVendor['replyWithFile']> =>
  (asked, world) => {
    const rows = rowsOfFile(asked, world);
    if (rows === undefined) return { status: 403, headers: { 'content-type': 'application/xml' }, body: '<Error/>' };
    return { headers: { 'content-type': 'binary/octet-stream' }, body: bodyOf(rows) };
  };

const page = (rows: readonly Row[], { searchParams }: URL, names: readonly [offset: string, size: string]) => {
  const offset = Number(searchParams.get(names[0]) ?? 0);
  const size = Number(searchParams.get(names[1]) ?? 1_000);
  const next = offset + size < rows.length ? offset + size : undefined;
  return { rows: rows.slice(offset, offset + size), next };
};

export const jobVendors: readonly JobVendor[] = [
  {
    file: 'amazon-reports.json',
    unnamed: 'PAUSED',
    reply({ method, url, json }, world) {
      if (method === 'POST') {
        return { status: 202, body: { reportId: world.create(ms(json.dataStartTime), ms(json.dataEndTime)).id } };
      }
      const document = idIn(url, /\/documents\/doc-(.+)$/);
      if (document !== '')
        return {
          body: { reportDocumentId: `doc-${document}`, url: fileUrl(world, document), compressionAlgorithm: 'GZIP' },
        };
      const polled = world.poll(idIn(url, /\/reports\/([^/]+)$/));
      if (polled === undefined) return notFound;
      const { job, state } = polled;
      // A report without data is cancelled.
      const done = job.rows.length === 0 ? 'CANCELLED' : 'DONE';
      const status = {
        waiting: job.polls === 1 ? 'IN_QUEUE' : 'IN_PROGRESS',
        done,
        failed: 'FATAL',
        unnamed: 'PAUSED',
      }[state];
      return {
        body: {
          reportId: job.id,
          processingStatus: status,
          ...(status === 'DONE' && { reportDocumentId: `doc-${job.id}` }),
        },
      };
    },
    // In two members, as if it had been written in two parts.
    replyWithFile: fileWith((rows) => {
      const text = csv(rows, '\t');
      return Buffer.concat([gzipSync(text.slice(0, 10)), gzipSync(text.slice(10))]);
    }),
  },
  {
    file: 'salesforce-bulk-query.json',
    unnamed: 'Suspended',
    reply({ method, url, json }, world) {
      if (method === 'POST') {
        const [, from, to] = />= (\S+) AND \w+ < (\S+)/.exec(String(json.query)) ?? [];
        return { body: { id: world.create(ms(from), ms(to)).id, state: 'UploadComplete' } };
      }
      const rows = world.jobs.get(idIn(url, /\/query\/([^/]+)\/results$/))?.rows;
      if (rows !== undefined) {
        const { rows: part, next } = page(rows, url, ['locator', 'maxRecords']);
        return { headers: { 'content-type': 'text/csv', 'sforce-locator': String(next ?? 'null') }, body: csv(part) };
      }
      const polled = world.poll(idIn(url, /\/query\/([^/]+)$/));
      if (polled === undefined) return notFound;
      const state = { waiting: 'InProgress', done: 'JobComplete', failed: 'Failed', unnamed: 'Suspended' }[
        polled.state
      ];
      return { body: { id: polled.job.id, state } };
    },
  },
  {
    file: 'shopify-bulk-orders.json',
    unnamed: 'PAUSED',
    reply({ json }, world) {
      const { query = '', id } = (json as { readonly variables: { readonly query?: string; readonly id?: string } })
        .variables;
      if (id === undefined) {
        const [, from, to] = />='(\S+)' AND \w+:<'(\S+)'/.exec(query) ?? [];
        // One at a time.
        const isBusy = [...world.jobs.values()].some((each) => each.polls < world.waits);
        const userErrors = isBusy
          ? [{ code: 'OPERATION_IN_PROGRESS', message: 'a bulk query operation is in progress' }]
          : [];
        const bulkOperation = isBusy ? null : { id: world.create(ms(from), ms(to)).id };
        return { body: { data: { bulkOperationRunQuery: { bulkOperation, userErrors } } } };
      }
      const polled = world.poll(id);
      if (polled === undefined) return { body: { data: { node: null } } };
      const { job, state } = polled;
      const status = { waiting: 'RUNNING', done: 'COMPLETED', failed: 'FAILED', unnamed: 'PAUSED' }[state];
      const url = state === 'done' && job.rows.length > 0 ? fileUrl(world, job.id) : null;
      return { body: { data: { node: { status, errorCode: null, objectCount: String(job.rows.length), url } } } };
    },
    replyWithFile: fileWith(lines),
  },
  {
    file: 'amazon-ads-report.json',
    unnamed: 'SKIPPED',
    reply({ method, url, json, headers }, world) {
      if (headers['amazon-advertising-api-scope'] !== '1234567890')
        return { status: 401, body: { message: 'no profile' } };
      if (method === 'POST') {
        if (headers['content-type'] !== 'application/vnd.createasyncreportrequest.v3+json')
          return { status: 415, body: {} };
        const [from, to] = [dayMs(json.startDate), dayMs(json.endDate, 1)];
        const id = createHash('md5').update(`${from}-${to}`).digest('hex');
        if (world.jobs.has(id))
          return { status: 425, body: { code: '425', detail: `The Request is a duplicate of : ${id}` } };
        world.jobs.set(id, world.create(from, to));
        return { body: { reportId: id, status: 'PENDING' } };
      }
      const polled = world.poll(idIn(url, /\/reports\/([^/]+)$/));
      if (polled === undefined) return notFound;
      const status = { waiting: 'PROCESSING', done: 'COMPLETED', failed: 'FAILED', unnamed: 'SKIPPED' }[polled.state];
      return { body: { status, url: polled.state === 'done' ? fileUrl(world, polled.job.id) : null } };
    },
    replyWithFile: fileWith((rows) => gzipSync(JSON.stringify(rows))),
  },
  {
    file: 'stripe-report.json',
    unnamed: 'paused',
    reply({ method, url, form }, world) {
      const rows = rowsOfFile({ url } as Asked, world);
      if (rows !== undefined) return { headers: { 'content-type': 'text/csv' }, body: csv(rows) };
      if (method === 'POST') {
        const [from, to] = ['start', 'end'].map((name) => Number(form.get(`parameters[interval_${name}]`)) * 1_000);
        return { body: { id: world.create(from ?? 0, to ?? 0).id, status: 'pending' } };
      }
      const polled = world.poll(idIn(url, /\/report_runs\/([^/]+)$/));
      if (polled === undefined) return { status: 404, body: { error: { message: 'No such report run' } } };
      const status = { waiting: 'pending', done: 'succeeded', failed: 'failed', unnamed: 'paused' }[polled.state];
      const result = polled.state === 'done' ? { url: `${world.apiUrl()}/files/${polled.job.id}?${signature}` } : null;
      return { body: { id: polled.job.id, status, result } };
    },
  },
  {
    file: 'meta-insights.json',
    unnamed: 'Job Paused',
    reply({ method, url, form }, world) {
      if (method === 'POST') {
        const [from, to] = [dayMs(form.get('time_range[since]')), dayMs(form.get('time_range[until]'), 1)];
        return { body: { report_run_id: world.create(from, to).id } };
      }
      const job = world.jobs.get(idIn(url, /^\/v24\.0\/([^/]+)\/insights$/));
      if (job !== undefined) {
        // For a moment after "Job Completed".
        job.polls += 1;
        if (job.polls === world.waits + 2)
          return { status: 400, body: { error: { code: 2637, message: 'not ready' } } };
        const { rows, next } = page(job.rows, url, ['after', 'limit']);
        const after = String(next ?? job.rows.length);
        const paging = { cursors: { after }, ...(next !== undefined && { next: `${world.apiUrl()}/next` }) };
        return { body: { data: rows, ...(rows.length > 0 && { paging }) } };
      }
      const polled = world.poll(idIn(url, /^\/v24\.0\/([^/]+)$/));
      if (polled === undefined) return notFound;
      const status = { waiting: 'Job Running', done: 'Job Completed', failed: 'Job Failed', unnamed: 'Job Paused' }[
        polled.state
      ];
      return {
        body: { id: polled.job.id, async_status: status, async_percent_completion: polled.state === 'done' ? 100 : 50 },
      };
    },
  },
  {
    file: 'pinterest-report.json',
    unnamed: 'PAUSED',
    reply({ method, url, json }, world) {
      if (method === 'POST') {
        const { id } = world.create(dayMs(json.start_date), dayMs(json.end_date, 1));
        return { body: { report_status: 'IN_PROGRESS', token: id, message: '' } };
      }
      const polled = world.poll(url.searchParams.get('token') ?? '');
      if (polled === undefined) return { body: { report_status: 'DOES_NOT_EXIST', url: '', size: 0 } };
      const status = { waiting: 'IN_PROGRESS', done: 'FINISHED', failed: 'FAILED', unnamed: 'PAUSED' }[polled.state];
      return { body: { report_status: status, url: polled.state === 'done' ? fileUrl(world, polled.job.id) : '' } };
    },
    replyWithFile: fileWith((rows) => csv(rows)),
  },
  {
    file: 'google-ad-manager.json',
    unnamed: '',
    reply({ method, url }, world) {
      const name = (id: string) => `networks/123456/operations/reports/runs/${id}`;
      if (method === 'POST') return { body: { name: name(world.create(0, Number.MAX_SAFE_INTEGER).id) } };
      const job = world.jobs.get(idIn(url, /\/results\/of-(.+):fetchRows$/));
      if (job !== undefined) {
        const { rows, next } = page(job.rows, url, ['pageToken', 'pageSize']);
        return {
          body: { rows, totalRowCount: job.rows.length, ...(next !== undefined && { nextPageToken: String(next) }) },
        };
      }
      const polled = world.poll(idIn(url, /\/runs\/([^/]+)$/));
      if (polled === undefined) return { status: 404, body: { error: { code: 404, status: 'NOT_FOUND' } } };
      const {
        job: { id },
        state,
      } = polled;
      if (state === 'failed') return { body: { name: name(id), done: true, error: { code: 13, message: 'INTERNAL' } } };
      const reportResult = `networks/123456/reports/7890/results/of-${id}`;
      return { body: { name: name(id), ...(state !== 'waiting' && { done: true, response: { reportResult } }) } };
    },
  },
  {
    file: 'dune-query.json',
    unnamed: 'QUERY_STATE_PAUSED',
    reply({ method, url, json }, world) {
      if (method === 'POST') {
        const { since, until } = (json as { readonly query_parameters: Readonly<Record<string, string>> })
          .query_parameters;
        return { body: { execution_id: world.create(ms(since), ms(until)).id, state: 'QUERY_STATE_PENDING' } };
      }
      const job = world.jobs.get(idIn(url, /\/execution\/([^/]+)\/results$/));
      if (job !== undefined) {
        const { rows, next } = page(job.rows, url, ['offset', 'limit']);
        return {
          body: { state: 'QUERY_STATE_COMPLETED', result: { rows }, ...(next !== undefined && { next_offset: next }) },
        };
      }
      const polled = world.poll(idIn(url, /\/execution\/([^/]+)\/status$/));
      if (polled === undefined) return notFound;
      const end = { waiting: 'EXECUTING', done: 'COMPLETED', failed: 'FAILED', unnamed: 'PAUSED' }[polled.state];
      return { body: { execution_id: polled.job.id, state: `QUERY_STATE_${end}` } };
    },
  },
  {
    file: 'hubspot-export.json',
    unnamed: 'PAUSED',
    reply({ method, url, json }, world) {
      if (method === 'POST') {
        const { filters } = (json as { publicCrmSearchRequest: { filters: readonly { value: number }[] } })
          .publicCrmSearchRequest;
        return { status: 202, body: { id: world.create(Number(filters[0]?.value), Number(filters[1]?.value)).id } };
      }
      const polled = world.poll(idIn(url, /\/tasks\/([^/]+)\/status$/));
      if (polled === undefined) return notFound;
      const status = { waiting: 'PROCESSING', done: 'COMPLETE', failed: 'CANCELED', unnamed: 'PAUSED' }[polled.state];
      return { body: { status, ...(polled.state === 'done' && { result: fileUrl(world, polled.job.id) }) } };
    },
    replyWithFile: fileWith((rows) => csv(rows)),
  },
  {
    file: 'fhir-export.json',
    unnamed: 'status 203',
    reply({ url, headers }, world) {
      const [, id = '', part] = /^\/files\/([^/]+)\/(\d)$/.exec(url.pathname) ?? [];
      const rows = world.jobs.get(id)?.rows;
      if (rows !== undefined) {
        const half = Math.ceil(rows.length / 2);
        const body = lines(part === '1' ? rows.slice(0, half) : rows.slice(half));
        return { headers: { 'content-type': 'application/fhir+ndjson' }, body };
      }
      const poll = url.searchParams.get('_jobId');
      if (poll === null) {
        if (headers.prefer !== 'respond-async') return { status: 400, body: { issue: [] } };
        const { id: created } = world.create(ms(url.searchParams.get('_since')), Number.MAX_SAFE_INTEGER);
        return {
          status: 202,
          headers: { 'content-location': `${world.apiUrl()}/r4/$export-poll-status?_jobId=${created}` },
        };
      }
      const polled = world.poll(poll);
      if (polled === undefined) return { status: 404, body: { resourceType: 'OperationOutcome' } };
      const { job, state } = polled;
      if (state === 'waiting')
        return { status: 202, headers: { 'x-progress': 'Build in progress', 'retry-after': '120' } };
      if (state === 'failed') return { status: 500, body: { resourceType: 'OperationOutcome' } };
      if (state === 'unnamed') return { status: 203, body: { resourceType: 'Bundle' } };
      const parts = job.rows.length === 0 ? [] : job.rows.length === 1 ? ['1'] : ['1', '2'];
      const output = parts.map((each) => ({ type: 'Patient', url: `${world.apiUrl()}/files/${job.id}/${each}` }));
      return {
        body: { transactionTime: new Date(0).toISOString(), requiresAccessToken: true, output, parts, error: [] },
      };
    },
  },
  {
    file: 'marketo-leads.json',
    // A job may have 31 days.
    jobs: 2,
    unnamed: 'Paused',
    reply({ method, url, json }, world) {
      const ok = (result: object): Reply => ({ body: { success: true, result: [result] } });
      if (method === 'POST' && url.pathname.endsWith('/create.json')) {
        const { startAt, endAt } = (json as { filter: { updatedAt: Readonly<Record<string, string>> } }).filter
          .updatedAt;
        return ok({ exportId: world.create(ms(startAt), ms(endAt)).id, status: 'Created' });
      }
      const id = idIn(url, /\/export\/([^/]+)\/\w+\.json$/);
      const job = world.jobs.get(id);
      if (job === undefined) return { body: { success: false, errors: [{ code: '1013', message: 'not found' }] } };
      if (url.pathname.endsWith('/enqueue.json')) {
        job.isStarted = true;
        return ok({ exportId: id, status: 'Queued' });
      }
      if (url.pathname.endsWith('/file.json')) return { headers: { 'content-type': 'text/csv' }, body: csv(job.rows) };
      // Without a request that starts it, it stays so for ever.
      if (!job.isStarted) return ok({ exportId: id, status: 'Created' });
      const status = { waiting: 'Processing', done: 'Completed', failed: 'Failed', unnamed: 'Paused' }[
        world.poll(id)?.state ?? 'failed'
      ];
      return ok({ exportId: id, status, ...(status === 'Completed' && { numberOfRecords: job.rows.length }) });
    },
  },
];

/** A request as a server received it. */
export interface Received {
  readonly at: 'api' | 'files';
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
}

function send(response: ServerResponse, { status = 200, headers = {}, body = '' }: Reply, now: number): void {
  const isBytes = typeof body === 'string' || Buffer.isBuffer(body);
  const type = isBytes ? {} : { 'content-type': 'application/json' };
  const given = Object.entries(headers).filter(([, value]) => value !== undefined);
  response.writeHead(status, { date: new Date(now).toUTCString(), ...type, ...Object.fromEntries(given) });
  response.end(isBytes ? body : JSON.stringify(body));
}

/** Starts the servers of a vendor: of its API, and of the files of results. `fault` may answer in its place. */
export async function startJobVendor(
  vendor: Pick<JobVendor, 'reply' | 'replyWithFile'>,
  rows: readonly Row[],
  {
    now,
    fault = () => undefined,
  }: {
    readonly now: () => number;
    fault?: (asked: Asked, received: Received) => Reply | 'lost' | 'silent' | undefined;
  },
) {
  const received: Received[] = [];
  const urls = { api: '', files: '' };
  let created = 0;
  const world: VendorWorld = {
    rows: [...rows],
    jobs: new Map(),
    endOf: () => 'done',
    waits: 2,
    apiUrl: () => urls.api,
    filesUrl: () => urls.files,
    create(from, to) {
      created += 1;
      const selected = world.rows.filter(({ at }) => at >= from && at < Math.min(to, now() + 1));
      const job = { id: `7f3a-${created}`, rows: selected, polls: 0, isStarted: false };
      world.jobs.set(job.id, job);
      return job;
    },
    poll(id) {
      const job = world.jobs.get(id);
      if (job === undefined) return undefined;
      job.polls += 1;
      return { job, state: job.polls <= world.waits ? 'waiting' : world.endOf(job) };
    },
  };
  const start = (at: Received['at'], respond: NonNullable<JobVendor['replyWithFile']>) =>
    listen(
      createServer((request, response) => {
        text(request).then(
          (body) => {
            const isForm = (request.headers['content-type'] ?? '').includes('urlencoded');
            const { method = '', headers } = request;
            const asked: Asked = {
              method,
              url: new URL(request.url ?? '/', 'http://localhost'),
              headers,
              json: isForm || body === '' ? {} : JSON.parse(body),
              form: new URLSearchParams(isForm ? body : ''),
            };
            const one = { at, method, path: `${asked.url.pathname}${asked.url.search}`, headers };
            received.push(one);
            const reply = fault(asked, one) ?? respond(asked, world);
            if (reply === 'lost') response.destroy();
            else if (reply !== 'silent') send(response, reply, now());
          },
          () => {},
        );
      }),
    );
  const api = await start('api', vendor.reply);
  const files = await start('files', vendor.replyWithFile ?? (() => ({ status: 404 })));
  Object.assign(urls, { api: api.url, files: files.url });
  return {
    world,
    received,
    url: api.url,
    filesHost: new URL(files.url).host,
    /** How many jobs were created. */
    created: () => created,
    async [Symbol.asyncDispose]() {
      await Promise.all([api[Symbol.asyncDispose](), files[Symbol.asyncDispose]()]);
    },
  };
}
