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
  const { get, replaceIf } = conditionalWrites(options);
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
      const token = await replaceIf(
        { ...key, ...toAttributes({ json: JSON.stringify(content) }) },
        revision === undefined
          ? {
              ConditionExpression: 'NOT attribute_type(writeToken, :text)',
              ExpressionAttributeValues: { ':text': { S: 'S' } },
            }
          : { ConditionExpression: 'writeToken = :read', ExpressionAttributeValues: { ':read': { S: revision } } },
      );
      return token === undefined ? undefined : { revision: token, content };
    },
  };
}
