/** The Report Export Service as the deployed functions find it: one simulator at a time, each with its own reports. */

import { inject } from 'vitest';
import type { FaultScript } from '../../../lib/report-service/simulator/faults.ts';
import {
  inMemoryReports,
  type Report,
  type ReportSource,
} from '../../../lib/report-service/simulator/report-source.ts';
import { type Simulator, startSimulator } from '../../../lib/report-service/simulator/simulator.ts';
import { aReport, someReports } from '../../support/service/simulator-client.ts';
import { theKey, vendor } from './exporter-stack.ts';

interface ServiceOptions {
  readonly faults?: FaultScript;
  /** The first page with this report stops before it, until it is released. Other pages, and the same one again, do not. */
  readonly holdBack?: string;
  readonly apiKey?: string;
}

interface Service extends Simulator {
  /** Lets more reports arrive, dated just now. */
  readonly arrive: (...numbers: number[]) => void;
  /** Resolves once the page that is held back has been asked for. */
  readonly pendingBackoff: Promise<void>;
  readonly release: () => void;
}

/** Holds the reports r1, r2, … up to `count`. To be closed before the next one is opened. */
export async function openService(count: number, options: ServiceOptions = {}): Promise<Service> {
  const { faults, holdBack, apiKey = theKey } = options;
  const given = inMemoryReports(someReports(count));
  const { reports, pendingBackoff, release } = holdingBack(given, holdBack);
  const simulator = await startSimulator({ vendor, apiKey, port: inject('servicePort'), reports, faults });
  const arrive = (...numbers: number[]) => given.add(...numbers.map((n) => aReport(n, { date: Date.now() })));
  return Object.assign(simulator, { arrive, pendingBackoff, release });
}

function holdingBack(source: ReportSource, id: string | undefined) {
  const { promise: pendingBackoff, resolve: hold } = Promise.withResolvers<void>();
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  let isHeld = false;
  async function* held(report: Report) {
    if (!isHeld) {
      isHeld = true;
      hold();
      await released;
    }
    yield* report.body();
  }
  const reports: ReportSource = {
    oldest: source.oldest,
    *from(position, at) {
      for (const report of source.from(position, at)) {
        yield report.id === id ? { ...report, body: () => held(report) } : report;
      }
    },
  };
  return { reports, pendingBackoff, release };
}

/** `r1`, `r2`, … from `first` to `last`. */
export const ids = (first: number, last: number): string[] =>
  Array.from({ length: last - first + 1 }, (_, index) => `r${first + index}`);
