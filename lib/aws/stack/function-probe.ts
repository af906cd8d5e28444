/** Invokes the deployed ExportPage function to ask whether it reaches the service from where it runs. */

import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { ExportError } from '../../core/errors.ts';
import type { Instant } from '../../core/model.ts';
import { type ProbeEvent, type ProbeResult, probeResultSchema } from '../../target/probe-service.ts';
import { parseJson } from '../step-functions/failure.ts';
import { type OperatorClients, operatorLambdaConfig } from './clients.ts';

/**
 * Needs lambda:InvokeFunction. Errors have the name and the message that they have in the function.
 * @throws ExportError if the function cannot be invoked or answers something else; an Error if the function fails
 */
export async function probeFromFunction(
  clients: OperatorClients,
  functionArn: string,
  exportName: string,
  since: Instant,
): Promise<ProbeResult> {
  const client = clients.open((config) => new LambdaClient({ ...config, ...operatorLambdaConfig }));
  const event: ProbeEvent = { probe: { export: exportName, since } };
  const command = new InvokeCommand({ FunctionName: functionArn, Payload: Buffer.from(JSON.stringify(event)) });
  const response = await client.send(command).catch((cause: unknown) => {
    const isMissing = cause instanceof Error && cause.name === 'ResourceNotFoundException';
    if (!isMissing) throw cause;
    throw new ExportError('ConfigurationError', `There is no function ${functionArn}. Deploy the stack again`, {
      cause,
    });
  });
  const payload = parseJson(Buffer.from(response.Payload ?? []).toString());
  if (response.FunctionError !== undefined) {
    const { errorType, errorMessage } = payload as { readonly errorType?: string; readonly errorMessage?: string };
    throw Object.assign(new Error(errorMessage ?? response.FunctionError), { name: errorType ?? 'Error' });
  }
  const { data } = probeResultSchema.safeParse(payload);
  if (data !== undefined) return data;
  const message = `${functionArn} did not answer as this version does. Deploy the stack again`;
  throw new ExportError('ConfigurationError', message);
}
