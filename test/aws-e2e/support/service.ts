/** The service that the deployed functions call: one simulator at a time, each with its own reports. */

import { inject } from 'vitest';
import { always, combineScripts, delayed, type FaultScript } from '../../support/service/faults.ts';
import { inMemoryReports } from '../../support/service/in-memory-reports.ts';
import { type Simulator, startSimulator } from '../../support/service/simulator.ts';
import { aReport, someReports } from '../../support/service/simulator-client.ts';
import { apiKey as defaultApiKey, vendor } from './exporter-stack.ts';

interface ServiceOptions {
  readonly faults?: FaultScript;
  readonly apiKey?: string;
  /** How long each page takes, in milliseconds. */
  readonly pageMs?: number;
}

interface Service extends Simulator {
  /** Adds reports that are dated now. */
  readonly addReports: (...numbers: number[]) => void;
}

/** Starts a service with the reports r1, r2, … up to `count`. Close it before the next one is started. */
export async function openService(count: number, options: ServiceOptions = {}): Promise<Service> {
  const { faults, apiKey = defaultApiKey, pageMs = 0 } = options;
  const reports = inMemoryReports(someReports(count));
  const simulator = await startSimulator({
    vendor,
    apiKey,
    port: inject('servicePort'),
    reports,
    faults: combineScripts(...(pageMs > 0 ? [always(delayed(pageMs))] : []), ...(faults === undefined ? [] : [faults])),
  });
  const addReports = (...numbers: number[]) => reports.add(...numbers.map((n) => aReport(n, { date: Date.now() })));
  return Object.assign(simulator, { addReports });
}

/** `r1`, `r2`, … from `first` to `last`. */
export const reportIds = (first: number, last: number): string[] =>
  Array.from({ length: last - first + 1 }, (_, index) => `r${first + index}`);
