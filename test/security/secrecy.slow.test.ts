/**
 * Neither the API key nor any other field of the secret becomes visible, whatever fails and however the service repeats
 * the key: in no log line, metric, error, event, payload, item, object or file, in none of the encodings below.
 *
 * The bodies of pages are the exception: they are stored byte for byte, so a service that writes the key into its
 * reports has published it itself. A key in a cursor or a content type would spread into manifests, metadata and logs;
 * such a response breaks the contract.
 */

import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { join, relative } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { StepHandler } from '../../lib/aws/lambda/step-handler.ts';
import { apiSchema } from '../../lib/service/api/description.ts';
import { byStep } from '../../lib/core/state-machine/definition.ts';
import {
  combineFaults,
  connectionReset,
  errorResponse,
  type Fault,
  throttled,
  truncated,
} from '../support/service/faults.ts';
import { inMemoryReports } from '../support/service/in-memory-reports.ts';
import { startSimulator } from '../support/service/simulator.ts';
import {
  clientSecret,
  describedWithTokens,
  startTokenServer,
  type TokenServer,
} from '../support/service/token-server.ts';
import { deployWith } from '../support/aws/cdk-deployment.ts';
import { captureOutput, deployedFunctions } from '../support/aws/deployed-functions.ts';
import { createFakeAws, type FakeAws } from '../support/aws/fake-aws.ts';
import { type ExecutionResult, execute, type Functions } from '../support/export/function-machine.ts';
import { type CommandResult, runInProcess } from '../support/process/command-line.ts';
import { searchForSecrets } from '../support/secret-search.ts';
import { someReports } from '../support/service/simulator-client.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

/** Each of their characters is escaped in at least one encoding. */
const keys = { former: 'F0rmer/key+for="tests"&<x>\\%41', current: 'Curr3nt/key+for="tests"&<y>\\%42' };

/** Sent beside the key, as a gateway requires. */
const password = 'hunter2-but-longer';
const send = { 'X-SERVICE-API-KEY': '{secret.apiKey}', 'X-Gateway-Password': '{secret.password}' };

/** The same in the URL, which the service repeats in its links. */
const api = {
  request: { path: '/v1/reports', query: { since: '{since}', limit: '{size}' } },
  auth: { kind: 'key', query: { api_key: '{secret.apiKey}', 'gateway[password]': '{secret.password}' } },
  next: { from: 'link' },
  page: { format: 'json', reports: '/data/*' },
} as const;
const places = [
  ['in headers', { send }],
  ['in the query of the URL', { api }],
] as const;
type Place = (typeof places)[number][1];

/** A secret with several fields, two of which are sent. */
const secretWith = (apiKey: string) =>
  JSON.stringify({ user: 'reports-reader-8c1d', apiKey, password, note: 'rotated by Ann Onym' });

const secrets = {
  'the former key': keys.former,
  'the current key': keys.current,
  'the whole former secret': secretWith(keys.former),
  'the whole current secret': secretWith(keys.current),
  'the password in the secret': password,
  'the user in the secret': 'reports-reader-8c1d',
  'the note in the secret': 'rotated by Ann Onym',
};

/** How a service may encode a key that it repeats. */
const encodings: Readonly<Record<string, (key: string) => string>> = {
  plain: (key) => key,
  'in upper case': (key) => key.toUpperCase(),
  'as in a URL': (key) => encodeURIComponent(key),
  'as in a form': (key) => new URLSearchParams({ key }).toString(),
  'as in JSON, twice': (key) => JSON.stringify(JSON.stringify({ key })),
  'as in HTML': (key) => key.replaceAll(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`),
  'as JSON in HTML': (key) => JSON.stringify({ key }).replaceAll('&', '&amp;').replaceAll('"', '&quot;'),
  'in Base64': (key) => Buffer.from(`user:${key}:x`).toString('base64'),
  'in hexadecimal': (key) => Buffer.from(key).toString('hex').toUpperCase(),
};

/** Responses that contain `text`, each in another place. */
function echoingFaults(text: string): Readonly<Record<string, Fault>> {
  const headers = {
    'x-request-id': text,
    'x-echo': text,
    'set-cookie': `key=${text}`,
    date: text,
    'retry-after': text,
  };
  const rejection = (status: number) => combineFaults(errorResponse(status, `You sent ${text}`), { headers });
  return {
    'a body of 400': rejection(400),
    'a body of 401': rejection(401),
    'a body of 403 that is truncated': combineFaults(rejection(403), { disconnect: { at: 40, by: 'close' } }),
    'a body of 410': rejection(410),
    'a body of 429': combineFaults(rejection(429), { headers: { 'retry-after': '21' } }),
    'a body of 500': rejection(500),
    'a page that is truncated': combineFaults({ headers }, truncated(20)),
    'a redirect': combineFaults(errorResponse(302), {
      headers: { location: `https://${text.replaceAll(/[^\w.~-]/g, '')}.example/${text}?k=${text}` },
    }),
    'a content type': { headers: { ...headers, 'content-type': `text/${text}` } },
    'a content type of XML': { headers: { 'content-type': `application/xml; note=${JSON.stringify(text)}` } },
    'a content encoding': { headers: { 'content-encoding': text } },
    'a cursor': { cursors: [text] },
    'a cursor, twice': { cursors: [text, text] },
    'broken XML': { body: () => `<reports><${text.replaceAll(/[^\w]/g, '')}></reports>` },
    'text instead of XML': { body: () => text },
    'a malformed header': { headers: { 'content-length': text } },
  };
}

