/** The services of a deployed stack: its outputs name their resources, and the template's metadata has their settings. */

import { type CloudFormationClient, DescribeStackResourceCommand, type Stack } from '@aws-sdk/client-cloudformation';
import { mapConcurrently } from '../../core/concurrency.ts';
import { ExportError } from '../../core/errors.ts';
import type { ExportSettings, ServiceSettings } from '../../settings/settings.ts';
import {
  readVersioned,
  type ServiceMetadata,
  type ServiceOutput,
  serviceMetadataKey,
  serviceOutputSuffix,
} from '../../settings/deployed-settings.ts';
import type { ScheduleSettings } from '../../settings/schedule-settings.ts';
import { parseJson } from '../step-functions/failure.ts';

/** An export of a stack, with the service that it belongs to. */
export interface StackExport {
  readonly name: string;
  readonly settings: ExportSettings;
  readonly serviceSettings: ServiceSettings;
  /** The names of the service's resources. */
  readonly service: ServiceOutput;
  /** undefined if the export is started manually. */
  readonly schedule: ExportSchedule | undefined;
}

type ExportSchedule = ScheduleSettings & {
  /** The schedule group. */
  readonly group: string;
};

/** The services that the stack's outputs describe. */
export function servicesOf({ Outputs = [] }: Stack): readonly ServiceOutput[] {
  return Outputs.flatMap(({ OutputKey = '', OutputValue = '' }) =>
    OutputKey.endsWith(serviceOutputSuffix) ? (readVersioned<ServiceOutput>(OutputValue) ?? []) : [],
  );
}

const concurrency = 8;

/**
 * The exports of all services by name, in alphabetical order. Needs cloudformation:DescribeStackResource: one request per
 * service.
 * @throws ConfigurationError if this version cannot read the settings of a service
 */
export async function readExports(
  client: CloudFormationClient,
  stackName: string,
  services: readonly ServiceOutput[],
): Promise<ReadonlyMap<string, StackExport>> {
  const exports = await mapConcurrently(services, concurrency, (service) => readService(client, stackName, service));
  return new Map(
    exports
      .flat()
      .map((each) => [each.name, each] as const)
      .sort(([one], [other]) => (one < other ? -1 : 1)),
  );
}

async function readService(
  client: CloudFormationClient,
  StackName: string,
  service: ServiceOutput,
): Promise<readonly StackExport[]> {
  const { stateMachineId: LogicalResourceId, scheduleGroup: group } = service;
  const unreadable = (reason: string, cause?: unknown) =>
    new ExportError(
      'ConfigurationError',
      `This version of report-exporter cannot read the settings of service ${service.service} in stack ${StackName}: ${reason}. ` +
        'Use the version that deployed the stack, or deploy it with this one',
      { cause },
    );
  const command = new DescribeStackResourceCommand({ StackName, LogicalResourceId });
  const { StackResourceDetail } = await client.send(command).catch((error: unknown) => {
    // CloudFormation reports a missing resource so.
    const isMissing = error instanceof Error && error.name === 'ValidationError';
    throw isMissing ? unreadable(`there is no resource ${LogicalResourceId}`, error) : error;
  });
  const metadata = parseJson(StackResourceDetail?.Metadata) as Readonly<Record<string, unknown>> | null | undefined;
  const text = metadata?.[serviceMetadataKey];
  if (text === undefined) throw unreadable(`resource ${LogicalResourceId} has no metadata ${serviceMetadataKey}`);
  const found = readVersioned<ServiceMetadata>(text);
  if (found === undefined) throw unreadable('they have another version');
  return found.exports.map(({ schedule, ...settings }) => ({
    name: settings.name,
    settings,
    serviceSettings: found.service,
    service,
    schedule: schedule === undefined || group === undefined ? undefined : { ...schedule, group },
  }));
}
