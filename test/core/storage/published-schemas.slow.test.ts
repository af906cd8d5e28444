import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import type { PublishedName } from '../../../lib/core/storage/published-schemas.ts';
import { anExportRequest, at } from '../../support/builders.ts';
import { problemsIn } from '../../support/docs/published-schemas.ts';
import { fieldsOf, type Path, withField, withoutField } from '../../support/fields.ts';
import { anExportBench, type Bench } from '../../support/export/export-bench.ts';
import { execute, executionArn, type Functions, stepFunctions } from '../../support/export/function-machine.ts';
import { listen } from '../../support/service/loopback.ts';
import { aDirectory, jsonOf, run } from '../../support/process/command-line.ts';

/** The values that the tests below produce, by schema. The last suite derives invalid values from them. */
const samples: Record<PublishedName, unknown[]> = {
  'manifest.v1': [],
  'missing.v1': [],
  'run.v1': [],
  'latest.v1': [],
  'completed.v1': [],
  'failed.v1': [],
};

/** The violations of the schema in `value`, which is added to the samples. */
function violations(name: PublishedName, value: unknown): string[] {
  samples[name].push(JSON.parse(JSON.stringify(value)));
  return problemsIn(name, value);
}

describe('the files of a local run', () => {
  const read = async (path: string) => JSON.parse(await readFile(path, 'utf8')) as Record<string, unknown>;

  /** Runs the export and validates the manifest and `latest.json`. */
  async function runAndValidate(out: string, options: readonly string[], env: Readonly<Record<string, string>> = {}) {
    const ended = await run(['local', '--json', '--out', out, ...options], env);
    expect(ended.stderr).toContain('Completed');
    const manifest = await read(jsonOf(ended).manifest ?? '');
    expect(violations('manifest.v1', manifest)).toEqual([]);
    const name = manifest.bounded ? 'bounded.json' : 'run.json';
    const summary = await readFile(join(dirname(jsonOf(ended).manifest ?? ''), name), 'utf8');
    expect(summary).toMatch(/^\{.*\}\n$/);
    expect(violations('run.v1', JSON.parse(summary))).toEqual([]);
    if (manifest.bounded) return manifest;
    expect(violations('latest.v1', await read(join(out, 'reports/latest.json')))).toEqual([]);
    return manifest;
  }

  async function fileOf(settings: object): Promise<readonly string[]> {
    const file = join(await aDirectory(), 'settings.json');
    await writeFile(file, JSON.stringify(settings));
    return ['--settings', file];
  }

  it('match the schemas with one page, several, and without reports', async () => {
    expect(await runAndValidate(await aDirectory(), [])).toMatchObject({ size: null, totals: { pages: 3 } });
    const filter = { type: 'none', date: { lt: '2200-01-01T00:00:00Z' } };
    const settings = { services: { acme: { baseUrl: 'https://a.example' } }, exports: [{ name: 'reports', filter }] };
    const empty = await runAndValidate(await aDirectory(), [...(await fileOf(settings)), '--simulate']);
    expect(empty).toMatchObject({ totals: { pages: 1, reports: 0 }, filter: { date: { lt: expect.anything() } } });
  });

  it('match the schemas with compressed pages', async () => {
    const services = { acme: { baseUrl: 'https://a.example' } };
    const settings = { services, exports: [{ name: 'reports', size: 10 }], bucket: { compression: 'gzip' } };
    const words = [...(await fileOf(settings)), '--simulate'];
    expect(await runAndValidate(await aDirectory(), words)).toMatchObject({ compression: 'gzip', size: 10 });
  });

  it('match the schemas for a bounded run with slices', async () => {
    const out = await aDirectory();
    const now = Math.floor(Date.now() / 60_000) * 60_000;
    const [since = '', until = ''] = [1_200_000, 600_000].map((ms) => new Date(now - ms).toISOString());
    const words = ['--since', since, '--until', until, '--parallel', '2', '--slice', 'PT5M'];
    const manifest = await runAndValidate(out, words);
    expect(manifest).toMatchObject({ bounded: true, slices: expect.anything() });
  });

  it('match the schemas if the format is not XML and the service sends no Date', async () => {
    await using service = await listen(
      createServer((request, response) => {
        request.resume().on('end', () => {
          response.sendDate = false;
          response.writeHead(200, { 'content-type': 'application/json', 'content-length': 2 }).end('[]');
        });
      }),
    );
    const baseUrl = service.url;
    const exports = [{ name: 'reports', format: 'JSON', container: 'GZIP' }];
    const options = await fileOf({ services: { acme: { baseUrl } }, exports });
    expect(await runAndValidate(await aDirectory(), options, { REPORT_EXPORT_API_KEY: 'k' })).toMatchObject({
      format: 'JSON',
      serviceStartedAt: null,
      totals: { reports: null },
      pages: [{ reports: null }],
    });
  });
});