const output = captureOutput();

interface Deployment extends AsyncDisposable {
  readonly aws: FakeAws;
  readonly functions: Functions;
  /** The same functions in new execution environments. */
  readonly restarted: () => Functions;
  /** The errors that the functions threw. */
  readonly thrown: readonly unknown[];
  /** The faults of the next requests, in order. */
  readonly faults: (Fault | undefined)[];
}

async function deploy(place: Place): Promise<Deployment> {
  const aws = createFakeAws();
  const service = await startEchoingService(place);
  const thrown: unknown[] = [];
  aws.secrets.set('reports/api-key', secretWith(keys.current));
  const recordErrors =
    (handler: StepHandler<unknown>): StepHandler<unknown> =>
    (event, context) =>
      handler(event, context).catch((error: unknown) => {
        thrown.push(error);
        throw error;
      });
  const settings = {
    service: { baseUrl: service.baseUrl, ...place },
    exports: [{ name: 'reports', size: 2, maxCursorRestarts: 0 }],
  };
  const restarted = (): Functions => {
    const functions = deployedFunctions(aws, settings);
    return byStep((step) => recordErrors(functions[step]));
  };
  return {
    aws,
    thrown,
    faults: service.faults,
    functions: restarted(),
    restarted,
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]();
    },
  };
}

/** Everything that becomes visible outside the functions, by place. */
async function everythingVisible(
  { aws, thrown }: Deployment,
  executions: readonly unknown[],
): Promise<Record<string, unknown>> {
  const objects = [...aws.requested].map(([key, properties]) => [
    key,
    { ...properties, Body: undefined },
    key.endsWith('.xml') ? 'a page' : aws.bucket('bucket').objects.get(key)?.body.toString(),
  ]);
  return { 'lines and metrics': output.text(), executions, errors: thrown, items: aws.items(), objects };
}

describe('the search for secrets', () => {
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

  it.each(Object.entries(encodings))('finds a key encoded %s, in every place', (_, encode) => {
    const found = searchForSecrets(planted(`before ${encode(keys.current)} after`), secrets);
    expect(new Set(found.map(({ where }) => where))).toEqual(new Set(Object.keys(planted(''))));
    expect(new Set(found.map(({ secret }) => secret))).toEqual(new Set(['the current key']));
  });

  it('finds a whole secret and each of its fields', () => {
    const found = searchForSecrets({ dump: { SecretString: secretWith(keys.former) } }, secrets);
    expect(new Set(found.map(({ secret }) => secret))).toEqual(
      new Set(Object.keys(secrets).filter((name) => !name.includes('current'))),
    );
  });

  it('finds a key with invisible characters inside, and nothing in harmless text', () => {
    const separated = Array.from(keys.current).join('\u200b');
    expect(searchForSecrets({ separated }, secrets)).not.toEqual([]);
    expect(searchForSecrets(planted('Curr3nt weather, for tests'), secrets)).toEqual([]);
  });
});

/** All responses of {@link echoingFaults}, each in another encoding, beginning with the encoding number `first`. */
function echoingFaultsInTurn(first: number, secret = keys.current): (readonly [place: string, fault: Fault])[] {
  const encoders = Object.values(encodings);
  const places = Object.keys(echoingFaults(''));
  return places.map((place, index) => {
    const encode = encoders[(first + index) % encoders.length] ?? String;
    return [place, echoingFaults(encode(secret))[place] ?? {}];
  });
}

