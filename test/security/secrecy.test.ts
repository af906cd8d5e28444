/**
 * Neither the API key nor anything else of the secret is said anywhere, whatever goes wrong and however a service echoes the
 * key: in no line, metric, error, event, payload, item, object or file, in no writing we know of.
 *
 * One thing is left out: the bodies of pages. They are the service's own words, promised byte for byte; a service that
 * writes the key into its reports has told every reader itself. What it writes into a cursor or a content type would be
 * spread by us, into manifests, metadata and logs; such an answer breaks the contract.
 */

import { readdir, readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { DynamoDBClient, ScanCommand } from '@aws-sdk/client-dynamodb';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { beginRunHandler } from '../../functions/begin-run.ts';
import { exportPageHandler } from '../../functions/export-page.ts';
import { failRunHandler } from '../../functions/fail-run.ts';
import { finishRunHandler } from '../../functions/finish-run.ts';
import type { StepHandler } from '../../lib/aws/lambda/step-handler.ts';
import { systemRuntime } from '../../lib/core/clock.ts';
import { runLocally } from '../../lib/local/run.ts';
import { doctorCommand } from '../../lib/operator/commands/doctor.ts';
import { localCommand } from '../../lib/operator/commands/local.ts';
import { planCommand } from '../../lib/operator/commands/plan.ts';
import { reportCommand } from '../../lib/operator/commands/report.ts';
import { startCommand } from '../../lib/operator/commands/start.ts';
import { statusCommand } from '../../lib/operator/commands/status.ts';
import { verifyCommand } from '../../lib/operator/commands/verify.ts';
import { createProgress } from '../../lib/operator/output/progress.ts';
import type { LocalOptions } from '../../lib/operator/run-options.ts';
import { reportOf, seenNothing, summaryOf } from '../../lib/operator/run-summary.ts';
import { fixedApiKey } from '../../lib/report-service/client/api-key.ts';
import {
  combineFaults,
  connectionReset,
  errorResponse,
  type Fault,
  throttled,
  truncated,
} from '../../lib/report-service/simulator/faults.ts';
import { inMemoryReports } from '../../lib/report-service/simulator/report-source.ts';
import { startSimulator } from '../../lib/report-service/simulator/simulator.ts';
import { type LocalAws, startLocalAws } from '../support/aws/local-aws.ts';
import { anExportDefinition, anExportRequest } from '../support/builders.ts';
import { type ExecutionTold, execute, type Functions } from '../support/export/function-machine.ts';
import { searchForSecrets } from '../support/secret-search.ts';
import { clientFor } from '../support/service/service-client.ts';
import { someReports } from '../support/service/simulator-client.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

/** Each character of them is written differently somewhere. */
const keys = { former: 'F0rmer/key+for="tests"&<x>\\%41', current: 'Curr3nt/key+for="tests"&<y>\\%42' };

/** A secret of several fields, of which only one is the key. */
const secretWith = (apiKey: string) =>
  JSON.stringify({ user: 'reports-reader-8c1d', apiKey, password: 'hunter2-but-longer', note: 'rotated by Ann Onym' });

const secrets = {
  'the former key': keys.former,
  'the current key': keys.current,
  'the whole former secret': secretWith(keys.former),
  'the whole current secret': secretWith(keys.current),
  'another field of the secret': 'hunter2-but-longer',
  'the user in the secret': 'reports-reader-8c1d',
  'the note in the secret': 'rotated by Ann Onym',
};

/** How a service may write a key that it echoes. */
const writings: Readonly<Record<string, (key: string) => string>> = {
  plain: (key) => key,
  'in capitals': (key) => key.toUpperCase(),
  'as in a URL': (key) => encodeURIComponent(key),
  'as in a form': (key) => new URLSearchParams({ key }).toString(),
  'as in JSON, twice': (key) => JSON.stringify(JSON.stringify({ key })),
  'as in HTML': (key) => key.replaceAll(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`),
  'in Base64': (key) => Buffer.from(`user:${key}:x`).toString('base64'),
  'in hexadecimal': (key) => Buffer.from(key).toString('hex').toUpperCase(),
};

/** Answers that echo, wherever there is room for it. Header values are what HTTP lets through. */
function echoes(text: string): Readonly<Record<string, Fault>> {
  const headers = {
    'x-request-id': text,
    'x-echo': text,
    'set-cookie': `key=${text}`,
    date: text,
    'retry-after': text,
  };
  const refusal = (status: number) => combineFaults(errorResponse(status, `You sent ${text}`), { headers });
  return {
    'a body of 400': refusal(400),
    'a body of 401': refusal(401),
    'a body of 403 that breaks off': combineFaults(refusal(403), { disconnect: { at: 40, by: 'close' } }),
    'a body of 410': refusal(410),
    'a body of 429': combineFaults(refusal(429), { headers: { 'retry-after': '1' } }),
    'a body of 500': refusal(500),
    'a page that breaks off': combineFaults({ headers }, truncated(20)),
    'the place it points to': combineFaults(errorResponse(302), {
      headers: { location: `https://${text.replaceAll(/[^\w.~-]/g, '')}.example/${text}?k=${text}` },
    }),
    'a content type': { headers: { ...headers, 'content-type': `text/${text}` } },
    'a content type of XML': { headers: { 'content-type': `application/xml; note=${JSON.stringify(text)}` } },
    'a content encoding': { headers: { 'content-encoding': text } },
    'a cursor': { cursor: () => [text] },
    'a cursor, twice': { cursor: () => [text, text] },
    'broken XML': { body: () => `<reports><${text.replaceAll(/[^\w]/g, '')}></reports>` },
    'no XML at all': { body: () => text },
    'what is not HTTP': { headers: { 'content-length': text } },
  };
}

