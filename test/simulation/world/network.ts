/**
 * The way to the service, simulated: what undici's dispatcher does for the real client, over a network that resets, drips and
 * falls silent. Timeouts are undici's own kind, in virtual time.
 */

import { Dispatcher, errors } from 'undici';
import type { Limits } from '../../../lib/report-service/client/limits.ts';
import type { Process } from './process.ts';
import type { ServiceAnswer, ServiceRequest, SimulatedService } from './report-service.ts';
import type { World } from './world.ts';

export class SimulatedNetwork extends Dispatcher {
  readonly #world: World;
  readonly #process: Process;
  readonly #service: SimulatedService;
  readonly #limits: Limits;
  #requests = 0;

  constructor(world: World, process: Process, service: SimulatedService, limits: Limits) {
    super();
    this.#world = world;
    this.#process = process;
    this.#service = service;
    this.#limits = limits;
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const controller = new Controller(handler);
    handler.onRequestStart?.(controller, {});
    if (!controller.aborted) void this.#carry(options, handler, controller);
    return true;
  }

  async #carry(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler, controller: Controller) {
    this.#requests += 1;
    const about = `${this.#process.id}/fetch#${this.#requests}`;
    const { method, path } = options;
    const request: ServiceRequest = {
      method,
      path,
      headers: options.headers as Record<string, string>,
      body: typeof options.body === 'string' ? options.body : '',
    };
    let answer: ServiceAnswer;
    try {
      const what = path.includes('cursor=') || request.body.includes('"cursor"') ? 'next page' : 'first page';
      answer = await this.#process.request('service', what, () => this.#service.answer(request, about), [20, 400]);
    } catch {
      controller.fail(new errors.SocketError('other side closed'));
      return;
    }
    const { time } = this.#world;
    const resets = this.#world.strikes('service-resets', about);
    const dice = this.#world.dice(`${about}/network`);
    if (answer.silentMs !== undefined) {
      await time.sleep(Math.min(answer.silentMs, this.#limits.headersTimeoutMs));
      controller.fail(new errors.HeadersTimeoutError());
      return;
    }
    if (resets && dice.happens(0.4)) {
      controller.fail(new errors.SocketError('other side closed'));
      return;
    }
    await time.sleep(answer.takesMs ?? 0);
    if (controller.aborted || !this.#process.isAlive()) return;
    handler.onResponseStart?.(controller, answer.status, answer.headers, '');
    await this.#deliver(answer, handler, controller, resets ? dice.below(answer.body.length + 1) : answer.cutAt);
  }

  async #deliver(
    { body, dripMs, headers, cutAt }: ServiceAnswer,
    handler: Dispatcher.DispatchHandler,
    controller: Controller,
    endsAt: number | undefined,
  ): Promise<void> {
    const { time } = this.#world;
    const whole = body.subarray(0, endsAt);
    const pieces = dripMs === undefined ? 2 : 8;
    for (let piece = 0; piece < pieces; piece += 1) {
      await time.sleep(Math.min(dripMs ?? 5, this.#limits.bodyTimeoutMs));
      if (controller.aborted || !this.#process.isAlive()) return;
      if (dripMs !== undefined && dripMs >= this.#limits.bodyTimeoutMs) {
        controller.fail(new errors.BodyTimeoutError());
        return;
      }
      const from = Math.floor((whole.length * piece) / pieces);
      const to = Math.floor((whole.length * (piece + 1)) / pieces);
      if (to > from) handler.onResponseData?.(controller, whole.subarray(from, to));
    }
    // Nothing says how long a body is that has neither length nor chunks: it ends with its connection.
    const silently =
      cutAt !== undefined && headers['content-length'] === undefined && headers['transfer-encoding'] === undefined;
    if (endsAt === undefined || silently) handler.onResponseEnd?.(controller, {});
    else controller.fail(new errors.SocketError('other side closed'));
  }

  override async close(): Promise<void> {}
  override async destroy(): Promise<void> {}
}

class Controller implements Dispatcher.DispatchController {
  readonly #handler: Dispatcher.DispatchHandler;
  aborted = false;
  readonly paused = false;
  reason: Error | null = null;

  constructor(handler: Dispatcher.DispatchHandler) {
    this.#handler = handler;
  }

  abort(reason: Error): void {
    this.fail(reason);
  }

  /** Tells the handler of the end, once. */
  fail(error: Error): void {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = error;
    queueMicrotask(() => this.#handler.onResponseError?.(this, error));
  }

  pause(): void {}
  resume(): void {}
}