describe.each(places)('a run on AWS with the secrets %s', (_, place) => {
  it('reveals nothing of the secret when the service repeats the key in each place', async () => {
    await using deployment = await deploy(place);
    const { functions, faults } = deployment;
    const executions: ExecutionResult[] = [];
    const all = [...echoingFaultsInTurn(0), ...echoingFaultsInTurn(5, password)];
    for (const [index, [place, fault]] of all.entries()) {
      // An invalid response is requested three times. Faults left over from the previous execution are removed.
      faults.splice(0, faults.length, fault, fault, fault);
      executions.push(
        await execute(functions, { name: `${place.replaceAll(' ', '-')}-${index}`, input: { restart: true } }),
      );
    }
    faults.length = 0;
    executions.push(await execute(functions, { name: 'last', input: { restart: true } }));

    expect(executions.at(-1)?.status).toBe('succeeded');
    const names = new Set(executions.map(({ error }) => error));
    for (const name of ['ConfigurationError', 'RequestRejectedError', 'ContractError']) expect(names).toContain(name);
    expect(searchForSecrets(await everythingVisible(deployment, executions), secrets)).toEqual([]);
  });

  it('reveals nothing of it during a rotation, outages, throttling, resets and invalid pages, up to the manifest', async () => {
    await using deployment = await deploy(place);
    const { functions, aws, faults } = deployment;
    aws.secrets.set('reports/api-key', secretWith(keys.former));
    // The former key is rejected, read again, and is still the same.
    const first = await execute(functions, { name: 'first' });
    expect(first).toMatchObject({ status: 'failed', error: 'ConfigurationError' });

    aws.secrets.set('reports/api-key', secretWith(keys.current));
    const faultsWith = echoingFaults(keys.former);
    faults.push(
      undefined,
      faultsWith['a body of 500'],
      connectionReset('start'),
      connectionReset(10),
      faultsWith['a body of 429'],
      throttled('3600'),
    );
    faults.push(
      undefined,
      faultsWith['a page that is truncated'],
      faultsWith['broken XML'],
      faultsWith['a content type'],
      undefined,
    );
    faults.push(faultsWith['a cursor']);
    const second = await execute(functions, { name: 'second' });
    expect(second).toMatchObject({ status: 'succeeded', output: { reports: 9 } });
    expect(faults).toEqual([]);

    // A new execution environment reads a secret that is not valid JSON.
    aws.secrets.set('reports/api-key', `"${secretWith(keys.current)}`);
    const third = await execute(deployment.restarted(), { name: 'third' });
    expect(third).toMatchObject({ status: 'failed', error: 'ConfigurationError' });

    const everything = await everythingVisible(deployment, [first, second, third]);
    expect(JSON.stringify(everything.objects)).toContain('manifest.json');
    expect(everything.errors).not.toEqual([]);
    expect(searchForSecrets(everything, secrets)).toEqual([]);
  });
});

async function filesIn(directory: string): Promise<Record<string, unknown>> {
  const names = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = names.filter((entry) => entry.isFile() && !entry.name.endsWith('.xml'));
  const read = files.map(async ({ parentPath, name }) => [
    relative(directory, join(parentPath, name)),
    await readFile(join(parentPath, name)),
  ]);
  return Object.fromEntries(await Promise.all(read));
}