let said: string[] = [];
beforeEach(() => {
  said = [];
  const listen = (chunk: unknown) => {
    said.push(String(chunk));
    return true;
  };
  vi.spyOn(process.stdout, 'write').mockImplementation(listen);
  vi.spyOn(process.stderr, 'write').mockImplementation(listen);
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
});

interface Deployment extends AsyncDisposable {
  readonly aws: LocalAws;
  readonly functions: Functions;
  /** The same functions in containers of their own. */
  readonly restarted: () => Functions;
  /** What the functions threw, whole. */
  readonly thrown: readonly unknown[];
  /** The faults of the requests to come, in order. */
  readonly faults: (Fault | undefined)[];
}

async function deploy(): Promise<Deployment> {
  const aws = await startLocalAws();
  const service = await startEchoingService();
  const thrown: unknown[] = [];
  aws.secrets.set('reports/api-key', secretWith(keys.current));
  for (const [name, value] of Object.entries(aws.env)) vi.stubEnv(name, value);
  const env = {
    ...aws.env,
    EXPORT_SETTINGS: JSON.stringify({ name: 'reports', size: 2, maxCursorRestarts: 0, maxInlineWait: 'PT0S' }),
    SERVICE_SETTINGS: JSON.stringify({ baseUrl: service.baseUrl }),
    DEPLOYMENT_NAME: 'ReportExporter',
    TABLE_NAME: aws.table,
    BUCKET_NAME: 'bucket',
    KEY_PREFIX: '',
    API_KEY_SECRET_ID: 'reports/api-key',
    API_KEY_SECRET_FIELD: 'apiKey',
  };
  const overheard =
    (handler: StepHandler<unknown>): StepHandler<unknown> =>
    (event, context) =>
      handler(event, context).catch((error: unknown) => {
        thrown.push(error);
        throw error;
      });
  const restarted = (): Functions => ({
    BeginRun: overheard(beginRunHandler(env)),
    ExportPage: overheard(exportPageHandler(env)),
    FinishRun: overheard(finishRunHandler(env)),
    FailRun: overheard(failRunHandler(env)),
  });
  return {
    aws,
    thrown,
    faults: service.faults,
    functions: restarted(),
    restarted,
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]();
      await aws[Symbol.asyncDispose]();
    },
  };
}

