/**
 * The connection to the report service, as an undici dispatcher for the real client. Connections reset and bodies
 * stall; timeouts are undici's errors in virtual time.
 */

import { Dispatcher, errors } from 'undici';
import type { Timeouts } from '../../../lib/service/network/network.ts';
import type { RetryAfterChecks } from '../invariants/retry-after.ts';
import type { Container } from './container.ts';
import type { Process } from './process.ts';
import { filesHost, isAboutJob } from './report-jobs.ts';
import type { ServiceRequest, ServiceResponse, SimulatedService } from './report-service.ts';
import type { ServiceTraffic } from './traffic.ts';
import type { World } from './world.ts';

export class SimulatedNetwork extends Dispatcher {
  readonly #world: World;
  readonly #traffic: ServiceTraffic;
  readonly #retryAfter: RetryAfterChecks;
  readonly #serviceFor: (process: Process) => SimulatedService;
  readonly #container: Container;
  readonly #timeouts: Timeouts;
  readonly #host: string;
  /** Counted by process, so that a request has the same name whatever the container has done before. */
  readonly #requestCounts = new WeakMap<Process, number>();

  constructor(
    {
      world,
      traffic,
      retryAfter,
      serviceFor,
    }: {
      readonly world: World;
      readonly traffic: ServiceTraffic;
      readonly retryAfter: RetryAfterChecks;
      readonly serviceFor: (process: Process) => SimulatedService;
    },
    container: Container,
    timeouts: Timeouts,
    base: URL,
  ) {
    super();
    this.#world = world;
    this.#traffic = traffic;
    this.#retryAfter = retryAfter;
    this.#serviceFor = serviceFor;
    this.#container = container;
    this.#timeouts = timeouts;
    this.#host = base.host;
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const controller = new Controller(handler);
    handler.onRequestStart?.(controller, {});
    if (!controller.aborted) void this.#send(options, handler, controller).finally(() => controller.end());
    return true;
  }

  async #send(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler, controller: Controller) {
    const process = await this.#container.process();
    const requestCount = (this.#requestCounts.get(process) ?? 0) + 1;
    this.#requestCounts.set(process, requestCount);
    // Each host has a network of its own.
    const site = `${process.id}/fetch${this.#host === filesHost ? '-file' : ''}#${requestCount}`;
    const { method, path } = options;
    const request: ServiceRequest = {
      host: this.#host,
      method,
      path,
      headers: options.headers as Record<string, string>,
      body: typeof options.body === 'string' ? options.body : '',
    };
    controller.onAbort = () => {
      if (operationOf(request) === 'new job') process.hasAbortedCreation = true;
    };
    if (this.#world.injectFault('connection-refused', site)) {
      await this.#world.time.sleep(20);
      controller.fail(connectionRefused());
      return;
    }
    const isOfService = this.#host !== filesHost;
    const { time } = this.#world;
    const sentAt = time.now();
    let respondedAt = sentAt;
    let response: ServiceResponse;
    try {
      const respond = () => {
        // A Retry-After of the service does not bind another host, and neither do its limits.
        if (isOfService) this.#retryAfter.onRequest(process, sentAt);
        respondedAt = time.now();
        const responding = this.#serviceFor(process).respond(request, site, process);
        // The connection of an aborted request is closed.
        if (!controller.aborted && isOfService)
          controller.onEnd = this.#traffic.begin(process, this.#durationOf(responding));
        return responding;
      };
      response = await process.request('service', operationOf(request), respond, [20, 400]);
    } catch {
      controller.fail(connectionClosed());
      return;
    }
    const isReset = this.#world.injectFault('connection-reset', site);
    const rng = this.#world.rng(`${site}/network`);
    if (response.silentMs !== undefined) {
      await time.sleep(Math.min(response.silentMs, this.#timeouts.headersTimeout));
      controller.fail(new errors.HeadersTimeoutError());
      return;
    }
    if (isReset && rng.chance(0.4)) {
      controller.fail(connectionClosed());
      return;
    }
    await time.sleep(response.latencyMs ?? 0);
    if (controller.aborted || !process.isAlive()) return;
    handler.onResponseStart?.(controller, response.status, response.headers, '');
    const endsAt = isReset ? rng.integerBelow(response.body.length + 1) : response.truncatedAt;
    await this.#sendBody(process, response, handler, controller, endsAt);
    if (isOfService) this.#retryAfter.onResponse(process, response, respondedAt);
  }

  /** How long the service is busy with a request, if the client waits for the response. */
  #durationOf({ silentMs, latencyMs = 0, chunkIntervalMs }: ServiceResponse): number {
    if (silentMs !== undefined) return Math.min(silentMs, this.#timeouts.headersTimeout);
    return latencyMs + 8 * Math.min(chunkIntervalMs ?? 5, this.#timeouts.bodyTimeout);
  }

  /** Sends the body up to the byte `endsAt`, or all of it. */
  async #sendBody(
    process: Process,
    { body, chunkIntervalMs, headers, truncatedAt }: ServiceResponse,
    handler: Dispatcher.DispatchHandler,
    controller: Controller,
    endsAt: number | undefined,
  ): Promise<void> {
    const { time } = this.#world;
    const sent = body.subarray(0, endsAt);
    const chunkCount = chunkIntervalMs === undefined ? 2 : 8;
    for (let index = 0; index < chunkCount; index += 1) {
      await time.sleep(Math.min(chunkIntervalMs ?? 5, this.#timeouts.bodyTimeout));
      if (controller.aborted || !process.isAlive()) return;
      if (chunkIntervalMs !== undefined && chunkIntervalMs >= this.#timeouts.bodyTimeout) {
        controller.fail(new errors.BodyTimeoutError());
        return;
      }
      const from = Math.floor((sent.length * index) / chunkCount);
      const to = Math.floor((sent.length * (index + 1)) / chunkCount);
      if (to > from) handler.onResponseData?.(controller, sent.subarray(from, to));
    }
    // Without content-length and chunks, the end of the connection is the end of the body: truncation goes unnoticed.
    const isUnframed = headers['content-length'] === undefined && headers['transfer-encoding'] === undefined;
    const endsNormally = endsAt === undefined || (truncatedAt !== undefined && isUnframed);
    if (endsNormally) handler.onResponseEnd?.(controller, {});
    else controller.fail(connectionClosed());
  }

  override async close(): Promise<void> {}
  override async destroy(): Promise<void> {}
}

function operationOf(request: ServiceRequest): string {
  if (request.host === filesHost) return 'file';
  if (isAboutJob(request)) return request.method === 'POST' ? 'new job' : 'job';
  return request.path.includes('cursor=') || request.body.includes('"cursor"') ? 'next page' : 'first page';
}

const connectionRefused = () => Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
const connectionClosed = () => new errors.SocketError('other side closed');

class Controller implements Dispatcher.DispatchController {
  readonly #handler: Dispatcher.DispatchHandler;
  aborted = false;
  readonly paused = false;
  reason: Error | null = null;
  /** Called when the request has ended. */
  onEnd: (() => void) | undefined;
  /** Called when the client aborts the request. */
  onAbort: (() => void) | undefined;

  constructor(handler: Dispatcher.DispatchHandler) {
    this.#handler = handler;
  }

  abort(reason: Error): void {
    if (!this.aborted) this.onAbort?.();
    this.fail(reason);
  }

  end(): void {
    this.onEnd?.();
  }

  /** Reports the error to the handler, once. */
  fail(error: Error): void {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = error;
    this.end();
    queueMicrotask(() => this.#handler.onResponseError?.(this, error));
  }

  pause(): void {}
  resume(): void {}
}
