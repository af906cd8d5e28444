/** Where a transcript runs: its clock, its environment, the service, and a stack in this process. */

import { createHash } from 'node:crypto';
import type { Runtime } from '../../lib/core/ports.ts';
import type { acquireExportLock } from '../../lib/local/lock.ts';
import type { Api } from '../../lib/service/api/description.ts';
import type { SimulatedStack } from '../support/aws/simulated-stack.ts';
import type { FaultScript } from '../support/service/faults.ts';
import { inMemoryReports } from '../support/service/in-memory-reports.ts';
import { type Simulator, startSimulator } from '../support/service/simulator.ts';
import { someReports } from '../support/service/simulator-client.ts';

export type Place = ReturnType<typeof openPlace>;

const apiKey = 'the-key-of-the-service';

/** A place without a service and a stack, at two o'clock on a Friday. */
export function openPlace() {
  let now = Date.UTC(2026, 10, 20, 2);
  let command = '';
  let randomCalls = 0;
  const occurrences = new Map<string, number>();
  let interruption = new AbortController();
  const reports = inMemoryReports([]);
  let reportCount = 0;
  let seenRequests = 0;
  const runtime: Runtime = {
    now: () => now,
    monotonicNow: () => now,
    /** A wait of the command ends at once. Any other signal is that of a time limit, which nothing here exceeds. */
    async sleep(ms, signal) {
      signal?.throwIfAborted();
      if (signal === undefined || signal === interruption.signal) {
        now += ms;
        return signal?.throwIfAborted();
      }
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
    },
    randomHex(length) {
      randomCalls += 1;
      const seed = `${command} ${occurrences.get(command)} ${randomCalls}`;
      return createHash('sha256').update(seed).digest('hex').slice(0, length);
    },
  };
  const place = {
    runtime,
    env: { REPORT_EXPORT_API_KEY: apiKey } as Record<string, string>,
    service: undefined as Simulator | undefined,
    stack: undefined as SimulatedStack | undefined,
    /** Held by another process. */
    lock: undefined as ReturnType<typeof acquireExportLock>,
    faults: (() => undefined) as FaultScript,
    /** Called with what a command prints. */
    onOutput: (_text: string) => {},
    /** Sets the clock forward. */
    advance: (ms: number) => {
      now += ms;
    },
    /**
     * Returns the signal of Ctrl-C for the command. Its random numbers depend on the command alone, so that another
     * one before it changes none of them.
     */
    beginCommand(text: string): AbortSignal {
      command = text;
      randomCalls = 0;
      occurrences.set(text, (occurrences.get(text) ?? 0) + 1);
      interruption = new AbortController();
      return interruption.signal;
    },
    pressCtrlC: () => interruption.abort(),
    /** A line for each request since the last call. */
    takeRequests(): string {
      const received = place.service?.exchanges.slice(seenRequests) ?? [];
      seenRequests += received.length;
      const lines = received.map(({ method, target, requestBody, status, reportIds }) => {
        const body = requestBody === '' ? '' : ` ${JSON.stringify(requestBody)}`;
        return `${status} ${method} ${target}${body}: ${reportIds.join(' ')}`;
      });
      return `${lines.join('\n')}\n`;
    },
    addReports(count: number) {
      reports.add(...someReports(reportCount + count).slice(reportCount));
      reportCount += count;
    },
    /** Starts the service; where it was before, if it is started again. */
    async startService(api?: Api, pageSize?: number) {
      const port = place.service?.port ?? 0;
      seenRequests = 0;
      place.service = await startSimulator({
        vendor: 'ACME',
        apiKey,
        reports,
        api,
        pageSize,
        port,
        now: () => now,
        faults: (input) => place.faults(input),
      });
      place.env.SERVICE = place.service.baseUrl;
    },
    async [Symbol.asyncDispose]() {
      place.stack?.[Symbol.dispose]();
      await place.service?.close();
    },
  };
  return place;
}