describe('the events of the state machine', () => {
  const aBench = (options: Parameters<typeof anExportBench>[0] = {}) =>
    anExportBench({ ...options, definition: { name: 'reports', ...options.definition } });
  const eventOf = async (bench: Bench, input: unknown = {}, changed: Partial<Functions> = {}) => {
    const { events } = await execute({ ...stepFunctions(bench.deps), ...changed }, { name: 'first', input });
    expect(events).toHaveLength(1);
    return events[0] as Record<string, unknown>;
  };
  const rejectRequest = () => {
    throw new ExportError('RequestRejectedError', 'Report service responded with 404 for page 2');
  };

  it('match the schema when a run is published', async () => {
    const bench = aBench();
    const completed = await eventOf(bench);
    expect(violations('completed.v1', completed)).toEqual([]);
    expect(completed).toMatchObject({ eventVersion: 1, export: 'reports', execution: executionArn('first') });

    const { manifest } = completed.result as { manifest: string };
    expect(violations('manifest.v1', bench.manifest(manifest))).toEqual([]);
    expect(violations('latest.v1', bench.manifest('reports/latest.json'))).toEqual([]);
  });

  it('match the schema when parents are gone or skipped', async () => {
    const values = ['open', 'closed', 'old'];
    const bench = aBench({
      definition: { parents: { values } },
      script: ({ parent }) => (parent === 'closed' ? { kind: 'end', reason: 'gone', status: 404 } : undefined),
    });
    const { result } = await eventOf(bench, { skipParent: ['old'] });
    const manifest = bench.manifest((result as { manifest: string }).manifest);
    expect(violations('manifest.v1', manifest)).toEqual([]);
    const { missing } = manifest.parents as { missing: { key: string } };
    const lines = (bench.store.objects.get(missing.key) ?? '').trimEnd().split('\n');
    expect(lines.flatMap((line) => violations('missing.v1', JSON.parse(line)))).toEqual([]);
    expect(lines).toHaveLength(2);
  });

  it('match the schema when a run has no reports, or no watermark', async () => {
    const lookbackWindow = { since: { from: 'lookback', lookbackMs: 60_000 }, request: anExportRequest() } as const;
    expect(violations('completed.v1', await eventOf(aBench({ reports: [] })))).toEqual([]);
    expect(violations('completed.v1', await eventOf(aBench({ definition: lookbackWindow })))).toEqual([]);
    const initial = {
      since: { from: 'watermark', initial: at('2026-11-01T00:00:00Z'), overlapMs: 0 },
      request: anExportRequest(),
    } as const;
    const later = await eventOf(aBench({ definition: initial }), { since: '2026-11-20T00:00:00Z' });
    expect(later).toMatchObject({ result: { watermark: null, reports: 0 } });
    expect(violations('completed.v1', later)).toEqual([]);
  });

  it('match the schema when a run fails, before or after it began', async () => {
    const late = await eventOf(aBench({ script: (_, nth) => (nth === 2 ? rejectRequest() : undefined) }));
    expect(violations('failed.v1', late)).toEqual([]);
    expect(late).toMatchObject({ error: 'RequestRejectedError', failed: { pages: 1, resumable: true } });

    const early = await eventOf(aBench(), { snice: 'yesterday' });
    expect(violations('failed.v1', early)).toEqual([]);
    expect(early).toMatchObject({ error: 'ConfigurationError', failed: { run: null, since: null, resumable: false } });
  });

  it('match the schema if the failure cannot be recorded', async () => {
    const unrecorded = await eventOf(
      aBench({ script: rejectRequest }),
      {},
      {
        FailRun: () => {
          throw new ExportError(
            'PageConflictError',
            'The state of export reports does not match what this exporter wrote',
          );
        },
      },
    );
    expect(violations('failed.v1', unrecorded)).toEqual([]);
    expect(unrecorded).toMatchObject({
      export: null,
      error: 'RequestRejectedError',
      failed: { recordingError: { Error: 'PageConflictError' } },
    });
  });
});

describe('a schema', () => {
  /** Other fields of a filter are defined by the service. */
  const isOurs = (path: Path) =>
    !path.includes('filter') || ['filter', 'filter.date', 'filter.date.gte'].includes(path.join('.'));
  const optionalFields = new Set([
    'Cause',
    'transferredBytes',
    'compression',
    'storedBytes',
    'storedSha256',
    'until',
    'bounded',
    'slices',
    'slice',
    'parents',
    'parent',
    'missing',
    // Absent in an event that is sent for a missed run.
    'bucket',
    'prefix',
    // With `api`, there need not be any dates.
    'date',
    'gte',
  ]);
  /** Every field of every sample. */
  function cases(name: PublishedName): { value: unknown; path: Path; field: unknown }[] {
    const found = samples[name].flatMap((value) =>
      fieldsOf(value)
        .map(({ path, value: field }) => ({ value, path, field }))
        .filter(({ path }) => typeof path.at(-1) === 'string' && isOurs(path)),
    );
    if (found.length === 0) throw new Error(`no samples of ${name}: run the whole file`);
    return found;
  }

  it.each(Object.keys(samples) as PublishedName[])('%s rejects a value with a missing field', (name) => {
    const required = cases(name).filter(({ path }) => !optionalFields.has(String(path.at(-1))));
    for (const { value, path } of required) {
      const broken = withoutField(value, path);
      expect(problemsIn(name, broken), `without ${path.join('.')}`).not.toEqual([]);
    }
  });

  it.each(Object.keys(samples) as PublishedName[])('%s rejects a value with a field of another type', (name) => {
    for (const { value, path, field } of cases(name)) {
      const isEmpty = (wrong: unknown) =>
        Array.isArray(wrong) ? path.join('.') === 'pages' : ['filter', 'filter.date'].includes(path.join('.'));
      for (const wrong of [{}, [], -1, 1.5, true].filter((each) => typeof each !== 'object' || !isEmpty(each))) {
        const broken = withField(value, path, typeof field === 'boolean' && wrong === true ? 'true' : wrong);
        expect(problemsIn(name, broken), `${path.join('.')}: ${JSON.stringify(wrong)}`).not.toEqual([]);
      }
    }
  });

  it.each(Object.keys(samples) as PublishedName[])('%s accepts additional fields', (name) => {
    for (const { value, path } of cases(name)) {
      const newer = withField(value, [...path.slice(0, -1), 'addedLater'], { in: ['another', 'version'] });
      expect(problemsIn(name, newer), `beside ${path.join('.')}`).toEqual([]);
    }
  });
});
