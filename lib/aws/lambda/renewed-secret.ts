/**
 * A secret whose refresh token each use replaces. One process at a time uses it: the one that has the only slot of a
 * record in the table. It stores the new token as a version of the secret before it returns the slot.
 *
 * A read of Secrets Manager may return what was replaced a moment ago, and a refresh token that is sent twice is
 * revoked with its successors. So the table also has the digest of the secret that was stored last, and any other
 * secret is read again.
 */

import { createHash } from 'node:crypto';
import type { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { ExportError, isExportError } from '../../core/errors.ts';
import type { PageSlot, Runtime } from '../../core/ports.ts';
import { createPageSlots, slotsRecord } from '../../core/slots/page-slots.ts';
import type { ApiKeySource } from '../../service/client/api-key.ts';
import { conditionalWrites, type TableOptions } from '../dynamodb/conditional-writes.ts';
import { recordIn, sharedRecordKey, storedSecretKey, toAttributes } from '../dynamodb/items.ts';
import { createDynamoSharedRecord } from '../dynamodb/shared-record.ts';
import { storeSecret } from '../secrets.ts';

/** How long to wait for another process, whose exchange of a token takes half a minute at most. */
const maxWaitMs = 30_000;
/** A token that is not sent so soon after the slot was taken is not sent. */
const maxHoldMs = 30_000;
/** Covers `maxHoldMs`, the exchange, and the time to store its result. */
const leaseMs = 180_000;
const maxStoreMs = 90_000;
/** A token is sent only if so much time is left: half a minute to exchange it, and half to store the result. */
const minRemainingMs = 60_000;
/** A secret that is still another one after 15 s is not outdated: a person has stored it. */
const maxReads = 5;

interface RenewedSecretOptions extends TableOptions {
  readonly service: string;
  readonly source: ApiKeySource;
  readonly secretsManager: SecretsManagerClient;
  readonly secretId: string;
  /** The time that is left of the invocation. */
  readonly remainingMs?: () => number;
  readonly runtime: Runtime;
}

/** The secret of `source`, with `update`. Needs secretsmanager:PutSecretValue on it. */
export function createRenewedSecret({
  source,
  secretsManager,
  secretId,
  remainingMs = () => Number.POSITIVE_INFINITY,
  ...options
}: RenewedSecretOptions): ApiKeySource {
  const { service, runtime } = options;
  const record = createDynamoSharedRecord(sharedRecordKey(service, 'secret'), slotsRecord, options);
  const slots = createPageSlots({ record, limit: 1, runtime });
  const { get, putIf } = conditionalWrites(options);
  const key = storedSecretKey(service);
  let stored: string | undefined;

  return {
    place: source.place,
    get: async () => stored ?? (await source.get()),
    refresh: () => source.refresh(),
    async update(change) {
      const slot = await acquire();
      const heldMs = () => runtime.now() - slot.grantedAt;
      try {
        const digest = recordIn((await get(key)) ?? {}).json;
        let newest = await source.refresh();
        for (let reads = 1; digest !== undefined && digestOf(newest) !== digest && reads < maxReads; reads += 1) {
          await runtime.sleep(500 * 2 ** reads);
          newest = await source.refresh();
        }
        // Before the first token is replaced, a version without effect shows that the secret can be written.
        if (digest === undefined) await storeSecret(secretsManager, secretId, newest, ['REPORT_EXPORTER_TRIAL']);
        const next = await change(newest, () => {
          if (heldMs() > maxHoldMs)
            throw unavailable('The refresh token was not sent: reading the secret took too long');
          if (remainingMs() < minRemainingMs)
            throw unavailable('The refresh token was not sent: the function has too little time left to store another');
        });
        if (next !== newest) {
          const note = putIf({ ...key, ...toAttributes({ json: digestOf(next) }) }, {});
          // The digest first: after a kill in between, the replaced token is not taken for the newest one.
          await note.catch(() => {});
          await storePersistently(next, heldMs);
          await note;
        }
        stored = next;
        return next;
      } finally {
        await slot.release();
      }
    },
  };

  async function acquire(): Promise<PageSlot> {
    const until = runtime.monotonicNow() + maxWaitMs;
    for (;;) {
      const slot = await slots.acquire({ leaseMs });
      if (slot !== undefined) return slot;
      if (runtime.monotonicNow() > until)
        throw unavailable(`Another process is using the refresh token in secret ${secretId}`);
    }
  }

  /** Retries: the server has replaced the refresh token, and a new one that is not stored is lost. */
  async function storePersistently(next: string, heldMs: () => number): Promise<void> {
    for (let delayMs = 1_000; ; delayMs *= 2) {
      try {
        await storeSecret(secretsManager, secretId, next);
        return;
      } catch (error) {
        if (!isExportError(error, 'ServiceUnavailableError') || heldMs() + delayMs > maxStoreMs) throw error;
        await runtime.sleep(delayMs);
      }
    }
  }
}

const digestOf = (secret: string): string => createHash('sha256').update(secret).digest('hex');

const unavailable = (problem: string) =>
  new ExportError('ServiceUnavailableError', `${problem}. The attempt is retried`);