/** All there is to be heard and seen of a deployment, by where. */
async function everythingSaid({ aws, thrown }: Deployment, told: readonly unknown[]): Promise<Record<string, unknown>> {
  const client = new DynamoDBClient({});
  const { Items } = await client.send(new ScanCommand({ TableName: aws.table }));
  client.destroy();
  const objects = [...aws.objects].map(([key, { body, headers }]) => [
    key,
    headers,
    key.endsWith('.xml') ? 'a page: the service’s own words' : body.toString(),
  ]);
  return { 'lines and metrics': said.join(''), executions: told, errors: thrown, items: Items, objects };
}

describe('the search itself', () => {
  const planted = (text: string): Record<string, unknown> => ({
    text,
    bytes: Buffer.from(`\0\x01${text}\xff`),
    error: new Error('outer', { cause: new AggregateError([Object.assign(new Error('inner'), { data: [{ text }] })]) }),
    stack: Object.assign(new Error('x'), { stack: `Error\n    at ${text}` }),
    hidden: Object.defineProperty({}, 'hidden', { value: text, enumerable: false }),
    name: { [text]: 1 },
    map: new Map([['a', { b: [text] }]]),
    json: JSON.stringify({ log: JSON.stringify({ message: text }) }),
  });

  it.each(Object.entries(writings))('finds a key that is written %s, wherever it is planted', (_, write) => {
    const found = searchForSecrets(planted(`before ${write(keys.current)} behind`), secrets);
    expect(new Set(found.map(({ where }) => where))).toEqual(new Set(Object.keys(planted(''))));
    expect(new Set(found.map(({ secret }) => secret))).toEqual(new Set(['the current key']));
  });

  it('finds a whole secret and each of its fields', () => {
    const found = searchForSecrets({ dump: { SecretString: secretWith(keys.former) } }, secrets);
    expect(new Set(found.map(({ secret }) => secret))).toEqual(
      new Set(Object.keys(secrets).filter((name) => !name.includes('current'))),
    );
  });

  it('finds a key with invisible characters between, and none where there is none', () => {
    const parted = Array.from(keys.current).join('\u200b');
    expect(searchForSecrets({ parted }, secrets)).not.toEqual([]);
    expect(searchForSecrets(planted('Curr3nt weather, for tests'), secrets)).toEqual([]);
  });
});

/** Each kind of answer with each kind of writing in turn, from the `first` on: over all turns, each has met each. */
function echoesInTurn(first: number): (readonly [place: string, fault: Fault])[] {
  const ways = Object.values(writings);
  const places = Object.keys(echoes(''));
  return places.map((place, loop) => {
    const write = ways[(first + loop) % ways.length] ?? String;
    return [place, echoes(write(keys.current))[place] ?? {}];
  });
}

