/**
 * A process that invokes the deployed functions, as a Lambda container does. Their AWS clients send each command to the
 * parent process, which holds the stores.
 */

import { buffer } from 'node:stream/consumers';
import { Readable } from 'node:stream';
import { beginRunHandler } from '../../functions/begin-run.ts';
import { exportPageHandler } from '../../functions/export-page.ts';
import { finishRunHandler } from '../../functions/finish-run.ts';
import { lambdaPlatform, type Platform } from '../../lib/aws/lambda/platform.ts';
import type { FunctionSettings } from '../../lib/settings/deployed-settings.ts';

export interface CommandMessage {
  readonly kind: 'command';
  readonly id: number;
  readonly client: string;
  readonly command: string;
  readonly input: object;
}

export interface ResultMessage {
  readonly kind: 'result';
  readonly output?: unknown;
  readonly error?: { readonly name: string; readonly message: string };
  readonly rssMb: number;
}

export type FromProcess = CommandMessage | ResultMessage;

export interface InvokeMessage {
  readonly kind: 'invoke';
  readonly step: 'BeginRun' | 'ExportPage' | 'FinishRun';
  readonly event: { readonly input: unknown; readonly execution: string; readonly retries?: number };
  readonly timeoutMs: number;
}

export interface ResponseMessage {
  readonly kind: 'response';
  readonly id: number;
  readonly output?: unknown;
  readonly error?: { readonly name: string; readonly message: string; readonly status: number; readonly Item?: object };
}

const settings = JSON.parse(process.argv[2] ?? '') as FunctionSettings;
const waiting = new Map<number, (response: ResponseMessage) => void>();
let commands = 0;

const platform: Platform = {
  ...lambdaPlatform,
  createClient<Client, Config>(type: new (config: Config) => Client, config: Config) {
    const credentials = { accessKeyId: 'key', secretAccessKey: 'secret' };
    const client = new type({ ...config, region: 'us-east-1', credentials } as Config);
    return Object.assign(client as object, { send: (command: Command) => send(type.name, command) }) as Client;
  },
};

interface Command {
  readonly input: { readonly Body?: unknown };
}

async function send(client: string, { constructor: { name }, input }: Command): Promise<unknown> {
  const Body = input.Body instanceof Readable ? await buffer(input.Body) : input.Body;
  commands += 1;
  const id = commands;
  const { promise, resolve } = Promise.withResolvers<ResponseMessage>();
  waiting.set(id, resolve);
  const plain = Object.fromEntries(Object.entries({ ...input, Body }).filter(([, value]) => value !== undefined));
  process.send?.({ kind: 'command', id, client, command: name, input: plain } satisfies CommandMessage);
  const { output, error } = await promise;
  if (error !== undefined) {
    const { name: code, message, status, Item } = error;
    throw Object.assign(new Error(message), { name: code, $metadata: { httpStatusCode: status }, Item });
  }
  const { Body: bytes } = (output ?? {}) as { readonly Body?: Uint8Array };
  if (bytes === undefined) return output;
  const body = Object.assign(Readable.from([Buffer.from(bytes)]), {
    transformToByteArray: async () => bytes,
    transformToString: async () => Buffer.from(bytes).toString(),
  });
  return { ...(output as object), Body: body };
}

const functions = {
  BeginRun: beginRunHandler(process.env, () => settings, platform),
  ExportPage: exportPageHandler(process.env, () => settings, platform),
  FinishRun: finishRunHandler(process.env, () => settings, platform),
};

async function invoke({ step, event, timeoutMs }: InvokeMessage): Promise<void> {
  const endsAt = performance.now() + timeoutMs;
  const context = { awsRequestId: 'measured', getRemainingTimeInMillis: () => endsAt - performance.now() };
  const rssMb = () => process.resourceUsage().maxRSS / 1e3;
  try {
    const output = await functions[step](event, context);
    process.send?.({ kind: 'result', output, rssMb: rssMb() } satisfies ResultMessage);
  } catch (error) {
    const { name, message } = error as Error;
    process.send?.({ kind: 'result', error: { name, message }, rssMb: rssMb() } satisfies ResultMessage);
  }
}

process.on('message', (message: InvokeMessage | ResponseMessage) => {
  if (message.kind === 'invoke') void invoke(message);
  else {
    waiting.get(message.id)?.(message);
    waiting.delete(message.id);
  }
});
process.on('disconnect', () => process.exit());
