/**
 * Stores what the exports of a service share in an item of the page log's table. Each write has a random token, which
 * the next write must name.
 *
 * A damaged item must not stop the exports of the service: what cannot be read counts as empty, and an item without a
 * token is replaced. Until the leases in it would have ended, the service may receive more requests than its limits
 * allow.
 */

import type * as z from 'zod/mini';
import type { SharedRecord } from '../../core/ports.ts';
import { conditionalWrites, type TableOptions } from './conditional-writes.ts';
import { type ItemKey, recordIn, toAttributes } from './items.ts';

/** Needs dynamodb:GetItem and dynamodb:PutItem on the table. */
export function createDynamoSharedRecord<Content>(
  key: ItemKey,
  schema: z.ZodMiniType<Content>,
  options: TableOptions,
): SharedRecord<Content> {
  const { get, putIf } = conditionalWrites(options);
  return {
    async read() {
      const item = (await get(key)) ?? {};
      const revision = item.writeToken?.S;
      try {
        return { revision, content: schema.parse(JSON.parse(recordIn(item).json ?? '')) };
      } catch {
        return { revision, content: undefined };
      }
    },

    async replace({ revision }, content) {
      const token = options.runtime.randomHex(32);
      const item = { ...key, ...toAttributes({ json: JSON.stringify(content) }), writeToken: { S: token } };
      const { written, existing } = await putIf(
        item,
        revision === undefined
          ? {
              ConditionExpression: 'NOT attribute_type(writeToken, :text)',
              ExpressionAttributeValues: { ':text': { S: 'S' } },
            }
          : { ConditionExpression: 'writeToken = :read', ExpressionAttributeValues: { ':read': { S: revision } } },
      );
      // The SDK repeats a write whose response was lost.
      const isWritten = written || existing?.writeToken?.S === token;
      return isWritten ? { revision: token, content } : undefined;
    },
  };
}
