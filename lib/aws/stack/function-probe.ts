/** Invokes the deployed ExportPage function to ask whether it reaches the service from where it runs. */

import { InvokeCommand, type LambdaClient } from '@aws-sdk/client-lambda';
import type { Instant } from '../../core/model.ts';
import { type ProbeEvent, type ProbeResult, probeResultSchema } from '../../core/operations/probe-service.ts';
import { parseJson } from '../step-functions/history.ts';

/**
 * Needs lambda:InvokeFunction. Errors have the name and the message that they have in the function.
 * @throws ConfigurationError if AWS denies access; what the function throws
 */
export async function probeFromFunction(
  client: LambdaClient,
  functionArn: string,
  exportName: string,
  since: Instant,
): Promise<ProbeResult> {
  const event: ProbeEvent = { probe: { export: exportName, since } };
  const response = await client.send(
    new InvokeCommand({ FunctionName: functionArn, Payload: Buffer.from(JSON.stringify(event)) }),
  );
  const payload = parseJson(Buffer.from(response.Payload ?? []).toString());
  if (response.FunctionError === undefined) return probeResultSchema.parse(payload);
  const { errorType, errorMessage } = payload as { readonly errorType?: string; readonly errorMessage?: string };
  throw Object.assign(new Error(errorMessage ?? response.FunctionError), { name: errorType ?? 'Error' });
}