describe('a run on AWS', () => {
  it('says nothing of the secret when every kind of answer echoes the key', async () => {
    await using deployment = await deploy();
    const { functions, faults } = deployment;
    const told: ExecutionTold[] = [];
    for (const [place, fault] of echoesInTurn(0)) {
      // As often as what may be a glitch is tried again; what was left over is taken away.
      faults.splice(0, faults.length, fault, fault, fault);
      told.push(await execute(functions, { name: place.replaceAll(' ', '-'), input: { restart: true } }));
    }
    faults.length = 0;
    told.push(await execute(functions, { name: 'last', input: { restart: true } }));

    expect(told.at(-1)?.status).toBe('succeeded');
    const names = new Set(told.map(({ error }) => error));
    for (const name of ['ConfigurationError', 'RequestRejectedError', 'ContractError']) expect(names).toContain(name);
    expect(searchForSecrets(await everythingSaid(deployment, told), secrets)).toEqual([]);
  });

  it('says nothing of it through a rotation, outages, throttling, resets and broken pages, up to the manifest', async () => {
    await using deployment = await deploy();
    const { functions, aws, faults } = deployment;
    aws.secrets.set('reports/api-key', secretWith(keys.former));
    // The former key is refused, looked up anew, and is the same.
    const first = await execute(functions, { name: 'first' });
    expect(first).toMatchObject({ status: 'failed', error: 'ConfigurationError' });

    aws.secrets.set('reports/api-key', secretWith(keys.current));
    const echo = echoes(keys.former);
    faults.push(
      undefined,
      echo['a body of 500'],
      connectionReset('start'),
      connectionReset(10),
      echo['a body of 429'],
      throttled('3600'),
    );
    faults.push(undefined, echo['a page that breaks off'], echo['broken XML'], echo['a content type'], undefined);
    faults.push(echo['a cursor']);
    const second = await execute(functions, { name: 'second' });
    expect(second).toMatchObject({ status: 'succeeded', output: { reports: 9 } });
    expect(faults).toEqual([]);

    // A container that knows no key yet finds a secret that cannot be read.
    aws.secrets.set('reports/api-key', `"${secretWith(keys.current)}`);
    const third = await execute(deployment.restarted(), { name: 'third' });
    expect(third).toMatchObject({ status: 'failed', error: 'ConfigurationError' });

    const everything = await everythingSaid(deployment, [first, second, third]);
    expect(JSON.stringify(everything.objects)).toContain('manifest.json');
    expect(everything.errors).not.toEqual([]);
    expect(searchForSecrets(everything, secrets)).toEqual([]);
  });
});

