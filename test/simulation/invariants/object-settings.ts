/** Checks each object that is created: in which bucket, with which key and content type. */

import type { DeploymentScenario } from '../histories/scenario.ts';
import type { Command } from '../world/sdk-clients.ts';
import type { World } from '../world/world.ts';

/** Bodies and metadata are checked when they become visible. */
export function checkObjectSettings(
  world: World,
  bucket: string,
  { kmsKeyArn }: DeploymentScenario,
  command: Command,
): void {
  if (!/^(PutObject|CreateMultipartUpload)Command$/.test(command.constructor.name)) return;
  const { Key = '', Bucket, ...input } = command.input as Record<string, string | undefined>;
  if (Bucket !== bucket) world.violate('every object has an expected key', `${Key} in ${Bucket}`);
  const expected = {
    ServerSideEncryption: kmsKeyArn && 'aws:kms',
    SSEKMSKeyId: kmsKeyArn,
    // Clients would decompress what readers expect to be compressed.
    ContentEncoding: undefined,
    ...(Key.endsWith('.gz') ? { ContentType: 'application/gzip' } : {}),
  };
  for (const [name, value] of Object.entries(expected)) {
    const actual = input[name];
    if (actual !== value) world.violate('objects are stored as the settings say', `${Key}: ${name} is ${actual}`);
  }
}
