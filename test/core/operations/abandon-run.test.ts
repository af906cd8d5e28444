/** A run that is being published cannot be given up any more: its readers may have it the next moment. */

import { expect, it } from 'vitest';
import { abandonRun } from '../../../lib/core/operations/abandon-run.ts';
import { anExportBench } from '../../support/export-bench.ts';
import { someReports } from '../../support/scripted-service.ts';

it('is refused while the run is being published', async () => {
  const bench = anExportBench({ reports: someReports(5), size: 2 });
  const { store, log, deps } = bench;
  const refusals: string[] = [];
  const write = store.putManifest.bind(store);
  store.putManifest = async (...written) => {
    const { active } = await bench.head();
    if (active === undefined) throw new Error('it has no run');
    bench.running.add(active.execution);
    await abandonRun({ log, store, executions: deps.executions }, active).catch(({ message }) =>
      refusals.push(message),
    );
    await write(...written);
  };
  const end = await bench.start();
  expect(refusals).toEqual([expect.stringMatching(/is being published/)]);
  expect(end.status).toBe('completed');
});

it('gives up a run whose publication was cut off before its manifest', async () => {
  const bench = anExportBench({ reports: someReports(5), size: 2 });
  const { store, log, deps } = bench;
  store.putManifest = async () => {
    throw new Error('cut off');
  };
  await bench.start();
  const { active } = await bench.head();
  if (active?.completedAt === undefined) throw new Error('it was not being published');
  await abandonRun({ log, store, executions: deps.executions }, active);
  expect((await bench.head()).active).toBeUndefined();
});