describe('a run on this machine', () => {
  it('reveals nothing of the key, whatever the command and its options are', async () => {
    await using out = await temporaryDirectory();
    await using service = await startEchoingService();
    const outputs: Record<string, CommandResult> = {};
    const run = async (name: string, words: readonly string[], fault?: Fault, key = keys.current) => {
      service.faults.splice(0, service.faults.length, ...(fault === undefined ? [] : [fault, fault]));
      const ended = await runInProcess([...words, '--out', out.path], { REPORT_EXPORT_API_KEY: key });
      outputs[name] = ended;
      return ended.status;
    };
    const faultsWith = echoingFaults(keys.current);
    const local = ['local', '--base-url', service.baseUrl, '--restart'];
    expect(await run('rejected', [...local, '--json'], faultsWith['a body of 400'])).toBe(1);
    expect(await run('unknown key', [...local, '--json'], undefined, keys.former)).toBe(1);
    expect(await run('redirected', local, faultsWith['a redirect'])).toBe(1);
    const file = join(out.path, 'settings.json');
    const services = { acme: { baseUrl: service.baseUrl, apiKeyEnv: keys.current } };
    await writeFile(file, JSON.stringify({ services, exports: [{ name: 'reports' }] }));
    expect(await run('key as the name', ['local', '--settings', file])).toBe(2);
    await rm(file);
    expect(await run('key with a space', [...local, '--json'], undefined, `${keys.current} `)).toBe(2);
    expect(await run('completed', [...local, '--json'])).toBe(0);
    expect(await run('rejected again', [...local, '--json'], faultsWith['a body of 400'])).toBe(1);

    // The other commands show what is stored of these runs, and the doctor sends requests of its own.
    for (const command of ['status', 'verify']) expect(await run(command, [command, 'reports', '--json'])).toBe(0);
    await run('plan', ['plan', 'reports', '--json']);
    const html = join(out.path, 'report.html');
    expect(await run('report', ['report', 'reports', '--json', '--to', html])).toBe(0);
    for (const [name, fault] of Object.entries(faultsWith)) {
      await run(`doctor, ${name}`, ['doctor', 'reports', '--json'], fault);
    }
    for (const [name, fault] of echoingFaultsInTurn(3)) {
      await run(`local, ${name}`, [...local, '--max-attempts', '1', '--json'], fault);
    }
    expect(JSON.stringify(outputs['doctor, a body of 401'])).toContain('problem');
    expect(searchForSecrets({ ...outputs, printed: output.text(), ...(await filesIn(out.path)) }, secrets)).toEqual([]);
  });
});

describe('a service with two secrets', () => {
  it.each(places)('has neither in its template, in files or in output: %s', async (_, place) => {
    await using out = await temporaryDirectory();
    await using service = await startEchoingService(place);
    vi.stubEnv('REPORT_EXPORT_API_KEY', secretWith(keys.current));
    onTestFinished(() => void vi.unstubAllEnvs());
    const settings = {
      services: { acme: { baseUrl: service.baseUrl, ...place } },
      exports: [{ name: 'reports', size: 2, maxCursorRestarts: 0 }],
    };
    const template = deployWith(settings).template.toJSON();
    const file = join(out.path, 'report-exporter.json');
    await writeFile(file, JSON.stringify(settings));
    const outputs: Record<string, CommandResult> = {};
    const run = async (words: readonly string[], fault?: Fault) => {
      service.faults.splice(0, service.faults.length, ...(fault === undefined ? [] : [fault, fault]));
      const ended = await runInProcess([...words, '--out', out.path, '--json'], {
        REPORT_EXPORT_API_KEY: secretWith(keys.current),
      });
      outputs[`${words.join(' ')} ${Object.keys(outputs).length}`] = ended;
      return ended.status;
    };
    const local = ['local', '--settings', file, '--restart', '--max-attempts', '1'];
    for (const secret of [keys.current, password]) {
      for (const [, fault] of echoingFaultsInTurn(2, secret)) {
        await run(local, fault);
        await run(['plan', 'reports'], fault);
      }
    }
    expect(await run(local)).toBe(0);
    expect(await run(['plan', '--request', '--settings', file, '--since', '2026-01-01T00:00:00Z'])).toBe(0);
    expect(JSON.stringify(outputs)).toContain('api' in place ? 'api_key=(field apiKey of' : '(field apiKey of');
    for (const command of ['status', 'verify', 'plan']) expect(await run([command, 'reports'])).toBe(0);
    const files = await filesIn(out.path);
    expect(Object.keys(files).join()).toContain('state.sqlite');
    expect(searchForSecrets({ template, ...outputs, printed: output.text(), ...files }, secrets)).toEqual([]);
  });
});