describe('a run on this machine', () => {
  /** A terminal that remembers. */
  function listening() {
    const heard: string[] = [];
    return { heard, isTTY: true, write: (text: string) => heard.push(text) };
  }

  async function filesIn(directory: string): Promise<Record<string, unknown>> {
    const names = await readdir(directory, { recursive: true, withFileTypes: true });
    const files = names.filter((entry) => entry.isFile() && !entry.name.endsWith('.xml'));
    const read = files.map(async ({ parentPath, name }) => [
      relative(directory, join(parentPath, name)),
      await readFile(join(parentPath, name)),
    ]);
    return Object.fromEntries(await Promise.all(read));
  }

  it('says nothing of the key when every kind of answer echoes it', async () => {
    await using out = await temporaryDirectory();
    await using service = await startEchoingService();
    await using client = clientFor({ url: service.baseUrl }, { apiKey: fixedApiKey(keys.current) });
    const [stdout, stderr] = [listening(), listening()];
    const outcomes: unknown[] = [];
    for (const [, fault] of [...echoesInTurn(3), ['none', undefined] as const]) {
      service.faults.splice(0, service.faults.length, ...(fault === undefined ? [] : [fault, fault, fault]));
      const progress = createProgress(stderr, Date.now);
      const outcome = await runLocally({
        definition: anExportDefinition({
          name: 'reports',
          request: anExportRequest({ source: service.baseUrl, size: 2 }),
        }),
        service: client,
        out: out.path,
        startInput: { restart: true },
        runtime: { ...systemRuntime, sleep: async () => {} },
        openObserver: () => ({ emit: progress.onEvent, onRetry: progress.onRetry, close() {} }),
        pauseSeconds: 0,
      });
      const report = reportOf(outcome, seenNothing('reports'), { help: 'help', watch: 'status' });
      stdout.write(summaryOf(report, 0) + JSON.stringify(report.json));
      outcomes.push(outcome);
    }
    expect(outcomes.at(-1)).toMatchObject({ status: 'completed' });
    const files = await filesIn(out.path);
    expect(Object.keys(files)).toEqual(expect.arrayContaining(['state.sqlite', 'reports/latest.json']));
    expect(stderr.heard.join('')).toContain('ContractError');
    expect(searchForSecrets({ outcomes, stdout: stdout.heard, stderr: stderr.heard, said, ...files }, secrets)).toEqual(
      [],
    );
  });

  it('by the command line says nothing of the key either, whatever the words are', async () => {
    await using out = await temporaryDirectory();
    await using service = await startEchoingService();
    const heard: Record<string, unknown> = {};
    const words = {
      vendor: 'SERVICE',
      export: 'reports',
      overlap: 'PT0S',
      format: 'XML',
      container: 'NONE',
      cursorIn: 'query',
    };
    const run = async (name: string, fault: Fault | undefined, options: Partial<LocalOptions>, key = keys.current) => {
      service.faults.splice(0, service.faults.length, ...(fault === undefined ? [] : [fault]));
      const [stdout, stderr] = [listening(), listening()];
      const status = await localCommand(
        {
          ...words,
          baseUrl: service.baseUrl,
          apiKeyEnv: 'THE_KEY',
          out: out.path,
          restart: true,
          json: true,
          ...options,
        },
        [],
        { env: { THE_KEY: key }, stdout, stderr, signal: new AbortController().signal },
      );
      heard[name] = { stdout: stdout.heard, stderr: stderr.heard };
      return status;
    };
    const echo = echoes(keys.current);
    expect(await run('refused', echo['a body of 400'], {})).toBe(1);
    expect(await run('unknown key', undefined, {}, keys.former)).toBe(1);
    expect(await run('redirected', echo['the place it points to'], { json: false })).toBe(1);
    expect(await run('key for a name', undefined, { apiKeyEnv: keys.current })).toBe(2);
    expect(await run('key with a blank', undefined, {}, `${keys.current} `)).toBe(2);
    expect(await run('completed', undefined, {})).toBe(0);
    expect(await run('refused again', echo['a body of 400'], {})).toBe(1);

    // What is remembered of all this is told by the operator's commands, and the doctor asks the service once more.
    const operator = async (name: string, command: OperatorCommand, fault?: Fault) => {
      service.faults.splice(0, service.faults.length, ...(fault === undefined ? [] : [fault, fault]));
      const [stdout, stderr] = [listening(), listening()];
      const world = { env: { THE_KEY: keys.current }, stdout, stderr, signal: new AbortController().signal };
      const to = join(out.path, `${name}.html`);
      const options = { out: out.path, json: true, runs: '10', version: '0', to };
      heard[name] = {
        status: await command('reports', options, [], world),
        stdout: stdout.heard,
        stderr: stderr.heard,
      };
    };
    await operator('status', statusCommand);
    await operator('plan', planCommand);
    await operator('verify', verifyCommand);
    await operator('report', reportCommand);
    for (const [name, fault] of Object.entries(echo)) await operator(`doctor, ${name}`, doctorCommand, fault);
    await operator('start', startCommand, echo['a body of 400']);
    expect(heard).toMatchObject({ status: { status: 0 }, verify: { status: 0 }, report: { status: 0 } });
    expect(JSON.stringify(heard['doctor, a body of 401'])).toContain('problem');
    expect(searchForSecrets({ ...heard, said, ...(await filesIn(out.path)) }, secrets)).toEqual([]);
  });
});

type OperatorCommand = (
  exportName: string,
  options: Parameters<typeof statusCommand>[1] & Parameters<typeof doctorCommand>[1] & { readonly to: string },
  problems: readonly string[],
  world: Parameters<typeof statusCommand>[3],
) => Promise<number>;

interface EchoingService extends AsyncDisposable {
  readonly baseUrl: string;
  /** The faults of the requests to come, in order. */
  readonly faults: (Fault | undefined)[];
}

async function startEchoingService(): Promise<EchoingService> {
  const faults: (Fault | undefined)[] = [];
  const simulator = await startSimulator({
    vendor: 'SERVICE',
    apiKey: keys.current,
    reports: inMemoryReports(someReports(9)),
    faults: () => faults.shift(),
  });
  return { baseUrl: simulator.baseUrl, faults, [Symbol.asyncDispose]: () => simulator.close() };
}
