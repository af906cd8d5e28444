/** What one more page costs: calls to the service, the page store and the page log. Each is a paid request on AWS. */

import { describe, expect, it } from 'vitest';
import type { RunLimits } from '../../../lib/core/model.ts';
import type { StepDependencies } from '../../../lib/core/ports.ts';
import { runExecution } from '../../../lib/local/execution.ts';
import { aFetchedPage } from '../../support/builders.ts';
import { anExportBench, type Bench } from '../../support/export/export-bench.ts';
import { someReports } from '../../support/export/scripted-service.ts';

type Calls = Record<string, number>;

/** The same port, with each call of a method counted under `name.method`. */
function counted<Port extends object>(name: string, port: Port, calls: Calls): Port {
  return new Proxy(port, {
    get(target, property, receiver) {
      const member: unknown = Reflect.get(target, property, receiver);
      if (typeof member !== 'function') return member;
      return (...args: unknown[]) => {
        const call = `${name}.${String(property)}`;
        calls[call] = (calls[call] ?? 0) + 1;
        return Reflect.apply(member, target, args);
      };
    },
  });
}

/** The calls of a whole run of `pages` pages, from BeginRun to the published manifest. */
const callsOfRun = async (pages: number, limits: Partial<RunLimits>): Promise<Calls> =>
  await callsOf(anExportBench({ reports: someReports(pages), size: 1, limits }), pages);

async function callsOf(bench: Bench, pages: number): Promise<Calls> {
  const calls: Calls = {};
  const deps: StepDependencies = {
    ...bench.deps,
    service: counted('service', bench.service, calls),
    store: counted('store', bench.store, calls),
    log: counted('log', bench.log, calls),
  };
  const end = await runExecution(deps, { name: 'execution', input: {} });
  expect(end).toMatchObject({ status: 'completed', result: { pages } });
  return calls;
}

/** The calls of a run of parents with a page each. */
async function callsOfParents(count: number): Promise<Calls> {
  const values = Array.from({ length: count }, (_, index) => `p${index}`);
  const definition = { parents: { values }, slicing: { parallel: 16 } };
  const page = aFetchedPage({ body: '<reports><report/></reports>', reports: 1, nextCursor: null });
  return await callsOf(anExportBench({ script: () => page, definition }), count);
}

const callsOfOnePage = async (limits: Partial<RunLimits>): Promise<Calls> =>
  differenceOf(await callsOfRun(6, limits), await callsOfRun(7, limits));

function differenceOf(fewer: Calls, more: Calls): Calls {
  const difference = Object.keys(more).map((call) => [call, (more[call] ?? 0) - (fewer[call] ?? 0)] as const);
  return Object.fromEntries(difference.filter(([, count]) => count !== 0));
}

describe('one more page of a run', () => {
  it('costs one request, one write to the store, and one write to and two reads of the page log', async () => {
    expect(await callsOfOnePage({ pagesPerInvocation: 1 })).toEqual({
      'service.fetch': 1,
      'store.spool': 1,
      'log.append': 1,
      'log.exportState': 1,
      'log.last': 1,
    });
  });

  it('saves a read of the page log where one invocation exports several pages', async () => {
    expect(await callsOfOnePage({ pagesPerInvocation: 25 })).toEqual({
      'service.fetch': 1,
      'store.spool': 1,
      'log.append': 1,
      'log.exportState': 1,
    });
  });
});

it('a run with one slice reads and records nothing about slices', async () => {
  const { 'log.last': last, ...calls } = await callsOfRun(6, { pagesPerInvocation: 25 });
  expect(calls).not.toHaveProperty(['log.progress']);
  expect(calls).not.toHaveProperty(['log.runEntries']);
  // The newest entry for ExportPage and FinishRun; the first one, and then all of them, for the manifest.
  expect({ last, entries: calls['log.entries'], states: calls['log.replaceState'] }).toEqual({
    last: 2,
    entries: 2,
    states: 3,
  });
});

// docs/costs.md counts on it.
it('one more parent with one page costs the calls of a page, and no other', async () => {
  expect(differenceOf(await callsOfParents(400), await callsOfParents(401))).toEqual({
    'service.fetch': 1,
    'store.spool': 1,
    'log.append': 1,
    'log.exportState': 1,
  });
});