describe('refresh tokens', () => {
  /** All tokens that the server, which quotes them in its errors, has issued. */
  const secretsOf = (server: TokenServer) =>
    Object.fromEntries([clientSecret, ...server.issued(), ...server.exchanged].map((token) => [token, token]));
  const settingsWith = ({ url }: TokenServer) => ({
    service: { baseUrl: url, api: describedWithTokens(url) },
    exports: [{ name: 'reports' }],
  });
  const outage = (response: ServerResponse, form: URLSearchParams) =>
    response.writeHead(500, { 'content-type': 'text/plain' }).end(`${form.toString()} failed`);

  it('are revealed by no run on AWS, whatever the authorization server repeats', async () => {
    await using server = await startTokenServer({ pages: 5, lifeSeconds: 0 });
    const aws = createFakeAws();
    const thrown: unknown[] = [];
    const settings = settingsWith(server);
    const deployment = { aws, thrown, functions: deployedFunctions(aws, settings) } as unknown as Deployment;
    const results: ExecutionResult[] = [];
    const run = async (name: string) => {
      const result = await execute(deployment.functions, { name });
      results.push(result);
      return [result.status, result.error];
    };
    aws.secrets.set(
      'reports/api-key',
      JSON.stringify({ client_secret: 'wrong', ...JSON.parse(server.consent()), note: 1 }),
    );
    server.options.respond = outage;
    expect(await run('outage')).toEqual(['failed', 'ServiceUnavailableError']);
    server.options.respond = undefined;
    aws.secrets.set('reports/api-key', '{"client_secret":"0123456789","refresh_token":"never-issued-0123456789"}');
    expect(await run('revoked')).toEqual(['failed', 'ConfigurationError']);
    aws.secrets.set('reports/api-key', server.consent());
    expect(await run('completed')).toEqual(['succeeded', undefined]);
    expect(server.reused).toEqual([]);
    const everything = await everythingVisible(deployment, results);
    expect(searchForSecrets(everything, { ...secretsOf(server), other: 'never-issued-0123456789' })).toEqual([]);
  });

  it('are revealed by no run on this machine, except in the file that has them', async () => {
    await using server = await startTokenServer({ pages: 3, lifeSeconds: 0 });
    await using out = await temporaryDirectory();
    const { service, exports } = settingsWith(server);
    const file = join(out.path, 'report-exporter.json');
    await writeFile(file, JSON.stringify({ services: { acme: service }, exports: [{ name: exports[0]?.name }] }));
    const outputs: Record<string, CommandResult> = {};
    const run = async (words: readonly string[], secret: string) => {
      const ended = await runInProcess([...words, '--json'], { REPORT_EXPORT_API_KEY: secret });
      outputs[`${words[0]} ${Object.keys(outputs).length}`] = ended;
      return ended.status;
    };
    const consent = server.consent();
    const local = ['local', '--settings', file, '--out', out.path, '--max-attempts', '1'];
    server.options.respond = outage;
    expect(await run(local, consent)).toBe(1);
    server.options.respond = undefined;
    expect(await run(local, '{"refresh_token":""}')).toBe(2);
    expect(await run(['plan', '--request', ...local.slice(1, 5)], consent)).toBe(0);
    expect(await run(local, consent)).toBe(0);
    for (const command of ['status', 'verify', 'doctor', 'plan']) {
      expect(await run([command, 'reports', '--out', out.path], consent)).toBe(0);
    }
    expect(await run(['report', 'reports', '--out', out.path, '--to', join(out.path, 'report.html')], consent)).toBe(0);
    server.expire();
    const revoked = JSON.stringify({ ...JSON.parse(consent), refresh_token: server.exchanged[2] });
    expect(await run(['doctor', 'reports', '--out', out.path], revoked)).toBe(1);
    expect(server.reused).toContain(server.exchanged[2]);

    const files = Object.entries(await filesIn(out.path));
    const [tokens, others] = [true, false].map((isToken) =>
      Object.fromEntries(files.filter(([name]) => name.startsWith('.tokens/') === isToken)),
    );
    expect(searchForSecrets(tokens ?? {}, secretsOf(server))).not.toEqual([]);
    expect(searchForSecrets(tokens ?? {}, { clientSecret })).toEqual([]);
    expect(searchForSecrets({ ...outputs, printed: output.text(), ...others }, secretsOf(server))).toEqual([]);
  });
});

interface EchoingService extends AsyncDisposable {
  readonly baseUrl: string;
  /** The faults of the next requests, in order. */
  readonly faults: (Fault | undefined)[];
}

async function startEchoingService(place: Place = { send }): Promise<EchoingService> {
  const faults: (Fault | undefined)[] = [];
  const simulator = await startSimulator({
    vendor: 'SERVICE',
    ...('api' in place ? { apiKey: secretWith(keys.current), api: apiSchema.parse(api) } : { apiKey: keys.current }),
    pageSize: 2,
    reports: inMemoryReports(someReports(9)),
    faults: () => faults.shift(),
  });
  return { baseUrl: simulator.baseUrl, faults, [Symbol.asyncDispose]: () => simulator.close() };
}
