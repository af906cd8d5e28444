/** One invocation of the deployed function ExportPage, which exports a whole run in slices. */

import { exportPageHandler } from '../../functions/export-page.ts';
import type { LoopState } from '../../lib/core/model.ts';
import type { FunctionSettings } from '../../lib/settings/deployed-settings.ts';
import { startMeasurement } from '../harness/processes.ts';
import { run } from '../servers/run-of-pages.ts';

const settings = JSON.parse(process.argv[2] ?? '') as FunctionSettings;
const loop = { export: run.export, run: run.run, executionNumber: 1, page: 1, iterations: 0, waits: 0 };
// The number of slices only says that there are several.
const slices = 2;

const exportPage = exportPageHandler(process.env, () => settings);
const { finish } = startMeasurement();
const end = (await exportPage(
  { input: { ...loop, slices } satisfies LoopState, execution: run.execution },
  { awsRequestId: 'measured', getRemainingTimeInMillis: () => 900_000 },
)) as LoopState & { readonly next: string };
if (end.next !== 'finish') throw new Error(`The invocation ended with ${JSON.stringify(end)}`);
finish(end.page - 1);
